"""One pass of the tight engine: the bounds for the points of one tilt, on one loss width."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.buckets.tight.delta import log_delta_lower, log_delta_upper, log_error_of_lower
from pbdist.buckets.tight.frequencies import few_frequencies
from pbdist.buckets.tight.frequency_delta import log_deltas
from pbdist.buckets.tight.ladder import Ladder
from pbdist.buckets.tight.leaf import tilted_leaf
from pbdist.buckets.tight.leaf_atoms import LeafTails, LeafWindow
from pbdist.buckets.tight.plan import Group, leaf_window, loss_range
from pbdist.buckets.tight.points import Point
from pbdist.buckets.tight.rare import NearOutcomes
from pbdist.buckets.tight.state import TiltedMasses, joined
from pbdist.buckets.tight.tail import log_mass_below, log_tail_moment
from pbdist.errors import PrecisionError
from pbdist.mechanisms import ElementaryPair, Gaussian, ScaledLossMasses
from pbdist.pld.profile import LossProfile
from pbdist.types import Direction, FloatArray

__all__ = [
    "MAX_CELLS",
    "Family",
    "PointBounds",
    "bounds_of_group",
    "families_of",
    "farthest_loss",
    "infinite_loss",
    "outside_weight",
    "spans",
    "widest_span",
]

#: Largest number of cells of a leaf whose width is chosen, and of one whose width is given.
MAX_CELLS, MAX_GIVEN_CELLS = 1 << 18, 1 << 25
#: Positions beyond this many cells from 0 are not told from their neighbours.
FARTHEST_GIVEN_CELL = 1 << 51
#: Gaussians of the same count whose losses spread alike, within this factor, are computed as one stack.
_ALIKE = 1.2
#: Two directions share their masses where windows grow by no more than this factor.
_FEW_MORE = 1.2


@dataclass(frozen=True, eq=False)
class Family:
    """Pairs that share a window: one pair, or a stack of like ones, each `count` times in a round."""

    pairs: tuple[ElementaryPair, ...]
    count: int
    profiles: Mapping[Direction, LossProfile]

    @property
    def leaves(self) -> int:
        """Number of leaves in a round."""
        return self.count * len(self.pairs)


@dataclass(frozen=True)
class PointBounds:
    """Logarithms of the bounds at one point, and of what rounding and windows are worth."""

    point: Point
    log_lower: float
    log_upper: float
    log_error: float


def keep_freed_memory() -> None:
    """Let glibc keep freed vectors: it returns none to the system that is smaller than the largest block freed so far.

    Else every vector of a few hundred kilobytes is mapped, filled with zeros page by page, and given back, which takes
    longer than its transform. The block itself is never touched.
    """
    np.empty(30 << 20, dtype=np.uint8)


def families_of(counts: dict[ElementaryPair, int]) -> list[tuple[tuple[ElementaryPair, ...], int]]:
    """Gather the pairs of a round: like Gaussians of the same count together, every other pair by itself."""
    stacks: dict[tuple[int, int], list[ElementaryPair]] = {}
    result: list[tuple[tuple[ElementaryPair, ...], int]] = []
    for pair, count in counts.items():
        if isinstance(pair, Gaussian) and pair.truncate is None and len(counts) > 1:
            size = math.floor(math.log(pair.sensitivity / pair.scale) / math.log(_ALIKE))
            stacks.setdefault((size, count), []).append(pair)
        else:
            result.append(((pair,), count))
    for (_, count), members in sorted(stacks.items()):
        result.append((tuple(members), count))
    return result


def bounds_of_group(
    families: Sequence[Family],
    group: Group,
    width: float,
    tolerance: float,
    *,
    coarsens: bool,
    longest: int,
    keep: dict[tuple[Direction, int], TiltedMasses] | None = None,
) -> list[PointBounds]:
    """Compute the bounds at the points of a group, or at some or none where few frequencies were to do and do not.

    Parameters
    ----------
    families : sequence of Family
        What one round consists of.
    group : Group
        A tilt and its points.
    width : float
        Loss width of the leaves, nats.
    tolerance : float
        Relative bracket that is aimed at: it decides what windows may leave out, never whether the bounds hold.
    coarsens : bool
        Whether the grid evolves.
    longest : int
        Length of the longest transform.
    keep : dict, optional
        Takes the state of every direction and r.

    Raises
    ------
    PrecisionError
        If more than `MAX_GIVEN_CELLS` cells, or a transform longer than `longest`, were needed.
    """
    keep_freed_memory()
    per_round = sum(family.leaves for family in families)
    leaves = max(point.leaves for point in group.points)
    outside = outside_weight(group, tolerance)
    limit, lost = _limit(families, group, leaves // per_round, tolerance), _lost(group, tolerance)
    windows = [
        [
            _window(family, group, direction, width=width, outside=outside / leaves, limit=limit, lost=lost)
            for direction in group.directions
        ]
        for family in families
    ]
    merges = any(window.spread_to_infinity for chosen in windows for window in chosen)
    if len(group.directions) > 1 and (len(families) > 1 or families[0].pairs[1:] or merges):
        # Each direction by itself: what lies above a limit is merged at one place, and stacks are composed anyway.
        return [
            found
            for direction in group.directions
            for found in bounds_of_group(
                families, group.of(direction), width, tolerance, coarsens=coarsens, longest=longest, keep=keep
            )
        ]
    items = [
        (_leaf(family, group, chosen, outside / leaves), family.count)
        for family, chosen in zip(families, windows, strict=True)
    ]
    rounds = sorted({point.leaves // per_round for point in group.points})
    if group.few:
        return _by_few_frequencies(items, group, rounds, outside)
    ladder = Ladder(leaves, outside, limit if merges else math.inf, coarsens, longest, group.extended)
    if len(families) == 1 and not families[0].pairs[1:]:
        count = families[0].count
        powers = {r // count: state for r, state in ladder.powers(items[0][0], 1, [r * count for r in rounds])}
    else:
        state, _ = ladder.round(items, final=rounds == [1])
        powers = dict(ladder.powers(state, per_round, rounds))
    result: list[PointBounds] = []
    for member, direction in enumerate(group.directions):
        for r in rounds:
            points = [p for p in group.points if p.leaves == r * per_round and p.direction is direction]
            if not points:
                continue
            state = powers[r].members(slice(member, member + 1))
            epsilon = np.array([point.epsilon for point in points])
            lower = log_delta_lower(state, epsilon)
            upper, error = log_delta_upper(state, epsilon)
            result += _point_bounds(points, lower, upper, np.maximum(error, log_error_of_lower(state, epsilon)))
            if keep is not None:
                keep[direction, r] = state
    return result


def _by_few_frequencies(
    items: Sequence[tuple[TiltedMasses, int]], group: Group, rounds: Sequence[int], outside: float
) -> list[PointBounds]:
    """Compute the bounds at the points of those r of which few frequencies are left."""
    # Of several pairs all are in one direction.
    together = len(items) > 1 or items[0][0].count != len(group.directions)
    per_round = sum(count * (state.count if together else 1) for state, count in items)
    result: list[PointBounds] = []
    for r in rounds:
        factors = [(state, count * r) for state, count in items]
        known = few_frequencies(factors, outside, together=together, extended=group.extended)
        if known is None:
            continue
        points = [p for p in group.points if p.leaves == r * per_round]
        members = np.array([group.directions.index(point.direction) for point in points])
        epsilon = np.array([point.epsilon for point in points])
        result += _point_bounds(points, *log_deltas(known, members, epsilon))
    return result


def _point_bounds(
    points: Sequence[Point], lower: FloatArray, upper: FloatArray, error: FloatArray
) -> list[PointBounds]:
    bounds = zip(lower.tolist(), upper.tolist(), error.tolist(), strict=True)
    return [PointBounds(point, *values) for point, values in zip(points, bounds, strict=True)]


def _limit(families: Sequence[Family], group: Group, rounds: int, tolerance: float) -> float:
    """Return the largest `infinite_loss` of a group's directions."""
    largest = max(point.epsilon for point in group.points)
    return max(infinite_loss(families, direction, rounds, largest, tolerance) for direction in group.directions)


