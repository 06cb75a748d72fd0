"""Concentrated privacy: no δ is below the truth, published ones are reached, and what is refused."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import (
    DiscreteGaussian,
    Gaussian,
    InvalidInputError,
    Laplace,
    Poisson,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
    earlier_bounds,
    privacy_bounds,
)
from pbdist.mechanisms import Pair
from pbdist.theorems.api import earlier_epsilon
from pbdist.theorems.renyi import Concentrated, concentrated_of
from tests.effort import times
from tests.theorems.small_pairs import exact_delta, random_pair

BOTH = ("concentrated", "concentrated-improved")


def line(xi: float, rho: float) -> Concentrated:
    return Concentrated(np.array([xi]), np.array([rho]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "rounds", "least"),
    [
        (Laplace(200.0), 512, 0.4548),
        (Laplace(20.0), 256, 3.778),
        (Laplace(1.0), 10, 9.996),
        (RandomizedResponse(0.75), 10, 10.99),
        (SubsampledGaussian(3.0, 0.2), 50, 10.88),
        (SubsampledGaussian(4.0, 0.01), 65_536, 306.4),
    ],
    ids=repr,
)
def test_the_published_epsilons_are_reached(pair: Pair, rounds: int, least: float) -> None:
    """The table of docs/earlier-bounds.md: the least ε with δ = 1e-5."""
    [epsilon] = earlier_epsilon(pair, compositions=[rounds], delta=[1e-5], theorem=BOTH[0])
    assert epsilon == pytest.approx(least, rel=5e-4)


@pytest.mark.slow
def test_pure_privacy_is_one_of_the_lines() -> None:
    pair, most = RandomizedResponse(0.75), 10 * math.log(3.0)
    for theorem in BOTH:
        found = earlier_bounds(pair, compositions=10, epsilon=[most * (1 - 1e-6), most * (1 + 1e-8)], theorem=theorem)
        inside, outside = found.delta_upper.values[0]
        assert inside > 0.0
        assert outside == 0.0


@pytest.mark.parametrize(
    ("pair", "rho"),
    [
        (Gaussian(30.0), Fraction(1, 1800)),
        (DiscreteGaussian(3.0, 2), Fraction(2, 9)),
        (SubsampledGaussian(2.0, 1.0), Fraction(1, 8)),
    ],
    ids=repr,
)
def test_gaussian_noise_has_one_line(pair: Pair, rho: Fraction) -> None:
    lines = concentrated_of([(pair, 1)])
    assert lines.xi.tolist() == [0.0]
    assert rho <= Fraction(float(lines.rho[0])) <= rho * (1 + Fraction(1, 10**14))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(times(2)))
def test_no_delta_is_below_the_exact_one_of_small_sequences(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    drawn = [random_pair(rng) for _ in range(2)]
    parts = [(pair, int(count)) for (pair, *_), count in zip(drawn, rng.integers(1, 3, 2), strict=True)]
    sides = [(a, b) for (_, a, b), (_, count) in zip(drawn, parts, strict=True) for _ in range(count)]
    farthest = sum(max(abs(math.log(p / q)) for p, q in zip(a, b, strict=True)) for a, b in sides)
    epsilon = farthest * np.array([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99, 0.9999, 1.0 - 1e-7, 1.0 + 1e-7])
    truth = np.array([exact_delta(sides, each) for each in epsilon.tolist()])
    for theorem in BOTH:
        found = earlier_bounds(parts, compositions=1, epsilon=epsilon, theorem=theorem)
        assert np.all(found.delta_upper.values[0] >= truth * (1.0 - 1e-13)), theorem
        assert found.delta_upper.values[0, -1] == 0.0


@pytest.mark.parametrize("more", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
def test_lines_of_negative_xi_bound_gaussian_noise(scale: float, more: float) -> None:
    """ρ α <= m ρ α - (m - 1) ρ; the exact δ is the closed form."""
    rho, rounds = 0.5 / scale**2, 3
    lines = line(-(more - 1.0) * rho, more * rho)
    epsilon = np.linspace(0.0, 12.0, 25) * math.sqrt(rounds) / scale
    ours = privacy_bounds(Gaussian(scale), compositions=rounds, epsilon=epsilon, strict=False)
    for improved in (False, True):
        found = lines.log_delta(rounds, epsilon, improved=improved)
        assert np.all(found >= ours.log_delta_lower.values[0])
        assert np.any(found < -5.0)


@pytest.mark.parametrize("xi", [-0.9, -1e-3, 0.0, 1e-3, 2.0])
@pytest.mark.parametrize("wanted", [0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("rho", [1e-8, 0.01, 1.0])
def test_the_conversion_of_2016_is_above_its_integral(xi: float, rho: float, wanted: float) -> None:
    """∫ e^(ε - z) e^(-(z - ξ - ρ)² / (4ρ)) dz from ε on, in 50 digits."""
    xi *= rho
    found = float(line(xi, rho).log_delta(1, np.array([wanted]), improved=False)[0])
    with mpmath.workdps(50):
        x, r = mpmath.mpf(xi), mpmath.mpf(rho)
        gap = mpmath.mpf(wanted) - x - r
        if gap <= 0:
            assert found == 0.0
            return
        whole = mpmath.sqrt(mpmath.pi * r) * mpmath.exp(r + gap) * mpmath.erfc((gap + 2 * r) / (2 * mpmath.sqrt(r)))
        assert mpmath.log(whole) <= found <= -(gap**2) / (4 * r) * (1 - mpmath.mpf("1e-13")) + mpmath.mpf("1e-13")


@pytest.mark.slow
@pytest.mark.parametrize("xi", [-0.9, 0.0, 2.0])
@pytest.mark.parametrize("wanted", [1e-9, 0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("rho", [1e-8, 0.01, 1.0])
def test_the_improved_conversion_is_not_below_the_best_order(xi: float, rho: float, wanted: float) -> None:
    """The least over all orders, in 50 digits."""
    xi *= rho
    found = float(line(xi, rho).log_delta(1, np.array([wanted]), improved=True)[0])
    with mpmath.workdps(50):
        # The exponent is convex in α - 1: its slope is 0 at the best order.
        low, high = mpmath.mpf("1e-60"), mpmath.mpf("1e30")
        for _ in range(400):
            above = mpmath.sqrt(low * high)
            slope = xi + rho * (1 + 2 * above) - wanted + mpmath.log(above) - mpmath.log1p(above)
            low, high = (above, high) if slope < 0 else (low, above)
        order = 1 + above
        best = above * (xi + rho * order - wanted) + above * mpmath.log(above) - order * mpmath.log(order)
        assert min(best, mpmath.mpf(0)) <= found <= best / 2


def test_the_sum_over_many_pairs_pays_for_its_roundings() -> None:
    pairs = Product(*[Gaussian(3.0 + 0.1 * index) for index in range(60)])
    with mpmath.workdps(50):
        exact = sum((1 / mpmath.mpf(pair.scale) ** 2 for pair in pairs.factors), mpmath.mpf(0)) / 2  # type: ignore[attr-defined]
    [rho] = concentrated_of([(pairs, 7), (DiscreteGaussian(2.0), 3)]).rho.tolist()
    assert 7 * exact + mpmath.mpf(3) / 8 <= rho <= (7 * exact + mpmath.mpf(3) / 8) * (1 + mpmath.mpf("1e-13"))
    assert math.isfinite(rho)


def test_one_pair_that_no_line_fits_is_named() -> None:
    for pair in (Poisson(50.0), Laplace(3.0, truncate=(-9.0, 9.0))):
        with pytest.raises(
            InvalidInputError, match=r"expected a mechanism that some \(ξ, ρ\) fits, got (Poisson|Laplace)"
        ):
            concentrated_of([(Gaussian(3.0), 1), (pair, 2)])
