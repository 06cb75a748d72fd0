"""States of one round: one pair's masses sorted into loss buckets (Definition 4), block by block.

Atoms and events that only one distribution has are not spread over the loss bins: they are found once (`_leaf_frame`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from pbdist.buckets.blocks import LEAF_BLOCK, BlockedVector, SerialMapper, Summary, Work
from pbdist.buckets.state import VECTORS, BlockedState, Grid, check_masses
from pbdist.errors import InvalidInputError, shown
from pbdist.fourier.vectors import ranges
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, MassBounds
from pbdist.types import Direction, FloatArray, IntArray


def leaf(pair: ElementaryPair, grid: Grid, direction: Direction, work: Work) -> BlockedState:
    """Sort one pair into the buckets of a grid; `direction` says which of its distributions plays P_A.

    u = 1. An atom whose loss lies within its rounding error of a bucket's edge i h is taken to lie on the edge, hence
    in bucket i; the distance is part of the state's ``loss_error``.
    """
    size = 2 * grid.half_width + 1
    blocks = leaf_blocks(pair, grid, direction)
    single = len(blocks) == 1
    if single and size > LEAF_BLOCK and not work.in_one_block:
        raise InvalidInputError(
            f"buckets: float64 cannot resolve the edges of so many buckets; take fewer of them, got {grid}"
        )
    whole = _bin_masses(pair, grid, direction, *blocks[0]) if single else None
    frame, atoms = _leaf_frame(pair, grid, direction, blocks, whole)
    vectors = work.new_vectors(VECTORS, size)
    step = max(1, work.layout.block // blocks[0][1])
    tasks = [(blocks[first : first + step], atoms[first : first + step]) for first in range(0, len(blocks), step)]
    # The masses of a single block are known already.
    mapper = SerialMapper() if single else work.mapper
    parts = list(mapper.map(partial(_fill_leaf, frame, vectors), tasks))
    summaries = {name: Summary.joined(part[name] for part, _ in parts) for name in VECTORS}
    loss_error = max(frame.loss_error, *(error for _, error in parts))
    # The edges themselves are products i h, rounded once.
    loss_error += 2.0 * UNIT_ROUNDOFF * grid.half_width * grid.loss_width
    scalars = {
        "infinity_a_lower": frame.infinity_a_lower,
        "infinity_a_upper": frame.infinity_a_upper,
        "infinity_b_upper": frame.infinity_b_upper,
        "window": 1,
        "loss_error": loss_error * (1.0 + 4.0 * UNIT_ROUNDOFF),
        "mass_limit": max(pair.total_mass),
    }
    state = BlockedState.of(grid, vectors, summaries, scalars)
    for name, vector, beyond in (("A", "a_upper", state.infinity_a_upper), ("B", "b_upper", state.infinity_b_upper)):
        # Upper masses hold every event; histograms may sum to a little less than 1.
        if not math.fsum(summaries[vector].sums) + beyond >= 1.0 - 2e-9:
            raise InvalidInputError(f"mechanism: the masses of {name} must sum to 1, got {shown(pair)}")
    return state


@dataclass(frozen=True, eq=False)
class _BlockAtoms:
    """The atoms that fall into a block: their positions, counted from its start, and their masses."""

    position: IntArray
    a: MassBounds
    b: MassBounds


@dataclass(frozen=True, eq=False)
class _LeafFrame:
    """A leaf without its atoms and the masses spread over its loss bins."""

    pair: ElementaryPair
    grid: Grid
    direction: Direction
    #: The masses, if the leaf is a single block.
    whole: LossMasses | None
    #: Whether there are any such masses.
    spread: bool
    #: Upper P_B mass of the events that only B has.
    only_b: float
    #: As the state has them.
    infinity_a_lower: float
    infinity_a_upper: float
    infinity_b_upper: float
    #: Of the atoms, nats.
    loss_error: float


def _fill_leaf(
    frame: _LeafFrame,
    vectors: Mapping[str, BlockedVector],
    task: tuple[Sequence[tuple[int, int]], Sequence[_BlockAtoms]],
) -> tuple[dict[str, Summary], float]:
    """Write consecutive blocks of each vector; return their summaries and the error of the losses."""
    blocks, atoms = task
    start, stop = blocks[0][0], blocks[-1][1]
    arrays: dict[str, FloatArray] = {}
    loss_error = 0.0
    for block, inside in zip(blocks, atoms, strict=True):
        found, error = _leaf_masses(frame, block, inside)
        loss_error = max(loss_error, error)
        if len(blocks) == 1:
            arrays = found
        else:
            for name, masses in found.items():
                arrays.setdefault(name, np.empty(stop - start))[block[0] - start : block[1] - start] = masses
    for name, masses in arrays.items():
        check_masses(name, masses, stop - start)
    return {name: vectors[name].write(start, arrays[name]) for name in VECTORS}, loss_error


def leaf_blocks(pair: ElementaryPair, grid: Grid, direction: Direction) -> list[tuple[int, int]]:
    """Cut the positions of a grid into the blocks that its leaf is filled by: only one if edges may be out of order."""
    size = 2 * grid.half_width + 1
    blocks = list(ranges(0, size, LEAF_BLOCK))
    cuts: Iterable[FloatArray] = chain([_outermost(grid)], (_edges(grid, *block) for block in blocks))
    if direction is Direction.B_TO_A:
        cuts = (np.ascontiguousarray(-edges[::-1]) for edges in cuts)
    return blocks if len(blocks) == 1 or all(map(pair.keeps_order, cuts)) else [(0, size)]


def _outermost(grid: Grid) -> FloatArray:
    return np.array([-grid.half_width, grid.half_width], dtype=np.float64) * grid.loss_width


def _edges(grid: Grid, start: int, stop: int) -> FloatArray:
    """Return the loss edges of the bins of a block: the upper one of each, and the lower one of the first."""
    n = grid.half_width
    return np.arange(max(start - 1, 0) - n, stop - n, dtype=np.float64) * grid.loss_width


def _bin_masses(pair: ElementaryPair, grid: Grid, direction: Direction, start: int, stop: int) -> LossMasses:
    return pair.directed_loss_masses(_edges(grid, start, stop), direction)


def _leaf_frame(
    pair: ElementaryPair, grid: Grid, direction: Direction, blocks: Sequence[tuple[int, int]], whole: LossMasses | None
) -> tuple[_LeafFrame, list[_BlockAtoms]]:
    """Find the atoms of each block, and all else that is not spread over the loss bins.

    With several blocks only the masses of the outermost edges are computed here: edges between them change neither the
    masses beyond, nor the atoms, nor the events of only one distribution.
    """
    n = grid.half_width
    masses = whole if whole is not None else pair.directed_loss_masses(_outermost(grid), direction)
    index, atom_error = _atom_buckets(masses, grid)
    beyond = index > n
    position = index + n
    starts = np.array([start for start, _ in blocks])
    block_of = np.searchsorted(starts, position, side="right") - 1
    block_of[beyond] = len(blocks)
    # Atoms keep their order within a block.
    order = np.argsort(block_of, kind="stable") if len(blocks) > 1 else np.flatnonzero(~beyond)
    cuts = np.searchsorted(block_of[order], np.arange(len(blocks) + 1))
    atoms = []
    for block, (start, _) in enumerate(blocks):
        mine = order[cuts[block] : cuts[block + 1]]
        atoms.append(_BlockAtoms(position[mine] - start, _some(masses.atoms_a, mine), _some(masses.atoms_b, mine)))
    up, down = 1.0 + 2.0 * UNIT_ROUNDOFF, 1.0 - 2.0 * UNIT_ROUNDOFF
    a_beyond = _beyond(masses.bins_a, _some(masses.atoms_a, beyond))
    b_beyond = _beyond(masses.bins_b, _some(masses.atoms_b, beyond))
    frame = _LeafFrame(
        pair=pair,
        grid=grid,
        direction=direction,
        whole=whole,
        spread=whole is not None or float(masses.bins_a.upper.max()) > 0.0 or float(masses.bins_b.upper.max()) > 0.0,
        only_b=float(masses.only_b.upper[0]),
        infinity_a_lower=(a_beyond[0] + float(masses.only_a.lower[0])) * down,
        infinity_a_upper=(a_beyond[1] + float(masses.only_a.upper[0])) * up,
        infinity_b_upper=b_beyond[1],
        loss_error=max(masses.loss_error, atom_error),
    )
    return frame, atoms


def _leaf_masses(frame: _LeafFrame, block: tuple[int, int], atoms: _BlockAtoms) -> tuple[dict[str, FloatArray], float]:
    """Return the vectors of one block, and by how many nats the losses of spread events may lie outside their bins."""
    start, stop = block
    count = np.bincount(atoms.position, minlength=stop - start)
    slack = (count + 2.0) * UNIT_ROUNDOFF
    spread: dict[str, FloatArray | float] = dict.fromkeys(("a_lower", "a_upper", "b_lower", "b_upper"), 0.0)
    loss_error = 0.0
    if frame.spread:
        masses = frame.whole
        if masses is None:
            masses = _bin_masses(frame.pair, frame.grid, frame.direction, start, stop)
        loss_error = masses.loss_error
        # The first bin of a block in the middle is all below its first edge.
        inside = slice(0 if start == 0 else 1, -1)
        for name, bounds in (("a", masses.bins_a), ("b", masses.bins_b)):
            spread[f"{name}_lower"], spread[f"{name}_upper"] = bounds.lower[inside], bounds.upper[inside]

    def collected(name: str, weights: FloatArray) -> FloatArray:
        masses = spread[name] + np.bincount(atoms.position, weights=weights, minlength=stop - start)
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
        vectors["b_real_lower"][0] = corner_mass(float(vectors["a_lower"][0]), frame.grid)
    return vectors, loss_error


def corner_mass(a: float, grid: Grid) -> float:
    """Return a f^n rounded down: the P_B mass that the real error term credits to a mass a in the corner -n."""
    if a <= 0.0:
        return 0.0
    exponent = math.log(a) + grid.half_width * grid.loss_width
    slack = (8.0 + 4.0 * (abs(math.log(a)) + grid.half_width * grid.loss_width)) * UNIT_ROUNDOFF
    # a f^n is at most the P_B mass of the same events; only rounding can lift it above 1.
    return math.exp(min(exponent, 0.0) - slack)


def _atom_buckets(masses: LossMasses, grid: Grid) -> tuple[IntArray, float]:
    """Bucket index of each atom (n + 1 for ∞), and by how much an atom's exact loss may miss its bucket, nats."""
    n, h = grid.half_width, grid.loss_width
    loss = masses.atom_loss
    if loss.size == 0:
        return np.zeros(0, dtype=np.int64), 0.0
    quotient = np.clip(loss / h, -float(n) - 1.0, float(n) + 1.0)
    nearest = np.rint(quotient)
    tolerance = masses.loss_error / h + 4.0 * UNIT_ROUNDOFF * np.abs(quotient)
    index = np.where(np.abs(quotient - nearest) <= tolerance, nearest, np.ceil(quotient))
    index = np.maximum(index, -float(n))
    inside = np.isfinite(loss) & (index <= n)
    loss, bucket = loss[inside], index[inside]
    rounding = 2.0 * UNIT_ROUNDOFF * (np.abs(loss) + np.abs(bucket) * h) + masses.loss_error
    above = loss + rounding - bucket * h
    below = np.where(bucket > -n, (bucket - 1.0) * h - (loss - rounding), 0.0)
    return index.astype(np.int64), float(np.max(np.maximum(above, below), initial=0.0))


def _some(masses: MassBounds, chosen: Any) -> MassBounds:
    return MassBounds(masses.lower[chosen], masses.upper[chosen])


def _beyond(bins: MassBounds, atoms: MassBounds) -> tuple[float, float]:
    """Lower and upper mass above the last edge, atoms included."""
    return (
        (float(bins.lower[-1]) + math.fsum(atoms.lower)) * (1.0 - 4.0 * UNIT_ROUNDOFF),
        (float(bins.upper[-1]) + math.fsum(atoms.upper)) * (1.0 + 4.0 * UNIT_ROUNDOFF),
    )
