"""The exact reference against the exact truth, and the slips of the paper as facts."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.errors import InvalidInputError
from pbdist.types import Direction
from tests import strategies
from tests.oracles import exact, exact_delta, exact_truth
from tests.strategies import Case

UPPER_BOUNDS = (
    exact_delta.upper_definition_5,
    exact_delta.upper_definition_9,
    exact_delta.upper_chord,
)
LOWER_BOUNDS = (exact_delta.lower_definition_9, exact_delta.lower_post_processing)
HALVES = (Fraction(1, 2), Fraction(1, 2))


@strategies.examples(400)
@given(case=strategies.cases(), data=st.data())
def test_exact_bounds_hold_and_are_ordered(case: Case, data: st.DataObject) -> None:
    table = case.truth
    for direction, directed in ((Direction.A_TO_B, case), (Direction.B_TO_A, case.reversed)):
        state = directed.exact_state()
        for y in data.draw(strategies.exp_epsilons(state.factor, state.half_width)):
            truth = exact_truth.table_hockey_stick(table, y, direction)
            by_5, by_9, by_chord = (bound(state, y) for bound in UPPER_BOUNDS)
            low_9, low_post = (bound(state, y) for bound in LOWER_BOUNDS)
            assert 0 <= low_9 <= low_post <= truth <= by_chord <= by_9 <= by_5


@strategies.examples(200)
@given(case=strategies.cases())
def test_masses_are_kept_and_the_real_mass_is_between(case: Case) -> None:
    """Definition 4's conservation, and (*) of the module summed over each bucket."""
    state = case.exact_state()
    assert sum(state.mass_a, state.infinity_a) == 1
    assert sum(state.mass_b, state.infinity_b) == 1
    for index, a, b, b_real in zip(state.indices, state.mass_a, state.mass_b, state.mass_b_real, strict=True):
        highest = a * state.factor ** (state.misplacement - index)
        assert a / state.factor**index <= b_real <= min(b, highest)


