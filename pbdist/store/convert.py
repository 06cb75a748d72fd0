"""Make a store of this format from one of format 3 or 4; only this file reads those.

There each batch was one file in each array of results, with a commit record of its own that names the files of its
results and kept states, and format 3 did not store where the tolerance is met. All else is as it is now.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pbdist.errors import InvalidInputError, PbdistError, StoreDamagedError, StoreFormatError
from pbdist.store.arrays import decode_chunk, encode_chunk
from pbdist.store.batch_results import judged
from pbdist.store.checksums import checked_content, is_entry
from pbdist.store.columns import StoredCells
from pbdist.store.concurrent import at_once
from pbdist.store.create import check_outside, clear, new_skeleton, root_files, told_root, write_parts
from pbdist.store.documents import extensions_of, head_of, read_or_none, read_parts, sealed_record
from pbdist.store.files import PARTIAL, settle
from pbdist.store.layout import (
    COMMITS,
    COMPUTED,
    EARLIER_FORMATS,
    WITHIN,
    batch_file,
    batch_shape,
    cell_group,
    shard_length,
)
from pbdist.store.lock import Held, hold, holder
from pbdist.store.open import StoredStudy, is_there, stored_digest
from pbdist.store.place import LocalPlace, Place, place_at
from pbdist.store.records import BatchRecord, batch_document, digests_of
from pbdist.store.refinements import copy_refinements
from pbdist.store.repair import unfinished_folders
from pbdist.store.shards import write_shard
from pbdist.study import StudySpec
from pbdist.study.spec import within_tolerance
from pbdist.types import JsonValue

__all__ = ["Conversion", "convert_store"]

#: The format that does not store where the tolerance is met.
_WITHOUT_WITHIN = 3


@dataclass(frozen=True)
class Conversion:
    """What a conversion has done.

    Attributes
    ----------
    old, new
        The stores, by their paths or URLs.
    format
        The format of the old one.
    parts, batches, refinements
        How many were copied.
    missing
        Batches that the old store has no commit record of: the path of the part, empty for the first one, and the
        number.
    damaged
        Files of the old store that are missing or changed, and what is wrong with each. Their batches, refinements and
        parts are not copied.
    failed
        Cells that could not be computed: the path of the part, the number of the cell, and the cause. The other cells
        of their batches are copied.
    left
        How many parts the old store still lacked, because its extension was interrupted.
    """

    old: str
    new: str
    format: int
    parts: int
    batches: int
    refinements: int
    missing: tuple[tuple[str, int], ...]
    damaged: tuple[tuple[str, str], ...]
    failed: tuple[tuple[str, int, str], ...]
    left: int

    @property
    def whole(self) -> bool:
        """Whether the new store lacks nothing."""
        return not (self.missing or self.damaged or self.failed or self.left)


def convert_store(old: str | Path | Place, new: str | Path | Place) -> Conversion:
    """Make a store at `new` with all that is sound in the store of format 3 or 4 at `old`, which stays as it is.

    Guaranteed: the new store has exactly the numbers of the old one, and the provenance of each batch. All that is read
    is compared with its checksum; what is missing, damaged or failed is left to the next run of the study. The new
    store appears when it is done: in a folder by one rename, in an object store with its root, which is written last.

    Raises
    ------
    NotAStoreError
        There is no store at `old`.
    StoreFormatError
        It is of another format.
    StoreDamagedError
        The study that it holds cannot be read.
    InvalidInputError
        A run is writing to it; or there is something at `new`, or that is inside a store.
    OSError
        The new store cannot be written.
    """
    source, target = place_at(old), place_at(new)
    first = _opened(source, "")
    busy = holder(source)
    if busy is not None:
        raise InvalidInputError(
            f"{source.url}: expected a store at rest, got one that is written to: {busy.describe()}"
        )
    _check_new(target)
    with hold(target) as held:
        # Another process may have created it until it was held.
        _check_new(target)
        for folder in unfinished_folders(target):
            # Of a conversion, or a run, that was killed: only who holds the store builds one.
            shutil.rmtree(folder, ignore_errors=True)
        with _appearing(target, held) as place:
            return _converted(first, target, place, held)


def _converted(first: StoredStudy, target: Place, place: Place, held: Held) -> Conversion:
    """Build the new store at `place`, to appear at `target`, from the old one by its first part."""
    source = first.place
    content = read_parts(source) or {}
    converted = [_Converted(first, place)]
    lost: dict[str, str] = {}
    listed: dict[str, str] = {}
    for part in extensions_of(source):
        try:
            stored = _opened(source.inner(part), part)
        except (StoreDamagedError, StoreFormatError) as error:
            lost[part] = str(error)
            continue
        converted.append(_Converted(stored, place.inner(part)))
        listed[part] = stored.head.digest
    for one in converted:
        one.copy()
        if one.new.part:
            one.write_heads(())
    # The next run of the study adds the parts that are not there.
    told = {*listed, *first.others_told, *lost}
    left = max(int(content.get("left", 0)) + len(lost), len(told) - len(listed))
    if content or told:
        write_parts(place, listed, left)
    refinements, damaged = copy_refinements(first, converted[0].new)
    if not held.confirmed():
        raise InvalidInputError(f"{target.url}: expected to be the one who writes there, got another at work")
    # Last, as a store without them is none.
    converted[0].write_heads(told)
    return Conversion(
        old=source.url,
        new=target.url,
        format=_version(first),
        parts=len(converted),
        batches=sum(one.batches for one in converted),
        refinements=refinements,
        missing=tuple(item for one in converted for item in sorted(one.missing)),
        damaged=(
            *lost.items(),
            *(item for one in converted for item in sorted(one.damaged)),
            *((name, "missing or other content") for name in damaged),
        ),
        failed=tuple(item for one in converted for item in sorted(one.failed)),
        left=left - len(lost),
    )


def _version(old: StoredStudy) -> int:
    return int(old.root["pbdist_format"])


def _opened(place: Place, part: str) -> StoredStudy:
    """Return a part of an old store, with the length of the shards that it gets."""
    root = head_of(place, part)
    if root is None:
        if not part:
            # A `NotAStoreError` where there is something else.
            stored_digest(place, part)
        raise StoreDamagedError(
            f"{place.url}: expected root attributes, or the copy of them in {COMMITS}, got both damaged"
        )
    version = root["pbdist_format"]
    if type(version) is not int or version not in EARLIER_FORMATS:
        known = " or ".join(map(str, EARLIER_FORMATS))
        raise StoreFormatError(f"{place.url}: expected a store of format {known}, got format {version!r}")
    try:
        head, length = root["study"], int(root["cells_per_batch"])
        cells = StoredCells(place, root["files"], int(head["cells"]), str(head["cells_sha256"]), "run its study anew")
        study = StudySpec.from_head(head, tuple(cells), name=root["title"])
        if length < 1 or study.digest != root["study_digest"]:
            raise ValueError(f"expected study {str(root['study_digest'])[:12]}, got {study.digest[:12]}")
    except StoreDamagedError:
        raise
    except (KeyError, TypeError, ValueError, PbdistError) as error:
        problem = " ".join(str(error).split())
        raise StoreDamagedError(f"{place.url}: expected a study in the root attributes, got: {problem}") from error
    return StoredStudy(place, study, length, shard_length(study, length), part, root)


def _check_new(target: Place) -> None:
    if is_there(target):
        # In an object store a conversion that was killed leaves files, but no root.
        left = not isinstance(target, LocalPlace) and head_of(target, "") is None
        hint = ", but no store: remove it if a conversion that was killed has left it" if left else ""
        raise InvalidInputError(f"new store: expected nothing at {target.url}, got something there{hint}")
    check_outside(target, "new store")


@contextmanager
def _appearing(target: Place, held: Held) -> Iterator[Place]:
    """Yield where a store is built that is complete when the block ends; nothing is left of it where that fails."""
    if isinstance(target, LocalPlace):
        path = Path(target.url)
        temporary = path.with_name(f".{path.name}.{uuid4().hex}{PARTIAL}")
        try:
            yield LocalPlace(str(temporary))
            temporary.rename(path)
            settle(str(path.parent))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return
    try:
        yield target
    except BaseException:
        # Unless it is another process's by now.
        if not held.lost:
            clear(target)
        raise


class _DamageError(Exception):
    """A file of a batch is not as recorded."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name, self.problem = name, problem


