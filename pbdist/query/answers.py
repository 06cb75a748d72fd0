"""Sound answers off the grid: what the stored points say of any ε, of r between them, and of noise that is ordered.

By the rules of `pbdist.query.curve` in ε; in r an upper bound is that of the next stored r, a lower bound that of the
last one, as δ does not fall with r; between noise settings by those of `pbdist.query.settings`. Of several bounds the
best counts. A point that is stored is answered as it is stored.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.pld.engine import delta_above, delta_below
from pbdist.query.curve import Curve, log_above, log_below
from pbdist.query.points import PairPoints
from pbdist.query.settings import Setting
from pbdist.store.layout import BOUNDS
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = [
    "CompositionBounds",
    "DeltaBounds",
    "EpsilonBounds",
    "Questions",
    "bound_compositions",
    "bound_delta",
    "bound_epsilon",
    "stored_within",
]

_DIRECTIONS = len(Direction)


@dataclass(frozen=True, eq=False)
class DeltaBounds:
    """Certified bounds on δ, and on its natural logarithm; rounded outwards, read-only.

    Attributes
    ----------
    lower, upper, log_lower, log_upper
        Of the shape that the arguments of the query have together; with ``direction="each"`` a leading axis of A||B
        and B||A. The logarithm of 0 is -inf.
    within_tolerance
        Of the same shape: whether upper / lower - 1 is at most the study's tolerance, or the upper bound at most its
        floor, or the study knows that no better is to be had. None where the study has no tolerance.
    """

    lower: FloatArray
    upper: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
    within_tolerance: BoolArray | None = None


@dataclass(frozen=True, eq=False)
class EpsilonBounds:
    """Certified bounds on ε(δ), the smallest ε with which δ is met; nats, read-only.

    Attributes
    ----------
    lower
        Just below it the lower bound on δ exceeds what is asked for, or it is 0.
    upper
        There the upper bound on δ is at most what is asked for; infinite where none in the store is.
    within_tolerance
        Whether upper / lower - 1 is at most the study's tolerance; None where the study has none.
    """

    lower: FloatArray
    upper: FloatArray
    within_tolerance: BoolArray | None = None


@dataclass(frozen=True, eq=False)
class CompositionBounds:
    """How many rounds are allowed; read-only.

    Attributes
    ----------
    lower
        So many provably are: the largest stored r whose upper bound is at most δ, or 0.
    upper
        More are provably not: one less than the smallest stored r whose lower bound exceeds δ; infinite where none
        does.
    within_tolerance
        Whether upper / lower - 1 is at most the study's tolerance; None where the study has none.
    """

    lower: IntArray
    upper: FloatArray
    within_tolerance: BoolArray | None = None


@dataclass(frozen=True, eq=False)
class Questions:
    """Points that are asked for.

    Attributes
    ----------
    settings, setting
        The different noise settings, and the number of each point's, shape (n,).
    compositions
        r of each point, shape (n,).
    """

    settings: Sequence[Setting]
    setting: IntArray
    compositions: IntArray


def bound_delta(
    asked: Questions, epsilon: FloatArray, around: tuple[FloatArray, FloatArray] | None = None
) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Bound δ at some points.

    Parameters
    ----------
    asked
        Noise settings and r.
    epsilon : ndarray, shape (n,)
        ε, nats.
    around : (ndarray, ndarray), optional
        What lies below and above the ε that is meant, where that is no float.

    Returns
    -------
    values : ndarray, shape (4, 2, n)
        In the order of `BOUNDS`.
    stored, bounded : ndarray of bool, shape (n,)
        Which points are stored, and which have an upper bound at all.
    """
    size = epsilon.size
    below, above = (epsilon, epsilon) if around is None else around
    log_lower, log_upper = np.full((_DIRECTIONS, size), -np.inf), np.full((_DIRECTIONS, size), np.inf)
    stored, exact = np.zeros(size, dtype=bool), np.empty((len(BOUNDS), _DIRECTIONS, size))
    for points, places in _grouped([setting.equal for setting in asked.settings], asked.setting):
        found, values = points.stored(asked.compositions[places], epsilon[places])
        stored[places] = found
        exact[:, :, places[found]] = values[:, :, found]

    def take_upper(curves: Sequence[Curve], places: IntArray) -> None:
        for axis, values in enumerate(_each(curves, lambda curve: curve.log_upper(below[places]))):
            log_upper[axis, places] = np.minimum(log_upper[axis, places], values)

    def take_lower(curves: Sequence[Curve], places: IntArray) -> None:
        for axis, values in enumerate(_each(curves, lambda curve: curve.log_lower(above[places]))):
            log_lower[axis, places] = np.maximum(log_lower[axis, places], values)

    bounded = stored | _visit(asked, take_upper, ~stored, above=True)
    _visit(asked, take_lower, ~stored, above=False)
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
    return result, stored, bounded


