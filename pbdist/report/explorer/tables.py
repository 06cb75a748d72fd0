"""The bounds of some noise settings, as they are stored: the larger of the two directions, gaps where nothing is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pbdist.report.explorer.snapshot import PartState, Snapshot
from pbdist.store.layout import BOUNDS, WITHIN
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import BoolArray, FloatArray

_DAMAGED = "damaged: its files have changed or are missing"


@dataclass(frozen=True, eq=False)
class CellTables:
    """The bounds of some cells over r and ε, the larger of the two directions.

    Attributes
    ----------
    values
        By the names of the arrays of a store, over the cells, r and ε. NaN where nothing is stored; lower bounds are
        NaN too where none can be known.
    within
        Whether the study's tolerance is met there, in both directions.
    judged
        Of which cells the tolerance is judged.
    gaps
        Why points of a cell are missing; empty if none is.
    """

    values: dict[str, FloatArray]
    within: BoolArray
    judged: BoolArray
    gaps: tuple[str, ...]

    def missed(self, study: StudySpec) -> tuple[int, int]:
        """Return at how many points the tolerance was sought, and at how many it was missed."""
        upper = self.values["log_delta_upper"]
        # That no lower bound is known is a notice of its own.
        computed = self.judged[:, None, None] & ~np.isnan(upper) & ~np.isnan(self.values["log_delta_lower"])
        # What is at most the floor is within.
        missed = computed & ~self.within
        return int(np.count_nonzero(missed | (computed & (upper > log_floor(study))))), int(np.count_nonzero(missed))


class _Filled(NamedTuple):
    """Arrays over some cells, and at which positions of them there is something to fill in."""

    values: dict[str, FloatArray]
    within: BoolArray
    positions: Sequence[int]


def cell_tables(snapshot: Snapshot, cells: Sequence[int]) -> CellTables:
    """Return all bounds of some cells of the whole study; each batch is read once."""
    study = snapshot.union.study
    shape = len(cells), len(study.compositions), len(study.epsilon)
    values = {name: np.full(shape, np.nan) for name in BOUNDS}
    within = np.zeros(shape, dtype=bool)
    judged = np.isnan(snapshot.columns["factor"][list(cells)]) & (study.sought is not None)
    causes: list[dict[str, None]] = [{} for _ in cells]
    for (state, batch), found in _batches(snapshot, cells).items():
        positions, rows = (list(each) for each in zip(*found, strict=True))
        cause = _read(snapshot, state, batch, rows, _Filled(values, within, positions))
        for position, row in zip(positions, rows, strict=True):
            if cause is not None:
                causes[position][cause] = None
            elif row in state.failed:
                causes[position][f"could not be computed: {state.failed[row]}"] = None
    unattained = snapshot.unattained[list(cells)]
    for name in ("delta_lower", "log_delta_lower"):
        values[name][unattained] = np.nan
    missing = np.isnan(values["delta_upper"]).any(axis=(1, 2))
    gaps = tuple(_told(cause, bool(lacks)) for cause, lacks in zip(causes, missing, strict=True))
    return CellTables(values, within, judged, gaps)


def _batches(snapshot: Snapshot, cells: Sequence[int]) -> dict[tuple[PartState, int], list[tuple[int, int]]]:
    """Return for each batch that has some of the cells their positions among the cells, and their rows in the part."""
    found: dict[tuple[PartState, int], list[tuple[int, int]]] = {}
    for position, cell in enumerate(cells):
        for state, row in snapshot.rows_of(cell):
            found.setdefault((state, row // state.stored.cells_per_batch), []).append((position, row))
    return found


def _read(snapshot: Snapshot, state: PartState, batch: int, rows: Sequence[int], filled: _Filled) -> str | None:
    """Fill in what a batch has of some rows of its part; return why it has nothing, None if it has."""
    if snapshot.problem is not None:
        return "the store is damaged"
    if batch in state.missing:
        return "not computed yet"
    read = snapshot.read(state, batch)
    if read is None:
        return _DAMAGED
    chosen = np.array(rows) - state.stored.head.cells_of(batch).start
    at = np.ix_(np.array(filled.positions), *snapshot.grid_of(state.stored))
    for name in BOUNDS:
        # NaN in either direction is NaN in the maximum.
        filled.values[name][at] = read[name][chosen].max(axis=1)
    if WITHIN in read:
        filled.within[at] = read[WITHIN][chosen].all(axis=1)
    return None


def _told(causes: dict[str, None], lacks: bool) -> str:
    if not causes and lacks:
        return "not all r and ε of this noise setting are computed yet"
    return "; ".join(causes)
