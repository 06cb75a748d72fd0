"""Put back what is damaged of all that is no result, and remove what killed processes have left behind."""

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pbdist.errors import StoreDamagedError
from pbdist.store.documents import digest_of
from pbdist.store.folder import Folder
from pbdist.store.heads import listed_parts, read_or_none
from pbdist.store.layout import EXTENSIONS
from pbdist.store.open import StoredStudy
from pbdist.store.place import PARTIAL, LocalPlace, Place
from pbdist.store.read import changed_skeleton
from pbdist.store.recover import drop
from pbdist.store.refinements import restore_refinements
from pbdist.store.search import cells_of_parts, computed_anew
from pbdist.store.skeleton import new_skeleton, root_files, write_extensions
from pbdist.study import Plan, StudySpec

__all__ = ["remove_strays", "restore_parts", "restore_skeleton", "unfinished_folders"]


def restore_parts(parts: Sequence[StoredStudy], wanted: StudySpec) -> tuple[StoredStudy, ...]:
    """Put back every file of a store that is missing or changed, results and commit records apart.

    For the one driver of a store. Nothing is written where nothing is damaged. What cannot be put back of the points
    that queries have added is given up, with a warning.

    Parameters
    ----------
    parts
        All parts of the store.
    wanted
        The study that is to be run. Where the list of a part's cells is damaged, they are found among its cells and
        those of the other parts. A part whose cells are not found, but whose points `wanted` asks for, is removed with
        a warning, to be computed anew.

    Returns
    -------
    tuple of StoredStudy
        The parts, without those that are to be computed anew; one that holds `wanted` itself has it as its study, so
        that its cells are not read again.

    Raises
    ------
    StoreDamagedError
        The cells of a part cannot be read, neither `wanted` nor other parts tell them, and `wanted` does not ask for
        what is lost either.
    OSError
        The files cannot be written.
    """
    first = parts[0]
    changed = {stored.part for stored in parts if changed_skeleton(stored)}
    cells = cells_of_parts(parts, wanted) if changed else {}
    known = [replace(stored.study, cells=cells[stored.part]) for stored in parts if stored.part in cells]
    lost = {stored.part: stored for stored in parts if stored.part in changed and stored.part not in cells}
    for stored in lost.values():
        if not stored.part or len(known) + len(lost) < len(parts) or not computed_anew(stored, known, wanted):
            raise StoreDamagedError(
                f"{stored.place.url}: expected a study with the cells of the store, some of which cannot be read any"
                " more: run the study file that it was made from"
            )
    for part in lost:
        drop(first.place, part)
    restored = []
    for stored in parts:
        if stored.part in lost:
            continue
        whole = wanted if stored.study.digest == wanted.digest else None
        if stored.part in changed:
            _restore(stored, whole or replace(stored.study, cells=cells[stored.part]))
        restored.append(stored if whole is None else replace(stored, study=whole))
    if len(parts) > 1 or read_or_none(first.place, f"{EXTENSIONS}/zarr.json") is not None:
        listed = {stored.part: stored.study.digest for stored in restored[1:]}
        if listed_parts(first.place) != listed:
            write_extensions(first.place, listed)
    restore_refinements(first)
    return tuple(restored)


def restore_skeleton(stored: StoredStudy, plan: Plan) -> None:
    """Put back every file of one part that is missing or changed, results and commit records apart.

    For the one driver of a store. All that is not a result follows from the plan's study, so that it is built anew
    and compared; nothing is written where nothing is damaged.

    Raises
    ------
    OSError
        The files cannot be written.
    """
    if changed_skeleton(stored):
        _restore(stored, plan.study)


def remove_strays(stored: StoredStudy) -> None:
    """Remove the temporary files that killed processes left behind; for the one driver of a store, at the end."""
    for name, _ in list(stored.place.names()):
        if name.endswith(PARTIAL):
            stored.place.remove(name)
    for folder in unfinished_folders(stored.place):
        shutil.rmtree(folder, ignore_errors=True)


def unfinished_folders(place: Place) -> Iterator[Path]:
    """Yield the hidden folders beside a local store in which one was being created."""
    if isinstance(place, LocalPlace):
        # A store that is reached by a link was created beside what the link leads to.
        for path in {Path(place.url), Path(place.url).resolve()}:
            pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}{re.escape(PARTIAL)}")
            around = Folder(str(path.parent)).entries()
            yield from (
                path.parent / entry.name for entry in around if entry.kind == "folder" and pattern.fullmatch(entry.name)
            )


def _restore(stored: StoredStudy, study: StudySpec) -> None:
    new_root, fresh = new_skeleton(study, stored.cells_per_batch, stored.part, stored.format)
    root = stored.root
    if any(digest_of(fresh[name]) != root["files"].get(name, {}).get("sha256") for name in fresh):
        # Another version of zarr writes the same content in other bytes: all of it then, and the root that says so.
        root = {**root, "files": new_root["files"]}
    for name, data in {**fresh, **root_files(root)}.items():
        if read_or_none(stored.place, name, len(data)) != data:
            stored.place.write(name, data)
