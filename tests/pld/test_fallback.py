"""Bounds for every pair: single pairs and compositions against exact sums over all outcomes, and closed forms."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from pbdist import mechanisms as mech
from pbdist.enclosures import Fineness, enclosed_counts
from pbdist.mechanisms import ElementaryPair, Reversed
from pbdist.pld.closed_form import gaussian_bounds
from pbdist.pld.fallback import Fallback, pure_bounds
from pbdist.pld.question import Question
from pbdist.types import Direction
from tests.effort import SEED, times

Masses = list[tuple[Fraction, Fraction]]

#: Pairs with losses that have a bound, in some direction.
BOUNDED: tuple[ElementaryPair, ...] = (
    mech.Laplace(0.7),
    mech.LaplaceSum((0.7, 1.3)),
    mech.SubsampledLaplace(0.4, 0.03),
    Reversed(mech.SubsampledLaplace(0.02, 0.2)),
    mech.SubsampledLaplace(0.05, 1.0 - 2.0**-53),
    mech.SubsampledLaplace(0.002, 1e-200),
    mech.SubsampledGaussian(0.8, 0.03),
    Reversed(mech.SubsampledGaussian(2.0, 1e-4)),
    mech.GaussianMixture(0.9, (0.0, 1.0, 3.0), (0.9, 0.09, 0.01)),
    mech.GaussianMixture(4.0, (0.0, 0.5), (1e-3, 0.999)),
)
#: Pairs of samples and of random shifts.
SAMPLED: tuple[ElementaryPair, ...] = (
    *BOUNDED[2:],
    mech.GaussianMixture(0.9, (1.0, 3.0), (0.5, 0.5)),
    mech.FixedBatchUpper(0.7, 0.02),
    mech.TruncatedPoissonUpper(0.6, 0.01, 12, 1000),
    mech.TruncatedPoissonUpper(3.0, 0.01, 30, 1000),
)


def question(counts: dict[ElementaryPair, int], rounds: int, epsilon: float = 1.0) -> Question:
    return Question(counts, np.array([rounds]), np.array([epsilon]), 1e-3, 1e-40, False)


def drawn(rng: np.random.Generator) -> tuple[mech.Histogram, Masses]:
    """A few outcomes, some of them impossible under one of both, some next to impossible."""
    size = int(rng.integers(2, 5))
    p, q = ((rng.integers(0, 3, size) * rng.integers(1, 10 ** rng.integers(1, 13), size)).astype(object) for _ in "AB")
    p[0], q[-1] = max(p[0], 1), max(q[-1], 1)
    exact = [(Fraction(int(a), int(sum(p))), Fraction(int(b), int(sum(q)))) for a, b in zip(p, q, strict=True)]
    return mech.Histogram(tuple(map(int, p)), tuple(map(int, q))), exact


def exact_delta(factors: list[Masses], epsilon: float, direction: Direction) -> mpmath.mpf:
    growth, total = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
    for outcome in product(*factors):
        a, b = (math.prod((each[side] for each in outcome), start=Fraction(1)) for side in (0, 1))
        if direction is Direction.B_TO_A:
            a, b = b, a
        total += max(mpmath.mpf(a.numerator) / a.denominator - growth * b.numerator / b.denominator, mpmath.mpf(0))
    # Sixty digits of numbers up to 1.
    return min(total, mpmath.mpf(1))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_drawn_products_lie_within_the_bounds(part: int) -> None:
    rng = np.random.default_rng((SEED, part))
    with mpmath.workdps(60):
        for _ in range(times(18)):
            first, own = drawn(rng)
            other, beside = drawn(rng)
            count, rounds = int(rng.integers(1, 3)), int(rng.integers(1, 3))
            counts: dict[ElementaryPair, int] = {first: count}
            counts[other] = counts.get(other, 0) + 1
            factors = [own] * count * rounds + [beside] * rounds
            epsilon = float(rng.choice([0.0, rng.uniform(0.0, 2.0), rng.uniform(0.0, 40.0)]))
            for direction in Direction:
                known = Fallback(question(counts, rounds, max(epsilon, 0.1)), rounds, direction)
                points = np.array([epsilon])
                exact = exact_delta(factors, epsilon, direction)
                lower, upper = known.log_delta_below(points)[0], known.log_delta_above(points)[0]
                assert mpmath.exp(mpmath.mpf(float(lower))) <= exact, (first, other, count, rounds, epsilon, direction)
                assert exact <= mpmath.exp(mpmath.mpf(float(upper))), (first, other, count, rounds, epsilon, direction)
                delta = float(10.0 ** -rng.uniform(0.0, 18.0))
                low, high = known.epsilon_below(delta), known.epsilon_above(delta, epsilon)
                assert low <= high
                assert low == 0.0 or exact_delta(factors, low * (1.0 - 1e-15), direction) >= delta
                assert math.isinf(high) or exact_delta(factors, high, direction) <= delta
                pure = pure_bounds(counts, rounds, (direction,), 1e9)
                assert math.isinf(pure[1]) or exact_delta(factors, pure[1], direction) == 0
                assert pure[0] in (0.0, 1e9) or exact_delta(factors, pure[0] * (1.0 - 1e-14), direction) > 0


def test_where_losses_are_infinite_the_rest_still_counts() -> None:
    """What is revealed is a millionth; all else has losses of at most .1."""
    pair = mech.ApproximateDP(0.1, 1e-6)
    known = Fallback(question({pair: 1}, 50), 50, Direction.A_TO_B)
    assert known.epsilon_above(1e-3, 3.0) < 5.0
    assert math.isinf(known.epsilon_above(4.9e-5, 3.0))
    assert known.log_delta_above(np.array([4.0]))[0] < math.log(1e-3)


@pytest.mark.parametrize(
    "pair", [*BOUNDED, mech.BoundedRange(0.8), mech.TruncatedPoissonUpper(0.6, 0.01, 12, 1000)], ids=repr
)
@pytest.mark.parametrize("direction", Direction)
def test_no_loss_is_above_the_bound_and_some_are_next_to_it(pair: ElementaryPair, direction: Direction) -> None:
    bound = pair.loss_bound(direction)
    if bound is None or math.isinf(bound):
        assert any(math.isfinite(pair.loss_bound(each) or math.inf) for each in Direction) or bound is None
        return
    masses = pair.directed_loss_masses(np.array([bound * (1.0 - 1e-3), bound * (1.0 + 1e-12)]), direction)
    assert masses.bins_a.upper[-1] == 0.0
    assert not masses.only_a.upper.any()
    assert not masses.atoms_a.upper[masses.atom_loss > bound + masses.loss_error].any()
    near = masses.bins_a.lower[1] + masses.atoms_a.lower[masses.atom_loss > bound * (1.0 - 1e-3)].sum()
    # Far out, where a shift is not seen any more, masses are small.
    assert near > 0.0 or isinstance(
        pair, mech.GaussianMixture | mech.SubsampledGaussian | mech.TruncatedPoissonUpper | Reversed
    )


def test_largest_losses_of_sampled_laplace_noise_are_rounded_up() -> None:
    """At rates next to 1 and to 0, and where exponentials are no floats, or not even decimal numbers."""
    rng = np.random.default_rng(SEED)
    with mpmath.workdps(800):
        for _ in range(times(60)):
            rates = (1.0 - 2.0 ** -float(rng.integers(1, 54)), 10.0 ** -rng.uniform(0.0, 323.0), rng.uniform(0.01, 1.0))
            pair = mech.SubsampledLaplace(float(10.0 ** rng.uniform(-8.0, 2.0)), float(rates[rng.integers(3)]))
            rate, size = mpmath.mpf(pair.rate), 1 / mpmath.mpf(pair.scale)
            for direction, sign in zip(Direction, (1, -1), strict=True):
                exact = sign * mpmath.log(1 - rate + rate * mpmath.exp(sign * size))
                off = mpmath.mpf(2) ** -51 if size < 10**6 else mpmath.mpf(1e-3)
                assert exact <= pair.loss_bound(direction) <= exact * (1 + off) + mpmath.mpf(10) ** -323, pair


def test_moments_in_closed_form_are_rounded_up() -> None:
    rng = np.random.default_rng(SEED)
    with mpmath.workdps(60):
        for place in range(times(300)):
            tilt = float(10.0 ** rng.uniform(-6.0, 6.0))
            p = float(
                [rng.uniform(), 10.0 ** -rng.uniform(0.0, 300.0), 1.0 - 10.0 ** -rng.uniform(0.0, 15.0)][place % 3]
            )
            scale = float(10.0 ** rng.uniform(-3.0, 4.0))
            t, x = mpmath.mpf(tilt), 1 / mpmath.mpf(scale)
            exact = mpmath.log(((1 + t) * mpmath.exp(t * x) + t * mpmath.exp(-(1 + t) * x)) / (1 + 2 * t))
            found = mech.Laplace(scale).log_moment_above(tilt)
            assert found is not None
            assert exact <= found <= exact * (1 + 1e-12) + 1e-11 * (1 + t)
            found, one = mech.RandomizedResponse(p).log_moment_above(tilt), mpmath.mpf(p)
            if found is not None:
                exact = mpmath.log(one ** (1 + t) * (1 - one) ** -t + (1 - one) ** (1 + t) * one**-t)
                assert exact <= found <= exact * (1 + 1e-12) + 1e-11 * (1 + t)


def test_totals_next_to_1_are_taken_as_they_are() -> None:
    """With 1 + x in the place of 1, δ(ε) of the largest loss alone is 1 + x - e^(ε - l) (1 + x)."""
    more = mech.Histogram((1.0 + 9e-10, 0.0), (0.5, 0.5))
    known = Fallback(question({more: 1}, 1), 1, Direction.A_TO_B)
    assert math.exp(known.epsilon_above(0.5, 0.1)) >= 2.0 * (0.5 + 9e-10) * (1.0 - 1e-15)
    # Of 2^26 rounds with 1 - x in the place of 1 the event that some loss is large has (1-x)^r - (1-x-p)^r.
    less, rounds = mech.Histogram((1e-7, 1.0 - 1e-7 - 9e-10), (0.0, 1.0)), 2**26
    known = Fallback(question({less: 1}, rounds), rounds, Direction.A_TO_B)
    with mpmath.workdps(40):
        masses = [mpmath.mpf(each.numerator) / each.denominator for each, _ in less.exact_outcomes or ()]
        exact = (masses[0] + masses[1]) ** rounds - masses[1] ** rounds
        assert mpmath.exp(mpmath.mpf(float(known.log_delta_below(np.zeros(1))[0]))) <= exact


def test_upper_bounds_of_an_enclosure_come_from_the_pair_above_it() -> None:
    (pair,) = enclosed_counts({mech.RandomAllocation(2.0, 5): 1}, Fineness(2.0, 1e-12, 1e-9))
    assert isinstance(pair, mech.Enclosure)
    for direction in Direction:
        found, above, below = (
            Fallback(question({each: 1}, 3), 3, direction)._moment(2.0).log_moment
            for each in (pair, pair.above, pair.dominated)
        )
        assert below + 1e-3 < above == found


def test_losses_of_gaussian_noise_have_no_bound() -> None:
    for pair in (mech.Gaussian(2.0), mech.DiscreteGaussian(2.0), mech.RandomAllocation(1.0, 5), mech.Poisson(9.0)):
        assert pair.loss_bound(Direction.A_TO_B) == math.inf
    for pair in (mech.SubsampledGaussian(1.0, 0.1), mech.GaussianMixture(1.0, (0.0, 1.0), (0.5, 0.5))):
        assert pair.loss_bound(Direction.A_TO_B) == math.inf > (pair.loss_bound(Direction.B_TO_A) or 0.0) > 0.0
    assert mech.Gaussian(2.0, truncate=(-9.0, 9.0)).loss_bound(Direction.A_TO_B) is None
    lower, upper = pure_bounds({mech.SubsampledGaussian(1.0, 0.1): 3}, 7, tuple(Direction), 1e9)
    assert (lower, upper) == (1e9, math.inf)
    lower, upper = pure_bounds({mech.SubsampledGaussian(1.0, 0.1): 3}, 7, (Direction.B_TO_A,), 1e9)
    assert lower <= -21.0 * math.log(0.9) <= upper <= lower * (1.0 + 1e-12)


@pytest.mark.parametrize("pair", SAMPLED, ids=repr)
def test_noise_on_every_record_dominates_noise_on_a_sample(pair: ElementaryPair) -> None:
    """By masses of one round, at ε of either sign: H is that of both less than a part in 10^9 apart."""
    plain = pair.without_sampling
    assert plain is not None
    epsilon = np.linspace(-6.0, 6.0, 49)
    for direction in Direction:
        found = [_hockey_stick(each, epsilon, direction) for each in (pair, plain)]
        assert np.all(found[0] <= found[1] + 1e-9)


@pytest.mark.slow
def test_no_more_is_revealed_than_that_a_record_was_used() -> None:
    counts: dict[ElementaryPair, int] = {mech.SubsampledGaussian(1e-9, 0.01): 1, mech.SubsampledLaplace(1e-9, 0.02): 2}
    for direction in Direction:
        found = Fallback(question(counts, 3), 3, direction).log_delta_above(np.array([0.0, 1.0]))
        used = math.log1p(-(0.99**3) * 0.98**6)
        assert np.all(used - 1e-12 <= found[0])
        assert np.all(found <= used + 1e-12)
    # The logarithm is rounded up, however small the rate.
    for rate in (4.654e-321, 5e-324, 1e-310, 3e-300, 1e-150, 1e-40, 1e-8, 0.3):
        for rounds in (1, 3):
            bound = Fallback(question({mech.SubsampledGaussian(1e-3, rate): 1}, rounds), rounds, Direction.A_TO_B)
            found = float(bound.log_delta_above(np.array([0.0]))[0])
            with mpmath.workdps(400):
                exact = mpmath.log(1 - (1 - mpmath.mpf(rate)) ** rounds)
                assert exact <= found <= exact + 1e-9
    for pair in SAMPLED:
        assert pair.participation <= 1.0
        epsilon = np.array([0.0, 0.5])
        for direction in Direction:
            assert np.all(_hockey_stick(pair, epsilon, direction) <= pair.participation + 1e-9)


def _hockey_stick(pair: ElementaryPair, epsilon: np.ndarray, direction: Direction) -> np.ndarray:
    """About H at some ε, from the tails."""
    masses = pair.directed_loss_masses(epsilon, direction)
    a, b = (np.cumsum(0.5 * (bins.lower + bins.upper)[::-1])[::-1][1:] for bins in (masses.bins_a, masses.bins_b))
    atoms_a, atoms_b = (0.5 * (atoms.lower + atoms.upper) for atoms in (masses.atoms_a, masses.atoms_b))
    above = masses.atom_loss > epsilon[:, None]
    return (a + above @ atoms_a) - np.exp(epsilon) * (b + above @ atoms_b)  # type: ignore[no-any-return]


@pytest.mark.slow
def test_without_sampling_only_gaussian_noise_is_left() -> None:
    counts: dict[ElementaryPair, int] = {mech.SubsampledGaussian(0.4, 0.3): 2, mech.Gaussian(1.0): 1}
    known = Fallback(question(counts, 5), 5, Direction.A_TO_B)
    epsilon = np.array([20.0, 60.0])
    plain = gaussian_bounds(math.sqrt(2.0 / 0.16 + 1.0), np.array([5]), epsilon)[1][0]
    assert np.all(known.log_delta_above(epsilon) <= plain)
    assert known.epsilon_above(1e-9, 100.0) <= 200.0


def test_rare_large_losses_are_some_of_many() -> None:
    """Of r rounds δ is at least that of one large loss, whatever the others are."""
    pair, rounds = mech.SubsampledGaussian(1.0, 1e-6), 1000
    known = Fallback(question({pair: 1}, rounds, 2.0), rounds, Direction.A_TO_B)
    # One in a thousand of all rounds has the record, and a loss that is large by itself in few of them.
    assert 5e-6 < math.exp(known.log_delta_below(np.array([0.0]))[0]) < 1e-3
    assert known.epsilon_below(1e-12) > 1e-4
