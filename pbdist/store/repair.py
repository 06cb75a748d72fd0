"""Repair a store: put back damaged heads, metadata and coordinates, and remove what killed processes have left behind.

All files without results follow from the studies of the parts. Where the columns of a part's cells are damaged too, the
cells are found among those of the wanted study and of the other parts.
"""

import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path

from pbdist.errors import LostResultsWarning, StoreDamagedError, StoreMismatchError, printable
from pbdist.store.create import changed_skeleton, clear, new_skeleton, root_files, tell_of_parts, write_parts
from pbdist.store.documents import (
    digest_of,
    extensions_of,
    head_of,
    heads_damaged,
    listed_parts,
    number_of,
    others_told,
    part_folder,
    parts_lost,
    points_of,
    read_or_none,
    read_parts,
    repaired_by,
    sealed_records,
    traces_of,
)
from pbdist.store.files import PARTIAL, Folder
from pbdist.store.layout import EXTENSIONS, LOOSE, PARTS_FILE
from pbdist.store.open import StoredStudy, open_part
from pbdist.store.place import LocalPlace, Place
from pbdist.store.refinements import restore_refinements
from pbdist.study import Cell, Plan, StudySpec, plan_study
from pbdist.study.columns import column_names, column_of
from pbdist.study.extension import missing_parts


def parts_gone(place: Place) -> tuple[str, ...]:
    """Return the paths of the parts that the root of a store tells of, but that can be read neither whole nor in part.

    None where the list of parts says that they were yet to come: they held no results.
    """
    told = _told(place)
    return tuple(sorted(told - set(extensions_of(place)))) if told else ()


def restore_list(place: Place) -> None:
    """Write the list of parts anew where it is damaged or lacks parts, from what the parts have left.

    For the one driver of a store. The study of a part is known from its root, the copy of it, or a commit record. A
    part without any of these is not listed; see `parts_gone`.
    """
    told, listed = _told(place), listed_parts(place)
    if listed is not None and told <= set(listed):
        return
    names = place.names(EXTENSIONS) if listed is None else ()
    folders = {folder for name, _ in names if (folder := part_folder(name)) is not None}
    whole = set(extensions_of(place))
    found = dict(listed or {})
    for part in sorted((told | folders) - set(found)):
        head = head_of(place.inner(part), part)
        record = next(sealed_records(place.inner(part)), None)
        # A copy of a root of which nothing else tells may be left of an extension that was interrupted.
        known = (head if part in told | whole else None) or record
        if known is not None:
            found[part] = str(known["study_digest"])
    if found and found != listed:
        write_parts(place, found)


def warn_of_gone(place: Place) -> None:
    """Warn of `parts_gone`, where there are any: the run computes the points that it is asked for."""
    gone = parts_gone(place)
    if gone:
        warnings.warn(
            f"{place.url}: {', '.join(gone)}, of which the root tells, cannot be read any more: the points of this"
            " study file are computed anew, others that were stored there are lost",
            LostResultsWarning,
            stacklevel=3,
        )


def _told(place: Place) -> set[str]:
    content = read_parts(place)
    if content is not None and content.get("left"):
        return set()
    heads = [set(told) for told in others_told(place)]
    if not heads:
        return set()
    # A list that can be read is wrong only if all that can be read beside it says so.
    return set.union(*heads) if content is None else set.intersection(*heads)


#: How many selections of groups of cells are tried, and how many cells are hashed for those of the right length.
_MOST_SELECTIONS, _MOST_HASHED = 1 << 16, 20_000_000


