"""Databases, and full universes of them: classes too large to be listed, whose distances have proved closed forms.

A tabular database is a multiset of records, a tuple in one fixed order, so that equal ones are equal tuples. A
graph is simple and undirected: a frozenset of nodes and a frozenset of edges.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from numbers import Real
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.spaces import DatabaseClass


def whole(owner: str, value: Any, at_least: int, *, optional: bool = False) -> None:
    """Refuse what is no whole number of at least so much; None is allowed where it is optional."""
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InvalidInputError(f"{owner}: expected a whole number of at least {at_least}, got {shown(value)}")


@dataclass(frozen=True)
class _Universe(DatabaseClass):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.databases is not None:
            raise InvalidInputError(
                f"{type(self).__name__}.databases: a universe lists no databases; use DatabaseClass for a listed class"
            )
        for name in ("size", "degree"):
            whole(f"{type(self).__name__}.{name}", getattr(self, name, None), 1, optional=True)


@dataclass(frozen=True)
class Multisets(_Universe):
    """All finite multisets over a universe 𝒳 of records, 𝔻_𝒳, or those of one size.

    Parameters
    ----------
    name : str
        Used in errors.
    size : int, optional
        The number of records, where it is public and fixed; without it every size is in.
    records : tuple, optional
        𝒳, where it is known and finite. One that is not known, or with a size, has two or more records.
    """

    _: KW_ONLY
    size: int | None = None
    records: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        least = 1 if self.size is None else 2
        if self.records is not None and len(set(self.records)) < max(least, len(self.records)):
            raise InvalidInputError(
                f"Multisets.records: expected {least} or more, each once, got {shown(tuple(self.records))}"
            )


@dataclass(frozen=True)
class OrderedDatabases(_Universe):
    """All databases of records (n, x) with n = 1 .. |D|, each once, and x of two or more values (Example IV.7).

    Parameters
    ----------
    name : str
        Used in errors.
    size : int, optional
        |D|, where it is public and fixed.
    some_places : bool
        Whether these are parts: n are those of the places of one block that come first.
    """

    _: KW_ONLY
    size: int | None = None
    some_places: bool = False


@dataclass(frozen=True)
class UserDatabases(_Universe):
    """All multisets of records (user, value) in which no user has more than so many.

    There are infinitely many users, and two or more values.

    Parameters
    ----------
    name : str
        Used in errors.
    records : int
        The largest number of records of a user.
    """

    _: KW_ONLY
    records: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("UserDatabases.records", self.records, 1)


@dataclass(frozen=True)
class Graphs(_Universe):
    """All finite simple undirected graphs over infinitely many possible nodes.

    Parameters
    ----------
    name : str
        Used in errors.
    degree : int, optional
        The declared maximal degree, if there is one.
    """

    _: KW_ONLY
    degree: int | None = None


Multiset: TypeAlias = tuple[Hashable, ...]


def _place(record: Any) -> tuple[Any, ...]:
    """Return where a record stands in the order, which is total: sets, of which `<` means inclusion, are sorted too."""
    if isinstance(record, float) and math.isnan(record):
        raise InvalidInputError("record: expected a value that equals itself, got a NaN")
    if isinstance(record, float | Real):
        return (0, record)
    if isinstance(record, str):
        return (1, record)
    if isinstance(record, bytes):
        return (2, record)
    if record is None:
        return (3,)
    if isinstance(record, tuple):
        return (4, tuple(_place(one) for one in record))
    if isinstance(record, frozenset):
        return (5, tuple(sorted(_place(one) for one in record)))
    raise InvalidInputError(
        f"record: expected a number, a text, bytes, None, or a tuple or frozenset of them, got {shown(record)}"
    )


def multiset(records: Iterable[Hashable]) -> Multiset:
    """Return a database as a multiset: the same tuple in whatever order the records come.

    Records are numbers, texts, bytes, None, and tuples and frozensets of them. A record may occur many times.
    """
    return tuple(sorted(records, key=_place))


@lru_cache(maxsize=2**14)
def _checked(database: Multiset) -> Counter[Hashable]:
    """Return the multiplicities of a multiset, which is not to be changed."""
    if multiset(database) != database:
        raise InvalidInputError(f"database: expected a multiset, as multiset() orders it, got {shown(database)}")
    return Counter(database)


def counts(database: Any) -> Counter[Hashable]:
    """Return the multiplicities, not to be changed; refuse what is no multiset in its order."""
    if not isinstance(database, tuple):
        raise InvalidInputError(f"database: expected a tuple of records, made by multiset(), got {shown(database)}")
    try:
        return _checked(database)
    except TypeError as error:
        raise InvalidInputError(f"database: expected records that can be hashed and ordered: {error}") from error


def symmetric_difference_size(first: Multiset, second: Multiset) -> int:
    """Return |D △ D'|."""
    return sum(one_sided(first, second))


