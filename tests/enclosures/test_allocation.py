"""Enclosures of random allocation: against enumerated outcomes of finite steps, and integrals of Gaussian ones."""

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.enclosures.allocation import dominated_pair, dominated_sum, dominating_pair, dominating_sum
from pbdist.enclosures.gaussian_ratio import GaussianRatio, Split
from pbdist.enclosures.spacings import Plan, chosen_plan
from pbdist.mechanisms import Enclosure, FinitePair, MassBounds
from pbdist.pld import tight_bounds
from pbdist.types import FloatArray
from tests.effort import SEED, times
from tests.oracles.allocation_truth import enumerated_delta, gaussian_delta

pytestmark = pytest.mark.slow


def up(value: Fraction) -> float:
    """The smallest float that is at least a fraction, or the next one."""
    return float(value) if Fraction(float(value)) >= value else math.nextafter(float(value), math.inf)


def down(value: Fraction) -> float:
    return -up(-value)


def floats(masses: list[Fraction], rounding: Callable[[Fraction], float]) -> FloatArray:
    return np.array([rounding(mass) if mass else 0.0 for mass in masses])


class FiniteRatio:
    """Ratios of two finite distributions, split and gathered in exact arithmetic."""

    def __init__(self, a: list[Fraction], b: list[Fraction]) -> None:
        self.a, self.b = a, b

    def split(self, grid: FloatArray) -> Split:
        points = [Fraction(point) for point in grid.tolist()]
        masses, infinite = [Fraction(0)] * len(points), Fraction(0)
        for own, other in zip(self.a, self.b, strict=True):
            if other == 0 or own / other > points[-1]:
                masses[-1] += other
                infinite += own - points[-1] * other
                continue
            above = int(np.searchsorted(grid, float(own / other)))
            above = next(at for at in range(max(above - 1, 1), len(points)) if points[at] >= own / other)
            share = (own / other - points[above - 1]) / (points[above] - points[above - 1])
            masses[above] += share * other
            masses[above - 1] += (1 - share) * other
        return Split(floats(masses, up), up(infinite), 0.0)

    def cells(self, grid: FloatArray) -> tuple[MassBounds, MassBounds]:
        own, other = [Fraction(0)] * grid.size, [Fraction(0)] * grid.size
        for a, b in zip(self.a, self.b, strict=True):
            at = int(np.argmin(np.abs(grid - float(a / b)))) if b else grid.size - 1
            own[at] += a
            other[at] += b
        first, second = (MassBounds(floats(masses, down), floats(masses, up)) for masses in (own, other))
        return first, second


def drawn_distribution(rng: np.random.Generator, size: int) -> list[Fraction]:
    counts = [int(count) for count in rng.integers(0, 10 ** int(rng.integers(1, 6)), size)]
    counts[int(rng.integers(size))] += 1
    return [Fraction(count, sum(counts)) for count in counts]


def drawn_case(rng: np.random.Generator) -> tuple[FiniteRatio, Plan, Fraction]:
    """Two distributions, some outcomes of only one of them; spacings from far too wide to fine; ratios on points."""
    size = int(rng.integers(2, 5))
    a, b = drawn_distribution(rng, size), drawn_distribution(rng, size)
    if rng.random() < 0.2:
        b = list(a)
    steps = int(rng.integers(1, 7))
    plan = chosen_plan(
        rng.uniform(0.1, 2.5),
        steps,
        10.0 ** rng.uniform(0.5, 1.7),
        10.0 ** rng.uniform(-20.0, -1.0),
        10.0 ** rng.uniform(-12.0, 0.0),
    )
    largest = max((own / other for own, other in zip(a, b, strict=True) if other), default=Fraction(1))
    # Also where δ is 0, and next to the largest loss.
    exp_epsilon = [
        Fraction(1),
        Fraction(float(np.exp(rng.exponential(0.7)))),
        max(largest, Fraction(1)),
        max(largest * Fraction(99, 100), Fraction(1)),
    ][int(rng.integers(4))]
    return FiniteRatio(a, b), plan, exp_epsilon


def enclosure_of(ratio: FiniteRatio | GaussianRatio, plan: Plan) -> Enclosure:
    above = dominating_pair(dominating_sum(ratio, plan), plan.unit)
    return Enclosure(dominated_pair(dominated_sum(ratio, plan)), above)


