"""What the convolution wants to know of its vectors, found block by block."""

from dataclasses import dataclass

import numpy as np

from pbdist.buckets.blocked.vectors import BlockedVector, Mapper
from pbdist.fourier.plan import cell_maxima
from pbdist.fourier.towers import tower_candidates, towers_among
from pbdist.fourier.vectors import Chunks, Vector, ranges
from pbdist.types import FloatArray, IntArray

__all__ = ["MappedSurvey", "nonzero_elements"]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some chunks of a vector."""

    chunks: Chunks
    start: int
    stop: int


def _candidates(rows: _Rows) -> tuple[int, IntArray]:
    return tower_candidates(rows.chunks.rows(rows.start, rows.stop), rows.start * rows.chunks.shape[1])


def _maxima(rows: _Rows) -> FloatArray:
    return cell_maxima(rows.chunks.rows(rows.start, rows.stop))


class MappedSurvey:
    """Looks at vectors by tasks.

    Parameters
    ----------
    mapper : Mapper
        Who works.
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
        """Return the maxima of the cells."""
        return np.concatenate(list(self._mapper.map(_maxima, self._rows(chunks))))

    def _rows(self, chunks: Chunks) -> list[_Rows]:
        count, chunk = chunks.shape
        return [_Rows(chunks, start, stop) for start, stop in ranges(0, count, max(1, self._task // chunk))]


def _nonzero(part: BlockedVector) -> tuple[IntArray, FloatArray]:
    values = part[:]
    occupied = np.flatnonzero(values)
    return occupied + part.start, values[occupied]


def nonzero_elements(vector: BlockedVector, mapper: Mapper) -> tuple[IntArray, FloatArray]:
    """Return the positions, counted from the vector's first element, and the values of those that are not 0."""
    parts = [vector.part(start - vector.start, stop - vector.start) for start, stop in vector.blocks()]
    found = list(mapper.map(_nonzero, parts))
    return np.concatenate([positions for positions, _ in found]) - vector.start, np.concatenate([v for _, v in found])
