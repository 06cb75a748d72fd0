r"""States: masses of a pair on lattices of losses; their products, cuts, and δ read from them.

Two kinds of rows, each on a lattice of spacing h with positions k:

*Dominating masses* u >= √(a* b*). There is a pair (A*, B*) of measures on the losses ℓ = k h of one or more lattices,
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

    #: Levels: the core, and rarer outcomes on lattices of larger and larger spacings, its multiples by powers of two.
    rows: tuple[Row, ...]
    #: Of dominating masses those of A* at +∞ and of B* at -∞; of exact ones P_A from below and P_B from above of one
    #: more event, whose losses lie above the lattices.
    infinite: tuple[float, float]

    @property
    def core(self) -> Row:
        """The finest level."""
        return self.rows[0]


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

    def seen(self, direction: Direction) -> "Window":
        """The same in a direction, where (B, A) has the losses of (A, B) turned round."""
        return self if direction is Direction.A_TO_B else Window(-self.high, -self.low)


def product(first: PairState, second: PairState, allowance: Allowance) -> PairState:
    """Compose two states on the same lattices (Theorem 25, docs/pld.md); the same object for a square.

    `allowance` is what rounding may add before more care is taken. Lattices that differ raise an `InvalidInputError`.
    """
    if first.dominating.core.spacing != second.dominating.core.spacing:
        got = " and ".join(repr(state.dominating.core.spacing) for state in (first, second))
        raise InvalidInputError(f"states: expected one spacing of their cores, got {got} nats")
    up, down = 1.0 + 8.0 * _U, 1.0 - 8.0 * _U
    # Those of both directions have the same form, so that they are convolved together.
    kinds: list[tuple[Masses[Any], Masses[Any], bool, tuple[float, float]]] = [
        (first.dominating, second.dominating, False, (up, up))
    ]
    kinds += [
        (masses, second.exact[direction], direction is Direction.B_TO_A, (down, up))
        for direction, masses in first.exact.items()
    ]
    spacings = sorted({row.spacing for state in (first, second) for row in state.dominating.rows})
    products = _level_products([(one, two, mirrored) for one, two, mirrored, _ in kinds], spacings, allowance)
    results: list[Masses[Any]] = [
        Masses(tuple(rows), _infinite(one, two, rounding))
        for rows, (one, two, _, rounding) in zip(products, kinds, strict=True)
    ]
    shift = (first.shift + second.shift) * (1.0 + 2.0 * _U)
    # Positions that are made as coarse as the last level move outwards.
    step = spacings[-1] if len(spacings) > 1 else 0.0
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
    return Masses(tuple(replace(row, first=0, u=np.zeros(1)) for row in masses.rows), (_MUCH, _MUCH))


def _outwards(lowest: float, highest: float, step: float) -> tuple[float, float]:
    """Move the ends of all losses apart, and a little more for rounding."""
    near = step + 8.0 * _U * (abs(lowest) + abs(highest))
    return lowest - near, highest + near


def _level_products(
    kinds: Sequence[tuple[Masses[Any], Masses[Any], bool]], spacings: Sequence[float], allowance: Allowance
) -> list[list[Any]]:
    """Return the levels of the products: x * (y + Y) + X * y of levels x, y and all finer ones X, Y made as coarse.

    Of a square x * (x + 2X). Masses of all kinds have the same levels.
    """
    square = all(one is two for one, two, _ in kinds)
    results: list[list[Any]] = [[] for _ in kinds]
    finer: list[tuple[Any, Any]] = [(None, None) for _ in kinds]
    for index, spacing in enumerate(spacings):
        finer = [(_as_coarse(x, spacing), None if square else _as_coarse(y, spacing)) for x, y in finer]
        levels = [(_level(one, spacing), _level(two, spacing)) for one, two, _ in kinds]
        beside = [] if finer[0][0] is None else [(finer[0][0], finer[0][0] if square else finer[0][1])]
        terms: list[list[tuple[Any, Any]]] = []
        if levels[0][0] is not None:
            rest = [(None if x is None else x.twice()) if square else y for x, y in finer]
            terms.append([(x, _joined(y, more)) for (x, y), more in zip(levels, rest, strict=True)])
        if levels[0][1] is not None and beside and not square:
            terms.append([(more, y) for (_, y), (more, _) in zip(levels, finer, strict=True)])
        if terms:
            # A rare loss on a coarser level may outweigh a sum of several on this one.
            coarser = (_level(kinds[0][0], wide) for wide in spacings[index + 1 :])
            beside += [(row, terms[0][0][1]) for row in coarser if row is not None]
        for term in terms:
            factors = [Factor(x, y, mirrored) for (x, y), (_, _, mirrored) in zip(term, kinds, strict=True)]
            for rows, row in zip(results, convolved(factors, allowance, beside), strict=True):
                if term is terms[0]:
                    rows.append(row)
                else:
                    rows[-1] = rows[-1].joined(row)
        finer = [
            (_joined(x_finer, x), _joined(y_finer, y)) for (x_finer, y_finer), (x, y) in zip(finer, levels, strict=True)
        ]
    return results


def _level(masses: Masses[Any], spacing: float) -> Any:
    """Return the level of a spacing, None if there is none."""
    return next((row for row in masses.rows if row.spacing == spacing), None)


def _joined(one: Any, other: Any) -> Any:
    """Return the masses of both rows, of which one or both may be missing."""
    return one if other is None else other if one is None else one.joined(other)


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


def _as_coarse(row: Any, spacing: float) -> Any:
    while row is not None and row.spacing < spacing:
        row = row.coarser()
    return row


def within(state: PairState, window: Window) -> PairState:
    """Make infinite what lies beyond a window."""
    up, down = 1.0 + 4.0 * _U, 1.0 - 4.0 * _U
    # Labels of atoms are somewhat farther out than their losses.
    wider = Window(_WIDER * window.low, _WIDER * window.high)
    exact = {way: _within(masses, wider.seen(way), down, up) for way, masses in state.exact.items()}
    # What is cut is moved inwards, or infinite.
    return replace(state, dominating=_within(state.dominating, window, up, up), exact=exact)


def _within(masses: Masses[Row], window: Window, *rounding: float) -> Masses[Row]:
    rows: list[Row] = []
    infinite = masses.infinite
    for row in masses.rows:
        inner, *more = row.cut(*window.positions(row.spacing))
        if any(more):
            infinite = ((infinite[0] + more[0]) * rounding[0], (infinite[1] + more[1]) * rounding[1])
        rows.append(inner.trimmed())
    return Masses(tuple(rows), infinite)


def coarser_level(state: PairState, level: int = 0) -> PairState:
    """Make a level, by default the core, twice as coarse, and join it with the next one where that is as coarse now."""
    return PairState(
        _coarser_level(state.dominating, level),
        {way: _coarser_level(masses, level) for way, masses in state.exact.items()},
        state.shift,
        *_outwards(state.lowest, state.highest, 2.0 * state.dominating.rows[level].spacing),
    )


def _coarser_level(masses: Masses[Row], level: int) -> Masses[Row]:
    row: Any = masses.rows[level].coarser()
    after: Any = masses.rows[level + 1 :]
    if after and after[0].spacing == row.spacing:
        row, after = row.joined(after[0]), after[1:]
    return Masses((*masses.rows[:level], row, *after), masses.infinite)


def confined(state: PairState, level: int, window: Window, spacing: float) -> PairState:
    """Keep a level within a window; what lies beyond it joins the next one, of that spacing, which may be a new one."""
    # Labels of atoms at its ends lie beside it.
    beside = 2.0 * state.dominating.rows[level].spacing
    wider = Window(window.low - beside, window.high + beside)
    return PairState(
        _confined(state.dominating, level, window, spacing),
        {way: _confined(masses, level, wider.seen(way), spacing) for way, masses in state.exact.items()},
        state.shift,
        *_outwards(state.lowest, state.highest, spacing),
    )


def _confined(masses: Masses[Row], level: int, window: Window, spacing: float) -> Masses[Row]:
    row: Any = masses.rows[level]
    after: Any = masses.rows[level + 1 :]
    inner, outer = row.beyond(*window.positions(row.spacing))
    level_after = _as_coarse(outer, spacing)
    if after and after[0].spacing == spacing:
        level_after, after = after[0].joined(level_after), after[1:]
    rows: Any = (*masses.rows[:level], inner.trimmed(), level_after, *after)
    return Masses(rows, masses.infinite)


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
    result = np.zeros(epsilon.size)
    exceeded = epsilon < losses[-1]
    epsilon = epsilon[exceeded]
    if not epsilon.size:
        return result
    growth = row.growth
    a, b = row.u * growth, row.u / growth
    rounding = (_terms(size) + _NEAR + 16.0 + 4.0 * row.reach) * _U
    a_beyond, b_beyond = _suffix_sums(a) * (1.0 + rounding), _suffix_sums(b) * (1.0 - rounding)
    start = np.searchsorted(losses, epsilon, side="right")
    stop = np.minimum(start + _NEAR, size)
    positions = start[:, None] + np.arange(_NEAR)
    inside = positions < size
    positions = np.minimum(positions, size - 1)
    gap = np.where(inside, epsilon[:, None] - losses[positions], 0.0)
    near = np.sum(a[positions] * -np.expm1(np.minimum(gap, 0.0)), axis=1) * (1.0 + rounding)
    rest = a_beyond[stop] - np.exp(epsilon) * b_beyond[stop] * (1.0 - 8.0 * _U)
    result[exceeded] = near + np.maximum(rest, 0.0)
    return result


def _below(row: Exact, epsilon: FloatArray) -> FloatArray:
    labels, size = row.labels, row.size
    result = np.zeros(epsilon.size)
    # Farther out next to nothing exceeds ε; 0 is below anything.
    exceeded = epsilon < labels[-1] + _NEAR * row.spacing
    epsilon = epsilon[exceeded]
    if not epsilon.size:
        return result
    a, b = row.plain
    rounding = (_terms(size) + 16.0) * _U
    a_beyond, b_beyond = _suffix_sums(a) * (1.0 - rounding), _suffix_sums(b) * (1.0 + rounding)
    growth = np.exp(epsilon) * (1.0 + 8.0 * _U)
    middle = np.searchsorted(labels, epsilon)
    start, stop = np.maximum(middle - _NEAR, 0), np.minimum(middle + _NEAR, size)
    positions = start[:, None] + np.arange(2 * _NEAR)
    inside = positions < stop[:, None]
    positions = np.minimum(positions, size - 1)
    terms = a[positions] - growth[:, None] * b[positions]
    near = np.sum(np.where(inside, np.maximum(terms, 0.0), 0.0), axis=1) * (1.0 - 4.0 * _NEAR * _U)
    result[exceeded] = near + np.maximum(a_beyond[stop] - growth * b_beyond[stop], 0.0)
    return result


def _terms(size: int) -> int:
    """Return how many additions lead to a suffix sum at most, those of its block and those of blocks."""
    return 2 * (math.isqrt(size) + 1)


def _suffix_sums(values: FloatArray) -> FloatArray:
    """Return the sums of everything from each position on, shape (n + 1,); by blocks, with little rounding."""
    width = math.isqrt(values.size) + 1
    blocks = np.append(values, np.zeros(-values.size % width)).reshape(-1, width)[:, ::-1]
    inner = np.cumsum(blocks, axis=1)[:, ::-1]
    after = np.append(np.cumsum(inner[:0:-1, 0])[::-1], 0.0)
    result: FloatArray = np.append((inner + after[:, None]).reshape(-1)[: values.size], 0.0)
    return result
