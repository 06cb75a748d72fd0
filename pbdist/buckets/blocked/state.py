"""Bucket lists whose vectors lie in blocks, and the tasks that make one from another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.buckets.blocked.convolution import Convolution
from pbdist.buckets.blocked.vectors import BlockedVector, Summary
from pbdist.buckets.composition import PAIRING, overflow_of, paired
from pbdist.buckets.delta import lower_sums, upper_sums
from pbdist.buckets.leaf import BlockAtoms, LeafFrame, leaf_masses
from pbdist.buckets.state import VECTORS, BucketList, BucketState, Grid, check_masses
from pbdist.buckets.sums import piece_sums
from pbdist.mechanisms import ElementaryPair
from pbdist.types import Direction, FloatArray

__all__ = [
    "BlockedState",
    "Folded",
    "Leaves",
    "Overflow",
    "Paired",
    "Points",
    "fill_leaf",
    "head_of",
    "lower_part",
    "overflow_part",
    "summed_part",
    "upper_part",
    "write_folded",
    "write_paired",
]


@dataclass(frozen=True, eq=False)
class BlockedState(BucketList):
    """A bucket list in blocks; see `pbdist.buckets.state.BucketState`.

    Attributes
    ----------
    vectors, summaries
        The four vectors and what is known of each, by their names.
    """

    vectors: Mapping[str, BlockedVector]
    summaries: Mapping[str, Summary]

    def vector(self, name: str) -> tuple[BlockedVector, Summary]:
        """Return a vector and what is known of it."""
        return self.vectors[name], self.summaries[name]

    def gathered(self) -> BucketState:
        """Return the whole list, in the memory of this process."""
        arrays: dict[str, Any] = {name: np.array(self.vectors[name][:]) for name in VECTORS}
        return BucketState(**vars(head_of(self)), **arrays)

    def remove(self) -> None:
        """Remove its blocks."""
        for vector in self.vectors.values():
            vector.remove()


def head_of(state: BucketList) -> BucketList:
    """Return what a list is but for its vectors."""
    return BucketList(
        grid=state.grid,
        infinity_a_lower=state.infinity_a_lower,
        infinity_a_upper=state.infinity_a_upper,
        infinity_b_upper=state.infinity_b_upper,
        window=state.window,
        loss_error=state.loss_error,
        mass_limit=state.mass_limit,
    )


@dataclass(frozen=True, eq=False)
class Leaves:
    """A stored block of a leaf: the leaf's blocks in it and their atoms."""

    pair: ElementaryPair
    grid: Grid
    direction: Direction
    frame: LeafFrame
    blocks: tuple[tuple[int, int], ...]
    atoms: tuple[BlockAtoms, ...]
    vectors: Mapping[str, BlockedVector]


def fill_leaf(task: Leaves) -> tuple[dict[str, Summary], float]:
    """Write one block of each vector; return their summaries and the error of the losses."""
    start, stop = task.blocks[0][0], task.blocks[-1][1]
    arrays = {name: np.empty(stop - start) for name in VECTORS}
    loss_error = 0.0
    for block, atoms in zip(task.blocks, task.atoms, strict=True):
        part = leaf_masses(task.pair, task.grid, task.direction, block, frame=task.frame, atoms=atoms)
        loss_error = max(loss_error, part.loss_error)
        for name, masses in part.vectors.items():
            arrays[name][block[0] - start : block[1] - start] = masses
    return {name: _written(task.vectors[name], name, start, arrays[name], task.grid) for name in VECTORS}, loss_error


def _written(vector: BlockedVector, name: str, start: int, values: FloatArray, grid: Grid) -> Summary:
    check_masses(name, values, values.size, grid)
    return vector.write_block(start, values)


@dataclass(frozen=True, eq=False)
class Folded:
    """Consecutive blocks of a composition to be read off its convolution, and the mass of the very first bucket."""

    convolution: Convolution
    vector: BlockedVector
    name: str
    grid: Grid
    blocks: tuple[tuple[int, int], ...]
    lowest: float


def write_folded(task: Folded) -> list[Summary]:
    """Write the blocks; return their summaries."""
    first, last = task.blocks[0][0], task.blocks[-1][1]
    # The convolution's indices are -2n .. 2n.
    n = task.grid.half_width
    values = task.convolution.read(n + first, n + last)
    if first == 0:
        values[0] = task.lowest
    return [
        _written(task.vector, task.name, start, values[start - first : stop - first], task.grid)
        for start, stop in task.blocks
    ]


def summed_part(task: tuple[Convolution, int, int, int]) -> list[float]:
    """Return the sums of the pieces of a range of a convolution, counted from the offset that comes first."""
    convolution, offset, start, stop = task
    return piece_sums(convolution.read(offset + start, offset + stop), start)


@dataclass(frozen=True, eq=False)
class Paired:
    """Blocks of a squared list to be made from the list."""

    source: BlockedVector
    vector: BlockedVector
    name: str
    grid: Grid
    blocks: tuple[tuple[int, int], ...]


def write_paired(task: Paired) -> list[Summary]:
    """Write the blocks; return their summaries."""
    n = task.grid.half_width
    return [
        _written(task.vector, task.name, start, paired(task.source, n, start, stop) * PAIRING[task.name], task.grid)
        for start, stop in task.blocks
    ]


@dataclass(frozen=True, eq=False)
class Overflow:
    """Pieces of y above n, each with the sum of what lies above it."""

    x: BlockedVector
    y: BlockedVector
    n: int
    pieces: tuple[tuple[int, int], ...]
    above: tuple[float, ...]


def overflow_part(task: Overflow) -> list[float]:
    """Return what each piece sends above n."""
    first, last = task.pieces[0][0], task.pieces[-1][1]
    n = task.n
    # The range of x that the pieces meet, read once.
    x = _Window(task.x[3 * n - last + 2 : 3 * n - first + 2], 3 * n - last + 2)
    y = _Window(task.y[first:last], first)
    return [overflow_of(x, y, n, part, above) for part, above in zip(task.pieces, task.above, strict=True)]


class _Window:
    """Some elements of a vector under their own positions."""

    def __init__(self, values: FloatArray, start: int) -> None:
        self._values, self._start = values, start
        self.size = start + values.size

    def __getitem__(self, part: slice) -> FloatArray:
        return self._values[part.start - self._start : part.stop - self._start]


@dataclass(frozen=True, eq=False)
class Points:
    """A block of two vectors whose share in the bounds at each ε is wanted."""

    head: BucketList
    epsilon: FloatArray
    a: BlockedVector
    b: BlockedVector
    start: int
    stop: int


def lower_part(task: Points) -> list[list[float]]:
    """Return what a block adds to the lower bounds."""
    part = slice(task.start, task.stop)
    return lower_sums(task.head, task.epsilon, (task.a[part], task.b[part]), task.start)


def upper_part(task: Points) -> list[list[float]]:
    """Return what a block adds to the upper bounds."""
    part = slice(task.start, task.stop)
    return upper_sums(task.head, task.epsilon, (task.a[part], task.b[part]), task.start)
