"""The examples of Guerra-Balboa et al. 2024 as plans, with sharper numbers than the paper's; and what is attained."""

import math
from typing import Any

import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    Gaussian,
    Histogram,
    InvalidInputError,
    Laplace,
    Product,
    RandomizedResponse,
    Reversed,
    epsilon_bounds,
    privacy_bounds,
)
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, GivenRelation, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.release.declared import (
    Analysis,
    Memberships,
    Overlapping,
    Partition,
    Profile,
    Touch,
    on_each_block,
)
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import Pair, WorstOf

pytestmark = pytest.mark.slow

LOADED = Histogram((1, 3, 6), (3, 3, 4))
ANY = GivenRelation("any", lambda first, second: bool(first != second))


def delta_of(plan: ReleasePlan, epsilon: float, compositions: int = 1) -> tuple[float, float]:
    found = plan.privacy_bounds(compositions=compositions, epsilon=epsilon)
    return found.delta_lower.item(), found.delta_upper.item()


def pure_epsilon(plan: ReleasePlan) -> float:
    """Return ε from which on nothing is left of δ, between a hundredth less and a hundredth more."""
    largest = plan.epsilon_bounds(compositions=1, delta=1e-12).epsilon_upper.item()
    assert delta_of(plan, largest * 1.01)[1] < 1e-12
    assert delta_of(plan, largest * 0.9)[1] > 1e-9
    return float(largest)


def follows(plan: ReleasePlan, pair: Pair) -> None:
    """Check that a plan is one pair, and attained."""
    losses = [0.0, 0.2, 1.0]
    wanted = privacy_bounds(pair, compositions=[1, 3], epsilon=losses)
    found = plan.privacy_bounds(compositions=[1, 3], epsilon=losses)
    assert np.all(found.delta_lower <= wanted.delta_upper)
    assert np.all(wanted.delta_lower <= found.delta_upper)
    assert np.all(found.delta_upper <= found.delta_lower * 1.0011 + 1e-9)


@pytest.mark.parametrize(("blocks", "paper", "sharp"), [(8, 6.0, 6.0), (4, 6.0, 4.0)])
def test_example_vi_8(blocks: int, paper: float, sharp: float) -> None:
    """Records in up to six of the blocks, (1, 1e-5) each: (6, 6e-5), and no more than blocks there are."""
    names = [f"b{k}" for k in range(blocks)]
    one = Analysis("one", ApproximateDP(1.0, 1e-5), attained="every")
    plan = ReleasePlan(Unbounded(), on_each_block(one, names), Overlapping(names, 6))
    lower, upper = delta_of(plan, sharp)
    assert sharp <= paper
    assert lower == pytest.approx(-math.expm1(sharp * math.log1p(-1e-5)), rel=1e-3)
    assert upper <= sharp * 1e-5
    assert delta_of(plan, sharp * 0.9)[0] > sharp * 1e-5


def test_example_iv_2() -> None:
    """A trajectory of five places: the count changes, and one location, which moves by up to 5, once in the sum."""
    length = 5.0
    count = Analysis("count", ApproximateDP(1.0, 0.0), attained="some")
    place = Analysis("place", ApproximateDP(length, 0.0), attained="some")
    plan = ReleasePlan(Unbounded(), [count, place])
    assert pure_epsilon(plan) == pytest.approx(6.0, abs=0.02)
    two = ReleasePlan(Unbounded(), [count, place, Analysis("again", ApproximateDP(length, 0.0))])
    assert pure_epsilon(two) == pytest.approx(11.0, abs=0.05)


def test_example_iv_5() -> None:
    names = [f"hospital {k}" for k in range(10)]
    plan = ReleasePlan(Unbounded(), on_each_block(Analysis("a", ApproximateDP(0.1, 0.0)), names), Overlapping(names, 3))
    assert pure_epsilon(plan) == pytest.approx(0.3, abs=1e-3)
    everywhere = ReleasePlan(Unbounded(), [Analysis(name, ApproximateDP(0.1, 0.0)) for name in names])
    assert pure_epsilon(everywhere) == pytest.approx(1.0, abs=1e-2)


def bounded_of_three(domain: str) -> ReleasePlan:
    analyses = [
        Analysis(name, ApproximateDP(size, 0.0), [name], Bounded(), domain)  # type: ignore[arg-type]
        for name, size in zip("xyz", (0.5, 0.3, 0.2), strict=True)
    ]
    return ReleasePlan(Bounded(), analyses, Partition(["x", "y", "z"]))


