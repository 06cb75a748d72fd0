"""For which neighbours the mechanisms of a study are: what their pairs say, and what its file states of the others."""

from collections.abc import Mapping, Sequence

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
    stated_of: dict[str, Adjacency] = {}
    said_of: dict[str, set[Adjacency]] = {}
    for index, (entry, label) in enumerate((one.document, one.label) for one in entries):
        own = "adjacency" in entry.data
        place = entry.at("adjacency") if own else entry if given is None else document.at("adjacency")
        with problems.collected():
            try:
                told = checked_adjacency(entry.data["adjacency"] if own else given, "")
                said = set().union(*(pairs.adjacencies for pairs in entries[index].pairs))
                results = {stated(one, told, "", label) for one in said}
                if entry.data["kind"] == RELEASE_PLAN:
                    _check_plan(entry.data, told, label)
                _check_label(label, stated_of.get(label), told, said_of.get(label, set()) | results)
            except InvalidInputError as error:
                advice = "" if own or given is None else f" (mechanisms[{index}] may have an adjacency of its own)"
                place.refuse(str(error).removeprefix(": ") + advice)
            said_of.setdefault(label, set()).update(said)
            if told.definite or label not in stated_of:
                stated_of[label] = told
    problems.refuse()
    # What pairs say themselves is no part of the study.
    return tuple(sorted((label, one) for label, one in stated_of.items() if one.definite and said_of[label] != {one}))


def _check_plan(entry: Mapping[str, object], told: Adjacency, label: str) -> None:
    """Refuse other neighbours than those of a plan's granularity."""
    settings = entry.get("settings")
    for one in (entry, *(settings if isinstance(settings, list) else ())):
        granularity = one.get("granularity")
        name = next(iter(granularity), None) if isinstance(granularity, dict) else granularity
        if isinstance(name, str) and name in _OF_GRANULARITY:
            stated(_OF_GRANULARITY[name], told, "", f"{label} of granularity {name}")


def _check_label(label: str, earlier: Adjacency | None, told: Adjacency, relations: set[Adjacency]) -> None:
    """Refuse different neighbours under one label, by which answers are known; what nobody has stated goes with any."""
    every = relations | ({told} if told.definite else set()) | ({earlier} if earlier and earlier.definite else set())
    half = Adjacency.AS_STATED in relations and any(one.definite for one in (told, earlier) if one is not None)
    if half or len([one for one in every if one.definite]) > 1:
        names = " and ".join(sorted(every))
        raise InvalidInputError(
            f"expected the same neighbours of all mechanisms with the label {label!r}, got {names}: give one another"
            " label"
        )


def check_stated(cells: Sequence[Cell], told: Mapping[str, Adjacency]) -> None:
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
            stated(own, told.get(label, Adjacency.AS_STATED), "adjacency", label)
        except InvalidInputError as error:
            raise StoreMismatchError(f"{error} (the store states it of this label)") from error
