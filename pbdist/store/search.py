"""Find the cells of a part whose own columns are damaged: among those of the wanted study and of the other parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice

from pbdist.errors import StoreDamagedError, StoreMismatchError
from pbdist.store.columns import column_of
from pbdist.store.layout import COLUMNS
from pbdist.store.open import StoredStudy
from pbdist.study import Cell, StudySpec
from pbdist.study.extension import missing_parts

__all__ = ["cells_of_parts", "computed_anew", "points_missing"]

#: How many selections of groups of cells are looked at, and how many cells are hashed for those of the right length.
_MOST_SELECTIONS, _MOST_HASHED = 1 << 16, 20_000_000


def cells_of_parts(parts: Sequence[StoredStudy], wanted: StudySpec) -> dict[str, tuple[Cell, ...]]:
    """Return the cells of each part by its path, without the parts whose cells are nowhere to be found.

    A part that cannot be read has been made of those cells of a study file that stood in certain other parts, or in
    none. So `wanted` and the other parts are split into groups by where their cells are, and every selection of groups
    is compared with the SHA-256 of the part's cells.
    """
    found: dict[str, tuple[Cell, ...]] = {}
    left = []
    for stored in parts:
        cells = _readable(stored, wanted)
        if cells is None:
            left.append(stored)
        else:
            found[stored.part] = cells
    while left:
        before = len(left)
        for stored in list(left):
            cells = _searched(stored.study, wanted.cells, found)
            if cells is not None:
                # It may help to find the others.
                found[stored.part] = cells
                left.remove(stored)
        if len(left) == before:
            break
    return found


def points_missing(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """As `missing_parts`; none where `wanted` lacks what is stored."""
    try:
        return missing_parts(studies, wanted)
    except StoreMismatchError:
        return ()


def computed_anew(stored: StoredStudy, others: Sequence[StudySpec], wanted: StudySpec) -> bool:
    """Whether a part with unknown cells may be dropped, as far as one can tell without them.

    It may if `wanted` asks for points that no other part has, for all compositions and ε of the part, and for every
    value in those of its columns that can be read.
    """
    part = stored.study
    grids = set(part.compositions) <= set(wanted.compositions) and set(part.epsilon) <= set(wanted.epsilon)
    if not grids or len(part.cells) > len(wanted.cells) or not points_missing(others, wanted):
        return False
    for name in COLUMNS:
        try:
            values = set(map(repr, column_of(part.cells, name)))
        except StoreDamagedError:
            continue
        if not values <= set(map(repr, column_of(wanted.cells, name))):
            return False
    return True


def _readable(stored: StoredStudy, wanted: StudySpec) -> tuple[Cell, ...] | None:
    if stored.study.cells_sha256 == wanted.cells_sha256:
        return tuple(wanted.cells)
    try:
        return tuple(stored.study.cells)
    except StoreDamagedError:
        return None


def _searched(
    part: StudySpec, wanted: Sequence[Cell], found: Mapping[str, tuple[Cell, ...]]
) -> tuple[Cell, ...] | None:
    count = len(part.cells)
    everything = dict.fromkeys(wanted)
    for cells in found.values():
        everything.update(dict.fromkeys(cells))
    having = [set(wanted), *map(set, found.values())]
    for source in (wanted, *found.values(), tuple(everything)):
        groups: dict[tuple[bool, ...], list[int]] = {}
        for position, cell in enumerate(source):
            groups.setdefault(tuple(cell in cells for cells in having), []).append(position)
        selections = _selections(list(groups.values()), count)
        for selected in islice(selections, max(20, _MOST_HASHED // count)):
            cells = tuple(source[position] for position in selected)
            if replace(part, cells=cells).cells_sha256 == part.cells_sha256:
                return cells
    return None


def _selections(groups: Sequence[Sequence[int]], count: int) -> Iterator[Sequence[int]]:
    """Yield the positions in selections of groups that have `count` cells together; and the first `count` of all."""
    taken = (chosen for number in range(len(groups)) for chosen in combinations(groups, number + 1))
    for chosen in islice(taken, _MOST_SELECTIONS):
        if sum(map(len, chosen)) == count:
            yield sorted(position for group in chosen for position in group)
    if sum(map(len, groups)) > count:
        yield range(count)
