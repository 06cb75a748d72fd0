"""Check what the files of studies and of their extensions share: name, mechanisms, cells, targets and grids."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from pbdist.arguments import problem_of_either
from pbdist.mechanisms import MECHANISMS, Alternatives
from pbdist.study.document import Document, Keys, Problems, shown
from pbdist.study.entries import MOST_SETTINGS
from pbdist.study.grid_cells import CellGrid, GridCells
from pbdist.study.hints import STUDY, meant_key
from pbdist.study.models import AdditionModel, StudyModel, TargetModel
from pbdist.study.neighbours import stated_by_label
from pbdist.study.pair_grid import PairGrid
from pbdist.study.refusals import refuse, refuse_invalid
from pbdist.study.release_entries import RELEASE_PLAN, grids_of_mechanism
from pbdist.study.repeated import repeated_cells
from pbdist.study.spec import NAME, STUDY_FORMAT, Stated
from pbdist.study.targets import checked_target

#: The pairs of the entries by their index.
Entries: TypeAlias = dict[int, list[PairGrid]]
_Model = TypeVar("_Model", bound=BaseModel)


def check_format(document: Document) -> None:
    """Refuse a file of another version."""
    version = document.data.get("format")
    if type(version) is int and version == STUDY_FORMAT:
        return
    known = tuple(StudyModel.model_fields)
    if "format" not in document.data:
        # The key may be misspelt, which is told where it stands.
        unknown = [key for key in document.data if key not in known]
        if "format" in {meant_key(STUDY, key, known)[0] for key in unknown}:
            return
    refuse(document, ("format",), f"expected {STUDY_FORMAT}, got {shown(version)}")


def check_name(document: Document) -> None:
    """Refuse a name that no store can have."""
    name = document.data.get("name")
    if isinstance(name, str) and not NAME.fullmatch(name):
        refuse(document, ("name",), f"expected letters, digits, '.', '_' and '-', got {shown(name)}")


def checked_model(document: Document, model: type[_Model]) -> _Model:
    """Return the values of the file, and check those that stand alone."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        refuse_invalid(document, error, model, owner=STUDY)


def entries_of(document: Document, problems: Problems) -> Entries:
    """Return the pairs of the entries that are right, and collect what is wrong with the others."""
    entries: Entries = {}
    for index in range(_length(document, "mechanisms")):
        with problems.collected():
            entries[index] = grids_of_mechanism(document, ("mechanisms", index), own=("label", "adjacency"))
            _label(document, index)
    return entries


def stated_of(document: Document, given: str | None, entries: Entries) -> Stated:
    """Return for which neighbours the file states that mechanisms are, where they do not say it themselves."""
    return stated_by_label(document, given, entries, {index: _label(document, index) for index in entries})


def targets_of(document: Document, problems: Problems) -> tuple[TargetModel, ...]:
    """Return the targets that are right, and collect what is wrong with the others."""
    targets = []
    for index in range(_length(document, "targets")):
        with problems.collected():
            targets.append(checked_target(document, ("targets", index)))
    return tuple(targets)


def _length(document: Document, field: str) -> int:
    """Return how many items a list of the file has; none where it is no list."""
    listed = document.data.get(field)
    return len(listed) if isinstance(listed, list) else 0


def epsilon_grid(document: Document, model: StudyModel | AdditionModel) -> tuple[float, ...]:
    """Return the values of ε, of which there is one grid."""
    problem = problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon)
    if problem is not None:
        refuse(document, ("epsilon",), problem)
    if model.epsilon is not None:
        return tuple(sorted(model.epsilon))
    return tuple(sorted({math.log(value) for value in model.exp_epsilon or ()}))


def cells_of(document: Document, factors: Sequence[float | None], entries: Entries) -> GridCells:
    """Return the cells of the entries with all factors; too many, and repeated ones, are refused."""
    if not entries:
        refuse(document, ("mechanisms",), "expected at least one mechanism, got []")
    problems = Problems()
    count = 0
    found: dict[int, list[CellGrid]] = {}
    for index, grids in entries.items():
        count += sum(map(len, grids)) * len(tuple(factors))
        if count > MOST_SETTINGS:
            at = ("mechanisms", index)
            refuse(document, at, f"expected at most {MOST_SETTINGS} cells in all, got {count} up to here")
        with problems.collected():
            label = _label(document, index)
            found[index] = [CellGrid(label, grid, tuple(factors)) for grid in grids]
    for repeated in repeated_cells(found):
        line = document.lines["mechanisms", repeated.first_entry]
        with problems.collected():
            got = f"got {repeated.cell.describe()} on line {line} too"
            refuse(document, ("mechanisms", repeated.entry), f"expected each setting once, {got}")
    problems.refuse()
    return GridCells([grid for grids in found.values() for grid in grids])


def entries_of_several(document: Document) -> list[tuple[Keys, str]]:
    """Return the keys and kinds of the entries whose bounds are those of several pairs; all entries have a kind."""
    found = ((index, _kind_of_several(entry)) for index, entry in enumerate(document.data["mechanisms"]))
    return [(("mechanisms", index), kind) for index, kind in found if kind is not None]


def _kind_of_several(entry: Mapping[str, Any]) -> str | None:
    """Return the kind of an entry, or of a factor of it, whose bounds are those of several pairs; None without any."""
    kind = str(entry["kind"])
    if kind == RELEASE_PLAN or issubclass(MECHANISMS[kind], Alternatives):
        return kind
    return next((found for found in map(_kind_of_several, entry.get("pairs", [])) if found is not None), None)


def _label(document: Document, index: int) -> str:
    """Return by which label an entry is known."""
    entry = document.data["mechanisms"][index]
    label = entry.get("label", entry["kind"])
    if not isinstance(label, str) or not _printable(label):
        refuse(document, ("mechanisms", index, "label"), f"expected a short text on one line, got {shown(label)}")
    return label


def _printable(label: str) -> bool:
    return 0 < len(label) <= 100 and label.isprintable() and label == label.strip()
