"""The parts that the root of a store tells of, held against the list of parts: those that are gone, and the list anew.

The list is written before the root and its copy tell of a part. So a kill never leaves a complete list (one without
parts that are yet to come) that lacks a part of which both tell: then the list was lost, or is an older one.
"""

import warnings

from pbdist.errors import LostResultsWarning
from pbdist.store.create import write_parts
from pbdist.store.documents import (
    extensions_of,
    head_of,
    listed_parts,
    others_told,
    part_folder,
    read_parts,
    sealed_records,
)
from pbdist.store.layout import EXTENSIONS
from pbdist.store.place import Place


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