def test_examples_iv_9_and_iv_14() -> None:
    """(.5, .3, .2) over a partition: .8 between two blocks, .5 within one."""
    assert pure_epsilon(bounded_of_three("common")) == pytest.approx(0.8, abs=2e-3)
    analyses = [
        Analysis(name, ApproximateDP(size, 0.0), [name]) for name, size in zip("xyz", (0.5, 0.3, 0.2), strict=True)
    ]
    assert pure_epsilon(ReleasePlan(Unbounded(), analyses, Partition(["x", "y", "z"]))) == pytest.approx(0.5, abs=2e-3)
    same = Profile([Touch("x", 1, 1)])
    within = ReleasePlan(ANY, bounded_of_three("common").analyses, Partition(["x", "y", "z"]), [same])
    assert pure_epsilon(within) == pytest.approx(0.5, abs=2e-3)


def test_example_ii_9_is_refused() -> None:
    """Counts of two blocks, each 0-DP for bounded neighbours of its own domain: together they reveal all."""
    with pytest.raises(InvalidInputError, match=r"x.declared: .*Example II\.9"):
        bounded_of_three("own")
    with pytest.raises(InvalidInputError, match=r"Example II\.9"):
        ReleasePlan(
            Unbounded(), [Analysis("x", ApproximateDP(0.0, 0.0), ["x"], Bounded())], Partition(["x"], exhaustive=False)
        )
    # Without another block, records stay in it.
    alone = ReleasePlan(
        Bounded(), [Analysis("x", ApproximateDP(1.0, 0.0), ["x"], Bounded(), attained="every")], Partition(["x"])
    )
    follows(alone, ApproximateDP(1.0, 0.0))


def test_the_common_domain_needs_records_that_are_not_read() -> None:
    """Unbounded neighbours differ in size: nothing fills up what is read by an analysis of all records."""
    for reads, blocks in ((None, None), (["x", "y"], Partition(["x", "y"]))):
        with pytest.raises(InvalidInputError, match=r"Example II\.9"):
            ReleasePlan(Unbounded(), [Analysis("a", LOADED, reads, Bounded(), "common")], blocks)  # type: ignore[arg-type]
    ReleasePlan(
        Unbounded(),
        [Analysis("a", LOADED, ["x", "y"], Bounded(), "common")],
        Partition(["x", "y"], exhaustive=False),
    )


def test_example_iv_15() -> None:
    """Two records of what is read become two others: two changes, where the paper counts four."""
    analysis = Analysis("a", ApproximateDP(1.0, 0.0), ["x"], Bounded(), "common")
    plan = ReleasePlan(ANY, [analysis], Partition(["x", "y"]), [Profile([Touch("a", 2, 2)])])
    assert pure_epsilon(plan) == pytest.approx(2.0, abs=1e-2)


def test_a_value_that_changes_within_its_block_moves_the_sum_by_two() -> None:
    """Values in [-1, 1]: μ = 2/σ, and not √2/σ as of a removal and an addition in different blocks."""
    sigma = 3.0
    total = Analysis("sum", Gaussian(sigma), ["x"], replaced=Gaussian(sigma, 2.0), attained="some")
    one = ReleasePlan(Bounded(), [total], Partition(["x"]))
    follows(one, Gaussian(sigma, 2.0))
    undeclared = ReleasePlan(Bounded(), [Analysis("sum", Gaussian(sigma), ["x"])], Partition(["x"]))
    assert delta_of(undeclared, 0.5)[1] == pytest.approx(delta_of(one, 0.5)[1])
    two = ReleasePlan(Bounded(), [total, Analysis("other", Gaussian(sigma), ["y"])], Partition(["x", "y"]))
    assert delta_of(two, 0.5)[1] == pytest.approx(delta_of(one, 0.5)[1])


def count(name: str, pair: Pair, reads: Any = None, **more: Any) -> Analysis:
    return Analysis(name, pair, reads, attained="every", replaced="unchanged", **more)


