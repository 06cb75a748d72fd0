"""From the largest loss on δ is 0, and just before it hardly more: against exact sums over all outcomes."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import Product, SubsampledGaussian, privacy_bounds
from pbdist.enclosures.bounds import Fineness, enclosed_counts
from pbdist.mechanisms import (
    ApproximateDP,
    BoundedRange,
    DiscreteLaplace,
    ElementaryPair,
    Gaussian,
    Histogram,
    Laplace,
    LaplaceSum,
    NoisyCount,
    RandomAllocation,
    RandomizedResponse,
    Reversed,
    Staircase,
)
from pbdist.pld.fallback import bounds_near_the_largest_loss, largest_loss_of
from pbdist.pld.many_rounds import bounds_below_floor
from pbdist.pld.question import Question
from pbdist.types import Direction
from tests.effort import SEED, times

Masses = list[tuple[Fraction, Fraction]]
#: Parts of the largest loss: before it by a little, by rounding, at it, and behind.
PARTS = (0.5, 0.9995, 1.0 - 1e-6, 1.0 - 1e-8, 1.0 - 1e-10, 1.0 - 1e-13, 1.0, 1.0 + 1e-13, 1.0 + 1e-9, 2.0)


def question(counts: dict[ElementaryPair, int], rounds: Sequence[int], epsilon: Sequence[float]) -> Question:
    return Question(counts, np.array(rounds), np.array(epsilon), 1e-3, 1e-300, False)


def drawn(rng: np.random.Generator) -> tuple[Histogram, Masses]:
    """Few outcomes, all of them possible under both; the counts are used as they are divided there."""
    size = int(rng.integers(2, 4))
    p, q = (rng.integers(1, 200, size) for _ in range(2))
    exact = [(Fraction(int(a), int(p.sum())), Fraction(int(b), int(q.sum()))) for a, b in zip(p, q, strict=True)]
    return Histogram(tuple(p.tolist()), tuple(q.tolist())), exact


def exact_delta(factors: Sequence[Masses], epsilon: float, direction: Direction) -> mpmath.mpf:
    growth, total = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
    for outcome in itertools.product(*factors):
        a, b = (math.prod((each[side] for each in outcome), start=Fraction(1)) for side in (0, 1))
        if direction is Direction.B_TO_A:
            a, b = b, a
        left = mpmath.mpf(a.numerator) / a.denominator - growth * b.numerator / b.denominator
        total += max(left, mpmath.mpf(0))
    return total


def exact_largest(factors: Sequence[Masses], direction: Direction) -> mpmath.mpf:
    side = 1 if direction is Direction.A_TO_B else -1
    ratios = [max((a / b) ** side for a, b in masses) for masses in factors]
    return mpmath.fsum(mpmath.log(mpmath.mpf(one.numerator) / one.denominator) for one in ratios)


def test_drawn_sequences_are_bounded_from_above() -> None:
    """200 with effort 10."""
    rng = np.random.default_rng((SEED, 49))
    for _ in range(times(20)):
        parts = [(*drawn(rng), int(rng.integers(1, 3))) for _ in range(int(rng.integers(1, 3)))]
        rounds = 1 if len(parts) > 1 else int(rng.integers(1, 3))
        factors = [masses for _, masses, count in parts for _ in range(count * rounds)]
        with mpmath.workdps(60):
            largest = {one: exact_largest(factors, one) for one in Direction}
            epsilon = sorted(float(one) * part for one in largest.values() for part in PARTS)
            asked = question({pair: count for pair, _, count in parts}, [rounds], epsilon)
            lower, found, ended = bounds_near_the_largest_loss(asked)
            for axis, direction in enumerate(Direction):
                for column, at in enumerate(epsilon):
                    log_upper = float(found[axis, 0, column])
                    assert exact_delta(factors, at, direction) <= mpmath.exp(log_upper), (parts, direction, at)
                    assert mpmath.exp(float(lower[axis, 0, column])) <= exact_delta(factors, at, direction)
                    if ended[axis, 0, column]:
                        assert exact_delta(factors, at * (1.0 - 1e-6), direction) >= mpmath.exp(log_upper)
                    if at > largest[direction] * (1.0 + 1e-12):
                        assert log_upper == -math.inf
                    else:
                        assert log_upper > -math.inf or at >= largest[direction]


BOUNDED: list[tuple[ElementaryPair, float]] = [
    (Laplace(4.0, sensitivity=2.0), 0.5),
    (Laplace(1e-3), 1e3),
    (RandomizedResponse(0.75), math.log(3.0)),
    (BoundedRange(0.7), 0.7),
    (DiscreteLaplace(5.0, 3), 0.6),
    (LaplaceSum((2.0, 1.0), 3.0), 1.5),
]


@pytest.mark.parametrize(("pair", "largest"), BOUNDED, ids=repr)
@pytest.mark.parametrize("rounds", [1, 7, 2**40, 2**60])
def test_it_is_found_where_losses_are_bounded(pair: ElementaryPair, largest: float, rounds: int) -> None:
    asked = question({pair: 3}, [rounds], [3.0 * rounds * largest * part for part in (0.9, 1.0, 1.0 + 1e-9)])
    found = bounds_near_the_largest_loss(asked)[1][0, 0]
    assert found[2] == -math.inf
    assert found[1] <= max(math.log(3.0 * rounds * largest * 1e-13), -745.0) or found[1] == 0.0


@pytest.mark.parametrize(
    "pair",
    [
        Gaussian(1.0, truncate=(-5.0, 5.0)),
        ApproximateDP(0.5, 1e-6),
        Histogram((1, 9, 0), (0, 9, 1)),
        Laplace(4.0, truncate=(-20.0, 20.0)),
    ],
    ids=repr,
)
def test_none_is_told_where_some_loss_is_infinite(pair: ElementaryPair) -> None:
    asked = question({pair: 1}, [1], [0.1, 5.0, 100.0])
    for (profile, _), direction in itertools.product(asked.profiles, Direction):
        assert largest_loss_of(pair, profile, direction) == math.inf
    assert np.all(bounds_near_the_largest_loss(asked)[1] == 0.0)


def test_nothing_is_told_of_enclosures() -> None:
    """Their own masses are those of the pair below, whose losses may be smaller."""
    counts = enclosed_counts({RandomAllocation(0.15, 2): 1}, Fineness(100.0, 1e-12, 1e-9))
    (pair,) = counts
    assert pair.dominating is not pair
    for one in (pair, Reversed(pair)):
        asked = question({one: 1}, [1], [30.0, 50.0, 1e4])
        for (profile, _), direction in itertools.product(asked.profiles, Direction):
            assert largest_loss_of(one, profile, direction) == math.inf
        assert np.all(bounds_near_the_largest_loss(asked)[1] == 0.0)


def test_each_direction_has_its_own() -> None:
    pair = Histogram((2, 8, 0), (1, 8, 1))
    count = NoisyCount(Laplace(4.0), 20.0, 2)
    for one, axis in ((pair, 0), (Reversed(pair), 1), (count, 1), (Reversed(count), 0)):
        _, found, _ = bounds_near_the_largest_loss(question({one: 2}, [3], [0.1, 6.06]))
        assert found[axis, 0, 1] == -math.inf
        assert np.all(found[1 - axis] == 0.0)


def test_masses_of_more_than_one_count() -> None:
    """A histogram's masses as floats may add up to a little more: so does the mass beyond ε."""
    pair = Histogram((0.1 + 2**-50, 0.3, 0.6), (0.2, 0.3, 0.5))
    assert max(map(float, pair.mass_excess)) > 0.0
    asked = question({pair: 1}, [1], [0.0, math.log(2.0) * (1.0 - 1e-7), 1.0])
    _, found, _ = bounds_near_the_largest_loss(asked)
    assert np.all(found[:, 0, 2] == -math.inf)
    with mpmath.workdps(40):
        truth = mpmath.mpf(0.2) - mpmath.mpf(0.1 + 2**-50) * mpmath.exp(mpmath.mpf(float(asked.epsilon[1])))
        assert truth <= mpmath.exp(float(found[1, 0, 1])) <= 1e-6


