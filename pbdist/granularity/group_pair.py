"""The pair of several changes, one after the other: group privacy of a whole worst-case pair.

Theorem G1 of docs/granularity.md. Let (A, B) dominate one removal, and (B, A) one addition. A chain of removals and
additions leads from D to D'. For any losses ε_i that sum to ε, δ of the chain at ε is at most
δ_1(ε_1) + e^ε_1 δ_2(ε_2) + e^(ε_1 + ε_2) δ_3(ε_3) + ..

*Symmetric log-concave noise*: the best of all such sums is δ of the pair whose shift is the sum of the shifts, for any
mechanism that the pair dominates. *All others*: losses on a grid are combined, and the curve through the best sums is
the curve of a pair of histograms with exact masses.
"""

import math
from fractions import Fraction

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    Laplace,
    Pair,
    Product,
    Reversed,
)
from pbdist.table import bounds_table

__all__ = ["group_pair", "reversed_pair"]

#: A point (e^ε, δ): δ at that likelihood ratio is at most so large.
_Point = tuple[Fraction, Fraction]
#: Points of a curve, at most; steps of the grid of likelihood ratios in an octave.
_MOST_POINTS, _PER_OCTAVE = 96, 4
#: Likelihood ratios of one change above this are not told apart.
_MOST_OCTAVES = 40
#: Binary digits of likelihood ratios, and of masses.
_RATIO_BITS, _MASS_BITS = 40, 400
#: Longer chains are refused.
_MOST_CHANGES = 1000


def group_pair(pair: Pair, removed: int, added: int) -> Pair:
    """Return a pair that dominates a chain of removals and additions, in any order, and every shorter one.

    Parameters
    ----------
    pair : Pair
        (A, B) dominates one removal, and so (B, A) one addition.
    removed, added : int
        How many of each, at least 1 in all and at most 1,000.

    Returns
    -------
    Pair
        Its curve is at least δ of the chain at every ε, of either sign.
    """
    if removed + added > _MOST_CHANGES:
        raise InvalidInputError(f"changes: expected at most {_MOST_CHANGES} of one input, got {removed + added}")
    if removed + added == 1:
        return pair if removed else reversed_pair(pair)
    moved = _moved(pair, removed + added)
    return _chained(pair, removed, added) if moved is None else moved


def reversed_pair(pair: Pair) -> Pair:
    """Return (B, A); the pair itself where it is symmetric."""
    if pair.symmetric:
        return pair
    if isinstance(pair, Reversed):
        return pair.pair
    factors = [one if one.symmetric else Reversed(one) for one in pair.factors]
    return factors[0] if len(factors) == 1 else Product(*factors)


def _moved(pair: Pair, times: int) -> Pair | None:
    """Return the pair of the sum of the shifts, for symmetric log-concave noise."""
    if isinstance(pair, Gaussian | Laplace) and pair.truncate is None:
        sensitivity = pair.sensitivity * times
        if Fraction(sensitivity) < Fraction(pair.sensitivity) * times:
            sensitivity = math.nextafter(sensitivity, math.inf)
        return type(pair)(pair.scale, sensitivity)
    if isinstance(pair, DiscreteGaussian | DiscreteLaplace):
        return type(pair)(pair.scale, pair.sensitivity * times)
    return None


def _chained(pair: Pair, removed: int, added: int) -> Pair:
    removals, additions = _points(pair)
    if removals is None or additions is None:
        return ApproximateDP(0.0, 1.0)
    parts = [_power(step, times) for step, times in ((removals, removed), (additions, added)) if times]
    return _pair_of(parts[0] if len(parts) == 1 else _joined(*parts))


