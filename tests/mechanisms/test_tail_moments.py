"""Exponential moments of the losses above a bound: upper bounds, close to the exact ones, in both directions."""

import math

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.mechanisms import (
    ApproximateDP,
    Gaussian,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    RandomizedResponse,
    Staircase,
    SubsampledGaussian,
)
from pbdist.types import Direction
from tests.strategies import examples

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


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    "pair",
    [
        Laplace(0.5),
        Laplace(2.0, truncate=(-3.0, 4.5)),
        LaplaceSum((0.5, 0.4)),
        LaplaceSum((2.0, 0.01)),
        Gaussian(1.0, truncate=(-4.0, 5.0)),
        Gaussian(3.0, truncate=(-0.2, 5.0)),
        RandomizedResponse(0.2),
        ApproximateDP(0.7, 0.1),
        Staircase(0.5, split=0.8),
        KaryRandomizedResponse(0.3, 7),
    ],
    ids=str,
)
def test_bounded_losses(pair, direction):
    edges = np.linspace(-8.0, 8.0, 4001)
    masses = pair.directed_loss_masses(edges, direction)
    for tilt in (0.0, 1.0, 25.0):
        for loss in (-7.0, -1.0, 0.0, 0.3, 0.69, 1.0, 6.0, 9.0):
            bins = masses.bins_a.lower[1:-1] * np.exp(tilt * edges[:-1]) * (edges[:-1] > loss)
            atoms = masses.atoms_a.lower * np.exp(tilt * masses.atom_loss) * (masses.atom_loss > loss)
            found = float(bins.sum() + atoms.sum())
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


# -- against an enclosure by ball arithmetic -----------------------------------------------------------------------


def _proven_subsampled(pair, tilt, loss, direction):
    """ln of the integral as an enclosure by ball arithmetic; what is left out beyond its ends is less than e^-50."""
    arb, acb = flint.arb, flint.acb
    before, flint.ctx.prec = flint.ctx.prec, 200
    try:
        q, sign = arb(pair.rate), 1 if direction is Direction.A_TO_B else -1
        ratio = arb(pair.sensitivity) / arb(pair.scale)
        power = sign * arb(tilt) + (1 if sign > 0 else 0)
        # V = -v/2 + ratio z lies beyond where its loss is the one asked for, if any V's is.
        excess = (sign * arb(loss)).exp() - 1 + q
        if not excess > 0 and sign < 0:
            return None
        edge = ((excess / q).log() + ratio * ratio / 2) / ratio if excess > 0 else arb(-1000)
        reach = 50.0 + abs(float(power * ratio))
        low, high = (max(float(edge), -reach), max(float(edge), reach) + 50.0)
        if sign < 0:
            low, high = min(float(edge), -reach) - 50.0, min(float(edge), reach)
        z = np.linspace(low, high, 100_001)
        gain = float(ratio) * (z - 0.5 * float(ratio))
        losses = np.logaddexp(np.log1p(-pair.rate) if pair.rate < 1.0 else -np.inf, math.log(pair.rate) + gain)
        exponent = float(power) * losses - 0.5 * z * z
        largest = float(exponent.max())
        around = z[exponent > largest - 50.0]
        first, last = float(around[0]) - (z[1] - z[0]), float(around[-1]) + (z[1] - z[0])
        ends = [edge if first <= float(edge) and sign > 0 else arb(first)]
        ends.append(edge if last >= float(edge) and sign < 0 else arb(last))
        pieces = math.ceil((last - first) / 4.0)

        def density(x, analytic):
            inner = (1 - q) + q * (ratio * (x - ratio / 2)).exp()
            return (power * inner.log(analytic=analytic) - x * x / 2 - largest).exp()

        total = arb(0)
        for piece in range(pieces):
            a, b = (ends[0] + (ends[1] - ends[0]) * k / pieces for k in (piece, piece + 1))
            total += acb.integral(density, a, b, rel_tol=arb(2) ** -100, abs_tol=arb(2) ** -150).real
        return (total / (2 * arb.pi()).sqrt()).log() + largest
    finally:
        flint.ctx.prec = before


@pytest.mark.nightly
def test_the_enclosure_is_the_moment():
    """Whole powers of 1 - q + q e^V are sums of exponentials, whose Gaussian tails are known."""
    for pair, tilt, loss in (
        (SubsampledGaussian(1.0, 0.1), 3, 0.4),
        (SubsampledGaussian(0.5, 0.7), 12, -0.2),
        (SubsampledGaussian(20.0, 1e-5), 1, 1e-6),
        (SubsampledGaussian(4.0, 0.01), 40, 0.02),
    ):
        with mpmath.workdps(60):
            q, ratio = mpmath.mpf(pair.rate), 1 / mpmath.mpf(pair.scale)
            start = mpmath.log((mpmath.expm1(mpmath.mpf(loss)) + q) / q) / ratio + ratio / 2
            exact = mpmath.fsum(
                mpmath.binomial(tilt + 1, k)
                * (1 - q) ** (tilt + 1 - k)
                * q**k
                * mpmath.exp(k * (k - 1) * ratio**2 / 2)
                * mpmath.ncdf(k * ratio - start)
                for k in range(tilt + 2)
            )
            found = _proven_subsampled(pair, float(tilt), loss, Direction.A_TO_B)
            assert abs(mpmath.mpf(found.mid().str(40, radius=False)) - mpmath.log(exact)) < 1e-20
            assert float(found.rad()) < 1e-20


