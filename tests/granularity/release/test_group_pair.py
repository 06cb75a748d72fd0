"""Group privacy of a whole pair, against chains of trade-off curves that are composed exactly."""

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

from pbdist import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    InvalidInputError,
    Laplace,
    NoisyCount,
    Poisson,
    Product,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    privacy_bounds,
)
from pbdist.granularity.group import group_pair, reversed_pair
from pbdist.mechanisms import ElementaryPair, Pair
from pbdist.table import bounds_table

pytestmark = pytest.mark.slow

LOADED = Histogram((2, 3, 6, 1), (3, 3, 5, 1))
WITH_ZEROS = Histogram((0, 5, 5, 10), (1, 5, 4, 10))
#: Masses of A and B, exactly or, with noise, of a finite pair that is no worse.
Masses = tuple[list[Fraction], list[Fraction]]
RATIOS = [Fraction(2) ** k for k in range(-12, 13)] + [Fraction(n, 7) for n in (1, 3, 6, 8, 12, 30)]


def masses_of(pair: Pair) -> Masses:
    """Return exact masses of finite pairs."""
    p, q = [Fraction(1)], [Fraction(1)]
    for factor in pair.factors:
        a, b = _masses_of_factor(factor)
        p, q = [x * y for x in p for y in a], [x * y for x in q for y in b]
    return p, q


def _masses_of_factor(factor: ElementaryPair) -> Masses:
    if isinstance(factor, Reversed):
        p, q = _masses_of_factor(factor.pair)
        return q, p
    if isinstance(factor, RandomizedResponse):
        truth = Fraction(factor.p)
        return [truth, 1 - truth], [1 - truth, truth]
    if isinstance(factor, ApproximateDP):
        # e^ε is rounded down, so that this pair tells no more than the real one.
        odds, hidden = Fraction(math.exp(factor.epsilon)) * (1 - Fraction(1, 2**50)), 1 - Fraction(factor.delta)
        odds = max(odds, Fraction(1))
        truth = odds / (1 + odds)
        p = [Fraction(factor.delta), hidden * truth, hidden * (1 - truth), Fraction(0)]
        return p, [p[3], p[2], p[1], p[0]]
    assert isinstance(factor, Histogram)
    return tuple([Fraction(x) / sum(map(Fraction, side)) for x in side] for side in (factor.p, factor.q))  # type: ignore[return-value]


def delta(masses: Masses, ratio: Fraction) -> Fraction:
    return sum((max(a - ratio * b, Fraction(0)) for a, b in zip(*masses, strict=True)), Fraction(0))


def power_curve(masses: Masses) -> list[tuple[Fraction, Fraction]]:
    """Return the corners of the largest power 1 - β as a function of the level α, from A as the alternative."""
    p, q = masses
    order = sorted(zip(p, q, strict=True), key=lambda item: (item[1] > 0, -item[0] / item[1] if item[1] else 0))
    corners = [(Fraction(0), Fraction(0))]
    for a, b in order:
        corners.append((corners[-1][0] + b, corners[-1][1] + a))
    return corners


def at(corners: list[tuple[Fraction, Fraction]], level: Fraction) -> Fraction:
    """Return the largest power at a level, on the concave curve through the corners."""
    power = max(y for x, y in corners if x == 0)
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        if x0 < x1 and x0 <= level <= x1:
            power = max(power, y0 + (y1 - y0) * (level - x0) / (x1 - x0))
    return power


def chained(steps: list[Masses]) -> Any:
    """Return δ of a chain of pairs as a function of the ratio: powers are fed into one another."""
    curves = [power_curve(one) for one in steps]
    levels = {Fraction(0), Fraction(1)}
    # Corners of the chain lie where some curve has one: levels are traced back through the curves after it.
    for number, curve in enumerate(curves):
        for x, _ in curve:
            levels.update(_traced(curves[number + 1 :], x))
    points = []
    for level in levels:
        value = level
        for curve in reversed(curves):
            value = at(curve, value)
        points.append((level, value))
    return lambda ratio: max(value - ratio * level for level, value in points)


