"""Convolution of non-negative vectors with a certified bound on its rounding error.

This package is the only owner of Fourier transforms and of the rounding bound: it alone meets the slightly negative
values that a transform leaves, and it alone rounds them to a side.

A plain transform errs by about 1e-16 of the largest output, so that whatever lies below is noise. Here both vectors are
cut into chunks (`cuts`), every chunk is flattened by an exponential tilt (`plan`) and transformed by itself, and the
products of the chunks that meet in one block of the output are added up before they are transformed back (`blocks`).
Each block then errs by about 1e-16 of what feeds it. A few elements that tower above their neighbours (`towers`) are
taken out first and added directly.
"""

import math
from enum import Enum

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.fourier.cuts import chunked_bytes, chunked_convolution
from pbdist.fourier.direct import direct_convolution
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = [
    "Rounding",
    "check_range",
    "convolve",
    "projected_bytes",
    "rounded",
    "rounded_convolution",
    "sums_directly",
    "supported_convolution",
]

#: The direct sum is used up to this many non-zero elements in the sparser vector, ..
_DIRECT_TERMS = 96
#: .. or up to this many products.
_DIRECT_PRODUCTS = 1 << 19

#: Memory that any convolution may take.
_FIXED_BYTES = 1 << 24


class Rounding(Enum):
    """To which side of the exact value a computed one may lie."""

    UP = "up"
    DOWN = "down"


def convolve(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve two non-negative vectors.

    Parameters
    ----------
    x, y : ndarray, shapes (k,) and (m,)
        Finite and non-negative; pass the same object twice to save transforms.

    Returns
    -------
    values, bound : ndarray, shape (k + m - 1,)
        Elementwise ``|values - exact| <= bound``. The values may be negative by as much as the bound says. Outside
        the sum of the supports both are exactly 0. The same input gives the same bits.

    Raises
    ------
    InvalidInputError
        If a vector is no vector of float64 or empty, holds an element that is negative or not finite, or if the result
        would overflow.

    Notes
    -----
    Short or sparse vectors are summed directly, with a relative error of (terms + 2) u in every element; the others go
    through chunks, with the bound of `blocks`.
    """
    largest_x = _largest(x, "x")
    largest_y = largest_x if x is y else _largest(y, "y")
    check_range(largest_x, largest_y, min(x.size, y.size))
    size = x.size + y.size - 1
    if largest_x == 0.0 or largest_y == 0.0:
        return np.zeros(size), np.zeros(size)
    same = x is y
    first_x, x = _trimmed(x)
    first_y, y = (first_x, x) if same else _trimmed(y)
    terms = min(int(np.count_nonzero(x)), int(np.count_nonzero(y)))
    part, part_bound = supported_convolution(x, y, terms)
    if part.size == size:
        return part, part_bound
    values, bound = np.zeros(size), np.zeros(size)
    inside = slice(first_x + first_y, first_x + first_y + part.size)
    values[inside], bound[inside] = part, part_bound
    return values, bound


def supported_convolution(x: FloatArray, y: FloatArray, terms: int) -> tuple[FloatArray, FloatArray]:
    """Convolve as `convolve` does vectors whose first and last element are above 0, and so many of the sparser one."""
    return direct_convolution(x, y) if sums_directly(terms, x.size, y.size) else chunked_convolution(x, y)


def rounded_convolution(x: FloatArray, y: FloatArray, rounding: Rounding, mass_limit: float = np.inf) -> FloatArray:
    """Convolve two vectors that are bounds of exact masses on one side, and stay on that side.

    Parameters
    ----------
    x, y : ndarray
        As `convolve` takes them.
    rounding : Rounding
        The side.
    mass_limit : float, optional
        What no exact mass of the result exceeds. It keeps upper values finite when the rounding of astronomically many
        compositions has made them meaningless.

    Returns
    -------
    ndarray
        With `UP`, at least the exact convolution in every element; with `DOWN`, at most, and at least 0, which every
        mass is.

    Raises
    ------
    InvalidInputError
        As `convolve`.
    """
    return rounded(*convolve(x, y), rounding, mass_limit)


def rounded(values: FloatArray, bound: FloatArray, rounding: Rounding, mass_limit: float) -> FloatArray:
    """Round elements of a convolution to a side, as `rounded_convolution` says."""
    if rounding is Rounding.UP:
        return np.minimum((values + bound) * (1.0 + 4.0 * UNIT_ROUNDOFF), mass_limit)
    return np.maximum(values - bound, 0.0) * (1.0 - 4.0 * UNIT_ROUNDOFF)


def sums_directly(terms: int, size_x: int, size_y: int) -> bool:
    """Whether vectors of these lengths, the sparser one of so many non-zero elements, are summed directly."""
    return terms <= _DIRECT_TERMS or size_x * size_y <= _DIRECT_PRODUCTS


def check_range(largest_x: float, largest_y: float, terms: int) -> None:
    """Refuse vectors of these largest elements, of which so many products meet, if the result might overflow."""
    if _exponent(largest_x) + _exponent(largest_y) + terms.bit_length() > 1022:
        raise InvalidInputError(
            "convolve: expected vectors whose convolution is below 2^1022, "
            f"got largest elements {largest_x:g} and {largest_y:g}"
        )


def projected_bytes(size_x: int, size_y: int) -> int:
    """Upper bound on the memory that `convolve` takes for vectors of these sizes, its results included.

    Parameters
    ----------
    size_x, size_y : int
        Lengths of the vectors.

    Returns
    -------
    int
        Bytes above what the process holds before, the two vectors not counted.
    """
    return max(chunked_bytes(size_x, size_y), 8 * 5 * (size_x + size_y)) + _FIXED_BYTES


def _largest(x: object, name: str) -> float:
    if not isinstance(x, np.ndarray) or x.dtype != np.float64 or x.ndim != 1 or x.size == 0:
        got = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else shown(x)
        raise InvalidInputError(f"convolve: expected {name} as a non-empty vector of float64, got {got}")
    smallest, largest = float(x.min()), float(x.max())
    if not (smallest >= 0.0 and largest < math.inf):
        place = int(np.flatnonzero(~((x >= 0.0) & (x < math.inf)))[0])
        raise InvalidInputError(
            f"convolve: expected {name} finite and non-negative, got {float(x[place])} at position {place}"
        )
    return largest


def _exponent(value: float) -> int:
    return math.frexp(value)[1]


def _trimmed(x: FloatArray) -> tuple[int, FloatArray]:
    """Position of the first element that is not 0, and the vector from there to the last one."""
    if x[0] > 0.0 and x[-1] > 0.0:
        return 0, x
    occupied = x > 0.0
    first, last = int(occupied.argmax()), x.size - 1 - int(occupied[::-1].argmax())
    return first, x[first : last + 1]
