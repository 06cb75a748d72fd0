"""What lies so far above every ε that it tells the same as infinity."""

import math
from dataclasses import replace

import numpy as np

from pbdist.buckets.tight.leaf_atoms import tilted
from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    LARGEST_RATE,
    LOG_TOTAL_A,
    LOG_TOTAL_B,
    LOG_TOTAL_DOMINATING,
    RATE_A,
    RATE_B,
    RATE_DOMINATING,
    TiltedMasses,
    outwards,
)
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["merge_above"]

#: Exponents beyond this are cut, and masses below this are not told from 0.
_LARGEST_EXPONENT, _SMALLEST = 700.0, 1e-290
#: Upper values add this much, relatively, for the rounding of a handful of sums and products.
_UP, _DOWN = 1.0 + 16.0 * UNIT_ROUNDOFF, 1.0 - 16.0 * UNIT_ROUNDOFF


def merge_above(state: TiltedMasses, limit: float) -> TiltedMasses:
    """Merge what lies above a loss of `limit` nats into the first position above it, and infinity.

    Of a dominating atom m positions above that one e^{-m spacing} stays there, the P_B mass being kept, and the rest
    goes to infinity; of the exact masses all goes there. What lies above is told for the exact masses by their own
    losses, ln(a / b), for their positions are labels that may drift from these.
    """
    if len(set(state.origins)) > 1:
        raise InvalidInputError(f"states: expected one grid, got origins {state.origins!r}")
    drift = float(np.max(state.log_scale[:, EXACT_A] - state.log_scale[:, EXACT_B]))
    kept = _kept(state, DOMINATING, limit)
    kept_exact = _kept(state, EXACT_A, limit - drift)
    if kept == kept_exact == state.size:
        return state
    additive = state.additive.copy()
    weights = state.weights.copy()
    if kept < state.size:
        over = state.weights[:, DOMINATING, kept:]
        steps = state.spacing * np.arange(1.0, over.shape[-1] + 1.0)
        rounding = (over.shape[-1] + 16.0 + 4.0 * (state.tilt + 1.0) * float(steps[-1])) * UNIT_ROUNDOFF
        weights[:, DOMINATING, kept - 1] += np.einsum("kn,n->k", over, np.exp(-(state.tilt + 1.0) * steps))
        weights[:, DOMINATING, kept:] = 0.0
        weights[..., kept - 1 : kept] = outwards(weights[..., kept - 1 : kept], rounding)
        moved = _untilted(state, DOMINATING, kept, -np.expm1(-steps))
        additive[:, RATE_DOMINATING] = _rate(additive, LOG_TOTAL_DOMINATING, RATE_DOMINATING, moved * _UP) * _UP
    if kept_exact < state.size:
        ones = np.ones(state.size - kept_exact)
        weights[:, EXACT_A:, kept_exact:] = 0.0
        moved = _untilted(state, EXACT_A, kept_exact, ones)
        additive[:, RATE_A] = _rate(additive, LOG_TOTAL_A, RATE_A, moved * _DOWN) * _DOWN
        moved = _untilted(state, EXACT_B, kept_exact, ones)
        additive[:, RATE_B] = _rate(additive, LOG_TOTAL_B, RATE_B, moved * _UP) * _UP
    return replace(state, weights=weights[..., : max(kept, kept_exact)], additive=additive)


def _kept(state: TiltedMasses, row: int, limit: float) -> int:
    """Return how many positions of a row lie at or below the limit, and the next one; all, if none does."""
    kept = math.floor((limit / (0.5 * state.width) - state.origins[0][min(row, 1)]) / (2.0 * state.stride)) + 2
    return kept if 2 <= kept <= state.size else state.size


def _untilted(state: TiltedMasses, row: int, kept: int, shares: FloatArray) -> FloatArray:
    """Return the plain masses of shares of the elements from `kept` on: lower ones of A, upper ones of the others."""
    over, error = state.weights[:, row, kept:], state.error[:, row]
    tilt = state.tilt + (1.0 if row == EXACT_B else 0.0)
    last = 0.5 * state.width * (state.origins[0][min(row, 1)] + 2.0 * state.stride * (kept - 1))
    steps = state.spacing * np.arange(1.0, over.shape[-1] + 1.0)
    exponent = state.log_scale[:, row] - tilt * last
    slack = state.log_scale_error[:, row] + 8.0 * UNIT_ROUNDOFF * (
        np.abs(state.log_scale[:, row]) + abs(tilt * last) + 4.0
    )
    mass = np.einsum("kn,n->k", over, np.exp(-tilt * steps) * shares)
    rounding = (over.shape[-1] + 8.0 + 4.0 * tilt * float(steps[-1])) * UNIT_ROUNDOFF
    if row == EXACT_A:
        plain = np.maximum(mass * (1.0 - rounding) - error, 0.0)
        lower: FloatArray = plain * np.exp(np.minimum(exponent - slack, _LARGEST_EXPONENT))
        return lower
    # More than all terms lost to underflow.
    result = tilted(mass * (1.0 + rounding) + error + over.shape[-1] * _SMALLEST, exponent + slack)
    there = np.any(over > 0.0, axis=-1) | (error > 0.0)
    masses: FloatArray = np.where(there, np.maximum(result, _SMALLEST), 0.0)
    return masses


def _rate(additive: FloatArray, total: int, rate: int, moved: FloatArray) -> FloatArray:
    """Rate of the mass at infinity after `moved` joined it, of a total M of which M e^-ρ is finite."""
    finite = np.exp(additive[:, total] - additive[:, rate])
    share = np.divide(moved, finite, out=np.ones_like(moved), where=finite > 0.0)
    with np.errstate(divide="ignore"):
        return np.minimum(additive[:, rate] - np.log1p(-np.minimum(share, 1.0)), LARGEST_RATE)
