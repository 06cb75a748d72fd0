"""Find what a study has that stored studies lack, as studies of their own; and the union of studies."""

from collections.abc import Sequence
from dataclasses import replace

from pbdist.errors import StoreMismatchError
from pbdist.study.spec import Cell, StudySpec

__all__ = ["missing_parts", "union_of"]

#: The fields that all parts of a store share: the bounds, or what is stored of them, depend on these.
_COMMON = ("method", "tolerance", "buckets", "floor", "direction", "keep_states")
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
    )


def missing_parts(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """Return disjoint studies that together have the points (cell, r, ε) of `wanted` that none of `studies` has.

    They are few: cells and r that lack the same points are in one study. They have no description and no targets. There
    are none if the stored `studies`, of which there is at least one, contain `wanted`.

    Raises
    ------
    StoreMismatchError
        The studies differ in more than cells and grids; or points are missing, and the stored studies have some that
        `wanted` lacks.
    """
    stored = studies[0]
    for name in _COMMON:
        if getattr(stored, name) != getattr(wanted, name):
            raise StoreMismatchError(
                f"{name}: expected {getattr(stored, name)!r} as in the store, got {getattr(wanted, name)!r}"
            )
    if any(study.digest == wanted.digest for study in studies):
        return ()
    found = _missing_points(studies, wanted)
    by_points: dict[_Missing, list[Cell]] = {}
    for cell, missing in zip(wanted.cells, found, strict=True):
        if missing:
            by_points.setdefault(missing, []).append(cell)
    if by_points:
        _check_contained(studies, wanted)
    bare = replace(wanted, description=None, targets=())
    return tuple(
        replace(bare, cells=tuple(cells), compositions=tuple(compositions), epsilon=epsilon)
        for missing, cells in by_points.items()
        for epsilon, compositions in _by_epsilon(missing).items()
    )


def _missing_points(studies: Sequence[StudySpec], wanted: StudySpec) -> list[_Missing]:
    """Return for each cell of `wanted` the points that no stored study has."""
    having: dict[Cell, tuple[int, ...]] = {}
    for number, study in enumerate(studies):
        for cell in study.cells:
            having[cell] = (*having.get(cell, ()), number)
    known: dict[tuple[int, ...], _Missing] = {}
    result = []
    for cell in wanted.cells:
        numbers = having.get(cell, ())
        if numbers not in known:
            known[numbers] = _missing_of([studies[number] for number in numbers], wanted)
        result.append(known[numbers])
    return result


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
    cells = set(wanted.cells)
    for study in studies:
        lacking = {
            "noise setting": [cell.describe() for cell in study.cells if cell not in cells],
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
