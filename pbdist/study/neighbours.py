"""For which neighbours the mechanisms of a study are: what their pairs say, and what its file states of the others."""

from collections.abc import Mapping, Sequence, Set

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
    known: dict[str, set[tuple[Adjacency, Adjacency]]] = {}
    for index, entry in enumerate(entries):
        values = entry.document
        own = "adjacency" in values.data
        with problems.collected():
            try:
                mine = checked_adjacency(values.data["adjacency"] if own else given, "")
                for one in entry.pairs.adjacencies:
                    stated(one, mine, "", entry.label)
                if values.data["kind"] == RELEASE_PLAN:
                    _check_plan(values.data, mine, entry.label)
                together = known.get(entry.label, set()) | {(mine, one) for one in entry.pairs.adjacencies}
                _check_same(entry.label, together)
                known[entry.label] = together
            except InvalidInputError as error:
                place = values.at("adjacency") if own else values if given is None else document.at("adjacency")
                hint = "" if own or given is None else f" (mechanisms[{index}] may have an adjacency of its own)"
                place.refuse(str(error).removeprefix(": ") + hint)
    problems.refuse()
    # What pairs say themselves is no part of the study.
    every = ((label, mine, said) for label, together in known.items() for mine, said in together)
    return tuple(sorted({label: mine for label, mine, said in every if mine.definite and mine is not said}.items()))


def _check_same(label: str, together: Set[tuple[Adjacency, Adjacency]]) -> None:
    """Refuse different neighbours of the mechanisms of a label: what is stated of each, and what its pair says."""
    different = {one for both in together for one in both if one.definite}
    # A statement of some mechanisms would seem to be one of the others too.
    if any(mine.definite for mine, _ in together) and (Adjacency.AS_STATED, Adjacency.AS_STATED) in together:
        different.add(Adjacency.AS_STATED)
    if len(different) > 1:
        raise InvalidInputError(
            f"expected the same neighbours of all mechanisms with the label {label!r},"
            f" got {' and '.join(sorted(different))}: give one another label"
        )


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
