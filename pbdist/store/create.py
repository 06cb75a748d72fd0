"""Create a store, extend it, add refined points, and restore what is damaged of what the study alone decides."""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pbdist.errors import InvalidInputError, PbdistError, StoreDamagedError, StoreMismatchError
from pbdist.store.batches import BatchWriter
from pbdist.store.cells import StoredCells, read_array
from pbdist.store.layout import (
    BOUNDS_ARRAY,
    METADATA,
    dimension,
    extension_name,
    is_extension,
    is_refined,
    refined_name,
)
from pbdist.store.open import (
    StoredStudy,
    changed_files,
    check_skeleton,
    extensions_of,
    is_there,
    open_part,
    open_parts,
)
from pbdist.store.place import Place, place_at, read_or_none
from pbdist.store.skeleton import (
    array_files,
    attributes_of,
    digest_of,
    group_document,
    is_sealed,
    nodes_among,
    nodes_of,
    part_attributes,
    part_document,
)
from pbdist.study import Cell, Plan, StudySpec
from pbdist.study.columns import CellTable
from pbdist.study.spec import missing_points
from pbdist.table import BoundsTable
from pbdist.types import COMPOSITIONS, EPSILON, JsonValue

#: Of a part, in the root: readers of zarr need to know that it is there.
_SHOWN = ("title", "study_digest")


def create_or_open(where: str | Path | Place, plan: Plan) -> StoredStudy:
    """Open the store at `where` if it holds the study of `plan`, or create it if there is nothing yet.

    A new store in a folder appears as a whole, by one rename; in an object store its root is written last. An existing
    store keeps its `cells_per_batch`; one of another study is a `StoreMismatchError`.
    """
    place = place_at(where)
    try:
        if not is_there(place):
            files, attributes = _skeleton(plan.study, plan.cells_per_batch)
            place.create("", {**files, METADATA: part_document(attributes, nodes_among(files))})
    except PbdistError:
        raise
    except OSError as error:
        raise InvalidInputError(f"store: expected a path to create a store at, got {place.url}: {error}") from error
    stored = open_part(place, "")
    if stored.study.digest != plan.study.digest:
        raise StoreMismatchError(
            f"{place.url}: the store has study {stored.study.name!r} (digest {stored.study.digest[:12]}), not"
            f" {plan.study.name!r} (digest {plan.study.digest[:12]}): give another store"
        )
    return stored


def extend(parts: Sequence[StoredStudy], plans: Sequence[Plan]) -> tuple[StoredStudy, ...]:
    """Add a part for each plan to a store, and return all its parts.

    No file of the existing parts is changed but the root, which lists the parts for other readers.
    """
    place = parts[0].place
    for plan in plans:
        part = extension_name(place.folders())
        files, attributes = _skeleton(plan.study, plan.cells_per_batch, part)
        if not place.create(part, {**files, METADATA: part_document(attributes, nodes_among(files))}):
            raise InvalidInputError(f"{place.url}: another run extends the store at the same time: run this one again")
    return list_parts(open_parts(place)) if plans else tuple(parts)


def list_parts(parts: Sequence[StoredStudy]) -> tuple[StoredStudy, ...]:
    """Have the root of a store list all other parts, so that every reader of zarr sees them; return the parts."""
    first, *others = parts
    place = first.place
    document = _root_document(place)
    if read_or_none(place, METADATA) != document:
        place.write(METADATA, document)
        first = open_part(place, "")
    return (first, *others)


def add_refinement(stored: StoredStudy, study: StudySpec, cell: Cell, table: BoundsTable) -> None:
    """Add bounds of one setting at some points to a store, as a part of its own, as a whole or not at all.

    `stored` is the first part of the store, and the settings are those of its `study`.
    """
    place = stored.place
    points = replace(
        study,
        cells=(cell,),
        compositions=tuple(table.compositions.tolist()),
        epsilon=tuple(table.epsilon.tolist()),
        keep_states=False,
        # What is stated of other labels has no meaning here.
        adjacency=tuple(one for one in study.adjacency if one[0] == cell.label),
        targets=(),
        target_compositions=(),
        target_epsilon=(),
    )
    part = refined_name(points.digest)
    files, attributes = _skeleton(points, 1, part)
    files[METADATA] = part_document(attributes, nodes_among(files))
    if not place.create(part, files):
        # The same bytes, in place of damaged ones.
        for name, data in files.items():
            place.write(f"{part}/{name}", data)
    writer = BatchWriter(open_part(place.inner(part), part).head, 0, points.cells)
    writer.add(table)
    writer.commit()
    list_parts([open_part(place, "")])


def restore(place: Place, wanted: StudySpec, plan: Callable[[StudySpec], Plan]) -> tuple[StoredStudy, ...]:
    """Put back every file of a store that is missing or changed and that its studies decide, and return its parts.

    Nothing is written where nothing is damaged. `wanted` is the study that will be run: where the cells of a part
    cannot be read, it and its points that the other parts do not have are compared with the rest of the part. A part
    that cannot be restored by that study is a `StoreDamagedError`.
    """
    parts: list[StoredStudy] = []
    for name in ("", *(each for each in place.folders() if is_extension(each))):
        inner = place.inner(name) if name else place
        candidates = _candidates(parts, wanted)
        try:
            parts.append(_restored(open_part(inner, name), candidates, wanted))
        except StoreDamagedError as error:
            found = _recognised(inner, name, [*candidates, *_as_stored(inner, name, wanted)], plan)
            if found is not None:
                parts.append(found)
            elif not name or name in extensions_of(place):
                raise error
            # Else a part whose creation was interrupted, of which nothing is known any more, or a group of others.
    return list_parts([replace(one, study=wanted) if one.study.digest == wanted.digest else one for one in parts])


