"""Commit records: what says that a batch is complete, and that its files are still what was written."""

from collections.abc import Iterator, Mapping

from pbdist.store.columns import FileDigest
from pbdist.store.documents import digest_of, group_document, seal
from pbdist.store.heads import RECORD_SEAL, read_or_none, sealed_record
from pbdist.store.irregular import OversizeError
from pbdist.store.layout import batch_group, chunk_file
from pbdist.store.open import PartHead, StoredStudy
from pbdist.store.place import Place
from pbdist.store.provenance import provenance
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
    """Return the commit record of a batch as the attributes of a zarr group.

    Parameters
    ----------
    head
        The part.
    index
        The batch.
    files
        Size and SHA-256 of each file of its results.
    failed
        Cells that could not be computed, and why.
    """
    cells = head.cells_of(index)
    record = {"cells": [cells.start, cells.stop], "files": files, "provenance": provenance()}
    record["study_digest"] = head.digest
    if failed:
        record["failed"] = {str(cell): cause for cell, cause in failed.items()}
    return group_document({"commit": seal(record, RECORD_SEAL)})


def record_of(head: PartHead, index: int, data: bytes | None) -> dict[str, JsonValue] | None:
    """Return the commit record in the content of its file, None where it is none of that batch."""
    record, cells = sealed_record(data), head.cells_of(index)
    if record is not None and (record["cells"], record["study_digest"]) != ([cells.start, cells.stop], head.digest):
        return None
    return record


def commit_record(stored: StoredStudy | PartHead, index: int) -> dict[str, JsonValue] | None:
    """Return the commit record of a batch, or None where there is none that can be read; its files are not looked at.

    Raises
    ------
    OSError
        The store cannot be reached.
    """
    head = _head(stored)
    return record_of(head, index, read_or_none(head.place, record_file(index)))


def failed_cells(stored: StoredStudy | PartHead, index: int) -> dict[int, str]:
    """Return the cells of a committed batch that could not be computed, and why; the files are not looked at."""
    return failures_of(commit_record(stored, index))


def failures_of(record: Mapping[str, JsonValue] | None) -> dict[int, str]:
    """Return the cells that a commit record says could not be computed, and why."""
    return {int(cell): str(cause) for cell, cause in (record or {}).get("failed", {}).items()}


def is_committed(stored: StoredStudy | PartHead, index: int) -> bool:
    """Whether a batch has a commit record, and every file that it names has the size and SHA-256 it had then.

    Also where some of its cells could not be computed: `failed_cells` tells which.

    Raises
    ------
    OSError
        The store cannot be reached.
    """
    head = _head(stored)
    record = commit_record(head, index)
    return record is not None and next(changed_files(head, index, record), None) is None


def changed_files(head: PartHead, index: int, record: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """Yield the files of a batch that are not what its commit record says, and what is wrong with each."""
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
    """Return in what a file differs from the size and the SHA-256 that it should have; None where in nothing.

    One that should have more than `most` bytes, if that is given, is not read.
    """
    found = checked_content(place, name, entry, most)
    return found if isinstance(found, str) else None


def checked_content(place: Place, name: str, entry: JsonValue, most: int | None = None) -> bytes | str:
    """Return the content of a file that has the size and the SHA-256 it should have; else what is wrong with it.

    One of another size is not read, nor is one that should have more than `most` bytes, if that is given.
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
