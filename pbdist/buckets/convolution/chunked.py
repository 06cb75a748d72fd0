"""Convolution of non-negative vectors with a certified bound on its rounding error.

This module is the only owner of Fourier transforms and of the rounding bound: it alone meets the slightly negative
values that a transform leaves, and it alone rounds them to a side.

The bound
---------
Let ε = `transform_error`. The transforms of x and y err by ε‖x‖₂√N and ε‖y‖₂√N in the 2-norm, so that by
Cauchy-Schwarz the product errs by (2ε + ε² + 3u)(1 + ε)² ‖x‖₂‖y‖₂ N in the 1-norm, and each element of its inverse
transform by that over N. The inverse transform adds at most ε times the 1-norm of its input over N, again at most
ε ‖x‖₂‖y‖₂ (1 + ε)². In all, each element errs by at most (3ε + 4u)(1 + 4ε) ‖x‖₂‖y‖₂.
"""

import math
from enum import Enum

import numpy as np
from scipy import fft

from pbdist.buckets.convolution.transform import transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["Rounding", "convolve", "rounded_convolution"]


#: A sum of products below this may have lost terms to underflow; far more than all that can be lost.
_UNDERFLOW = 1e-290

#: The direct sum is used up to this many non-zero elements in the sparser vector, ..
_DIRECT_TERMS = 48
#: .. or up to this many products.
_DIRECT_PRODUCTS = 1 << 19


class Rounding(Enum):
    """To which side of the exact value a computed one may lie."""

    UP = "up"
    DOWN = "down"


def convolve(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve two non-negative vectors.

    Parameters
    ----------
    x, y : ndarray, shapes (k,) and (m,)
        Finite and non-negative; pass the same object twice to save a transform.

    Returns
    -------
    values, bound : ndarray, shape (k + m - 1,)
        Elementwise ``|values - exact| <= bound``. The values may be negative by as much as the bound says. Outside
        the sum of the supports both are exactly 0.

    Notes
    -----
    Short or sparse vectors are summed directly, with a relative error of (terms + 2) u in every element; the others go
    through one Fourier transform, with the bound of the module's docstring.
    """
    values = np.zeros(x.size + y.size - 1)
    bound = np.zeros_like(values)
    first_x, last_x = _support(x)
    first_y, last_y = _support(y)
    if last_x < first_x or last_y < first_y:
        return values, bound
    same = x is y
    x = x[first_x : last_x + 1]
    y = x if same else y[first_y : last_y + 1]
    inside = slice(first_x + first_y, last_x + last_y + 1)
    terms = min(int(np.count_nonzero(x)), int(np.count_nonzero(y)))
    if terms <= _DIRECT_TERMS or x.size * y.size <= _DIRECT_PRODUCTS:
        values[inside], bound[inside] = _direct(x, y)
    else:
        values[inside], bound[inside] = _transformed(x, y)
    return values, bound


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
    """
    values, bound = convolve(x, y)
    if rounding is Rounding.UP:
        return np.minimum((values + bound) * (1.0 + 4.0 * UNIT_ROUNDOFF), mass_limit)
    return np.maximum(values - bound, 0.0) * (1.0 - 4.0 * UNIT_ROUNDOFF)


def _support(x: FloatArray) -> tuple[int, int]:
    occupied = np.flatnonzero(x)
    if occupied.size == 0:
        return 0, -1
    return int(occupied[0]), int(occupied[-1])


def _direct(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum row by row in a fixed order, so that the result depends on no library's blocking."""
    if np.count_nonzero(x) > np.count_nonzero(y):
        x, y = y, x
    values = np.zeros(x.size + y.size - 1)
    occupied = np.flatnonzero(x)
    for position in occupied:
        values[position : position + y.size] += x[position] * y
    bound = values * (1.5 * (occupied.size + 2) * UNIT_ROUNDOFF)
    if float(np.min(x[occupied])) * float(np.min(y[y > 0.0])) < _UNDERFLOW:
        bound += _UNDERFLOW
    return values, bound


def _transformed(x: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
    same = x is y
    # Powers of two, so that nothing is rounded, and no square in a norm vanishes.
    exponent_x, exponent_y = _exponent(x), _exponent(y)
    x = np.ldexp(x, -exponent_x)
    y = x if same else np.ldexp(y, -exponent_y)
    size = x.size + y.size - 1
    length = 1 << (size - 1).bit_length()
    spectrum_x = fft.rfft(x, length, workers=1)
    spectrum_y = spectrum_x if same else fft.rfft(y, length, workers=1)
    values: FloatArray = fft.irfft(spectrum_x * spectrum_y, length, workers=1)[:size]
    error = transform_error(length)
    factor = (3.0 * error + 4.0 * UNIT_ROUNDOFF) * (1.0 + 4.0 * error)
    exponent = exponent_x + exponent_y
    return np.ldexp(values, exponent), math.ldexp(factor * _norm(x) * _norm(y), exponent) + _UNDERFLOW


def _exponent(x: FloatArray) -> int:
    """Binary exponent of the largest element."""
    return math.frexp(float(np.max(x)))[1]


def _norm(x: FloatArray) -> float:
    """2-norm of a vector whose largest element is about 1, rounded up."""
    return float(np.sqrt(np.sum(x * x))) * (1.0 + (x.size + 4.0) * UNIT_ROUNDOFF)
