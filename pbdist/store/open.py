"""Open a store, and read its results: every batch is compared with its checksums when it is read."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pbdist.errors import NotAStoreError, PbdistError, StoreDamagedError, StoreFormatError, shown
from pbdist.store.cells import StoredCells
from pbdist.store.layout import (
    BOUNDS,
    BOUNDS_ARRAY,
    CHECKSUM,
    COMPUTED,
    DETAILS,
    DETAILS_ARRAY,
    FAILURES,
    METADATA,
    MISSED,
    QUANTITIES,
    SOUGHT,
    STORE_FORMAT,
    WITHIN,
    PartHead,
    bounds_file,
    details_file,
    failures_file,
    is_extension,
    is_refined,
)
from pbdist.store.place import LocalPlace, Place, place_at, read_or_none
from pbdist.store.skeleton import attributes_of, decode_chunk, digest_of, is_sealed
from pbdist.study import Cell, StudySpec, Target
from pbdist.types import BoolArray, FloatArray, IntArray, JsonValue

#: Bytes of bounds that a part keeps in memory, about.
_MAX_BYTES = 1 << 26
#: Checksums are whole numbers of so many bytes, which float64 holds exactly.
_CHECKSUM_BYTES = 6
#: So many committed batches are compared to recognise a study.
_MAX_COMPARED = 8


@dataclass(frozen=True)
class StoredBatch:
    """The results of a batch, which have their checksums."""

    #: Over (cell, quantity, direction, compositions, epsilon); NaN where a cell could not be computed.
    bounds: FloatArray
    #: Over (cell, detail).
    details: FloatArray

    def values(self, name: str) -> Any:
        """Return one array of results over the cells of the batch."""
        if name in COMPUTED:
            return self.details[:, DETAILS.index(name)]
        values = self.bounds[:, QUANTITIES.index(name)]
        return values == 1.0 if name == WITHIN else values

    @property
    def failed(self) -> BoolArray:
        """Which cells could not be computed."""
        return np.asarray(np.isnan(self.bounds[:, 0]).any(axis=(1, 2, 3)))


@dataclass(frozen=True)
class Progress:
    """Which batches of a part are committed, by one listing."""

    #: Over the batches.
    committed: BoolArray
    #: The cells that could not be computed, and why.
    failed: Mapping[int, str]

    @property
    def missing(self) -> list[int]:
        """The batches that are not committed."""
        return [int(index) for index in np.flatnonzero(~self.committed)]

    @property
    def complete(self) -> bool:
        """Whether every cell is computed."""
        return bool(self.committed.all()) and not self.failed


@dataclass(frozen=True)
class StoredStudy:
    """A part of a store and the study that it holds; most stores have one part."""

    place: Place
    #: The study, without its description. Its cells are read when they are needed.
    study: StudySpec
    #: The number of cells in one batch.
    cells_per_batch: int
    #: Its path in the store; empty for the first one.
    part: str = ""
    #: Those of its group.
    attributes: Mapping[str, JsonValue] = field(default_factory=dict, repr=False, compare=False)

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-len(self.study.cells) // self.cells_per_batch)

    @property
    def where(self) -> str:
        """The path or URL of the whole store."""
        return self.place.url.removesuffix(f"/{self.part}") if self.part else self.place.url

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of every file of the skeleton."""
        files: Mapping[str, str] = self.attributes.get("files", {})
        return files

    @property
    def extensions(self) -> tuple[str, ...]:
        """The paths of the parts that extend the store, as its root lists them."""
        return tuple(self.attributes.get("extensions", ()))

    @cached_property
    def head(self) -> PartHead:
        """The part as a worker needs it."""
        settings = replace(self.study, cells=(), description=None, targets=())
        digest = str(self.attributes["study_digest"])
        return PartHead(self.place, self.part, digest, len(self.study.cells), self.cells_per_batch, settings)

    def cells_of(self, index: int) -> range:
        """Return the cells of a batch."""
        return self.head.cells_of(index)

    def progress(self, sizes: Mapping[str, int] | None = None) -> Progress:
        """Return which batches are committed now, by a listing of the part, if one is given: bytes of files by name."""
        if sizes is None:
            sizes = {n: size for each in (BOUNDS_ARRAY, DETAILS_ARRAY, FAILURES) for n, size in self.place.names(each)}
        committed = np.zeros(self.batches, dtype=bool)
        committed[[*(self._listed(BOUNDS_ARRAY, sizes) & self._listed(DETAILS_ARRAY, sizes))]] = True
        listed = {name.split("/")[1] for name in sizes if name.startswith(f"{FAILURES}/") and name.count("/") > 1}
        explained = [int(one) for one in listed if one.isdecimal() and int(one) < self.batches and committed[int(one)]]
        failed: dict[int, str] = {}
        for index, causes in zip(explained, self.place.at_once(self.failures, explained), strict=True):
            # Without its record it is not known which of its cells are computed.
            committed[index] = bool(causes) and causes.keys() <= set(self.cells_of(index))
            failed |= causes if committed[index] else {}
        found = Progress(committed, failed)
        vars(self).setdefault("known_progress", found)
        return found

    @cached_property
    def known_progress(self) -> Progress:
        """Which batches were committed at the first look: what is committed later is not read."""
        return self.progress()

    def read(self, index: int) -> StoredBatch | None:
        """Return the results of a batch, None where it is not committed; damage is a `StoreDamagedError`."""
        found = self._cache.get(index) or self._read(index)
        if found is not None:
            # Batches of a part have one size. Several threads read them.
            if len(self._cache) > _MAX_BYTES // max(1, found.bounds.nbytes):
                self._cache.clear()
            self._cache[index] = found
        return found

    def judged(self, progress: Progress) -> dict[int, tuple[int, int]]:
        """Return of each committed batch at how many points the tolerance was required, and at how many it was missed.

        Checksums are not compared, and batches that cannot be read are left out.
        """
        committed, shape = np.flatnonzero(progress.committed).tolist(), (self.cells_per_batch, len(DETAILS))
        details = self.place.at_once(lambda index: read_or_none(self.place, details_file(index)), committed)
        found: dict[int, FloatArray] = {}
        for index, data in zip(committed, details, strict=True):
            with suppress(ValueError, RuntimeError):
                found[index] = decode_chunk(data or b"", shape)[:, [DETAILS.index(SOUGHT), DETAILS.index(MISSED)]]
        # All batches at once: each sum by itself would take ten times as long.
        sums = np.nansum(np.reshape([*found.values()], (len(found), self.cells_per_batch, 2)), axis=1).astype(int)
        return dict(zip(found, map(tuple, sums.tolist()), strict=True))

    def is_sound(self, index: int) -> bool:
        """Whether a batch is committed, and its files are those that were written for it."""
        try:
            return self.read(index) is not None
        except StoreDamagedError:
            return False

    def is_of(self, study: StudySpec) -> bool | None:
        """Whether the results that are there are those of a study; None where nothing is committed."""
        committed = np.flatnonzero(self.progress().committed)[:_MAX_COMPARED].tolist()
        own = replace(self, study=study, attributes={"study_digest": study.digest})
        return any(own.is_sound(index) for index in committed) if committed else None

    def failures(self, index: int) -> Mapping[int, str]:
        """Return the cells of a batch that could not be computed, and why."""
        return causes_in(read_or_none(self.place, failures_file(index)))

    def values(self, name: str, selection: Any) -> Any:
        """Return a part of an array of results: along the cells a number, a slice or an array, and then as numpy does.

        NaN, or False, where nothing is committed. A `StoreDamagedError` where files are not those that were written.
        """
        first, *rest = selection if isinstance(selection, tuple) else (selection,)
        length = self.cells_per_batch
        if isinstance(first, int | np.integer):
            cell = range(len(self.study.cells))[int(first)]
            return self._of_batch(cell // length, name)[(cell % length, *rest)]
        cells: IntArray = np.arange(len(self.study.cells))[first]
        order = np.argsort(cells // length, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(cells[order] // length)) + 1) if cells.size else []
        shape = () if name in COMPUTED else self.head.point_shape
        result = np.zeros((len(cells), *shape), dtype=bool if name == WITHIN else np.float64)

        def some(rows: IntArray) -> Any:
            return self._of_batch(int(cells[rows[0]]) // length, name)[cells[rows] % length]

        for rows, found in zip(groups, self.place.at_once(some, groups), strict=True):
            result[rows] = found
        return result[(slice(None), *rest)]

    @cached_property
    def _cache(self) -> dict[int, StoredBatch]:
        return {}

    def _of_batch(self, index: int, name: str) -> Any:
        found = self.read(index)
        if found is not None:
            return found.values(name)
        count = len(self.cells_of(index))
        shape = (count,) if name in COMPUTED else (count, *self.head.point_shape)
        return np.zeros(shape, dtype=bool) if name == WITHIN else np.full(shape, np.nan)

    def _listed(self, folder: str, sizes: Mapping[str, int]) -> set[int]:
        """Return the batches that have a file in a folder that is not empty, as that of a crashed machine may be."""
        start, file = f"{folder}/", bounds_file if folder == BOUNDS_ARRAY else details_file
        names = {name for name, size in sizes.items() if size and name.startswith(start)}
        numbers = [name[len(start) :].partition(".")[0] for name in names]
        known = {int(number) for number in numbers if number.isdecimal() and int(number) < self.batches}
        return {index for index in known if file(index) in names}

    def _read(self, index: int) -> StoredBatch | None:
        bounds, details = (read_or_none(self.place, file(index)) for file in (bounds_file, details_file))
        if bounds is None or details is None:
            return None
        head, length = self.head, self.cells_per_batch
        quantities = (length, len(QUANTITIES), *head.point_shape)
        try:
            found = StoredBatch(decode_chunk(bounds, quantities), decode_chunk(details, (length, len(DETAILS))))
        except (ValueError, RuntimeError) as error:
            raise self._damaged(index, " ".join(str(error).split())[:200]) from error
        cells = head.cells_of(index)
        whole = StoredBatch(found.bounds[: len(cells)], found.details[: len(cells)])
        if not np.array_equal(checksums(head, index, whole), whole.details[:, DETAILS.index(CHECKSUM)]):
            raise self._damaged(index, "a checksum differs")
        return whole

    def _damaged(self, index: int, problem: str) -> StoreDamagedError:
        return StoreDamagedError(
            f"{self.place.url}: results of batch {index} are damaged ({problem}): pbdist run STUDY --check repairs them"
        )


def checksums(head: PartHead, index: int, batch: StoredBatch) -> FloatArray:
    """Return the checksum of each cell of a batch: of its bounds and details, its number and the study's digest.

    So results that were exchanged, or that are of another study, are seen as well as flipped bits.
    """
    study = bytes.fromhex(head.digest)
    found = []
    for cell, bounds, details in zip(head.cells_of(index), batch.bounds, batch.details, strict=True):
        digest = hashlib.sha256(study + cell.to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(bounds, dtype="<f8").tobytes())
        digest.update(np.ascontiguousarray(details[: DETAILS.index(CHECKSUM)], dtype="<f8").tobytes())
        found.append(_number(digest.digest()))
    return np.array(found)


def files_checksum(digests: Mapping[str, str]) -> float:
    """Return the checksum of some files, by their names and SHA-256."""
    text = "".join(f"{name} {digests[name]} " for name in sorted(digests))
    return _number(hashlib.sha256(text.encode()).digest())


def _number(digest: bytes) -> float:
    return float(int.from_bytes(digest[:_CHECKSUM_BYTES], "little"))


def causes_in(data: bytes | None) -> dict[int, str]:
    """Return the failed cells and the causes that the file of a batch's failures has; none where it is damaged."""
    found = attributes_of(data) or {}
    causes: dict[str, str] = found.get("failures", {})
    if found.get("sha256") != digest_of(json.dumps(causes, sort_keys=True).encode()):
        return {}
    return {int(cell): cause for cell, cause in causes.items()}


def open_store(where: str | Path | Place) -> StoredStudy:
    """Open the store at `where` for reading; of one that was extended, its first part.

    Raises
    ------
    NotAStoreError
        There is nothing at `where`, or something else than a pbdist store.
    StoreFormatError
        The store has a format that is not read.
    StoreDamagedError
        The study that the store holds cannot be read, or differs from its digest.
    """
    return open_part(place_at(where), "")


def open_parts(where: str | Path | Place) -> tuple[StoredStudy, ...]:
    """Open all parts of the store at `where`, in the order in which they were added; errors as in `open_store`.

    Points that queries have added are not among them, see `read_refinements`.
    """
    place = place_at(where)
    return open_part(place, ""), *(open_part(place.inner(part), part) for part in extensions_of(place))


def extensions_of(place: Place) -> list[str]:
    """Return the paths of the parts that extend a store, without any whose creation was interrupted."""
    names = [name for name in place.folders() if is_extension(name)]
    heads = place.at_once(lambda name: read_or_none(place, f"{name}/{METADATA}"), names)
    # A group of somebody else has attributes, and none of ours.
    return [name for name, head in zip(names, heads, strict=True) if head and is_ours(attributes_of(head))]


def is_ours(attributes: Mapping[str, JsonValue] | None) -> bool:
    """Whether a group with these attributes may be a part of a store; None are those that cannot be read."""
    return attributes is None or "pbdist_format" in attributes


def is_there(place: Place) -> bool:
    """Whether there is anything at a place."""
    if isinstance(place, LocalPlace):
        # Also a file, an empty folder, or a link that leads nowhere.
        return os.path.lexists(place.url)
    return next(iter(place.names()), None) is not None


def open_part(place: Place, part: str) -> StoredStudy:
    """Open one part, whose place is `place`; errors as in `open_store`."""
    data = read_or_none(place, METADATA)
    attributes = attributes_of(data)
    if data is None or attributes is None or "pbdist_format" not in attributes:
        if part or read_or_none(place, f"{BOUNDS_ARRAY}/{METADATA}") is not None:
            raise _damaged(place, "its zarr.json is missing or unreadable")
        got, remedy = "something else", "choose another path"
        if not data and not is_there(place):
            got, remedy = "nothing there", "correct the path, or compute a study there: pbdist run STUDY --store PATH"
        elif place.url.endswith((".yaml", ".yml")):
            got, remedy = "a study file", f"pbdist run {place.url} computes one, at another path"
        raise NotAStoreError(f"{place.url}: expected a pbdist store, got {got}: {remedy}")
    version = attributes["pbdist_format"]
    if version != STORE_FORMAT:
        raise StoreFormatError(
            f"{place.url}: expected a store of format {STORE_FORMAT}, got format {shown(version)}:"
            " run the study again, into a new store"
        )
    if not is_sealed(data):
        raise _damaged(place, "its zarr.json has changed")
    try:
        head = attributes["study"]
        cells = StoredCells(place, attributes["files"], int(head["cells"]), str(head["cells_sha256"]))
        study = replace(
            StudySpec.from_head(head, cells, name=attributes["title"]),
            targets=tuple(
                Target(epsilon=float.fromhex(epsilon), delta=float.fromhex(delta), compositions=int(r))
                for r, epsilon, delta in attributes.get("targets", ())
            ),
        )
        return StoredStudy(place, study, int(attributes["cells_per_batch"]), part, attributes)
    except (KeyError, TypeError, ValueError, PbdistError) as error:
        raise _damaged(place, " ".join(str(error).split())) from error


def _damaged(place: Place, problem: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"{place.url}: the store is damaged ({problem}): run the study that made it again, which restores it"
    )


def changed_files(stored: StoredStudy) -> dict[str, str]:
    """Return the files of a part's skeleton that are missing or changed, and what is wrong with each."""
    names = [*stored.files]
    found = stored.place.at_once(lambda name: read_or_none(stored.place, name), names)
    return {
        name: "missing" if data is None else "other content"
        for name, data in zip(names, found, strict=True)
        if data is None or digest_of(data) != stored.files[name]
    }


def check_skeleton(stored: StoredStudy) -> None:
    """Refuse a part whose metadata or coordinates are missing or changed: results would be read as other numbers."""
    changed = changed_files(stored)
    if changed:
        more = ", .." if len(changed) > 5 else ""
        raise _damaged(stored.place, f"{', '.join(list(changed)[:5])}{more} missing or changed")


@dataclass(frozen=True, eq=False)
class Refinement:
    """Bounds of one setting at each of some r and each of some ε, which a query has added to a store."""

    #: Its path in the store.
    name: str
    #: The setting, with the label that the query gave it, if any.
    cell: Cell
    #: Increasing; ε in nats.
    compositions: tuple[int, ...]
    epsilon: tuple[float, ...]
    #: The arrays of `BOUNDS`, shape (4, 2, compositions, epsilon); no NaN.
    values: FloatArray
    #: Width of a bucket of the leaf, nats.
    loss_width: float
    #: Where the tolerance is met, shape (2, compositions, epsilon).
    within: BoolArray

    @property
    def points(self) -> int:
        """The number of points."""
        return len(self.compositions) * len(self.epsilon)


def read_refinements(
    stored: StoredStudy, known: Sequence[Refinement] = (), damaged: list[str] | None = None
) -> tuple[Refinement, ...]:
    """Return what queries have added to a store, by its first part: what is already known, and all else that is sound.

    The paths of others are added to the list `damaged`, if one is given: their points are computed again when they are
    needed.
    """
    place = stored.place
    names = {one.name for one in known}
    new = [name for name in place.folders() if is_refined(name) and name not in names]

    def read(name: str) -> Refinement | str | None:
        try:
            return _refinement(open_part(place.inner(name), name))
        except (NotAStoreError, StoreFormatError, StoreDamagedError):
            return name

    found = [*place.at_once(read, new)]
    if damaged is not None:
        damaged += [one for one in found if isinstance(one, str)]
    return (*known, *(one for one in found if isinstance(one, Refinement)))


def _refinement(part: StoredStudy) -> Refinement | None:
    """Return what a part with refined points holds; None where its creation was interrupted."""
    check_skeleton(part)
    found = part.read(0)
    if found is None:
        return None
    study = part.study
    values = np.stack([found.values(name)[0] for name in BOUNDS])
    width = float(found.values("loss_width")[0])
    within = np.asarray(found.values(WITHIN)[0])
    return Refinement(part.part, study.cells[0], study.compositions, study.epsilon, values, width, within)
