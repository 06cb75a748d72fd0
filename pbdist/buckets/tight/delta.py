"""δ of tilted masses, from above and from below, as natural logarithms."""

import math

import numpy as np

from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    HIGHEST,
    LARGEST_RATE,
    LOG_TOTAL_A,
    LOG_TOTAL_B,
    LOG_TOTAL_DOMINATING,
    LOSS_SHIFT,
    RATE_A,
    RATE_B,
    RATE_DOMINATING,
    TiltedMasses,
)
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray

__all__ = [
    "delta_above",
    "delta_below",
    "largest_factor",
    "log_delta_lower",
    "log_delta_upper",
    "log_error_of_lower",
    "log_infinity",
    "log_infinity_lower",
]

#: Smallest float64 of full precision, rounded up.
_SMALLEST_NORMAL = 2.3e-308
#: More than sums of products of factors can lose to underflow, with the lift between two ε.
_UNDERFLOW = 1e-44
#: Exponents beyond this are no float, with room for a few factors.
_LARGEST_EXPONENT = 600.0
#: Sums for several ε are shared while the largest factor between them is below e to this, ..
_STEEPEST = 300.0
#: .. and their difference is trusted down to this relative rounding.
_TRUSTED = 1e-8
#: So many cells about the crossing are tried for the first.
_NEIGHBOURS = 512
#: Elements whose factor against the crossing exceeds e to this are not looked at.
_REACH = 30.0
#: Elements below this, relative to the largest, are too faint to tell the loss of their events.
_FAINT = 1e-9