def _traced(curves: list[list[tuple[Fraction, Fraction]]], value: Fraction) -> list[Fraction]:
    """Return the level that some curves, the last one first, lead to a value."""
    for curve in curves:
        found = None
        for (x0, y0), (x1, y1) in itertools.pairwise(curve):
            if y0 <= value <= y1 and y0 < y1 and x0 < x1:
                found = x0 + (x1 - x0) * (value - y0) / (y1 - y0)
                break
        if found is None:
            return []
        value = found
    return [value]


def exact_masses(pair: Pair) -> Masses:
    """Return the masses of what `group_pair` returns, and check that they are distributions."""
    if isinstance(pair, Histogram):
        assert all(isinstance(x, int) for x in (*pair.p, *pair.q))
        assert sum(pair.p) == sum(pair.q)
    masses = masses_of(pair)
    assert sum(masses[0]) == sum(masses[1]) == 1
    assert min(*masses[0], *masses[1]) >= 0
    return masses


FINITE: list[Pair] = [
    RandomizedResponse(0.6),
    RandomizedResponse(0.999),
    ApproximateDP(0.2, 0.0),
    ApproximateDP(0.1, 1e-3),
    ApproximateDP(0.0, 0.05),
    ApproximateDP(2.0, 1e-12),
    LOADED,
    WITH_ZEROS,
    Reversed(WITH_ZEROS),
    Histogram((0.25, 0.5, 0.25), (0.5, 0.25, 0.25)),
    Product(RandomizedResponse(0.55), LOADED),
    Product(LOADED, Reversed(WITH_ZEROS), ApproximateDP(0.1, 0.01)),
    Histogram(tuple(range(1, 61)), tuple(range(60, 0, -1))),
    Histogram((10**9, 1, 0), (10**9 - 5, 4, 2)),
]
CHAINS = [(2, 0), (0, 2), (1, 1), (2, 1), (1, 3), (5, 0)]


@pytest.mark.parametrize(("removed", "added"), CHAINS)
@pytest.mark.parametrize("pair", FINITE, ids=range(len(FINITE)))
def test_it_is_no_less_than_the_exact_chain(pair: Pair, removed: int, added: int) -> None:
    p, q = masses_of(pair)
    found = exact_masses(group_pair(pair, removed, added))
    truth = chained([(p, q)] * removed + [(q, p)] * added)
    for ratio in RATIOS:
        assert truth(ratio) <= delta(found, ratio)


@pytest.mark.parametrize("pair", FINITE[:4] + FINITE[6:8], ids=range(6))
def test_it_is_close_to_the_exact_chain(pair: Pair) -> None:
    p, q = masses_of(pair)
    found = exact_masses(group_pair(pair, 3, 0))
    truth = chained([(p, q)] * 3)
    for ratio in RATIOS:
        assert delta(found, ratio) <= truth(ratio) + Fraction(1, 10**8)


@pytest.mark.nightly
def test_the_oracle_is_right_of_randomized_response() -> None:
    """Two steps: δ at e^ε is least of all splits, found by looking at many."""
    p, q = masses_of(RandomizedResponse(0.75))
    truth = chained([(p, q)] * 2)
    splits = [Fraction(n, 60) for n in range(1, 600)]
    for ratio in (Fraction(1, 3), Fraction(1), Fraction(2), Fraction(5)):
        best = min(delta((p, q), x) + x * delta((p, q), ratio / x) for x in splits)
        assert truth(ratio) <= best <= truth(ratio) + Fraction(1, 40)
    assert truth(Fraction(9)) == 0
    assert truth(Fraction(1)) == Fraction(2, 3)


