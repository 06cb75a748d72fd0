"""The leaf: one pair on lattices, dominated in both directions at once, and exact masses of its bins.

Events of a loss between two positions are split to both (`splitting`). Losses beyond a lattice become infinite, but
for a part that stays at its end (section 2 of ``docs/pld.md``).
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, MassBounds, ScaledLossMasses
from pbdist.pld.lattice import Dominating, Exact
from pbdist.pld.state import Masses, PairState
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

_U = UNIT_ROUNDOFF
#: What is not 0 counts as at least this in an upper value.
SMALLEST = 1e-300
#: Bins whose masses are known worse than this are split from rounded masses, at the cost of adding to them; of the
#: others the loss is taken to be wrong by so much, ..
_KNOWN = (5e-13, 1e-11, 1e-9)
#: .. of which the first is taken that adds no more than this to all masses together.
_ADDED = 1e-13
#: Bins up to this width, nats, are narrow.
_NARROW = 0.1
#: Where so small a share lies at one end, nearly all events may be next to the other one.
_NEAR_END = 0.4
#: With a share of 0.4 at least at either end, and bins so many times as wide as a and b are known, losses need be
#: moved by so many times that; those of single events by less.
_ROOM, _MOVED, _MOVED_ALONE = 500.0, 3.0, 2.0


@dataclass(frozen=True, eq=False)
class Bins:
    """Events of bins, tilted to their middles: masses from below and above, and the bin of each."""

    position: IntArray
    a_lower: FloatArray
    a_upper: FloatArray
    b_lower: FloatArray
    b_upper: FloatArray
    #: 0 and 1 for an event that lies at the lower and the upper end of its bin; else no number.
    end: FloatArray | None = None

    @cached_property
    def known(self) -> FloatArray:
        """How well a and b are known, relative to themselves."""
        with np.errstate(divide="ignore", invalid="ignore"):
            worse = np.maximum(self.a_upper / self.a_lower, self.b_upper / self.b_lower) - 1.0
        return np.where(np.isnan(worse), np.inf, worse)

    @cached_property
    def something(self) -> BoolArray:
        """Where there is any mass."""
        return (self.a_upper > 0.0) | (self.b_upper > 0.0)

    @cached_property
    def filled(self) -> "Bins":
        """The bins with any mass."""
        which = self.something
        if which.all():
            return self
        return Bins(
            self.position[which],
            self.a_lower[which],
            self.a_upper[which],
            self.b_lower[which],
            self.b_upper[which],
            None if self.end is None else self.end[which],
        )


_NO_BINS = Bins(np.zeros(0, np.int64), *(np.zeros(0) for _ in range(5)))


def tilted_bins(
    position: IntArray,
    a: tuple[FloatArray, FloatArray, FloatArray],
    b: tuple[FloatArray, FloatArray, FloatArray],
    end: FloatArray | None = None,
) -> Bins:
    """Multiply masses by exponentials, rounded to their sides."""
    values = []
    for lower, upper, exponent in (a, b):
        with np.errstate(over="ignore", under="ignore"):
            factor = np.exp(exponent)
        # An exponential errs by as many units as its exponent, which is rounded itself.
        slack = (8.0 + 2.0 * np.abs(exponent)) * _U
        low = lower * factor * (1.0 - slack)
        high = np.where(upper > 0.0, np.maximum(upper * factor * (1.0 + slack), SMALLEST), 0.0)
        # What underflows has lost its digits.
        values.append((np.where(low >= 1e-290, low, 0.0), high))
    return Bins(position, *values[0], *values[1], end)


def known_enough(parts: Iterable[Bins], spacing: float) -> float:
    """How well masses must be known for their loss to be taken as computed."""
    filled = [(part, part.known) for part in parts if part.position.size]
    for limit in _KNOWN[:-1]:
        added = 0.0
        for part, known in filled:
            worse = known > limit
            share = np.minimum(known[worse] / spacing, 1.0)
            added += float((np.minimum(part.a_upper[worse], part.b_upper[worse]) * share).sum())
        if added <= _ADDED:
            return limit
    return _KNOWN[-1]


def split_bins(bins: Bins, spacing: float, tolerance: float, loss_error: float) -> tuple[FloatArray, FloatArray, float]:
    """Split events to the ends of their bins, from above; besides, by how much losses were moved for it."""
    known = bins.known
    trusted = known <= tolerance
    a, b = bins.a_upper, bins.b_upper
    quarter = 0.25 * spacing
    if spacing <= _NARROW:
        low, high = _narrow(a, b, quarter, loss_error)
        if bins.end is None:
            # Where nearly all lies next to an end, or bins are no wider than losses are known, the others have no room
            # to be moved so little that it makes up for what is beyond that end.
            with np.errstate(invalid="ignore", divide="ignore"):
                share = low / (low + high)
            trusted = trusted & (share > _NEAR_END) & (share < 1.0 - _NEAR_END) & (_ROOM * known < spacing)
    else:
        low, high = _wide(a, b, quarter, np.where(trusted, known, 0.0))
    worst = float(known[trusted].max(initial=0.0))
    moved = (_MOVED if bins.end is None else _MOVED_ALONE) * worst + 64.0 * _U
    low, high = low * (1.0 + worst + 64.0 * _U), high * (1.0 + worst + 64.0 * _U)
    if not trusted.all():
        grow, shrink, wide = math.exp(quarter), math.exp(-quarter), 2.0 * math.sinh(2.0 * quarter)
        up, down = 1.0 + 16.0 * _U, 1.0 - 16.0 * _U
        # An event outside its bin by the error of losses is moved to its end.
        a_lower, b_lower = bins.a_lower, bins.b_lower * (1.0 - 1.01 * loss_error)
        b = b * (1.0 + 1.01 * loss_error)
        below = np.maximum(b * grow * up - a_lower * shrink * down, 0.0) / wide * up
        over = np.maximum(a * grow * up - b_lower * shrink * down, 0.0) / wide * up
        below = np.minimum(below, np.minimum(a * grow, b * shrink) * up)
        over = np.minimum(over, np.minimum(a * shrink, b * grow) * up)
        low, high = np.where(trusted, low, below), np.where(trusted, high, over)
    if bins.end is not None:
        # An event at an end stays whole: as much as both of its masses need there.
        up = 1.0 + 16.0 * _U
        grow, shrink = math.exp(quarter) * up, math.exp(-quarter) * up
        at_low, at_high = bins.end == 0.0, bins.end == 1.0
        low = np.where(at_low, np.maximum(a * grow, bins.b_upper * shrink), np.where(at_high, 0.0, low))
        high = np.where(at_high, np.maximum(a * shrink, bins.b_upper * grow), np.where(at_low, 0.0, high))
    return low, high, moved


def _narrow(a: FloatArray, b: FloatArray, quarter: float, loss_error: float) -> tuple[FloatArray, FloatArray]:
    """Split events to the ends of narrow bins, of which a and b differ little, by sum and difference."""
    total = (a + b) / (2.0 * math.cosh(quarter))
    difference = (a - b) / (2.0 * math.sinh(quarter))
    outside = np.abs(difference) > total
    # An event outside its bin by rounding lies at its end, where it keeps both masses: that takes more, by as much.
    difference = np.clip(difference, -total, total)
    grown = np.where(outside, 1.0 + 1.01 * loss_error, 1.0)
    return 0.5 * (total - difference) * grown, 0.5 * (total + difference) * grown


def _wide(a: FloatArray, b: FloatArray, quarter: float, known: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split events to the ends of wide bins, each end by itself: what rounding, and not knowing, take is added.

    Below 0 there is an end of which an event lies beyond the other one, by rounding: the other then has more.
    """
    grow, shrink, wide = math.exp(quarter), math.exp(-quarter), 2.0 * math.sinh(2.0 * quarter)
    ends = []
    for near, far in ((b, a), (a, b)):
        added = (32.0 * _U + 2.0 * known) * (near * grow + far * shrink)
        ends.append((np.maximum(near * grow - far * shrink, 0.0) + added) / wide)
    return ends[0], ends[1]


