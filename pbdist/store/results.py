"""Read the results of a part: batch by batch, each compared with what was recorded of it."""

import json
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import google_crc32c
import numpy as np

from pbdist.errors import StoreDamagedError, shown
from pbdist.store.columns import decode_chunk
from pbdist.store.documents import (
    RECORD_SEAL,
    FileDigest,
    digest_of,
    group_document,
    read_or_none,
    seal,
    sealed_record,
    unsealed,
)
from pbdist.store.files import MOST_AT_ONCE, OversizeError, at_once
from pbdist.store.layout import (
    WITHIN,
    batch_file,
    batch_shape,
    cell_group,
    most_chunk_bytes,
    result_names,
    shard_file,
    shard_record,
)
from pbdist.store.lock import Fence
from pbdist.store.metadata import json_of
from pbdist.store.place import LocalPlace, Place
from pbdist.study import StudySpec
from pbdist.types import IntArray, JsonValue


def is_entry(entry: JsonValue) -> bool:
    """Whether a value is the size and the SHA-256 of a file."""
    return isinstance(entry, dict) and {"bytes", "sha256"} <= set(entry) and type(entry["bytes"]) is int


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
    if not isinstance(entry, dict) or not is_entry(entry):
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


@dataclass(frozen=True)
class PartHead:
    """A part of a store as a process needs it to read and write results. Small and picklable."""

    #: The place of the part.
    place: Place
    #: Its path in the store; empty for the first one.
    part: str
    #: SHA-256 of the study, as in the root attributes.
    digest: str
    #: The number of cells, of those in one batch, and of the batches in one shard.
    cells: int
    cells_per_batch: int
    batches_per_shard: int
    #: The study without its cells.
    settings: StudySpec
    #: Keeps the workers of a run that has lost the store from writing there; None where it is not written by workers.
    fence: Fence | None = field(default=None, compare=False, repr=False)

    def look(self) -> None:
        """Note in a worker whether it sees the lock; a `StoreTakenError` where another run has taken the store over."""
        if self.fence is not None:
            self.fence.look()

    def check(self) -> None:
        """Raise a `StoreTakenError` where another run has taken the store over."""
        if self.fence is not None:
            self.fence.check()

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the part; a `StoreTakenError` where another run has taken the store over."""
        self.check()
        self.place.write(name, data)

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove some files of the part, those that are there; errors as of `write`."""
        self.check()
        self.place.remove_all(names)

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the arrays of results."""
        return result_names(self.settings)

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-self.cells // self.cells_per_batch)

    @property
    def shards(self) -> int:
        """The number of shards."""
        return -(-self.batches // self.batches_per_shard)

    def cells_of(self, index: int) -> range:
        """Return the cells of a batch."""
        start = index * self.cells_per_batch
        return range(start, min(start + self.cells_per_batch, self.cells))

    def shard_of(self, index: int) -> int:
        """Return the shard of a batch."""
        return index // self.batches_per_shard

    def batches_of(self, shard: int) -> range:
        """Return the batches of a shard."""
        start = shard * self.batches_per_shard
        return range(start, min(start + self.batches_per_shard, self.batches))

    def chunk_bytes(self, name: str) -> int:
        """Return the most bytes of a batch in an array of results."""
        return most_chunk_bytes(self.settings, name, self.cells_per_batch)

    @property
    def shard_bytes(self) -> int:
        """The most bytes of the files of results of one shard together."""
        return self.batches_per_shard * sum(map(self.chunk_bytes, self.results))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The lengths of the batches and shards, and the number of cells, as records name them."""
        return self.cells_per_batch, self.batches_per_shard, self.cells


#: An entry of the index of a shard: offset and size of a chunk, in bytes.
_ENTRY = struct.Struct("<QQ")
#: What stands for a chunk that a shard does not have.
_NO_CHUNK = 2**64 - 1
#: Bytes of the checksum after the index.
_INDEX_TAIL = 4
_KIND = "batch"


@dataclass(frozen=True)
class BatchRecord:
    """A batch that is committed."""

    #: Its number.
    index: int
    #: Size in bytes and SHA-256 of its chunk in each array of results.
    chunks: Mapping[str, tuple[int, str]]
    #: Size and SHA-256 of the files of its kept states.
    states: Mapping[str, FileDigest] = field(default_factory=dict)
    #: Cells that could not be computed, and the causes.
    failed: Mapping[int, str] = field(default_factory=dict)
    #: At how many points the tolerance was sought, and at how many of them it was missed.
    points: int = 0
    missed: int = 0
    #: Of the process that computed it.
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


