"""Rare losses far above all others, and infinite ones, against the exact truth of both parts of δ."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise

import mpmath
import numpy as np
import pytest

from pbdist.buckets.tight import table
from pbdist.buckets.tight.far_losses import FarLosses
from pbdist.buckets.tight.far_sums import far_losses
from pbdist.buckets.tight.rare import NearOutcomes, first_far_loss
from pbdist.buckets.tight.table import TightBounds, tight_bounds
from pbdist.mechanisms import (
    ApproximateDP,
    ElementaryPair,
    Gaussian,
    Histogram,
    Laplace,
    LossMasses,
    MassBounds,
    NoisyCount,
    RandomizedResponse,
    ScaledLossMasses,
    SubsampledGaussian,
)
from pbdist.pld.profile import loss_profile
from pbdist.types import Direction
from tests.truth import ProductTruth

ROUNDS = (1, 2, 9)
#: Of the masses of noise.
DIGITS = 60
Outcomes = Sequence[tuple[int, int]]
Masses = list[tuple[mpmath.mpf, mpmath.mpf]]


def log_fraction(value: Fraction) -> float:
    if value <= 0:
        return -math.inf
    with mpmath.workdps(30):
        return float(mpmath.log(value.numerator) - mpmath.log(value.denominator))


def drawn(seed: int) -> tuple[Outcomes, int]:
    """Two or three likely outcomes of small losses, rare ones of large losses, sometimes some that B lacks."""
    draw = random.Random(f"rare-{seed}")  # noqa: S311
    scale = 1 << draw.randint(60, 120)
    size = 10.0 ** draw.uniform(-4.0, -1.5)
    outcomes = []
    for _ in range(draw.randint(1, 2)):
        a = int(scale * draw.uniform(0.2, 1.0))
        moved = int(a * draw.uniform(-size, size))
        outcomes += [(a, a + moved), (a + moved, a)]
    for _ in range(draw.randint(1, 2)):
        a = draw.randint(5, 1 << draw.randint(3, 30))
        outcomes.append((a, max(1, int(a * math.exp(-draw.uniform(0.5, 6.0))))))
    if draw.random() < 0.5:
        outcomes.append((draw.randint(1, 1 << 20), 0))
    # Both of one sum, by an outcome of a very small loss that B likes.
    missing = sum(a - b for a, b in outcomes)
    outcomes.append((scale, scale + missing))
    assert all(min(pair) >= 0 for pair in outcomes)
    return outcomes, sum(a for a, _ in outcomes)


def pair_of(outcomes: Outcomes) -> Histogram:
    return Histogram(tuple(a for a, _ in outcomes), tuple(b for _, b in outcomes))


def sums_of(pair: ElementaryPair, epsilon: np.ndarray, direction: Direction) -> tuple[FarLosses, float]:
    profile = loss_profile(pair, float(epsilon.max()))
    profile = profile if direction is Direction.A_TO_B else profile.swapped()
    far = first_far_loss(profile)
    return far_losses([(pair, 1, profile, far)], direction, np.array(ROUNDS), epsilon), far


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("direction", Direction)
def test_both_parts_of_delta_are_bounded(seed: int, direction: Direction) -> None:
    """Over the outcomes with a far factor, and over those that have neither a far nor an infinite one."""
    outcomes, total = drawn(seed)
    epsilon = np.array([0.0, 1e-3, 0.03, 0.3, 0.9, 2.0, 5.0])
    sums, far = sums_of(pair_of(outcomes), epsilon, direction)
    sign = 1 if direction is Direction.A_TO_B else -1

    def loss(pair: tuple[int, int]) -> float:
        a, b = pair[::sign]
        return math.inf if b == 0 else math.log(a) - math.log(b) if a else -math.inf

    near = [pair for pair in outcomes if loss(pair) <= far]
    not_far = [pair for pair in outcomes if not far < loss(pair) < math.inf]
    rounds = np.array(ROUNDS)
    far_upper, far_lower = sums.log_far_upper(rounds, epsilon), sums.log_far_lower(rounds, epsilon)
    near_upper = sums.log_near_upper(rounds, epsilon)
    both = sums.log_far_lower(rounds, epsilon, infinite=True)
    for row, r in enumerate(ROUNDS):
        every, without, finite = (ProductTruth([(x, r)], [(total, total)]) for x in (outcomes, not_far, near))
        for column, eps in enumerate(epsilon.tolist()):
            low, high = every.at(eps, direction)
            low_without, high_without = without.at(eps, direction)
            # A part is known but for what e^ε is rounded by.
            truth, more = high - low_without, low - high_without
            assert log_fraction(min(truth, more)) <= far_upper[row, column]
            assert far_lower[row, column] <= log_fraction(max(truth, more)) + 1e-12
            assert log_fraction(finite.at(eps, direction)[0]) <= near_upper[row, column]
            assert both[row, column] <= log_fraction(high)
            assert sums.log_infinite_lower(rounds)[row] <= log_fraction(high)


def test_far_losses_are_told_apart_closely() -> None:
    """The far part is known to many digits where ε is well below the far losses."""
    outcomes = [(10**30, 10**30 + 10**27), (10**30 + 10**27, 10**30 + 59), (60, 1)]
    epsilon = np.array([0.0, 0.01, 0.1, 1.0, 2.0])
    sums, far = sums_of(pair_of(outcomes), epsilon, Direction.A_TO_B)
    assert 1e-3 < far < math.log(60)
    rounds = np.array(ROUNDS)
    gap = sums.log_far_upper(rounds, epsilon) - sums.log_far_lower(rounds, epsilon)
    assert np.all(gap < 1e-9)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_tables_meet_the_tolerance_and_hold(seed: int, tolerance: float) -> None:
    outcomes, total = drawn(seed)
    epsilon = np.array([0.0, 2e-3, 0.05, 0.4, 0.9])
    found = tight_bounds({pair_of(outcomes): 1}, np.array(ROUNDS), epsilon, tolerance=tolerance, strict=False)
    for row, r in enumerate(ROUNDS):
        truth = ProductTruth([(outcomes, r)], [(total, total)])
        for axis, direction in enumerate(Direction):
            for column, eps in enumerate(epsilon.tolist()):
                low, high = truth.at(eps, direction)
                lower, upper = found.log_lower[axis, row, column], found.log_upper[axis, row, column]
                assert log_fraction(low) <= upper + 1e-12
                assert lower <= log_fraction(high) + 1e-12
    # A few irregular losses may need a finer grid than there is.
    some = found.log_upper > -math.inf
    gap = found.log_upper[some] - np.maximum(found.log_lower[some], -1e9)
    assert np.count_nonzero(gap > math.log1p(tolerance)) <= (3 if tolerance > 1e-3 else 8)


def test_no_pass_where_finite_losses_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond all finite losses, or so far out that the mass at infinity outweighs them, nothing is composed."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a pass")

    monkeypatch.setattr(table, "bounds_of_group", refuse)
    pair = NoisyCount(Gaussian(707.0), 8000.0, 2)
    found = tight_bounds({pair: 1}, np.array([1, 2, 8]), np.array([0.3, 0.7, 1.3]), tolerance=1e-3)
    assert np.all(found.log_upper - found.log_lower < 1e-3)


# -- whole-numbered noise ----------------------------------------------------------------------------------------


def noise_outcomes(scale: float, mean: int, shift: int, reading: str) -> Masses:
    """Counts under Gaussian noise, 45 standard deviations either side: what is beyond is added to the outermost."""
    last = math.ceil(mean + 45.0 * scale)

    def tail(x: int) -> mpmath.mpf:
        return mpmath.erfc(mpmath.mpf(x) / (mpmath.mpf(scale) * mpmath.sqrt(2))) / 2

    with mpmath.workdps(DIGITS):
        # Relatively exact on both sides of the mean, which noise mirrors.
        above = [tail(x) for x in range(max(mean + shift, last - mean) + 1)]
        steps = [x - y for x, y in pairwise(above)]

        def upto(x: int) -> mpmath.mpf:
            return above[mean - x] if x <= mean else 1 - above[x - mean]

        def between(x: int) -> mpmath.mpf:
            return steps[mean - x] if x <= mean else steps[x - mean - 1]

        regular = [between(x) for x in range(1 - shift, last + 1)]
        noise = regular[shift:]
        if reading == "redraw-and-floor":
            kept = above[0] + sum(steps[:mean])
            noise = [x / kept for x in noise]
            return list(zip(noise, [mpmath.mpf(0)] * shift + noise, strict=False))
        if reading == "clamp-and-ceil":
            noise = [upto(0), *noise]
            return list(zip(noise, [mpmath.mpf(0)] * shift + noise, strict=False))
        return list(zip([upto(0), *noise], [upto(-shift), *regular], strict=False))


class TwoRounds:
    """δ of one and of two rounds, a sum over an event: the best one but for rounding."""

    def __init__(self, outcomes: Masses, direction: Direction) -> None:
        sign = 1 if direction is Direction.A_TO_B else -1
        with mpmath.workdps(DIGITS):
            known = [
                (float(mpmath.log(a / b)) if b else math.inf, a, b) for a, b in (row[::sign] for row in outcomes) if a
            ]
            known.sort(key=lambda row: -row[0])
            self.falling = -np.array([row[0] for row in known])
            self.rows = known
            self.sums = [list(accumulate((row[side] for row in known), initial=mpmath.mpf(0))) for side in (1, 2)]

    def log_delta(self, rounds: int, epsilon: float) -> float:
        # The events of two rounds whose losses sum to more than ε.
        others = np.full(1, 0.0) if rounds == 1 else -self.falling
        places = np.searchsorted(self.falling, others - epsilon).tolist()
        ones = [(0.0, mpmath.mpf(1), mpmath.mpf(1))] if rounds == 1 else self.rows
        with mpmath.workdps(DIGITS):
            a, b = (
                mpmath.fsum(row[side] * self.sums[side - 1][place] for row, place in zip(ones, places, strict=True))
                for side in (1, 2)
            )
            value = a - mpmath.exp(mpmath.mpf(epsilon)) * b
            return float(mpmath.log(value)) if value > 0 else -math.inf


@pytest.mark.parametrize("reading", ["clamp-and-ceil", "redraw-and-floor", "shift-inside"])
def test_noisy_counts_meet_the_tolerance(reading: str) -> None:
    """A Gaussian tail next to a rare mass at infinity and rare losses far above the others: one table for all r."""
    epsilon = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
    pair = NoisyCount(Gaussian(130.0), 1500.0, 2, reading)
    found = tight_bounds({pair: 1}, np.array([1, 2, 64, 1024]), epsilon, tolerance=1e-3, strict=False)
    unmet = ~(found.log_upper - found.log_lower <= math.log1p(1e-3)) & (found.log_upper > -600.0)
    assert not unmet.any()
    outcomes = noise_outcomes(130.0, 1500, 2, reading)
    for axis, direction in enumerate(Direction):
        truth = TwoRounds(outcomes, direction)
        for row, rounds in enumerate((1, 2)):
            for column, eps in enumerate(epsilon.tolist()):
                value = truth.log_delta(rounds, eps)
                assert value <= found.log_upper[axis, row, column] + 1e-12
                # What the truth's outermost counts gather is not told from below.
                assert found.log_lower[axis, row, column] <= value + 1e-9


def test_what_may_be_infinite_is_not_looked_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts beyond 38 deviations have no known loss: no pass tells a δ below their mass."""
    composed = []
    original = table.bounds_of_group

    def spy(families, group, width, *arguments, **options):  # type: ignore[no-untyped-def]
        composed.append(len(group.points))
        return original(families, group, width, *arguments, **options)

    monkeypatch.setattr(table, "bounds_of_group", spy)
    pair = NoisyCount(Gaussian(707.0), 8000.0, 2, "shift-inside")
    found: TightBounds = tight_bounds({pair: 1}, np.array([1, 16]), np.array([0.5, 1.0, 1.3]), tolerance=1e-3)
    assert sum(composed) <= 6
    assert np.all(found.log_upper[:, 0] < -600.0)


