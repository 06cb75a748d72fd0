"""What an answer promises: nothing trivially false, nothing refused without need, nothing wide without a word."""

import math
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    Gaussian,
    Histogram,
    InvalidInputError,
    Laplace,
    NoisyCount,
    Poisson,
    PrecisionWarning,
    Product,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    epsilon_bounds,
    privacy_bounds,
    renyi_bounds,
    size,
    total_variation_bounds,
    tradeoff_bounds,
)
from pbdist.mechanisms import Pair
from pbdist.query.convex_delta import Curve
from pbdist.table import bounds_table

FAINT = Histogram([0.65, 0.04, 1e-18, 0.31], [1e-60, 0.64, 0.05, 0.31])

IDENTICAL: list[Pair] = [
    Histogram([3, 7], [3, 7]),
    Histogram([3, 7], [30, 70]),
    Histogram([0.3, 0.7], [0.3, 0.7]),
    Histogram([1, 3], [0.25, 0.75]),
    Histogram([1.0, 1e-60], [1.0, 1e-60]),
    Histogram([0.0163669, 2.17e-322, 0.9836331], [0.0163669, 2.17e-322, 0.9836331]),
    RandomizedResponse(0.5),
    ApproximateDP(0.0, 0.0),
    Reversed(Histogram([1, 2, 0], [1, 2, 0])),
    Product(RandomizedResponse(0.5), Histogram([1, 2], [1, 2])),
]


@pytest.mark.parametrize("pair", IDENTICAL, ids=repr)
def test_equal_distributions_reveal_nothing(pair: Pair) -> None:
    assert pair.identical
    for arguments in (
        {},
        {"method": "buckets", "buckets": 100},
        {"factor": 1.01},
        {"direction": "each", "strict": True},
    ):
        bounds = privacy_bounds(pair, compositions=[1, 10, 10**6], epsilon=[0.0, 0.5], **arguments)
        assert not bounds.delta_lower.values.any()
        assert not bounds.delta_upper.values.any()
        assert np.all(bounds.log_delta_upper.values == -np.inf)
    assert epsilon_bounds(pair, compositions=10**9, delta=1e-300).epsilon_upper.item() == 0.0
    assert total_variation_bounds(pair, compositions=7).total_variation_upper.item() == 0.0
    table = bounds_table([(pair, 2)], compositions=[3], epsilon=[0.1], keep_states=True)
    assert not table.delta_upper.any()
    assert table.states


def test_equal_distributions_have_a_straight_trade_off_curve() -> None:
    for pair in (Histogram([1.0, 1e-300], [1.0, 1e-300]), RandomizedResponse(0.5)):
        curve = tradeoff_bounds(pair, compositions=3, type_one_error=[0.0, 0.25, 1.0])
        np.testing.assert_allclose(curve.type_two_error_lower.values.ravel(), [1.0, 0.75, 0.0], atol=1e-12)
        assert np.all(curve.type_two_error_upper.values >= np.array([1.0, 0.75, 0.0]))
    assert renyi_bounds(RandomizedResponse(0.5), compositions=5, order=2.0).renyi_upper.item() <= 1e-12


def test_nearly_equal_distributions_are_not_taken_for_equal() -> None:
    p = [0.5, math.nextafter(0.5, 1.0)]
    pair = Histogram(p, p[::-1])
    assert not pair.identical
    bounds = privacy_bounds(pair, compositions=1, epsilon=0.0, method="buckets", buckets=100)
    assert bounds.delta_upper.item() >= float(Fraction(p[1]) - Fraction(p[0])) > 0.0


@pytest.mark.parametrize("others", [[], [(Histogram([1, 1], [1, 1]), 3)], [(RandomizedResponse(0.5), 10**6)]], ids=repr)
def test_what_changes_nothing_is_left_out(others: list[tuple[Pair, int]]) -> None:
    alone = privacy_bounds(RandomizedResponse(0.75), compositions=4, epsilon=[0.0, 1.0])
    found = privacy_bounds([(RandomizedResponse(0.75), 1), *others], compositions=4, epsilon=[0.0, 1.0])
    np.testing.assert_array_equal(found.delta_upper, alone.delta_upper)
    np.testing.assert_array_equal(found.delta_lower, alone.delta_lower)


def test_equal_masses_that_do_not_sum_to_1_are_not_left_out() -> None:
    pair = Histogram([0.1] * 10, [0.1] * 10)
    assert pair.identical
    assert not pair.neutral
    assert Histogram([1, 9], [1, 9]).neutral


