"""Bound δ, ε and r by stored points, also between them, and judge how wide the bounds are.

A stored point is answered as it is stored. Between stored ε the rules of `pbdist.query.convex_delta` hold. Between
stored r the next larger one gives the upper bound and the next smaller one the lower bound, as δ does not fall with r.
Between settings the rules of `pbdist.query.settings` hold. Of several bounds the best counts.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pbdist.errors import PrecisionError, PrecisionWarning
from pbdist.pld.engine import delta_above, delta_below
from pbdist.query.convex_delta import Curve, log_above, log_below
from pbdist.query.settings import Setting
from pbdist.query.stored import PairPoints
from pbdist.results import log_relative_width
from pbdist.rounding import rounded_down, rounded_up
from pbdist.store.layout import BOUNDS
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

_DIRECTIONS = len(Direction)
#: Why an answer is wide: `DeltaBounds.why_wide`.
BETWEEN = "between stored points"
MISSED = "the study missed its tolerance there"
FACTOR = "a factor takes the place of the tolerance"


@dataclass(frozen=True, eq=False)
class Questions:
    """Several questions: the different settings; for each question the number of its setting, and r; shape (n,)."""

    settings: Sequence[Setting]
    setting: IntArray
    compositions: IntArray

    def cell(self, index: int) -> Cell:
        """Return the cell, of the study or not, that a question is about."""
        return self.settings[int(self.setting[index])].cell

    def of_each(self, known: Callable[[Setting], bool]) -> BoolArray:
        """Return for each question what is known of its setting."""
        return np.array([known(setting) for setting in self.settings], dtype=bool)[self.setting]

    @property
    def sought(self) -> BoolArray:
        """Which questions the study's tolerance is for: a cell with a factor of its own has none."""
        return self.of_each(lambda setting: setting.cell.factor is None)

    @property
    def attained(self) -> BoolArray:
        """For which questions a lower bound can be known: see `Pair.attained_by_some`."""
        return self.of_each(lambda setting: setting.cell.pair.attained_by_some)

    @property
    def enclosed(self) -> BoolArray:
        """For which questions bounds come from two pairs, so that none are closer than these."""
        return self.of_each(lambda setting: any(not there for _, there in setting.cell.pair.choices))

    def point(self, index: int, epsilon: float) -> tuple[Cell, int, float]:
        """Return the cell, r and an ε of a question."""
        return self.cell(index), int(self.compositions[index]), epsilon


def bound_delta(
    asked: Questions, epsilon: FloatArray, around: tuple[FloatArray, FloatArray] | None = None
) -> tuple[FloatArray, BoolArray, BoolArray, BoolArray]:
    """Bound δ at some ε in nats; `around` has floats below and above the ε that is meant, where that is no float.

    Returns
    -------
    values : ndarray, shape (4, 2, n)
        In the order of `BOUNDS`.
    stored, bounded : ndarray of bool, shape (n,)
        Which questions are stored points, and which have an upper bound at all.
    within : ndarray of bool, shape (2, n)
        Which are stored as within the tolerance: the store may know that no closer bounds can be computed.
    """
    size = epsilon.size
    below, above = (epsilon, epsilon) if around is None else around
    log_lower, log_upper = np.full((_DIRECTIONS, size), -np.inf), np.full((_DIRECTIONS, size), np.inf)
    within = np.zeros((_DIRECTIONS, size), dtype=bool)
    stored, exact = np.zeros(size, dtype=bool), np.empty((len(BOUNDS), _DIRECTIONS, size))
    for points, indices in _grouped([setting.equal for setting in asked.settings], asked.setting):
        found, values, met = points.stored(asked.compositions[indices], epsilon[indices])
        stored[indices], within[:, indices] = found, met
        exact[:, :, indices[found]] = values[:, :, found]

    bounded = stored | _tighten(log_upper, asked, lambda curve, at: curve.log_upper(below[at]), ~stored, above=True)
    _tighten(log_lower, asked, lambda curve, at: curve.log_lower(above[at]), ~stored, above=False)
    with np.errstate(over="ignore"):
        upper = delta_above(log_upper)
    bounds = {
        "delta_lower": delta_below(log_lower),
        "delta_upper": np.where(log_upper <= 0.0, np.minimum(upper, 1.0), upper),
        "log_delta_lower": log_lower,
        "log_delta_upper": log_upper,
    }
    result = np.stack([bounds[name] for name in BOUNDS])
    result[:, :, stored] = exact[:, :, stored]
    return result, stored, bounded, within


