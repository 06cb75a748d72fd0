"""The parts of an extended store as one study."""

from collections.abc import Iterator, Sequence

import numpy as np

from pbdist.store import StoredStudy
from pbdist.study import StudySpec
from pbdist.study.extension import union_of
from pbdist.types import IntArray

__all__ = ["Union"]


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