@pytest.mark.parametrize(
    "pair",
    [
        Gaussian(1.0),
        SubsampledGaussian(1.0, 0.01),
        RandomizedResponse(0.75),
        RandomizedResponse(1.0 - 1e-12),
        ApproximateDP(1.0, 1e-9),
        Laplace(1.0),
        NoisyCount(Laplace(50.0), 600.0, 2, "redraw-and-floor"),
    ],
    ids=str,
)
def test_other_pairs_have_no_far_losses(pair: ElementaryPair) -> None:
    assert first_far_loss(loss_profile(pair, 1.0)) == math.inf


@pytest.mark.parametrize("epsilon", [[5e-324], [1e-310, 1e-3], [1e-300, 1.0], [0.0, 1e9]])
@pytest.mark.parametrize("rounds", [[1], [1, 4096], [2**40]])
def test_smallest_and_largest_epsilon(epsilon: list[float], rounds: list[int]) -> None:
    """Rates of Chernoff's bound stay floats, and so do their products with losses and numbers of rounds."""
    outcomes, _ = drawn(3)
    sums, _ = far_sums_of(pair_of(outcomes), epsilon, rounds)
    rows, losses = np.array(rounds), np.array(epsilon)
    upper = np.logaddexp(sums.log_near_upper(rows, losses), sums.log_far_upper(rows, losses))
    assert not np.isnan(upper).any()
    assert np.all(sums.log_far_lower(rows, losses, infinite=True) <= np.logaddexp(upper, sums.infinite_upper))


