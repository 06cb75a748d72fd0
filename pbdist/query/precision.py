"""Where a study's bounds have not come as close together as its tolerance asks."""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.buckets.table import DEFAULT_FLOOR
from pbdist.query.study import Study
from pbdist.store import failed_cells, read_values
from pbdist.study import Cell
from pbdist.types import FloatArray

__all__ = ["Precision", "WidestBracket", "reached_precision"]

#: Where an upper bound is at most this, no tolerance is to be met.
_LOG_NEGLIGIBLE = math.log(DEFAULT_FLOOR)


@dataclass(frozen=True)
class WidestBracket:
    """The point with the largest upper / lower - 1 in one direction.

    Attributes
    ----------
    cell
        The noise setting.
    compositions, epsilon
        The point; ε in nats.
    ratio
        upper / lower - 1, infinite where the lower bound is 0.
    delta_lower, delta_upper
        The bounds.
    """

    cell: Cell
    compositions: int
    epsilon: float
    ratio: float
    delta_lower: float
    delta_upper: float


@dataclass(frozen=True)
class Precision:
    """How far a tolerance was reached.

    Attributes
    ----------
    points
        Number of (noise setting, r, ε) that are computed and are to meet the tolerance.
    missed
        Those whose bracket is wider in one direction or both, those with an upper bound of at most 1e-40 apart.
    widest
        The widest of these, or None where none is missed.
    """

    points: int
    missed: int
    widest: WidestBracket | None


def reached_precision(study: Study) -> Precision:
    """Compare the brackets of a study with its tolerance; without one, no point is to meet it.

    Raises
    ------
    StoreDamagedError
        The stored values cannot be read.
    """
    spec = study.spec
    points = missed = 0
    widest: WidestBracket | None = None
    tolerance = math.inf if spec.tolerance is None else spec.tolerance
    for stored, cells in study.committed_batches():
        part, failed = stored.study, failed_cells(stored, cells.start // stored.cells_per_batch)
        sought = [cell for cell in cells if cell not in failed and spec.seeks_tolerance(part.cells[cell])]
        if not sought:
            continue
        rows, whole = np.array(sought) - cells.start, slice(cells.start, cells.stop)
        lower, upper = (read_values(stored, name, whole)[rows] for name in ("log_delta_lower", "log_delta_upper"))
        ratio = _ratio(lower, upper)
        points += ratio[:, 0].size
        missed += int(np.count_nonzero((ratio > tolerance).any(axis=1)))
        largest = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        if ratio[largest] > (tolerance if widest is None else widest.ratio):
            row, _, r, e = (int(place) for place in largest)
            widest = WidestBracket(
                cell=part.cells[sought[row]],
                compositions=part.compositions[r],
                epsilon=part.epsilon[e],
                ratio=float(ratio[largest]),
                delta_lower=float(read_values(stored, "delta_lower", whole)[rows][largest]),
                delta_upper=float(read_values(stored, "delta_upper", whole)[rows][largest]),
            )
    return Precision(points, missed, widest)


def _ratio(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return upper / lower - 1 of logarithms, 0 where δ is negligible."""
    counts = (upper > _LOG_NEGLIGIBLE) & (upper > lower)
    gap = np.subtract(upper, lower, out=np.zeros_like(upper), where=counts)
    return np.where(gap < 700.0, np.expm1(np.minimum(gap, 700.0)), np.inf)
