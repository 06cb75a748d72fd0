"""Rényi curves: above the divergence at all orders and close to it, and all lines are above them."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import (
    DiscreteLaplace,
    Gaussian,
    Histogram,
    Laplace,
    Product,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    renyi_bounds,
)
from pbdist.mechanisms import Pair
from pbdist.renyi import closest_bounds
from pbdist.theorems.renyi import (
    STARTS,
    Concentrated,
    RenyiCurve,
    concentrated_of,
    curve_of,
    gain_of_adding,
    gain_of_sampling,
)
from pbdist.types import Direction, FloatArray
from pipelines.figures.formulas import sampled_gaussian_divergence
from tests.effort import times
from tests.theorems.small_pairs import random_pair

pytestmark = pytest.mark.slow

SAMPLED = [(4.0, 0.01), (3.0, 0.2), (0.5, 0.001), (10.0, 0.99), (1.0, 0.5), (0.4, 0.5), (1.0, 1e-8)]


def height(curve: RenyiCurve, order: FloatArray) -> FloatArray:
    """The curve's bound at each α."""
    return curve.rho * order + curve.excess[np.searchsorted(STARTS, order - 1.0, side="right") - 1]


def lowest(lines: Concentrated, order: FloatArray) -> FloatArray:
    """The least ξ + ρ α at each α."""
    return np.asarray(np.min(lines.xi[:, None] + lines.rho[:, None] * order, axis=0))


def exact_divergence(a: list[Fraction], b: list[Fraction], tilt: mpmath.mpf) -> mpmath.mpf:
    """D of order 1 + tilt, of the larger direction, in 60 digits."""
    sums = [
        mpmath.fsum(p * mpmath.exp(tilt * mpmath.log(p / q)) for p, q in zip(*sides, strict=True))
        for sides in (map(as_real, (a, b)), map(as_real, (b, a)))
    ]
    return max(mpmath.log(total) / tilt for total in sums)


def as_real(masses: list[Fraction]) -> list[mpmath.mpf]:
    return [mpmath.mpf(mass.numerator) / mass.denominator for mass in masses]


@pytest.mark.parametrize("seed", range(times(3)))
def test_lines_are_above_the_exact_divergence_of_random_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pair, a, b = random_pair(rng)
    lines, curve = concentrated_of([(pair, 1)]), curve_of([(pair, 1)])
    tilt = np.concatenate((10.0 ** rng.uniform(-7, 9, 60), 10.0 ** rng.uniform(-2, 3, 60)))
    known = height(curve, 1.0 + tilt)
    with mpmath.workdps(60):
        for each, bound in zip(tilt.tolist(), known.tolist(), strict=True):
            truth = exact_divergence(a, b, mpmath.mpf(each))
            heights = (
                mpmath.mpf(xi) + mpmath.mpf(rho) * (1 + mpmath.mpf(each))
                for xi, rho in zip(lines.xi.tolist(), lines.rho.tolist(), strict=True)
            )
            assert truth <= min(heights)
            assert truth <= bound <= truth * 1.025
    # All but the line with ξ = 0 touch the curve.
    above = np.min(lines.xi[:, None] + lines.rho[:, None] * (1.0 + STARTS) - curve.excess, axis=1)
    assert np.all(above[:-1] <= 1e-12 * curve.excess[-1])


@pytest.mark.parametrize(
    "pair",
    [
        Laplace(1.0),
        Laplace(20.0),
        Laplace(200.0),
        Laplace(0.2),
        DiscreteLaplace(3.0, 2),
        RandomizedResponse(0.9),
        Reversed(Histogram((1, 2, 3), (3, 2, 1))),
    ],
    ids=repr,
)
def test_lines_are_above_divergences_off_the_grid(pair: Pair) -> None:
    order = 1.0 + 10.0 ** np.random.default_rng(0).uniform(-5, 5, 24)
    known = renyi_bounds(pair, compositions=1, order=order, tolerance=1e-3)
    found = height(curve_of([(pair, 1)]), order)
    assert np.all(found >= known.renyi_lower.values[0])
    assert np.all(found <= known.renyi_upper.values[0] * 1.025)
    assert np.all(lowest(concentrated_of([(pair, 1)]), order) >= known.renyi_lower.values[0])


@pytest.mark.parametrize(("scale", "rate"), SAMPLED)
def test_lines_are_above_divergences_of_sampled_noise(scale: float, rate: float) -> None:
    pair = SubsampledGaussian(scale, rate)
    order = 1.0 + 10.0 ** np.random.default_rng(0).uniform(-3, 3, 20)
    lines, curve = concentrated_of([(pair, 1)]), curve_of([(pair, 1)])
    known = renyi_bounds(pair, compositions=1, order=order, tolerance=2e-3).renyi_lower.values[0]
    assert np.all(height(curve, order) >= known)
    assert np.all(lowest(lines, order) >= known)
    rho = 0.5 / scale**2
    assert np.all(lines.rho >= rho)
    # Near order 1 it starts at the divergence, and far from it at most ln q below that of the whole noise.
    start = renyi_bounds(pair, compositions=1, order=1.02, tolerance=1e-3).renyi_upper.item()
    assert lowest(lines, np.array([1.0]))[0] <= start + 1e-14 * rho
    for far in (2.0, 9.0, 100.0, 3_000.0, 50_000.0):
        truth = sampled_gaussian_divergence(pair, far)
        at = np.array([far])
        assert min(height(curve, at)[0], lowest(lines, at)[0]) >= truth * (1.0 - 1e-9)
    # Far from it the triangle inequality is all but exact.
    assert height(curve, at)[0] <= truth + 0.02


@pytest.mark.parametrize(("scale", "rate"), [*SAMPLED, (100.0, 0.5)])
def test_closed_forms_of_sampled_noise_hold_in_their_direction(scale: float, rate: float) -> None:
    pair, rho = SubsampledGaussian(scale, rate), 0.5 / scale**2
    for tilt in 10.0 ** np.random.default_rng(2).uniform(-2, 2.5, 8):
        hidden = gain_of_sampling(np.array([tilt]), rate, rho)[0]
        removed = rho * (1.0 + tilt) - hidden * (1.0 + 1.0 / tilt)
        assert closest_bounds(pair, 1.0 + tilt, Direction.A_TO_B, 1e-3).lower <= removed + 1e-15 * rho * (1.0 + tilt)
        added = rho * (1.0 + tilt) - gain_of_adding(np.array([tilt]), rate, rho)[0]
        truth = closest_bounds(pair, 1.0 + tilt, Direction.B_TO_A, 1e-3).lower
        assert truth <= added + 1e-15 * rho * (1.0 + tilt)


def test_lines_of_sequences_are_above_the_sum_of_divergences() -> None:
    parts: list[tuple[Pair, int]] = [
        (Product(Laplace(2.0), Gaussian(5.0)), 3),
        (SubsampledGaussian(2.0, 0.1), 7),
        (RandomizedResponse(0.7), 2),
    ]
    order = 1.0 + 10.0 ** np.random.default_rng(1).uniform(-3, 2, 12)
    lower = sum(
        count * renyi_bounds(factor, compositions=1, order=order, tolerance=2e-3).renyi_lower.values[0]
        for pair, count in parts
        for factor in pair.factors
    )
    assert np.all(lowest(concentrated_of(parts), order) >= lower)
