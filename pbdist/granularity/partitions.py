"""Which part of a database goes where: partitions by record or by place, and overlapping parts (IV-B to IV-C)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.multisets import Multiset, counts
from pbdist.granularity.spaces import DatabaseClass, DatabaseMap
from pbdist.granularity.universes import Multisets, OrderedDatabases, UserDatabases, whole


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
    """Return p_1 .. p_k over a class, of parts or given one by one.

    Raises
    ------
    InvalidInputError
        If there are none, or they are no maps from this class.
    """
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
    blocks : tuple
        The names of the parts.
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
    blocks : tuple
        The names of the parts.
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
    blocks : tuple
        The names of the parts.
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
