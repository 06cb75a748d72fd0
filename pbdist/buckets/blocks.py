"""Vectors in blocks of a store, summaries of them, their sums, and mappers of functions over blocks.

Sums are taken piece by piece, so that they are the same whether a vector is summed whole or in blocks. A piece lies
between two multiples of `PIECE` positions, counted from where the sum begins or from the vector's first element,
as each function says. numpy sums a piece, in any order, and `math.fsum` the pieces, which rounds once: elements that
are not negative are summed with a relative error of at most `summation_error`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pbdist.errors import InvalidInputError
from pbdist.fourier import Rounding
from pbdist.fourier.chunk_sizes import ConvolutionPlan, longest_chunk, most_chunks, plan_chunks
from pbdist.fourier.chunked_convolution import (
    Windows,
    add_blocks,
    block_sums,
    chunk_spectra,
    reach,
    run_windows,
    way_back,
    widths,
)
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
from pbdist.fourier.vectors import Chunks, Run, Vector, ranges, segment_maxima, tower_candidates, towers_among
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import ComplexArray, FloatArray, IntArray

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Positions of a piece.
PIECE = 1 << 14


def piece_sums(values: FloatArray, start: int = 0) -> list[float]:
    """Sum each piece of consecutive elements, the first of which has the position `start`."""
    return [
        float(np.sum(values[first - start : last - start])) for first, last in ranges(start, start + values.size, PIECE)
    ]


def summation_error(count: int) -> float:
    """Bound on the relative error of the sum of so many elements that are not negative."""
    return (min(count, PIECE) + 1.0) * UNIT_ROUNDOFF


class VectorStore(Protocol):
    """Holds arrays by name. Small and picklable, unless all work is done in one process."""

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array as it was written, perhaps read-only; an `OSError` if it is missing or damaged."""

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Store an array, whole or not at all, in place of any other of that name. Nothing changes it afterwards."""

    def remove(self, name: str) -> None:
        """Forget an array, if it is there."""


class MemoryVectors:
    """Holds arrays in this process."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        if name not in self.arrays:
            raise FileNotFoundError(name)
        return self.arrays[name]

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Store an array, not a copy."""
        self.arrays[name] = array

    def remove(self, name: str) -> None:
        """Forget an array."""
        self.arrays.pop(name, None)


class Mapper(Protocol):
    """Does the same work on many items, in this process or elsewhere."""

    @property
    def parallel(self) -> int:
        """About how many items are worked on at a time: it decides how finely work is cut, never a result."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items.

        Function, items and results are picklable; the function may be called more than once for an item.
        """


class SerialMapper:
    """Does all work in this process, one item after the other."""

    parallel = 1

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item."""
        return map(function, items)


@dataclass(frozen=True, eq=False)
class Summary:
    """Sums and extremes of a vector's elements, or of a part of them."""

    #: Of the pieces, in order.
    sums: tuple[float, ...]
    #: The largest element, and the smallest one above 0 (infinite if there is none).
    largest: float
    smallest: float
    #: How many are above 0.
    nonzero: int
    #: The first and the last position of one above 0; `first` is beyond every position if there is none.
    first: int
    last: int

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> "Summary":
        """Return the summary of consecutive parts, each of whole pieces."""
        listed = list(parts)
        if len(listed) == 1:
            return listed[0]
        return Summary(
            sums=tuple(value for part in listed for value in part.sums),
            largest=max(part.largest for part in listed),
            smallest=min(part.smallest for part in listed),
            nonzero=sum(part.nonzero for part in listed),
            first=min(part.first for part in listed),
            last=max(part.last for part in listed),
        )


def _summarised(values: FloatArray, start: int) -> Summary:
    """Summarise consecutive elements from the position `start` on, the start of a piece."""
    occupied = values > 0.0
    nonzero = int(np.count_nonzero(occupied))
    return Summary(
        sums=tuple(piece_sums(values, start)),
        largest=float(values.max()),
        smallest=float(np.min(values, where=occupied, initial=math.inf)),
        nonzero=nonzero,
        first=start + int(occupied.argmax()) if nonzero else np.iinfo(np.int64).max,
        last=start + values.size - 1 - int(occupied[::-1].argmax()) if nonzero else -1,
    )