#: Records of shards that stay in memory.
_MOST_SHARDS = 64
#: So much of the file of a batch is read for its first line, to begin with.
_FIRST_READ = 1 << 14
#: How often a batch is read that is not as recorded: a shard that is being joined has other files every moment.
_MOST_TRIES = 5
#: A first line has at most about so many bytes.
_MOST_LINE = 1 << 26


@dataclass(frozen=True)
class LooseBatch:
    """A batch that is not yet joined into a shard."""

    #: What is recorded of it.
    record: BatchRecord
    #: How long the first line of its file is.
    begin: int
    #: What was read of the file, from its beginning; of a small one all.
    content: bytes = field(default=b"", repr=False, compare=False)

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self.begin + sum(size for size, _ in self.record.chunks.values())

    def place_of(self, name: str) -> tuple[int, int]:
        """Return where the chunk of an array begins in the file, and its bytes."""
        begin = self.begin
        for one, (size, _) in self.record.chunks.items():
            if one == name:
                return begin, size
            begin += size
        raise KeyError(name)


def read_loose(head: PartHead, index: int) -> LooseBatch | None:
    """Return a batch that is not joined yet, by the first line of its file; None where there is none, or a damaged one.

    Its chunks are not compared.
    """
    name, most = batch_file(index), _FIRST_READ
    try:
        data = head.place.read_range(name, 0, most)
        # A sparse file is full of bytes that no line of JSON has, and takes no room on its disk.
        while b"\n" not in data and b"\0" not in data and len(data) == most < _MOST_LINE:
            most *= 8
            data = head.place.read_range(name, 0, most)
    except FileNotFoundError:
        return None
    begin = data.find(b"\n") + 1
    record = parsed_header(head, index, data[:begin]) if begin else None
    return None if record is None else LooseBatch(record, begin, data)


@dataclass(frozen=True)
class _Shard:
    """The record of a shard, and where the chunks lie in each of its files, once that was read."""

    record: ShardRecord
    places: dict[str, list[tuple[int, int]]]


