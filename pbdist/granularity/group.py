"""The worst-case pair of a group: what several individuals together change, at most.

`group` is for one kind of change, `group_pair` for a chain of removals and additions (Theorem G1 of
docs/granularity.md). Let (A, B) dominate one removal, and (B, A) one addition, and let a chain of both lead from D to
D'. For any losses ε_i that sum to ε, δ of the chain at ε is at most
δ_1(ε_1) + e^ε_1 δ_2(ε_2) + e^(ε_1 + ε_2) δ_3(ε_3) + ..

*Symmetric log-concave noise*: the best of all such sums is δ of the pair whose shift is the sum of the shifts, for any
mechanism that the pair dominates. *All others*: points of the curves are combined, those of pairs of a few outcomes at
all their corners, of others on a grid, and the curve through the best sums is that of a pair of histograms with exact
masses.
"""

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from pbdist.arguments import DEFAULT_FLOOR
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import (
    ApproximateDP,
    ElementaryPair,
    Histogram,
    Pair,
    Product,
    RandomizedResponse,
    Reversed,
    WorstOf,
)
from pbdist.mechanisms.declaration import checked_integer
from pbdist.table import bounds_table
from pbdist.types import Adjacency, Direction

#: A point (e^ε, δ): δ at that likelihood ratio is at most so large.
Point: TypeAlias = tuple[Fraction, Fraction]
#: Points of a curve, at most; steps of the grid of likelihood ratios in an octave.
_MAX_POINTS, _PER_OCTAVE = 128, 4
#: Octaves of the grid, and of likelihood ratios of a chain: larger ones count as the largest.
_GRID_OCTAVES, _CHAIN_OCTAVES = 40, 4096
#: An ε of one change from here on is taken for one that reveals about all.
_LARGEST_LOSS = 700.0
#: Binary digits of likelihood ratios, of δ and of 1 - δ.
_RATIO_BITS, _DELTA_BITS = 64, 200
#: Outcomes of a histogram whose ratios are all looked at.
_MAX_OUTCOMES = 1000
#: Larger groups are refused.
_LARGEST_GROUP = 10**9
#: Longer chains are refused.
_MAX_CHANGES = 1000


def group(pair: Pair, size: int) -> Pair:
    """Return a pair that dominates what a group of individuals changes: group privacy of a whole worst-case pair.

    Parameters
    ----------
    pair : Pair
        The worst case of one individual: (A, B) for its removal and (B, A) for its addition, or either order where
        neighbours replace a record.
    size : int
        How many individuals differ, at most: all are removed, all are added, or each is replaced.

    Returns
    -------
    Pair
        For the same neighbours, `size` of them in a row (Theorem 44 of docs/theory.md). Exact, the pair of `size` times
        the sensitivity, for noise that is added: `Laplace`, `Gaussian`, also truncated, `LaplaceSum`,
        `DiscreteLaplace`, `DiscreteGaussian` and `Poisson`. For `SubsampledGaussian` a `SubsampledGaussianGroup`: each
        individual is sampled by itself, and both bounds are close to what the group changes (Theorem 45).
        `BoundedRange` of `size` times η, which is the worst of all mechanisms of that range. For all others a pair of
        histograms that is nowhere below the best chain of `size` steps, and may be above what the group changes: it
        comes as a `WorstOf` that is not attained, without lower bounds. A product factor by factor.

    Raises
    ------
    InvalidInputError
        If the size is no whole number of at least 1, or above 100,000 on samples; for the worst of several pairs, as
        the steps of a chain may follow different ones; and for a reversed `SubsampledGaussian`.

    Examples
    --------
    >>> from pbdist import Gaussian, group
    >>> group(Gaussian(4.0), 3)
    Gaussian(scale=4.0, sensitivity=3.0, truncate=None)
    """
    times = checked_integer("group", "size", size, minimum=1, maximum=_LARGEST_GROUP)
    given: Any = pair
    if not isinstance(given, Pair) or pair.is_worst_of_several:
        raise InvalidInputError(
            f"group.pair: expected one worst-case pair, not the worst of several: a group may follow several of them,"
            f" got {shown(pair)}"
        )
    if times == 1:
        return pair
    parts = pair.pairs if isinstance(pair, Product) else (pair,)
    found = [_of(factor, times) for part in parts for factor in part.factors]
    whole = Product(*(one for one, _ in found)) if isinstance(pair, Product) else found[0][0]
    if all(exact for _, exact in found):
        return whole
    # Of a factor that is known from both sides the pair that dominates it.
    above = [one.enclosing_pairs[0] if one.enclosing_pairs else one for one, _ in found]
    neighbours = Adjacency.ADD_OR_REMOVE_GROUP if pair.adjacency is Adjacency.ADD_OR_REMOVE else None
    return WorstOf(Product(*above) if isinstance(pair, Product) else above[0], attained=(False,), neighbours=neighbours)


