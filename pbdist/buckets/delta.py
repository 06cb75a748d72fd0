"""δ of a bucket list: the paper's bounds (Definitions 5 and 9) and sharper ones from the same masses."""

import math
from collections.abc import Sequence
from enum import Enum

import numpy as np

from pbdist.buckets.state import BucketList, BucketState
from pbdist.buckets.sums import PIECE, summation_error, total
from pbdist.fourier.vectors import ranges
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = [
    "LowerBound",
    "UpperBound",
    "delta_lower",
    "delta_upper",
    "log_lower",
    "log_upper",
    "lower_from_sums",
    "lower_sums",
    "upper_from_sums",
    "upper_sums",
]

#: More than all that underflow can take from a sum of products of masses.
_UNDERFLOW = 1e-300

#: Above this e^ε is applied through logarithms.
_LARGE_EXPONENT = 600.0


class UpperBound(Enum):
    """Upper bounds on δ from a bucket list, from the loosest to the tightest."""

    #: Every event counts with its bucket's factor (Meiser & Mohammadi 2018, Definition 5).
    DEFINITION_5 = "definition-5"
    #: Above a window of u buckets the P_B masses count exactly (Definition 9).
    DEFINITION_9 = "definition-9"
    #: Within the window the worst case with the bucket's own P_B mass counts: the chord of `delta_upper`.
    CHORD = "chord"


class LowerBound(Enum):
    """Lower bounds on δ from a bucket list."""

    #: Σ max(0, a - e^ε b) over the buckets from j_ε to n (Definition 9).
    DEFINITION_9 = "definition-9"
    #: The same over all buckets, ∞ included.
    POST_PROCESSING = "post-processing"


def delta_upper(state: BucketState, epsilon: FloatArray, bound: UpperBound = UpperBound.CHORD) -> FloatArray:
    r"""Upper bounds on the hockey-stick divergence H(A‖B; ε) of what a bucket list was built from.

    Parameters
    ----------
    state : BucketState
    epsilon : ndarray, shape (k,)
        ε in nats.
    bound : UpperBound, optional

    Returns
    -------
    ndarray, shape (k,)
        Each at least the exact value, and at most the state's mass limit.

    Notes
    -----
    Write t = P_B / P_A and g(t) = max(0, 1 - e^ε t), so that an event of P_A mass a contributes a g(t). In bucket i
    each event has t in [f^-i, f^-(i-u)] = [t0, t1] (Lemmas 6 and 12). g falls, so a g(t0) is a bound (Definition 5).
    g is linear on the interval if e^ε t1 <= 1; then the contribution is a - e^ε b (Definition 9). g is convex, so that
    over all distributions of t with the mean b / a on the interval the contribution is largest when t takes
    its two ends only: a ((1-λ) g(t0) + λ g(t1)), λ = (b/a - t0) / (t1 - t0). b enters as b_real, at most the P_B
    mass and such that every event's share lies in the window, as in Lemma 13; a smaller b only lifts the bound.

    Rounding: the losses may lie η = ``loss_error`` outside the window. With τ the value of t moved into
    the window, t >= τ e^-η and b <= e^η Σ a τ, so that everything above holds for τ at ε - η with e^-η b. The
    roundings of i h and of the exponents are paid in the same way, by 4u (ε + n h) more. Masses are upper values for a,
    lower ones for b, in which the bound is monotone.
    """
    n = state.grid.half_width
    sums = upper_sums(state, epsilon, (state.a_upper, state.b_real_lower), 0, bound)
    return upper_from_sums(state, sums, 2 * n + 1)


def upper_sums(
    state: BucketList,
    epsilon: FloatArray,
    masses: tuple[FloatArray, FloatArray],
    start: int,
    bound: UpperBound = UpperBound.CHORD,
) -> list[list[float]]:
    """Sum the contributions of some buckets to the upper bounds, piece by piece.

    Parameters
    ----------
    state : BucketList
    epsilon : ndarray, shape (k,)
    masses : (ndarray, ndarray)
        ``a_upper`` and ``b_real_lower`` of the buckets at consecutive positions.
    start : int
        The first position, the start of a piece.
    bound : UpperBound, optional

    Returns
    -------
    list of list of float
        For each ε the sums of the pieces that reach above ε.
    """
    return [_upper_sums_at(state, float(value), masses, start, bound) for value in epsilon]


