"""Interval masses against 60 digits, in the far tails and for the narrowest intervals."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbdist.mechanisms.intervals import gaussian_interval, laplace_interval

mpmath.mp.dps = 60


def _exact_laplace(lower, upper, scale, mean):
    def tail(x):  # P(X > x)
        z = (mpmath.mpf(x) - mpmath.mpf(mean)) / mpmath.mpf(scale)
        return mpmath.exp(-z) / 2 if z >= 0 else 1 - mpmath.exp(z) / 2

    if lower >= mean:
        return tail(lower) - tail(upper)
    mirrored = [2 * mpmath.mpf(mean) - mpmath.mpf(x) for x in (upper, lower)]
    return tail(mirrored[0]) - tail(mirrored[1])


def _exact_gaussian(lower, upper, scale, mean):
    root = mpmath.sqrt(2)
    z = [(mpmath.mpf(x) - mpmath.mpf(mean)) / mpmath.mpf(scale) for x in (lower, upper)]
    if z[0] < 0:
        z = [-z[1], -z[0]]
    return (mpmath.erfc(z[0] / root) - mpmath.erfc(z[1] / root)) / 2


@pytest.mark.parametrize(
    ("computed", "exact", "reach"),
    [(laplace_interval, _exact_laplace, 600.0), (gaussian_interval, _exact_gaussian, 36.0)],
    ids=["laplace", "gaussian"],
)
@given(
    start=st.floats(-1.0, 1.0),
    width=st.floats(-12.0, 2.0),
    scale=st.floats(-3.0, 5.0),
    mean=st.sampled_from([0.0, 1.0, 0.3, 8000.0, -17.25]),
)
@settings(max_examples=400, deadline=None)
def test_stated_error_holds(computed, exact, reach, start, width, scale, mean):
    size = 10.0**scale
    lower = mean + start * reach * size
    upper = lower + 10.0**width * size
    if not lower < upper:
        return
    mass, error = computed(np.array([lower]), np.array([upper]), size, mean)
    truth = exact(lower, upper, size, mean)
    if truth < mpmath.mpf("1e-290"):
        assert mass[0] < 1.1e-290
    else:
        assert abs(mpmath.mpf(float(mass[0])) - truth) <= mpmath.mpf(float(error[0])) * truth


def test_error_stays_small_where_masses_matter():
    z = np.linspace(-8.0, 8.0, 2001)
    for width in (1e-9, 1e-3, 1.0):
        _, error = gaussian_interval(z, z + width, 1.0)
        assert error.max() < 3e-13
        _, error = laplace_interval(z, z + width, 1.0)
        assert error.max() < 1e-14


@pytest.mark.parametrize("interval", [laplace_interval, gaussian_interval])
def test_infinite_ends(interval):
    lower, upper = np.array([-np.inf, -np.inf, 0.0]), np.array([np.inf, 0.0, np.inf])
    mass, _ = interval(lower, upper, 2.0)
    np.testing.assert_allclose(mass, [1.0, 0.5, 0.5], rtol=1e-15)
