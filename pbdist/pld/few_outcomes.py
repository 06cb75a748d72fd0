"""δ of a few outcomes whose probabilities are fractions: Σ max(0, a - e^ε b), summed one by one in whole numbers.

Nothing is rounded but e^ε, to either side of 60 digits, and the logarithm of the sum.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.pld.state import LARGEST_EPSILON
from pbdist.types import Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Quotients of at least that are full floats.
_FAINT = 1e-290
#: Digits of e^ε: an ε next to a loss is told apart from it.
_DIGITS = 60
#: Outcomes of all rounds together, at most, and different pairs.
_MOST, _MOST_PAIRS = 2048, 8
#: Binary digits of all outcomes, times the points and what making them costs, at most.
_MOST_WORK, _MAKING = 1_500_000_000, 20

#: Whole numbers in the place of P_A and P_B of each outcome.
_Outcomes = Sequence[tuple[int, int]]


class FewOutcomes:
    """All outcomes of some rounds.

    Parameters
    ----------
    outcomes : sequence of (int, int)
        P_A and P_B, each times its denominator.
    denominators : (int, int)
    """

    def __init__(self, outcomes: _Outcomes, denominators: tuple[int, int]) -> None:
        of_a, of_b = denominators
        # Over one denominator.
        self._outcomes = outcomes if of_a == of_b else [(a * of_b, b * of_a) for a, b in outcomes]
        self._denominator = of_a if of_a == of_b else of_a * of_b

    def log_delta(self, epsilon: FloatArray, direction: Direction) -> tuple[FloatArray, FloatArray]:
        """Return logarithms of lower and upper bounds on δ at some ε, shape (E,): -inf and 0 beyond what is read."""
        found = [self._bounds(value, direction) for value in epsilon.tolist()]
        lower, upper = (np.array(side, dtype=np.float64) for side in zip(*found, strict=True))
        return lower, upper

    def _bounds(self, epsilon: float, direction: Direction) -> tuple[float, float]:
        if epsilon > LARGEST_EPSILON:
            return -math.inf, 0.0
        swapped = direction is Direction.B_TO_A
        sums = []
        for growth in _exponential(epsilon):
            above, below = growth.numerator, growth.denominator
            gains = ((b * below - above * a if swapped else a * below - above * b) for a, b in self._outcomes)
            sums.append((sum(gain for gain in gains if gain > 0), below * self._denominator))
        (most, of_most), (least, of_least) = sums
        return _log(least, of_least, -1.0), min(_log(most, of_most, 1.0), 0.0)


def _exponential(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return lower and upper value of e^ε: `decimal` rounds it to the nearest number of so many digits."""
    with localcontext() as context:
        context.prec = _DIGITS
        grown = Fraction(Decimal(epsilon).exp())
    error = grown / 10 ** (_DIGITS - 1)
    return grown - error, grown + error


def _log(numerator: int, denominator: int, side: float) -> float:
    """Return the logarithm of a fraction, rounded up or down; those of whole numbers err by 4u of their size.

    A quotient of whole numbers is the nearest float.
    """
    if numerator == 0:
        return -math.inf
    quotient = numerator / denominator
    if quotient > _FAINT:
        log = math.log(quotient)
        return log + side * 4.0 * _U * (1.0 + abs(log))
    logs = math.log(numerator), math.log(denominator)
    return logs[0] - logs[1] + side * 8.0 * _U * (1.0 + sum(map(abs, logs)))


def few_outcomes(counts: Mapping[ElementaryPair, int], rounds: int, points: int) -> FewOutcomes | None:
    """Return the outcomes of some rounds; None where others are quicker, or their probabilities are no fractions.

    `points` is about how many δ are to be read.
    """
    if len(counts) > _MOST_PAIRS or any(pair.exact_outcomes is None for pair in counts):
        return None
    leaves, number = rounds * sum(counts.values()), 1
    for pair, count in counts.items():
        number *= math.comb(count * rounds + len(pair.exact_outcomes or ()) - 1, count * rounds)
        if number > _MOST or number * leaves * _digits(pair) * (points + _MAKING) > _MOST_WORK:
            return None
    return _composed(tuple(counts.items()), rounds)


@lru_cache(maxsize=64)
def _digits(pair: ElementaryPair) -> int:
    """Return how many binary digits the denominators of a pair have."""
    return sum(
        math.lcm(*(outcome[side].denominator for outcome in pair.exact_outcomes or ())).bit_length() for side in (0, 1)
    )


@lru_cache(maxsize=2)
def _composed(counts: tuple[tuple[ElementaryPair, int], ...], rounds: int) -> FewOutcomes:
    found: _Outcomes = [(1, 1)]
    denominators = [1, 1]
    for pair, count in counts:
        single, power = pair.exact_outcomes or (), count * rounds
        scales = [math.lcm(*(outcome[side].denominator for outcome in single)) for side in (0, 1)]
        whole = [(int(a * scales[0]), int(b * scales[1])) for a, b in single]
        denominators = [each * scale**power for each, scale in zip(denominators, scales, strict=True)]
        found = [(a * x, b * y) for a, b in found for x, y in _power(whole, power)]
    return FewOutcomes(found, (denominators[0], denominators[1]))


def _power(single: _Outcomes, power: int) -> _Outcomes:
    """Return the outcomes of so many rounds by how often each outcome of one occurs."""
    result = []
    for bars in combinations(range(power + len(single) - 1), len(single) - 1):
        ends = (-1, *bars, power + len(single) - 1)
        times = [after - before - 1 for before, after in pairwise(ends)]
        ways, left = 1, power
        for often in times:
            ways *= math.comb(left, often)
            left -= often
        result.append(
            (
                ways * math.prod(a**often for (a, _), often in zip(single, times, strict=True)),
                ways * math.prod(b**often for (_, b), often in zip(single, times, strict=True)),
            )
        )
    return result