@dataclass(frozen=True, eq=False)
class BlockedVector:
    """A vector in blocks, or a part of one."""

    #: Where the blocks are.
    store: VectorStore
    #: The blocks are called ``NAME/POSITION`` after their first element.
    name: str
    #: Length of a block, a multiple of a piece.
    block: int
    #: Which elements of the whole vector this is.
    start: int
    stop: int
    #: The largest element.
    largest: float = math.nan

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.stop - self.start

    def __getitem__(self, part: slice) -> FloatArray:
        """Read the elements of a range, which lies within the vector."""
        first, last, _ = part.indices(self.size)
        begin, end = first + self.start, max(first, last) + self.start
        pieces = [
            self.store.read(self._block_name(start))[start % self.block : start % self.block + stop - start]
            for start, stop in ranges(begin, end, self.block)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0), *pieces])

    def write(self, start: int, values: FloatArray) -> Summary:
        """Write the blocks from a position on, the start of a block."""
        parts = []
        for begin, end in ranges(start, start + values.size, self.block):
            part = values[begin - start : end - start]
            self.store.write(self._block_name(begin), part)
            parts.append(_summarised(part, begin))
        return Summary.joined(parts)

    def part(self, start: int, stop: int) -> "BlockedVector":
        """Return the elements of a range as a vector."""
        return replace(self, start=self.start + start, stop=self.start + stop)

    def blocks(self) -> list[tuple[int, int]]:
        """Return the ranges of the blocks of the whole vector."""
        return list(ranges(self.start, self.stop, self.block))

    def remove(self) -> None:
        """Remove the blocks."""
        for start, _ in self.blocks():
            self.store.remove(self._block_name(start))

    def _block_name(self, position: int) -> str:
        return f"{self.name}/{position // self.block * self.block}"


#: Positions of a leaf that are filled at once, so that temporary arrays stay small.
LEAF_BLOCK = 1 << 18


@dataclass(frozen=True)
class Layout:
    """Sizes that decide memory and time, never a result."""

    #: Elements of a stored block of a vector, a multiple of the pieces of `pbdist.buckets.blocks`, and of a leaf's
    #: blocks if the leaf has several.
    block: int = 1 << 20
    #: Elements of a vector that a task works on, a multiple of `block`.
    task: int = 1 << 22
    #: Complex numbers that a task holds while it adds up products.
    spectra: int = 1 << 23


#: From the largest to the smallest: with less, files are too many and too small.
_LAYOUTS = (Layout(), Layout(task=1 << 21, spectra=1 << 22), Layout(task=1 << 20, spectra=1 << 21))
#: One block and one task, however long the vectors are.
_ONE_BLOCK = Layout(block=1 << 62, task=1 << 62, spectra=1 << 62)


