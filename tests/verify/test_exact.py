"""Exact integer bounds against exact values and the exact truth of finite pairs, and their rounding."""

import json
import math
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.errors import InvalidInputError, MissingDependencyError, PbdistError
from pbdist.mechanisms import (
    ApproximateDP,
    Gaussian,
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
)
from pbdist.table import bounds_table
from pbdist.types import Direction
from pbdist.verify import exact_power
from pbdist.verify.exact import ExactBounds, _lower, _upper, enclosed_log, exact_bounds
from pbdist.verify.exact_leaf import EventGroups, _down, _up, dominating_leaf, event_groups, subset_leaf
from pbdist.verify.exact_power import DominatingMasses, FixedPoint, SubsetMasses
from tests import strategies
from tests.oracles import exact_truth
from tests.oracles.truth import enclosed_truth, histogram

pytestmark = pytest.mark.slow

VALUES: dict[str, dict[str, Any]] = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "exact_values.json").read_text(encoding="utf-8"))["cases"]
}


def bounds_of(
    pair: Pair, compositions: int, epsilon: list[float], loss_width: float, direction: Direction, bits: int = 256
) -> ExactBounds:
    """The exact bounds of one pair."""
    return exact_bounds(
        [(pair, 1)],
        compositions=compositions,
        epsilon=epsilon,
        direction=direction,
        loss_width=loss_width,
        bits=bits,
    )


def relative_errors(bounds: ExactBounds, truths: list[Fraction], allowance: Fraction = Fraction(0)) -> float:
    """Assert that the truths are bracketed, and return the largest relative distance of a bound from its truth."""
    for epsilon, lower, truth, upper in zip(bounds.epsilon, bounds.lower, truths, bounds.upper, strict=True):
        assert lower - allowance <= truth <= upper + allowance, (epsilon, float(lower), float(truth), float(upper))
    return max(
        float(max(truth - lower, upper - truth) / truth)
        for lower, truth, upper in zip(bounds.lower, truths, bounds.upper, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "pair", "loss_width", "tolerance"),
    [
        ("gaussian", Gaussian(scale=200 * math.sqrt(2)), 2e-4, 0.012),
        pytest.param(*("gaussian_many", Gaussian(scale=200 * math.sqrt(2)), 1e-3, 0.16), marks=pytest.mark.nightly),
        ("randomized_response", RandomizedResponse(p=0.51), math.log(0.51 / 0.49), 1e-11),
        ("randomized_response", RandomizedResponse(p=0.51), math.log(0.51 / 0.49) / 3, 1e-11),
        ("randomized_response", RandomizedResponse(p=0.51), 1e-3, 1e-3),
        ("dpsgd_remove", SubsampledGaussian(scale=4, rate=0.01), 1e-3, 0.17),
        ("dpsgd_add", SubsampledGaussian(scale=4, rate=0.01), 1e-3, 0.17),
    ],
)
def test_exact_values(name: str, pair: Pair, loss_width: float, tolerance: float) -> None:
    case = VALUES[name]
    directions = list(Direction) if case["direction"] == "both" else [Direction(case["direction"])]
    for direction in directions:
        bounds = bounds_of(
            pair, case["compositions"], [float(epsilon) for epsilon in case["delta"]], loss_width, direction
        )
        assert relative_errors(bounds, [Fraction(delta) for delta in case["delta"].values()]) <= tolerance


def test_laplace_in_unit_bins() -> None:
    """Bins of one loss merged: losses 1/200, 0 and -1/200, a lattice; the masses are rounded to 62 bits."""
    case = VALUES["laplace_unit_bins"]
    with mpmath.workdps(40):
        tail = mpmath.exp(-mpmath.mpf(1) / case["pair"]["scale"]) / 2
        masses = [mpmath.mpf(1) / 2, mpmath.mpf(1) / 2 - tail, tail]
        counts = [int(mpmath.nint(mass * 2**62)) for mass in masses]
    bounds = bounds_of(
        Histogram(tuple(counts), tuple(counts[::-1])),
        case["compositions"],
        [float(epsilon) for epsilon in case["delta"]],
        1 / 200,
        Direction.A_TO_B,
    )
    truths = [Fraction(delta) for delta in case["delta"].values()]
    assert relative_errors(bounds, truths, allowance=Fraction(1, 10**15)) <= 1e-9


