"""Rare losses far above all others, and infinite ones, against the exact truth of both parts of δ."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

import mpmath
import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.mechanisms import Gaussian, Histogram, NoisyCount
from pbdist.pld.choice import Limits
from pbdist.pld.engine import tight_bounds
from pbdist.pld.ladder import powers
from pbdist.pld.leaf import Lattice, leaf_state
from pbdist.pld.state import lower_deltas, upper_deltas
from pbdist.types import Direction
from tests.effort import times
from tests.oracles.truth import ProductTruth

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize(
    ("seed", "tolerance"), [*((seed, 1e-2) for seed in range(times(6))), *((seed, 1e-5) for seed in range(3, times(6)))]
)
def test_tables_meet_the_tolerance_and_hold(seed: int, tolerance: float) -> None:
    outcomes, total = drawn(seed)
    epsilon = np.array([0.0, 2e-3, 0.05, 0.4, 0.9])
    found = tight_bounds({pair_of(outcomes): 1}, np.array(ROUNDS), epsilon, Request(tolerance=tolerance, strict=False))
    for row, r in enumerate(ROUNDS):
        truth = ProductTruth([(outcomes, r)], [(total, total)])
        for axis, direction in enumerate(Direction):
            for column, eps in enumerate(epsilon.tolist()):
                low, high = truth.at(eps, direction)
                lower, upper = found.log_lower[axis, row, column], found.log_upper[axis, row, column]
                assert log_fraction(low) <= upper + 1e-12
                assert lower <= log_fraction(high) + 1e-12
    # A few irregular losses may need a finer lattice than there is.
    some = found.log_upper > math.log(1e-130)
    gap = found.log_upper[some] - np.maximum(found.log_lower[some], -1e9)
    assert np.count_nonzero(gap > math.log1p(tolerance)) <= (3 if tolerance > 1e-3 else 8)


def test_where_finite_losses_do_not_count() -> None:
    """Beyond all finite losses, or so far out that the mass at infinity outweighs them, that alone is δ."""
    pair = NoisyCount(Gaussian(707.0), 8000.0, 2)
    found = tight_bounds(
        {pair: 1}, np.array([1, 2, 8]), np.array([0.3, 0.7, 1.3]), Request(tolerance=1e-3, joint_directions=True)
    )
    assert found.within is not None
    assert np.all(found.within)


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
    found = tight_bounds({pair: 1}, np.array([1, 2, 64, 1024]), epsilon, Request(tolerance=1e-3, strict=False))
    unmet = ~(found.log_upper - found.log_lower <= math.log1p(1e-3)) & (found.log_upper > math.log(1e-130))
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


def test_what_may_be_infinite_is_told_from_above() -> None:
    """Counts beyond 38 deviations have no known loss: no bound tells a δ below their mass."""
    pair = NoisyCount(Gaussian(707.0), 8000.0, 2, "shift-inside")
    found = tight_bounds(
        {pair: 1},
        np.array([1, 16]),
        np.array([0.5, 1.0, 1.3]),
        Request(tolerance=1e-3, joint_directions=True, floor=1e-40),
    )
    assert found.within is not None
    assert np.all(found.within)
    assert np.all(found.log_upper[:, 0] <= math.log(1e-40))


@pytest.mark.parametrize("epsilon", [[5e-324], [1e-310, 1e-3], [1e-300, 1.0], [0.0, 1e9]])
@pytest.mark.parametrize("rounds", [[1], [1, 4096], [2**40]])
def test_smallest_and_largest_epsilon(epsilon: list[float], rounds: list[int]) -> None:
    outcomes, total = drawn(3)
    found = tight_bounds(
        {pair_of(outcomes): 1}, np.array(rounds), np.array(epsilon), Request(tolerance=1e-3, strict=False, floor=1e-40)
    )
    assert not np.isnan(found.log_lower).any()
    assert not np.isnan(found.log_upper).any()
    assert np.all(found.log_lower <= found.log_upper)
    if 1 in rounds:
        truth = ProductTruth([(outcomes, 1)], [(total, total)])
        for axis, direction in enumerate(Direction):
            for column, eps in enumerate(epsilon):
                low, high = truth.at(eps, direction) if eps < 1e5 else (Fraction(0), Fraction(1))
                assert log_fraction(low) <= found.log_upper[axis, 0, column] + 1e-12
                assert found.log_lower[axis, 0, column] <= log_fraction(high) + 1e-12


@pytest.mark.parametrize("seed", range(times(4)))
@pytest.mark.parametrize("place", [1e-9, 1e-4, 0.3, 5.0, 60.0])
def test_any_place_to_cut_is_sound(seed: int, place: float) -> None:
    """A core that ends anywhere: also where no loss is near, or none far."""
    outcomes, total = drawn(seed)
    pair, epsilon = pair_of(outcomes), np.array([0.0, 0.01, 0.5, 3.0])
    spacing, coarse = 1e-4 if place < 1.0 else 0.03, 64
    ends = coarse * min(math.ceil(place / (coarse * spacing)), 3000)
    for high in (ends, 4 * ends):
        lattice = Lattice(spacing, coarse, (-ends, ends), -high, high)
        leaf = leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, tuple(Direction))
        limits = Limits(1e-60, 0.1, 0.2, 1e-12, 100.0, (spacing, 4.0 * spacing), 512)
        for r, state in powers(leaf, ROUNDS, limits):
            truth = ProductTruth([(outcomes, r)], [(total, total)])
            for direction in Direction:
                lower, upper = (read(state, epsilon, direction) for read in (lower_deltas, upper_deltas))
                for column, eps in enumerate(epsilon.tolist()):
                    low, high_value = truth.at(eps, direction)
                    assert Fraction(float(lower[column])) <= low
                    assert high_value <= Fraction(float(upper[column]))
