"""Create a store, extend it, and compare its skeleton: every file without results, which the study alone decides."""

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

from pbdist.errors import InvalidInputError, StoreDamagedError, StoreMismatchError
from pbdist.store.columns import array_files
from pbdist.store.documents import (
    ATTRIBUTES_SEAL,
    COPY,
    digest_of,
    group_document,
    number_of,
    part_folder,
    parts_told_of,
    points_of,
    provenance,
    read_attributes,
    read_or_none,
    read_parts,
    repaired_by,
    seal,
)
from pbdist.store.files import MOST_AT_ONCE, PARTIAL, at_once, settle
from pbdist.store.layout import (
    COPY_FILE,
    EXTENSIONS,
    OTHER_PARTS,
    PART_OF,
    PARTS_FILE,
    ROOT_FILE,
    STATES,
    STORE_FORMAT,
    part_name,
    shard_length,
)
from pbdist.store.lock import Held
from pbdist.store.objects import SCHEME, ObjectPlace
from pbdist.store.open import StoredStudy, is_there, open_parts, open_store
from pbdist.store.place import LocalPlace, Place, place_at
from pbdist.store.results import changed_file
from pbdist.study import Plan, StudySpec
from pbdist.types import JsonValue


def create_or_open(where: str | Path | Place, plan: Plan) -> StoredStudy:
    """Open the store at `where` if it holds the study of `plan`, or create it if there is nothing yet.

    A new store in a folder appears as a whole, by one rename; in an object store its root is written last, and
    `restore_skeleton` completes it after an interruption. Nothing is changed where an error is raised. An existing
    store keeps its `cells_per_batch`.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_store`, if something exists at `where`.
    StoreMismatchError
        The store holds another study.
    InvalidInputError
        The store cannot be created there, or that is inside another store.
    """
    place = place_at(where)
    try:
        if not is_there(place):
            check_outside(place)
            _create(place, plan)
    except OSError as error:
        raise InvalidInputError(f"store: expected a path to create a store at, got: {error}") from error
    stored = open_store(place)
    if stored.study.digest != plan.study.digest:
        raise StoreMismatchError(
            f"{place.url}: expected a store of study {plan.study.name!r} with digest {plan.study.digest[:12]}, "
            f"got one of study {stored.study.name!r} with digest {stored.study.digest[:12]}"
        )
    return stored


def extend(parts: Sequence[StoredStudy], plans: Sequence[Plan], held: Held | None = None) -> tuple[StoredStudy, ...]:
    """Add a part for each plan to a store, and return all its parts; for the one driver of the store.

    No file of the existing parts is changed, but for what the root of the first one and its copy tell of other parts:
    never fewer than there are. An interrupted call has added some of the new parts, each complete. Other remains of an
    interrupted call are removed, also where there are no plans.

    Parameters
    ----------
    parts
        All parts of the store.
    plans
        The studies that the store lacks.
    held
        Shows that this process holds the store; asked before anything is changed.

    Raises
    ------
    InvalidInputError
        Another process has taken over meanwhile.
    """
    first, place = parts[0], parts[0].place
    listed = {stored.part: stored.study.digest for stored in parts[1:]}
    for added, plan in enumerate(plans):
        # The number of a part that was removed may be taken again.
        free = (name for name in map(part_name, count(1)) if name not in listed)
        coming = list(islice(free, len(plans) - added))
        part = coming[0]
        _check_held(held, place)
        write_parts(place, listed, len(coming))
        tell_of_parts(first, [*listed, *coming])
        clear(place.inner(part))
        root, files = new_skeleton(plan.study, plan.cells_per_batch, part)
        write_skeleton(place.inner(part), root, files)
        listed[part] = plan.study.digest
    unlisted = {part_folder(name) for name, _ in place.names(EXTENSIONS)} - {None, *listed}
    if unlisted:
        _check_held(held, place)
    for remainder in unlisted:
        clear(place.inner(str(remainder)))
    if plans or (read_parts(place) or {}).get("left"):
        _check_held(held, place)
        tell_of_parts(first, listed)
        write_parts(place, listed)
    return open_parts(place) if plans else tuple(parts)


def new_skeleton(
    study: StudySpec, cells_per_batch: int, part: str = "", batches_per_shard: int | None = None
) -> tuple[dict[str, JsonValue], dict[str, bytes]]:
    """Return the root attributes of a part, without their SHA-256, and all its other files without results."""
    batches_per_shard = batches_per_shard or shard_length(study, cells_per_batch)
    files = array_files(study, cells_per_batch, batches_per_shard)
    if study.keep_states:
        files[f"{STATES}/zarr.json"] = group_document({})
    root = {
        "Conventions": "CF-1.11",
        "title": study.name,
        "pbdist_format": STORE_FORMAT,
        "part": part,
        "study_digest": study.digest,
        "study": study.head(),
        "cells_per_batch": cells_per_batch,
        "batches_per_shard": batches_per_shard,
        "provenance": provenance(),
        "files": {name: {"bytes": len(data), "sha256": digest_of(data)} for name, data in files.items()},
    }
    return root, files


def root_files(root: Mapping[str, JsonValue]) -> dict[str, bytes]:
    """Return the copy of the root attributes, and the root itself, in the order in which they are written."""
    sealed = seal(root, ATTRIBUTES_SEAL)
    return {COPY_FILE: group_document({COPY: sealed}), ROOT_FILE: group_document(sealed)}