def stored_within(asked: Questions, epsilon: FloatArray) -> BoolArray:
    """Return which points the store holds as within the tolerance, shape (2, n); of one that it lacks nothing is known.

    It knows more than the bounds tell: where no better is to be had.
    """
    within = np.zeros((_DIRECTIONS, epsilon.size), dtype=bool)
    for points, places in _grouped([setting.equal for setting in asked.settings], asked.setting):
        within[:, places] = points.within(asked.compositions[places], epsilon[places])
    return within


def bound_epsilon(asked: Questions, delta: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Bound ε(δ) at some points.

    Returns
    -------
    lower, upper : ndarray, shape (2, n)
        Of both directions.
    bounded : ndarray of bool, shape (n,)
        Which points have an upper bound on δ at any ε.
    """
    lower, upper = np.zeros((_DIRECTIONS, delta.size)), np.full((_DIRECTIONS, delta.size), np.inf)
    low, high = log_below(delta), log_above(delta)

    def take_upper(curves: Sequence[Curve], places: IntArray) -> None:
        for axis, values in enumerate(_each(curves, lambda curve: curve.epsilon_upper(low[places]))):
            upper[axis, places] = np.minimum(upper[axis, places], values)

    def take_lower(curves: Sequence[Curve], places: IntArray) -> None:
        for axis, values in enumerate(_each(curves, lambda curve: curve.epsilon_lower(high[places]))):
            lower[axis, places] = np.maximum(lower[axis, places], values)

    everywhere = np.ones(delta.size, dtype=bool)
    bounded = _visit(asked, take_upper, everywhere, above=True)
    _visit(asked, take_lower, everywhere, above=False)
    return lower, upper, bounded


def bound_compositions(
    asked: Questions,
    epsilon: FloatArray,
    delta: FloatArray,
    around: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[IntArray, FloatArray]:
    """Bound how many rounds meet (ε, δ), in both directions; the r of `asked` are not looked at."""
    below, above = (epsilon, epsilon) if around is None else around
    low, high = log_below(delta), log_above(delta)
    allowed, refuted = np.zeros(delta.size, dtype=np.int64), np.full(delta.size, np.inf)
    for points, places in _nearest(asked, above=True):
        for row, r in enumerate(points.compositions.tolist()):
            found = [curve.log_upper(below[places]) for curve in points.curves(row)]
            known, values = points.stored(np.full(places.size, r), epsilon[places])
            held = np.maximum(*found) <= low[places]
            held |= known & (values[_UPPER].max(axis=0) <= delta[places])
            allowed[places] = np.maximum(allowed[places], np.where(held, r, 0))
    for points, places in _nearest(asked, above=False):
        # Where δ may fall with r, what one r refutes is itself alone.
        for row, r in enumerate(points.compositions.tolist() if points.ordered else ()):
            found = [curve.log_lower(above[places]) for curve in points.curves(row)]
            most = float(r - 1)
            most = most if int(most) >= r - 1 else float(np.nextafter(most, np.inf))
            failed = np.maximum(*found) > high[places]
            refuted[places] = np.minimum(refuted[places], np.where(failed, most, np.inf))
    return allowed, refuted


_UPPER = list(BOUNDS).index("delta_upper")


def _each(curves: Sequence[Curve], ask: Callable[[Curve], FloatArray]) -> Iterator[FloatArray]:
    """Yield an answer for each direction; where both share a curve it is asked once."""
    first = ask(curves[0])
    for curve in curves:
        yield first if curve is curves[0] else ask(curve)


def _visit(
    asked: Questions, take: Callable[[Sequence[Curve], IntArray], None], wanted: BoolArray, *, above: bool
) -> BoolArray:
    """Have `take` look at the curves that bound each wanted point, the nearest first; return which points had any."""
    open_, bounded = wanted.copy(), np.zeros(wanted.size, dtype=bool)
    enough = np.array([_enough(setting) for setting in asked.settings])
    depth = 0
    while open_.any():
        candidates = _candidates(asked, open_, depth, above=above)
        open_ &= np.array([one is not None for one in candidates], dtype=bool)[asked.setting]
        for points, whole in _grouped(candidates, asked.setting):
            group = whole[open_[whole]]
            rows = (points.row_above if above else points.row_below)(asked.compositions[group])
            for row in np.unique(rows[rows >= 0]).tolist():
                take(points.curves(row), group[rows == row])
            there = group[rows >= 0]
            bounded[there] = True
            if points.gridded:
                open_[there] = enough[asked.setting[there]] > depth + 1
        depth += 1
    return bounded


def _nearest(asked: Questions, *, above: bool) -> Iterator[tuple[PairPoints, IntArray]]:
    """Yield the points that bound the settings, as many as are enough, and the places of the questions."""
    open_ = np.ones(asked.setting.size, dtype=bool)
    enough = np.array([_enough(setting) for setting in asked.settings])
    depth = 0
    while open_.any():
        candidates = _candidates(asked, open_, depth, above=above)
        open_ &= np.array([one is not None for one in candidates], dtype=bool)[asked.setting]
        for points, whole in _grouped(candidates, asked.setting):
            group = whole[open_[whole]]
            if group.size and points.compositions.size:
                # Other r than the stored ones are not asked for: histograms of inexact masses have each for itself.
                yield points, group
            if points.gridded:
                open_[group] = enough[asked.setting[group]] > depth + 1
        depth += 1


def _enough(setting: Setting) -> int:
    """Return how many settings are to be looked at: its own, where a study has computed it, says more than others."""
    return 1 if setting.equal is not None and setting.equal.gridded else setting.near


def _candidates(asked: Questions, open_: BoolArray, depth: int, *, above: bool) -> list[PairPoints | None]:
    """Return for each setting with an open question the points at that depth."""
    found: list[PairPoints | None] = [None] * len(asked.settings)
    for number in np.unique(asked.setting[open_]).tolist():
        side = asked.settings[number].above if above else asked.settings[number].below
        found[number] = side[depth] if depth < len(side) else None
    return found


def _grouped(points: Sequence[PairPoints | None], setting: IntArray) -> Iterator[tuple[PairPoints, IntArray]]:
    """Yield each of the points once, and the places of the questions that they are for."""
    numbers: dict[int, int] = {}
    distinct: list[PairPoints] = []
    of_setting = np.full(len(points), -1)
    for position, one in enumerate(points):
        if one is None:
            continue
        if id(one) not in numbers:
            numbers[id(one)] = len(distinct)
            distinct.append(one)
        of_setting[position] = numbers[id(one)]
    group = of_setting[setting]
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct) + 1))
    for number, one in enumerate(distinct):
        yield one, order[starts[number] : starts[number + 1]]
