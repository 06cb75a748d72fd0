"""Convolution by one transform of whole vectors: quick, with one bound for all elements of the result.

With A and B the vectors, L the length of the transforms and ε = `transform_error` (L), Theorem 5 of ``docs/theory.md``
gives for one pair of chunks without a tilt

    |computed - exact| <= (3 ε + 41 u) 1.001 ‖A‖₂ ‖B‖₂.
"""

import math

import numpy as np

from pbdist.fourier.transform import forward, good_length, inverse, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

#: More than underflow loses: at most 2^60 numbers lose 2^-1074, times at most 2^100.
_UNDERFLOW = 2.0**-900


def plain_error(x: FloatArray, y: FloatArray) -> float:
    """Bound the error of each element of `convolve_plainly`."""
    norms = math.sqrt(float(np.dot(x, x))) * math.sqrt(float(np.dot(y, y)))
    length = good_length(x.size + y.size - 1)
    return (3.0 * transform_error(length) + 45.0 * UNIT_ROUNDOFF) * 1.002 * norms + _UNDERFLOW


def convolve_plainly(x: FloatArray, y: FloatArray) -> FloatArray:
    """Convolve two vectors without negative elements, whose sums are at most 2^40.

    The values may be negative by as much as `plain_error` says.
    """
    size = x.size + y.size - 1
    length = good_length(size)
    spectrum = forward(x[None], length)
    spectrum = spectrum * (spectrum if x is y else forward(y[None], length))
    result: FloatArray = inverse(spectrum, length)[0, :size]
    return result
