"""Events of a run, which the driver sends to its listener."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class WorkersAwaited:
    """The executor has been starting for so many seconds; sent regularly."""

    seconds: float


@dataclass(frozen=True)
class RunStarted:
    """The executor is ready, and the first task follows.

    Attributes
    ----------
    cells
        All cells of the study.
    cells_before
        Cells that were committed before.
    batches
        The batches that are left.
    workers
        Where tasks are computed, as text.
    dashboard
        The address of the dashboard, or None.
    store
        The absolute path or the URL of the store.
    seconds
        Projected time of the batches that are left, on one core of the workers, whose speed was measured.
    """

    cells: int
    cells_before: int
    batches: int
    workers: str
    dashboard: str | None
    store: str
    seconds: float


@dataclass(frozen=True)
class BatchFinished:
    """A batch is committed.

    Attributes
    ----------
    part
        The part of the store that the batch belongs to; empty for the first part.
    batch, first, stop
        Its number in the part, its first cell there, and the one after its last.
    settings
        Its first and its last cell, as text.
    seconds, kernel_seconds
        Time in the worker: all of it, and the part for computing bounds.
    projected_seconds
        Its part of `RunStarted.seconds`.
    written_bytes
        Bytes written.
    failed_cells
        How many of its cells could not be computed; each had a `CellFailed` before.
    worker
        The worker that computed it.
    """

    part: str
    batch: int
    first: int
    stop: int
    settings: tuple[str, str]
    seconds: float
    kernel_seconds: float
    projected_seconds: float
    written_bytes: int
    failed_cells: int
    worker: str

    @property
    def cells(self) -> int:
        """Cells of the batch."""
        return self.stop - self.first


@dataclass(frozen=True)
class CellAtWork:
    """A cell that takes long and is being computed.

    Attributes
    ----------
    part, cell
        The part of the store, and the number of the cell in it.
    setting
        The cell's description, as short text.
    seconds
        How long it has been computed.
    step
        The last step of the computation that was reached, as in ``r = 4,096 of 1,048,576``; empty where none is known.
    silent_seconds
        The time since its worker's last report.
    worker
        The worker that computes it.
    """

    part: str
    cell: int
    setting: str
    seconds: float
    step: str
    silent_seconds: float
    worker: str


@dataclass(frozen=True)
class StillComputing:
    """The run goes on: sent regularly by the driver's clock.

    Attributes
    ----------
    seconds
        Since the run started, on the driver's clock.
    cells, cells_done
        All cells of the study, and those that are committed or have failed.
    at_work
        Cells that take long, the longest first.
    more
        How many more of them there are.
    """

    seconds: float
    cells: int
    cells_done: int
    at_work: tuple[CellAtWork, ...]
    more: int


@dataclass(frozen=True)
class CellFailed:
    """A cell could not be computed; the other cells of its batch were.

    Attributes
    ----------
    part, cell
        The part of the store, and the number of the cell in it.
    setting
        The cell's description, as text.
    cause
        The exception on one line.
    traceback
        Its traceback; empty where the worker was killed.
    """

    part: str
    cell: int
    setting: str
    cause: str
    traceback: str


@dataclass(frozen=True)
class BatchFailed:
    """A batch could not be written; other batches go on."""

    part: str
    batch: int
    cells: int
    cause: str


@dataclass(frozen=True)
class StoreUnreachable:
    """The store cannot be reached or has no room, and is tried again; sent once in each outage.

    Attributes
    ----------
    since
        The time at which the outage was found, in UTC.
    cause
        The exception on one line.
    patience
        How long the run waits for it, in seconds.
    full
        Whether it has no room.
    """

    since: str
    cause: str
    patience: float
    full: bool


@dataclass(frozen=True)
class StoreReached:
    """The store can be written again, after so many seconds; `full` tells whether it had no room."""

    seconds: float
    full: bool


@dataclass(frozen=True)
class SchedulerUnreachable:
    """The connection to a scheduler that somebody else runs is lost; the run waits for it to come back.

    Attributes
    ----------
    since
        The time at which the loss was found, in UTC.
    scheduler
        Its address, or the file that has it.
    patience
        How long the run waits for it, in seconds.
    """

    since: str
    scheduler: str
    patience: float


@dataclass(frozen=True)
class SchedulerReached:
    """The scheduler is reached again.

    Attributes
    ----------
    seconds
        How long it was away.
    submitted_again
        Tasks that had no result yet.
    """

    seconds: float
    submitted_again: int


@dataclass(frozen=True)
class WorkerRefused:
    """A worker was refused: which, and why."""

    cause: str


@dataclass(frozen=True)
class CleanUpFailed:
    """Something could not be removed or stopped at the end; the results are not affected."""

    cause: str


@dataclass(frozen=True)
class RunFinished:
    """The run is over: all cells are committed but those that failed.

    Attributes
    ----------
    cells, failed_cells
        All cells of the study, and those that failed.
    seconds
        Since the run started, on the driver's clock.
    worker_seconds, kernel_seconds
        Sums over the batches of this run.
    written_bytes
        Bytes written by this run.
    """

    cells: int
    failed_cells: int
    seconds: float
    worker_seconds: float
    kernel_seconds: float
    written_bytes: int


Event: TypeAlias = (
    WorkersAwaited
    | RunStarted
    | BatchFinished
    | StillComputing
    | CellFailed
    | BatchFailed
    | StoreUnreachable
    | StoreReached
    | SchedulerUnreachable
    | SchedulerReached
    | WorkerRefused
    | CleanUpFailed
    | RunFinished
)
Listener: TypeAlias = Callable[[Event], None]
