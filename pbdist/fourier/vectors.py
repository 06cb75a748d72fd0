"""Vectors that are read part by part, their chunks, and a survey of them: maxima of segments, and towers."""

import math
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from pbdist.fourier.chunk_plan import SEGMENTS, segment_maxima
from pbdist.types import FloatArray, IntArray

#: Chunks are scaled by a power of two, to a largest element of about 2 to this power.
HEADROOM_BITS = 300

#: In shorter segments a tower costs the others little accuracy.
_SHORTEST_SEGMENT = 32
#: A segment is searched when its largest element is at least this part of its sum, ..
_SHARE = 1.0 / 16.0
#: .. for at most so many neighbours that are so many times larger than the next largest element.
_NEIGHBOURS, _HEIGHT = 8, 32.0
#: More than this are no exceptions.
_MOST = 16

#: Elements that are looked at together: they stay in a core's cache.
_SURVEYED = 1 << 16


class Vector(Protocol):
    """What a vector is read through: an array is one, and so are blocks in a store. Slices are not written to."""

    @property
    def size(self) -> int:
        """Number of elements."""

    def __getitem__(self, part: slice, /) -> FloatArray:
        """Elements of a range within the vector."""


class Chunks:
    """A vector in chunks: scaled by a power of two, without its towers, padded by zeros.

    Parameters
    ----------
    vector : Vector
        Finite and non-negative.
    chunk : int
        The length of a chunk.
    exponent : int
        The vector is multiplied by 2^-exponent.
    towers : ndarray of int
        The positions of elements that are taken as 0.
    """

    def __init__(self, vector: Vector, chunk: int, exponent: int, towers: IntArray) -> None:
        self.vector = vector
        self.exponent = exponent
        self.towers = towers
        #: Number and length of the chunks.
        self.shape = (-(-vector.size // chunk), chunk)

    def rows(self, start: int, stop: int) -> FloatArray:
        """Return some of the chunks, shape (stop - start, chunk); each the same, alone or with others."""
        chunk = self.shape[1]
        rows = np.empty((stop - start, chunk))
        first = start * chunk
        part = self.vector[first : min(stop * chunk, self.vector.size)]
        flat = rows.reshape(-1)
        flat[: part.size] = part
        flat[part.size :] = 0.0
        scale(flat, -self.exponent)
        if self.towers.size:
            flat[self.towers[(self.towers >= first) & (self.towers < first + part.size)] - first] = 0.0
        return rows


def exponent_of(largest: float) -> int:
    """Return the exponent that scales a vector of that largest element to the headroom."""
    return math.frexp(largest)[1] - HEADROOM_BITS


def scale(values: FloatArray, exponent: int) -> None:
    """Multiply in place by a power of two."""
    if abs(exponent) < 1000:
        values *= math.ldexp(1.0, exponent)
    else:
        np.ldexp(values, exponent, out=values)


def ranges(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """Cut a range where multiples of `step`, counted from 0, fall into it."""
    while start < stop:
        end = min((start // step + 1) * step, stop)
        yield start, end
        start = end


def tower_candidates(rows: FloatArray, start: int) -> tuple[int, IntArray]:
    """Return how many segments of some chunks are suspect, and the positions of their towers.

    Parameters
    ----------
    rows : ndarray, shape (k, c)
        Consecutive chunks of non-negative elements.
    start : int
        The position of the first element.
    """
    segments = rows.reshape(rows.shape[0] * SEGMENTS, -1)
    none = np.zeros(0, dtype=np.int64)
    if segments.shape[1] < _SHORTEST_SEGMENT:
        return 0, none
    largest = segments.max(axis=1)
    suspects = np.flatnonzero((largest > 0.0) & (largest >= _SHARE * segments.sum(axis=1)))
    found = [none]
    # With more of them there are no towers.
    for row in suspects[: _MOST + 1].tolist():
        top = np.argpartition(segments[row], -_NEIGHBOURS - 1)[-_NEIGHBOURS - 1 :]
        heights = segments[row, top]
        high = np.sort(top[heights > _HEIGHT * heights.min()])
        found.append(start + row * segments.shape[1] + high)
    return suspects.size, np.concatenate(found)


def towers_among(candidates: Iterable[tuple[int, IntArray]]) -> IntArray:
    """Return the towers of a whole vector from what `tower_candidates` returned for its parts, in order."""
    suspects, found = 0, [np.zeros(0, dtype=np.int64)]
    for count, positions in candidates:
        suspects += count
        found.append(positions)
    towers = np.concatenate(found)
    return towers if suspects <= _MOST and towers.size <= _MOST else found[0]


class Survey(Protocol):
    """Looks at a vector or at its chunks."""

    def largest(self, vector: Vector) -> float:
        """Return the largest element."""

    def towers(self, chunks: Chunks) -> IntArray:
        """Return the positions of the towers: at most 16, or none at all."""

    def maxima(self, chunks: Chunks) -> FloatArray:
        """Return the maxima of the segments, as `segment_maxima` does."""


class _InMemory:
    """Looks at the chunks of an array, some at a time."""

    def largest(self, vector: Vector) -> float:
        return float(vector[:].max())

    def towers(self, chunks: Chunks) -> IntArray:
        return towers_among(
            tower_candidates(chunks.rows(start, stop), start * chunks.shape[1]) for start, stop in self._rows(chunks)
        )

    def maxima(self, chunks: Chunks) -> FloatArray:
        return np.concatenate([segment_maxima(chunks.rows(start, stop)) for start, stop in self._rows(chunks)])

    def _rows(self, chunks: Chunks) -> Iterator[tuple[int, int]]:
        count, chunk = chunks.shape
        step = max(1, _SURVEYED // chunk)
        return ((start, min(start + step, count)) for start in range(0, count, step))


IN_MEMORY = _InMemory()
