"""Bounds of earlier work: never below the exact δ, never below our lower bound, and their published numbers."""

import math
from fractions import Fraction
from typing import Any

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
    PrecisionError,
    RandomizedResponse,
    SubsampledGaussian,
    earlier_bounds,
    privacy_bounds,
    renyi_bounds,
)
from pbdist.mechanisms import Pair
from pbdist.theorems import THEOREMS
from pbdist.theorems.renyi import RoundPrivacy
from pipelines.figures.formulas import vuvuzela
from tests.effort import times
from tests.theorems.small_pairs import exact_delta

BOUNDS = tuple(name for name in THEOREMS if name != "clt")
EPSILON = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(times(4)))
def test_no_theorem_is_below_the_exact_value_of_small_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, rounds = int(rng.integers(2, 5)), int(rng.integers(1, 6))
    # In steps of 1/64, so that the probabilities are exact; some are 0.
    a, b = (rng.multinomial(64, rng.dirichlet(np.full(size, 0.7))) for _ in range(2))
    masses = [[Fraction(int(count), 64) for count in counts] for counts in (a, b)]
    truth = np.array([exact_delta([masses] * rounds, epsilon) for epsilon in EPSILON])
    answered = 0
    for theorem in BOUNDS:
        try:
            found = earlier_bounds(
                Histogram(a.tolist(), b.tolist()), compositions=rounds, epsilon=EPSILON, theorem=theorem
            )
        except InvalidInputError:
            # No (ξ, ρ) fits where an outcome reveals the input.
            assert theorem.startswith("concentrated")
            assert np.any((a == 0) != (b == 0))
            continue
        answered += 1
        assert np.all(found.delta_upper.values[0] >= truth * (1.0 - 1e-13)), theorem
    assert answered >= len(BOUNDS) - 2


PAIRS: list[Any] = [
    (RandomizedResponse(0.51), 512),
    (Laplace(200.0, truncate=(-2500.0, 2500.0)), 512),
    (Gaussian(20.0), 256),
    pytest.param(SubsampledGaussian(4.0, 0.01), 1000, marks=pytest.mark.nightly),
    (NoisyCount(Laplace(500.0), 8000.0, 2), 1024),
    (Poisson(50.0), 10),
]


@pytest.mark.slow(reason="all theorems on one pair")
@pytest.mark.parametrize(("pair", "rounds"), PAIRS)
def test_our_lower_bound_is_below_every_theorem_and_our_upper_bound_within_the_tolerance(
    pair: Pair, rounds: int
) -> None:
    ours = privacy_bounds(pair, compositions=rounds, epsilon=EPSILON)
    answered = 0
    for theorem in BOUNDS:
        try:
            theirs = earlier_bounds(pair, compositions=rounds, epsilon=EPSILON, theorem=theorem)
        except InvalidInputError:
            continue
        answered += 1
        assert np.all(ours.log_delta_lower.values <= theirs.log_delta_upper.values + 1e-9), theorem
        seen = ours.delta_upper.values > 1e-40
        assert np.all((ours.delta_upper.values <= theirs.delta_upper.values * 1.001)[seen]), theorem
    assert answered >= 5


@pytest.mark.parametrize("pair", [RandomizedResponse(0.6), ApproximateDP(0.1, 1e-6)])
def test_the_optimal_theorem_is_exact_for_the_pairs_it_is_about(pair: Pair) -> None:
    ours = privacy_bounds(pair, compositions=100, epsilon=EPSILON[:5], tolerance=1e-9)
    theirs = earlier_bounds(pair, compositions=100, epsilon=EPSILON[:5], theorem="kov")
    assert theirs.delta_upper.values == pytest.approx(ours.delta_upper.values, rel=2e-9)


@pytest.mark.slow
def test_truncated_laplace_noise_is_all_but_the_worst_case() -> None:
    """At the points of Kairouz, Oh & Viswanath's Theorem 3.3 it is at most 0.5 % above our bound."""
    pair, rounds = Laplace(200.0, truncate=(-2500.0, 2500.0)), 512
    points = np.arange(0, 60, 6) * 2 * 0.005
    ours = privacy_bounds(pair, compositions=rounds, epsilon=points)
    theirs = earlier_bounds(pair, compositions=rounds, epsilon=points, theorem="kov")
    assert np.all(theirs.delta_upper.values <= 1.005 * ours.delta_upper.values)


@pytest.mark.slow
def test_dp_sgd_of_a_published_setting() -> None:
    """Noise 3, rate 0.2, 50 steps, δ 1/48,000: ε is 2.16 by Rényi divergences, and 1.83 by the limit, refuted."""
    pair, epsilon = SubsampledGaussian(3.0, 0.2), np.array([1.83, 1.84, 1.95, 2.15, 2.18])
    ours = privacy_bounds(pair, compositions=50, epsilon=epsilon)
    moments = earlier_bounds(pair, compositions=50, epsilon=epsilon, theorem="moments-improved").delta_upper.values[0]
    limit = earlier_bounds(pair, compositions=50, epsilon=epsilon, theorem="clt").delta_approximate.values[0]
    assert limit[1] < 1 / 48_000 < limit[0]
    assert ours.delta_lower.values[0, 1] > 1 / 48_000
    assert moments[4] <= 1 / 48_000 < moments[3]
    for theorem in set(BOUNDS) - {"moments", "moments-improved"}:
        theirs = earlier_bounds(pair, compositions=50, epsilon=epsilon, theorem=theorem)
        assert np.all(ours.log_delta_lower.values <= theirs.log_delta_upper.values + 1e-9), theorem