def far_sums_of(pair: ElementaryPair, epsilon: list[float], rounds: list[int]) -> tuple[FarLosses, float]:
    profile = loss_profile(pair, max(epsilon) / min(rounds))
    far = first_far_loss(profile)
    return far_losses([(pair, 1, profile, far)], Direction.A_TO_B, np.array(rounds), np.array(epsilon)), far


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("place", [-math.inf, -1e-9, 0.0, 1e-12, 5.0, math.inf])
def test_any_place_to_cut_is_sound(seed: int, place: float) -> None:
    """Also where no loss is near, or none far, or the losses that are cut are negative."""
    outcomes, total = drawn(seed)
    pair, epsilon, rounds = pair_of(outcomes), np.array([0.0, 0.01, 0.5, 3.0]), np.array(ROUNDS)
    profile = loss_profile(pair, 3.0)
    far = place if place > -math.inf else 2.0 * float(profile.loss[0])
    sums = far_losses([(pair, 1, profile, far)], Direction.A_TO_B, rounds, epsilon)
    rest = np.logaddexp(sums.log_infinite_upper(rounds)[:, None], sums.log_near_upper(rounds, epsilon))
    upper = np.logaddexp(sums.log_far_upper(rounds, epsilon), rest) + 1e-14
    lower = np.maximum(sums.log_far_lower(rounds, epsilon), sums.log_far_lower(rounds, epsilon, infinite=True))
    for row, r in enumerate(ROUNDS):
        truth = ProductTruth([(outcomes, r)], [(total, total)])
        for column, eps in enumerate(epsilon.tolist()):
            low, high = truth.at(eps, Direction.A_TO_B)
            assert log_fraction(low) <= upper[row, column]
            assert lower[row, column] <= log_fraction(high) + 1e-14


