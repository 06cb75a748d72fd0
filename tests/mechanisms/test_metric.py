"""Privacy along paths: the worst case is Laplace noise, which permute-and-flip never exceeds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pbdist import ApproximateDP, Laplace, MetricDP, epsilon_bounds, group, privacy_bounds
from pbdist.mechanisms import at_least_as_noisy
from tests import effort
from tests.effort import times


def delta_of(epsilon: float, asked: float) -> float:
    """H of Laplace noise of scale 1/ε that is moved by 1, in one round."""
    return max(0.0, -math.expm1(0.5 * (asked - epsilon)))


@pytest.mark.parametrize("epsilon", [0.1, 0.21, 6.0, 1e-9])
def test_one_round_is_laplace_noise(epsilon: float) -> None:
    losses = np.array([0.0, 0.4, 0.9, 1.1]) * epsilon
    found = privacy_bounds(MetricDP(epsilon), compositions=1, epsilon=losses)
    for lower, upper, asked in zip(found.delta_lower.values[0], found.delta_upper.values[0], losses, strict=True):
        exact = delta_of(epsilon, float(asked))
        assert lower <= exact * (1.0 + 1e-9)
        assert upper >= exact * (1.0 - 1e-9)
        assert upper <= 1.001 * exact + 1e-15


@pytest.mark.parametrize(
    ("epsilon", "rounds", "expected"), [(0.5, 200, 50.111), (1.0, 50, 41.605), (1.0, 200, 124.45), (2.0, 200, 304.82)]
)
def test_less_than_differential_privacy(epsilon: float, rounds: int, expected: float) -> None:
    along, anyhow = (
        epsilon_bounds(pair, compositions=rounds, delta=1e-6, tolerance=1e-4).epsilon_upper.item()
        for pair in (MetricDP(epsilon), ApproximateDP(epsilon, 0.0))
    )
    assert math.isclose(along, expected, rel_tol=2e-4)
    assert along < 0.92 * anyhow


def chosen(qualities: list[float], epsilon: float) -> np.ndarray:
    """How likely permute-and-flip chooses each candidate: by the polynomial of the sizes of what comes before it.

    A candidate is chosen if all that come before it in a random order were passed over: the mean over the sizes k of
    the sets of others before it, each with k! (n - 1 - k)! / n! of the orders.
    """
    size, best = len(qualities), max(qualities)
    accepted = np.exp(epsilon * (np.array(qualities) - best) / 2.0)
    result = np.empty(size)
    for one in range(size):
        sums = np.zeros(size)
        sums[0] = 1.0
        for other in range(size):
            if other != one:
                sums[1:] += sums[:-1] * (1.0 - accepted[other])
        weights = [1.0 / (size * math.comb(size - 1, k)) for k in range(size)]
        result[one] = accepted[one] * float(np.dot(sums, weights))
    return result


def test_permute_and_flip_is_never_worse() -> None:
    rng = np.random.default_rng([72, effort.SEED])
    for _ in range(times(300)):
        epsilon, size = float(rng.uniform(0.05, 4.0)), int(rng.integers(2, 41))
        first = rng.integers(0, 8, size) * float(rng.choice([0.25, 0.5, 1.0]))
        second = first + rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size)
        p, q = (chosen(side.tolist(), epsilon) for side in (first, second))
        assert math.isclose(p.sum(), 1.0, rel_tol=1e-9)
        for asked in (0.0, 0.3 * epsilon, 0.8 * epsilon):
            exact = float(np.maximum(p - math.exp(asked) * q, 0.0).sum())
            assert exact <= delta_of(epsilon, asked) + 1e-12


def test_paths_add_up_and_are_ordered() -> None:
    # Rounded up: 0.1 times 3 is no float.
    three = group(MetricDP(0.1), 3)
    assert isinstance(three, MetricDP)
    assert Fraction(0.1) * 3 <= Fraction(three.epsilon) <= Fraction(0.1) * 3 * Fraction(1.0 + 2.0**-51)
    assert at_least_as_noisy(MetricDP(0.1), three)
    assert not at_least_as_noisy(three, MetricDP(0.1))
    assert not at_least_as_noisy(MetricDP(0.1), Laplace(10.0))