def bound_epsilon(asked: Questions, delta: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Bound ε(δ) in both directions, shape (2, n); and tell which questions have an upper bound on δ at any ε."""
    lower, upper = np.zeros((_DIRECTIONS, delta.size)), np.full((_DIRECTIONS, delta.size), np.inf)
    low, high = log_below(delta), log_above(delta)

    everywhere = np.ones(delta.size, dtype=bool)
    bounded = _tighten(upper, asked, lambda curve, at: curve.epsilon_upper(low[at]), everywhere, above=True)
    _tighten(lower, asked, lambda curve, at: curve.epsilon_lower(high[at]), everywhere, above=False)
    return lower, upper, bounded


def bound_compositions(
    asked: Questions,
    epsilon: FloatArray,
    delta: FloatArray,
    around: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[IntArray, FloatArray]:
    """Bound how many rounds meet (ε, δ) in both directions; the r of `asked` do not count."""
    below, above = (epsilon, epsilon) if around is None else around
    low, high = log_below(delta), log_above(delta)
    allowed, refuted = np.zeros(delta.size, dtype=np.int64), np.full(delta.size, np.inf)
    everywhere = np.ones(delta.size, dtype=bool)
    for points, indices, _ in _nearest(asked, everywhere, above=True, any_rounds=True):
        for row, r in enumerate(points.compositions.tolist()):
            found = [curve.log_upper(below[indices]) for curve in points.curves(row)]
            known, values, _ = points.stored(np.full(indices.size, r), epsilon[indices])
            held = np.maximum(*found) <= low[indices]
            held |= known & (values[_UPPER].max(axis=0) <= delta[indices])
            allowed[indices] = np.maximum(allowed[indices], np.where(held, r, 0))
    for points, indices, _ in _nearest(asked, everywhere, above=False, any_rounds=True):
        # Where δ may fall with r, refuting one r refutes no larger one.
        for row, r in enumerate(points.compositions.tolist() if points.ordered else ()):
            found = [curve.log_lower(above[indices]) for curve in points.curves(row)]
            most = float(r - 1)
            most = most if int(most) >= r - 1 else float(np.nextafter(most, np.inf))
            failed = np.maximum(*found) > high[indices]
            refuted[indices] = np.minimum(refuted[indices], np.where(failed, most, np.inf))
    return allowed, refuted


_UPPER = list(BOUNDS).index("delta_upper")


def _tighten(
    best: FloatArray, asked: Questions, ask: Callable[[Curve, IntArray], FloatArray], wanted: BoolArray, *, above: bool
) -> BoolArray:
    """Better some bounds of both directions, in place, by the curves nearest to each question; return which had any."""
    better, bounded = np.minimum if above else np.maximum, np.zeros(wanted.size, dtype=bool)
    for points, group, rows in _nearest(asked, wanted, above=above):
        for row in np.unique(rows[rows >= 0]).tolist():
            at, curves = group[rows == row], points.curves(row)
            first = ask(curves[0], at)
            for axis, curve in enumerate(curves):
                # A curve that both directions share is evaluated once.
                best[axis, at] = better(best[axis, at], first if curve is curves[0] else ask(curve, at))
        bounded[group[rows >= 0]] = True
    return bounded


def _nearest(
    asked: Questions, wanted: BoolArray, *, above: bool, any_rounds: bool = False
) -> Iterator[tuple[PairPoints, IntArray, IntArray]]:
    """Yield the points that bound the wanted questions, nearest first, with the questions and the row of each.

    The row is that of the stored r whose bounds hold for a question's r, -1 where there is none. As many cells are
    read as are enough: those without a row do not count, but where `any_rounds` holds, as callers take each stored r
    by itself.
    """
    # Its own cell is enough for a setting that the study has computed.
    own = [setting.equal is not None and setting.equal.gridded for setting in asked.settings]
    enough = np.where(own, 1, [setting.near for setting in asked.settings])
    open_, depth = wanted.copy(), 0
    while open_.any():
        candidates: list[PairPoints | None] = [None] * len(asked.settings)
        for number in np.unique(asked.setting[open_]).tolist():
            side = asked.settings[number].above if above else asked.settings[number].below
            candidates[number] = side[depth] if depth < len(side) else None
        open_ &= np.array([one is not None for one in candidates], dtype=bool)[asked.setting]
        for points, whole in _grouped(candidates, asked.setting):
            group = whole[open_[whole]]
            rows = (points.row_above if above else points.row_below)(asked.compositions[group])
            if group.size and points.compositions.size:
                yield points, group, rows
            if points.gridded:
                counted = group if any_rounds else group[rows >= 0]
                open_[counted] = enough[asked.setting[counted]] > depth + 1
        depth += 1


def _grouped(points: Sequence[PairPoints | None], setting: IntArray) -> Iterator[tuple[PairPoints, IntArray]]:
    """Yield each of the points once, with the indices of the questions that they are for."""
    distinct = list({id(one): one for one in points if one is not None}.values())
    numbers = {id(one): number for number, one in enumerate(distinct)}
    of_setting = np.array([-1 if one is None else numbers[id(one)] for one in points])
    group = of_setting[setting]
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct) + 1))
    for number, one in enumerate(distinct):
        yield one, order[starts[number] : starts[number + 1]]


def delta_within(
    study: StudySpec, log_lower: FloatArray, log_upper: FloatArray, stored: BoolArray
) -> tuple[BoolArray, FloatArray] | None:
    """Return which answers on δ are within the tolerance, and upper / lower - 1; None where the study has none.

    The bounds have the shape (directions, n), or (n,) of the larger direction. `stored`, shape (2, n), says which
    points the store holds as within; it may know that no closer bounds can be computed.
    """
    if study.required_tolerance is None:
        return None
    width = log_relative_width(log_lower, log_upper)
    if log_lower.ndim == 1:
        known = stored.all(axis=0)
    elif study.direction == "each":
        known = stored
    else:
        # The study judged the larger direction alone. That says something of the other one only where both lower bounds
        # are 0, as no closer bounds can be computed there.
        known = stored & (log_lower.max(axis=0) == -np.inf)
    return (width <= study.required_tolerance) | (log_upper <= log_floor(study)) | known, width


def between(name: str, lower: float, upper: float) -> str:
    """Return the bounds on a quantity in words, rounded outwards; a lower one that is not known is no number."""
    if math.isnan(lower):
        return f"{name} is at most {_told(upper, rounded_up)}, and no lower bound is known"
    return f"{name} is between {_told(lower, rounded_down)} and {_told(upper, rounded_up)}"


def _told(value: float, rounded: Callable[[float], str]) -> str:
    return str(int(value)) if value.is_integer() else rounded(value)


def missed_by(
    missed: BoolArray, width: FloatArray, study: StudySpec, what: str, worst: Callable[[tuple[int, ...]], str]
) -> str | None:
    """Return in a sentence how many answers are wider than the tolerance, and which is the widest; None for none.

    `what` names the width that is to be at most the tolerance; `worst` describes the answer at an index.
    """
    if not missed.any():
        return None
    index = tuple(int(at) for at in np.unravel_index(int(np.argmax(np.where(missed, width, -1.0))), missed.shape))
    count = int(np.count_nonzero(missed))
    by = "the answer" if missed.size == 1 else f"{count:,} of {missed.size:,} answers, most"
    return f"tolerance: expected {what} <= {study.required_tolerance:g}, missed by {by} at {worst(index)}"


def tell(missed: str | None, *, strict: bool | Literal["silent"], depth: int = 3) -> None:
    """Warn of wide answers, raise `PrecisionError` if `strict`, or say nothing if it is ``"silent"``.

    The warning names the line `depth` frames up: by default the caller of the function that calls this.
    """
    if missed is None or strict == "silent":
        return
    if strict:
        raise PrecisionError(missed)
    warnings.warn(missed, PrecisionWarning, stacklevel=depth)


def frozen(values: Any) -> Any:
    """Return an array that is read-only."""
    values = np.asarray(values)
    values.setflags(write=False)
    return values
