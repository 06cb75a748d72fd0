"""The pair of a group against chains of mechanisms, by enumeration, and against the noise that is added."""

import itertools
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Poisson,
    Product,
    RandomizedResponse,
    Reversed,
    Staircase,
    WorstOf,
    group,
    privacy_bounds,
)
from pbdist.mechanisms import Pair
from pbdist.types import Direction
from tests import effort
from tests.effort import times
from tests.mechanisms.test_staircase import Density
from tests.oracles.outcome_pairs import delta_of

# Wide bounds are not wrong.
pytestmark = pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    """Whatever other modules set."""
    with mpmath.workdps(60):
        yield


ADDED = [
    (Laplace(2.0, 0.1), Laplace(2.0, 0.30000000000000004)),
    (Gaussian(3.0), Gaussian(3.0, 3.0)),
    (Laplace(2.0, 0.5, (-3.0, 4.0)), Laplace(2.0, 1.5, (-3.0, 4.0))),
    (Gaussian(2.0, 1.0, (-9.0, 9.0)), Gaussian(2.0, 3.0, (-9.0, 9.0))),
    (LaplaceSum((2.0, 1.0)), LaplaceSum((2.0, 1.0), 3.0)),
    (DiscreteLaplace(2.0, 2), DiscreteLaplace(2.0, 6)),
    (DiscreteGaussian(2.0), DiscreteGaussian(2.0, 3)),
    (Poisson(9.0, 2), Poisson(9.0, 6)),
    (Reversed(Poisson(9.0)), Reversed(Poisson(9.0, 3))),
    (Product(Laplace(1.0), Reversed(Poisson(5.0))), Product(Laplace(1.0, 3.0), Reversed(Poisson(5.0, 3)))),
]


@pytest.mark.parametrize(("pair", "expected"), ADDED, ids=repr)
def test_shifts_add_up(pair: Pair, expected: Pair) -> None:
    assert group(pair, 3) == expected
    assert group(pair, 1) is pair


def test_a_product_of_floats_rounds_up() -> None:
    for size in (3, 7, 10**9):
        for value in (0.1, 0.3, 1.0 / 3.0, 123.456):
            assert Fraction(group(Laplace(5.0, value), size).sensitivity) >= Fraction(value) * size  # type: ignore[attr-defined]
            assert Fraction(group(BoundedRange(1e-12 * value), 7).eta) >= Fraction(1e-12 * value) * 7  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Laplace(1.0, 0.7, (-2.0, 3.0)), Gaussian(1.0, 0.7, (-2.0, 3.0)), Poisson(2.5)])
def test_fewer_of_a_group_change_less(noise: Laplace | Gaussian | Poisson) -> None:
    """Every smaller shift is below that of the whole group, in both directions: what a group of three does at most."""
    whole = privacy_bounds(group(noise, 3), compositions=1, epsilon=[0.0, 0.4, 1.5], direction="each")
    for size in (1, 2):
        part = privacy_bounds(group(noise, size), compositions=1, epsilon=[0.0, 0.4, 1.5], direction="each")
        assert (part.delta_lower <= whole.delta_upper).all()


def upper_of(pair: Pair, epsilon: float, direction: Direction) -> float:
    found = privacy_bounds(pair, compositions=1, epsilon=epsilon, direction="each", tolerance=0.01)
    return float(found.delta_upper.sel(direction=direction.value).item())


def simplex(rng: np.random.Generator, size: int) -> list[Fraction]:
    counts = [int(x) for x in rng.integers(0, 30, size)]
    counts[int(rng.integers(size))] += 1
    return [Fraction(count, sum(counts)) for count in counts]


def distributions(rng: np.random.Generator, steps: int) -> list[list[Fraction]]:
    """The outputs of a mechanism on a chain of inputs: each is dominated step by step by a pair that is asked for."""
    return [simplex(rng, 3) for _ in range(steps + 1)]


