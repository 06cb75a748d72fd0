"""Find what a study has that stored studies lack, as studies of their own; and the union of studies."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from pbdist.errors import StoreMismatchError
from pbdist.study.grid_cells import LazyCells, hashes_of, standing_in
from pbdist.study.spec import Cell, KnownCells, Stated, StudySpec
from pbdist.types import Adjacency, IntArray

#: The fields that all parts of a store share: the bounds, or what is stored of them, depend on these.
COMMON = ("method", "tolerance", "buckets", "floor", "direction", "keep_states")
#: Points of one cell: for each missing r its missing ε.
_Missing = tuple[tuple[int, tuple[float, ...]], ...]


def union_of(studies: Sequence[StudySpec]) -> StudySpec:
    """Return the smallest study that contains all of `studies`, the parts of a store.

    Its cells are in the order of their first appearance; description and targets are those of the first study.
    """
    first = studies[0]
    if len(studies) == 1:
        return first
    cells: dict[Cell, None] = {}
    for study in studies:
        cells.update(dict.fromkeys(study.cells))
    return replace(
        first,
        cells=tuple(cells),
        compositions=tuple(sorted({r for study in studies for r in study.compositions})),
        epsilon=tuple(sorted({epsilon for study in studies for epsilon in study.epsilon})),
        adjacency=tuple(sorted({told for study in studies for told in study.adjacency})),
    )


def missing_parts(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """Return what `missing_points` returns, for a study that is to have all that the store holds.

    Raises
    ------
    StoreMismatchError
        The studies differ in more than cells and grids; or points are missing, and the stored studies have some that
        `wanted` lacks.
    """
    parts = missing_points(studies, wanted)
    if parts:
        _check_contained(studies, wanted)
    return parts


def missing_points(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """Return disjoint studies that together have the points (cell, r, ε) of `wanted` that none of `studies` has.

    They are few: cells and r that lack the same points are in one study. They have no description and no targets. There
    are none if the stored `studies`, of which there is at least one, contain `wanted`.

    Raises
    ------
    StoreMismatchError
        The studies differ in more than cells and grids, or state different neighbours of one label.
    """
    stored = studies[0]
    for name in COMMON:
        if getattr(stored, name) != getattr(wanted, name):
            raise StoreMismatchError(
                f"{name}: expected {getattr(stored, name)!r} as in the store, got {getattr(wanted, name)!r}"
            )
    if any(study.digest == wanted.digest for study in studies):
        return ()
    _check_neighbours(studies, wanted)
    missing, lacking = _missing_points(studies, wanted)
    by_points: dict[_Missing, list[int]] = {}
    for group, points in enumerate(missing):
        if points:
            by_points.setdefault(points, []).append(group)
    bare = replace(wanted, description=None, targets=(), target_compositions=(), target_epsilon=())
    return tuple(
        replace(
            bare,
            cells=cells,
            compositions=tuple(compositions),
            epsilon=epsilon,
            adjacency=_stated_of(cells, wanted.adjacency),
        )
        for points, groups in by_points.items()
        for cells in [_picked(wanted.cells, np.flatnonzero(np.isin(lacking, groups)))]
        for epsilon, compositions in _by_epsilon(points).items()
    )


def _check_neighbours(studies: Sequence[StudySpec], wanted: StudySpec) -> None:
    """Refuse a study that states other neighbours of a label than the stored ones."""
    mine = dict(wanted.adjacency)
    for study in studies:
        its = dict(study.adjacency)
        # Where neither states anything, no cell is looked at.
        for label in sorted(mine.keys() | its.keys()):
            first, second = (one.get(label, Adjacency.AS_STATED) for one in (its, mine))
            if first is not second and all(label in _labels(one.cells) for one in (study, wanted)):
                raise StoreMismatchError(
                    f"adjacency: expected {first.value} of {label!r} as in the store, got {second.value}: bounds for"
                    " one are no bounds for the other"
                )


def _stated_of(cells: Sequence[Cell], told: Stated) -> Stated:
    """Return what is stated of the labels of some cells."""
    known = _labels(cells) if told else ()
    return tuple((label, relation) for label, relation in told if label in known)


def _labels(cells: Sequence[Cell]) -> Collection[str]:
    return cells.labels().keys() if isinstance(cells, KnownCells) else {cell.label for cell in cells}


def _missing_points(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[list[_Missing], IntArray]:
    """Return groups of cells of `wanted` by the points that no stored study has, and the group of each cell.

    Cells of a group stand in the same studies. The groups are in the order of their first cells.
    """
    hashes = hashes_of(wanted.cells)
    group_of, having = np.zeros(hashes.shape[1], dtype=np.int64), np.zeros((1, 0), dtype=bool)
    for study in studies:
        same = study.cells_sha256 == wanted.cells_sha256
        stands = np.ones(group_of.size, bool) if same else standing_in(hashes, hashes_of(study.cells))
        # Split each group into those that stand in this study and those that do not.
        _, first, found = np.unique(2 * group_of + stands, return_index=True, return_inverse=True)
        order = np.argsort(first)
        having = np.column_stack((having[group_of[first]], stands[first]))[order]
        group_of = np.argsort(order)[found]
    missing = [
        _missing_of([study for study, stands in zip(studies, row, strict=True) if stands], wanted)
        for row in having.tolist()
    ]
    return missing, group_of


def _picked(cells: Sequence[Cell], numbers: IntArray) -> Sequence[Cell]:
    """Return some of the cells; those from grids are not made."""
    if isinstance(cells, LazyCells):
        return cells.picked(numbers)
    return tuple(cells[number] for number in numbers.tolist())


def _missing_of(studies: Sequence[StudySpec], wanted: StudySpec) -> _Missing:
    """Return the points of a cell of `wanted` that none of `studies` has, all of which have that cell."""
    rows = []
    for r in wanted.compositions:
        stored = {epsilon for study in studies if r in study.compositions for epsilon in study.epsilon}
        epsilon = tuple(value for value in wanted.epsilon if value not in stored)
        if epsilon:
            rows.append((r, epsilon))
    return tuple(rows)


def _by_epsilon(missing: _Missing) -> dict[tuple[float, ...], list[int]]:
    """Return the missing r of each list of missing ε."""
    found: dict[tuple[float, ...], list[int]] = {}
    for r, epsilon in missing:
        found.setdefault(epsilon, []).append(r)
    return found


def _check_contained(studies: Sequence[StudySpec], wanted: StudySpec) -> None:
    """Refuse a study that lacks stored points: the store would be that of neither study file."""
    hashes = hashes_of(wanted.cells)
    for study in studies:
        same = study.cells_sha256 == wanted.cells_sha256
        absent = [] if same else np.flatnonzero(~standing_in(hashes_of(study.cells), hashes)).tolist()
        # Of many cells one is told.
        others = [""] * (len(absent) - 1)
        lacking = {
            "noise setting": [study.cells[number].describe() for number in absent[:1]] + others,
            "compositions": [str(r) for r in study.compositions if r not in wanted.compositions],
            "epsilon": [f"{value:.10g}" for value in study.epsilon if value not in wanted.epsilon],
        }
        for name, values in lacking.items():
            if values:
                more = f" and {len(values) - 1} more" if len(values) > 1 else ""
                raise StoreMismatchError(
                    f"{name}: expected a study with all that the store holds, or with nothing else, got one without"
                    f" {values[0]}{more}"
                )
