"""The skeleton of a part of a store: every file that no result is in. All of it follows from the study."""

from collections.abc import Mapping

from pbdist.store.arrays import array_files
from pbdist.store.documents import digest_of, group_document, seal
from pbdist.store.heads import ATTRIBUTES_SEAL, COPY
from pbdist.store.layout import COMMITS, EXTENSIONS, STATES, STORE_FORMATS
from pbdist.store.place import Place
from pbdist.store.provenance import provenance
from pbdist.study import StudySpec
from pbdist.types import JsonValue

__all__ = [
    "COPY_FILE",
    "ROOT_FILE",
    "new_skeleton",
    "root_files",
    "write_extensions",
    "write_skeleton",
]

ROOT_FILE, COPY_FILE = "zarr.json", f"{COMMITS}/zarr.json"


def new_skeleton(
    study: StudySpec, cells_per_batch: int, part: str = "", version: int = STORE_FORMATS[-1]
) -> tuple[dict[str, JsonValue], dict[str, bytes]]:
    """Return root attributes, without their SHA-256, and all other files of a part of format 3 or later."""
    files = array_files(study, cells_per_batch, version)
    if study.keep_states:
        files[f"{STATES}/zarr.json"] = group_document({})
    root = {
        "Conventions": "CF-1.11",
        "title": study.name,
        "pbdist_format": version,
        "part": part,
        "study_digest": study.digest,
        "study": study.head(),
        "cells_per_batch": cells_per_batch,
        "provenance": provenance(),
        "files": {name: {"bytes": len(data), "sha256": digest_of(data)} for name, data in files.items()},
    }
    return root, files


def root_files(root: Mapping[str, JsonValue]) -> dict[str, bytes]:
    """Return the copy of the root attributes and the root itself, in the order in which they are to be written."""
    sealed = seal(root, ATTRIBUTES_SEAL)
    return {COPY_FILE: group_document({COPY: sealed}), ROOT_FILE: group_document(sealed)}


def write_skeleton(place: Place, root: Mapping[str, JsonValue], files: Mapping[str, bytes]) -> None:
    """Write a part that is not there yet.

    The copy of the root attributes first, so that what an interruption leaves behind is known for what it is, and the
    root last, so that a part with a root is whole.
    """
    head = root_files(root)
    place.write(COPY_FILE, head[COPY_FILE])
    for name, data in files.items():
        place.write(name, data)
    place.write(ROOT_FILE, head[ROOT_FILE])


def write_extensions(place: Place, parts: Mapping[str, str], left: int = 0) -> None:
    """Write the list of the parts that extend a store: their paths, the digests of their studies, how many are left."""
    content = {"parts": dict(parts), "left": left}
    place.write(f"{EXTENSIONS}/zarr.json", group_document(seal(content, ATTRIBUTES_SEAL)))
