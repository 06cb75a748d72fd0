"""How many parts one step between neighbours changes, and by how much: what the best bound for disjoint parts needs."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.canonical import CanonicalMetric, canonical_metric, privacy_metric
from pbdist.granularity.multisets import Multiset, intersection, part_of, symmetric_difference_size
from pbdist.granularity.notions import Bounded, Granularity, Unbounded, UserLevel
from pbdist.granularity.partitions import OrderPartition, OverlappingParts, Parts, RecordPartition, maps_of
from pbdist.granularity.spaces import Database, DatabaseClass, DatabaseMap, Metric
from pbdist.granularity.universes import Multisets, OrderedDatabases, UserDatabases
from pbdist.granularity.upward import upward_sum


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
        Whether both are found by looking at all neighbours.
    reason : str
        What was found, the theorem, or why it is so where it is declared for a class that is neither listed nor known.
    """

    most_touched: int
    sensitivity: float
    exact: bool
    reason: str

    def __post_init__(self) -> None:
        given: Any = self.reason
        if not isinstance(given, str) or not given:
            raise InvalidInputError(f"Compatibility.reason: expected one, got {shown(given)}")
        for name, value in (("most_touched", self.most_touched), ("sensitivity", self.sensitivity)):
            if not value >= 0:
                raise InvalidInputError(f"Compatibility.{name}: expected a number of at least 0, got {shown(value)}")

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


def metrics_of_parts(maps: Sequence[DatabaseMap], metric: Metric) -> tuple[Metric, ...]:
    """Return the distance on the parts that is the same: of the same granularity, or the same function.

    Raises
    ------
    InvalidInputError
        If the canonical metric of a part is not known, or the metric is made from others.
    """
    if isinstance(metric, CanonicalMetric):
        return tuple(canonical_metric(metric.granularity, reads.codomain) for reads in maps)
    if type(metric) is not Metric:
        raise InvalidInputError(f"block_metrics: expected a metric on each part, for {metric.name} does not tell them")
    return tuple(Metric(reads.codomain, metric.function, metric.name) for reads in maps)


def commutes(parts: Parts | Sequence[DatabaseMap], metric: Metric, block_metrics: Sequence[Metric] = ()) -> bool:
    """Return whether a metric commutes with a partition: Σ d_i(p_i(D), p_i(D')) <= d(D, D') for all pairs.

    The paper asks too that the sum be d(∪ p_i(D), ∪ p_i(D')), which no proof needs.

    Parameters
    ----------
    parts : Parts or sequence of DatabaseMap
        p.
    metric : Metric
        d. Its class is listed; or it is `Multisets` or `UserDatabases`, d counts the records of D △ D'
        (`symmetric_difference_size`, or the metric of `Unbounded`), and p is a `RecordPartition`: Proposition A.4.
    block_metrics : sequence of Metric, optional
        d_i; without them those of `metrics_of_parts`.

    Raises
    ------
    InvalidInputError
        If the class is neither.
    """
    maps = maps_of(parts, metric.domain)
    metrics = block_metrics or metrics_of_parts(maps, metric)
    return _counts_records(parts, (metric, *metrics)) or not_commuting(maps, metric, metrics) is None


def _counts_records(parts: Parts | Sequence[DatabaseMap], metrics: Sequence[Metric]) -> bool:
    """Whether Proposition A.4 says that the first metric commutes, the others being those of the parts."""
    known = isinstance(parts, RecordPartition) and isinstance(metrics[0].domain, Multisets | UserDatabases)
    return known and all(_is_symmetric_difference(metric) for metric in metrics)


def _is_symmetric_difference(metric: Metric) -> bool:
    """Whether a metric is |D △ D'|: the function, or the canonical one where every size may be, or nothing but ()."""
    if not isinstance(metric, CanonicalMetric):
        return metric.function is symmetric_difference_size
    every_size = isinstance(metric.domain, UserDatabases) or metric.domain.databases == ((),)
    every_size |= isinstance(metric.domain, Multisets) and metric.domain.size is None
    return every_size and isinstance(metric.granularity, Unbounded) and metric.declared is None


