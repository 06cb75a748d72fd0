"""For which neighbours the mechanisms of a study are: what their pairs say, and what its file states of the others."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.mechanisms import Adjacency, checked_adjacency, stated
from pbdist.study.cells import Cell, CellTable
from pbdist.study.document import Document, Problems
from pbdist.study.release import RELEASE_PLAN, MechanismEntry
from pbdist.study.spec import Stated

#: What release plans of a granularity are for; of the others nothing is known.
_OF_GRANULARITY: Mapping[str, Adjacency] = {
    "unbounded": Adjacency.ADD_OR_REMOVE,
    "bounded": Adjacency.REPLACE_ONE,
    "edge-level": Adjacency.ADD_OR_REMOVE,
    "user-level": Adjacency.ADD_OR_REMOVE,
    "node-level": Adjacency.ADD_OR_REMOVE,
}


def stated_by_label(document: Document, given: str | None, entries: Sequence[MechanismEntry]) -> Stated:
    """Return what a study file states of the mechanisms that do not say it themselves, by their labels, sorted.

    `given` is what it states of all mechanisms; None where it does not.

    Raises
    ------
    StudyFileError
        A statement is none, or other than what a pair or a plan says; or one label has different neighbours.
    """
    problems = Problems()
    found: dict[str, _Neighbours] = {}
    for index, entry in enumerate(entries):
        values = entry.document
        own = "adjacency" in values.data
        with problems.collected():
            try:
                mine = checked_adjacency(values.data["adjacency"] if own else given, "")
                said = frozenset(entry.pairs.adjacencies)
                for one in said:
                    stated(one, mine, "", entry.label)
                if values.data["kind"] == RELEASE_PLAN:
                    _check_plan(values.data, mine, entry.label)
                found[entry.label] = _together(entry.label, found.get(entry.label), _Neighbours(mine, said))
            except InvalidInputError as error:
                place = values.at("adjacency") if own else values if given is None else document.at("adjacency")
                advice = "" if own or given is None else f" (mechanisms[{index}] may have an adjacency of its own)"
                place.refuse(str(error).removeprefix(": ") + advice)
    problems.refuse()
    # What pairs say themselves is no part of the study.
    definite = ((label, one) for label, one in found.items() if one.stated.definite and one.said != {one.stated})
    return tuple(sorted((label, one.stated) for label, one in definite))


class _Neighbours(NamedTuple):
    """What is stated of the mechanisms of a label, and what their pairs say."""

    stated: Adjacency
    said: frozenset[Adjacency]


def _together(label: str, earlier: _Neighbours | None, new: _Neighbours) -> _Neighbours:
    """Return what is known of a label, by which answers are known; its mechanisms have the same neighbours."""
    if earlier is None:
        return new
    definite = {one for one in (earlier.stated, new.stated, *earlier.said, *new.said) if one.definite}
    # Half of them would be counted as stated by mistake.
    half = bool({earlier.stated, new.stated} & definite) and any(
        not one.stated.definite and Adjacency.AS_STATED in one.said for one in (earlier, new)
    )
    if half or len(definite) > 1:
        names = " and ".join(sorted(definite | ({Adjacency.AS_STATED} if half else set())))
        raise InvalidInputError(
            f"expected the same neighbours of all mechanisms with the label {label!r}, got {names}: give one another"
            " label"
        )
    return _Neighbours(new.stated if new.stated.definite else earlier.stated, earlier.said | new.said)


def _check_plan(entry: Mapping[str, object], given: Adjacency, label: str) -> None:
    """Refuse other neighbours than those of a plan's granularity."""
    settings = entry.get("settings")
    for one in (entry, *(settings if isinstance(settings, list) else ())):
        granularity = one.get("granularity")
        name = next(iter(granularity), None) if isinstance(granularity, dict) else granularity
        if isinstance(name, str) and name in _OF_GRANULARITY:
            stated(_OF_GRANULARITY[name], given, "", f"{label} of granularity {name}")


def check_stated(cells: Sequence[Cell], stated_of: Mapping[str, Adjacency]) -> None:
    """Refuse cells that say other neighbours than a store states of their label.

    Raises
    ------
    StoreMismatchError
        There are some.
    """
    blocks = CellTable.of(cells).blocks
    found = {(label, own) for each in blocks for label in each.label.values for own in each.pairs.adjacencies}
    for label, own in sorted(found):
        try:
            stated(own, stated_of.get(label, Adjacency.AS_STATED), "adjacency", label)
        except InvalidInputError as error:
            raise StoreMismatchError(f"{error} (the store states it of this label)") from error