@pytest.mark.parametrize("pair", [RandomizedResponse(0.7), ApproximateDP(0.4, 0.01), LOADED, Gaussian(2.0)])
def test_what_is_attained_is_met_from_both_sides(pair: Pair) -> None:
    blocks = Partition(["x", "y", "z"])
    follows(ReleasePlan(Unbounded(), [count("a", pair)]), pair)
    follows(ReleasePlan(Unbounded(), [count(n, pair, [n]) for n in "xyz"], blocks), pair)
    follows(
        ReleasePlan(Unbounded(), [count(n, pair, [n]) for n in "xyz"], Overlapping(["x", "y", "z"], 2)),
        Product(pair, pair),
    )
    moved = ReleasePlan(Bounded(), [count(n, pair, [n]) for n in "xyz"], blocks)
    follows(moved, Product(pair, pair if pair.symmetric else Reversed(pair)))  # type: ignore[arg-type]
    follows(ReleasePlan(Unbounded(), [count("a", pair, repeats=3)]), Product(pair, pair, pair))
    follows(ReleasePlan(FreeLunch(), [Analysis("a", pair, declared=FreeLunch(), attained="some")]), pair)
    follows(ReleasePlan(UserLevel(3), [Analysis("a", pair, declared=UserLevel(3), attained="some")]), pair)
    follows(ReleasePlan(EdgeLevel(), [Analysis("a", pair, declared=EdgeLevel(), attained="some")]), pair)
    sets = Memberships([["x", "y"], ["z"]])
    follows(ReleasePlan(Unbounded(), [count(n, pair, [n]) for n in "xyz"], sets), Product(pair, pair))


def test_one_attained_somewhere_stands_beside_others_attained_everywhere() -> None:
    some = Analysis("some", LOADED, ["x"], attained="some")
    every = count("all", RandomizedResponse(0.6))
    follows(ReleasePlan(Unbounded(), [some, every], Partition(["x", "y"])), Product(LOADED, RandomizedResponse(0.6)))
    second = Analysis("second", LOADED, ["x"], attained="some")
    assert math.isnan(delta_of(ReleasePlan(Unbounded(), [some, second], Partition(["x"])), 0.1)[0])
    apart = ReleasePlan(
        Unbounded(), [some, Analysis("second", LOADED, ["y"], attained="some")], Overlapping(["x", "y"], 2)
    )
    lower, upper = delta_of(apart, 0.1)
    # A record of one block alone attains one of them: that is a lower bound, but not the worst.
    assert 0.0 < lower < upper / 1.01


def test_users_attain_the_sum_of_their_shifts() -> None:
    analyses = [count(n, Gaussian(4.0), [n]) for n in "xy"]
    follows(ReleasePlan(UserLevel(4), analyses[:1], Partition(["x"])), Gaussian(1.0))
    plan = ReleasePlan(UserLevel(4), analyses, Partition(["x", "y"]))
    follows(plan, Gaussian(1.0))
    both = ReleasePlan(UserLevel(4), analyses, Overlapping(["x", "y"], 2))
    follows(both, Product(Gaussian(1.0), Gaussian(1.0)))
    laplace = ReleasePlan(
        NodeLevel(3, "public"), [Analysis("e", Laplace(6.0), ["x"], EdgeLevel(), attained="every")], Partition(["x"])
    )
    follows(laplace, Laplace(2.0))


def test_a_bound_on_a_chain_is_no_lower_bound() -> None:
    for analysis in (count("a", LOADED, ["x"]), count("a", RandomizedResponse(0.7), ["x"])):
        plan = ReleasePlan(UserLevel(2), [analysis], Partition(["x"]))
        lower, upper = delta_of(plan, 0.0)
        alone = privacy_bounds(analysis.pair, compositions=1, epsilon=0.0)
        # A user of one record attains the pair itself.
        assert lower == pytest.approx(alone.delta_lower.item(), rel=2e-3)
        assert lower < upper / 1.05


def test_shifts_that_are_rounded_are_no_lower_bound() -> None:
    rounded = ReleasePlan(ANY, [count("a", Gaussian(1.0, 0.1))], None, [Profile([Touch("a", 3)], attained=True)])
    assert math.isnan(delta_of(rounded, 0.1)[0])
    exact = ReleasePlan(ANY, [count("a", Gaussian(1.0, 0.125))], None, [Profile([Touch("a", 3)], attained=True)])
    follows(exact, Gaussian(1.0, 0.375))


@pytest.mark.parametrize(("attained", "distance", "known"), [(False, 1, False), (True, 1, True), (True, 2, False)])
def test_declared_profiles_tell_themselves_whether_they_are_attained(
    attained: bool, distance: int, known: bool
) -> None:
    """Whatever is said of the analyses; and a bound on a chain is not attained."""
    for analysis in (count("a", LOADED), Analysis("a", LOADED), Analysis("a", LOADED, declared=ANY, attained="every")):
        plan = ReleasePlan(ANY, [analysis], None, [Profile([Touch("a", distance)], attained)])
        assert math.isnan(delta_of(plan, 0.1)[0]) is not known


