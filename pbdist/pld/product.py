r"""The product of two states: independent pairs, observed together.

Losses add, so that masses on lattices are convolved, under the factors e^{-ℓ/2} and e^{ℓ/2} too. With a core c and a
far part f of each state, on lattices of h and F h, the product has

    the core c₁ * c₂, and the far part f₁ * (f₂ + c₂') + c₁' * f₂,

c' being the core made as coarse as the far part: what is rare is made coarser once in each product.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.fourier import Allowance
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.lattice import Dominating, Exact, Factor, convolved
from pbdist.pld.state import Masses, PairState
from pbdist.types import Direction

__all__ = ["Window", "coarser_core", "confined", "product", "within"]

_U = UNIT_ROUNDOFF
Row = TypeVar("Row", Dominating, Exact)
#: An upper value that tells nothing of a mass, and an element that only lattices far too wide make.
_MUCH, _HOPELESS = 1e100, 1e50
#: More than what underflows.
_TINY = 1e-315
#: By how much the window of exact masses is wider.
_WIDER = 1.05


@dataclass(frozen=True)
class Window:
    """Losses that are kept apart, nats: beyond `low` and `high` they are infinite."""

    low: float
    high: float

    def places(self, spacing: float) -> tuple[int, int]:
        """First and last place of a lattice."""
        return int(np.floor(self.low / spacing)), int(np.ceil(self.high / spacing))

    def swapped(self) -> "Window":
        """The same for (B, A)."""
        return Window(-self.high, -self.low)


def product(first: PairState, second: PairState, allowance: Allowance) -> PairState:
    """Compose two states on the same lattices; the same object for a square.

    Parameters
    ----------
    first, second : PairState
    allowance : Allowance
        What rounding may add before more care is taken.

    Raises
    ------
    InvalidInputError
        If their lattices differ.
    """
    for name in ("core", "far"):
        rows = [row for row in (getattr(first.dominating, name), getattr(second.dominating, name)) if row is not None]
        if len({row.spacing for row in rows}) > 1:
            got = " and ".join(repr(row.spacing) for row in rows)
            raise InvalidInputError(f"states: expected one spacing of their {name} parts, got {got} nats")
    up, down = 1.0 + 8.0 * _U, 1.0 - 8.0 * _U
    same = first is second
    # Those of both directions look alike, so that they are convolved together.
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
    # Places that are made as coarse as the far part move outwards.
    step = max((row.spacing for row in first.dominating.rows + second.dominating.rows), default=0.0)
    step = step if any(masses.far is not None for masses in (first.dominating, second.dominating)) else 0.0
    return PairState(
        _told(results[0]),
        dict(zip(first.exact, results[1:], strict=True)),
        shift,
        *_outwards(first.lowest + second.lowest, first.highest + second.highest, 2.0 * step),
    )


def _told(masses: Masses[Dominating]) -> Masses[Dominating]:
    """Give up a pair of which nothing is known any more, for one that tells everything and so dominates any."""
    if all(float(np.max(row.u)) <= _HOPELESS for row in masses.rows):
        return masses
    nothing = [replace(row, first=0, u=np.zeros(1)) for row in masses.rows]
    return Masses(nothing[0], nothing[1] if len(nothing) > 1 else None, (_MUCH, _MUCH))


def _outwards(lowest: float, highest: float, step: float) -> tuple[float, float]:
    """Move the ends of all losses apart, and a little more for rounding."""
    near = step + 8.0 * _U * (abs(lowest) + abs(highest))
    return lowest - near, highest + near


def _far_parts(kinds: Sequence[tuple[Masses[Any], Masses[Any], bool]], allowance: Allowance) -> list[Any]:
    """Return f₁ * (f₂ + c₂') + c₁' * f₂ of each kind, None where no state has a far part."""
    spacings = [masses.far.spacing for one, two, _ in kinds for masses in (one, two) if masses.far is not None]
    if not spacings:
        return [None] * len(kinds)
    coarse = [(_as_coarse(one.core, spacings[0]), _as_coarse(two.core, spacings[0])) for one, two, _ in kinds]
    results: list[Any] = [None] * len(kinds)
    beside = coarse[0]
    # Masses of all kinds have a far part, or none has.
    firsts = [one.far for one, _, _ in kinds if one.far is not None]
    seconds = [two.far for _, two, _ in kinds if two.far is not None]
    if firsts:
        wholes = [
            (core if two.far is None else two.far.joined(core))
            for (_, two, _), (_, core) in zip(kinds, coarse, strict=True)
        ]
        factors = [
            Factor(far, whole, mirrored) for far, whole, (_, _, mirrored) in zip(firsts, wholes, kinds, strict=True)
        ]
        results = list(convolved(factors, allowance, beside))
    if seconds:
        factors = [
            Factor(core, far, mirrored) for far, (core, _), (_, _, mirrored) in zip(seconds, coarse, kinds, strict=True)
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
        kept, *more = row.cut(*window.places(row.spacing))
        if any(more):
            infinite = ((infinite[0] + more[0]) * rounding[0], (infinite[1] + more[1]) * rounding[1])
        rows.append(kept.trimmed())
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
    kept, outer = masses.core.beyond(*window.places(masses.core.spacing))
    far = _as_coarse(outer, spacing)
    return Masses(kept.trimmed(), far if masses.far is None else masses.far.joined(far), masses.infinite)
