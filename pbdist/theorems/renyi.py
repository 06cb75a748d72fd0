"""Composition theorems by Rényi divergences: the moments accountant, and concentrated differential privacy.

Rényi divergences of a composition are the sums of those of its pairs. What differs is what is made of them: the
conversions to (ε, δ) of 2016 to 2018, and the best ones known. All functions take divergences in nats, upper bounds of
the larger of the two directions, and return upper bounds on ln δ at each ε, shape (E,).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from pbdist.curves.renyi import closest_bounds
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import (
    UNIT_ROUNDOFF,
    DiscreteGaussian,
    ElementaryPair,
    Gaussian,
    Pair,
    Reversed,
    SubsampledGaussian,
)
from pbdist.theorems.one_round import RoundPrivacy
from pbdist.types import Direction, FloatArray

__all__ = ["Concentrated", "Moments", "concentrated_of", "moments_of", "sampled_gaussian_divergence"]

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


@dataclass(frozen=True)
class Concentrated:
    """D_α <= ξ + ρ α for all α > 1: (ξ, ρ)-zero-concentrated differential privacy (Bun & Steinke 2016)."""

    xi: float
    rho: float

    def log_delta(self, rounds: int, wanted: FloatArray, *, improved: bool) -> FloatArray:
        """Return δ after some rounds: by Bun & Steinke 2016, Lemma 3.5 and 3.6; improved, by the best order.

        With t = (ε - ξ - ρ) / (2ρ) >= 0, δ <= e^(-ρ t²) min(1, √(πρ), 1/(1 + t), 2/(1 + t + √((1 + t)² + 4/(πρ)))).
        Improved: Canonne, Kamath & Steinke 2020, Proposition 12, at about the best α.
        """
        xi, rho = self.xi * rounds * (1.0 + 4.0 * _U), self.rho * rounds * (1.0 + 4.0 * _U)
        if rho == 0.0:
            return np.where(wanted >= max(xi, 0.0), -np.inf, 0.0)
        if improved:
            return self._best_order(xi, rho, wanted)
        t = np.maximum(wanted * (1.0 - 4.0 * _U) - xi - rho, 0.0) / (2.0 * rho) * (1.0 - 8.0 * _U)
        factor = np.minimum.reduce(
            [
                np.ones(t.shape),
                np.full(t.shape, math.sqrt(math.pi * rho)),
                1.0 / (1.0 + t),
                2.0 / (1.0 + t + np.sqrt((1.0 + t) ** 2 + 4.0 / (math.pi * rho))),
            ]
        )
        log = -rho * t**2 * (1.0 - 16.0 * _U) + np.log(factor) + 64.0 * _U
        return np.where(wanted > xi + rho, np.minimum(log, 0.0), 0.0)

    def _best_order(self, xi: float, rho: float, wanted: FloatArray) -> FloatArray:
        near = np.maximum((wanted - xi - rho) / (2.0 * rho), 1e-6)
        around = np.multiply.outer(np.geomspace(0.05, 20.0, 201), near)
        everywhere = np.broadcast_to(np.geomspace(1e-4, 1e6, 201)[:, None], around.shape)
        order = 1.0 + np.concatenate((around, everywhere))
        total = xi + rho * order
        log = (
            (order - 1.0) * (total - wanted)
            + log_improvement(order)
            + 32.0 * _U * (1.0 + order * (1.0 + abs(total) + wanted))
        )
        return np.asarray(np.min(log, axis=0, initial=0.0))


def moments_of(components: Sequence[tuple[Pair, int]]) -> Moments:
    """Return the divergences of a round at the orders at which they are finite."""
    total = np.zeros(_ORDERS.size)
    for factor, count in ((factor, count) for pair, count in components for factor in pair.factors):
        total += count * np.array([_divergence(factor, order) for order in _ORDERS.tolist()])
    known = np.isfinite(total)
    return Moments(_ORDERS[known], np.maximum(total[known], 0.0) * _rounded_sum(components))


def concentrated_of(components: Sequence[tuple[Pair, int]]) -> Concentrated:
    """Return (ξ, ρ) of a round, the sum of those of its pairs.

    *Gaussian and discrete Gaussian noise*: ξ = 0, ρ = s² / (2 scale²) (Bun & Steinke 2016, Lemma 2.5; Canonne, Kamath &
    Steinke 2020, Theorem 4). *Sampled Gaussian*: the same, as its divergences are at most those of the whole Gaussian
    (quasi-convexity). *Bounded losses*: for any orders α_1 < .. < α_K, D_α <= D_{α_i} up to α_i, as divergences grow
    with the order, and D_α is at most the largest loss; the least ρ for ξ = 0 is the largest of D_{α_(i+1)} / α_i, of
    D_{α_1}, and of the largest loss over α_K. Half of the square of the largest loss will do as well (Bun & Steinke
    2016, Proposition 3.3).

    Raises
    ------
    InvalidInputError
        Losses are infinite, or have no bound and no closed form: no (ξ, ρ) is known to fit.
    """
    rho = sum(count * _rho(factor) for pair, count in components for factor in pair.factors)
    return Concentrated(0.0, rho * _rounded_sum(components))


def _rounded_sum(components: Sequence[tuple[Pair, int]]) -> float:
    """Return what pays for the roundings of a sum over all pairs: one for each product, and one for each addition."""
    return 1.0 + 4.0 * _U * (4.0 + sum(len(pair.factors) for pair, _ in components))


def _rho(pair: ElementaryPair) -> float:
    if isinstance(pair, Reversed):
        return _rho(pair.pair)
    if isinstance(pair, SubsampledGaussian) or (isinstance(pair, Gaussian | DiscreteGaussian) and _whole(pair)):
        return 0.5 * (pair.sensitivity / pair.scale) ** 2 * (1.0 + 8.0 * _U)
    privacy = RoundPrivacy(pair)
    # Where δ is 0 no loss is larger.
    largest = privacy.largest * (1.0 + 1e-9)
    if privacy.log_delta(np.array([largest]))[0] > -np.inf:
        raise InvalidInputError(
            f"theorem: expected a mechanism that some (ξ, ρ) fits, got {shown(pair)}, whose losses have no bound"
        )
    orders = 1.0 + np.geomspace(1e-2, 1e3, 61)
    divergence = np.minimum(np.array([_divergence(pair, order) for order in orders.tolist()]), largest)
    fitted = max(divergence[0], largest / orders[-1], np.max(divergence[1:] / orders[:-1]))
    return min(float(fitted), 0.5 * largest**2) * (1.0 + 8.0 * _U)


def _whole(pair: Pair) -> bool:
    return getattr(pair, "truncate", None) is None


def _divergence(pair: ElementaryPair, order: float) -> float:
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