NOISE: list[Pair] = [
    Laplace(2.0, truncate=(-8.0, 8.0)),
    Gaussian(1.0, truncate=(-4.0, 4.0)),
    NoisyCount(Laplace(3.0), 10.0, 2),
    Poisson(9.0),
    SubsampledGaussian(1.0, 0.2),
    Reversed(SubsampledGaussian(0.7, 0.5)),
    Product(Laplace(3.0), Gaussian(2.0)),
]


@pytest.mark.parametrize("pair", NOISE, ids=range(len(NOISE)))
def test_of_noise_it_is_no_less_than_the_best_split(pair: Pair) -> None:
    """Of a chain of three, by lower bounds on δ at all splits on a grid that pass through the hull of its points.

    A curve through lower bounds at points is no bound between them: the best split is lowered by its tangents, whose
    slopes are at most 1.
    """
    found = exact_masses(group_pair(pair, 3, 0))
    step = 0.02
    losses = [step * k for k in range(251)]
    table = bounds_table([(pair, 1)], compositions=[1], epsilon=losses, strict=False)
    there, back = table.delta_lower[:, 0].tolist()
    curve = {k: there[k] for k in range(251)} | {
        -k: 1.0 - math.exp(-losses[k]) + math.exp(-losses[k]) * back[k] for k in range(1, 251)
    }
    # H(P||R; xy) >= min over splits: of lower bounds at the ends of each cell, the least that δ can be inside.
    for total in (0, 25, 50):
        best = math.inf
        for i in range(-100, 101):
            for j in range(-50, 51):
                k = total - i - j
                if k in curve:
                    # Within a cell of splits each factor rises by at most a step, and δ falls to that of the next one.
                    first, second = curve.get(i + 1, 0.0), curve.get(j + 1, 0.0)
                    third = curve.get(k + 1, 0.0)
                    value = first + math.exp(losses[1] * (i - 1)) * second
                    best = min(best, value + math.exp(losses[1] * (i + j - 2)) * third)
        ratio = Fraction(math.exp(step * total))
        assert float(delta(found, ratio)) >= best * (1.0 - 1e-9)
        assert float(delta(found, ratio)) <= min(1.0, best * 1.35 + 0.02), "the bound is far off"


@pytest.mark.parametrize(
    ("pair", "moved"),
    [
        (Gaussian(2.0, 0.5), Gaussian(2.0, 3.5)),
        (Laplace(2.0, 0.5), Laplace(2.0, 3.5)),
        (DiscreteGaussian(3.0, 2), DiscreteGaussian(3.0, 14)),
        (DiscreteLaplace(3.0, 2), DiscreteLaplace(3.0, 14)),
    ],
)
def test_symmetric_log_concave_noise_is_moved(pair: Pair, moved: Pair) -> None:
    assert group_pair(pair, 7, 0) == group_pair(pair, 0, 7) == group_pair(pair, 3, 4) == moved


@pytest.mark.parametrize("times", [3, 7, 1000])
def test_shifts_are_rounded_up(times: int) -> None:
    for sensitivity in (0.1, 0.3, 1e-7, 1.1):
        moved = group_pair(Gaussian(1.0, sensitivity), times, 0)
        assert isinstance(moved, Gaussian)
        assert Fraction(moved.sensitivity) >= times * Fraction(sensitivity)
        assert moved.sensitivity == pytest.approx(times * sensitivity, rel=1e-15)


@pytest.mark.parametrize(
    "pair", [Laplace(1.0, truncate=(-5.0, 5.0)), Gaussian(1.0, truncate=(-5.0, 5.0)), Poisson(4.0)]
)
def test_other_noise_is_not_moved(pair: Pair) -> None:
    assert isinstance(group_pair(pair, 2, 0), Histogram)


