"""Sizes of noise: their certificates against exact values of δ, and what is refused."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import privacy_bounds
from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.mechanisms import (
    Gaussian,
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    Product,
    RandomAllocation,
    RandomizedResponse,
    SubsampledGaussian,
)
from pbdist.sizing.api import size
from pbdist.sizing.sized import SizedNoise
from pbdist.sizing.target import ScannedPoint
from tests.strategies import examples

pytestmark = pytest.mark.slow


def gaussian_delta(scale: float, compositions: int, epsilon: float) -> mpmath.mpf:
    """The closed form, at sensitivity 1."""
    mu = mpmath.sqrt(compositions) / mpmath.mpf(scale)
    far = mpmath.mpf(epsilon) / mu
    return mpmath.ncdf(mu / 2 - far) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - far)


def response_delta(truth: Fraction, compositions: int, epsilon: float) -> mpmath.mpf:
    """The binomial sum, for the probability of a truth that a mechanism has."""
    p = mpmath.mpf(truth.numerator) / truth.denominator
    odds = mpmath.exp(epsilon)
    total = mpmath.mpf(0)
    for truths in range(compositions + 1):
        first = p**truths * (1 - p) ** (compositions - truths)
        second = (1 - p) ** truths * p ** (compositions - truths)
        total += mpmath.binomial(compositions, truths) * max(first - odds * second, 0)
    return total


def laplace_delta(scale: float, epsilon: float) -> mpmath.mpf:
    """One round at sensitivity 1."""
    return max(1 - mpmath.exp((mpmath.mpf(epsilon) - 1 / mpmath.mpf(scale)) / 2), mpmath.mpf(0))


def check_certificate(sized: SizedNoise) -> None:
    assert sized.delta_lower <= sized.delta_upper <= sized.delta
    assert sized.refuted_delta_lower > sized.delta
    assert sized.refuted_scale == sized.scale * (1.0 - sized.tolerance)
    assert sized.refuted_mean == (None if sized.mean is None else sized.mean * (1.0 - sized.tolerance))
    assert all(point.delta_lower > sized.delta for point in sized.scanned)


goals = st.tuples(
    st.integers(1, 10**6),
    st.floats(0.0, 5.0),
    st.floats(-60.0, -0.7).map(math.exp),
    st.sampled_from([0.1, 0.01, 1e-4]),
    # At ε = 0, δ is a difference of two numbers near 1/2: float64 does not tell a small one.
).filter(lambda goal: goal[1] > 1e-2 or goal[2] > 1e-9)


@given(goals)
@examples(60)
def test_smallest_gaussian_scale_lies_in_the_certificate(goal: tuple[int, float, float, float]) -> None:
    compositions, epsilon, delta, tolerance = goal
    sized = size(Gaussian, compositions=compositions, epsilon=epsilon, delta=delta, tolerance=tolerance)
    check_certificate(sized)
    assert sized.ordered
    assert sized.mechanism == Gaussian(sized.scale)
    with mpmath.workdps(60):
        # δ falls with the scale: the smallest one that does is above the refuted one, and at most the answer.
        assert gaussian_delta(sized.scale, compositions, epsilon) <= delta
        assert gaussian_delta(sized.refuted_scale, compositions, epsilon) > delta


@given(st.integers(1, 60), st.floats(0.0, 3.0), st.floats(-25.0, -0.7).map(math.exp))
@examples(40)
def test_rarest_lie_lies_in_the_certificate(compositions: int, epsilon: float, delta: float) -> None:
    sized = size(RandomizedResponse, compositions=compositions, epsilon=epsilon, delta=delta)
    check_certificate(sized)
    assert sized.ordered
    assert sized.scale <= 0.5
    with mpmath.workdps(60):
        truths = [Fraction(pair.p) for pair in (sized.mechanism, sized.refuted_mechanism)]
        assert response_delta(truths[0], compositions, epsilon) <= delta
        assert response_delta(truths[1], compositions, epsilon) > delta


@pytest.mark.parametrize("tolerance", [0.5, 0.01])
@pytest.mark.parametrize(
    ("compositions", "epsilon", "delta"),
    [
        *itertools.product((1, 2, 17), (0.1, 1.0, 5.0), (0.9999, 0.9, 0.3, 1e-3, 1e-9)),
        *((1, 10.0, delta) for delta in (1e-20, 1e-100)),
    ],
)
def test_frequent_lies_against_binomial_sums(compositions: int, epsilon: float, delta: float, tolerance: float) -> None:
    # The amount of noise is not the probability of a lie: a search that takes one for the other errs here.
    sized = size(RandomizedResponse, compositions=compositions, epsilon=epsilon, delta=delta, tolerance=tolerance)
    check_certificate(sized)
    with mpmath.workdps(40):
        assert response_delta(Fraction(sized.mechanism.p), compositions, epsilon) <= delta
        assert response_delta(Fraction(sized.refuted_mechanism.p), compositions, epsilon) > delta


@pytest.mark.parametrize(
    "change",
    [
        {"delta_upper": 2e-5},
        {"refuted_delta_lower": 1e-5},
        {"delta_lower": 9.9e-6},
        {"refuted_scale": 10.0},
        {"refuted_mean": 3.0},
        {"scanned": (ScannedPoint(Gaussian(1.0), 1.0, None, 1e-5),)},
    ],
)
def test_no_certificate_without_proof(change: dict[str, object]) -> None:
    sized = size(Gaussian, compositions=10, epsilon=1.0, delta=1e-5)
    with pytest.raises(PrecisionError, match="expected a size whose bounds prove"):
        dataclasses.replace(sized, **{"delta_upper": 9.8e-6, "delta_lower": 9.7e-6, **change})


def test_a_lie_is_not_told_more_often_than_needed() -> None:
    # A hundredth less than 1/2 is refuted of 1/2 itself too: the amount of noise is what the search goes by.
    sized = size(RandomizedResponse, compositions=100_000, exp_epsilon=2.0, delta=1e-4)
    check_certificate(sized)
    assert 0.4995 < sized.scale < 0.49985


@given(st.floats(0.0, 4.0), st.floats(-20.0, -0.7).map(math.exp))
@examples(12)
def test_laplace_scale_of_one_round_lies_in_the_certificate(epsilon: float, delta: float) -> None:
    sized = size(Laplace, compositions=1, epsilon=epsilon, delta=delta)
    check_certificate(sized)
    with mpmath.workdps(40):
        assert laplace_delta(sized.scale, epsilon) <= delta < laplace_delta(sized.refuted_scale, epsilon)


def test_parameters_are_passed_on() -> None:
    goal = {"compositions": 64, "exp_epsilon": 2.0, "delta": 1e-5}
    single, double = size(Laplace, **goal), size(Laplace, sensitivity=2.0, **goal)
    assert double.mechanism == Laplace(double.scale, sensitivity=2.0)
    assert double.scale == pytest.approx(2.0 * single.scale, rel=0.011)
    sampled = size(SubsampledGaussian, rate=0.02, compositions=1000, epsilon=2.0, delta=1e-5)
    check_certificate(sampled)
    assert sampled.ordered
    assert sampled.mechanism == SubsampledGaussian(sampled.scale, rate=0.02)


def truncated_tenfold(scale: float) -> Pair:
    return Laplace(scale, truncate=(-10.0 * scale, 10.0 * scale))


@pytest.mark.parametrize("family", [truncated_tenfold, lambda scale: Product(Gaussian(scale), Laplace(3.0 * scale))])
def test_families_without_an_order_are_scanned(family: Callable[[float], Pair]) -> None:
    sized = size(family, compositions=16, exp_epsilon=2.0, delta=1e-3)
    check_certificate(sized)
    assert not sized.ordered
    scales = [point.scale for point in sized.scanned]
    assert scales[0] < sized.refuted_scale
    assert scales[-1] == pytest.approx(sized.refuted_scale / 100.0)
    assert all(above / below <= 1.15 + 1e-9 for above, below in itertools.pairwise(scales))
    assert all(point.mechanism == family(point.scale) for point in sized.scanned)


def test_smaller_scale_that_does_is_found_by_the_scan() -> None:
    # δ is too large from 10 to 20, as if smaller noise had been forgotten.
    def family(scale: float) -> Pair:
        return Gaussian(1.0) if 10.0 < scale < 20.0 else Gaussian(scale)

    sized = size(family, compositions=1, epsilon=1.0, delta=1e-8)
    check_certificate(sized)
    assert sized.scale == pytest.approx(size(Gaussian, compositions=1, epsilon=1.0, delta=1e-8).scale, rel=0.01)


def test_scan_ends_where_there_are_no_bounds() -> None:
    # Losses of 500 nats and more in one round.
    sized = size(NoisyCount, noise="Laplace", mean=500.0, shift=1, compositions=1, epsilon=4.968, delta=6.7e-10)
    check_certificate(sized)
    assert 0.002 < sized.scanned[-1].scale < 0.01


def test_order_refutes_without_computing() -> None:
    sized = size(lambda scale: Gaussian(scale, sensitivity=3.0), compositions=8, epsilon=0.5, delta=1e-6)
    assert not sized.ordered
    assert len(sized.scanned) > 30
    assert sized.evaluations < 15
    assert {point.delta_lower for point in sized.scanned} == {sized.refuted_delta_lower}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"delta": 0.0}, "delta: no noise is sized for δ = 0"),
        ({"delta": 1.0}, "delta: expected numbers above 0 and below 1"),
        ({"delta": [1e-4, 1e-5]}, "delta: expected a single number"),
        ({"delta": math.nan}, "delta: expected"),
        ({"epsilon": -0.1}, "epsilon: expected finite numbers of at least 0"),
        ({"epsilon": None}, "epsilon: expected exactly one"),
        ({"exp_epsilon": 2.0}, "epsilon: expected exactly one"),
        ({"epsilon": None, "exp_epsilon": 0.5}, "exp_epsilon: expected a finite number of at least 1"),
        ({"compositions": 0}, "compositions: expected whole numbers of at least 1"),
        ({"compositions": 1.5}, "compositions: expected whole numbers of at least 1"),
        ({"tolerance": 0.0}, "tolerance: expected a number from 1e-6 to 0.5"),
        ({"tolerance": 0.9}, "tolerance: expected a number from 1e-6 to 0.5"),
        ({"scale": 3.0}, "scale: cannot be given: it is the noise that is sized"),
        ({"sensitivity": -1.0}, "sensitivity"),
        ({"rate": 0.1}, "rate: is no parameter of Gaussian, which has scale, sensitivity, truncate"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], problem: str) -> None:
    arguments = {"compositions": 10, "epsilon": 1.0, "delta": 1e-5, **changes}
    with pytest.raises(InvalidInputError, match=problem):
        size(Gaussian, **arguments)


@pytest.mark.parametrize("family", [3, "Gaussian", Histogram, int, Product, lambda scale: scale])
def test_what_is_no_family_is_refused(family: object) -> None:
    with pytest.raises(InvalidInputError, match="family: expected"):
        size(family, compositions=1, epsilon=1.0, delta=1e-5)


def test_mass_at_infinity_above_the_goal_is_refused() -> None:
    # The ends of the truncated noise reveal the input with a probability of 1/200 a round or more at any scale.
    with pytest.raises(InvalidInputError, match=r"none of the \d+ scales tried"):
        size(lambda scale: Laplace(scale, truncate=(-100.0, 100.0)), compositions=100, exp_epsilon=2.0, delta=1e-3)


def test_goal_that_no_noise_at_all_meets_is_refused() -> None:
    # One round in a hundred is sampled: δ is at most 1/100 without any noise.
    with pytest.raises(InvalidInputError, match="so that none can be refuted"):
        size(SubsampledGaussian, rate=0.01, compositions=1, epsilon=1.0, delta=0.5)


def test_count_of_a_given_mean() -> None:
    sized = size(NoisyCount, noise="Laplace", mean=400.0, shift=2, compositions=16, exp_epsilon=2.0, delta=1e-3)
    check_certificate(sized)
    assert sized.mechanism == NoisyCount(Laplace(sized.scale), 400.0, 2)
    assert sized.mean is None
    assert sized.expected_messages == sized.mechanism.expected_count


def test_lies_near_a_coin() -> None:
    # δ is exactly 0 where all losses together are at most ε, and for a coin whatever r is.
    sized = size(RandomizedResponse, compositions=200, epsilon=1e-6, delta=1e-300)
    check_certificate(sized)
    assert sized.scale > 0.4999
    # As many lies as that are sized too: a loss of 4 (p - 1/2) a round, 2^20 rounds, is Gaussian noise of scale 1 / μ.
    sized = size(RandomizedResponse, compositions=2**20, epsilon=1.0, delta=1e-5)
    check_certificate(sized)
    mean = 2.0 * (1.0 - 2.0 * sized.scale) * 2.0**10
    gaussian_delta = privacy_bounds(Gaussian(1.0 / mean), compositions=1, epsilon=1.0)
    assert sized.delta_lower <= 1.001 * gaussian_delta.delta_upper.item()
    assert sized.delta_upper >= 0.999 * gaussian_delta.delta_lower.item()


def gaussian(scale: float) -> Pair:
    """No class: nothing is known of its order."""
    return Gaussian(scale)


@pytest.mark.parametrize("family", [Gaussian, gaussian])
@pytest.mark.parametrize("tolerance", [0.5, 0.01])
def test_search_that_begins_at_the_goal_itself(family: Callable[[float], Pair], tolerance: float) -> None:
    sized = size(family, compositions=10, epsilon=1.0, delta=1e-5, tolerance=tolerance)
    check_certificate(sized)


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        (NoisyCount, {"noise": Laplace, "shift": 1, "mean": 0.0}),
        (lambda scale: Gaussian(5.0 + 0.0 * scale), {}),
        (lambda scale: Laplace(scale + 1.0, truncate=(-2.0, 2.0)), {}),
    ],
)
def test_search_ends_where_larger_scales_bring_nothing(family: object, parameters: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=r"none of the \d\d scales tried, from .* provably does"):
        size(family, compositions=4, epsilon=1.0, delta=1e-5, **parameters)


def test_scales_of_another_unit() -> None:
    sized = size(lambda scale: Gaussian(1e-5 * scale), compositions=10, epsilon=1.0, delta=1e-5)
    check_certificate(sized)
    assert sized.scale == pytest.approx(1.18e6, rel=0.02)


@pytest.mark.parametrize(
    ("steps", "compositions", "epsilon", "delta", "tolerance"),
    [(500, 40, 0.0, 0.1, 1e-5), (100, 10, 1.0, 1e-6, 1e-4), (7, 1000, 0.1, 1e-3, 1e-3), (100_000, 1, 0.5, 1e-8, 1e-3)],
)
def test_random_allocation_is_sized_by_few_looks(
    steps: int, compositions: int, epsilon: float, delta: float, tolerance: float
) -> None:
    sized = size(
        RandomAllocation, steps=steps, compositions=compositions, epsilon=epsilon, delta=delta, tolerance=tolerance
    )
    check_certificate(sized)
    # Narrow bounds take long: two for the certificate, one or two to place it, and coarse ones that bracket it.
    assert sized.evaluations <= 8


def test_noise_for_losses_of_hundreds_of_nats_is_sized() -> None:
    sized = size(SubsampledGaussian, rate=0.01, compositions=10, epsilon=800.0, delta=1e-5)
    check_certificate(sized)
    assert 0.03 < sized.scale < 0.1


def test_messages_a_little_above_a_short_number_are_rounded_up() -> None:
    """The mean of the noise above 0 exceeds 5000.5 by 9e-13."""
    sized = size(NoisyCount, noise=Laplace, mean=5000.0, shift=1, compositions=1, epsilon=0.0049, delta=1e-4)
    assert sized.printed.messages is not None
    assert 5000.5 < sized.printed.messages < 5000.51
    assert "5000.51" in str(sized)
