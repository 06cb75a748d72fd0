"""Check every file of a store against its checksum, and refuse links in a store; nothing is computed."""

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pbdist.store.commit import changed_files, failures_of, record_file, record_of
from pbdist.store.create import changed_skeleton
from pbdist.store.documents import part_folder, read_or_none, read_parts
from pbdist.store.files import refusal
from pbdist.store.layout import (
    BOUNDS,
    COLUMNS,
    COMMITS,
    COMPUTED,
    COPY_FILE,
    EXTENSIONS,
    GRIDS,
    PARTS_FILE,
    REFINEMENTS,
    ROOT_FILE,
    STATES,
    cell_group,
    chunk_file,
)
from pbdist.store.lock import check_lock
from pbdist.store.open import StoredStudy, open_parts
from pbdist.store.place import LocalPlace, Place, place_at
from pbdist.store.refinements import damaged_refinements
from pbdist.store.repair import unfinished_folders

__all__ = ["StoreCheck", "check_store", "refuse_links"]

#: All names that a store has at its top.
_OWN = frozenset({*BOUNDS, *COMPUTED, *COLUMNS, "pair", *GRIDS, COMMITS, EXTENSIONS, REFINEMENTS, STATES, ROOT_FILE})


@dataclass(frozen=True)
class StoreCheck:
    """The result of a check.

    Attributes
    ----------
    batches, committed
        The number of batches, and of those with a sound commit record and all files that it names.
    cells
        The number of cells in all parts.
    missing
        Batches without a commit record: the path of the part, empty for the first one, and the number.
    damaged
        Files that are missing or changed or of no known part, and what is wrong with each; also what is neither file
        nor folder, such as a link, under a name of the store.
    failed
        Cells that could not be computed: the path of the part, the number of the cell, and the cause.
    strays
        Other files, left behind by killed processes or put there by somebody, which do no harm. The kind follows the
        name of what is no file.
    irregular
        How many of the damaged are no regular files: a run refuses them.
    """

    batches: int
    committed: int
    cells: int
    missing: tuple[tuple[str, int], ...]
    damaged: tuple[tuple[str, str], ...]
    failed: tuple[tuple[str, int, str], ...]
    strays: tuple[str, ...]
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
    checks = [_Part(stored) for stored in parts]
    known = set().union(*(check.known for check in checks))
    damaged = {name: what for check in checks for name, what in check.damaged.items()}
    if len(parts) > 1 or read_or_none(place, PARTS_FILE) is not None:
        known.add(PARTS_FILE)
        listed = read_parts(place)
        if listed is None or listed["parts"] != {stored.part: stored.study.digest for stored in parts[1:]}:
            damaged[PARTS_FILE] = "missing or other content"
        elif listed["left"]:
            damaged[PARTS_FILE] = f"an extension was interrupted that lacks {listed['left']} parts"
    refinements, changed = damaged_refinements(parts[0])
    known |= refinements
    damaged |= changed
    strays = []
    foreign = {}
    whole = {stored.part for stored in parts}
    for name, kind, _ in place.walk():
        if kind == "folder":
            continue
        if kind != "file" and _is_of_store(name):
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


def refuse_links(place: Place, under: str = "") -> None:
    """Refuse a store with a link or other irregular file among its own files, or as its lock, before any work is done.

    `under` is the only folder to look through, if given. A link at the top under a name that is not one of the store's
    does no harm. Raises `IrregularError`.
    """
    if not isinstance(place, LocalPlace):
        return
    check_lock(place)
    # A folder that this user may not list is not read or written through either.
    for name, kind, _ in place.walk(under, open_only=True):
        if kind not in {"file", "folder"} and _is_of_store(name):
            path = f"{place.url}/{name}"
            raise refusal(path, "file or folder", kind, os.readlink(path) if kind == "link" else None)


def _is_of_store(name: str) -> bool:
    """Whether a name in a store's folder is one of its own, or lies in one of its own folders."""
    return name.split("/", maxsplit=1)[0] in _OWN


def _lies_in(name: str, folders: Container[str]) -> bool:
    return any(name[:end] in folders for end, letter in enumerate(name) if letter == "/")


class _Part:
    """The result of a check of one part; file names are relative to the store."""

    def __init__(self, stored: StoredStudy) -> None:
        self._stored, self._head = stored, stored.head
        self._prefix = f"{stored.part}/" if stored.part else ""
        self.damaged = self._named(changed_skeleton(stored))
        self.missing: list[tuple[str, int]] = []
        self.failed: list[tuple[str, int, str]] = []
        self.committed = 0
        skeleton = stored.files
        self.known = set(self._named(dict.fromkeys((*skeleton, ROOT_FILE, COPY_FILE), "")))
        #: Folders of states of incomplete batches, whose files will be written again.
        self._open_states: set[str] = set()
        for index in range(stored.batches):
            self._check_batch(index)

    def owns(self, name: str) -> bool:
        """Whether a file belongs to the states of an incomplete batch of the part."""
        folder = name.removeprefix(self._prefix).split("/")[:2]
        return name.startswith(self._prefix) and folder[0] == STATES and "/".join(folder) in self._open_states

    def _check_batch(self, index: int) -> None:
        place, file = self._stored.place, record_file(index)
        data = read_or_none(place, file)
        record = record_of(self._head, index, data)
        changed: dict[str, str] = {}
        if record is not None:
            self.known.update(self._named(dict.fromkeys(record["files"], "")))
            changed = dict(changed_files(self._head, index, record))
        elif data is None:
            self.missing.append((self._stored.part, index))
        else:
            changed[file] = "other content"
        self.damaged.update(self._named(changed))
        if record is not None and not changed:
            self.committed += 1
            failed = failures_of(record).items()
            self.failed += [(self._stored.part, cell, cause) for cell, cause in failed]
        else:
            self._open_states.update(map(cell_group, self._head.cells_of(index)))
        self.known.update(
            self._named(dict.fromkeys((file, *(chunk_file(name, index) for name in self._head.results)), ""))
        )

    def _named(self, found: Mapping[str, str]) -> dict[str, str]:
        return {f"{self._prefix}{name}": what for name, what in found.items()}