@pytest.mark.parametrize(
    ("epsilon", "revealed", "times"),
    [
        (1.0, 1e-5, 12),
        (0.1, 1e-5, 13),
        (0.01, 1e-9, 1000),
        pytest.param(0.1, 0.0, 1000, marks=pytest.mark.nightly),
        pytest.param(1.0, 0.0, 1000, marks=pytest.mark.nightly),
        (0.0, 1e-3, 100),
        pytest.param(1e-9, 0.0, 1000, marks=pytest.mark.nightly),
        (1e-9, 1e-7, 50),
        (3.0, 0.0, 200),
        (27.0, 0.0, 20),
        (50.0, 0.0, 2),
        (50.0, 1e-300, 2),
        (1.0, 1e-300, 7),
        pytest.param(2.5, 1e-200, 1000, marks=pytest.mark.nightly),
    ],
)
def test_it_is_no_worse_than_the_rule_for_two_numbers(epsilon: float, revealed: float, times: int) -> None:
    """(kε, δ (e^kε - 1) / (e^ε - 1)) of Vadhan 2017, Lemma 2.2, but for a millionth of kε; δ below 1e-100 as that."""
    found = exact_masses(group_pair(ApproximateDP(epsilon, revealed), times, 0))
    step = Fraction(math.exp(epsilon))
    rule = Fraction(revealed) * sum((step**power for power in range(times)), Fraction(0))
    ratio = step**times
    later = ratio * Fraction(math.exp(1e-6 * times * epsilon))
    for masses in (found, (found[1], found[0])):
        assert delta(masses, later) <= rule * (1 + Fraction(1, 10**6)) + Fraction(1, 10**100)
        if times < 10 or rule == 0:
            assert delta(masses, ratio) >= rule * (1 - Fraction(1, 10**6)) or epsilon == 0.0


@pytest.mark.parametrize("pair", [ApproximateDP(1.0, 1.0), RandomizedResponse(1.0), Histogram((1, 0), (0, 1))])
def test_what_reveals_all_still_does(pair: Pair) -> None:
    assert group_pair(pair, 2, 3) == ApproximateDP(0.0, 1.0)


@pytest.mark.parametrize("pair", [ApproximateDP(0.0, 0.0), RandomizedResponse(0.5), Histogram((1, 2), (2, 4))])
def test_what_reveals_nothing_still_does(pair: Pair) -> None:
    found = group_pair(pair, 500, 500)
    assert privacy_bounds(found, compositions=1, epsilon=0.0).delta_upper.item() == 0.0


def test_a_chain_that_reveals_all_at_its_end_is_a_pair() -> None:
    """Half of the mass moves in each step: three steps reveal all."""
    found = group_pair(Histogram((3, 1, 0), (1, 1, 2)), 500, 0)
    assert privacy_bounds(found, compositions=1, epsilon=9.0).delta_upper.item() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("removed", "added"),
    [(500, 500), *(pytest.param(*each, marks=pytest.mark.nightly) for each in ((1000, 0), (0, 1000)))],
)
@pytest.mark.parametrize(
    "pair",
    [SubsampledGaussian(1.0, 0.1), RandomizedResponse(0.5001), WITH_ZEROS, Laplace(50.0, truncate=(-500.0, 500.0))],
)
def test_a_thousand_changes_are_a_pair(pair: Pair, removed: int, added: int) -> None:
    found = exact_masses(group_pair(pair, removed, added))
    short = exact_masses(group_pair(pair, removed // 10, added // 10))
    for ratio in RATIOS:
        assert delta(short, ratio) <= delta(found, ratio)


def test_longer_chains_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"changes: expected at most 1000 records .* got 1001"):
        group_pair(RandomizedResponse(0.6), 1000, 1)


def test_one_change_is_the_pair() -> None:
    for pair in (*FINITE, *NOISE):
        assert group_pair(pair, 1, 0) is pair
        assert group_pair(pair, 0, 1) == reversed_pair(pair)


def test_reversed_pairs_have_exchanged_masses() -> None:
    for pair in FINITE:
        p, q = masses_of(pair)
        back = masses_of(reversed_pair(pair))
        for ratio in RATIOS:
            assert delta(back, ratio) == delta((q, p), ratio)
        assert all(delta(masses_of(reversed_pair(reversed_pair(pair))), x) == delta((p, q), x) for x in RATIOS)
