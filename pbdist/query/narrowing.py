"""Which points to compute so that the ε, or the number of rounds, that meets a δ is known closely.

Only a choice of points: whatever is chosen, the bounds that come of it hold. A point that cannot be computed is left
out, and its question is answered by what is known without it.
"""

from collections.abc import Callable, Iterable

import numpy as np

from pbdist.arguments import MAX_COMPOSITIONS, SMALLEST_TOLERANCE
from pbdist.errors import InvalidInputError, PbdistError, PrecisionError
from pbdist.query.answers import Questions, bound_compositions, bound_delta, bound_epsilon
from pbdist.query.refine import Point, UncomputableError
from pbdist.store.layout import BOUNDS
from pbdist.table import epsilon_table_of
from pbdist.types import BoolArray, FloatArray

__all__ = ["Failures", "narrow_compositions", "narrow_epsilon"]

#: Has points computed and stored, and returns the same questions to the store that has them.
Again = Callable[[Iterable[Point]], Questions]
#: Why the points of a question, by its place, could not be computed.
Failures = dict[int, PbdistError]

#: How closely ε is sought at most, relative to it, and in how many steps after the first.
_CLOSE, _STEPS = 2e-3, 5
#: By how much further ε is sought where no upper bound met δ.
_FURTHER = 1.25
#: How often the number of rounds is doubled or halved, at most.
_HALVINGS = 130
_LOG_LOWER, _LOG_UPPER = (list(BOUNDS).index(name) for name in ("log_delta_lower", "log_delta_upper"))


def narrow_epsilon(
    asked: Questions, delta: FloatArray, again: Again, tolerance: float | None
) -> tuple[Questions, Failures]:
    """Have points computed next to ε(δ), where it is not known within the tolerance, or 0.2 %, yet.

    The first two lie where a computation of ε alone puts it, another one a little further, for the slope; then such as
    make up for the width of the brackets there.
    """
    close = _CLOSE if tolerance is None else min(_CLOSE, tolerance)
    lower, upper, open_ = _open(asked, delta, close)
    points: list[tuple[int, Point]] = []
    failed: Failures = {}
    reach = np.full(delta.size, np.inf)
    for place in np.flatnonzero(open_).tolist():
        cell, r = asked.settings[int(asked.setting[place])].cell, int(asked.compositions[place])
        try:
            found = epsilon_table_of(
                [(cell.pair, 1)], compositions=r, delta=delta[place], tolerance=max(0.5 * close, SMALLEST_TOLERANCE)
            )
        except (PrecisionError, InvalidInputError) as error:
            failed[place] = error
            continue
        low, high = float(found.lower.max()), float(found.upper.max())
        reach[place] = 1.02 * high + 1e-6
        known = [low] if not np.isfinite(high) else [low, high, float(reach[place])]
        points += [(place, (cell, r, value)) for value in known]
    if not points:
        return asked, failed
    asked = _computed(asked, points, again, failed)
    for _ in range(_STEPS):
        lower, upper, open_ = _open(asked, delta, close)
        open_[list(failed)] = False
        # Where wide brackets keep δ out of reach, it is sought further on.
        beyond = open_ & np.isinf(upper) & np.isfinite(reach)
        reach[beyond] *= _FURTHER
        open_ &= np.isfinite(upper) & (upper > 0.0)
        ends = np.where(open_, upper, 0.0)
        first, last = (bound_delta(asked, values)[0].max(axis=1) for values in (lower, ends))
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = (first[_LOG_LOWER] + first[_LOG_UPPER]) / 2.0
            slope = ((last[_LOG_LOWER] + last[_LOG_UPPER]) / 2.0 - middle) / (ends - lower)
            width = 0.6 * np.minimum(first[_LOG_UPPER] - first[_LOG_LOWER], last[_LOG_UPPER] - last[_LOG_LOWER])
            tried = [lower + (np.log(delta) + sign * width - middle) / slope for sign in (1.0, -1.0)]
        points = [
            (
                place,
                (asked.settings[int(asked.setting[place])].cell, int(asked.compositions[place]), float(values[place])),
            )
            for values, there in [
                *((values, open_ & (values > lower) & (values < upper)) for values in tried),
                (reach, beyond),
            ]
            for place in np.flatnonzero(there).tolist()
        ]
        if not points:
            break
        asked = _computed(asked, points, again, failed)
    return asked, failed


def narrow_compositions(
    asked: Questions,
    epsilon: FloatArray,
    delta: FloatArray,
    around: tuple[FloatArray, FloatArray] | None,
    again: Again,
) -> tuple[Questions, Failures]:
    """Have points computed until the largest number of rounds that meets (ε, δ) is known, or cannot be decided."""
    settled: BoolArray = np.zeros(delta.size, dtype=bool)
    tried: set[tuple[int, int]] = set()
    failed: Failures = {}
    for _ in range(_HALVINGS):
        lower, upper = bound_compositions(asked, epsilon, delta, around)
        settled |= lower >= upper
        points: list[tuple[int, Point]] = []
        for place in np.flatnonzero(~settled).tolist():
            r = _next(int(lower[place]), float(upper[place]))
            if (place, r) in tried or r > MAX_COMPOSITIONS:
                # Computed, and neither allowed nor refuted: the bounds at that r are on both sides of δ.
                settled[place] = True
                continue
            tried.add((place, r))
            points.append((place, (asked.settings[int(asked.setting[place])].cell, r, float(epsilon[place]))))
        if not points:
            break
        asked = _computed(asked, points, again, failed)
        settled[list(failed)] = True
    return asked, failed


def _computed(asked: Questions, points: list[tuple[int, Point]], again: Again, failed: Failures) -> Questions:
    """Have points computed, each with the place of its question; of those that cannot be, note why."""
    try:
        return again(point for _, point in points)
    except (PrecisionError, UncomputableError):
        # One by one: the others are computed all the same.
        pass
    for place, point in points:
        try:
            asked = again([point])
        except (PrecisionError, UncomputableError) as error:
            failed[place] = error
    return asked


def _next(allowed: int, refuted: float) -> int:
    """Return the r to look at next, between those that are known."""
    if not np.isfinite(refuted):
        return max(1, 2 * allowed)
    return (allowed + int(refuted) + 1) // 2


def _open(asked: Questions, delta: FloatArray, close: float) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return what is known of ε, the larger of the directions, and where that is not close."""
    both_lower, both_upper, bounded = bound_epsilon(asked, delta)
    lower, upper = both_lower.max(axis=0), both_upper.max(axis=0)
    with np.errstate(invalid="ignore"):
        return lower, upper, ~bounded | np.isinf(upper) | ~(upper - lower <= close * lower)
