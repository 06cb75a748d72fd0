"""Direct summation: every element has a small relative error."""

import math

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["direct_convolution"]

#: A product below this may have lost digits to underflow.
_UNDERFLOW = 1e-290


def direct_convolution(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve row by row in a fixed order, so that the result depends on no library's blocking.

    Parameters
    ----------
    x, y : ndarray
        Finite and non-negative.

    Returns
    -------
    values, bound : ndarray
        Elementwise ``|values - exact| <= bound``: sums of k non-negative products err by (k + 2) u, relative to
        themselves, and by half the smallest subnormal number for each product that underflows.
    """
    if np.count_nonzero(x) > np.count_nonzero(y):
        x, y = y, x
    values = np.zeros(x.size + y.size - 1)
    occupied = np.flatnonzero(x)
    if occupied.size == 0:
        return values, np.zeros_like(values)
    scratch = np.empty_like(y)
    for position in occupied.tolist():
        np.multiply(y, x[position], out=scratch)
        values[position : position + y.size] += scratch
    bound = values * (1.5 * (occupied.size + 2) * UNIT_ROUNDOFF)
    if float(np.min(x[occupied])) * float(np.min(y[y > 0.0])) < _UNDERFLOW:
        bound += math.ldexp(occupied.size + 2.0, -1074)
    return values, bound
