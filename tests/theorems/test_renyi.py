"""Conversions of Rényi divergences, against 50 digits."""

import math

import mpmath
import numpy as np
import pytest

from pbdist import DiscreteGaussian, Gaussian, Product
from pbdist.theorems.renyi import Concentrated, concentrated_of, log_improvement


@pytest.mark.parametrize("order", [1 + 1e-9, 1 + 1e-6, 1.001, 1.5, 2 - 1e-7, 2.0, 2.0001, 3.0, 64.0, 4096.0, 1e6])
def test_the_improvement_is_known_next_to_order_one_and_far_from_it(order: float) -> None:
    with mpmath.workdps(50):
        exact = mpmath.mpf(order) * mpmath.log(1 - 1 / mpmath.mpf(order)) - mpmath.log(mpmath.mpf(order) - 1)
        found = float(log_improvement(np.array([order]))[0])
        assert abs(found - exact) <= 16 * 2.0**-53 * (1 + mpmath.log(order))


@pytest.mark.parametrize("wanted", [1e-9, 0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("rho", [1e-8, 0.01, 1.0])
def test_the_improved_conversion_is_not_below_the_best_order(rho: float, wanted: float) -> None:
    """Of Gaussian noise with that ρ, whose divergence is ρ α: the least over all orders, in 50 digits."""
    found = float(Concentrated(0.0, rho).log_delta(1, np.array([wanted]), improved=True)[0])
    with mpmath.workdps(50):
        # The exponent is convex in α - 1: its slope is 0 at the best order.
        low, high = mpmath.mpf("1e-60"), mpmath.mpf("1e30")
        for _ in range(400):
            above = mpmath.sqrt(low * high)
            slope = rho * (1 + 2 * above) - wanted + mpmath.log(above) - mpmath.log1p(above)
            low, high = (above, high) if slope < 0 else (low, above)
        order = 1 + above
        best = above * (rho * order - wanted) + above * mpmath.log(above) - order * mpmath.log(order)
        assert min(best, mpmath.mpf(0)) <= found <= best / 2


def test_the_sum_over_many_pairs_pays_for_its_roundings() -> None:
    pairs = Product(*[Gaussian(3.0 + 0.1 * index) for index in range(60)])
    with mpmath.workdps(50):
        exact = sum((1 / mpmath.mpf(pair.scale) ** 2 for pair in pairs.factors), mpmath.mpf(0)) / 2  # type: ignore[attr-defined]
    rho = concentrated_of([(pairs, 7), (DiscreteGaussian(2.0), 3)]).rho
    assert 7 * exact + mpmath.mpf(3) / 8 <= rho <= (7 * exact + mpmath.mpf(3) / 8) * (1 + mpmath.mpf("1e-13"))
    assert math.isfinite(rho)
