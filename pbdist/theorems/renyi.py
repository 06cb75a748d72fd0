"""Composition theorems by Rényi divergences: the moments accountant.

Rényi divergences of a composition are the sums of those of its pairs. What differs is what is made of them: the
conversions to (ε, δ) of 2016 to 2018, and the best ones known. All functions take divergences in nats, upper bounds of
the larger of the two directions, and return upper bounds on ln δ at each ε, shape (E,).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair, SubsampledGaussian
from pbdist.renyi import closest_bounds
from pbdist.types import Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Orders that a moments accountant looks at.
_ORDERS: FloatArray = np.unique(
    np.concatenate((1.0 + np.geomspace(1e-3, 1.0, 13), np.geomspace(2.0, 64.0, 36), np.geomspace(64.0, 4096.0, 19)))
)
#: Relative width of a divergence that is good enough.
_WIDTH = 1e-3


@dataclass(frozen=True, eq=False)
class Moments:
    """Rényi divergences of one round.

    Attributes
    ----------
    order : ndarray, shape (K,)
        α > 1, increasing.
    divergence : ndarray, shape (K,)
        Upper bounds, nats, finite.
    """

    order: FloatArray
    divergence: FloatArray

    def log_delta(self, rounds: int, wanted: FloatArray, *, improved: bool) -> FloatArray:
        """Return the best δ of all orders after some rounds.

        δ <= e^((α - 1)(D_α - ε)) (Abadi et al. 2016, Theorem 2; Mironov 2017, Proposition 3). Improved: times
        (1 - 1/α)^α / (α - 1) (Canonne, Kamath & Steinke 2020, Proposition 12).
        """
        total = self.divergence * rounds * (1.0 + 4.0 * _U)
        log = (self.order - 1.0)[:, None] * (total[:, None] - wanted)
        if improved:
            log = log + log_improvement(self.order)[:, None]
        best = np.min(
            log + 32.0 * _U * (1.0 + self.order[:, None] * (1.0 + total[:, None] + wanted)), axis=0, initial=0.0
        )
        return np.asarray(best)


def moments_of(components: Sequence[tuple[Pair, int]]) -> Moments:
    """Return the divergences of a round at the orders at which they are finite."""
    total = np.zeros(_ORDERS.size)
    for factor, count in ((factor, count) for pair, count in components for factor in pair.factors):
        total += count * np.array([divergence_above(factor, order) for order in _ORDERS.tolist()])
    known = np.isfinite(total)
    return Moments(_ORDERS[known], np.maximum(total[known], 0.0) * rounded_sum(components))


def rounded_sum(components: Sequence[tuple[Pair, int]]) -> float:
    """Return what pays for the roundings of a sum over all pairs: one for each product, and one for each addition."""
    return 1.0 + 4.0 * _U * (4.0 + sum(len(pair.factors) for pair, _ in components))


def divergence_above(pair: ElementaryPair, order: float) -> float:
    """Return an upper bound of the larger of the two directions."""
    sides = (Direction.A_TO_B,) if pair.symmetric else tuple(Direction)
    return max(closest_bounds(pair, order, side, _WIDTH).upper for side in sides)


def log_improvement(order: FloatArray) -> FloatArray:
    """Return ln((1 - 1/α)^α / (α - 1)) for α > 1, to 16u (1 + ln α).

    For α below 2, where α - 1 is exact, as (α - 1) ln(α - 1) - α ln α: the other form takes the logarithm of a
    difference next to 0 there.
    """
    above = order - 1.0
    near = np.minimum(above, 1.0)
    small = near * np.log(near) - (1.0 + near) * np.log1p(near)
    return np.where(order < 2.0, small, order * np.log1p(-1.0 / order) - np.log(above))


def sampled_gaussian_divergence(pair: SubsampledGaussian, order: float) -> float:
    """Return D_α of sampled Gaussian noise for a whole order α >= 2, nats; float64, rounded to nearest.

    (α - 1) D_α = ln Σ_k C(α, k) (1 - q)^(α - k) q^k e^((k² - k) s² / (2σ²)), of the direction that is the larger
    (Mironov, Talwar & Zhang 2019, sections 3.2 and 3.3). The moments accountant of Abadi et al. 2016 has the same
    moments: α(λ) = λ D_{λ + 1}.
    """
    alpha = round(order)
    if alpha != order or alpha < 2:
        raise InvalidInputError(f"order: expected a whole number of at least 2, got {order:g}")
    k = np.arange(alpha + 1.0)
    binomial = gammaln(alpha + 1.0) - gammaln(k + 1.0) - gammaln(alpha - k + 1.0)
    rate = (pair.sensitivity / pair.scale) ** 2 / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(k < alpha, (alpha - k) * np.log1p(-pair.rate), 0.0)
        terms = binomial + missed + np.where(k > 0, k * np.log(pair.rate), 0.0) + (k * k - k) * rate
    return float(logsumexp(terms)) / (alpha - 1.0)
