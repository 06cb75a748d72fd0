"""Parts of databases: which part goes where, what a step between neighbours does to them, and a class with its parts.

Guerra-Balboa et al. 2024, IV-B to IV-C. What is proved here for full universes: docs/granularity-notions.md, section 5.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.canonical import CanonicalMetric, canonical_metric, privacy_metric
from pbdist.granularity.databases import (
    Multiset,
    Multisets,
    OrderedDatabases,
    UserDatabases,
    counts,
    symmetric_difference_size,
    whole,
)
from pbdist.granularity.notions import Bounded, Granularity, Unbounded, UserLevel
from pbdist.granularity.spaces import Database, DatabaseClass, DatabaseMap, Metric
from pbdist.granularity.upward import upward_sum


@dataclass(frozen=True)
class Parts(ABC):
    """A function p = (p_1 .. p_k) of databases, each part p_i(D) ⊆ D for a block.

    Attributes
    ----------
    blocks : tuple
        The names of the parts, each once.
    """

    blocks: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        blocks = tuple(self.blocks)
        if not blocks or len(set(blocks)) < len(blocks):
            raise InvalidInputError(
                f"{type(self).__name__}.blocks: expected one or more, each once, got {shown(blocks)}"
            )
        object.__setattr__(self, "blocks", blocks)

    @abstractmethod
    def of_record(self, record: Any) -> frozenset[Hashable]:
        """Return the blocks that a record is in."""

    def part(self, database: Multiset, block: Hashable) -> Multiset:
        """Return p_i(D): the records of a block, as often as D has them."""
        self._refuse_others(database)
        return tuple(record for record in database if block in self.of_record(record))

    def maps(self, domain: DatabaseClass) -> tuple[DatabaseMap, ...]:
        """Return p_1 .. p_k over a class, each into p_i(𝔻): all images of a listed class, or a class of that name."""
        return tuple(self._map(domain, block) for block in self.blocks)

    def _map(self, domain: DatabaseClass, block: Hashable) -> DatabaseMap:
        part = _Part(self, block)
        name = f"part {shown(block)} of {domain.name}"
        images = None if domain.databases is None else tuple(dict.fromkeys(part(one) for one in domain.databases))
        codomain = self._universe(domain, block, name) if images is None else DatabaseClass(name, images)
        return DatabaseMap(domain, codomain, part, name)

    def _universe(self, domain: DatabaseClass, block: Hashable, name: str) -> DatabaseClass:
        """Return p_i(𝔻) of a full universe: again a full one, over the records of the block, where that is known.

        Where records are not known, a block is taken to have two or more of them; with fewer, distances have the same
        closed forms.
        """
        if isinstance(domain, UserDatabases):
            return UserDatabases(name, records=domain.records)
        if not isinstance(domain, Multisets):
            return DatabaseClass(name)
        if domain.records is None:
            return DatabaseClass(name) if domain.size is not None else Multisets(name)
        inside = tuple(record for record in domain.records if block in self.of_record(record))
        if not inside:
            return DatabaseClass(name, ((),))
        if len(inside) == len(domain.records):
            return replace(domain, name=name)
        return DatabaseClass(name) if domain.size is not None else Multisets(name, records=inside)

    def _refuse_others(self, database: Multiset) -> None:
        counts(database)

    def _known(self, blocks: Iterable[Hashable], record: Any) -> frozenset[Hashable]:
        found = frozenset(blocks)
        if not found <= set(self.blocks):
            raise InvalidInputError(
                f"{type(self).__name__}.blocks: expected blocks among {shown(self.blocks)}, got {shown(set(found))}"
                f" for {shown(record)}"
            )
        return found


@dataclass(frozen=True)
class _Part:
    """p_i. Those of equal parts and blocks are equal."""

    parts: Parts
    block: Hashable

    def __call__(self, database: Any) -> Multiset:
        return self.parts.part(database, self.block)


def maps_of(parts: Parts | Sequence[DatabaseMap], domain: DatabaseClass) -> tuple[DatabaseMap, ...]:
    """Return p_1 .. p_k over a class, of parts or given one by one."""
    if isinstance(parts, Parts):
        return parts.maps(domain)
    named: Any = parts
    given = tuple(named) if isinstance(named, Sequence) else ()
    if not given or not all(isinstance(one, DatabaseMap) for one in given):
        raise InvalidInputError(f"parts: expected Parts, or one DatabaseMap or more, got {shown(parts)}")
    for one in given:
        if one.domain != domain:
            raise InvalidInputError(f"parts: expected maps from {domain.name}, got {one.name} from {one.domain.name}")
    return given


@dataclass(frozen=True)
class RecordPartition(Parts):
    """Disjoint parts in which a record's own value says where it goes (Example IV.4).

    Attributes
    ----------
    block_of : callable
        The block of a record, or None: a record of no block is read by no mechanism.
    """

    block_of: Callable[[Any], Hashable | None] = field(repr=False)

    def of_record(self, record: Any) -> frozenset[Hashable]:
        """Return the one block of a record, or none."""
        block = self.block_of(record)
        return self._known(() if block is None else (block,), record)


@dataclass(frozen=True)
class OrderPartition(Parts):
    """Disjoint parts in which the place of a record says where it goes (Example IV.7).

    Databases are multisets of records (n, x), with n = 1 .. |D|, each once.

    Attributes
    ----------
    block_of : callable
        The block of a place n, or None.
    """

    block_of: Callable[[int], Hashable | None] = field(repr=False)

    def of_record(self, record: Any) -> frozenset[Hashable]:
        """Return the one block of the place of a record, or none."""
        block = self.block_of(record[0])
        return self._known(() if block is None else (block,), record)

    def _universe(self, domain: DatabaseClass, block: Hashable, name: str) -> DatabaseClass:
        """Return databases of those places of the block that come first, which their number tells.

        Without a size a block is taken to have a place.
        """
        if not isinstance(domain, OrderedDatabases):
            return DatabaseClass(name)
        if domain.size is None:
            return OrderedDatabases(name, some_places=True)
        size = sum(block == self.block_of(place) for place in range(1, domain.size + 1))
        return OrderedDatabases(name, size=size, some_places=True) if size else DatabaseClass(name, ((),))

    def _refuse_others(self, database: Multiset) -> None:
        counts(database)
        places = [record[0] for record in database if isinstance(record, tuple) and len(record) == 2]
        if len(places) < len(database) or places != list(range(1, len(places) + 1)):
            raise InvalidInputError(
                f"OrderPartition: expected records (n, x) with n = 1 to the number of records, got {shown(database)}"
            )


@dataclass(frozen=True)
class OverlappingParts(Parts):
    """Parts that may share records: each record is in at most so many (Example IV.5).

    Attributes
    ----------
    blocks_of : callable
        The blocks of a record; there may be none.
    most : int
        The largest number of blocks of a record. A record of more is refused.
    """

    blocks_of: Callable[[Any], Iterable[Hashable]] = field(repr=False)
    most: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("OverlappingParts.most", self.most, 1)

    def of_record(self, record: Any) -> frozenset[Hashable]:
        """Return the blocks of a record."""
        found = self._known(self.blocks_of(record), record)
        if len(found) > self.most:
            raise InvalidInputError(
                f"OverlappingParts.most: expected records in at most {self.most} blocks, got {len(found)} of"
                f" {shown(record)}"
            )
        return found


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
            raise InvalidInputError(f"Compatibility.reason: give the reason as text, not {shown(given)}")
        for name, value in (("most_touched", self.most_touched), ("sensitivity", self.sensitivity)):
            if not value >= 0:
                raise InvalidInputError(f"Compatibility.{name}: expected a number of at least 0, got {shown(value)}")


def touched(maps: Sequence[DatabaseMap], first: Database, second: Database) -> tuple[int, ...]:
    """Return the places of the maps that tell two databases apart, {i : f_i(D) ≠ f_i(D')}; I_f is their number."""
    return tuple(place for place, reads in enumerate(maps) if reads(first) != reads(second))


def metrics_of_parts(maps: Sequence[DatabaseMap], metric: Metric) -> tuple[Metric, ...]:
    """Return the distance on the parts that is the same: of the same granularity, or the same function."""
    if isinstance(metric, CanonicalMetric):
        return tuple(canonical_metric(metric.granularity, reads.codomain) for reads in maps)
    if type(metric) is not Metric:
        raise InvalidInputError(f"block_metrics: give a metric on each part: none follows from {metric.name}")
    return tuple(Metric(reads.codomain, metric.function, metric.name, metric.squared) for reads in maps)


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
        return not metric.squared and metric.function is symmetric_difference_size
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
        Listed, and then all neighbours are looked at; or a full universe, for which a theorem is known.
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


@dataclass(frozen=True, eq=False)
class PartedClass:
    """The parts p_1(D), .., p_k(D) that mechanisms read, and the metric that says how far databases are apart.

    What a rule needs is found by looking at all neighbours of a listed class, or is proved for a full universe. Only
    where neither is the case does it take what is declared, and refuses if nothing is. The parts need not be disjoint,
    and need not make up D.

    Parameters
    ----------
    parts : Parts or sequence of DatabaseMap
        p; or p_i, all from 𝔻.
    metric : Metric
        d on 𝔻; d^𝒢 (`canonical_metric`) for rules about granularities.
    declared : Compatibility, optional
        What neighbours do to the parts.
    block_metrics : sequence of Metric, optional
        d on the codomain of each p_i, where that of `metrics_of_parts` is not known or not meant.
    commuting : str, optional
        Why Σ_i d(p_i(D), p_i(D')) <= d(D, D').

    Attributes
    ----------
    maps : tuple of DatabaseMap
        p_i.
    """

    parts: Parts | Sequence[DatabaseMap]
    metric: Metric
    declared: Compatibility | None = field(default=None, kw_only=True)
    block_metrics: Sequence[Metric] = field(default=(), kw_only=True)
    commuting: str = field(default="", kw_only=True)
    maps: tuple[DatabaseMap, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.metric
        if not isinstance(given, Metric):
            raise InvalidInputError(f"PartedClass.metric: expected a Metric, got {shown(self.metric)}")
        object.__setattr__(self, "maps", maps_of(self.parts, self.metric.domain))
        if not isinstance(self.declared, Compatibility | None):
            raise InvalidInputError(f"PartedClass.declared: expected a Compatibility, got {shown(self.declared)}")
        if not isinstance(self.commuting, str):
            raise InvalidInputError(f"PartedClass.commuting: expected a reason, got {shown(self.commuting)}")
        if self.block_metrics:
            self._check_block_metrics()

    def _check_block_metrics(self) -> None:
        given: Sequence[Any] = self.block_metrics
        domains = [metric.domain if isinstance(metric, Metric) else None for metric in given]
        if domains != [reads.codomain for reads in self.maps]:
            raise InvalidInputError("PartedClass.block_metrics: expected one metric for each part, over what it is in")
        for metric in self.block_metrics:
            if isinstance(self.metric, CanonicalMetric) and not (
                isinstance(metric, CanonicalMetric) and metric.granularity == self.metric.granularity
            ):
                raise InvalidInputError(
                    f"PartedClass.block_metrics: expected canonical metrics of {self.metric.granularity.title} on the"
                    f" parts too, got {metric.name}"
                )

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """D on the parts, for which mechanisms on their own domains are private."""
        return tuple(self.block_metrics) or metrics_of_parts(self.maps, self.metric)

    @cached_property
    def compatibility(self) -> Compatibility:
        """What neighbours do to the parts."""
        metric = self.canonical
        return compatibility(self.parts, metric.granularity, metric.domain, self.declared)

    @property
    def canonical(self) -> CanonicalMetric:
        """d^𝒢, or a refusal of another metric."""
        if not isinstance(self.metric, CanonicalMetric):
            raise InvalidInputError(
                f"expected the canonical metric of a granularity (CanonicalMetric), got {self.metric.name}: what holds"
                " for neighbours says nothing of other pairs under a metric that does not count steps"
            )
        return self.metric

    def require_touched(self, most: int) -> None:
        """Refuse parts of which neighbours differ in more than one or two."""
        known = self.compatibility
        if known.most_touched > most:
            what = "that is compatible with the granularity" if most == 1 else "whose changes touch at most two parts"
            raise InvalidInputError(
                f"parted: expected a partition {what}, got one whose neighbours may differ in"
                f" {known.most_touched} parts: {known.reason}"
            )

    def require_best_bound(self) -> None:
        """Refuse parts without both hypotheses of Theorem IV.6."""
        self.require_touched(1)
        known = self.compatibility
        if known.sensitivity > 1:
            raise InvalidInputError(f"expected Δp_i <= 1, got {known.sensitivity}: {known.reason}")

    def require_commuting(self) -> None:
        """Refuse a metric with Σ_i d(p_i(D), p_i(D')) > d(D, D')."""
        if self.metric.domain.databases is None and self.commuting:
            return
        if not commutes(self.parts, self.metric, self.metrics):
            worst = not_commuting(self.maps, self.metric, self.metrics)
            raise InvalidInputError(
                f"expected a metric that commutes with the partition, got {self.metric.name}: the parts of"
                f" {shown(worst)} are further apart than these"
            )
