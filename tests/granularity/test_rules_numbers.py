"""Rounding and the rules for numbers: never below the exact value, at most one float above it, exact for fractions."""

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.granularity.canonical import canonical_metric
from pbdist.granularity.notions import GivenRelation
from pbdist.granularity.rules import (
    APPROXIMATE,
    CONCENTRATED,
    GAUSSIAN,
    PURE,
)
from pbdist.granularity.spaces import DatabaseClass, GroupDelta, ScaledMetric
from pbdist.granularity.upward import upward_norm, upward_product, upward_root, upward_sum
from tests.strategies import examples

FLOATS = st.floats(min_value=0.0, max_value=1e150, allow_nan=False)
AMOUNTS = FLOATS | st.fractions(min_value=0, max_value=10**6) | st.integers(min_value=0, max_value=10**30)
EXACT = st.fractions(min_value=0, max_value=10**6) | st.integers(min_value=0, max_value=10**30)


def is_least_float(value: Any, truth: Fraction, power: int = 1) -> bool:
    """Whether value^power >= truth, and the next float below is not."""
    return Fraction(value) ** power >= truth and (
        value == 0 or Fraction(math.nextafter(value, 0.0)) ** power < truth or Fraction(value) ** power == truth
    )


@examples(240)
@given(st.lists(AMOUNTS, min_size=1, max_size=20))
def test_sums_and_norms_are_the_least_floats_above(values: list[Any]) -> None:
    assert is_least_float(upward_sum(values), sum(map(Fraction, values), Fraction(0)))
    norm = upward_norm(values)
    square = sum((Fraction(value) ** 2 for value in values), Fraction(0))
    assert Fraction(norm) ** 2 == square or is_least_float(norm, square, 2)


@examples(240)
@given(AMOUNTS, AMOUNTS)
def test_products_and_roots(first: Any, second: Any) -> None:
    assert is_least_float(upward_product(first, second), Fraction(first) * Fraction(second))
    root = upward_root(first)
    assert Fraction(root) ** 2 == Fraction(first) or is_least_float(root, Fraction(first), 2)


@examples(240)
@given(st.lists(EXACT, min_size=1, max_size=8), st.integers(min_value=1, max_value=9))
def test_whole_numbers_and_fractions_stay_exact(values: list[Any], most: int) -> None:
    every = [c for n in range(1, min(most, len(values)) + 1) for c in itertools.combinations(range(len(values)), n)]
    assert PURE.for_numbers(most, values)[0] == max(sum(values[i] for i in c) for c in every)
    assert PURE.for_numbers(every, values)[0] == PURE.for_numbers(most, values)[0]
    assert PURE.for_numbers("each", values)[0] == sum(values) == CONCENTRATED.for_numbers("each", values)[0]
    assert CONCENTRATED.for_numbers(1, values)[0] == max(values) == GAUSSIAN.for_numbers(1, values)[0]
    assert isinstance(PURE.for_numbers("each", values)[0], int | Fraction)


@examples(240)
@given(
    st.lists(st.tuples(EXACT, st.fractions(min_value=0, max_value=1)), min_size=1, max_size=6),
    st.integers(min_value=1, max_value=7),
)
def test_both_parameters_are_the_largest_of_all_changes(values: list[tuple[Any, Fraction]], most: int) -> None:
    epsilons, deltas = [e for e, _ in values], [d for _, d in values]
    every = [c for n in range(1, min(most, len(values)) + 1) for c in itertools.combinations(range(len(values)), n)]
    expected = (
        max(sum(epsilons[i] for i in c) for c in every),
        min(max(sum(deltas[i] for i in c) for c in every), 1),
    )
    assert APPROXIMATE.for_numbers(most, epsilons, deltas) == expected
    assert APPROXIMATE.for_numbers(every, epsilons, deltas) == expected


def test_distances_of_profiles() -> None:
    change = [{0: 2, 1: 3}, {2: 1}]
    assert PURE.for_numbers(change, [1, 2, 7])[0] == 8
    assert CONCENTRATED.for_numbers(change, [1, 2, 23])[0] == 23
    assert CONCENTRATED.for_numbers(change, [1, 2, 7])[0] == 22
    assert GAUSSIAN.for_numbers(change, [3, Fraction(8, 3), 9])[0] == 10
    assert PURE.for_numbers([set()], [1, 2, 7])[0] == 0


def test_infinite_parameters_and_distances() -> None:
    assert upward_sum([1, math.inf]) == upward_norm([math.inf, 0]) == upward_root(math.inf) == math.inf
    assert upward_sum([1e308, 1e308]) == math.inf
    assert (
        PURE.at_distance(math.inf, 0)[0]
        == GAUSSIAN.at_distance(math.inf, 0)[0]
        == CONCENTRATED.at_distance(math.inf, 0)[0]
        == math.inf
    )
    assert PURE.at_distance(0, math.inf)[0] == 0
    assert APPROXIMATE.at_distance(1, math.inf, Fraction(1, 2)) == (math.inf, Fraction(1, 2))
    assert APPROXIMATE.at_distance(2, math.inf, Fraction(1, 2)) == (math.inf, math.inf)
    assert APPROXIMATE.at_distance(math.inf, 1, 0) == (math.inf, math.inf)
    assert APPROXIMATE.at_distance(2, 500, 1e-9) == (1000, math.inf)
    assert PURE.for_numbers(1, [1, math.inf])[0] == math.inf


def test_zero_times_an_infinite_distance_is_infinite() -> None:
    """0-DP says nothing of databases that no steps connect."""
    domain = DatabaseClass("two islands", (0, 1, 10, 11))
    metric = canonical_metric(GivenRelation("next", lambda a, b: abs(a - b) == 1), domain)
    assert ScaledMetric(metric, 0)(0, 10) == math.inf
    assert ScaledMetric(metric, 0)(0, 1) == 0
    assert GroupDelta(metric, 1, 0)(0, 10) == math.inf


@examples(240)
@given(
    st.floats(min_value=1e-6, max_value=50.0),
    st.floats(min_value=0.0, max_value=1.0),
    st.integers(min_value=0, max_value=12),
)
def test_the_delta_of_groups_is_a_sum_of_steps(epsilon: float, delta: float, distance: int) -> None:
    """δ Σ e^(jε) over j < d, from below by sums of truncated series."""
    powers = sum(
        Fraction(math.nextafter(math.exp(j * epsilon), 0.0)) * (1 - Fraction(1, 10**13)) for j in range(distance)
    )
    _, bound = APPROXIMATE.at_distance(distance, epsilon, delta)
    assert Fraction(bound) >= Fraction(delta) * powers
    assert float(bound) == pytest.approx(float(Fraction(delta) * powers), rel=1e-9)