def not_commuting(
    maps: Sequence[DatabaseMap], metric: Metric, block_metrics: Sequence[Metric]
) -> tuple[Database, Database] | None:
    """Return databases of a listed class of which the parts are further apart than they are, if there are any."""
    for first, second in combinations(metric.domain.listed("whether a metric commutes with parts"), 2):
        parts = upward_sum(d(p(first), p(second)) for p, d in zip(maps, block_metrics, strict=True))
        if parts > metric(first, second):
            return first, second
    return None


def compatibility(
    parts: Parts | Sequence[DatabaseMap],
    granularity: Granularity,
    domain: DatabaseClass,
    declared: Compatibility | None = None,
) -> Compatibility:
    """Return how many parts neighbours differ in, and the largest sensitivity of a part.

    Parameters
    ----------
    parts : Parts or sequence of DatabaseMap
        p.
    granularity : Granularity
        Over the class and over the parts.
    domain : DatabaseClass
        Listed, and then all neighbours are looked at; or a full universe, and then a theorem is asked.
    declared : Compatibility, optional
        What is known of parts for which neither is the case. Else it is not looked at.

    Raises
    ------
    InvalidInputError
        If the class has no neighbours; or no theorem is known, and nothing is declared.
    """
    if domain.databases is not None:
        return _looked_at(maps_of(parts, domain), privacy_metric(granularity, domain))
    known = _proved(parts, granularity, domain)
    if known is not None:
        privacy_metric(granularity, domain)
        return known
    if declared is None:
        raise InvalidInputError(
            f"compatibility: expected parts whose compatibility with {granularity.title} over {domain.name} is proved,"
            " or a class whose databases are listed, or a declared Compatibility with the reason for it, got"
            f" {shown(parts)}"
        )
    return declared


def _looked_at(maps: Sequence[DatabaseMap], metric: CanonicalMetric) -> Compatibility:
    """Return what all neighbours say. Δp_i is the largest distance of their parts, for other pairs are steps apart."""
    changed = {pair: touched(maps, *pair) for pair in metric.neighbours}
    pair = max(changed, key=lambda pair: len(changed[pair]), default=None)
    blocks = [_metric_of_part(metric.granularity, reads) for reads in maps]
    sensitivity = max(
        (
            math.inf if block is None else block(reads(first), reads(second))
            for first, second in changed
            for reads, block in zip(maps, blocks, strict=True)
        ),
        default=0,
    )
    if pair is None:
        return Compatibility(0, 0, True, "there are no neighbours")
    names = ", ".join(maps[place].name for place in changed[pair]) or "none"
    reason = f"all neighbours were looked at, of which {shown(pair[0])} and {shown(pair[1])} differ in: {names}"
    return Compatibility(len(changed[pair]), sensitivity, None not in blocks, reason)


def _metric_of_part(granularity: Granularity, reads: DatabaseMap) -> CanonicalMetric | None:
    """Return the canonical metric of what a map maps into, where it is known."""
    known = reads.codomain.databases is not None or granularity.closed_form(reads.codomain) is not None
    return canonical_metric(granularity, reads.codomain) if known else None


def _proved(
    parts: Parts | Sequence[DatabaseMap], granularity: Granularity, domain: DatabaseClass
) -> Compatibility | None:
    """Return what docs/granularity-notions.md proves, section 5."""
    match parts, granularity, domain:
        case OrderPartition(), Bounded(), OrderedDatabases():
            return Compatibility(1, 1, False, "Proposition A.6: a place is in one part")
        case RecordPartition() | OverlappingParts(), Unbounded(), Multisets() | UserDatabases():
            return _bounded_by(parts, 1, "a record is in one part (after Proposition A.4), or in few (Example IV.5)")
        case RecordPartition() | OverlappingParts(), UserLevel(), UserDatabases():
            return _bounded_by(parts, domain.records, "a user has few records, each in few parts")
        case RecordPartition() | OverlappingParts(), Bounded(), Multisets() | UserDatabases():
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
