"""Read the results of a part: batch by batch, each compared with what was recorded of it."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdist.errors import StoreDamagedError, shown
from pbdist.store.arrays import decode_chunk
from pbdist.store.checksums import changed_file
from pbdist.store.concurrent import at_once
from pbdist.store.documents import digest_of, read_or_none
from pbdist.store.layout import WITHIN, batch_file, batch_shape, shard_file, shard_record
from pbdist.store.part import PartHead
from pbdist.store.place import LocalPlace
from pbdist.store.records import BatchRecord, ShardRecord, index_bytes, index_of, parsed_header, parsed_record
from pbdist.types import IntArray

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
    """A batch that is not yet joined into a shard.

    Attributes
    ----------
    record
        What is recorded of it.
    begin
        How long the first line of its file is.
    content
        What was read of the file, from its beginning; of a small one all.
    """

    record: BatchRecord
    begin: int
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
