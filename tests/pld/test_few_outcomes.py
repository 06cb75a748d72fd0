"""A few outcomes, summed in whole numbers: against exact fractions and fifty digits."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from pbdist import epsilon_bounds
from pbdist.mechanisms import (
    ElementaryPair,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    RandomizedResponse,
    Reversed,
)
from pbdist.pld.closed_form import _exponential, _log, few_outcomes
from pbdist.types import Direction
from tests.effort import SEED, times


def drawn(rng: np.random.Generator) -> ElementaryPair:
    size, faint = int(rng.integers(2, 5)), 10.0 ** -float(rng.integers(10, 300))
    p, q = (rng.integers(0, 4, size).tolist() for _ in "AB")
    p[0], q[-1] = p[0] + 1, q[-1] + 1
    share = float(rng.uniform(0.1, 0.9))
    pairs: list[ElementaryPair] = [
        Histogram(tuple(p), tuple(q)),
        Reversed(Histogram(tuple(p), tuple(q))),
        Histogram((faint, 1.0 - share, share), (share, 1.0 - share, 0.0)),
        RandomizedResponse(float(rng.choice([rng.uniform(0.0, 1.0), faint, 1.0]))),
        KaryRandomizedResponse(float(rng.uniform(0.01, 0.99)), int(rng.integers(2, 6))),
    ]
    return pairs[rng.integers(len(pairs))]


@pytest.mark.slow
def test_bounds_meet_around_the_exact_sum() -> None:
    rng = np.random.default_rng(SEED)
    answered = 0
    with mpmath.workdps(400):
        for _ in range(times(90)):
            counts = {drawn(rng): int(rng.integers(1, 3)) for _ in range(int(rng.integers(1, 3)))}
            rounds = int(rng.integers(1, 3))
            known = few_outcomes(counts, rounds, 4)
            if known is None:
                continue
            answered += 1
            factors = [pair.exact_outcomes or () for pair, count in counts.items() for _ in range(count * rounds)]
            epsilon = np.array([0.0, 1e-9, rng.uniform(0.0, 3.0), rng.uniform(0.0, 600.0)])
            for direction in Direction:
                lower, upper = known[direction].log_delta(epsilon)
                for value, low, high in zip(epsilon.tolist(), lower.tolist(), upper.tolist(), strict=True):
                    growth, exact = mpmath.exp(value), mpmath.mpf(0)
                    for chosen in product(*factors):
                        a, b = (math.prod((one[side] for one in chosen), start=Fraction(1)) for side in (0, 1))
                        a, b = (a, b) if direction is Direction.A_TO_B else (b, a)
                        exact += max(_number(a) - growth * _number(b), mpmath.mpf(0))
                    assert (mpmath.exp(low) if low > -math.inf else 0) <= min(exact, 1) <= mpmath.exp(high)
                    assert high - low < 1e-6 or exact < 1e-9
    assert answered > times(45)


def _number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def test_masses_that_cancel_to_the_last_digits_are_told_apart() -> None:
    known = few_outcomes({KaryRandomizedResponse(0.25 + 2.0**-40, 4): 1}, 1, 1)
    assert known is not None
    lower, upper = (float(side[0]) for side in known[Direction.A_TO_B].log_delta(np.array([0.0])))
    # p - (1 - p) / 3 = 4 / 3 of what p exceeds a quarter by.
    assert lower <= math.log(4.0 / 3.0) - 40.0 * math.log(2.0) <= upper <= lower + 1e-12


def test_a_loss_next_to_epsilon_is_told_apart_from_it() -> None:
    """Closer than floats tell losses apart."""
    rng = np.random.default_rng(SEED)
    with mpmath.workdps(80):
        for p in rng.uniform(0.5, 1.0, 60).tolist():
            known = few_outcomes({RandomizedResponse(p): 1}, 1, 1)
            assert known is not None
            loss = mpmath.log(mpmath.mpf(p) / (1 - mpmath.mpf(p)))
            near = float(loss)
            for epsilon in (math.nextafter(near, 0.0), near, math.nextafter(near, math.inf)):
                lower, upper = (float(side[0]) for side in known[Direction.A_TO_B].log_delta(np.array([epsilon])))
                exact = max(mpmath.mpf(p) - mpmath.exp(epsilon) * (1 - mpmath.mpf(p)), mpmath.mpf(0))
                assert (mpmath.exp(lower) if lower > -math.inf else 0) <= exact <= mpmath.exp(upper)
                assert upper <= lower + 1e-11


def test_a_guess_of_epsilon_meets_its_delta() -> None:
    known = few_outcomes({KaryRandomizedResponse(0.3, 5): 1}, 20, 4)
    assert known is not None
    for delta in np.geomspace(1e-12, 0.1, 12).tolist():
        guess, slope = known[Direction.A_TO_B].epsilon_near(delta)
        lower, _ = known[Direction.A_TO_B].log_delta(np.array([guess, guess + 1e-7]))
        assert lower[0] == pytest.approx(math.log(delta), abs=1e-9)
        assert (lower[1] - lower[0]) / 1e-7 == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-300])
def test_epsilon_of_the_least_delta_is_the_largest_loss(delta: float) -> None:
    found = epsilon_bounds(RandomizedResponse(0.6), compositions=10, delta=delta)
    lower, upper = float(found.epsilon_lower.max()), float(found.epsilon_upper.max())
    assert lower < 10.0 * math.log(1.5) <= upper <= lower + 1e-5


def test_exponentials_and_logarithms_are_rounded_outwards() -> None:
    rng = np.random.default_rng(SEED)
    with mpmath.workdps(120):
        for _ in range(times(60)):
            value = float(rng.uniform(0.0, 600.0))
            below, above = (_number(Fraction(*each)) for each in _exponential(value))
            assert below < mpmath.exp(value) < above < below * (1 + mpmath.mpf(10) ** -55)
            # Quotients that are floats, and those that are none.
            numerator = int(rng.integers(1, 2**60))
            denominator = int(rng.integers(1, 2**60)) << int(rng.choice([61, 970, 1500]))
            exact = mpmath.log(numerator) - mpmath.log(denominator)
            low, high = (mpmath.mpf(_log(numerator, denominator, side)) for side in (-1.0, 1.0))
            assert low < exact < high < low + abs(low) * 1e-13


def test_what_is_not_few_or_no_fraction_is_left_to_others() -> None:
    assert few_outcomes({RandomizedResponse(0.6): 1}, 500, 4) is not None
    assert few_outcomes({RandomizedResponse(0.6): 1}, 500, 200) is None
    assert few_outcomes({Histogram((5, 4, 3, 2, 1), (1, 2, 3, 4, 5)): 2}, 16, 1) is None
    assert few_outcomes({Laplace(1.0): 1}, 1, 1) is None
    assert few_outcomes({RandomizedResponse(0.6): 1, Laplace(1.0): 1}, 1, 1) is None
    assert Histogram(tuple(range(1, 66)), tuple(range(2, 67))).exact_outcomes is None


def test_beyond_what_is_read_nothing_is_told() -> None:
    known = few_outcomes({RandomizedResponse(0.6): 1}, 1, 1)
    assert known is not None
    lower, upper = known[Direction.A_TO_B].log_delta(np.array([601.0]))
    assert (lower[0], upper[0]) == (-math.inf, 0.0)