@dataclass(frozen=True)
class _Faint(ElementaryPair):
    """A pair that shares only one outcome, of mass e^log_mass on either side, and loss 0; and a far one of A's."""

    log_mass: float

    def loss_masses(self, edges: np.ndarray) -> LossMasses:
        return self.scaled_loss_masses(edges).masses

    def scaled_loss_masses(self, edges: np.ndarray, direction: Direction = Direction.A_TO_B) -> ScaledLossMasses:
        assert direction is Direction.A_TO_B
        none, one, cells = MassBounds.zeros(edges.size + 1), np.ones(2), np.zeros(edges.size + 1)
        log_a, log_b = np.full(2, self.log_mass), np.array([self.log_mass, self.log_mass - 4.0])
        atoms, own = MassBounds(one, one), MassBounds(one[:1], one[:1])
        masses = LossMasses(none, none, np.array([0.0, 4.0]), atoms, atoms, own, own, 0.0)
        return ScaledLossMasses(masses, cells, cells, log_a, log_b)


@pytest.mark.parametrize("log_mass", [-660.0, -690.0, -735.0, -744.0, -800.0])
def test_masses_next_to_underflow_are_moved_to_their_sides(log_mass: float) -> None:
    """No lower value is above the exact one: neither by what stands for the smallest mass, nor by lost digits."""
    profile = loss_profile(pair_of([(10, 11), (11, 10)]), 1.0)
    profile = replace(profile, loss=np.array([0.0, 4.0]), lower=np.array([0.0, 4.0]), upper=np.array([0.0, 4.0]))
    sums = far_losses([(_Faint(log_mass), 1, profile, 2.0)], Direction.A_TO_B, np.array([1]), np.array([0.0, 1.0]))
    assert sums.log_b_lower <= log_mass + math.log1p(math.exp(-4.0))
    assert sums.log_b_lower + math.log(-math.expm1(-sums.far_b_lower) or 5e-324) <= log_mass - 4.0 + 1e-9
    assert math.log(-math.expm1(-sums.far_a_lower) or 5e-324) <= max(log_mass + 1e-9, -744.0)
    assert math.log(-math.expm1(-sums.far_a_upper)) >= log_mass


