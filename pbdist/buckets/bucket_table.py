"""Tables of δ bounds by privacy buckets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.arguments import (
    DEFAULT_BUCKETS,
    checked_components,
    checked_compositions,
    checked_epsilon,
    checked_factor,
    half_width_of,
)
from pbdist.buckets.delta import delta_lower, delta_upper, log_lower, log_upper
from pbdist.buckets.grid_choice import choose_loss_width
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule, composed_by_rule, powers_by_rule
from pbdist.buckets.leaf import leaf
from pbdist.buckets.state import BlockedState, BucketState, Grid
from pbdist.buckets.work import Work
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Pair
from pbdist.pld import factor_counts
from pbdist.pld.state import PairState
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["BoundsTable", "blocked_table", "bucket_table", "reveals_nothing", "without_loss"]


@dataclass(frozen=True, eq=False)
class BoundsTable:
    """Certified bounds on δ after r compositions at ε.

    Attributes
    ----------
    compositions : ndarray of int64, shape (R,)
    epsilon : ndarray, shape (E,)
        Nats.
    method : str
        "tight" or "buckets".
    loss_width : float
        Loss width of one round, nats; with "tight" the smallest that was used.
    half_width : int or None
        n of the grid; None with "tight", whose grids evolve.
    delta_lower, delta_upper, log_delta_lower, log_delta_upper : ndarray, shape (2, R, E)
        First axis: A||B, B||A. The logarithms are natural, and -inf where δ is 0.
    states : mapping of (Direction, int) to BucketState or PairState
        State of each direction and r; empty unless `keep_states`. A `PairState` is that of both directions; so is the
        bucket state of a symmetric pair. There is none of an r that no ladder serves.
    within : ndarray of bool, shape (2, R, E), or None
        Where the bounds meet within the tolerance, or no better is to be had; None where no tolerance is aimed at.
    """

    compositions: IntArray
    epsilon: FloatArray
    method: str
    loss_width: float
    half_width: int | None
    delta_lower: FloatArray
    delta_upper: FloatArray
    log_delta_lower: FloatArray
    log_delta_upper: FloatArray
    states: Mapping[tuple[Direction, int], BucketState | PairState]
    within: BoolArray | None = None

    @property
    def factor(self) -> float:
        """Factor f between the likelihood ratios of neighbouring buckets, rounded."""
        return math.exp(self.loss_width) if self.loss_width < 700.0 else math.inf


def reveals_nothing(parts: Sequence[tuple[Pair, int]]) -> bool:
    """Whether A and B are the same distribution in every pair of a round, so that every δ is 0."""
    return all(pair.identical for pair, _ in parts)


def without_loss(
    rounds: IntArray,
    losses: FloatArray,
    *,
    method: str,
    loss_width: float,
    half_width: int | None,
    states: Mapping[tuple[Direction, int], BucketState | PairState] | None = None,
) -> BoundsTable:
    """Return the table of pairs that reveal nothing: δ = 0 from both sides."""
    nothing = np.zeros((2, rounds.size, losses.size))
    endless = np.full_like(nothing, -np.inf)
    return BoundsTable(
        rounds,
        losses,
        method,
        loss_width,
        half_width,
        nothing,
        nothing,
        endless,
        endless,
        {} if states is None else states,
    )


def blocked_table(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: Any,
    epsilon: Any,
    work: Work,
    buckets: int | None = None,
    factor: float | None = None,
    keep_states: bool = False,
    rule: SquaringRule = SHARP_RULE,
) -> BoundsTable:
    """Compute bounds for every r and ε by privacy buckets, with the states held and worked on as `work` says.

    Parameters
    ----------
    components, compositions, epsilon, buckets, factor, keep_states, rule
        As `pbdist.table.bounds_table` takes them. Kept states are returned whole, in the memory of this process.
    work : Work
        How the states are held and computed.

    Returns
    -------
    BoundsTable
        Bit by bit that of `pbdist.table.bounds_table` with ``method="buckets"``.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    return bucket_table(
        checked_components(components),
        checked_compositions(compositions),
        checked_epsilon(epsilon),
        work,
        buckets=buckets,
        width=None if factor is None else math.log1p(checked_factor(factor) - 1.0),
        keep_states=keep_states,
        rule=rule,
    )


def bucket_table(
    parts: Sequence[tuple[Pair, int]],
    rounds: IntArray,
    losses: FloatArray,
    work: Work,
    *,
    buckets: int | None,
    width: float | None,
    keep_states: bool,
    rule: SquaringRule,
) -> BoundsTable:
    """Compute bounds for every r and ε by privacy buckets, from checked arguments.

    `width` is the loss width of one round in nats; the parameters are otherwise those of `blocked_table`.
    """
    half_width = half_width_of(DEFAULT_BUCKETS if buckets is None else buckets)
    grid = Grid(choose_loss_width(parts, int(rounds.max()), half_width) if width is None else width, half_width)
    if reveals_nothing(parts) and not keep_states:
        return without_loss(rounds, losses, method="buckets", loss_width=grid.loss_width, half_width=grid.half_width)
    shape = (2, rounds.size, losses.size)
    lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
    states: dict[tuple[Direction, int], BucketState] = {}
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
        return without_loss(
            rounds,
            losses,
            method="buckets",
            loss_width=grid.loss_width,
            half_width=grid.half_width,
            states=states,
        )
    # No δ of distributions exceeds 1, also where a histogram's masses sum to a little more.
    lower, upper = np.minimum(lower, 1.0), np.minimum(upper, 1.0)
    return BoundsTable(
        compositions=rounds,
        epsilon=losses,
        method="buckets",
        loss_width=grid.loss_width,
        half_width=grid.half_width,
        delta_lower=lower,
        delta_upper=upper,
        log_delta_lower=log_lower(lower),
        log_delta_upper=log_upper(upper),
        states=states,
    )


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
