"""Direct summation: every element has a small relative error."""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.fourier.vectors import Vector
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray, IntArray

__all__ = ["DirectPlan", "direct_convolution", "direct_sums", "plan_directly"]

#: A product below this may have lost digits to underflow.
_UNDERFLOW = 1e-290


@dataclass(frozen=True, eq=False)
class DirectPlan:
    """A convolution that is summed directly.

    Attributes
    ----------
    swapped
        Whether the elements below are those of y, not of x.
    positions, elements
        The non-zero elements of the sparser vector.
    underflows
        Whether a product may lose digits.
    """

    swapped: bool
    positions: IntArray
    elements: FloatArray
    underflows: bool


def plan_directly(
    positions: IntArray, elements: FloatArray, smallest_other: float, *, swapped: bool = False
) -> DirectPlan:
    """Plan from the sparser vector's non-zero elements and the smallest one above 0 of the other vector."""
    underflows = elements.size > 0 and float(np.min(elements)) * smallest_other < _UNDERFLOW
    return DirectPlan(swapped, positions, elements, underflows)


def direct_sums(plan: DirectPlan, other: Vector, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
    """Sum the elements of a range row by row in a fixed order, so that the result depends on no library's blocking.

    Parameters
    ----------
    plan : DirectPlan
        The sparser vector.
    other : Vector
        Finite and non-negative.
    start, stop : int
        The range, within the result.

    Returns
    -------
    values, bound : ndarray, shape (stop - start,)
        Elementwise ``|values - exact| <= bound``: sums of k non-negative products err by (k + 2) u, relative to
        themselves, and by half the smallest subnormal number for each product that underflows. An element's bits do
        not depend on the range.
    """
    values = np.zeros(stop - start)
    count = plan.positions.size
    if count == 0:
        return values, np.zeros_like(values)
    size = other.size
    if start == 0 and stop >= int(plan.positions[-1]) + size:
        whole, products = other[0:size], np.empty(size)
        for position, element in zip(plan.positions.tolist(), plan.elements.tolist(), strict=True):
            np.multiply(whole, element, out=products)
            values[position : position + size] += products
    else:
        scratch = np.empty_like(values)
        for position, element in zip(plan.positions.tolist(), plan.elements.tolist(), strict=True):
            first, last = max(start, position), min(stop, position + size)
            if first < last:
                products = np.multiply(other[first - position : last - position], element, out=scratch[: last - first])
                values[first - start : last - start] += products
    bound = values * (1.5 * (count + 2) * UNIT_ROUNDOFF)
    if plan.underflows:
        bound += math.ldexp(count + 2.0, -1074)
    return values, bound


def direct_convolution(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve two vectors directly.

    Parameters
    ----------
    x, y : ndarray
        Finite and non-negative.

    Returns
    -------
    values, bound : ndarray
        As `direct_sums` returns them, whole.
    """
    if np.count_nonzero(x) > np.count_nonzero(y):
        x, y = y, x
    occupied = np.flatnonzero(x)
    plan = plan_directly(occupied, x[occupied], float(np.min(y, where=y > 0.0, initial=math.inf)))
    return direct_sums(plan, y, 0, x.size + y.size - 1)
