"""Vectors that are read part by part, and the chunks of one, so that no step needs a whole vector at once."""

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from pbdist.types import FloatArray, IntArray

__all__ = ["HEADROOM_BITS", "Chunks", "Vector", "exponent_of", "ranges", "scale"]

#: Chunks are scaled by a power of two, to a largest element of about 2 to this power.
HEADROOM_BITS = 300


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
        """Return some of the chunks, shape (stop - start, chunk); each the same whatever it is read with."""
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
