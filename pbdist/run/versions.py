"""Workers with other versions than the driver are refused, so that the same study gives the same bytes everywhere."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from distributed import SchedulerPlugin, WorkerPlugin

from pbdist.mechanisms.declaration import own_modules
from pbdist.provenance import PACKAGES, Versions, difference, provenance
from pbdist.run.events import one_line

#: What has to be the same on workers.
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


def unfit_workers(client: Any) -> Mapping[str, str]:
    """Return the workers with other versions than this process, and what differs."""
    found: Mapping[str, Any] = client.run(inquiry(), on_error="return")
    problems = {
        worker: f"expected an answer, got {one_line(versions)}"
        if isinstance(versions, Exception)
        else difference(provenance(), versions, _COMPARED)
        for worker, versions in found.items()
        # One that has just left is no problem.
        if not isinstance(versions, OSError)
    }
    return {worker: problem for worker, problem in problems.items() if problem is not None}


def close_unfit(client: Any, tell: Callable[[str], object]) -> None:
    """Close workers with other versions as they join, and tell of each, until this client leaves the scheduler."""
    topic = f"pbdist-versions-{client.id}"

    def take_note(event: tuple[float, Mapping[str, Any]]) -> None:
        worker, versions = event[1]["worker"], event[1]["versions"]
        tell(f"refused: worker {worker}: {difference(provenance(), versions, _COMPARED)}")

    client.subscribe_topic(topic, take_note)
    client.register_plugin(_leaving(topic, str(client.id)))
    client.register_plugin(_gatekeeper(topic))


# Both classes are made in functions, so that they are sent as code: workers and the scheduler may have no pbdist.


def _gatekeeper(topic: str) -> WorkerPlugin:
    """Return what closes an unfit worker, and imports the modules of own mechanisms on the others.

    The modules are also found in the folder of this process.
    """
    found_here, modules, folder = inquiry(), own_modules(), os.getcwd()
    expected, compared = provenance(), _COMPARED

    class Gatekeeper(WorkerPlugin):
        name = topic

        async def setup(self, worker: Any) -> None:
            # Runs before a new worker reads its first task. It is sent without the imports of this module.
            import sys  # noqa: PLC0415
            from importlib import import_module  # noqa: PLC0415

            found = await asyncio.to_thread(found_here)
            fits = all(found.get(name) == expected[name] for name in compared)
            if fits and modules:
                if folder not in sys.path:
                    sys.path.insert(0, folder)
                for module in modules:
                    import_module(module)
                found = found_here()
                fits = expected["own_modules"].items() <= found.get("own_modules", {}).items()
            if not fits:
                worker.log_event(topic, {"worker": worker.address, "versions": found})
                await worker.close_gracefully(restart=False, reason="other versions than those of the run")

    return Gatekeeper()


def _leaving(topic: str, owner: str) -> SchedulerPlugin:
    class Leaving(SchedulerPlugin):
        name = f"{topic}-leaving"

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == owner:
                scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, topic)
                scheduler.loop.add_callback(scheduler.unregister_scheduler_plugin, self.name)

    return Leaving()
