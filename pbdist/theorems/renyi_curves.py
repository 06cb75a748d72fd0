"""Upper bounds on the Rényi divergences of pairs at every order α > 1, not only at some.

With t = α - 1, a curve bounds D_α <= ρ α + excess_j for t from STARTS[j] to STARTS[j + 1]; the last excess holds for
all t beyond. What holds between the orders at which D is computed, of the larger of the two directions:

- D does not fall with the order (van Erven & Harremoës 2014, Theorem 3). On an interval of t it is at most its bound at
  the right end, or any later one.
- F(t) = t D_{1+t} = ln E_A[e^(tL)] is convex (Hölder), and F(0) <= 0. It is at most its chords, and the chord of upper
  bounds is above that of F.
- *Losses of at most M* in both directions: D <= M, and F rises by at most M for each t, as its slope is a mean of
  losses. P_A / P_B lies in [e^-M, e^M] and has the mean 1 under B; x^α is convex, so that E_B[(P_A / P_B)^α] is at most
  that of the chord through both ends, the moment of randomized response with odds e^M: F(t) <=
  tM + ln((e^M + e^(-2tM)) / (e^M + 1)) = ln cosh((t + 1/2) M) - ln cosh(M/2). As ln cosh √s is concave in s, with the
  slope tanh(M/2) / M at s = M²/4, F(t) <= M tanh(M/2) t (t + 1): ξ = 0 and ρ = M tanh(M/2) fit, at most the M²/2 of
  Bun & Steinke 2016, Proposition 3.3.
- *Sampled Gaussian noise*, q the rate, ρ = s² / (2σ²), P_A / P_B = 1 - q + q e^V. D_α <= ρ α, as D is quasi-convex.
  A‖B: the triangle inequality of the norm of order α under B gives D_α <= (1 + 1/t) ln(1 - q + q e^(tρ)), which is
  ρ α - h - h/t with h(t) = -ln(q + (1 - q) e^(-tρ)) >= 0; h rises and is concave, h(0) = 0, so that h/t falls. B‖A: by
  the inequality of means P_A / P_B >= e^(qV), so that F(t) <= ln E_B[e^(-tqV)] = tqρ (1 + tq), and D_α <=
  ρ α - (1 - q) ρ - (1 - q²) ρ t. No ρ below s² / (2σ²) fits: D_α(A‖B) >= ρ α + (1 + 1/t) ln q, of P_A >= q P_Gaussian.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import (
    UNIT_ROUNDOFF,
    DiscreteGaussian,
    ElementaryPair,
    Gaussian,
    Pair,
    SubsampledGaussian,
)
from pbdist.theorems.one_round import RoundPrivacy
from pbdist.theorems.renyi import divergence_above, rounded_sum
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF
#: α at which the divergences of pairs with bounded losses, and of sampled Gaussian noise, are computed. For the latter
#: closed forms are close at larger orders.
_ORDERS: FloatArray = 1.0 + np.geomspace(1e-2, 1e3, 61)
_SAMPLED_ORDERS: FloatArray = 1.0 + np.geomspace(1e-2, 1e2, 9)
#: α - 1 where an interval begins: in steps of at most 0.2 % of α, and at all orders above.
STARTS: FloatArray = np.unique(
    np.concatenate(([0.0], np.sinh(np.linspace(0.1, 14.5, 16_384)) ** 2, _ORDERS - 1.0, _SAMPLED_ORDERS - 1.0))
)


@dataclass(frozen=True, eq=False)
class RenyiCurve:
    """D_α <= rho α + excess_j on the interval j of `STARTS`; and D_α <= alone α.

    Attributes
    ----------
    rho, alone : float
    excess : ndarray, shape (STARTS.size,)
        Of any sign; all 0 where a closed form bounds D by rho α.
    """

    rho: float
    alone: float
    excess: FloatArray


def curve_of(components: Sequence[tuple[Pair, int]]) -> RenyiCurve:
    """Return the curve of one round, the sum of those of its pairs.

    Raises
    ------
    InvalidInputError
        Losses are infinite, or have no bound and no closed form.
    """
    curves = [(_curve(factor), float(count)) for pair, count in components for factor in pair.factors]
    rounding = rounded_sum(components)
    excess = sum((count * curve.excess for curve, count in curves), np.zeros(STARTS.size))
    size = sum((count * np.abs(curve.excess) for curve, count in curves), np.zeros(STARTS.size))
    return RenyiCurve(
        sum(count * curve.rho for curve, count in curves) * rounding,
        sum(count * curve.alone for curve, count in curves) * rounding,
        excess + (rounding - 1.0) * size,
    )


def _curve(pair: ElementaryPair) -> RenyiCurve:
    pair = pair.inner
    if isinstance(pair, SubsampledGaussian) and pair.rate < 1.0:
        rho = _gaussian(pair)
        return RenyiCurve(rho, rho, _sampled_excess(pair, rho))
    if isinstance(pair, SubsampledGaussian) or (isinstance(pair, Gaussian | DiscreteGaussian) and _whole(pair)):
        rho = _gaussian(pair)
        return RenyiCurve(rho, rho, np.zeros(STARTS.size))
    return _bounded(pair)


def _gaussian(pair: Gaussian | DiscreteGaussian | SubsampledGaussian) -> float:
    """Return s² / (2σ²): Bun & Steinke 2016, Lemma 2.5; Canonne, Kamath & Steinke 2020, Theorem 4."""
    return 0.5 * (pair.sensitivity / pair.scale) ** 2 * (1.0 + 8.0 * _U)


def _whole(pair: Pair) -> bool:
    return getattr(pair, "truncate", None) is None


def _bounded(pair: ElementaryPair) -> RenyiCurve:
    privacy = RoundPrivacy(pair)
    # Where δ is 0 no loss is larger.
    largest = privacy.largest * (1.0 + 1e-9)
    if privacy.log_delta(np.array([largest]))[0] > -np.inf:
        raise InvalidInputError(
            f"theorem: expected a mechanism that some (ξ, ρ) fits, got {shown(pair)}, whose losses have no bound"
        )
    ends = STARTS[1:]
    by_response = _response_moment(ends, largest) / ends * (1.0 + 4.0 * _U)
    excess = np.append(np.minimum(_by_chords(pair, _ORDERS, largest), np.minimum(by_response, largest)), largest)
    alone = min(float(np.max(excess / (1.0 + STARTS))), largest * math.tanh(0.5 * largest))
    return RenyiCurve(0.0, alone * (1.0 + 8.0 * _U), excess)


def _by_chords(pair: ElementaryPair, orders: FloatArray, largest: float) -> FloatArray:
    """Return upper bounds on D at the right ends of all intervals but the last; the largest loss may be infinite."""
    divergence = np.array([divergence_above(pair, order) for order in orders.tolist()])
    # It does not fall with the order: a later bound that is smaller holds before.
    divergence = np.minimum.accumulate(np.maximum(divergence, 0.0)[::-1])[::-1]
    known = np.isfinite(divergence)
    tilt = np.append(0.0, orders[known] - 1.0)
    moment = np.append(0.0, divergence[known]) * tilt
    inside = STARTS[1:] <= tilt[-1]
    ends, beyond = STARTS[1:][inside], STARTS[1:][~inside]
    found = np.concatenate((np.interp(ends, tilt, moment), moment[-1] + largest * (beyond - tilt[-1])))
    return found / STARTS[1:] * (1.0 + 16.0 * _U)


def _response_moment(tilt: FloatArray, largest: float) -> FloatArray:
    """Return F(t) of randomized response with odds e^M, t > 0, rounded up.

    tM + ln(1 + (e^(-2tM) - 1) / (e^M + 1)): the logarithm's argument is at least 1/2, and off by 8u of 2tM at most.
    """
    size = tilt * largest
    odds = math.exp(largest) if largest < 700.0 else math.inf
    return np.asarray(size + np.log1p(np.expm1(-2.0 * size) / (odds + 1.0)) + 32.0 * _U * size)


def _sampled_excess(pair: SubsampledGaussian, rho: float) -> FloatArray:
    ends, order = STARTS[1:], 1.0 + STARTS
    computed = _by_chords(pair, _SAMPLED_ORDERS, math.inf)
    computed = computed - rho * order[:-1] + 8.0 * _U * (computed + rho * order[:-1])
    hidden = gain_of_sampling(STARTS, pair.rate, rho)
    removed = hidden + np.append(hidden[1:] / ends, 0.0)
    closed = -np.minimum(removed, gain_of_adding(STARTS, pair.rate, rho)) * (1.0 - 4.0 * _U)
    return np.append(np.minimum(computed, closed[:-1]), closed[-1])


def gain_of_adding(tilt: FloatArray, rate: float, rho: float) -> FloatArray:
    """Return (1 - q) ρ + (1 - q²) ρ t, of B‖A, rounded down."""
    return (1.0 - rate) * rho * (1.0 + (1.0 + rate) * tilt) * (1.0 - 16.0 * _U)


def gain_of_sampling(tilt: FloatArray, rate: float, rho: float) -> FloatArray:
    """Return h(t) = -ln(1 + (1 - q)(e^(-tρ) - 1)) >= 0, of A‖B, rounded down.

    With the argument 1 + z, z is off by 4u |z|, and its logarithm by that over 1 + z and by its own rounding.
    """
    z = np.maximum((1.0 - rate) * np.expm1(-rho * tilt), 2.0 * _U - 1.0)
    found = -np.log1p(z)
    return np.maximum(found - 8.0 * _U * (found - z / (1.0 + z)), 0.0)
