"""Granularity notions: which databases are neighbours, as data (Guerra-Balboa et al. 2024, Definition III.1).

The relation is one type for the whole package, `Granularity`. Proofs of the closed forms: docs/granularity-notions.md.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.databases import (
    Graph,
    Graphs,
    Multiset,
    Multisets,
    OrderedDatabases,
    UserDatabases,
    checked_graph,
    counts,
    cover_number,
    edges_at,
    highest_degree,
    one_sided,
    whole,
)
from pbdist.granularity.spaces import Database, DatabaseClass

Distance: TypeAlias = Callable[[Database, Database], float]


@dataclass(frozen=True)
class Granularity(ABC):
    """A granularity notion 𝒢: a symmetric relation between databases (Definition III.1).

    No database is its own neighbour.
    """

    @property
    def title(self) -> str:
        """What errors call it."""
        return repr(self)

    @abstractmethod
    def relation(self, first: Database, second: Database) -> bool:
        """Return whether two databases are neighbours."""

    def closed_form(self, universe: DatabaseClass) -> Distance | None:
        """Return the canonical metric of a full universe, where a closed form is proved (Proposition A.1)."""
        del universe
        return None


@dataclass(frozen=True)
class Unbounded(Granularity):
    """One record is added or removed: |D △ D'| = 1 (Definition II.3)."""

    def relation(self, first: Multiset, second: Multiset) -> bool:
        """Return whether |D △ D'| = 1."""
        return sum(one_sided(first, second)) == 1

    def closed_form(self, universe: DatabaseClass) -> Distance | None:
        """|D △ D'|, for records are removed first, then added; without neighbours where the size is fixed."""
        match universe:
            case Multisets(size=None) | UserDatabases():
                return lambda first, second: sum(one_sided(first, second))
            case Multisets() | OrderedDatabases(size=int()):
                return lambda first, second: 0 if first == second else math.inf
        return None


@dataclass(frozen=True)
class Bounded(Granularity):
    """One record is changed: |D △ D'| = 2 and |D| = |D'| (Definition II.4)."""

    def relation(self, first: Multiset, second: Multiset) -> bool:
        """Return whether one record is different."""
        return one_sided(first, second) == (1, 1)

    def closed_form(self, universe: DatabaseClass) -> Distance | None:
        """|D △ D'| / 2 where |D| = |D'|, else ∞."""
        if isinstance(universe, Multisets | OrderedDatabases | UserDatabases):
            return _half_of_equal_sizes
        return None


def _half_of_equal_sizes(first: Multiset, second: Multiset) -> float:
    lost, gained = one_sided(first, second)
    return lost if lost == gained else math.inf


@dataclass(frozen=True)
class UserLevel(Granularity):
    """A user is added or removed, with all of 1 to `records` records; a record is (user, value).

    Parameters
    ----------
    records : int
        The most records that a user has. A database in which one has more is refused.
    """

    records: int

    def __post_init__(self) -> None:
        whole("UserLevel.records", self.records, 1)

    def relation(self, first: Multiset, second: Multiset) -> bool:
        """Return whether one of them is the other without one of its users."""
        return self._steps(first, second) == 1

    def closed_form(self, universe: DatabaseClass) -> Distance | None:
        """1 for a user who is in one of them alone, 2 for a user who has other records."""
        if not isinstance(universe, UserDatabases):
            return None
        if universe.records > self.records:
            raise InvalidInputError(
                f"{universe.name}: expected users of at most {self.records} records, as {self.title} declares,"
                f" got {universe.records}"
            )
        return self._steps

    def _steps(self, first: Multiset, second: Multiset) -> int:
        left, right = self._of_users(first), self._of_users(second)
        changed = [user for user in left.keys() | right.keys() if left.get(user) != right.get(user)]
        return sum(2 if user in left and user in right else 1 for user in changed)

    def _of_users(self, database: Multiset) -> dict[Hashable, Counter[Hashable]]:
        """Return the records of each user."""
        users: dict[Hashable, Counter[Hashable]] = {}
        for record, times in counts(database).items():
            if not isinstance(record, tuple) or len(record) != 2:
                raise InvalidInputError(f"UserLevel: expected records (user, value), got {shown(record)}")
            users.setdefault(record[0], Counter())[record[1]] += times
        for user, records in users.items():
            if records.total() > self.records:
                raise InvalidInputError(
                    f"UserLevel.records: expected users of at most {self.records} records,"
                    f" got {records.total()} of {shown(user)}"
                )
        return users


@dataclass(frozen=True)
class EdgeLevel(Granularity):
    """One edge of a graph is added or removed; the nodes stay (Hay et al. 2009)."""

    def relation(self, first: Graph, second: Graph) -> bool:
        """Return whether the nodes are the same and one edge is not."""
        return _differing_edges(first, second) == 1

    def closed_form(self, universe: DatabaseClass) -> Distance | None:
        """|E △ E'| where the nodes are the same, else ∞: edges are removed first, so that no degree grows too large."""
        return _differing_edges if isinstance(universe, Graphs) else None


