"""For which neighbours the bounds of a store are: of a setting, of each label, and in one text."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence

from pbdist.mechanisms import Adjacency, Pair, alike
from pbdist.query.settings import Setting
from pbdist.store.columns import StoredCells
from pbdist.study import Cell, StudySpec

#: Kinds whose pairs say what the pairs within them say.
_NESTED = ("Product", "Reversed", "WorstOf")
#: What of a canonical form tells nothing about neighbours.
_NUMBERS = re.compile(r"-?\b[0-9][-+0-9.eE]*|[, ]+")


def neighbours_by_label(study: StudySpec) -> dict[str, Adjacency]:
    """Return for which neighbours the mechanisms of each label are, in the order of the study.

    A label whose mechanisms do not all say the same is as stated. Of a store the columns are read, and few cells made.
    """
    cells: Iterable[Cell] = study.cells
    if isinstance(study.cells, StoredCells):
        labels, kinds = study.cells.column("mechanism"), study.cells.column("kind")
        forms = study.cells.column("pair") if any(kind in _NESTED for kind in kinds) else kinds
        rows: dict[Hashable, int] = {}
        for row, (label, kind, form) in enumerate(zip(labels, kinds, forms, strict=True)):
            rows.setdefault((label, kind, _NUMBERS.sub("", form) if kind in _NESTED else ""), row)
        cells = (study.cells[row] for row in rows.values())
    return neighbours_of_cells(study, cells)


def neighbours_of_cells(study: StudySpec, cells: Iterable[Cell]) -> dict[str, Adjacency]:
    """Return the same of some cells alone."""
    found: dict[str, set[Adjacency]] = {}
    for cell in cells:
        found.setdefault(cell.label, set()).add(study.neighbours_of(cell))
    return {label: alike(relations) for label, relations in found.items()}


def neighbours_of_settings(study: StudySpec, mechanism: str | Pair, settings: Sequence[Setting]) -> Adjacency:
    """Return for which neighbours the answers to questions about some settings are; as stated where they differ.

    What is asked by its label is as the study says of that label. A mechanism that is asked for itself is as it says,
    or as the study says of a stored one that is equal.
    """
    if isinstance(mechanism, str):
        return alike(study.neighbours_of(setting.cell) for setting in settings)
    return alike(_of_pair(study, setting) for setting in settings)


def _of_pair(study: StudySpec, setting: Setting) -> Adjacency:
    own = setting.cell.pair.adjacency
    return own if own.definite else alike(study.neighbours_of(study.cells[number]) for number in setting.stored)


def neighbours_text(found: Mapping[str, Adjacency]) -> str:
    """Return the one relation that all labels have, or that of each label: ``Laplace: replace-one; ..``."""
    if len(set(found.values())) == 1:
        return next(iter(found.values())).value
    return "; ".join(f"{label}: {relation.value}" for label, relation in found.items())


def neighbours_words(found: Iterable[tuple[str, Adjacency]]) -> str:
    """Return in a line who the neighbours are of what stands side by side in one answer.

    Where labels have different ones it says whose, and that bounds for different neighbours do not compare. What is as
    stated may be for any.
    """
    told = dict.fromkeys(found)
    relations = list(dict.fromkeys(relation for _, relation in told))
    if len(relations) == 1:
        return f"neighbours: {relations[0].in_words}"
    each = "; ".join(
        f"{', '.join(label for label, one in told if one is relation)}: {relation.in_words}" for relation in relations
    )
    differ = len([one for one in relations if one.definite]) > 1
    return f"neighbours differ, so that bounds do not compare: {each}" if differ else f"neighbours: {each}"
