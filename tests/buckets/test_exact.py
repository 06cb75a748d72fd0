"""The exact reference against the exact truth, and the slips of the paper as facts (`docs/theory.md`, section 8)."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.types import Direction
from tests import strategies
from tests.oracles import exact, exact_truth
from tests.strategies import Case

# No line of pbdist runs here.
pytestmark = pytest.mark.nightly


@strategies.examples(400)
@given(case=strategies.cases(), data=st.data())
def test_exact_bounds_hold_and_masses_are_kept(case: Case, data: st.DataObject) -> None:
    """δ between its bounds; Definition 4's conservation, and Theorem 4 summed over each bucket."""
    table = case.truth
    for direction, directed in ((Direction.A_TO_B, case), (Direction.B_TO_A, case.reversed)):
        state = directed.exact_state()
        for y in data.draw(strategies.exp_epsilons(state.factor, state.half_width)):
            truth = exact_truth.table_hockey_stick(table, y, direction)
            assert 0 <= exact.lower_post_processing(state, y) <= truth <= exact.upper_chord(state, y)
        assert sum(state.mass_a, state.infinity_a) == sum(state.mass_b, state.infinity_b) == 1
        for index, a, b, b_real in zip(state.indices, state.mass_a, state.mass_b, state.mass_b_real, strict=True):
            assert a / state.factor**index <= b_real <= min(b, a * state.factor ** (state.misplacement - index))


@strategies.examples(100)
@given(pair=strategies.counted_pairs(), count=st.integers(0, 3), data=st.data())
def test_truth_equals_the_sum_over_every_outcome(pair: strategies.CountedPair, count: int, data: st.DataObject) -> None:
    y = data.draw(st.fractions(1, 10, max_denominator=50))
    events = [(Fraction(1), Fraction(1))]
    for _ in range(count):
        events = [(a * p, b * q) for a, b in events for p, q in zip(pair.p, pair.q, strict=True)]
    table = exact_truth.composed_outcomes([(pair.table, count)])
    forth = sum(max(Fraction(0), a - y * b) for a, b in events)
    back = sum(max(Fraction(0), b - y * a) for a, b in events)
    assert exact_truth.table_hockey_stick(table, y) == forth
    assert exact_truth.table_hockey_stick(table, y, Direction.B_TO_A) == back


def test_lemma_11_fails_at_the_lowest_bucket_alone() -> None:
    """Definition 7's ℓ~ of T1 x T2, with V(j, k) = a1(j) f^-j ℓ~2(k) + a2(k) f^-k ℓ~1(j) + ℓ~1(j) ℓ~2(k)."""
    # Both outcomes of the leaf lie inside the grid; twice the lower one lies below it.
    f, n = Fraction(3, 2), 2
    leaf = exact.leaf((Fraction(2, 3), Fraction(1, 3)), (Fraction(1, 6), Fraction(5, 6)), f, n)
    state = exact.compose(leaf, leaf)
    terms = dict.fromkeys(leaf.indices, Fraction(0))
    for j, a1, b1 in zip(leaf.indices, leaf.mass_a, leaf.mass_b, strict=True):
        for k, a2, b2 in zip(leaf.indices, leaf.mass_a, leaf.mass_b, strict=True):
            if j + k <= n:
                first, second = b1 - a1 / f**j, b2 - a2 / f**k
                terms[max(j + k, -n)] += a1 / f**j * second + a2 / f**k * first + first * second
    # Lemma 11 summed over a bucket: ℓ~(i) = b(i) - a(i) f^-i.
    wanted = {i: b - a / f**i for i, a, b in zip(state.indices, state.mass_a, state.mass_b, strict=True)}
    assert {index for index in terms if terms[index] != wanted[index]} == {-2}
    # By the events: the bucket -2 holds what both outcomes of loss ln(2/5) make together, and no more.
    assert state.mass_b[0] == Fraction(5, 6) ** 2
    # What Definition 7 gives is short by a(-n) (f^-(j+k) - f^n) with j = k = -2.
    assert wanted[-2] - terms[-2] == state.mass_a[0] * (f**4 - f**2)


