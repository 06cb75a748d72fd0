"""Read the points of some cells from all parts of a store, and say of each point why it is not there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from pbdist.query.stored import Union
from pbdist.store import StoredStudy, read_values, read_within
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN
from pbdist.types import Direction, IntArray


class PointState(IntEnum):
    """Whether the store has the bounds of a point, and why not."""

    MISSING = 0
    COMPUTED = 1
    FAILED = 2
    DAMAGED = 3


@dataclass(frozen=True, eq=False)
class Block:
    """All points of some cells.

    Attributes
    ----------
    cells : ndarray of int
        The numbers of the cells in the study.
    values
        The arrays of results by their names, as `Study.bounds` has them: over the cells alone, or over (cells,
        direction, compositions, epsilon). NaN, or False, where a point is not computed.
    states : ndarray of uint8, shape (cells, compositions, epsilon)
        A `PointState` of each point.
    """

    cells: IntArray
    values: Mapping[str, Any]
    states: Any

    def pieces(self, most_points: int) -> Iterator["Block"]:
        """Yield the block in pieces of at most so many points, but at least one cell."""
        length = max(1, most_points // self.states[0].size)
        for start in range(0, len(self.cells), length):
            part = slice(start, start + length)
            yield Block(self.cells[part], {name: each[part] for name, each in self.values.items()}, self.states[part])


class BlockReader:
    """Reads blocks of a study's cells. Of each part the batch that was read last stays in memory.

    `committed` says whether a cell of a part is committed, and its files are those of the commit record.
    """

    def __init__(self, union: Union, committed: Callable[[StoredStudy, int], bool]) -> None:
        self._union, self._committed = union, committed
        study = union.study
        self._shape = (len(Direction), len(study.compositions), len(study.epsilon))
        self.names = (*BOUNDS, *([WITHIN] if study.sought is not None else []), *COMPUTED)
        r, e = ({value: index for index, value in enumerate(grid)} for grid in (study.compositions, study.epsilon))
        self._grids = {
            stored.part: np.ix_(
                [r[value] for value in stored.study.compositions], [e[value] for value in stored.study.epsilon]
            )
            for stored in union.parts
        }
        self._batches: dict[str, tuple[int, dict[str, Any] | None, frozenset[int]]] = {}

    def read(self, cells: IntArray) -> Block:
        """Return the points of some cells; a `StoreDamagedError` where the bytes of a batch cannot be read."""
        values: dict[str, Any] = {name: np.full((len(cells), *self._shape), np.nan) for name in BOUNDS}
        if WITHIN in self.names:
            values[WITHIN] = np.zeros((len(cells), *self._shape), dtype=bool)
        values |= {name: np.full(len(cells), np.nan) for name in COMPUTED}
        block = Block(cells, values, np.full((len(cells), *self._shape[1:]), PointState.MISSING, dtype=np.uint8))
        for stored in self._union.parts:
            places, rows = self._union.rows_in(stored, cells)
            for batch in np.unique(rows // stored.cells_per_batch).tolist():
                mine = rows // stored.cells_per_batch == batch
                self._fill(block, stored, batch, places[mine], rows[mine])
        return block

    def _fill(self, block: Block, stored: StoredStudy, batch: int, places: IntArray, rows: IntArray) -> None:
        """Put the points of one batch of a part into a block."""
        start = stored.head.cells_of(batch).start
        found, failed = self._batch(stored, batch)
        r, e = self._grids[stored.part]
        if found is None:
            # No sound record: not computed, or changed since.
            lost = PointState.MISSING if stored.results.record(batch) is None else PointState.DAMAGED
            block.states[places[:, None, None], r, e] = lost
            return
        directions = np.arange(len(Direction))[:, None, None]
        for name in self.names:
            values = found[name][rows - start]
            if name in COMPUTED:
                block.values[name][places] = np.fmin(block.values[name][places], values)
            else:
                block.values[name][places[:, None, None, None], directions, r, e] = values
        states = [PointState.FAILED if row in failed else PointState.COMPUTED for row in rows.tolist()]
        block.states[places[:, None, None], r, e] = np.array(states, dtype=np.uint8)[:, None, None]

    def _batch(self, stored: StoredStudy, batch: int) -> tuple[dict[str, Any] | None, frozenset[int]]:
        """Return the arrays of a batch, None where it is not committed, and the rows of cells that failed."""
        kept = self._batches.get(stored.part)
        if kept is None or kept[0] != batch:
            cells = stored.head.cells_of(batch)
            selection = slice(cells.start, cells.stop)
            found: dict[str, Any] | None = None
            failed: frozenset[int] = frozenset()
            if self._committed(stored, cells.start):
                found = {name: read_values(stored, name, selection) for name in (*BOUNDS, *COMPUTED)}
                if WITHIN in self.names:
                    found[WITHIN] = read_within(stored, selection)
                failed = frozenset(stored.results.failed(batch))
            kept = self._batches[stored.part] = batch, found, failed
        return kept[1], kept[2]