class PartResults:
    """The results of a part, as they are in the store when they are read.

    Whatever is returned of them has the SHA-256 that was recorded. Records of shards stay in memory, and are read again
    where they do not fit what is found. May be used by several threads.
    """

    def __init__(self, head: PartHead) -> None:
        self._head = head
        self._shards: OrderedDict[int, _Shard] = OrderedDict()

    @property
    def head(self) -> PartHead:
        """The part."""
        return self._head

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs, without what was read."""
        return {"_head": self._head, "_shards": OrderedDict()}

    def shard(self, shard: int) -> ShardRecord | None:
        """Return the commit record of a shard, None where none can be read."""
        found = self._shard(shard)
        return None if found is None else found.record

    def record(self, index: int) -> BatchRecord | None:
        """Return what is recorded of a batch, None where it is not committed; its files are not compared."""
        for _ in range(2):
            shard = self._shard(self._head.shard_of(index))
            joined = None if shard is None else shard.record.batches[index]
            if joined is not None and not joined.failed:
                return joined
            # What had failed may have been computed since.
            loose = read_loose(self._head, index)
            if loose is not None:
                return loose.record
            if joined is not None:
                return joined
            # Between two reads it may have been joined.
        return None

    def failed(self, index: int) -> Mapping[int, str]:
        """Return the cells of a batch that could not be computed, and why; none where it is not committed."""
        record = self.record(index)
        return {} if record is None else record.failed

    def is_sound(self, index: int) -> bool:
        """Whether a batch is committed, and its chunks and states are as recorded."""
        found = self._of(index, self._head.results)
        return found is not None and self.states_are_sound(found[0])

    def states_are_sound(self, record: BatchRecord) -> bool:
        """Whether the kept states of a batch are as recorded."""
        return all(changed_file(self._head.place, name, entry) is None for name, entry in record.states.items())

    def chunks(self, index: int, names: Sequence[str]) -> dict[str, bytes] | None:
        """Return the chunks of a batch in some arrays, None where it is not committed or one is not as recorded."""
        found = self._of(index, names)
        return None if found is None else found[1]

    def read(self, index: int, names: Sequence[str]) -> tuple[BatchRecord, dict[str, Any]] | None:
        """Return the record of a batch and its values in some arrays, None where it is not there as recorded."""
        found = self._of(index, names)
        if found is None:
            return None
        count = len(self._head.cells_of(index))
        return found[0], {name: self._decoded(name, data)[:count] for name, data in found[1].items()}

    def values(self, index: int, names: Sequence[str]) -> dict[str, Any]:
        """Return the values of a batch in some arrays, NaN or False where it is not committed.

        Raises
        ------
        StoreDamagedError
            A chunk is not as recorded.
        """
        head = self._head
        count = len(head.cells_of(index))
        found = self.read(index, names)
        if found is not None:
            return found[1]
        if self.record(index) is not None:
            raise self._damaged(f"batch {index} whose files have changed or are missing")
        shapes = {name: batch_shape(head.settings, name, count) for name in names}
        return {
            name: np.zeros(shape, dtype=bool) if name == WITHIN else np.full(shape, np.nan)
            for name, shape in shapes.items()
        }

    def array(self, name: str, selection: Any) -> Any:
        """Return a part of an array of results, chosen by numbers, slices or one index array along the cells.

        What is not committed is NaN, or False. A `StoreDamagedError` where a chunk is not as recorded.
        """
        first, *rest = selection if isinstance(selection, tuple) else (selection,)
        length = self._head.cells_per_batch
        if isinstance(first, int | np.integer):
            cell = range(self._head.cells)[int(first)]
            return self.values(cell // length, [name])[name][(cell % length, *rest)]
        cells = self._numbers_of(first)
        shape = batch_shape(self._head.settings, name, len(cells))
        result = np.zeros(shape, dtype=bool if name == WITHIN else np.float64)
        order = np.argsort(cells // length, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(cells[order] // length)) + 1) if cells.size else []

        def values(rows: IntArray) -> Any:
            return self.values(int(cells[rows[0]]) // length, [name])[name][cells[rows] % length]

        # An object store takes milliseconds for each batch.
        found = map(values, groups) if isinstance(self._head.place, LocalPlace) else at_once(values, groups)
        for rows, some in zip(groups, found, strict=True):
            result[rows] = some
        return result[(slice(None), *rest)]

    def _numbers_of(self, chosen: Any) -> IntArray:
        """Return the numbers of chosen cells; an `IndexError` where they are no numbers of cells."""
        count = self._head.cells
        cells = np.asarray(range(count)[chosen] if isinstance(chosen, slice) else chosen)
        if cells.size and (cells.dtype.kind not in "iu" or cells.ndim != 1 or cells.min() < 0 or cells.max() >= count):
            raise IndexError(f"cells: expected numbers from 0 to {count - 1}, got {shown(chosen)}")
        return cells.astype(np.int64)

    def _decoded(self, name: str, data: bytes) -> Any:
        head = self._head
        try:
            return decode_chunk(data, batch_shape(head.settings, name, head.cells_per_batch), name)
        except (ValueError, RuntimeError) as error:
            raise self._damaged(" ".join(str(error).split())[:200]) from error

    def _of(self, index: int, names: Sequence[str]) -> tuple[BatchRecord, dict[str, bytes]] | None:
        """Return the record of a batch and some of its chunks, all as recorded; else None."""
        number = self._head.shard_of(index)
        for _ in range(_MOST_TRIES):
            shard = self._shard(number)
            joined = None if shard is None else shard.record.batches[index]
            if shard is not None and joined is not None and not joined.failed:
                found = self._from_shard(shard, index, names)
                if found is not None:
                    return joined, found
            loose = read_loose(self._head, index)
            found = None if loose is None else self.from_loose(loose, names)
            if loose is not None and found is not None:
                return loose.record, found
            if shard is not None and joined is not None and joined.failed:
                # Not computed again since.
                found = self._from_shard(shard, index, names)
                if found is not None:
                    return joined, found
            # The shard may be being joined at this moment.
            self._shards.pop(number, None)
            if shard is None and loose is None and self._shard(number) is None:
                return None
        return None

    def _from_shard(self, shard: _Shard, index: int, names: Sequence[str]) -> dict[str, bytes] | None:
        head, record = self._head, shard.record.batches[index]
        row = index - head.batches_of(head.shard_of(index)).start
        result = {}
        for name in names:
            file, (size, digest) = shard_file(name, head.shard_of(index)), record.chunks[name]
            try:
                if name not in shard.places:
                    shard.places[name] = self._places(shard, name, file)
                start, length = shard.places[name][row]
                data = head.place.read_range(file, start, size) if length == size else b""
            except FileNotFoundError:
                return None
            if digest_of(data) != digest:
                return None
            result[name] = data
        return result

    def _places(self, shard: _Shard, name: str, file: str) -> list[tuple[int, int]]:
        """Return where the chunks lie in a file of a shard: by its own index, or by the record if that is damaged."""
        count = self._head.batches_per_shard
        found = index_of(self._head.place.read_range(file, None, index_bytes(count)), count)
        if found is not None:
            return found
        places, start = [], 0
        for batch in shard.record.batches.values():
            size = batch.chunks[name][0]
            places.append((start, size))
            start += size
        return places

    def joined(self, index: int) -> tuple[BatchRecord, dict[str, bytes]] | None:
        """Return record and chunks of a batch from the files of its shard, None where one is not as recorded."""
        shard = self._shard(self._head.shard_of(index))
        found = None if shard is None else self._from_shard(shard, index, self._head.results)
        return None if shard is None or found is None else (shard.record.batches[index], found)

    def from_loose(self, loose: LooseBatch, names: Sequence[str]) -> dict[str, bytes] | None:
        """Return chunks of a batch from its own file, None where one is not as recorded."""
        result = {}
        for name in names:
            try:
                begin, size = loose.place_of(name)
                data = loose.content[begin : begin + size]
                if len(data) < size:
                    data = self._head.place.read_range(batch_file(loose.record.index), begin, size)
            except FileNotFoundError:
                return None
            if digest_of(data) != loose.record.chunks[name][1]:
                return None
            result[name] = data
        return result

    def _shard(self, shard: int) -> _Shard | None:
        found = self._shards.get(shard)
        if found is None:
            record = parsed_record(self._head, shard, read_or_none(self._head.place, shard_record(shard)))
            if record is None:
                return None
            found = self._shards[shard] = _Shard(record, {})
            while len(self._shards) > _MOST_SHARDS:
                self._shards.popitem(last=False)
        return found

    def _damaged(self, problem: str) -> StoreDamagedError:
        return StoreDamagedError(
            f"{self._head.place.url}: expected readable bounds, got {problem}: run the study again with --check"
        )


#: So many shards are looked at together: enough that their requests fill the time, and few enough for memory.
_SHARDS_AT_ONCE = 64
#: The files of a shard are written at the same time where all together have no more bytes: twice as many are in memory.
_WRITTEN_AT_ONCE = 1 << 25


@dataclass(frozen=True)
class ShardState:
    """What is there of a shard."""

    #: Its number.
    shard: int
    #: The records of the batches that are there, by their numbers.
    batches: Mapping[int, BatchRecord]
    #: Batches that its record has, but whose files are missing or have changed, as far as was looked.
    damaged: frozenset[int]
    #: Whether its files are those of its record, and no file of a single batch is left.
    whole: bool


@dataclass(frozen=True)
class JoinedShard:
    """What joining a shard has done: the bytes written, and the batches that it lacks; with any, nothing is written."""

    written: int
    lacking: tuple[int, ...] = ()


def sizes_of_part(sizes: Mapping[str, int], part: str) -> Mapping[str, int]:
    """Return the sizes of the files of a part by their names in it, of those of a store."""
    if not part:
        return sizes
    return {name[len(part) + 1 :]: size for name, size in sizes.items() if name.startswith(f"{part}/")}


def survey(head: PartHead, sizes: Mapping[str, int], *, check: bool = False) -> Iterator[ShardState]:
    """Yield for each shard of a part, in order, what is there of it.

    Parameters
    ----------
    head
        The part.
    sizes
        The bytes of all files of the part by their names. A file that this lacks is not looked for.
    check
        Whether the SHA-256 of every file is compared too, and not only its size.
    """
    results = PartResults(head)
    for first in range(0, head.shards, _SHARDS_AT_ONCE):
        shards = range(first, min(first + _SHARDS_AT_ONCE, head.shards))
        numbers = [index for shard in shards for index in _apart(head, sizes, shard)]
        # Of all these shards: in one of them there may be all the batches that are not joined.
        records = at_once(partial(_record_apart, results, sizes, check=check), numbers)
        apart = dict(zip(numbers, records, strict=True))
        yield from at_once(partial(_state, results, sizes, apart, check=check), shards)


def shard_state(results: PartResults, sizes: Mapping[str, int], shard: int, *, check: bool) -> ShardState:
    """Return what is there of a shard of a part, as `survey`."""
    numbers = _apart(results.head, sizes, shard)
    records = at_once(partial(_record_apart, results, sizes, check=check), numbers)
    return _state(results, sizes, dict(zip(numbers, records, strict=True)), shard, check=check)


def _apart(head: PartHead, sizes: Mapping[str, int], shard: int) -> list[int]:
    """Return the batches of a shard that have files of their own."""
    return [index for index in head.batches_of(shard) if batch_file(index) in sizes]


def _record_apart(results: PartResults, sizes: Mapping[str, int], index: int, *, check: bool) -> BatchRecord | None:
    """Return the record in a batch's own file; None where that, or a state of it, is not as recorded."""
    found = read_loose(results.head, index)
    if found is None or found.size != sizes[batch_file(index)]:
        return None
    record = found.record
    if any(sizes.get(name) != entry["bytes"] for name, entry in record.states.items()):
        return None
    if check and (results.from_loose(found, results.head.results) is None or not results.states_are_sound(record)):
        return None
    return record


