"""Rough pictures of the losses: no bound rests on them, but what they lead to is chosen well."""

import math

import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.mechanisms import (
    ApproximateDP,
    ElementaryPair,
    Gaussian,
    Histogram,
    Laplace,
    RandomizedResponse,
    SubsampledGaussian,
)
from pbdist.pld import tight_bounds
from pbdist.pld.loss_profile import Exponents, LossProfile, loss_profile
from pbdist.types import Direction, FloatArray

Cumulants = tuple[float, float, float]


def gaussian_cumulants(pair: Gaussian | SubsampledGaussian, tilt: float) -> Cumulants:
    """K, K' and K'' of N(v/2, v)."""
    variance = (pair.sensitivity / pair.scale) ** 2
    return tilt * (tilt + 1.0) * variance / 2.0, (tilt + 0.5) * variance, variance


def cumulants(pair: Gaussian | SubsampledGaussian, tilt: float) -> Cumulants:
    """K, K' and K'' by quadrature over the noise: nearly exact for a smooth integrand that falls like e^-z²."""
    if isinstance(pair, Gaussian):
        return gaussian_cumulants(pair, tilt)
    ratio, rate = pair.sensitivity / pair.scale, pair.rate
    reach = 15.0 + abs(tilt + 1.0) * ratio
    z = np.linspace(-reach, reach, max(4001, 2 * math.ceil(20.0 * reach) + 1))
    loss = np.logaddexp(math.log1p(-rate) if rate < 1.0 else -np.inf, math.log(rate) + ratio * (z - 0.5 * ratio))
    exponent = (tilt + 1.0) * loss - 0.5 * z * z
    largest = float(exponent.max())
    weight = np.exp(exponent - largest)
    total = float(weight.sum())
    mean = float(weight @ loss) / total
    return (
        largest + math.log(total * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)),
        mean,
        float(weight @ (loss - mean) ** 2) / total,
    )


def tilt_of(pair: Gaussian | SubsampledGaussian, mean: float) -> float:
    """The θ that gives the loss that mean, by bisection."""
    low, high = -0.5, -0.5
    step = 1.0
    while cumulants(pair, low)[1] > mean:
        low, step = low - step, 2.0 * step
    while cumulants(pair, high)[1] < mean:
        high, step = high + step, 2.0 * step
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cumulants(pair, middle)[1] < mean else (low, middle)
    return 0.5 * (low + high)


def cumulant(profile: LossProfile, tilt: float) -> float:
    """K of the points."""
    return float(profile.moments(np.array([tilt]))[0][0])


PICTURES = [
    (Gaussian(1.0), 0.0),
    (Gaussian(1.0), 3.0),
    (Gaussian(0.1), 40.0),
    (Gaussian(20.0, sensitivity=0.6), 0.1),
    (Gaussian(20.0), 2.0),
    (Gaussian(1e6), 1e-6),
    (Gaussian(1e-2), 3e3),
    (SubsampledGaussian(4.0, 0.01), 1e-4),
    (SubsampledGaussian(4.0, 0.01), 5e-4),
    (SubsampledGaussian(1.0, 0.1), 0.05),
    (SubsampledGaussian(1.0, 0.1), 0.094),
    (SubsampledGaussian(1.0, 0.01), 5e-3),
    (SubsampledGaussian(2.0, 0.5), 0.6),
    (SubsampledGaussian(20.0, 1e-3, sensitivity=0.9), 1e-5),
    (SubsampledGaussian(0.6, 1e-4), 1e-5),
    (SubsampledGaussian(100.0, 0.3), 0.17),
    (SubsampledGaussian(1.0, 1.0), 5.0),
    (SubsampledGaussian(0.3, 0.9), 2.0),
]


@pytest.mark.parametrize(("pair", "target"), PICTURES, ids=str)
def test_the_weights_have_the_cumulants(pair: Gaussian | SubsampledGaussian, target: float) -> None:
    picture = pair.loss_picture(target)
    assert picture is not None
    loss, log_weight = picture
    assert loss.shape == log_weight.shape
    assert loss.size > 50
    # Where the loss hardly falls any more, floats may agree.
    assert np.all(np.diff(loss) >= 0.0)
    assert np.all(np.isfinite(loss))
    assert np.all(np.isfinite(log_weight))
    log_weight = log_weight - np.logaddexp.reduce(log_weight)
    for tilt in np.linspace(tilt_of(pair, -target), tilt_of(pair, target), 9).tolist():
        exact, mean, variance = cumulants(pair, tilt)
        exponent = log_weight + tilt * loss
        value = float(np.logaddexp.reduce(exponent))
        weight = np.exp(exponent - value)
        found = float(weight @ loss)
        assert value == pytest.approx(exact, rel=0.01, abs=1e-3 * math.sqrt(variance))
        assert abs(found - mean) <= 0.01 * math.sqrt(variance)
        assert float(weight @ (loss - found) ** 2) == pytest.approx(variance, rel=0.01)


