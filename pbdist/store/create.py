"""Create a store or extend one: everything but the results, all at once or not at all."""

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.store.layout import part_name
from pbdist.store.open import StoredStudy, is_there, open_parts, open_store
from pbdist.store.place import PARTIAL, LocalPlace, Place, place_at
from pbdist.store.skeleton import COPY_FILE, ROOT_FILE, new_skeleton, write_extensions, write_skeleton
from pbdist.study import Plan

__all__ = ["create_or_open", "extend"]


def create_or_open(where: str | Path | Place, plan: Plan) -> StoredStudy:
    """Open the store at `where` if it holds the study of `plan`, or create it if there is nothing yet.

    Guaranteed: a new store in a folder appears as a whole, by one rename; in an object store its root is written last,
    and what an interruption leaves is completed by `restore_skeleton`. Whatever is refused stays as it was. An
    existing store keeps its `cells_per_batch`.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_store`, if something exists at `where`.
    StoreMismatchError
        The store holds another study.
    InvalidInputError
        The store cannot be created there.
    """
    place = place_at(where)
    try:
        if not is_there(place):
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


def extend(parts: Sequence[StoredStudy], plans: Sequence[Plan]) -> tuple[StoredStudy, ...]:
    """Add a part for each plan to a store, and return all its parts; for the one driver of the store.

    Guaranteed: no file of the parts that were there is touched. An interrupted call has added some of the new parts
    as a whole, or none.

    Raises
    ------
    StoreMismatchError
        The store is of format 1 or 2, which has no parts.
    OSError
        The new parts cannot be written.
    """
    first = parts[0]
    if first.format < 3:
        raise StoreMismatchError(
            f"{first.where}: expected a store of format 3 to extend, got one of format {first.format}: run the larger"
            " study into a new store"
        )
    place = first.place
    listed = {stored.part: stored.study.digest for stored in parts[1:]}
    number = max((int(part.rpartition("/")[2]) for part in listed), default=0)
    for added, plan in enumerate(plans):
        write_extensions(place, listed, len(plans) - added)
        number += 1
        part = part_name(number)
        _clear(place.inner(part))
        root, files = new_skeleton(plan.study, plan.cells_per_batch, part)
        write_skeleton(place.inner(part), root, files)
        listed[part] = plan.study.digest
    if plans:
        write_extensions(place, listed)
    return open_parts(place)


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
        except OSError:
            # Somebody else was faster: their store is opened, and refused if it is another study's.
            if not is_there(place):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _clear(place: Place) -> None:
    """Remove what an interrupted extension has left: the root first, so that no remainder passes for a part."""
    names = [name for name, _ in place.names()]
    for name in sorted(names, key=lambda name: (name not in (ROOT_FILE, COPY_FILE), name)):
        place.remove(name)
