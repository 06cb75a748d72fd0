"""Restart jobs and hosts whose workers were lost."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from distributed.core import Status
from distributed.deploy.adaptive import Adaptive
from distributed.deploy.spec import ProcessInterface
from distributed.diagnostics.plugin import SchedulerPlugin

from pbdist.run.clusters.start import Started

#: By then a worker is back that its nanny restarts, or that was cut off for a moment.
REPLACE_SECONDS: Final = 15.0
#: Between two attempts to start a group that could not be started.
_RETRY_SECONDS = 30.0
_LOOK_SECONDS = 1.0
#: Between two requests to the batch system, for any number of jobs: its controller serves others too.
_ASK_SECONDS = 5.0


class WorkerGroup(ProcessInterface):
    """Workers that are started together: those of a job, or of a host."""

    #: Why they are missing, or None.
    problem: str | None = None
    #: When `problem` became known, on the monotonic clock.
    noted: float = 0.0
    #: When `ended` was last called.
    asked: float = 0.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]  # distributed's

    async def start(self) -> None:
        """Start them; an error is noted, not raised, as other groups go on."""
        try:
            await self.begin()
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is reported if no worker comes
            self.note(" ".join(f"{type(error).__name__}: {error}".split()))
        self.status = Status.running

    @abstractmethod
    async def begin(self) -> None:
        """Start them."""

    async def ended(self) -> str | None:
        """Return why no worker can come any more, or None while one may."""
        return self.problem

    async def close(self) -> None:
        """End them."""
        try:
            await super().close()  # type: ignore[no-untyped-call]  # distributed's
        finally:
            # dask-jobqueue leaves the status, and then the end of the cluster fails on every job still in memory.
            self.status = Status.closed

    def note(self, problem: str) -> None:
        """Note why they are missing."""
        self.problem = problem
        self.noted = time.monotonic()


class _Arrivals(SchedulerPlugin):
    """Notes the names of workers that have come, however short they stay."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self.names.add(str(scheduler.workers[worker].name))


class _Replacing(Adaptive):
    """Keeps the number of workers, and starts groups again whose workers are lost.

    Dask's adaptive scaling does so only for groups of one worker, and never for one that could not be started.
    """

    cluster: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._arrivals = _Arrivals()
        self._arrivals.names |= self._there()
        self.cluster.scheduler.add_plugin(self._arrivals, name="pbdist-arrivals")
        self._gone: dict[Any, float] = {}
        self._asked = time.monotonic()

    async def target(self) -> int:
        """Return the number of workers of the profile, busy or not."""
        return self.minimum

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Remove lost groups; Dask then starts the missing workers again."""
        await self._ask()
        for name in self._lost():
            group = self.cluster.workers.pop(name, None)
            self._arrivals.names -= self._members(name)
            self._gone.pop(name, None)
            if group is not None:
                await group.close()
        recommended: dict[str, Any] = await super().recommendations(target)
        return recommended

    def _there(self) -> set[str]:
        return {str(worker.name) for worker in self.cluster.scheduler.workers.values()}

    def _members(self, name: Any) -> set[str]:
        return {f"{name}{suffix}" for suffix in self.cluster.worker_spec.get(name, {}).get("group", ("",))}

    async def _ask(self) -> None:
        """Ask a group without known workers whether it has ended: the one asked longest ago."""
        now = time.monotonic()
        groups = [
            group
            for name, group in self.cluster.workers.items()
            if group.problem is None and not self._members(name) & self._arrivals.names
        ]
        if groups and now - self._asked > _ASK_SECONDS:
            self._asked = now
            group = min(groups, key=lambda one: one.asked)
            group.asked = now
            problem = await group.ended()
            if problem is not None:
                group.note(problem)

    def _lost(self) -> list[Any]:
        now = time.monotonic()
        there = self._there()
        lost = []
        for name, group in self.cluster.workers.items():
            members = self._members(name)
            if members & there:
                self._gone.pop(name, None)
                group.problem = None
            elif members & self._arrivals.names:
                if now - self._gone.setdefault(name, now) > REPLACE_SECONDS:
                    lost.append(name)
            elif group.problem is not None and now - group.noted > _RETRY_SECONDS:
                lost.append(name)
        return lost


class ReplacedStarted(Started):
    """A cluster whose groups are started again when they are lost."""

    def problems(self) -> Sequence[str]:
        """Return why groups could not be started, each cause once."""
        groups = list(self.cluster.workers.values())
        return list(dict.fromkeys(group.problem for group in groups if group.problem is not None))

    def hopeless(self) -> bool:
        """Return whether no group could be started."""
        groups = list(self.cluster.workers.values())
        return bool(groups) and all(group.problem is not None for group in groups)


def replace_lost(cluster: Any, workers: int) -> None:
    """Keep `workers` workers in `cluster`, a `SpecCluster` of worker groups."""
    cluster.adapt(Adaptive=_Replacing, minimum=workers, maximum=workers, interval=_LOOK_SECONDS)


async def cancelled(task: "asyncio.Task[None] | None") -> None:
    """End a task and wait for its end."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