def _state(
    results: PartResults,
    sizes: Mapping[str, int],
    apart: Mapping[int, BatchRecord | None],
    shard: int,
    *,
    check: bool,
) -> ShardState:
    """Return what is there of a shard; `apart` has the records of batches with files of their own, if sound."""
    head = results.head
    record = results.shard(shard) if shard_record(shard) in sizes else None
    loose = {index: apart[index] for index in _apart(head, sizes, shard)}
    sound: dict[int, BatchRecord] = {}
    fits = False
    if record is not None:
        fits = _fits(head, record, sizes, check=check)
        sound = dict(record.batches) if fits else {i: one for i, one in record.batches.items() if results.is_sound(i)}
    sound |= {index: one for index, one in loose.items() if one is not None}
    if record is None and len(sound) < len(loose):
        # Another process may have joined them since the listing.
        record = results.shard(shard)
        if record is not None:
            sound |= {i: one for i, one in record.batches.items() if i not in sound and results.is_sound(i)}
    damaged = frozenset(() if record is None else record.batches) - set(sound)
    return ShardState(shard, sound, damaged, fits and not loose)


def _fits(head: PartHead, record: ShardRecord, sizes: Mapping[str, int], *, check: bool) -> bool:
    """Whether the files of a shard, and the states of its cells, are those of its record."""
    files = {**record.files, **{name: entry for one in record.batches.values() for name, entry in one.states.items()}}
    if any(sizes.get(name) != entry["bytes"] for name, entry in files.items()):
        return False
    return not check or all(changed_file(head.place, name, entry) is None for name, entry in files.items())


