"""Create a store or extend one: everything but the results, all at once or not at all."""

import os
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.store.documents import read_attributes
from pbdist.store.heads import part_folder, read_extensions, read_or_none
from pbdist.store.layout import EXTENSIONS, part_name
from pbdist.store.lock import Held
from pbdist.store.objects import SCHEME
from pbdist.store.open import StoredStudy, is_there, open_parts, open_store
from pbdist.store.place import PARTIAL, LocalPlace, ObjectPlace, Place, place_at
from pbdist.store.recover import clear
from pbdist.store.skeleton import ROOT_FILE, new_skeleton, write_extensions, write_skeleton
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
        The store cannot be created there, or that is inside another store.
    """
    place = place_at(where)
    try:
        if not is_there(place):
            _check_outside(place)
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

    Guaranteed: no file of the parts that were there is touched. An interrupted call has added some of the new parts
    as a whole, or none. What an interrupted one has left besides is removed, also where there are no plans.

    Parameters
    ----------
    parts
        All parts of the store.
    plans
        The studies that the store lacks.
    held
        What shows that this process holds the store; looked at before anything is changed.

    Raises
    ------
    InvalidInputError
        Another process has taken over meanwhile.
    OSError
        The new parts cannot be written.
    """
    first, place = parts[0], parts[0].place
    listed = {stored.part: stored.study.digest for stored in parts[1:]}
    for added, plan in enumerate(plans):
        # The number of a part that was removed may be taken again.
        part = next(name for name in map(part_name, count(1)) if name not in listed)
        _still(held, place)
        write_extensions(place, listed, len(plans) - added)
        clear(place.inner(part))
        # All parts of a store are of one format.
        root, files = new_skeleton(plan.study, plan.cells_per_batch, part, first.format)
        write_skeleton(place.inner(part), root, files)
        listed[part] = plan.study.digest
    unlisted = {part_folder(name) for name, _ in place.names(EXTENSIONS)} - {None, *listed}
    if unlisted:
        _still(held, place)
    for remainder in unlisted:
        clear(place.inner(str(remainder)))
    if plans or (read_extensions(place) or {}).get("left"):
        _still(held, place)
        write_extensions(place, listed)
    return open_parts(place) if plans else tuple(parts)


def _still(held: Held | None, place: Place) -> None:
    """Refuse to go on where another driver has taken over meanwhile."""
    if held is not None and not held.confirmed():
        raise InvalidInputError(f"{place.url}: expected to be the one driver of the store, got another one at work")


def _check_outside(place: Place) -> None:
    """Refuse to create a store inside another one, to which its files would be strays, or part of an extension."""
    if not isinstance(place, LocalPlace | ObjectPlace):
        return
    url = os.path.realpath(place.url) if isinstance(place, LocalPlace) else place.url
    outer = url.rpartition("/")[0]
    # Up to the root, or to the bucket.
    while outer.removeprefix(SCHEME).strip("/") and (url[0] == "/" or outer.count("/") > 2):
        around = type(place)(outer)
        found = None
        # Who may not read there has no store there.
        with suppress(OSError):
            found = read_attributes(read_or_none(around, ROOT_FILE), exact=False)
        if found is not None and "pbdist_format" in found:
            raise InvalidInputError(f"store: expected a path outside of other stores, got {url} inside {outer}")
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
        except OSError:
            # Somebody else was faster: their store is opened, and refused if it is another study's.
            if not is_there(place):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