def _candidates(parts: Sequence[StoredStudy], wanted: StudySpec) -> list[StudySpec]:
    """Return the studies that a damaged part may be of: the one that is run, and what it adds to earlier parts."""
    try:
        return [wanted, *(missing_points([one.study for one in parts], wanted) if parts else ())]
    except (StoreMismatchError, StoreDamagedError):
        return [wanted]


def _restored(stored: StoredStudy, candidates: Iterable[StudySpec], wanted: StudySpec) -> StoredStudy:
    """Write what is missing or changed of a part whose attributes are sound."""
    changed = changed_files(stored)
    if not changed:
        return stored
    study = next((one for one in candidates if one.digest == stored.study.digest), None)
    study = study or replace(stored.study, cells=_cells_of(stored, wanted))
    files = array_files(study, stored.cells_per_batch, stored.part)
    for name in changed:
        if name in files:
            stored.place.write(name, files[name])
    # Another version of zarr may write the same content in other bytes.
    check_skeleton(stored)
    return replace(stored, study=study)


def _cells_of(stored: StoredStudy, wanted: StudySpec) -> tuple[Cell, ...]:
    """Return the cells of a part: as it has them, or those of `wanted` with the same values in all sound columns."""
    try:
        return tuple(stored.study.cells)
    except StoreDamagedError:
        sound: dict[str, list[Any]] = {}
        its, mine = (CellTable.of(study.cells) for study in (stored.study, wanted))
        for name in (*mine.names, "pair"):
            with suppress(StoreDamagedError):
                sound[name] = its.column(name)
        rows = zip(*(map(repr, mine.column(name)) for name in sound), strict=True)
        known = dict(zip(rows, wanted.cells, strict=True)) if sound else {}
        found = [known.get(row) for row in zip(*(map(repr, values) for values in sound.values()), strict=True)]
        cells = tuple(cell for cell in found if cell is not None)
        if replace(stored.study, cells=cells).cells_sha256 != stored.study.cells_sha256:
            raise
        return cells


def _recognised(
    place: Place,
    name: str,
    candidates: Iterable[StudySpec],
    plan: Callable[[StudySpec], Plan],
) -> StoredStudy | None:
    """Write the attributes of a part that lost them, if the results in it are those of a study."""
    for study in candidates:
        length = _batch_length(place) or plan(study).cells_per_batch
        files, attributes = _skeleton(study, length, name)
        found = {file: read_or_none(place, file) for file in files}
        same = {file for file, data in found.items() if data == files[file]}
        known = StoredStudy(place, study, length, name).is_of(study)
        if known is None:
            # Nothing is computed yet: then what is there decides.
            known = bool(same) and all(data is None for file, data in found.items() if file not in same)
        if known:
            for file in set(files) - same:
                place.write(file, files[file])
            place.write(METADATA, part_document(attributes, nodes_among(files)))
            return replace(open_part(place, name), study=study)
    return None


def _as_stored(place: Place, name: str, wanted: StudySpec) -> list[StudySpec]:
    """Return the study that a part with lost attributes seems to hold, by its columns and grids; none if unreadable."""
    try:
        files = {file: place.read(file) for file, _ in place.names() if file.count("/") == 1}
        rounds, losses = (read_array(files, dimension(each, name)).tolist() for each in (COMPOSITIONS, EPSILON))
        count = len(read_array(files, "kind"))
        stored = StoredCells(place, {file: digest_of(data) for file, data in files.items()}, count, "")
        cells = tuple(stored)
        labels = {cell.label for cell in cells}
        stated = tuple(one for one in wanted.adjacency if one[0] in labels)
        return [replace(wanted, cells=cells, compositions=tuple(rounds), epsilon=tuple(losses), adjacency=stated)]
    except (OSError, PbdistError, ValueError, RuntimeError, KeyError):
        return []


def _batch_length(place: Place) -> int | None:
    """Return the length of the batches of a part by the metadata of its bounds, None where that cannot be read."""
    try:
        document = json.loads(read_or_none(place, f"{BOUNDS_ARRAY}/{METADATA}") or b"")
        return int(document["chunk_grid"]["configuration"]["chunk_shape"][0])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _skeleton(study: StudySpec, cells_per_batch: int, part: str = "") -> tuple[dict[str, bytes], dict[str, JsonValue]]:
    files = array_files(study, cells_per_batch, part)
    return files, part_attributes(study, cells_per_batch, files)


def _root_document(place: Place) -> bytes:
    """Return the ``zarr.json`` of a store with the metadata of all its parts."""
    data = place.read(METADATA)
    nodes = {name: node for name, node in nodes_of(data).items() if not (is_extension(name) or is_refined(name))}
    # One that was lost is still listed, so that a check goes on to say so.
    extensions = {*(attributes_of(data) or {}).get("extensions", ())}
    for part in place.folders():
        inner = read_or_none(place, f"{part}/{METADATA}") if is_extension(part) or is_refined(part) else None
        attributes = attributes_of(inner)
        if inner is None or attributes is None or not is_sealed(inner):
            continue
        extensions |= {part} if is_extension(part) else set()
        nodes[part] = json.loads(group_document({name: attributes[name] for name in _SHOWN}))
        nodes |= {f"{part}/{name}": node for name, node in nodes_of(inner).items()}
    return part_document(attributes_of(data) or {}, nodes, extensions)