class _Converted:
    """A part of an old store, and the same part of the new one at `place`."""

    def __init__(self, old: StoredStudy, place: Place) -> None:
        self._old = old
        self._root, self._files = new_skeleton(old.study, old.cells_per_batch, old.part, old.batches_per_shard)
        self.new = replace(old, place=place, root=self._root)
        self._names = [name for name in self.new.head.results if _version(old) != _WITHOUT_WITHIN or name != WITHIN]
        self.batches = 0
        self.missing: list[tuple[str, int]] = []
        self.damaged: list[tuple[str, str]] = []
        self.failed: list[tuple[str, int, str]] = []

    def write_heads(self, others: set[str] | tuple[str, ...]) -> None:
        """Write the root and its copy."""
        for name, data in root_files(told_root(self._root, others)).items():
            self.new.place.write(name, data)

    def copy(self) -> None:
        """Write the part without its heads."""
        for name, data in self._files.items():
            self.new.place.write(name, data)
        head = self.new.head
        for shard in range(head.shards):
            numbers = head.batches_of(shard)
            batches = [one for one in at_once(self._batch, numbers) if one is not None]
            self.batches += len(batches)
            if len(batches) == len(numbers):
                write_shard(head, shard, batches)
                continue
            for record, chunks in batches:
                head.place.write(batch_file(record.index), batch_document(head, record, chunks))

    def _batch(self, index: int) -> tuple[BatchRecord, dict[str, bytes]] | None:
        """Return a batch as the new store records it, after its kept states are copied; None where it is not sound."""
        prefix = f"{self._old.part}/" if self._old.part else ""
        name = f"{COMMITS}/batch-{index:06d}/zarr.json"
        data = read_or_none(self._old.place, name)
        if data is None:
            self.missing.append((self._old.part, index))
            return None
        copied: dict[str, JsonValue] = {}
        try:
            record = self._record(index, name, data)
            values = self._values(index, record["files"])
            for file, entry in record["files"].items():
                if file not in self._chunk_files(index).values():
                    self.new.place.write(file, self._content(file, entry))
                    copied[file] = entry
        except _DamageError as damage:
            self.damaged.append((f"{prefix}{damage.name}", damage.problem))
            for file in copied:
                self.new.place.remove(file)
            return None
        failed = {int(cell): str(cause) for cell, cause in record.get("failed", {}).items()}
        self.failed += [(self._old.part, cell, cause) for cell, cause in failed.items()]
        return self._recorded(index, values, copied, failed, record.get("provenance", {}))

    def _recorded(
        self,
        index: int,
        values: dict[str, Any],
        states: Mapping[str, JsonValue],
        failed: Mapping[int, str],
        provenance: Mapping[str, JsonValue],
    ) -> tuple[BatchRecord, dict[str, bytes]]:
        head, cells = self.new.head, self.new.head.cells_of(index)
        if WITHIN in head.results and WITHIN not in values:
            values[WITHIN] = within_tolerance(head.settings, values["log_delta_lower"], values["log_delta_upper"])
        places = [cell - cells.start for cell in failed]
        points, missed = judged(head.settings, self.new.study.cells[cells.start : cells.stop], places, values)
        chunks = {name: encode_chunk(values[name], head.cells_per_batch) for name in head.results}
        return BatchRecord(index, digests_of(chunks), states, failed, points, missed, provenance), chunks

    def _record(self, index: int, name: str, data: bytes) -> dict[str, JsonValue]:
        """Return the commit record in a file."""
        record, cells = sealed_record(data), self.new.head.cells_of(index)
        if record is None or (record.get("cells"), record.get("study_digest")) != (
            [cells.start, cells.stop],
            self.new.head.digest,
        ):
            raise _DamageError(name, "other content")
        files, own = record.get("files"), tuple(f"{cell_group(cell)}/" for cell in cells)
        chunks = set(self._chunk_files(index).values())
        if not isinstance(files, dict) or not chunks <= set(files) or not all(map(is_entry, files.values())):
            raise _DamageError(name, "does not name all files")
        other = next((file for file in files if file not in chunks and not file.startswith(own)), None)
        if other is not None:
            raise _DamageError(name, f"names a file that is none of the batch: {other}")
        return record

    def _values(self, index: int, files: Mapping[str, JsonValue]) -> dict[str, Any]:
        """Return the results of a batch by the names of the arrays; `files` are those of its record."""
        head, values = self.new.head, {}
        for array, file in self._chunk_files(index).items():
            data = self._content(file, files[file], head.chunk_bytes(array))
            try:
                chunk = decode_chunk(data, batch_shape(head.settings, array, head.cells_per_batch), array)
            except (ValueError, RuntimeError) as error:
                raise _DamageError(file, " ".join(str(error).split())[:200]) from error
            values[array] = chunk[: len(head.cells_of(index))]
        return values

    def _content(self, name: str, entry: JsonValue, most: int | None = None) -> bytes:
        found = checked_content(self._old.place, name, entry, most)
        if isinstance(found, str):
            raise _DamageError(name, found)
        return found

    def _chunk_files(self, index: int) -> dict[str, str]:
        """Return the files that hold the results of a batch, by the names of the arrays."""
        return {name: f"{name}/c/{index}" if name in COMPUTED else f"{name}/c/{index}/0/0/0" for name in self._names}
