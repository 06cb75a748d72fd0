"""Write the results of one batch: whole chunks, then the commit record."""

import shutil
from pathlib import Path

import numpy as np
import zarr

from pbdist.buckets.state import BucketState
from pbdist.buckets.table import BoundsTable
from pbdist.buckets.tight import TiltedMasses
from pbdist.errors import BatchError
from pbdist.store.commit import commit_batch
from pbdist.store.layout import BOUNDS, COMPUTED, cell_group
from pbdist.store.open import StoredStudy
from pbdist.store.states import read_state_group, write_state_group
from pbdist.types import Direction, FloatArray

__all__ = ["BatchWriter", "read_state", "state_group"]


class BatchWriter:
    """Takes the tables of a batch's cells in order, and writes them as one chunk of each array.

    Two writers of different batches never touch the same file. A batch that is written again after a kill gives
    the same bytes.

    Parameters
    ----------
    stored
        The store.
    index
        The batch.
    """

    def __init__(self, stored: StoredStudy, index: int) -> None:
        self._stored = stored
        self._index = index
        self._start = index * stored.cells_per_batch
        self._columns: dict[str, list[FloatArray]] = {name: [] for name in (*BOUNDS, *COMPUTED)}

    def add(self, table: BoundsTable) -> None:
        """Take the table of the next cell; its states are written at once, so that none piles up.

        Raises
        ------
        BatchError
            A bound is not a number, which in a store stands for what is not computed.
        """
        cell = self._start + len(self._columns["loss_width"])
        for name in BOUNDS:
            if np.isnan(getattr(table, name)).any():
                raise BatchError(f"{self._stored.study.cells[cell].describe()}: expected numbers in {name}, got nan")
        for name in BOUNDS:
            self._columns[name].append(np.asarray(getattr(table, name), dtype=np.float64))
        self._columns["factor_used"].append(np.array(table.factor))
        self._columns["loss_width"].append(np.array(table.loss_width))
        if self._stored.study.keep_states:
            self._write_states(cell, table)

    def commit(self) -> int:
        """Write the chunks and the commit record; return the bytes written."""
        stop = self._start + len(self._columns["loss_width"])
        for name, values in self._columns.items():
            # A chunk of nothing but the fill value is a result like any other.
            array = zarr.open_array(self._stored.path / name, mode="r+", config={"write_empty_chunks": True})
            array[self._start : stop] = np.stack(values)
        return commit_batch(self._stored, self._index)

    def _write_states(self, cell: int, table: BoundsTable) -> None:
        folder = self._stored.path / cell_group(cell)
        # What an interrupted attempt left must not mix with this one.
        shutil.rmtree(folder, ignore_errors=True)
        zarr.open_group(folder, mode="w-", zarr_format=3)
        for direction, compositions, state in _distinct(table):
            of_direction = folder / direction.name
            if not of_direction.exists():
                zarr.open_group(of_direction, mode="w-", zarr_format=3)
            write_state_group(of_direction / f"r-{compositions}", state)


def state_group(stored: StoredStudy, cell: int, direction: Direction, compositions: int) -> Path:
    """Return the folder of the zarr group of a kept state."""
    return stored.path / cell_group(cell) / direction.name / f"r-{compositions}"


def read_state(stored: StoredStudy, cell: int, direction: Direction, compositions: int) -> BucketState | TiltedMasses:
    """Read a kept state; of a symmetric pair, whose directions are the same, only A||B is stored.

    Raises
    ------
    FileNotFoundError
        The state is not in the store.
    """
    return read_state_group(state_group(stored, cell, direction, compositions))


def _distinct(table: BoundsTable) -> list[tuple[Direction, int, BucketState | TiltedMasses]]:
    """Return the states in a fixed order; where both directions share theirs, A||B stands for both."""
    first = {r: state for (direction, r), state in table.states.items() if direction is Direction.A_TO_B}
    kept = [
        (direction, r, state)
        for (direction, r), state in table.states.items()
        if direction is Direction.A_TO_B or state is not first[r]
    ]
    return sorted(kept, key=lambda item: (item[0].value, item[1]))
