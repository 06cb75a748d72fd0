"""List the files of a store, and refuse links in a store; what does not belong to a store does no harm there."""

import os
from collections.abc import Iterator

from pbdist.mechanisms.columns import known_columns
from pbdist.store.files import Entry, refusal
from pbdist.store.layout import (
    BOUNDS,
    COMMITS,
    COMPUTED,
    EXTENSIONS,
    GRIDS,
    REFINEMENTS,
    ROOT_FILE,
    STATES,
    WITHIN,
)
from pbdist.store.lock import check_lock
from pbdist.store.place import LocalPlace, Place

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
