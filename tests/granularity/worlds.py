"""Small worlds that are looked through: listed classes, and every kind of granularity over them."""

from collections.abc import Callable
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, product
from types import FunctionType
from typing import Any

from pbdist.granularity.databases import graph, highest_degree, listed_multisets, multiset
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


def told(one: Any) -> str:
    """What a test is called by: no listed databases, which are many, and sets of which print in any order."""
    if isinstance(one, tuple | list):
        return told(one[0])
    if isinstance(one, FunctionType):
        return one.__name__
    return one.name.replace(" ", "-") if isinstance(one, DatabaseClass) else repr(one)


#: Multisets over three records, duplicates included.
TABLES = listed_multisets("tables", "abc", range(5))
#: Those of one size.
OF_THREE = listed_multisets("tables of three", "abc", [3])


@cache
def users(records: int, names: str = "uv") -> DatabaseClass:
    """All databases of some users, each with up to so many records of two values."""
    own = [one for size in range(records + 1) for one in combinations_with_replacement((0, 1), size)]
    found = [
        multiset((name, value) for name, values in zip(names, chosen, strict=True) for value in values)
        for chosen in product(own, repeat=len(names))
    ]
    return DatabaseClass(f"users of {records}", tuple(found))


@cache
def graphs(degree: int = 3, nodes: int = 4) -> DatabaseClass:
    """All graphs on some of a few nodes, with at most so many edges at each."""
    chosen = [one for size in range(nodes + 1) for one in combinations(range(nodes), size)]
    found = [graph(one, edges) for one in chosen for edges in _subsets(list(combinations(one, 2)))]
    return DatabaseClass(f"graphs of degree {degree}", tuple(one for one in found if highest_degree(one) <= degree))


def _subsets(edges: list[Any]) -> chain[tuple[Any, ...]]:
    return chain.from_iterable(combinations(edges, size) for size in range(len(edges) + 1))


@cache
def ordered(sizes: tuple[int, ...], values: str = "ab") -> DatabaseClass:
    """All ordered databases of some sizes."""
    found = [tuple(enumerate(one, start=1)) for size in sizes for one in product(values, repeat=size)]
    return DatabaseClass(f"ordered {sizes}", tuple(found))


def sizes_differ(first: Any, second: Any) -> bool:
    """A relation of no special kind."""
    return abs(len(first) - len(second)) == 1


SPACES: list[tuple[Granularity, Callable[[], DatabaseClass]]] = [
    (Unbounded(), lambda: TABLES),
    (Bounded(), lambda: TABLES),
    (Bounded(), lambda: OF_THREE),
    (Bounded(), lambda: ordered((0, 1, 2, 3))),
    (UserLevel(2), lambda: users(2)),
    (Unbounded(), lambda: users(2)),
    (EdgeLevel(), graphs),
    (NodeLevel(3), graphs),
    (NodeLevel(2), lambda: graphs(2)),
    (NodeLevel(presence="public"), graphs),
    (FreeLunch(), lambda: TABLES),
    (GivenRelation("sizes differ by one", sizes_differ), lambda: TABLES),
]
