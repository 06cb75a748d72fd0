"""Into how many chunks two vectors are cut, where shorter ones mend the result, and what is added directly.

Every way of cutting gives values and a valid bound for them. Where the plan expects a coarse bound, shorter chunks are
tried for those output blocks alone, and whatever has the smaller bound is kept.

All of that is decided from summaries of the vectors (`Survey`) before anything is transformed, and each step works on
any range of the output, so that `pbdist.buckets.blocked` takes the same steps with vectors that fit no memory.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pbdist.fourier.blocks import convolve_blocks
from pbdist.fourier.direct import direct_convolution
from pbdist.fourier.plan import CELLS, Plan, chunk_length, flat_plan, plan_blocks
from pbdist.fourier.survey import IN_MEMORY, Survey
from pbdist.fourier.vectors import Chunks, Vector, exponent_of, scale
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray, IntArray

__all__ = [
    "ChunkedPlan",
    "Ends",
    "Level",
    "add_towers",
    "chunked_bytes",
    "chunked_convolution",
    "end_sums",
    "keep_better",
    "longest_chunk",
    "most_chunks",
    "plan_chunks",
    "put_ends",
    "scale_back",
]

#: Up to this many products are summed directly where chunks lose accuracy.
_EXACTING_PRODUCTS = 1 << 23

#: Chunks of the longer vector: of flat vectors, short and long ones, ..
_SHORT_AND_FLAT = 1 << 15
_CHUNKS_OF_SHORT, _CHUNKS_OF_FLAT = 1, 16
#: .. and of others, the finer ones for the blocks that lose accuracy with the ones before.
_CHUNKS = (32, 128, 512)
#: Finer chunks are used if at most this part of the blocks that they are to mend still loses accuracy.
_WORTH = 0.6
#: Shortest and longest chunk.
_SHORTEST, _LONGEST = 64, 1 << 18

#: The first and last elements of the result, sums of few products, are always summed directly: this part of the longer
#: vector, between two limits.
_ENDS_SHARE, _FEWEST_ENDS, _MOST_ENDS = 1024, 32, 256

_Result: TypeAlias = tuple[FloatArray, FloatArray]
#: Values and bounds of the first and of the last elements.
Ends: TypeAlias = tuple[_Result, _Result]


@dataclass(frozen=True, eq=False)
class Level:
    """One way of cutting, and what it is for.

    Attributes
    ----------
    chunk
        The length of a chunk.
    plan
        The blocks.
    ranges
        The ranges of elements for which it is tried.
    """

    chunk: int
    plan: Plan
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class ChunkedPlan:
    """Everything that is decided before a convolution by chunks.

    Attributes
    ----------
    size
        The length of the result.
    exponents
        Binary exponents of either vector.
    towers, heights
        Positions of the towers of either vector, and the elements there.
    levels
        The cuts, the coarsest one first.
    """

    size: int
    exponents: tuple[int, int]
    towers: tuple[IntArray, IntArray]
    heights: tuple[FloatArray, FloatArray]
    levels: tuple[Level, ...]

    def chunks(self, level: Level, x: Vector, y: Vector) -> tuple[Chunks, Chunks]:
        """Return the chunks of both vectors, one object if they are the same vector."""
        first = Chunks(x, level.chunk, self.exponents[0], self.towers[0])
        return first, first if x is y else Chunks(y, level.chunk, self.exponents[1], self.towers[1])


def plan_chunks(x: Vector, y: Vector, survey: Survey = IN_MEMORY) -> ChunkedPlan | None:
    """Plan the convolution of two vectors by chunks, or tell by None that it is to be summed directly.

    Parameters
    ----------
    x, y : Vector
        Finite and non-negative, the first and the last element above 0.
    survey : Survey, optional
        What looks at the vectors.
    """
    cut = _Cut(x, y, _CHUNKS[0], survey=survey)
    plan = flat_plan(cut.cells_x, cut.cells_y)
    if plan is not None:
        chunks = _CHUNKS_OF_SHORT if max(x.size, y.size) <= _SHORT_AND_FLAT else _CHUNKS_OF_FLAT
        cut = _Cut(x, y, chunks, cut, survey)
        plan = flat_plan(cut.cells_x, cut.cells_y)
    if plan is None:
        plan = cut.planned()
    if plan.lost.any() and x.size * y.size <= _EXACTING_PRODUCTS:
        return None
    levels = (Level(cut.chunk, plan, ((0, cut.size),)), *_finer_levels(x, y, cut, plan.lost, survey))
    heights = tuple(
        np.array([float(vector[position : position + 1][0]) for position in towers.tolist()])
        for vector, towers in zip((x, y), cut.towers, strict=True)
    )
    return ChunkedPlan(cut.size, cut.exponents, cut.towers, (heights[0], heights[1]), levels)


def chunked_convolution(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve two vectors by chunks.

    Parameters
    ----------
    x, y : ndarray
        Finite and non-negative, the first and the last element above 0.

    Returns
    -------
    values, bound : ndarray
        Elementwise ``|values - exact| <= bound``.
    """
    plan = plan_chunks(x, y)
    if plan is None:
        return direct_convolution(x, y)
    result = _level(plan, plan.levels[0], x, y)
    for level in plan.levels[1:]:
        finer = _level(plan, level, x, y)
        for start, stop in level.ranges:
            part = slice(start, stop)
            keep_better((result[0][part], result[1][part]), (finer[0][part], finer[1][part]))
    add_towers(result, x, y, plan, 0)
    put_ends(result, end_sums(x, y), plan.size, 0)
    return result