def restore_heads(place: Place, wanted: StudySpec, plan: Callable[[StudySpec], Plan] = plan_study) -> None:
    """Put back the heads of parts that are damaged in both copies, so that `open_parts` opens the store again.

    For the one driver of a store. The study of such a part is recognised by its digest, which commit records and the
    list of parts have. A part that is not recognised, but whose points `wanted` asks for, is removed with a warning, to
    be computed again. A damaged list of parts is written anew from what the parts have left. Nothing is written where
    nothing is damaged. `plan` is asked where only a study's plan tells the length of its batches.

    Raises
    ------
    StoreDamagedError
        The heads of a part are damaged, and `wanted` is not the study that can restore them.
    """
    if head_of(place, "") is None:
        traces = traces_of(place)
        if wanted.digest in traces:
            _write_heads(place, "", wanted, plan)
        elif traces:
            raise heads_damaged(place.url, "", traces)
        else:
            return
    restore_list(place)
    names = extensions_of(place)
    lost = [part for part in names if head_of(place.inner(part), part) is None]
    if not lost:
        return
    digests = listed_parts(place) or {}
    sound = [open_part(place.inner(part) if part else place, part) for part in ("", *names) if part not in lost]
    for part in lost:
        cells = _cells_of_parts(sound, wanted)
        known = [stored for stored in sound if stored.part in cells]
        studies = {stored.part: replace(stored.study, cells=cells[stored.part]) for stored in known}
        missing = _points_missing(list(studies.values()), wanted) if studies else ()
        earlier = [study for name, study in studies.items() if number_of(name) < number_of(part)]
        candidates = (wanted, *missing, *(_points_missing(earlier, wanted) if earlier else ()))
        study = next((study for study in candidates if study.digest == digests[part]), None)
        if study is not None:
            _write_heads(place.inner(part), part, study, plan)
            sound.append(open_part(place.inner(part), part))
        elif missing and len(known) == len(sound):
            _drop(place, part)
        else:
            raise heads_damaged(place.inner(part).url, part, {digests[part]})


def restore_parts(parts: Sequence[StoredStudy], wanted: StudySpec) -> tuple[StoredStudy, ...]:
    """Put back every file of a store that is missing or changed, except results and commit records.

    For the one driver of a store. Nothing is written where nothing is damaged. Damaged refinements are given up with a
    warning; so is a part whose cells are not found, but whose points `wanted` asks for: it is computed again. So are,
    where `wanted` asks for points that no part has, parts of which the root tells, but that are gone.

    Parameters
    ----------
    parts
        All parts of the store.
    wanted
        The study that will be run.

    Returns
    -------
    tuple of StoredStudy
        The parts that remain; one that holds `wanted` has it as its study, so that its cells are not read again.

    Raises
    ------
    StoreDamagedError
        The cells of a part cannot be read or found, and `wanted` does not ask for its points; or parts are gone, and it
        asks for no points that the others lack.
    """
    first = parts[0]
    changed = {stored.part for stored in parts if changed_skeleton(stored)}
    gone = parts_gone(first.place)
    cells = _cells_of_parts(parts, wanted) if changed or gone else {}
    known = [replace(stored.study, cells=cells[stored.part]) for stored in parts if stored.part in cells]
    lost = {stored.part: stored for stored in parts if stored.part in changed and stored.part not in cells}
    for stored in lost.values():
        if not stored.part or len(known) + len(lost) < len(parts) or not _computed_again(stored, known, wanted):
            raise StoreDamagedError(
                f"{stored.place.url}: expected a study with the cells of the store, some of which cannot be read any"
                f" more: {repaired_by(stored.part, points_of(stored.root['study']))}"
            )
    if gone and not (len(known) + len(lost) == len(parts) and _points_missing(known, wanted)):
        raise parts_lost(first.place.url, gone)
    if not lost:
        warn_of_gone(first.place)
    for part in lost:
        _drop(first.place, part)
    restored = []
    for stored in parts:
        if stored.part in lost:
            continue
        whole = wanted if stored.study.digest == wanted.digest else None
        sound = stored
        if stored.part in changed:
            sound = _restore(stored, whole or replace(stored.study, cells=cells[stored.part]))
        restored.append(sound if whole is None else replace(sound, study=whole))
    first = restored[0]
    listed = {stored.part: stored.study.digest for stored in restored[1:]}
    extended = len(parts) > 1 or read_or_none(first.place, PARTS_FILE) is not None
    if extended and not gone and listed_parts(first.place) != listed:
        write_parts(first.place, listed)
    if not gone:
        # Where parts are gone this is told until others with their points are added.
        tell_of_parts(first, listed)
    restore_refinements(first)
    return tuple(restored)


