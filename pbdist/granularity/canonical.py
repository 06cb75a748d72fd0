"""Canonical metrics: the fewest steps between neighbours inside a class, and how far they lead in it.

And how far apart the neighbours of one granularity are in the metric of another. Guerra-Balboa et al. 2024, III-A,
Proposition A.1 and Example III.4.
"""

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.databases import Graphs, Multisets, OrderedDatabases, UserDatabases, counts
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.spaces import Database, DatabaseClass, Metric


@lru_cache(maxsize=32)
def neighbours(granularity: Granularity, domain: DatabaseClass) -> tuple[tuple[Hashable, Hashable], ...]:
    """Return all ordered pairs of neighbours of a listed class; those of the last classes are cached."""
    listed = domain.listed(f"looking at all neighbours of {granularity.title}")
    pairs = [
        (first, second)
        for place, first in enumerate(listed)
        for second in listed[place + 1 :]
        if granularity.relation(first, second)
    ]
    return tuple(pair for first, second in pairs for pair in ((first, second), (second, first)))


def _steps_within(granularity: Granularity, domain: DatabaseClass) -> Callable[[Database, Database], float]:
    """Return how many steps inside a listed class lead from one database to another, ∞ where none do."""
    places = {one: place for place, one in enumerate(domain.listed("counting steps"))}
    rows = [(places[first], places[second]) for first, second in neighbours(granularity, domain)]
    matrix = np.zeros((len(places), len(places)), dtype=bool)
    matrix[tuple(np.array(rows, dtype=np.int64).reshape(-1, 2).T)] = True
    steps = shortest_path(csr_matrix(matrix), unweighted=True)

    def distance(first: Database, second: Database) -> float:
        for one in (first, second):
            if one not in places:
                raise InvalidInputError(f"database: expected a database of the class, got {shown(one)}")
        found = float(steps[places[first], places[second]])
        return found if found == math.inf else int(found)

    return distance


class CanonicalMetric(Metric):
    """d^𝒢 over a class: the smallest number of steps between neighbours *inside the class* (Proposition A.1).

    What holds for neighbours alone, such as 𝒢 ε-DP, says something of other pairs only through such steps, so that the
    rules for granularities need this type. It is ∞ where no chain of neighbours exists. It is not the restriction of
    the metric of a larger class (Remark A.2, `induced_metric`), for the chain may not leave the class. Two are equal
    if their granularities and classes are, and what is declared.

    Parameters
    ----------
    granularity : Granularity
        𝒢.
    domain : DatabaseClass
        𝔻. Listed, or a full universe for which a closed form is proved, or any other one with a declared distance.
    declared : callable, optional
        d(D, D') in steps, for a class that is neither listed nor known. It is not checked.
    reason : str, optional
        Why it is canonical. Needed with a declared distance.

    Raises
    ------
    InvalidInputError
        If nothing is known and nothing declared; if no reason is given; or if a distance is declared that is known.
    """

    granularity: Granularity
    declared: Callable[[Database, Database], float] | None

    def __init__(
        self,
        granularity: Granularity,
        domain: DatabaseClass,
        declared: Callable[[Database, Database], float] | None = None,
        reason: str = "",
    ) -> None:
        name = f"d of {granularity.title} over {domain.name}"
        known = _known(granularity, domain)
        given: Any = reason
        if known is not None and declared is not None:
            raise InvalidInputError(f"{name}: the distance is known; do not declare one")
        if declared is not None and (not isinstance(given, str) or not given):
            raise InvalidInputError(
                f"{name}: expected the reason why the declared distance counts steps between neighbours, which cannot"
                f" be checked here, got {shown(reason)}"
            )
        if known is None and declared is None:
            raise InvalidInputError(
                f"{name}: expected a class whose databases are listed, or a full universe whose distances are known,"
                f" or a declared distance and the reason for it, got {shown(domain)}"
            )
        super().__init__(domain, known or cast("Any", declared), name)
        object.__setattr__(self, "granularity", granularity)
        object.__setattr__(self, "declared", declared)

    @property
    def neighbours(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """All ordered pairs of neighbours of a listed class."""
        return neighbours(self.granularity, self.domain)

    def __eq__(self, other: object) -> bool:
        """Whether both are d^𝒢 over the same class."""
        return isinstance(other, CanonicalMetric) and self._identity == other._identity

    def __hash__(self) -> int:
        """Equal ones have the same."""
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Hashable, ...]:
        return self.granularity, self.domain, self.declared


