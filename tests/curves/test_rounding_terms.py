"""What curves and divergences add for rounding, term by term, against fractions and fifty digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist.curves.tradeoff import SupportCurve, Wholes, _sums
from pbdist.mechanisms import MassBounds
from pbdist.renyi.divergence import LogMasses, Order, a_term, share_at_end, terms_below
from pbdist.types import Direction, FloatArray


def exact(values: FloatArray) -> list[Fraction]:
    return [Fraction(value) for value in values.tolist()]


def test_nodes_of_a_curve_are_rounded_outwards() -> None:
    # c(y) = y / (1 + y), of which δ(ε) = 1 / (1 + e^ε) in both directions.
    epsilon = np.sort(np.random.default_rng(0).uniform(0.0, 5.0, 60))
    delta = np.tile(1.0 / (1.0 + np.exp(epsilon)), (2, 1))
    whole = dict.fromkeys(Direction, Wholes(1.0, 1.0, 0.0, 0.0))
    low, high = (np.nextafter(np.nextafter(delta, to), to) for to in (0.0, 1.0))
    curve = SupportCurve.from_deltas(epsilon, Direction.A_TO_B, low, high, whole)
    assert curve.y.size == 121
    for y, lower, upper in zip(*map(exact, (curve.y, curve.lower, curve.upper)), strict=True):
        assert lower <= y / (1 + y) <= upper


@pytest.mark.parametrize("width", [0.0, 0.05])
def test_lines_of_a_curve_are_rounded_outwards(width: float) -> None:
    # A concave curve through floats.
    y = np.array([0.0, 0.7, 1.9, 3.3, 7.1])
    values = 1.0 - np.exp(-y)
    low, high = values * (1.0 - width), values * (1.0 + width)
    curve = SupportCurve(y, low, high, 1.0, low[-1], high[-1])
    alpha = np.random.default_rng(1).random(200)
    found = curve.lower_bound(alpha)[0], curve.upper_bound(alpha)[0]
    for a, lower, upper in zip(exact(alpha), *map(exact, found), strict=True):
        truth = max(value - a * node for node, value in zip(exact(y), exact(values), strict=True))
        assert lower <= truth <= upper


def test_delta_that_was_cut_at_1_says_nothing_of_masses_of_more_than_1() -> None:
    whole = dict.fromkeys(Direction, Wholes(1.5, 1.5, 0.0, 1.5))
    curve = SupportCurve.from_deltas(np.array([0.5]), Direction.A_TO_B, np.zeros((2, 1)), np.ones((2, 1)), whole)
    np.testing.assert_array_equal(curve.lower, 0.0)


def test_sums_of_events_are_rounded_to_their_side() -> None:
    values = np.random.default_rng(2).random(300)
    total = Fraction(0)
    for value, low, high in zip(
        exact(values), exact(_sums(values, -1.0)[1:]), exact(_sums(values, 1.0)[1:]), strict=True
    ):
        total += value
        assert low <= total <= high


def test_logarithms_of_masses_are_rounded_outwards() -> None:
    masses = np.exp(np.random.default_rng(3).uniform(-700.0, 0.0, 100))
    logs = LogMasses.of(MassBounds(masses, masses), MassBounds(masses, masses), -0.1, -1000.0)
    with mpmath.workdps(50):
        for place, mass in enumerate(masses.tolist()):
            log = mpmath.log(mpmath.mpf(mass))
            assert logs.a_lower[place] < log - mpmath.mpf(0.1) < logs.a_upper[place]
            assert logs.b_lower[place] < log - 1000 < logs.b_upper[place]


@pytest.mark.parametrize("alpha", [1.0, 1.25, 2.0, 30.0])
def test_contributions_of_events_are_rounded_outwards(alpha: float) -> None:
    random = np.random.default_rng(4)
    loss = np.concatenate((random.uniform(0.0, 1e-6, 50), random.uniform(0.0, 3.0, 50)))
    log_b = -random.uniform(0.0, 9.0, 100)
    log_a = log_b + loss
    masses, order = LogMasses(log_a, log_a, log_b, log_b), Order(alpha)
    above, below = a_term(order, log_a, loss), terms_below(order, masses)
    with mpmath.workdps(50):
        for place in range(100):
            a, b, apart = (mpmath.mpf(float(each[place])) for each in (log_a, log_b, loss))

            def contribution(log_other: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
                power = mpmath.exp(alpha * x) if alpha > 1.0 else 0
                value = power - 1 - alpha * mpmath.expm1(x) if alpha > 1.0 else x * mpmath.exp(x) - mpmath.expm1(x)
                return mpmath.exp(log_other) * value

            assert above[place] >= contribution(a - apart, apart)
            assert below[place] <= contribution(b, a - b)


def test_shares_at_an_end_are_rounded_up() -> None:
    random = np.random.default_rng(5)
    log_other, shift, width = -random.uniform(0.5, 5.0, (3, 100))
    found = share_at_end(log_other, np.zeros(100), shift, -width)
    with mpmath.workdps(50):
        for place in range(100):
            other, moved, wide = (mpmath.mpf(float(each[place])) for each in (log_other, shift, -width))
            assert found[place] >= min(-mpmath.expm1(other + moved) / -mpmath.expm1(-wide), 1)
    assert math.isclose(float(found.max()), 1.0)