def chunked_bytes(size_x: int, size_y: int) -> int:
    """Upper bound on the memory that `chunked_convolution` takes, for vectors of these lengths; 4 MB aside.

    Of each vector, padded to whole chunks: 16 bytes an element for values and bound, 16 for spectra; again for the
    finer cut, of which few spectra are ever held; 8 for what is taken on the way. The estimate is rounded up.
    """
    return 72 * (size_x + size_y + max(size_x, size_y) // 4)


def longest_chunk(size: int) -> int:
    """Upper bound on the length of a chunk of vectors of that size that are not summed directly."""
    return int(1.25 * min(max(_SHORTEST, -(-size // _CHUNKS_OF_FLAT)), _LONGEST)) + 8 * CELLS


def most_chunks(size: int) -> int:
    """Upper bound on the number of chunks of one vector of that size."""
    return max(_CHUNKS[-1], -(-size // _LONGEST)) + 1


class _Cut:
    """Two vectors in chunks, scaled by powers of two and without their towers."""

    def __init__(
        self,
        x: Vector,
        y: Vector,
        chunks: int,
        other: "_Cut | None" = None,
        survey: Survey = IN_MEMORY,
    ) -> None:
        longest = max(x.size, y.size)
        self.size = x.size + y.size - 1
        self.chunk = max(_SHORTEST, chunk_length(longest, max(chunks, -(-longest // _LONGEST))))
        # Another cut of the same vectors knows their exponents and towers.
        self.x: Chunks = _in_chunks(x, self.chunk, None if other is None else other.x, survey)
        self.cells_x = survey.maxima(self.x)
        self.y: Chunks = self.x
        self.cells_y = self.cells_x
        if x is not y:
            self.y = _in_chunks(y, self.chunk, None if other is None else other.y, survey)
            self.cells_y = survey.maxima(self.y)
        self.towers = self.x.towers, self.y.towers
        self.exponents = self.x.exponent, self.y.exponent

    def planned(self, wanted: BoolArray | None = None) -> Plan:
        """Plan the blocks that are wanted, or all."""
        return plan_blocks(self.cells_x, self.cells_y, self.chunk, wanted)

    def convolved(self, plan: Plan) -> _Result:
        """Convolve what is left without the towers; only elements whose blocks are planned are meaningful."""
        values, bound = (part[: self.size] for part in convolve_blocks(self.x, self.y, plan))
        scale_back((values, bound), sum(self.exponents))
        return values, bound

    def blocks_of(self, start: int, stop: int) -> slice:
        """Return the blocks that feed the elements of a range."""
        return slice(max(0, start // self.chunk - 1), (stop - 1) // self.chunk + 1)


def _in_chunks(x: Vector, chunk: int, other: Chunks | None, survey: Survey) -> Chunks:
    if other is not None:
        return Chunks(x, chunk, other.exponent, other.towers)
    exponent = exponent_of(survey.largest(x))
    return Chunks(x, chunk, exponent, survey.towers(Chunks(x, chunk, exponent, np.zeros(0, dtype=np.int64))))


def _finer_levels(x: Vector, y: Vector, cut: _Cut, lost: BoolArray, survey: Survey) -> Iterator[Level]:
    """Plan finer cuts for the blocks that lose accuracy."""
    for chunks in _CHUNKS[1:]:
        if not lost.any() or cut.chunk == _SHORTEST:
            return
        finer = _Cut(x, y, chunks, cut, survey)
        if finer.chunk == cut.chunk:
            # The longest vectors are cut so finely from the start.
            continue
        ranges = [(start * cut.chunk, min(stop * cut.chunk + cut.chunk, cut.size)) for start, stop in _stretches(lost)]
        wanted = np.zeros(finer.x.shape[0] + finer.y.shape[0] - 1, dtype=bool)
        for start, stop in ranges:
            wanted[finer.blocks_of(start, stop)] = True
        plan = finer.planned(wanted)
        if np.count_nonzero(plan.lost) > _WORTH * np.count_nonzero(wanted):
            return
        yield Level(finer.chunk, plan, tuple(ranges))
        cut, lost = finer, plan.lost


def _stretches(chosen: BoolArray) -> Iterator[tuple[int, int]]:
    """First place, and the one after the last, of each stretch of chosen ones."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _level(plan: ChunkedPlan, level: Level, x: FloatArray, y: FloatArray) -> _Result:
    values, bound = (part[: plan.size] for part in convolve_blocks(*plan.chunks(level, x, y), level.plan))
    scale_back((values, bound), sum(plan.exponents))
    return values, bound


def scale_back(result: _Result, exponent: int) -> None:
    """Take the scaling off, in place."""
    values, bound = result
    scale(values, exponent)
    scale(bound, exponent)
    # Either may have lost half of the smallest subnormal number, here or before it was scaled.
    bound += math.ldexp(1.0, max(exponent, 0) - 1073)


def keep_better(result: _Result, finer: _Result) -> None:
    """Replace elements, in place, where the others have the smaller bound."""
    better = finer[1] < result[1]
    for mine, other in zip(result, finer, strict=True):
        np.copyto(mine, other, where=better)


def add_towers(result: _Result, x: Vector, y: Vector, plan: ChunkedPlan, start: int) -> None:
    """Add the products of x's towers and y, and those of y's towers and the rest of x, from element `start` on."""
    count = plan.towers[0].size + plan.towers[1].size
    if count == 0:
        return
    values, bound = result
    scratch = np.empty_like(values)
    towers_x, towers_y = plan.towers
    for towers, heights, other, rest in ((towers_x, plan.heights[0], y, False), (towers_y, plan.heights[1], x, True)):
        for position, height in zip(towers.tolist(), heights.tolist(), strict=True):
            first, last = max(start, position), min(start + values.size, position + other.size)
            if first >= last:
                continue
            products = np.multiply(other[first - position : last - position], height, out=scratch[: last - first])
            if rest:
                taken = towers_x + position
                products[taken[(taken >= first) & (taken < last)] - first] = 0.0
            values[first - start : last - start] += products
    # What is added is non-negative: no partial sum exceeds the last one's modulus by more than twice the bound.
    bound *= 1.001
    bound += (4.0 * count + 4.0) * UNIT_ROUNDOFF * np.abs(values)
    bound += math.ldexp(count + 2.0, -1074)


def end_sums(x: Vector, y: Vector) -> Ends:
    """Sum the first and the last elements directly."""
    count = min(x.size, y.size, max(_FEWEST_ENDS, min(_MOST_ENDS, max(x.size, y.size) // _ENDS_SHARE)))
    first = direct_convolution(x[:count], y[:count])
    last = direct_convolution(x[x.size - count : x.size], y[y.size - count : y.size])
    return (first[0][:count], first[1][:count]), (last[0][-count:], last[1][-count:])


def put_ends(result: _Result, ends: Ends, size: int, start: int) -> None:
    """Put the sums of a result of that size where they belong in its elements from `start` on."""
    count = ends[0][0].size
    for place, end in ((0, ends[0]), (size - count, ends[1])):
        first, last = max(start, place), min(start + result[0].size, place + count)
        if first < last:
            for mine, sums in zip(result, end, strict=True):
                mine[first - start : last - start] = sums[first - place : last - place]