def rational(value: mpmath.mpf) -> Fraction:
    return Fraction(int(value.man)) * Fraction(2) ** int(value.exp)


def gaussian_delta(scale: float, rounds: int, epsilon: float, digits: int = 400) -> Fraction:
    """δ of N(0, σ²) against N(1, σ²), r-fold: Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) with μ = √r / σ (Balle & Wang 2018)."""
    with mpmath.workdps(digits):
        mu, loss = mpmath.sqrt(rounds) / mpmath.mpf(scale), mpmath.mpf(epsilon)
        near, far = (mpmath.erfc((loss / mu + sign * mu / 2) / mpmath.sqrt(2)) / 2 for sign in (-1, 1))
        return rational(near - mpmath.exp(loss) * far)


@pytest.mark.slow(reason="exact masses of many bits")
def test_far_tail_needs_and_gets_more_bits() -> None:
    truth = gaussian_delta(20, 64, 11)
    assert 1e-180 < float(truth) < 1e-150

    def bounds(bits: int, loss_width: float) -> ExactBounds:
        return bounds_of(Gaussian(scale=20), 64, [11.0], loss_width, Direction.A_TO_B, bits=bits)

    few, coarse, fine = bounds(256, 2e-3), bounds(768, 2e-3), bounds(768, 1e-3)
    assert relative_errors(few, [truth]) > 1.0
    wide, narrow = relative_errors(coarse, [truth]), relative_errors(fine, [truth])
    assert narrow < 0.08
    # The bracket's width falls with h².
    assert 3.5 < wide / narrow < 4.5


def test_tail_below_every_float() -> None:
    """Masses of one round below 1e-308, by their logarithms."""
    truth = gaussian_delta(1, 2, 100, digits=2500)
    bounds = bounds_of(Gaussian(scale=1), 2, [100.0], 0.04, Direction.B_TO_A, bits=3800)
    assert -2500 < enclosed_log(truth)[0] < -1000 * math.log(10)
    assert relative_errors(bounds, [truth]) < 0.6


def test_atoms_below_every_float() -> None:
    """One step below the largest loss only the likeliest outcome counts: a (1 - e^(ε - largest loss))."""
    pair = ApproximateDP(epsilon=0.125, delta=0.0)
    epsilon = 4095 * 0.125
    with mpmath.workdps(60):
        likely = 1 / (1 + mpmath.exp(-mpmath.mpf(0.125)))
        log_delta = 4096 * mpmath.log(likely) + mpmath.log1p(-mpmath.exp(mpmath.mpf(epsilon - 4096 * 0.125)))
    bounds = bounds_of(pair, 4096, [epsilon], 0.125, Direction.B_TO_A, bits=4608)
    assert log_delta < -1000 * math.log(10)
    # The masses are known to 4e-15 each, 4096 of them multiplied.
    assert log_delta - 1e-9 <= bounds.log_lower[0] <= log_delta <= bounds.log_upper[0] <= log_delta + 1e-9


@strategies.examples(100)
@given(data=st.data())
def test_losses_on_the_grid_lose_nothing(data: st.DataObject) -> None:
    factor = data.draw(strategies.factors().filter(lambda value: value > Fraction(101, 100)))
    pair = data.draw(strategies.pairs_on_edges(factor, 8))
    rounds = data.draw(st.integers(1, min(16, strategies.most_compositions(len(pair.p_counts), 200))))
    direction = data.draw(st.sampled_from(Direction))
    loss_width = math.log(factor)
    epsilon = data.draw(strategies.epsilons(loss_width, 8))
    bounds = bounds_of(histogram(pair), rounds, epsilon, loss_width, direction)
    table = exact_truth.composed_outcomes([(pair.table, rounds)])
    for value, lower, upper in zip(epsilon, bounds.lower, bounds.upper, strict=True):
        smallest, largest = enclosed_truth(table, value, direction)
        assert 0 <= lower <= largest <= upper + Fraction(1, 10**50)
        # e^ε b is rounded with b, so that its error grows with e^ε until it outweighs a.
        assert float(upper - smallest) <= 1e-11
        assert float(largest - lower) <= 1e-11


