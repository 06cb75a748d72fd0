"""The acceptance property: every bound of the float core against the exact truth, with no tolerance."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pbdist.buckets.state import BucketState, Grid
from pbdist.types import Direction
from tests import strategies
from tests.oracles import exact
from tests.oracles.bucket_trees import compose, delta_lower, delta_upper, leaf_of, square
from tests.oracles.truth import assert_bracketed, bracketed_exp, enclosed_truth, histogram
from tests.strategies import Case, CountedPair

pytestmark = pytest.mark.slow


def float_state(case: Case, direction: Direction) -> BucketState:
    """The float core's bucket list of the same tree."""
    grid = Grid(loss_width=math.log(case.factor), half_width=case.half_width)
    leaves = [leaf_of(histogram(pair), grid, direction) for pair in case.pairs]
    return strategies.folded(case.tree, leaves, square, compose)


@strategies.examples(600)
@given(case=strategies.cases(), data=st.data())
def test_the_bounds_of_a_tree_bracket_the_truth(case: Case, data: st.DataObject) -> None:
    table = case.truth
    width = math.log(case.factor) * 2 ** strategies.squarings(case.tree)
    epsilon = np.array(data.draw(strategies.epsilons(width, case.half_width)))
    for direction in Direction:
        state = float_state(case, direction)
        lows, ups = delta_lower(state, epsilon), delta_upper(state, epsilon)
        for low, up, value in zip(lows.tolist(), ups.tolist(), epsilon.tolist(), strict=True):
            assert_bracketed(low, up, enclosed_truth(table, value, direction), value, direction.value)


def lies_between_edges(pair: CountedPair, factor: Fraction, half_width: int) -> bool:
    """Whether every loss is so far from every edge that a float grid puts it where the rational grid does."""
    edges = [factor**index for index in range(-half_width - 1, half_width + 1)]
    ratios = [p / q for p, q in zip(pair.p, pair.q, strict=True) if p and q]
    return all(abs(ratio / edge - 1) > Fraction(1, 10**9) for ratio in ratios for edge in edges)


@strategies.examples(300)
@given(case=strategies.cases())
def test_float_masses_bracket_the_exact_masses(case: Case) -> None:
    assume(all(lies_between_edges(pair, case.factor, case.half_width) for pair in case.pairs))
    for direction, directed in ((Direction.A_TO_B, case), (Direction.B_TO_A, case.reversed)):
        assert_masses_agree(float_state(case, direction), directed.exact_state())


def assert_masses_agree(state: BucketState, reference: exact.ExactState) -> None:
    assert state.window == reference.misplacement
    assert state.grid.half_width == reference.half_width
    bounded = [(state.a_lower[k], reference.mass_a[k], state.a_upper[k]) for k in range(len(reference.mass_a))]
    bounded += [(0.0, reference.mass_b[k], state.b_upper[k]) for k in range(len(reference.mass_b))]
    bounded += [(state.b_real_lower[k], mass, math.inf) for k, mass in enumerate(reference.mass_b)]
    bounded.append((state.infinity_a_lower, reference.infinity_a, state.infinity_a_upper))
    bounded.append((0.0, reference.infinity_b, state.infinity_b_upper))
    for lower, mass, upper in bounded:
        assert Fraction(float(lower)) <= mass, (lower, float(mass))
        assert upper == math.inf or mass <= Fraction(float(upper)), (float(mass), upper)
    # The corner's a f^n depends on f, which the float grid holds to a relative n 2^-53 only.
    assert all(
        Fraction(float(lower)) <= mass * (1 + Fraction(1, 10**9))
        for lower, mass in zip(state.b_real_lower, reference.mass_b_real, strict=True)
    )
    # Sound and close: the bounds on the masses are a matter of rounding only.
    np.testing.assert_allclose(state.a_lower, state.a_upper, rtol=0.0, atol=1e-11)
    np.testing.assert_allclose([float(b) for b in reference.mass_b], state.b_upper, rtol=0.0, atol=1e-11)
    np.testing.assert_allclose([float(b) for b in reference.mass_b_real], state.b_real_lower, rtol=0.0, atol=1e-11)


def test_an_event_that_climbs_back_from_the_lowest_bucket_is_not_credited() -> None:
    """Two outcomes with losses +20 h and -100 h, n = 20."""
    factor = Fraction(21, 20)
    q_up = (1 - factor**-100) / (factor**20 - factor**-100)
    scale = 10**18
    q_count, p_count = round(q_up * scale), round(q_up * factor**20 * scale)
    pair = CountedPair((p_count, scale - p_count), (q_count, scale - q_count))
    leaf = strategies.TreeLeaf(0)
    tree = strategies.TreeCompose(strategies.TreeCompose(leaf, leaf), leaf)
    case = Case((pair,), factor, 20, tree)
    state = float_state(case, Direction.A_TO_B)
    upper = float(delta_upper(state, np.array([0.0]))[0])
    assert_bracketed(0.0, upper, enclosed_truth(case.truth, 0.0, Direction.A_TO_B), 0.0, "chord")


@strategies.examples(200)
@given(case=strategies.cases(), data=st.data())
def test_float_bounds_are_the_exact_bounds_but_for_rounding(case: Case, data: st.DataObject) -> None:
    """A bound may be sound and useless: away from the edges each is what its definition gives, to 1e-9."""
    assume(all(lies_between_edges(pair, case.factor, case.half_width) for pair in case.pairs))
    bucket = data.draw(st.integers(1, case.half_width))
    part = data.draw(st.floats(0.1, 0.9))
    width = math.log(case.factor) * 2 ** strategies.squarings(case.tree)
    epsilon = (bucket - part) * width
    y, _ = bracketed_exp(epsilon)
    for direction, directed in ((Direction.A_TO_B, case), (Direction.B_TO_A, case.reversed)):
        state, reference = float_state(case, direction), directed.exact_state()
        for bound, exactly in (
            (delta_upper, exact.upper_chord),
            (delta_lower, exact.lower_post_processing),
        ):
            value = float(bound(state, np.array([epsilon]))[0])
            assert value == pytest.approx(float(exactly(reference, y)), rel=1e-9, abs=1e-9), (direction, bound)