@dataclass(frozen=True)
class Lattice:
    """Where a leaf's losses go."""

    #: h of the core, nats.
    spacing: float
    #: The far lattice has `coarse` h; a power of two.
    coarse: int
    #: First and last position of the core, in h: multiples of `coarse`.
    core: tuple[int, int]
    #: First and last position of all, in h: multiples of `coarse`. What lies beyond goes to infinity.
    low: int
    high: int

    @property
    def edges(self) -> FloatArray:
        """Edges of all bins, nats, each rounded once."""
        positions = np.concatenate(
            (
                np.arange(self.low, self.core[0], self.coarse),
                np.arange(self.core[0], self.core[1]),
                np.arange(self.core[1], self.high + 1, self.coarse),
            )
        )
        result: FloatArray = self.spacing * positions.astype(np.float64)
        return result


def leaf_of(pair: ElementaryPair, lattice: Lattice, directions: Collection[Direction]) -> PairState:
    """Make the state of one pair, with exact masses of some directions.

    Of an enclosure, (D) is that of the pair above, and (E) that of the dominated one (Theorem 33 of docs/theory.md).
    """
    if pair.dominating is pair:
        return leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, directions)
    above = leaf_state(pair.dominating.scaled_loss_masses(lattice.edges), lattice, ())
    if not directions:
        return above
    return replace(above, exact=leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, directions).exact)


