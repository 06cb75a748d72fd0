"""Groups on Poisson samples: weights against fractions, δ against mpmath, and mechanisms that are enumerated."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from pbdist import (
    Accountant,
    Gaussian,
    InvalidInputError,
    Product,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    WorstOf,
    epsilon_bounds,
    group,
    privacy_bounds,
)
from pbdist.mechanisms import Adjacency, pair_from_canonical
from pbdist.mechanisms.binomial_runs import WeightedCounts, larger_counts, smaller_counts
from pbdist.mechanisms.order import at_least_as_noisy
from pbdist.types import Direction
from tests.effort import SEED, times
from tests.mechanisms.read_off import read_off
from tests.oracles.sampling_truth import ShiftTruth
from tests.strategies import examples

pytestmark = pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")


def binomial(size: int, rate: float) -> list[Fraction]:
    """The exact probabilities of the float rate."""
    q = Fraction(rate)
    return [math.comb(size, j) * q**j * (1 - q) ** (size - j) for j in range(size + 1)]


def drawn_rate(rng: np.random.Generator) -> float:
    return float(rng.choice([10.0 ** rng.uniform(-8.0, 0.0), rng.uniform(0.0, 1.0), 1.0 - 2.0**-53, 0.5]))


def drawn_group(rng: np.random.Generator, largest: int) -> tuple[SubsampledGaussianGroup, ShiftTruth]:
    size, s = int(rng.integers(1, largest + 1)), float(rng.choice([1.0, 10.0 ** rng.uniform(-3.0, 3.0)]))
    scale = s * 10.0 ** rng.uniform(-0.5, 1.3) * float(rng.choice([1.0, size]))
    pair = SubsampledGaussianGroup(scale, drawn_rate(rng) if rng.random() < 0.95 else 1.0, size, s)
    # The sensitivity is a float, and so are few of its multiples.
    with mpmath.workdps(40):
        truth = ShiftTruth("Gaussian", scale, [mpmath.mpf(s) * j for j in range(size + 1)], binomial(size, pair.rate))
    return pair, truth


def losses_asked(rng: np.random.Generator, pair: SubsampledGaussianGroup) -> np.ndarray:
    """Values of ε: 0, tiny ones, and up to beyond the largest losses that matter."""
    ratio = pair.group_size * pair.sensitivity / pair.scale
    largest = ratio * (4.0 + ratio)
    return np.unique([0.0, largest * 10.0 ** rng.uniform(-6.0, 0.0), largest * rng.uniform(0.0, 1.0)])


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
    larger, smaller = larger_counts(size, rate), smaller_counts(size, rate)
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
    assert larger_counts(size, rate).counts[-1] == size
    assert smaller_counts(size, rate).counts[0] == 0


def test_counts_of_very_large_groups_are_taken_together() -> None:
    check_weights(2500, 0.5, close=False)
    assert len(larger_counts(100_000, 0.5).counts) <= 1002
    together = np.diff(larger_counts(100_000, 0.5).counts)
    assert together[:-1].max() > 1


# -- δ of drawn pairs ------------------------------------------------------------------------------------------------


def check_masses(pair: SubsampledGaussianGroup, truth: ShiftTruth, rng: np.random.Generator) -> None:
    """Bins above a loss have the masses of δ there, in both directions, from above and from below."""
    edges = losses_asked(rng, pair)
    edges = np.unique(np.concatenate((-edges, edges, 3.0 * edges[-1:], [math.log(2.0)])))
    place = int(rng.integers(np.flatnonzero(edges >= 0.0)[0], edges.size))
    epsilon = float(edges[place])
    with mpmath.workdps(40):
        tiny = mpmath.mpf(10) ** -28
        for axis, direction in enumerate(Direction):
            exact = truth.delta(epsilon, axis)
            least = read_off(pair.lower_pair, edges, place, direction)[0]  # type: ignore[arg-type]
            _, upper, mass, error = read_off(pair.upper_pair, edges, place, direction)  # type: ignore[arg-type]
            assert least <= exact * (1 + tiny), (pair, epsilon, axis)
            assert exact * (1 - tiny) <= upper, (pair, epsilon, axis)
            assert error <= 1e-12 * (1.0 + float(edges[-1])), (pair, epsilon, axis)
            # What is folded, and the few u by which weights move, is all that lies between them.
            assert upper - least <= 1e-10 * mass + 6 * error + 1e-90, (pair, epsilon, axis)


def test_masses_of_drawn_groups() -> None:
    """60 with effort 1; 1,020 with effort 17."""
    rng = np.random.default_rng((SEED, 46))
    for _ in range(times(60)):
        check_masses(*drawn_group(rng, 12), rng)


def test_one_round_of_drawn_groups() -> None:
    rng = np.random.default_rng((SEED, 47))
    for _ in range(times(3)):
        pair, truth = drawn_group(rng, 30)
        epsilon = losses_asked(rng, pair)
        bounds = privacy_bounds(pair, compositions=1, epsilon=epsilon, direction="each")
        with mpmath.workdps(40):
            slack = mpmath.mpf(10) ** -25
            for axis, (j, each) in itertools.product(range(2), enumerate(epsilon.tolist())):
                exact = truth.delta(each, axis)
                lower, upper = (bound.values[axis, 0, j] for bound in (bounds.delta_lower, bounds.delta_upper))
                assert lower <= exact * (1 + slack), (pair, each, axis)
                assert exact * (1 - slack) <= upper, (pair, each, axis)
                if bounds.within_tolerance.values[axis, 0, j] and upper > 1e-14:
                    assert upper <= 1.0021 * lower, (pair, each, axis)


def test_two_rounds_of_drawn_groups() -> None:
    rng = np.random.default_rng((SEED, 48))
    for _ in range(times(1)):
        pair, truth = drawn_group(rng, 4)
        epsilon = float(losses_asked(rng, pair)[-1])
        bounds = privacy_bounds(pair, compositions=2, epsilon=epsilon, direction="each")
        with mpmath.workdps(15):
            for axis in range(2):
                exact = float(truth.two_rounds(epsilon, axis))
                lower, upper = (float(found.values[axis, 0, 0]) for found in (bounds.delta_lower, bounds.delta_upper))
                assert lower <= exact * (1.0 + 1e-8) + 1e-13, (pair, epsilon, axis)
                assert exact * (1.0 - 1e-8) - 1e-13 <= upper, (pair, epsilon, axis)


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


def hockey_stick(a: np.ndarray, b: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())


def test_enumerated_groups_of_at_most_so_many() -> None:
    """Contributions of any directions and of any number up to that of the group stay below the upper bounds."""
    rng = np.random.default_rng((SEED, 49))
    for _ in range(times(4)):
        size, rate, scale = (
            int(rng.integers(1, 5)),
            float(rng.uniform(0.05, 1.0)),
            float(10.0 ** rng.uniform(-0.2, 0.5)),
        )
        vectors = drawn_contributions(rng, int(rng.integers(1, size + 1)))
        a, b = on_samples(vectors, rate, scale, 80)
        epsilon = np.array([0.0, 0.3, 1.0])
        bounds = privacy_bounds(
            SubsampledGaussianGroup(scale, rate, size), compositions=1, epsilon=epsilon, direction="each"
        )
        for j, each in enumerate(epsilon.tolist()):
            assert hockey_stick(a, b, each) <= bounds.delta_upper.values[0, 0, j] + 1e-9
            assert hockey_stick(b, a, each) <= bounds.delta_upper.values[1, 0, j] + 1e-9


def test_contributions_may_follow_earlier_outcomes() -> None:
    """Two rounds: the vectors of the second one depend on the cell of the first one."""
    rng = np.random.default_rng((SEED, 50))
    for _ in range(times(2)):
        size, rate, scale = (
            int(rng.integers(2, 4)),
            float(rng.uniform(0.05, 0.9)),
            float(10.0 ** rng.uniform(-0.1, 0.4)),
        )
        first = on_samples(drawn_contributions(rng, size), rate, scale, 40)
        ways = [on_samples(drawn_contributions(rng, size), rate, scale, 40) for _ in range(2)]
        chosen = rng.integers(0, 2, first[0].size)
        bounds = privacy_bounds(
            SubsampledGaussianGroup(scale, rate, size), compositions=2, epsilon=[0.2, 1.0], direction="each"
        )
        for j, each in enumerate((0.2, 1.0)):
            for axis in range(2):
                total = 0.0
                for way, (one, other) in itertools.product(range(2), [(axis, 1 - axis)]):
                    here = chosen == way
                    a = np.multiply.outer(first[one][here], ways[way][one])
                    b = np.multiply.outer(first[other][here], ways[way][other])
                    total += float(np.maximum(a - math.exp(each) * b, 0.0).sum())
                assert total <= bounds.delta_upper.values[axis, 0, j] + 1e-9


# -- properties ------------------------------------------------------------------------------------------------------


@examples(9)
@given(st.floats(0.3, 5.0), st.floats(1e-4, 0.99), st.floats(0.1, 3.0), st.integers(1, 20), st.floats(0.0, 3.0))
def test_a_group_of_one_is_one(scale: float, rate: float, sensitivity: float, rounds: int, epsilon: float) -> None:
    one = SubsampledGaussian(scale, rate, sensitivity)
    assert group(one, 1) is one
    made = SubsampledGaussianGroup(scale, rate, 1, sensitivity)
    assert made.alone == one
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
    assert pair.alone == Gaussian(3.0, 4.0)
    tenth = SubsampledGaussianGroup(3.0, 1.0, 3, 0.1)
    assert tenth.lower_pair == Gaussian(3.0, 0.30000000000000004 - 2.0**-54)
    assert tenth.upper_pair == Gaussian(3.0, 0.30000000000000004)


@pytest.mark.parametrize("rate", [5e-324, 1e-200])
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
    assert at_least_as_noisy(SubsampledGaussianGroup(3.0, 0.01, 7, 0.5), pair)
    assert not at_least_as_noisy(pair, SubsampledGaussianGroup(3.0, 0.01, 7, 0.5))


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


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: SubsampledGaussianGroup(1.0, 0.1, 0),
            "SubsampledGaussianGroup.group_size: expected a whole number from 1",
        ),
        (
            lambda: SubsampledGaussianGroup(1.0, 0.0, 2),
            "SubsampledGaussianGroup.rate: expected a probability in (0, 1]",
        ),
        (
            lambda: SubsampledGaussianGroup(1.0, 0.1, 100, 1e29),
            "SubsampledGaussianGroup.sensitivity: expected a number",
        ),
        (lambda: SubsampledGaussianGroup(-1.0, 0.1, 2), "SubsampledGaussianGroup.scale: expected a number above 0"),
        (lambda: group(SubsampledGaussian(1.0, 0.1), 100_001), "group.size: expected at most 100000 individuals on"),
        (
            lambda: group(Product(Gaussian(1.0), Reversed(SubsampledGaussian(1.0, 0.1))), 2),
            "group.pair: expected a pair that is not reversed, got Reversed",
        ),
        (lambda: group(SubsampledGaussianGroup(1.0, 0.1, 2), 2), "group.pair: expected one worst-case pair"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value).startswith(text)
