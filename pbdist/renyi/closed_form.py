"""Closed forms for Rényi divergences: of Gaussian noise, and moments of counts too rare for a float64.

`closed_form_bounds`: Theorem 13 of docs/theory.md. `log_faint_moment`: Theorem 20 of docs/theory.md.
"""

import math
from fractions import Fraction

import numpy as np

from pbdist.mechanisms import (
    UNIT_ROUNDOFF,
    DiscreteGaussian,
    ElementaryPair,
    Gaussian,
    NoisyCount,
    Poisson,
    Reversed,
)
from pbdist.types import Direction

#: Up to this scale the theta series itself is the shorter one, above it its dual.
_LARGE_SCALE = 0.5
_THETA_TERMS = 8
#: Underflows lose less than this.
_HIDDEN = 1e-300


def closed_form_bounds(pair: ElementaryPair, alpha: float) -> tuple[float, float] | None:
    """Return lower and upper bound on the divergence of order α >= 1, in either direction; None without closed form.

    Both are rounded outwards by one float, and by the error of a theta function where (α - 1) s is not whole.
    """
    if isinstance(pair, Reversed):
        return closed_form_bounds(pair.pair, alpha)
    if isinstance(pair, Gaussian) and pair.truncate is None:
        exact = _continuous(pair, alpha)
        return _outwards(exact, exact)
    if isinstance(pair, DiscreteGaussian):
        return _outwards(*_discrete(pair, alpha))
    return None


def _continuous(pair: Gaussian | DiscreteGaussian, alpha: float) -> Fraction:
    """α s² / (2 scale²)."""
    return Fraction(alpha) * (Fraction(pair.sensitivity) / Fraction(pair.scale)) ** 2 / 2


def _discrete(pair: DiscreteGaussian, alpha: float) -> tuple[Fraction, Fraction]:
    whole = _continuous(pair, alpha)
    tilt = Fraction(alpha) - 1
    shift = tilt * pair.sensitivity
    distance = abs(shift - round(shift))
    if distance == 0:
        return whole, whole
    if pair.scale <= _LARGE_SCALE:
        rate = 1 / (2 * Fraction(pair.scale) ** 2)
        low, high = _gain(rate, distance)
        whole -= rate * distance**2 / tilt
        return whole + low / tilt, whole + high / tilt
    low, high = _deficit(pair.scale, float(distance))
    return whole - high / tilt, whole - low / tilt


def _gain(rate: Fraction, distance: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds on ln(1 + X), of scales up to 1/2; `distance` is c in (0, 1/2]."""
    orders = range(_THETA_TERMS, 0, -1)
    terms = (
        math.exp(-float(rate * k * (k - 2 * distance))) * math.expm1(-float(2 * rate * k * distance)) ** 2
        for k in orders
    )
    total = 1.0 + 2.0 * math.fsum(math.exp(-float(rate * k * k)) for k in orders)
    return _around(math.log1p(math.fsum(terms) / total), float(rate * (1 - 2 * distance)))


def _deficit(scale: float, distance: float) -> tuple[Fraction, Fraction]:
    """Bounds on -ln(1 - Y), of scales above 1/2; `distance` is c in (0, 1/2]."""
    orders = range(_THETA_TERMS, 0, -1)
    rate = 2.0 * math.pi * math.pi * (scale * scale)
    terms = (4.0 * math.exp(-rate * (j * j)) * math.sin(math.pi * (j * distance)) ** 2 for j in orders)
    total = 1.0 + 2.0 * math.fsum(math.exp(-rate * (j * j)) for j in orders)
    return _around(-math.log1p(-math.fsum(terms) / total), rate)


def _around(value: float, exponent: float) -> tuple[Fraction, Fraction]:
    """Bounds on a value that is at least 0 and off by 64u (2 + exponent) of itself, or by an underflow."""
    error = 64.0 * UNIT_ROUNDOFF * (2.0 + exponent) * value + _HIDDEN
    return max(Fraction(value) - Fraction(error), Fraction(0)), Fraction(value) + Fraction(error)


def _outwards(lower: Fraction, upper: Fraction) -> tuple[float, float]:
    """Return the floats next to the nearest ones, outwards."""
    return math.nextafter(float(lower), 0.0), math.nextafter(float(upper), math.inf)


#: Counts of masses below the first may have no loss of their own; those of masses above the second have one.
_FAINT, _CLEAR = 1e-279, 1e-270
#: Faint Gaussian counts lie beyond so many standard deviations; faint Poisson masses have a logarithm below this.
_FAR, _FAINT_EXPONENT = 34.0, -635.0


def always_reveals(pair: ElementaryPair, direction: Direction) -> bool:
    """Whether A, of the direction, shows counts that B cannot, however small their mass."""
    if isinstance(pair, Reversed):
        return always_reveals(pair.pair, direction.opposite)
    if isinstance(pair, NoisyCount):
        return pair.reading != "shift-inside" and direction is Direction.A_TO_B
    return isinstance(pair, Poisson) and direction is Direction.A_TO_B


def log_faint_moment(pair: ElementaryPair, tilt: float, direction: Direction) -> float:
    """Upper bound of ln Σ P_A e^(tilt L) over the positive counts without a loss of their own; +inf if none is known.

    A count has no loss of its own where one of its masses is at most 1e-280.
    """
    if isinstance(pair, Reversed):
        return log_faint_moment(pair.pair, tilt, direction.opposite)
    if always_reveals(pair, direction):
        return math.inf
    if isinstance(pair, NoisyCount) and isinstance(pair.noise, Gaussian):
        return _of_gaussian_counts(pair, pair.noise, tilt)
    if isinstance(pair, Poisson):
        return _of_poisson(pair, tilt)
    return math.inf


def _of_gaussian_counts(pair: NoisyCount, noise: Gaussian, tilt: float) -> float:
    if pair.shift > pair.mean:
        return math.inf
    scale, shift = noise.scale, float(pair.shift)
    # The loss at a distance y from the mean of P_B's noise, on the far side of P_A's, is s (2y - s) / (2 scale²).
    ratio = shift / scale
    loss = _FAR * ratio - 0.5 * ratio * ratio
    loss -= 1e-9 * (1.0 + abs(loss))
    moment = Gaussian(scale, shift).log_tail_moment(tilt, loss, Direction.A_TO_B)
    kept = float(noise.interval(np.zeros(1), np.full(1, np.inf), pair.mean)[0][0])
    clamped = float(noise.interval(np.full(1, -np.inf), np.zeros(1), pair.mean)[0][0])
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
    """Return a count above the mean from which on Poisson masses are below e^-635, about the first such."""
    low, high = math.ceil(mean), math.ceil(mean + 700.0 + 40.0 * math.sqrt(mean))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _log_poisson(middle, mean) > _FAINT_EXPONENT else (low, middle)
    return float(low)


def _log_poisson(count: float, mean: float) -> float:
    return count * math.log(mean) - mean - math.lgamma(count + 1.0)
