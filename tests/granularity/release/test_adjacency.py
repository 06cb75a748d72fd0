"""What release plans say of their neighbours: never more than their granularity."""

import pytest

from pbdist import InvalidInputError, Laplace, Product, SubsampledGaussian, WorstOf
from pbdist.granularity import Analysis, Bounded, FreeLunch, Memberships, Overlapping, ReleasePlan, Unbounded, UserLevel
from pbdist.granularity.notions import EdgeLevel, GivenRelation
from pbdist.mechanisms import Adjacency, pair_from_canonical
from tests.mechanisms.replaced import Replaced

SAMPLED = SubsampledGaussian(2.0, 0.1)
BLOCKS = Overlapping(("a", "b", "c"), at_most=2)


def runs(pair: object = SAMPLED, **given: object) -> tuple[Analysis, ...]:
    return tuple(Analysis(f"run of {block}", pair, reads=(block,), **given) for block in BLOCKS.blocks)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pair", "declared"),
    [(SAMPLED, Bounded()), (SAMPLED, FreeLunch()), (Replaced(2.0), Unbounded()), (Replaced(2.0), EdgeLevel())],
)
def test_an_analysis_is_not_declared_for_other_neighbours_than_its_pair_says(pair: object, declared: object) -> None:
    with pytest.raises(
        InvalidInputError, match=r"^count.pair: expected a pair for the neighbours of .*, got .*worst case of"
    ):
        Analysis("count", pair, declared=declared)  # type: ignore[arg-type]


def test_what_a_changed_record_does_is_no_pair_for_a_removal() -> None:
    with pytest.raises(
        InvalidInputError, match=r"^count.replaced: expected a pair for the neighbours of Bounded\(\), got"
    ):
        Analysis("count", Laplace(2.0), replaced=SAMPLED)
    assert Analysis("count", Laplace(2.0), replaced=Replaced(2.0)).declared == Unbounded()
    given = GivenRelation("any", lambda first, second: first != second)
    assert Analysis("count", SAMPLED, declared=given).pair == SAMPLED


def test_analyses_of_a_plan_are_for_the_same_neighbours() -> None:
    swapped = Analysis("swapped", Replaced(2.0), declared=Bounded(), domain="common")
    with pytest.raises(
        InvalidInputError, match=r"^ReleasePlan.analyses: expected pairs for the same neighbours, got run"
    ):
        ReleasePlan(Bounded(), (*runs(), swapped), BLOCKS)


def test_a_plan_for_single_records_says_what_its_pairs_say() -> None:
    plan = ReleasePlan(Unbounded(), runs(), BLOCKS)
    assert plan.adjacency is plan.pair().adjacency is Adjacency.ADD_OR_REMOVE
    # As it was stored before pairs said anything.
    assert set(plan.pair().canonical()) == {"mechanism", "pairs", "attained"}
    bounds = plan.epsilon_bounds(compositions=1, delta=1e-3)
    assert (bounds.adjacency, bounds.granularity) == ("add-or-remove", "Unbounded()")
    assert ReleasePlan(Unbounded(), runs(Laplace(2.0)), BLOCKS).pair().adjacency is Adjacency.AS_STATED


def test_users_are_not_single_records_but_removals() -> None:
    plan = ReleasePlan(UserLevel(1), runs(), BLOCKS)
    assert plan.adjacency is Adjacency.AS_STATED
    assert plan.pair() == ReleasePlan(Unbounded(), runs(), BLOCKS).pair()


def test_a_removal_within_a_replacement_is_no_removal_from_the_release() -> None:
    """A record is in "b" alone, or in both: one that is replaced is at most removed from "a", or added there.

    The pairs are those of removals from "a". But one that is removed from the release may be removed from both.
    """
    blocks = Memberships((("b",), ("a", "b")))
    analyses = tuple(
        Analysis(f"run of {block}", SAMPLED, reads=(block,), replaced="unchanged", attained="every") for block in "ab"
    )
    replaced = ReleasePlan(Bounded(), analyses, blocks).pair()
    removed = ReleasePlan(Unbounded(), analyses, blocks).pair()
    assert isinstance(replaced, WorstOf)
    assert (replaced.adjacency, replaced.removal) == (Adjacency.REPLACE_ONE, None)
    assert WorstOf(*replaced.pairs).adjacency is Adjacency.ADD_OR_REMOVE
    assert removed == Product(SAMPLED, SAMPLED)
    assert removed.adjacency is Adjacency.ADD_OR_REMOVE
    assert max(len(pair.factors) for pair in replaced.pairs) == 1
    assert pair_from_canonical(replaced.canonical()) == replaced
