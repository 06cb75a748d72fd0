"""Rényi divergences in closed form, of Gaussian and discrete Gaussian noise, against mpmath."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import DiscreteGaussian, Gaussian, Laplace, renyi_bounds
from pbdist.mechanisms import Reversed
from pbdist.renyi import divergence_bounds
from pbdist.types import Direction
from tests.oracles.curve_truth import divergence
from tests.strategies import examples


def _from_masses(pair: DiscreteGaussian, order: float) -> mpmath.mpf:
    """D_α by summation of the masses themselves, without the theta functions; around both places where terms peak."""
    with mpmath.workdps(60):
        s, alpha, variance = pair.sensitivity, mpmath.mpf(order), mpmath.mpf(pair.scale) ** 2
        reach = math.ceil(20 * pair.scale) + 3
        peak = round((1 - order) * s)
        masses = [-(mpmath.mpf(k) ** 2) / (2 * variance) for k in range(-reach, reach + 1)]
        log_total = mpmath.log(mpmath.fsum(mpmath.exp(log) for log in masses))
        if order == 1.0:
            around = range(-reach, reach + 1)
            return mpmath.fsum(
                mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * variance) - log_total) * (s * s - 2 * s * k) / (2 * variance)
                for k in around
            )
        logs = [
            -(alpha * mpmath.mpf(k) ** 2 + (1 - alpha) * mpmath.mpf(k - s) ** 2) / (2 * variance)
            for k in range(peak - reach, peak + reach + 1)
        ]
        largest = max(logs)
        total = mpmath.fsum(mpmath.exp(log - largest) for log in logs)
        return (mpmath.log(total) + largest - log_total) / (alpha - 1)


@pytest.mark.parametrize(
    ("pair", "order"),
    [
        (Gaussian(0.7), 1e6),
        (Gaussian(3.0), 1e6),
        (Gaussian(0.05), 1e4),
        (Gaussian(1e-3), 64.0),
        (Gaussian(1e30, 1e-30), 1.0),
        (Gaussian(1e-30, 1e30), 1e6),
        (Gaussian(0.3, 0.7), 1.000001),
    ],
    ids=repr,
)
def test_gaussian_noise_to_the_last_bits(pair: Gaussian, order: float) -> None:
    with mpmath.workdps(60):
        exact = divergence(pair, order)
        for direction in Direction:
            lower, upper = divergence_bounds(pair, order, direction, 1e-9)
            assert lower < exact < upper <= lower * (1.0 + 2.0**-50)
        assert divergence_bounds(Reversed(pair), order, Direction.A_TO_B, 1e-9) == (lower, upper)


@pytest.mark.parametrize(
    ("scale", "order", "exact"), [(1.0, 100.0, 50.0), (0.05, 2.0, 400.0), (40.0, 5000.0, 1.5625), (3.0, 1.0, 1 / 18)]
)
def test_discrete_gaussian_noise_of_whole_shifts(scale: float, order: float, exact: float) -> None:
    bounds = renyi_bounds(DiscreteGaussian(scale), compositions=[1, 7], order=order, tolerance=1e-9)
    for place, r in enumerate((1, 7)):
        assert bounds.renyi_lower[place, 0] <= r * exact <= bounds.renyi_upper[place, 0]


_ORDERS = st.one_of(
    st.floats(1.000001, 1.01), st.floats(1.0, 3.0).filter(lambda x: x == 1.0 or x >= 1.000001), st.floats(3.0, 1e6)
)


@given(st.one_of(st.floats(0.01, 0.6), st.floats(0.4, 6.0)), st.integers(1, 9), _ORDERS)
@examples(300)
def test_discrete_gaussian_noise_against_its_masses(scale: float, sensitivity: int, order: float) -> None:
    pair = DiscreteGaussian(scale, sensitivity)
    exact = _from_masses(pair, order)
    for direction in Direction:
        lower, upper = divergence_bounds(pair, order, direction, 1e-9)
        # The sum itself is known to 60 digits of its largest term, over α - 1.
        assert lower <= exact * (1 + mpmath.mpf("1e-40"))
        assert exact * (1 - mpmath.mpf("1e-40")) <= upper <= lower * (1.0 + 1e-12)


@pytest.mark.parametrize("scale", [0.1, 0.499, 0.5, 0.501, 0.8, 2.0, 4.3])
@pytest.mark.parametrize("order", [1.5, 1.000001, 1.25, 2.5, 1.4999999999999998, 1.9999999999999998, 100.3])
def test_discrete_gaussian_noise_between_whole_shifts(scale: float, order: float) -> None:
    for sensitivity in (1, 3):
        pair = DiscreteGaussian(scale, sensitivity)
        lower, upper = pair.renyi_divergence(order)
        assert lower <= _from_masses(pair, order) <= upper <= lower * (1.0 + 1e-12)


def test_no_closed_form_of_other_noise() -> None:
    assert Laplace(1.0).renyi_divergence(2.0) is None
    assert Gaussian(1.0, truncate=(-3.0, 3.0)).renyi_divergence(2.0) is None
