"""Which cells are computed together, and which batches are alike."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, overload

import numpy as np

from pbdist.mechanisms import NoisyCount, Pair, Product, RandomizedResponse
from pbdist.study.spec import Cell
from pbdist.types import FloatArray, IntArray

__all__ = ["Batch", "Batches", "alike_cells", "batch_length"]

#: So many cells are looked at, at most.
_MOST_CLASSES = 200
#: More than any binary order of a float is told apart by.
_COARSEST = 12
#: The size of 0, below all others.
_OF_ZERO = -2000


def alike_cells(cells: Sequence[Cell]) -> tuple[IntArray, tuple[int, ...]]:
    """Sort cells into classes.

    Parameters
    ----------
    cells : sequence of Cell

    Returns
    -------
    class_of : ndarray of int, shape (len(cells),)
        The class of each cell.
    examples : tuple of int
        The number of the cell that stands for each class: the middle one of its members.
    """
    # Most parameters of a large study come from grids: each value is measured once.
    sizes: dict[float, int] = {}
    numbers: dict[tuple[Hashable, ...], int] = {}
    readers: dict[type[Pair], Callable[[Any], tuple[Any, ...]]] = {}
    found = np.fromiter(
        (numbers.setdefault(_key(cell, sizes, readers), len(numbers)) for cell in cells),
        dtype=np.int64,
        count=len(cells),
    )
    class_of, count = found, len(numbers)
    for shift in range(1, _COARSEST):
        if count <= _MOST_CLASSES:
            break
        merged: dict[Hashable, int] = {}
        table = np.array([merged.setdefault(_coarser(key, shift), len(merged)) for key in numbers], dtype=np.int64)
        class_of, count = table[found], len(merged)
    order = np.argsort(class_of, kind="stable")
    ends = np.cumsum(np.bincount(class_of, minlength=count))
    starts = ends - np.bincount(class_of, minlength=count)
    return class_of, tuple(order[(starts + ends) // 2].tolist())


def _key(
    cell: Cell, sizes: dict[float, int], readers: dict[type[Pair], Callable[[Any], tuple[Any, ...]]]
) -> tuple[Hashable, ...]:
    key = _pair_key(cell.pair, sizes, readers)
    return key if cell.factor is None else (*key, _size(cell.factor - 1.0))


def _pair_key(
    pair: Pair, sizes: dict[float, int], readers: dict[type[Pair], Callable[[Any], tuple[Any, ...]]]
) -> tuple[Hashable, ...]:
    kind = type(pair)
    if kind is Product:
        return (kind, *(_pair_key(part, sizes, readers) for part in pair.pairs))  # type: ignore[attr-defined]
    if kind is RandomizedResponse:
        p = pair.p  # type: ignore[attr-defined]
        return (kind, _size(abs(p - 0.5)), _size(1.0 - p))
    reader = readers.get(kind)
    if reader is None:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every pair is a dataclass
        # One name more, so that one field is a tuple too.
        reader = readers[kind] = attrgetter(*names, "symmetric")
    key: list[Hashable] = [kind]
    for value in reader(pair):
        if type(value) is float:
            size = sizes.get(value)
            if size is None:
                size = sizes[value] = _size(value)
            key.append(size)
        elif isinstance(value, Pair):
            key.append(_pair_key(value, sizes, readers))
        elif isinstance(value, tuple):
            key.append(_size(float(len(value))) if len(value) != 2 else tuple(map(_size, value)))
        elif type(value) is int:
            key.append(_size(float(value)))
        else:
            key.append(value)
    if kind is NoisyCount:
        # How far 0 is from the mean decides how much is revealed.
        key.append(min(int(pair.mean / pair.noise.scale), 40))  # type: ignore[attr-defined]
    return tuple(key)


def _size(value: float) -> int:
    return math.frexp(value)[1] if value else _OF_ZERO


def _coarser(key: Hashable, shift: int) -> Hashable:
    if isinstance(key, tuple):
        return tuple(_coarser(part, shift) for part in key)
    return key >> shift if type(key) is int else key


#: A batch is to take about this long, in seconds: long against a task's overhead, short against a lost worker.
_BATCH_SECONDS = 5.0
#: Batches that take longer than this are to hold no more than this share of the work, but for cells that do so alone.
_LONG_SECONDS, _LONG_SHARE = 10.0, 0.1
#: No batch is to hold more than this share of a study, so that several workers finish together.
_SMALLEST_SHARE = 16
#: Bytes of a chunk of bounds, which a worker holds some copies of.
_CHUNK_BYTES = 2**25


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive cells that are computed and stored together: one chunk of the store.

    Attributes
    ----------
    index
        The number of the chunk.
    start, stop
        The first cell, and the one after the last.
    seconds
        Projected time on one core.
    """

    index: int
    start: int
    stop: int
    seconds: float


