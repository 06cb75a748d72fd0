"""Masses far below the smallest float64, each with the logarithm of a factor, against 60 digits."""

import mpmath
import numpy as np
import pytest

from pbdist.mechanisms import ApproximateDP, Gaussian, Histogram, Laplace, LaplaceSum, NoisyCount, RandomizedResponse
from pbdist.mechanisms import SubsampledGaussian as Subsampled
from pbdist.mechanisms.masses import gaussian_interval, laplace_interval
from pbdist.types import Direction
from tests.mechanisms.noise_masses import gaussian_mass, laplace_mass

mpmath.mp.dps = 60


def _exact(value, log_scale):
    return mpmath.mpf(float(value)) * mpmath.exp(mpmath.mpf(float(log_scale)))


@pytest.mark.parametrize(
    "width", [*(pytest.param(width, marks=pytest.mark.slow) for width in (1e-7, 1e-4, 0.3)), 3e-3, 5.0, np.inf]
)
def test_gaussian_intervals_far_out(width):
    start = np.array([3.0, 34.5, 34.7, 37.9, 90.1, 400.0, 1999.3])
    lower, upper = np.append(start, -2000.7 - width), np.append(start + width, -2000.7)
    mass, error, log_scale = gaussian_interval(lower, upper, 1.0, scaled=True)
    assert np.all(log_scale <= 0.0)
    for i in range(lower.size):
        truth = gaussian_mass(float(lower[i]), float(upper[i]))
        assert abs(_exact(mass[i], log_scale[i]) - truth) <= mpmath.mpf(float(error[i])) * truth
    assert log_scale[-1] < -1e6
    assert log_scale[0] == 0.0
    assert error[6] < 1e-8


def test_laplace_intervals_far_out():
    lower = np.array([0.0, 599.0, 601.0, 2000.0, -2000.0, 1e5])
    for width in (1e-9, 0.1, 3.0):
        mass, error, log_scale = laplace_interval(lower, lower + width, 1.0, scaled=True)
        for i in range(lower.size):
            truth = laplace_mass(float(lower[i]), float(lower[i] + width))
            assert abs(_exact(mass[i], log_scale[i]) - truth) <= mpmath.mpf(float(error[i])) * truth


def test_exponents_that_float64_does_not_resolve_leave_nothing():
    for interval, start in ((gaussian_interval, 1e9), (laplace_interval, 1e16)):
        mass, error, log_scale = interval(np.array([start]), np.array([start * 1.5]), 1.0, scaled=True)
        assert mass[0] == 0.0
        assert error[0] == 0.0
        assert log_scale[0] == 0.0
    masses = Gaussian(1e-12).scaled_loss_masses(np.linspace(-1.0, 1.0, 5)).masses
    assert np.all(masses.bins_a.upper[1:-1] < 1e-289)


@pytest.mark.parametrize(
    ("pair", "reach"),
    [
        (Gaussian(1.0), 12.0),
        (Gaussian(30.0, truncate=(-90.0, 100.5)), 0.2),
        (Laplace(2.0), 1.0),
        (LaplaceSum((2.0, 1.5)), 0.45),
        (Subsampled(4.0, 0.01), 0.3),
        (RandomizedResponse(0.3), 1.0),
        (RandomizedResponse(0.0), 1.0),
        (ApproximateDP(2.0, 1e-5), 3.0),
        (Histogram([1, 2], [2, 1]), 1.0),
        (NoisyCount(Laplace(5.0), 30.0, 2), 1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("direction", Direction)
def test_ordinary_masses_are_those_without_factors(pair, reach, direction):
    edges = np.linspace(-reach, 0.9 * reach, 91)
    plain, scaled = pair.directed_loss_masses(edges, direction), pair.scaled_loss_masses(edges, direction)
    for name in ("bins_a", "bins_b", "atoms_a", "atoms_b", "only_a", "only_b"):
        for side in ("lower", "upper"):
            np.testing.assert_array_equal(
                getattr(getattr(plain, name), side), getattr(getattr(scaled.masses, name), side)
            )
    for values in (scaled.log_scale_a, scaled.log_scale_b):
        assert values.shape == plain.bins_a.lower.shape
        assert not values.any()
    for values in (scaled.atoms_log_scale_a, scaled.atoms_log_scale_b):
        assert values.shape == plain.atom_loss.shape
        assert not values.any()


def test_atoms_keep_the_losses_that_are_known():
    edges = np.array([-1.0, 0.0, 1.0])
    for pair in (Laplace(0.001), ApproximateDP(1000.0, 0.0)):
        scaled = pair.scaled_loss_masses(edges)
        np.testing.assert_allclose(scaled.masses.atom_loss, [1000.0, -1000.0], rtol=1e-15)
        np.testing.assert_allclose(scaled.atoms_log_scale_a, [0.0, -1000.0], rtol=1e-12)
        np.testing.assert_allclose(scaled.atoms_log_scale_b, [-1000.0, 0.0], rtol=1e-12)
        total = mpmath.mpf(1) / 2 if isinstance(pair, Laplace) else 1 / (1 + mpmath.exp(-1000))
        with mpmath.workdps(500):
            for loss, log_scale, lower, upper in zip(
                (0, 1000),
                scaled.atoms_log_scale_a,
                scaled.masses.atoms_a.lower,
                scaled.masses.atoms_a.upper,
                strict=True,
            ):
                # The float64 scale of 0.001 is not the decimal one.
                exponent = 1 / mpmath.mpf(0.001) if isinstance(pair, Laplace) and loss else mpmath.mpf(loss)
                assert _exact(lower, log_scale) <= total * mpmath.exp(-exponent) <= _exact(upper, log_scale)
    for p in (1e-270, 1e-300, 5e-324):
        scaled = RandomizedResponse(p).scaled_loss_masses(edges)
        exact = mpmath.log(mpmath.mpf(p)) - mpmath.log1p(-mpmath.mpf(p))
        assert abs(mpmath.mpf(float(scaled.masses.atom_loss[0])) - exact) <= mpmath.mpf(scaled.masses.loss_error)
        bounds, log_scale = scaled.masses.atoms_a, scaled.atoms_log_scale_a
        for i, truth in enumerate((mpmath.mpf(p), 1 - mpmath.mpf(p))):
            assert _exact(bounds.lower[i], log_scale[i]) <= truth <= _exact(bounds.upper[i], log_scale[i])
        swapped = RandomizedResponse(p).scaled_loss_masses(edges, Direction.B_TO_A)
        np.testing.assert_array_equal(swapped.atoms_log_scale_a, scaled.atoms_log_scale_b)
    revealing = RandomizedResponse(0.0).scaled_loss_masses(edges)
    assert revealing.masses.only_a.lower[0] > 0.999999
