"""Sensitivities of sums over a stream against all patterns of participation, and a whole release by enumeration."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import Gaussian, InvalidInputError, SubsampledGaussian, privacy_bounds
from pbdist.mechanisms.matrix_factorization import banded, sampled_banded, tree_aggregation
from pbdist.types import Direction
from tests import effort
from tests.effort import times
from tests.oracles.outcome_pairs import delta_of

pytestmark = pytest.mark.slow


def patterns(steps: int, most: int, apart: int) -> list[tuple[int, ...]]:
    """All sets of at most so many steps that are that far apart."""
    return [
        chosen
        for count in range(1, most + 1)
        for chosen in itertools.combinations(range(steps), count)
        if all(later - earlier >= apart for earlier, later in itertools.pairwise(chosen))
    ]


def tree_matrix(leaves: int) -> np.ndarray:
    """The nodes as rows: complete dyadic intervals, made by merging two equal neighbours as a binary counter does."""
    finished, waiting = [], []
    for step in range(leaves):
        waiting.append((step, step + 1))
        finished.append(waiting[-1])
        while len(waiting) > 1 and waiting[-1][1] - waiting[-1][0] == waiting[-2][1] - waiting[-2][0]:
            right, left = waiting.pop(), waiting.pop()
            waiting.append((left[0], right[1]))
            finished.append(waiting[-1])
    return np.array([[low <= step < high for step in range(leaves)] for low, high in finished], dtype=np.float64)


def largest_square(matrix: np.ndarray, most: int, apart: int) -> Fraction:
    """The largest squared length of a sum of columns, over all patterns: exact, with equal contributions."""
    columns = [[Fraction(float(x)) for x in column] for column in matrix.T]
    best = Fraction(0)
    for chosen in patterns(len(columns), most, apart):
        total = [sum(entries) for entries in zip(*(columns[i] for i in chosen), strict=True)]
        best = max(best, sum(x * x for x in total))
    return best


@pytest.mark.parametrize("leaves", [1, 2, 3, 5, 8, 11, 13, 16])
def test_trees_against_all_patterns(leaves: int) -> None:
    matrix = tree_matrix(leaves)
    for most in range(1, 5 if leaves < 12 else 4):
        for apart in range(1, leaves + 2):
            exact = largest_square(matrix, most, apart)
            found = Fraction(tree_aggregation(leaves, 1.0, participations=most, separation=apart).sensitivity) ** 2
            assert found >= exact
            powers = leaves & (leaves - 1) == 0 and apart & (apart - 1) == 0
            if most == 1 or powers:
                assert found <= exact * (1 + Fraction(1, 2**50))


def drawn_banded(rng: np.random.Generator, steps: int, bands: int) -> np.ndarray:
    matrix = np.zeros((steps, steps))
    for offset in range(bands):
        matrix += np.diag(rng.normal(size=steps - offset) * 10.0 ** rng.integers(-3, 3), -offset)
    return matrix


def test_banded_matrices_against_all_patterns_and_contributions() -> None:
    rng = np.random.default_rng([48, effort.SEED])
    for _ in range(times(60)):
        steps = int(rng.integers(2, 9))
        bands = int(rng.integers(1, steps + 1))
        apart, most = int(rng.integers(bands, steps + 1)), int(rng.integers(1, 5))
        matrix = drawn_banded(rng, steps, bands)
        pair = banded(matrix, 2.0, participations=most, separation=apart)
        square = Fraction(pair.sensitivity) ** 2
        exact = largest_square(matrix, most, apart)
        assert exact <= square <= exact * (1 + Fraction(1, 10**13))
        # Contributions are vectors of a length of at most 1, in any directions.
        for chosen in patterns(steps, most, apart):
            vectors = rng.normal(size=(len(chosen), 3))
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1.0)
            assert np.sum((matrix[:, chosen] @ vectors) ** 2) <= float(square) * (1 + 1e-12)


def test_steps_further_apart_than_there_are_leave_one() -> None:
    # As many positions as the separation would be more than any memory.
    pair = banded(np.diag([1.0, 3.0, 2.0]), 1.0, participations=2**40, separation=2**40)
    assert 9 <= Fraction(pair.sensitivity) ** 2 <= 9 * (1 + Fraction(1, 10**14))


def test_one_participation_needs_no_bands() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(5, 4))
    pair = banded(matrix, 3.0)
    exact = max(sum(Fraction(float(x)) ** 2 for x in column) for column in matrix.T)
    assert exact <= Fraction(pair.sensitivity) ** 2 <= exact * (1 + Fraction(1, 10**14))
    assert pair.scale == 3.0


def test_faint_entries_round_up() -> None:
    # The square of the second entry is below the smallest float.
    matrix = np.array([[1e-20, 0.0], [1e-180, 1e-25]])
    assert Fraction(banded(matrix, 1.0).sensitivity) ** 2 >= Fraction(1e-20) ** 2 + Fraction(1e-180) ** 2
    with pytest.raises(InvalidInputError, match=r"Gaussian.sensitivity"):
        banded(matrix * 1e-20, 1.0)


def test_a_contribution_chosen_by_what_was_seen_is_dominated() -> None:
    """Two steps, the second one's contribution chosen by the sign of the first outcome, on bins, which hide more."""
    scale, edges = 1.5, [-mpmath.inf, *(mpmath.mpf(x) / 4 for x in range(-24, 25)), mpmath.inf]
    pair = banded(np.diag([1.0, 0.8]), scale, participations=2, separation=1)

    def masses(mean: float) -> list[mpmath.mpf]:
        values = [mpmath.ncdf((edge - mean) / scale) for edge in edges]
        return [high - low for low, high in itertools.pairwise(values)]

    bins = range(len(edges) - 1)
    first, none = masses(1.0), masses(0.0)
    for up, down in ((0.8, -0.8), (0.8, 0.0), (0.3, 0.8)):
        above, below = masses(up), masses(down)
        chosen = [first[i] * (above if edges[i] >= 0 else below)[j] for i in bins for j in bins]
        fixed = [none[i] * none[j] for i in bins for j in bins]
        for epsilon in (0.0, 0.7):
            upper = privacy_bounds(pair, compositions=1, epsilon=epsilon).delta_upper.item()
            for direction in Direction:
                assert delta_of(list(zip(chosen, fixed, strict=True)), 1, epsilon, direction) <= upper