def test_squaring_to_the_letter_of_definition_4_loses_the_lowest_bucket() -> None:
    # Losses of -9 ln 2 and less: everything but one outcome lies in -n.
    state = exact.leaf((Fraction(1, 513), Fraction(512, 513)), (Fraction(512, 513), Fraction(1, 513)), 2, 4)
    n = state.half_width
    by_index = dict(zip(state.indices, state.mass_a, strict=True))
    to_the_letter = {i: by_index[2 * i - 1] + by_index[2 * i] for i in range(-n // 2 + 1, n // 2 + 1)}
    assert by_index[-4] == Fraction(1, 513)
    assert sum(to_the_letter.values(), state.infinity_a) == 1 - by_index[-4]
    squared = exact.square(state)
    assert squared.mass_a[-2 + n] == by_index[-4]
    assert sum(squared.mass_a, squared.infinity_a) == 1


def two_outcomes_on_edges(f: Fraction, up: int, down: int) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    q_up = (1 - f**-down) / (f**up - f**-down)
    return (q_up * f**up, (1 - q_up) * f**-down), (q_up, 1 - q_up)


def test_without_the_reset_corner_an_upper_bound_fails() -> None:
    """Why there is a real term: an event far below the grid, put into -n, climbs back and looks harmful.

    Losses +20 h and -100 h on n = 20: one event of the second kind and two of the first stand at -20 + 20 + 20 = 20
    with a true loss of -60 h, so that P_A - P_B is far below 0 there.
    """
    p, q = two_outcomes_on_edges(Fraction(21, 20), 20, 100)
    leaf = exact.leaf(p, q, Fraction(21, 20), 20)
    state = exact.compose(exact.compose(leaf, leaf), leaf)
    truth = exact_truth.table_hockey_stick(exact_truth.composed_outcomes([(exact_truth.outcomes(p, q), 3)]), 1)
    unreset = leaf
    for _ in range(2):
        step = exact.compose(unreset, leaf)
        unreset = replace(step, mass_b_real=step.mass_b)
    assert exact.upper_chord(unreset, Fraction(1)) < truth <= exact.upper_chord(state, Fraction(1))


def with_negative_odd_buckets_too_low(state: exact.ExactState) -> exact.ExactState:
    """A squaring that pairs the buckets (-2, -1) to -1, one too low, in place of (-1, 0) to 0."""
    n = state.half_width
    mass_a = [Fraction(0)] * len(state.mass_a)
    for index, mass in zip(state.indices, state.mass_a, strict=True):
        mass_a[(index // 2 if index < 0 else -(-index // 2)) + n] += mass
    return replace(exact.square(state), mass_a=tuple(mass_a))


@pytest.mark.parametrize("squaring", [exact.square, with_negative_odd_buckets_too_low])
def test_witness_of_negative_odd_squaring(squaring: Callable[[exact.ExactState], exact.ExactState]) -> None:
    """Losses +8g and -3g, g = 0.02, 64 buckets, r = 256, ε = 0: exact 0.5668.

    With the squaring that puts negative odd buckets one too low, the "upper bound" is below the exact value.
    """
    f = Fraction(5101, 5000)  # e^0.02 but for 1e-6, so that the losses are edges of a rational grid
    p, q = two_outcomes_on_edges(f, 8, 3)
    truth = sum(
        comb(256, k) * max(Fraction(0), p[0] ** k * p[1] ** (256 - k) - q[0] ** k * q[1] ** (256 - k))
        for k in range(257)
    )
    assert float(truth) == pytest.approx(0.5668, abs=5e-5)
    state = exact.leaf(p, q, f, 32)
    for _ in range(8):
        doubled = exact.compose(state, state)
        # Figure 10's rule: square first where ∞ would grow by more than 2.2.
        if doubled.infinity_a > Fraction(22, 10) * state.infinity_a:
            state = squaring(state)
            doubled = exact.compose(state, state)
        state = doubled
    assert state.factor > f**32
    if squaring is exact.square:
        assert exact.lower_post_processing(state, Fraction(1)) <= truth <= exact.upper_chord(state, Fraction(1))
    else:
        assert exact.upper_chord(state, Fraction(1)) < Fraction(49, 100) < truth
