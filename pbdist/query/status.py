"""How far a store is: what is committed, missing or failed, and whether a driver is at work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pbdist.errors import StoreDamagedError
from pbdist.query.judging import Precision, precision_of, total_precision
from pbdist.query.printing import precision_as_json
from pbdist.store import (
    Holder,
    StoreCheck,
    StoredStudy,
    check_store,
    holder,
    open_parts,
    place_at,
    read_refinements,
    sizes_of_part,
    sizes_of_store,
    survey,
)
from pbdist.store.layout import STORE_FORMAT
from pbdist.types import JsonValue


@dataclass(frozen=True)
class MissingBatch:
    """A batch without a sound commit record: its number, its first cell, and the one after its last."""

    batch: int
    first: int
    stop: int


@dataclass(frozen=True)
class FailedCell:
    """A cell that could not be computed, and why, on one line."""

    cell: int
    cause: str


@dataclass(frozen=True)
class PartStatus:
    """One part of a store.

    Attributes
    ----------
    stored
        The part.
    missing
        Batches without a sound commit record.
    failed
        Cells that could not be computed.
    points, missed
        At how many points the tolerance was sought, and at how many of them it was missed.
    wide
        The batches in which it was missed.
    unjoined
        How many batches are not joined into shards yet: other readers of zarr do not see them.
    """

    stored: StoredStudy
    missing: tuple[MissingBatch, ...]
    failed: tuple[FailedCell, ...]
    points: int
    missed: int
    wide: tuple[int, ...]
    unjoined: int

    @property
    def cells(self) -> int:
        """All cells of the part."""
        return len(self.stored.study.cells)

    @property
    def cells_missing(self) -> int:
        """Cells of the missing batches."""
        return sum(batch.stop - batch.first for batch in self.missing)

    def setting(self, cell: int) -> str:
        """Return the setting of a cell as text, also of one that is damaged."""
        try:
            return self.stored.study.cells[cell].describe()
        except StoreDamagedError:
            return "a noise setting that cannot be read"

    def as_json(self) -> dict[str, JsonValue]:
        """Return the part, without its failed cells and missing batches, in the types of JSON."""
        study = self.stored.study
        return {
            "part": self.stored.part,
            "digest": self.stored.head.digest,
            "cells": self.cells,
            "compositions": len(study.compositions),
            "epsilon": len(study.epsilon),
            "batches": self.stored.batches,
            "cells_per_batch": self.stored.cells_per_batch,
        }


@dataclass(frozen=True)
class StoreStatus:
    """What was found.

    Attributes
    ----------
    store
        The path or URL.
    parts
        In the order in which they were added.
    files, size
        Number and bytes of all files.
    driver
        The process that writes to the store, or None.
    check
        What reading every file has found; None where files were not read.
    refinements, refined_points
        What queries have added to the store: documents, and points in them.
    precision
        How far the tolerance was reached in what is committed; None where the study has none.
    """

    store: str
    parts: tuple[PartStatus, ...]
    files: int
    size: int
    driver: Holder | None
    check: StoreCheck | None
    refinements: int
    refined_points: int
    precision: Precision | None

    @property
    def cells(self) -> int:
        """Cells of all parts."""
        return sum(part.cells for part in self.parts)

    @property
    def cells_missing(self) -> int:
        """Cells of the missing batches."""
        return sum(part.cells_missing for part in self.parts)

    @property
    def cells_failed(self) -> int:
        """Cells that could not be computed."""
        return sum(len(part.failed) for part in self.parts)

    @property
    def batches(self) -> int:
        """Batches of all parts."""
        return sum(part.stored.batches for part in self.parts)

    @property
    def batches_missing(self) -> int:
        """Batches without a sound commit record."""
        return sum(len(part.missing) for part in self.parts)

    @property
    def batches_unjoined(self) -> int:
        """Batches that are not joined into shards yet."""
        return sum(part.unjoined for part in self.parts)

    @property
    def parts_missing(self) -> tuple[str, ...]:
        """The parts that the root tells of, but that are not there."""
        there = {part.stored.part for part in self.parts}
        return tuple(part for part in self.parts[0].stored.others_told if part not in there)

    @property
    def complete(self) -> bool:
        """Whether every cell is committed, as far as root and commit records tell."""
        return self.cells_missing == self.cells_failed == 0 and not self.parts_missing

    @property
    def passed(self) -> bool:
        """Whether the store is complete and, where its files were read, each is what it was when it was written."""
        return self.complete and (self.check is None or self.check.healthy)

    def as_json(self) -> dict[str, JsonValue]:
        """Return everything in the types of JSON."""
        first = self.parts[0].stored
        failed = [(part, item) for part in self.parts for item in part.failed]
        missing = [(part, item) for part in self.parts for item in part.missing]
        committed = self.cells - self.cells_missing - self.cells_failed
        return {
            "store": self.store,
            "study": first.study.name,
            "digest": first.head.digest,
            "format": STORE_FORMAT,
            "complete": self.complete,
            "healthy": None if self.check is None else self.check.healthy,
            "driver": _driver(self.driver),
            "cells": {
                "all": self.cells,
                "committed": committed,
                "missing": self.cells_missing,
                "failed": self.cells_failed,
            },
            "batches": {"all": self.batches, "missing": self.batches_missing, "unjoined": self.batches_unjoined},
            "refinements": {"all": self.refinements, "points": self.refined_points},
            "precision": None
            if self.precision is None or first.study.sought is None
            else precision_as_json(first.study.sought, self.precision),
            "files": self.files,
            "bytes": self.size,
            "parts": [part.as_json() for part in self.parts],
            "parts_missing": list(self.parts_missing),
            "failed": [
                {
                    "part": part.stored.part,
                    "cell": item.cell,
                    "setting": part.setting(item.cell),
                    "cause": item.cause,
                }
                for part, item in failed
            ],
            "missing": [
                {
                    "part": part.stored.part,
                    "batch": item.batch,
                    "first": item.first,
                    "stop": item.stop,
                    "settings": [part.setting(item.first), part.setting(item.stop - 1)],
                }
                for part, item in missing
            ],
            "damaged": [{"file": name, "problem": what} for name, what in (self.check.damaged if self.check else ())],
            "strays": list(self.check.strays if self.check else ()),
        }


def store_status(where: str | Path, *, check: bool = False) -> StoreStatus:
    """Return how far a store is. Nothing is computed or written, and a driver that is at work is not disturbed.

    Parameters
    ----------
    where
        The path or URL of the store.
    check
        Whether to read every file too and compare it with its checksum. Files that a driver is just writing may look
        like strays.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_parts`.
    OSError
        The store cannot be reached.
    """
    place = place_at(where)
    parts = open_parts(place)
    sizes = sizes_of_store(place)
    refinements = read_refinements(parts[0])
    found = tuple(part_status(stored, sizes) for stored in parts)
    return StoreStatus(
        store=place.url,
        parts=found,
        files=len(sizes),
        size=sum(sizes.values()),
        driver=holder(place),
        check=check_store(place) if check else None,
        refinements=len(refinements),
        refined_points=sum(len(one.compositions) * len(one.epsilon) for one in refinements),
        precision=None if parts[0].study.sought is None else _precision(found),
    )


def _precision(parts: Sequence[PartStatus]) -> Precision:
    """Return how far the tolerance was reached in what is committed, by its records.

    Only batches in which it was missed are read. Checksums of the others are not compared.
    """
    counted = Precision(sum(part.points for part in parts), sum(part.missed for part in parts), None)
    wide = total_precision(
        precision_of([(part.stored, part.stored.head.cells_of(index))], lenient=True)
        for part in parts
        for index in part.wide
    )
    return replace(counted, widest=wide.widest, unreadable=wide.unreadable)


def part_status(stored: StoredStudy, sizes: Mapping[str, int]) -> PartStatus:
    """Return how far a part is, by its commit records; `sizes` has the bytes of all files of the store by name."""
    missing: list[MissingBatch] = []
    failed: list[FailedCell] = []
    wide: list[int] = []
    points = missed = unjoined = 0
    for state in survey(stored.head, sizes_of_part(sizes, stored.part)):
        unjoined += 0 if state.whole else len(state.batches)
        for index in stored.head.batches_of(state.shard):
            record = state.batches.get(index)
            if record is None:
                cells = stored.head.cells_of(index)
                missing.append(MissingBatch(index, cells.start, cells.stop))
                continue
            failed += [FailedCell(cell, cause) for cell, cause in sorted(record.failed.items())]
            points, missed = points + record.points, missed + record.missed
            if record.missed:
                wide.append(index)
    return PartStatus(stored, tuple(missing), tuple(failed), points, missed, tuple(wide), unjoined)


def _driver(found: Holder | None) -> JsonValue:
    return None if found is None else {"host": found.host, "process": found.process, "since": found.since}
