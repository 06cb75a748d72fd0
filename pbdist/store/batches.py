"""Write the results of a batch: states and details first, and then the bounds, which commit it."""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from pbdist.errors import BatchError, StoreMismatchError
from pbdist.results import log_relative_width
from pbdist.store.layout import (
    BOUNDS,
    CHECKSUM,
    DETAILS,
    METADATA,
    QUANTITIES,
    STATES_CHECKSUM,
    WITHIN,
    PartHead,
    bounds_file,
    details_file,
    failures_file,
)
from pbdist.store.open import StoredBatch, checksums, files_checksum
from pbdist.store.place import read_or_none
from pbdist.store.skeleton import attributes_of, digest_of, encode_chunk, group_document
from pbdist.store.states import state_files
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import log_floor
from pbdist.table import BoundsTable
from pbdist.types import BoolArray, FloatArray


class BatchWriter:
    """Writes the results of a batch; takes each cell in order by `add` or `fail`.

    Guaranteed: a batch is committed as a whole, and whoever writes it, and however often, writes the same bytes. A
    `StoreMismatchError` where the store is of another study, or the batch has another number of cells.
    """

    def __init__(self, head: PartHead, index: int, cells: Sequence[Cell]) -> None:
        self._head, self._index, self._cells = head, index, cells
        found = (attributes_of(read_or_none(head.place, METADATA)) or {}).get("study_digest")
        if found != head.digest:
            what = "its zarr.json is gone or cannot be read" if found is None else f"another study, {str(found)[:12]}"
            raise StoreMismatchError(f"{head.place.url}: the store has changed since the run began: {what}")
        if len(cells) != len(head.cells_of(index)):
            raise StoreMismatchError(f"{head.place.url}: batch {index} has other cells")
        self._bounds = np.full((len(cells), len(QUANTITIES), *head.point_shape), np.nan)
        self._details = np.full((len(cells), len(DETAILS)), np.nan)
        self._failed: dict[int, str] = {}
        self._next = self._written = 0

    def add(self, table: BoundsTable) -> None:
        """Take the table of the next cell; its states are written at once, to free their memory.

        A `BatchError` where a bound is NaN, which in a store stands for a cell that is not computed.
        """
        row, cell, settings = self._next, self._cells[self._next], self._head.settings
        values = np.stack([np.asarray(getattr(table, name), dtype=np.float64) for name in BOUNDS])
        if np.isnan(values).any():
            raise BatchError(f"{cell.describe()}: a bound is not a number")
        states = 0.0
        if settings.keep_states:
            digests: dict[str, str] = {}
            for name, data in state_files(self._head, self._head.cells_of(self._index)[row], table):
                self._head.place.write(name, data)
                digests[name] = digest_of(data)
                self._written += len(data)
            states = files_checksum(digests)
        self._bounds[row, : len(BOUNDS)] = values
        within = table.within
        if settings.required_tolerance is not None:
            if within is None:
                # Of a cell with a factor of its own, or without any loss.
                within = within_tolerance(settings, table.log_delta_lower, table.log_delta_upper)
            self._bounds[row, QUANTITIES.index(WITHIN)] = within
        required, missed = judged(settings, cell, table.log_delta_upper, within)
        found = table.factor, table.loss_width, required, missed, states
        self._details[row, : DETAILS.index(STATES_CHECKSUM) + 1] = found
        self._next += 1

    def fail(self, cause: str) -> None:
        """Record that the next cell could not be computed, and why."""
        self._failed[self._head.cells_of(self._index)[self._next]] = " ".join(cause.split())
        self._next += 1

    def commit(self) -> int:
        """Write the files of the batch; return the bytes written. A `BatchError` where a cell is missing."""
        if self._next != len(self._cells):
            raise BatchError(f"expected {len(self._cells)} cells, got {self._next}")
        head, index = self._head, self._index
        self._details[:, DETAILS.index(CHECKSUM)] = checksums(head, index, StoredBatch(self._bounds, self._details))
        if self._failed:
            # Before the bounds that it explains; those of an earlier attempt are explained until there are new ones.
            head.place.write(failures_file(index), failure_document(self._failed))
        for name, values in ((details_file(index), self._details), (bounds_file(index), self._bounds)):
            data = encode_chunk(values, head.cells_per_batch)
            head.place.write(name, data)
            self._written += len(data)
        if not self._failed:
            head.place.remove(failures_file(index))
        return self._written


def failure_document(failed: Mapping[int, str]) -> bytes:
    """Return the file that says which cells of a batch could not be computed, and why."""
    causes = {str(cell): cause for cell, cause in failed.items()}
    return group_document({"failures": causes, "sha256": digest_of(json.dumps(causes, sort_keys=True).encode())})


def judged(settings: StudySpec, cell: Cell, log_upper: FloatArray, within: BoolArray | None) -> tuple[int, int]:
    """Return at how many points of a cell the tolerance is required, and at how many of them it is missed."""
    if within is None or not settings.requires_tolerance_of(cell):
        return 0, 0
    if settings.direction == "both":
        log_upper, within = log_upper.max(axis=0, keepdims=True), within[:1]
    required = log_upper > log_floor(settings)
    return int(np.count_nonzero(required.any(axis=0))), int(np.count_nonzero((required & ~within).any(axis=0)))


def within_tolerance(study: StudySpec, log_lower: FloatArray, log_upper: FloatArray) -> BoolArray:
    """Return where stored bounds meet within the tolerance of a study, or the upper one is at most its floor.

    All arrays have the shape (.., directions, compositions, epsilon). A NaN is not within the tolerance. The result is
    the same for both directions where only the larger one is judged, and False without a tolerance to reach.
    """
    if study.required_tolerance is None:
        return np.zeros(log_upper.shape, dtype=bool)
    lower, upper = log_lower, log_upper
    if study.direction == "both":
        lower, upper = (np.max(side, axis=-3, keepdims=True) for side in (lower, upper))
    with np.errstate(invalid="ignore"):
        met = (log_relative_width(lower, upper) <= study.required_tolerance) | (upper <= log_floor(study))
    return np.array(np.broadcast_to(met & ~np.isnan(lower), log_upper.shape))
