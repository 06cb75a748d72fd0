"""A look at vectors before they are convolved: maxima of cells, and towers that are taken out."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from pbdist.fourier.plan import CELLS, cell_maxima
from pbdist.fourier.vectors import Chunks, Vector
from pbdist.types import FloatArray, IntArray

__all__ = ["IN_MEMORY", "Survey", "find_towers", "tower_candidates", "towers_among"]

#: In shorter cells a tower costs the others little accuracy.
_SHORTEST_CELL = 32
#: A cell is searched when its largest element is at least this part of its sum, ..
_SHARE = 1.0 / 16.0
#: .. for at most so many neighbours that are so many times larger than the next largest element.
_NEIGHBOURS, _HEIGHT = 8, 32.0
#: More than this are no exceptions.
_MOST = 16


def find_towers(chunks: FloatArray) -> IntArray:
    """Return the positions of the towers in chunks of non-negative elements; at most 16, or none at all."""
    return towers_among([tower_candidates(chunks, 0)])


def tower_candidates(rows: FloatArray, start: int) -> tuple[int, IntArray]:
    """Return how many cells of some chunks are suspect, and the positions of their towers.

    Parameters
    ----------
    rows : ndarray, shape (k, c)
        Consecutive chunks of non-negative elements.
    start : int
        The position of the first element.
    """
    cells = rows.reshape(rows.shape[0] * CELLS, -1)
    none = np.zeros(0, dtype=np.int64)
    if cells.shape[1] < _SHORTEST_CELL:
        return 0, none
    largest = cells.max(axis=1)
    suspects = np.flatnonzero((largest > 0.0) & (largest >= _SHARE * cells.sum(axis=1)))
    found = [none]
    # With more of them there are no towers.
    for row in suspects[: _MOST + 1].tolist():
        top = np.argpartition(cells[row], -_NEIGHBOURS - 1)[-_NEIGHBOURS - 1 :]
        heights = cells[row, top]
        high = np.sort(top[heights > _HEIGHT * heights.min()])
        found.append(start + row * cells.shape[1] + high)
    return suspects.size, np.concatenate(found)


def towers_among(candidates: Iterable[tuple[int, IntArray]]) -> IntArray:
    """Return the towers of a whole vector from what `tower_candidates` said of its parts, in order."""
    suspects, found = 0, [np.zeros(0, dtype=np.int64)]
    for count, positions in candidates:
        suspects += count
        found.append(positions)
    towers = np.concatenate(found)
    return towers if suspects <= _MOST and towers.size <= _MOST else found[0]


#: Elements that are looked at together: they stay in a core's cache.
_SURVEYED = 1 << 16


class Survey(Protocol):
    """Looks at a vector or at its chunks."""

    def largest(self, vector: Vector) -> float:
        """Return the largest element."""

    def towers(self, chunks: Chunks) -> IntArray:
        """Return the positions of the towers, as `find_towers` does."""

    def maxima(self, chunks: Chunks) -> FloatArray:
        """Return the maxima of the cells, as `cell_maxima` does."""


class _InMemory:
    """Looks at the chunks of an array, some at a time."""

    def largest(self, vector: Vector) -> float:
        return float(vector[:].max())

    def towers(self, chunks: Chunks) -> IntArray:
        return towers_among(
            tower_candidates(chunks.rows(start, stop), start * chunks.shape[1]) for start, stop in self._rows(chunks)
        )

    def maxima(self, chunks: Chunks) -> FloatArray:
        return np.concatenate([cell_maxima(chunks.rows(start, stop)) for start, stop in self._rows(chunks)])

    def _rows(self, chunks: Chunks) -> Iterator[tuple[int, int]]:
        count, chunk = chunks.shape
        step = max(1, _SURVEYED // chunk)
        return ((start, min(start + step, count)) for start in range(0, count, step))


IN_MEMORY = _InMemory()
