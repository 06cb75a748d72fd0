"""Powers, squaring and the choice of the grid on the float side; soundness is in test_soundness.py."""

import dataclasses
import json

import numpy as np
import pytest

from pbdist.buckets import BucketState, composition
from pbdist.buckets.grid_choice import choose_loss_width
from pbdist.buckets.state import Grid
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import ApproximateDP, Gaussian, Laplace, NoisyCount, RandomizedResponse
from pbdist.table import bounds_table
from pbdist.types import Direction
from tests.oracles.bucket_trees import (
    compose,
    compose_adaptively,
    delta_lower,
    delta_upper,
    leaf_of,
    powers,
    square,
)


def assert_identical(first: BucketState, second: BucketState) -> None:
    for field in dataclasses.fields(BucketState):
        left, right = getattr(first, field.name), getattr(second, field.name)
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)
        else:
            assert left == right, field.name


def _leaf(pair=None, width=0.01, half_width=100):
    return leaf_of(pair or Laplace(20.0), Grid(width, half_width), Direction.A_TO_B)


@pytest.mark.parametrize(("r", "rungs"), [(1, 0), (2, 1), (3, 1), (5, 2), (8, 3)])
def test_powers_follow_the_binary_digits(r, rungs):
    [(reached, state)] = powers(_leaf(), [r])
    assert reached == r
    assert state.window == r
    ladder = [_leaf()]
    for _ in range(rungs):
        ladder.append(compose(ladder[-1], ladder[-1]))
    whole, *others = (rung for position, rung in enumerate(ladder) if r >> position & 1)
    for other in others:
        whole = compose(whole, other)
    assert_identical(state, whole)


def test_powers_are_yielded_in_order_and_once():
    reached = [r for r, _ in powers(_leaf(), [7, 2, 7, 1])]
    assert reached == [1, 2, 7]


def test_squaring_moves_every_bucket_to_the_rounded_up_half():
    state = square(_leaf(RandomizedResponse(0.6), width=0.45, half_width=4))
    # The losses ±0.405 lie in buckets 1 and 0.
    assert np.flatnonzero(state.a_upper).tolist() == [4, 5]
    values = np.arange(1.0, 10.0)
    full = dataclasses.replace(
        _leaf(half_width=4), a_lower=values, a_upper=values, b_upper=values, b_real_lower=values, window=3
    )
    halved = square(full)
    # -4 | -3 -2 | -1 0 | 1 2 | 3 4 go to -2 .. 2.
    np.testing.assert_allclose(halved.a_upper, [0, 0, 1, 5, 9, 13, 17, 0, 0], rtol=1e-15)
    assert halved.window == 3
    assert halved.grid == Grid(0.02, 4)
    assert square(_leaf()).window == 2


def test_states_are_squared_when_the_mass_at_infinity_would_grow(monkeypatch):
    # Two rounds of Laplace noise reach twice the loss: on a grid of the range of one, half a quarter overflows.
    tight = _leaf(Laplace(20.0), width=0.05 / 100, half_width=100)
    assert tight.infinity_a_upper == 0.0
    assert compose(tight, tight).infinity_a_lower > 0.2
    squared = compose_adaptively(tight, tight)
    assert squared.grid.loss_width == 2 * tight.grid.loss_width
    assert squared.infinity_a_upper < 1e-12
    # Mass at infinity that only doubles is no reason.
    torn = _leaf(Laplace(20.0, truncate=(-60.0, 60.0)), width=0.001, half_width=200)
    assert torn.infinity_a_lower > 1e-3
    assert compose_adaptively(torn, torn).grid == torn.grid
    # Nor is mass at infinity that does not count.
    monkeypatch.setattr(composition, "FREE_MASS", 0.9)
    assert compose_adaptively(tight, tight).grid == tight.grid


def test_finer_states_are_squared_to_meet_coarser_ones():
    fine, coarse = _leaf(width=0.005), _leaf(width=0.02)
    state = compose_adaptively(fine, coarse)
    assert state.grid == coarse.grid
    # ⌈1/2⌉ + 1 = 2 and again 2, and the coarse leaf's 1.
    assert state.window == 3


@pytest.mark.parametrize("other", [Grid(0.015, 100), Grid(0.01, 50)])
def test_grids_that_do_not_fit_are_both_named(other):
    second = leaf_of(Laplace(20.0), other, Direction.A_TO_B)
    with pytest.raises(InvalidInputError) as caught:
        compose_adaptively(_leaf(), second)
    assert repr(other) in str(caught.value)
    assert repr(Grid(0.01, 100)) in str(caught.value)


@pytest.mark.parametrize(
    "pair", [Laplace(20.0), Gaussian(5.0), RandomizedResponse(0.5), NoisyCount(Laplace(5.0), 20.0, 2)]
)
def test_a_state_survives_its_trimmed_arrays(pair):
    [(_, state)] = powers(_leaf(pair), [6])
    arrays, attributes = state.to_arrays()
    assert len({vector.size for vector in arrays.values()}) == 1
    restored = BucketState.from_arrays(arrays, json.loads(json.dumps(attributes)))
    assert_identical(state, restored)
    epsilon = np.array([0.0, 0.1, 1.0])
    np.testing.assert_array_equal(delta_upper(state, epsilon), delta_upper(restored, epsilon))
    np.testing.assert_array_equal(delta_lower(state, epsilon), delta_lower(restored, epsilon))


def test_states_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        _leaf().a_upper[0] = 1.0


@pytest.mark.parametrize("half_width", [0, -2, 3, 7, True, 2.5])
def test_half_widths_must_be_even(half_width):
    with pytest.raises(InvalidInputError, match=r"grid\.half_width: expected an even whole number above 0, got"):
        Grid(0.1, half_width)


@pytest.mark.parametrize("width", [0.0, -1.0, np.nan, np.inf])
def test_widths_must_be_positive(width):
    with pytest.raises(InvalidInputError, match=r"grid\.loss_width: expected a finite number"):
        Grid(width, 10)


@pytest.mark.parametrize("buckets", [20, 1000, 100_000])
@pytest.mark.parametrize(
    ("pair", "infinite"),
    [(Laplace(200.0), 0.0), (Laplace(0.3), 0.0), (RandomizedResponse(0.51), 0.0), (ApproximateDP(0.1, 1e-5), 1e-5)],
)
@pytest.mark.parametrize("largest", [1, 3, 1000])
def test_the_chosen_grid_keeps_bounded_losses_whole(pair, infinite, buckets, largest):
    half_width = buckets // 2
    state = leaf_of(pair, Grid(choose_loss_width([(pair, 1)], largest, half_width), half_width), Direction.A_TO_B)
    assert state.infinity_a_upper == pytest.approx(infinite, abs=1e-17)


@pytest.mark.slow
def test_a_lone_far_event_does_not_cost_precision():
    # The ⌈max(0, X)⌉ atom has a loss of about ln 500, a thousand times the losses of the rest.
    pair = NoisyCount(Laplace(500.0), 8000.0, 2)
    width = choose_loss_width([(pair, 1)], 1024, 50_000)
    assert width * 50_000 < 0.1
    table = bounds_table([(pair, 1)], compositions=[1024], epsilon=np.log([1.0, 1.5, 2.0]))
    assert np.all(table.delta_upper[0] < 1.01 * table.delta_lower[0])
