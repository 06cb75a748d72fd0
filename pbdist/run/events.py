"""Events of a run, which the driver sends to its listener."""

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeAlias, TypeVar

from pbdist.errors import StoreMismatchError, WorkersLostError, printable
from pbdist.progress import heard_by
from pbdist.study import Batch, Cell


@dataclass(frozen=True)
class Notice:
    """A sentence about workers: they are awaited, refused, or do not stop. No result is affected."""

    text: str


@dataclass(frozen=True)
class RunStarted:
    """The executor is ready, and the first task follows."""

    #: All cells of the study.
    cells: int
    #: Cells that were committed before.
    cells_before: int
    #: The batches that are left.
    batches: int
    #: Where tasks are computed, as text.
    workers: str
    #: The address of the dashboard, or None.
    dashboard: str | None
    #: The absolute path or the URL of the store.
    store: str
    #: Projected time of the batches that are left, on one core, and how many are computed at the same time.
    seconds: float
    parallelism: int
    #: The projected time of the run.
    elapsed_seconds: float
    #: Parts of the store; `cells` counts a noise setting once in each of its parts.
    parts: int = 1


@dataclass(frozen=True)
class BatchFinished:
    """A batch is committed."""

    #: The part of the store that the batch belongs to; empty for the first part.
    part: str
    #: Its number in the part, its first cell there, and the one after its last.
    batch: int
    first: int
    stop: int
    #: Its first and its last cell, as text.
    settings: tuple[str, str]
    #: Time in the worker: all of it, and the part for computing bounds.
    seconds: float
    kernel_seconds: float
    #: Its part of `RunStarted.seconds`.
    projected_seconds: float
    #: Bytes written.
    written_bytes: int
    #: How many of its cells could not be computed; each had a `CellFailed` before.
    failed_cells: int
    #: The worker that computed it.
    worker: str

    @property
    def cells(self) -> int:
        """Cells of the batch."""
        return self.stop - self.first


@dataclass(frozen=True)
class Report:
    """A cell that takes long, as its worker reports it."""

    #: The part of the store, and the numbers of the batch and of the cell in it.
    part: str
    batch: int
    cell: int
    #: The cell's description, as short text.
    setting: str
    #: How long the worker has been computing it.
    seconds: float
    #: The last step that was reached, as in ``r = 4,096 of 1,048,576``; empty where none is known.
    step: str
    #: The name of the worker.
    worker: str
    #: Whether the computation has ended.
    over: bool = False
    #: How long ago the worker has sent the report.
    silent_seconds: float = 0.0


@dataclass(frozen=True)
class StillComputing:
    """The run goes on: sent regularly by the driver's clock."""

    #: Since the run started, on the driver's clock.
    seconds: float
    #: All cells of the study, and those that are committed or have failed.
    cells: int
    cells_done: int
    #: Cells that take long, the longest first.
    at_work: tuple[Report, ...]
    #: How many more of them there are.
    more: int


@dataclass(frozen=True)
class CellFailed:
    """A cell could not be computed; the other cells of its batch were."""

    #: The part of the store, and the number of the cell in it.
    part: str
    cell: int
    #: The cell's description, as text.
    setting: str
    #: The exception on one line.
    cause: str
    #: Its traceback; empty where the worker was killed.
    traceback: str


@dataclass(frozen=True)
class BatchFailed:
    """A batch is given up: its workers were killed, or it could not be written."""

    part: str
    batch: int
    cells: int
    #: Its part of `RunStarted.seconds`.
    projected_seconds: float
    cause: str


@dataclass(frozen=True)
class RunFinished:
    """The run is over: all cells are committed but those that failed."""

    #: All cells of the study, and those that failed.
    cells: int
    failed_cells: int
    #: Since the run started, on the driver's clock.
    seconds: float
    #: Bytes written by this run.
    written_bytes: int


