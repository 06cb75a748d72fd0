"""Kept states: close at every ε up to the largest one, held against fractions and the other engines, small."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.mechanisms import (
    Gaussian,
    Histogram,
    Laplace,
    Pair,
    Poisson,
    Product,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    factor_counts,
)
from pbdist.pld import PairState, SavedStates, compute_states, lower_deltas, tight_bounds, upper_deltas
from pbdist.store.states import state_from_record, state_record
from pbdist.table import bounds_table
from pbdist.types import Direction, FloatArray
from tests.oracles.curve_truth import composed, swapped
from tests.oracles.truth import bracketed_exp

FLOOR = 1e-40


def kept(pair: Pair, rounds: list[int], epsilon: list[float], tolerance: float = 1e-3) -> SavedStates:
    return compute_states(
        factor_counts([(pair, 1)]), np.array(rounds), np.array(epsilon), tolerance=tolerance, floor=FLOOR
    )


def read(state: PairState, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    lower, upper = (
        np.stack([side(state, epsilon, direction) for direction in Direction]) for side in (lower_deltas, upper_deltas)
    )
    return lower, upper


def size_of(state: PairState) -> int:
    return sum(values.nbytes for values in state_record(state)[0].values())


PAIRS: list[tuple[Pair, list[int], list[float]]] = [
    (SubsampledGaussian(1.0, 0.01), [1, 5, 64, 1024, 65536], [0.25, 1.0, 4.0]),
    (Reversed(SubsampledGaussian(1.0, 0.05)), [1, 100], [0.25, 1.0, 4.0]),
    (Gaussian(20.0), [1, 7, 300], [0.1, 0.5, 1.0]),
    (Laplace(50.0), [1, 10, 300], [0.1, 0.5, 1.0]),
    (RandomizedResponse(0.55), [1, 3, 40, 4096], [0.1, 0.5, 3.0]),
    (Product(RandomizedResponse(0.55), Gaussian(8.0)), [1, 30], [0.5, 2.0]),
    (Poisson(60.0), [8, 32], [0.5, 2.0]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "rounds", "epsilon"), PAIRS, ids=str)
def test_between_the_epsilon_asked_for_it_is_as_close(pair: Pair, rounds: list[int], epsilon: list[float]) -> None:
    found = kept(pair, rounds, epsilon)
    assert sorted(found.states) == rounds
    asked = np.random.default_rng(7).uniform(0.0, epsilon[-1], 60)
    fresh = tight_bounds(
        factor_counts([(pair, 1)]), np.array(rounds), asked, Request(tolerance=1e-3, strict=False, floor=FLOOR)
    )
    for row, r in enumerate(rounds):
        lower, upper = read(found.states[r], asked)
        assert np.all(lower <= np.exp(fresh.log_upper[:, row]) * (1.0 + 1e-12))
        assert np.all(np.exp(fresh.log_lower[:, row]) <= upper * (1.0 + 1e-12))
        larger, most = lower.max(axis=0), upper.max(axis=0)
        told = most > FLOOR
        # Next to the largest loss δ may be anything.
        close = most[told] <= 1.001 * larger[told]
        assert np.mean(close) > 0.97, (r, asked[told][~close], most[told][~close] / larger[told][~close])
    assert sum(map(size_of, found.states.values())) < 8e6


def test_both_directions_of_few_rounds() -> None:
    """Not only the larger one, where that is to be had."""
    found = kept(SubsampledGaussian(1.0, 0.1), [64, 512], [0.5, 1.5])
    asked = np.linspace(0.0, 1.5, 40)
    for state in found.states.values():
        lower, upper = read(state, asked)
        assert np.all((upper <= FLOOR) | (upper <= 1.001 * lower))


HISTOGRAMS = [
    Histogram([5, 3, 1, 1], [3, 5, 2, 0]),
    Histogram([1, 7, 2], [4, 1, 5]),
    Histogram([0.5, 0.5 + 9e-10], [0.2, 0.8]),
    Histogram([3, 2], [3, 2]),
]


@pytest.mark.parametrize("pair", HISTOGRAMS, ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_histograms_against_fractions(pair: Histogram, rounds: int) -> None:
    found = kept(pair, [rounds], [0.1, 2.0, 5.0])
    p, q = ([Fraction(value) for value in side] for side in (pair.p, pair.q))
    if all(isinstance(value, int) for value in (*pair.p, *pair.q)):
        p, q = ([value / sum(side) for value in side] for side in (p, q))
    outcomes = composed(list(zip(p, q, strict=True)), rounds)
    asked = np.array([0.0, *np.random.default_rng(rounds).uniform(0.0, 5.5, 30)])
    lower, upper = read(found.states[rounds], asked)
    for axis, direction in enumerate(Direction):
        for place, value in enumerate(asked.tolist()):
            sides = outcomes if direction is Direction.A_TO_B else swapped(outcomes)
            most, least = (sum(max(a - y * b, Fraction(0)) for a, b in sides) for y in bracketed_exp(value))
            assert Fraction(lower[axis, place]) <= min(least, Fraction(1)), (value, direction)
            assert Fraction(upper[axis, place]) >= min(most, Fraction(1)), (value, direction)


def test_the_bounds_are_those_of_the_states_or_better() -> None:
    epsilon = [0.3, 1.0, 2.0]
    found = kept(SubsampledGaussian(1.0, 0.02), [3, 50], epsilon)
    for row, r in enumerate((3, 50)):
        lower, upper = read(found.states[r], np.array(epsilon))
        assert np.all(found.lower[:, row] >= lower)
        assert np.all(found.upper[:, row] <= upper)


@pytest.mark.slow
def test_a_table_keeps_one_state_for_both_directions() -> None:
    for pair in (SubsampledGaussian(1.0, 0.05), Gaussian(20.0), Laplace(5.0), Histogram([1, 1], [1, 1])):
        plain, table = (
            bounds_table([(pair, 1)], compositions=[2, 9], epsilon=[0.1, 0.5], strict=False, keep_states=keeps)
            for keeps in (False, True)
        )
        assert not plain.states
        assert set(table.states) == {(direction, r) for direction in Direction for r in (2, 9)}
        for r in (2, 9):
            assert table.states[Direction.A_TO_B, r] is table.states[Direction.B_TO_A, r]
        # What either is, the other one contains: each is as close as was asked for.
        assert np.all(table.log_delta_lower <= plain.log_delta_upper)
        assert np.all(plain.log_delta_lower <= table.log_delta_upper)
        assert table.within is None or table.within.all()


def test_what_no_ladder_serves_has_no_state() -> None:
    found = kept(RandomizedResponse(0.5001), [10, 1 << 41], [0.5])
    assert set(found.states) == {10}
    assert np.all(found.upper[:, 1] == 1.0)
    assert not found.lower[:, 1].any()


def test_epsilon_beyond_all_states_is_not_told() -> None:
    found = kept(Laplace(5.0), [3], [0.2, 1e4])
    assert np.all(found.upper[:, 0, 1] == 1.0)
    assert np.all(found.upper[:, 0, 0] < 1.0)


def test_a_record_is_the_state_bit_by_bit() -> None:
    state = kept(SubsampledGaussian(1.0, 0.05), [100], [0.5]).states[100]
    arrays, attributes = state_record(state)
    again, listed = state_record(state_from_record(arrays, attributes))
    assert listed == attributes
    assert again.keys() == arrays.keys()
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)


def test_masses_that_a_record_cannot_hold_are_never_lost() -> None:
    state = kept(SubsampledGaussian(1.0, 0.05), [100], [0.5]).states[100]
    finest = state.dominating
    with pytest.raises(ValueError, match="zip"):
        state_record(replace(state, dominating=replace(finest, rows=(finest.core, finest.core, finest.core))))


def test_a_direction_that_is_like_the_other_is_recorded_once() -> None:
    state = kept(Laplace(5.0), [10], [0.5]).states[10]
    arrays, attributes = state_record(state)
    assert not any("B_TO_A" in name for name in arrays)
    found = state_from_record(arrays, attributes)
    assert found.exact[Direction.A_TO_B] is found.exact[Direction.B_TO_A]
    apart = replace(state, exact={one: replace(masses) for one, masses in state.exact.items()})
    assert any("B_TO_A" in name for name in state_record(apart)[0])