def test_steps_of_a_given_relation_are_counted() -> None:
    """The distance of a declared touch is that in the granularity of the pair."""
    analysis = Analysis("a", ApproximateDP(1.0, 0.0), declared=ANY)
    plans = [ReleasePlan(ANY, [analysis], None, [Profile([Touch("a", k)])]) for k in (1, 2, 3)]
    assert [round(pure_epsilon(plan), 1) for plan in plans] == [1.0, 2.0, 3.0]
    both = ReleasePlan(ANY, [analysis], None, [Profile([Touch("a", 1, 2)])])
    assert pure_epsilon(both) == pytest.approx(3.0, abs=0.05)


def test_a_user_and_a_node_are_one_step() -> None:
    user = ReleasePlan(UserLevel(5), [Analysis("a", ApproximateDP(1.0, 0.0), declared=UserLevel(5))])
    node = ReleasePlan(
        NodeLevel(5, "public"), [Analysis("a", ApproximateDP(1.0, 0.0), declared=NodeLevel(5, "public"))]
    )
    five = ReleasePlan(UserLevel(5), [Analysis("a", ApproximateDP(1.0, 0.0))])
    assert [round(pure_epsilon(plan), 1) for plan in (user, node, five)] == [1.0, 1.0, 5.0]


@pytest.mark.parametrize("domain", ["own", "common"])
@pytest.mark.parametrize("declared", [Unbounded(), Bounded(), UserLevel(2), EdgeLevel()])
def test_free_lunch_needs_pairs_for_it(declared: Any, domain: Any) -> None:
    """All databases are neighbours: one record removed is not what happens."""
    with pytest.raises(InvalidInputError, match=r"a.declared: expected a pair for FreeLunch\(\), got one for"):
        ReleasePlan(FreeLunch(), [Analysis("a", LOADED, ["x"], declared, domain)], Partition(["x", "y"]))


@pytest.mark.parametrize("first", ["x", "y"])
def test_what_is_reversed_twice_is_counted(first: str) -> None:
    analyses = [
        Analysis("a", LOADED, ["x"]),
        Analysis("b", Reversed(Reversed(LOADED)), ["x"]),
        Analysis("c", Reversed(LOADED), ["y"]),
    ]
    ordered = sorted(analyses, key=lambda one: one.reads != (first,))
    plan = ReleasePlan(Unbounded(), ordered, Partition(["y", "x"]))
    reverse = ReleasePlan(Unbounded(), ordered, Partition(["x", "y"]))
    wanted = privacy_bounds(Product(LOADED, LOADED), compositions=1, epsilon=0.2).delta_upper.item()
    assert delta_of(plan, 0.2)[1] == delta_of(reverse, 0.2)[1] == pytest.approx(wanted)


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_the_plan_as_one_mechanism() -> None:
    analyses = [count("a", LOADED, ["x"]), count("b", Gaussian(2.0), ["y"]), Analysis("c", RandomizedResponse(0.6))]
    plan = ReleasePlan(Unbounded(), analyses, Partition(["x", "y"]))
    pair = plan.pair()
    assert isinstance(pair, WorstOf)
    assert pair.attained == (False, False)
    found = privacy_bounds(pair, compositions=2, epsilon=0.3)
    assert found.delta_upper.item() == pytest.approx(delta_of(plan, 0.3, 2)[1], rel=2e-3)
    assert found.delta_lower.item() == 0.0
    alone = ReleasePlan(Unbounded(), analyses[:1], Partition(["x", "y"])).pair()
    assert alone == LOADED
    largest = epsilon_bounds(pair, compositions=2, delta=1e-4).epsilon_upper.item()
    assert largest == pytest.approx(plan.epsilon_bounds(compositions=2, delta=1e-4).epsilon_upper.item(), rel=2e-3)


def test_what_tells_nothing_has_no_loss() -> None:
    """A count of all records, of which one is changed."""
    plan = ReleasePlan(Bounded(), [count("a", LOADED)])
    assert delta_of(plan, 0.0) == (0.0, 0.0)
    assert plan.epsilon_bounds(compositions=1, delta=0.1).epsilon_upper.item() == 0.0
    assert privacy_bounds(plan.pair(), compositions=1, epsilon=0.0).delta_upper.item() == 0.0