@pytest.mark.parametrize("pair", [Staircase(0.8), RandomizedResponse(0.6), Laplace(3.0)], ids=repr)
def test_answers_beyond_all_losses_are_zero(pair: ElementaryPair) -> None:
    largest = {Staircase: 0.8, RandomizedResponse: math.log(1.5), Laplace: 1.0 / 3.0}[type(pair)]
    found = privacy_bounds(Product(pair, pair), compositions=[1, 8], epsilon=[largest, 16.0 * largest * 1.0001])
    assert np.all(found.delta_upper.values[:, 1] == 0.0)
    assert np.all(found.delta_lower.values[:, 0] > 0.0)


def test_what_is_known_to_lie_below_the_floor_is_not_bounded_again() -> None:
    asked = question({RandomizedResponse(0.6): 1}, [40], [4.0, 17.0, 30.0])
    first = bounds_below_floor(asked)
    known = np.where(np.arange(3) == 2, -math.inf, np.zeros((2, 1, 3)))
    assert first[0, 0, 2] < 0.0
    assert np.all(bounds_below_floor(asked, known)[..., 2] == 0.0)


def test_seen_from_b_no_sampled_loss_is_beyond_that_of_no_sample() -> None:
    """It is -ln(1 - q) in each round: δ of B||A is 0 from there on, and not before."""
    rate, rounds = 0.25, 3
    largest = -rounds * math.log1p(-rate)
    for direction in ("each", "both"):
        found = privacy_bounds(
            SubsampledGaussian(1.0, rate), compositions=rounds, epsilon=[largest * 1.001], direction=direction
        )
        upper = found.delta_upper.values
        assert (upper[1] == 0.0).all() if direction == "each" else (upper > 0.0).all()
    before = privacy_bounds(
        SubsampledGaussian(1.0, rate), compositions=rounds, epsilon=[0.5 * largest], direction="each"
    )
    assert before.delta_lower.values[1] > 0.0


