"""Convolve vectors in blocks: whole in this process, or by tasks that a survey of all blocks has planned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from pbdist.buckets.blocked_vectors import BlockedVector, Mapper, Summary, VectorStore
from pbdist.buckets.layout import Work
from pbdist.buckets.products import RunSums, run_sums
from pbdist.fourier import Rounding
from pbdist.fourier.chunk_plan import segment_maxima
from pbdist.fourier.chunk_sizes import ConvolutionPlan, plan_chunks
from pbdist.fourier.chunked_convolution import add_blocks, way_back
from pbdist.fourier.convolution import (
    DirectPlan,
    Ends,
    add_towers,
    check_range,
    direct_sums,
    end_sums,
    keep_better,
    plan_directly,
    put_ends,
    rounded,
    scale_back,
    sums_directly,
    supported_convolution,
)
from pbdist.fourier.vectors import Chunks, Vector, ranges, tower_candidates, towers_among
from pbdist.types import ComplexArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some chunks of a vector."""

    chunks: Chunks
    start: int
    stop: int


def _candidates(rows: _Rows) -> tuple[int, IntArray]:
    return tower_candidates(rows.chunks.rows(rows.start, rows.stop), rows.start * rows.chunks.shape[1])


def _maxima(rows: _Rows) -> FloatArray:
    return segment_maxima(rows.chunks.rows(rows.start, rows.stop))


