"""A table of δ bounds: one leaf and one ladder of compositions serve every r and ε of a noise setting."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from pbdist.buckets.composition import SHARP_RULE, SquaringRule, compose_adaptively, powers
from pbdist.buckets.delta import delta_lower, delta_upper, log_lower, log_upper
from pbdist.buckets.grid_choice import choose_loss_width
from pbdist.buckets.leaf import leaf_state
from pbdist.buckets.state import BucketState, Grid
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ElementaryPair, Pair
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["MAX_BUCKETS", "MAX_COMPOSITIONS", "BoundsTable", "bounds_table", "half_width_of"]

#: Largest number of buckets: beyond this no worker's memory is enough.
MAX_BUCKETS = 2**30
#: Largest number of compositions: a safe distance from the end of int64.
MAX_COMPOSITIONS = 2**62


@dataclass(frozen=True, eq=False)
class BoundsTable:
    """Certified bounds on δ after r compositions at ε.

    Attributes
    ----------
    compositions : ndarray of int64, shape (R,)
    epsilon : ndarray, shape (E,)
        Nats.
    grid : Grid
        The grid of one round.
    delta_lower, delta_upper, log_delta_lower, log_delta_upper : ndarray, shape (2, R, E)
        First axis: A||B, B||A. The logarithms are natural, and -inf where δ is 0.
    states : mapping of (Direction, int) to BucketState
        State of each direction and r; empty unless asked for. For a symmetric pair both directions share theirs.
    """

    compositions: IntArray
    epsilon: FloatArray
    grid: Grid
    delta_lower: FloatArray
    delta_upper: FloatArray
    log_delta_lower: FloatArray
    log_delta_upper: FloatArray
    states: Mapping[tuple[Direction, int], BucketState]


def half_width_of(buckets: Any) -> int:
    """Return the half width n of the grid with at least that many finite buckets.

    Parameters
    ----------
    buckets : int
        Even and above 0. A grid has 2n buckets of finite width, i = -n+1 .. n, with n even: n is half of `buckets`, or
        one more where that is odd.

    Raises
    ------
    InvalidInputError
        If `buckets` is not an even whole number above 0.
    """
    whole = isinstance(buckets, Integral) and not isinstance(buckets, bool)
    if not whole or not 0 < int(buckets) <= MAX_BUCKETS or int(buckets) % 2:
        raise InvalidInputError(
            f"buckets: expected an even whole number above 0 and at most {MAX_BUCKETS}, got {shown(buckets)}"
        )
    half = int(buckets) // 2
    return half + half % 2


def bounds_table(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: Any,
    epsilon: Any,
    buckets: int = 100_000,
    factor: float | None = None,
    keep_states: bool = False,
    rule: SquaringRule = SHARP_RULE,
) -> BoundsTable:
    """Compute bounds for every r and ε asked for.

    Parameters
    ----------
    components : sequence of (Pair, int)
        What one round consists of: each pair, and how often it occurs in a round.
    compositions : array_like of int, shape (R,)
        Numbers of rounds, at least 1.
    epsilon : array_like of float, shape (E,)
        ε >= 0, nats.
    buckets : int, optional
        Number of finite buckets, even.
    factor : float, optional
        Bucket factor f > 1 of one round; by default chosen from the pairs and the largest r.
    keep_states : bool, optional
        Whether to return the bucket states too.
    rule : SquaringRule, optional
        When to square; ``SquaringRule()`` is the paper's.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    rounds = _checked_compositions(compositions)
    losses = _checked_epsilon(epsilon)
    parts = _checked_components(components)
    half_width = half_width_of(buckets)
    if factor is None:
        grid = Grid(choose_loss_width(parts, int(rounds.max()), half_width), half_width)
    else:
        grid = Grid.from_factor(_checked_factor(factor), half_width)

    shape = (2, rounds.size, losses.size)
    lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
    states: dict[tuple[Direction, int], BucketState] = {}
    symmetric = all(pair.symmetric for pair, _ in parts)
    for axis, direction in enumerate(Direction):
        if axis and symmetric:
            lower[axis], upper[axis] = lower[0], upper[0]
            states.update({(direction, r): states[Direction.A_TO_B, r] for (_, r) in list(states)})
            break
        leaf = _round_state(parts, grid, direction, rule)
        for r, state in powers(leaf, rounds.tolist(), rule):
            rows = np.flatnonzero(rounds == r)
            lower[axis, rows] = delta_lower(state, losses)
            upper[axis, rows] = delta_upper(state, losses)
            if keep_states:
                states[direction, r] = state
    return BoundsTable(rounds, losses, grid, lower, upper, log_lower(lower), log_upper(upper), states)


