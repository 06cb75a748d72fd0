"""What is recorded of a batch, and the two documents that hold it: the file of a batch, and the record of a shard.

A batch is written as one file: a line of JSON, and the chunks of its results. The batches of a shard are joined later;
then the record of the shard has what the files of its batches had.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import google_crc32c

from pbdist.store.checksums import is_entry
from pbdist.store.documents import RECORD_SEAL, FileDigest, digest_of, group_document, seal, sealed_record, unsealed
from pbdist.store.json_text import json_of
from pbdist.store.layout import cell_group, shard_file
from pbdist.store.part import PartHead
from pbdist.types import JsonValue

#: An entry of the index of a shard: offset and size of a chunk, in bytes.
_ENTRY = struct.Struct("<QQ")
#: What stands for a chunk that a shard does not have.
_NO_CHUNK = 2**64 - 1
#: Bytes of the checksum after the index.
_INDEX_TAIL = 4
_KIND = "batch"


@dataclass(frozen=True)
class BatchRecord:
    """A batch that is committed.

    Attributes
    ----------
    index
        Its number.
    chunks
        Size in bytes and SHA-256 of its chunk in each array of results.
    states
        Size and SHA-256 of the files of its kept states.
    failed
        Cells that could not be computed, and the causes.
    points, missed
        At how many points the tolerance was sought, and at how many of them it was missed.
    provenance
        Of the process that computed it.
    """

    index: int
    chunks: Mapping[str, tuple[int, str]]
    states: Mapping[str, FileDigest] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)
    points: int = 0
    missed: int = 0
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A SHA-256 that tells this record from that of other results."""
        return digest_of(json.dumps(self.as_json(), sort_keys=True).encode())

    def as_json(self) -> dict[str, JsonValue]:
        """Return all but the number and the provenance in the types of JSON."""
        result: dict[str, JsonValue] = {
            "chunks": {name: list(chunk) for name, chunk in self.chunks.items()},
            "points": self.points,
            "missed": self.missed,
        }
        if self.states:
            result["states"] = dict(self.states)
        if self.failed:
            result["failed"] = {str(cell): cause for cell, cause in self.failed.items()}
        return result


@dataclass(frozen=True)
class ShardRecord:
    """A shard that is committed: its batches by their numbers, and size and SHA-256 of its files of results."""

    batches: Mapping[int, BatchRecord]
    files: Mapping[str, FileDigest]


def batch_header(head: PartHead, record: BatchRecord) -> bytes:
    """Return the first line of the file of a batch."""
    content = {**_common(head), _KIND: record.index, "provenance": record.provenance, **record.as_json()}
    return json.dumps(seal(content, RECORD_SEAL), sort_keys=True, allow_nan=False).encode() + b"\n"


def batch_document(head: PartHead, record: BatchRecord, chunks: Mapping[str, bytes]) -> bytes:
    """Return the content of the file of a batch."""
    return batch_header(head, record) + b"".join(chunks[name] for name in record.chunks)


def parsed_header(head: PartHead, index: int, line: bytes) -> BatchRecord | None:
    """Return what the first line of the file of a batch records, None where it is not exactly that of this batch."""
    try:
        content = unsealed(json_of(line), RECORD_SEAL)
    except ValueError:
        return None
    if content is None or content.get(_KIND) != index or not _is_of(head, content):
        return None
    record = _parsed(head, index, content, content.get("provenance"))
    return record if record is not None and batch_header(head, record) == line else None


def record_document(head: PartHead, shard: int, record: ShardRecord) -> bytes:
    """Return the document with the commit record of a shard."""
    batches = [record.batches[index] for index in head.batches_of(shard)]
    usual = batches[0].provenance
    content: dict[str, JsonValue] = {
        **_common(head),
        "shard": shard,
        "provenance": usual,
        "files": record.files,
        "batches": [
            {**batch.as_json(), **({} if batch.provenance == usual else {"provenance": batch.provenance})}
            for batch in batches
        ],
    }
    return group_document({"commit": seal(content, RECORD_SEAL)})


