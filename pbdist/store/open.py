"""Open a store: recognise it, its format, its parts and the study that each part holds."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pbdist.errors import InvalidInputError, NotAStoreError, PbdistError, StoreDamagedError, StoreFormatError
from pbdist.store.columns import StoredCells
from pbdist.store.documents import (
    FileDigest,
    extensions_of,
    head_of,
    heads_damaged,
    listed_parts,
    points_of,
    read_attributes,
    read_or_none,
    repaired_by,
    traces_of,
)
from pbdist.store.files import MOST_DOCUMENT
from pbdist.store.layout import OTHER_PARTS, ROOT_FILE, STORE_FORMAT
from pbdist.store.lock import Fence
from pbdist.store.place import LocalPlace, Place, place_at
from pbdist.store.results import PartHead, PartResults
from pbdist.study import StudySpec
from pbdist.types import JsonValue


@dataclass(frozen=True)
class StoredStudy:
    """A part of a store and the study that it holds; most stores have one part.

    Attributes
    ----------
    place
        The place of the part.
    study
        The study, without its description and targets. Its cells are read when they are needed.
    cells_per_batch, batches_per_shard
        The number of cells in one batch, and of batches in one shard.
    part
        Its path in the store; empty for the first one.
    root
        The attributes of the root, without their SHA-256.
    fence
        Of the run that writes to the store, see `PartHead`.
    """

    place: Place
    study: StudySpec
    cells_per_batch: int
    batches_per_shard: int
    part: str = ""
    root: Mapping[str, JsonValue] = field(default_factory=dict, repr=False, compare=False)
    fence: Fence | None = field(default=None, repr=False, compare=False)

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-len(self.study.cells) // self.cells_per_batch)

    @property
    def where(self) -> str:
        """The path or URL of the whole store."""
        return self.place.url.removesuffix(f"/{self.part}") if self.part else self.place.url

    @property
    def path(self) -> Path:
        """The folder of the part; an `InvalidInputError` where it lies in an object store."""
        if not isinstance(self.place, LocalPlace):
            raise InvalidInputError(f"store: expected a folder, got {self.place.url}")
        return Path(self.place.url)

    @property
    def files(self) -> Mapping[str, FileDigest]:
        """Size and SHA-256 of every file without results, except the root and its copy."""
        files: Mapping[str, FileDigest] = self.root.get("files", {})
        return files

    @property
    def others_told(self) -> tuple[str, ...]:
        """The paths of the other parts that the root of the store tells of; empty in a part that was added."""
        return tuple(self.root.get(OTHER_PARTS, ()))

    def most_bytes(self, name: str) -> int:
        """Return the most bytes of a file without results."""
        return int(self.files[name]["bytes"]) if name in self.files else MOST_DOCUMENT

    @cached_property
    def head(self) -> PartHead:
        """The part as a worker needs it."""
        study = self.study
        settings = replace(study, cells=(), description=None, targets=())
        digest = str(self.root["study_digest"])
        # A worker does not create a store again that is gone.
        place = replace(self.place, kept=True) if isinstance(self.place, LocalPlace) else self.place
        lengths = self.cells_per_batch, self.batches_per_shard
        return PartHead(place, self.part, digest, len(study.cells), *lengths, settings, self.fence)

    @cached_property
    def results(self) -> PartResults:
        """Reads the results of the part."""
        return PartResults(self.head)


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
    """Open all parts of the store at `where`, in the order in which they were added; errors as in `open_store`."""
    place = place_at(where)
    first = open_part(place, "")
    listed = listed_parts(place) or {}
    return (first, *(open_part(place.inner(part), part, listed.get(part)) for part in extensions_of(place)))


def stored_digest(place: Place, part: str) -> str:
    """Return the digest of the study in the root of a part; a `NotAStoreError` where there is no store."""
    root = head_of(place, part) or _plain_root(place)
    return str(root.get("study_digest"))


def is_there(place: Place) -> bool:
    """Whether there is anything at a place."""
    if isinstance(place, LocalPlace):
        # Also a file, an empty folder, or a link that leads nowhere.
        return os.path.lexists(place.url)
    return next(iter(place.names()), None) is not None


def open_part(place: Place, part: str, digest: str | None = None) -> StoredStudy:
    """Open one part, whose place is `place`; errors as in `open_store`.

    `digest` is that of its study in the list of parts, for the error.
    """
    # A damaged root is read from its copy; the next run of the study repairs it.
    root = head_of(place, part)
    if root is None:
        traces = traces_of(place)
        if part or traces:
            raise heads_damaged(place.url, part, traces if digest is None else {digest})
        raise _other_format(place, _plain_root(place)["pbdist_format"])
    version = root["pbdist_format"]
    if type(version) is not int or version != STORE_FORMAT:
        raise _other_format(place, version)
    try:
        head = root["study"]
        advice = repaired_by(part, points_of(head))
        cells = StoredCells(place, root["files"], int(head["cells"]), str(head["cells_sha256"]), advice)
        study = StudySpec.from_head(head, cells, name=root["title"])
        lengths = int(root["cells_per_batch"]), int(root["batches_per_shard"])
        if min(lengths) < 1:
            raise ValueError(f"expected lengths of batches and shards of at least 1, got {lengths}")
        return StoredStudy(place, study, *lengths, part, root)
    except (KeyError, TypeError, ValueError, PbdistError) as error:
        raise _damaged(place, error) from error


def _plain_root(place: Place) -> dict[str, JsonValue]:
    if not is_there(place):
        raise NotAStoreError(f"{place.url}: expected a pbdist store, got nothing there")
    attributes = read_attributes(read_or_none(place, ROOT_FILE), exact=False)
    if attributes is None:
        raise NotAStoreError(f"{place.url}: expected a pbdist store, got something else")
    if "pbdist_format" not in attributes:
        raise NotAStoreError(f"{place.url}: expected a pbdist store, got another zarr group or array")
    return attributes


def _damaged(place: Place, error: Exception) -> StoreDamagedError:
    problem = " ".join(str(error).split())
    return StoreDamagedError(f"{place.url}: expected a study in the root attributes, got: {problem}")


def _other_format(place: Place, version: JsonValue) -> StoreFormatError:
    problem = f"{place.url}: expected a store of format {STORE_FORMAT}, got format {version!r}"
    if type(version) is int and version < STORE_FORMAT:
        problem += ", which was never released: run the study again, into a new store"
    return StoreFormatError(problem)