Event: TypeAlias = Notice | RunStarted | BatchFinished | StillComputing | CellFailed | BatchFailed | RunFinished
Listener: TypeAlias = Callable[[Event], None]
#: What an executor passes on, in any thread; a report may be lost.
Send: TypeAlias = Callable[[Notice | Report], None]


def ignore(_message: Notice | Report) -> None:
    """Pass nothing on."""


#: How often a run sends `StillComputing`, in seconds, by default.
TOLD_EVERY = 30.0
#: How long a run waits for an object store or a scheduler that cannot be reached, in seconds, by default.
OUTAGE_SECONDS = 900.0
#: Seconds between two reports of a worker, at least; reports a second of all workers, at most; and reports of a cell
#: between two events of a run, at least.
_MIN_PAUSE, _MAX_REPORTS, _MIN_REPORTS = 5.0, 50.0, 1.5
#: Longer descriptions of cells are cut: one line may hold several.
_LONGEST_SETTING = 100


_send: ContextVar[Send | None] = ContextVar("pbdist_send", default=None)


@contextmanager
def reported_by(send: Send) -> Iterator[None]:
    """Have reports of what this thread computes sent by `send`, until the block is left."""
    token = _send.set(send)
    try:
        yield
    finally:
        _send.reset(token)


def worker_name() -> str:
    """Return the host and the number of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


#: What is counted on the way to the next step of a cell that all workers compute.
TASK = "task"


class _Computation:
    """The computation of a cell, and its last step."""

    def __init__(self, batch: Batch, number: int, cell: Cell) -> None:
        self.batch, self.number, self.cell = batch, number, cell
        self.began = time.monotonic()
        self.step = self.detail = ""

    def hear(self, what: str, reached: int, of: int) -> None:
        text = f"{what} {reached:,} of {of:,}"
        self.step, self.detail = (self.step, text) if what == TASK else (text, "")


@contextmanager
def regularly(seconds: float, act: Callable[[], None], first: float = math.inf) -> Iterator[None]:
    """Call `act` every `seconds`, and first after `first` if that is sooner, in a thread, until the block is left."""
    over = threading.Event()

    def go_on() -> None:
        wait = min(first, seconds)
        while not over.wait(wait):
            act()
            wait = seconds

    thread = threading.Thread(target=go_on, name="pbdist-clock", daemon=True)
    try:
        # An interrupt may come at any moment.
        thread.start()
        yield
    finally:
        over.set()
        if thread.is_alive():
            thread.join()


class CellWatch:
    """Reports the cell that a thread computes, from another thread, if it takes longer than `seconds`.

    There is at most one report in `seconds`, and one more at the end of each reported cell. Without `reported_by`
    there are none. A context manager; `part` is the part of the store that the cells belong to.
    """

    def __init__(self, part: str, seconds: float) -> None:
        send = _send.get()
        self._part, self._seconds, self._send = part, seconds, send or ignore
        self._current: _Computation | None = None
        self._reported: _Computation | None = None
        self._clock = nullcontext() if send is None else regularly(seconds, self._look)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._clock.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End, and send the last report."""
        self._clock.__exit__(*error)
        self._look()

    @contextmanager
    def at(self, batch: Batch, number: int, cell: Cell) -> Iterator[None]:
        """Watch the computation of a cell, which is the block."""
        self._current = found = _Computation(batch, number, cell)
        try:
            with heard_by(found.hear):
                yield
        finally:
            self._current = None

    def _look(self) -> None:
        found = self._current
        if self._reported is not None and self._reported is not found:
            self._report(self._reported, over=True)
            self._reported = None
        if found is not None and time.monotonic() - found.began >= self._seconds:
            self._report(found)
            self._reported = found

    def _report(self, found: _Computation, *, over: bool = False) -> None:
        setting = found.cell.describe()
        setting = setting if len(setting) <= _LONGEST_SETTING else f"{setting[:_LONGEST_SETTING]}.."
        step = ", ".join(text for text in (found.step, found.detail) if text)
        seconds = time.monotonic() - found.began
        self._send(Report(self._part, found.batch.index, found.number, setting, seconds, step, worker_name(), over))