@pytest.mark.parametrize(
    ("mechanism", "compositions", "epsilon", "arguments"),
    [
        ([(Gaussian(1.0, 1e10, (-10.0, 10.0)), 1), (Gaussian(27.4), 1)], 1, 1.0, {}),
        (Histogram((1.53e-91, 1.0, 2.376e-289), (0.1066295813, 0.2064814785782142, 0.6868889401217987)), 20, 0.3, {}),
        (Histogram([0.5, 0.5 + 1e-10], [0.5, 0.5 + 1e-10]), 1000, 0.0, {}),
        (Histogram([0.5 + 5e-10, 0.5, 0.0], [0.0, 0.0, 1.0]), 1000, 0.0, {}),
        (Histogram([0.5 + 5e-10, 0.5, 0.0], [0.0, 0.0, 1.0]), 1000, 0.0, {"method": "buckets", "buckets": 16}),
        (
            [
                (Histogram((1.89e-275, 3.79e-232, 1.0), (0.3699, 0.6222, 0.0079)), 2),
                (Histogram((0.45, 0.55), (0.67, 0.33)), 1),
            ],
            3,
            0.1,
            {"method": "buckets"},
        ),
        (Laplace(1e-16), 1, 1.0, {}),
        (Laplace(1e-10, 1e10), 1, 1.0, {}),
        ([(RandomizedResponse(1.0), 10**6), (Gaussian(27.4), 1)], 3, 1e9, {}),
    ],
    ids=repr,
)
def test_no_bound_is_above_1(mechanism, compositions, epsilon, arguments) -> None:
    for direction in ("both", "each"):
        bounds = privacy_bounds(mechanism, compositions=compositions, epsilon=epsilon, direction=direction, **arguments)
        assert np.all(bounds.delta_lower.values <= bounds.delta_upper.values)
        assert np.all(bounds.delta_upper.values <= 1.0)
        assert np.all(bounds.log_delta_upper.values <= 0.0)


def test_stored_curves_of_masses_above_1_stay_bounds() -> None:
    # H(y) = (1 + m) - y (1 - a) for small y, cut at 1; all in exact fractions.
    mass, common = Fraction(1) + Fraction(1, 10**6), Fraction(1, 2)
    epsilon = np.array([0.0, 1e-6, 0.5, 1.0])

    def exact(eps: float) -> mpmath.mpf:
        slope = mpmath.mpf(1) / 10**7
        return mpmath.mpf(mass.numerator) / mass.denominator - mpmath.exp(eps) * slope * float(common)

    log_upper = np.array([float(mpmath.log(min(exact(float(e)), 1))) for e in epsilon])
    curve = Curve(epsilon, log_upper, epsilon, log_upper - 1e-9, math.log(float(mass)) + 1e-12)
    between = np.linspace(0.0, 1.0, 41)
    found = curve.log_upper(between)
    assert np.all(found <= 0.0)
    for eps, upper in zip(between.tolist(), found.tolist(), strict=True):
        assert upper >= float(mpmath.log(min(exact(eps), 1))) - 1e-16


def test_the_smaller_direction_is_not_chased() -> None:
    pair = SubsampledGaussian(0.6, 0.004)
    both = privacy_bounds(pair, compositions=64, epsilon=0.25)
    assert both.delta_upper.item() <= both.delta_lower.item() * 1.001
    # Both directions are bounded all the same.
    each = bounds_table([(pair, 1)], compositions=64, epsilon=0.25, joint_directions=True)
    assert float(np.max(each.delta_upper)) == both.delta_upper.item()
    assert np.all(each.delta_upper[1] < 1e-3 * each.delta_lower[0])


@pytest.mark.parametrize("scale", [1e-16, 1e-10, 1.0], ids=str)
def test_faint_outcomes_keep_their_losses(scale: float) -> None:
    # Masses of 8e-291 and losses of 670 nats: δ of one round is 0.75, of twenty nearly 1.
    pair = Histogram((0.75, 0.25, 8e-291), (8e-291, 0.25, 0.75))
    bounds = privacy_bounds(pair, compositions=[1, 20], epsilon=[scale, 600.0], direction="each")
    exact = np.array([0.75, 1.0 - 0.25**20])[:, None]
    assert np.all(bounds.delta_lower.values <= exact * (1 + 1e-15))
    assert np.all(bounds.delta_lower.values >= exact * (1 - 1e-3))
    assert np.all(bounds.delta_upper.values >= exact * (1 - 1e-15))


