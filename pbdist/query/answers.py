"""Bound δ, ε and r by stored points, also between them, and say how wide the bounds are.

A stored point is answered as it is stored. Between stored ε the rules of `pbdist.query.convex_delta` hold. Between
stored r the next larger one gives the upper bound and the smaller ones the lower bound, as δ does not fall with r.
Between settings the rules of `pbdist.query.settings` hold. Of several bounds the best counts.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pbdist.curves.tradeoff import SupportCurve, state_tradeoff, wholes_of
from pbdist.mechanisms import Pair
from pbdist.pld import PairState
from pbdist.pld.engine import delta_above, delta_below
from pbdist.query.convex_delta import Curve, log_above, log_below
from pbdist.query.settings import Setting
from pbdist.query.stored import PairPoints
from pbdist.results import DeltaBounds, log_relative_width
from pbdist.rounding import brief, rounded_down, rounded_up
from pbdist.store.layout import BOUNDS
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

_DIRECTIONS = len(Direction)


@dataclass(frozen=True, eq=False)
class Questions:
    """Several questions: the different settings; for each question the number of its setting, and r; shape (n,)."""

    settings: Sequence[Setting]
    setting: IntArray
    compositions: IntArray

    def cell(self, index: int) -> Cell:
        """Return the cell, of the study or not, that a question is about."""
        return self.settings[int(self.setting[index])].cell

    def of_each(self, fact: Callable[[Setting], bool]) -> BoolArray:
        """Return for each question a fact about its setting."""
        return np.array([fact(setting) for setting in self.settings], dtype=bool)[self.setting]

    @property
    def judged(self) -> BoolArray:
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


class Losses(NamedTuple):
    """Some ε in nats, with floats below and above the ε that is meant, which may be no float itself."""

    nearest: FloatArray
    below: FloatArray
    above: FloatArray

    @classmethod
    def exactly(cls, epsilon: FloatArray) -> "Losses":
        """Return floats that are meant themselves."""
        return cls(epsilon, epsilon, epsilon)


class DeltaAnswers(NamedTuple):
    """Bounds on δ."""

    #: In the order of `BOUNDS`, shape (4, 2, n).
    values: FloatArray
    #: Which questions are stored points, and which have an upper bound at all; shape (n,).
    stored: BoolArray
    bounded: BoolArray
    #: Which are stored as within the tolerance, shape (2, n): the store may know that no closer bounds can be computed.
    within: BoolArray


def bound_delta(questions: Questions, losses: Losses) -> DeltaAnswers:
    """Bound δ at some ε."""
    epsilon, size = losses.nearest, losses.nearest.size
    log_lower, log_upper = np.full((_DIRECTIONS, size), -np.inf), np.full((_DIRECTIONS, size), np.inf)
    within = np.zeros((_DIRECTIONS, size), dtype=bool)
    stored, exact = np.zeros(size, dtype=bool), np.empty((len(BOUNDS), _DIRECTIONS, size))
    for points, indices in _grouped([setting.equal for setting in questions.settings], questions.setting):
        found, values, met = points.stored(questions.compositions[indices], epsilon[indices])
        stored[indices], within[:, indices] = found, met
        exact[:, :, indices[found]] = values[:, :, found]

    bounded = stored | _tighten(
        log_upper, questions, lambda curve, at: curve.log_upper(losses.below[at]), ~stored, above=True
    )
    _tighten(log_lower, questions, lambda curve, at: curve.log_lower(losses.above[at]), ~stored, above=False)
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
    return DeltaAnswers(result, stored, bounded, within)


def bound_epsilon(questions: Questions, delta: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Bound ε(δ) in both directions, shape (2, n), and say which questions have an upper bound on δ at any ε."""
    lower, upper = np.zeros((_DIRECTIONS, delta.size)), np.full((_DIRECTIONS, delta.size), np.inf)
    low, high = log_below(delta), log_above(delta)
    everywhere = np.ones(delta.size, dtype=bool)
    bounded = _tighten(upper, questions, lambda curve, at: curve.epsilon_upper(low[at]), everywhere, above=True)
    _tighten(lower, questions, lambda curve, at: curve.epsilon_lower(high[at]), everywhere, above=False)
    return lower, upper, bounded