def test_products_and_repeated_pairs() -> None:
    first, second = Histogram((0.5, 0.25, 0.25, 0.0), (0.25, 0.25, 0.375, 0.125)), RandomizedResponse(0.75)
    table = exact_truth.composed_outcomes(
        [
            (exact_truth.outcomes(*([Fraction(mass) for mass in masses] for masses in (first.p, first.q))), 6),
            (exact_truth.outcomes([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]), 8),
        ]
    )
    for direction in Direction:
        bounds = exact_bounds(
            [(Product(first, second), 3), (second, 1)],
            compositions=2,
            epsilon=[0.0, 1.0, 3.0],
            direction=direction,
            loss_width=1e-2,
        )
        truths = [enclosed_truth(table, epsilon, direction)[0] for epsilon in bounds.epsilon]
        assert relative_errors(bounds, truths, Fraction(1, 10**50)) < 2e-3


@pytest.mark.parametrize(
    ("pair", "rounds", "loss_width"),
    [
        (Gaussian(scale=10, truncate=(-30, 40)), 16, 2e-3),
        (Laplace(scale=20), 64, 2e-3),
        (Laplace(scale=20, truncate=(-100, 100)), 64, 2e-3),
        (NoisyCount(Laplace(20), mean=100, shift=2), 16, 2e-3),
        (NoisyCount(Gaussian(20), mean=70, shift=2, reading="redraw-and-floor"), 16, 2e-3),
        pytest.param(
            Product(ApproximateDP(0.1, 1e-6), SubsampledGaussian(scale=1, rate=0.1)),
            16,
            2e-3,
            marks=pytest.mark.slow(reason="exact masses of a product"),
        ),
    ],
)
def test_brackets_meet_those_of_the_bucket_lists(pair: Pair, rounds: int, loss_width: float) -> None:
    epsilon = [0.0, 0.5, 1.0, 2.0]
    table = bounds_table([(pair, 1)], compositions=rounds, epsilon=epsilon, buckets=10_000)
    for axis, direction in enumerate(Direction):
        bounds = bounds_of(pair, rounds, epsilon, loss_width, direction)
        assert all(
            lower <= upper <= 1.02 * lower + Fraction(1, 10**9)
            for lower, upper in zip(bounds.lower, bounds.upper, strict=True)
        )
        assert all(bounds.meets(table.delta_lower[axis, 0], table.delta_upper[axis, 0]))
        assert all(bounds.meets(table.log_delta_lower[axis, 0], table.log_delta_upper[axis, 0], log=True))
        # Bounds on the wrong side are found out.
        raised = [float(upper) * 1.001 + 1e-300 for upper in bounds.upper]
        assert not any(bounds.meets(raised, [1.1] * 4))
        lowered = [float(lower) * 0.999 for lower in bounds.lower]
        assert not any(bounds.meets([0.0] * 4, lowered))


def test_many_rounds_and_no_privacy_at_all() -> None:
    revealing = Histogram((1.0, 0.0), (0.0, 1.0))
    certain = bounds_of(revealing, 2**18, [0.0, 1.0, 700.0], 0.1, Direction.A_TO_B)
    # A computed mass of 1 is known to 1e-15.
    assert relative_errors(certain, [Fraction(1)] * 3) < 1e-9
    rare = bounds_of(ApproximateDP(0.0, 1e-9), 2**18, [0.0, 700.0], 0.1, Direction.A_TO_B)
    with mpmath.workdps(60):
        truth = rational(-mpmath.expm1(2**18 * mpmath.log1p(-mpmath.mpf(1e-9))))
    assert relative_errors(rare, [truth, truth]) < 1e-9


# -- rounding --------------------------------------------------------------------------------------------------


