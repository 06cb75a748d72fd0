"""What is to be known of a vector before it is cut into chunks."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from pbdist.fourier.plan import cell_maxima
from pbdist.fourier.towers import tower_candidates, towers_among
from pbdist.fourier.vectors import Chunks, Vector
from pbdist.types import FloatArray, IntArray

__all__ = ["IN_MEMORY", "Survey"]

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