def upper_from_sums(state: BucketList, sums: Sequence[Sequence[float]], count: int) -> FloatArray:
    """Return the upper bounds of `delta_upper` from the sums of all pieces of `count` buckets."""
    return np.array([_upper_from(state, part, count) for part in sums])


def _upper_from(state: BucketList, sums: Sequence[float], count: int) -> float:
    finite = total(sums)
    result = finite * (1.0 + (summation_error(count) + 16.0 * UNIT_ROUNDOFF)) + state.infinity_a_upper
    if finite > 0.0:
        result += _UNDERFLOW
    return float(min(result * (1.0 + 2.0 * UNIT_ROUNDOFF), state.mass_limit))


def _upper_sums_at(
    state: BucketList, epsilon: float, masses: tuple[FloatArray, FloatArray], start: int, bound: UpperBound
) -> list[float]:
    a, b = masses
    n, h = state.grid.half_width, state.grid.loss_width
    slack = (state.loss_error + 4.0 * UNIT_ROUNDOFF * (abs(epsilon) + n * h)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    shifted = epsilon - slack
    first = max(-n, math.floor(min(shifted / h, n + 1.0)) - 1) + n
    span = state.window * h
    margin = 8.0 * UNIT_ROUNDOFF * (abs(epsilon) + n * h + span)
    b_factor = math.exp(-slack) * (1.0 - 8.0 * UNIT_ROUNDOFF)
    sums = []
    for begin, end in ranges(max(first, start), start + a.size, PIECE):
        part = slice(begin - start, end - start)
        x: FloatArray = shifted - h * np.arange(begin - n, end - n, dtype=np.float64)
        # Definition 5 for every bucket: e^ε t0 = e^x, and g(t0) = -expm1(x) where that is positive.
        terms = a[part] * -np.expm1(np.minimum(x, 0.0))
        if bound is not UpperBound.DEFINITION_5:
            scaled_b = _scaled_down(b[part] * b_factor, shifted)
            if bound is UpperBound.CHORD:
                terms = np.minimum(terms, _chord(a[part], scaled_b, x, span=span, margin=margin))
            terms = np.where(x + span <= -margin, a[part] - scaled_b, terms)
        # Exactly, none is negative.
        sums.append(float(np.sum(np.maximum(terms, 0.0))))
    return sums


def _chord(a: FloatArray, scaled_b: FloatArray, x: FloatArray, *, span: float, margin: float) -> FloatArray:
    """Return the chord's bound on each bucket's contribution, rounded up; only used where x + span > -margin."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        e0, e1 = np.exp(np.minimum(x, 0.0)), np.exp(np.maximum(x, -2.0 * span - margin) + span)
        relative = 16.0 * UNIT_ROUNDOFF + 4.0 * margin
        excess = scaled_b / a - e0 * (1.0 + relative)
        share = excess / (e1 * (1.0 + relative) - e0 * (1.0 - relative)) * (1.0 - 8.0 * UNIT_ROUNDOFF)
    # Of both valid choices, λ and 0, the larger; λ is a mean's place between two ends, hence at most 1.
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 0.0)
    g0 = -np.expm1(np.minimum(x, 0.0)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    g1 = -np.expm1(np.minimum(x + span - margin, 0.0)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    return a * (g0 - share * (g0 - g1) + 8.0 * UNIT_ROUNDOFF * g0)


def delta_lower(state: BucketState, epsilon: FloatArray, bound: LowerBound = LowerBound.POST_PROCESSING) -> FloatArray:
    """Lower bounds on the hockey-stick divergence H(A‖B; ε) of what a bucket list was built from.

    Parameters
    ----------
    state : BucketState
    epsilon : ndarray, shape (k,)
        ε in nats.
    bound : LowerBound, optional

    Returns
    -------
    ndarray, shape (k,)
        Each at most the exact value, and at least 0.

    Notes
    -----
    That an event falls into a bucket is a function of the event: by post-processing the divergence of the bucket
    masses, Σ max(0, a - e^ε b), is at most that of the events, wherever the buckets' edges lie. It holds for any
    choice of buckets in the sum, so that buckets below ε, whose terms are 0, are left out; and for a <= P_A, b >= P_B,
    in which it is monotone. No error of the losses enters.
    """
    sums = lower_sums(state, epsilon, (state.a_lower, state.b_upper), 0, bound)
    return lower_from_sums(state, epsilon, sums, 2 * state.grid.half_width + 1, bound)


def lower_sums(
    state: BucketList,
    epsilon: FloatArray,
    masses: tuple[FloatArray, FloatArray],
    start: int,
    bound: LowerBound = LowerBound.POST_PROCESSING,
) -> list[list[float]]:
    """Sum what some buckets add to the lower bounds, piece by piece.

    Parameters
    ----------
    state : BucketList
    epsilon : ndarray, shape (k,)
    masses : (ndarray, ndarray)
        ``a_lower`` and ``b_upper`` of the buckets at consecutive positions.
    start : int
        The first position, the start of a piece.
    bound : LowerBound, optional

    Returns
    -------
    list of list of float
        For each ε the sums of the pieces that reach above ε.
    """
    n, h = state.grid.half_width, state.grid.loss_width
    a, b = masses
    result = []
    for value in epsilon.tolist():
        first = math.floor(min(value / h, n + 1.0)) - 1
        if bound is LowerBound.DEFINITION_9:
            first = math.ceil(min(value / h, n + 1.0))
        sums = []
        for begin, end in ranges(max(max(-n, first) + n, start), start + a.size, PIECE):
            part = slice(begin - start, end - start)
            gain = a[part] - _scaled_up(b[part], value)
            sums.append(float(np.sum(gain[gain > 0.0])))
        result.append(sums)
    return result


def lower_from_sums(
    state: BucketList,
    epsilon: FloatArray,
    sums: Sequence[Sequence[float]],
    count: int,
    bound: LowerBound = LowerBound.POST_PROCESSING,
) -> FloatArray:
    """Return the lower bounds of `delta_lower` from the sums of all pieces of `count` buckets."""
    slack = summation_error(count) + 8.0 * UNIT_ROUNDOFF
    results = []
    for value, part in zip(epsilon.tolist(), sums, strict=True):
        result = total(part) * (1.0 - slack)
        if bound is LowerBound.POST_PROCESSING:
            beyond = state.infinity_a_lower - float(_scaled_up(np.array([state.infinity_b_upper]), value)[0])
            if beyond > 0.0:
                result = (result + beyond) * (1.0 - 4.0 * UNIT_ROUNDOFF)
        results.append(result)
    return np.array(results)


def _scaled_down(b: FloatArray, epsilon: float) -> FloatArray:
    """e^ε b, rounded down."""
    if epsilon < _LARGE_EXPONENT:
        return b * (math.exp(epsilon) * (1.0 - 8.0 * UNIT_ROUNDOFF))
    exponent = _logarithm(b) + epsilon
    with np.errstate(over="ignore"):
        scaled = np.exp(exponent - 8.0 * UNIT_ROUNDOFF * (epsilon + 800.0))
    return np.where(np.isfinite(scaled), scaled, np.finfo(np.float64).max)


def _scaled_up(b: FloatArray, epsilon: float) -> FloatArray:
    """e^ε b, rounded up; infinite where it is beyond float64."""
    if epsilon < _LARGE_EXPONENT:
        return b * (math.exp(epsilon) * (1.0 + 8.0 * UNIT_ROUNDOFF))
    with np.errstate(over="ignore"):
        return np.exp(_logarithm(b) + epsilon + 8.0 * UNIT_ROUNDOFF * (epsilon + 800.0))


def _logarithm(b: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(b)


def log_upper(delta: FloatArray) -> FloatArray:
    """Natural logarithm, rounded up; -inf for 0, and exactly 0 for 1."""
    values = _logarithm(delta)
    return np.where((delta == 1.0) | (delta == 0.0), values, np.nextafter(values, np.inf))


def log_lower(delta: FloatArray) -> FloatArray:
    """Natural logarithm, rounded down; -inf for 0."""
    values = _logarithm(delta)
    return np.where(delta == 0.0, values, np.nextafter(values, -np.inf))