def bound_compositions(questions: Questions, losses: Losses, delta: FloatArray) -> tuple[IntArray, FloatArray]:
    """Bound how many compositions meet (ε, δ) in both directions; the r of `questions` do not count."""
    low, high = log_below(delta), log_above(delta)
    upper = list(BOUNDS).index("delta_upper")
    allowed, refuted = np.zeros(delta.size, dtype=np.int64), np.full(delta.size, np.inf)
    everywhere = np.ones(delta.size, dtype=bool)
    for points, at, _ in _nearest(questions, everywhere, above=True, any_compositions=True):
        for row, r in enumerate(points.compositions.tolist()):
            found = [curve.log_upper(losses.below[at]) for curve in points.curves(row)]
            known, values, _ = points.stored(np.full(at.size, r), losses.nearest[at])
            held = np.maximum(*found) <= low[at]
            held |= known & (values[upper].max(axis=0) <= delta[at])
            allowed[at] = np.maximum(allowed[at], np.where(held, r, 0))
    for points, at, _ in _nearest(questions, everywhere, above=False, any_compositions=True):
        # Where δ may fall with r, refuting one r refutes no larger one.
        for row, r in enumerate(points.compositions.tolist() if points.ordered else ()):
            found = [curve.log_lower(losses.above[at]) for curve in points.curves(row)]
            most = float(r - 1)
            most = most if int(most) >= r - 1 else float(np.nextafter(most, np.inf))
            refuted[at] = np.minimum(refuted[at], np.where(np.maximum(*found) > high[at], most, np.inf))
    return allowed, refuted


def bound_errors(
    pair: Pair, compositions: int, alpha: FloatArray, known: DeltaBounds, state: PairState | None
) -> tuple[FloatArray, FloatArray]:
    """Bound the type II errors of both tests, shape (2, n), by `known` bounds on δ at some ε, and by a saved state."""
    wholes, epsilon = wholes_of([(pair, 1)], compositions), known.question["epsilon"]
    deltas = np.nan_to_num(known.lower), known.upper
    curves = [SupportCurve.from_deltas(epsilon, test, *deltas, wholes) for test in Direction]
    lower = np.stack([curve.lower_bound(alpha)[0] for curve in curves])
    upper = np.stack([curve.upper_bound(alpha)[0] for curve in curves])
    if state is not None:
        below, above = zip(*(state_tradeoff(state, test, alpha, wholes) for test in Direction), strict=True)
        lower, upper = np.maximum(lower, np.stack(below)), np.minimum(upper, np.stack(above))
    # If no change is declared to attain the pair, errors are at most those of a test that ignores the outcome.
    return lower, upper if pair.attained_by_some else np.full_like(upper, np.nextafter(1.0 - alpha, 1.0))


def _tighten(
    best: FloatArray,
    questions: Questions,
    bound: Callable[[Curve, IntArray], FloatArray],
    wanted: BoolArray,
    *,
    above: bool,
) -> BoolArray:
    """Improve bounds of both directions, in place, by the curves nearest to each question; return which had any."""
    better, bounded = np.minimum if above else np.maximum, np.zeros(wanted.size, dtype=bool)
    for points, group, rows in _nearest(questions, wanted, above=above):
        parts = [(row, rows == row, True) for row in np.unique(rows[rows >= 0]).tolist()]
        if points.ordered and not above:
            # The points of smaller r count anyway, but far from all points lines through them alone may be higher.
            parts += [(row, rows > row, False) for row in range(int(rows.max(initial=0)))]
        for row, here, saved in parts:
            at, curves = group[here], points.curves(row, saved=saved)
            first = bound(curves[0], at)
            for axis, curve in enumerate(curves):
                # A curve that both directions share is evaluated once.
                best[axis, at] = better(best[axis, at], first if curve is curves[0] else bound(curve, at))
        bounded[group[rows >= 0]] = True
    return bounded


