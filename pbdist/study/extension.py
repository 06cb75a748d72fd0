"""Find what a study has that stored studies lack, as studies of their own; and the union of studies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from pbdist.errors import StoreMismatchError
from pbdist.study.columns import CellTable, known
from pbdist.study.spec import StudySpec
from pbdist.types import Adjacency

#: The fields that all parts of a store share: the bounds, or what is stored of them, depend on these.
COMMON = ("method", "tolerance", "buckets", "floor", "direction", "keep_states")
#: Pairs of values of ε and of r.
_Grids: TypeAlias = tuple[tuple[tuple[float, ...], tuple[int, ...]], ...]


def union_of(studies: Sequence[StudySpec]) -> StudySpec:
    """Return the smallest study that contains all of `studies`, the parts of a store.

    Cells and targets are in the order of their first appearance; the description is that of the first study.
    """
    first = studies[0]
    if len(studies) == 1:
        return first
    return replace(
        first,
        cells=tuple(dict.fromkeys(cell for study in studies for cell in study.cells)),
        compositions=tuple(sorted({r for study in studies for r in study.compositions})),
        epsilon=tuple(sorted({epsilon for study in studies for epsilon in study.epsilon})),
        adjacency=tuple(sorted({stated for study in studies for stated in study.adjacency})),
        targets=tuple(dict.fromkeys(target for study in studies for target in study.targets)),
    )


def missing_parts(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """Return what `missing_points` returns, for a study that is to have all that the store holds.

    A `StoreMismatchError` also where points are missing, and the stored studies have some that `wanted` lacks.
    """
    parts = missing_points(studies, wanted)
    if parts:
        _check_contained(studies, wanted)
    return parts


def missing_points(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """Return disjoint studies that together have the points (cell, r, ε) of `wanted` that none of `studies` has.

    They are few: cells and r that lack the same points are in one study. They have its targets, but no description.
    There are none if the stored `studies`, of which there is at least one, contain `wanted`. A `StoreMismatchError`
    where the studies differ in more than cells and grids, or state different neighbours of one label.
    """
    check_common(studies[0], {name: getattr(wanted, name) for name in COMMON})
    if any(len(study.cells) == len(wanted.cells) and study.digest == wanted.digest for study in studies):
        return ()
    _check_neighbours(studies, wanted)
    cells = CellTable.of(wanted.cells)
    hashes, group_of = cells.hashes(), np.zeros(len(cells), dtype=np.int64)
    # No two cells of a study are equal.
    stored = [np.isin(hashes, CellTable.of(study.cells).hashes(), assume_unique=True) for study in studies]
    for each in stored:
        # Cells of a group are in the same studies.
        group_of = np.unique(2 * group_of + each, return_inverse=True)[1]
    groups_by_grids: dict[_Grids, list[int]] = {}
    for row in np.sort(np.unique(group_of, return_index=True)[1]).tolist():
        having = [study for study, each in zip(studies, stored, strict=True) if each[row]]
        groups_by_grids.setdefault(_missing_grids(having, wanted), []).append(group_of[row])
    groups_by_grids.pop((), None)
    bare = replace(wanted, description=None, target_compositions=(), target_epsilon=())
    found = []
    for grids, groups in groups_by_grids.items():
        part = cells.taken(np.flatnonzero(np.isin(group_of, groups)))
        adjacency = tuple(one for one in wanted.adjacency if one[0] in part.labels())
        for epsilon, compositions in grids:
            found.append(replace(bare, cells=part, compositions=compositions, epsilon=epsilon, adjacency=adjacency))
    return tuple(found)


def check_common(stored: StudySpec, given: Mapping[str, Any]) -> None:
    """Raise `StoreMismatchError` for values other than those of a store in fields that all its parts share."""
    for name, value in given.items():
        if value != getattr(stored, name):
            raise StoreMismatchError(f"{name}: expected {getattr(stored, name)!r} as in the store, got {value!r}")


def _check_neighbours(studies: Sequence[StudySpec], wanted: StudySpec) -> None:
    """Refuse a study that states other neighbours of a label than the stored ones."""
    mine = dict(wanted.adjacency)
    for study in studies:
        its = dict(study.adjacency)
        # Where neither states anything, no cell is looked at.
        for label in sorted(mine.keys() | its.keys()):
            first, second = (one.get(label, Adjacency.AS_STATED) for one in (its, mine))
            if first is not second and all(label in known(one.cells).labels() for one in (study, wanted)):
                raise StoreMismatchError(
                    f"adjacency: expected {first.value} of {label!r} as in the store, got {second.value}: bounds for"
                    " one are no bounds for the other"
                )


def _missing_grids(studies: Sequence[StudySpec], wanted: StudySpec) -> _Grids:
    """Return grids of ε and of r: the points of a cell that all of `studies` have, and that none of them covers."""
    found: dict[tuple[float, ...], list[int]] = {}
    for r in wanted.compositions:
        stored = {epsilon for study in studies if r in study.compositions for epsilon in study.epsilon}
        if epsilon := tuple(value for value in wanted.epsilon if value not in stored):
            found.setdefault(epsilon, []).append(r)
    return tuple((epsilon, tuple(compositions)) for epsilon, compositions in found.items())


def _check_contained(studies: Sequence[StudySpec], wanted: StudySpec) -> None:
    """Refuse a study that lacks stored points: the store would be that of neither study file."""
    hashes = CellTable.of(wanted.cells).hashes()
    for study in studies:
        absent = np.isin(CellTable.of(study.cells).hashes(), hashes, assume_unique=True, invert=True)
        missing: dict[str, list[Any]] = {
            "noise setting": np.flatnonzero(absent).tolist(),
            "compositions": [r for r in study.compositions if r not in wanted.compositions],
            "epsilon": [f"{epsilon:.10g}" for epsilon in study.epsilon if epsilon not in wanted.epsilon],
        }
        for name, (first, *others) in ((name, found) for name, found in missing.items() if found):
            text = study.cells[first].describe() if name == "noise setting" else first
            more = f" and {len(others)} more" if others else ""
            raise StoreMismatchError(
                f"{name}: the store holds {text}{more}, which the study does not have: add it, or give a file with"
                " extend: true and only what is new"
            )