def _differing_edges(first: Graph, second: Graph) -> float:
    left, right = checked_graph(first), checked_graph(second)
    return len(left[1] ^ right[1]) if left[0] == right[0] else math.inf


@dataclass(frozen=True)
class NodeLevel(Granularity):
    """One node of a graph, with all of its edges.

    Parameters
    ----------
    degree : int, optional
        The declared maximal degree. A graph with more edges at a node is refused. Without it there is no bound on the
        number of edges that change, and what needs one is refused.
    presence : {"protected", "public"}
        Of a node. Protected: neighbours arise by removing a node and its edges, or adding one. Public: all edges of a
        node are removed, or those of a node without edges added, and the nodes stay.
    """

    degree: int | None = None
    presence: Literal["protected", "public"] = "protected"

    def __post_init__(self) -> None:
        whole("NodeLevel.degree", self.degree, 1, optional=True)
        if self.presence not in ("protected", "public"):
            raise InvalidInputError(f"NodeLevel.presence: expected protected or public, got {shown(self.presence)}")

    def relation(self, first: Graph, second: Graph) -> bool:
        """Return whether one of them is the other without a node, or without the edges of a node."""
        left, right = self._checked(first), self._checked(second)
        if self.presence == "public":
            return left[0] == right[0] and (_all_of_a_node(left, right) or _all_of_a_node(right, left))
        return _without_a_node(left, right) or _without_a_node(right, left)

    def closed_form(self, universe: DatabaseClass) -> Distance | None:
        """|N △ N'| + 2 τ, τ nodes being needed to meet each edge that differs between common nodes."""
        if not isinstance(universe, Graphs) or self.presence == "public":
            return None
        if self.degree is not None and (universe.degree is None or universe.degree > self.degree):
            raise InvalidInputError(
                f"{universe.name}: expected Graphs of a degree of at most {self.degree}, as {self.title} declares,"
                f" got {universe.degree}"
            )
        return self._steps

    def _steps(self, first: Graph, second: Graph) -> int:
        left, right = self._checked(first), self._checked(second)
        common = left[0] & right[0]
        changed = frozenset(edge for edge in left[1] ^ right[1] if edge <= common)
        return len(left[0] ^ right[0]) + 2 * cover_number(changed)

    def _checked(self, database: Graph) -> Graph:
        made = checked_graph(database)
        if self.degree is not None and highest_degree(made) > self.degree:
            raise InvalidInputError(
                f"NodeLevel.degree: expected graphs of degree at most {self.degree}, as declared,"
                f" got one of degree {highest_degree(made)}"
            )
        return made


def _without_a_node(smaller: Graph, larger: Graph) -> bool:
    """Return whether the smaller graph is the larger one without one node."""
    removed = larger[0] - smaller[0]
    if len(removed) != 1 or not smaller[0] <= larger[0]:
        return False
    return smaller[1] == larger[1] - edges_at(larger[1], next(iter(removed)))


def _all_of_a_node(smaller: Graph, larger: Graph) -> bool:
    """Return whether the smaller graph is the larger one without the edges of one node, which has some."""
    removed = larger[1] - smaller[1]
    if not removed or not smaller[1] <= larger[1]:
        return False
    return any(edges_at(larger[1], node) == removed for node in frozenset[Hashable].intersection(*removed))


@dataclass(frozen=True)
class FreeLunch(Granularity):
    """All databases are neighbours (Kifer & Machanavajjhala 2011)."""

    def relation(self, first: Database, second: Database) -> bool:
        """Return whether they are different."""
        return bool(first != second)

    def closed_form(self, universe: DatabaseClass) -> Distance | None:
        """1 between different databases, of any class."""
        del universe
        return lambda first, second: int(first != second)


@dataclass(frozen=True)
class GivenRelation(Granularity):
    """A relation that is given as a function, such as "at most 1 apart" by a metric.

    Two are the same granularity if their names and functions are.

    Parameters
    ----------
    name : str
        Used in errors.
    function : callable
        Whether D and D' are neighbours. It is symmetric: both orders are evaluated and must agree.
    """

    name: str
    function: Callable[[Database, Database], bool] = field(repr=False)

    def relation(self, first: Database, second: Database) -> bool:
        """Return whether they are different and neighbours."""
        there, back = bool(self.function(first, second)), bool(self.function(second, first))
        if there != back:
            raise InvalidInputError(
                f"{self.name}: expected a symmetric function, got {there} one way and {back} the other way for"
                f" {shown(first)} and {shown(second)}"
            )
        return there and bool(first != second)