def test_vuvuzela_promises() -> None:
    """The red dots of Meiser & Mohammadi 2018, Figures 16 and 19."""
    for noise, rounds, factor, delta in (
        ((4.0, 150e3, 7.3e3), 65_536, 1.9993, 8.81e-5),
        ((4.0, 450e3, 20e3), 524_288, 2.046, 9.87e-5),
        ((2.0, 8e3, 500.0), 1_024, 1.879, 6.77e-5),
        ((2.0, 20e3, 1130.0), 8_192, 2.213, 9.44e-5),
    ):
        epsilon, reached = vuvuzela(*noise, rounds)
        assert math.exp(epsilon) == pytest.approx(factor, rel=5e-4)
        assert reached == pytest.approx(delta, rel=1e-3)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidInputError, match="theorem: expected one of naive, adaptive"):
        earlier_bounds(RandomizedResponse(0.6), compositions=1, epsilon=0.1, theorem="best")
    with pytest.raises(InvalidInputError, match=r"theorem: expected a mechanism that some \(ξ, ρ\) fits"):
        earlier_bounds(Poisson(50.0), compositions=1, epsilon=0.1, theorem="concentrated")
    with pytest.raises(InvalidInputError, match="epsilon"):
        earlier_bounds(RandomizedResponse(0.6), compositions=1, epsilon=-0.1, theorem="kov")


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "order"), [(1e-16, 1.0), (1e-20, 1.5), (1e-20, 2.0), (1e-30, 4096.0)])
def test_divergences_of_losses_beyond_all_floats_are_not_known(scale: float, order: float) -> None:
    """Once infinite times 0 was no number, and passed for a divergence of 0."""
    with pytest.raises(PrecisionError, match="lies between"):
        renyi_bounds(Laplace(scale), compositions=1, order=order)


@pytest.mark.nightly
@pytest.mark.parametrize(("scale", "theorem"), [(1e-16, "moments"), (1e-30, "moments-improved")])
def test_losses_beyond_all_floats_bound_nothing(scale: float, theorem: str) -> None:
    found = earlier_bounds(Laplace(scale), compositions=1, epsilon=30.0, theorem=theorem)
    assert found.delta_upper.item() == 1.0


def test_from_the_sum_of_all_epsilon_on_the_closed_form_needs_no_slack() -> None:
    pair = RandomizedResponse(0.6)
    at = math.log(1.5) * (1.0 + 1e-9)
    assert earlier_bounds(pair, compositions=1, epsilon=at, theorem="advanced-kov").delta_upper.item() == 0.0


def test_an_answer_does_not_depend_on_what_else_is_asked() -> None:
    for theorem in ("naive", "adaptive", "kov", "advanced"):
        alone = earlier_bounds(Laplace(3.0), compositions=2, epsilon=0.5, theorem=theorem).delta_upper.values
        beside = earlier_bounds(Laplace(3.0), compositions=2, epsilon=[0.5, 1e15, 1e150], theorem=theorem)
        assert beside.delta_upper.values[0, 0] == pytest.approx(alone[0, 0], rel=1e-12)


@pytest.mark.parametrize(
    ("pair", "rounds", "theorem", "named"),
    [
        (
            Histogram((0.3, 0.7), (0.7, 0.3)),
            2,
            "kov",
            "mechanism: the theorem needs probabilities that sum to 1",
        ),
        (RandomizedResponse(0.51), 2**62, "kov", "compositions: expected at most 100000000 with theorem kov"),
        (Gaussian(1e30), 1, "clt", "mechanism: expected losses whose limit theorem"),
        (Laplace(1e-30), 1, "clt", "mechanism: expected losses whose limit theorem|whose losses are finite"),
        (SubsampledGaussian(1e-3, 1e-9), 1, "clt", "mechanism: expected losses whose limit theorem"),
    ],
)
def test_what_a_theorem_says_nothing_of_is_refused(pair: Pair, rounds: int, theorem: str, named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        earlier_bounds(pair, compositions=rounds, epsilon=1.0, theorem=theorem)


@pytest.mark.parametrize("scale", [2.0, 4.0])
def test_the_largest_loss_of_sampled_noise_is_found(scale):
    """δ of one round is below e^-230 from there on, and above it before."""
    privacy = RoundPrivacy(SubsampledGaussian(scale, 0.01))
    assert 0.1 < privacy.largest < 50.0
    before, there = privacy.log_delta(np.array([0.99 * privacy.largest, 1.01 * privacy.largest]))
    assert there <= -230.0 <= before


def test_sequences_with_sampled_noise_are_bounded():
    parts = [(Gaussian(50.0), 2), (SubsampledGaussian(2.0, 0.01), 4)]
    found = earlier_bounds(parts, compositions=4, epsilon=2.0, theorem="advanced")
    assert privacy_bounds(parts, compositions=4, epsilon=2.0).delta_lower.item() <= found.delta_upper.item() < 0.5