def test_sampled_parts_are_rounds_of_a_sampled_gaussian() -> None:
    """Four steps, two bands: an individual of part 0 is sampled in steps 0 and 2; by numerical integration."""
    matrix = np.array([[0.8, 0, 0, 0], [0.6, 0.7, 0, 0], [0, 0.5, 0.8, 0], [0, 0, 0.6, 0.9]])
    pair, rounds = sampled_banded(matrix, 1.2, rate=0.3, bands=2)
    assert (rounds, pair.rate, pair.scale) == (2, 0.3, 1.2)
    assert isinstance(pair, SubsampledGaussian)
    largest = max(float(np.linalg.norm(column)) for column in matrix.T)
    assert largest <= pair.sensitivity <= largest * (1 + 1e-14)
    # One block is rows 0 and 1: N(0, σ²) in the plane against a mixture with a shift of (0.8, 0.6), of length 1.
    axis = np.linspace(-9.0, 10.0, 1501)
    step = axis[1] - axis[0]
    x, y = np.meshgrid(axis, axis, indexing="ij")

    def density(a: float, b: float) -> np.ndarray:
        return np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * 1.2**2)) / (2 * math.pi * 1.2**2)

    without = density(0.0, 0.0)
    sampled = 0.7 * without + 0.3 * density(0.8, 0.6)
    block, _ = sampled_banded([[0.8, 0.0], [0.6, 0.0]], 1.2, rate=0.3, bands=2)
    for epsilon in (0.0, 0.3):
        bounds = privacy_bounds(block, compositions=1, epsilon=epsilon, direction="each")
        removed = np.sum(np.maximum(sampled - math.exp(epsilon) * without, 0.0)) * step * step
        added = np.sum(np.maximum(without - math.exp(epsilon) * sampled, 0.0)) * step * step
        assert removed == pytest.approx(bounds.delta_upper.values[0, 0, 0], rel=2e-3)
        assert added == pytest.approx(bounds.delta_upper.values[1, 0, 0], rel=2e-3)
    assert sampled_banded(np.eye(7), 1.0, rate=0.5, bands=3)[1] == 3


def test_it_is_a_gaussian_mechanism() -> None:
    assert isinstance(tree_aggregation(100, 5.0), Gaussian)
    # Known values: one pass over 2^k steps is k + 1 levels.
    for power in (0, 3, 10):
        assert tree_aggregation(2**power, 1.0).sensitivity == pytest.approx(math.sqrt(power + 1), rel=1e-15)
