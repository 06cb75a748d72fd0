"""Bad input is refused, and the field is named; and odd plans that are none."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pbdist import Gaussian, Histogram, InvalidInputError, RandomizedResponse
from pbdist.granularity.notions import (
    Bounded,
    EdgeLevel,
    FreeLunch,
    GivenRelation,
    NodeLevel,
    Unbounded,
    UserLevel,
)
from pbdist.granularity.release import profiles
from pbdist.granularity.release.declared import Analysis, Memberships, Overlapping, Partition, Profile, Touch
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import WorstOf

PAIR = RandomizedResponse(0.6)
ONE = Analysis("a", PAIR)
ANY = GivenRelation("any", lambda first, second: bool(first != second))
OF_THREE = Analysis("a", PAIR, None, UserLevel(3))
#: Things that are no field of anything here.
STRANGE: tuple[Any, ...] = (
    None,
    3.5,
    object(),
    b"x",
    {"x": 1},
    np.array([1, 2]),
    np.array(["own", "some"]),
    float("nan"),
)


def refused(told: str, make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(told)):
        make()


@pytest.mark.parametrize("strange", STRANGE, ids=range(len(STRANGE)))
def test_strange_values_are_refused_by_name(strange: Any) -> None:
    refused("Partition.blocks", lambda: Partition(strange))
    refused("Partition.exhaustive", lambda: Partition(["x"], strange))
    refused("Overlapping.blocks", lambda: Overlapping(strange, 1))
    refused("Overlapping.at_most", lambda: Overlapping(["x"], strange))
    refused("Overlapping.exhaustive", lambda: Overlapping(["x"], 1, strange))
    refused("Memberships.sets", lambda: Memberships(strange))
    refused("Memberships.sets[0]", lambda: Memberships([strange]))
    refused("Touch.analysis", lambda: Touch(strange, 1))
    refused("Touch.removed", lambda: Touch("a", strange))
    refused("Touch.added", lambda: Touch("a", 1, strange))
    refused("Profile.touches", lambda: Profile(strange))
    refused("Profile.touches[0]", lambda: Profile([strange]))  # type: ignore[arg-type]
    refused("Profile.attained", lambda: Profile([Touch("a", 1)], strange))  # type: ignore[arg-type]
    refused("Analysis.name", lambda: Analysis(strange, PAIR))
    refused("a.pair", lambda: Analysis("a", strange))
    if strange is not None:
        refused("a.reads", lambda: Analysis("a", PAIR, strange))
        refused("a.replaced", lambda: Analysis("a", PAIR, replaced=strange))
        refused("ReleasePlan.blocks", lambda: ReleasePlan(Unbounded(), [ONE], strange))  # type: ignore[arg-type]
    refused("a.reads", lambda: Analysis("a", PAIR, [strange]))  # type: ignore[arg-type]
    refused("a.declared", lambda: Analysis("a", PAIR, None, strange))
    refused("a.domain", lambda: Analysis("a", PAIR, domain=strange))
    refused("a.repeats", lambda: Analysis("a", PAIR, repeats=strange))
    refused("a.attained", lambda: Analysis("a", PAIR, attained=strange))
    refused("ReleasePlan.granularity", lambda: ReleasePlan(strange, [ONE]))  # type: ignore[arg-type]
    refused("ReleasePlan.analyses", lambda: ReleasePlan(Unbounded(), strange))
    refused("ReleasePlan.analyses[0]", lambda: ReleasePlan(Unbounded(), [strange]))  # type: ignore[arg-type]
    refused("ReleasePlan.profiles", lambda: ReleasePlan(ANY, [ONE], None, strange))
    refused("ReleasePlan.profiles[0]", lambda: ReleasePlan(ANY, [ONE], None, [strange]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "make"),
    [
        ("Partition.blocks", lambda: Partition([])),
        ("Partition.blocks", lambda: Partition("xy")),
        ("Partition.blocks", lambda: Partition(["x", ""])),
        ("Partition.blocks: expected each name once", lambda: Partition(["x", "x"])),
        ("Partition.exhaustive", lambda: Partition(["x"], 1)),
        ("Overlapping.at_most", lambda: Overlapping(["x"], 0)),
        ("Overlapping.at_most", lambda: Overlapping(["x"], True)),
        ("Overlapping.at_most", lambda: Overlapping(["x"], 1.0)),
        ("Overlapping.blocks: expected each name once", lambda: Overlapping(["x", "x"], 1)),
        ("Memberships.sets: expected a set", lambda: Memberships([])),
        ("Memberships.sets: expected a set", lambda: Memberships([()])),
        ("Memberships.sets: expected each set once", lambda: Memberships([("x", "y"), ("y", "x")])),
        ("Memberships.sets[1]: expected each name once", lambda: Memberships([("x",), ("y", "y")])),
        ("Memberships.sets[0]", lambda: Memberships(["xy"])),
        ("Touch: give the records removed or added", lambda: Touch("a")),
        ("Touch.removed", lambda: Touch("a", -1)),
        ("Touch.added", lambda: Touch("a", 1, True)),
        ("Touch.analysis", lambda: Touch("", 1)),
        ("Profile.touches: expected each analysis once", lambda: Profile([Touch("a", 1), Touch("a", 2)])),
        ("Profile.touches", lambda: Profile("a")),
        ("Profile.touches", lambda: Profile(Touch("a", 1))),
        ("Profile.attained", lambda: Profile([Touch("a", 1)], 1)),
        ("Analysis.name", lambda: Analysis("", PAIR)),
        ("a.pair", lambda: Analysis("a", WorstOf(PAIR))),
        ("a.pair", lambda: Analysis("a", RandomizedResponse)),
        ("a.reads", lambda: Analysis("a", PAIR, "x")),
        ("a.reads: give at least one name", lambda: Analysis("a", PAIR, [])),
        ("a.reads: expected each name once", lambda: Analysis("a", PAIR, ["x", "x"])),
        ("a.reads: expected the names of blocks, got a function", lambda: Analysis("a", PAIR, print)),
        ("a.declared", lambda: Analysis("a", PAIR, None, Unbounded)),
        ("a.domain", lambda: Analysis("a", PAIR, domain="other")),
        ("a.replaced", lambda: Analysis("a", PAIR, replaced="same")),
        ("a.replaced", lambda: Analysis("a", PAIR, replaced=WorstOf(PAIR))),
        ("a.replaced", lambda: Analysis("a", PAIR, None, Bounded(), replaced=PAIR)),
        ("a.replaced", lambda: Analysis("a", PAIR, None, UserLevel(2), replaced="unchanged")),
        ("a.repeats", lambda: Analysis("a", PAIR, repeats=0)),
        ("a.repeats", lambda: Analysis("a", PAIR, repeats=True)),
        ("a.repeats", lambda: Analysis("a", PAIR, repeats=2.0)),
        ("a.attained", lambda: Analysis("a", PAIR, attained=True)),
        ("a.attained", lambda: Analysis("a", PAIR, attained="always")),
        ("ReleasePlan.granularity", lambda: ReleasePlan(Unbounded, [ONE])),
        ("ReleasePlan.analyses", lambda: ReleasePlan(Unbounded(), [])),
        ("ReleasePlan.analyses", lambda: ReleasePlan(Unbounded(), ONE)),
        ("ReleasePlan.analyses", lambda: ReleasePlan(Unbounded(), "a")),
        ("ReleasePlan.analyses: expected each name once", lambda: ReleasePlan(Unbounded(), [ONE, ONE])),
        ("a.reads: expected blocks among", lambda: ReleasePlan(Unbounded(), [Analysis("a", PAIR, ["x"])])),
        (
            "a.reads: expected blocks among",
            lambda: ReleasePlan(Unbounded(), [Analysis("a", PAIR, ["x", "z"])], Partition(["x", "y"])),
        ),
        ("ReleasePlan.blocks", lambda: ReleasePlan(Unbounded(), [ONE], ["x"])),
        (
            "ReleasePlan.profiles: leave them out",
            lambda: ReleasePlan(Bounded(), [ONE], None, [Profile([Touch("a", 1)])]),
        ),
        ("ReleasePlan.profiles: give every way", lambda: ReleasePlan(ANY, [ONE])),
        (
            "ReleasePlan.profiles: expected analyses among",
            lambda: ReleasePlan(ANY, [ONE], None, [Profile([Touch("b", 1)])]),
        ),
        (
            "granularity: expected NodeLevel with a maximal degree",
            lambda: ReleasePlan(NodeLevel(presence="public"), [ONE]),
        ),
        ("granularity: expected NodeLevel(presence='public')", lambda: ReleasePlan(NodeLevel(3), [ONE])),
        ("a.declared: expected a pair for", lambda: ReleasePlan(EdgeLevel(), [ONE])),
        ("a.declared: expected a pair for", lambda: ReleasePlan(NodeLevel(2, "public"), [ONE])),
        (
            "a.declared: expected a pair for",
            lambda: ReleasePlan(UserLevel(2), [OF_THREE]),
        ),
        ("a.declared: expected a pair for", lambda: ReleasePlan(Unbounded(), [Analysis("a", PAIR, None, EdgeLevel())])),
        ("a.declared: expected a pair for", lambda: ReleasePlan(Unbounded(), [Analysis("a", PAIR, None, ANY)])),
        ("changes: expected at most 1000", lambda: ReleasePlan(UserLevel(1001), [ONE])),
    ],
)
def test_values_out_of_range_are_refused_by_name(told: str, make: Callable[[], Any]) -> None:
    refused(told, make)


def test_a_plan_in_which_nothing_is_read_that_changes_is_refused() -> None:
    """Records that are in no block that is read."""
    sets = Memberships([["x"], []])
    assert len(ReleasePlan(Unbounded(), [Analysis("a", PAIR, ["x"])], sets).changes) == 1
    assert len(ReleasePlan(Bounded(), [Analysis("a", PAIR, ["x"], replaced="unchanged")], sets).changes) == 3


def test_more_blocks_of_a_record_than_there_are_is_all_of_them() -> None:
    analyses = [Analysis(name, PAIR, [name]) for name in "xy"]
    many = ReleasePlan(Unbounded(), analyses, Overlapping(["x", "y"], 9))
    assert many.changes == ReleasePlan(Unbounded(), analyses, Overlapping(["x", "y"], 2)).changes


def test_one_block_that_holds_all_records_is_all_records() -> None:
    block = ReleasePlan(Bounded(), [Analysis("a", PAIR, ["x"])], Partition(["x"]))
    assert block.changes == ReleasePlan(Bounded(), [ONE]).changes == (Profile([Touch("a", 1, 1)]),)
    rest = ReleasePlan(Bounded(), [Analysis("a", PAIR, ["x"])], Partition(["x"], exhaustive=False))
    assert len(rest.changes) == 3


def test_a_release_of_no_neighbours_that_differ_has_no_loss() -> None:
    plan = ReleasePlan(ANY, [ONE], None, [Profile([])])
    assert plan.privacy_bounds(compositions=1, epsilon=0.0).delta_upper.item() == 0.0


@pytest.mark.parametrize("repeats", [10**6, 2**62])
def test_many_repeats_are_many_compositions(repeats: int) -> None:
    plan = ReleasePlan(Unbounded(), [Analysis("a", Gaussian(1e6), repeats=repeats)])
    found = plan.privacy_bounds(compositions=1, epsilon=0.5)
    assert 0.0 <= found.delta_upper.item() <= 1.0


@pytest.mark.parametrize("number", [1, 5])
def test_more_repeats_than_can_be_counted_are_refused(number: int) -> None:
    """By the bounds, with few profiles and with many."""
    names = [f"b{k}" for k in range(number)]
    analyses = [Analysis(name, Gaussian(1.0 + k), [name], repeats=10**400) for k, name in enumerate(names)]
    plan = ReleasePlan(Unbounded(), analyses, Partition(names))
    with pytest.raises(InvalidInputError, match="count"):
        plan.privacy_bounds(compositions=1, epsilon=0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"compositions": 0, "epsilon": 0.1},
        {"compositions": 1.5, "epsilon": 0.1},
        {"compositions": 1, "epsilon": -0.1},
        {"compositions": 1, "epsilon": float("nan")},
        {"compositions": 1, "epsilon": 0.1, "tolerance": 0.0},
        {"compositions": 1, "epsilon": 0.1, "tolerance": "x"},
        {"compositions": 1, "epsilon": 0.1, "tolerance": 2.0},
    ],
)
@pytest.mark.parametrize("replaced", [None, "unchanged"])
def test_questions_are_checked(settings: dict[str, Any], replaced: Any) -> None:
    """Also of a plan that tells nothing."""
    plan = ReleasePlan(Bounded(), [Analysis("a", PAIR, replaced=replaced)])
    with pytest.raises(InvalidInputError):
        plan.privacy_bounds(**settings)
    if settings["epsilon"] == 0.1:
        with pytest.raises(InvalidInputError):
            plan.epsilon_bounds(delta=0.1, **{key: value for key, value in settings.items() if key != "epsilon"})


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, float("nan"), "x"])
def test_deltas_are_checked(delta: Any) -> None:
    with pytest.raises(InvalidInputError, match="delta"):
        ReleasePlan(Unbounded(), [ONE]).epsilon_bounds(compositions=1, delta=delta)


def test_too_many_profiles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profiles.MAX_PROFILES == 200_000
    monkeypatch.setattr(profiles, "MAX_PROFILES", 2000)
    names = [f"b{k}" for k in range(20)]
    # No order of histograms is known.
    analyses = [Analysis(name, Histogram((k + 2, 1), (1, k + 3)), [name]) for k, name in enumerate(names)]
    refused("analyses: expected at most 2000 ", lambda: ReleasePlan(Unbounded(), analyses, Overlapping(names, 8)))


def test_sets_that_are_read_alike_are_one() -> None:
    """A million choices of records of a user, of two kinds."""
    sets = Memberships([["x", f"b{k}"] for k in range(400)] + [[f"b{k}"] for k in range(400)])
    plan = ReleasePlan(UserLevel(20), [Analysis("a", PAIR, ["x"])], sets)
    assert len(plan.changes) == 20


def test_free_lunch_touches_all() -> None:
    analyses = [Analysis(name, PAIR, [name], FreeLunch()) for name in "xy"]
    (change,) = ReleasePlan(FreeLunch(), analyses, Partition(["x", "y"])).changes
    assert change == Profile([Touch("x", 1), Touch("y", 1)])


def test_the_largest_products_are_no_one_mechanism() -> None:
    plan = ReleasePlan(Unbounded(), [Analysis("a", Gaussian(100.0), repeats=5000)])
    refused("ReleasePlan: expected at most 1000 products of at most 4096 pairs", plan.pair)