def _round_state(
    components: Sequence[tuple[Pair, int]], grid: Grid, direction: Direction, rule: SquaringRule
) -> BucketState:
    """Return the state of one round: each pair as often as it occurs, a product by its factors, composed together."""
    counts: dict[ElementaryPair, int] = {}
    for pair, count in components:
        for factor in pair.factors:
            counts[factor] = counts.get(factor, 0) + count
    result: BucketState | None = None
    for factor, count in counts.items():
        [(_, state)] = powers(leaf_state(factor, grid, direction), [count], rule)
        result = state if result is None else compose_adaptively(result, state, rule)
    if result is None:
        raise InvalidInputError("mechanism: expected at least one pair, got none")
    return result


def _checked_components(components: Any) -> list[tuple[Pair, int]]:
    parts: list[tuple[Pair, int]] = []
    for position, item in enumerate(components):
        try:
            pair, count = item
        except (TypeError, ValueError):
            raise InvalidInputError(f"mechanism[{position}]: expected (pair, count), got {shown(item)}") from None
        if not isinstance(pair, Pair):
            raise InvalidInputError(f"mechanism[{position}]: expected a mechanism, got {shown(pair)}")
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        if not whole or not 1 <= int(count) <= MAX_COMPOSITIONS:
            raise InvalidInputError(
                f"mechanism[{position}]: expected a count of at least 1 and at most 2^62, got {shown(count)}"
            )
        parts.append((pair, int(count)))
    if not parts:
        raise InvalidInputError("mechanism: expected at least one pair, got none")
    return parts


def _checked_compositions(compositions: Any) -> IntArray:
    try:
        values = np.atleast_1d(np.asarray(compositions))
    except ValueError:
        raise InvalidInputError(
            f"compositions: expected whole numbers of at least 1, got {shown(compositions)}"
        ) from None
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool(np.all(values == np.floor(values))))
    if values.ndim != 1 or values.size == 0 or not whole:
        raise InvalidInputError(f"compositions: expected whole numbers of at least 1, got {shown(compositions)}")
    for value in values.tolist():
        if not 1 <= value <= MAX_COMPOSITIONS:
            raise InvalidInputError(
                f"compositions: expected whole numbers of at least 1 and at most 2^62, got {shown(value)}"
            )
    return values.astype(np.int64)


def _checked_epsilon(epsilon: Any) -> FloatArray:
    try:
        given = np.atleast_1d(np.asarray(epsilon))
        values = given.astype(np.float64) if given.dtype.kind in "iuf" else None
    except ValueError:
        values = None
    if values is None:
        raise InvalidInputError(f"epsilon: expected numbers of at least 0, got {shown(epsilon)}")
    if values.ndim != 1 or values.size == 0:
        raise InvalidInputError(f"epsilon: expected a scalar or a vector of numbers, got shape {values.shape}")
    for value in values.tolist():
        if not (math.isfinite(value) and value >= 0.0):
            raise InvalidInputError(f"epsilon: expected finite numbers of at least 0, got {shown(value)}")
    return values


def _checked_factor(factor: Any) -> float:
    number = isinstance(factor, Real) and not isinstance(factor, bool)
    try:
        value = float(factor) if number else math.nan
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value > 1.0):
        raise InvalidInputError(f"factor: expected a finite number above 1, got {shown(factor)}")
    return value
