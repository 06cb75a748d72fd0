"""The executor that computes on Dask workers: a cluster started here, or a scheduler that is already there."""

import logging
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from distributed import Client, performance_report
from distributed.scheduler import KilledWorker

from pbdist.errors import InvalidInputError, WorkersLostError
from pbdist.run.clusters import ClusterHandle, start_cluster, workers_of
from pbdist.run.executor import Done, Failure, attempt, one_line
from pbdist.run.profile import LocalProfile, Profile

__all__ = ["DaskExecutor"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Tasks submitted and not yet done, for each worker: enough that none waits, few enough to hold in memory.
_WINDOW_PER_WORKER = 3
_CONNECT_SECONDS = 20
#: A result is small: a scheduler that does not hand it over by then is gone.
_ANSWER_SECONDS = 60
#: How long to wait for the first worker of a scheduler that is already there.
_WORKER_SECONDS = 60
#: How long there may be no worker at all during a run; what a profile gives its workers to start, if that is longer.
_LOST_SECONDS = 300.0
#: How often to look whether there still are workers while nothing comes back.
_LOOK_SECONDS = 5.0
_CONNECTION_LOST = "the connection to the scheduler was lost: the same command goes on where this one stopped"
_NOISY_LOGGERS = tuple(
    f"distributed.{part}" for part in ("client", "comm", "comm.tcp", "core", "batched", "utils_comm")
)


class DaskExecutor:
    """Computes items on Dask workers.

    Parameters
    ----------
    profile
        The cluster to start, unless a scheduler is given.
    scheduler
        The address of a running scheduler.
    scheduler_file
        The file that a running scheduler has written its address to (``dask scheduler --scheduler-file``).
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

    @property
    def workers(self) -> str:
        """The number of workers, and where they are."""
        count = len(self._known_workers())
        return f"{count} worker{'' if count == 1 else 's'} on {self._where()}"

    @property
    def parallelism(self) -> int:
        """How many tasks the workers that are there compute at the same time."""
        return max(1, sum(int(worker.get("nthreads", 1)) for worker in self._known_workers().values()))

    @property
    def dashboard(self) -> str | None:
        """The address of the scheduler's dashboard."""
        address = self._client.dashboard_link
        return str(address) if address else None

    @property
    def worker_bytes(self) -> int | None:
        """The smallest memory limit of the workers; what several threads of one share is divided among them."""
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
            There is no scheduler at the address, no worker comes in time, or the profile cannot be started.
        MissingDependencyError
            The package that starts such a cluster is not installed.
        """
        if self._report is not None:
            _check_writable(self._report)
        with ExitStack() as stack:
            self._connect(stack)
            _check_version(self._client)
            if self._report is not None:
                stack.enter_context(performance_report(str(self._report)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Save the report, close the connection, and the cluster if it was started here."""
        if kind is not None:
            # Callbacks that an interrupt has cut short complain while the cluster is closed.
            logging.getLogger("tornado.application").setLevel(logging.CRITICAL)
        try:
            # Told how it ends: workers are not waited for by who has given up what they compute.
            self._stack.__exit__(kind, error, traceback)
        finally:
            self._client, self._handle = None, None

    def run(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Done[Item, Result]]:
        """Yield what became of each item as it comes, with a bounded number of them submitted.

        Raises
        ------
        WorkersLostError
            The connection to the scheduler is lost, or there is no worker for too long.
        """
        waiting = iter(items)
        finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        running: dict[str, tuple[Any, Item]] = {}
        resources = None if self._handle is None else self._handle.resources

        def submit() -> bool:
            for item in waiting:
                # A task is done when its files are there, not when one of the same name has once returned.
                future = self._client.submit(attempt, task, item, pure=False, resources=resources)
                running[future.key] = future, item
                future.add_done_callback(finished.put)
                return True
            return False

        try:
            while True:
                while len(running) < _WINDOW_PER_WORKER * self.parallelism and submit():
                    pass
                if not running:
                    return
                future = self._next(finished)
                try:
                    result = _result(future)
                except TimeoutError:
                    if self._client.status != "running":
                        raise WorkersLostError(_CONNECTION_LOST) from None
                    # The worker that held the result died before it was handed over: it is computed again.
                    future.add_done_callback(finished.put)
                    continue
                _, item = running.pop(future.key)
                del future
                yield Done(item, result)
        finally:
            # What nobody waits for any more is not computed.
            running.clear()

    def _next(self, finished: "queue.SimpleQueue[Any]") -> Any:
        """Return the next future that is done, unless the workers are lost."""
        lost_since: float | None = None
        while True:
            try:
                return finished.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._client.status not in ("running", "connecting"):
                    raise WorkersLostError(_CONNECTION_LOST) from None
                now = time.monotonic()
                lost_since = None if self._known_workers() else lost_since or now
                if lost_since is not None and now - lost_since > self._patience():
                    raise WorkersLostError(
                        f"expected a worker on {self._where()}, got none for {self._patience():g} s: "
                        "the same command goes on where this one stopped"
                    ) from None

    def _patience(self) -> float:
        return self._lost_seconds if self._handle is None else max(self._lost_seconds, self._handle.start_timeout)

    def _where(self) -> str:
        if self._handle is not None:
            return self._handle.where
        return f"scheduler {self._scheduler or self._scheduler_file}"

    def _known_workers(self) -> Mapping[str, Mapping[str, Any]]:
        return workers_of(self._client)

    def _connect(self, stack: ExitStack) -> None:
        if self._scheduler is None and self._scheduler_file is None:
            self._handle = stack.enter_context(start_cluster(self._profile))
            # It tells of tasks whose results a killed worker took along, which are computed again.
            logging.getLogger("distributed.scheduler").setLevel(logging.CRITICAL)
            self._client = stack.enter_context(Client(self._handle.cluster))
            self._handle.wait(self._client)
            return
        # That the scheduler is lost is told once, by the run; what distributed logs of it says no more.
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


def _result(future: Any) -> Any:
    """Return the result of a task, or the failure that the scheduler tells.

    Raises
    ------
    TimeoutError
        The result is not there, although the task was done.
    WorkersLostError
        The scheduler is gone.
    """
    if future.status in ("pending", "lost"):
        raise TimeoutError
    try:
        if future.status == "finished":
            return future.result(timeout=_ANSWER_SECONDS)
        if future.status == "error":
            error = future.exception(timeout=_ANSWER_SECONDS)
            if isinstance(error, KilledWorker):
                return Failure(f"the workers that computed it died: {one_line(error)}", killed=True)
            return Failure(one_line(error))
    except TimeoutError:
        raise
    except OSError as error:
        raise WorkersLostError(_CONNECTION_LOST) from error
    # Cancelled, which nobody asked for.
    raise WorkersLostError(_CONNECTION_LOST)


def _check_version(client: Any) -> None:
    """Refuse workers with another pbdist: what they would do with a task is anybody's guess."""
    own = metadata.version("pbdist")
    try:
        found: Mapping[str, str] = client.run(metadata.version, "pbdist")
    except metadata.PackageNotFoundError:
        raise InvalidInputError(f"workers: expected pbdist {own} on each of them, got one without it") from None
    for worker, version in found.items():
        if version != own:
            raise InvalidInputError(f"workers: expected pbdist {own} on each of them, got {version} on {worker}")


def _check_writable(report: Path) -> None:
    """Refuse a report that cannot be saved before hours of work, not after them."""
    try:
        with report.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise InvalidInputError(f"--report: expected a file that can be written, got: {error}") from error
