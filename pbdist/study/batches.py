"""The batches of a study: consecutive cells of one length, the longest first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from pbdist.types import FloatArray

__all__ = ["Batch", "Batches", "batch_length"]

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
