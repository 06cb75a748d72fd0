"""Noise on samples: δ of drawn pairs against mpmath, in one round and in two, and against mechanisms enumerated."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist import (
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    InvalidInputError,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    privacy_bounds,
)
from pbdist.mechanisms import Adjacency, ElementaryPair, Pair
from pbdist.mechanisms.binomial_runs import cut_sample
from pbdist.types import Direction
from tests.effort import SEED, times
from tests.mechanisms.read_off import read_off
from tests.mechanisms.sampled import densities, hockey_stick, sums_of_batches, truths
from tests.oracles.sampling_truth import ShiftTruth, cut_exactly

pytestmark = [pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning"), pytest.mark.slow]

Draw = Callable[[np.random.Generator], Pair]


def drawn_rate(rng: np.random.Generator) -> float:
    return float(rng.choice([10.0 ** rng.uniform(-8.0, 0.0), rng.uniform(0.0, 1.0), 1.0, 1.0 - 2.0**-53, 0.5]))


def drawn_scale(rng: np.random.Generator, sensitivity: float) -> float:
    return sensitivity * 10.0 ** rng.uniform(-0.7, 1.3)


def drawn_sensitivity(rng: np.random.Generator) -> float:
    return float(rng.choice([1.0, 10.0 ** rng.uniform(-3.0, 3.0)]))


def sampled_laplace(rng: np.random.Generator) -> Pair:
    s = drawn_sensitivity(rng)
    return SubsampledLaplace(drawn_scale(rng, s), drawn_rate(rng), s)


def mixture(rng: np.random.Generator) -> Pair:
    count = int(rng.integers(1, 5))
    shifts = 10.0 ** rng.uniform(-2.0, 0.5, count)
    weights = rng.dirichlet(np.full(count, 0.5)) if rng.random() < 0.7 else np.full(count, 1.0 / count)
    if rng.random() < 0.7:
        rest = 1.0 - drawn_rate(rng)
        shifts, weights = np.append(shifts, 0.0), np.append((1.0 - rest) * weights, rest)
    if not np.all(weights > 0.0):
        weights = np.full(shifts.size, 1.0 / shifts.size)
    order = np.argsort(shifts)
    return GaussianMixture(drawn_scale(rng, 1.0), tuple(shifts[order].tolist()), tuple(weights[order].tolist()))


def fixed_batch(rng: np.random.Generator) -> Pair:
    examples = int(10.0 ** rng.uniform(0.0, 5.0))
    batch = int(rng.integers(1, examples + 1)) if rng.random() < 0.5 else max(1, examples // 50)
    s = drawn_sensitivity(rng)
    return FixedBatchGaussian(drawn_scale(rng, 2.0 * s), batch, examples, s)


def truncated_poisson(rng: np.random.Generator) -> Pair:
    examples, rate = int(rng.integers(1, 120)), float(rng.uniform(0.005, 0.6))
    mean = examples * rate
    batch = max(1, min(examples, int(mean + rng.normal(0.8, 1.5) * math.sqrt(mean))))
    s = drawn_sensitivity(rng)
    return TruncatedPoissonGaussian(drawn_scale(rng, s), rate, batch, examples, s)


def groups(largest: int) -> Draw:
    """Groups of at most so many individuals."""

    def group(rng: np.random.Generator) -> Pair:
        size, s = int(rng.integers(1, largest + 1)), drawn_sensitivity(rng)
        scale = s * 10.0 ** rng.uniform(-0.5, 1.3) * float(rng.choice([1.0, size]))
        return SubsampledGaussianGroup(scale, drawn_rate(rng), size, s)

    return group


def losses_asked(rng: np.random.Generator, pair: Pair) -> np.ndarray:
    """Values of ε: 0, tiny ones, and up to beyond the largest losses that matter."""
    ratio = max(getattr(pair, "shifts", (getattr(pair, "sensitivity", 1.0),))) / pair.scale  # type: ignore[attr-defined]
    ratio *= getattr(pair, "group_size", 1)
    largest = ratio if isinstance(pair, SubsampledLaplace) else ratio * (4.0 + ratio)
    parts = [0.0, largest * 10.0 ** rng.uniform(-6.0, 0.0), largest * rng.uniform(0.0, 1.0)]
    return np.unique(parts)


def check_masses(pair: Pair, rng: np.random.Generator) -> None:
    """Bins above a loss have the masses of δ there, in both directions; so precisely that the bracket is narrow."""
    above, below = truths(pair)
    edges = losses_asked(rng, pair)
    edges = np.unique(np.concatenate((-edges, edges, 3.0 * edges[-1:], [math.log(2.0)])))
    place = int(rng.integers(np.flatnonzero(edges >= 0.0)[0], edges.size))
    epsilon = float(edges[place])
    group = isinstance(pair, SubsampledGaussianGroup)
    # A group of one individual has no alternatives, but both sides.
    sides = (pair.upper_pair, pair.lower_pair) if isinstance(pair, SubsampledGaussianGroup) else pair.alternatives
    largest, attained = sides[0], sides[-1]
    with mpmath.workdps(40):
        tiny = mpmath.mpf(10) ** -28
        for axis, direction in enumerate(Direction):
            exact, least = (truth.delta(epsilon, axis) for truth in (above, below))
            if isinstance(pair, FixedBatchGaussian):
                # Replacing a record works in both directions alike.
                exact = above.delta(epsilon, 0)
            lower, upper, mass, error = read_off(largest, edges, place, direction)
            known = read_off(attained, edges, place, direction)[0]
            assert exact * (1 - tiny) <= upper, (pair, epsilon, axis)
            assert known <= least * (1 + tiny), (pair, epsilon, axis)
            # The pair that dominates has rates rounded up.
            assert lower <= exact * (1 + tiny) or largest != attained, (pair, epsilon, axis)
            assert error <= (1e-12 if group else 1e-13) * (1.0 + float(edges[-1])), (pair, epsilon, axis)
            # Of groups what is folded, and the few u by which weights move, lies between both sides.
            gap, faint = (upper - known, 1e-90) if group else (upper - lower, 1e-250)
            assert gap <= 1e-10 * mass + 6 * error + faint, (pair, epsilon, axis)


def check_one_round(pair: Pair, rng: np.random.Generator) -> None:
    above, below = truths(pair)
    epsilon = losses_asked(rng, pair)
    method = {"method": "buckets", "buckets": 2000} if rng.random() < 0.1 and isinstance(pair, ElementaryPair) else {}
    tolerance = {} if method else {"tolerance": float(rng.choice([1e-2, 1e-3]))}
    bounds = privacy_bounds(pair, compositions=1, epsilon=epsilon, direction="each", **method, **tolerance)
    # Replacing a record works in both directions alike.
    both = isinstance(pair, FixedBatchGaussian)
    with mpmath.workdps(40):
        for axis, (j, each) in itertools.product(range(2), enumerate(epsilon.tolist())):
            lower, upper = (bound.values[axis, 0, j] for bound in (bounds.delta_lower, bounds.delta_upper))
            assert lower <= below.delta(each, axis) * (1 + mpmath.mpf(10) ** -25), (pair, each, axis)
            assert above.delta(each, 0 if both else axis) * (1 - mpmath.mpf(10) ** -25) <= upper, (pair, each, axis)
            met = bounds.within_tolerance.values[axis, 0, j] if tolerance else False
            if met and upper > 1e-14 and above is below and not (both and axis):
                assert upper <= lower * (1.011 if tolerance["tolerance"] == 1e-2 else 1.0021), (pair, each, axis)


def check_two_rounds(pair: Pair, rng: np.random.Generator) -> None:
    truth, _ = truths(pair)
    assert isinstance(truth, ShiftTruth)
    epsilon = float(losses_asked(rng, pair)[-1])
    bounds = privacy_bounds(pair, compositions=2, epsilon=epsilon, direction="each")
    with mpmath.workdps(15):
        for axis in range(2):
            exact = float(truth.two_rounds(epsilon, axis))
            lower, upper = (float(found.values[axis, 0, 0]) for found in (bounds.delta_lower, bounds.delta_upper))
            assert lower <= exact * (1.0 + 1e-8) + 1e-13, (pair, epsilon, axis)
            assert exact * (1.0 - 1e-8) - 1e-13 <= upper, (pair, epsilon, axis)


DRAWS: list[Draw] = [sampled_laplace, mixture, fixed_batch, truncated_poisson]


@pytest.mark.parametrize("draw", [*DRAWS, groups(12)], ids=lambda draw: draw.__name__)
def test_masses_of_drawn_pairs(draw: Draw) -> None:
    """60 of each kind with effort 1; 1,020 with effort 17."""
    rng = np.random.default_rng((SEED, 10))
    for _ in range(times(60)):
        check_masses(draw(rng), rng)


@pytest.mark.parametrize("draw", [*DRAWS, groups(30)], ids=lambda draw: draw.__name__)
def test_one_round_of_drawn_pairs(draw: Draw) -> None:
    rng = np.random.default_rng((SEED, 11))
    for _ in range(times(6)):
        check_one_round(draw(rng), rng)


@pytest.mark.nightly
@pytest.mark.parametrize("draw", [sampled_laplace, mixture, groups(4)], ids=lambda draw: draw.__name__)
def test_two_rounds_of_drawn_pairs(draw: Draw) -> None:
    rng = np.random.default_rng((SEED, 12))
    for _ in range(times(1)):
        check_two_rounds(draw(rng), rng)


# -- the mechanisms, enumerated ------------------------------------------------------------------------------------


def sums_of_cut_samples(values: np.ndarray, rate: float, batch: int) -> dict[float, float]:
    """Sums of Poisson samples, of which at most so many records are kept, with their probabilities."""
    found: dict[float, float] = {}
    for drawn in itertools.product((False, True), repeat=values.size):
        sample = values[list(drawn)]
        probability = rate**sample.size * (1.0 - rate) ** (values.size - sample.size)
        for each, share in sums_of_batches(sample, min(batch, sample.size)).items():
            found[each] = found.get(each, 0.0) + probability * share
    return found


def drawn_values(rng: np.random.Generator, count: int) -> np.ndarray:
    """Contributions of records within the clipping norm 1, often at its ends."""
    return np.clip(rng.uniform(-2.5, 2.5, count), -1.0, 1.0) if rng.random() < 0.5 else np.full(count, -1.0)


def check_enumerated(mechanism: Pair, first: list[np.ndarray], second: list[np.ndarray]) -> None:
    """δ of one and of two rounds of what was enumerated, for two data sets, is at most the upper bounds.

    The rounds may use other contributions: the first and the second one.
    """
    epsilon = np.array([0.0, 0.3, 1.0])
    bounds = privacy_bounds(mechanism, compositions=[1, 2], epsilon=epsilon, tolerance=1e-2, direction="each")
    a, b = ((np.multiply.outer(first[i], second[i])).ravel() for i in range(2))
    for j, each in enumerate(epsilon.tolist()):
        for axis, order in enumerate(((0, 1), (1, 0))):
            for used in (first, second):
                assert (
                    hockey_stick(used[order[0]], used[order[1]], each) <= bounds.delta_upper.values[axis, 0, j] + 1e-9
                )
            both = (a, b) if axis == 0 else (b, a)
            assert hockey_stick(*both, each) <= bounds.delta_upper.values[axis, 1, j] + 1e-9


def test_enumerated_batches_of_a_fixed_size() -> None:
    rng = np.random.default_rng((SEED, 13))
    for _ in range(times(8)):
        examples = int(rng.integers(1, 6))
        batch, scale = int(rng.integers(1, examples + 1)), float(10.0 ** rng.uniform(-0.3, 0.7))
        rounds = []
        for _ in range(2):
            values = drawn_values(rng, examples)
            other = np.append(values[:-1], drawn_values(rng, 1))
            if rng.random() < 0.5:
                values[-1], other[-1] = rng.permutation([1.0, -1.0])
            rounds.append(densities([sums_of_batches(values, batch), sums_of_batches(other, batch)], scale))
        check_enumerated(FixedBatchGaussian(scale, batch, examples), *rounds)


def test_batches_of_a_fixed_size_attain_their_bounds() -> None:
    """Where all others are at one end, one round has the δ of the upper bound, several rounds that of the lower one."""
    mechanism = FixedBatchGaussian(1.5, 2, 6)
    others = np.full(5, -1.0)
    a, b = densities([sums_of_batches(np.append(others, last), 2) for last in (1.0, -1.0)], 1.5)
    bounds = privacy_bounds(mechanism, compositions=[1, 2], epsilon=[0.0, 0.4], direction="each")
    for j, epsilon in enumerate((0.0, 0.4)):
        one = hockey_stick(a, b, epsilon)
        assert bounds.delta_upper.values[:, 0, j] == pytest.approx([one, one], rel=2e-3)
        assert bounds.delta_lower.values[0, 0, j] == pytest.approx(one, rel=2e-3)
        two = hockey_stick(np.multiply.outer(a, a).ravel(), np.multiply.outer(b, b).ravel(), epsilon)
        assert bounds.delta_lower.values[0, 1, j] == pytest.approx(two, rel=2e-3)
        assert bounds.delta_upper.values[0, 1, j] > 1.01 * two
    # Poisson's answer is wrong for it, and no bound at all.
    poisson = privacy_bounds(SubsampledGaussian(1.5, 2 / 6), compositions=1, epsilon=0.4).delta_upper.item()
    assert poisson < 0.5 * bounds.delta_lower.values[0, 0, 1]


def test_rounds_chosen_after_others_are_worse_than_any_repeated_round() -> None:
    """Why upper bounds are those of a third pair: contributions may be chosen by what was seen (Theorem 39)."""
    scale, others = 1.0, np.full(7, -1.0)
    a, b = densities([sums_of_batches(np.append(others, last), 2) for last in (1.0, -1.0)], scale)
    upper = privacy_bounds(FixedBatchGaussian(scale, 2, 8), compositions=2, epsilon=[0.0, 0.3, 1.0], tolerance=1e-2)
    for j, epsilon in enumerate((0.0, 0.3, 1.0)):
        factor = math.exp(epsilon)
        repeated = max(
            hockey_stick(np.multiply.outer(x, x).ravel(), np.multiply.outer(y, y).ravel(), epsilon)
            for x, y in ((a, b), (b, a))
        )
        # After each first outcome the second round is the worse one of the two directions.
        ways = [
            np.maximum(np.multiply.outer(a, x) - factor * np.multiply.outer(b, y), 0.0) for x, y in ((a, b), (b, a))
        ]
        chosen = float(np.maximum(*(way.sum(axis=1) for way in ways)).sum())
        assert 1.01 * repeated < chosen <= upper.delta_upper.values[0, j]


def test_enumerated_poisson_samples_that_are_cut() -> None:
    rng = np.random.default_rng((SEED, 14))
    for _ in range(times(8)):
        examples = int(rng.integers(1, 6))
        batch, rate = int(rng.integers(1, examples + 1)), float(rng.uniform(0.05, 1.0))
        scale = float(10.0 ** rng.uniform(-0.3, 0.7))
        rounds = []
        for _ in range(2):
            values = drawn_values(rng, examples)
            if rng.random() < 0.5:
                values[-1] = 1.0
            both = [sums_of_cut_samples(one, rate, batch) for one in (values, values[:-1])]
            rounds.append(densities(both, scale))
        check_enumerated(TruncatedPoissonGaussian(scale, rate, batch, examples), *rounds)


def test_poisson_samples_that_are_cut_attain_their_lower_bounds() -> None:
    mechanism = TruncatedPoissonGaussian(1.5, 0.4, 2, 5)
    values = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    a, b = densities([sums_of_cut_samples(one, 0.4, 2) for one in (values, values[:-1])], 1.5)
    bounds = privacy_bounds(mechanism, compositions=1, epsilon=[0.0, 0.2], direction="each")
    for j, epsilon in enumerate((0.0, 0.2)):
        assert bounds.delta_lower.values[0, 0, j] == pytest.approx(hockey_stick(a, b, epsilon), rel=2e-3)
        assert bounds.delta_lower.values[1, 0, j] == pytest.approx(hockey_stick(b, a, epsilon), rel=2e-3)


# -- how often a sample is cut ---------------------------------------------------------------------------------------


def test_probabilities_of_cut_samples() -> None:
    rng = np.random.default_rng((SEED, 15))
    for _ in range(times(150)):
        examples = int(rng.integers(1, 150))
        rate = float(rng.choice([rng.uniform(0.0, 1.0), 10.0 ** rng.uniform(-9.0, 0.0), 1.0, 1.0 - 2.0**-53]))
        batch = int(rng.integers(1, examples + 3))
        q = Fraction(rate)
        cut, used = cut_exactly(examples, q, batch)
        found = cut_sample(examples, rate, batch)
        for bounds, exact in ((found.probability, cut), (found.rest, 1 - cut)):
            assert bounds[0] <= exact <= bounds[1]
            assert bounds[1] <= exact * (1 + Fraction(1, 10**11)) + Fraction(1, 10**280)
        inclusion = (1 - cut) * q + used
        assert found.used <= inclusion <= found.used * (1 + Fraction(1, 10**10)) + Fraction(1, 10**280)
        if cut:
            exact = used / cut
            assert exact <= found.rate <= q
            assert found.rate <= exact * (1 + Fraction(1, 10**11))


def test_probabilities_of_large_samples() -> None:
    """Against sums of 40 digits by their logarithms, and far from any number that is drawn."""
    n, q, batch = 60_000, 256 / 60_000, 300
    with mpmath.workdps(40):
        p = mpmath.mpf(q)
        first = mpmath.binomial(n - 1, batch) * p**batch * (1 - p) ** (n - 1 - batch)
        term, cut, used = first, mpmath.mpf(0), mpmath.mpf(0)
        for k in range(batch, batch + 500):
            cut, used = cut + term, used + term * p * batch / (k + 1)
            term *= (n - 1 - k) * p / ((k + 1) * (1 - p))
        found = cut_sample(n, q, batch)
        assert found.probability[0] <= cut <= found.probability[1] <= cut * (1 + mpmath.mpf(10) ** -9)
        assert used / cut <= found.rate <= used / cut * (1 + mpmath.mpf(10) ** -9)
    far = cut_sample(10**9, 0.5, 10**9 - 5)
    assert far.probability[0] == 0.0 < far.probability[1] < 1e-270
    assert far.rate <= 0.5
    near = cut_sample(10**9, 0.5, 3)
    assert near.probability[0] > 1.0 - 1e-6
    assert near.rest[0] == 0.0 < near.rest[1] < 1e-270
    assert 0.0 < near.used < 1e-8


# -- descriptions ----------------------------------------------------------------------------------------------------


def test_a_mixture_of_two_shifts_is_sampled_gaussian_noise() -> None:
    one, two = GaussianMixture(2.0, (0.0, 3.0), (0.99, 0.01)), SubsampledGaussian(2.0, 0.01, 3.0)
    found, known = (
        privacy_bounds(pair, compositions=[1, 300], epsilon=[0.1, 1.0], tolerance=1e-3) for pair in (one, two)
    )
    np.testing.assert_allclose(found.delta_upper.values, known.delta_upper.values, rtol=2e-3)
    np.testing.assert_allclose(found.delta_lower.values, known.delta_lower.values, rtol=2e-3)


def test_a_batch_of_all_records_is_gaussian_noise_of_twice_the_sensitivity() -> None:
    pair = FixedBatchGaussian(3.0, 7, 7, 0.5)
    assert pair.sole_pair == Gaussian(3.0, 1.0)
    assert TruncatedPoissonGaussian(3.0, 0.2, 7, 7).sole_pair == SubsampledGaussian(3.0, 0.2)


def test_a_faint_weight_of_no_shift_is_told_and_edges_stay_as_they_are() -> None:
    """Losses go down to the logarithm of that weight, though the other weights sum to 1 as floats."""
    pair = GaussianMixture(0.2, (0.0, 0.1, 0.3), (1e-17, 0.5, 0.5))
    edges = np.array([-45.0, -39.0, -30.0, -5.0, 0.0, 2.0])
    given = edges.copy()
    masses = pair.loss_masses(edges)
    np.testing.assert_array_equal(edges, given)
    assert masses.loss_error < 1e-12
    assert masses.bins_b.upper[:2].max() < 1e-40


def test_pairs_and_bounds_say_for_which_neighbours_they_are() -> None:
    fixed, truncated = FixedBatchGaussian(4.0, 10, 1000), TruncatedPoissonGaussian(4.0, 0.01, 30, 1000)
    added = (SubsampledLaplace(1.0, 0.5), GaussianMixture(1.0, (1.0,), (1.0,)), truncated, truncated.upper_pair)
    assert {pair.adjacency for pair in added} == {Adjacency.ADD_OR_REMOVE}
    assert {fixed.adjacency, fixed.upper_pair.adjacency} == {Adjacency.REPLACE_ONE}
    assert fixed.removal is None
    assert truncated.removal is Direction.A_TO_B
    assert privacy_bounds(fixed, compositions=10, epsilon=1.0).attrs["adjacency"] == "replace-one"
    assert privacy_bounds(truncated, compositions=10, epsilon=1.0).attrs["adjacency"] == "add-or-remove"
    with pytest.raises(InvalidInputError, match="as FixedBatchGaussian is the worst case"):
        privacy_bounds(fixed, compositions=10, epsilon=1.0, adjacency="add-or-remove")