def _of(pair: ElementaryPair, times: int) -> tuple[Pair, bool]:
    """Return the pair of a group, and whether it is what the group changes and not only above it."""
    inner, found, exact = pair.inner, pair.inner.of_group(times), True
    if found is None:
        # A chain of one pair is one pair.
        found, exact = group_pair(inner, times, 0).factors[0], inner.neutral
    if pair.facing(Direction.A_TO_B)[1] is Direction.A_TO_B:
        return found, exact
    if not isinstance(found, ElementaryPair):
        raise InvalidInputError(
            f"group.pair: expected a pair that is not reversed, got {shown(pair)}: what a group on samples changes"
            " is bounded by two pairs, for which there is no reversed one"
        )
    return Reversed(found), exact


def group_pair(pair: Pair, removed: int, added: int) -> Pair:
    """Return a pair that dominates a chain of removals, and of additions after them, and every shorter one.

    Its curve is at least δ of the chain at every ε, of either sign.

    Parameters
    ----------
    pair : Pair
        (A, B) dominates one removal, and so (B, A) one addition.
    removed, added : int
        How many of each, at least 1 in all, and at most 1,000 but for symmetric log-concave noise.
    """
    if removed + added == 1:
        return pair if removed else reversed_pair(pair)
    if all(factor.neutral for factor in pair.factors):
        return pair
    moved: Pair | None = pair.moved(removed + added) if isinstance(pair, ElementaryPair) else None
    if moved is not None:
        return moved
    if removed + added > _MAX_CHANGES:
        raise InvalidInputError(
            f"changes: expected at most {_MAX_CHANGES} records removed from or added to one input, as no pair is known"
            f" for more of {shown(pair)}, got {removed + added}"
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
    removals, additions = _points_of(pair)
    if removals is None or additions is None:
        return ApproximateDP(0.0, 1.0)
    parts = [_power(step, times) for step, times in ((removals, removed), (additions, added)) if times]
    points = parts[0] if len(parts) == 1 else _joined(*parts)
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


def _power(step: list[Point], times: int) -> list[Point]:
    """Return the points of a chain of equal steps, by doubling."""
    if times == 1:
        return step
    half = _power(step, times // 2)
    double = _joined(half, half)
    return _joined(double, step) if times % 2 else double


def _joined(first: list[Point], second: list[Point]) -> list[Point]:
    """Return points of a chain: sums of one point of each, of which only those on the lower hull are built.

    The best sums are least lines d + x (e + y α) for an α in [0, 1]. As α grows, both x and y fall. There are no points
    where one of the two reveals all.
    """
    if not first or not second:
        return []
    outer, inner = first[::-1], second[::-1]
    found, i, j = [(0, 0)], 0, 0
    while i + 1 < len(outer) or j + 1 < len(inner):
        outer_end = -_slope(outer[i], outer[i + 1]) if i + 1 < len(outer) else None
        inner_end = inner[j][1] - inner[j][0] * _slope(inner[j], inner[j + 1]) if j + 1 < len(inner) else None
        if inner_end is None or (outer_end is not None and outer_end <= inner_end):
            i += 1
        else:
            j += 1
        found.append((i, j))
    return _thinned([(outer[i][0] * inner[j][0], outer[i][1] + outer[i][0] * inner[j][1]) for i, j in found])


def _points_of(pair: Pair) -> tuple[list[Point] | None, list[Point] | None]:
    """Return points of the curves of (A, B) and (B, A), also at likelihood ratios below 1; None where all is revealed.

    Of pairs with a few outcomes they are all corners, exactly. Of others δ of (A, B) at 1/x is 1 - 1/x + d / x, where d
    is δ of (B, A) at x.
    """
    masses = _finite_masses(pair)
    if masses is not None:
        p, q = masses
        return _points_of_masses(p, q), _points_of_masses(q, p)
    exponents = range(_GRID_OCTAVES * _PER_OCTAVE + 1)
    grid = {1.0} | {_rounded_ratio(2.0 ** (k / _PER_OCTAVE)) for k in exponents[1:]}
    ratios = sorted(grid)
    # At slightly less than ln x, δ is at least that at x. Of what is next to nothing no points are needed.
    epsilon = [max(math.log(x) * (1.0 - 2.0**-50), 0.0) for x in ratios]
    table = bounds_table([(pair, 1)], compositions=1, epsilon=epsilon, strict=False)
    # No smaller than the floor unless it is 0.
    delta = np.where(table.delta_upper > 0.0, np.clip(table.delta_upper, DEFAULT_FLOOR, 1.0), 0.0)[:, 0]
    there, back = ([(Fraction(x), Fraction(d)) for x, d in zip(ratios, row.tolist(), strict=True)] for row in delta)
    if min(there[-1][1], back[-1][1]) == 1:
        return None, None
    curves = []
    for forwards, backwards in ((there, back), (back, there)):
        below = [(1 / x, 1 - 1 / x + d / x) for x, d in _kept_ends(backwards)[1:]]
        curves.append(_thinned(_kept_ends(forwards) + below))
    return curves[0], curves[1]


def _finite_masses(pair: Pair) -> tuple[list[Fraction], list[Fraction]] | None:
    """Return exact masses of a pair with a few outcomes, or of one that dominates it; None of all others."""
    if isinstance(pair, Reversed):
        masses = _finite_masses(pair.pair)
        return None if masses is None else masses[::-1]
    if isinstance(pair, RandomizedResponse):
        truth = Fraction(pair.p)
        return [truth, 1 - truth], [1 - truth, truth]
    if isinstance(pair, ApproximateDP) and pair.epsilon < _LARGEST_LOSS:
        # e^ε is rounded up.
        odds = 1 + Fraction(math.expm1(pair.epsilon)) * (1 + Fraction(1, 2**50))
        revealed = Fraction(pair.delta)
        truth, lie = (1 - revealed) * odds / (1 + odds), (1 - revealed) / (1 + odds)
        return [revealed, truth, lie, Fraction(0)], [Fraction(0), lie, truth, revealed]
    if isinstance(pair, Histogram) and pair.outcomes <= _MAX_OUTCOMES and not any(pair.mass_excess):
        p, q = (sum(map(Fraction, side)) for side in (pair.p, pair.q))
        return [Fraction(a) / p for a in pair.p], [Fraction(b) / q for b in pair.q]
    return None


def _points_of_masses(p: list[Fraction], q: list[Fraction]) -> list[Point]:
    """Return the corners of δ: at the likelihood ratios of the outcomes."""
    outcomes = sorted(((a / b, a, b) for a, b in zip(p, q, strict=True) if b), reverse=True)
    above_a = sum((a for a, b in zip(p, q, strict=True) if not b), Fraction(0))
    above_b, found = Fraction(0), []
    for ratio, a, b in outcomes:
        if ratio > 0:
            # Of all outcomes with a larger ratio; those with the same one add nothing.
            found.append((ratio, above_a - ratio * above_b))
        above_a, above_b = above_a + a, above_b + b
    return _thinned(found)


def _rounded_ratio(ratio: float) -> float:
    """Return a ratio with few digits, and powers of 2 as they are."""
    fraction, exponent = math.frexp(ratio)
    return math.ldexp(round(fraction * 2.0**20) / 2.0**20, exponent)


def _kept_ends(points: list[Point]) -> list[Point]:
    """Leave out the points from which on δ falls no more."""
    last = points[-1][1]
    needed = next(index for index, (_, d) in enumerate(points) if d == last)
    return points[: needed + 1]


def _thinned(points: list[Point]) -> list[Point]:
    """Return points of the lower convex hull, fewer where there are too many, with few digits.

    The hull of upper bounds of a convex function at points is an upper bound everywhere between them, and so it is
    without some of the points.
    """
    least, most = Fraction(1, 2**_CHAIN_OCTAVES), Fraction(2**_CHAIN_OCTAVES)
    rounded = sorted({_rounded(x, d) for x, d in points if d < 1 and least <= x <= most})
    hull = _hull(rounded)
    if len(hull) <= _MAX_POINTS:
        return hull
    chosen = {round(index * (len(hull) - 1) / (_MAX_POINTS - 1)) for index in range(_MAX_POINTS)}
    return [hull[index] for index in sorted(chosen)]


def _hull(points: list[Point]) -> list[Point]:
    """Return the corners of the lower convex hull of points and of (0, 1), without (0, 1), where δ falls."""
    corners: list[Point] = [(Fraction(0), Fraction(1))]
    for x, d in points:
        if d >= corners[-1][1]:
            continue
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) >= _slope(corners[-2], (x, d)):
            corners.pop()
        corners.append((x, d))
    return corners[1:]


def _slope(first: Point, second: Point) -> Fraction:
    return (second[1] - first[1]) / (second[0] - first[0])


def _rounded(x: Fraction, d: Fraction) -> Point:
    """Return a point with few digits that is no less than one: of a larger ratio, or of a smaller one below 1.

    A larger ratio has a smaller δ. Below 1, that is said of the other direction, δ of which at 1/x is (d - 1 + x) / x.
    """
    if x >= 1:
        return _up(x, _RATIO_BITS), _rounded_delta(d)
    smaller = _floored(x, _RATIO_BITS)
    return smaller, 1 - smaller + smaller * _rounded_delta(max(d - 1 + x, Fraction(0)) / smaller)


def _rounded_delta(value: Fraction) -> Fraction:
    """Round δ up so that neither δ nor 1 - δ changes much."""
    if value <= Fraction(1, 2):
        return _up(value, _DELTA_BITS)
    return 1 - _floored(1 - value, _DELTA_BITS)


def _up(value: Fraction, bits: int) -> Fraction:
    """Round a number of at least 0 up to so many binary digits."""
    return -_floored(-value, bits)


def _floored(value: Fraction, bits: int) -> Fraction:
    """Round a number down to so many binary digits."""
    shift = value.denominator.bit_length() - value.numerator.bit_length() + bits
    if shift < 0:
        return Fraction((value.numerator // (value.denominator << -shift)) << -shift)
    return Fraction((value.numerator << shift) // value.denominator, 1 << shift)