def join_shard(head: PartHead, shard: int) -> JoinedShard:
    """Join the batches of a shard: write its files and its record, and remove the files of single batches.

    Guaranteed: the same bytes whenever it is done. A kill at any moment loses no batch: until the record is written
    the file of each new batch is there, and each other batch is in the shard as recorded before. Batches that are there
    both ways are taken from their own files, which are newer.

    Raises
    ------
    OSError
        The store cannot be read or written.
    """
    head.look()
    results = PartResults(head)
    numbers = head.batches_of(shard)

    def batch(index: int) -> tuple[BatchRecord, dict[str, bytes]] | None:
        return _batch_apart(results, head, index) or results.joined(index)

    found = list(at_once(batch, numbers))
    lacking = tuple(index for index, one in zip(numbers, found, strict=True) if one is None)
    if lacking:
        return JoinedShard(0, lacking)
    written = write_shard(head, shard, [one for one in found if one is not None])
    head.remove_all([*map(batch_file, numbers)])
    return JoinedShard(written)


def write_shard(head: PartHead, shard: int, batches: Sequence[tuple[BatchRecord, Mapping[str, bytes]]]) -> int:
    """Write the files of a shard and then its record, from the records and chunks of all its batches in order.

    Returns the bytes written.
    """

    def write(name: str) -> tuple[int, FileDigest]:
        data = shard_content([chunks[name] for _, chunks in batches], head.batches_per_shard)
        head.write(shard_file(name, shard), data)
        return len(data), {"bytes": len(data), "sha256": digest_of(data)}

    total = sum(len(chunk) for _, chunks in batches for chunk in chunks.values())
    # The record after all of them, as it tells of them.
    written = list(at_once(write, head.results, MOST_AT_ONCE if total <= _WRITTEN_AT_ONCE else 1))
    files = {shard_file(name, shard): entry for name, (_, entry) in zip(head.results, written, strict=True)}
    document = record_document(head, shard, ShardRecord({record.index: record for record, _ in batches}, files))
    head.write(shard_record(shard), document)
    return sum(size for size, _ in written) + len(document)


def _batch_apart(results: PartResults, head: PartHead, index: int) -> tuple[BatchRecord, dict[str, bytes]] | None:
    """Return a batch with all its chunks from its own file; None where that is missing or damaged."""
    loose = read_loose(head, index)
    if loose is None:
        return None
    chunks = results.from_loose(loose, head.results)
    return None if chunks is None else (loose.record, chunks)
