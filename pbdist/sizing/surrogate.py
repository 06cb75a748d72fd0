"""A quick estimate of δ of noisy counts, by which their mean and scale are searched; no bound rests on it.

The δ of a count hidden under noise that is cut at 0 is about that of two ways to fail: an output below the shift
reveals the input, in some round, or the noise about its mean, uncut and not rounded, does not hide the shift.
"""

import math
from collections.abc import Callable

import numpy as np

from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.mechanisms import ElementaryPair, NoisyCount, Pair, Product, Reversed
from pbdist.mechanisms.noisy_count import REDRAW_AND_FLOOR, SHIFT_INSIDE
from pbdist.sizing.goal import Goal
from pbdist.table import bounds_table
from pbdist.types import Direction

__all__ = ["Surrogate"]

#: Distance of the scales, in logarithms, between which δ of the noise alone is interpolated.
_STEP = 0.02
#: Relative width of the bounds of which that is the middle.
_TOLERANCE = 0.02
#: ln δ of neighbours between which it is not interpolated.
_FAR_APART = 3.0
#: δ that counts as 0.
_LOWEST = -1e4


class Surrogate:
    """Estimates ln δ of the mechanisms of a family at a goal.

    What certified bounds show of its error is added to it, interpolated along the scale: `correct`.
    """

    def __init__(self, make: Callable[[float, float], Pair], goal: Goal) -> None:
        self._make = make
        self._goal = goal
        self._alone: dict[float, float] = {}
        self._errors: dict[float, float] = {}

    def correct(self, mean: float, scale: float, log_delta: float) -> None:
        """Learn ln δ at a mean and a scale."""
        if math.isfinite(log_delta):
            self._errors[math.log(scale)] = log_delta - self._estimate(mean, scale)

    def log_delta(self, mean: float, scale: float) -> float:
        """Estimate ln δ, at most 0."""
        return min(self._estimate(mean, scale) + self._error(scale), 0.0)

    def lowest_log_delta(self, scale: float) -> float:
        """Estimate ln δ for a mean as large as one likes."""
        return self._noise_alone(scale) + self._error(scale)

    def _error(self, scale: float) -> float:
        if not self._errors:
            return 0.0
        places = sorted(self._errors)
        return float(np.interp(math.log(scale), places, [self._errors[place] for place in places]))

    def _estimate(self, mean: float, scale: float) -> float:
        factors = self._make(mean, scale).factors
        hidden = min(math.fsum(_log_hidden(factor, direction) for factor in factors) for direction in Direction)
        revealed = -math.expm1(self._goal.compositions * hidden)
        alone = math.exp(self._noise_alone(scale))
        total = revealed + (1.0 - revealed) * alone
        return math.log(total) if total > 0.0 else _LOWEST

    def _noise_alone(self, scale: float) -> float:
        place = math.log(scale) / _STEP
        below = math.floor(place)
        ends = [-self._at(node) for node in (below, below + 1)]
        if min(ends) <= 0.0 or abs(ends[1] - ends[0]) > _FAR_APART:
            # δ falls to 0 here, or from 1.
            return self._at(place)
        values = [math.log(end) for end in ends]
        return -math.exp(values[0] + (place - below) * (values[1] - values[0]))

    def _at(self, node: float) -> float:
        """Return ln δ of the noise alone at a place on the grid."""
        if node not in self._alone:
            scale = math.exp(_STEP * node)
            try:
                factors = [_uncut(factor) for factor in self._make(8.0 * scale, scale).factors]
                value = self._bound(factors)
            except (PrecisionError, InvalidInputError):
                # Losses beyond all buckets, or no such noise.
                value = 0.0
            self._alone[node] = max(value, _LOWEST)
        return self._alone[node]

    def _bound(self, factors: list[Pair]) -> float:
        """Bound ln δ of noise that is not cut."""
        table = bounds_table(
            [(Product(*factors), 1)],
            compositions=self._goal.compositions,
            epsilon=self._goal.epsilon,
            tolerance=_TOLERANCE,
            strict=False,
            together=True,
        )
        return float(table.log_delta_upper.max())


def _uncut(factor: ElementaryPair) -> Pair:
    """Return the noise of a noisy count as it is before it becomes a count; it is symmetric."""
    count = factor.pair if isinstance(factor, Reversed) else factor
    if not isinstance(count, NoisyCount):
        return factor
    return type(count.noise)(count.noise.scale, sensitivity=float(count.shift))


def _log_hidden(factor: ElementaryPair, direction: Direction) -> float:
    """Logarithm of the probability, under the first distribution, that an output could be of either input, about."""
    if isinstance(factor, Reversed):
        other = Direction.B_TO_A if direction is Direction.A_TO_B else Direction.A_TO_B
        return _log_hidden(factor.pair, other)
    if not isinstance(factor, NoisyCount) or factor.reading == SHIFT_INSIDE:
        return 0.0
    redrawn = factor.reading == REDRAW_AND_FLOOR
    first, last = (0.0, factor.shift) if redrawn else (-math.inf, factor.shift - 1)
    if direction is Direction.B_TO_A:
        # B's smallest output is a rare one of A where noise is clamped.
        last = 0
    interval = factor.noise.interval(np.array([first, first]), np.array([float(last), math.inf]), factor.mean)[0]
    return math.log1p(-min(float(interval[0]) / float(interval[1]), 1.0 - 1e-16))