@pytest.mark.parametrize("rounds", [2, 32, 1000])
@pytest.mark.parametrize("gap", [0.0, 1e-13, 1e-11])
def test_next_to_the_largest_loss_of_continuous_noise(rounds: int, gap: float) -> None:
    """δ is about 2^-r (1 - e^(ε - r/b)): all rounds must have the largest loss, which half of the outcomes have."""
    epsilon = math.nextafter(rounds / 160.0 * (1.0 - gap), 0.0)
    found = privacy_bounds(Laplace(160.0), compositions=rounds, epsilon=epsilon, strict=True, floor=1e-310)
    left = Fraction(rounds, 160) - Fraction(epsilon)
    with mpmath.workdps(400):
        least = mpmath.mpf(2) ** -rounds * -mpmath.expm1(-mpmath.mpf(left.numerator) / left.denominator)
        upper = mpmath.exp(found.log_delta_upper.item())
        assert least <= upper * (1 + mpmath.mpf(2) ** -40)
        assert upper <= 1.01 * least or gap < 1e-12
        assert mpmath.exp(found.log_delta_lower.item()) <= least * (1 + rounds * mpmath.mpf(10) ** -9)
    assert found.delta_lower.item() > 0.0 or gap < 1e-12 or rounds > 500


@pytest.mark.parametrize("pair", [Laplace(160.0), DiscreteLaplace(5.0, 3), Staircase(0.8)], ids=repr)
@pytest.mark.parametrize("gap", [1e-8, 1e-9, 1e-11])
def test_a_positive_delta_next_to_the_largest_loss_has_a_lower_bound(pair: ElementaryPair, gap: float) -> None:
    largest = {Laplace: 2.0 / 160.0, DiscreteLaplace: 1.2, Staircase: 1.6}[type(pair)]
    found = privacy_bounds(pair, compositions=2, epsilon=largest * (1.0 - gap), strict=True)
    assert 0.0 < found.delta_lower.item() <= found.delta_upper.item() <= 1.001 * found.delta_lower.item()