def _check_moment(pair, tilt, loss, direction):
    """Return the bound less the exact logarithm; None where there is no such loss."""
    bound = pair.log_tail_moment(tilt, loss, direction)
    exact = _proven_subsampled(pair, tilt, loss, direction)
    if exact is None:
        assert bound == -math.inf
        return None
    # Certainly not below; what ball arithmetic leaves open is far below the rounding paid for.
    assert bound == math.inf or flint.arb(bound) >= exact, (pair, tilt, loss, direction, bound, exact)
    return bound - float(exact)


@pytest.mark.slow
@examples(200)
@given(data=st.data())
def test_moments_are_never_below_the_exact_ones(data):
    rate = data.draw(st.just(1.0) | st.floats(-6.0, 0.0).map(lambda decades: 10.0**decades), label="rate")
    scale = 10.0 ** data.draw(st.floats(math.log10(0.3), 2.0), label="scale")
    tilt = 10.0 ** data.draw(st.floats(-2.0, 3.0), label="tilt")
    pair = SubsampledGaussian(scale, rate, sensitivity=data.draw(st.sampled_from([1.0, 0.7]), label="sensitivity"))
    smallest = -math.log1p(-rate) if rate < 1.0 else 3.0
    loss = data.draw(
        st.sampled_from([0.0, -smallest, smallest, 0.9 * smallest, -0.9 * smallest, -1.5 * smallest])
        | st.floats(-1.0, 1.0).map(lambda part: 1.2 * part * smallest)
        | st.floats(-1.0, 8.0).map(lambda part: part * rate / scale)
        | st.floats(-2.0, 8.0).map(lambda part: part / scale),
        label="loss",
    )
    direction = data.draw(st.sampled_from(Direction), label="direction")
    _check_moment(pair, tilt, loss, direction)


@pytest.mark.slow
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    "pair",
    [
        SubsampledGaussian(4.0, 0.01),
        SubsampledGaussian(1.0, 0.1),
        SubsampledGaussian(2.0, 0.5),
        SubsampledGaussian(20.0, 1e-3),
        SubsampledGaussian(100.0, 0.3),
        SubsampledGaussian(10.0, 1e-6),
        SubsampledGaussian(0.5, 0.02),
    ],
    ids=str,
)
def test_far_out_the_moment_is_close(pair, direction):
    ratio = pair.sensitivity / pair.scale
    for tilt in (0.3, 1.0, 10.0):
        power = tilt + 1.0 if direction is Direction.A_TO_B else 0.0
        for deviations in (6.5, 8.0, 11.0):
            # As many deviations beyond the tilted mean, of the steepest loss, as a window reaches.
            z = power * ratio + deviations if direction is Direction.A_TO_B else -deviations - tilt * pair.rate * ratio
            gain = ratio * (z - 0.5 * ratio)
            loss = math.log1p(pair.rate * math.expm1(gain)) * (1.0 if direction is Direction.A_TO_B else -1.0)
            found = _check_moment(pair, tilt, loss, direction)
            assert found is not None
            assert 0.0 <= found < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    "pair", [SubsampledGaussian(1.0, 0.3), SubsampledGaussian(0.6, 1e-4), SubsampledGaussian(1.3, 1.0)], ids=str
)
def test_the_moment_is_close_everywhere(pair, direction):
    q = pair.rate
    for tilt in (0.0, 0.7, 12.0, 150.0):
        for loss in (-5.0, -0.5 * q, 0.0, 0.3 * q, 2.0 * q, 0.5, 3.0):
            found = _check_moment(pair, tilt, loss, direction)
            assert found is None or found <= 0.3 + 1e-3 * abs(pair.log_tail_moment(tilt, loss, direction))
    assert 0.0 <= pair.log_tail_moment(0.0, -math.inf, direction) < 0.1


def test_nothing_lies_beyond_an_infinite_loss() -> None:
    for pair in (Gaussian(0.6), Gaussian(0.6, truncate=(-4.0, 5.0)), SubsampledGaussian(4.0, 0.01)):
        for direction in Direction:
            assert pair.log_tail_moment(1.0, math.inf, direction) == -math.inf


@pytest.mark.parametrize("rate", [1e-30, 1e-12, 1e-3, 0.5, 1.0 - 2.0**-53, 1.0])
def test_the_error_of_a_loss_covers_the_slope_of_a_tangent(rate: float) -> None:
    # `_moment_below_tangents` takes q e^V / e^L for exact up to some such errors.
    pair = SubsampledGaussian(1.0, rate)
    gains = np.linspace(-9.0, 9.0, 801)
    losses, error = pair._loss(gains)
    slopes = np.exp(math.log(rate) + gains - losses)
    for gain, loss, slope in zip(gains.tolist(), losses.tolist(), slopes.tolist(), strict=True):
        taken = mpmath.mpf(rate) * mpmath.exp(gain)
        ratio = 1 - mpmath.mpf(rate) + taken
        assert abs(loss - mpmath.log(ratio)) <= error
        assert abs(slope * ratio / taken - 1) <= error