def test_a_rate_next_to_one_is_no_nan() -> None:
    """Where rounds spread so widely that s - 1 is less than floats tell, its factor is 1."""
    outcomes, _ = drawn(1)
    epsilon = np.array([0.0, 0.1, 1.0])
    sums, _ = sums_of(pair_of(outcomes), epsilon, Direction.A_TO_B)
    moment, rate = sums.log_falling[:1], sums.far_falling[:1]
    flat = replace(sums, falling=np.ones(1), log_falling=np.maximum(moment, 0.0), far_falling=rate)
    assert np.all(np.isfinite(flat.log_far_upper(np.array([1, 2]), epsilon)))


def test_nothing_finite_is_near() -> None:
    """The logarithm of an empty sum is not a number for no reason."""
    outcomes, _ = drawn(1)
    epsilon = np.array([0.0, 0.1, 1.0])
    sums, _ = sums_of(pair_of(outcomes), epsilon, Direction.A_TO_B)
    empty = replace(sums, log_rising=np.full_like(sums.log_rising, -np.inf))
    assert np.all(empty.log_near_upper(np.array([1, 2]), epsilon) == -np.inf)


def test_near_outcomes_lack_the_far_atoms_only() -> None:
    pair = NoisyCount(Gaussian(707.0), 8000.0, 2)
    edges = np.array([-1.0, 0.0, 1.0])
    every = pair.scaled_loss_masses(edges, Direction.B_TO_A).masses
    near = NearOutcomes(pair, 2.0, 1e-29).scaled_loss_masses(edges, Direction.B_TO_A).masses
    assert near.atom_loss.size == every.atom_loss.size - 1
    assert np.max(near.atom_loss[near.atom_loss < np.inf]) < 2.0 < np.max(every.atom_loss[every.atom_loss < np.inf])
    assert NearOutcomes(pair, 2.0, 1e-29).outcomes == pair.outcomes