def log_delta_upper(state: TiltedMasses, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Natural logarithm of an upper bound on δ, shape (E,), of the single state of a stack, and of T's part in it.

    Σ p (1 - e^{ε-ℓ})_+ over the dominating pair, with ε lowered by how far rounding may have moved the losses, plus
    T times the largest factor, plus the mass at infinity.
    """
    tilt, weights = state.tilt, state.weights[0, DOMINATING]
    position = state.positions(DOMINATING)
    reach = max(abs(float(position[0])), abs(float(position[-1])))
    scale, scale_error = float(state.log_scale[0, DOMINATING]), float(state.log_scale_error[0, DOMINATING])
    highest = float(state.additive[0, HIGHEST]) * (1.0 + 8.0 * UNIT_ROUNDOFF)
    lowered = epsilon - float(state.additive[0, LOSS_SHIFT]) - 8.0 * UNIT_ROUNDOFF * (np.abs(epsilon) + reach)
    error = float(state.error[0, DOMINATING]) * largest_factor(tilt) + weights.size * _SMALLEST_NORMAL
    sums = _tail_sums(weights, position, tilt, lowered)
    slack = scale_error + 8.0 * UNIT_ROUNDOFF * (abs(scale) + np.abs(tilt * lowered) + (tilt + 1.0) * reach + 8.0)
    with np.errstate(divide="ignore"):
        finite = np.log(sums + error) + (scale - tilt * lowered) + slack
    # A largest rate stands for no limit, whatever ε is.
    finite = np.where((lowered >= highest) & (highest < LARGEST_RATE), -np.inf, finite)
    result: FloatArray = np.logaddexp(finite, log_infinity(state.additive[0], LOG_TOTAL_DOMINATING, RATE_DOMINATING))
    result = result + 32.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(result), np.abs(result), 0.0))
    return result, math.log(error) + (scale - tilt * lowered) if error > 0.0 else np.full(epsilon.size, -np.inf)


def largest_factor(tilt: float) -> float:
    """Return max_{y>0} e^{-θy} (1 - e^-y) = θ^θ / (1 + θ)^(1+θ)."""
    return math.exp(-tilt * math.log1p(1.0 / tilt)) / (1.0 + tilt) if tilt > 0.0 else 1.0


def _tail_sums(weights: FloatArray, position: FloatArray, tilt: float, epsilon: FloatArray) -> FloatArray:
    """Upper values of Σ w e^{-θ(ℓ-ε)} (1 - e^{ε-ℓ}) over the ℓ above each ε.

    As a difference of two sums from ε on where the rounding of these is small against it, else term by term.
    """
    size = weights.size
    first = np.searchsorted(position, epsilon, side="right")
    start = int(np.min(first, initial=size))
    if start == size:
        return np.zeros(epsilon.size)
    origin = float(position[start])
    gap = position[start:] - origin
    result = np.full(epsilon.size, -np.inf)
    steep = (tilt + 1.0) * float(np.max(epsilon) - np.min(epsilon))
    relative = (size + 64.0) * UNIT_ROUNDOFF
    if steep < _STEEPEST and epsilon.size > 1:
        falling = np.exp(-tilt * gap)
        falling *= weights[start:]
        above = np.cumsum(falling[::-1])[::-1]
        falling *= np.exp(-gap)
        below = np.cumsum(falling[::-1])[::-1]
        place = np.minimum(first - start, above.size - 1)
        ratio = np.exp(epsilon - origin)
        lift = np.exp(tilt * (epsilon - origin))
        plus, minus = above[place] * lift, below[place] * ratio * lift
        spread = (relative + 16.0 * UNIT_ROUNDOFF * steep) * (plus + minus)
        result = np.where(first < size, plus - minus + spread, 0.0)
        trusted = (spread <= _TRUSTED * (plus - minus)) | (first >= size)
    else:
        trusted = np.zeros(epsilon.size, dtype=bool)
    for index in np.flatnonzero(~trusted):
        above_it = position[first[index] :] - epsilon[index]
        terms = np.exp(-tilt * above_it) * -np.expm1(-above_it)
        result[index] = float(weights[first[index] :] @ terms) * (1.0 + relative)
    return result


def log_delta_lower(state: TiltedMasses, epsilon: FloatArray) -> FloatArray:
    """Natural logarithm of a lower bound on δ, shape (E,), of the single state of a stack.

    δ is the largest P_A(S) - e^ε P_B(S) over all events S; S is taken as the cells from some first one on in which
    a > e^ε b, that first one such that the sum, less what the errors of both rows can be worth there, is largest; and
    infinity, as one cell more.
    """
    result = log_infinity_lower(state.additive[0], epsilon)
    a, b = state.weights[0, EXACT_A], state.weights[0, EXACT_B]
    core = a >= _FAINT * float(np.max(a))
    error_a, error_b = (float(state.error[0, row]) for row in (EXACT_A, EXACT_B))
    if not np.any(core) or float(np.max(a)) <= 0.0 or not math.isfinite(error_a + error_b):
        return result
    tilt = state.tilt
    scale_a, scale_b = (float(state.log_scale[0, row]) for row in (EXACT_A, EXACT_B))
    scale_error = float(state.log_scale_error[0, EXACT_A] + state.log_scale_error[0, EXACT_B])
    position = state.positions(EXACT_A)
    reach = max(abs(float(position[0])), abs(float(position[-1])))
    rounding = 8.0 * UNIT_ROUNDOFF * (abs(scale_a) + abs(scale_b) + (tilt + 1.0) * reach + 8.0)
    within = np.flatnonzero(core)
    inner, outer = int(within[0]), int(within[-1]) + 1
    # Cells further right are events like any other that need not be looked at.
    a, b, position, core = a[inner:outer], b[inner:outer], position[inner:outer], core[inner:outer]
    # a / b without the positions, which rise, is nearly constant: the first cell above ε is found from both.
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(a / b) + position + (scale_a - scale_b)
    start, plus_all, minus_all, origin = position.size, a, b, 0.0
    shared = (tilt + 1.0) * (float(np.max(epsilon) - np.min(epsilon))) < _STEEPEST and epsilon.size > 1
    for index in np.argsort(epsilon, kind="stable").tolist():
        eps = float(epsilon[index])
        crossing_at, first = _crossing(
            position, core & (loss > eps), tilt, eps + (scale_b - scale_a) - _LARGEST_EXPONENT
        )
        if crossing_at >= position.size:
            continue
        crossing = float(position[crossing_at])
        level = eps - crossing + (scale_b - scale_a)
        grown = 1.0 + 2.0 * scale_error + rounding + 8.0 * UNIT_ROUNDOFF * (abs(eps) + abs(level))
        near = min(2 * _NEIGHBOURS, position.size - first)
        gap = position[first : first + near] - crossing
        if shared and first >= start and (tilt + 1.0) * (crossing - origin) < _STEEPEST and abs(level) < _STEEPEST:
            lift_a, lift_b = math.exp(tilt * (crossing - origin)), math.exp((tilt + 1.0) * (crossing - origin) + level)
            grown *= 1.0 + 32.0 * UNIT_ROUNDOFF * _STEEPEST
            plus, minus = plus_all[first - start :] * lift_a, minus_all[first - start :] * (lift_b * grown)
        else:
            steps = position[first:] - crossing
            plus, minus = a[first:] * np.exp(-tilt * steps), b[first:] * np.exp(-(tilt + 1.0) * steps)
            start, plus_all, minus_all, origin = first, plus, minus, crossing
            minus = b[first:] * np.exp(level - (tilt + 1.0) * steps) if abs(level) >= 1.0 else minus * math.exp(level)
            minus = minus * grown
        # What the errors can be worth at most, the factors falling along the cells.
        worth = error_a * np.exp(-tilt * gap) + (error_b * grown) * np.exp(level - (tilt + 1.0) * gap)
        best = _best_sum(plus, minus, worth)
        if best > 0.0:
            slack = scale_error + rounding + 8.0 * UNIT_ROUNDOFF * (abs(tilt * crossing) + 2.0 * _STEEPEST)
            finite = math.log(best) + scale_a - tilt * crossing - slack
            result[index] = np.logaddexp(result[index], finite)
    return result - 8.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(result), np.abs(result), 0.0))


def _crossing(position: FloatArray, above: BoolArray, tilt: float, lowest: float) -> tuple[int, int]:
    """Return the first cell above ε, and the first that is tried, from `lowest` on, where b's factor is a float."""
    crossing_at = int(np.argmax(above)) if above.any() else position.size - 1
    if float(position[crossing_at]) < lowest:
        crossing_at = int(np.searchsorted(position, lowest, side="left"))
        if crossing_at >= position.size:
            return crossing_at, crossing_at
    first = int(np.searchsorted(position, float(position[crossing_at]) - _REACH / (tilt + 1.0), side="left"))
    first = max(first, crossing_at - _NEIGHBOURS)
    return crossing_at, first if float(position[first]) >= lowest else crossing_at


def _best_sum(plus: FloatArray, minus: FloatArray, worth: FloatArray) -> float:
    """Return the largest Σ (plus - minus)_+ from some cell on, less that cell's `worth`; a lower value."""
    near = worth.size
    gains = plus - minus
    np.maximum(gains, 0.0, out=gains)
    gains -= ((plus.size + 64.0) * UNIT_ROUNDOFF) * (plus + minus)
    sums = np.cumsum(gains[:near][::-1])[::-1] + float(gains[near:].sum())
    return float(np.max(sums - worth, initial=0.0)) - _UNDERFLOW * plus.size


def log_error_of_lower(state: TiltedMasses, epsilon: FloatArray) -> FloatArray:
    """About the logarithm of what the errors of the exact masses take from the lower bound, shape (E,)."""
    errors = float(state.error[0, EXACT_A]) + float(state.error[0, EXACT_B])
    if errors <= 0.0:
        return np.full(epsilon.size, -np.inf)
    scale_a, scale_b = (float(state.log_scale[0, row]) for row in (EXACT_A, EXACT_B))
    # The label of the cells of loss ε.
    return math.log(errors) + scale_a - state.tilt * (epsilon - (scale_a - scale_b))


def log_infinity(additive: FloatArray, total: int, rate: int) -> float:
    """Natural logarithm of the mass at infinity, M (1 - e^-ρ), by the additive columns of one state."""
    return float(additive[total]) + _log(-math.expm1(-float(additive[rate])))


def log_infinity_lower(additive: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Natural logarithm of a - e^ε b at infinity, where that is positive, by the additive columns of one state."""
    log_a, log_b = log_infinity(additive, LOG_TOTAL_A, RATE_A), log_infinity(additive, LOG_TOTAL_B, RATE_B)
    if log_a == -math.inf:
        return np.full(epsilon.size, -np.inf)
    ratio = epsilon + log_b - log_a
    ratio = ratio + 16.0 * UNIT_ROUNDOFF * (
        np.abs(epsilon) + (abs(log_b) if log_b > -math.inf else 0.0) + abs(log_a) + 1.0
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(ratio < 0.0, -np.expm1(np.minimum(ratio, 0.0)), 0.0)
        return log_a + np.log(left) - 16.0 * UNIT_ROUNDOFF * (abs(log_a) + 1.0)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def delta_above(log_delta: FloatArray) -> FloatArray:
    """Return δ from its logarithm, rounded up; above 0 wherever the logarithm is more than -inf."""
    values = np.exp(log_delta) * (1.0 + 8.0 * UNIT_ROUNDOFF)
    return np.where(log_delta > -np.inf, np.maximum(values, _SMALLEST_NORMAL), 0.0)


def delta_below(log_delta: FloatArray) -> FloatArray:
    """Return δ from its logarithm, rounded down; 0 where it is no normal float64."""
    values = np.exp(np.minimum(log_delta, 0.0)) * (1.0 - 8.0 * UNIT_ROUNDOFF)
    return np.where(values >= _SMALLEST_NORMAL, values, 0.0)