def pause_between_reports(event_seconds: float, parallelism: int) -> float:
    """Return the time between two reports of a worker, where the run sends an event every `event_seconds`."""
    return min(max(_MIN_PAUSE, parallelism / _MAX_REPORTS), event_seconds / _MIN_REPORTS)


class CellsAtWork:
    """The last report of each cell that takes long, in the driver.

    `is_left` says of a batch, by part and number, whether it is still to be computed: reports may come late, or never.
    """

    def __init__(self, is_left: Callable[[str, int], bool]) -> None:
        self._is_left = is_left
        #: The last report of each cell, and when it came.
        self._last: dict[tuple[str, int], tuple[float, Report]] = {}

    def take(self, report: Report) -> None:
        """Note a report that comes now, in any thread."""
        if report.over:
            self._last.pop((report.part, report.cell), None)
        else:
            self._last[report.part, report.cell] = time.monotonic(), report

    def cells(self) -> list[Report]:
        """Return the cells at work now, the longest first."""
        now, found = time.monotonic(), list[Report]()
        for key, (arrived, report) in self._last.copy().items():
            if self._is_left(report.part, report.batch):
                silent = now - arrived
                found.append(replace(report, seconds=report.seconds + silent, silent_seconds=silent))
            else:
                self._last.pop(key, None)
        return sorted(found, key=lambda cell: (-cell.seconds, cell.part, cell.cell))


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Failure:
    """Why a task has no result."""

    #: The exception on one line.
    cause: str
    #: Whether it killed its workers, again and again.
    killed: bool = False
    #: Whether the store, or the scratch of a giant cell, cannot be read or written: then no other task can.
    store: bool = False


@dataclass(frozen=True)
class Done(Generic[Item, Result]):
    """An item and its result, or why there is none."""

    item: Item
    result: Result | Failure


class SerialExecutor:
    """Computes a task for each of many items, one after the other, in this process; other executors derive from it.

    A context manager: what it started is gone when the block is left, in whatever way.
    """

    #: What to do where a worker has too little memory.
    more_memory = "use a machine with more memory"

    def __init__(self, where: str = "this process") -> None:
        self._where = where

    @property
    def workers(self) -> str:
        """Where tasks are computed, as text."""
        return self._where

    @property
    def parallelism(self) -> int:
        """How many tasks are computed at the same time; at least 1."""
        return 1

    @property
    def dashboard(self) -> str | None:
        """The address of a dashboard, or None."""
        return None

    @property
    def worker_bytes(self) -> int | None:
        """The memory that the smallest worker may use, or None for no known limit; here, that of this machine."""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def run(
        self, task: Callable[[Item], Result], items: Iterable[Item], send: Send = ignore
    ) -> Iterator[Done[Item, Result]]:
        """Compute the items, in any order; they are taken one by one when a worker is free.

        An exception in a task is a `Failure` and stops no other; without workers there is a `WorkersLostError`. `send`
        gets what the workers report.
        """
        for item in items:
            with reported_by(send):
                result = attempt(task, item)
            yield Done(item, result)

    def __enter__(self) -> Self:
        """Start what computes."""
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop what computes."""


#: What a run computes on.
Executor: TypeAlias = SerialExecutor


def attempt(task: Callable[[Item], Result], item: Item) -> Result | Failure:
    """Return the result of `task`, or its exception as a `Failure`: it stops other items only if workers are lost."""
    try:
        return task(item)
    except WorkersLostError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is reported at the end
        return Failure(one_line(error), store=isinstance(error, OSError | StoreMismatchError))


def one_line(error: BaseException) -> str:
    """Return the kind and the text of an exception on one line."""
    text = " ".join(printable(str(error)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
