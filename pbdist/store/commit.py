"""Commit records: each shows that a batch is complete and that its files are unchanged."""

from collections.abc import Iterator, Mapping

from pbdist.store.documents import (
    RECORD_SEAL,
    FileDigest,
    digest_of,
    group_document,
    provenance,
    read_or_none,
    seal,
    sealed_record,
)
from pbdist.store.files import OversizeError
from pbdist.store.layout import batch_group, chunk_file
from pbdist.store.open import PartHead, StoredStudy
from pbdist.store.place import Place
from pbdist.types import JsonValue

__all__ = [
    "changed_file",
    "changed_files",
    "checked_content",
    "commit_record",
    "failed_cells",
    "failures_of",
    "is_committed",
    "record_document",
    "record_file",
    "record_of",
]


def record_file(index: int) -> str:
    """Return the name of the file that holds the commit record of a batch."""
    return f"{batch_group(index)}/zarr.json"


def record_document(head: PartHead, index: int, files: Mapping[str, FileDigest], failed: Mapping[int, str]) -> bytes:
    """Return the document with the commit record of a batch: `files` has its results, `failed` the causes by cell."""
    cells = head.cells_of(index)
    record = {"cells": [cells.start, cells.stop], "files": files, "provenance": provenance()}
    record["study_digest"] = head.digest
    if failed:
        record["failed"] = {str(cell): cause for cell, cause in failed.items()}
    return group_document({"commit": seal(record, RECORD_SEAL)})


def record_of(head: PartHead, index: int, data: bytes | None) -> dict[str, JsonValue] | None:
    """Return the commit record in the content of its file, None where it is not one of that batch."""
    record, cells = sealed_record(data), head.cells_of(index)
    if record is not None and (record["cells"], record["study_digest"]) != ([cells.start, cells.stop], head.digest):
        return None
    return record


def commit_record(stored: StoredStudy | PartHead, index: int) -> dict[str, JsonValue] | None:
    """Return the commit record of a batch, None where none can be read; its files are not compared."""
    head = _head(stored)
    return record_of(head, index, read_or_none(head.place, record_file(index)))


def failed_cells(stored: StoredStudy | PartHead, index: int) -> dict[int, str]:
    """Return the cells of a committed batch that could not be computed, and why; files are not compared."""
    return failures_of(commit_record(stored, index))


def failures_of(record: Mapping[str, JsonValue] | None) -> dict[int, str]:
    """Return the cells that could not be computed according to a commit record, and why."""
    return {int(cell): str(cause) for cell, cause in (record or {}).get("failed", {}).items()}


def is_committed(stored: StoredStudy | PartHead, index: int) -> bool:
    """Whether a batch has a commit record, and every file that it names has the size and SHA-256 that it names.

    Also true where some cells could not be computed: see `failed_cells`.
    """
    head = _head(stored)
    record = commit_record(head, index)
    return record is not None and next(changed_files(head, index, record), None) is None


def changed_files(head: PartHead, index: int, record: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """Yield the files of a batch that differ from its commit record, and what is wrong with each."""
    files = record.get("files")
    if not isinstance(files, dict):
        yield record_file(index), "names no files"
        return
    for name in head.results:
        if chunk_file(name, index) not in files:
            yield chunk_file(name, index), "not in the commit record"
    most = {chunk_file(name, index): head.chunk_bytes(name) for name in head.results}
    for name, entry in files.items():
        problem = changed_file(head.place, name, entry, most.get(name))
        if problem is not None:
            yield name, problem


def changed_file(place: Place, name: str, entry: JsonValue, most: int | None = None) -> str | None:
    """Return how a file differs from the size and the SHA-256 of its entry; None where it does not.

    A file whose entry has more than `most` bytes, if given, is not read.
    """
    found = checked_content(place, name, entry, most)
    return found if isinstance(found, str) else None


def checked_content(place: Place, name: str, entry: JsonValue, most: int | None = None) -> bytes | str:
    """Return the content of a file that has the size and the SHA-256 of its entry, else (as text) what is wrong.

    A file of another size, or whose entry has more than `most` bytes, if given, is not read.
    """
    if not isinstance(entry, dict) or {"bytes", "sha256"} - set(entry) or type(entry["bytes"]) is not int:
        return "has no checksum"
    if most is not None and entry["bytes"] > most:
        return f"{entry['bytes']} bytes in its record, where it can have at most {most}"
    try:
        data = place.read(name, entry["bytes"])
    except FileNotFoundError:
        return "missing"
    except OversizeError as error:
        return f"{error.size} bytes instead of {entry['bytes']}"
    if len(data) != entry["bytes"]:
        return f"{len(data)} bytes instead of {entry['bytes']}"
    return data if digest_of(data) == entry["sha256"] else "other content"


def _head(stored: StoredStudy | PartHead) -> PartHead:
    return stored if isinstance(stored, PartHead) else stored.head
