"""Canonical metrics: A.1, A.2, Example III.4, and the numbers of III-A."""

import math
from itertools import product
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import (
    canonical_metric,
    distance_between,
    is_totally_disconnected,
    neighbours,
    privacy_metric,
)
from pbdist.granularity.databases import (
    Graphs,
    Multisets,
    OrderedDatabases,
    UserDatabases,
    symmetric_difference_size,
)
from pbdist.granularity.notions import (
    Bounded,
    EdgeLevel,
    FreeLunch,
    GivenRelation,
    Granularity,
    NodeLevel,
    Unbounded,
    UserLevel,
)
from pbdist.granularity.rules import PURE
from pbdist.granularity.spaces import DatabaseClass, Metric
from tests.granularity.worlds import OF_THREE, SPACES, TABLES, graphs, ordered, sizes_differ, told, users


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES, ids=told)
def test_a_canonical_metric_is_an_extended_metric(space: Any) -> None:
    granularity, domain = space[0], space[1]()
    metric, listed = canonical_metric(granularity, domain), domain.listed("this test")[:40]
    for first, second in product(listed, repeat=2):
        whole = metric(first, second)
        assert whole == metric(second, first)
        assert (whole == 0) == (first == second)
        assert (whole == 1) == granularity.relation(first, second)
        assert all(whole <= metric(first, third) + metric(third, second) for third in listed)


def test_a_restriction_is_not_the_metric_of_the_smaller_class() -> None:
    """Remark A.2."""
    whole, own = canonical_metric(Unbounded(), TABLES), canonical_metric(Unbounded(), OF_THREE)
    restricted = Metric(OF_THREE, whole)
    for first, second in neighbours(Bounded(), OF_THREE):
        assert restricted(first, second) == symmetric_difference_size(first, second) == 2
        assert own(first, second) == math.inf
    gap = DatabaseClass("with a gap", ((), ("a",), ("a", "b"), ("b", "b"), ("b", "b", "c"), ("b", "c")))
    assert whole(("a",), ("b", "b")) == 3
    assert canonical_metric(Unbounded(), gap)(("a",), ("b", "b")) == math.inf


@pytest.mark.parametrize(
    "domain", [OF_THREE, Multisets("of three", size=3), OrderedDatabases("of 3", size=3)], ids=told
)
def test_a_totally_disconnected_class_is_refused(domain: DatabaseClass) -> None:
    """Example III.4: the identity would be 0-DP."""
    assert is_totally_disconnected(Unbounded(), domain)
    metric = canonical_metric(Unbounded(), domain)
    for made in (lambda: privacy_metric(Unbounded(), domain), lambda: PURE.privacy(metric, 0)):
        with pytest.raises(InvalidInputError, match="every mechanism would be 0-private"):
            made()


def test_bounded_connects_a_class_of_one_size() -> None:
    """Example III.4: its metric there is |D △ D'| / 2."""
    metric = privacy_metric(Bounded(), OF_THREE)
    for first, second in product(OF_THREE.listed("this test"), repeat=2):
        assert 2 * metric(first, second) == symmetric_difference_size(first, second)


@pytest.mark.parametrize(
    ("granularity", "universe", "listed"),
    [
        (Bounded(), Multisets("of 3", size=3), OF_THREE),
        (Bounded(), OrderedDatabases("of 3", size=3), ordered((3,))),
        (Bounded(), Multisets("all"), TABLES),
        (Bounded(), UserDatabases("users", records=2), users(2)),
        (EdgeLevel(), Graphs("all"), graphs()),
        (FreeLunch(), Multisets("all"), TABLES),
    ],
    ids=told,
)
def test_universes_are_connected_as_listed_ones_are(
    granularity: Granularity, universe: DatabaseClass, listed: DatabaseClass
) -> None:
    assert is_totally_disconnected(granularity, universe) == is_totally_disconnected(granularity, listed)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="expected a class whose databases are listed"):
        privacy_metric(GivenRelation("sizes", sizes_differ), Multisets("all"))
    with pytest.raises(InvalidInputError, match="expected a database of the class"):
        canonical_metric(Unbounded(), OF_THREE)(("a",), ("a", "a", "a"))