@lru_cache(maxsize=64)
def canonical_metric(granularity: Granularity, domain: DatabaseClass) -> CanonicalMetric:
    """Return d^𝒢 over a class, listed or known; the last ones are cached, as the steps of listed classes are counted.

    It is returned also where the class has no neighbours at all: see `privacy_metric`.
    """
    return CanonicalMetric(granularity, domain)


def _known(granularity: Granularity, domain: DatabaseClass) -> Callable[[Database, Database], float] | None:
    if domain.databases is not None:
        return _steps_within(granularity, domain)
    closed = granularity.closed_form(domain)
    return None if closed is None else _inside(domain, closed)


def _inside(domain: DatabaseClass, closed: Callable[[Database, Database], float]) -> Callable[..., float]:
    """Return a distance that refuses databases which are visibly not of the universe."""
    size = domain.size if isinstance(domain, Multisets | OrderedDatabases) else None

    def distance(first: Database, second: Database) -> float:
        for one in (first, second):
            if size is not None and counts(one).total() != size:
                raise InvalidInputError(f"{domain.name}: expected databases of {size} records, got {shown(one)}")
        return closed(first, second)

    return distance


def is_totally_disconnected(granularity: Granularity, domain: DatabaseClass) -> bool:
    """Return whether a class, listed or a known universe, has no neighbours at all (Example III.4)."""
    if domain.databases is not None:
        return not neighbours(granularity, domain)
    canonical_metric(granularity, domain)
    match granularity, domain:
        case FreeLunch(), _:
            return False
        case (Unbounded(), Multisets(size=int()) | OrderedDatabases(size=int())) | (Bounded(), Multisets(records=(_,))):
            return True
        case (
            (Unbounded(), Multisets() | UserDatabases())
            | (Bounded(), Multisets() | OrderedDatabases() | UserDatabases())
            | (UserLevel(), UserDatabases())
            | (EdgeLevel() | NodeLevel(presence="protected"), Graphs())
        ):
            return False
    raise InvalidInputError(
        f"{domain.name}: expected a class whose databases are listed, or a full universe of which the neighbours by"
        f" {granularity.title} are known"
    )


def privacy_metric(granularity: Granularity, domain: DatabaseClass) -> CanonicalMetric:
    """Return the canonical metric of a class in which privacy means something."""
    metric = canonical_metric(granularity, domain)
    refuse_without_neighbours(metric)
    return metric


def refuse_without_neighbours(metric: CanonicalMetric) -> None:
    """Refuse a class of several databases without any neighbours (Example III.4).

    The identity, which reveals everything, would be "0-DP" there. A declared metric is not looked at.
    """
    if metric.declared is not None or len(metric.domain.databases or ()) == 1:
        return
    if is_totally_disconnected(metric.granularity, metric.domain):
        raise InvalidInputError(
            f"{metric.domain.name}: expected a class with neighbours of {metric.granularity.title}, got one without"
            " any, in which every mechanism would be 0-private, even one that prints the database (Example III.4)"
        )


def distance_between(first: Granularity, second: Granularity, domain: DatabaseClass) -> float:
    """Return dist(𝒢₁, 𝒢₂) over a listed class: the largest distance by 𝒢₁ of neighbours by 𝒢₂ (Proposition A.3).

    It is a whole number or ∞. With k = dist(𝒢₁, 𝒢₂) finite, d^𝒢₁ <= k d^𝒢₂, and 𝒢₁ ε-DP implies 𝒢₂ kε-DP. What it is
    over full universes is proved in docs/granularity-notions.md.
    """
    pairs = neighbours(second, domain)
    if not pairs:
        raise InvalidInputError(
            f"{domain.name}: expected a class with neighbours of {second.title}, got one without any"
        )
    metric = canonical_metric(first, domain)
    return max(metric(one, other) for one, other in pairs)
