"""Bounds on δ for every r and ε by privacy buckets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.arguments import DEFAULT_BUCKETS, half_width_of
from pbdist.buckets.delta import delta_lower, delta_upper, log_lower, log_upper
from pbdist.buckets.grid_choice import choose_loss_width
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule, composed_by_rule, powers_by_rule
from pbdist.buckets.layout import Work
from pbdist.buckets.leaf import leaf
from pbdist.buckets.state import BlockedState, BucketState, Grid
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Pair, factor_counts, reveals_nothing
from pbdist.types import Direction, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class BucketBounds:
    """Certified bounds on δ after r compositions at ε, and the grid they were computed on.

    Attributes
    ----------
    grid : Grid
        Of one round.
    lower, upper : ndarray, shape (2, R, E)
        First axis: A||B, B||A; at most 1.
    log_lower, log_upper : ndarray, shape (2, R, E)
        Natural logarithms, -inf where δ is 0.
    states : mapping of (Direction, int) to BucketState
        State of each direction and r, if they are kept; those of a symmetric pair stand for both directions.
    """

    grid: Grid
    lower: FloatArray
    upper: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
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
    rule: SquaringRule = SHARP_RULE,
) -> BucketBounds:
    """Compute bounds for every r and ε by privacy buckets, from checked arguments.

    Parameters
    ----------
    parts, rounds, losses, buckets, keep_states, rule
        As `pbdist.table.bounds_table` takes them.
    work : Work
        How the states are held and computed; the numbers are the same, bit for bit.
    width : float or None
        Loss width of one round in nats; None to choose it.
    """
    half_width = half_width_of(DEFAULT_BUCKETS if buckets is None else buckets)
    grid = Grid(choose_loss_width(parts, int(rounds.max()), half_width) if width is None else width, half_width)
    shape = (2, rounds.size, losses.size)
    states: dict[tuple[Direction, int], BucketState] = {}
    if reveals_nothing(parts) and not keep_states:
        return _without_loss(shape, grid, states)
    lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
    symmetric = all(pair.symmetric for pair, _ in parts)
    for axis, direction in enumerate(Direction):
        if axis and symmetric:
            lower[axis], upper[axis] = lower[0], upper[0]
            states.update({(direction, r): states[Direction.A_TO_B, r] for (_, r) in list(states)})
            break
        one_round = _round_state(parts, grid, direction, rule, work)
        state = one_round
        for r, state in powers_by_rule(one_round, rounds.tolist(), rule, work):
            rows = np.flatnonzero(rounds == r)
            lower[axis, rows] = delta_lower(state, losses, work.mapper)
            upper[axis, rows] = delta_upper(state, losses, work.mapper)
            if keep_states:
                states[direction, r] = state.gathered()
        for last in {id(one): one for one in (one_round, state)}.values():
            last.remove()
    if reveals_nothing(parts):
        return _without_loss(shape, grid, states)
    # No δ of distributions exceeds 1, also where a histogram's masses sum to a little more.
    lower, upper = np.minimum(lower, 1.0), np.minimum(upper, 1.0)
    return BucketBounds(grid, lower, upper, log_lower(lower), log_upper(upper), states)


def _without_loss(
    shape: tuple[int, ...], grid: Grid, states: Mapping[tuple[Direction, int], BucketState]
) -> BucketBounds:
    """Return the bounds of pairs that reveal nothing: δ = 0 from both sides."""
    nothing, endless = np.zeros(shape), np.full(shape, -np.inf)
    return BucketBounds(grid, nothing, nothing, endless, endless, states)


def _round_state(
    components: Sequence[tuple[Pair, int]],
    grid: Grid,
    direction: Direction,
    rule: SquaringRule,
    work: Work,
) -> BlockedState:
    """Return the state of one round: each pair as often as it occurs, a product by its factors, composed together."""
    result: BlockedState | None = None
    for factor, count in factor_counts(components).items():
        once = leaf(factor, grid, direction, work)
        [(_, state)] = powers_by_rule(once, [count], rule, work)
        if state is not once:
            once.remove()
        if result is None:
            result = state
            continue
        longer = composed_by_rule(result, state, rule, work)
        result.remove()
        state.remove()
        result = longer
    if result is None:
        raise InvalidInputError("mechanism: expected at least one pair, got none")
    return result
