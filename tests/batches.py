"""Change what a store has of single batches: taken out of their shards, damaged, removed, marked as failed."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pbdist.store import Place, StoredStudy, open_parts
from pbdist.store.documents import digest_of
from pbdist.store.layout import COMMITS, LOOSE, batch_file, shard_file, shard_record
from pbdist.store.results import (
    BatchRecord,
    ShardRecord,
    batch_document,
    digests_of,
    index_bytes,
    index_of,
    record_document,
    shard_content,
)

Batches = dict[int, tuple[BatchRecord, dict[str, bytes]]]


def part_of(store: Path | str, part: str = "") -> StoredStudy:
    """A part of a store."""
    return next(stored for stored in open_parts(store) if stored.part == part)


def batches_of(stored: StoredStudy, shard: int) -> Batches:
    """The batches of a joined shard."""
    found = {index: stored.results.joined(index) for index in stored.head.batches_of(shard)}
    return {index: one for index, one in found.items() if one is not None}


def write_shard(stored: StoredStudy, shard: int, batches: Batches) -> None:
    """Write a shard with these batches, whatever they hold; digests of chunks are made anew."""
    head = stored.head
    files = {}
    for name in head.results:
        data = shard_content([chunks[name] for _, chunks in batches.values()], head.batches_per_shard)
        stored.place.write(shard_file(name, shard), data)
        files[shard_file(name, shard)] = {"bytes": len(data), "sha256": digest_of(data)}
    records = {index: replace(record, chunks=digests_of(chunks)) for index, (record, chunks) in batches.items()}
    stored.place.write(shard_record(shard), record_document(head, shard, ShardRecord(records, files)))


def scatter(store: Path, part: str = "") -> StoredStudy:
    """Have each joined batch of a part in its own file again, as before it was joined."""
    stored = part_of(store, part)
    head = stored.head
    for shard in range(head.shards):
        for index, (record, chunks) in batches_of(stored, shard).items():
            stored.place.write(batch_file(index), batch_document(head, record, chunks))
        for name in (shard_record(shard), *(shard_file(name, shard) for name in head.results)):
            stored.place.remove(name)
    return part_of(store, part)


def remove_batch(store: Path, index: int, part: str = "") -> None:
    """Have a store that lacks one batch, as after a run that was killed."""
    stored = scatter(store, part)
    stored.place.remove(batch_file(index))


def exchange_chunk(store: Path | str, name: str, index: int, data: bytes | None = None, part: str = "") -> str:
    """Put other bytes in the place of the chunk of a batch, by default junk; return the file that was changed.

    The record and the other batches stay as they are.
    """
    stored = part_of(store, part)
    shard = stored.head.shard_of(index)
    content = stored.place.read(shard_file(name, shard))
    places = index_of(content[-index_bytes(stored.head.batches_per_shard) :], stored.head.batches_per_shard)
    assert places is not None
    chunks = [content[start : start + size] for start, size in places[: len(stored.head.batches_of(shard))]]
    at = index - stored.head.batches_of(shard).start
    chunks[at] = b"damaged" if data is None else data
    stored.place.write(shard_file(name, shard), shard_content(chunks, stored.head.batches_per_shard))
    return shard_file(name, shard)


def chunk_of(store: Path | str, name: str, index: int, part: str = "") -> bytes:
    """The bytes of a batch in an array of results."""
    found = part_of(store, part).results.chunks(index, [name])
    assert found is not None
    return found[name]


def committed(place: Place) -> int:
    """How many batches of a store of one part are committed, by what is there."""
    names = {name for name, _ in place.names(COMMITS)}
    loose = sum(name.startswith(LOOSE) and "partial" not in name for name in names)
    records = [name for name in names if name.startswith(f"{COMMITS}/shard-") and "partial" not in name]
    joined = 0
    for name in records:
        with suppress(FileNotFoundError):
            joined += len(json.loads(place.read(name))["attributes"]["commit"]["batches"])
    return joined if joined else loose


def fail_cells(stored: StoredStudy, failed: Mapping[int, str]) -> None:
    """Write the commit records as if these cells alone had failed."""
    for shard in range(stored.head.shards):
        batches = batches_of(stored, shard)
        for index, (record, chunks) in batches.items():
            mine = {cell: why for cell, why in failed.items() if cell in stored.head.cells_of(index)}
            batches[index] = replace(record, failed=mine), chunks
        write_shard(stored, shard, batches)
