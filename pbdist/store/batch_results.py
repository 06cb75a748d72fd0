"""Write the results of a batch as whole chunks and a commit record, and read stored bounds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import zarr

from pbdist.errors import BatchError, StoreDamagedError, StoreMismatchError, StoreUnreachableError
from pbdist.store.arrays import decode, encode_chunk
from pbdist.store.commit import changed_files, commit_record, failures_of, record_document, record_file
from pbdist.store.documents import FileDigest, digest_of
from pbdist.store.files import IrregularError
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN, cell_group, chunk_file
from pbdist.store.open import PartHead, StoredStudy, stored_digest
from pbdist.store.states import state_files
from pbdist.study import Batch, Cell
from pbdist.study.spec import within_tolerance
from pbdist.table import BoundsTable
from pbdist.types import BoolArray, Direction, FloatArray, JsonValue

__all__ = ["BatchWriter", "read_cell", "read_values", "read_within"]


class BatchWriter:
    """Writes the results of a batch as one chunk of each array; takes each cell in order by `add`, `keep` or `fail`.

    Two writers of different batches never touch the same file. A batch that is written again after a kill gives the
    same bytes.

    Parameters
    ----------
    stored
        The part of the store, or its head.
    batch
        The batch.
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
        settings = self._head.settings
        self._shape = (len(Direction), len(settings.compositions), len(settings.epsilon))
        self._columns: dict[str, list[FloatArray | BoolArray]] = {name: [] for name in self._head.results}
        self._files: dict[str, FileDigest] = {}
        self._failed: dict[int, str] = {}
        self._written = 0
        self._earlier: dict[str, FloatArray | BoolArray] = {}
        self._earlier_record = self._sound_record()

    def kept(self, index: int) -> bool:
        """Whether a cell of the batch is stored by an earlier attempt, in which others could not be computed."""
        record = self._earlier_record
        return record is not None and self._start + index not in failures_of(record)

    def keep(self) -> None:
        """Take the next cell as the earlier attempt has stored it; a `BatchError` where it is not `kept`."""
        index = self._next
        record = self._earlier_record
        if record is None or not self.kept(index):
            raise BatchError(f"{self._cells[index].describe()}: expected an earlier result, got none")
        if not self._earlier:
            self._earlier = {name: self._chunk(name) for name in self._columns}
        for name, values in self._earlier.items():
            self._columns[name].append(values[index])
        folder = f"{cell_group(self._start + index)}/"
        self._files.update({name: entry for name, entry in record["files"].items() if name.startswith(folder)})

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
                self._write(name, data)
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
        for name in BOUNDS:
            self._columns[name].append(np.full(self._shape, np.nan))
        if WITHIN in self._columns:
            self._columns[WITHIN].append(np.zeros(self._shape, dtype=bool))
        for name in COMPUTED:
            self._columns[name].append(np.array(np.nan))

    def commit(self) -> int:
        """Write the chunks and the commit record; return the bytes written. A `BatchError` where a cell is missing."""
        if self._next != len(self._cells):
            raise BatchError(f"expected {len(self._cells)} cells, got {self._next}")
        head = self._head
        values: dict[str, Any] = {name: np.stack(column) for name, column in self._columns.items()}
        for name, data in encode_chunk(head.settings, head.cells, head.cells_per_batch, self._index, values):
            self._write(name, data)
        head.place.write(record_file(self._index), record_document(head, self._index, self._files, self._failed))
        return self._written

    @property
    def _next(self) -> int:
        return len(self._columns["loss_width"])

    def _write(self, name: str, data: bytes) -> None:
        self._head.place.write(name, data)
        # The digest of the bytes in memory: damage on the disk is found when they are read.
        self._files[name] = {"bytes": len(data), "sha256": digest_of(data)}
        self._written += len(data)

    def _sound_record(self) -> Mapping[str, JsonValue] | None:
        """Return the record of an earlier attempt in which cells failed, if all files that it names are unchanged."""
        head, index = self._head, self._index
        record = commit_record(head, index)
        if not failures_of(record) or record is None or any(changed_files(head, index, record)):
            return None
        return record

    def _chunk(self, name: str) -> FloatArray | BoolArray:
        head = self._head
        document, chunk = f"{name}/zarr.json", chunk_file(name, self._index)
        files = {document: head.place.read(document), chunk: head.place.read(chunk, head.chunk_bytes(name))}
        values = decode(files, name, slice(self._start, self._start + len(self._cells)))
        return np.asarray(values, dtype=bool if name == WITHIN else np.float64)


def read_values(stored: StoredStudy, name: str, selection: Any) -> FloatArray:
    """Return a part of an array of results, as zarr selects it; only the checksums inside the chunks are compared.

    Raises `StoreDamagedError` where it cannot be read.
    """
    return np.asarray(_selected(stored, name, selection), dtype=np.float64)


def read_within(stored: StoredStudy, cells: Any) -> BoolArray:
    """Return where the bounds of some cells meet within the tolerance, over the axes of the bounds.

    A store without `WITHIN` has it computed from the bounds. False where nothing is known.
    """
    if WITHIN in stored.head.results:
        return np.asarray(_selected(stored, WITHIN, cells), dtype=bool)
    return within_tolerance(
        stored.study, *(read_values(stored, name, cells) for name in ("log_delta_lower", "log_delta_upper"))
    )


def read_cell(stored: StoredStudy, cell: int) -> dict[str, FloatArray]:
    """Return the bounds of a cell, each over direction, compositions and ε, and its computed values."""
    return {name: read_values(stored, name, cell) for name in (*BOUNDS, *COMPUTED)}


def _selected(stored: StoredStudy, name: str, selection: Any) -> Any:
    try:
        array = zarr.open_array(stored.place.zarr_store(stored.most_bytes), path=name, mode="r")
        return np.asarray(array[selection])
    except (IrregularError, StoreUnreachableError):
        raise
    except (OSError, ValueError, RuntimeError, KeyError, IndexError) as error:
        text = " ".join(str(error).split())[:200]
        raise StoreDamagedError(
            f"{stored.place.url}: expected readable bounds, got: {text}: run the study again"
        ) from error