def brute_force_index(case: Case, tree: strategies.Tree, ratios: list[int | None]) -> int | None:
    """Definition 6, one event at a time: ``ratios`` holds the leaf indices in the order of the leaves."""
    n = case.half_width
    if isinstance(tree, strategies.TreeLeaf):
        return ratios.pop(0)
    if isinstance(tree, strategies.TreeSquare):
        child = brute_force_index(case, tree.child, ratios)
        return None if child is None else -((-child) // 2)
    left = brute_force_index(case, tree.left, ratios)
    right = brute_force_index(case, tree.right, ratios)
    if left is None or right is None or left + right > n:
        return None
    return max(left + right, -n)


def leaf_positions(tree: strategies.Tree) -> list[int]:
    if isinstance(tree, strategies.TreeLeaf):
        return [tree.position]
    if isinstance(tree, strategies.TreeSquare):
        return leaf_positions(tree.child)
    return leaf_positions(tree.left) + leaf_positions(tree.right)


@strategies.examples(150)
@given(
    case=strategies.cases().filter(
        lambda case: (
            len(case.pairs[0].p_counts) ** len(leaf_positions(case.tree)) <= 300
            and len(case.pairs[-1].p_counts) ** len(leaf_positions(case.tree)) <= 300
        )
    )
)
def test_buckets_are_sums_over_single_events(case: Case) -> None:
    """Lemma 8: every event of the product put into its bucket by Definition 6, nothing convolved."""
    events: list[tuple[Fraction, Fraction, list[int | None]]] = [(Fraction(1), Fraction(1), [])]
    for position in leaf_positions(case.tree):
        pair = case.pairs[position]
        atoms = [(a, b) for a, b in zip(pair.p, pair.q, strict=True) if a or b]
        events = [
            (a * p, b * q, [*indices, index_of(p, q, case.factor, case.half_width)])
            for a, b, indices in events
            for p, q in atoms
        ]
    n = case.half_width
    mass_a = dict.fromkeys([*range(-n, n + 1), None], Fraction(0))
    mass_b = dict(mass_a)
    for a, b, indices in events:
        index = brute_force_index(case, case.tree, indices)
        mass_a[index] += a
        mass_b[index] += b
    state = case.exact_state()
    assert mass_a == {**dict(zip(state.indices, state.mass_a, strict=True)), None: state.infinity_a}
    assert mass_b == {**dict(zip(state.indices, state.mass_b, strict=True)), None: state.infinity_b}


def index_of(p: Fraction, q: Fraction, factor: Fraction, n: int) -> int | None:
    """Definition 4's sets S_i, by trying every one of them."""
    members = [i for i in range(-n + 1, n + 1) if factor ** (i - 1) * q < p <= factor**i * q]
    if p > factor**n * q:
        members.append(None)  # type: ignore[arg-type]
    if p <= factor**-n * q:
        members.append(-n)
    (index,) = members
    return index


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
    if count == 1:
        assert exact_truth.hockey_stick(pair.p, pair.q, y) == forth


# -- the paper's slips -----------------------------------------------------------------------------------------


def virtual_terms_to_the_letter(left: exact.ExactState, right: exact.ExactState) -> dict[int, Fraction]:
    """Definition 7's ℓ~ of T1 x T2 with V(j, k) = a1(j) f^-j ℓ~2(k) + a2(k) f^-k ℓ~1(j) + ℓ~1(j) ℓ~2(k)."""
    f, n = left.factor, left.half_width
    terms = dict.fromkeys(left.indices, Fraction(0))
    for j, a1, b1 in zip(left.indices, left.mass_a, left.mass_b, strict=True):
        for k, a2, b2 in zip(right.indices, right.mass_a, right.mass_b, strict=True):
            if j + k <= n:
                first, second = b1 - a1 / f**j, b2 - a2 / f**k
                terms[max(j + k, -n)] += a1 / f**j * second + a2 / f**k * first + first * second
    return terms


def test_lemma_11_fails_at_the_lowest_bucket_and_convolved_masses_mend_it() -> None:
    # Both outcomes of the leaf lie inside the grid; twice the lower one lies below it.
    leaf = exact.leaf((Fraction(2, 3), Fraction(1, 3)), (Fraction(1, 6), Fraction(5, 6)), Fraction(3, 2), 2)
    state = exact.compose(leaf, leaf)
    terms = virtual_terms_to_the_letter(leaf, leaf)
    # Lemma 11 summed over a bucket: ℓ~(i) = b(i) - a(i) f^-i.
    wanted = {
        index: b - a / state.factor**index
        for index, a, b in zip(state.indices, state.mass_a, state.mass_b, strict=True)
    }
    assert {index for index in terms if terms[index] != wanted[index]} == {-2}
    # By the events: the bucket -2 holds what both outcomes of loss ln(2/5) make together, and no more.
    assert state.mass_b[0] == Fraction(5, 6) ** 2
    # What Definition 7 gives is short by a(-n) (f^-(j+k) - f^n) with j = k = -2.
    assert wanted[-2] - terms[-2] == state.mass_a[0] * (Fraction(3, 2) ** 4 - Fraction(3, 2) ** 2)


@strategies.examples(60)
@given(pair=strategies.counted_pairs(), factor=strategies.factors(), half_width=strategies.half_widths)
def test_definition_7_equals_convolved_masses_above_the_lowest_bucket(
    pair: strategies.CountedPair, factor: Fraction, half_width: int
) -> None:
    leaf = exact.leaf(pair.p, pair.q, factor, half_width)
    state = exact.compose(leaf, leaf)
    terms = virtual_terms_to_the_letter(leaf, leaf)
    for index, a, b in zip(state.indices, state.mass_a, state.mass_b, strict=True):
        if index > -half_width:
            assert terms[index] == b - a / factor**index


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


def test_composition_to_the_letter_of_definition_4_needs_infinity_to_absorb() -> None:
    leaf = exact.leaf((*HALVES, 0), (0, *HALVES), 2, 2)
    assert (leaf.infinity_a, leaf.infinity_b) == (Fraction(1, 2), 0)
    state = exact.compose(leaf, leaf)
    # Three of the four pairs of events have a factor in ∞, among them those whose other factor is in bucket 0.
    assert state.infinity_a == Fraction(3, 4)
    assert sum(state.mass_a, state.infinity_a) == 1


@pytest.mark.parametrize(
    ("index", "squared_index"),
    [(-4, -2), (-3, -1), (-2, -1), (-1, 0), (0, 0), (1, 1), (2, 1), (3, 2), (4, 2)],
)
def test_squaring_rounds_up_for_negative_odd_buckets_too(index: int, squared_index: int) -> None:
    f = Fraction(3, 2)
    # The outcome in question has the ratio f^index exactly; the second one balances the totals.
    small = Fraction(1, 100)
    ratio = f**index
    p, q = (small * ratio, 1 - small * ratio), (small, 1 - small)
    state = exact.leaf(p, q, f, 4)
    other = state.half_width + next(i for i, b in zip(state.indices, state.mass_b, strict=True) if b >= 1 - small)
    squared = exact.square(state)
    assert state.mass_b[index + 4] - (1 - small if index + 4 == other else 0) == small
    assert squared.mass_b[squared_index + 4] >= small
    assert squared.factor == Fraction(9, 4)


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
    assert exact_delta.upper_definition_9(unreset, 1) < truth
    assert all(bound(state, 1) >= truth for bound in UPPER_BOUNDS)


def with_negative_odd_buckets_too_low(state: exact.ExactState) -> exact.ExactState:
    """A squaring that pairs the buckets (-2, -1) to -1, one too low, in place of (-1, 0) to 0."""
    n = state.half_width
    mass_a = [Fraction(0)] * len(state.mass_a)
    for index, mass in zip(state.indices, state.mass_a, strict=True):
        mass_a[(index // 2 if index < 0 else -(-index // 2)) + n] += mass
    return replace(exact.square(state), mass_a=tuple(mass_a))


@pytest.mark.parametrize("squaring", [exact.square, with_negative_odd_buckets_too_low])
def test_witness_of_negative_odd_squaring(
    squaring: Callable[[exact.ExactState], exact.ExactState],
) -> None:
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
        assert all(bound(state, 1) <= truth for bound in LOWER_BOUNDS)
        assert all(bound(state, 1) >= truth for bound in UPPER_BOUNDS)
    else:
        assert exact_delta.upper_definition_5(state, 1) < Fraction(49, 100) < truth


# -- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q", "factor", "half_width", "field"),
    [
        (HALVES, HALVES, Fraction(1), 4, "factor"),
        (HALVES, HALVES, Fraction(1, 2), 4, "factor"),
        (HALVES, HALVES, 1.5, 4, "factor"),
        (HALVES, HALVES, 2, 3, "half_width"),
        (HALVES, HALVES, 2, 0, "half_width"),
        (HALVES, HALVES, 2, -2, "half_width"),
        ((0.5, 0.5), HALVES, 2, 4, "p"),
        (HALVES, (Fraction(3, 2), Fraction(-1, 2)), 2, 4, "q"),
        (HALVES, (Fraction(1, 2), Fraction(1, 4)), 2, 4, "q"),
        (HALVES, (Fraction(1),), 2, 4, "p and q"),
        ((), (), 2, 4, "p"),
    ],
)
def test_bad_leaves_are_refused(p: object, q: object, factor: object, half_width: int, field: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{field}: expected .*, got [^\n]*$"):
        exact.leaf(p, q, factor, half_width)  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [*UPPER_BOUNDS, *LOWER_BOUNDS, exact_delta.edge_index])
@pytest.mark.parametrize("y", [Fraction(1, 2), 0, 2.0, float("nan")])
def test_bad_exp_epsilon_is_refused(bound: object, y: object) -> None:
    state = exact.leaf(HALVES, HALVES, 2, 2)
    with pytest.raises(InvalidInputError, match=r"^exp_epsilon: expected .*, got [^\n]*$"):
        bound(state, y)  # type: ignore[operator]


def test_states_on_different_grids_do_not_compose() -> None:
    state = exact.leaf(HALVES, HALVES, 2, 2)
    for other in (exact.leaf(HALVES, HALVES, 2, 4), exact.square(state)):
        with pytest.raises(InvalidInputError, match="right: expected the grid"):
            exact.compose(state, other)


def test_negative_counts_of_the_truth_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="components: expected counts >= 0, got -1"):
        exact_truth.composed_outcomes([(exact_truth.outcomes(HALVES, HALVES), -1)])


@pytest.mark.parametrize(
    ("y", "index"),
    [(1, 0), (Fraction(3, 2), 1), (Fraction(151, 100), 2), (Fraction(9, 4), 2), (Fraction(81, 16), 4), (6, 5)],
)
def test_edge_index_is_the_first_edge_at_or_above(y: Fraction, index: int) -> None:
    assert exact_delta.edge_index(exact.leaf(HALVES, HALVES, Fraction(3, 2), 4), y) == index
