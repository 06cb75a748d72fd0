"""Workers that join a run are asked for their versions before they get anything to do."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import SchedulerPlugin, WorkerPlugin

from pbdist.run.executor import one_line
from pbdist.run.versions import Versions, difference, inquiry, own_versions

__all__ = ["Gate"]


class Gate:
    """Closes workers that have other versions than this process, as they join, and tells of each.

    Parameters
    ----------
    client
        The client of the scheduler.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._name = f"pbdist-versions-{client.id}"
        self._refused: deque[str] = deque()

    def unfit(self) -> Mapping[str, str]:
        """Return of the workers that are there those with other versions, and what differs."""
        found: Mapping[str, Any] = self._client.run(inquiry(), on_error="return")
        problems = {}
        for worker, versions in found.items():
            if isinstance(versions, OSError):
                continue  # It has just left.
            problem = (
                f"expected an answer, got {one_line(versions)}"
                if isinstance(versions, Exception)
                else difference(own_versions(), versions)
            )
            if problem is not None:
                problems[worker] = problem
        return problems

    def close(self, *, until_client_leaves: bool) -> None:
        """Let no unfit worker in from now on.

        Parameters
        ----------
        until_client_leaves
            Whether the scheduler outlives this client: then it forgets all of this when the client is gone, however
            that ends.
        """
        self._client.subscribe_topic(self._name, self._take_note)
        if until_client_leaves:
            self._client.register_plugin(_leaving(self._name, str(self._client.id)))
        self._client.register_plugin(_gatekeeper(self._name, dict(own_versions())))

    def refuse(self) -> bool:
        """Close the unfit workers that are there all the same; return whether there were any."""
        unfit = self.unfit()
        self._refused.extend(f"worker {worker}: {problem}" for worker, problem in unfit.items())
        if unfit:
            self._client.retire_workers(workers=list(unfit), close_workers=True)
        return bool(unfit)

    def refused(self) -> Sequence[str]:
        """Return of the workers that were refused since the last call which and why, one line each."""
        return [self._refused.popleft() for _ in range(len(self._refused))]

    def _take_note(self, event: tuple[float, Mapping[str, Any]]) -> None:
        worker, versions = event[1]["worker"], event[1]["versions"]
        self._refused.append(f"worker {worker}: {difference(own_versions(), versions)}")


# Both classes are made in functions, so that they are sent as code: to workers that may have no pbdist, and to a
# scheduler that needs none.


def _gatekeeper(topic: str, expected: Versions) -> WorkerPlugin:
    found_here = inquiry()

    class Gatekeeper(WorkerPlugin):
        name = topic

        async def setup(self, worker: Any) -> None:
            # Before a worker that joins reads its first task.
            found = await asyncio.to_thread(found_here)
            if found != expected:
                worker.log_event(topic, {"worker": worker.address, "versions": found})
                await worker.close_gracefully(restart=False, reason="other versions than those of the run")

    return Gatekeeper()


def _leaving(topic: str, of: str) -> SchedulerPlugin:
    class Leaving(SchedulerPlugin):
        name = f"{topic}-leaving"

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == of:
                scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, topic)
                scheduler.loop.add_callback(scheduler.unregister_scheduler_plugin, self.name)

    return Leaving()