def test_inputs_that_used_to_end_in_raw_exceptions() -> None:
    bounds = privacy_bounds(FAINT, compositions=1, epsilon=100.0)
    exact = Fraction(0.65) - Fraction(1e-60) * Fraction(math.exp(100.0))
    assert bounds.delta_lower.item() <= float(exact) <= bounds.delta_upper.item() <= bounds.delta_lower.item() * 1.001
    sequence = [(Histogram((1e-100, 1.0), (1.0, 1e-100)), 1), (Histogram((0.7, 0.3), (0.7, 0.29999999999999993)), 1)]
    assert privacy_bounds(sequence, compositions=1, epsilon=1e3).delta_upper.item() == 0.0
    revealing = [(RandomizedResponse(1.0), 10**6), (Gaussian(27.4), 1)]
    found = epsilon_bounds(revealing, compositions=3, delta=1e-5)
    assert found.epsilon_lower.item() >= 1e9
    assert found.epsilon_upper.item() == math.inf
    with pytest.raises(InvalidInputError, match=r"compositions: expected fewer than 2e\+09 of a Histogram"):
        tradeoff_bounds(Histogram([0.3, 0.7 + 5e-10], [0.7, 0.3]), compositions=10**13, type_one_error=0.1)


@pytest.mark.parametrize("buckets", [4, 8])
def test_few_wide_buckets_with_faint_outcomes_do_not_overflow(buckets: int) -> None:
    pair = Histogram((1.0, 9.017972872690969e-286), (0.8226446014897854, 0.17735539851021465))
    for r in (1, 2048, 10_000):
        bounds = privacy_bounds(
            pair, compositions=r, epsilon=0.0, method="buckets", buckets=buckets, factor=2.87e86, direction="each"
        )
        assert np.all(bounds.delta_upper.values >= 1.0 - 0.8226446014897855**r)


def test_size_refuses_more_noise_than_can_be_described_at_once() -> None:
    with pytest.raises(InvalidInputError, match=r"end at 7\.46\d*e\+10, .*needs about 1\.59\d*e\+11"):
        size(Poisson, compositions=1, epsilon=0.0, delta=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "compositions", "delta"),
    [
        (SubsampledGaussian(2.0, 0.005), 10_000, 1e-5),
        (SubsampledGaussian(5.0, 0.01), 10_000, 1e-5),
        (SubsampledGaussian(0.7, 0.02), 2000, 1e-10),
        (Gaussian(20.0), 64, 1e-6),
        (Laplace(10.0), 100, 1e-5),
        (NoisyCount(Laplace(500.0), 8000.0, 2), 1024, 1e-4),
        (RandomizedResponse(0.6), 100, 1e-5),
    ],
    ids=repr,
)
def test_epsilon_is_as_good_as_its_trials(pair: Pair, compositions: int, delta: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = epsilon_bounds(pair, compositions=compositions, delta=delta)
    low, high = found.epsilon_lower.item(), found.epsilon_upper.item()
    assert 0.0 < low < high <= low * (1.0 + 2e-4)
    # What is told of both ends can be asked for by itself.
    at_ends = privacy_bounds(pair, compositions=compositions, epsilon=[low, high])
    assert at_ends.delta_upper.values[0, 0] > delta
    assert at_ends.delta_lower.values[0, 1] <= delta


def test_a_wide_epsilon_is_told() -> None:
    # δ is met exactly at ε = 1, where all that is left is the mass that reveals the input: no bound proves that.
    with pytest.warns(PrecisionWarning, match=r"tolerance: expected .* <= 0\.001, got inf at r = 1, δ = 1e-6") as told:
        found = epsilon_bounds(ApproximateDP(1.0, 1e-6), compositions=1, delta=1e-6)
    assert 0.99 <= found.epsilon_lower.item() <= 1.0
    assert found.epsilon_upper.item() == math.inf
    # The line that asked is named.
    assert told[0].filename == __file__


def test_that_no_epsilon_does_is_no_miss() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = epsilon_bounds(ApproximateDP(1.0, 1e-3), compositions=2, delta=[1e-4, 0.5])
    assert found.epsilon_upper.values.ravel().tolist() == [math.inf, 0.0]


@pytest.mark.parametrize("tolerance", [1.0, 0.75, 0.3])
def test_a_large_tolerance_is_met_on_the_second_pass(tolerance: float) -> None:
    """The direction that is a little larger no longer makes the other one's grid coarser."""
    bounds = privacy_bounds(
        SubsampledGaussian(4.0, 0.01), compositions=65_536, epsilon=[1.0, 2.0, 3.0], tolerance=tolerance
    )
    lower, upper = bounds.delta_lower.values, bounds.delta_upper.values
    assert (upper <= (1.0 + tolerance) * lower).all()
    # At ε = 3 it is 1.141893e-06, within a part in a million.
    assert lower[0, 2] <= 1.141895e-06
    assert upper[0, 2] >= 1.141891e-06
