"""Bounds on F = Σ P_B φ(P_A / P_B) of a Rényi divergence, bin by bin: Theorem 12 of docs/theory.md.

φ(x) = x^α - 1 - α (x - 1), for α = 1 (Kullback-Leibler) φ(x) = x ln x - x + 1; ψ(L) = e^-L φ(e^L). Terms are kept as
multiples of e^κ, so that no moment overflows: ψ(L) = e^((α-1) L) χ(L), χ from 0 to 1.
"""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray

_U = UNIT_ROUNDOFF
#: Exponents up to here need no unit.
_PLAIN_EXPONENT = 500.0


@dataclass(frozen=True)
class Order:
    """The order α of a divergence, and the exponent κ of the unit in which its terms are counted.

    Attributes
    ----------
    alpha : float
        At least 1; 1 is the Kullback-Leibler divergence.
    log_unit : float
        κ >= 0; 0 for α = 1.
    """

    alpha: float
    log_unit: float = 0.0

    @property
    def tilt(self) -> float:
        """The exponent α - 1, exact for α up to 2 and rounded once beyond."""
        return self.alpha - 1.0

    @property
    def at_nothing(self) -> float:
        """φ(0): the contribution of events that A lacks, for each unit of P_B mass, in the unit of the terms."""
        return (self.tilt if self.alpha > 1.0 else 1.0) * math.exp(-self.log_unit)

    def share(self, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
        """χ(L) for L >= 0, and a bound on its error; L itself enters for α = 1: χ(L) = ψ(L) = L + e^-L - 1."""
        if self.alpha == 1.0:
            first, second = loss, np.expm1(-loss)
        else:
            power = self.tilt * loss
            first, second = -np.expm1(-power), self.tilt * np.exp(-power) * np.expm1(-loss)
        # The product α - 1 times L, off by 2u, enters each term by at most as much as the term itself.
        return np.maximum(first + second, 0.0), 16.0 * _U * (np.abs(first) + np.abs(second))

    def below_one(self, depth: FloatArray) -> tuple[FloatArray, FloatArray]:
        """φ(e^-ℓ) for ℓ >= 0, possibly infinite, in the unit of the terms, and a bound on its error."""
        unit, x = math.exp(-self.log_unit), np.exp(-depth)
        if self.alpha == 1.0:
            first, second = -np.where(np.isfinite(depth), depth, 0.0) * x, -np.expm1(-depth)
        else:
            # Both of the order of α - 1, so that neither is lost where that is small.
            first, second = x * np.expm1(-self.tilt * depth), -self.tilt * np.expm1(-depth)
        return np.maximum(first + second, 0.0) * unit, 16.0 * _U * (np.abs(first) + np.abs(second)) * unit

    def weight(self, log_mass: FloatArray, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mass times e^((α-1) L - κ), and a bound on its relative error; log masses are exact, possibly -inf."""
        power = self.tilt * loss
        exponent = log_mass + power - self.log_unit
        error = 4.0 * _U * (1.0 + np.where(np.isfinite(log_mass), np.abs(log_mass), 0.0) + 2.0 * np.abs(power))
        with np.errstate(under="ignore", over="ignore"):
            # A weight that underflows is at most the smallest normal number.
            value = np.where(log_mass > -math.inf, np.maximum(np.exp(exponent), 1e-300), 0.0)
        return value, error + 4.0 * _U * self.log_unit


@dataclass(frozen=True, eq=False)
class LogMasses:
    """Natural logarithms of lower and upper P_A and P_B masses, rounded outwards; -inf for 0."""

    a_lower: FloatArray
    a_upper: FloatArray
    b_lower: FloatArray
    b_upper: FloatArray

    @classmethod
    def of(
        cls,
        masses: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
        log_scale: tuple[FloatArray | float, FloatArray | float] = (0.0, 0.0),
    ) -> "LogMasses":
        """Take logarithms of (a_lower, a_upper, b_lower, b_upper), with those of the factors of a and of b."""
        logs = []
        for index, values in enumerate(masses):
            with np.errstate(divide="ignore"):
                log = np.log(values)
            scale = log_scale[index // 2]
            slack = 4.0 * _U * (1.0 + np.where(values > 0.0, np.abs(log), 0.0) + np.abs(scale))
            logs.append(log + scale + (slack if index % 2 else -slack))
        return cls(*logs)

    def at(self, chosen: BoolArray | slice) -> "LogMasses":
        """Return some of them."""
        return LogMasses(self.a_lower[chosen], self.a_upper[chosen], self.b_lower[chosen], self.b_upper[chosen])


def log_unit_of(alpha: float, *masses: LogMasses) -> float:
    """Return an exponent κ with which the lower bounds do not leave float64; upper ones may be infinite."""
    if alpha == 1.0:
        return 0.0
    largest = 0.0
    for part in masses:
        present = (part.a_lower > -math.inf) & (part.b_upper > -math.inf)
        log_a, log_b = part.a_lower[present], part.b_upper[present]
        largest = max(largest, float(np.max(log_a + (alpha - 1.0) * (log_a - log_b), initial=0.0)))
    return largest if largest > _PLAIN_EXPONENT else 0.0


def terms_below(order: Order, masses: LogMasses) -> FloatArray:
    """Lower bounds on the contribution of each bin or event."""
    terms = np.zeros(masses.a_lower.shape)
    above = (masses.a_lower > masses.b_upper) & (masses.b_upper > -math.inf)
    loss = masses.a_lower[above] - masses.b_upper[above]
    # The difference rounds once: a smaller loss only lowers the bound.
    loss *= 1.0 - 4.0 * _U
    share, error = order.share(loss)
    weight, relative = order.weight(masses.a_lower[above], loss)
    weight = np.where(weight > 2e-300, weight, 0.0)
    terms[above] = np.maximum(share - error, 0.0) * weight * (1.0 - relative - 8.0 * _U)
    under = masses.b_lower > masses.a_upper
    # Infinite where A has no mass.
    depth = (masses.b_lower[under] - masses.a_upper[under]) * (1.0 - 4.0 * _U)
    value, error = order.below_one(depth)
    terms[under] = np.maximum(value - error, 0.0) * _exp(masses.b_lower[under], -1.0)
    return np.maximum(terms, 0.0)


def bin_terms_above(order: Order, masses: LogMasses, low: FloatArray, high: FloatArray) -> FloatArray:
    """Upper bounds on the contribution of bins whose losses lie in [low, high]; high finite, low perhaps not."""
    terms = np.empty(low.shape)
    positive = low + high > 0.0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        terms[positive] = _by_a(order, masses.at(positive), low[positive], high[positive])
        terms[~positive] = _by_b(order, masses.at(~positive), low[~positive], high[~positive])
    return _known(terms)


def _known(terms: FloatArray) -> FloatArray:
    """Upper bounds: what overflowed on its way, infinite times 0, has none."""
    return np.where(np.isnan(terms), np.inf, terms)


def event_terms_above(order: Order, masses: LogMasses, loss: FloatArray, loss_error: float) -> FloatArray:
    """Upper bounds on the contribution of single events, of losses known to within `loss_error` or infinite.

    The smaller of two bounds: by the loss, and by the masses alone (b φ(a / b) is convex, hence largest in a corner of
    the ranges of a and b). Infinite where the loss is and b may be 0.
    """
    size = np.where(np.isfinite(loss), np.abs(loss), 0.0) + loss_error
    by_a, by_b = a_term(order, masses.a_upper, size), b_term(order, masses.b_upper, size)
    # The sign of a loss within its error is not known.
    unknown = np.abs(loss) <= loss_error
    by_loss = np.where(unknown, np.maximum(by_a, by_b), np.where(loss > 0.0, by_a, by_b))
    by_loss = np.where(np.isfinite(loss), by_loss, np.inf)
    with np.errstate(invalid="ignore"):
        above, under = (masses.a_upper - masses.b_lower), (masses.b_upper - masses.a_lower)
    finite = np.isfinite(above)
    ratio = np.where(finite, np.maximum(above, 0.0), 0.0) * (1.0 + 4.0 * _U)
    by_masses = np.where(finite, a_term(order, masses.a_upper, ratio), np.where(above > 0.0, np.inf, 0.0))
    under = np.where(np.isnan(under), 0.0, np.maximum(under, 0.0)) * (1.0 + 4.0 * _U)
    return np.minimum(_known(by_loss), _known(np.maximum(by_masses, b_term(order, masses.b_upper, under))))


def a_term(order: Order, log_mass: FloatArray, loss: FloatArray) -> FloatArray:
    """Return a ψ(L) for L >= 0, rounded up."""
    share, error = order.share(loss)
    weight, relative = order.weight(log_mass, loss)
    return (share + error) * weight * (1.0 + relative + 8.0 * _U)


def b_term(order: Order, log_mass: FloatArray, depth: FloatArray) -> FloatArray:
    """Return b φ(e^-ℓ) for ℓ >= 0, rounded up."""
    value, error = order.below_one(depth)
    return (value + error) * _exp(log_mass, 1.0)


def _by_a(order: Order, masses: LogMasses, low: FloatArray, high: FloatArray) -> FloatArray:
    """The first form of Theorem 12.

    At a ``low`` just below 0, e^|l| α (α-1) and e^-|l| α (α-1) bound ψ'' on either side of 0, so that ψ(l) is at
    most e^(2|l|) ψ(|l|). f is a mean of ψ(l) and ψ(high), in which it is monotone.
    """
    depth = np.abs(low)
    small, small_error = order.share(depth)
    small = (small + small_error) * np.exp(2.0 * np.maximum(-low, 0.0)) * (1.0 + 8.0 * _U)
    # In units of e^((α-1) high).
    small = small * np.exp(-order.tilt * (high - depth) * (1.0 - 4.0 * _U)) * (1.0 + 8.0 * _U)
    large, large_error = order.share(high)
    part = share_at_end(masses.b_lower, masses.a_upper, low, high - low)
    value = small + part * np.maximum(large + large_error - small, 0.0)
    weight, relative = order.weight(masses.a_upper, high)
    return np.where(masses.a_upper > -math.inf, value * weight * (1.0 + relative + 16.0 * _U), 0.0)


def _by_b(order: Order, masses: LogMasses, low: FloatArray, high: FloatArray) -> FloatArray:
    """The second form of Theorem 12; at a ``high`` just above 0, φ(e^h) is at most e^(2 α h) φ(e^-h), as in `_by_a`."""
    small, small_error = order.below_one(np.abs(high))
    small = (small + small_error) * np.exp(2.0 * order.alpha * np.maximum(high, 0.0)) * (1.0 + 8.0 * _U)
    large, large_error = order.below_one(-low)
    part = share_at_end(masses.a_lower, masses.b_upper, -high, high - low)
    value = small + part * np.maximum(large + large_error - small, 0.0)
    return np.where(masses.b_upper > -math.inf, value * _exp(masses.b_upper, 1.0) * (1.0 + 16.0 * _U), 0.0)


def share_at_end(log_other: FloatArray, log_mass: FloatArray, shift: FloatArray, width: FloatArray) -> FloatArray:
    """Return (1 - other e^shift / mass) / (1 - e^-width), rounded up and at most 1."""
    with np.errstate(invalid="ignore"):
        inner = log_other - log_mass + shift
    slack = 8.0 * _U * (1.0 + np.abs(shift) + _size(log_other) + _size(log_mass))
    kept = np.where(log_other > -math.inf, np.exp(np.minimum(inner, 0.0) - slack), 0.0)
    scale = -np.expm1(-width * (1.0 - 4.0 * _U)) * (1.0 - 8.0 * _U)
    return np.clip((1.0 - kept) / scale, 0.0, 1.0)


def _size(logs: FloatArray) -> FloatArray:
    return np.where(np.isfinite(logs), np.abs(logs), 0.0)


def _exp(logs: FloatArray, side: float) -> FloatArray:
    """Exponentials rounded to that side."""
    value = np.exp(logs + side * 8.0 * _U * (1.0 + _size(logs)))
    if side > 0.0:
        return np.where(logs > -math.inf, np.maximum(value, 1e-300), 0.0)
    return np.where(value > 2e-300, value, 0.0)


def down(value: float) -> float:
    """Return a lower bound of a number computed with a few roundings."""
    return value - 16.0 * _U * abs(value)


def up(value: float) -> float:
    """Return an upper bound of a number computed with a few roundings."""
    return value + 16.0 * _U * abs(value)