#: Granularities, and a listed part of a universe in which the largest distance that is proved for the universe occurs.
KNOWN = [
    (Unbounded(), Bounded(), TABLES, 2),
    (Bounded(), Unbounded(), TABLES, math.inf),
    (Unbounded(), Bounded(), OF_THREE, math.inf),
    (Unbounded(), Bounded(), ordered((3,)), math.inf),
    (Bounded(), FreeLunch(), OF_THREE, 3),
    (FreeLunch(), Unbounded(), TABLES, 1),
    (FreeLunch(), Bounded(), TABLES, 1),
    (FreeLunch(), UserLevel(2), users(2), 1),
    (FreeLunch(), NodeLevel(), graphs(), 1),
    (FreeLunch(), FreeLunch(), graphs(), 1),
    *((Unbounded(), UserLevel(k), users(k), k) for k in (1, 2)),
    *((UserLevel(k), Unbounded(), users(k), k) for k in (1, 2)),
    *((UserLevel(k), Bounded(), users(k), 2 * k) for k in (1, 2)),
    *((Bounded(), UserLevel(k), users(k), math.inf) for k in (1, 2)),
    (UserLevel(2), UserLevel(3), users(2), 1),
    (Unbounded(), Bounded(), users(1), 2),
    (Bounded(), Unbounded(), users(1), math.inf),
    *((EdgeLevel(), NodeLevel(t, "public"), graphs(t), t) for t in (1, 2, 3)),
    *((EdgeLevel(), NodeLevel(t), graphs(t), math.inf) for t in (1, 2, 3)),
    *((NodeLevel(t), EdgeLevel(), graphs(t), 2) for t in (1, 2, 3)),
    *((NodeLevel(t, "public"), EdgeLevel(), graphs(t), min(t, 2)) for t in (1, 2, 3)),
    *((NodeLevel(t), NodeLevel(t, "public"), graphs(t), 2) for t in (1, 2, 3)),
    *((NodeLevel(t, "public"), NodeLevel(t), graphs(t), math.inf) for t in (1, 2, 3)),
]


@pytest.mark.parametrize(("first", "second", "listed", "expected"), KNOWN, ids=told)
def test_distances_between_granularities(
    first: Granularity, second: Granularity, listed: DatabaseClass, expected: float
) -> None:
    """What docs/granularity-notions.md proves for the universe is what a search finds in a part of it."""
    assert distance_between(first, second, listed) == expected


@pytest.mark.parametrize(
    ("first", "second", "domain"),
    [
        (Unbounded(), Bounded(), TABLES),
        (UserLevel(2), Bounded(), users(2)),
        (Unbounded(), UserLevel(2), users(2)),
        (NodeLevel(3), EdgeLevel(), graphs()),
        (FreeLunch(), Bounded(), TABLES),
    ],
    ids=told,
)
def test_distances_bound_the_metrics(first: Granularity, second: Granularity, domain: DatabaseClass) -> None:
    """Proposition A.3."""
    most = distance_between(first, second, domain)
    one, other = canonical_metric(first, domain), canonical_metric(second, domain)
    listed = domain.listed("this test")
    assert all(one(a, b) <= most * other(a, b) for a, b in product(listed, repeat=2) if a != b)


@pytest.mark.parametrize(
    ("first", "second", "domain", "text"),
    [
        (Bounded(), Unbounded(), OF_THREE, "expected a class with neighbours"),
        (Unbounded(), Bounded(), Multisets("all"), "expected a class whose databases are listed"),
    ],
    ids=told,
)
def test_distances_that_are_not_known_are_refused(
    first: Granularity, second: Granularity, domain: DatabaseClass, text: str
) -> None:
    with pytest.raises(InvalidInputError, match=text):
        distance_between(first, second, domain)
