"""Find cells that stand in a study twice, among grids of any size."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pbdist.study.cell_hashes import distinct_numbers, hashes_of
from pbdist.study.grid_cells import CellGrid, GridCells
from pbdist.study.spec import Cell


class Repeated(NamedTuple):
    """The first cell of an entry that stands before it too, and the entry where it stood first."""

    entry: int
    cell: Cell
    first_entry: int


def repeated_cells(entries: Mapping[int, Sequence[CellGrid]]) -> Iterator[Repeated]:
    """Yield the first repeated cell of each entry that has one; the cells after it are not looked at."""
    by_label: dict[str, dict[int, Sequence[CellGrid]]] = {}
    for entry, grids in entries.items():
        for grid in grids[:1]:
            by_label.setdefault(grid.label, {})[entry] = grids
    for suspects in by_label.values():
        grids = [grid for each in suspects.values() for grid in each]
        # Cells of one grid whose values are distinct are distinct, and so are those of different labels.
        if len(grids) > 1 or not all(axis.distinct for axis in grids[0].pairs.axes):
            yield from _repeated(suspects)


def _repeated(entries: Mapping[int, Sequence[CellGrid]]) -> Iterator[Repeated]:
    cells = GridCells([grid for grids in entries.values() for grid in grids])
    first = distinct_numbers(hashes_of(cells))
    counts = [sum(map(len, grids)) for grids in entries.values()]
    #: Whether the cell that stands first under this number has been taken, and by which entry.
    taken_by = np.full(len(cells), -1)
    ends = np.cumsum(counts)
    for entry, start, end in zip(entries, ends - counts, ends, strict=True):
        mine = first[start:end]
        own_first = np.zeros(mine.size, dtype=bool)
        own_first[np.unique(mine, return_index=True)[1]] = True
        again = np.flatnonzero((taken_by[mine] >= 0) | ~own_first)
        stop = int(again[0]) if again.size else mine.size
        taken_by[mine[:stop]] = entry
        if again.size:
            yield Repeated(entry, cells[int(start) + stop], int(taken_by[mine[stop]]))