def leaf_state(masses: ScaledLossMasses, lattice: Lattice, directions: Collection[Direction]) -> PairState:
    """Make the state of one pair from its masses on `lattice.edges`, with exact masses of some directions."""
    plain, h, coarse = masses.masses, lattice.spacing, lattice.coarse
    sizes = ((lattice.core[0] - lattice.low) // coarse, lattice.core[1] - lattice.core[0])
    bounds = np.cumsum((1, *sizes, (lattice.high - lattice.core[1]) // coarse)).tolist()
    low, core, high = (
        _spread(masses, slice(start, stop), first, spacing)
        for start, stop, first, spacing in (
            (bounds[0], bounds[1], lattice.low // coarse, coarse * h),
            (bounds[1], bounds[2], lattice.core[0], h),
            (bounds[2], bounds[3], lattice.core[1] // coarse, coarse * h),
        )
    )
    spread = any(bool(part.something.any()) for part in (low, core, high))
    atoms = _Atoms(masses, lattice, spread=spread)
    parts = [_Row(h, (core, atoms.core)), *([_Row(coarse * h, (low, high, atoms.far))] if coarse > 1 else [])]
    tolerance = known_enough([part for row in parts for part in row.parts], h)
    ends = _Ends(masses, lattice, atoms)
    stays = [
        (position // coarse, mass) for position, mass in ((lattice.low, ends.bottom), (lattice.high, ends.top)) if mass
    ]
    rows, shift = [], 0.0
    for each in parts:
        here = stays if each is parts[-1] else []
        row, moved = each.dominating(here, tolerance, plain.loss_error)
        rows.append(row)
        shift = max(shift, moved)
    label = 0.5 if spread else 0.0
    exact = {}
    for direction in directions:
        own = tuple(each.exact(label * each.spacing, direction) for each in parts)
        exact[direction] = Masses(own, ends.exact[direction])
    reach = h * max(abs(lattice.low), abs(lattice.high))
    # Positions, edges and exponents are rounded.
    shift += plain.loss_error + atoms.snapped + (16.0 + 8.0 * reach) * _U
    dominating = Masses(tuple(rows), ends.infinite)
    outer = [float(end) for row in rows if row.u.any() for end in (row.losses[0], row.losses[-1])] or [0.0]
    near = 4.0 * _U * reach
    return PairState(dominating, exact, 1.001 * shift, min(outer) - near, max(outer) + near)


def _spread(masses: ScaledLossMasses, bins: slice, first: int, spacing: float) -> Bins:
    plain = masses.masses
    if not (plain.bins_a.upper[bins].any() or plain.bins_b.upper[bins].any()):
        return _NO_BINS
    position = first + np.arange(bins.stop - bins.start)
    middle = spacing * (position + 0.5)
    scale_a, scale_b = masses.log_scale_a[bins] - 0.5 * middle, masses.log_scale_b[bins] + 0.5 * middle
    return tilted_bins(
        position,
        (plain.bins_a.lower[bins], plain.bins_a.upper[bins], scale_a),
        (plain.bins_b.lower[bins], plain.bins_b.upper[bins], scale_b),
    )


@dataclass(frozen=True, eq=False)
class _Row:
    """Bins of one spacing, the atoms last."""

    spacing: float
    parts: tuple[Bins, ...]

    @cached_property
    def ends(self) -> list[int]:
        """The first and the last occupied bin of each part that has any."""
        filled = [part.filled.position for part in self.parts if part.something.any()]
        return [int(end) for positions in filled for end in (positions.min(), positions.max())]

    @cached_property
    def most(self) -> float:
        """How many numbers are added up at one position, at most."""
        atoms = self.parts[-1].position
        return 8.0 + (float(np.bincount(atoms - atoms.min()).max()) if atoms.size else 0.0)

    def dominating(
        self, stays: Sequence[tuple[int, float]], tolerance: float, loss_error: float
    ) -> tuple[Dominating, float]:
        """Gather bins, and masses that stay at positions; also return by how much losses were moved."""
        ends = self.ends + [position - (position > 0) for position, _ in stays]
        first, size = min(ends, default=0), max(ends, default=0) - min(ends, default=0) + 1
        u, shift = np.zeros(size + 1), 0.0
        for part in self.parts:
            there = part.filled
            if not there.position.size:
                continue
            low, high, moved = split_bins(there, self.spacing, tolerance, loss_error)
            shift = max(shift, moved)
            u[:-1] += np.bincount(there.position - first, low, size)
            u[1:] += np.bincount(there.position - first, high, size)
        for position, mass in stays:
            u[position - first] += mass
        return Dominating(self.spacing, first, u * (1.0 + 2.0 * self.most * _U)).trimmed(), shift

    def exact(self, label: float, direction: Direction) -> Exact:
        """Gather bins as events with a label."""
        first, last = min(self.ends, default=0), max(self.ends, default=0)
        own, other = np.zeros(last - first + 1), np.zeros(last - first + 1)
        for part in self.parts:
            there = part.filled
            if not there.position.size:
                continue
            lower, upper = there.a_lower, there.b_upper
            if direction is Direction.B_TO_A:
                lower, upper = there.b_lower, there.a_upper
            own += np.bincount(there.position - first, lower, own.size)
            other += np.bincount(there.position - first, upper, own.size)
        # From the middles of the bins to their labels: half a bin further down where all are atoms.
        shifted = 0.5 * (0.5 * self.spacing - label)
        sign = 1.0 if direction is Direction.A_TO_B else -1.0
        rounding = (2.0 * self.most + 8.0) * _U
        own *= math.exp(sign * shifted) * (1.0 - rounding)
        other *= math.exp(-sign * shifted) * (1.0 + rounding)
        if direction is Direction.A_TO_B:
            return Exact(self.spacing, first, label, own, other).trimmed()
        return Exact(self.spacing, -last, -label, own[::-1].copy(), other[::-1].copy()).trimmed()


class _Atoms:
    """Atoms of a pair, sorted into the bins of the core and of the far lattice, and those beyond all bins."""

    def __init__(self, masses: ScaledLossMasses, lattice: Lattice, *, spread: bool) -> None:
        plain, h, coarse = masses.masses, lattice.spacing, lattice.coarse
        self._spread = spread
        loss = plain.atom_loss if plain.atom_loss.ndim == 1 else np.zeros(0)
        self.loss, self.known = loss, np.isfinite(loss)
        self.snapped = 0.0
        position = np.clip(np.where(self.known, loss, 0.0) / h, -(2.0**52), 2.0**52)
        self.above = self.known & (position > lattice.high)
        self.below = self.known & (position < lattice.low)
        inside = self.known & ~self.above & ~self.below
        in_core = inside & ((coarse == 1) | ((position > lattice.core[0]) & (position < lattice.core[1])))
        self.core = self._sorted(masses, in_core, loss, h)
        self.far = self._sorted(masses, inside & ~in_core, loss, h * coarse)

    def _sorted(self, masses: ScaledLossMasses, chosen: BoolArray, loss: FloatArray, spacing: float) -> Bins:
        if not chosen.any():
            return _NO_BINS
        plain = masses.masses
        quotient = loss[chosen] / spacing
        nearest = np.rint(quotient)
        error = plain.loss_error / spacing + 4.0 * _U * np.abs(quotient)
        on_edge = np.abs(quotient - nearest) <= error
        if on_edge.any():
            self.snapped = max(self.snapped, float(error[on_edge].max()) * spacing)
        # One on an edge is counted to the bin that lies farther from 0, or to the one above if all are atoms.
        below = (nearest < 0.0) & self._spread
        position = np.where(on_edge, np.where(below, nearest - 1.0, nearest), np.floor(quotient))
        middle = spacing * (position + 0.5)
        scale_a = masses.atoms_log_scale_a[chosen] - 0.5 * middle
        scale_b = masses.atoms_log_scale_b[chosen] + 0.5 * middle
        return tilted_bins(
            position.astype(np.int64),
            (plain.atoms_a.lower[chosen], plain.atoms_a.upper[chosen], scale_a),
            (plain.atoms_b.lower[chosen], plain.atoms_b.upper[chosen], scale_b),
            np.where(on_edge, nearest - position, np.nan),
        )


def _beyond(own: tuple[float, float], other: tuple[float, float], end: float) -> tuple[float, float]:
    """Split events whose loss exceeds `end`: of the mass `own`, `other` e^end stays there and the rest is infinite.

    `own` and `other` are lower and upper values of the P_A and the P_B mass above the last loss, or of the P_B and the
    P_A mass below the first one. Returned are what stays, tilted, and what is infinite.
    """
    up, down = 1.0 + 16.0 * _U, 1.0 - 16.0 * _U
    growth = math.exp(end)
    stays = min(other[1] * growth * up, own[1])
    infinite = max(own[1] * up - min(other[0] * growth, own[1]) * down, 0.0)
    return stays * math.exp(-0.5 * end) * up, infinite


class _Ends:
    """What lies beyond a lattice: infinite masses, what stays at its ends, and exact masses of one more event."""

    def __init__(self, masses: ScaledLossMasses, lattice: Lattice, atoms: _Atoms) -> None:
        plain = masses.masses
        side_a = _Side(plain.bins_a, plain.atoms_a, masses.log_scale_a, masses.atoms_log_scale_a)
        side_b = _Side(plain.bins_b, plain.atoms_b, masses.log_scale_b, masses.atoms_log_scale_b)
        a_above, b_above = (side.sum(-1, atoms.above) for side in (side_a, side_b))
        a_below, b_below = (side.sum(0, atoms.below) for side in (side_a, side_b))
        self.top, infinite_a = _beyond(a_above, b_above, lattice.spacing * lattice.high)
        self.bottom, infinite_b = _beyond(b_below, a_below, -lattice.spacing * lattice.low)
        only_a, only_b = _sides(plain.only_a), _sides(plain.only_b)
        # An atom of unknown loss may reveal either input.
        unknown_a, unknown_b = (side.sum(None, ~atoms.known)[1] for side in (side_a, side_b))
        up, down = 1.0 + 16.0 * _U, 1.0 - 16.0 * _U
        self.infinite = ((only_a[1] + unknown_a + infinite_a) * up, (only_b[1] + unknown_b + infinite_b) * up)
        # Outcomes whose losses are too large for a float are events like any other.
        self.exact = {}
        for direction, sides, only, beyond, end in (
            (Direction.A_TO_B, (side_a, side_b), only_a, (a_above, b_above), np.inf),
            (Direction.B_TO_A, (side_b, side_a), only_b, (b_below, a_below), -np.inf),
        ):
            own, other = (side.sum(None, atoms.loss == end) for side in sides)
            self.exact[direction] = (only[0] + beyond[0][0] + own[0]) * down, (beyond[1][1] + other[1]) * up


def _sides(masses: MassBounds) -> tuple[float, float]:
    terms = masses.lower.size + 4.0
    return float(masses.lower.sum()) * (1.0 - terms * _U), float(masses.upper.sum()) * (1.0 + terms * _U)


@dataclass(frozen=True, eq=False)
class _Side:
    """Masses of one of the two distributions, with the logarithms of their factors."""

    bins: MassBounds
    atoms: MassBounds
    log_scale: FloatArray
    atoms_log_scale: FloatArray

    def sum(self, outermost: int | None, chosen: BoolArray) -> tuple[float, float]:
        """Sum the masses of an outermost bin, if any, and of some atoms: from below and from above."""
        lower, upper, count = 0.0, 0.0, int(np.count_nonzero(chosen))
        there = count > 0
        if there:
            factor = np.exp(self.atoms_log_scale[chosen])
            lower = float((self.atoms.lower[chosen] * factor).sum())
            upper = float((self.atoms.upper[chosen] * factor).sum())
            there = bool((self.atoms.upper[chosen] > 0.0).any())
        if outermost is not None:
            scale = math.exp(float(self.log_scale[outermost]))
            lower, upper = (
                lower + float(self.bins.lower[outermost]) * scale,
                upper + float(self.bins.upper[outermost]) * scale,
            )
            there |= float(self.bins.upper[outermost]) > 0.0
        # Factors that are logarithms of some hundred err by so many units.
        rounding = (count + 2048.0) * _U
        return lower * (1.0 - rounding), max(upper * (1.0 + rounding), SMALLEST) if there else 0.0
