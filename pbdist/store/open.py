"""Open a store: recognise it, its format, its parts and the study that each part holds."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pbdist.errors import InvalidInputError, NotAStoreError, PbdistError, StoreDamagedError, StoreFormatError
from pbdist.store.columns import StoredCells
from pbdist.store.documents import FileDigest, extensions_of, head_of, read_attributes, read_or_none, traces_of
from pbdist.store.files import MOST_DOCUMENT
from pbdist.store.layout import COMPUTED, ROOT_FILE, STORE_FORMATS, WITHIN, result_names
from pbdist.store.place import LocalPlace, Place, place_at
from pbdist.study import StudySpec
from pbdist.types import Direction, JsonValue

__all__ = [
    "PartHead",
    "StoredStudy",
    "is_there",
    "open_part",
    "open_parts",
    "open_store",
    "stored_digest",
]


@dataclass(frozen=True)
class PartHead:
    """A part of a store as a process needs it to write results into it. Small and picklable.

    Attributes
    ----------
    place
        The place of the part.
    part
        Its path in the store; empty for the first one.
    format
        The version of the layout.
    digest
        SHA-256 of the study, as in the root attributes.
    cells, cells_per_batch
        The number of cells, and of those in one chunk.
    settings
        The study without its cells.
    """

    place: Place
    part: str
    format: int
    digest: str
    cells: int
    cells_per_batch: int
    settings: StudySpec

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the arrays of results."""
        return result_names(self.settings, self.format)

    def cells_of(self, index: int) -> range:
        """Return the cells of a batch."""
        start = index * self.cells_per_batch
        return range(start, min(start + self.cells_per_batch, self.cells))

    def chunk_bytes(self, name: str) -> int:
        """Return the most bytes of a chunk of an array of results: those of numbers that cannot be compressed."""
        settings = self.settings
        points = len(Direction) * len(settings.compositions) * len(settings.epsilon) if name not in COMPUTED else 1
        plain = (1 if name == WITHIN else 8) * points * self.cells_per_batch
        # zstd adds 1/256 and some bytes to data that it cannot compress.
        return plain + plain // 128 + 1024


@dataclass(frozen=True)
class StoredStudy:
    """A part of a store and the study that it holds; most stores have one part.

    Attributes
    ----------
    place
        The place of the part.
    study
        The study, without its description and targets. Its cells are read when they are needed.
    cells_per_batch
        The number of cells in one chunk.
    part
        Its path in the store; empty for the first one.
    format
        The version of the layout.
    root
        The attributes of the root, without their SHA-256.
    """

    place: Place
    study: StudySpec
    cells_per_batch: int
    part: str = ""
    format: int = STORE_FORMATS[-1]
    root: Mapping[str, JsonValue] = field(default_factory=dict, repr=False, compare=False)

    @property
    def batches(self) -> int:
        """The number of batches; each has one commit record."""
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

    def most_bytes(self, name: str) -> int:
        """Return the most bytes of a file of the part."""
        if name in self.files:
            return int(self.files[name]["bytes"])
        array = name.split("/", maxsplit=1)[0]
        is_chunk = name.startswith(f"{array}/c/") and array in self.head.results
        return self.head.chunk_bytes(array) if is_chunk else MOST_DOCUMENT

    @cached_property
    def head(self) -> PartHead:
        """The part as a worker needs it."""
        study = self.study
        settings = replace(study, cells=(), description=None, targets=())
        digest = str(self.root["study_digest"])
        # A worker does not create a store again that is gone.
        place = replace(self.place, kept=True) if isinstance(self.place, LocalPlace) else self.place
        return PartHead(place, self.part, self.format, digest, len(study.cells), self.cells_per_batch, settings)


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
    return (first, *(open_part(place.inner(part), part) for part in extensions_of(place)))


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


def open_part(place: Place, part: str) -> StoredStudy:
    """Open one part, whose place is `place`; errors as in `open_store`."""
    # A damaged root is read from its copy; the next run of the study repairs it.
    root = head_of(place, part)
    if root is None:
        if part or traces_of(place):
            raise StoreDamagedError(
                f"{place.url}: expected root attributes, or the copy of them in commits, got both damaged:"
                " run the study again"
            )
        raise _other_format(place, _plain_root(place)["pbdist_format"])
    version = root["pbdist_format"]
    if type(version) is not int or version not in STORE_FORMATS:
        raise _other_format(place, version)
    try:
        head = root["study"]
        cells = StoredCells(place, root["files"], int(head["cells"]), str(head["cells_sha256"]))
        study = StudySpec.from_head(head, cells, name=root["title"])
        return StoredStudy(place, study, int(root["cells_per_batch"]), part, version, root)
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
    known = " or ".join(map(str, STORE_FORMATS))
    return StoreFormatError(f"{place.url}: expected a store of format {known}, got format {version!r}")
