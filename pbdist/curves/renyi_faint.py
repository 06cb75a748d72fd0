"""What counts too rare for a float64 add to a Rényi divergence, for whole-numbered noise that never ends.

Counts far from the mean have masses next to nothing but no bounded loss, so that the bins alone say no more than
infinity. In one direction of a pair let "positive" counts be those of positive loss. Masses here are looked at one by
one wherever both are above 1e-280; what is left on the positive side is at a distance from the mean of P_B's noise that
has a mass below that, and the moment Σ P_A e^(t L) over all counts so far out has a closed form. (Discrete Gaussian
noise needs none: see `pbdist.curves.renyi_closed_form`.)

- *Gaussian counts*: a count is a unit interval of the draws, so that the moment is at most that of the draws
  themselves, by data processing. 1e-280 lies beyond 34 standard deviations: for scales of 1 and more because the
  density there is the mass of a unit interval up to a factor of e^35, of scales up to 2.7e5 up to another such; below 1
  because half of the tail lies in the interval. Of ``clamp-and-ceil``, in the direction B||A, one count is no such
  interval: P_A has P(X <= 0) against the mass of (shift - 1, shift], which is at least that of (-1, 0] where the shift
  is at most the mean. Where the first is above 1e-270, the second is at least 6e-5 of it, and the count has a loss;
  where it is below 1e-279, their ratio is at most 1 / (1 - e^(-34 / scale)) <= 1 + scale / 34.
- *Poisson*: the summands P(N = n) Π_(i<=s) ((n + i) / mean)^t of the direction B||A have ratios that fall with n: a
  geometric series from the first one.
"""

import math

import numpy as np

from pbdist.curves.tradeoff import opposite
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Gaussian, NoisyCount, Poisson, Reversed
from pbdist.types import Direction

__all__ = ["always_reveals", "log_faint_moment"]

#: Masses below the first may have no loss of their own, masses above the second have.
_FAINT, _CLEAR = 1e-279, 1e-270
#: Standard deviations beyond which Gaussian ones lie, and the logarithm that Poisson ones are surely below.
_FAR, _FAINT_EXPONENT = 34.0, -635.0


def always_reveals(pair: ElementaryPair, direction: Direction) -> bool:
    """Whether A (of the direction) shows counts that B cannot, however small their mass."""
    if isinstance(pair, Reversed):
        return always_reveals(pair.pair, opposite(direction))
    if isinstance(pair, NoisyCount):
        return pair.reading != "shift-inside" and direction is Direction.A_TO_B
    return isinstance(pair, Poisson) and direction is Direction.A_TO_B


def log_faint_moment(pair: ElementaryPair, tilt: float, direction: Direction) -> float:
    """Upper bound of ln Σ P_A e^(tilt L) over the positive counts without a loss of their own; +inf if none is known.

    A count has no loss of its own where one of its masses is at most 1e-280.
    """
    if isinstance(pair, Reversed):
        return log_faint_moment(pair.pair, tilt, opposite(direction))
    if always_reveals(pair, direction):
        return math.inf
    if isinstance(pair, NoisyCount) and isinstance(pair.noise, Gaussian):
        return _of_gaussian_counts(pair, tilt)
    if isinstance(pair, Poisson):
        return _of_poisson(pair, tilt)
    return math.inf


def _of_gaussian_counts(pair: NoisyCount, tilt: float) -> float:
    if pair.shift > pair.mean:
        return math.inf
    scale, shift = pair.noise.scale, float(pair.shift)
    # The loss at a distance y from the mean of P_B's noise, on the far side of P_A's, is s (2y - s) / (2 scale²).
    ratio = shift / scale
    loss = _FAR * ratio - 0.5 * ratio * ratio
    loss -= 1e-9 * (1.0 + abs(loss))
    moment = Gaussian(scale, shift).log_tail_moment(tilt, loss, Direction.A_TO_B)
    kept = float(pair.noise.interval(np.zeros(1), np.full(1, np.inf), pair.mean)[0][0])
    clamped = float(pair.noise.interval(np.full(1, -np.inf), np.zeros(1), pair.mean)[0][0])
    if pair.reading == "clamp-and-ceil" and clamped <= _CLEAR:
        if clamped > _FAINT:
            return math.inf
        moment = float(np.logaddexp(moment, math.log(_FAINT) + tilt * math.log1p(scale / _FAR) + 1e-6))
    return moment - math.log(kept) + 1e-6


def _of_poisson(pair: Poisson, tilt: float) -> float:
    mean, shift = pair.mean, pair.sensitivity
    first = _first_faint(mean) - shift
    if first <= mean:
        return math.inf
    factors = np.log((first + np.arange(1.0, shift + 1.0)) / mean)
    loss = float(np.sum(factors))
    log_ratio = math.log(mean / (first + 1.0)) + tilt * math.log1p(shift / (first + 1.0))
    if log_ratio >= -1e-9:
        return math.inf
    log_mass = _log_poisson(first, mean)
    slack = (
        64.0 * UNIT_ROUNDOFF * (first * abs(math.log(mean)) + math.lgamma(first + 1.0) + mean + (tilt + shift) * loss)
    )
    return log_mass + tilt * loss - math.log(-math.expm1(log_ratio)) + slack + 1e-6


def _first_faint(mean: float) -> float:
    """Return a count above the mean from which on Poisson masses are below e^-635, and not far below at it."""
    low, high = math.ceil(mean), math.ceil(mean + 700.0 + 40.0 * math.sqrt(mean))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _log_poisson(middle, mean) > _FAINT_EXPONENT else (low, middle)
    return float(low)


def _log_poisson(count: float, mean: float) -> float:
    return count * math.log(mean) - mean - math.lgamma(count + 1.0)