class Batches(Sequence[Batch]):
    """The batches in the order in which they are to be submitted: the longest first, so that none is left for the end.

    Each is made when it is asked for, so that a million of them take megabytes. Equal to any sequence of the same
    batches that is one of these.

    Parameters
    ----------
    length
        Cells of every batch but the last.
    cell_seconds
        Projected time of each cell.
    """

    def __init__(self, length: int, cell_seconds: FloatArray) -> None:
        self.length = length
        self.cells = cell_seconds.size
        self._seconds: FloatArray = np.add.reduceat(cell_seconds, np.arange(0, self.cells, length))
        self._order = np.argsort(-self._seconds, kind="stable")

    def __len__(self) -> int:
        """Return the number of batches."""
        return self._seconds.size

    @overload
    def __getitem__(self, place: int) -> Batch: ...
    @overload
    def __getitem__(self, place: slice) -> list[Batch]: ...
    def __getitem__(self, place: int | slice) -> Batch | list[Batch]:
        """Return the batch at a place of the order, or a list of them."""
        found = self._order[place]
        return [self.of(index) for index in found.tolist()] if isinstance(place, slice) else self.of(int(found))

    def __iter__(self) -> Iterator[Batch]:
        """Iterate in order."""
        return (self.of(int(index)) for index in self._order)

    def __eq__(self, other: object) -> bool:
        """Whether the batches are the same, with the same projections."""
        if not isinstance(other, Batches):
            return NotImplemented
        return self.length == other.length and np.array_equal(self._seconds, other._seconds)

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that holds an array

    def of(self, index: int) -> Batch:
        """Return the batch of a chunk's number."""
        start = index * self.length
        return Batch(index, start, min(start + self.length, self.cells), float(self._seconds[index]))

    @property
    def seconds(self) -> FloatArray:
        """Projected seconds in order."""
        return self._seconds[self._order]


def batch_length(cell_seconds: FloatArray, cell_bytes: int) -> int:
    """Return how many cells a batch is to have: a power of 2, a function of the projections alone.

    Parameters
    ----------
    cell_seconds : ndarray
        Projected time of each cell, in order.
    cell_bytes : int
        Bytes of one cell in a chunk of bounds.

    Returns
    -------
    int
        The largest with which a second of work is, on an average, in a batch of at most 5 s, and hardly any in one of
        more than 10 s: a few long cells among many short ones do not make all batches small.
    """
    most = max(1, min(cell_seconds.size // _SMALLEST_SHARE, _CHUNK_BYTES // cell_bytes))
    length = 1 << (most.bit_length() - 1)
    total = float(cell_seconds.sum())
    long_work = float(cell_seconds[cell_seconds > _LONG_SECONDS].sum()) + _LONG_SHARE * total
    while length > 1:
        seconds = np.add.reduceat(cell_seconds, np.arange(0, cell_seconds.size, length))
        typical = float(seconds @ seconds) / total
        if typical <= _BATCH_SECONDS and float(seconds[seconds > _LONG_SECONDS].sum()) <= long_work:
            break
        length //= 2
    return length
