"""See which batches of a part are there, by listings and records, and join those of a shard."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pbdist.store.checksums import changed_file
from pbdist.store.concurrent import MOST_AT_ONCE, at_once
from pbdist.store.documents import FileDigest, digest_of
from pbdist.store.layout import batch_file, shard_file, shard_record
from pbdist.store.part import PartHead
from pbdist.store.records import BatchRecord, ShardRecord, record_document, shard_content
from pbdist.store.results import PartResults, read_loose

#: So many shards are looked at together: enough that their requests fill the time, and few enough for memory.
_SHARDS_AT_ONCE = 64
#: The files of a shard are written at the same time where all together have no more bytes: twice as many are in memory.
_WRITTEN_AT_ONCE = 1 << 25


@dataclass(frozen=True)
class ShardState:
    """What is there of a shard.

    Attributes
    ----------
    shard
        Its number.
    batches
        The records of the batches that are there, by their numbers.
    damaged
        Batches that its record has, but whose files are missing or have changed, as far as was looked.
    whole
        Whether its files are those of its record, and no file of a single batch is left.
    """

    shard: int
    batches: Mapping[int, BatchRecord]
    damaged: frozenset[int]
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
