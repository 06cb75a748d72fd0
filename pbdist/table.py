"""Tables of bounds on δ for every r and ε, by either method, and on ε for every r and δ."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pbdist.arguments import (
    DEFAULT_FLOOR,
    Request,
    check_totals,
    checked_buckets,
    checked_components,
    checked_compositions,
    checked_delta,
    checked_epsilon,
    checked_factor,
    checked_floor,
    checked_tolerance,
)
from pbdist.buckets import BucketState, Work, bucket_bounds
from pbdist.enclosures import compute_enclosed_states, delta_bounds, enclosed_epsilon_table
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Pair, choices_of, factor_counts, reveals_nothing
from pbdist.pld import EpsilonTable, PairState, compute_states, epsilon_table, tight_bounds
from pbdist.pld.engine import MIN_FLOOR, TRIVIAL_WIDTH, delta_above, delta_below, log_above, log_below
from pbdist.results import log_relative_width
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: The pairs of one round with their counts, and a function that bounds its δ.
_Parts = Sequence[tuple[Pair, int]]
_Solve = Callable[[_Parts], "BoundsTable"]
#: The ways to compute bounds.
METHODS = ("tight", "buckets")


@dataclass(frozen=True, eq=False)
class BoundsTable:
    """Certified bounds on δ after r compositions at ε."""

    #: Shape (R,).
    compositions: IntArray
    #: Nats. Shape (E,).
    epsilon: FloatArray
    #: "tight" or "buckets".
    method: str
    #: Loss width of one round, nats; with "tight" the smallest that was used.
    loss_width: float
    #: n of the grid; None with "tight", whose grids evolve.
    half_width: int | None
    #: First axis: A||B, B||A. The logarithms are natural, and -inf where δ is 0. Shape (2, R, E).
    delta_lower: FloatArray
    delta_upper: FloatArray
    log_delta_lower: FloatArray
    log_delta_upper: FloatArray
    #: State of each direction and r; empty unless `keep_states`. A `PairState` is that of both directions; so is the
    #: bucket state of a symmetric pair. There is none of an r that no ladder serves.
    states: Mapping[tuple[Direction, int], BucketState | PairState]
    #: Where the bounds meet within the tolerance, or an ε lower by a part in 10^6 has a δ beyond the upper bound, as
    #: at the largest loss; None where no tolerance is aimed at. Shape (2, R, E), or None.
    within: BoolArray | None = None
    #: Where they are as close as those of the pairs that they come from; None where that is `within`. Shape (2, R, E),
    #: or None.
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
    joint_directions: bool = False,
    floor: Any = None,
    decision_delta: float | None = None,
    work: Work | None = None,
) -> BoundsTable:
    """Bound δ for every r and ε.

    The arguments are those of `pbdist.privacy_bounds`, and

    - `keep_states`: whether to return the states too. With "tight" they bound δ about as closely at every ε up to the
      largest one;
    - `joint_directions`: whether only the larger of the two directions must meet the tolerance of "tight";
    - `decision_delta`: as in `Request`, with "tight";
    - `work`: with "buckets", how the states are held and computed; by default in the memory of this process. States
      are returned whole.

    Every δ is at most 1. Where A and B are the same distribution δ is 0, exactly, for P_A = P_B leaves nothing of
    Σ max(0, P_A - e^ε P_B). Where no neighbouring inputs follow a pair, such as `BoundedRange`, the lower bounds are 0;
    those of the pair itself judge the tolerance. A missed tolerance raises a `PrecisionError` if `strict`.
    """
    rounds = checked_compositions(compositions)
    losses = checked_epsilon(epsilon)
    parts = checked_components(components, worst_of=True)
    check_totals(parts, rounds)
    if method not in METHODS:
        raise InvalidInputError(f"method: expected one of {', '.join(METHODS)}, got {shown(method)}")
    width = None if factor is None else math.log1p(checked_factor(factor) - 1.0)
    lowest = checked_floor(floor, DEFAULT_FLOOR)
    if method == "tight":
        request = Request(
            tolerance=checked_tolerance(tolerance),
            floor=lowest,
            width=width,
            buckets=checked_buckets(buckets, width),
            strict=strict,
            joint_directions=joint_directions,
            decision_delta=decision_delta,
        )
        solve: _Solve = partial(_tight_table, rounds=rounds, losses=losses, request=request, keep_states=keep_states)
    else:
        if tolerance is not None:
            raise InvalidInputError("tolerance: privacy buckets have no tolerance; pass buckets instead")
        request = Request()
        solve = partial(
            _bucket_table,
            rounds=rounds,
            losses=losses,
            work=Work() if work is None else work,
            buckets=buckets,
            width=width,
            keep_states=keep_states,
        )
    choices = choices_of(parts)
    if choices is None:
        found = solve(parts)
        _refuse_contradiction(found.log_delta_lower, found.log_delta_upper)
        table = _attained(parts, found)
        attained = all(pair.attained_by_some for pair, _ in parts)
        return table if attained else _judged(table, request)
    if keep_states or method != "tight":
        raise InvalidInputError(
            "mechanism: privacy buckets and saved states need one worst-case pair, got the worst of several;"
            " bound each of its pairs by itself"
        )
    tables = [(_attained(one, solve(one)), there) for one, there in choices]
    worst = worst_table(tables, joint_directions=joint_directions)
    return worst if all(there for _, there in choices) else _judged(worst, request)


def _refuse_contradiction(lower: FloatArray, upper: FloatArray) -> None:
    """Refuse lower bounds above upper ones: the masses or moments of a user's pair are wrong."""
    if (lower > upper).any():
        raise InvalidInputError(
            "mechanism: the lower bound exceeds the upper bound; masses and moments of the pair contradict each other"
        )


