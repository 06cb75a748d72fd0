"""Losses that are infinite, or rare and far above all others, told apart from the rest of a composition.

A rare loss far above the others can be tilted into sight only where the others are tilted out of it. So δ is cut in
two, Q being the outcomes of the composition with at least one far factor: H(A‖B; ε) is a sum over outcomes, hence that
over Q and that over the others, which are a composition of sub-measures like any other.

Every bound here is Theorem 20 in ``docs/tight.md``. With M and I the sums of a leaf, of everything and of its far
part, a sum over Q is Π M - Π (M - I), which rises in every M and I, so that upper values give an upper one and lower
values a lower one. So A(Q) - e^ε B(Q) is known; it is a lower bound, and what it lacks against δ over Q is Σ_Q (e^ε b
- a)_+, for any s > 1 at most (s-1)^(s-1) / s^s e^(sε) Σ_Q a e^{-sL}. The rest's infinite losses weigh at most M (1 -
e^-ρ), and its finite ones often so little that nothing needs to be composed.
"""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray, IntArray

__all__ = ["FarLosses"]

#: Least distance of a rate s from 1; at s = 1 itself the factor is 1, as 0 ln 0 = 0.
_LEAST = 1e-300
#: Above this a mass is told from 0 in every composition.
_RESOLVED = 1e-250


