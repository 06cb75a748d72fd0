"""See which batches of a part are there, by listings and records, and join those of a shard."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pbdist.store.checksums import changed_file
from pbdist.store.documents import digest_of
from pbdist.store.layout import batch_file, shard_file, shard_record
from pbdist.store.part import PartHead
from pbdist.store.records import BatchRecord, ShardRecord, record_document, shard_content
from pbdist.store.results import PartResults, at_once, read_loose

__all__ = ["JoinedShard", "ShardState", "join_shard", "shard_state", "sizes_of_part", "survey", "write_shard"]


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
    yield from at_once(lambda shard: shard_state(results, sizes, shard, check=check), range(head.shards))


def shard_state(results: PartResults, sizes: Mapping[str, int], shard: int, *, check: bool) -> ShardState:
    """Return what is there of a shard of a part, as `survey`."""
    head = results.head
    numbers = head.batches_of(shard)
    record = results.shard(shard) if shard_record(shard) in sizes else None
    loose = [index for index in numbers if batch_file(index) in sizes]
    sound: dict[int, BatchRecord] = {}
    fits = False
    if record is not None:
        fits = _fits(head, record, sizes, check=check)
        sound = dict(record.batches) if fits else {i: one for i, one in record.batches.items() if results.is_sound(i)}
    for index in loose:
        found = read_loose(head, index)
        if found is None or found.size != sizes[batch_file(index)]:
            continue
        if all(sizes.get(name) == entry["bytes"] for name, entry in found.record.states.items()) and (
            not check
            or (_read_loose_batch(results, head, index) is not None and results.states_are_sound(found.record))
        ):
            sound[index] = found.record
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
    results, place = PartResults(head), head.place
    numbers = head.batches_of(shard)

    def batch(index: int) -> tuple[BatchRecord, dict[str, bytes]] | None:
        return _read_loose_batch(results, head, index) or results.joined(index)

    found = list(at_once(batch, numbers))
    lacking = tuple(index for index, one in zip(numbers, found, strict=True) if one is None)
    if lacking:
        return JoinedShard(0, lacking)
    written = write_shard(head, shard, [one for one in found if one is not None])
    list(at_once(lambda index: place.remove(batch_file(index)), numbers))
    return JoinedShard(written)


def write_shard(head: PartHead, shard: int, batches: Sequence[tuple[BatchRecord, Mapping[str, bytes]]]) -> int:
    """Write the files of a shard and then its record, from the records and chunks of all its batches in order.

    Returns the bytes written.
    """
    written, files = 0, {}
    for name in head.results:
        data = shard_content([chunks[name] for _, chunks in batches], head.batches_per_shard)
        file = shard_file(name, shard)
        head.place.write(file, data)
        files[file] = {"bytes": len(data), "sha256": digest_of(data)}
        written += len(data)
    document = record_document(head, shard, ShardRecord({record.index: record for record, _ in batches}, files))
    head.place.write(shard_record(shard), document)
    return written + len(document)


def _read_loose_batch(results: PartResults, head: PartHead, index: int) -> tuple[BatchRecord, dict[str, bytes]] | None:
    """Return a batch with all its chunks from its own file; None where that is missing or damaged."""
    loose = read_loose(head, index)
    if loose is None:
        return None
    chunks = results.from_loose(loose, head.results)
    return None if chunks is None else (loose.record, chunks)
