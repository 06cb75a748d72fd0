"""Formulas that only figures need: what Vuvuzela's authors state, and Rényi divergences (Figure 22)."""

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from pbdist.buckets.state import BucketState
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import UNIT_ROUNDOFF, MassBounds, SubsampledGaussian
from pbdist.renyi.divergence import LogMasses, Order, log_unit_of, share_at_end, terms_below
from pbdist.types import FloatArray

_U = UNIT_ROUNDOFF


def state_renyi_bounds(state: BucketState, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound D_α(A‖B) of the pair that a bucket list was built from: section 10 of docs/theory.md.

    `orders` are those of `checked_orders`; bounds are in nats, shape (K,). The upper bound is infinite where the bucket
    ∞ may hold anything of P_A.
    """
    bounds = [_bounds(state, alpha) for alpha in orders.tolist()]
    return np.array([lower for lower, _ in bounds]), np.array([upper for _, upper in bounds])


def _bounds(state: BucketState, alpha: float) -> tuple[float, float]:
    beyond = (state.infinity_a_lower, state.infinity_a_upper, 0.0, state.infinity_b_upper)
    a_lower, a_upper = np.append(state.a_lower, beyond[0]), np.append(state.a_upper, beyond[1])
    b_lower, b_upper = np.append(state.b_real_lower, beyond[2]), np.append(state.b_upper, beyond[3])
    masses = LogMasses.of(MassBounds(a_lower, a_upper), MassBounds(b_lower, b_upper))
    order = Order(alpha, log_unit_of(alpha, masses))
    slack = (masses.a_lower.size + 64.0) * _U
    # Σ P_A^α P_B^(1-α) = F + α T_A - (α - 1) T_B: lower values for T_A, upper ones for T_B.
    total_a = (float(np.sum(state.a_lower)) + beyond[0]) * (1.0 - slack)
    total_b = (float(np.sum(state.b_upper)) + beyond[3]) * (1.0 + slack)
    plain = total_a - total_b if alpha == 1.0 else alpha * total_a - order.tilt * total_b
    plain -= 8.0 * _U * alpha * (total_a + total_b)
    lower = float(np.sum(terms_below(order, masses))) * (1.0 - slack) + plain * math.exp(-order.log_unit)
    finite = masses.at(slice(0, -1))
    upper = math.inf if beyond[1] > 0.0 else _above(state, finite, order)
    if alpha == 1.0:
        return lower, upper
    return (_unscaled(lower, order, -1.0) if lower > 0.0 else -math.inf), _unscaled(upper, order, 1.0)


def _above(state: BucketState, masses: LogMasses, order: Order) -> float:
    n, h = state.grid.half_width, state.grid.loss_width
    error = (state.loss_error + 8.0 * _U * (n + state.window) * h) * (1.0 + 4.0 * _U)
    index = np.arange(-n, n + 1, dtype=np.float64)
    low, high = (index - state.window) * h - error, index * h + error
    share = share_at_end(masses.b_lower, masses.a_upper, low, high - low)
    present = masses.a_upper > -math.inf
    slack = 1.0 + (index.size + 64.0) * _U
    if order.alpha == 1.0:
        spread = state.a_upper * share * (high - low)
        base = np.where(low > 0.0, state.a_upper, state.a_lower) * low
        size = float(np.sum(np.abs(base)))
        return float(np.sum(base)) + float(np.sum(spread)) * slack + size * (slack - 1.0)
    # In units of e^((α-1) high), from the upper end: 1 with the share, e^((α-1)(low - high)) without.
    fall = np.exp(-order.tilt * (high - low) * (1.0 - 4.0 * _U)) * (1.0 + 8.0 * _U)
    weight, relative = order.weight(masses.a_upper, high)
    with np.errstate(over="ignore"):
        terms = np.where(present, (fall + share * (1.0 - fall)) * weight * (1.0 + relative + 16.0 * _U), 0.0)
        return float(np.sum(terms)) * slack


def _unscaled(value: float, order: Order, side: float) -> float:
    if value == math.inf:
        return math.inf
    result = math.log(value) + order.log_unit
    return result / order.tilt + side * 16.0 * _U * (1.0 + abs(result)) / order.tilt


def sampled_gaussian_divergence(pair: SubsampledGaussian, order: float) -> float:
    """Return D_α of sampled Gaussian noise for a whole order α >= 2, nats; float64, rounded to nearest.

    (α - 1) D_α = ln Σ_k C(α, k) (1 - q)^(α - k) q^k e^((k² - k) s² / (2σ²)), of the direction that is the larger
    (Mironov, Talwar & Zhang 2019, sections 3.2 and 3.3). The moments of Abadi et al. 2016 are α(λ) = λ D_{λ + 1}.
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


def vuvuzela(sensitivity: float, mean: float, scale: float, rounds: int) -> tuple[float, float]:
    """Return (ε', δ') that Vuvuzela's authors state for noise of that mean and scale, in messages, after some rounds.

    A round's noise has the sensitivity 4 in conversations and 2 in dialing. With d = 1e-5 they state
    ε √(2 r ln(1/d)) + r ε (e^ε - 1) and r δ + d.
    """
    epsilon, slack = sensitivity / scale, 1e-5
    delta = sensitivity / 4.0 * math.exp((sensitivity / 2.0 - mean) / scale)
    spread = epsilon * math.sqrt(2.0 * rounds * math.log(1.0 / slack))
    return spread + rounds * epsilon * math.expm1(epsilon), rounds * delta + slack
