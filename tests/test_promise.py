"""What a tolerance promises: it is met, or the answer says where it is not."""

import math
import warnings

import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    Gaussian,
    Histogram,
    InvalidInputError,
    Laplace,
    NoisyCount,
    PrecisionError,
    PrecisionWarning,
    RandomizedResponse,
    SubsampledGaussian,
    epsilon_bounds,
    privacy_bounds,
)
from pbdist.mechanisms import Pair

#: At an ε of 1e-13 float64 does not tell δ of so much noise to a part in a thousand.
TOO_FINE = {"mechanism": Laplace(1e12), "compositions": [1, 2], "epsilon": [1e-13, 0.5]}


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["both", "each"])
def test_every_point_that_is_within_says_so(direction: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bounds = privacy_bounds(
            SubsampledGaussian(1.0, 0.01),
            compositions=[1, 64, 1024],
            epsilon=np.linspace(0.1, 3.0, 7),
            direction=direction,
        )
    assert bounds.within_tolerance.dtype == bool
    assert bounds.within_tolerance.dims == bounds.delta_upper.dims
    assert bounds.within_tolerance.values.all()
    told = bounds.delta_upper.values > 1e-40
    assert (bounds.delta_upper.values <= 1.001 * bounds.delta_lower.values)[told].all()


def test_what_is_missed_is_returned_and_told() -> None:
    with pytest.warns(
        PrecisionWarning, match=r"^tolerance: expected delta_upper / delta_lower - 1 <= 0\.001, missed"
    ) as told:
        bounds = privacy_bounds(**TOO_FINE)
    assert told[0].filename == __file__
    assert "r = 1, ε = 1e-13" in str(told[0].message) or "r = 2, ε = 1e-13" in str(told[0].message)
    within = bounds.within_tolerance.values
    assert not within[:, 0].any()
    assert within[:, 1].all()
    # δ is 1 - exp((ε - 1e-12) / 2) at one round.
    truth = -math.expm1(0.5 * (1e-13 - 1e-12))
    assert bounds.delta_lower.values[0, 0] <= truth <= bounds.delta_upper.values[0, 0] <= 1.3 * truth


def test_strict_makes_it_an_error() -> None:
    with pytest.raises(PrecisionError, match=r"^tolerance: expected upper / lower - 1 <= 0\.001 .* ε = 1e-13"):
        privacy_bounds(**TOO_FINE, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_a_delta_of_zero_at_the_largest_loss_is_no_miss(strict: bool) -> None:
    rounds = list(range(1, 25))
    epsilon = [0.5, *(r * math.log(3.0) for r in rounds)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bounds = privacy_bounds(RandomizedResponse(0.75), compositions=rounds, epsilon=epsilon, strict=strict)
    assert bounds.within_tolerance.values.all()
    assert bounds.delta_upper.values[0, 1] < 1e-13


def test_losses_that_no_grid_holds_are_answered() -> None:
    """Of losses of thousands of nats an honest bracket is told, narrow or not."""
    pair = NoisyCount(Laplace(1e-3), 100.0, 2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bounds = privacy_bounds(pair, compositions=[1, 1000], epsilon=[0.69])
    assert bool(told) == (not bounds.within_tolerance.values.all())
    assert (bounds.delta_upper.values >= 1.0 - 1e-300).all()
    assert (bounds.delta_lower.values <= 1.0).all()


@pytest.mark.parametrize(
    ("pair", "compositions", "truth"),
    [
        # A loss of 2000 nats or its opposite: after three rounds δ is 1 but for e^-1999.
        (ApproximateDP(2000.0, 0.0), 3, 1.0),
        (Histogram([1.0, 1e-310], [1.0 / 3.0, 2.0 / 3.0]), 1, 2.0 / 3.0),
        # Without noise the sampled half is told apart.
        (SubsampledGaussian(1e-8, 0.5), 1, 0.5),
    ],
    ids=repr,
)
def test_what_was_refused_without_need_is_answered(pair: Pair, compositions: int, truth: float) -> None:
    bounds = privacy_bounds(pair, compositions=compositions, epsilon=1.0, strict=True)
    assert truth * (1.0 - 1e-9) <= bounds.delta_lower.item() <= truth * (1.0 + 1e-12)
    assert truth * (1.0 - 1e-12) <= bounds.delta_upper.item() <= truth * (1.0 + 1e-9)


def test_without_a_tolerance_there_is_nothing_to_be_within() -> None:
    for arguments in ({"factor": 1.01}, {"buckets": 1000}, {"method": "buckets", "buckets": 1000}):
        found = privacy_bounds(Laplace(2.0), compositions=2, epsilon=0.1, **arguments)
        assert "within_tolerance" not in found


def test_epsilon_says_where_it_is_missed() -> None:
    asked = {"mechanism": ApproximateDP(1.0, 1e-6), "compositions": [1, 2], "delta": [1e-6, 0.5]}
    with pytest.warns(PrecisionWarning):
        found = epsilon_bounds(**asked)
    assert found.within_tolerance.values.tolist() == [[False, True], [True, True]]
    with pytest.raises(PrecisionError, match=r"^tolerance: expected epsilon_upper / epsilon_lower - 1 <= 0\.001"):
        epsilon_bounds(**asked, strict=True)
    each = epsilon_bounds(Gaussian(2.0), compositions=1, delta=[1e-5], direction="each", strict=True)
    assert each.within_tolerance.dims == each.epsilon_upper.dims


@pytest.mark.parametrize("strict", [1, "yes", None])
def test_strict_is_checked_before_any_work(strict: object) -> None:
    for ask in (
        lambda: privacy_bounds(Gaussian(1.0), compositions=1, epsilon=1.0, strict=strict),
        lambda: epsilon_bounds(Gaussian(1.0), compositions=1, delta=1e-5, strict=strict),
    ):
        with pytest.raises(InvalidInputError, match=r"^strict: expected True or False, got"):
            ask()
