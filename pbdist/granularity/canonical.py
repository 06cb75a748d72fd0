"""Canonical metrics: the smallest number of neighbouring steps inside a class (Guerra-Balboa et al. 2024, A.1)."""

import math
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.multisets import counts
from pbdist.granularity.notions import Granularity
from pbdist.granularity.spaces import Database, DatabaseClass, Metric
from pbdist.granularity.universes import Multisets, OrderedDatabases

__all__ = [
    "canonical_metric",
    "induced_metric",
    "neighbours",
]


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


def canonical_metric(granularity: Granularity, domain: DatabaseClass) -> Metric:
    """Return d^𝒢 over a class: the smallest number of steps between neighbours *inside the class* (Proposition A.1).

    It is ∞ where no chain of neighbours exists. It is not the restriction of the metric of a larger class
    (Remark A.2, `induced_metric`), for the chain may not leave the class.

    Parameters
    ----------
    granularity : Granularity
        𝒢.
    domain : DatabaseClass
        Listed, or a full universe for which a closed form is proved.

    Returns
    -------
    Metric
        In steps. It is returned also where the class has no neighbours at all: see `privacy_metric`.

    Raises
    ------
    InvalidInputError
        If the class is neither.
    """
    name = f"d of {granularity.title} over {domain.name}"
    if domain.databases is not None:
        return Metric(domain, _steps_within(granularity, domain), name)
    closed = granularity.closed_form(domain)
    if closed is None:
        raise InvalidInputError(
            f"{name}: expected a class whose databases are listed, or a full universe whose distances are known,"
            f" got {shown(domain)}"
        )
    return Metric(domain, _inside(domain, closed), name)


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
