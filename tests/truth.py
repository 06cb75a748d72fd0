"""What the exact truth says about a float bound, with no tolerance.

A float ε is the number that it is; its y = e^ε lies between two rational numbers 1e-58 apart, and δ does not rise with
y. So the truth lies between the δ at the larger one, which no lower bound may exceed, and the δ at the smaller one,
below which no upper bound may fall.
"""

import math
from fractions import Fraction

import mpmath

from pbdist.buckets import exact_truth
from pbdist.mechanisms import Histogram
from pbdist.types import Direction
from tests.strategies import CountedPair


def histogram(pair: CountedPair) -> Histogram:
    return Histogram(pair.p_counts, pair.q_counts)


def bracketed_exp(epsilon: float) -> tuple[Fraction, Fraction]:
    """Rational numbers around e^ε for the very number that the float is, 1e-58 apart relatively; (1, 1) at 0."""
    if epsilon == 0.0:
        return Fraction(1), Fraction(1)
    with mpmath.workdps(60):
        value = mpmath.exp(mpmath.mpf(epsilon))
        mantissa, exponent = int(value.man), int(value.exp)
    rational = Fraction(mantissa) * Fraction(2) ** exponent
    slack = rational / 10**58
    return rational - slack, rational + slack


def enclosed_truth(table: exact_truth.OutcomeTable, epsilon: float, direction: Direction) -> tuple[Fraction, Fraction]:
    """Rational numbers around the exact δ, at most 1e-57 e^ε apart; equal at ε = 0."""
    y_below, y_above = bracketed_exp(epsilon)
    smallest = exact_truth.table_hockey_stick(table, y_above, direction)
    largest = exact_truth.table_hockey_stick(table, y_below, direction)
    return smallest, largest


def assert_bracketed(
    lower: float, upper: float, enclosure: tuple[Fraction, Fraction], epsilon: float, which: str
) -> None:
    smallest, largest = enclosure
    assert math.isfinite(upper), (which, epsilon, upper)
    assert 0 <= Fraction(lower) <= smallest, (which, epsilon, lower, float(smallest))
    assert largest <= Fraction(upper), (which, epsilon, float(largest), upper)