class Work:
    """How states are held and computed: the bounds do not depend on it.

    Every task reads and writes in `store`, by default the memory of this process; `mapper` runs the tasks. Without a
    layout, every vector is one block and is convolved whole in this process. All names in the store begin with `name`.
    No array is written twice with another content, so that a task that runs twice, however late, does no harm; two
    users of one store need different names.
    """

    def __init__(
        self,
        store: VectorStore | None = None,
        mapper: Mapper | None = None,
        layout: Layout | None = None,
        name: str = "state",
    ) -> None:
        self.store: VectorStore = MemoryVectors() if store is None else store
        self.mapper: Mapper = SerialMapper() if mapper is None else mapper
        #: Whether every vector is one block in this process.
        self.in_one_block = layout is None
        self.layout = _ONE_BLOCK if layout is None else layout
        self._names = (f"{name}-{number:04d}" for number in count())

    def new_vectors(self, names: tuple[str, ...], size: int) -> dict[str, BlockedVector]:
        """Return vectors of that size, still without elements, under a new name in the store."""
        name = next(self._names)
        return {part: BlockedVector(self.store, f"{name}/{part}", self.layout.block, 0, size) for part in names}

    def groups(self, size: int) -> list[tuple[int, int]]:
        """Cut positions into the whole blocks of each task."""
        if self.in_one_block:
            return [(0, size)]
        blocks = -(-size // self.layout.block)
        share = -(-blocks // (2 * self.mapper.parallel))
        return list(ranges(0, size, self.layout.block * min(self.layout.task // self.layout.block, share)))


#: Bytes of a leaf's temporary arrays for each bucket of one of its blocks: some mechanisms hold two rows of many.
_LEAF_BYTES = 560
#: Memory that every task may take besides.
_FIXED_BYTES = 24 << 20


def projected_bytes(buckets: int, layout: Layout) -> int:
    """Upper bound on the bytes that one task takes, above what the process holds before, for so many finite buckets.

    Counted are the arrays that are alive together in the largest step of each kind of task.
    """
    size = buckets + 1
    chunk = min(longest_chunk(size), size)
    chunks = most_chunks(size)
    block, task = min(layout.block, size), min(layout.task, 2 * size)
    rows = max(4, (1 << 15) // chunk)
    # Padded rows, their spectra, the chunks and blocks they are read from, tilts.
    transform = 8 * (2 * rows * chunk) * 4 + 16 * block
    spectra = transform + 16 * (max(task, chunk) + chunk) * 2
    # The spectra of all chunks at some frequencies, those of one group twice, and sums of one.
    products = 16 * max(layout.spectra, 2 * chunks * 64) + 16 * max(layout.spectra // 2, 2 * 64 * rows)
    # Values and bounds, sums and their transforms, rounding, one shifted read.
    output = 8 * (task + 3 * chunk) * 10 + transform
    return _FIXED_BYTES + max(
        spectra, products, output, _LEAF_BYTES * min(size, LEAF_BLOCK) + 40 * block, 30 * block * 8
    )


def layout_within(buckets: int, limit: int) -> Layout:
    """Return the largest layout with which a task takes at most `limit` bytes, or refuse with both figures."""
    for layout in _LAYOUTS:
        if projected_bytes(buckets, layout) <= limit:
            return layout
    needed = projected_bytes(buckets, _LAYOUTS[-1])
    raise InvalidInputError(
        f"buckets: {buckets} buckets in blocks need {needed / 2**20:.0f} MiB for each task,"
        f" got {limit / 2**20:.0f} MiB for it"
    )


#: Frequencies of a slice, at least: numpy adds up fewer of them in another order.
_MIN_FREQUENCIES = 64
#: Complex numbers that are worth a task.
_MIN_TASK = 1 << 20


@dataclass(frozen=True, eq=False)
class RunSums:
    """Where the sums of a run's blocks lie."""

    #: Those of the run.
    tilt: float
    start: int
    stop: int
    #: The result of `widths`.
    width: FloatArray
    #: For each group of blocks its first block, the one after its last, and the names of its slices, in order.
    names: tuple[tuple[int, int, tuple[str, ...]], ...]


def _cut(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    """Cut a range into parts of `step`; the last one may be shorter."""
    return [(first, min(first + step, stop)) for first in range(start, stop, step)]


def run_sums(run: Run, chunks: tuple[Chunks, Chunks], work: Work, name: str) -> RunSums:
    """Add up the products of all blocks of a run; all names that are written begin with `name`.

    The chunks of x and of y are one object if the vectors are the same.
    """
    store, mapper, layout = work.store, work.mapper, work.layout
    chunks_x, chunks_y = chunks
    same = chunks_x is chunks_y
    chunk = chunks_x.shape[1]
    reach_x, reach_y = reach(run)
    held = reach_x[1] - reach_x[0] + (0 if same else reach_y[1] - reach_y[0])
    wide = max(_MIN_FREQUENCIES, layout.spectra // max(1, held))
    narrow = max(_MIN_FREQUENCIES, _MIN_TASK // max(1, held), -(-chunk // (2 * mapper.parallel)))
    slices = -(-(chunk + 1) // min(wide, narrow))
    cuts = tuple((part * (chunk + 1) // slices, (part + 1) * (chunk + 1) // slices) for part in range(slices))
    rows = max(1, layout.task // chunk)
    share = max(1, _MIN_TASK // chunk, -(-held // (2 * mapper.parallel)))

    def spectra_of(side: str, some: Chunks, start: int, stop: int) -> tuple[list[list[str]], FloatArray]:
        """Write the spectra of some chunks; return the names of each task's slices, and the norms."""
        parts = _cut(start, stop, min(rows, share))
        names = [[f"{name}/{side}{begin}-{part}" for part in range(slices)] for begin, _ in parts]
        tasks = list(zip(parts, names, strict=True))
        norms = mapper.map(partial(_write_spectra, store, some, run.tilt, cuts), tasks)
        return names, np.concatenate([np.zeros(0), *norms])

    names_x, norms_x = spectra_of("x", chunks_x, *reach_x)
    names_y, norms_y = ([], norms_x) if same else spectra_of("y", chunks_y, *reach_y)
    windows = run_windows(run)
    width = widths(run, windows, chunk, norms_x, norms_y)
    groups = _cut(0, len(windows), rows)
    sums = [[f"{name}/s{begin}-{part}" for begin, _ in groups] for part in range(slices)]
    products = [
        ([names[part] for names in names_x], [names[part] for names in names_y], sums[part], stop - start)
        for part, (start, stop) in enumerate(cuts)
    ]
    for _ in mapper.map(partial(_write_products, store, windows, groups, same), products):
        pass
    for names in (*names_x, *names_y):
        for written in names:
            store.remove(written)
    blocks = tuple(
        (run.start + start, run.start + stop, tuple(part[group] for part in sums))
        for group, (start, stop) in enumerate(groups)
    )
    return RunSums(run.tilt, run.start, run.stop, width, blocks)


def _write_spectra(
    store: VectorStore,
    chunks: Chunks,
    tilt: float,
    cuts: Sequence[tuple[int, int]],
    task: tuple[tuple[int, int], list[str]],
) -> FloatArray:
    """Transform some chunks, write their spectra in slices of frequencies, and return the norms."""
    (start, stop), names = task
    spectra, norms = chunk_spectra(chunks, start, stop, tilt)
    for (first, last), name in zip(cuts, names, strict=True):
        store.write(name, np.ascontiguousarray(spectra[:, first:last]))
    return norms


def _write_products(
    store: VectorStore,
    windows: Windows,
    groups: Sequence[tuple[int, int]],
    symmetric: bool,
    task: tuple[list[str], list[str], list[str], int],
) -> None:
    """Write the sums of each group of blocks in one slice of frequencies, from the names of the spectra."""
    names_x, names_y, written, frequencies = task
    x = _gathered(store, names_x, frequencies)
    y = x if symmetric else _gathered(store, names_y, frequencies)
    for (start, stop), name in zip(groups, written, strict=True):
        store.write(name, block_sums(x, y, windows[start:stop], symmetric=symmetric))


def _gathered(store: VectorStore, names: list[str], frequencies: int) -> ComplexArray:
    """Read the spectra of consecutive chunks, without holding them twice."""
    first = store.read(names[0]) if names else np.zeros((0, frequencies), dtype=np.complex128)
    if len(names) <= 1:
        return first
    # None of the other groups is longer.
    result = np.empty((len(names) * first.shape[0], frequencies), dtype=np.complex128)
    end = first.shape[0]
    result[:end] = first
    del first
    for name in names[1:]:
        part = store.read(name)
        result[end : end + part.shape[0]] = part
        end += part.shape[0]
    return result[:end]


def _candidates(chunks: Chunks, rows: tuple[int, int]) -> tuple[int, IntArray]:
    return tower_candidates(chunks.rows(*rows), rows[0] * chunks.shape[1])


def _maxima(chunks: Chunks, rows: tuple[int, int]) -> FloatArray:
    return segment_maxima(chunks.rows(*rows))


class _MappedSurvey:
    """Surveys vectors by tasks of so many elements."""

    def __init__(self, mapper: Mapper, task: int) -> None:
        self._mapper = mapper
        self._task = task

    def largest(self, vector: Vector) -> float:
        """Return the largest element, which a vector in blocks knows."""
        if not isinstance(vector, BlockedVector):
            raise TypeError(f"survey: expected a vector in blocks, got {type(vector).__name__}")
        return vector.largest

    def towers(self, chunks: Chunks) -> IntArray:
        """Return the positions of the towers."""
        return towers_among(self._mapper.map(partial(_candidates, chunks), self._rows(chunks)))

    def maxima(self, chunks: Chunks) -> FloatArray:
        """Return the maxima of the segments."""
        return np.concatenate(list(self._mapper.map(partial(_maxima, chunks), self._rows(chunks))))

    def _rows(self, chunks: Chunks) -> list[tuple[int, int]]:
        count, chunk = chunks.shape
        return list(ranges(0, count, max(1, self._task // chunk)))


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


@dataclass(frozen=True, eq=False)
class _MappedConvolution:
    """A convolution of vectors in blocks by tasks; small and picklable."""

    #: The vectors from their first to their last element that is not 0.
    x: BlockedVector
    y: BlockedVector
    #: The position of x[0] y[0] in the whole result.
    first: int
    #: How it is convolved, with the directly summed ends.
    plan: DirectPlan | tuple[ConvolutionPlan, Ends]
    #: For each cut the sums of its runs.
    sums: tuple[tuple[RunSums, ...], ...]
    #: As for `pbdist.fourier.rounded_convolution`.
    rounding: Rounding
    mass_limit: float

    def read(self, start: int, stop: int) -> FloatArray:
        """Return the elements of a range, rounded: those of `rounded_convolution`, bit by bit."""
        values, bound = np.zeros(stop - start), np.zeros(stop - start)
        first, last = max(start, self.first), min(stop, self.first + self.x.size + self.y.size - 1)
        if first < last:
            part = slice(first - start, last - start)
            values[part], bound[part] = self._part(first - self.first, last - self.first)
        return rounded(values, bound, self.rounding, self.mass_limit)

    def _part(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        if isinstance(self.plan, DirectPlan):
            return direct_sums(self.plan, self.x if self.plan.swapped else self.y, start, stop)
        plan, ends = self.plan
        result = self._level(plan, 0, start, stop)
        for level in range(1, len(plan.levels)):
            for begin, end in plan.levels[level].ranges:
                first, last = max(start, begin), min(stop, end)
                if first < last:
                    here = slice(first - start, last - start)
                    keep_better((result[0][here], result[1][here]), self._level(plan, level, first, last))
        add_towers(result, self.x, self.y, plan, start)
        put_ends(result, ends, plan.size, start)
        return result

    def _level(self, plan: ConvolutionPlan, level: int, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of one cut on a range."""
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
            part = self.x.store.read(name)[rows]
            sums[:, column : column + part.shape[1]] = part
            column += part.shape[1]
        return sums

    def remove(self) -> None:
        """Remove its blocks."""
        for runs in self.sums:
            for run in runs:
                for _, _, names in run.names:
                    for name in names:
                        self.x.store.remove(name)


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


Convolution: TypeAlias = _MappedConvolution | _Whole


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

    The result is that of `pbdist.fourier.rounded_convolution`, bit by bit. Pass the same vector twice to save
    transforms. The names of all arrays that are written begin with `name`.
    """
    (vector_x, known_x), (vector_y, known_y) = x, y
    check_range(known_x.largest, known_y.largest, min(vector_x.size, vector_y.size))
    if known_x.nonzero == 0 or known_y.nonzero == 0:
        return _Whole(0, np.zeros(0))
    same = vector_x is vector_y
    first = known_x.first + known_y.first
    terms = min(known_x.nonzero, known_y.nonzero)
    if work.in_one_block:
        array_x = vector_x[known_x.first : known_x.last + 1]
        array_y = array_x if same else vector_y[known_y.first : known_y.last + 1]
        return _Whole(first, rounded(*supported_convolution(array_x, array_y, terms), rounding, mass_limit))
    part_x = vector_x.part(known_x.first, known_x.last + 1)
    part_y = part_x if same else vector_y.part(known_y.first, known_y.last + 1)
    result = partial(_MappedConvolution, part_x, part_y, first, rounding=rounding, mass_limit=mass_limit)
    survey = _MappedSurvey(work.mapper, work.layout.task // 4)
    plan = None if sums_directly(terms, part_x.size, part_y.size) else plan_chunks(part_x, part_y, survey)
    if plan is None:
        swapped = known_x.nonzero > known_y.nonzero
        sparse, other = (part_y, known_x) if swapped else (part_x, known_y)
        direct = plan_directly(*_nonzero_elements(sparse, work.mapper), other.smallest, swapped=swapped)
        return result(direct, ())
    chunks = [plan.chunks(level, part_x, part_y) for level in plan.levels]
    sums = tuple(
        tuple(
            run_sums(run, chunks[level], work, f"{name}/{level}-{number}") for number, run in enumerate(cut.plan.runs)
        )
        for level, cut in enumerate(plan.levels)
    )
    # Nothing needs the runs any more.
    light = replace(plan, levels=tuple(replace(level, plan=replace(level.plan, runs=())) for level in plan.levels))
    return result((light, end_sums(part_x, part_y)), sums)