def test_each_composition_rounds_in_its_direction() -> None:
    generator = random.Random(1)  # noqa: S311  # draws examples
    fixed = FixedPoint(bits=16, max_bins=1000)
    unit = 1 << fixed.bits

    def vector(length: int) -> list[int]:
        return [
            generator.choice([0, 1, generator.randrange(40), generator.randrange(unit // length)])
            for _ in range(length)
        ]

    def exact_product(x: list[int], y: list[int]) -> list[Fraction]:
        result = [Fraction(0)] * (len(x) + len(y) - 1)
        for i, j in product(range(len(x)), range(len(y))):
            result[i + j] += Fraction(x[i] * y[j], unit)
        return result

    for _ in range(300):
        sizes = generator.randrange(1, 12), generator.randrange(1, 12)
        x, y = (vector(size) for size in sizes)
        infinities = [generator.randrange(1000) for _ in range(2)]
        masses = exact_product(x, y)
        infinity = Fraction(infinities[0] * (sum(y) + infinities[1]) + sum(x) * infinities[1], unit)

        dominating = exact_power.compose_dominating(
            *(DominatingMasses(-3, flint.fmpz_poly(v), i) for v, i in zip((x, y), infinities, strict=True)), fixed
        )
        rounded = [int(mass) for mass in dominating.a.coeffs()]
        for index in range(-6, len(masses) - 6):
            above = sum(rounded[max(index - dominating.first, 0) :]) + dominating.infinity
            assert above >= sum(masses[index + 6 :], infinity)
        assert sum(rounded) + dominating.infinity <= sum(masses, infinity) + len(masses) + 1

        p, q = (vector(size) for size in sizes)
        subset = exact_power.compose_subset(
            *(
                SubsetMasses(-3, flint.fmpz_poly(a), flint.fmpz_poly(b), i, i)
                for a, b, i in zip((x, y), (p, q), infinities, strict=True)
            ),
            fixed,
        )
        others = exact_product(p, q)
        start = subset.first + 6
        for position, mass in enumerate(masses):
            kept = int(subset.a[position - start]) if position >= start else 0
            assert mass - 1 < kept <= mass
            if kept:
                assert others[position] <= int(subset.b[position - start]) < others[position] + 1
        assert subset.infinity_a <= infinity
        assert subset.infinity_b >= Fraction(infinities[0] * (sum(q) + infinities[1]) + sum(p) * infinities[1], unit)


def test_leaves_round_outwards() -> None:
    """Masses of which the bounds differ, in a bin, on an edge and above the window."""
    fixed, width, error = FixedPoint(bits=16, max_bins=100), 0.5, Fraction(1, 100)
    a_lower, a_upper, b_lower, b_upper = (0.3, 0.1, 0.05), (0.4, 0.2, 0.1), (0.25, 0.1, 0.01), (0.35, 0.2, 0.02)
    masses = np.array([a_lower, a_upper, b_lower, b_upper, [0.0] * 3, [0.0] * 3])
    index, on_edge = np.array([1, 0]), np.array([False, True])
    groups = EventGroups(-1, 1, index, on_edge, masses[:, :2], masses[:, 2:], error)

    def units(mass: object, rounded: Callable[[mpmath.mpf], mpmath.mpf]) -> int:
        return int(rounded(mass * mpmath.mpf(2) ** fixed.bits))

    with mpmath.workdps(60):
        up, down = [units(mass, mpmath.ceil) for mass in a_upper], [units(mass, mpmath.floor) for mass in a_lower]
        scale = mpmath.exp(width - mpmath.mpf(1) / 100)
        moved = units((b_lower[0] * scale - a_upper[0]) / mpmath.expm1(width), mpmath.floor)
        kept = units(b_lower[2] * scale, mpmath.floor)
        subset, dominating = subset_leaf(groups, fixed), dominating_leaf(groups, width, fixed)
        assert 0 < moved < up[0]
        assert 0 < kept < up[2]
        assert (subset.first, list(subset.a.coeffs()), subset.infinity_a) == (0, down[1::-1], down[2])
        assert [*subset.b.coeffs(), subset.infinity_b] == [units(b_upper[i], mpmath.ceil) for i in (1, 0, 2)]
    assert dominating.first + next(i for i, mass in enumerate(dominating.a.coeffs()) if mass) == 0
    assert [mass for mass in dominating.a.coeffs() if mass] == [up[1] + moved, up[0] - moved + kept]
    assert dominating.infinity == up[2] - kept


def test_a_loss_right_above_an_edge_counts_as_on_it_with_an_error() -> None:
    pair = RandomizedResponse(0.75)
    masses = pair.scaled_loss_masses(np.array([0.0]), Direction.A_TO_B).masses
    loss = float(masses.atom_loss.max())
    width = math.nextafter(loss, 0.0)
    groups = event_groups(pair, Direction.A_TO_B, width, FixedPoint(bits=64, max_bins=100))
    assert set(groups.index[groups.masses[1] > 0.0].tolist()) == {-1, 1}
    assert groups.loss_error >= Fraction(loss) - Fraction(width) + Fraction(masses.loss_error)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.5, 1.7])
def test_delta_of_masses_rounds_outwards(epsilon: float) -> None:
    fixed, width, error = FixedPoint(bits=64, max_bins=100), 0.5, Fraction(1, 50)
    a, b = [1 << 60, 3 << 60, (1 << 62) + 1, 12345], [1 << 61, 1 << 61, 1 << 60, 7]
    below = SubsetMasses(0, flint.fmpz_poly(a), flint.fmpz_poly(b), 1 << 58, 1 << 50)
    above = DominatingMasses(0, flint.fmpz_poly(a), 1 << 58)
    (lower,), (upper,) = _lower(below, [epsilon], fixed), _upper(above, [epsilon], width, error, fixed)
    with mpmath.workdps(100):
        y, shifted = mpmath.exp(epsilon), mpmath.mpf(epsilon) - mpmath.mpf(1) / 50
        pairs = [*zip(a, b, strict=True), (1 << 58, 1 << 50)]
        least = sum(max(mpmath.mpf(0), mine - y * other) for mine, other in pairs)
        losses = [max(mpmath.mpf(0), 1 - mpmath.exp(shifted - width * i)) for i in range(4)]
        most = sum(mass * part for mass, part in zip(a, losses, strict=True)) + (1 << 58)
        tiny = mpmath.mpf(2) ** -30
        assert least - tiny <= mpmath.mpf(lower.numerator) / lower.denominator * 2**64 <= least
        assert most <= mpmath.mpf(upper.numerator) / upper.denominator * 2**64 <= most + tiny


def test_float_masses_in_units() -> None:
    fixed = FixedPoint(bits=64, max_bins=4)
    for mass in (0.0, 1.0, 0.1, 1e-300, 5e-324, 2.0**-64, 3e-20):
        exact = Fraction(mass) * 2**64
        assert _down(mass, 0.0, fixed) == math.floor(exact)
        assert _up(mass, 0.0, fixed) == math.ceil(exact)


def test_logarithms_are_enclosed() -> None:
    assert enclosed_log(Fraction(0)) == (-math.inf, -math.inf)
    for value in (Fraction(1), Fraction(1, 3), Fraction(1, 10**2000), 1 - Fraction(1, 10**20)):
        lower, upper = enclosed_log(value)
        with mpmath.workdps(80):
            exact = mpmath.log(mpmath.mpf(value.numerator) / value.denominator)
            assert lower < exact < upper
        assert upper - lower <= 1e-15 * abs(upper) + 1e-300


def test_too_many_bins_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"needs at most 2000000 bins \(max_bins\)"):
        bounds_of(Laplace(1), 2, [0.5], 1e-9, Direction.A_TO_B)


