"""Exponential moments of the losses above a bound: upper bounds, close to the exact ones, in both directions."""

import math

import mpmath
import numpy as np
import pytest

from pbdist.mechanisms import ApproximateDP, Gaussian, Histogram, Laplace, RandomizedResponse, SubsampledGaussian
from pbdist.types import Direction

mpmath.mp.dps = 30


def _exact_gaussian(variance, tilt, start):
    v, tilt, start = mpmath.mpf(variance), mpmath.mpf(tilt), mpmath.mpf(start)
    tail = mpmath.erfc((start - v / 2 - tilt * v) / mpmath.sqrt(2 * v)) / 2
    return tilt * (tilt + 1) * v / 2 + mpmath.log(tail)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("scale", [0.03, 1.0, 7.3, 250.0])
def test_gaussian_moments(scale, direction):
    pair = Gaussian(scale, sensitivity=0.9)
    ratio = mpmath.mpf(0.9) / mpmath.mpf(scale)
    for tilt in (0.0, 0.4, 17.0, 3000.0):
        for deviations in (-3.0, 0.0, 4.0, 60.0, 2000.0):
            loss = float(ratio * ratio / 2 + ratio * deviations)
            exact = _exact_gaussian(ratio**2, tilt, loss)
            bound = pair.log_tail_moment(tilt, loss, direction)
            assert exact <= bound <= exact + mpmath.mpf("1e-10") * (1 + abs(exact) + ratio**2 * tilt**2)
    assert pair.log_tail_moment(1.0, math.inf, direction) == -math.inf
    assert pair.log_tail_moment(1.0, -math.inf, direction) == pytest.approx(float(ratio**2), rel=1e-12)


def _exact_subsampled(pair, tilt, loss, direction):
    """ln of the integral over x, on a fine grid around where the integrand is largest."""
    q, s, scale = pair.rate, pair.sensitivity, pair.scale
    reach = 60.0 * scale + (tilt + 2.0) * s
    x = np.linspace(-reach, reach, 600_001)
    losses = np.logaddexp(np.log1p(-q) if q < 1.0 else -np.inf, math.log(q) + s * (x - s / 2) / scale**2)
    log_density = -0.5 * (x / scale) ** 2
    if direction is Direction.A_TO_B:
        values = np.where(losses > loss, log_density + (tilt + 1.0) * losses, -np.inf)
    else:
        values = np.where(-losses > loss, log_density - tilt * losses, -np.inf)
    largest = values.max()
    total = np.sum(np.exp(values - largest)) * (x[1] - x[0]) / (scale * math.sqrt(2.0 * math.pi))
    return largest + math.log(total)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    "pair",
    [
        SubsampledGaussian(4.0, 0.01),
        SubsampledGaussian(1.0, 0.3),
        SubsampledGaussian(0.6, 1e-4),
        SubsampledGaussian(0.8, 0.97),
        SubsampledGaussian(1.3, 1.0),
    ],
    ids=str,
)
def test_subsampled_moments(pair, direction):
    q = pair.rate
    losses = [-5.0, -0.5 * q, 0.0, 0.3 * q, 2.0 * q, 0.5, 3.0]
    for tilt in (0.0, 0.7, 12.0, 150.0):
        for loss in losses:
            bound = pair.log_tail_moment(tilt, loss, direction)
            if direction is Direction.B_TO_A and q < 1.0 and loss > -math.log1p(-q):
                assert bound == -math.inf
                continue
            exact = _exact_subsampled(pair, tilt, loss, direction)
            # The grid misses the exact integral by up to the cell at its end.
            assert exact - 5e-3 <= bound <= exact + 0.3 + 1e-3 * abs(exact)
    whole = pair.log_tail_moment(0.0, -math.inf, direction)
    assert 0.0 <= whole < 0.1


def test_subsampled_moments_are_never_below_the_exact_ones():
    for pair in (SubsampledGaussian(4.0, 0.01), SubsampledGaussian(0.9, 0.4)):
        q, s = mpmath.mpf(pair.rate), mpmath.mpf(pair.scale)

        def loss_at(x, q=q, s=s):
            return mpmath.log(1 - q + q * mpmath.exp((x - mpmath.mpf(1) / 2) / s**2))

        for tilt, start in ((3.0, 1.5), (40.0, 9.0)):
            loss = float(loss_at(mpmath.mpf(start)))
            x0 = s**2 * mpmath.log((mpmath.exp(mpmath.mpf(loss)) - 1 + q) / q) + mpmath.mpf(1) / 2
            points = [x0 + s * k for k in range(0, 40, 2)]
            above = mpmath.quad(
                lambda x, tilt=tilt, f=loss_at, s=s: mpmath.npdf(x, 0, s) * mpmath.exp((tilt + 1) * f(x)), points
            )
            assert mpmath.log(above) <= pair.log_tail_moment(tilt, loss, Direction.A_TO_B) < mpmath.log(above) + 0.1
            points = [x0 - s * k for k in range(0, 30, 2)][::-1]
            below = mpmath.quad(
                lambda x, tilt=tilt, f=loss_at, s=s: mpmath.npdf(x, 0, s) * mpmath.exp(-tilt * f(x)), points
            )
            assert mpmath.log(below) <= pair.log_tail_moment(tilt, -loss, Direction.B_TO_A) < mpmath.log(below) + 0.1


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    "pair",
    [
        Laplace(0.5),
        Laplace(2.0, truncate=(-3.0, 4.5)),
        Gaussian(1.0, truncate=(-4.0, 5.0)),
        Gaussian(3.0, truncate=(-0.2, 5.0)),
        RandomizedResponse(0.2),
        ApproximateDP(0.7, 0.1),
    ],
    ids=str,
)
def test_bounded_losses(pair, direction):
    edges = np.linspace(-8.0, 8.0, 4001)
    masses = pair.directed_loss_masses(edges, direction)
    for tilt in (0.0, 1.0, 25.0):
        for loss in (-7.0, -1.0, 0.0, 0.3, 0.69, 1.0, 6.0, 9.0):
            cells = masses.cells_a.lower[1:-1] * np.exp(tilt * edges[:-1]) * (edges[:-1] > loss)
            atoms = masses.atoms_a.lower * np.exp(tilt * masses.atom_loss) * (masses.atom_loss > loss)
            found = float(cells.sum() + atoms.sum())
            bound = pair.log_tail_moment(tilt, loss, direction)
            if found == 0.0:
                assert bound == -math.inf or loss > 0.0
            else:
                assert math.log(found) <= bound + 1e-12
        assert pair.log_tail_moment(tilt, 9.0, direction) == -math.inf


def test_truncated_gaussians_have_light_tails():
    wide = Gaussian(1.0, truncate=(-20.0, 20.0))
    exact = float(_exact_gaussian(1.0, 3.0, 8.0))
    assert exact <= wide.log_tail_moment(3.0, 8.0, Direction.A_TO_B) < exact + 1e-9


def test_no_finite_loss_at_all():
    for pair in (RandomizedResponse(0.0), ApproximateDP(1.0, 1.0), Laplace(1.0, truncate=(-0.3, 0.3))):
        assert pair.log_tail_moment(1.0, -math.inf, Direction.A_TO_B) == -math.inf
    assert Histogram([1, 2], [2, 1]).log_tail_moment(1.0, 0.0, Direction.A_TO_B) == math.inf