def restore_skeleton(stored: StoredStudy, plan: Plan) -> None:
    """Put back every file of one part that is missing or changed, except results and commit records.

    For the one driver of a store. Nothing is written where nothing is damaged.
    """
    if changed_skeleton(stored):
        _restore(stored, plan.study)


def remove_strays(stored: StoredStudy) -> None:
    """Remove temporary files that killed processes left behind, and folders of batches that are all joined.

    For the one driver of a store, at the end, when no worker is left.
    """
    for name, _ in list(stored.place.names()):
        if name.endswith(PARTIAL):
            stored.place.remove(name)
    if isinstance(stored.place, LocalPlace):
        # A walk over a finished store stumbles upon a folder that is no zarr group.
        for part in ("", *extensions_of(stored.place)):
            stored.place.remove_empty(f"{part}/{LOOSE}" if part else LOOSE)
    for folder in unfinished_folders(stored.place):
        shutil.rmtree(folder, ignore_errors=True)


def unfinished_folders(place: Place) -> Iterator[Path]:
    """Yield the hidden folders beside a local store in which its creation was interrupted."""
    if isinstance(place, LocalPlace):
        # Where a link leads to a store, the store was created beside the target of the link.
        for path in {Path(place.url), Path(place.url).resolve()}:
            pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}{re.escape(PARTIAL)}")
            around = Folder(str(path.parent)).entries()
            yield from (
                path.parent / entry.name for entry in around if entry.kind == "folder" and pattern.fullmatch(entry.name)
            )


def _restore(stored: StoredStudy, study: StudySpec) -> StoredStudy:
    """Write what differs from the skeleton of a part's study, and return the part as it is then."""
    new_root, fresh = new_skeleton(study, stored.cells_per_batch, stored.part, stored.batches_per_shard)
    root = stored.root
    if any(digest_of(fresh[name]) != root["files"].get(name, {}).get("sha256") for name in fresh):
        # Another version of zarr writes the same content in other bytes, and one of pbdist more columns: then all files
        # are replaced, and the root.
        root = {**root, "files": new_root["files"]}
    for name, data in {**fresh, **root_files(root)}.items():
        if read_or_none(stored.place, name, len(data)) != data:
            stored.place.write(name, data)
    return replace(stored, root=root)


def _drop(place: Place, part: str) -> None:
    """Remove a part that cannot be read any more, with a warning: first from the list, so that no remainder is read."""
    warn_of_gone(place)
    content: Mapping[str, object] = read_parts(place) or {}
    listed = {name: digest for name, digest in (listed_parts(place) or {}).items() if name != part}
    write_parts(place, listed, max(1, int(str(content.get("left", 0)))))
    clear(place.inner(part))
    text = f"{place.url}/{part}: which cells its results are of cannot be read any more: they are computed anew"
    warnings.warn(printable(text), LostResultsWarning, stacklevel=2)


def _write_heads(place: Place, part: str, study: StudySpec, plan: Callable[[StudySpec], Plan]) -> None:
    length, per_shard = _lengths(place, study) or (plan(study).cells_per_batch, None)
    root, _ = new_skeleton(study, length, part, per_shard)
    for name, data in root_files(root).items():
        place.write(name, data)


