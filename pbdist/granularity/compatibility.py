"""How many parts one step between neighbours changes, and by how much: what the best bound for disjoint parts needs."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.canonical import canonical_metric, neighbours
from pbdist.granularity.connection import privacy_metric
from pbdist.granularity.multisets import Multiset, intersection, part_of, symmetric_difference_size, union
from pbdist.granularity.notions import Bounded, Granularity, Unbounded, UserLevel
from pbdist.granularity.partitions import OrderPartition, OverlappingParts, Parts, RecordPartition
from pbdist.granularity.sensitivity import sensitivity
from pbdist.granularity.spaces import Database, DatabaseClass, DatabaseMap
from pbdist.granularity.universes import Multisets, OrderedDatabases, UserDatabases

__all__ = ["Compatibility", "are_disjoint", "commutes", "compatibility", "touched"]


@dataclass(frozen=True)
class Compatibility:
    """What one step between neighbours does to the parts of a database.

    Attributes
    ----------
    most_touched : int
        An upper bound on I_p(D, D') for neighbours.
    sensitivity : float
        An upper bound on all Δp_i, from the canonical metric of the class to those of the parts; it may be ∞.
    exact : bool
        Whether both are found by looking at all neighbours; else a theorem gives them.
    reason : str
        The theorem, or that all neighbours were looked at.
    """

    most_touched: int
    sensitivity: float
    exact: bool
    reason: str

    @property
    def compatible(self) -> bool:
        """Whether neighbours differ in at most one part: I_p <= 1."""
        return self.most_touched <= 1

    @property
    def best_bound(self) -> bool:
        """Whether both hypotheses of Theorem IV.6 hold: compatible, and Δp_i <= 1 for all i."""
        return self.compatible and self.sensitivity <= 1


def touched(maps: Sequence[DatabaseMap], first: Database, second: Database) -> tuple[int, ...]:
    """Return the places of the maps that tell two databases apart, {i : f_i(D) ≠ f_i(D')}; I_f is their number."""
    return tuple(place for place, reads in enumerate(maps) if reads(first) != reads(second))


def are_disjoint(maps: Sequence[DatabaseMap]) -> bool:
    """Return whether p_i(D) ⊆ D and p_i(D) ∩ p_j(D) = ∅ for all i ≠ j and all databases of a listed class.

    The paper prints ≠ ∅ in its definition of a partitioning function.

    Raises
    ------
    InvalidInputError
        If the maps have different domains, or the databases are not listed.
    """
    listed = _common_domain(maps).listed("the disjointness of parts")
    return all(_parts_are_disjoint([reads(one) for reads in maps], one) for one in listed)


def _parts_are_disjoint(parts: Sequence[Multiset], database: Hashable) -> bool:
    within = all(isinstance(database, tuple) and part_of(part, database) for part in parts)
    return within and not any(intersection(one, other) for one, other in combinations(parts, 2))


def _common_domain(maps: Sequence[DatabaseMap]) -> DatabaseClass:
    domains = {reads.domain for reads in maps}
    if len(domains) != 1:
        raise InvalidInputError(f"maps: expected one or more with one domain, got {len(maps)} with {len(domains)}")
    return domains.pop()


def commutes(parts: Parts, distance: Callable[[Database, Database], float], domain: DatabaseClass) -> bool:
    """Return whether a metric commutes with a partition: Σ d(p_i(D), p_i(D')) = d(∪ p_i(D), ∪ p_i(D')) <= d(D, D').

    Parameters
    ----------
    parts : Parts
        p.
    distance : callable
        d, which does not depend on a class.
    domain : DatabaseClass
        Listed; or `Multisets` for |D △ D'| (`symmetric_difference_size`) and a `RecordPartition`, where
        Proposition A.4 proves it.

    Raises
    ------
    InvalidInputError
        If the class is neither.
    """
    by_theorem = isinstance(parts, RecordPartition) and distance is symmetric_difference_size
    if by_theorem and isinstance(domain, Multisets | UserDatabases):
        return True
    maps = parts.maps(domain)
    listed = domain.listed("whether a metric commutes with parts")
    return all(_commutes_at(maps, distance, first, second) for first, second in combinations(listed, 2))


def _commutes_at(
    maps: Sequence[DatabaseMap], distance: Callable[[Database, Database], float], first: Database, second: Database
) -> bool:
    here, there = [reads(first) for reads in maps], [reads(second) for reads in maps]
    summed = sum(distance(one, other) for one, other in zip(here, there, strict=True))
    return summed == distance(reduce(union, here), reduce(union, there)) <= distance(first, second)


def compatibility(parts: Parts, granularity: Granularity, domain: DatabaseClass) -> Compatibility:
    """Return how many parts neighbours differ in, and the largest sensitivity of a part.

    Parameters
    ----------
    parts : Parts
        p.
    granularity : Granularity
        Over the class and over the parts.
    domain : DatabaseClass
        Listed, and then all neighbours are looked at; or a full universe, and then a theorem is asked.

    Raises
    ------
    InvalidInputError
        If the class has no neighbours, or no theorem is known.
    """
    if domain.databases is not None:
        return _looked_at(parts, granularity, domain)
    privacy_metric(granularity, domain)
    known = _proved(parts, granularity, domain)
    if known is None:
        raise InvalidInputError(
            f"compatibility: expected parts whose compatibility with {granularity.title} over {domain.name} is proved,"
            f" or a class whose databases are listed, got {shown(parts)}"
        )
    return known


def _looked_at(parts: Parts, granularity: Granularity, domain: DatabaseClass) -> Compatibility:
    before = privacy_metric(granularity, domain)
    maps = parts.maps(domain)
    most = max(len(touched(maps, first, second)) for first, second in neighbours(granularity, domain))
    largest = max(sensitivity(reads, before, canonical_metric(granularity, reads.codomain)) for reads in maps)
    return Compatibility(most, largest, True, "all neighbours were looked at")


def _proved(parts: Parts, granularity: Granularity, domain: DatabaseClass) -> Compatibility | None:
    """Return what docs/granularity-notions.md proves, section 5."""
    if isinstance(parts, OrderPartition):
        if isinstance(granularity, Bounded) and isinstance(domain, OrderedDatabases):
            return Compatibility(1, 1, False, "Proposition A.6: a place is in one part")
        return None
    match granularity, domain:
        case Unbounded(), Multisets() | UserDatabases():
            return _bounded_by(parts, 1, "a record is in one part (after Proposition A.4), or in few (Example IV.5)")
        case UserLevel(), UserDatabases():
            return _bounded_by(parts, domain.records, "a user has few records, each in few parts")
        case Bounded(), Multisets() | UserDatabases():
            return _of_changed_record(parts, domain)
    return None


def _most_blocks(parts: Parts) -> int:
    """Return in how many blocks a record may be."""
    return parts.most if isinstance(parts, OverlappingParts) else 1


def _bounded_by(parts: Parts, records: int, reason: str) -> Compatibility:
    """Return what at most so many added or removed records do: each part that they are in loses or gains them."""
    return Compatibility(min(records * _most_blocks(parts), len(parts.blocks)), 1, False, reason)


def _of_changed_record(parts: Parts, domain: DatabaseClass) -> Compatibility:
    """Return what a changed record does: it may leave parts and join others, whose sizes change then."""
    records = domain.records if isinstance(domain, Multisets) else None
    places = None if records is None else {parts.of_record(record) for record in records}
    if places is not None and len(places) == 1:
        return Compatibility(len(next(iter(places))), 1, False, "all records are in the same parts: none moves")
    reachable = len(parts.blocks) if places is None else len(frozenset[Hashable]().union(*places))
    most = min(2 * _most_blocks(parts), reachable)
    return Compatibility(most, math.inf, False, "Proposition A.5: a record moves between parts")
