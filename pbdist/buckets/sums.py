"""Sums of masses piece by piece, the same whether a vector is summed whole or in blocks.

A piece is what lies between two multiples of `PIECE` positions, counted from where the sum begins or from the vector's
first element, as each function says. Pieces are summed by numpy, in whatever order, and their sums by `math.fsum`,
which rounds once and does not depend on the order: elements that are not negative are summed with a relative error of
at most `summation_error`.
"""

import math
from collections.abc import Iterable

import numpy as np

from pbdist.fourier.vectors import ranges
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["PIECE", "accurate_sum", "piece_sums", "summation_error", "total"]

#: Positions of a piece.
PIECE = 1 << 14
#: Vectors up to this length are summed by `math.fsum` alone.
_SHORT = 4096


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


def accurate_sum(values: FloatArray) -> float:
    """Return the sum of elements that are not negative, rounded once but for 2^-20 of a rounding.

    Halves are added to one another, and what each addition rounds is found exactly (Knuth's two-sum) and added in the
    end. On a level the sizes of these remainders sum to at most u times the whole, and numpy sums them with a relative
    error of at most n u: of all the less than 64 levels together less than 64 n u² is lost, for n up to 2^26.
    """
    rest, remainders = values, []
    while rest.size > _SHORT:
        half = rest.size // 2
        x, y = rest[:half], rest[half : 2 * half]
        added = x + y
        part = added - x
        remainders.append(float(np.sum((x - (added - part)) + (y - part))))
        rest = np.concatenate((added, rest[2 * half :]))
    return math.fsum([*rest.tolist(), *remainders])
