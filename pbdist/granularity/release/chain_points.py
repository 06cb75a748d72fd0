"""Points on or above the curve of a pair, and of chains of pairs: trade-off curves are composed corner by corner."""

import math
from fractions import Fraction
from typing import TypeAlias

from pbdist.arguments import DEFAULT_FLOOR
from pbdist.mechanisms import ApproximateDP, Histogram, Pair, RandomizedResponse, Reversed
from pbdist.table import bounds_table

#: A point (e^ε, δ): δ at that likelihood ratio is at most so large.
Point: TypeAlias = tuple[Fraction, Fraction]
#: Points of a curve, at most; steps of the grid of likelihood ratios in an octave.
_MOST_POINTS, _PER_OCTAVE = 128, 4
#: Octaves of the grid, and of likelihood ratios of a chain: larger ones are not told apart.
_GRID_OCTAVES, _CHAIN_OCTAVES = 40, 4096
#: An ε of one change from here on is taken for one that reveals about all.
_LARGEST_LOSS = 700.0
#: Binary digits of likelihood ratios, of δ and of 1 - δ.
_RATIO_BITS, _DELTA_BITS = 64, 200
#: Outcomes of a histogram whose ratios are all looked at.
_MOST_OUTCOMES = 1000


def power(step: list[Point], times: int) -> list[Point]:
    """Return the points of a chain of equal steps, by doubling."""
    if times == 1:
        return step
    half = power(step, times // 2)
    double = joined(half, half)
    return joined(double, step) if times % 2 else double


def joined(first: list[Point], second: list[Point]) -> list[Point]:
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


def points_of(pair: Pair) -> tuple[list[Point] | None, list[Point] | None]:
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
    there, back = (
        [(Fraction(x), min(Fraction(1), Fraction(_worth_telling(float(d))))) for x, d in zip(ratios, row, strict=True)]
        for row in table.delta_upper[:, 0]
    )
    if min(there[-1][1], back[-1][1]) == 1:
        return None, None
    curves = []
    for forwards, backwards in ((there, back), (back, there)):
        below = [(1 / x, 1 - 1 / x + d / x) for x, d in _kept_ends(backwards)[1:]]
        curves.append(_thinned(_kept_ends(forwards) + below))
    return curves[0], curves[1]


def _worth_telling(delta: float) -> float:
    """Return an upper bound on δ, no smaller than the floor unless it is 0."""
    return max(delta, DEFAULT_FLOOR) if delta > 0.0 else 0.0


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
        told, lie = (1 - revealed) * odds / (1 + odds), (1 - revealed) / (1 + odds)
        return [revealed, told, lie, Fraction(0)], [Fraction(0), lie, told, revealed]
    if isinstance(pair, Histogram) and pair.outcomes <= _MOST_OUTCOMES and not any(pair.mass_excess):
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
    if len(hull) <= _MOST_POINTS:
        return hull
    chosen = {round(index * (len(hull) - 1) / (_MOST_POINTS - 1)) for index in range(_MOST_POINTS)}
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
    smaller = _down(x, _RATIO_BITS)
    return smaller, 1 - smaller + smaller * _rounded_delta(max(d - 1 + x, Fraction(0)) / smaller)


def _rounded_delta(value: Fraction) -> Fraction:
    """Round δ up so that neither δ nor 1 - δ changes much."""
    if value <= Fraction(1, 2):
        return _up(value, _DELTA_BITS)
    return 1 - _down(1 - value, _DELTA_BITS)


def _up(value: Fraction, bits: int) -> Fraction:
    """Round a number of at least 0 up to so many binary digits."""
    return -_floored(-value, bits)


def _down(value: Fraction, bits: int) -> Fraction:
    """Round a number of at least 0 down to so many binary digits."""
    return _floored(value, bits)


def _floored(value: Fraction, bits: int) -> Fraction:
    shift = value.denominator.bit_length() - value.numerator.bit_length() + bits
    if shift < 0:
        return Fraction((value.numerator // (value.denominator << -shift)) << -shift)
    return Fraction((value.numerator << shift) // value.denominator, 1 << shift)
