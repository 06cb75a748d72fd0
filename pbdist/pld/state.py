r"""States: masses of a pair on lattices of losses; their products, cuts, and δ read from them.

Two kinds of rows, each on a lattice of spacing h with positions k:

*Dominating masses* u >= √(a* b*). There is a pair (A*, B*) of measures on the losses ℓ = k h of one or two lattices,
on +∞ (A* alone) and on -∞ (B* alone), of which a pair (A, B'') is a post-processing, e^-η B <= B'' <= e^η B, η =
`shift`. The rows have at least u = a* e^{-ℓ/2} = b* e^{ℓ/2}, element by element, and at least the masses at ±∞. All
bounds read from them rise with them, in both directions.

*Exact masses* of disjoint events of (A, B): `own`, at most P_A(event) e^{-λ/2}, and `other`, at least P_B(event)
e^{λ/2}, where λ = k h + `label` is a name of the event and no loss; events that are left out have no mass in either.
They are for the direction A||B; those of B||A have a frame of their own, with A and B swapped.

Under the factors e^{-ℓ/2} and e^{ℓ/2} both directions have the same form, and losses of hundreds of nats stay floats.
Section 1 of ``docs/pld.md`` states these claims; products are Theorem 25, δ is read by Theorems 21 and 26.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.fourier import Allowance
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.lattice import LOST_TO_UNDERFLOW, Dominating, Exact, Factor, convolved
from pbdist.types import Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Up to here e^ε times a mass of which digits are lost is below 1e-50.
LARGEST_READ = 600.0
#: States whose losses may be off by more than this, nats, say nothing.
LARGEST_SHIFT = 1.0
#: Positions next to ε that are looked at one by one, on either side.
_NEAR = 256
#: An upper bound that says nothing of a mass, and an element that only lattices far too wide have.
_MUCH, _HOPELESS = 1e100, 1e50
#: More than what underflows.
_TINY = 1e-315
#: By how much the window of exact masses is wider.
_WIDER = 1.05

Row = TypeVar("Row", Dominating, Exact)


@dataclass(frozen=True, eq=False)
class Masses(Generic[Row]):
    """Masses of one kind."""

    core: Row
    #: Rarer outcomes, on a lattice that is a power of two times as coarse.
    far: Row | None
    #: Of dominating masses those of A* at +∞ and of B* at -∞; of exact ones P_A from below and P_B from above of one
    #: more event, whose losses lie above the lattices.
    infinite: tuple[float, float]

    @property
    def rows(self) -> tuple[Row, ...]:
        """Core and far part, if there is one."""
        return (self.core,) if self.far is None else (self.core, self.far)


@dataclass(frozen=True, eq=False)
class PairState:
    """A pair, or a product of pairs."""

    dominating: Masses[Dominating]
    #: Of the requested directions.
    exact: dict[Direction, Masses[Exact]]
    #: η, nats.
    shift: float
    #: (A*, B*) has no finite loss below and above, nats.
    lowest: float
    highest: float

    @property
    def largest(self) -> float:
        """The largest element of any vector; NaN if one is NaN."""
        rows: list[Dominating | Exact] = [
            *self.dominating.rows,
            *(row for each in self.exact.values() for row in each.rows),
        ]
        return float(np.max([vector.max(initial=0.0) for row in rows for vector, _ in row.vectors]))


@dataclass(frozen=True)
class Window:
    """The range of finite losses, nats: beyond `low` and `high` they are infinite."""

    low: float
    high: float

    def positions(self, spacing: float) -> tuple[int, int]:
        """First and last position of a lattice."""
        return int(np.floor(self.low / spacing)), int(np.ceil(self.high / spacing))

    def swapped(self) -> "Window":
        """The same for (B, A)."""
        return Window(-self.high, -self.low)


def product(first: PairState, second: PairState, allowance: Allowance) -> PairState:
    """Compose two states on the same lattices (Theorem 25, docs/pld.md); the same object for a square.

    `allowance` is what rounding may add before more care is taken. Lattices that differ raise an `InvalidInputError`.
    """
    for name in ("core", "far"):
        rows = [row for row in (getattr(first.dominating, name), getattr(second.dominating, name)) if row is not None]
        if len({row.spacing for row in rows}) > 1:
            got = " and ".join(repr(row.spacing) for row in rows)
            raise InvalidInputError(f"states: expected one spacing of their {name} parts, got {got} nats")
    up, down = 1.0 + 8.0 * _U, 1.0 - 8.0 * _U
    same = first is second
    # Those of both directions have the same form, so that they are convolved together.
    kinds: list[tuple[Masses[Any], Masses[Any], bool, tuple[float, float]]] = [
        (first.dominating, second.dominating, False, (up, up))
    ]
    kinds += [
        (masses, second.exact[direction], direction is Direction.B_TO_A, (down, up))
        for direction, masses in first.exact.items()
    ]
    factors = [Factor(one.core, one.core if same else two.core, mirrored) for one, two, mirrored, _ in kinds]
    cores = convolved(factors, allowance)
    fars = _far_parts([(one, one if same else two, mirrored) for one, two, mirrored, _ in kinds], allowance)
    results: list[Masses[Any]] = [
        Masses(core, far, _infinite(one, two, rounding))
        for core, far, (one, two, _, rounding) in zip(cores, fars, kinds, strict=True)
    ]
    shift = (first.shift + second.shift) * (1.0 + 2.0 * _U)
    # Positions that are made as coarse as the far part move outwards.
    step = max((row.spacing for row in first.dominating.rows + second.dominating.rows), default=0.0)
    step = step if any(masses.far is not None for masses in (first.dominating, second.dominating)) else 0.0
    return PairState(
        _meaningful(results[0]),
        dict(zip(first.exact, results[1:], strict=True)),
        shift,
        *_outwards(first.lowest + second.lowest, first.highest + second.highest, 2.0 * step),
    )


def _meaningful(masses: Masses[Dominating]) -> Masses[Dominating]:
    """Replace a pair that rounding has made meaningless by one that reveals everything, which dominates any pair."""
    if all(float(np.max(row.u)) <= _HOPELESS for row in masses.rows):
        return masses
    nothing = [replace(row, first=0, u=np.zeros(1)) for row in masses.rows]
    return Masses(nothing[0], nothing[1] if len(nothing) > 1 else None, (_MUCH, _MUCH))


def _outwards(lowest: float, highest: float, step: float) -> tuple[float, float]:
    """Move the ends of all losses apart, and a little more for rounding."""
    near = step + 8.0 * _U * (abs(lowest) + abs(highest))
    return lowest - near, highest + near


def _far_parts(kinds: Sequence[tuple[Masses[Any], Masses[Any], bool]], allowance: Allowance) -> list[Any]:
    """Return f₁ * (f₂ + c₂') + c₁' * f₂ of each kind, f * (f + 2c') of a square; None where no state has a far part."""
    spacings = [masses.far.spacing for one, two, _ in kinds for masses in (one, two) if masses.far is not None]
    if not spacings:
        return [None] * len(kinds)
    square = all(one is two for one, two, _ in kinds)
    first = [_as_coarse(one.core, spacings[0]) for one, _, _ in kinds]
    second = first if square else [_as_coarse(two.core, spacings[0]) for _, two, _ in kinds]
    results: list[Any] = [None] * len(kinds)
    beside = first[0], second[0]
    # Masses of all kinds have a far part, or none has.
    firsts = [one.far for one, _, _ in kinds if one.far is not None]
    seconds = [two.far for _, two, _ in kinds if two.far is not None]
    if firsts:
        cores = [core.twice() for core in second] if square else second
        wholes = [
            (core if two.far is None else two.far.joined(core)) for (_, two, _), core in zip(kinds, cores, strict=True)
        ]
        factors = [
            Factor(far, whole, mirrored) for far, whole, (_, _, mirrored) in zip(firsts, wholes, kinds, strict=True)
        ]
        results = list(convolved(factors, allowance, beside))
    if seconds and not square:
        factors = [
            Factor(core, far, mirrored) for far, core, (_, _, mirrored) in zip(seconds, first, kinds, strict=True)
        ]
        more = convolved(factors, allowance, beside)
        results = [new if old is None else old.joined(new) for old, new in zip(results, more, strict=True)]
    return results


def _infinite(first: Masses[Row], second: Masses[Row], rounding: tuple[float, float]) -> tuple[float, float]:
    """A product is infinite where a factor is, the other one finite or infinite."""
    if not (any(first.infinite) or any(second.infinite)):
        return (0.0, 0.0)
    # So much more than all is as good as infinite, and is multiplied without overflow.
    one, two = ([min(each, _MUCH) for each in _sums(masses)] for masses in (first, second))
    # From above a product that underflows is not nothing.
    there = [one or two for one, two in zip(first.infinite, second.infinite, strict=True)]
    tiny = [_TINY if side > 1.0 and some else 0.0 for side, some in zip(rounding, there, strict=True)]
    mine, its = ([min(float(each), _MUCH) for each in masses.infinite] for masses in (first, second))
    return (
        (mine[0] * (two[0] + its[0]) + one[0] * its[0]) * rounding[0] + tiny[0],
        (mine[1] * (two[1] + its[1]) + one[1] * its[1]) * rounding[1] + tiny[1],
    )


def _sums(masses: Masses[Row]) -> tuple[float, float]:
    sums = [row.sums() for row in masses.rows]
    return sum(each[0] for each in sums), sum(each[1] for each in sums)


def _as_coarse(row: Row, spacing: float) -> Row:
    while row.spacing < spacing:
        row = row.coarser()
    return row


def within(state: PairState, window: Window) -> PairState:
    """Make infinite what lies beyond a window."""
    up, down = 1.0 + 4.0 * _U, 1.0 - 4.0 * _U
    # Labels of atoms are somewhat farther out than their losses.
    wider = Window(_WIDER * window.low, _WIDER * window.high)
    return PairState(
        _within(state.dominating, window, up, up),
        {
            direction: _within(masses, wider if direction is Direction.A_TO_B else wider.swapped(), down, up)
            for direction, masses in state.exact.items()
        },
        state.shift,
        # What is cut is moved inwards, or infinite.
        state.lowest,
        state.highest,
    )


def _within(masses: Masses[Row], window: Window, *rounding: float) -> Masses[Row]:
    rows: list[Row] = []
    infinite = masses.infinite
    for row in masses.rows:
        inner, *more = row.cut(*window.positions(row.spacing))
        if any(more):
            infinite = ((infinite[0] + more[0]) * rounding[0], (infinite[1] + more[1]) * rounding[1])
        rows.append(inner.trimmed())
    return Masses(rows[0], rows[1] if len(rows) > 1 else None, infinite)


def coarser_core(state: PairState) -> PairState:
    """Make the core twice as coarse, and join it with the far part where that is as coarse now."""
    return PairState(
        _coarser_core(state.dominating),
        {direction: _coarser_core(masses) for direction, masses in state.exact.items()},
        state.shift,
        *_outwards(state.lowest, state.highest, 2.0 * state.dominating.core.spacing),
    )


def _coarser_core(masses: Masses[Row]) -> Masses[Row]:
    core = masses.core.coarser()
    if masses.far is None or masses.far.spacing > core.spacing:
        return Masses(core, masses.far, masses.infinite)
    return Masses(core.joined(masses.far), None, masses.infinite)


def confined(state: PairState, window: Window, spacing: float) -> PairState:
    """Keep the core within a window; what lies beyond it joins the far part, of that spacing."""
    # Labels of atoms at its ends lie beside it.
    beside = 2.0 * state.dominating.core.spacing
    wider = Window(window.low - beside, window.high + beside)
    return PairState(
        _confined(state.dominating, window, spacing),
        {
            direction: _confined(masses, wider if direction is Direction.A_TO_B else wider.swapped(), spacing)
            for direction, masses in state.exact.items()
        },
        state.shift,
        *_outwards(state.lowest, state.highest, spacing),
    )


def _confined(masses: Masses[Row], window: Window, spacing: float) -> Masses[Row]:
    inner, outer = masses.core.beyond(*window.positions(masses.core.spacing))
    far = _as_coarse(outer, spacing)
    return Masses(inner.trimmed(), far if masses.far is None else masses.far.joined(far), masses.infinite)


def upper_deltas(state: PairState, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Upper bounds on δ at every ε, shape (E,), nats, from 0 to `LARGEST_READ`."""
    masses, shift = state.dominating, state.shift
    if not shift <= LARGEST_SHIFT:
        return np.ones(epsilon.size)
    result = np.zeros(epsilon.size)
    for row in masses.rows:
        directed = row if direction is Direction.A_TO_B else row.swapped()
        result += _above(directed, epsilon - (shift + 8.0 * _U * (epsilon + row.reach + shift)))
    infinite = masses.infinite[list(Direction).index(direction)]
    # Of A nothing was moved but its losses.
    moved = 1.0 if direction is Direction.A_TO_B else math.exp(shift)
    result = (result + infinite) * moved * (1.0 + 64.0 * _U)
    if infinite == 0.0:
        # No finite loss exceeds these ε.
        highest = state.highest if direction is Direction.A_TO_B else -state.lowest
        result = np.where(epsilon - shift * (1.0 + 8.0 * _U) >= highest, -LOST_TO_UNDERFLOW, result)
    return cast("FloatArray", np.clip(result + LOST_TO_UNDERFLOW, 0.0, 1.0))


def lower_deltas(state: PairState, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Lower bounds on δ at every ε, shape (E,)."""
    masses = state.exact[direction]
    own, other = masses.infinite
    result: FloatArray = np.maximum(own - np.exp(epsilon) * other * (1.0 + 16.0 * _U), 0.0)
    for row in masses.rows:
        result = result + _below(row, epsilon)
    # What is no full float may have been rounded up.
    return np.clip(result * (1.0 - 64.0 * _U) - LOST_TO_UNDERFLOW, 0.0, 1.0)


def _above(row: Dominating, epsilon: FloatArray) -> FloatArray:
    losses, size = row.losses, row.size
    a, b = row.u * np.exp(0.5 * losses), row.u * np.exp(-0.5 * losses)
    rounding = (size + 16.0 + 4.0 * row.reach) * _U
    a_beyond, b_beyond = _suffix_sums(a) * (1.0 + rounding), _suffix_sums(b) * (1.0 - rounding)
    start = np.searchsorted(losses, epsilon, side="right")
    stop = np.minimum(start + _NEAR, size)
    positions = start[:, None] + np.arange(_NEAR)
    inside = positions < size
    positions = np.minimum(positions, size - 1)
    gap = np.where(inside, epsilon[:, None] - losses[positions], 0.0)
    near = np.sum(a[positions] * -np.expm1(np.minimum(gap, 0.0)), axis=1) * (1.0 + rounding)
    rest = a_beyond[stop] - np.exp(epsilon) * b_beyond[stop] * (1.0 - 8.0 * _U)
    result: FloatArray = near + np.maximum(rest, 0.0)
    return result


def _below(row: Exact, epsilon: FloatArray) -> FloatArray:
    labels, size = row.labels, row.size
    a, b = row.plain
    rounding = (size + 16.0) * _U
    a_beyond, b_beyond = _suffix_sums(a) * (1.0 - rounding), _suffix_sums(b) * (1.0 + rounding)
    growth = np.exp(epsilon) * (1.0 + 8.0 * _U)
    middle = np.searchsorted(labels, epsilon)
    start, stop = np.maximum(middle - _NEAR, 0), np.minimum(middle + _NEAR, size)
    positions = start[:, None] + np.arange(2 * _NEAR)
    inside = positions < stop[:, None]
    positions = np.minimum(positions, size - 1)
    terms = a[positions] - growth[:, None] * b[positions]
    near = np.sum(np.where(inside, np.maximum(terms, 0.0), 0.0), axis=1) * (1.0 - 4.0 * _NEAR * _U)
    result: FloatArray = near + np.maximum(a_beyond[stop] - growth * b_beyond[stop], 0.0)
    return result


def _suffix_sums(values: FloatArray) -> FloatArray:
    """Return the sums of everything from each position on, shape (n + 1,)."""
    result = np.zeros(values.size + 1)
    result[:-1] = np.cumsum(values[::-1])[::-1]
    return result
