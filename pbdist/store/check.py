"""Check every file of a store against its checksum; nothing is computed."""

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pbdist.mechanisms.columns import known_columns
from pbdist.store.create import changed_skeleton
from pbdist.store.documents import part_folder, parts_told_of, read_or_none, read_parts
from pbdist.store.files import Entry, at_once, refusal
from pbdist.store.layout import (
    BOUNDS,
    COMMITS,
    COMPUTED,
    COPY_FILE,
    EXTENSIONS,
    GRIDS,
    PARTS_FILE,
    REFINEMENTS,
    ROOT_FILE,
    STATES,
    WITHIN,
    batch_file,
    cell_group,
    shard_file,
    shard_record,
)
from pbdist.store.lock import check_lock
from pbdist.store.open import StoredStudy, open_parts
from pbdist.store.place import LocalPlace, Place, place_at
from pbdist.store.refinements import damaged_refinements
from pbdist.store.repair import unfinished_folders
from pbdist.store.results import ShardRecord, changed_file, read_loose, shard_state, sizes_of_part

#: All names that a store has at its top, but for its columns.
_OWN = frozenset({*BOUNDS, WITHIN, *COMPUTED, "pair", *GRIDS, COMMITS, EXTENSIONS, REFINEMENTS, STATES, ROOT_FILE})


def is_of_store(name: str) -> bool:
    """Whether a name in a store's folder is one of its own, or lies in one of its own folders."""
    top = name.split("/", maxsplit=1)[0]
    return top in _OWN or top in known_columns()


def entries_of_store(place: Place) -> Iterator[Entry]:
    """Yield what lies in the folder of a store, also links and what does not belong there.

    A folder that this user may not list is an error if it is the store's own; else it is passed over.
    """
    if isinstance(place, LocalPlace):
        return place.walk(passed=lambda name: not is_of_store(name))
    return place.walk()


def sizes_of_store(place: Place) -> dict[str, int]:
    """Return the name and the size in bytes of every file in the folder of a store, by one listing."""
    return {entry.name: entry.size for entry in entries_of_store(place) if entry.kind == "file"}


def refuse_links(place: Place, under: str = "") -> None:
    """Refuse a store with a link or other irregular file among its own files, or as its lock, before any work is done.

    `under` is the only folder to look through, if given. A link at the top under a name that is not one of the store's
    does no harm. Raises `IrregularError`.
    """
    if not isinstance(place, LocalPlace):
        return
    check_lock(place)
    # A folder that this user may not list is not read or written through either.
    for name, kind, _ in place.walk(under, passed=lambda _: True):
        if kind not in {"file", "folder"} and is_of_store(name):
            path = f"{place.url}/{name}"
            raise refusal(path, "file or folder", kind, os.readlink(path) if kind == "link" else None)


@dataclass(frozen=True)
class StoreCheck:
    """The result of a check."""

    #: The number of batches, and of those with a sound commit record and all files that it names.
    batches: int
    committed: int
    #: The number of cells in all parts.
    cells: int
    #: Batches without a commit record: the path of the part, empty for the first one, and the number.
    missing: tuple[tuple[str, int], ...]
    #: Files that are missing or changed or of no known part, and what is wrong with each; also what is neither file nor
    #: folder, such as a link, under a name of the store.
    damaged: tuple[tuple[str, str], ...]
    #: Cells that could not be computed: the path of the part, the number of the cell, and the cause.
    failed: tuple[tuple[str, int, str], ...]
    #: Other files, left behind by killed processes or put there by somebody, which do no harm. The kind follows the
    #: name of what is no file.
    strays: tuple[str, ...]
    #: How many of the damaged are no regular files: a run refuses them.
    irregular: int = 0

    @property
    def healthy(self) -> bool:
        """Whether the store is complete and all its files are unchanged."""
        return not (self.missing or self.damaged or self.failed)


def check_store(where: str | Path | Place) -> StoreCheck:
    """Check every file of a store: roots, metadata, coordinates, commit records, results, states and refinements.

    Nothing is written, and every change of any one file is found. Errors are those of `open_parts`.
    """
    place = place_at(where)
    if isinstance(place, LocalPlace):
        # What lies behind a link counts as missing, so that all links are found and not only the first one.
        place = replace(place, lenient=True)
    parts = open_parts(place)
    sizes = sizes_of_store(place)
    checks = [_Part(stored, sizes_of_part(sizes, stored.part)) for stored in parts]
    known = set().union(*(check.known for check in checks))
    damaged = {name: what for check in checks for name, what in check.damaged.items()}
    if len(parts) > 1 or read_or_none(place, PARTS_FILE) is not None:
        known.add(PARTS_FILE)
        listed = read_parts(place)
        if listed is None or listed["parts"] != {stored.part: stored.study.digest for stored in parts[1:]}:
            damaged[PARTS_FILE] = "missing or other content"
        elif listed["left"]:
            damaged[PARTS_FILE] = f"an extension was interrupted that lacks {listed['left']} parts"
    damaged = _wrongly_told(place, [stored.part for stored in parts[1:]]) | damaged
    refinements, changed = damaged_refinements(parts[0])
    known |= refinements
    damaged |= changed
    strays = []
    foreign = {}
    whole = {stored.part for stored in parts}
    for name, kind, _ in entries_of_store(place):
        if kind == "folder":
            continue
        if kind != "file" and is_of_store(name):
            foreign[name] = f"a {kind} instead of a file or a folder"
        elif kind != "file":
            strays.append(f"{name}: a {kind}")
        elif (part_folder(name) or "") not in whole:
            # Of an interrupted extension, or results whose part can no longer be recognised.
            damaged[name] = "of a part that is not in the list"
        elif name not in known and not any(check.owns(name) for check in checks):
            strays.append(name)
    # The link stands for what should be behind it.
    damaged = {name: what for name, what in damaged.items() if not _lies_in(name, foreign)} | foreign
    strays += [f"../{folder.name}" for folder in unfinished_folders(place)]
    return StoreCheck(
        batches=sum(stored.batches for stored in parts),
        committed=sum(check.committed for check in checks),
        cells=sum(len(stored.study.cells) for stored in parts),
        missing=tuple(item for check in checks for item in check.missing),
        damaged=tuple(sorted(damaged.items())),
        failed=tuple(item for check in checks for item in check.failed),
        strays=tuple(strays),
        irregular=len(foreign),
    )


