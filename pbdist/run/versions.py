"""Workers with other versions than the driver are refused, so that the same study gives the same bytes everywhere."""

import asyncio
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any

from distributed import SchedulerPlugin, WorkerPlugin

from pbdist.mechanisms.declaration import own_modules
from pbdist.provenance import provenance
from pbdist.run.events import one_line

#: By name; None where something is not installed, or its revision is unknown.
Versions = Mapping[str, str | None]

#: The packages that decide numbers and bytes: numcodecs compresses the chunks.
_PACKAGES = ("pbdist", "numpy", "scipy", "zarr", "numcodecs")


@cache
def own_versions() -> Versions:
    """Return the versions of this process: Python, the packages, and pbdist's git revision."""
    return {
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in _PACKAGES},
        "revision": provenance()["git_revision"],
    }


def inquiry() -> Callable[[], dict[str, str | None]]:
    """Return a function that finds the versions of the process it runs in.

    It is sent as code, not by name, so that it also runs on a worker without pbdist, or with an earlier one.
    """
    packages = _PACKAGES

    def found() -> dict[str, str | None]:
        import platform  # noqa: PLC0415 -- it is sent without the imports of this module
        from importlib import metadata  # noqa: PLC0415

        try:
            from pbdist.run.versions import own_versions  # noqa: PLC0415

            return dict(own_versions())
        except ImportError:
            pass
        # No pbdist, or an earlier one: a revision that never is the same.
        versions: dict[str, str | None] = {"python": platform.python_version(), "revision": "of another kind"}
        for package in packages:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                versions[package] = None
        return versions

    return found


def difference(expected: Versions, found: Versions) -> str | None:
    """Return how versions differ, as ``expected .., got ..``; None where they are the same."""
    names = [name for name in expected if expected[name] != found.get(name)]
    if not names:
        return None
    wanted, got = (", ".join(_described(name, side.get(name)) for name in names) for side in (expected, found))
    return f"expected {wanted}, got {got}"


def _described(name: str, version: str | None) -> str:
    if name == "revision":
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
        # One that has just left is no problem.
        there = {worker: versions for worker, versions in found.items() if not isinstance(versions, OSError)}
        problems = {
            worker: f"expected an answer, got {one_line(versions)}"
            if isinstance(versions, Exception)
            else difference(own_versions(), versions)
            for worker, versions in there.items()
        }
        return {worker: problem for worker, problem in problems.items() if problem is not None}

    def close(self) -> None:
        """Let no unfit worker in from now on, until this client leaves the scheduler."""
        self._client.subscribe_topic(self._name, self._take_note)
        self._client.register_plugin(_leaving(self._name, str(self._client.id)))
        modules = own_modules()
        if modules:
            self._client.register_plugin(_importer(modules, os.getcwd()))
        self._client.register_plugin(_gatekeeper(self._name, dict(own_versions())))

    def _take_note(self, event: tuple[float, Mapping[str, Any]]) -> None:
        worker, versions = event[1]["worker"], event[1]["versions"]
        self._tell(f"refused: worker {worker}: {difference(own_versions(), versions)}")


# Both classes are made in functions, so that they are sent as code: workers and the scheduler may have no pbdist.


def _gatekeeper(topic: str, expected: Versions) -> WorkerPlugin:
    found_here = inquiry()

    class Gatekeeper(WorkerPlugin):
        name = topic

        async def setup(self, worker: Any) -> None:
            # Runs before a new worker reads its first task.
            found = await asyncio.to_thread(found_here)
            if found != expected:
                worker.log_event(topic, {"worker": worker.address, "versions": found})
                await worker.close_gracefully(restart=False, reason="other versions than those of the run")

    return Gatekeeper()


def _importer(modules: Sequence[str], folder: str) -> WorkerPlugin:
    """Return what imports the modules of own mechanisms on workers, also from the folder of the driver."""

    class Importer(WorkerPlugin):
        name = "pbdist-own-mechanisms"

        def setup(self, worker: Any) -> None:  # noqa: ARG002
            import sys  # noqa: PLC0415 -- it is sent without the imports of this module
            from importlib import import_module  # noqa: PLC0415

            if folder not in sys.path:
                sys.path.insert(0, folder)
            for module in modules:
                import_module(module)

    return Importer()


def _leaving(topic: str, owner: str) -> SchedulerPlugin:
    class Leaving(SchedulerPlugin):
        name = f"{topic}-leaving"

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == owner:
                scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, topic)
                scheduler.loop.add_callback(scheduler.unregister_scheduler_plugin, self.name)

    return Leaving()
