"""The parts of an extended store as one study."""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from pbdist.store import StoredStudy, is_committed, read_values
from pbdist.store.arrays import FilesStore, array_files
from pbdist.store.documents import group_document
from pbdist.store.layout import BOUNDS, COMPUTED, STORE_FORMATS
from pbdist.store.skeleton import ROOT_FILE
from pbdist.study import StudySpec
from pbdist.study.extension import union_of
from pbdist.types import Direction, IntArray

__all__ = ["Union", "assembled"]


class Union:
    """The study that the parts of a store make up, and where in the parts its points are.

    Parameters
    ----------
    parts
        All parts of a store.
    """

    def __init__(self, parts: Sequence[StoredStudy]) -> None:
        self.parts = parts
        self.study: StudySpec = union_of([stored.study for stored in parts])
        self._cells: dict[str, IntArray] = {}
        if len(parts) > 1:
            positions = {cell: position for position, cell in enumerate(self.study.cells)}
            self._cells = {stored.part: np.array([positions[cell] for cell in stored.study.cells]) for stored in parts}

    def rows(self, stored: StoredStudy, cells: range) -> IntArray:
        """Return the positions in the whole study of consecutive cells of a part."""
        if stored.part not in self._cells:
            return np.arange(cells.start, cells.stop)
        return self._cells[stored.part][cells.start : cells.stop]

    def grid_place(self, stored: StoredStudy, compositions: int, epsilon: int) -> tuple[int, int] | None:
        """Return the positions in a part of those on the grids of the whole study; None where it lacks one."""
        r, value = self.study.compositions[compositions], self.study.epsilon[epsilon]
        if r not in stored.study.compositions or value not in stored.study.epsilon:
            return None
        return stored.study.compositions.index(r), stored.study.epsilon.index(value)

    def places(self, cell: int) -> Iterator[tuple[StoredStudy, int]]:
        """Yield each part that has a cell of the whole study, and the cell's position in it."""
        for stored in self.parts:
            if stored.part not in self._cells:
                yield stored, cell
                continue
            rows = np.flatnonzero(self._cells[stored.part] == cell)
            if rows.size:
                yield stored, int(rows[0])

    def find(self, cell: int, compositions: int, epsilon: int) -> tuple[StoredStudy | None, tuple[int, int, int]]:
        """Return the part that has a point of the whole study, and the point's positions in it; None where none has."""
        for stored in self.parts:
            place = self.grid_place(stored, compositions, epsilon)
            if place is None:
                continue
            if stored.part not in self._cells:
                return stored, (cell, *place)
            rows = np.flatnonzero(self._cells[stored.part] == cell)
            if rows.size:
                return stored, (int(rows[0]), *place)
        return None, (0, 0, 0)


def assembled(union: Union) -> xr.Dataset:
    """Return the bounds of all parts in one Dataset, in memory, with the coordinates of the whole study.

    What no part has, and what is not committed, is not a number. Where several parts have a cell, ``factor_used`` and
    ``loss_width`` are the smallest of theirs.

    Raises
    ------
    StoreDamagedError
        The values cannot be read.
    """
    study = union.study
    files = {ROOT_FILE: group_document({}), **array_files(study, len(study.cells), STORE_FORMATS[-1])}
    dataset: xr.Dataset = xr.open_zarr(FilesStore(files).store, consolidated=False, chunks=None).load()
    directions = np.arange(len(Direction))
    for stored in union.parts:
        r = np.array([study.compositions.index(value) for value in stored.study.compositions])
        e = np.array([study.epsilon.index(value) for value in stored.study.epsilon])
        for index in range(stored.batches):
            if not is_committed(stored, index):
                continue
            cells = stored.head.cells_of(index)
            rows, selection = union.rows(stored, cells), slice(cells.start, cells.stop)
            for name in BOUNDS:
                values = dataset[name].values
                values[np.ix_(rows, directions, r, e)] = read_values(stored, name, selection)
            for name in COMPUTED:
                values = dataset[name].values
                values[rows] = np.fmin(values[rows], read_values(stored, name, selection))
    return dataset
