"""Convolution of non-negative vectors with a certified bound on its rounding error.

A plain transform errs by about 1e-16 of the largest output, so that everything below is noise. Here both vectors are
cut into chunks (`cuts`), each flattened by an exponential tilt (`chunk_plan`) and transformed by itself; products of
chunks that meet in one block of the output are added up, then transformed back (`blocks`). Each block errs by about
1e-16 of what feeds it. Elements that tower above their neighbours, the first and the last ones, and short or sparse
vectors as a whole are summed directly.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.fourier.chunk_sizes import ConvolutionPlan, Level, plan_chunks
from pbdist.fourier.chunked_convolution import convolve_blocks
from pbdist.fourier.transform import forward, good_length, inverse, transform_error
from pbdist.fourier.vectors import Vector, scale
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray, IntArray

#: The direct sum is used up to this many non-zero elements in the sparser vector, ..
_DIRECT_TERMS = 96
#: .. or up to this many products.
_DIRECT_PRODUCTS = 1 << 19

#: The first and last elements of the result, sums of few products, are always summed directly: this part of the longer
#: vector, between two limits.
_ENDS_SHARE, _FEWEST_ENDS, _MAX_ENDS = 1024, 32, 256

_Result: TypeAlias = tuple[FloatArray, FloatArray]
#: Values and bounds of the first and of the last elements.
Ends: TypeAlias = tuple[_Result, _Result]
#: A product below this may have lost digits to underflow.
_UNDERFLOW = 1e-290


class Rounding(Enum):
    """To which side of the exact value a computed one may lie."""

    UP = "up"
    DOWN = "down"


def convolve(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve two non-negative vectors.

    Returns values and a bound with ``|values - exact| <= bound`` elementwise. The values may be negative by at most the
    bound. Outside the sum of the supports both are exactly 0. The same input gives the same bits; the same object twice
    saves transforms.

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
    return _direct_convolution(x, y) if sums_directly(terms, x.size, y.size) else _chunked_convolution(x, y)


def rounded_convolution(x: FloatArray, y: FloatArray, rounding: Rounding, mass_limit: float = np.inf) -> FloatArray:
    """Convolve two vectors that are bounds of exact masses on one side, and stay on that side.

    With `UP` every element is at least that of the exact convolution; with `DOWN` it is at most that, and at least 0.
    No exact mass of the result exceeds `mass_limit`, which keeps upper values finite when the rounding of
    astronomically many compositions has made them meaningless.
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


