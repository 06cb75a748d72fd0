"""What lies below the floor, and what outcomes that only one of the inputs has are worth, against exact values."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist.mechanisms import ApproximateDP, ElementaryPair, Gaussian, Histogram, Laplace, RandomizedResponse
from pbdist.pld.closed_form import log_revealed_mass
from pbdist.pld.many_rounds import bounds_below_floor
from pbdist.pld.question import Question
from pbdist.types import Direction


def binomial_delta(p: Fraction, rounds: int, epsilon: float) -> mpmath.mpf:
    """δ of randomized response after some rounds: k heads of A against k tails."""
    with mpmath.workdps(60):
        heads = [
            mpmath.mpf(math.comb(rounds, k))
            * mpmath.mpf(p.numerator) ** k
            * (p.denominator - p.numerator) ** (rounds - k)
            for k in range(rounds + 1)
        ]
        other = heads[::-1]
        total = mpmath.mpf(p.denominator) ** rounds
        growth = mpmath.exp(mpmath.mpf(epsilon))
        return mpmath.fsum(max(a - growth * b, 0) for a, b in zip(heads, other, strict=True)) / total


@pytest.mark.parametrize("rounds", [5, 64, 400])
def test_chernoff_bounds_are_above_the_truth(rounds: int) -> None:
    pair, p = RandomizedResponse(0.6), Fraction(0.6)
    epsilon = np.array([1.0, 2.0, 5.0, 9.0, 15.0, 40.0, 80.0, 130.0])
    floor = 1e-4
    found = bounds_below_floor(Question({pair: 1}, np.array([rounds]), epsilon, 1e-3, floor, True))
    told = 0
    for column, asked in enumerate(epsilon.tolist()):
        truth = binomial_delta(p, rounds, asked)
        for axis in range(2):
            log_upper = float(found[axis, 0, column])
            assert truth <= mpmath.exp(log_upper)
            told += log_upper <= math.log(floor)
    assert told >= 2


def test_nothing_is_told_above_the_floor() -> None:
    found = bounds_below_floor(Question({Laplace(20.0): 1}, np.array([16]), np.array([0.1]), 1e-3, 1e-40, True))
    assert np.all(found == 0.0)


@pytest.mark.parametrize("rounds", [1, 3, 1000, 2**40])
def test_revealed_mass_is_a_lower_bound_and_close(rounds: int) -> None:
    for pair, mass in (
        (ApproximateDP(1.0, 1e-6), Fraction(1e-6)),
        (Histogram([1, 9, 0], [0, 9, 1]), Fraction(1, 10)),
    ):
        for direction in Direction:
            found = float(log_revealed_mass({pair: 1}, np.array([rounds]), direction)[0])
            with mpmath.workdps(60):
                left = mpmath.log1p(-mpmath.mpf(mass.numerator) / mass.denominator)
                truth = mpmath.log(-mpmath.expm1(rounds * left))
                assert mpmath.mpf(found) <= truth
                assert truth - mpmath.mpf(found) <= 1e-12 + 1e-14 * rounds


@pytest.mark.parametrize("pair", [Gaussian(3.0), Laplace(2.0), RandomizedResponse(0.7)], ids=str)
def test_nothing_is_revealed_by_what_both_inputs_have(pair: ElementaryPair) -> None:
    assert log_revealed_mass({pair: 3}, np.array([1, 10**6]), Direction.A_TO_B).tolist() == [-math.inf, -math.inf]
