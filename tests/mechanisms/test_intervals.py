"""Interval masses against 60 digits, in the far tails and for the narrowest intervals."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.mechanisms.masses import _BLOCK, _SERIES_TERMS, gaussian_interval, laplace_interval
from tests.mechanisms.noise_masses import gaussian_mass, laplace_mass
from tests.strategies import examples

mpmath.mp.dps = 60


@pytest.mark.parametrize(
    ("computed", "exact", "reach"),
    [(laplace_interval, laplace_mass, 600.0), (gaussian_interval, gaussian_mass, 36.0)],
    ids=["laplace", "gaussian"],
)
@given(
    start=st.floats(-1.0, 1.0),
    width=st.floats(-12.0, 2.0),
    scale=st.floats(-3.0, 5.0),
    mean=st.sampled_from([0.0, 1.0, 0.3, 8000.0, -17.25]),
)
@examples(1200)
def test_stated_error_holds(computed, exact, reach, start, width, scale, mean):
    size = 10.0**scale
    lower = mean + start * reach * size
    upper = lower + 10.0**width * size
    if not lower < upper:
        return
    mass, error, _ = computed(np.array([lower]), np.array([upper]), size, mean)
    truth = exact(lower, upper, size, mean)
    if truth < mpmath.mpf("1e-290"):
        assert mass[0] < 1.1e-290
    else:
        assert abs(mpmath.mpf(float(mass[0])) - truth) <= mpmath.mpf(float(error[0])) * truth


def test_error_stays_small_where_masses_matter():
    z = np.linspace(-8.0, 8.0, 2001)
    for width in (1e-9, 1e-3, 1.0):
        _, error, _ = gaussian_interval(z, z + width, 1.0)
        assert error.max() < 3e-13
        _, error, _ = laplace_interval(z, z + width, 1.0)
        assert error.max() < 1e-14


@pytest.mark.parametrize("interval", [laplace_interval, gaussian_interval])
def test_infinite_ends(interval):
    lower, upper = np.array([-np.inf, -np.inf, 0.0]), np.array([np.inf, 0.0, np.inf])
    mass, _, _ = interval(lower, upper, 2.0)
    np.testing.assert_allclose(mass, [1.0, 0.5, 0.5], rtol=1e-15)


def test_left_out_terms_of_the_series_are_small():
    involutions = [1, 1]
    while len(involutions) < 80:
        involutions.append(involutions[-1] + (len(involutions) - 1) * involutions[-2])
    assert involutions[:8] == [1, 1, 2, 4, 10, 26, 76, 232]
    for terms, extent in _SERIES_TERMS:
        left_out = sum(
            involutions[2 * k] * Fraction(extent) ** (2 * k) / (math.factorial(2 * k) * 4**k * (2 * k + 1))
            for k in range(terms + 1, 40)
        )
        assert left_out < Fraction(1, 2**56)


@pytest.mark.parametrize("extent", [extent for _, extent in _SERIES_TERMS])
def test_narrow_intervals_at_the_limits_of_the_series(extent):
    for z in (0.0, 0.3, -1.0, 2.5, -7.0, 20.0, 37.0):
        width = extent / (abs(z) + 1.0) * (1.0 - 1e-9)
        lower, upper = z - 0.5 * width, z + 0.5 * width
        mass, error, _ = gaussian_interval(np.array([lower]), np.array([upper]), 1.0)
        truth = gaussian_mass(lower, upper, 1.0, 0.0)
        assert abs(mpmath.mpf(float(mass[0])) - truth) <= mpmath.mpf(float(error[0])) * truth
        assert error[0] <= (22.0 + 4.1 * z * z) * 2.0**-53


@pytest.mark.parametrize("count", [3, 700, 2 * _BLOCK + 5])
def test_stacked_intervals_equal_single_ones(count):
    ends = np.concatenate(([-np.inf], np.linspace(-11.0, 13.0, count), [np.inf]))
    scales, means = np.array([[0.5], [1.0], [40.0]]), np.array([[-1.0], [0.0], [3.0]])
    stacked = gaussian_interval(ends[:-1], ends[1:], scales, means)
    for row in range(3):
        single = gaussian_interval(ends[:-1], ends[1:], float(scales[row, 0]), float(means[row, 0]))
        np.testing.assert_allclose(stacked[0][row], single[0], rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(stacked[1][row], single[1], rtol=1e-12)


@pytest.mark.parametrize("width", [1e-4, 3e-3, 0.02, 0.09])
def test_equally_wide_intervals(width):
    ends = width * np.arange(-120.0, 121.0) + 0.7
    mass, error, _ = gaussian_interval(ends[:-1], ends[1:], 1.0)
    for i in range(mass.size):
        truth = gaussian_mass(ends[i], ends[i + 1], 1.0, 0.0)
        assert abs(mpmath.mpf(float(mass[i])) - truth) <= mpmath.mpf(float(error[i])) * truth
    # The same as when one wider interval forbids the common polynomial.
    apart, _, _ = gaussian_interval(ends[:-1], np.append(ends[1:-1], ends[-1] + 0.3 * width), 1.0)
    np.testing.assert_allclose(mass[:-1], apart[:-1], rtol=2e-15)


def test_empty_intervals_beside_an_endless_one():
    lower, upper = np.full(65, 2.0), np.full(65, 2.0)
    upper[32] = np.inf
    mass, error, _ = gaussian_interval(lower, upper, 1.0)
    assert np.all(np.delete(mass, 32) == 0.0)
    assert mass[32] == pytest.approx(0.02275013194817921, rel=1e-13)
    assert np.all(np.isfinite(error))