def _largest(x: object, name: str) -> float:
    if not isinstance(x, np.ndarray) or x.dtype != np.float64 or x.ndim != 1 or x.size == 0:
        got = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else shown(x)
        raise InvalidInputError(f"convolve: expected {name} as a non-empty vector of float64, got {got}")
    smallest, largest = float(x.min()), float(x.max())
    if not (smallest >= 0.0 and largest < math.inf):
        index = int(np.flatnonzero(~((x >= 0.0) & (x < math.inf)))[0])
        raise InvalidInputError(
            f"convolve: expected {name} finite and non-negative, got {float(x[index])} at position {index}"
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


@dataclass(frozen=True, eq=False)
class DirectPlan:
    """A convolution that is summed directly."""

    #: Whether the elements below are those of y, not of x.
    swapped: bool
    #: The non-zero elements of the sparser vector.
    positions: IntArray
    elements: FloatArray
    #: Whether a product may lose digits.
    underflows: bool


def plan_directly(
    positions: IntArray, elements: FloatArray, smallest_other: float, *, swapped: bool = False
) -> DirectPlan:
    """Plan from the sparser vector's non-zero elements and the smallest one above 0 of the other vector."""
    underflows = elements.size > 0 and float(np.min(elements)) * smallest_other < _UNDERFLOW
    return DirectPlan(swapped, positions, elements, underflows)


def direct_sums(plan: DirectPlan, other: Vector, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
    """Sum the elements of a range of the result with their bounds, row by row in a fixed order.

    Sums of k non-negative products err by (k + 2) u, relative to themselves, and by half the smallest subnormal number
    for each product that underflows. An element's bits depend neither on the range nor on a library's blocking.
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


def _direct_convolution(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Convolve two vectors directly; return values and bounds."""
    if np.count_nonzero(x) > np.count_nonzero(y):
        x, y = y, x
    occupied = np.flatnonzero(x)
    plan = plan_directly(occupied, x[occupied], float(np.min(y, where=y > 0.0, initial=math.inf)))
    return direct_sums(plan, y, 0, x.size + y.size - 1)


def _chunked_convolution(x: FloatArray, y: FloatArray) -> _Result:
    """Convolve two vectors by chunks, the first and the last element above 0; return values and bounds."""
    plan = plan_chunks(x, y)
    if plan is None:
        return _direct_convolution(x, y)
    result = _level(plan, plan.levels[0], x, y)
    for level in plan.levels[1:]:
        finer = _level(plan, level, x, y)
        for start, stop in level.ranges:
            part = slice(start, stop)
            keep_better((result[0][part], result[1][part]), (finer[0][part], finer[1][part]))
    add_towers(result, x, y, plan, 0)
    put_ends(result, end_sums(x, y), plan.size, 0)
    return result


def _level(plan: ConvolutionPlan, level: Level, x: FloatArray, y: FloatArray) -> _Result:
    values, bound = (part[: plan.size] for part in convolve_blocks(*plan.chunks(level, x, y), level.plan))
    scale_back((values, bound), sum(plan.exponents))
    return values, bound


def scale_back(result: _Result, exponent: int) -> None:
    """Take the scaling off, in place."""
    values, bound = result
    scale(values, exponent)
    scale(bound, exponent)
    # Either may have lost half of the smallest subnormal number, here or before it was scaled.
    bound += math.ldexp(1.0, max(exponent, 0) - 1073)


def keep_better(result: _Result, finer: _Result) -> None:
    """Replace elements, in place, where the others have the smaller bound."""
    better = finer[1] < result[1]
    for mine, other in zip(result, finer, strict=True):
        np.copyto(mine, other, where=better)


def add_towers(result: _Result, x: Vector, y: Vector, plan: ConvolutionPlan, start: int) -> None:
    """Add the products of x's towers and y, and those of y's towers and the rest of x, from element `start` on."""
    count = plan.towers[0].size + plan.towers[1].size
    if count == 0:
        return
    values, bound = result
    scratch = np.empty_like(values)
    towers_x, towers_y = plan.towers
    for towers, heights, other, rest in ((towers_x, plan.heights[0], y, False), (towers_y, plan.heights[1], x, True)):
        for position, height in zip(towers.tolist(), heights.tolist(), strict=True):
            first, last = max(start, position), min(start + values.size, position + other.size)
            if first >= last:
                continue
            products = np.multiply(other[first - position : last - position], height, out=scratch[: last - first])
            if rest:
                taken = towers_x + position
                products[taken[(taken >= first) & (taken < last)] - first] = 0.0
            values[first - start : last - start] += products
    # What is added is non-negative: no partial sum exceeds the last one's modulus by more than twice the bound.
    bound *= 1.001
    bound += (4.0 * count + 4.0) * UNIT_ROUNDOFF * np.abs(values)
    bound += math.ldexp(count + 2.0, -1074)


def end_sums(x: Vector, y: Vector) -> Ends:
    """Sum the first and the last elements directly."""
    count = min(x.size, y.size, max(_FEWEST_ENDS, min(_MAX_ENDS, max(x.size, y.size) // _ENDS_SHARE)))
    first = _direct_convolution(x[:count], y[:count])
    last = _direct_convolution(x[x.size - count : x.size], y[y.size - count : y.size])
    return (first[0][:count], first[1][:count]), (last[0][-count:], last[1][-count:])


def put_ends(result: _Result, ends: Ends, size: int, start: int) -> None:
    """Put the sums of a result of that size where they belong in its elements from `start` on."""
    count = ends[0][0].size
    for position, end in ((0, ends[0]), (size - count, ends[1])):
        first, last = max(start, position), min(start + result[0].size, position + count)
        if first < last:
            for mine, sums in zip(result, end, strict=True):
                mine[first - start : last - start] = sums[first - position : last - position]


#: More than underflow loses: at most 2^60 numbers lose 2^-1074, times at most 2^100.
_PLAIN_UNDERFLOW = 2.0**-900


def plain_error(x: FloatArray, y: FloatArray) -> float:
    """Bound the error of each element of `convolve_plainly`."""
    norms = math.sqrt(float(np.dot(x, x))) * math.sqrt(float(np.dot(y, y)))
    length = good_length(x.size + y.size - 1)
    return (3.0 * transform_error(length) + 45.0 * UNIT_ROUNDOFF) * 1.002 * norms + _PLAIN_UNDERFLOW


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
