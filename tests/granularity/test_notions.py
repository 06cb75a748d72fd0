"""Relations are what their definitions say, and closed forms are the numbers of steps that a search finds."""

import math
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import canonical_metric
from pbdist.granularity.databases import (
    Graphs,
    Multisets,
    OrderedDatabases,
    UserDatabases,
    cover_number,
    graph,
    multiset,
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
from pbdist.granularity.spaces import DatabaseClass
from tests.granularity.worlds import OF_THREE, SPACES, TABLES, graphs, ordered, told, users


def removed_records(larger: Any) -> set[Any]:
    return {larger[:place] + larger[place + 1 :] for place in range(len(larger))}


def removed_users(larger: Any) -> set[Any]:
    return {tuple(record for record in larger if record[0] != user) for user, _ in larger}


def removed_nodes(larger: Any) -> set[Any]:
    nodes, edges = larger
    return {graph(nodes - {node}, [edge for edge in edges if node not in edge]) for node in nodes}


def removed_edges(larger: Any) -> set[Any]:
    nodes, edges = larger
    return {graph(nodes, edges - {edge}) for edge in edges}


def isolated(larger: Any) -> set[Any]:
    nodes, edges = larger
    return {graph(nodes, [edge for edge in edges if node not in edge]) for node in nodes} - {larger}


@pytest.mark.parametrize(
    ("granularity", "domain", "removals"),
    [
        (Unbounded(), TABLES, removed_records),
        (UserLevel(2), users(2), removed_users),
        (EdgeLevel(), graphs(), removed_edges),
        (NodeLevel(), graphs(), removed_nodes),
        (NodeLevel(presence="public"), graphs(), isolated),
    ],
    ids=told,
)
def test_neighbours_arise_by_one_removal(
    granularity: Granularity, domain: DatabaseClass, removals: Callable[[Any], set[Any]]
) -> None:
    listed = domain.listed("this test")
    smaller = {one: removals(one) for one in listed}
    for first, second in product(listed, repeat=2):
        expected = first in smaller[second] or second in smaller[first]
        assert granularity.relation(first, second) == expected


def test_bounded_neighbours_share_all_records_but_one() -> None:
    for first, second in product(TABLES.listed("this test"), repeat=2):
        shared = removed_records(first) & removed_records(second)
        assert Bounded().relation(first, second) == (first != second and bool(shared))


@pytest.mark.parametrize("space", SPACES, ids=told)
def test_relations_are_symmetric_and_not_reflexive(space: Any) -> None:
    granularity, listed = space[0], space[1]().listed("this test")[:60]
    for first, second in product(listed, repeat=2):
        assert granularity.relation(first, second) == granularity.relation(second, first)
    assert not any(granularity.relation(one, one) for one in listed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("granularity", "universe", "listed"),
    [
        (Unbounded(), Multisets("all", records=("a", "b", "c")), TABLES),
        (Unbounded(), Multisets("of three", size=3), OF_THREE),
        (Unbounded(), OrderedDatabases("of three", size=3), ordered((3,))),
        (Unbounded(), UserDatabases("users", records=2), users(2)),
        (Bounded(), Multisets("all"), TABLES),
        (Bounded(), Multisets("of three", size=3), OF_THREE),
        (Bounded(), OrderedDatabases("all"), ordered((0, 1, 2, 3, 4))),
        (Bounded(), UserDatabases("users", records=1), users(1)),
        (Bounded(), UserDatabases("users", records=2), users(2)),
        (UserLevel(2), UserDatabases("users", records=2), users(2)),
        (UserLevel(3), UserDatabases("users", records=2), users(2)),
        (EdgeLevel(), Graphs("all"), graphs()),
        (EdgeLevel(), Graphs("degree 2", degree=2), graphs(2)),
        (NodeLevel(), Graphs("all"), graphs()),
        (NodeLevel(3), Graphs("degree 2", degree=2), graphs(2)),
        (NodeLevel(1), Graphs("degree 1", degree=1), graphs(1)),
        (FreeLunch(), Graphs("all"), graphs(2)),
        (FreeLunch(), DatabaseClass("the reals"), DatabaseClass("a few", (0, 1, 2.5))),
    ],
    ids=told,
)
def test_closed_forms_are_the_numbers_of_steps(
    granularity: Granularity, universe: DatabaseClass, listed: DatabaseClass
) -> None:
    """The listed classes are closed under the removals of the proofs, so that a search inside them is the truth."""
    closed, searched = canonical_metric(granularity, universe), canonical_metric(granularity, listed)
    for first, second in combinations(listed.listed("this test"), 2):
        assert closed(first, second) == searched(first, second)
        assert closed(second, first) == searched(first, second)


@pytest.mark.slow
def test_covers_are_smallest() -> None:
    for one in graphs(4, 5).listed("this test"):
        nodes, edges = one
        smallest = next(
            size
            for size in range(len(nodes) + 1)
            if any(all(edge & set(chosen) for edge in edges) for chosen in combinations(nodes, size))
        )
        assert cover_number(edges) == smallest


def test_large_covers_are_found() -> None:
    cycles = [(place, shift) for place in range(12) for shift in range(3)]
    edges = frozenset(frozenset({(place, shift), (place, (shift + 1) % 3)}) for place, shift in cycles)
    assert cover_number(edges) == 24
    with pytest.raises(InvalidInputError, match="at most 40 differing edges"):
        cover_number(frozenset(frozenset({0, place}) for place in range(1, 42)))


ONE_EACH = multiset([("u", 0), ("u", 1), ("u", 1)])
STAR = graph(range(4), [(0, 1), (0, 2), (0, 3)])


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: UserLevel(2).relation(ONE_EACH, ()), r"^UserLevel.records: expected users of at most 2 .* got 3"),
        (lambda: UserLevel(2).relation(("u",), ()), r"expected records \(user, value\)"),
        (lambda: UserLevel(0), r"^UserLevel.records: expected a whole number of at least 1, got 0"),
        (lambda: UserLevel(True), r"^UserLevel.records: expected a whole number"),
        (lambda: NodeLevel(2).relation(STAR, STAR), r"^NodeLevel.degree: expected graphs of degree at most 2.* 3"),
        (lambda: NodeLevel(presence="secret"), r"^NodeLevel.presence: expected protected or public"),  # type: ignore[arg-type]
        (lambda: EdgeLevel().relation("ab", STAR), r"^graph: expected \(nodes, edges\)"),
        (lambda: graph([1], [(1, 1)]), r"^graph: expected edges between two different nodes"),
        (lambda: graph([1], [(1, 2)]), r"^graph: expected edges between two different nodes"),
        (lambda: GivenRelation("less", lambda a, b: a < b).relation(1, 2), r"^less: expected a symmetric function"),
        (lambda: canonical_metric(NodeLevel(2), Graphs("all")), r"^all: expected Graphs of a degree of at most 2"),
        (lambda: canonical_metric(UserLevel(2), UserDatabases("all", records=3)), r"^all: expected users of at most 2"),
        (lambda: canonical_metric(NodeLevel(presence="public"), Graphs("all")), r"expected a class whose databases"),
        (lambda: canonical_metric(Unbounded(), OrderedDatabases("all")), r"expected a class whose databases"),
        (lambda: canonical_metric(Bounded(), DatabaseClass("unknown")), r"expected a class whose databases"),
        (lambda: canonical_metric(Bounded(), Multisets("three", size=3))(("a",), ("a",)), r"databases of 3 records"),
        (lambda: Multisets("few", size=2, records=("a",)), r"^Multisets.records: expected 2 or more"),
        (lambda: Multisets("none", records=()), r"^Multisets.records: expected 1 or more"),
        (lambda: Multisets("few", databases=((),)), r"^Multisets.databases: a universe lists no databases"),
    ],
)
def test_what_is_wrong_is_refused(made: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        made()


def test_a_metric_of_at_most_one_is_never_above_the_steps() -> None:
    numbers = DatabaseClass("numbers", (0, 0.4, 0.8, 1.7, 3.5))
    metric = canonical_metric(GivenRelation("line", lambda a, b: abs(a - b) <= 1), numbers)
    assert [metric(0, one) for one in numbers.listed("this test")] == [0, 1, 1, 2, math.inf]
