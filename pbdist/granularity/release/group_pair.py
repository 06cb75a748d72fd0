"""The pair of several changes, one after the other: group privacy of a whole worst-case pair.

Theorem G1 of docs/granularity.md. Let (A, B) dominate one removal, and (B, A) one addition. A chain of removals and
additions leads from D to D'. For any losses ε_i that sum to ε, δ of the chain at ε is at most
δ_1(ε_1) + e^ε_1 δ_2(ε_2) + e^(ε_1 + ε_2) δ_3(ε_3) + ..

*Symmetric log-concave noise*: the best of all such sums is δ of the pair whose shift is the sum of the shifts, for any
mechanism that the pair dominates. *All others*: points of the curves are combined, those of pairs of a few outcomes at
all their corners, of others on a grid, and the curve through the best sums is that of a pair of histograms with exact
masses.
"""

import math
from fractions import Fraction
from itertools import pairwise

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.release.chain_points import Point, joined, points_of, power
from pbdist.mechanisms import ApproximateDP, ElementaryPair, Histogram, Pair, Product, Reversed

#: Longer chains are refused.
_MOST_CHANGES = 1000


def group_pair(pair: Pair, removed: int, added: int) -> Pair:
    """Return a pair that dominates a chain of removals, and of additions after them, and every shorter one.

    Parameters
    ----------
    pair : Pair
        (A, B) dominates one removal, and so (B, A) one addition.
    removed, added : int
        How many of each, at least 1 in all, and at most 1,000 but for symmetric log-concave noise.

    Returns
    -------
    Pair
        Its curve is at least δ of the chain at every ε, of either sign.
    """
    if removed + added == 1:
        return pair if removed else reversed_pair(pair)
    if all(factor.neutral for factor in pair.factors):
        return pair
    moved: Pair | None = pair.moved(removed + added) if isinstance(pair, ElementaryPair) else None
    if moved is not None:
        return moved
    if removed + added > _MOST_CHANGES:
        raise InvalidInputError(
            f"changes: expected at most {_MOST_CHANGES} records of one input removed or added, got {removed + added},"
            f" for a pair whose shifts do not add up, {shown(pair)}"
        )
    return _chained(pair, removed, added)


def reversed_pair(pair: Pair) -> Pair:
    """Return (B, A); the pair itself where it is symmetric."""
    if pair.symmetric:
        return pair
    if isinstance(pair, Reversed):
        return pair.pair
    factors = [one if one.symmetric else Reversed(one) for one in pair.factors]
    return factors[0] if len(factors) == 1 else Product(*factors)


def _chained(pair: Pair, removed: int, added: int) -> Pair:
    removals, additions = points_of(pair)
    if removals is None or additions is None:
        return ApproximateDP(0.0, 1.0)
    parts = [power(step, times) for step, times in ((removals, removed), (additions, added)) if times]
    points = parts[0] if len(parts) == 1 else joined(*parts)
    curve = _curve_above(points) if points else None
    return ApproximateDP(0.0, 1.0) if curve is None else _pair_of(*curve)


def _pair_of(corners: list[Fraction], slopes: list[Fraction]) -> Pair:
    """Return the pair of histograms of a curve that ends in a slope of 0.

    Between corners x_m the curve has slopes s_m, which rise to 0 at the last corner. P_B has the mass s_m - s_(m-1) at
    the ratio x_m, P_A x_m times that; P_A alone has δ of the last corner, P_B alone what is left of 1.
    """
    masses_b = [after - before for before, after in pairwise(slopes)]
    masses_a = [x * mass for x, mass in zip(corners, masses_b, strict=True)]
    p = [*masses_a, 1 - sum(masses_a), Fraction(0)]
    q = [*masses_b, Fraction(0), 1 - sum(masses_b)]
    scale = math.lcm(*(mass.denominator for mass in p + q))
    return Histogram(tuple(int(mass * scale) for mass in p), tuple(int(mass * scale) for mass in q))


def _curve_above(points: list[Point]) -> tuple[list[Fraction], list[Fraction]] | None:
    """Return corners of a convex curve from (0, 1) that is nowhere below points, and its slopes, the last one 0.

    None where it is 1 everywhere.

    All are whole multiples of powers of 2. From the last corner on, slopes are rounded down, which lifts the corners
    before it. The chord from (0, 1) to the first corner x is broken at the largest power of 2 below x: its upper part
    has a slope rounded up, by a unit at most, and x is lifted by 4x units first, so that the lower part, whose slope is
    exact, stays above the chord that was there before.
    """
    unit = _small_unit(points)
    while points:
        (first, target), *rest = points
        lifted = [(first, target + 4 * unit * first), *rest]
        height, slopes = math.ceil(lifted[-1][1] / unit) * unit, [Fraction(0)]
        for (right, _), (left, wanted) in pairwise(reversed(lifted)):
            slope = math.floor((height - wanted) / (right - left) / unit) * unit
            slopes.insert(0, min(slope, slopes[0]))
            height -= slopes[0] * (right - left)
        below = _power_of_two_below(first)
        upper = math.ceil((height - 1) / first / unit) * unit
        if upper <= slopes[0]:
            break
        # Rounding has lifted the first corner above the line to the second one, or to 1.
        points = rest
    else:
        return None
    at_power = height - upper * (first - below)
    if below == first:
        return [x for x, _ in points], [(height - 1) / first, *slopes]
    return [below, *(x for x, _ in points)], [(at_power - 1) / below, upper, *slopes]


def _small_unit(points: list[Point]) -> Fraction:
    """Return a power of 2 so small that to round to its multiples moves no corner of a curve by much."""
    (first, _), (last, least) = points[0], points[-1]
    sizes = [last, 1 / first, 1 / least if least else Fraction(1)]
    return Fraction(1, 2 ** (400 + sum(max(math.ceil(size).bit_length(), 0) for size in sizes)))


def _power_of_two_below(value: Fraction) -> Fraction:
    """Return the largest power of 2 that is at most a value."""
    below = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length())
    return below if below <= value else below / 2
