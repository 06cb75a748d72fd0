"""Answers where earlier versions had none, or called wide ones good: each stands for a kind."""

import math
import warnings
from decimal import Decimal
from typing import Any

import mpmath
import numpy as np
import pytest

from pbdist import (
    DiscreteGaussian,
    Gaussian,
    GaussianMixture,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    PrecisionError,
    PrecisionWarning,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    epsilon_bounds,
    privacy_bounds,
)


def bracket(mechanism: Any, compositions: int, delta: float, direction: str = "both") -> tuple[np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        found = epsilon_bounds(mechanism, compositions=compositions, delta=delta, direction=direction)
    return found.epsilon_lower.values.ravel(), found.epsilon_upper.values.ravel()


@pytest.mark.parametrize(
    ("mechanism", "compositions", "delta", "about"),
    [
        pytest.param(
            [(SubsampledGaussian(1 + 0.9 * i / 66, 0.01), 1) for i in range(66)],
            1,
            1e-5,
            0.3662,
            marks=pytest.mark.slow,
        ),
        (Laplace(1 / 40), 16, 1e-9, 640.0),
        (RandomizedResponse(0.6), 1, 1e-148, math.log(1.5)),
        (SubsampledGaussian(0.22, 0.1), 1000, 1e-5, 1134.7),
        (SubsampledGaussian(0.133, 0.01), 1000, 1e-5, 631.55),
        (SubsampledGaussian(0.05, 0.1), 1000, 1e-5, 28_166.0),
        (SubsampledGaussian(0.05, 0.1), 1, 1e-5, 271.16),
        # Where losses are those of a few answers, or next to the same in all rounds.
        (RandomizedResponse(0.9999), 10**6, 1e-5, 9_209_128.0),
        (KaryRandomizedResponse(0.999, 4), 10**6, 1e-5, 7_996_177.0),
        (Laplace(1 / 40), 10**6, 1e-5, 39_007_335.0),
        pytest.param(
            DiscreteGaussian(5.0), 10**6, 1e-5, 20_852.0, marks=pytest.mark.slow(reason="a million rounds of integers")
        ),
        (SubsampledLaplace(0.02, 0.1), 1000, 1e-60, 13_257.2),
        (GaussianMixture(0.1, (0.0, 1.0, 3.0), (0.9, 0.09, 0.01)), 10**6, 1e-5, 8_840_456.0),
        # δ far below what a ladder resolves.
        pytest.param(
            RandomizedResponse(0.6),
            10**6,
            1e-300,
            95_771.08,
            marks=pytest.mark.slow(reason="the window of a million answers"),
        ),
        (Laplace(10.0), 1000, 1e-300, 99.957),
    ],
    ids=lambda value: "66 steps" if isinstance(value, list) else repr(value),
)
def test_epsilon_is_known_within_the_tolerance(mechanism: Any, compositions: int, delta: float, about: float) -> None:
    lower, upper = bracket(mechanism, compositions, delta)
    assert 0.0 < lower[0] <= upper[0] <= 1.001 * lower[0]
    assert lower[0] * 0.999 <= about <= upper[0] * 1.001


@pytest.mark.slow
def test_long_sequences_of_several_families_are_composed() -> None:
    rng = np.random.default_rng(1)
    kinds = (
        lambda scale: Laplace(3.0 * scale),
        lambda scale: Gaussian(3.0 * scale),
        lambda scale: SubsampledGaussian(scale, 0.01),
        lambda scale: SubsampledLaplace(scale, 0.01),
        lambda scale: RandomizedResponse(0.5 + 0.1 / scale),
    )
    steps = [(kinds[rng.integers(len(kinds))](float(np.exp(rng.uniform(0.0, 3.0)))), 1) for _ in range(100)]
    lower, upper = bracket(steps, 1, 1e-5)
    assert 0.0 < lower[0] <= upper[0] <= 1.001 * lower[0]
    # More steps, more ε; and no more than each by itself, without any δ.
    assert lower[0] > bracket(steps[:50], 1, 1e-5)[1][0]


@pytest.mark.parametrize(
    ("mechanism", "pure"),
    [
        (Laplace(10.0), 0.1),
        (RandomizedResponse(0.6), math.log(1.5)),
        (Histogram((5, 4), (4, 5)), math.log(1.25)),
        (SubsampledLaplace(1.0, 0.01), math.log1p(0.01 * math.expm1(1.0))),
    ],
)
def test_without_delta_epsilon_is_the_sum_of_the_largest_losses(mechanism: Any, pure: float) -> None:
    for rounds in (1, 64, 10**6):
        lower, upper = bracket(mechanism, rounds, 0.0)
        assert lower[0] <= rounds * pure * (1.0 + 1e-14)
        assert rounds * pure * (1.0 - 1e-14) <= upper[0] <= lower[0] * (1.0 + 1e-9)


def test_without_delta_no_epsilon_is_enough_for_gaussian_noise() -> None:
    for mechanism in (Gaussian(3.0), SubsampledGaussian(1.0, 0.01), Histogram((5, 4, 1), (4, 6, 0))):
        lower, upper = bracket(mechanism, 3, 0.0)
        assert (lower[0], upper[0]) == (1e9, math.inf)
    # Where a record is added, losses have a bound.
    lower, upper = bracket(SubsampledGaussian(1.0, 0.01), 3, 0.0, "each")
    assert lower[1] <= -3.0 * math.log(0.99) <= upper[1] <= lower[1] * (1.0 + 1e-9)


@pytest.mark.slow
def test_bounded_losses_have_an_epsilon_however_large_their_sum() -> None:
    lower, upper = bracket(Laplace(1.0), 2 * 10**9, 0.0)
    assert 2e9 * (1.0 - 1e-6) <= lower[0] <= 2e9 <= upper[0] <= 2e9 * (1.0 + 1e-6)
    # Bounds so far out are not taken for "none": what is wide says so.
    with pytest.warns(PrecisionWarning):
        found = epsilon_bounds(Laplace(1e-6), compositions=2**40, delta=1e-5, tolerance=1e-9)
    assert 1e18 < found.epsilon_lower.item() < found.epsilon_upper.item() < 1.2e18
    assert not found.within_tolerance.item()


def test_the_smallest_delta_of_all_has_bounds() -> None:
    lower, upper = bracket(Gaussian(1.0), 10, 5e-324)
    assert 10.0 < lower[0] <= upper[0] < 200.0


def test_deltas_of_0_and_above_go_together() -> None:
    found = epsilon_bounds(Laplace(10.0), compositions=[1, 9], delta=[0.0, 1e-5, 0.3])
    assert np.all(np.diff(found.epsilon_upper.values, axis=1) < 0.0)
    assert found.within_tolerance.values.all()


@pytest.mark.slow
def test_wide_bounds_are_not_called_close() -> None:
    mechanism = TruncatedPoissonGaussian(3.0, 0.02, 25, 1000)
    with pytest.warns(PrecisionWarning, match="between two pairs"):
        found = privacy_bounds(mechanism, compositions=41, epsilon=[0.1, 0.5, 1.0])
    assert not found.within_tolerance.values.any()
    assert set(found.why_wide.values.ravel()) == {"the worst case lies between two pairs"}
    with pytest.raises(PrecisionError, match="between two pairs"):
        privacy_bounds(mechanism, compositions=41, epsilon=[0.1, 0.5, 1.0], strict=True)


@pytest.mark.parametrize("epsilon", [1.0, 689.0, 690.0])
def test_one_round_is_known_beyond_what_few_outcomes_are_read_for(epsilon: float) -> None:
    found = privacy_bounds(RandomizedResponse(1e-300), compositions=1, epsilon=epsilon, strict=True)
    exact = -math.expm1(epsilon + math.log(1e-300))
    assert float(found.delta_lower.max()) <= exact <= float(found.delta_upper.max())


def test_a_few_outcomes_are_summed_exactly() -> None:
    """δ of one round, p - e^ε (1 - p) / 3, of which all but 11 digits cancel."""
    p, epsilon = 0.25000183188280006, 9.770007967025873e-6
    found = privacy_bounds(KaryRandomizedResponse(p, 4), compositions=1, epsilon=epsilon)
    with mpmath.workdps(40):
        exact = mpmath.mpf(p) - mpmath.exp(epsilon) * (1 - mpmath.mpf(p)) / 3
    assert found.delta_lower.item() <= exact <= found.delta_upper.item() <= found.delta_lower.item() * (1.0 + 1e-11)


@pytest.mark.slow
def test_a_tiny_delta_of_different_pairs() -> None:
    """Losses of Gaussian noise count far beyond the deviations that matter for a usual δ."""
    several = [(Laplace(420.0 + k), 1) for k in range(20)] + [(Gaussian(140.0 + k), 1) for k in range(20)]
    lower, upper = bracket(several, 1, 1e-60)
    assert 0.50391 < lower[0] < upper[0] < lower[0] * 1.001
    # Floats of less than 1e-290 bound nothing from above.
    steep = [(Laplace(3.0), 4), (Gaussian(2.0), 4), (SubsampledGaussian(1.0, 1e-3), 4)]
    lower, upper = bracket(steep, 1, 1e-300, direction="each")
    assert np.all(upper < lower * 1.01)


@pytest.mark.slow(reason="transforms of seventy pairs")
def test_directions_of_many_pairs_share_what_they_need() -> None:
    """Where rare large losses count as much as many usual ones, the bracket stays wide, in little time."""
    several = [(SubsampledGaussian(4.0 + k / 10.0, 2e-4), 1) for k in range(70)]
    lower, upper = bracket(several, 1, 1e-12)
    each_lower, each_upper = bracket(several, 1, 1e-12, direction="each")
    assert max(lower[0], each_lower.max()) <= min(upper[0], each_upper.max())
    assert upper[0] < lower[0] * 1.25


@pytest.mark.slow(reason="a thousand rounds whose losses are in the thousands")
def test_as_little_noise_as_epsilons_of_thousands_need_is_bounded_by_delta_too() -> None:
    for scale, rounds in ((0.22, 1000), (0.05, 1000), (0.05, 3)):
        mechanism = SubsampledGaussian(scale, 0.1)
        lower, upper = bracket(mechanism, rounds, 1e-5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrecisionWarning)
            found = privacy_bounds(mechanism, compositions=rounds, epsilon=[lower[0], upper[0]])
        assert found.delta_upper.values[0, 0] >= 1e-5 >= found.delta_lower.values[0, 1]
        assert found.delta_upper.values[0, 1] <= 1e-5 * 1.02


@pytest.mark.slow
def test_a_warning_rounds_its_bounds_outwards() -> None:
    for scale in (2.0, 2.2, 2.4, 2.6):
        with pytest.warns(PrecisionWarning, match="ε is between") as told:
            found = epsilon_bounds(TruncatedPoissonGaussian(scale, 0.02, 25, 1000), compositions=3, delta=1e-5)
        words = str(told[0].message).partition("ε is between ")[2].split(";")[0].split(" and ")
        lower, upper = map(Decimal, words)
        assert lower <= Decimal(found.epsilon_lower.item()) < Decimal(found.epsilon_upper.item()) <= upper
