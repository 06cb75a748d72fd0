"""Where a study's bounds have not come as close together as its tolerance asks."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pbdist.errors import StoreDamagedError
from pbdist.query.study import Study
from pbdist.store import StoredStudy, failed_cells, read_values, read_within
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import log_floor, relative_width
from pbdist.types import Direction, FloatArray

__all__ = ["Precision", "WidestBracket", "precision_of", "reached_precision", "total"]


@dataclass(frozen=True)
class WidestBracket:
    """The point with the largest upper / lower - 1 of those that miss the tolerance.

    Attributes
    ----------
    cell
        The noise setting.
    compositions, epsilon
        The point; ε in nats.
    direction
        ``both``, the larger of the two directions, or the name of one where the study judges each.
    ratio
        upper / lower - 1, infinite where the lower bound is 0.
    delta_lower, delta_upper
        The bounds.
    """

    cell: Cell
    compositions: int
    epsilon: float
    direction: str
    ratio: float
    delta_lower: float
    delta_upper: float


@dataclass(frozen=True)
class Precision:
    """How far a tolerance was reached.

    Attributes
    ----------
    points
        Number of (noise setting, r, ε) that are computed and were asked for: those whose upper bound exceeds the
        study's floor, in the larger direction, or in one of them where the study judges each.
    missed
        Those of them that miss the tolerance, the larger direction, or one of them where the study judges each.
    widest
        The widest of these, or None where none is missed.
    unreadable
        Number of noise settings of which nothing can be told, as their files cannot be read.
    """

    points: int
    missed: int
    widest: WidestBracket | None
    unreadable: int = 0


def reached_precision(study: Study, wanted: StudySpec | None = None) -> Precision:
    """Compare the brackets of a study with its tolerance; without one, no point is to meet it.

    Parameters
    ----------
    study
        The study in a store.
    wanted
        A study that the store contains: its points alone are looked at. By default all.

    Raises
    ------
    StoreDamagedError
        The stored values cannot be read.
    """
    if wanted is not None and wanted.digest == study.spec.digest:
        wanted = None
    return precision_of(study.committed_batches(), wanted)


def precision_of(
    batches: Iterable[tuple[StoredStudy, range]], wanted: StudySpec | None = None, *, lenient: bool = False
) -> Precision:
    """Return how far the tolerance was reached in some batches, by their part and their cells.

    Parameters
    ----------
    batches
        Committed ones.
    wanted
        The study whose points are looked at; by default all are.
    lenient
        Whether what cannot be read is counted, and no error.

    Raises
    ------
    StoreDamagedError
        Something cannot be read.
    """
    own = None if wanted is None else _Wanted(wanted)
    return total(_of_batch(stored, cells, own, lenient=lenient) for stored, cells in batches)


def total(parts: Iterable[Precision]) -> Precision:
    """Return what is told of several parts together."""
    points = missed = unreadable = 0
    widest: WidestBracket | None = None
    for found in parts:
        points, missed, unreadable = points + found.points, missed + found.missed, unreadable + found.unreadable
        if found.widest is not None and (widest is None or found.widest.ratio > widest.ratio):
            widest = found.widest
    return Precision(points, missed, widest, unreadable)


class _Wanted:
    """The points of a study."""

    def __init__(self, study: StudySpec) -> None:
        self.cells, self.compositions, self.epsilon = set(study.cells), set(study.compositions), set(study.epsilon)


def _of_batch(stored: StoredStudy, cells: range, wanted: _Wanted | None, *, lenient: bool) -> Precision:
    try:
        return _judged(stored, cells, wanted)
    except StoreDamagedError:
        if not lenient:
            raise
        return Precision(0, 0, None, len(cells))


def _judged(stored: StoredStudy, cells: range, wanted: _Wanted | None) -> Precision:
    part, failed = stored.study, failed_cells(stored, cells.start // stored.cells_per_batch)
    sought = [cell for cell in cells if cell not in failed and part.seeks_tolerance(part.cells[cell])]
    if wanted is not None:
        sought = [cell for cell in sought if part.cells[cell] in wanted.cells]
    if not sought:
        return Precision(0, 0, None)
    rows, whole = np.array(sought) - cells.start, slice(cells.start, cells.stop)
    both = part.direction == "both"

    def judged(name: str) -> FloatArray:
        """Return an array of bounds as they are judged: over cells, directions (or one), r and ε."""
        values = read_values(stored, name, whole)[rows]
        return np.asarray(values.max(axis=1, keepdims=True) if both else values)

    upper = judged("log_delta_upper")
    asked = upper > log_floor(part)
    if wanted is not None:
        asked &= np.array([r in wanted.compositions for r in part.compositions])[:, None]
        asked &= np.array([epsilon in wanted.epsilon for epsilon in part.epsilon])
    wide = asked & ~read_within(stored, whole)[rows][:, : upper.shape[1]]
    points, missed = (int(np.count_nonzero(which.any(axis=1))) for which in (asked, wide))
    if not missed:
        return Precision(points, 0, None)
    ratio = np.where(wide, relative_width(judged("log_delta_lower"), upper), -1.0)
    largest = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    row, axis, r, e = (int(place) for place in largest)
    return Precision(
        points,
        missed,
        WidestBracket(
            cell=part.cells[sought[row]],
            compositions=part.compositions[r],
            epsilon=part.epsilon[e],
            direction="both" if both else list(Direction)[axis].value,
            ratio=float(ratio[largest]),
            delta_lower=float(judged("delta_lower")[largest]),
            delta_upper=float(judged("delta_upper")[largest]),
        ),
    )