def _lengths(place: Place, study: StudySpec) -> tuple[int, int] | None:
    """Return the lengths of batches and shards that the commit records of a part name; None without a record.

    Then nothing is known to be computed, and any lengths will do.
    """
    for record in sealed_records(place):
        lengths = record.get("lengths")
        if record.get("study_digest") == study.digest and isinstance(lengths, list) and len(lengths) == 3:
            return int(lengths[0]), int(lengths[1])
    return None


def _cells_of_parts(parts: Sequence[StoredStudy], wanted: StudySpec) -> dict[str, tuple[Cell, ...]]:
    """Return the cells of each part by its path, without the parts whose cells are not found.

    A part was made of those cells of a study file that stood in certain other parts, or in none. So `wanted` and the
    other parts are split into groups by the parts that their cells stand in, and selections of groups are compared with
    the SHA-256 of the part's cells.
    """
    found: dict[str, tuple[Cell, ...]] = {}
    left = []
    for stored in parts:
        cells = _readable(stored, wanted)
        if cells is None:
            left.append(stored)
        else:
            found[stored.part] = cells
    while left:
        before = len(left)
        for stored in list(left):
            cells = _searched(stored.study, wanted.cells, found)
            if cells is not None:
                # They may help to find the others.
                found[stored.part] = cells
                left.remove(stored)
        if len(left) == before:
            break
    return found


def _points_missing(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """As `missing_parts`, but none where `wanted` lacks points that are stored."""
    try:
        return missing_parts(studies, wanted)
    except StoreMismatchError:
        return ()


def _computed_again(stored: StoredStudy, others: Sequence[StudySpec], wanted: StudySpec) -> bool:
    """Whether a part with unknown cells may be dropped, because a run of `wanted` computes it again.

    As far as the remains show: `wanted` has points that no other part has, all compositions and ε of the part, and
    every value in those of its columns that can be read.
    """
    part = stored.study
    grids = set(part.compositions) <= set(wanted.compositions) and set(part.epsilon) <= set(wanted.epsilon)
    if not grids or len(part.cells) > len(wanted.cells) or not _points_missing(others, wanted):
        return False
    for name in column_names(part.cells):
        try:
            values = set(map(repr, column_of(part.cells, name)))
        except StoreDamagedError:
            continue
        if not values <= set(map(repr, column_of(wanted.cells, name))):
            return False
    return True


def _readable(stored: StoredStudy, wanted: StudySpec) -> tuple[Cell, ...] | None:
    if stored.study.cells_sha256 == wanted.cells_sha256:
        return tuple(wanted.cells)
    try:
        return tuple(stored.study.cells)
    except StoreDamagedError:
        return None


def _searched(
    part: StudySpec, wanted: Sequence[Cell], found: Mapping[str, tuple[Cell, ...]]
) -> tuple[Cell, ...] | None:
    count = len(part.cells)
    everything = dict.fromkeys(wanted)
    for cells in found.values():
        everything.update(dict.fromkeys(cells))
    having = [set(wanted), *map(set, found.values())]
    for source in (wanted, *found.values(), tuple(everything)):
        groups: dict[tuple[bool, ...], list[int]] = {}
        for index, cell in enumerate(source):
            groups.setdefault(tuple(cell in cells for cells in having), []).append(index)
        selections = _selections(list(groups.values()), count)
        for selected in islice(selections, max(20, _MOST_HASHED // count)):
            cells = tuple(source[index] for index in selected)
            if replace(part, cells=cells).cells_sha256 == part.cells_sha256:
                return cells
    return None


def _selections(groups: Sequence[Sequence[int]], count: int) -> Iterator[Sequence[int]]:
    """Yield the indices in selections of groups with `count` cells together; last, the first `count` of all."""
    taken = (chosen for number in range(len(groups)) for chosen in combinations(groups, number + 1))
    for chosen in islice(taken, _MOST_SELECTIONS):
        if sum(map(len, chosen)) == count:
            yield sorted(index for group in chosen for index in group)
    if sum(map(len, groups)) > count:
        yield range(count)