def parsed_record(head: PartHead, shard: int, data: bytes | None) -> ShardRecord | None:
    """Return the commit record in the content of its file, None where it is not one of that shard."""
    content = sealed_record(data)
    if content is None or content.get("shard") != shard or not _is_of(head, content):
        return None
    listed, files, usual = content.get("batches"), content.get("files"), content.get("provenance")
    numbers = head.batches_of(shard)
    own = {shard_file(name, shard) for name in head.results}
    if not isinstance(listed, list) or len(listed) != len(numbers) or not isinstance(files, dict) or set(files) != own:
        return None
    batches = {}
    for index, one in zip(numbers, listed, strict=True):
        found = _parsed(head, index, one, one.get("provenance", usual)) if isinstance(one, dict) else None
        if found is None:
            return None
        batches[index] = found
    return ShardRecord(batches, files) if _are_files(files) else None


def shard_content(chunks: Sequence[bytes], batches_per_shard: int) -> bytes:
    """Return a shard of one array as zarr's sharding codec reads it: chunks, and an index with a checksum at the end.

    A shard that ends early, the last one of a part, has no chunks for the rest.
    """
    offset, index = 0, bytearray()
    for chunk in chunks:
        index += _ENTRY.pack(offset, len(chunk))
        offset += len(chunk)
    index += _ENTRY.pack(_NO_CHUNK, _NO_CHUNK) * (batches_per_shard - len(chunks))
    return b"".join([*chunks, bytes(index), _checksum(bytes(index))])


def index_of(data: bytes, batches_per_shard: int) -> list[tuple[int, int]] | None:
    """Return offset and size of each chunk, by the end of a shard; None where that is damaged."""
    if len(data) != index_bytes(batches_per_shard):
        return None
    index, checksum = data[:-_INDEX_TAIL], data[-_INDEX_TAIL:]
    return None if checksum != _checksum(index) else [(start, size) for start, size in _ENTRY.iter_unpack(index)]


def index_bytes(batches_per_shard: int) -> int:
    """Return the length of the index at the end of a shard, with its checksum."""
    return _ENTRY.size * batches_per_shard + _INDEX_TAIL


def _checksum(index: bytes) -> bytes:
    return int(google_crc32c.value(index)).to_bytes(_INDEX_TAIL, "little")


def _common(head: PartHead) -> dict[str, JsonValue]:
    """Return what every record of a part says."""
    return {"study_digest": head.digest, "lengths": list(head.shape)}


def _is_of(head: PartHead, content: Mapping[str, JsonValue]) -> bool:
    return {name: content.get(name) for name in _common(head)} == _common(head)


def _parsed(head: PartHead, index: int, content: Mapping[str, Any], provenance: JsonValue) -> BatchRecord | None:
    """Return the record of a batch; None where something is missing, of another type, or of other arrays."""
    try:
        chunks = {name: (content["chunks"][name][0], content["chunks"][name][1]) for name in head.results}
        failed = {int(cell): cause for cell, cause in content.get("failed", {}).items()}
        record = BatchRecord(
            index=index,
            chunks=chunks,
            states=content.get("states", {}),
            failed=failed,
            points=content["points"],
            missed=content["missed"],
            provenance=provenance if isinstance(provenance, dict) else {},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None
    sizes = all(type(size) is int and 0 < size <= head.chunk_bytes(name) for name, (size, _) in chunks.items())
    texts = all(isinstance(digest, str) for _, digest in chunks.values())
    texts = texts and all(isinstance(cause, str) for cause in failed.values())
    counts = type(record.points) is int and type(record.missed) is int
    cells = head.cells_of(index)
    known = set(content["chunks"]) == set(chunks) and set(failed) <= set(cells)
    folders = {cell_group(cell) for cell in cells} if isinstance(record.states, dict) and record.states else set()
    known = known and all("/".join(name.split("/")[:2]) in folders for name in record.states)
    return record if sizes and texts and counts and known and _are_files(record.states) else None


def _are_files(files: JsonValue) -> bool:
    return isinstance(files, dict) and all(map(is_entry, files.values()))


def digests_of(chunks: Mapping[str, bytes]) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of each chunk."""
    return {name: (len(data), digest_of(data)) for name, data in chunks.items()}
