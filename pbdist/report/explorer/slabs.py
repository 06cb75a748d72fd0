"""The bounds of all cells at one r and ε, read once in the background; its memory is bounded."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdist.report.explorer.snapshot import PartState, Snapshot
from pbdist.store.layout import BOUNDS, WITHIN
from pbdist.study.spec import log_floor
from pbdist.types import BoolArray, FloatArray, IntArray

#: The most memory of the bounds that are kept, unless one r and ε take more.
MOST_BYTES = 256 << 20

_Key = tuple[int, ...]


@dataclass(eq=False)
class _Slab:
    """The bounds of all cells at some r and ε, the larger of the two directions; NaN where not read or not there."""

    compositions: slice
    epsilon: slice
    values: dict[str, FloatArray]
    left: set[tuple[int, int]] = field(default_factory=set)
    emptied: set[tuple[int, int]] = field(default_factory=set)


class Slabs:
    """Reads bounds of all cells of a store, in a thread of its own, batch by batch.

    If the whole table fits into `most_bytes` it is read once. Otherwise it is read for one r, or for one r and ε, at a
    time, and the ones used last are kept.

    Attributes
    ----------
    points, missed
        At how many points of the batches read the tolerance was sought, and at how many it was missed.
    """

    def __init__(self, snapshot: Snapshot, most_bytes: int = MOST_BYTES) -> None:
        self._snapshot = snapshot
        study = snapshot.union.study
        self._cells, self._r, self._e = len(study.cells), len(study.compositions), len(study.epsilon)
        of_point = len(BOUNDS) * 8 * self._cells
        whole = self._r * self._e
        self._axes = 0 if of_point * whole <= most_bytes else 1 if of_point * self._e <= most_bytes else 2
        points = (whole, self._e, 1)[self._axes]
        self._most = max(1, most_bytes // (of_point * points))
        self._slabs: OrderedDict[_Key, _Slab] = OrderedDict()
        self._first: list[tuple[int, int]] = []
        self._judged: set[tuple[int, int]] = set()
        self.points = self.missed = 0
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="pbdist-explorer-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def progress(self, compositions: int, epsilon: int) -> float:
        """Return which part of what is needed for an r and an ε, by their indices, is read; begin to read it."""
        with self._changed:
            slab = self._wanted(compositions, epsilon)
            total = sum(state.stored.batches for state in self._snapshot.parts)
            return 1.0 - len(slab.left) / total

    def at(self, compositions: int, epsilon: int, cells: Sequence[int]) -> dict[str, FloatArray] | None:
        """Return the bounds of some cells at an r and an ε; None while they are being read, these cells first."""
        chosen = np.array(cells, dtype=np.int64)
        batches = self._batches_of(chosen)
        with self._changed:
            slab = self._wanted(compositions, epsilon)
            waiting = [batch for batch in batches if batch in slab.left]
            if waiting:
                self._first = waiting
                return None
            self._empty_damaged(slab)
            r, e = compositions - slab.compositions.start, epsilon - slab.epsilon.start
            return {name: values[chosen, r, e] for name, values in slab.values.items()}

    def _wanted(self, r: int, e: int) -> _Slab:
        key = (r, e)[: self._axes]
        if key not in self._slabs:
            while len(self._slabs) >= self._most:
                self._slabs.popitem(last=False)
            rows = slice(0, self._r) if self._axes == 0 else slice(r, r + 1)
            columns = slice(e, e + 1) if self._axes == 2 else slice(0, self._e)
            shape = self._cells, rows.stop - rows.start, columns.stop - columns.start
            slab = _Slab(rows, columns, {name: np.full(shape, np.nan) for name in BOUNDS})
            slab.left = {
                (part, batch)
                for part, state in enumerate(self._snapshot.parts)
                for batch in range(state.stored.batches)
            }
            self._slabs[key] = slab
        self._slabs.move_to_end(key)
        self._changed.notify_all()
        return self._slabs[key]

    def _batches_of(self, cells: IntArray) -> list[tuple[int, int]]:
        found = []
        for part, state in enumerate(self._snapshot.parts):
            stored = state.stored
            rows = self._snapshot.union.rows(stored, range(len(stored.study.cells)))
            batches = np.unique(np.flatnonzero(np.isin(rows, cells)) // stored.cells_per_batch)
            found += [(part, batch) for batch in batches.tolist()]
        return found

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._ended and not any(slab.left for slab in self._slabs.values()):
                    self._changed.wait()
                if self._ended:
                    return
                # The one asked for last.
                slab = next(slab for slab in reversed(self._slabs.values()) if slab.left)
                at = next((batch for batch in self._first if batch in slab.left), None) or min(slab.left)
            part, batch = at
            self._read(slab, part, batch)
            with self._changed:
                slab.left.discard(at)

    def _read(self, slab: _Slab, part: int, batch: int) -> None:
        """Read a batch into a slab; nothing where it is not sound."""
        state = self._snapshot.parts[part]
        read = self._snapshot.read(state, batch)
        if read is None:
            return
        if WITHIN in read and (part, batch) not in self._judged:
            self._judge(state, batch, read["log_delta_upper"], read[WITHIN])
            self._judged.add((part, batch))
        (r, e), at = self._places(slab, state, batch)
        for name in BOUNDS:
            # NaN in either direction is NaN in the maximum.
            slab.values[name][at] = read[name].max(axis=1)[:, r][:, :, e]

    def _empty_damaged(self, slab: _Slab) -> None:
        """Remove what was read of batches before they were found damaged: a curve has a gap there too."""
        for state, batch in self._snapshot.damaged:
            key = self._snapshot.parts.index(state), batch
            # Those that are left will find nothing.
            if key not in slab.left and key not in slab.emptied:
                slab.emptied.add(key)
                _, at = self._places(slab, state, batch)
                for values in slab.values.values():
                    values[at] = np.nan

    def _places(self, slab: _Slab, state: PartState, batch: int) -> tuple[tuple[IntArray, IntArray], Any]:
        """Return which of a part's r and ε a slab has, and where in the slab the batch's values at them stand."""
        stored = state.stored
        r, e = self._snapshot.grid_of(stored)
        its_r, its_e = (
            np.flatnonzero((grid >= part_of.start) & (grid < part_of.stop))
            for grid, part_of in ((r, slab.compositions), (e, slab.epsilon))
        )
        rows = self._snapshot.union.rows(stored, stored.head.cells_of(batch))
        at = np.ix_(rows, r[its_r] - slab.compositions.start, e[its_e] - slab.epsilon.start)
        return (its_r, its_e), at

    def _judge(self, state: PartState, batch: int, log_upper: FloatArray, within: BoolArray) -> None:
        """Count the points of a batch at which the tolerance was sought, and those at which it was missed."""
        stored, cells = state.stored, state.stored.head.cells_of(batch)
        rows = self._snapshot.union.rows(stored, cells)
        # That no lower bound is known is a notice of its own.
        own = np.isnan(self._snapshot.columns["factor"][rows]) & ~self._snapshot.unattained[rows]
        with np.errstate(invalid="ignore"):
            if stored.study.direction == "both":
                asked = (log_upper.max(axis=1) > log_floor(stored.study))[:, None]
            else:
                asked = log_upper > log_floor(stored.study)
        asked = asked & own[:, None, None, None]
        wide = asked & ~within[:, : asked.shape[1]]
        self.points += int(np.count_nonzero(asked.any(axis=1)))
        self.missed += int(np.count_nonzero(wide.any(axis=1)))
