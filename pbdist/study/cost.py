"""What one cell is projected to take."""

from dataclasses import dataclass

__all__ = ["CellCost"]


@dataclass(frozen=True)
class CellCost:
    """Time and memory of one cell.

    Attributes
    ----------
    seconds
        Projected time on one core.
    peak_bytes
        Projected memory of a worker process while it computes the cell, beside that of the process itself.
    state_bytes
        Upper estimate of all its kept states; 0 where none are kept.
    """

    seconds: float
    peak_bytes: int
    state_bytes: int
