"""Tables of bounds on δ for every r and ε, by either method."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pbdist.arguments import (
    DEFAULT_FLOOR,
    Precision,
    check_totals,
    checked_components,
    checked_compositions,
    checked_epsilon,
    checked_factor,
    checked_floor,
    checked_precision,
)
from pbdist.buckets import SHARP_RULE, BucketState, SquaringRule, Work, bucket_bounds
from pbdist.enclosures import delta_bounds, states_to_keep
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ElementaryPair, Pair, choices_of, factor_counts, reveals_nothing
from pbdist.pld import PairState, kept_states, tight_bounds
from pbdist.pld.engine import LEAST_FLOOR, TRIVIAL_WIDTH, delta_above, delta_below, log_above, log_below
from pbdist.results import log_relative_width
from pbdist.table.worst import worst_table
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

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
    states : mapping of (Direction, int) to BucketState or PairState
        State of each direction and r; empty unless `keep_states`. A `PairState` is that of both directions; so is the
        bucket state of a symmetric pair. There is none of an r that no ladder serves.
    within : ndarray of bool, shape (2, R, E), or None
        Where the bounds meet within the tolerance, or an ε lower by a part in 10^6 has a δ beyond the upper bound, as
        at the largest loss; None where no tolerance is aimed at.
    closest : ndarray of bool, shape (2, R, E), or None
        Where they are as close as those of the pairs that they come from; None where that is `within`.
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
    closest: BoolArray | None = None

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
    together: bool = False,
    floor: Any = None,
    excuses: bool = False,
    decides: float | None = None,
    rule: SquaringRule = SHARP_RULE,
    work: Work | None = None,
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
        "tight" (`pbdist.pld`) or the method of Meiser & Mohammadi 2018.
    tolerance : float, optional
        With "tight": largest upper / lower - 1, by default 1e-3.
    buckets : int, optional
        Number of finite buckets, even. With "buckets" by default 100,000; with "tight" it takes the place of the
        tolerance: the leaf has about so many.
    factor : float, optional
        Bucket factor f > 1 of one round. With "buckets" by default chosen from the pairs and the largest r; with
        "tight" it takes the place of the tolerance, and the grid does not evolve.
    keep_states : bool, optional
        Whether to return the states too: with "tight" such as tell δ about as closely at every ε up to the largest.
    strict : bool, optional
        With "tight": whether a tolerance that is not reached is an error.
    together : bool, optional
        With "tight": whether the larger of the two directions alone is to meet the tolerance.
    floor : float, optional
        With "tight": where an upper bound is at most that, no tolerance is to be met; `DEFAULT_FLOOR` by default.
    excuses : bool, optional
        With "tight": whether to look closer where a lower bound is 0, before a tolerance counts as missed.
    decides : float, optional
        With "tight": a δ. Where bounds tell on which side of it the larger direction's δ lies, they may be left as wide
        as they are; only pairs that are known through enclosures are.
    rule : SquaringRule, optional
        With "buckets": when to square; ``SquaringRule()`` is the paper's.
    work : Work, optional
        With "buckets": how the states are held and computed; by default in the memory of this process. Kept states are
        returned whole.

    Returns
    -------
    BoundsTable
        Every δ is at most 1. Where A and B are the same distribution δ is 0, exactly, for P_A = P_B leaves nothing of
        Σ max(0, P_A - e^ε P_B). Where no neighbouring inputs follow a pair, such as `BoundedRange`, the lower bounds
        are 0; those of the pair itself judge the tolerance.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    PrecisionError
        If `strict` and the tolerance is not reached.
    """
    rounds = checked_compositions(compositions)
    losses = checked_epsilon(epsilon)
    parts = checked_components(components, worst_of=True)
    check_totals(parts, rounds)
    settings: dict[str, Any] = {
        "method": method,
        "tolerance": tolerance,
        "buckets": buckets,
        "factor": factor,
        "keep_states": keep_states,
        "strict": strict,
        "together": together,
        "floor": floor,
        "excuses": excuses,
        "decides": decides,
        "rule": rule,
        "work": work,
    }
    choices = choices_of(parts)
    if choices is None:
        table = _table_of(parts, rounds, losses, **settings)
        attained = all(pair.attained_by_some for pair, _ in parts)
        return table if attained else _judged(table, tolerance, floor, together=together)
    if keep_states or method != "tight":
        raise InvalidInputError(
            "mechanism: expected one worst-case pair with privacy buckets and where states are kept,"
            " got the worst of several"
        )
    tables = [(_table_of(one, rounds, losses, **settings), there) for one, there in choices]
    worst = worst_table(tables, together=together)
    return worst if all(there for _, there in choices) else _judged(worst, tolerance, floor, together=together)


