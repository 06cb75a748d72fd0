"""Compute on Dask workers: those of a cluster started here, or of a scheduler that is already running."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from distributed import Client, performance_report

from pbdist.errors import InvalidInputError, WorkersLostError
from pbdist.run.cell_progress import Report
from pbdist.run.cluster_profile import LocalProfile, Profile
from pbdist.run.clusters.start import ClusterHandle, start_cluster, workers_of
from pbdist.run.dask_tasks import DaskReports, DaskTasks, NotRun
from pbdist.run.executor import Done, one_line
from pbdist.run.versions import Gate

__all__ = ["DaskExecutor"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Tasks submitted and not yet done, for each worker: enough that none is idle, few enough to hold in memory.
_WINDOW_PER_WORKER = 3
#: Tasks that are submitted together, at most: a call costs the same for any number of them.
_MOST_SUBMITTED = 64
_CONNECT_SECONDS = 20
#: How long to wait for the first worker of a running scheduler.
_WORKER_SECONDS = 60
#: How long there may be no worker at all during a run; the start timeout of the profile, if that is longer.
_LOST_SECONDS = 300.0
#: How long a count of the workers is used: it changes in seconds, tasks are done in milliseconds.
_COUNT_SECONDS = 2.0
_NOISY_LOGGERS = tuple(
    f"distributed.{part}" for part in ("client", "comm", "comm.tcp", "core", "batched", "utils_comm")
)


class _Since:
    """How long a condition has lasted, from the first call of `seconds` on."""

    def __init__(self) -> None:
        self._began: float | None = None

    def seconds(self) -> float:
        """Return how long it has lasted."""
        self._began = self._began or time.monotonic()
        return time.monotonic() - self._began

    def forget(self) -> None:
        """Note that the condition has ended."""
        self._began = None


class DaskExecutor:
    """Computes items on Dask workers.

    Guaranteed: nothing is computed on a worker with another version of Python, numpy, scipy, zarr, numcodecs or pbdist
    than this process. Such a worker is an error at the start; one that joins later is closed, see `refused`.

    Parameters
    ----------
    profile
        The cluster to start, unless a scheduler is given.
    scheduler
        The address of a running scheduler.
    scheduler_file
        The file with the address of a running scheduler (``dask scheduler --scheduler-file``).
    report
        Where to save Dask's performance report, an HTML page.
    lost_seconds
        How long there may be no worker at all before the run ends.
    """

    def __init__(
        self,
        profile: Profile | None = None,
        scheduler: str | None = None,
        scheduler_file: str | Path | None = None,
        report: str | Path | None = None,
        lost_seconds: float = _LOST_SECONDS,
    ) -> None:
        self._profile = profile or LocalProfile()
        self._scheduler = scheduler
        self._scheduler_file = None if scheduler_file is None else Path(scheduler_file)
        self._report = None if report is None else Path(report)
        self._lost_seconds = lost_seconds
        self._handle: ClusterHandle | None = None
        self._client: Any = None
        self._stack = ExitStack()
        self._gate: Gate | None = None
        self._reports: DaskReports | None = None
        self._threads, self._counted = 1, -_COUNT_SECONDS

    @property
    def workers(self) -> str:
        """The number of workers, and where they run."""
        count = len(self._known_workers())
        return f"{count} worker{'' if count == 1 else 's'} on {self._where()}"

    @property
    def parallelism(self) -> int:
        """How many tasks the present workers compute at the same time, as counted a moment ago."""
        now = time.monotonic()
        if now - self._counted >= _COUNT_SECONDS:
            self._threads, self._counted = max(1, int(self._totals()["total_threads"])), now
        return self._threads

    @property
    def dashboard(self) -> str | None:
        """The address of the scheduler's dashboard."""
        address = self._client.dashboard_link
        return str(address) if address else None

    @property
    def worker_bytes(self) -> int | None:
        """The smallest memory limit of a worker thread: threads of a worker share its memory."""
        limits = [
            int(worker["memory_limit"]) // max(1, int(worker.get("nthreads", 1)))
            for worker in self._known_workers().values()
            if worker["memory_limit"]
        ]
        return min(limits, default=None)

    def __enter__(self) -> Self:
        """Start or find the cluster.

        Raises
        ------
        InvalidInputError
            There is no scheduler at the address, no worker joins in time, or the profile cannot be started.
        MissingDependencyError
            The package that starts such a cluster is not installed.
        """
        if self._report is not None:
            _check_writable(self._report)
        with ExitStack() as stack:
            self._connect(stack)
            self._gate = Gate(self._client)
            for worker, problem in self._gate.unfit().items():
                raise InvalidInputError(f"workers: {problem} on {worker}")
            self._gate.close(until_client_leaves=self._handle is None)
            self._reports = DaskReports(self._client)
            if self._report is not None:
                stack.enter_context(performance_report(str(self._report)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Save the report, close the connection, and the cluster if it was started here."""
        if kind is not None:
            # Interrupted callbacks log errors while the cluster is closed.
            logging.getLogger("tornado.application").setLevel(logging.CRITICAL)
        try:
            # With the error, so that workers whose results are given up are not waited for.
            self._stack.__exit__(kind, error, traceback)
        finally:
            self._client, self._handle, self._counted = None, None, -_COUNT_SECONDS

    def refused(self) -> Sequence[str]:
        """Return which workers were refused since the last call, and why, one line each."""
        return () if self._gate is None else self._gate.refused()

    def heard(self) -> Sequence[tuple[float, Report]]:
        """Return the reports of tasks since the last call, and when they came."""
        return () if self._reports is None else self._reports.heard()

    def run(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Done[Item, Result]]:
        """Yield each item with its result as it comes; a bounded number of items is submitted.

        Raises
        ------
        WorkersLostError
            The connection to the scheduler is lost, or there is no worker for too long.
        """
        waiting, lost_since = iter(items), _Since()
        resources = None if self._handle is None else self._handle.resources
        tasks: DaskTasks[Item] = DaskTasks(self._client, task, resources, lambda: self._check_workers(lost_since))
        try:
            while True:
                self._fill(tasks, waiting)
                if not tasks:
                    return
                item, result = tasks.next()
                lost_since.forget()
                if isinstance(result, NotRun):
                    refused = self._gate is not None and self._gate.refuse()
                    if refused or result.problem is None:
                        tasks.submit([item])
                        continue
                    result = result.problem
                yield Done(item, result)
        finally:
            tasks.clear()

    def _fill(self, tasks: DaskTasks[Item], waiting: Iterator[Item]) -> None:
        """Submit items up to the window: several at once, as long as no worker is idle."""
        window = _WINDOW_PER_WORKER * self.parallelism
        if len(tasks) > window - min(_MOST_SUBMITTED, max(1, window // 8)):
            return
        while room := min(_MOST_SUBMITTED, window - len(tasks)):
            some = list(islice(waiting, room))
            if not some:
                return
            tasks.submit(some)

    def _check_workers(self, lost: "_Since") -> None:
        """Raise `WorkersLostError` where there was no worker for too long."""
        if self._totals()["n_workers"]:
            lost.forget()
        elif lost.seconds() > self._patience():
            raise WorkersLostError(
                f"expected a worker on {self._where()}, got none for {self._patience():g} s: "
                "the same command goes on where this one stopped"
            )

    def _patience(self) -> float:
        return self._lost_seconds if self._handle is None else max(self._lost_seconds, self._handle.start_timeout)

    def _where(self) -> str:
        if self._handle is not None:
            return self._handle.where
        return f"scheduler {self._scheduler or self._scheduler_file}"

    def _totals(self) -> Mapping[str, Any]:
        """Return the scheduler's totals of all workers: cheap for any number of them."""
        totals: Mapping[str, Any] = self._client.scheduler_info(n_workers=0)
        return totals

    def _known_workers(self) -> Mapping[str, Mapping[str, Any]]:
        return workers_of(self._client)

    def _connect(self, stack: ExitStack) -> None:
        if self._scheduler is None and self._scheduler_file is None:
            self._handle = stack.enter_context(start_cluster(self._profile))
            # It logs tasks whose results were lost with a killed worker; they are computed again.
            logging.getLogger("distributed.scheduler").setLevel(logging.CRITICAL)
            self._client = stack.enter_context(Client(self._handle.cluster))
            self._handle.wait(self._client)
            return
        # The run reports a lost scheduler; what distributed logs of it says no more.
        for name in ("distributed", *_NOISY_LOGGERS):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        option, given = (
            ("--scheduler", self._scheduler) if self._scheduler else ("--scheduler-file", str(self._scheduler_file))
        )
        if self._scheduler_file is not None and not self._scheduler_file.is_file():
            raise InvalidInputError(f"{option}: expected the file of a running scheduler, got none at {given!r}")
        try:
            where = {"address": given} if self._scheduler else {"scheduler_file": given}
            self._client = stack.enter_context(Client(**where, timeout=_CONNECT_SECONDS))
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = f"expected the address of a running scheduler, got {given!r}: {one_line(error)}"
            raise InvalidInputError(f"{option}: {problem}") from error
        try:
            self._client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise InvalidInputError(f"cluster: expected a worker within {_WORKER_SECONDS} s, got none") from error


def _check_writable(report: Path) -> None:
    """Refuse a report that cannot be saved before the work, not after it."""
    try:
        with report.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise InvalidInputError(f"--report: expected a file that can be written, got: {error}") from error
