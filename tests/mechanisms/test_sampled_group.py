"""Groups on Poisson samples: weights against fractions, and mechanisms that are enumerated.

Their masses and δ of one and two rounds are compared in `test_sampling.py`.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from pbdist import (
    Accountant,
    Gaussian,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    WorstOf,
    epsilon_bounds,
    group,
    privacy_bounds,
)
from pbdist.mechanisms import Adjacency, pair_from_canonical
from pbdist.mechanisms.binomial_runs import WeightedCounts, rounded_counts
from pbdist.types import Direction
from tests.effort import SEED, times
from tests.mechanisms.sampled import hockey_stick
from tests.strategies import examples

pytestmark = [pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning"), pytest.mark.slow]


def drawn_rate(rng: np.random.Generator) -> float:
    return float(rng.choice([10.0 ** rng.uniform(-8.0, 0.0), rng.uniform(0.0, 1.0), 1.0 - 2.0**-53, 0.5]))


# -- weights ---------------------------------------------------------------------------------------------------------


def exact_tails(size: int, rate: float) -> tuple[list[int], int]:
    """P(Bin > count) for counts from -1 on, as whole numbers over a common denominator."""
    numerator, denominator = rate.as_integer_ratio()
    masses = [math.comb(size, j) * numerator**j * (denominator - numerator) ** (size - j) for j in range(size + 1)]
    return [*reversed([0, *itertools.accumulate(reversed(masses))])], denominator**size


def tails_of(found: WeightedCounts, size: int) -> tuple[list[int], int]:
    """The same of the weights over their sum, exactly."""
    weights = [0] * (size + 1)
    for count, weight in zip(found.counts, found.weights, strict=True):
        numerator, denominator = weight.as_integer_ratio()
        weights[count] = numerator * (2**1100 // denominator)
    tails = [*reversed([0, *itertools.accumulate(reversed(weights))])]
    return tails, tails[0]


def check_weights(size: int, rate: float, *, close: bool = True) -> None:
    exact, whole = exact_tails(size, rate)
    assert exact[0] == whole
    larger, smaller = rounded_counts(size, rate, up=True), rounded_counts(size, rate, up=False)
    for found in (larger, smaller):
        assert abs(sum(map(Fraction, found.weights)) - 1) <= Fraction(1, 2**53)
        assert min(found.weights) > 0.0
        assert list(found.counts) == sorted(set(found.counts))
    (over, total), (under, rest) = tails_of(larger, size), tails_of(smaller, size)
    for count in range(1, size + 1):
        assert under[count] * whole <= exact[count] * rest, (size, rate, count)
        assert exact[count] * total <= over[count] * whole, (size, rate, count)
        if close:
            # All is off by 1e-14 of the smaller one of both sides, and by what is folded.
            apart = min(exact[count], whole - exact[count]) * 10**86 + whole * 10
            assert (over[count] * whole - exact[count] * total) * 10**100 <= apart * total, (size, rate, count)
            assert (exact[count] * rest - under[count] * whole) * 10**100 <= apart * rest, (size, rate, count)


def test_weights_enclose_binomial_ones() -> None:
    rng = np.random.default_rng((SEED, 45))
    for _ in range(times(40)):
        check_weights(int(rng.integers(2, 60)), drawn_rate(rng))
    for rate in (5e-324, 1e-320, 1e-305, 1e-160, 2.0**-53, 1.0 - 2.0**-53):
        for size in (2, 3, 11):
            check_weights(size, rate)


@pytest.mark.parametrize(("size", "rate"), [(1000, 2.0**-7), (1000, 0.5), (400, 1.0 - 2.0**-10)])
def test_weights_of_large_groups(size: int, rate: float) -> None:
    """Rates of few binary digits, of which fractions are quick; the ends are folded."""
    check_weights(size, rate)
    assert rounded_counts(size, rate, up=True).counts[-1] == size
    assert rounded_counts(size, rate, up=False).counts[0] == 0


def test_counts_of_very_large_groups_are_taken_together() -> None:
    check_weights(2500, 0.5, close=False)
    assert len(rounded_counts(100_000, 0.5, up=True).counts) <= 1002
    together = np.diff(rounded_counts(100_000, 0.5, up=True).counts)
    assert together[:-1].max() > 1


# -- the mechanism, enumerated ---------------------------------------------------------------------------------------


def cells(means: list[np.ndarray], weights: list[float], scale: float, steps: int) -> np.ndarray:
    """Masses of cells of the plane, a map of the outcomes, so that their δ is at most the exact one."""
    reach = 4.5 * scale + len(means).bit_length()
    total = 0.0
    for mean, weight in zip(means, weights, strict=True):
        sides = []
        for axis in range(2):
            ends = np.concatenate(([-np.inf], np.linspace(-reach, reach, steps), [np.inf]))
            sides.append(np.diff(special.ndtr((ends - mean[axis]) / scale)))
        total = total + weight * np.multiply.outer(*sides)
    return np.asarray(total).ravel()


def drawn_contributions(rng: np.random.Generator, size: int) -> np.ndarray:
    """Vectors of the plane of a length of at most 1, often the same one."""
    angle = rng.uniform(0.0, 2.0 * np.pi, size) if rng.random() < 0.6 else np.full(size, rng.uniform(0.0, 6.0))
    length = np.minimum(rng.uniform(0.3, 1.7, size), 1.0)
    return np.stack((length * np.cos(angle), length * np.sin(angle)), axis=1)


def on_samples(vectors: np.ndarray, rate: float, scale: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """What is seen of the sum over a Poisson sample, with the group and without it."""
    means, weights = [], []
    for drawn in itertools.product((False, True), repeat=len(vectors)):
        means.append(vectors[list(drawn)].sum(axis=0))
        weights.append(rate ** sum(drawn) * (1.0 - rate) ** (len(drawn) - sum(drawn)))
    nobody = [1.0 if not any(mean) else 0.0 for mean in means]
    return cells(means, weights, scale, steps), cells(means, [one / sum(nobody) for one in nobody], scale, steps)


def test_contributions_may_follow_earlier_outcomes() -> None:
    """Of any directions, and of any number up to that of the group; those of a second round depend on the first one."""
    rng = np.random.default_rng((SEED, 50))
    for _ in range(times(4)):
        size, rate = int(rng.integers(1, 5)), float(rng.uniform(0.05, 1.0))
        scale = float(10.0 ** rng.uniform(-0.2, 0.5))
        vectors, *others = (drawn_contributions(rng, int(rng.integers(1, size + 1))) for _ in range(3))
        once, first = (on_samples(vectors, rate, scale, steps) for steps in (80, 40))
        ways = [on_samples(each, rate, scale, 40) for each in others]
        chosen = rng.integers(0, 2, first[0].size)
        upper = privacy_bounds(
            SubsampledGaussianGroup(scale, rate, size), compositions=[1, 2], epsilon=[0.0, 0.3, 1.0], direction="each"
        ).delta_upper.values
        for (j, epsilon), axis in itertools.product(enumerate((0.0, 0.3, 1.0)), range(2)):
            assert hockey_stick(once[axis], once[1 - axis], epsilon) <= upper[axis, 0, j] + 1e-9
            total = 0.0
            for way, outcomes in enumerate(ways):
                a, b = (np.multiply.outer(first[side][chosen == way], outcomes[side]) for side in (axis, 1 - axis))
                total += hockey_stick(a, b, epsilon)
            assert total <= upper[axis, 1, j] + 1e-9


# -- properties ------------------------------------------------------------------------------------------------------


@examples(9)
@given(st.floats(0.3, 5.0), st.floats(1e-4, 0.99), st.floats(0.1, 3.0), st.integers(1, 20), st.floats(0.0, 3.0))
def test_a_group_of_one_is_one(scale: float, rate: float, sensitivity: float, rounds: int, epsilon: float) -> None:
    one = SubsampledGaussian(scale, rate, sensitivity)
    assert group(one, 1) is one
    made = SubsampledGaussianGroup(scale, rate, 1, sensitivity)
    assert made.sole_pair == one
    found, known = (privacy_bounds(pair, compositions=rounds, epsilon=epsilon) for pair in (made, one))
    assert found.delta_lower.item() == known.delta_lower.item()
    assert found.delta_upper.item() == known.delta_upper.item()


@examples(9)
@given(st.floats(0.5, 8.0), st.floats(1e-4, 0.6), st.integers(1, 40), st.integers(1, 30), st.floats(0.0, 3.0))
def test_larger_groups_change_more(scale: float, rate: float, size: int, rounds: int, epsilon: float) -> None:
    fewer, more = (
        privacy_bounds(
            SubsampledGaussianGroup(scale, rate, each), compositions=rounds, epsilon=epsilon, direction="each"
        )
        for each in (size, size + 1)
    )
    assert (fewer.delta_lower <= more.delta_upper).all()
    # As far as bounds are narrow.
    assert (fewer.delta_upper <= 1.003 * more.delta_upper + 1e-12).all()


def test_bounds_of_a_thousand_meet() -> None:
    found = privacy_bounds(group(SubsampledGaussian(20.0, 0.001), 1000), compositions=100, epsilon=[0.5, 1.0])
    assert bool(found.within_tolerance.all())
    assert (found.delta_lower.values > 0.0).all()
    # Another individual changes a little more.
    more = privacy_bounds(group(SubsampledGaussian(20.0, 0.001), 1100), compositions=100, epsilon=[0.5, 1.0])
    assert (more.delta_lower.values > found.delta_upper.values).all()


def test_a_group_that_is_always_sampled_moves_as_one() -> None:
    pair = SubsampledGaussianGroup(3.0, 1.0, 4)
    assert pair.sole_pair == Gaussian(3.0, 4.0)
    tenth = SubsampledGaussianGroup(3.0, 1.0, 3, 0.1)
    assert tenth.lower_pair == Gaussian(3.0, 0.30000000000000004 - 2.0**-54)
    assert tenth.upper_pair == Gaussian(3.0, 0.30000000000000004)


@pytest.mark.parametrize(
    "rate",
    [
        pytest.param(5e-324, marks=pytest.mark.slow(reason="a ladder of the least spacing")),
        pytest.param(1e-200, marks=pytest.mark.nightly),
    ],
)
def test_rates_of_next_to_nothing(rate: float) -> None:
    """At most all individuals are sampled in some round, with the probability 5 · rate in each."""
    found = privacy_bounds(SubsampledGaussianGroup(1.0, rate, 5), compositions=2, epsilon=0.0)
    assert 0.0 <= found.delta_lower.item() <= 10 * rate
    # P(N(1, 1) > 1/2) - P(N(0, 1) > 1/2) is 0.38.
    assert 1.9 * rate <= found.delta_upper.item() < 1e-9


# -- where groups are used -------------------------------------------------------------------------------------------


def test_it_is_described_and_made_again() -> None:
    pair = group(SubsampledGaussian(2.0, 0.01, 0.5), 7)
    assert pair == SubsampledGaussianGroup(2.0, 0.01, 7, 0.5)
    assert pair_from_canonical(pair.canonical()) == pair
    assert pair.adjacency is Adjacency.ADD_OR_REMOVE_GROUP
    assert pair.removal is Direction.A_TO_B
    assert pair.attained_by_some


def test_products_have_groups_factor_by_factor() -> None:
    found = group(Product(Gaussian(4.0), SubsampledGaussian(2.0, 0.1)), 3)
    assert found == Product(Gaussian(4.0, 3.0), SubsampledGaussianGroup(2.0, 0.1, 3))
    together = epsilon_bounds(found, compositions=10, delta=1e-5)
    apart = epsilon_bounds(
        [(Gaussian(4.0, 3.0), 1), (SubsampledGaussianGroup(2.0, 0.1, 3), 1)], compositions=10, delta=1e-5
    )
    assert together.epsilon_lower.item() == apart.epsilon_lower.item() > 0.0
    assert together.epsilon_upper.item() == apart.epsilon_upper.item() <= 1.001 * together.epsilon_lower.item()
    # What is only above a factor is only above the whole.
    mixed = group(Product(SubsampledGaussian(2.0, 0.1), RandomizedResponse(0.6)), 2)
    assert isinstance(mixed, WorstOf)
    assert not mixed.attained_by_some
    assert mixed.pairs[0].factors[0] == SubsampledGaussianGroup(2.0, 0.1, 2).upper_pair
    assert pair_from_canonical(mixed.canonical()) == mixed


def test_accountants_count_groups() -> None:
    step = group(SubsampledGaussian(2.0, 0.01), 3)
    run = Accountant().add(step, 60).add(group(SubsampledGaussian(1.5, 0.01), 3), 20).add(step, 40)
    again = Accountant.from_document(run.to_document())
    assert again == run
    spent = run.epsilon(1e-5)
    assert 0.0 < spent.lower.item() <= spent.upper.item() <= 1.001 * spent.lower.item()
    assert spent.adjacency is Adjacency.ADD_OR_REMOVE_GROUP
    other = Accountant().add(group(SubsampledGaussian(1.5, 0.01), 3), 20).add(step, 100).epsilon(1e-5)
    assert (other.lower, other.upper) == (spent.lower, spent.upper)
    # Of one individual less is spent.
    assert Accountant().add(SubsampledGaussian(2.0, 0.01), 120).epsilon(1e-5).upper < spent.lower