def infinite_loss(
    families: Sequence[Family], direction: Direction, rounds: int, epsilon: float, tolerance: float
) -> float:
    """Loss above which an event tells the same as an infinite one: with it, the rest hardly ever falls below ε.

    Neither under A nor under B (a tilt of -1): as one cell, such events count with all their P_B mass.
    """
    deviations = math.sqrt(2.0 * math.log(100.0 / tolerance))
    rest = 1.0 - 1.0 / (rounds * sum(family.leaves for family in families))
    reach = 0.0
    for tilt in (0.0, -1.0):
        mean = variance = 0.0
        for family in families:
            profile = family.profiles[direction]
            if profile.loss.size:
                _, first, second = profile.cumulant(tilt)
                mean, variance = mean + family.leaves * first, variance + family.leaves * second
        reach = max(reach, deviations * math.sqrt(rounds * variance) - min(rounds * mean, 0.0))
    return epsilon + rest * reach


def _stacked(pairs: Sequence[ElementaryPair], window: LeafWindow) -> ScaledLossMasses:
    gaussians = [pair for pair in pairs if isinstance(pair, Gaussian)]
    masses = Gaussian.stacked_loss_masses(gaussians, window.edges)
    zeros, none = np.zeros(window.edges.size + 1), np.zeros(0)
    return ScaledLossMasses(masses, zeros, zeros, none, none)


def widest_span(families: Sequence[Family], group: Group, tolerance: float) -> float:
    """Return the largest range of losses, in nats, that the leaves of a group need."""
    span = max(spans(families, group, tolerance))
    return span if span > 0.0 else 1e-6


def spans(families: Sequence[Family], group: Group, tolerance: float) -> list[float]:
    """Return the widths of the ranges of losses, in nats, that the leaves of a group need, direction by direction."""
    return [high - low for low, high in _ranges(families, group, tolerance)]


def farthest_loss(families: Sequence[Family], group: Group, tolerance: float) -> float:
    """Return the size of the farthest loss, in nats, that the leaves of a group need."""
    return max(max(abs(low), abs(high)) for low, high in _ranges(families, group, tolerance))