@pytest.mark.parametrize(("pair", "target"), PICTURES, ids=str)
def test_the_profile_is_made_of_the_picture(pair: Gaussian | SubsampledGaussian, target: float) -> None:
    picture = pair.loss_picture(target)
    assert picture is not None
    profile = loss_profile(pair, target, target)
    assert np.array_equal(profile.loss, picture[0])
    assert profile.lattice == profile.heaviest_atom == 0.0
    # A distribution under A, and under B, of which the other direction is made.
    scale = math.sqrt(cumulants(pair, 0.0)[2])
    assert cumulant(profile, 0.0) == pytest.approx(0.0, abs=1e-9)
    assert cumulant(profile, -1.0) == pytest.approx(0.0, abs=1e-3 * min(scale, 1.0))
    assert np.all(profile.lower <= profile.loss)
    assert np.all(profile.loss <= profile.upper)
    # The points stand for the whole line in between.
    assert np.array_equal(profile.lower[1:], profile.upper[:-1])


@pytest.mark.parametrize(("pair", "target"), [item for item in PICTURES if item[1] > 0.0], ids=str)
def test_the_saddle_points_are_found(pair: Gaussian | SubsampledGaussian, target: float) -> None:
    """The θ at which forty pairs have about the mean loss that is asked for, in both directions."""
    profile, pairs = loss_profile(pair, target, target), 40
    means = np.array([0.25 * target, 0.6 * target, target])
    for direction, sign in ((Direction.A_TO_B, 1.0), (Direction.B_TO_A, -1.0)):
        exponents = Exponents([(profile, 1)], direction, (float(means[0]), float(means[-1])))
        found = exponents.saddle_points(pairs, pairs * means)
        # Between tilts that are looked at they are interpolated, and no larger ones are.
        for mean, tilt in zip(
            means[found.reached_by_losses].tolist(), found.tilt[found.reached_by_losses].tolist(), strict=True
        ):
            _, first, second = cumulants(pair, tilt if sign > 0.0 else -1.0 - tilt)
            if tilt == 0.0:
                assert sign * first >= mean
            else:
                assert abs(sign * first - mean) * pairs <= 1.5 * math.sqrt(pairs * second)


@pytest.mark.parametrize(
    "pair",
    [
        Gaussian(1.0, truncate=(-5.0, 5.0)),
        Gaussian(3.0, truncate=(-1e9, 1e9)),
        Laplace(1.0),
        RandomizedResponse(0.3),
        ApproximateDP(1.0, 0.1),
        Histogram([1, 2, 3], [3, 2, 1]),
    ],
    ids=str,
)
def test_others_have_none_but_a_profile_all_the_same(pair: ElementaryPair) -> None:
    for target in (0.0, 0.1, 10.0):
        assert pair.loss_picture(target) is None
        profile = loss_profile(pair, target, target)
        assert profile.loss.size > 1
        assert np.all(np.diff(profile.loss) >= 0.0)


def test_means_too_far_out_have_none() -> None:
    """More than two thousand points would be needed: the masses of many bins are quicker."""
    assert Gaussian(1.0).loss_picture(100.0) is not None
    assert Gaussian(1.0).loss_picture(1e3) is None
    assert Gaussian(1e4).loss_picture(1.0) is None
    assert Gaussian(1e-20).loss_picture(0.0) is None
    assert SubsampledGaussian(1.0, 1.0).loss_picture(1e3) is None
    assert SubsampledGaussian(100.0, 0.3).loss_picture(0.32) is None
    for pair, target in ((Gaussian(1.0), 1e3), (SubsampledGaussian(1.0, 1.0), 1e3), (Gaussian(1e4), 1.0)):
        assert loss_profile(pair, target, target).loss.size > 1


def test_where_a_tilt_has_a_second_mode_far_out_there_is_none() -> None:
    """At the tilt 265 that 128 rounds need for ε = 0.3, e^46 times as much weight lies beyond the picture as in it."""
    pair = SubsampledGaussian(4.0, 0.01)
    assert pair.loss_picture(0.3 / 128.0) is None
    assert pair.loss_picture(0.3 / 65_536.0) is not None
    bounds = tight_bounds({pair: 1}, np.array([128]), np.array([0.3]), Request(tolerance=1e-3))
    assert -52.649 < bounds.log_lower.max() <= bounds.log_upper.max() < -52.646


@pytest.mark.parametrize(("scale", "rate"), [(10.0, 1e-6), (1.0, 0.01), (1.0, 0.4), (1.0, 0.97)])
def test_tilts_near_the_smallest_loss_have_none(scale: float, rate: float) -> None:
    """B||A's losses end at -ln(1 - q): near it the tilts grow without end."""
    smallest = -math.log1p(-rate)
    pair = SubsampledGaussian(scale, rate)
    assert pair.loss_picture(0.89 * smallest) is not None
    for target in (0.9001 * smallest, smallest, 2.0 * smallest, 50.0):
        assert pair.loss_picture(target) is None


def test_the_picture_grows_with_what_is_asked_for() -> None:
    reaches: list[FloatArray] = []
    for target in (0.0, 1.0, 10.0, 100.0):
        picture = Gaussian(1.0).loss_picture(target)
        assert picture is not None
        reaches.append(picture[0][[0, -1]])
    assert np.all(np.diff([low for low, _ in reaches]) < 0.0)
    assert np.all(np.diff([high for _, high in reaches]) > 0.0)
    for target, (low, high) in zip((0.0, 1.0, 10.0, 100.0), reaches, strict=True):
        assert low <= -target - 0.5 - 12.0
        assert high >= target + 0.5 + 12.0