def _table_of(
    parts: Sequence[tuple[Pair, int]],
    rounds: IntArray,
    losses: FloatArray,
    *,
    method: str,
    tolerance: float | None,
    buckets: int | None,
    factor: float | None,
    keep_states: bool,
    strict: bool,
    together: bool,
    floor: Any,
    excuses: bool,
    decides: float | None,
    rule: SquaringRule,
    work: Work | None,
) -> BoundsTable:
    """Bound δ of a round of pairs of which none is the worst of several; all else is that of `bounds_table`."""
    lowest = checked_floor(floor, DEFAULT_FLOOR)
    width = None if factor is None else math.log1p(checked_factor(factor) - 1.0)
    if method not in METHODS:
        raise InvalidInputError(f"method: expected one of {', '.join(METHODS)}, got {shown(method)}")
    if method == "tight":
        precision = checked_precision(tolerance, buckets, width)
        table = _tight_table(
            parts,
            rounds,
            losses,
            precision,
            keep_states=keep_states,
            strict=strict,
            together=together,
            floor=lowest,
            excuses=excuses,
            decides=decides,
        )
        return _attained(parts, table)
    if tolerance is not None:
        raise InvalidInputError(f"tolerance: expected none with method buckets, got {shown(tolerance)}")
    found = bucket_bounds(
        parts,
        rounds,
        losses,
        Work() if work is None else work,
        buckets=buckets,
        width=width,
        keep_states=keep_states,
        rule=rule,
    )
    table = BoundsTable(
        rounds,
        losses,
        "buckets",
        found.grid.loss_width,
        found.grid.half_width,
        found.lower,
        found.upper,
        found.log_lower,
        found.log_upper,
        found.states,
    )
    return _attained(parts, table)


def _judged(table: BoundsTable, tolerance: float | None, floor: Any, *, together: bool) -> BoundsTable:
    """Return a table whose lower bounds are those of other pairs, or none, judged by its own bounds."""
    if table.within is None:
        return table
    aimed = checked_precision(tolerance, None, None).tolerance
    lowest = checked_floor(floor, DEFAULT_FLOOR)
    log_lower, log_upper = table.log_delta_lower, table.log_delta_upper
    if together:
        log_lower = np.broadcast_to(log_lower.max(axis=0), log_lower.shape)
    met = log_relative_width(log_lower, log_upper) <= aimed
    met |= log_upper <= (math.log(lowest) if lowest > 0.0 else -math.inf)
    if together:
        met = np.broadcast_to(met.all(axis=0), met.shape)
    return replace(table, within=np.array(met), closest=table.within)


def _attained(parts: Sequence[tuple[Pair, int]], table: BoundsTable) -> BoundsTable:
    """Return a table without its lower bounds where no neighbouring inputs follow some pair of the round."""
    if all(pair.attained_by_some for pair, _ in parts):
        return table
    nothing = np.zeros_like(table.delta_lower)
    return replace(table, delta_lower=nothing, log_delta_lower=np.full_like(nothing, -np.inf))


def _tight_table(
    parts: Sequence[tuple[Pair, int]],
    rounds: IntArray,
    losses: FloatArray,
    precision: Precision,
    *,
    keep_states: bool,
    strict: bool,
    together: bool,
    floor: float,
    excuses: bool,
    decides: float | None,
) -> BoundsTable:
    """Bound δ of a round by the tight method; parameters as of `pbdist.table.bounds_table`."""
    if reveals_nothing(parts) and not keep_states:
        width = TRIVIAL_WIDTH if precision.width is None else precision.width
        return _without_loss(rounds, losses, width, {})
    counts = factor_counts(parts)
    states: dict[tuple[Direction, int], PairState] = {}
    known: tuple[FloatArray, FloatArray] | None = None
    kept_width = math.inf
    if keep_states:
        keep = states_to_keep if _any_enclosed(counts) else kept_states
        kept = keep(counts, rounds, losses, tolerance=precision.tolerance, floor=max(floor, LEAST_FLOOR))
        states = {(direction, r): state for r, state in kept.states.items() for direction in Direction}
        known, kept_width = (log_below(kept.lower), log_above(kept.upper)), kept.spacing
    settings: dict[str, Any] = {
        "tolerance": precision.tolerance,
        "width": precision.width,
        "buckets": precision.buckets,
        "strict": strict and not reveals_nothing(parts),
        "together": together,
        "floor": floor,
        "excuses": excuses,
        "known": known,
    }
    if _any_enclosed(counts):
        found = delta_bounds(counts, rounds, losses, decides=decides, **settings)
    else:
        found = tight_bounds(counts, rounds, losses, **settings)
    if reveals_nothing(parts):
        return _without_loss(rounds, losses, found.width, states)
    return BoundsTable(
        compositions=rounds,
        epsilon=losses,
        method="tight",
        loss_width=kept_width if precision.width is None and kept_width < math.inf else found.width,
        half_width=None,
        delta_lower=delta_below(found.log_lower),
        delta_upper=np.minimum(delta_above(found.log_upper), 1.0),
        log_delta_lower=found.log_lower,
        log_delta_upper=found.log_upper,
        states=states,
        within=found.within,
    )


def _without_loss(
    rounds: IntArray, losses: FloatArray, width: float, states: Mapping[tuple[Direction, int], PairState]
) -> BoundsTable:
    """Return the table of pairs that reveal nothing: δ = 0 from both sides."""
    nothing = np.zeros((2, rounds.size, losses.size))
    endless = np.full_like(nothing, -np.inf)
    return BoundsTable(rounds, losses, "tight", width, None, nothing, nothing, endless, endless, states)


def _any_enclosed(counts: Mapping[ElementaryPair, int]) -> bool:
    """Whether some pair of a round is known only through an enclosure; others do not pass through `enclosures`."""
    return any(pair.enclosed for pair in counts)
