"""Commit records: what says that a batch is complete, and that its files are still what was written."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from pbdist.store.create import write_attributes
from pbdist.store.layout import BOUNDS, COMPUTED, batch_group, cell_group
from pbdist.store.open import StoredStudy
from pbdist.store.provenance import provenance
from pbdist.types import JsonValue

__all__ = ["batch_files", "commit_batch", "commit_record", "is_committed", "remove_strays"]


def batch_files(stored: StoredStudy, index: int) -> tuple[Path, ...]:
    """Return the files that hold the results of a batch, as far as they exist, in a fixed order."""
    chunks = [stored.path / name / f"c/{index}/0/0/0" for name in BOUNDS]
    chunks += [stored.path / name / f"c/{index}" for name in COMPUTED]
    states: list[Path] = []
    if stored.study.keep_states:
        for cell in _cells(stored, index):
            folder = stored.path / cell_group(cell)
            states += sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".partial")
    return (*chunks, *states)


def commit_batch(stored: StoredStudy, index: int) -> int:
    """Write the commit record of a batch whose results are written; return the bytes that it covers.

    The record is the attributes of the zarr group ``commits/batch-NNNNNN``, replaced in one step, and the results are
    on the disk before it is.
    """
    files: dict[str, JsonValue] = {}
    total = 0
    for path in batch_files(stored, index):
        content_digest, size = _digest(path, to_disk=True)
        files[path.relative_to(stored.path).as_posix()] = {"bytes": size, "sha256": content_digest}
        total += size
    cells = _cells(stored, index)
    record = {"cells": [cells.start, cells.stop], "files": files, "provenance": provenance()}
    write_attributes(stored.path / batch_group(index), {"commit": record})
    return total


def commit_record(stored: StoredStudy, index: int) -> dict[str, JsonValue] | None:
    """Return the commit record of a batch, or None where there is none that can be read."""
    try:
        document = json.loads((stored.path / batch_group(index) / "zarr.json").read_bytes())
        record = document["attributes"]["commit"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if isinstance(record, dict) else None


def is_committed(stored: StoredStudy, index: int) -> bool:
    """Whether a batch has a commit record, and every file that it names has the size and SHA-256 it had then."""
    record = commit_record(stored, index)
    try:
        named = {
            stored.path / name: (entry["sha256"], entry["bytes"]) for name, entry in (record or {})["files"].items()
        }
    except (KeyError, TypeError, AttributeError):
        return False
    return set(named) >= set(batch_files(stored, index)) and _unchanged(named.items())


def remove_strays(stored: StoredStudy) -> None:
    """Remove the temporary files that killed workers left behind; for the one driver of a store, at the end."""
    for path in stored.path.rglob("*.partial"):
        path.unlink(missing_ok=True)


def _unchanged(named: Iterable[tuple[Path, tuple[str, int]]]) -> bool:
    for path, (digest, size) in named:
        try:
            if path.stat().st_size != size or _digest(path) != (digest, size):
                return False
        except OSError:
            return False
    return True


def _cells(stored: StoredStudy, index: int) -> range:
    start = index * stored.cells_per_batch
    return range(start, min(start + stored.cells_per_batch, len(stored.study.cells)))


def _digest(path: Path, *, to_disk: bool = False) -> tuple[str, int]:
    with path.open("rb") as file:
        if to_disk:
            os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256")
        return digest.hexdigest(), file.tell()
