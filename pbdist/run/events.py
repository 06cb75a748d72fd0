"""What a run tells while it goes on. The driver sends these values; who listens decides how they look."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["BatchFailed", "BatchFinished", "Event", "Listener", "RunFinished", "RunStarted"]


@dataclass(frozen=True)
class RunStarted:
    """The executor is ready and the first batch about to be submitted.

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
    """

    cells: int
    cells_before: int
    batches: int
    workers: str
    dashboard: str | None


@dataclass(frozen=True)
class BatchFinished:
    """A batch is committed: its number of cells, seconds of computing, and bytes written."""

    batch: int
    cells: int
    seconds: float
    written_bytes: int


@dataclass(frozen=True)
class BatchFailed:
    """A batch could not be computed; the others go on."""

    batch: int
    cells: int
    cause: str


@dataclass(frozen=True)
class RunFinished:
    """Nothing is left to do: all cells but those of the failed batches are committed."""

    cells: int
    failed_cells: int


Event: TypeAlias = RunStarted | BatchFinished | BatchFailed | RunFinished
Listener: TypeAlias = Callable[[Event], None]
