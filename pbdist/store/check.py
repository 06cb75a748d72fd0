"""Check a store without computing anything: every file against the checksum that some other file has of it."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pbdist.store.commit import changed_files, failures_of, record_file, record_of
from pbdist.store.heads import part_folder, read_extensions, read_or_none
from pbdist.store.layout import EXTENSIONS, STATES, cell_group, chunk_file
from pbdist.store.links import is_of_store
from pbdist.store.open import StoredStudy, open_parts
from pbdist.store.place import LocalPlace, Place, place_at
from pbdist.store.read import changed_skeleton
from pbdist.store.refinements import damaged_refinements
from pbdist.store.restore import unfinished_folders
from pbdist.store.skeleton import COPY_FILE, ROOT_FILE

__all__ = ["StoreCheck", "check_store"]


@dataclass(frozen=True)
class StoreCheck:
    """What was found in a store.

    Attributes
    ----------
    batches, committed
        How many batches there are, and how many of them have a sound commit record and all files it names.
    cells
        How many cells there are in all parts.
    missing
        Batches without a commit record: the path of the part, empty for the first one, and the number.
    damaged
        Files that are missing or changed, or belong to a part that is none, and what is wrong with each; and what is
        neither file nor folder among the store's own, such as a link.
    failed
        Cells that could not be computed: the path of the part, the number of the cell, and the cause.
    strays
        Files that belong to nothing: left behind by killed processes, or put there by somebody else. No harm. Of what
        is no file the kind follows the name.
    irregular
        How many of the damaged are links, or else no regular files: a run refuses them.
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
        """Whether the store is complete, and every file what it was when it was written."""
        return not (self.missing or self.damaged or self.failed)


def check_store(where: str | Path | Place) -> StoreCheck:
    """Check every file of a store: roots, metadata, coordinates, commit records, results, states and refinements.

    Nothing is computed, nothing is written, and each file is read once but for a few small ones. Every
    change of any one file is found.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_parts`: what is there cannot be recognised as a store.
    OSError
        The store cannot be reached.
    """
    place = place_at(where)
    if isinstance(place, LocalPlace):
        # What lies behind a link counts as missing: all links are told, not the first one alone.
        place = replace(place, lenient=True)
    parts = open_parts(place)
    checks = [_Part(stored) for stored in parts]
    known = set().union(*(check.known for check in checks))
    damaged = {name: what for check in checks for name, what in check.damaged.items()}
    list_file = f"{EXTENSIONS}/zarr.json"
    if len(parts) > 1 or read_or_none(place, list_file) is not None:
        known.add(list_file)
        listed = read_extensions(place)
        if listed is None or listed["parts"] != {stored.part: stored.study.digest for stored in parts[1:]}:
            damaged[list_file] = "missing or other content"
        elif listed["left"]:
            damaged[list_file] = f"an extension was interrupted that lacks {listed['left']} parts"
    refinements, changed = damaged_refinements(parts[0])
    known |= refinements
    damaged |= changed
    strays = []
    foreign = {}
    whole = {stored.part for stored in parts}
    for name, kind, _ in place.walk():
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
    # What should be behind a link is told by the link.
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


def _lies_in(name: str, folders: Container[str]) -> bool:
    return any(name[:end] in folders for end, letter in enumerate(name) if letter == "/")


class _Part:
    """What was found in one part; file names are those in the store."""

    def __init__(self, stored: StoredStudy) -> None:
        self._stored, self._head = stored, stored.head
        self._prefix = f"{stored.part}/" if stored.part else ""
        self.damaged = self._named(changed_skeleton(stored))
        self.missing: list[tuple[str, int]] = []
        self.failed: list[tuple[str, int, str]] = []
        self.committed = 0
        skeleton = stored.files
        self.known = set(self._named(dict.fromkeys((*skeleton, ROOT_FILE, COPY_FILE), "")))
        #: Folders of states of batches that are to be computed: what is in them will be written again.
        self._open_states: set[str] = set()
        for index in range(stored.batches):
            self._check_batch(index)

    def owns(self, name: str) -> bool:
        """Whether a file is one of the states of a batch of the part that is not complete."""
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