@dataclass(frozen=True, eq=False)
class FarLosses:
    """Sums over one direction of a round; what is a logarithm or a rate adds up under composition.

    A rate is -ln(1 - I/M) for a part I of a total M, so that after composition the outcomes with a factor in that part
    weigh M (1 - e^-ρ), which rises in all M and I. Sides are given by name.

    Attributes
    ----------
    log_a_upper, log_a_lower, log_b_upper, log_b_lower : float
        Totals; the last one without what has a loss lower than the lowest that is looked at.
    far_a_upper, far_a_lower, far_b_upper, far_b_lower : float
        Rates of the far losses.
    infinite_upper, infinite_lower : float
        Rates of the infinite losses: in the lower value of those that B surely lacks.
    falling : ndarray, shape (S,)
        Rates s > 1.
    log_falling, far_falling : ndarray, shape (S,)
        Upper values: ln E_A e^{-sL} over finite losses, and the rate of the far ones in it.
    rising, log_rising : ndarray, shape (Θ,)
        θ > 0, and upper values of ln E_A e^{θL} over finite losses that are not far.
    highest : float
        No finite loss that is not far exceeds this.
    faint : float
        P_A mass, from below, of what B has too little of for its loss to be known: a lower bound is had by its masses.
    """

    log_a_upper: float
    log_a_lower: float
    log_b_upper: float
    log_b_lower: float
    far_a_upper: float
    far_a_lower: float
    far_b_upper: float
    far_b_lower: float
    infinite_upper: float
    infinite_lower: float
    falling: FloatArray
    log_falling: FloatArray
    far_falling: FloatArray
    rising: FloatArray
    log_rising: FloatArray
    highest: float
    faint: float

    @property
    def uncertain(self) -> bool:
        """Whether nothing is known from below of a mass at infinity that is counted from above."""
        return self.infinite_upper > 0.0 and self.infinite_lower == 0.0

    @property
    def nothing_below(self) -> bool:
        """Whether nothing is known from below of that mass, nor of what B has too little of for a known loss."""
        return self.uncertain and self.faint < _RESOLVED

    def log_infinite_upper(self, rounds: IntArray) -> FloatArray:
        """Upper value of the logarithm of the P_A mass of infinite losses, shape (R,)."""
        r = rounds.astype(np.float64)
        return _log_share(r * self.log_a_upper, r * self.infinite_upper, 1.0)

    def log_far_upper(self, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
        """Upper bound of ln Σ_Q (a - e^ε b)_+, shape (R, E)."""
        r = rounds.astype(np.float64)[:, None]
        log_a = _log_share(r * self.log_a_upper, r * self.far_a_upper, 1.0)
        if self.far_a_upper == 0.0:
            return np.full((rounds.size, epsilon.size), -np.inf)
        log_b = epsilon + _log_share(r * self.log_b_lower, r * self.far_b_lower, -1.0)
        log_b -= 4.0 * UNIT_ROUNDOFF * np.abs(epsilon)
        # (e^y - 1) e^-sy is at most (s-1)^(s-1) / s^s.
        s = self.falling
        largest = (s - 1.0) * np.log(np.maximum(s - 1.0, _LEAST)) - s * np.log(s)
        r, e = r[..., None], epsilon[:, None]
        below = np.min(
            _log_share(r * self.log_falling, r * self.far_falling, 1.0)
            + s * e
            + largest
            + 32.0 * UNIT_ROUNDOFF * (s * (np.abs(e) + np.log(s)) + 1.0),
            axis=-1,
        )
        result = np.minimum(np.logaddexp(_log_difference(log_a, log_b), below), log_a)
        return _outwards(result, 1.0)

    def log_far_lower(self, rounds: IntArray, epsilon: FloatArray, *, infinite: bool = False) -> FloatArray:
        """Lower bound of ln (A(Q) - e^ε B(Q)), -inf where that is not positive, shape (R, E).

        With the `infinite` losses, Q is what has a far or an infinite factor.
        """
        r = rounds.astype(np.float64)[:, None]
        rate = self.far_a_lower + (self.infinite_lower if infinite else 0.0)
        log_a = _log_share(r * self.log_a_lower, r * rate, -1.0)
        log_b = epsilon + _log_share(r * self.log_b_upper, r * self.far_b_upper, 1.0)
        log_b += 4.0 * UNIT_ROUNDOFF * np.abs(epsilon)
        return _outwards(_log_difference(np.broadcast_to(log_a, log_b.shape), log_b), -1.0)

    def log_infinite_lower(self, rounds: IntArray) -> FloatArray:
        """Lower value of the logarithm of the P_A mass of what B surely lacks, shape (R,)."""
        r = rounds.astype(np.float64)
        return _log_share(r * self.log_a_lower, r * self.infinite_lower, -1.0)

    def log_near_upper(self, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
        """Upper bound of ln Σ (a - e^ε b)_+ over the outcomes with finite losses only, none far, shape (R, E).

        Chernoff's: (1 - e^-y)_+ is at most e^{θy} θ^θ/(1+θ)^{1+θ}.
        """
        r, e = rounds.astype(np.float64)[:, None], epsilon
        result = np.full((rounds.size, epsilon.size), np.inf)
        for theta, log_moment in zip(self.rising.tolist(), self.log_rising.tolist(), strict=True):
            if log_moment == -math.inf:
                return np.full_like(result, -np.inf)
            factor = -theta * math.log1p(1.0 / theta) - math.log1p(theta)
            slack = 16.0 * UNIT_ROUNDOFF * (np.abs(r * log_moment) + theta * np.abs(e) + theta + 8.0)
            np.minimum(result, r * log_moment - theta * e + factor + slack, out=result)
        result[e >= r * self.highest + 8.0 * UNIT_ROUNDOFF * np.abs(r * self.highest)] = -np.inf
        return result


def _log_share(log_total: FloatArray, rate: FloatArray, side: float) -> FloatArray:
    """Return ln (M (1 - e^-ρ)), moved to a side."""
    with np.errstate(divide="ignore"):
        result = log_total + np.log(-np.expm1(-rate))
    return result + side * 64.0 * UNIT_ROUNDOFF * (
        1.0
        + np.where(np.isfinite(log_total), np.abs(log_total), 0.0)
        + np.where(np.isfinite(result), np.abs(result), 0.0)
    )


def _log_difference(log_a: FloatArray, log_b: FloatArray) -> FloatArray:
    """Return ln (a - b), -inf where that is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(log_b == -np.inf, -np.inf, log_b - log_a)
        return np.where(ratio < 0.0, log_a + np.log(-np.expm1(np.minimum(ratio, 0.0))), -np.inf)


def _outwards(value: FloatArray, side: float) -> FloatArray:
    return value + side * 64.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(value), np.abs(value), 0.0))