def test_nan_meets_nothing() -> None:
    bounds = ExactBounds((0.0,), (Fraction(1, 3),), (Fraction(1, 2),))
    assert bounds.meets([0.5], [0.5]) == (True,)
    assert bounds.meets([math.nan], [0.5]) == bounds.meets([0.4], [math.nan]) == (False,)
    assert bounds.meets([-math.inf], [math.nan], log=True) == (False,)


def test_missing_flint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pbdist\[verify\]'") as caught:
        bounds_of(Laplace(1), 1, [0.0], 0.1, Direction.A_TO_B)
    assert isinstance(caught.value, PbdistError)
    assert isinstance(caught.value, ImportError)


def test_errors_of_losses_grow_with_the_rounds() -> None:
    # ln 3 is sorted to an edge just below.
    width = math.nextafter(math.log(3.0), 0.0)
    pairs, asked = [(Histogram((3, 1), (1, 3)), 1)], {"compositions": 500, "loss_width": width, "bits": 2048}
    found = exact_bounds(pairs, epsilon=[500 * width], direction=Direction.A_TO_B, **asked).upper[0]
    with mpmath.workdps(400):
        truth = mpmath.mpf(0.75) ** 500 - mpmath.exp(500 * width) * mpmath.mpf(0.25) ** 500
        assert mpmath.mpf(found.numerator) / found.denominator >= truth > 0
