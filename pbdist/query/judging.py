"""How far the bounds in a store reach the tolerance of its study."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pbdist.errors import StoreDamagedError
from pbdist.query.stored import Parts
from pbdist.results import Bracket, log_relative_width
from pbdist.rounding import rounded_down, rounded_up
from pbdist.store import StoredStudy
from pbdist.store.layout import BOUNDS, WITHIN
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import Direction, FloatArray, JsonValue


@dataclass(frozen=True)
class WidestBracket:
    """The point with the largest upper / lower - 1 of those that miss the tolerance; ε in nats.

    `direction` is ``both`` for the larger of the two, or the name of one where the study judges each.
    """

    cell: Cell
    compositions: int
    epsilon: float
    direction: str
    bracket: Bracket


@dataclass(frozen=True)
class Precision:
    """How far a tolerance was reached.

    A point counts as missed if its larger direction is wide, or one of them where the study judges each; as asked for
    if the upper bound in that direction exceeds the study's floor.

    Attributes
    ----------
    points
        Number of computed points that were asked for.
    missed
        Those of them that miss the tolerance.
    widest
        The widest of these; None where none is missed.
    unreadable
        Number of cells whose files cannot be read.
    """

    points: int
    missed: int
    widest: WidestBracket | None
    unreadable: int = 0


def reached_precision(study: Parts, wanted: StudySpec | None = None, *, recorded: bool = False) -> Precision:
    """Compare the brackets of a stored study with its tolerance; without one, no point counts.

    Parameters
    ----------
    study
        The study in a store.
    wanted
        A study that the store contains, to which the comparison is confined. By default all of it.
    recorded
        Whether to take the numbers of points from the details of the batches, without reading bounds that have not
        missed the tolerance. Only where all of the study is wanted. What cannot be read is counted.

    Raises
    ------
    StoreDamagedError
        The stored values cannot be read.
    """
    if wanted is not None and wanted.digest == study.spec.digest:
        wanted = None
    if recorded and wanted is None:
        return recorded_precision(study.recorded_points())
    own = None if wanted is None else (set(wanted.cells), set(wanted.compositions), set(wanted.epsilon))
    return _total(_of_batch(stored, cells, own) for stored, cells in study.committed_batches())


def recorded_precision(batches: Iterable[tuple[StoredStudy, range, int, int]]) -> Precision:
    """Return the precision by the details of batches, as `Parts.recorded_points` yields them.

    Only bounds that have missed the tolerance are read; what cannot be read is counted.
    """
    points = missed = unreadable = 0
    found = []
    for stored, cells, sought, wider in batches:
        points, missed = points + sought, missed + wider
        try:
            found += [_of_batch(stored, cells)] if wider else []
        except StoreDamagedError:
            unreadable += len(cells)
    return replace(_total(found), points=points, missed=missed, unreadable=unreadable)


def _total(found: Iterable[Precision]) -> Precision:
    """Return the precision of several batches together."""
    points = missed = 0
    wide = []
    for one in found:
        points, missed = points + one.points, missed + one.missed
        wide += [] if one.widest is None else [one.widest]
    return Precision(points, missed, max(wide, key=lambda one: one.bracket.relative_width, default=None))


def precision_line(tolerance: float, precision: Precision) -> str:
    """Return in one sentence at how many of the points asked for the tolerance is missed, and where most."""
    if not precision.points and not precision.missed:
        return f"upper / lower - 1 <= {tolerance:g} is not judged yet: no point that it is asked of is computed"
    worst, where = precision.widest, f"{precision.points:,} points (noise setting, r, ε) asked for"
    missed = f"upper / lower - 1 > {tolerance:g} at {precision.missed:,} of {where}"
    if worst is None:
        # The details of a batch may count points whose bounds cannot be read.
        return missed if precision.missed else f"upper / lower - 1 <= {tolerance:g} at all {where}"
    ratio = "infinite" if math.isinf(worst.bracket.relative_width) else f"{worst.bracket.relative_width:.3g}"
    low, high = rounded_down(worst.bracket.lower, 3), rounded_up(worst.bracket.upper, 3)
    at = f"r = {worst.compositions}, ε = {worst.epsilon:.6g}"
    if worst.direction != "both":
        at += f", {worst.direction}"
    return f"{missed}, at worst {ratio}: {worst.cell.describe()}, {at}, δ from {low} to {high}"


def precision_as_json(tolerance: float, precision: Precision) -> dict[str, JsonValue]:
    """Return the same in the types of JSON; None for a ratio that is not finite."""
    worst = precision.widest
    return {
        "tolerance": tolerance,
        "asked": precision.points,
        "missed": precision.missed,
        "unreadable_cells": precision.unreadable,
        "widest": None
        if worst is None
        else {
            "setting": worst.cell.describe(),
            "compositions": worst.compositions,
            "epsilon": worst.epsilon,
            "direction": worst.direction,
            "ratio": worst.bracket.relative_width if math.isfinite(worst.bracket.relative_width) else None,
            "delta_lower": worst.bracket.lower,
            "delta_upper": worst.bracket.upper,
        },
    }


#: Cells, r and ε for look-up.
_Wanted: TypeAlias = tuple[set[Cell], set[int], set[float]]


def _of_batch(stored: StoredStudy, cells: range, wanted: _Wanted | None = None) -> Precision:
    """Return the precision of one batch, or of those of its points that are wanted."""
    part, failed = stored.study, stored.failures(cells.start // stored.cells_per_batch)
    sought = [cell for cell in cells if cell not in failed and part.requires_tolerance_of(part.cells[cell])]
    if wanted is not None:
        sought = [cell for cell in sought if part.cells[cell] in wanted[0]]
    if not sought:
        return Precision(0, 0, None)
    rows, whole = np.array(sought) - cells.start, slice(cells.start, cells.stop)
    both = part.direction == "both"

    def judged(name: str) -> FloatArray:
        """Return an array of bounds as they are judged: over cells, directions (or one), r and ε."""
        values = stored.values(name, whole)[rows]
        return np.asarray(values.max(axis=1, keepdims=True) if both else values)

    upper = judged("log_delta_upper")
    asked = upper > log_floor(part)
    if wanted is not None:
        asked &= np.array([r in wanted[1] for r in part.compositions])[:, None]
        asked &= np.array([epsilon in wanted[2] for epsilon in part.epsilon])
    wide = asked & ~stored.values(WITHIN, whole)[rows][:, : upper.shape[1]]
    points, missed = (int(np.count_nonzero(which.any(axis=1))) for which in (asked, wide))
    if not missed:
        return Precision(points, 0, None)
    values = {name: upper if name == "log_delta_upper" else judged(name) for name in BOUNDS}
    ratio = np.where(wide, log_relative_width(values["log_delta_lower"], upper), -1.0)
    largest = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    row, axis, r, e = (int(index) for index in largest)
    widest = WidestBracket(
        cell=part.cells[sought[row]],
        compositions=part.compositions[r],
        epsilon=part.epsilon[e],
        direction="both" if both else list(Direction)[axis].value,
        bracket=Bracket(**{name.replace("delta_", ""): float(one[largest]) for name, one in values.items()}),
    )
    return Precision(points, missed, widest)
