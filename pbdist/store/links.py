"""Refuse, before any work, a store that somebody has put links into, or whatever else is no regular file."""

import os

from pbdist.store.irregular import refusal
from pbdist.store.layout import BOUNDS, COLUMNS, COMMITS, COMPUTED, EXTENSIONS, GRIDS, REFINEMENTS, STATES
from pbdist.store.lock import check_lock
from pbdist.store.place import LocalPlace, Place

__all__ = ["is_of_store", "refuse_links"]

#: All names that a store has at its top.
_OWN = frozenset({*BOUNDS, *COMPUTED, *COLUMNS, "pair", *GRIDS, COMMITS, EXTENSIONS, REFINEMENTS, STATES, "zarr.json"})


def is_of_store(name: str) -> bool:
    """Whether a name in a store's folder is one of its own, or lies in one of its own folders."""
    return name.split("/", maxsplit=1)[0] in _OWN


def refuse_links(place: Place, under: str = "") -> None:
    """Refuse a store that has links, or what else is no regular file, among its own files, or instead of its lock.

    Whatever reads or writes looks too; this is before any work is done. A link at the top that has no name of the
    store's is in nobody's way.

    Parameters
    ----------
    place
        The store.
    under
        The only folder of it to look through, if given.

    Raises
    ------
    IrregularError
        It has.
    """
    if not isinstance(place, LocalPlace):
        return
    check_lock(place)
    # What this user may not list, nothing is reached by way of.
    for name, kind, _ in place.walk(under, open_only=True):
        if kind not in {"file", "folder"} and is_of_store(name):
            path = f"{place.url}/{name}"
            raise refusal(path, "file or folder", kind, os.readlink(path) if kind == "link" else None)
