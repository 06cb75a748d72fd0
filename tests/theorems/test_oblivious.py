"""Composition theorems that know one (ε, δ), against exact numbers."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist.theorems.oblivious import (
    adaptive,
    advanced,
    advanced_closed_form,
    kairouz_oh_viswanath,
    log_binomial,
    naive,
)


def exact_kov(epsilon: float, delta: float, rounds: int, wanted: float) -> mpmath.mpf:
    """δ of the r-fold M_{ε,δ}, summed term by term in 60 digits."""
    with mpmath.workdps(60):
        e0, e = mpmath.mpf(epsilon), mpmath.mpf(wanted)
        p = 1 / (1 + mpmath.exp(e0))
        term, total = (1 - p) ** rounds, mpmath.mpf(0)
        for number in range(rounds + 1):
            gap = e - (rounds - 2 * number) * e0
            if gap >= 0:
                break
            total += term * -mpmath.expm1(gap)
            term = term * (rounds - number) / (number + 1) * p / (1 - p)
        revealed = 1 - (1 - mpmath.mpf(delta)) ** rounds
        return revealed + (1 - revealed) * total


def assert_nine_digits(log_found: float, truth: mpmath.mpf) -> None:
    with mpmath.workdps(60):
        found = mpmath.exp(mpmath.mpf(float(log_found)))
        assert truth <= found <= truth * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.005, 1e-9), (0.1, 0.0), (0.02, 1e-14)])
@pytest.mark.parametrize("steps", [10, 200, 250, 255, 256])
def test_the_optimal_theorem_at_its_own_points_is_known_to_nine_digits(
    epsilon: float, delta: float, steps: int
) -> None:
    wanted = (512 - 2 * steps) * epsilon
    found = kairouz_oh_viswanath(epsilon, math.log(delta) if delta else -math.inf, 512, np.array([wanted]))[0]
    assert_nine_digits(found, exact_kov(epsilon, delta, 512, wanted))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [32_000, *(pytest.param(n, marks=pytest.mark.nightly) for n in (32_600, 32_768))])
def test_so_it_is_for_many_rounds(steps: int) -> None:
    rounds, epsilon, delta = 2**16, 0.005, 1e-12
    wanted = (rounds - 2 * steps) * epsilon
    found = kairouz_oh_viswanath(epsilon, math.log(delta), rounds, np.array([wanted]))[0]
    assert_nine_digits(found, exact_kov(epsilon, delta, rounds, wanted))


@pytest.mark.parametrize("wanted", [0.0, 0.013, 0.299, 0.3, 0.7, 2.49, 4.99, 6.0])
def test_between_its_points_the_optimal_theorem_is_the_exact_composition(wanted: float) -> None:
    found = kairouz_oh_viswanath(0.1, math.log(1e-6), 50, np.array([wanted]))[0]
    assert_nine_digits(found, exact_kov(0.1, 1e-6, 50, wanted))


@pytest.mark.parametrize(("rounds", "epsilon"), [(1, 0.5), (7, 0.0), (40, 2.0), (3000, 0.01), (10**6, 1e-3)])
def test_binomial_probabilities(rounds: int, epsilon: float) -> None:
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        for number in sorted({0, 1, rounds // 3, rounds // 2, rounds - 1, rounds}):
            exact = mpmath.log(mpmath.binomial(rounds, number)) + number * mpmath.log(p)
            exact += (rounds - number) * mpmath.log(1 - p)
            found = float(log_binomial(np.array([float(number)]), rounds, epsilon)[0])
            assert abs(found - exact) <= 8 * 2.0**-53 * (rounds + 8 + abs(exact)), number


def test_by_hand() -> None:
    """ε = 1, δ = 1/100, four times."""
    one, delta, counts = np.ones(1), np.log([0.01]), np.array([4.0])
    at = np.array([3.9, 4.0 + 1e-12])
    assert np.exp(naive(one, delta, counts, at)) == pytest.approx([1.0, 0.04], rel=1e-12)
    assert np.exp(adaptive(one, delta, counts, at)) == pytest.approx(
        [1.0, float(1 - Fraction(99, 100) ** 4)], rel=1e-12
    )
    # √(2 · 4 ln(1/d)) + 4 (e - 1) = 20.
    slack = math.exp(-((20.0 - 4.0 * math.expm1(1.0)) ** 2) / 8.0)
    assert np.exp(advanced(one, delta, counts, np.array([20.0]))) == pytest.approx([0.04 + slack], rel=1e-12)


def test_advanced_composition_meets_its_own_formula() -> None:
    """For a slack d, ε' = ε √(2 r ln(1/d)) + r ε (e^ε - 1) has δ' = r δ + d."""
    for epsilon, rounds, slack in ((0.01, 1000, 1e-6), (0.001, 65536, 1e-5), (0.1, 10, 1e-3)):
        reached = epsilon * math.sqrt(2 * rounds * math.log(1 / slack)) + rounds * epsilon * math.expm1(epsilon)
        found = advanced(np.array([epsilon]), np.log([1e-9]), np.array([float(rounds)]), np.array([reached]))
        assert math.exp(found[0]) == pytest.approx(rounds * 1e-9 + slack, rel=1e-9)


def test_the_closed_form_is_between_the_optimal_theorem_and_the_plain_one() -> None:
    at = np.linspace(0.0, 4.0, 33)
    for epsilon, delta, rounds in ((0.1, 1e-6, 64), (0.5, 0.0, 8), (0.01, 1e-4, 4096)):
        log_delta = math.log(delta) if delta else -math.inf
        closed = advanced_closed_form(np.array([epsilon]), np.array([log_delta]), np.array([float(rounds)]), at)
        plain = advanced(np.array([epsilon]), np.array([log_delta]), np.array([float(rounds)]), at)
        assert np.all(closed >= kairouz_oh_viswanath(epsilon, log_delta, rounds, at) - 1e-9)
        assert np.all(closed <= plain + 1e-9)
