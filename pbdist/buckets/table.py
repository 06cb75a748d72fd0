"""A table of δ bounds: one leaf and one ladder of compositions serve every r and ε of a noise setting."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.buckets.arguments import (
    DEFAULT_BUCKETS,
    Precision,
    checked_components,
    checked_compositions,
    checked_delta,
    checked_epsilon,
    checked_factor,
    checked_precision,
    half_width_of,
)
from pbdist.buckets.composition import SHARP_RULE, SquaringRule, compose_adaptively, powers
from pbdist.buckets.delta import delta_lower, delta_upper, log_lower, log_upper
from pbdist.buckets.grid_choice import choose_loss_width
from pbdist.buckets.leaf import leaf_state
from pbdist.buckets.state import BucketState, Grid
from pbdist.buckets.tight.delta import delta_above, delta_below
from pbdist.buckets.tight.inversion import epsilon_table
from pbdist.buckets.tight.state import TiltedMasses
from pbdist.buckets.tight.table import factor_counts, tight_bounds
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Pair
from pbdist.types import Direction, FloatArray, IntArray

__all__ = [
    "METHODS",
    "BoundsTable",
    "EpsilonTable",
    "bounds_table",
    "epsilon_table_of",
]

#: The ways to compute bounds.
METHODS = ("tight", "buckets")


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
    states : mapping of (Direction, int) to BucketState or TiltedMasses
        State of each direction and r; empty unless asked for. For a symmetric pair both directions share theirs.
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
    states: Mapping[tuple[Direction, int], BucketState | TiltedMasses]

    @property
    def factor(self) -> float:
        """Factor f between the likelihood ratios of neighbouring buckets, rounded."""
        return math.exp(self.loss_width) if self.loss_width < 700.0 else math.inf


def bounds_table(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: Any,
    epsilon: Any,
    method: str = "tight",
    tolerance: float | None = None,
    buckets: int | None = None,
    factor: float | None = None,
    keep_states: bool = False,
    strict: bool = True,
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
    method : {"tight", "buckets"}, optional
        "tight" (`pbdist.buckets.tight`) or the method of Meiser & Mohammadi 2018.
    tolerance : float, optional
        With "tight": largest upper / lower - 1, by default 1e-3.
    buckets : int, optional
        Number of finite buckets, even. With "buckets" by default 100,000; with "tight" it takes the place of the
        tolerance: the leaf has about so many.
    factor : float, optional
        Bucket factor f > 1 of one round. With "buckets" by default chosen from the pairs and the largest r; with
        "tight" it takes the place of the tolerance, and the grid does not evolve.
    keep_states : bool, optional
        Whether to return the states too.
    strict : bool, optional
        With "tight": whether a tolerance that is not reached is an error.
    rule : SquaringRule, optional
        With "buckets": when to square; ``SquaringRule()`` is the paper's.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    PrecisionError
        If `strict` and the tolerance is not reached.
    """
    rounds = checked_compositions(compositions)
    losses = checked_epsilon(epsilon)
    parts = checked_components(components)
    width = None if factor is None else math.log1p(checked_factor(factor) - 1.0)
    if method not in METHODS:
        raise InvalidInputError(f"method: expected one of {', '.join(METHODS)}, got {shown(method)}")
    if method == "tight":
        return _tight_table(
            parts, rounds, losses, checked_precision(tolerance, buckets, width), keep_states=keep_states, strict=strict
        )
    if tolerance is not None:
        raise InvalidInputError(f"tolerance: expected none with method buckets, got {shown(tolerance)}")
    half_width = half_width_of(DEFAULT_BUCKETS if buckets is None else buckets)
    grid = Grid(choose_loss_width(parts, int(rounds.max()), half_width) if width is None else width, half_width)

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
    return BoundsTable(
        compositions=rounds,
        epsilon=losses,
        method=method,
        loss_width=grid.loss_width,
        half_width=grid.half_width,
        delta_lower=lower,
        delta_upper=upper,
        log_delta_lower=log_lower(lower),
        log_delta_upper=log_upper(upper),
        states=states,
    )


@dataclass(frozen=True, eq=False)
class EpsilonTable:
    """Certified bounds on ε after r compositions at δ.

    Attributes
    ----------
    compositions : ndarray of int64, shape (R,)
    delta : ndarray, shape (D,)
    lower, upper : ndarray, shape (2, R, D)
        First axis: A||B, B||A; nats.
    """

    compositions: IntArray
    delta: FloatArray
    lower: FloatArray
    upper: FloatArray


def epsilon_table_of(
    components: Sequence[tuple[Pair, int]], *, compositions: Any, delta: Any, tolerance: Any
) -> EpsilonTable:
    """Bound ε for every r and δ asked for; parameters as for `bounds_table`, δ above 0 and below 1.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    rounds = checked_compositions(compositions)
    wanted = checked_delta(delta)
    parts = checked_components(components)
    precision = checked_precision(tolerance, None, None)
    found = epsilon_table(factor_counts(parts), rounds, wanted, tolerance=precision.tolerance)
    return EpsilonTable(rounds, wanted, found.lower, found.upper)


def _tight_table(
    parts: Sequence[tuple[Pair, int]],
    rounds: IntArray,
    losses: FloatArray,
    precision: Precision,
    *,
    keep_states: bool,
    strict: bool,
) -> BoundsTable:
    found = tight_bounds(
        factor_counts(parts),
        rounds,
        losses,
        tolerance=precision.tolerance,
        width=precision.width,
        buckets=precision.buckets,
        strict=strict,
        keep_states=keep_states,
    )
    limit = _largest_delta(parts)
    return BoundsTable(
        compositions=rounds,
        epsilon=losses,
        method="tight",
        loss_width=found.width,
        half_width=None,
        delta_lower=delta_below(found.log_lower),
        delta_upper=np.minimum(delta_above(found.log_upper), limit),
        log_delta_lower=found.log_lower,
        log_delta_upper=found.log_upper,
        states=found.states,
    )


def _round_state(
    components: Sequence[tuple[Pair, int]], grid: Grid, direction: Direction, rule: SquaringRule
) -> BucketState:
    """Return the state of one round: each pair as often as it occurs, a product by its factors, composed together."""
    counts = factor_counts(components)
    result: BucketState | None = None
    for factor, count in counts.items():
        [(_, state)] = powers(leaf_state(factor, grid, direction), [count], rule)
        result = state if result is None else compose_adaptively(result, state, rule)
    if result is None:
        raise InvalidInputError("mechanism: expected at least one pair, got none")
    return result


def _largest_delta(parts: Sequence[tuple[Pair, int]]) -> float:
    """Return what no δ exceeds: 1, unless a histogram's masses sum to more."""
    totals = [max(factor.total_mass) for pair, _ in parts for factor in pair.factors]
    return 1.0 if max(totals) <= 1.0 else math.inf