def upper_deltas(pair: FinitePair, exp_epsilon: float) -> tuple[float, float]:
    """δ of both directions from the atoms as they are told, at an ε lower by what their losses may be off."""
    masses = pair.masses
    ratio = np.exp(masses.atom_loss)
    lower = exp_epsilon * (1.0 - 2.0 * masses.loss_error - 1e-15)
    b = masses.atoms_b.upper
    forth = math.fsum(np.maximum(b * (ratio - lower), 0.0)) + masses.only_a.upper[0]
    back = math.fsum(np.maximum(b * (1.0 - lower * ratio), 0.0)) + masses.only_b.upper[0]
    return forth * (1.0 + 1e-12), back * (1.0 + 1e-12)


def lower_deltas(pair: FinitePair, exp_epsilon: float) -> tuple[float, float]:
    masses = pair.masses
    rows = ((masses.atoms_a, masses.atoms_b), (masses.atoms_b, masses.atoms_a))
    forth, back = (
        math.fsum(np.maximum(own.lower - exp_epsilon * (1.0 + 1e-15) * other.upper, 0.0)) * (1.0 - 1e-15)
        for own, other in rows
    )
    return forth, back


@pytest.mark.slow(reason="exact masses of finite steps")
def test_finite_steps_are_enclosed() -> None:
    """A thousand cases against every outcome, in exact arithmetic; the bounds of most of them are close."""
    rng = np.random.default_rng(SEED)
    gaps = []
    for _ in range(times(800)):
        ratio, plan, exp_epsilon = drawn_case(rng)
        truth = enumerated_delta(ratio.a, ratio.b, plan.steps, exp_epsilon)
        enclosure = enclosure_of(ratio, plan)
        upper = upper_deltas(enclosure.above, float(exp_epsilon))
        lower = lower_deltas(enclosure.dominated, float(exp_epsilon))
        for below, true, above in zip(lower, truth, upper, strict=True):
            assert Fraction(below) <= true * (1 + Fraction(1, 10**12)) + Fraction(1, 10**40)
            assert true <= Fraction(above)
            gaps.append(above - below)
    assert np.median(gaps) < 0.05
    assert np.mean(np.array(gaps) < 1e-3) > 0.1


def test_the_engine_bounds_finite_steps_from_both_sides() -> None:
    rng = np.random.default_rng(SEED + 1)
    for _ in range(times(30)):
        ratio, plan, exp_epsilon = drawn_case(rng)
        epsilon = math.log(float(exp_epsilon))
        truth = enumerated_delta(ratio.a, ratio.b, plan.steps, Fraction(math.exp(epsilon)))
        found = tight_bounds(
            {enclosure_of(ratio, plan): 1},
            np.array([1]),
            np.array([epsilon]),
            Request(tolerance=1e-3, strict=False, floor=1e-9),
        )
        for true, low, high in zip(truth, found.log_lower.ravel(), found.log_upper.ravel(), strict=True):
            if true == 0:
                assert low == -math.inf
                continue
            exact = mpmath.log(mpmath.mpf(true.numerator) / true.denominator)
            # e^ε is a float of its own.
            assert low <= exact + 1e-9
            assert exact - 1e-9 <= high


@pytest.mark.parametrize(
    ("scale", "steps", "epsilon"),
    [
        *((scale, 2, epsilon) for scale in (0.4, 1.0, 3.0) for epsilon in (0.0, 0.3, 1.5)),
        (1.0, 2, 4.0),
        (0.25, 2, 6.0),
        (20.0, 2, 0.05),
        (1.0, 1, 2.0),
    ],
)
def test_gaussian_steps_are_enclosed(scale: float, steps: int, epsilon: float) -> None:
    with mpmath.workdps(25):
        truth = gaussian_delta(scale, steps, epsilon)
    for resolution, matters in ((20.0, 1e-10), (150.0, 1e-10), (150.0, 0.3)):
        plan = chosen_plan(1.0 / scale, steps, resolution, 1e-6 * matters, matters)
        enclosure = enclosure_of(GaussianRatio(scale, 1.0), plan)
        upper, lower = (
            upper_deltas(enclosure.above, math.exp(epsilon)),
            lower_deltas(enclosure.dominated, math.exp(epsilon)),
        )
        for below, true, above in zip(lower, truth, upper, strict=True):
            assert below <= true <= above
            if true > 100.0 * matters:
                assert above <= below * (1.0 + 100.0 / resolution**2)