def one_sided(first: Multiset, second: Multiset) -> tuple[int, int]:
    r"""Return |D \ D'| and |D' \ D|."""
    left, right = counts(first), counts(second)
    return (left - right).total(), (right - left).total()


def listed_multisets(name: str, records: Iterable[Hashable], sizes: Iterable[int]) -> DatabaseClass:
    """Return the listed class of all multisets over finitely many records 𝒳 with some numbers of records."""
    different = multiset(set(records))
    chosen = [multiset(one) for size in sorted(set(sizes)) for one in combinations_with_replacement(different, size)]
    return DatabaseClass(name, tuple(chosen))


Edge: TypeAlias = frozenset[Hashable]
Graph: TypeAlias = tuple[frozenset[Hashable], frozenset[Edge]]

#: The smallest cover of more differing edges is not looked for: the search may take exponentially long.
_MAX_EDGES = 40


def graph(nodes: Iterable[Hashable], edges: Iterable[Iterable[Hashable]] = ()) -> Graph:
    """Return a graph as a database, from hashable names of nodes and pairs of two different nodes."""
    made = frozenset(nodes), frozenset(frozenset(edge) for edge in edges)
    return checked_graph(made)


def checked_graph(database: Any) -> Graph:
    """Return a database that is a graph; refuse others."""
    match database:
        case (frozenset() as nodes, frozenset() as edges):
            wrong = [edge for edge in edges if not (isinstance(edge, frozenset) and len(edge) == 2 and edge <= nodes)]
            if not wrong:
                return nodes, edges
            raise InvalidInputError(f"graph: expected edges between two different nodes, got {shown(wrong[0])}")
    raise InvalidInputError(f"graph: expected (nodes, edges), made by graph(), got {shown(database)}")


def edges_at(edges: frozenset[Edge], node: Hashable) -> frozenset[Edge]:
    """Return the edges of one node."""
    return frozenset(edge for edge in edges if node in edge)


def highest_degree(database: Graph) -> int:
    """Return the largest number of edges at one node; 0 without edges."""
    return max(_degrees(checked_graph(database)[1]).values(), default=0)


def _degrees(edges: frozenset[Edge]) -> Counter[Hashable]:
    """Return the number of edges of each node that has some."""
    return Counter(node for edge in edges for node in edge)


def cover_number(edges: frozenset[Edge]) -> int:
    """Return how many nodes are needed to meet every edge: the size of a smallest vertex cover, exactly.

    A node is in a smallest cover, or all its neighbours are; the neighbour of a node of one edge may always be taken.
    """
    if len(edges) > _MAX_EDGES:
        raise InvalidInputError(
            f"graph: expected at most {_MAX_EDGES} differing edges, for which a smallest cover is searched,"
            f" got {len(edges)}"
        )
    return _cover_number(edges)


def _cover_number(edges: frozenset[Edge]) -> int:
    if not edges:
        return 0
    degrees = _degrees(edges)
    leaf = next((node for node, degree in degrees.items() if degree == 1), None)
    node = max(degrees, key=degrees.__getitem__) if leaf is None else leaf
    here = edges_at(edges, node)
    neighbours = frozenset[Hashable]().union(*here) - {node}
    with_neighbours = len(neighbours) + _cover_number(frozenset(edge for edge in edges if not edge & neighbours))
    return with_neighbours if leaf is not None else min(with_neighbours, 1 + _cover_number(edges - here))
