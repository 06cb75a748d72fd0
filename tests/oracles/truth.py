"""What the exact truth says about a float bound, with no tolerance.

A float ε is the number that it is; its y = e^ε lies between two rational numbers 1e-58 apart, and δ does not rise with
y. So the truth lies between the δ at the larger one, which no lower bound may exceed, and the δ at the smaller one,
below which no upper bound may fall.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import mpmath

from pbdist.mechanisms import Histogram
from pbdist.types import Direction
from tests.oracles import exact_truth
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
    # e^ε is at least 1 + ε, which matters where ε is less than what the digits tell.
    return max(rational - slack, 1 + Fraction(epsilon)), rational + slack


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


class ProductTruth:
    """δ of a composition of finite pairs, outcome by outcome in integers: fast for thousands of compositions.

    Parameters
    ----------
    factors : sequence of (outcomes, int)
        Outcomes as integers (a, b): P_A and P_B masses in units that sum to about `total_a` and `total_b`; how often.
    totals : sequence of (int, int)
        The units of each factor.
    slack : Fraction, optional
        What the integers may miss of the true masses of all factors together, in the 1-norm.
    """

    def __init__(
        self,
        factors: Sequence[tuple[Sequence[tuple[int, int]], int]],
        totals: Sequence[tuple[int, int]],
        slack: Fraction = Fraction(0),
    ) -> None:
        merged: list[tuple[int, int]] = [(1, 1)]
        self.denominators = (1, 1)
        for (outcomes, count), (total_a, total_b) in zip(factors, totals, strict=True):
            power = _power(outcomes, count)
            merged = [(a * c, b * d) for a, b in merged for c, d in power]
            self.denominators = (self.denominators[0] * total_a**count, self.denominators[1] * total_b**count)
        self.slack = slack
        offset = math.log(self.denominators[1]) - math.log(self.denominators[0])
        self._sides = {}
        for direction in Direction:
            sign = 1 if direction is Direction.A_TO_B else -1
            rows = [(_loss(a, b, offset) * sign, *((a, b)[::sign])) for a, b in merged if (a, b)[::sign][0]]
            rows.sort(key=lambda row: -row[0])
            sums = (
                list(accumulate((row[1] for row in rows), initial=0)),
                list(accumulate((row[2] for row in rows), initial=0)),
            )
            self._sides[direction] = ([-row[0] for row in rows], rows, sums)

    @property
    def losses(self) -> list[float]:
        """Finite losses that occur, A to B."""
        return [-x for x in self._sides[Direction.A_TO_B][0] if math.isfinite(x)]

    def at(self, epsilon: float, direction: Direction) -> tuple[Fraction, Fraction]:
        """Rational numbers around δ(ε)."""
        below, above = bracketed_exp(epsilon)
        slack = self.slack * (1 + above)
        smallest, largest = (self._hockey_stick(y, epsilon, direction) for y in (above, below))
        if slack == 0:
            return smallest, largest
        return max(smallest - slack, Fraction(0)), min(largest + slack, Fraction(1))

    def _hockey_stick(self, y: Fraction, epsilon: float, direction: Direction) -> Fraction:
        total_a, total_b = self.denominators[:: 1 if direction is Direction.A_TO_B else -1]
        negated, rows, (sums_a, sums_b) = self._sides[direction]
        unit_a, unit_b = total_b * y.denominator, total_a * y.numerator
        # The floats of the losses are good to 1e-9: only the losses next to ε are compared exactly.
        sure, perhaps = bisect_left(negated, -epsilon - 1e-6), bisect_right(negated, -epsilon + 1e-6)
        total = sums_a[sure] * unit_a - sums_b[sure] * unit_b
        total += sum(max(0, a * unit_a - b * unit_b) for _, a, b in rows[sure:perhaps])
        return Fraction(total, total_a * total_b * y.denominator)


def _loss(a: int, b: int, offset: float) -> float:
    if a == 0 or b == 0:
        return math.inf if b == 0 else -math.inf
    return math.log(a) - math.log(b) + offset


def _power(outcomes: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Every outcome of `count` repeats, with how often it occurs as a factor of both masses."""
    if len(outcomes) == 1:
        return [(outcomes[0][0] ** count, outcomes[0][1] ** count)]
    (a, b), *others = outcomes
    rest = _powers(others, count)
    first: list[tuple[int, int]] = [(1, 1)]
    for _ in range(count):
        first.append((first[-1][0] * a, first[-1][1] * b))
    ways = 1
    result = []
    for k in range(count + 1):
        x, y = first[k]
        if x or y:
            result += [(ways * x * c, ways * y * d) for c, d in rest[count - k] if x * c or y * d]
        ways = ways * (count - k) // (k + 1)
    return result


def _powers(outcomes: Sequence[tuple[int, int]], count: int) -> list[list[tuple[int, int]]]:
    if len(outcomes) > 1:
        return [_power(outcomes, k) for k in range(count + 1)]
    powers: list[list[tuple[int, int]]] = [[(1, 1)]]
    for _ in range(count):
        powers.append([(powers[-1][0][0] * outcomes[0][0], powers[-1][0][1] * outcomes[0][1])])
    return powers


def log_of(value: Fraction) -> mpmath.mpf:
    """ln of a positive rational number to 50 digits at least."""
    with mpmath.workdps(60):
        return mpmath.log(mpmath.mpf(value.numerator)) - mpmath.log(mpmath.mpf(value.denominator))


def brackets_log(log_lower: float, log_upper: float, enclosure: tuple[Fraction, Fraction]) -> bool:
    """Whether logarithms of bounds hold for a truth within the enclosure; a NaN never does."""
    smallest, largest = enclosure
    with mpmath.workdps(60):
        below = log_lower == -math.inf or (
            smallest > 0 and math.isfinite(log_lower) and mpmath.mpf(log_lower) <= log_of(smallest)
        )
        above = log_upper < math.inf and (
            largest == 0 or (log_upper > -math.inf and mpmath.mpf(log_upper) >= log_of(largest))
        )
    return bool(below and above)