def told_root(root: Mapping[str, JsonValue], others: Iterable[str]) -> dict[str, JsonValue]:
    """Return root attributes that tell of other parts, by their paths; of none they tell nothing."""
    plain = {name: value for name, value in root.items() if name not in (PART_OF, OTHER_PARTS)}
    paths = sorted(others, key=number_of)
    if not paths:
        return plain
    sentence = (
        f"part 1 of {len(paths) + 1}: a zarr reader that opens this path sees this part alone,"
        " pbdist.open_study(path) sees all, and `pbdist export` writes them as one"
    )
    return {**plain, PART_OF: sentence, OTHER_PARTS: paths}


def tell_of_parts(first: StoredStudy, others: Iterable[str]) -> None:
    """Write into the root of a store, and before that into its copy, which parts extend it, where they tell otherwise.

    Between the two writes both are whole, and either opens the store.
    """
    for name, data in root_files(told_root(first.root, others)).items():
        if read_or_none(first.place, name) != data:
            first.place.write(name, data)


def write_skeleton(place: Place, root: Mapping[str, JsonValue], files: Mapping[str, bytes]) -> None:
    """Write a part that is not there yet.

    The copy of the root attributes comes first, so that an incomplete part is recognised; the root comes last, so that
    a part with a root is complete.
    """
    head = root_files(root)
    place.write(COPY_FILE, head[COPY_FILE])
    list(at_once(lambda name: place.write(name, files[name]), [*files], _requests(place)))
    place.write(ROOT_FILE, head[ROOT_FILE])


def write_parts(place: Place, parts: Mapping[str, str], left: int = 0) -> None:
    """Write the list of the parts that extend a store: the digest by the path of each, and how many are yet to come."""
    content = {"parts": dict(parts), "left": left}
    place.write(PARTS_FILE, group_document(seal(content, ATTRIBUTES_SEAL)))


def clear(place: Place) -> None:
    """Remove all files of a part: the heads first, so that no remainder is taken for a part."""
    names = [name for name, _ in place.names()]
    for name in (ROOT_FILE, COPY_FILE):
        if name in names:
            place.remove(name)
    place.remove_all([name for name in names if name not in (ROOT_FILE, COPY_FILE)])


def check_skeleton(stored: StoredStudy) -> None:
    """Refuse a part whose root, metadata or coordinates are missing or changed since it was created.

    Sound results would be read as other numbers, or as those of another point. Raises `StoreDamagedError`.
    """
    changed = changed_skeleton(stored)
    if changed:
        more = ", .." if len(changed) > 5 else ""
        advice = repaired_by(stored.part, points_of(stored.root["study"]))
        raise StoreDamagedError(
            f"{stored.place.url}: expected the metadata and coordinates of the study, got others in"
            f" {', '.join(list(changed)[:5])}{more}: {advice}"
        )


def changed_skeleton(stored: StoredStudy) -> dict[str, str]:
    """Return the files without results that are missing or changed, by their checksums, and what is wrong with each.

    What the root and its copy tell of other parts is not compared.
    """
    changed = {}
    for name in (COPY_FILE, ROOT_FILE):
        found = read_or_none(stored.place, name)
        # Another process may be telling of new parts: that changes no result.
        others = parts_told_of(name, found) if not stored.part else ()
        if found != root_files(told_root(stored.root, others))[name]:
            changed[name] = "missing" if found is None else "other content"
    place, files = stored.place, stored.files
    problems = at_once(lambda name: changed_file(place, name, files[name]), [*files], _requests(place))
    return changed | {name: what for name, what in zip(files, problems, strict=True) if what is not None}


def _requests(place: Place) -> int:
    """Return how many small files of a place are read or written at the same time."""
    return MOST_AT_ONCE if isinstance(place, ObjectPlace) else 1


def _check_held(held: Held | None, place: Place) -> None:
    """Refuse to go on where another driver has taken over meanwhile."""
    if held is not None and not held.confirmed():
        raise InvalidInputError(f"{place.url}: expected to be the one driver of the store, got another one at work")


def check_outside(place: Place, field: str = "store") -> None:
    """Refuse to create anything inside a store, where its files would be strays or belong to a part."""
    if not isinstance(place, LocalPlace | ObjectPlace):
        return
    url = os.path.realpath(place.url) if isinstance(place, LocalPlace) else place.url
    outer = url.rpartition("/")[0]
    # Up to the root of the file system, or to the bucket.
    while outer.removeprefix(SCHEME).strip("/") and (url[0] == "/" or outer.count("/") > 2):
        around = type(place)(outer)
        found = None
        # A folder that this user may not read holds no store of theirs.
        with suppress(OSError):
            found = read_attributes(read_or_none(around, ROOT_FILE), exact=False)
        if found is not None and "pbdist_format" in found:
            raise InvalidInputError(f"{field}: expected a path outside of other stores, got {url} inside {outer}")
        outer = outer.rpartition("/")[0]


def _create(place: Place, plan: Plan) -> None:
    root, files = new_skeleton(plan.study, plan.cells_per_batch)
    if not isinstance(place, LocalPlace):
        write_skeleton(place, root, files)
        return
    path = Path(place.url)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{PARTIAL}")
    try:
        write_skeleton(LocalPlace(str(temporary)), root, files)
        try:
            temporary.rename(path)
            settle(str(path.parent))
        except OSError:
            # Another process was faster: its store is opened, and refused if it holds another study.
            if not is_there(place):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