def _wrongly_told(place: Place, parts: Sequence[str]) -> dict[str, str]:
    """Return the root or its copy where they tell of other parts than those that extend the store.

    Both tell nothing in a store that an earlier version of pbdist has extended.
    """
    told = {name: parts_told_of(name, read_or_none(place, name)) for name in (ROOT_FILE, COPY_FILE)}
    if not any(told.values()):
        return {}
    what = "tells of other parts than those that are there"
    return {name: what for name, others in told.items() if set(others) != set(parts)}


def _lies_in(name: str, folders: Container[str]) -> bool:
    return any(name[:end] in folders for end, letter in enumerate(name) if letter == "/")


class _Part:
    """The result of a check of one part; file names are relative to the store. `sizes` has the files of the part."""

    def __init__(self, stored: StoredStudy, sizes: Mapping[str, int]) -> None:
        self._stored, self._head, self._sizes = stored, stored.head, sizes
        self._prefix = f"{stored.part}/" if stored.part else ""
        self.damaged = self._named(changed_skeleton(stored))
        self.missing: list[tuple[str, int]] = []
        self.failed: list[tuple[str, int, str]] = []
        self.committed = 0
        skeleton = stored.files
        self.known = set(self._named(dict.fromkeys((*skeleton, ROOT_FILE, COPY_FILE), "")))
        #: Folders of states of incomplete batches, whose files will be written again.
        self._open_states: set[str] = set()
        for shard in range(self._head.shards):
            # Where nothing has changed, sizes tell what is there.
            state = shard_state(stored.results, sizes, shard, check=self._check_shard(shard))
            for index in self._head.batches_of(shard):
                record = state.batches.get(index)
                if record is None:
                    self._open_states.update(map(cell_group, self._head.cells_of(index)))
                    if not self._is_told(index):
                        self.missing.append((stored.part, index))
                    continue
                self.committed += 1
                self.known.update(self._named(dict.fromkeys(record.states, "")))
                self.failed += [(stored.part, cell, cause) for cell, cause in record.failed.items()]

    def owns(self, name: str) -> bool:
        """Whether a file belongs to the states of an incomplete batch of the part."""
        folder = name.removeprefix(self._prefix).split("/")[:2]
        return name.startswith(self._prefix) and folder[0] == STATES and "/".join(folder) in self._open_states

    def _check_shard(self, shard: int) -> bool:
        """Compare the files of a shard, and of its batches that are not joined yet; return whether any has changed."""
        head, sizes, results = self._head, self._sizes, self._stored.results
        files = {name: shard_file(name, shard) for name in head.results}
        loose = [index for index in head.batches_of(shard) if batch_file(index) in sizes]
        self.known.update(
            self._named(dict.fromkeys((shard_record(shard), *files.values(), *map(batch_file, loose)), ""))
        )
        record = results.shard(shard) if shard_record(shard) in sizes else None
        changed: dict[str, str] = {}
        if shard_record(shard) in sizes and record is None:
            changed[shard_record(shard)] = "other content"
        elif record is not None:
            changed |= self._changed(record, [*files.values()])
        elif not loose:
            # Without a record nothing of it counts.
            changed |= {name: "without its commit record" for name in files.values() if name in sizes}
        for index in loose:
            found = read_loose(head, index)
            whole = found is not None and found.size == sizes[batch_file(index)]
            if found is None or not whole or results.from_loose(found, head.results) is None:
                changed[batch_file(index)] = "other content"
                continue
            entries = found.record.states.items()
            changed |= {n: what for n, entry in entries if (what := changed_file(head.place, n, entry)) is not None}
        self.damaged.update(self._named(changed))
        return bool(changed)

    def _changed(self, record: ShardRecord, files: Sequence[str]) -> dict[str, str]:
        place = self._head.place
        entries = {**record.files}
        for one in record.batches.values():
            entries.update(one.states)
        self.known.update(self._named(dict.fromkeys(entries, "")))
        found = zip(entries, at_once(lambda name: changed_file(place, name, entries[name]), [*entries]), strict=True)
        changed = {name: what for name, what in found if what is not None}
        return {**{name: "not in the commit record" for name in files if name not in entries}, **changed}

    def _is_told(self, index: int) -> bool:
        """Whether a batch that is not sound has left something, which is told as damage."""
        return shard_record(self._head.shard_of(index)) in self._sizes or batch_file(index) in self._sizes

    def _named(self, found: Mapping[str, str]) -> dict[str, str]:
        return {f"{self._prefix}{name}": what for name, what in found.items()}
