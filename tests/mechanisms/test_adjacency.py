"""What pairs say of their neighbours: alone, together, reversed, and as the worst of several."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.arguments import Neighbours, checked_components, checked_neighbours
from pbdist.bounds.delta import privacy_bounds
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    MECHANISMS,
    Adjacency,
    FixedBatchGaussian,
    Gaussian,
    Laplace,
    Poisson,
    Product,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    WorstOf,
    checked_adjacency,
    common_adjacency,
    pair_from_canonical,
    stated,
)
from pbdist.mechanisms.pair import Pair
from pbdist.types import Direction, joined
from tests.mechanisms.replaced import Replaced

SAMPLED, REPLACED, PLAIN = SubsampledGaussian(1.0, 0.1), Replaced(2.0), Laplace(3.0)
ADDED, SWAPPED, OPEN = Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE_ONE, Adjacency.AS_STATED
RELATIONS = st.sampled_from(list(Adjacency))


def test_only_pairs_that_know_it_are_for_definite_neighbours() -> None:
    definite = {name for name, kind in MECHANISMS.items() if kind.adjacency is not Pair.adjacency}
    assert {"Product", "Reversed", "WorstOf", "SubsampledGaussian"} <= definite
    assert SAMPLED.adjacency is ADDED
    assert [pair.adjacency for pair in (PLAIN, Gaussian(2.0), Poisson(9.0))] == [OPEN] * 3


@pytest.mark.parametrize(
    "pair",
    [
        SAMPLED,
        Reversed(SAMPLED),
        Product(SAMPLED, PLAIN, Poisson(9.0)),
        Product(SAMPLED, Reversed(SAMPLED)),
        WorstOf(SAMPLED, Product(PLAIN, SAMPLED), attained=[True, False]),
        WorstOf(Product(SAMPLED, PLAIN)),
        RandomizedResponse(0.6),
    ],
    ids=repr,
)
def test_canonical_forms_say_nothing_of_neighbours(pair: Pair) -> None:
    form = pair.canonical()
    assert not {"adjacency", "neighbours"} & form.keys()
    again = pair_from_canonical(form)
    assert again == pair
    assert (again.adjacency, again.removal) == (pair.adjacency, pair.removal)


@given(relations=st.lists(RELATIONS, max_size=6))
def test_what_is_seen_together_is_for_the_one_definite_relation(relations: list[Adjacency]) -> None:
    named = [(relation, f"pair {index}") for index, relation in enumerate(relations)]
    definite = {relation for relation in relations if relation.definite}
    if len(definite) < 2:
        assert joined(named, "field") == next(iter(definite), OPEN)
        return
    with pytest.raises(InvalidInputError, match=r"^field: expected pairs for the same neighbours, got pair \d for"):
        joined(named, "field")


@given(relations=st.lists(RELATIONS, min_size=1, max_size=6))
def test_what_stands_side_by_side_has_a_relation_only_if_all_have_it(relations: list[Adjacency]) -> None:
    found = common_adjacency(relations)
    assert found is OPEN or set(relations) == {found}
    assert (len(set(relations)) > 1) <= (found is OPEN)


@pytest.mark.parametrize(("own", "told"), list(itertools.product(Adjacency, repeat=2)))
def test_a_statement_fills_in_and_gainsays_nothing(own: Adjacency, told: Adjacency) -> None:
    if own.definite and told.definite and own is not told:
        with pytest.raises(InvalidInputError, match=rf"^adjacency: expected {own}, as X is the worst case of .*, got"):
            stated(own, told, "adjacency", "X")
    else:
        assert stated(own, told, "adjacency", "X") is (own if own.definite else told)


def test_other_words_are_refused_and_what_is_meant_is_told() -> None:
    assert checked_adjacency(None) is OPEN
    assert checked_adjacency("zero-out") is checked_adjacency(Adjacency.ZERO_OUT) is Adjacency.ZERO_OUT
    for wrong, meant in (("bounded", "replace-one"), ("add_or_remove", "add-or-remove"), ("zeroout", "zero-out")):
        with pytest.raises(InvalidInputError, match=f"got '{wrong}': did you mean {meant}"):
            checked_adjacency(wrong)
    for wrong in (3, True, ["replace-one"], ""):
        with pytest.raises(
            InvalidInputError,
            match=r"^adjacency: expected one of add-or-remove, add-or-remove-group, replace-one, zero-out",
        ):
            checked_adjacency(wrong)


def test_products_are_for_the_neighbours_of_their_factors() -> None:
    assert Product(SAMPLED, PLAIN).adjacency is ADDED
    assert Product(PLAIN, Product(PLAIN, REPLACED)).adjacency is SWAPPED
    assert Product(PLAIN, Gaussian(2.0)).adjacency is OPEN
    for pair in (lambda: Product(SAMPLED, REPLACED), lambda: Product(REPLACED, Product(PLAIN, SAMPLED))):
        with pytest.raises(
            InvalidInputError,
            match=r"^Product.pairs: expected pairs for the same neighbours, got (\w+) for [\w-]+ and (\w+) for [\w-]+$",
        ) as told:
            pair()
        assert all(name in str(told.value) for name in ("SubsampledGaussian", "Replaced", ADDED, SWAPPED))


def test_a_reversed_pair_exchanges_removal_and_addition() -> None:
    assert (SAMPLED.removal, Reversed(SAMPLED).removal) == (Direction.A_TO_B, Direction.B_TO_A)
    assert Reversed(SAMPLED).adjacency is ADDED
    assert Reversed(REPLACED).adjacency is SWAPPED
    assert Reversed(REPLACED).removal is PLAIN.removal is None
    assert Product(Reversed(SAMPLED), PLAIN).removal is Direction.B_TO_A


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_a_pair_for_records_replaced_removes_none_whatever_bounds_it() -> None:
    """Fixed batches are bounded from below by a pair for records removed."""
    pair = FixedBatchGaussian(1.0, 10, 100)
    assert {factor.adjacency for factor in pair.factors} == {ADDED, SWAPPED}
    assert (pair.adjacency, pair.removal) == (SWAPPED, None)
    each = privacy_bounds(pair, compositions=1, epsilon=1.0, direction="each")
    assert (each.adjacency, each.direction.attrs.keys()) == ("replace-one", {"long_name"})
    with pytest.raises(InvalidInputError, match=r"^adjacency: expected replace-one, as FixedBatchGaussian is"):
        checked_neighbours([(pair, 1)], "add-or-remove")


def test_a_record_that_moves_is_neither_removed_nor_added() -> None:
    """It is removed here and added there: who calls that one record replaced has to say so."""
    moved = Product(SAMPLED, Reversed(SubsampledGaussian(2.0, 0.1)))
    for pair in (moved, Product(moved, SAMPLED), Product(PLAIN, moved), WorstOf(moved, SAMPLED)):
        assert (pair.adjacency, pair.removal) == (OPEN, None)
    assert WorstOf(moved, neighbours="replace-one").adjacency is SWAPPED


def test_the_worst_of_several_is_for_their_neighbours_or_for_those_it_names() -> None:
    assert WorstOf(SAMPLED, PLAIN).adjacency is ADDED
    assert WorstOf(PLAIN, Gaussian(2.0)).adjacency is OPEN
    both = WorstOf(SAMPLED, Reversed(SAMPLED))
    assert (both.adjacency, both.removal) == (ADDED, None)
    with pytest.raises(InvalidInputError, match=r"^WorstOf.pairs: expected pairs for the same neighbours"):
        WorstOf(SAMPLED, REPLACED)
    with pytest.raises(InvalidInputError, match=r"^WorstOf.neighbours: expected one of"):
        WorstOf(PLAIN, neighbours="any")
    named = WorstOf(SAMPLED, SubsampledGaussian(2.0, 0.1), attained=[False, True], neighbours=Adjacency.AS_STATED)
    assert (named.adjacency, named.removal) == (OPEN, None)
    assert named != WorstOf(*named.pairs, attained=named.attained)
    assert named.canonical()["neighbours"] == "as-stated"
    assert pair_from_canonical(named.canonical()) == named


def test_several_pairs_of_a_round_are_for_the_same_neighbours() -> None:
    assert checked_neighbours([(SAMPLED, 2), (PLAIN, 1)], None) == Neighbours(ADDED, Direction.A_TO_B)
    assert checked_neighbours([(SAMPLED, 2), (Reversed(SAMPLED), 1)], None) == Neighbours(OPEN, None)
    assert checked_neighbours([(PLAIN, 1)], "zero-out") == Neighbours(Adjacency.ZERO_OUT, None)
    for ask in (
        lambda: checked_components([(SAMPLED, 1), (REPLACED, 1)]),
        lambda: checked_neighbours([(SAMPLED, 1), (REPLACED, 1)], None),
    ):
        with pytest.raises(InvalidInputError, match=r"^mechanism: expected pairs for the same neighbours"):
            ask()
    with pytest.raises(InvalidInputError, match=r"^adjacency: expected add-or-remove, as SubsampledGaussian is"):
        checked_neighbours([(PLAIN, 1), (SAMPLED, 1)], "zero-out")


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_a_removal_shows_more_than_an_addition_can(rate: float) -> None:
    """A is with the record. Without it P_B / P_A is at most 1 / (1 - rate), so that B||A has no δ beyond that ε."""
    each = privacy_bounds(
        SubsampledGaussian(1.0, rate), compositions=1, epsilon=-2 * math.log1p(-rate), direction="each"
    )
    removal, addition = each.sel(direction=SAMPLED.removal.value), each.sel(direction=SAMPLED.removal.opposite.value)
    assert float(removal.delta_lower[0, 0]) > 0.0
    assert float(addition.delta_upper[0, 0]) <= 1e-40
    assert each.direction.attrs["comment"] == "A||B: a record is removed; B||A: a record is added"