def _ranges(families: Sequence[Family], group: Group, tolerance: float) -> list[tuple[float, float]]:
    """Return the ranges of losses, in nats, that the leaves of a group need, direction by direction."""
    leaves = max(point.leaves for point in group.points)
    per_round = sum(family.leaves for family in families)
    outside = outside_weight(group, tolerance) / leaves
    limit = _limit(families, group, leaves // per_round, tolerance)
    return [
        loss_range(family.profiles[direction], group, outside=outside, limit=limit, lost=_lost(group, tolerance))
        for direction in group.directions
        for family in families
    ]


def outside_weight(group: Group, tolerance: float) -> float:
    """Weight that all windows together may leave out."""
    # The excess is estimated; far from a saddle point that may come out below 0, which it never is.
    return 0.02 * tolerance * math.exp(-min(max(group.excess, 0.0), 600.0))


def _lost(group: Group, tolerance: float) -> float:
    """P_B mass that every leaf may lose to infinity: it adds e^ε times as much to δ, which hardly shows."""
    return min(
        0.2 * tolerance / point.leaves * math.exp(min(max(point.log_delta - point.epsilon, -600.0), 0.0))
        for point in group.points
    )


def _window(
    family: Family, group: Group, direction: Direction, *, width: float, outside: float, limit: float, lost: float
) -> LeafWindow:
    """Choose a leaf's window; `outside` is what one leaf may leave out."""
    window = leaf_window(family.profiles[direction], group, width=width, outside=outside, limit=limit, lost=lost)
    if max(abs(window.low), abs(window.high)) > FARTHEST_GIVEN_CELL:
        raise PrecisionError(
            f"factor: expected one with which a round's losses lie within {FARTHEST_GIVEN_CELL} buckets from 0, got"
            f" losses of up to {max(abs(window.low), abs(window.high)) * width:g} nats in buckets of {width:g}"
        )
    if window.high - window.low > MAX_GIVEN_CELLS:
        raise PrecisionError(
            f"factor: expected one with which a round's losses take at most {MAX_GIVEN_CELLS} buckets, got"
            f" {window.high - window.low} of {width:g} nats"
        )
    return window


def _leaf(family: Family, group: Group, windows: Sequence[LeafWindow], raisable: float) -> TiltedMasses:
    """Return the stack of a family's leaves: its pairs, or the directions of its one pair."""
    first = family.pairs[0]
    stack: list[TiltedMasses] = []
    windows = _mirrored(windows)
    cells = max(window.high - window.low for window in windows)
    before: ScaledLossMasses | None = None
    for direction, narrow in zip(group.directions, windows, strict=True):
        window = replace(narrow, high=narrow.low + cells)
        profile = family.profiles[direction]
        if window.spread_to_infinity:
            profile = profile.capped(window.width * window.high)
        log_norm = profile.cumulant(group.tilt)[0] if profile.loss.size else 0.0
        if len(family.pairs) > 1:
            masses = _stacked(family.pairs, window)
        elif before is not None and window == windows[0].mirrored:
            masses = before.swapped()
        else:
            masses = first.scaled_loss_masses(window.edges, direction)
        before = masses
        log_above, endless, log_below = -math.inf, 0.0, None
        if not window.spread_to_infinity:
            enough = log_norm + math.log(max(raisable, 1e-300))
            tails = [log_tail_moment(pair, group.tilt, window, direction, enough) for pair in family.pairs]
            log_above, endless = max(tail[0] for tail in tails), max(tail[1] for tail in tails)
        if _raised(masses, window, group.tilt, log_norm) > raisable:
            log_below = max(log_mass_below(pair, group.tilt, window, direction) for pair in family.pairs)
        apart = first.far_mass if isinstance(first, NearOutcomes) else 0.0
        tail = LeafTails(log_above, endless, log_below, apart)
        stack.append(tilted_leaf(masses, window, group.tilt, log_norm, tail, name=first).normalised())
    return joined(stack)


def _mirrored(windows: Sequence[LeafWindow]) -> Sequence[LeafWindow]:
    """Make two directions' windows those of the same events, where that takes few cells more."""
    if len(windows) != 2 or any(window.spread_to_infinity for window in windows):
        return windows
    one, other = windows[0], windows[1].mirrored
    both = replace(one, low=min(one.low, other.low), high=max(one.high, other.high))
    if both.high - both.low > _FEW_MORE * max(window.high - window.low for window in windows):
        return windows
    return both, both.mirrored


def _raised(masses: ScaledLossMasses, window: LeafWindow, tilt: float, log_norm: float) -> float:
    """Weight of the events below the window if they were raised to its lower end."""
    plain, end = masses.masses, window.width * (window.low - 1.0)
    mass = float(np.max(plain.cells_a.upper[..., 0])) * math.exp(float(masses.log_scale_a[0]))
    below = plain.atom_loss < end if plain.atom_loss.ndim == 1 else np.zeros(0, dtype=bool)
    if np.any(below):
        mass += float(np.sum(plain.atoms_a.upper[below]))
    return mass * math.exp(min(tilt * end - log_norm, 600.0))
