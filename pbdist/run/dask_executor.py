"""Compute on Dask workers: those of a cluster started here, or of a scheduler that is already running."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from json import loads as json_of
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from distributed import Client, performance_report
from distributed.client import ClosedClientError

from pbdist.errors import InvalidInputError, WorkersLostError
from pbdist.input_files import read_input
from pbdist.run.cluster_profile import CertificateFiles, LocalProfile, Profile
from pbdist.run.clusters.network import security_of
from pbdist.run.clusters.start import Started, start_cluster, workers_of
from pbdist.run.dask_tasks import DaskReports, DaskTasks, NotRun, SchedulerLostError, Since, Waiting
from pbdist.run.events import OUTAGE_SECONDS, Done, Listener, Report, SchedulerReached, SchedulerUnreachable, one_line
from pbdist.run.versions import Gate
from pbdist.study.plan import duration

#: The most bytes of the file with the address of a scheduler: a scheduler writes some hundreds, and a few for a worker.
_MOST_BYTES = 1 << 26
_NOISY_LOGGERS = tuple(
    f"distributed.{part}" for part in ("client", "comm", "comm.tcp", "core", "batched", "utils_comm")
)


@dataclass(frozen=True)
class RunningScheduler:
    """Where a scheduler is: its address, or the file that has it; and the certificate that it wants to see.

    The file is read again at each connection, so that a scheduler may come back at another address.
    """

    address: str | None = None
    file: Path | None = None
    certificates: CertificateFiles | None = None

    def __str__(self) -> str:
        """Return the address or the file."""
        return str(self.address or self.file)

    def connect(self, seconds: float) -> Any:
        """Return a client, within some seconds.

        Raises
        ------
        InvalidInputError
            There is no scheduler, or it refuses this process.
        """
        # The run reports a lost scheduler; what distributed logs of it says no more.
        for name in ("distributed", *_NOISY_LOGGERS):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if self.file is not None and not self.file.is_file():
            raise InvalidInputError(
                f"--scheduler-file: expected the file of a running scheduler, got none at {str(self.file)!r}"
            )
        option = "--scheduler" if self.address else "--scheduler-file"
        where = {"address": self.address} if self.address else {"scheduler_file": str(self.file)}
        try:
            if self.file is not None:
                # Before distributed reads it: that would read a file of any size, of any depth, and without an address.
                self._address()
            return Client(**where, security=security_of(self.certificates), timeout=seconds)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, RecursionError) as error:
            cause = f"expected the address of a running scheduler, got {str(self)!r}: {one_line(error)}{self._hint()}"
            raise InvalidInputError(f"{option}: {cause}") from error

    def _address(self) -> str:
        """Return the address in the file; an error says why there is none that can be read."""
        content: Any = json_of(read_input(self.file or Path(), _MOST_BYTES))
        if not isinstance(content, dict) or not isinstance(content.get("address"), str):
            raise ValueError("no address in it")
        return str(content["address"])

    def _hint(self) -> str:
        """Return what the address says about certificates that do not go with it."""
        address = self.address or ""
        if self.file is not None:
            with suppress(OSError, ValueError):
                address = self._address()
        if address.startswith("tls://") and self.certificates is None:
            return ": a scheduler with TLS takes --tls-ca, --tls-certificate and --tls-key"
        if not address.startswith("tls://") and self.certificates is not None:
            return ": certificates go with an address tls://HOST:PORT"
        return ""


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
#: The pause after the first try to reach a lost scheduler, and the longest: each is twice the one before.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
#: What is lost already is not waited for.
_CLOSE_SECONDS = 5


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
    certificates
        What a running scheduler with TLS wants to see.
    patience
        How long to wait for a running scheduler that was lost, in seconds.
    """

    def __init__(
        self,
        profile: Profile | None = None,
        scheduler: str | None = None,
        scheduler_file: str | Path | None = None,
        report: str | Path | None = None,
        lost_seconds: float = _LOST_SECONDS,
        *,
        certificates: CertificateFiles | None = None,
        patience: float = OUTAGE_SECONDS,
    ) -> None:
        self._profile = profile or LocalProfile()
        self._running: RunningScheduler | None = None
        if scheduler is not None or scheduler_file is not None:
            file = None if scheduler_file is None else Path(scheduler_file)
            self._running = RunningScheduler(scheduler, file, certificates)
        self._report = None if report is None else Path(report)
        self._lost_seconds, self._patience = lost_seconds, patience
        self._listener: Listener = lambda _: None
        self._handle: Started | None = None
        self._client: Any = None
        self._stack, self._connection = ExitStack(), ExitStack()
        self._gate: Gate | None = None
        self._reports: DaskReports | None = None
        self._threads, self._counted = 1, -_COUNT_SECONDS

    @property
    def workers(self) -> str:
        """The number of workers, and where they run."""
        count = len(workers_of(self._client))
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
        address = self._client.dashboard_link if self._handle is None else self._handle.dashboard
        return str(address) if address else None

    @property
    def expected_worker_bytes(self) -> int | None:
        """Not known before workers are there."""
        return None

    @property
    def worker_bytes(self) -> int | None:
        """The smallest memory limit of a worker thread: threads of a worker share its memory."""
        limits = [
            int(worker["memory_limit"]) // max(1, int(worker.get("nthreads", 1)))
            for worker in workers_of(self._client).values()
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
            if self._running is None:
                self._handle = stack.enter_context(start_cluster(self._profile))
                # It logs tasks whose results were lost with a killed worker; they are computed again.
                logging.getLogger("distributed.scheduler").setLevel(logging.CRITICAL)
            stack.push(lambda *error: self._connection.__exit__(*error))  # noqa: PLW0108 -- the last connection
            self._connect(_CONNECT_SECONDS)
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

    def told_to(self, listener: Listener) -> None:
        """Send events of a lost scheduler to `listener` from now on."""
        self._listener = listener

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
        waiting = Waiting(items)
        while True:
            lost_since = Since()
            resources = None if self._handle is None else self._handle.resources
            tasks: DaskTasks[Item] = DaskTasks(self._client, task, resources, self._looking(lost_since))
            try:
                yield from self._run(tasks, waiting, lost_since)
            except SchedulerLostError:
                if self._running is None:
                    raise
                waiting.again.extendleft(reversed(tasks.items()))
                self._wait_for_scheduler(self._running, len(waiting.again))
            else:
                return
            finally:
                tasks.clear()

    def _run(self, tasks: DaskTasks[Item], waiting: Waiting[Item], lost_since: Since) -> Iterator[Done[Item, Result]]:
        """Yield results until there is nothing left to compute, on one connection."""
        while True:
            self._fill(tasks, waiting)
            if not tasks:
                return
            item, result = tasks.next()
            lost_since.forget()
            if isinstance(result, NotRun):
                refused = self._gate is not None and self._gate.refuse()
                if refused or result.problem is None:
                    waiting.submitted_to(tasks, [item])
                    continue
                result = result.problem
            yield Done(item, result)

    def _fill(self, tasks: DaskTasks[Item], waiting: Waiting[Item]) -> None:
        """Submit items up to the window: several at once, as long as no worker is idle."""
        window = _WINDOW_PER_WORKER * self.parallelism
        if len(tasks) > window - min(_MOST_SUBMITTED, max(1, window // 8)):
            return
        while room := min(_MOST_SUBMITTED, window - len(tasks)):
            some = list(islice(waiting, room))
            if not some:
                return
            waiting.submitted_to(tasks, some)

    def _looking(self, lost: Since) -> Callable[[], None]:
        """Return a function that raises `WorkersLostError` where there was no worker for too long."""
        longest = self._lost_seconds if self._handle is None else max(self._lost_seconds, self._handle.start_timeout)

        def look() -> None:
            if self._totals()["n_workers"]:
                lost.forget()
            elif lost.seconds() > longest:
                raise WorkersLostError(
                    f"expected a worker on {self._where()}, got none for {longest:g} s: "
                    "the same command goes on where this one stopped"
                )

        return look

    def _where(self) -> str:
        return f"scheduler {self._running}" if self._handle is None else self._handle.where

    def _totals(self) -> Mapping[str, Any]:
        """Return the scheduler's totals of all workers: cheap for any number of them."""
        totals: Mapping[str, Any] = self._client.scheduler_info(n_workers=0)
        return totals

    def _connect(self, seconds: float, *, first: bool = True) -> None:
        """Connect to the scheduler, and have what watches over the workers; the `first` time wait for a worker."""
        with ExitStack() as stack:
            if self._running is None and self._handle is not None:
                self._client = stack.enter_context(Client(self._handle.cluster))
                self._handle.wait(self._client)
            elif self._running is not None:
                self._client = stack.enter_context(self._running.connect(seconds))
            if self._running is not None and first:
                self._wait_for_worker()
            gate = Gate(self._client)
            if first:
                for worker, problem in gate.unfit().items():
                    raise InvalidInputError(f"workers: {problem} on {worker}")
            gate.close(until_client_leaves=self._handle is None)
            if not first:
                gate.refuse()
            self._gate, self._reports = gate, DaskReports(self._client)
            if self._report is not None:
                stack.enter_context(performance_report(str(self._report)))
            self._connection, self._counted = stack.pop_all(), -_COUNT_SECONDS

    def _wait_for_worker(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise InvalidInputError(f"cluster: expected a worker within {_WORKER_SECONDS} s, got none") from error

    def _wait_for_scheduler(self, scheduler: RunningScheduler, again: int) -> None:
        """Wait until a lost scheduler is back, and connect to it; `again` is how many tasks it gets once more.

        Raises
        ------
        WorkersLostError
            It does not come back in time.
        """
        began, pause = time.monotonic(), _FIRST_PAUSE
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._listener(SchedulerUnreachable(since, str(scheduler), self._patience))
        self._disconnect()
        while True:
            left = max(0.0, began + self._patience - time.monotonic())
            try:
                self._connect(max(1.0, min(_CONNECT_SECONDS, left)), first=False)
            except (InvalidInputError, OSError, ClosedClientError) as error:
                if not left:
                    waited = duration(time.monotonic() - began)
                    cause = str(error) if isinstance(error, InvalidInputError) else one_line(error)
                    raise WorkersLostError(
                        f"the scheduler was lost and did not come back for {waited}: {cause}: "
                        "the same command goes on where this one stopped"
                    ) from error
            else:
                break
            time.sleep(min(pause, left))
            pause = min(2.0 * pause, _LONGEST_PAUSE)
        self._listener(SchedulerReached(time.monotonic() - began, again))

    def _disconnect(self) -> None:
        """Give up a connection that is lost, and the report on it."""
        self._connection.pop_all()
        with suppress(Exception):
            self._client.close(timeout=_CLOSE_SECONDS)


def _check_writable(report: Path) -> None:
    """Refuse a report that cannot be saved before the work, not after it."""
    try:
        with report.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise InvalidInputError(f"--report: expected a file that can be written, got: {error}") from error
