"""Lower bounds on δ from outcomes that only one input has, and from inputs that are told apart."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pbdist import DiscreteGaussian, DiscreteLaplace, Histogram, RandomizedResponse, privacy_bounds
from pbdist.pld.closed_form import log_least_known
from tests.effort import times


def _exact(a, b, rounds, epsilon):
    """δ of all outcomes one by one, with e^ε rounded down."""
    first, second = [Fraction(1)], [Fraction(1)]
    for _ in range(rounds):
        first = [x * Fraction(y) for x in first for y in a]
        second = [x * Fraction(y) for x in second for y in b]
    factor = Fraction(math.exp(epsilon) * (1.0 - 1e-15))
    return sum(max(x - factor * y, Fraction(0)) for x, y in zip(first, second, strict=True))


def _drawn(generator, size):
    values = [Fraction(int(each)) for each in generator.integers(0, 10 ** int(generator.integers(1, 7)), size)]
    values[int(generator.integers(size))] += 1
    return [float(each / sum(values)) for each in values]


@pytest.mark.parametrize("seed", range(times(150)))
def test_nearly_all_is_a_lower_bound(seed):
    generator = np.random.default_rng(seed)
    size, rounds = int(generator.integers(2, 5)), int(generator.integers(1, 6))
    a, b = _drawn(generator, size), _drawn(generator, size)
    epsilon = float(generator.choice([0.0, 0.01, 0.5, 2.0, 9.0]))
    pair = Histogram(a, b)
    lower = log_least_known({pair: 1}, np.array([rounds]), np.array([epsilon]))
    for found, (own, other) in zip(lower[:, 0, 0], ((a, b), (b, a)), strict=True):
        assert math.exp(found) <= float(_exact(own, other, rounds, epsilon)) * (1.0 + 1e-12) + 1e-300


def test_masses_whose_product_is_no_float():
    pair = Histogram([1.0 - 1e-300, 1e-300], [1e-300, 1.0 - 1e-300])
    lower = log_least_known({pair: 1}, np.array([1]), np.array([0.0, 680.0, 1000.0]))[0, 0]
    assert lower[0] > -1e-9
    # Of losses of 690 nats δ is 0 from there on.
    assert lower[2] == -math.inf


def test_pairs_of_no_common_outcome():
    lower = log_least_known({Histogram([1.0, 0.0], [0.0, 1.0]): 1}, np.array([3]), np.array([5.0]))
    assert np.all((lower > -1e-9) & (lower <= 0.0))


@pytest.mark.parametrize(
    ("pair", "rounds", "epsilon"),
    [
        (DiscreteGaussian(1.0), 1 << 20, 1.0),
        (DiscreteLaplace(3.0), 1 << 20, 0.5),
        (RandomizedResponse(0.6), 1 << 20, 0.5),
        (DiscreteGaussian(1.0), 1 << 17, 0.05),
    ],
)
def test_very_many_rounds_meet_the_tolerance(pair, rounds, epsilon):
    bounds = privacy_bounds(pair, compositions=rounds, epsilon=epsilon)
    assert bool(bounds.within_tolerance.all())
    assert float(bounds.delta_lower.min()) > 0.999
