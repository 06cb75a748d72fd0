"""Open a store: find out whether a path is one, of which format, and which study it holds."""

import json
from dataclasses import dataclass
from pathlib import Path

from pbdist.errors import NotAStoreError, PbdistError, StoreDamagedError, StoreFormatError
from pbdist.store.layout import STORE_FORMATS, store_format
from pbdist.study import StudySpec
from pbdist.types import JsonValue

__all__ = ["StoredStudy", "open_store"]


@dataclass(frozen=True)
class StoredStudy:
    """A store and the study that it holds.

    Attributes
    ----------
    path
        The folder of the store.
    study
        The study, without its description and targets.
    cells_per_batch
        The length of a chunk along the cells.
    """

    path: Path
    study: StudySpec
    cells_per_batch: int

    @property
    def batches(self) -> int:
        """The number of batches, of which each has one commit record."""
        return -(-len(self.study.cells) // self.cells_per_batch)


def open_store(path: str | Path) -> StoredStudy:
    """Open the store at `path` for reading.

    Raises
    ------
    NotAStoreError
        There is nothing at `path`, or something that is not a pbdist store.
    StoreFormatError
        The store was written in another format version.
    StoreDamagedError
        The study that the store holds cannot be read, or is not the one of its digest.
    """
    path = Path(path)
    attributes = _root_attributes(path)
    version = attributes["pbdist_format"]
    if type(version) is not int or version not in STORE_FORMATS:
        known = " or ".join(map(str, STORE_FORMATS))
        raise StoreFormatError(f"{path}: expected a store of format {known}, got format {version!r}")
    try:
        study = StudySpec.from_canonical(attributes["study"], name=attributes["title"])
        cells_per_batch = int(attributes["cells_per_batch"])
    except (KeyError, TypeError, ValueError, PbdistError) as error:
        problem = " ".join(str(error).split())
        raise StoreDamagedError(f"{path}: expected a study in the root attributes, got: {problem}") from error
    digest = attributes.get("study_digest")
    if study.digest != digest or cells_per_batch < 1:
        raise StoreDamagedError(f"{path}: expected a study of digest {digest!r}, got {study.digest!r}")
    if version != store_format(study):
        raise StoreDamagedError(
            f"{path}: expected format {store_format(study)} of a store of method {study.method}, got format {version}"
        )
    return StoredStudy(path, study, cells_per_batch)


def _root_attributes(path: Path) -> dict[str, JsonValue]:
    if not path.exists():
        raise NotAStoreError(f"{path}: expected a pbdist store, got nothing at that path")
    try:
        metadata = json.loads((path / "zarr.json").read_bytes())
    except (OSError, ValueError) as error:
        raise NotAStoreError(f"{path}: expected a pbdist store, got something else") from error
    attributes = metadata.get("attributes") if isinstance(metadata, dict) else None
    if not isinstance(attributes, dict) or "pbdist_format" not in attributes:
        raise NotAStoreError(f"{path}: expected a pbdist store, got another zarr group or array")
    return attributes
