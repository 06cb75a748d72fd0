"""A pair with its distributions exchanged: the same divergences with the directions exchanged, and products of it."""

import math

import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    InvalidInputError,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Product,
    RandomizedResponse,
    Reversed,
    Staircase,
    SubsampledGaussian,
    privacy_bounds,
)
from pbdist.types import Direction

PAIRS = [
    Gaussian(3.0),
    Laplace(2.0, sensitivity=3.0, truncate=(0.5, 9.0)),
    LaplaceSum((2.0, 1.5), 4.0),
    SubsampledGaussian(2.0, 0.05),
    RandomizedResponse(0.7),
    Staircase(0.8, split=0.3),
    KaryRandomizedResponse(0.4, 5),
    NoisyCount(DiscreteLaplace(2.0), 6, 2),
    ApproximateDP(0.3, 1e-5),
    Histogram([3, 0, 1, 6], [1, 2, 1, 6]),
    NoisyCount(Laplace(5.0), 20.0, 2),
    NoisyCount(Gaussian(4.0), 9.0, 1, "redraw-and-floor"),
]


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: repr(pair)[:40])
def test_the_directions_are_exchanged(pair) -> None:
    options = {"compositions": [1, 5], "epsilon": [0.0, 0.4, 1.5], "direction": "each", "tolerance": 1e-3}
    plain, reverse = (privacy_bounds(each, **options) for each in (pair, Reversed(pair)))
    for one, other in zip(Direction, reversed(Direction), strict=True):
        lower, upper = plain.delta_lower.sel(direction=one.value), plain.delta_upper.sel(direction=one.value)
        np.testing.assert_array_less(reverse.delta_lower.sel(direction=other.value), upper * (1 + 1e-12) + 1e-300)
        np.testing.assert_array_less(lower * (1 - 1e-12) - 1e-300, reverse.delta_upper.sel(direction=other.value))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: repr(pair)[:40])
@pytest.mark.parametrize("direction", Direction)
def test_masses_are_those_of_the_other_direction(pair, direction) -> None:
    edges = np.linspace(-0.9, 1.3, 12)
    other = next(item for item in Direction if item is not direction)
    mine, its = Reversed(pair).directed_loss_masses(edges, direction), pair.directed_loss_masses(edges, other)
    np.testing.assert_array_equal(mine.bins_a.upper, its.bins_a.upper)
    np.testing.assert_array_equal(mine.bins_b.lower, its.bins_b.lower)
    twice = Reversed(Reversed(pair)).loss_masses(edges)
    np.testing.assert_array_equal(twice.bins_a.lower, pair.loss_masses(edges).bins_a.lower)
    assert Reversed(pair).total_mass == pair.total_mass[::-1]
    for tilt in (0.5, 2.0):
        assert Reversed(pair).log_tail_moment(tilt, 0.1, direction) == pair.log_tail_moment(tilt, 0.1, other)


def _exact_delta(first: dict, second: dict, epsilon: float) -> float:
    outcomes = set(first) | set(second)
    return math.fsum(max(0.0, first.get(x, 0.0) - math.exp(epsilon) * second.get(x, 0.0)) for x in outcomes)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_request_that_moves_between_two_counts(rounds: int) -> None:
    # N from a table, so that both counts can be multiplied out: what moves is seen as (1 + N, M) or (N, 1 + M).
    noise = [0.05, 0.15, 0.4, 0.25, 0.15]
    count = Histogram([*noise, 0.0], [0.0, *noise])
    up, down = dict(enumerate([0.0, *noise])), dict(enumerate(noise))
    one = {(i, j): p * q for i, p in up.items() for j, q in down.items() if p * q > 0.0}
    other = {(j, i): mass for (i, j), mass in one.items()}
    for _ in range(rounds - 1):
        one = {(x, y): p * q for x, p in one.items() for y, q in one.items()}
        other = {(x, y): p * q for x, p in other.items() for y, q in other.items()}
    epsilons = [0.0, 0.3, 1.0]
    bounds = privacy_bounds(Product(count, Reversed(count)), compositions=rounds, epsilon=epsilons)
    for position, epsilon in enumerate(epsilons):
        exact = _exact_delta(one, other, epsilon)
        assert bounds.delta_lower.values[0, position] <= exact * (1 + 1e-12)
        assert exact <= bounds.delta_upper.values[0, position] * (1 + 1e-12)
        assert exact == pytest.approx(_exact_delta(other, one, epsilon))


def test_products_are_reversed_factor_by_factor() -> None:
    with pytest.raises(InvalidInputError, match=r"Reversed.pair: expected a mechanism that is no product"):
        Reversed(Product(Laplace(1.0)))  # type: ignore[arg-type]
