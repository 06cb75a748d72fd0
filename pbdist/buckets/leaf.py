"""The leaf of a composition tree: one pair's masses sorted into loss buckets (Definition 4).

A long grid is filled block by block, by whatever process, so that no step needs the whole of it. What is not spread
over the loss cells, the atoms and what only one distribution has, is found once (`leaf_frame`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.buckets.state import BucketState, Grid
from pbdist.buckets.sums import piece_sums, total
from pbdist.errors import InvalidInputError, shown
from pbdist.fourier.vectors import ranges
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, MassBounds
from pbdist.types import Direction, FloatArray, IntArray

__all__ = [
    "LEAF_BLOCK",
    "BlockAtoms",
    "LeafFrame",
    "LeafMasses",
    "check_leaf",
    "corner_mass",
    "fits_block",
    "leaf_blocks",
    "leaf_frame",
    "leaf_masses",
    "leaf_scalars",
    "leaf_state",
]

#: Positions of a block: its masses and what they are computed from stay small.
LEAF_BLOCK = 1 << 18


def leaf_state(pair: ElementaryPair, grid: Grid, direction: Direction = Direction.A_TO_B) -> BucketState:
    """Sort one pair into the buckets of a grid.

    Parameters
    ----------
    pair : ElementaryPair
        The pair (A, B).
    grid : Grid
        The buckets.
    direction : Direction, optional
        Which of the two distributions plays P_A.

    Returns
    -------
    BucketState
        With u = 1. An atom whose loss lies within its rounding error of a bucket's edge i h is taken to lie on the
        edge, hence in bucket i; the distance is part of the state's ``loss_error``.
    """
    size = 2 * grid.half_width + 1
    blocks = leaf_blocks(pair, grid, direction)
    whole = _cells(pair, grid, direction, *blocks[0]) if len(blocks) == 1 else None
    frame = leaf_frame(pair, grid, direction, blocks, whole)
    vectors: dict[str, Any] = {}
    loss_errors = []
    for position, (start, stop) in enumerate(blocks):
        part = leaf_masses(pair, grid, direction, (start, stop), frame=frame, atoms=frame.atoms[position], whole=whole)
        loss_errors.append(part.loss_error)
        for name, masses in part.vectors.items():
            if whole is not None:
                vectors[name] = masses
            else:
                vectors.setdefault(name, np.empty(size))[start:stop] = masses
    state = BucketState(grid=grid, **vectors, **leaf_scalars(pair, grid, frame, loss_errors))
    totals = {name: total(piece_sums(getattr(state, name))) for name in ("a_upper", "b_upper")}
    check_leaf(pair, totals["a_upper"] + state.infinity_a_upper, totals["b_upper"] + state.infinity_b_upper)
    return state


@dataclass(frozen=True, eq=False)
class BlockAtoms:
    """The atoms that fall into a block: their positions, counted from its start, and their masses."""

    position: IntArray
    a: MassBounds
    b: MassBounds

    @property
    def size(self) -> int:
        """How many there are."""
        return self.position.size


@dataclass(frozen=True, eq=False)
class LeafFrame:
    """What a leaf is but for the masses spread over its loss cells.

    Attributes
    ----------
    spread
        Whether there are any such.
    atoms
        For each block the atoms in it.
    only_b
        Upper P_B mass of what only B has.
    infinity_a_lower, infinity_a_upper, infinity_b_upper
        As the state has them.
    loss_error
        Of the atoms, nats.
    """

    spread: bool
    atoms: tuple[BlockAtoms, ...]
    only_b: float
    infinity_a_lower: float
    infinity_a_upper: float
    infinity_b_upper: float
    loss_error: float


@dataclass(frozen=True, eq=False)
class LeafMasses:
    """The vectors of a block, and by how many nats the losses of its spread events may lie outside their cells."""

    vectors: dict[str, FloatArray]
    loss_error: float


def fits_block(grid: Grid) -> bool:
    """Whether a leaf on a grid is filled by one block because it is short."""
    return 2 * grid.half_width + 1 <= LEAF_BLOCK


def leaf_blocks(pair: ElementaryPair, grid: Grid, direction: Direction) -> list[tuple[int, int]]:
    """Cut the positions of a grid into the blocks that its leaf is filled by: one, if no part stands for itself."""
    size = 2 * grid.half_width + 1
    blocks = list(ranges(0, size, LEAF_BLOCK))
    meet = len(blocks) == 1 or all(
        _meet(pair, edges, direction) for edges in (_outermost(grid), *(_edges(grid, *block) for block in blocks))
    )
    return blocks if meet else [(0, size)]


def _meet(pair: ElementaryPair, edges: FloatArray, direction: Direction) -> bool:
    return pair.keeps_order(edges if direction is Direction.A_TO_B else np.ascontiguousarray(-edges[::-1]))


def _outermost(grid: Grid) -> FloatArray:
    return np.array([-grid.half_width, grid.half_width], dtype=np.float64) * grid.loss_width


def _edges(grid: Grid, start: int, stop: int) -> FloatArray:
    """Return the loss edges of the cells of a block: the upper one of each, and the lower one of the first."""
    n = grid.half_width
    return np.arange(max(start - 1, 0) - n, stop - n, dtype=np.float64) * grid.loss_width


def _cells(pair: ElementaryPair, grid: Grid, direction: Direction, start: int, stop: int) -> LossMasses:
    return pair.directed_loss_masses(_edges(grid, start, stop), direction)


def leaf_frame(
    pair: ElementaryPair,
    grid: Grid,
    direction: Direction,
    blocks: Sequence[tuple[int, int]],
    whole: LossMasses | None = None,
) -> LeafFrame:
    """Find what is not spread over the loss cells.

    Parameters
    ----------
    pair, grid, direction
        As for `leaf_state`.
    blocks : sequence of (int, int)
        What `leaf_blocks` returned.
    whole : LossMasses, optional
        The masses on the only block.

    Notes
    -----
    With several blocks the masses are asked for between the outermost edges alone: what lies beyond them, the atoms and
    what only one distribution has are those of any edges between.
    """
    n = grid.half_width
    masses = whole if whole is not None else pair.directed_loss_masses(_outermost(grid), direction)
    place, atom_error = _places(masses, grid)
    beyond = place > n
    position = place + n
    starts = np.array([start for start, _ in blocks])
    block_of = np.searchsorted(starts, position, side="right") - 1
    block_of[beyond] = len(blocks)
    # Atoms keep their order within a block.
    order = np.argsort(block_of, kind="stable") if len(blocks) > 1 else np.flatnonzero(~beyond)
    cuts = np.searchsorted(block_of[order], np.arange(len(blocks) + 1))
    atoms = []
    for block, (start, _) in enumerate(blocks):
        mine = order[cuts[block] : cuts[block + 1]]
        atoms.append(BlockAtoms(position[mine] - start, _some(masses.atoms_a, mine), _some(masses.atoms_b, mine)))
    up, down = 1.0 + 2.0 * UNIT_ROUNDOFF, 1.0 - 2.0 * UNIT_ROUNDOFF
    a_beyond = _beyond(masses.bins_a, _some(masses.atoms_a, beyond))
    b_beyond = _beyond(masses.bins_b, _some(masses.atoms_b, beyond))
    return LeafFrame(
        spread=whole is not None or float(masses.bins_a.upper.max()) > 0.0 or float(masses.bins_b.upper.max()) > 0.0,
        atoms=tuple(atoms),
        only_b=float(masses.only_b.upper[0]),
        infinity_a_lower=(a_beyond[0] + float(masses.only_a.lower[0])) * down,
        infinity_a_upper=(a_beyond[1] + float(masses.only_a.upper[0])) * up,
        infinity_b_upper=b_beyond[1],
        loss_error=max(masses.loss_error, atom_error),
    )


def leaf_masses(
    pair: ElementaryPair,
    grid: Grid,
    direction: Direction,
    block: tuple[int, int],
    *,
    frame: LeafFrame,
    atoms: BlockAtoms,
    whole: LossMasses | None = None,
) -> LeafMasses:
    """Return the vectors of a leaf on one block.

    Parameters
    ----------
    pair, grid, direction
        As for `leaf_state`.
    block : (int, int)
        First position and the one after the last.
    frame : LeafFrame
    atoms : BlockAtoms
        Those of the block.
    whole : LossMasses, optional
        The masses on the only block.
    """
    start, stop = block
    count = np.bincount(atoms.position, minlength=stop - start)
    slack = (count + 2.0) * UNIT_ROUNDOFF
    cells: dict[str, FloatArray | float] = dict.fromkeys(("a_lower", "a_upper", "b_lower", "b_upper"), 0.0)
    loss_error = 0.0
    if frame.spread:
        masses = whole if whole is not None else _cells(pair, grid, direction, start, stop)
        loss_error = masses.loss_error
        # The first cell of a block in the middle is what lies below its first edge.
        inside = slice(0 if start == 0 else 1, -1)
        for name, bounds in (("a", masses.bins_a), ("b", masses.bins_b)):
            cells[f"{name}_lower"], cells[f"{name}_upper"] = bounds.lower[inside], bounds.upper[inside]

    def collected(name: str, weights: FloatArray) -> FloatArray:
        masses = cells[name] + np.bincount(atoms.position, weights=weights, minlength=stop - start)
        return np.asarray(masses * (1.0 - slack if name.endswith("lower") else 1.0 + slack))

    vectors = {
        "a_lower": collected("a_lower", atoms.a.lower),
        "a_upper": collected("a_upper", atoms.a.upper),
        "b_upper": collected("b_upper", atoms.b.upper),
        "b_real_lower": collected("b_lower", atoms.b.lower),
    }
    if start == 0:
        # Events that A lacks have a loss of -inf.
        vectors["b_upper"][0] = (vectors["b_upper"][0] + frame.only_b) * (1.0 + 2.0 * UNIT_ROUNDOFF)
        vectors["b_real_lower"][0] = corner_mass(float(vectors["a_lower"][0]), grid)
    return LeafMasses(vectors, loss_error)


def leaf_scalars(pair: ElementaryPair, grid: Grid, frame: LeafFrame, loss_errors: Sequence[float]) -> dict[str, Any]:
    """Return what a leaf is but for its vectors and its grid."""
    loss_error = max(frame.loss_error, *loss_errors)
    # The edges themselves are products i h, rounded once.
    loss_error += 2.0 * UNIT_ROUNDOFF * grid.half_width * grid.loss_width
    return {
        "infinity_a_lower": frame.infinity_a_lower,
        "infinity_a_upper": frame.infinity_a_upper,
        "infinity_b_upper": frame.infinity_b_upper,
        "window": 1,
        "loss_error": loss_error * (1.0 + 4.0 * UNIT_ROUNDOFF),
        "mass_limit": max(pair.total_mass),
    }


def check_leaf(pair: ElementaryPair, total_a: float, total_b: float) -> None:
    """Refuse a leaf whose upper masses do not hold every event; histograms may sum to a little less than 1.

    Raises
    ------
    InvalidInputError
        An event was lost on the way into the buckets.
    """
    for name, mass in (("A", total_a), ("B", total_b)):
        if not mass >= 1.0 - 2e-9:
            raise InvalidInputError(f"mechanism: expected parameters that keep all mass of {name}, got {shown(pair)}")


def corner_mass(a: float, grid: Grid) -> float:
    """Return a f^n rounded down: the P_B mass that the real error term credits to a mass a in the corner -n."""
    if a <= 0.0:
        return 0.0
    exponent = math.log(a) + grid.half_width * grid.loss_width
    slack = (8.0 + 4.0 * (abs(math.log(a)) + grid.half_width * grid.loss_width)) * UNIT_ROUNDOFF
    # a f^n is at most the P_B mass of the same events; only rounding can lift it above 1.
    return math.exp(min(exponent, 0.0) - slack)


def _places(masses: LossMasses, grid: Grid) -> tuple[IntArray, float]:
    """Bucket index of each atom (n + 1 for ∞), and by how much an atom's exact loss may miss its bucket, nats."""
    n, h = grid.half_width, grid.loss_width
    loss = masses.atom_loss
    if loss.size == 0:
        return np.zeros(0, dtype=np.int64), 0.0
    quotient = np.clip(loss / h, -float(n) - 1.0, float(n) + 1.0)
    nearest = np.rint(quotient)
    tolerance = masses.loss_error / h + 4.0 * UNIT_ROUNDOFF * np.abs(quotient)
    place = np.where(np.abs(quotient - nearest) <= tolerance, nearest, np.ceil(quotient))
    place = np.maximum(place, -float(n))
    placed = np.isfinite(loss) & (place <= n)
    loss, index = loss[placed], place[placed]
    rounding = 2.0 * UNIT_ROUNDOFF * (np.abs(loss) + np.abs(index) * h) + masses.loss_error
    above = loss + rounding - index * h
    below = np.where(index > -n, (index - 1.0) * h - (loss - rounding), 0.0)
    return place.astype(np.int64), float(np.max(np.maximum(above, below), initial=0.0))


def _some(masses: MassBounds, chosen: Any) -> MassBounds:
    return MassBounds(masses.lower[chosen], masses.upper[chosen])


def _beyond(cells: MassBounds, atoms: MassBounds) -> tuple[float, float]:
    """Lower and upper mass above the last edge, atoms included."""
    return (
        (float(cells.lower[-1]) + math.fsum(atoms.lower)) * (1.0 - 4.0 * UNIT_ROUNDOFF),
        (float(cells.upper[-1]) + math.fsum(atoms.upper)) * (1.0 + 4.0 * UNIT_ROUNDOFF),
    )
