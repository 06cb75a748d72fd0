"""Write the results of a batch as one file, and read stored bounds."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from pbdist.errors import BatchError, StoreMismatchError
from pbdist.store.columns import decode_chunk, encode_chunk
from pbdist.store.documents import FileDigest, digest_of, provenance
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN, batch_file, batch_shape, cell_group
from pbdist.store.open import StoredStudy, stored_digest
from pbdist.store.results import BatchRecord, PartHead, PartResults, batch_document, digests_of, read_loose
from pbdist.store.states import state_files
from pbdist.study import Batch, Cell, StudySpec
from pbdist.study.spec import log_floor, within_tolerance
from pbdist.table import BoundsTable
from pbdist.types import BoolArray, FloatArray


class BatchWriter:
    """Writes the results of a batch as one file; takes each cell in order by `add`, `keep` or `fail`.

    Two writers of different batches never touch the same file. A batch that is written again after a kill gives the
    same bytes.

    Parameters
    ----------
    stored
        The part of the store, or its head.
    batch
        The batch. Where it is `partly` there, what an earlier attempt has stored may be kept.
    cells
        Its cells.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_store`.
    StoreMismatchError
        The store is of another study, or the batch has another number of cells.
    """

    def __init__(self, stored: StoredStudy | PartHead, batch: Batch, cells: Sequence[Cell]) -> None:
        self._head = stored if isinstance(stored, PartHead) else stored.head
        self._index, self._cells = batch.index, cells
        self._start = self._head.cells_of(batch.index).start
        self._head.look()
        found = stored_digest(self._head.place, self._head.part)
        if found != self._head.digest:
            raise StoreMismatchError(
                f"{self._head.place.url}: expected study {self._head.digest[:12]}, got {found[:12]}"
            )
        expected = self._head.cells_of(batch.index)
        if (batch.start, batch.stop) != (expected.start, expected.stop) or len(cells) != len(expected):
            raise StoreMismatchError(
                f"{self._head.place.url}: expected batch {batch.index} with cells {expected.start} to {expected.stop},"
                f" got {batch.start} to {batch.stop}"
            )
        self._columns: dict[str, list[FloatArray | BoolArray]] = {name: [] for name in self._head.results}
        self._states: dict[str, FileDigest] = {}
        self._failed: dict[int, str] = {}
        self._written = 0
        self._earlier = self._earlier_attempt() if batch.partly else None

    def kept(self, index: int) -> bool:
        """Whether a cell of the batch is stored by an earlier attempt, in which others could not be computed."""
        return self._earlier is not None and self._start + index not in self._earlier[0].failed

    def keep(self) -> None:
        """Take the next cell as the earlier attempt has stored it; a `BatchError` where it is not `kept`."""
        index = self._next
        if self._earlier is None or not self.kept(index):
            raise BatchError(f"{self._cells[index].describe()}: expected an earlier result, got none")
        record, values = self._earlier
        for name, column in self._columns.items():
            column.append(values[name][index])
        folder = f"{cell_group(self._start + index)}/"
        self._states.update({name: entry for name, entry in record.states.items() if name.startswith(folder)})

    def add(self, table: BoundsTable) -> None:
        """Take the table of the next cell; its states are written at once, to free their memory.

        Raises
        ------
        BatchError
            A bound is NaN, which in a store stands for what is not computed.
        """
        index = self._next
        for name in BOUNDS:
            if np.isnan(getattr(table, name)).any():
                raise BatchError(f"{self._cells[index].describe()}: expected numbers in {name}, got nan")
        if self._head.settings.keep_states:
            for name, data in state_files(self._start + index, table):
                self._head.write(name, data)
                # The digest of the bytes in memory: damage on the disk is found when they are read.
                self._states[name] = {"bytes": len(data), "sha256": digest_of(data)}
                self._written += len(data)
        for name in BOUNDS:
            self._columns[name].append(np.asarray(getattr(table, name), dtype=np.float64))
        if WITHIN in self._columns:
            found = table.within
            if found is None:
                # Of a cell with a factor of its own, or without any loss.
                found = within_tolerance(self._head.settings, table.log_delta_lower, table.log_delta_upper)
            self._columns[WITHIN].append(found)
        self._columns["factor_used"].append(np.array(table.factor))
        self._columns["loss_width"].append(np.array(table.loss_width))

    def fail(self, cause: str) -> None:
        """Record that the next cell could not be computed, and why."""
        self._failed[self._start + self._next] = " ".join(cause.split())
        for name, column in self._columns.items():
            shape = batch_shape(self._head.settings, name, 1)[1:]
            column.append(np.zeros(shape, dtype=bool) if name == WITHIN else np.full(shape, np.nan))

    def commit(self) -> int:
        """Write the file of the batch; return the bytes written. A `BatchError` where a cell is missing."""
        if self._next != len(self._cells):
            raise BatchError(f"expected {len(self._cells)} cells, got {self._next}")
        head = self._head
        values: dict[str, Any] = {name: np.stack(column) for name, column in self._columns.items()}
        chunks = {name: encode_chunk(content, head.cells_per_batch) for name, content in values.items()}
        failed = [cell - self._start for cell in self._failed]
        points, missed = judged(head.settings, self._cells, failed, values)
        record = BatchRecord(self._index, digests_of(chunks), self._states, self._failed, points, missed, provenance())
        data = batch_document(head, record, chunks)
        head.write(batch_file(self._index), data)
        return self._written + len(data)

    @property
    def _next(self) -> int:
        return len(self._columns["loss_width"])

    def _earlier_attempt(self) -> tuple[BatchRecord, dict[str, Any]] | None:
        """Return record and values of an earlier attempt in which cells failed, if all is as recorded."""
        head, index = self._head, self._index
        results = PartResults(head)
        loose = read_loose(head, index)
        chunks = None if loose is None else results.from_loose(loose, head.results)
        found = (loose.record, chunks) if loose is not None and chunks is not None else results.joined(index)
        if found is None or not results.states_are_sound(found[0]):
            return None
        length = head.cells_per_batch
        return found[0], {
            name: decode_chunk(data, batch_shape(head.settings, name, length), name) for name, data in found[1].items()
        }


def judged(
    settings: StudySpec, cells: Sequence[Cell], failed: Container[int], values: Mapping[str, Any]
) -> tuple[int, int]:
    """Return at how many points of a batch the tolerance was sought, and at how many it was missed.

    `cells` are those of the batch, `failed` the places among them of those that could not be computed, `values` the
    results by the names of the arrays.
    """
    rows = [row for row, cell in enumerate(cells) if row not in failed and settings.seeks_tolerance(cell)]
    if not rows:
        return 0, 0
    upper, within = values["log_delta_upper"][rows], values[WITHIN][rows]
    if settings.direction == "both":
        upper, within = upper.max(axis=1, keepdims=True), within[:, :1]
    asked = upper > log_floor(settings)
    missed = asked & ~within
    return int(np.count_nonzero(asked.any(axis=1))), int(np.count_nonzero(missed.any(axis=1)))


def read_values(stored: StoredStudy, name: str, selection: Any) -> FloatArray:
    """Return a part of an array of results: along the cells a number, a slice or an array, and then as numpy selects.

    What is returned has the checksum that was recorded. NaN where nothing is committed; `StoreDamagedError` where
    something is not as recorded.
    """
    return np.asarray(stored.results.array(name, selection), dtype=np.float64)


def read_within(stored: StoredStudy, cells: Any) -> BoolArray:
    """Return where the bounds of some cells meet within the tolerance, over the axes of the bounds.

    False where nothing is known, and without a tolerance.
    """
    if WITHIN not in stored.head.results:
        return np.zeros(read_values(stored, next(iter(BOUNDS)), cells).shape, dtype=bool)
    return np.asarray(stored.results.array(WITHIN, cells), dtype=bool)


def read_cell(stored: StoredStudy, cell: int) -> dict[str, FloatArray]:
    """Return the bounds of a cell, each over direction, compositions and ε, and its computed values."""
    return {name: read_values(stored, name, cell) for name in (*BOUNDS, *COMPUTED)}
