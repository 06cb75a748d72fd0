"""Workers with other versions than the driver are refused, so that the same study gives the same bytes everywhere."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from distributed import SchedulerPlugin, WorkerPlugin

from pbdist.mechanisms.declaration import own_modules
from pbdist.provenance import PACKAGES, provenance
from pbdist.run.events import one_line

#: What `provenance` gives, or a part of it; None where something is not installed, or its revision is unknown.
Versions = Mapping[str, Any]
_COMPARED = ("python", *PACKAGES, "git_revision")


def inquiry() -> Callable[[], Versions]:
    """Return a function that finds the versions of the process it runs in.

    It is sent as code, not by name, so that it also runs on a worker without pbdist.
    """

    def found() -> Versions:
        try:
            from pbdist.provenance import provenance  # noqa: PLC0415 -- it is sent without the imports of this module
        except ImportError:
            return {"pbdist": None}
        return provenance()

    return found


def difference(expected: Versions, found: Versions) -> str | None:
    """Return how versions differ, as ``expected .., got ..``; None where they are the same."""
    names = [name for name in _COMPARED if name in found and expected[name] != found[name]]
    if not names:
        return None
    wanted, got = (", ".join(_described(name, side[name]) for name in names) for side in (expected, found))
    return f"expected {wanted}, got {got}"


def _described(name: str, version: str | None) -> str:
    if name == "git_revision":
        return f"pbdist's git revision {version or 'unknown'}"
    return f"{name} {version}" if version else f"no {name}"


class Gate:
    """Closes workers that have other versions than this process as they join, and tells of each of them."""

    def __init__(self, client: Any, tell: Callable[[str], object]) -> None:
        self._client, self._tell = client, tell
        self._name = f"pbdist-versions-{client.id}"

    def unfit(self) -> Mapping[str, str]:
        """Return the workers with other versions, and what differs."""
        found: Mapping[str, Any] = self._client.run(inquiry(), on_error="return")
        problems = {
            worker: f"expected an answer, got {one_line(versions)}"
            if isinstance(versions, Exception)
            else difference(provenance(), versions)
            for worker, versions in found.items()
            # One that has just left is no problem.
            if not isinstance(versions, OSError)
        }
        return {worker: problem for worker, problem in problems.items() if problem is not None}

    def close(self) -> None:
        """Let no unfit worker in from now on, until this client leaves the scheduler."""
        self._client.subscribe_topic(self._name, self._take_note)
        self._client.register_plugin(_leaving(self._name, str(self._client.id)))
        self._client.register_plugin(_gatekeeper(self._name))

    def _take_note(self, event: tuple[float, Mapping[str, Any]]) -> None:
        worker, versions = event[1]["worker"], event[1]["versions"]
        self._tell(f"refused: worker {worker}: {difference(provenance(), versions)}")


# Both classes are made in functions, so that they are sent as code: workers and the scheduler may have no pbdist.


def _gatekeeper(topic: str) -> WorkerPlugin:
    """Return what closes an unfit worker, and imports the modules of own mechanisms on the others.

    The modules are also found in the folder of this process.
    """
    found_here, modules, folder = inquiry(), own_modules(), os.getcwd()
    expected = {name: provenance()[name] for name in _COMPARED}

    class Gatekeeper(WorkerPlugin):
        name = topic

        async def setup(self, worker: Any) -> None:
            # Runs before a new worker reads its first task. It is sent without the imports of this module.
            import sys  # noqa: PLC0415
            from importlib import import_module  # noqa: PLC0415

            found = await asyncio.to_thread(found_here)
            if any(found.get(name) != version for name, version in expected.items()):
                worker.log_event(topic, {"worker": worker.address, "versions": found})
                await worker.close_gracefully(restart=False, reason="other versions than those of the run")
                return
            if modules and folder not in sys.path:
                sys.path.insert(0, folder)
            for module in modules:
                import_module(module)

    return Gatekeeper()


def _leaving(topic: str, owner: str) -> SchedulerPlugin:
    class Leaving(SchedulerPlugin):
        name = f"{topic}-leaving"

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == owner:
                scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, topic)
                scheduler.loop.add_callback(scheduler.unregister_scheduler_plugin, self.name)

    return Leaving()