def test_chains_of_any_mechanism_are_dominated() -> None:
    """A chain D_0, D_1, .., D_k whose steps all have δ of at most that of a pair: ends against the pair of a group."""
    rng, wrong, told = np.random.default_rng([49, effort.SEED]), 0, 0
    while told < times(3):
        steps = int(rng.integers(2, 4))
        chain = distributions(rng, steps)
        # The smallest (ε, δ) that all steps have, in both orders: M_{ε,δ} dominates each of them.
        epsilon = float(rng.uniform(0.2, 1.5))
        largest = max(
            _delta(one, other, epsilon)
            for first, second in itertools.pairwise(chain)
            for one, other in ((first, second), (second, first))
        )
        if largest > 0.6:
            continue
        told += 1
        whole = group(ApproximateDP(epsilon, float(largest) + 1e-15), steps)
        for asked in (0.0, 0.5 * steps * epsilon, steps * epsilon):
            wrong += _delta(chain[0], chain[-1], asked) > upper_of(whole, asked, Direction.A_TO_B)
            wrong += _delta(chain[-1], chain[0], asked) > upper_of(whole, asked, Direction.B_TO_A)
    assert wrong == 0


def _delta(first: list[Fraction], second: list[Fraction], epsilon: float) -> mpmath.mpf:
    y = mpmath.exp(mpmath.mpf(epsilon))
    sides = ([mpmath.mpf(mass.numerator) / mass.denominator for mass in side] for side in (first, second))
    return sum((max(a - y * b, mpmath.mpf(0)) for a, b in zip(*sides, strict=True)), mpmath.mpf(0))


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_a_person_who_answers_for_a_group(size: int) -> None:
    """k-ary answers along a chain of truths, and a staircase shifted step by step: both below the pair of the group."""
    answers = KaryRandomizedResponse(0.55, 4)
    p, lie = mpmath.mpf("0.55"), (1 - mpmath.mpf("0.55")) / 3
    for last in (1, 2, 3):
        ends = [(p if i == 0 else lie, p if i == last else lie) for i in range(4)]
        for epsilon in (0.0, 0.8):
            assert (
                delta_of(ends, 1, epsilon, Direction.A_TO_B)
                <= upper_of(group(answers, size), epsilon, Direction.A_TO_B) + mpmath.mpf(10) ** -12
            )
    stair = Staircase(0.5)
    masses = Density(stair).shifted(mpmath.mpf(size))
    for epsilon in (0.0, 0.4, 0.9):
        for direction in Direction:
            assert delta_of(masses, 1, epsilon, direction) <= upper_of(group(stair, size), epsilon, direction)


def test_what_is_only_above_the_group_has_no_lower_bounds() -> None:
    for pair in (RandomizedResponse(0.6), Histogram([3, 1, 0], [1, 2, 1]), NoisyCount(DiscreteLaplace(1.0), 3, 1)):
        found = group(pair, 2)
        assert isinstance(found, WorstOf)
        assert not found.attained_by_some
        bounds = privacy_bounds(found, compositions=2, epsilon=0.1)
        assert bounds.delta_lower.item() == 0.0 < bounds.delta_upper.item()
    mixed = group(Product(Gaussian(2.0), RandomizedResponse(0.6)), 2)
    assert isinstance(mixed, WorstOf)
    assert mixed.pairs[0].factors[0] == Gaussian(2.0, 2.0)
    assert group(RandomizedResponse(0.5), 2) == RandomizedResponse(0.5)


def test_ranges_add_up_along_a_chain() -> None:
    """Three outputs whose neighbours have the range η: the first and the last have at most 2η."""
    rng = np.random.default_rng([50, effort.SEED])
    for _ in range(times(8)):
        eta = float(rng.uniform(0.05, 2.0))
        masses = [mpmath.mpf(float(x)) for x in rng.dirichlet(np.ones(4))]
        chain = [masses]
        for _ in range(2):
            moved = [m * mpmath.exp(eta * float(x)) for m, x in zip(chain[-1], rng.uniform(0, 1, 4), strict=True)]
            chain.append([m / sum(moved) for m in moved])
        ends = list(zip(chain[0], chain[2], strict=True))
        for epsilon in (0.0, 0.6 * eta):
            for direction in Direction:
                assert delta_of(ends, 1, epsilon, direction) <= upper_of(
                    group(BoundedRange(eta), 2), epsilon, direction
                )
