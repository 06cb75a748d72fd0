"""Plan the convolution of two vectors by chunks: how many, where shorter ones are tried, and which towers go apart.

Every way of cutting gives values and a valid bound for them. Where the chunk plan expects a coarse bound, shorter
chunks are tried for those output blocks alone, and of each element the value with the smaller bound is taken. All of
that is decided from a `Survey` of the vectors, before anything is transformed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pbdist.fourier.vectors import (
    IN_MEMORY,
    SEGMENTS,
    ChunkPlan,
    Chunks,
    Survey,
    Vector,
    chunk_length,
    exponent_of,
    plan_blocks,
)
from pbdist.types import BoolArray, FloatArray, IntArray

#: Up to this many products are summed directly where chunks lose accuracy.
_EXACTING_PRODUCTS = 1 << 23

#: Chunks of the longer vector, the finer ones for the blocks that lose accuracy with the ones before.
_CHUNKS = (32, 128, 512)
#: Finer chunks are used if at most this part of the blocks that they are to mend still loses accuracy.
_WORTH = 0.6
#: Shortest and longest chunk.
_SHORTEST, _LONGEST = 64, 1 << 18


@dataclass(frozen=True, eq=False)
class Level:
    """One way of cutting, and what it is for."""

    #: The length of a chunk.
    chunk: int
    #: The blocks.
    plan: ChunkPlan
    #: The ranges of elements for which it is tried.
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class ConvolutionPlan:
    """Everything that is decided before a convolution by chunks."""

    #: The length of the result.
    size: int
    #: Binary exponents of either vector.
    exponents: tuple[int, int]
    #: Positions of the towers of either vector, and the elements there.
    towers: tuple[IntArray, IntArray]
    heights: tuple[FloatArray, FloatArray]
    #: The cuts, the coarsest one first.
    levels: tuple[Level, ...]

    def chunks(self, level: Level, x: Vector, y: Vector) -> tuple[Chunks, Chunks]:
        """Return the chunks of both vectors, one object if they are the same vector."""
        first = Chunks(x, level.chunk, self.exponents[0], self.towers[0])
        return first, first if x is y else Chunks(y, level.chunk, self.exponents[1], self.towers[1])


def plan_chunks(x: Vector, y: Vector, survey: Survey = IN_MEMORY) -> ConvolutionPlan | None:
    """Plan the convolution of two vectors by chunks; None if it is to be summed directly.

    They are finite and non-negative, and their first and last elements above 0. `survey` looks at them.
    """
    cut = _Cut(x, y, _CHUNKS[0], survey=survey)
    plan = cut.planned()
    if plan.lost.any() and x.size * y.size <= _EXACTING_PRODUCTS:
        return None
    levels = (Level(cut.chunk, plan, ((0, cut.size),)), *_finer_levels(x, y, cut, plan.lost, survey))
    heights = tuple(
        np.array([float(vector[position : position + 1][0]) for position in towers.tolist()])
        for vector, towers in zip((x, y), cut.towers, strict=True)
    )
    return ConvolutionPlan(cut.size, cut.exponents, cut.towers, (heights[0], heights[1]), levels)


def longest_chunk(size: int) -> int:
    """Upper bound on the length of a chunk of vectors of that size that are not summed directly."""
    return int(1.25 * min(max(_SHORTEST, -(-size // _CHUNKS[0])), _LONGEST)) + 8 * SEGMENTS


def most_chunks(size: int) -> int:
    """Upper bound on the number of chunks of one vector of that size."""
    return max(_CHUNKS[-1], -(-size // _LONGEST)) + 1


class _Cut:
    """Two vectors in chunks, scaled by powers of two and without their towers."""

    def __init__(
        self, x: Vector, y: Vector, chunks: int, other: "_Cut | None" = None, survey: Survey = IN_MEMORY
    ) -> None:
        longest = max(x.size, y.size)
        self.size = x.size + y.size - 1
        self.chunk = max(_SHORTEST, chunk_length(longest, max(chunks, -(-longest // _LONGEST))))
        # Another cut of the same vectors knows their exponents and towers.
        self.x: Chunks = _in_chunks(x, self.chunk, None if other is None else other.x, survey)
        self.segments_x = survey.maxima(self.x)
        self.y: Chunks = self.x
        self.segments_y = self.segments_x
        if x is not y:
            self.y = _in_chunks(y, self.chunk, None if other is None else other.y, survey)
            self.segments_y = survey.maxima(self.y)
        self.towers = self.x.towers, self.y.towers
        self.exponents = self.x.exponent, self.y.exponent

    def planned(self, wanted: BoolArray | None = None) -> ChunkPlan:
        """Plan the wanted blocks, or all."""
        return plan_blocks(self.segments_x, self.segments_y, self.chunk, wanted)

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
    """First index, and the one after the last, of each stretch of chosen ones."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