def _power(step: list[_Point], times: int) -> list[_Point]:
    """Return the points of a chain of equal steps, by doubling."""
    if times == 1:
        return step
    half = _power(step, times // 2)
    double = _joined(half, half)
    return _joined(double, step) if times % 2 else double


def _joined(first: list[_Point], second: list[_Point]) -> list[_Point]:
    return _thinned([(x * y, d + x * e) for x, d in first for y, e in second])


def _points(pair: Pair) -> tuple[list[_Point] | None, list[_Point] | None]:
    """Return points of the curves of (A, B) and (B, A), also at likelihood ratios below 1; None where all is revealed.

    δ of (A, B) at 1/x is 1 - 1/x + δ of (B, A) at x, over x.
    """
    exponents = range(_MOST_OCTAVES * _PER_OCTAVE + 1)
    ratios = [1.0] + [_rounded_ratio(2.0 ** (k / _PER_OCTAVE)) for k in exponents[1:]]
    # At slightly less than ln x, δ is at least that at x.
    epsilon = [max(math.log(x) * (1.0 - 2.0**-50), 0.0) for x in ratios]
    table = bounds_table([(pair, 1)], compositions=1, epsilon=epsilon, strict=False)
    there, back = (
        [(Fraction(x), min(Fraction(1), Fraction(float(d)))) for x, d in zip(ratios, row, strict=True)]
        for row in table.delta_upper[:, 0]
    )
    if min(there[-1][1], back[-1][1]) == 1:
        return None, None
    curves = []
    for forwards, backwards in ((there, back), (back, there)):
        below = [(1 / x, 1 - 1 / x + d / x) for x, d in backwards[1:]]
        curves.append(_thinned(_kept_ends(forwards) + below))
    return curves[0], curves[1]


def _rounded_ratio(ratio: float) -> float:
    """Return a ratio with few digits, and powers of 2 as they are."""
    fraction, exponent = math.frexp(ratio)
    return math.ldexp(round(fraction * 2.0**20) / 2.0**20, exponent)


def _kept_ends(points: list[_Point]) -> list[_Point]:
    """Leave out the points from which on δ falls no more."""
    last = points[-1][1]
    needed = next(index for index, (_, d) in enumerate(points) if d == last)
    return points[: needed + 1]


def _thinned(points: list[_Point]) -> list[_Point]:
    """Return points of the lower convex hull, fewer where there are too many, with ratios and δ rounded up.

    A larger ratio has a smaller δ, so that both may be rounded up. The hull of upper bounds of a convex function at
    points is an upper bound everywhere between them.
    """
    rounded = sorted({(_up(x, _RATIO_BITS), min(Fraction(1), d)) for x, d in points})
    hull = _hull(rounded)
    if len(hull) <= _MOST_POINTS:
        return hull
    chosen = {round(index * (len(hull) - 1) / (_MOST_POINTS - 1)) for index in range(_MOST_POINTS)}
    return [hull[index] for index in sorted(chosen)]


def _hull(points: list[_Point]) -> list[_Point]:
    """Return the corners of the lower convex hull of points and of (0, 1), without (0, 1), where δ falls."""
    corners: list[_Point] = [(Fraction(0), Fraction(1))]
    for x, d in points:
        if d >= corners[-1][1]:
            continue
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) >= _slope(corners[-2], (x, d)):
            corners.pop()
        corners.append((x, d))
    return corners[1:]


def _slope(first: _Point, second: _Point) -> Fraction:
    return (second[1] - first[1]) / (second[0] - first[0])


def _up(value: Fraction, bits: int) -> Fraction:
    """Round up to so many binary digits."""
    shift = value.denominator.bit_length() - value.numerator.bit_length() + bits
    unit = Fraction(2) ** -shift
    return math.ceil(value / unit) * unit


def _pair_of(points: list[_Point]) -> Pair:
    """Return the pair of histograms whose curve goes through points, or a little above.

    Between corners x_m the curve has slopes s_m, which rise to 0 at the last corner. P_B has the mass s_m - s_(m-1) at
    the ratio x_m, P_A x_m times that; P_A alone has δ of the last corner, P_B alone what is left of 1. The slopes are
    rounded down to whole units, from the last corner on, which lifts the curve; the first one, from (0, 1), is exact,
    as the first ratio is a power of 2.
    """
    unit = Fraction(1, 2**_MASS_BITS)
    corners = _with_power_of_two(points)
    while True:
        height = _ceiling(corners[-1][1], unit)
        slopes: list[Fraction] = []
        for (x, d), (y, _) in zip(corners[-2::-1], corners[:0:-1], strict=True):
            slope = math.floor((height - max(d, height)) / (y - x) / unit) * unit
            slopes.insert(0, min(slope, slopes[0]) if slopes else slope)
            height -= slopes[0] * (y - x)
        first = (height - 1) / corners[0][0]
        if not slopes or first <= slopes[0]:
            break
        # Rounding has lifted the first corner above the line to the second one.
        corners = _with_power_of_two(corners[1:])
    slopes = [first, *slopes, Fraction(0)]
    masses_b = [after - before for before, after in zip(slopes[:-1], slopes[1:], strict=True)]
    masses_a = [x * mass for (x, _), mass in zip(corners, masses_b, strict=True)]
    p = [*masses_a, 1 - sum(masses_a), Fraction(0)]
    q = [*masses_b, Fraction(0), 1 - sum(masses_b)]
    scale = math.lcm(*(mass.denominator for mass in p + q))
    return Histogram(tuple(int(mass * scale) for mass in p), tuple(int(mass * scale) for mass in q))


def _with_power_of_two(points: list[_Point]) -> list[_Point]:
    """Return points that begin at a power of 2: the first ratio rounded up to one, where the curve is at its chord."""
    x, d = points[0]
    power = Fraction(2) ** math.ceil(math.log2(x))
    while power < x:
        power *= 2
    if power == x:
        return points
    before = [point for point in points if point[0] < power]
    after = [point for point in points if point[0] >= power]
    if not after:
        return [(power, before[-1][1])]
    if after[0][0] == power:
        return after
    return [(power, before[-1][1]), *after]


def _ceiling(value: Fraction, unit: Fraction) -> Fraction:
    return math.ceil(value / unit) * unit
