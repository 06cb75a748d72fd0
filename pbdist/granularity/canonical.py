"""Canonical metrics: the fewest steps between neighbours inside a class, and how far they lead in it.

Guerra-Balboa et al. 2024, Proposition A.1 and Example III.4.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.multisets import counts
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.spaces import Database, DatabaseClass, Metric
from pbdist.granularity.universes import Graphs, Multisets, OrderedDatabases, UserDatabases


@lru_cache(maxsize=32)
def neighbours(granularity: Granularity, domain: DatabaseClass) -> tuple[tuple[Hashable, Hashable], ...]:
    """Return all ordered pairs of neighbours of a listed class; those of the last classes asked for are kept.

    Raises
    ------
    InvalidInputError
        If the databases of the class are not listed, or not of this granularity.
    """
    listed = domain.listed(f"looking at all neighbours of {granularity.title}")
    pairs = [
        (first, second)
        for place, first in enumerate(listed)
        for second in listed[place + 1 :]
        if granularity.relation(first, second)
    ]
    return tuple(pair for first, second in pairs for pair in ((first, second), (second, first)))


@dataclass(frozen=True, eq=False)
class _Steps:
    """Steps inside a listed class, counted from each database once, by breadth-first search."""

    adjacent: dict[Hashable, list[Hashable]]
    known: dict[Hashable, dict[Hashable, int]]

    def __call__(self, first: Database, second: Database) -> float:
        for one in (first, second):
            if one not in self.adjacent:
                raise InvalidInputError(f"database: expected one of the class, got {shown(one)}")
        if first not in self.known:
            self.known[first] = self._from(first)
        return self.known[first].get(second, math.inf)

    def _from(self, start: Hashable) -> dict[Hashable, int]:
        steps, waiting = {start: 0}, deque([start])
        while waiting:
            here = waiting.popleft()
            for there in self.adjacent[here]:
                if there not in steps:
                    steps[there] = steps[here] + 1
                    waiting.append(there)
        return steps


def _steps_within(granularity: Granularity, domain: DatabaseClass) -> _Steps:
    adjacent: dict[Hashable, list[Hashable]] = {one: [] for one in domain.listed("counting steps")}
    for first, second in neighbours(granularity, domain):
        adjacent[first].append(second)
    return _Steps(adjacent, {})


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
        if declared is not None:
            _check_declared(name, known is not None, reason)
        elif known is None:
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
    """Return d^𝒢 over a class, listed or known; the last ones are kept, as the steps of listed classes are counted.

    It is returned also where the class has no neighbours at all: see `privacy_metric`.

    Raises
    ------
    InvalidInputError
        As `CanonicalMetric`.
    """
    return CanonicalMetric(granularity, domain)


def _known(granularity: Granularity, domain: DatabaseClass) -> Callable[[Database, Database], float] | None:
    if domain.databases is not None:
        return _steps_within(granularity, domain)
    closed = granularity.closed_form(domain)
    return None if closed is None else _inside(domain, closed)


def _check_declared(name: str, known: bool, reason: Any) -> None:
    if known:
        raise InvalidInputError(f"{name}: expected no declared distance, for it is known")
    if not isinstance(reason, str) or not reason:
        raise InvalidInputError(
            f"{name}: it cannot be checked that the declared distance counts steps between neighbours: give the reason"
            f" why it does, got {shown(reason)}"
        )


def _inside(domain: DatabaseClass, closed: Callable[[Database, Database], float]) -> Callable[..., float]:
    """Return a distance that refuses databases which are visibly not of the universe."""
    size = domain.size if isinstance(domain, Multisets | OrderedDatabases) else None

    def distance(first: Database, second: Database) -> float:
        for one in (first, second):
            if size is not None and counts(one).total() != size:
                raise InvalidInputError(f"{domain.name}: expected databases of {size} records, got {shown(one)}")
        return closed(first, second)

    return distance


def induced_metric(metric: Metric, part: DatabaseClass) -> Metric:
    """Return the restriction of a metric to a smaller class (Remark A.2): in general not the class's own metric.

    Raises
    ------
    InvalidInputError
        If both classes are listed and the second is not within the first.
    """
    listed = metric.domain.databases
    if listed is not None and not set(part.listed("a restriction")) <= set(listed):
        raise InvalidInputError(f"{part.name}: expected a class within {metric.domain.name}")
    return Metric(part, metric, f"{metric.name} restricted to {part.name}")


@dataclass(frozen=True)
class _Shape:
    has_neighbours: bool
    connected: bool
    diameter: float


def _shape(granularity: Granularity, domain: DatabaseClass) -> _Shape:
    """Return what a class looks like: found out where it is listed, known where it is a full universe."""
    metric = canonical_metric(granularity, domain)
    if domain.databases is not None:
        listed = domain.databases
        widest = max(metric(first, second) for first in listed for second in listed)
        return _Shape(bool(neighbours(granularity, domain)), widest < math.inf, widest)
    match granularity, domain:
        case FreeLunch(), _:
            return _Shape(True, True, 1)
        case (Unbounded(), Multisets(size=int()) | OrderedDatabases(size=int())) | (
            Bounded(),
            Multisets(records=(_,)),
        ):
            return _Shape(False, False, math.inf)
        case Bounded(), Multisets(size=int(size)) | OrderedDatabases(size=int(size)):
            return _Shape(True, True, size)
        case (Bounded(), Multisets() | OrderedDatabases() | UserDatabases()) | (EdgeLevel(), Graphs()):
            return _Shape(True, False, math.inf)
        case (
            (Unbounded(), Multisets() | UserDatabases())
            | (UserLevel(), UserDatabases())
            | (NodeLevel(presence="protected"), Graphs())
        ):
            return _Shape(True, True, math.inf)
    raise InvalidInputError(
        f"{domain.name}: expected a class whose databases are listed, or a full universe that is known to be connected"
        f" or not by {granularity.title}"
    )


def is_totally_disconnected(granularity: Granularity, domain: DatabaseClass) -> bool:
    """Return whether a class has no neighbours at all (Example III.4).

    Raises
    ------
    InvalidInputError
        If the class is neither listed nor a full universe that is known.
    """
    if domain.databases is not None:
        return not neighbours(granularity, domain)
    return not _shape(granularity, domain).has_neighbours


def is_connected(granularity: Granularity, domain: DatabaseClass) -> bool:
    """Return whether all distances of a class are finite.

    Raises
    ------
    InvalidInputError
        As `is_totally_disconnected`.
    """
    return _shape(granularity, domain).connected


def diameter(granularity: Granularity, domain: DatabaseClass) -> float:
    """Return the largest distance of a class; ∞ also where distances are finite and grow without end.

    Raises
    ------
    InvalidInputError
        As `is_totally_disconnected`.
    """
    return _shape(granularity, domain).diameter


def privacy_metric(granularity: Granularity, domain: DatabaseClass) -> CanonicalMetric:
    """Return the canonical metric of a class in which privacy means something.

    Raises
    ------
    InvalidInputError
        As `refuse_without_neighbours` and `canonical_metric`.
    """
    metric = canonical_metric(granularity, domain)
    refuse_without_neighbours(metric)
    return metric


def refuse_without_neighbours(metric: CanonicalMetric) -> None:
    """Refuse a class of several databases without any neighbours (Example III.4).

    The identity, which reveals everything, would be "0-DP" there. A declared metric is not looked at.

    Raises
    ------
    InvalidInputError
        If there are none.
    """
    if metric.declared is not None or len(metric.domain.databases or ()) == 1:
        return
    if is_totally_disconnected(metric.granularity, metric.domain):
        raise InvalidInputError(
            f"{metric.domain.name}: expected a class with neighbours of {metric.granularity.title}, got one without"
            " any, in which every mechanism would be 0-private, even one that prints the database (Example III.4)"
        )
