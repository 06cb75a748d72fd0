"""For which neighbours the mechanisms of a study are: what their pairs say, and what its file states of the others."""

from collections.abc import Mapping, Sequence

from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.mechanisms import Adjacency, checked_adjacency, stated
from pbdist.study.cells import Cell, CellTable, PairTable
from pbdist.study.document import Document, Keys, Problems
from pbdist.study.models import refuse
from pbdist.study.release import RELEASE_PLAN
from pbdist.study.spec import Stated

#: What release plans of a granularity are for; of the others nothing is known.
_OF_GRANULARITY: Mapping[str, Adjacency] = {
    "unbounded": Adjacency.ADD_OR_REMOVE,
    "bounded": Adjacency.REPLACE_ONE,
    "edge-level": Adjacency.ADD_OR_REMOVE,
    "user-level": Adjacency.ADD_OR_REMOVE,
    "node-level": Adjacency.ADD_OR_REMOVE,
}


def stated_by_label(
    document: Document, given: str | None, entries: Sequence[Sequence[PairTable]], labels: Sequence[str]
) -> Stated:
    """Return what a study file states of the mechanisms that do not say it themselves, by their labels, sorted.

    Parameters
    ----------
    document
        The file.
    given
        What it states of all mechanisms; None where it does not.
    entries, labels
        The pairs and the label of each entry of its mechanisms.

    Raises
    ------
    StudyFileError
        A statement is none, or other than what a pair or a plan says; or one label has different neighbours.
    """
    problems = Problems()
    told_of: dict[str, Adjacency] = {}
    said_of: dict[str, set[Adjacency]] = {}
    for index, (tables, label) in enumerate(zip(entries, labels, strict=True)):
        at = ("mechanisms", index)
        entry = document.data["mechanisms"][index]
        own = "adjacency" in entry
        place: Keys = (*at, "adjacency") if own else ("adjacency",) if given is not None else at
        with problems.collected():
            try:
                told = checked_adjacency(entry["adjacency"] if own else given, "")
                said = set().union(*(table.adjacencies for table in tables))
                results = {stated(one, told, "", label) for one in said}
                if entry["kind"] == RELEASE_PLAN:
                    _check_plan(entry, told, label)
                _check_label(label, told_of.get(label), told, said_of.get(label, set()) | results)
            except InvalidInputError as error:
                advice = "" if own or given is None else f" (mechanisms[{index}] may have an adjacency of its own)"
                refuse(document, place, str(error).removeprefix(": ") + advice)
            said_of.setdefault(label, set()).update(said)
            if told.definite or label not in told_of:
                told_of[label] = told
    problems.refuse()
    # What pairs say themselves is no part of the study.
    return tuple(sorted((label, told) for label, told in told_of.items() if told.definite and said_of[label] != {told}))


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
