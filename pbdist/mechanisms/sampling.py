"""What a Poisson sample makes of a pair: A becomes (1 - q) B + q A, and each loss L becomes ln(1 - q + q e^L)."""

import math
from collections.abc import Sequence

import numpy as np

from pbdist.mechanisms.masses import SMALLEST_MASS, UNIT_ROUNDOFF, LossMasses, MassBounds, ScaledLossMasses
from pbdist.types import FloatArray

#: Losses below this are reached only by rates above 0.39; e^loss - 1 then is no better known than e^loss.
_FAR_BELOW = -0.5


def full_losses(loss: FloatArray, rate: float) -> FloatArray:
    """Return the losses L without sampling, from increasing losses ln(1 - q + q e^L) with it; -inf from ln(1 - q) on.

    `edge_error` bounds the roundings.
    """
    q = rate
    if q == 1.0:
        return loss
    # e^loss - (1 - q), from whichever form has the smaller absolute error.
    excess = np.expm1(np.minimum(loss, 700.0)) + q
    below, low, high, above = np.searchsorted(loss, (_FAR_BELOW, -0.5 * q, 0.5 * q, 700.0))
    excess[:below] = np.exp(loss[:below]) - (1.0 - q)
    with np.errstate(divide="ignore"):
        full: FloatArray = np.log(np.maximum(excess, 0.0))
    full -= math.log(q)
    full[low:high] = np.log1p(np.expm1(loss[low:high]) / q)
    full[above:] = loss[above:] - math.log(q)
    return full


def edge_error(edges: FloatArray, rate: float, *, steps: float = 0.0, level: float = 0.0) -> float:
    """Bound the distance, in nats, between increasing edges and the exact losses that `full_losses` of them give.

    Theorem 7 of docs/theory.md. What is done to a full loss L afterwards may move it by `steps` |L| + `level`, in units
    of 2^-53.
    """
    if edges.size == 0:
        return 0.0
    q, top = rate, float(edges[-1])
    deepest = -math.log1p(-q) if q < 1.0 else math.inf
    lowest = min(deepest, max(0.0, -float(edges[0])))
    slope, step = 1.0, max(top, 0.0)
    if q < 1.0:
        slope = min(1.0, max(0.0, -math.expm1(-top) + q * math.exp(-top))) if top > -deepest else 0.0
        step = max(top, 0.0) - math.log(q)
        if 0.0 < top < 1.0:
            step = min(step, math.log1p(math.expm1(top) / q))
    weighted = max(lowest, slope * step if top > 0.0 else 0.0)
    rounding = (9.0 + steps) * weighted + slope * (10.0 * abs(math.log(q)) + level)
    if deepest < -_FAR_BELOW:
        change = min(1.0, max(-math.expm1(-max(top, 0.0)), math.expm1(lowest)))
        rounding += 16.0 * change + 2.0 * slope
    elif q < 1.0:
        rounding += 20.0
    return 1.01 * rounding * UNIT_ROUNDOFF


def sampled_losses(loss: FloatArray, rate: float) -> tuple[FloatArray, float]:
    """Return ln(1 - q + q e^L) at finite losses L, and a bound on its error beside that of L: Theorem 36."""
    if rate == 1.0 or not loss.size:
        return loss, 0.0
    change = rate * np.expm1(np.minimum(loss, 700.0))
    apart = np.logaddexp(math.log1p(-rate), math.log(rate) + loss)
    near = (np.abs(change) <= 0.5) & (loss < 700.0)
    found: FloatArray = np.where(near, np.log1p(np.maximum(change, -0.5)), apart)
    size = np.where(near, np.abs(found), 1.0 + np.abs(found) + abs(math.log(rate)))
    return found, 64.0 * UNIT_ROUNDOFF * float(np.max(size))


def sampled(
    full: ScaledLossMasses, rate: float, *, empty: int, atom_loss: FloatArray, loss_error: float
) -> ScaledLossMasses:
    """Masses after sampling, from those without it: Theorem 36.

    Both distributions have every event of `full`, and the losses of its atoms are finite.

    Parameters
    ----------
    full : ScaledLossMasses
        Masses of A and B without sampling, on bins between the edges that `full_losses` gives.
    rate : float
        The sampling rate q.
    empty : int
        How many bins go before: those between losses that no event has.
    atom_loss : ndarray
        The losses of the atoms after sampling.
    loss_error : float
        Bound on the errors of the losses after sampling.
    """
    bins_a, bins_scale = _mixed(full.masses.bins_a, full.log_scale_a, full.masses.bins_b, full.log_scale_b, rate)
    atoms_a, atoms_scale = _mixed(
        full.masses.atoms_a, full.atoms_log_scale_a, full.masses.atoms_b, full.atoms_log_scale_b, rate
    )
    masses = LossMasses(
        bins_a=bins_a.preceded_by_empty(empty),
        bins_b=full.masses.bins_b.preceded_by_empty(empty),
        atom_loss=atom_loss,
        atoms_a=atoms_a,
        atoms_b=full.masses.atoms_b,
        only_a=MassBounds.zeros(1),
        only_b=MassBounds.zeros(1),
        loss_error=loss_error,
    )
    before = np.zeros(empty)
    return ScaledLossMasses(
        masses,
        np.concatenate((before, bins_scale)),
        np.concatenate((before, full.log_scale_b)),
        atoms_scale,
        full.atoms_log_scale_b,
    )


def _mixed(
    a: MassBounds, scale_a: FloatArray, b: MassBounds, scale_b: FloatArray, rate: float
) -> tuple[MassBounds, FloatArray]:
    """Return (1 - q) b + q a and its factors."""
    if rate == 1.0:
        return a, scale_a
    rest = 1.0 - rate
    return added([(rate, rate, a, scale_a), (rest, rest, b, scale_b)])


def added(parts: Sequence[tuple[float, float, MassBounds, FloatArray]]) -> tuple[MassBounds, FloatArray]:
    """Return sums of masses with weights, and the logarithms of their factors.

    Each part has a lower and an upper value of its weight, off by 2u at most, its masses and their factors. Weights,
    products, exponentials of factors and sums err by less than (16 + number of parts) u, and a factor that is e^-d of
    the largest one by another d u.
    """
    common = np.max([scale for _, _, _, scale in parts], axis=0)
    lower, upper = np.zeros(common.shape), np.zeros(common.shape)
    for least, most, masses, scale in parts:
        apart = common - scale
        factor = np.exp(-apart)
        slack = (16.0 + len(parts) + np.minimum(apart, 1e3)) * UNIT_ROUNDOFF
        lower += least * masses.lower * factor * (1.0 - slack)
        upper += most * masses.upper * factor * (1.0 + slack)
        if most > 0.0:
            # What may underflow counts as a number that does not.
            upper[masses.upper > 0.0] += SMALLEST_MASS
    lower[lower < SMALLEST_MASS] = 0.0
    return MassBounds(lower, upper), common
