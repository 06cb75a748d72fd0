"""What a run tells while it goes on. The driver sends these values; who listens decides how they look."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "BatchFailed",
    "BatchFinished",
    "CellAtWork",
    "CellFailed",
    "CleanUpFailed",
    "Event",
    "Listener",
    "RunFinished",
    "RunStarted",
    "StillComputing",
    "StoreReached",
    "StoreUnreachable",
    "WorkerRefused",
    "WorkersAwaited",
]


@dataclass(frozen=True)
class WorkersAwaited:
    """The executor is still starting, after so many seconds; told again and again."""

    seconds: float


@dataclass(frozen=True)
class RunStarted:
    """The executor is ready and the first task about to be submitted.

    Attributes
    ----------
    cells
        All cells of the study.
    cells_before
        Those that an earlier run has committed.
    batches
        The batches that are left.
    workers
        Text that tells where the work is done.
    dashboard
        The address of the dashboard, or None.
    store
        Where the store is: an absolute path or a URL.
    seconds
        What the batches that are left are projected to take on one core, by a model that was calibrated on the workers.
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
        The part of the store that the batch belongs to: empty for the first one.
    batch, first, stop
        Its number in the part, its first cell there, and the one after its last.
    settings
        The first and the last of its noise settings, as text.
    seconds, kernel_seconds
        Time in the worker: all, and what of it was spent computing bounds.
    projected_seconds
        What the calibrated model had said of it when the run started, on the scale of `RunStarted.seconds`.
    written_bytes
        Bytes written.
    failed_cells
        How many of its cells could not be computed; each is told by a `CellFailed` before.
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
    """A cell that takes long, and is being computed.

    Attributes
    ----------
    part, cell
        The part of the store, and the number of the cell in it.
    setting
        The noise setting, as short text.
    seconds
        For how long it has been computed.
    step
        The last step of the computation that was reached, as in ``r = 4,096 of 1,048,576``; empty where none is known.
    silent_seconds
        How long ago its worker has told so.
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
    """The run goes on: told again and again by the driver's own clock, whatever is done.

    Attributes
    ----------
    seconds
        Since the run started, on the driver's clock.
    cells, cells_done
        All cells of the study, and those that nothing is to be done for any more.
    at_work
        Cells that take long, those first that have been at work for the longest time.
    more
        How many more there are.
    """

    seconds: float
    cells: int
    cells_done: int
    at_work: tuple[CellAtWork, ...]
    more: int


@dataclass(frozen=True)
class CellFailed:
    """A cell could not be computed; the others of its batch were.

    Attributes
    ----------
    part, cell
        The part of the store, and the number of the cell in it.
    setting
        The noise setting, as text.
    cause
        The exception on one line.
    traceback
        Its traceback; empty where there is none, because the worker was killed.
    """

    part: str
    cell: int
    setting: str
    cause: str
    traceback: str


@dataclass(frozen=True)
class BatchFailed:
    """A batch could not be written; the others go on."""

    part: str
    batch: int
    cells: int
    cause: str


@dataclass(frozen=True)
class StoreUnreachable:
    """The store cannot be reached, and is tried again; told once, until it is reached again.

    Attributes
    ----------
    since
        When that was found out, in UTC.
    cause
        The exception on one line.
    patience
        For how many seconds it is waited for.
    """

    since: str
    cause: str
    patience: float


@dataclass(frozen=True)
class StoreReached:
    """The store is reached again, after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class WorkerRefused:
    """A worker is not worked with: which, and why."""

    cause: str


@dataclass(frozen=True)
class CleanUpFailed:
    """Something was left behind at the end; what was computed is not concerned."""

    cause: str


@dataclass(frozen=True)
class RunFinished:
    """Nothing is left to do: all cells but those that failed are committed.

    Attributes
    ----------
    cells, failed_cells
        Cells of the study, and those that are not computed.
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
    | WorkerRefused
    | CleanUpFailed
    | RunFinished
)
Listener: TypeAlias = Callable[[Event], None]