def _nearest(
    questions: Questions, wanted: BoolArray, *, above: bool, any_compositions: bool = False
) -> Iterator[tuple[PairPoints, IntArray, IntArray]]:
    """Yield the points that bound the wanted questions, nearest first, with the questions and the row of each.

    The row is that of the stored r whose bounds hold for a question's r, -1 where there is none. As many cells are
    read as are enough: those without a row do not count, unless `any_compositions` holds, as callers take each stored
    r by itself.
    """
    # Its own cell is enough for a setting that the study has computed.
    own = [setting.equal is not None and setting.equal.gridded for setting in questions.settings]
    enough = np.where(own, 1, [setting.near for setting in questions.settings])
    open_, depth = wanted.copy(), 0
    while open_.any():
        candidates: list[PairPoints | None] = [None] * len(questions.settings)
        for number in np.unique(questions.setting[open_]).tolist():
            setting = questions.settings[number]
            side = setting.above if above else setting.below
            candidates[number] = setting.points(side[depth]) if depth < len(side) else None
        open_ &= np.array([one is not None for one in candidates], dtype=bool)[questions.setting]
        for points, whole in _grouped(candidates, questions.setting):
            group = whole[open_[whole]]
            rows = points.row(questions.compositions[group], above=above)
            if group.size and points.compositions.size:
                yield points, group, rows
            if points.gridded:
                counted = group if any_compositions else group[rows >= 0]
                open_[counted] = enough[questions.setting[counted]] > depth + 1
        depth += 1


def _grouped(points: Sequence[PairPoints | None], setting: IntArray) -> Iterator[tuple[PairPoints, IntArray]]:
    """Yield each of the points once, with the indices of the questions that they are for."""
    distinct = list({id(one): one for one in points if one is not None}.values())
    numbers = {id(one): number for number, one in enumerate(distinct)}
    group = np.array([-1 if one is None else numbers[id(one)] for one in points])[setting]
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct) + 1))
    for number, one in enumerate(distinct):
        yield one, order[starts[number] : starts[number + 1]]


def delta_within(study: StudySpec, log_lower: FloatArray, log_upper: FloatArray, stored: BoolArray) -> BoolArray:
    """Return which bounds on δ are within the tolerance of a study.

    The bounds have the shape (directions, n), or (n,) of the larger direction. `stored`, shape (2, n), says which
    points the store holds as within; it may know that no closer bounds can be computed.
    """
    if log_lower.ndim == 1:
        known = stored.all(axis=0)
    elif study.direction == "each":
        known = stored
    else:
        # The study judged the larger direction alone. That says something of the other one only where both lower bounds
        # are 0, as no closer bounds can be computed there.
        known = stored & (log_lower.max(axis=0) == -np.inf)
    width = log_relative_width(log_lower, log_upper)
    return (width <= (study.required_tolerance or 0.0)) | (log_upper <= log_floor(study)) | known


def between(name: str, lower: float, upper: float) -> str:
    """Return the bounds on a quantity in words, rounded outwards; NaN for a lower one that is not known."""
    low, high = (
        str(int(value)) if value.is_integer() else "" if math.isnan(value) else rounded(value)
        for value, rounded in ((lower, rounded_down), (upper, rounded_up))
    )
    return f"{name} is between {low} and {high}" if low else f"{name} is at most {high}, and no lower bound is known"


def widest_answer(
    wide: BoolArray, width: FloatArray, study: StudySpec, ratio: str, describe: Callable[[tuple[int, ...]], str]
) -> str | None:
    """Return in a sentence how many answers are wider than the tolerance, and which is the widest; None for none.

    `ratio` names the width that is to be at most the tolerance; `describe` returns the answer at an index in words.
    """
    if not wide.any():
        return None
    index = tuple(int(at) for at in np.unravel_index(int(np.argmax(np.where(wide, width, -1.0))), wide.shape))
    count = f"{np.count_nonzero(wide):,} of {wide.size:,} answers, most"
    by = "the answer" if wide.size == 1 else count
    tolerance = brief(study.required_tolerance or 0.0)
    return f"tolerance: expected {ratio} <= {tolerance}, missed by {by} at {describe(index)}"
