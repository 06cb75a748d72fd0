"""The pair of several changes, one after the other: group privacy of a whole worst-case pair.

Theorem G1 of docs/granularity.md. Let (A, B) dominate one removal, and (B, A) one addition. A chain of removals and
additions leads from D to D'. For any losses ε_i that sum to ε, δ of the chain at ε is at most
δ_1(ε_1) + e^ε_1 δ_2(ε_2) + e^(ε_1 + ε_2) δ_3(ε_3) + ..

*Symmetric log-concave noise*: the best of all such sums is δ of the pair whose shift is the sum of the shifts, for any
mechanism that the pair dominates. *All others*: losses on a grid are combined, and the curve through the best sums is
the curve of a pair of histograms with exact masses.
"""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    Laplace,
    LaplaceSum,
    Pair,
    Product,
    RandomizedResponse,
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
#: Outcomes of a histogram whose ratios are all looked at.
_MOST_CORNERS = 48
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
    if isinstance(pair, LaplaceSum) or (isinstance(pair, Gaussian | Laplace) and pair.truncate is None):
        sensitivity = pair.sensitivity * times
        if Fraction(sensitivity) < Fraction(pair.sensitivity) * times:
            sensitivity = math.nextafter(sensitivity, math.inf)
        return replace(pair, sensitivity=sensitivity)
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
    grid = {1.0} | {_rounded_ratio(2.0 ** (k / _PER_OCTAVE)) for k in exponents[1:]}
    ratios = sorted(grid | {ratio for ratio in _corners(pair) if ratio <= 2.0**_MOST_OCTAVES})
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


def _corners(pair: Pair) -> set[float]:
    """Return likelihood ratios above 1 at which the curve of a finite pair has its corners, rounded up."""
    exact: list[float | Fraction] = []
    if isinstance(pair, ApproximateDP):
        exact = [math.exp(min(pair.epsilon, 700.0)) * (1.0 + 2.0**-40)]
    elif isinstance(pair, RandomizedResponse) and 0.0 < pair.p < 1.0:
        odds = Fraction(pair.p) / (1 - Fraction(pair.p))
        exact = [max(odds, 1 / odds)]
    elif isinstance(pair, Histogram) and pair.outcomes <= _MOST_CORNERS:
        p, q = (sum(map(Fraction, side)) for side in (pair.p, pair.q))
        both = [(Fraction(a) / p, Fraction(b) / q) for a, b in zip(pair.p, pair.q, strict=True) if a and b]
        exact = [max(a / b, b / a) for a, b in both]
    return {float(_up(Fraction(ratio), _RATIO_BITS)) for ratio in exact if 1 < ratio < 2**_MOST_OCTAVES}


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
    the ratio x_m, P_A x_m times that; P_A alone has δ of the last corner, P_B alone what is left of 1.
    """
    corners, slopes = _curve_above(points)
    masses_b = [after - before for before, after in pairwise(slopes)]
    masses_a = [x * mass for x, mass in zip(corners, masses_b, strict=True)]
    p = [*masses_a, 1 - sum(masses_a), Fraction(0)]
    q = [*masses_b, Fraction(0), 1 - sum(masses_b)]
    scale = math.lcm(*(mass.denominator for mass in p + q))
    return Histogram(tuple(int(mass * scale) for mass in p), tuple(int(mass * scale) for mass in q))


def _curve_above(points: list[_Point]) -> tuple[list[Fraction], list[Fraction]]:
    """Return corners of a convex curve from (0, 1) that is nowhere below points, and its slopes, the last one 0.

    All are whole multiples of powers of 2. From the last corner on, slopes are rounded down, which lifts the corners
    before it. The chord from (0, 1) to the first corner x is broken at the largest power of 2 below x: its upper part
    has a slope rounded up, by a unit at most, and x is lifted by 4x units first, so that the lower part, whose slope is
    exact, stays above the chord that was there before.
    """
    unit = Fraction(1, 2**_MASS_BITS)
    while True:
        (first, target), *rest = points
        lifted = [(first, target + 4 * unit * first), *rest]
        height, slopes = math.ceil(lifted[-1][1] / unit) * unit, [Fraction(0)]
        for (right, _), (left, wanted) in pairwise(reversed(lifted)):
            slope = math.floor((height - wanted) / (right - left) / unit) * unit
            slopes.insert(0, min(slope, slopes[0]))
            height -= slopes[0] * (right - left)
        power = _power_of_two_below(first)
        upper = math.ceil((height - 1) / first / unit) * unit
        if upper <= slopes[0]:
            break
        # Rounding has lifted the first corner above the line to the second one, or to 1.
        points = rest
    at_power = height - upper * (first - power)
    if power == first:
        return [x for x, _ in points], [(height - 1) / first, *slopes]
    return [power, *(x for x, _ in points)], [(at_power - 1) / power, upper, *slopes]


def _power_of_two_below(value: Fraction) -> Fraction:
    """Return the largest power of 2 that is at most a value."""
    power = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length())
    return power if power <= value else power / 2
