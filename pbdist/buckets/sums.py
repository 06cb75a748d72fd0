"""Sums of masses piece by piece, the same whether a vector is summed whole or in blocks.

A piece is what lies between two multiples of `PIECE` positions, counted from where the sum begins or from the vector's
first element, as each function says. Pieces are summed by numpy, in whatever order, and their sums by `math.fsum`,
which rounds once and does not depend on the order: elements that are not negative are summed with a relative error of
at most `summation_error`.
"""

import math
from collections.abc import Iterable

import numpy as np

from pbdist.buckets.convolution.vectors import ranges
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["PIECE", "piece_sums", "summation_error", "total"]

#: Positions of a piece.
PIECE = 1 << 14


def piece_sums(values: FloatArray, start: int = 0) -> list[float]:
    """Sum each piece of consecutive elements, the first of which has the position `start`."""
    return [
        float(np.sum(values[first - start : last - start])) for first, last in ranges(start, start + values.size, PIECE)
    ]


def total(sums: Iterable[float]) -> float:
    """Return the sum of pieces, rounded once."""
    return math.fsum(sums)


def summation_error(count: int) -> float:
    """Bound on the relative error of the sum of so many elements that are not negative."""
    return (min(count, PIECE) + 1.0) * UNIT_ROUNDOFF
