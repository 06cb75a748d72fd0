"""Bounds on δ from a state: the chord from above, the bucket masses themselves from below (docs/theory.md)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from pbdist.arguments import DEFAULT_BUCKETS, half_width_of
from pbdist.buckets.blocks import PIECE, BlockedVector, Mapper, Work, summation_error
from pbdist.buckets.composition import composed_adaptively, powers
from pbdist.buckets.grid_choice import choose_loss_width
from pbdist.buckets.leaf import leaf
from pbdist.buckets.state import BlockedState, BucketState, Grid, StateHead, head_of
from pbdist.fourier.vectors import ranges
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair, factor_counts, reveals_nothing
from pbdist.types import Direction, FloatArray, IntArray

#: More than all that underflow can take from a sum of products of masses.
_UNDERFLOW = 1e-300

#: Above this e^ε is applied through logarithms.
_LARGE_EXPONENT = 600.0


#: The contributions of a block's pieces to a bound, from the state, ε, the masses a and b, and their first position.
_PieceSums: TypeAlias = Callable[[StateHead, float, tuple[FloatArray, FloatArray], int], list[float]]


def _piece_sums(
    function: _PieceSums, state: BlockedState, epsilon: FloatArray, names: tuple[str, str], mapper: Mapper
) -> list[list[float]]:
    """Return for each ε the sums of all pieces that reach above ε."""
    vectors = tuple(state.vectors[name] for name in names)
    found = list(mapper.map(partial(_block_sums, function, head_of(state), epsilon, vectors), vectors[0].blocks()))
    return [[value for block in found for value in block[index]] for index in range(epsilon.size)]


def _block_sums(
    function: _PieceSums, head: StateHead, epsilon: FloatArray, vectors: Sequence[BlockedVector], block: tuple[int, int]
) -> list[list[float]]:
    """Return the sums of the pieces of one block for each ε."""
    a, b = (vector[slice(*block)] for vector in vectors)
    return [function(head, value, (a, b), block[0]) for value in epsilon.tolist()]


def delta_upper(state: BlockedState, epsilon: FloatArray, mapper: Mapper) -> FloatArray:
    """Upper bounds on H(A‖B; ε) for each ε in nats: the chord, docs/theory.md, sections 3 and 5.

    Each is at most the state's mass limit. Masses are upper values for a, lower ones for b_real, in which the bound is
    monotone. Losses may lie η = ``loss_error`` outside their windows: the bound is taken at ε - η with e^-η b_real, and
    at 4u (ε + n h) less for the roundings of i h and of the exponents.
    """
    sums = _piece_sums(_upper_sums, state, epsilon, ("a_upper", "b_real_lower"), mapper)
    count = 2 * state.grid.half_width + 1
    return np.array([_upper_from(state, part, count) for part in sums])


def _upper_from(state: StateHead, sums: Sequence[float], count: int) -> float:
    finite = math.fsum(sums)
    result = finite * (1.0 + (summation_error(count) + 16.0 * UNIT_ROUNDOFF)) + state.infinity_a_upper
    if finite > 0.0:
        result += _UNDERFLOW
    return float(min(result * (1.0 + 2.0 * UNIT_ROUNDOFF), state.mass_limit))


def _upper_sums(state: StateHead, epsilon: float, masses: tuple[FloatArray, FloatArray], start: int) -> list[float]:
    """Return the contributions to the upper bound at ε of the buckets from `start` on, which begins a piece."""
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
        scaled_b = _scaled_down(b[part] * b_factor, shifted)
        # Definition 5: e^ε t0 = e^x, and g(t0) = -expm1(x) where that is positive.
        terms = a[part] * -np.expm1(np.minimum(x, 0.0))
        terms = np.minimum(terms, _chord(a[part], scaled_b, x, span=span, margin=margin))
        # Definition 9, where g is linear.
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
    # Both λ and 0 are valid: the larger is taken. λ is where a mean lies between two ends, so it is at most 1.
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 0.0)
    g0 = -np.expm1(np.minimum(x, 0.0)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    g1 = -np.expm1(np.minimum(x + span - margin, 0.0)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    return a * (g0 - share * (g0 - g1) + 8.0 * UNIT_ROUNDOFF * g0)


def delta_lower(state: BlockedState, epsilon: FloatArray, mapper: Mapper) -> FloatArray:
    """Lower bounds on H(A‖B; ε), at least 0, for each ε in nats: Σ max(0, a - e^ε b), docs/theory.md, section 4.

    Buckets below ε, whose terms are 0, are left out. Masses are lower values for a, upper ones for b. No error of the
    losses enters.
    """
    sums = _piece_sums(_lower_sums, state, epsilon, ("a_lower", "b_upper"), mapper)
    slack = summation_error(2 * state.grid.half_width + 1) + 8.0 * UNIT_ROUNDOFF
    results = []
    for value, part in zip(epsilon.tolist(), sums, strict=True):
        result = math.fsum(part) * (1.0 - slack)
        beyond = state.infinity_a_lower - float(_scaled_up(np.array([state.infinity_b_upper]), value)[0])
        if beyond > 0.0:
            result = (result + beyond) * (1.0 - 4.0 * UNIT_ROUNDOFF)
        results.append(result)
    return np.array(results)


def _lower_sums(state: StateHead, epsilon: float, masses: tuple[FloatArray, FloatArray], start: int) -> list[float]:
    """Return the contributions to the lower bound at ε of the buckets from `start` on, which begins a piece."""
    a, b = masses
    n, h = state.grid.half_width, state.grid.loss_width
    first = max(-n, math.floor(min(epsilon / h, n + 1.0)) - 1) + n
    sums = []
    for begin, end in ranges(max(first, start), start + a.size, PIECE):
        part = slice(begin - start, end - start)
        gain = a[part] - _scaled_up(b[part], epsilon)
        sums.append(float(np.sum(gain[gain > 0.0])))
    return sums


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


@dataclass(frozen=True, eq=False)
class BucketBounds:
    """Certified bounds on δ after r compositions at ε, and the grid they were computed on."""

    #: Of one round.
    grid: Grid
    #: First axis: A||B, B||A; at most 1. Shape (2, R, E).
    lower: FloatArray
    upper: FloatArray
    #: Natural logarithms, -inf where δ is 0. Shape (2, R, E).
    log_lower: FloatArray
    log_upper: FloatArray
    #: State of each direction and r, if wanted; both directions of a symmetric pair have the same ones.
    states: Mapping[tuple[Direction, int], BucketState]


def bucket_bounds(
    parts: Sequence[tuple[Pair, int]],
    rounds: IntArray,
    losses: FloatArray,
    work: Work,
    *,
    buckets: int | None,
    width: float | None,
    keep_states: bool,
) -> BucketBounds:
    """Compute bounds for every r and ε by privacy buckets, from checked arguments of `pbdist.table.bounds_table`.

    `width` is the loss width of one round in nats, None to choose it. The numbers do not depend on `work`, bit for bit.
    """
    half_width = half_width_of(DEFAULT_BUCKETS if buckets is None else buckets)
    grid = Grid(choose_loss_width(parts, int(rounds.max()), half_width) if width is None else width, half_width)
    shape = (2, rounds.size, losses.size)
    states: dict[tuple[Direction, int], BucketState] = {}
    lower, upper = np.zeros(shape), np.zeros(shape)
    # δ is 0 where nothing is revealed.
    nothing = reveals_nothing(parts)
    symmetric = all(pair.symmetric for pair, _ in parts)
    for axis, direction in enumerate(Direction if keep_states or not nothing else ()):
        if axis and symmetric:
            lower[axis], upper[axis] = lower[0], upper[0]
            states.update({(direction, r): states[Direction.A_TO_B, r] for (_, r) in list(states)})
            break
        one_round = _round_state(parts, grid, direction, work)
        state = one_round
        for r, state in powers(one_round, rounds.tolist(), work):
            rows = np.flatnonzero(rounds == r)
            if not nothing:
                lower[axis, rows] = delta_lower(state, losses, work.mapper)
                upper[axis, rows] = delta_upper(state, losses, work.mapper)
            if keep_states:
                states[direction, r] = state.gathered()
        for last in {id(one): one for one in (one_round, state)}.values():
            last.remove()
    # No δ of distributions exceeds 1, also where a histogram's masses sum to a little more.
    lower, upper = np.minimum(lower, 1.0), np.minimum(upper, 1.0)
    return BucketBounds(grid, lower, upper, log_lower(lower), log_upper(upper), states)


def _round_state(components: Sequence[tuple[Pair, int]], grid: Grid, direction: Direction, work: Work) -> BlockedState:
    """Return the state of one round: each pair as often as it occurs, a product by its factors, composed together."""

    def repeated(factor: ElementaryPair, count: int) -> BlockedState:
        once = leaf(factor, grid, direction, work)
        [(_, state)] = powers(once, [count], work)
        if state is not once:
            once.remove()
        return state

    first, *others = factor_counts(components).items()
    result = repeated(*first)
    for factor in others:
        parts = result, repeated(*factor)
        result = composed_adaptively(*parts, work)
        for part in parts:
            part.remove()
    return result
