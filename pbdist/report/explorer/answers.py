"""What a page asks for: the bounds of one noise setting along one axis, and verdicts; the same served or embedded."""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.lookup import matches
from pbdist.query.noise_choice import NoiseGroup
from pbdist.report.explorer.snapshot import PartState, Slabs, Snapshot, packed
from pbdist.report.pages.document import command
from pbdist.results import Verdict
from pbdist.store.layout import BOUNDS, WITHIN
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import BoolArray, FloatArray, IntArray, JsonValue


def query_command(snapshot: Snapshot, cell: int) -> str | None:
    """Return the command without r and ε, which are to follow; None where no options tell the setting from others."""
    label = snapshot.columns["mechanism"][cell]
    found = np.flatnonzero(snapshot.columns["mechanism"] == label)
    words = ["pbdist", "query", snapshot.name, f"--mechanism={label}"]
    for name in known_columns():
        if name == "mechanism" or name not in snapshot.columns or found.size == 1:
            continue
        column = snapshot.columns[name]
        mine = column[cell] if is_text(name) else float(column[cell])
        without = mine == "" or (isinstance(mine, float) and math.isnan(mine))
        if without and name != "factor":
            continue
        alike = found[matches(name, column[found], None if without else mine)]
        if alike.size == found.size:
            continue
        found = alike
        words.append(f"--{name.replace('_', '-')}={'auto' if without else mine if is_text(name) else repr(mine)}")
    # It is copied into a terminal.
    return command(*words) if found.size == 1 else None


_DAMAGED = "damaged: its files have changed or are missing"


@dataclass(frozen=True, eq=False)
class CellTables:
    """The bounds of some cells over r and ε, the larger of the two directions."""

    #: By the names of the arrays of a store, over the cells, r and ε. NaN where nothing is stored; lower bounds are NaN
    #: too where none can be known.
    values: dict[str, FloatArray]
    #: Whether the study's tolerance is met there, in both directions.
    within: BoolArray
    #: Of which cells the tolerance is judged.
    judged: BoolArray
    #: Why points of a cell are missing; empty if none is.
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


#: The verdicts by the numbers that pages use.
VERDICTS = (Verdict.YES, Verdict.NO, Verdict.UNDECIDED, Verdict.MISSING)
_YES, _NO, _UNDECIDED, _MISSING = range(4)
#: So many settings are sent to be drawn; all are judged.
_MOST_DRAWN = 400
#: So many on either side of where the verdict changes are among them.
_AROUND = 20


@dataclass(frozen=True, eq=False)
class Judged:
    """The verdicts on the settings of a group, by increasing noise."""

    #: Indices of `VERDICTS`.
    verdicts: IntArray
    #: The position of the least noise whose upper bound is at most δ; None where there is none.
    smallest: int | None
    #: Of the settings with less noise, or of all where `smallest` is None: the position of the most noise whose lower
    #: bound exceeds δ; None where there is none.
    refuted: int | None


def judged(lower: FloatArray, upper: FloatArray, delta: float) -> Judged:
    """Judge settings, by increasing noise, as `pbdist.results.verdict_of` does; a lower bound not known is 0 here."""
    verdicts = np.full(upper.shape, _UNDECIDED, dtype=np.int64)
    with np.errstate(invalid="ignore"):
        verdicts[lower > delta] = _NO
        verdicts[upper <= delta] = _YES
    verdicts[np.isnan(lower) | np.isnan(upper)] = _MISSING
    yes = np.flatnonzero(verdicts == _YES)
    smallest = int(yes[0]) if yes.size else None
    no = np.flatnonzero(verdicts[:smallest] == _NO)
    return Judged(verdicts, smallest, int(no[-1]) if no.size else None)


def judged_as_json(
    group: NoiseGroup, values: Mapping[str, FloatArray], unattained: BoolArray, delta: float
) -> dict[str, JsonValue]:
    """Return the verdicts on a group as a page takes them: counts, the certificate, and points to draw.

    `values` has the bounds of the group's cells; `unattained` says of which cells no lower bound is known.
    """
    found = judged(values["delta_lower"], values["delta_upper"], delta)
    told = {name: np.where(unattained & name.endswith("lower"), np.nan, each) for name, each in values.items()}
    drawn = _drawn(len(group.cells), found)
    cells, amounts = np.array(group.cells), np.array(group.amounts)
    return {
        "counts": [int(np.count_nonzero(found.verdicts == code)) for code in range(len(VERDICTS))],
        "smallest": found.smallest,
        "refuted": found.refuted,
        "positions": packed(drawn),
        "cells": packed(cells[drawn]),
        "amounts": packed(amounts[drawn]),
        "verdicts": packed(found.verdicts[drawn]),
        "of": len(group.cells),
        **{name: packed(each[drawn]) for name, each in told.items()},
    }


def _drawn(count: int, found: Judged) -> IntArray:
    """Return the positions of the settings that are drawn: all, or evenly spaced ones and those that matter."""
    if count <= _MOST_DRAWN:
        return np.arange(count)
    chosen = [np.linspace(0, count - 1, _MOST_DRAWN - 4 * _AROUND - 2).astype(np.int64)]
    chosen += [
        np.arange(max(0, position - _AROUND), min(count, position + _AROUND + 1))
        for position in (found.smallest, found.refuted)
        if position is not None
    ]
    return np.unique(np.concatenate(chosen))


#: The most memory of the tables of single cells that are kept.
_MOST_BYTES = 64 << 20


class Answers:
    """Answers from one state of a store; from any thread, one at a time."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        # Found before the reading begins, which would slow it down.
        self._found = snapshot.groups, snapshot.unattained
        self.slabs = Slabs(snapshot)
        self._tables: OrderedDict[tuple[int, int], CellTables] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the background reading."""
        self.slabs.close()

    def bounds(self, cell: int, *, compositions: int | None = None, epsilon: int | None = None) -> dict[str, JsonValue]:
        """Return the bounds of a cell over ε at one r, or over r at one ε; the one that is given, by its index."""
        with self._lock:
            table = self._table(cell)
        row = np.index_exp[0, :, epsilon] if compositions is None else np.index_exp[0, compositions, :]
        setting = self.snapshot.union.study.cells[cell]
        return {
            "cell": cell,
            "setting": setting.describe(),
            "command": query_command(self.snapshot, cell),
            "gaps": table.gaps[0],
            "within": packed(table.within[row]) if table.judged[0] else None,
            **{name: packed(values[row]) for name, values in table.values.items()},
        }

    def verdicts(self, group: int, compositions: int, epsilon: int, delta: float) -> dict[str, JsonValue]:
        """Return the verdicts on a group at a target, or how much of what they need is read."""
        members = self.snapshot.groups[group]
        values = self.slabs.at(compositions, epsilon, members.cells)
        if values is None:
            return {"progress": self.slabs.progress(compositions, epsilon)}
        return judged_as_json(members, values, self.snapshot.unattained[np.array(members.cells)], delta)

    def _table(self, cell: int) -> CellTables:
        # Read anew after damage was found, which may be in what was read before.
        key = cell, len(self.snapshot.damaged)
        if key not in self._tables:
            found = cell_tables(self.snapshot, [cell])
            size = sum(values.nbytes for values in found.values.values())
            while self._tables and (len(self._tables) + 1) * size > _MOST_BYTES:
                self._tables.popitem(last=False)
            self._tables[key] = found
        self._tables.move_to_end(key)
        return self._tables[key]