def _bucket_table(parts: _Parts, *, rounds: IntArray, losses: FloatArray, **settings: Any) -> BoundsTable:
    """Bound δ of a round by privacy buckets; settings as of `bucket_bounds`."""
    found = bucket_bounds(parts, rounds, losses, **settings)
    return BoundsTable(
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


def _judged(table: BoundsTable, request: Request) -> BoundsTable:
    """Return a table whose lower bounds are those of other pairs, or none, judged by its own bounds."""
    if table.within is None:
        return table
    log_lower, log_upper = table.log_delta_lower, table.log_delta_upper
    if request.joint_directions:
        log_lower = np.broadcast_to(log_lower.max(axis=0), log_lower.shape)
    met = log_relative_width(log_lower, log_upper) <= request.tolerance
    met |= log_upper <= (math.log(request.floor) if request.floor > 0.0 else -math.inf)
    if request.joint_directions:
        met = np.broadcast_to(met.all(axis=0), met.shape)
    return replace(table, within=np.array(met), closest=table.within)


def _attained(parts: Sequence[tuple[Pair, int]], table: BoundsTable) -> BoundsTable:
    """Return a table without its lower bounds where no neighbouring inputs follow some pair of the round."""
    if all(pair.attained_by_some for pair, _ in parts):
        return table
    nothing = np.zeros_like(table.delta_lower)
    return replace(table, delta_lower=nothing, log_delta_lower=np.full_like(nothing, -np.inf))


def _tight_table(
    parts: _Parts, *, rounds: IntArray, losses: FloatArray, request: Request, keep_states: bool
) -> BoundsTable:
    """Bound δ of a round by the tight method."""
    trivial = reveals_nothing(parts)
    if trivial and not keep_states:
        return _without_loss(rounds, losses, TRIVIAL_WIDTH if request.width is None else request.width, {})
    counts = factor_counts(parts)
    enclosed = any(pair.enclosed for pair in counts)
    states: dict[tuple[Direction, int], PairState] = {}
    known: tuple[FloatArray, FloatArray] | None = None
    saved_width = math.inf
    if keep_states:
        solve_states = compute_enclosed_states if enclosed else compute_states
        saved = solve_states(counts, rounds, losses, tolerance=request.tolerance, floor=max(request.floor, MIN_FLOOR))
        states = {(direction, r): state for r, state in saved.states.items() for direction in Direction}
        known, saved_width = (log_below(saved.lower), log_above(saved.upper)), saved.spacing
    solve = delta_bounds if enclosed else tight_bounds
    found = solve(counts, rounds, losses, replace(request, strict=request.strict and not trivial), known=known)
    if trivial:
        return _without_loss(rounds, losses, found.width, states)
    return BoundsTable(
        compositions=rounds,
        epsilon=losses,
        method="tight",
        loss_width=saved_width if request.width is None and saved_width < math.inf else found.width,
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


def epsilon_table_of(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: Any,
    delta: Any,
    tolerance: Any,
    joint_directions: bool = False,
) -> EpsilonTable:
    """Bound ε for every r and δ; parameters as for `bounds_table`, δ at least 0 and below 1.

    With `joint_directions` both directions have the bounds on the smallest ε with which both meet δ.
    """
    rounds = checked_compositions(compositions)
    wanted = checked_delta(delta, zero=True)
    parts = checked_components(components, worst_of=True)
    check_totals(parts, rounds)
    aimed = checked_tolerance(tolerance)
    choices = choices_of(parts)
    if choices is None:
        return _epsilon_table(parts, rounds, wanted, aimed, joint_directions=joint_directions)
    return worst_epsilon_table(
        [
            (_epsilon_table(one, rounds, wanted, aimed, joint_directions=joint_directions), there)
            for one, there in choices
        ]
    )


def _epsilon_table(
    parts: Sequence[tuple[Pair, int]], rounds: IntArray, wanted: FloatArray, tolerance: float, *, joint_directions: bool
) -> EpsilonTable:
    if reveals_nothing(parts):
        nothing = np.zeros((2, rounds.size, wanted.size))
        return EpsilonTable(rounds, wanted, nothing, nothing)
    counts = factor_counts(parts)
    bounds = enclosed_epsilon_table if any(pair.enclosed for pair in counts) else epsilon_table
    found = bounds(counts, rounds, wanted, tolerance=tolerance, joint_directions=joint_directions)
    _refuse_contradiction(found.lower, found.upper)
    if not all(pair.attained_by_some for pair, _ in parts):
        return replace(found, lower=np.zeros_like(found.lower), computed_lower=found.lower)
    return found


def worst_table(found: Sequence[tuple[BoundsTable, bool]], *, joint_directions: bool) -> BoundsTable:
    """Bound the worst of several pairs: in all rounds the same one is followed, so that δ is the largest of theirs.

    Each table comes with whether its pair is attained.

    The largest of upper bounds is one. Lower bounds of pairs that are attained alone are lower bounds of δ. Where the
    bounds of the pair with the largest upper one meet within the tolerance, so do the largest of each kind, up to what
    is not attained.
    """
    tables = [table for table, _ in found]
    first = tables[0]
    attained = [table for table, there in found if there]
    return replace(
        first,
        loss_width=min(table.loss_width for table in tables),
        half_width=None,
        delta_lower=_largest([table.delta_lower for table in attained], first.delta_lower, 0.0),
        delta_upper=np.max([table.delta_upper for table in tables], axis=0),
        log_delta_lower=_largest([table.log_delta_lower for table in attained], first.log_delta_lower, -np.inf),
        log_delta_upper=np.max([table.log_delta_upper for table in tables], axis=0),
        states={},
        within=_within(tables, joint_directions=joint_directions),
    )


def _within(tables: Sequence["BoundsTable"], *, joint_directions: bool) -> BoolArray | None:
    """Return where the pair with the largest upper bound is within the tolerance; None where none is aimed at.

    A table without it is of pairs that reveal nothing.
    """
    aiming = [table for table in tables if table.within is not None]
    if not aiming:
        return None
    upper = np.array([table.log_delta_upper for table in aiming])
    if joint_directions:
        upper = np.broadcast_to(upper.max(axis=1, keepdims=True), upper.shape)
    met = np.array([table.within for table in aiming])
    return np.asarray(np.all(met | (upper <= np.where(met, upper, -np.inf).max(axis=0)), axis=0))


def worst_epsilon_table(found: Sequence[tuple[EpsilonTable, bool]]) -> EpsilonTable:
    """Bound ε of the worst of several pairs: the largest of theirs; from below that of the pairs that are attained."""
    tables = [table for table, _ in found]
    first = tables[0]
    attained = [table.lower for table, there in found if there]
    return replace(
        first,
        lower=_largest(attained, first.lower, 0.0),
        upper=np.max([table.upper for table in tables], axis=0),
        computed_lower=np.max(
            [table.lower if table.computed_lower is None else table.computed_lower for table in tables], axis=0
        ),
    )


def _largest(found: Sequence[FloatArray], like: FloatArray, least: float) -> FloatArray:
    """Return the elementwise maximum; `least` everywhere where there is nothing."""
    return np.asarray(np.max(found, axis=0)) if found else np.full_like(like, least)