class _MappedSurvey:
    """Looks at vectors by tasks.

    Parameters
    ----------
    mapper : Mapper
        Runs the tasks.
    task : int
        Elements that one task looks at.
    """

    def __init__(self, mapper: Mapper, task: int) -> None:
        self._mapper = mapper
        self._task = task

    def largest(self, vector: Vector) -> float:
        """Return the largest element, which a vector in blocks keeps."""
        if not isinstance(vector, BlockedVector):
            raise TypeError(f"survey: expected a vector in blocks, got {type(vector).__name__}")
        return vector.largest

    def towers(self, chunks: Chunks) -> IntArray:
        """Return the positions of the towers."""
        return towers_among(self._mapper.map(_candidates, self._rows(chunks)))

    def maxima(self, chunks: Chunks) -> FloatArray:
        """Return the maxima of the segments."""
        return np.concatenate(list(self._mapper.map(_maxima, self._rows(chunks))))

    def _rows(self, chunks: Chunks) -> list[_Rows]:
        count, chunk = chunks.shape
        return [_Rows(chunks, start, stop) for start, stop in ranges(0, count, max(1, self._task // chunk))]


def _nonzero(part: BlockedVector) -> tuple[IntArray, FloatArray]:
    values = part[:]
    occupied = np.flatnonzero(values)
    return occupied + part.start, values[occupied]


def _nonzero_elements(vector: BlockedVector, mapper: Mapper) -> tuple[IntArray, FloatArray]:
    """Return the positions, counted from the vector's first element, and the values of those that are not 0."""
    parts = [vector.part(start - vector.start, stop - vector.start) for start, stop in vector.blocks()]
    found = list(mapper.map(_nonzero, parts))
    return np.concatenate([positions for positions, _ in found]) - vector.start, np.concatenate([v for _, v in found])


#: Blocks that are transformed back at once.
_ROWS = 4


class Convolution(Protocol):
    """A convolution that is ready to be read range by range."""

    def read(self, start: int, stop: int) -> FloatArray:
        """Return the elements of a range, rounded, in an array of their own."""

    def remove(self) -> None:
        """Remove what was written for it."""


@dataclass(frozen=True, eq=False)
class _MappedConvolution:
    """A convolution of vectors in blocks by tasks; small and picklable.

    Attributes
    ----------
    x, y
        The vectors from their first to their last element that is not 0; None if one of them is 0.
    first
        The position of x[0] y[0] in the whole result.
    plan, ends
        How it is convolved, and the directly summed ends.
    sums
        For each cut the sums of its runs.
    rounding, mass_limit
        As for `pbdist.fourier.rounded_convolution`.
    """

    x: BlockedVector | None
    y: BlockedVector | None
    first: int
    plan: DirectPlan | ConvolutionPlan | None
    ends: Ends | None
    sums: tuple[tuple[RunSums, ...], ...]
    rounding: Rounding
    mass_limit: float

    def read(self, start: int, stop: int) -> FloatArray:
        """Return the elements of a range, rounded: those of `rounded_convolution`, bit by bit."""
        values, bound = np.zeros(stop - start), np.zeros(stop - start)
        if self.x is not None and self.y is not None:
            first, last = max(start, self.first), min(stop, self.first + self.x.size + self.y.size - 1)
            if first < last:
                part = slice(first - start, last - start)
                values[part], bound[part] = self._part(self.x, self.y, first - self.first, last - self.first)
        return rounded(values, bound, self.rounding, self.mass_limit)

    def _part(self, x: BlockedVector, y: BlockedVector, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        if isinstance(self.plan, DirectPlan):
            return direct_sums(self.plan, x if self.plan.swapped else y, start, stop)
        if self.plan is None or self.ends is None:
            raise ValueError("convolution: expected a plan of what is not 0, got none")
        result = self._level(self.plan, 0, start, stop)
        for level in range(1, len(self.plan.levels)):
            for begin, end in self.plan.levels[level].ranges:
                first, last = max(start, begin), min(stop, end)
                if first < last:
                    here = slice(first - start, last - start)
                    keep_better((result[0][here], result[1][here]), self._level(self.plan, level, first, last))
        add_towers(result, x, y, self.plan, start)
        put_ends(result, self.ends, self.plan.size, start)
        return result

    def _level(self, plan: ConvolutionPlan, level: int, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Return what one cut says of a range."""
        chunk = plan.levels[level].chunk
        first_row, last_row = start // chunk, -(-stop // chunk)
        values, bound = np.zeros((last_row - first_row, chunk)), np.zeros((last_row - first_row, chunk))
        for run in self.sums[level]:
            if run.start >= last_row or run.stop < first_row:
                continue
            back = way_back(run.tilt, chunk)
            for group_start, group_stop, names in run.names:
                # Block s feeds the rows s and s + 1.
                begin, end = max(group_start, first_row - 1), min(group_stop, last_row)
                if begin < end:
                    sums = self._read_sums(names, chunk, slice(begin - group_start, end - group_start))
                    for row in range(begin, end, _ROWS):
                        part = sums[row - begin : row - begin + _ROWS]
                        width = run.width[row - run.start : row - run.start + part.shape[0]]
                        add_blocks(values, bound, part, width, back=back, row=row - first_row)
        here = slice(start - first_row * chunk, stop - first_row * chunk)
        result = values.reshape(-1)[here], bound.reshape(-1)[here]
        scale_back(result, sum(plan.exponents))
        return result

    def _read_sums(self, names: Sequence[str], chunk: int, rows: slice) -> ComplexArray:
        sums = np.empty((rows.stop - rows.start, chunk + 1), dtype=np.complex128)
        column = 0
        for name in names:
            part = self._store().read(name)[rows]
            sums[:, column : column + part.shape[1]] = part
            column += part.shape[1]
        return sums

    def _store(self) -> VectorStore:
        if self.x is None:
            raise ValueError("convolution: expected a vector that is not 0, got none")
        return self.x.store

    def remove(self) -> None:
        """Remove what was written for it."""
        for runs in self.sums:
            for run in runs:
                for _, _, names in run.names:
                    for name in names:
                        self._store().remove(name)


class _Whole:
    """A convolution that one process has computed whole: its elements from the position `first` on; others are 0."""

    def __init__(self, first: int, values: FloatArray) -> None:
        self._first, self._values = first, values

    def read(self, start: int, stop: int) -> FloatArray:
        """Return the elements of a range."""
        result = np.zeros(stop - start)
        first, last = max(start, self._first), min(stop, self._first + self._values.size)
        if first < last:
            result[first - start : last - start] = self._values[first - self._first : last - self._first]
        return result

    def remove(self) -> None:
        """Nothing was written for it."""


def convolution_of(
    x: tuple[BlockedVector, Summary],
    y: tuple[BlockedVector, Summary],
    *,
    rounding: Rounding,
    mass_limit: float,
    work: Work,
    name: str,
) -> Convolution:
    """Convolve two vectors: take all steps except those that `Convolution.read` takes.

    Parameters
    ----------
    x, y : (BlockedVector, Summary)
        The vectors and what is known of them; pass the same vector twice to save transforms.
    rounding, mass_limit
        As for `pbdist.fourier.rounded_convolution`, whose result this is, bit by bit.
    work : Work
        How vectors are held and computed.
    name : str
        What the names of all arrays that are written begin with.

    Raises
    ------
    InvalidInputError
        If the result would overflow.
    """
    (vector_x, known_x), (vector_y, known_y) = x, y
    check_range(known_x.largest, known_y.largest, min(vector_x.size, vector_y.size))
    result = partial(_MappedConvolution, rounding=rounding, mass_limit=mass_limit)
    if known_x.nonzero == 0 or known_y.nonzero == 0:
        return result(None, None, 0, None, None, ())
    same = vector_x is vector_y
    first = known_x.first + known_y.first
    terms = min(known_x.nonzero, known_y.nonzero)
    if work.in_one_block:
        array_x = vector_x[known_x.first : known_x.last + 1]
        array_y = array_x if same else vector_y[known_y.first : known_y.last + 1]
        return _Whole(first, rounded(*supported_convolution(array_x, array_y, terms), rounding, mass_limit))
    part_x = vector_x.part(known_x.first, known_x.last + 1)
    part_y = part_x if same else vector_y.part(known_y.first, known_y.last + 1)
    survey = _MappedSurvey(work.mapper, work.layout.task // 4)
    plan = None if sums_directly(terms, part_x.size, part_y.size) else plan_chunks(part_x, part_y, survey)
    if plan is None:
        swapped = known_x.nonzero > known_y.nonzero
        sparse, other = (part_y, known_x) if swapped else (part_x, known_y)
        direct = plan_directly(*_nonzero_elements(sparse, work.mapper), other.smallest, swapped=swapped)
        return result(part_x, part_y, first, direct, None, ())
    chunks = [plan.chunks(level, part_x, part_y) for level in plan.levels]
    sums = tuple(
        tuple(
            run_sums(plan.levels[level].plan.runs[run], chunks[level], work, f"{name}/{level}-{run}")
            for run in range(len(plan.levels[level].plan.runs))
        )
        for level in range(len(plan.levels))
    )
    # Nothing needs the runs any more.
    light = replace(plan, levels=tuple(replace(level, plan=replace(level.plan, runs=())) for level in plan.levels))
    return result(part_x, part_y, first, light, end_sums(part_x, part_y), sums)
