"""One state of a store: which batches it had when it was looked at, its groups of noise settings, what to say of it."""

import base64
import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pbdist.errors import StoreDamagedError
from pbdist.mechanisms.columns import is_text
from pbdist.query.noise_choice import NoiseGroup, noise_groups
from pbdist.query.settings import neighbours_by_label, neighbours_words
from pbdist.query.stored import Union
from pbdist.rounding import exact
from pbdist.store import (
    StoredStudy,
    check_skeleton,
    open_parts,
    place_at,
    read_refinements,
)
from pbdist.store.layout import BOUNDS, BOUNDS_ARRAY, FAILURES, WITHIN, is_extension
from pbdist.study.columns import column_names, column_of
from pbdist.study.extension import missing_parts
from pbdist.study.spec import exponential, log_floor
from pbdist.types import BoolArray, FloatArray, IntArray, JsonValue

#: So many cells are explored at most.
MOST_CELLS = 1_000_000


@dataclass(frozen=True, eq=False)
class PartState:
    """What a part of a store has."""

    #: The part.
    stored: StoredStudy
    #: Its batches that are not committed.
    missing: frozenset[int]
    #: The cells that could not be computed, by their row in the part, and why.
    failed: Mapping[int, str]


class Snapshot:
    """One state of a store, for reading from several threads.

    A batch that is committed later stays missing in it, so that what is shown fits what is said.

    Attributes
    ----------
    name
        The store as its user names it: for commands and on pages.
    union
        Its parts as one study.
    parts
        What each part has.
    token
        A text that differs from that of any other state.
    refined
        How many points refinements hold, which are not shown.
    problem
        Why nothing can be read; None if something can be.
    """

    def __init__(self, name: str, parts: Sequence[StoredStudy]) -> None:
        self.name = name
        self.union = Union(parts)
        self.parts = tuple(_part_state(stored) for stored in parts)
        self.problem: str | None = None
        try:
            for stored in parts:
                check_skeleton(stored)
        except StoreDamagedError as error:
            self.problem = str(error)
        refinements = read_refinements(parts[0])
        self.refined = sum(one.points for one in refinements)
        self.token = self._token()
        self._damaged: set[tuple[str, int]] = set()

    @property
    def digest(self) -> str:
        """The digest of the study in the first part, which extensions do not change."""
        return self.parts[0].stored.head.digest

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """The columns that describe cells, as arrays with one value a cell; texts are Python's."""
        cells = self.union.study.cells
        return {
            name: np.array(column_of(cells, name), dtype=object if is_text(name) else np.float64)
            for name in (*column_names(cells), "pair")
        }

    @cached_property
    def groups(self) -> tuple[NoiseGroup, ...]:
        """The noise settings, grouped by all but their amount."""
        return noise_groups(self.columns)

    @cached_property
    def unattained(self) -> BoolArray:
        """Which cells have no lower bound, as no change is declared to attain their pairs."""
        cells = self.union.study.cells
        found = np.asarray(self.columns["kind"] == "WorstOf")
        found[found] = [not cells[cell].pair.attained_by_some for cell in np.flatnonzero(found).tolist()]
        return np.asarray(found, dtype=bool)

    @property
    def lacking(self) -> frozenset[int]:
        """The cells of which a batch is missing in some part."""
        return frozenset(
            cell
            for state in self.parts
            for batch in state.missing
            for cell in self.union.rows(state.stored, state.stored.cells_of(batch)).tolist()
        )

    @property
    def damaged(self) -> tuple[tuple[PartState, int], ...]:
        """The batches found so far whose files are damaged."""
        by_part = {state.stored.part: state for state in self.parts}
        return tuple((by_part[part], batch) for part, batch in sorted(self._damaged.copy()))

    def read(self, state: PartState, batch: int) -> dict[str, Any] | None:
        """Return the bounds of a batch over its cells, and `WITHIN` where the study has a tolerance.

        None where it is not there, or is damaged; a batch that was found damaged once stays so.
        """
        stored, key = state.stored, (state.stored.part, batch)
        if batch in state.missing or self.problem is not None or key in self._damaged:
            return None
        with suppress(StoreDamagedError):
            found = stored.read(batch)
            if found is not None:
                names = (*BOUNDS, *([WITHIN] if stored.study.sought is not None else []))
                return {name: found.values(name) for name in names}
        self._damaged.add(key)
        return None

    def rows_of(self, cell: int) -> Iterator[tuple[PartState, int]]:
        """Yield each part that has a cell of the whole study, and the cell's row in it."""
        states = {state.stored.part: state for state in self.parts}
        for stored, row in self.union.rows_of(cell):
            yield states[stored.part], row

    def grid_of(self, stored: StoredStudy) -> tuple[IntArray, IntArray]:
        """Return the indices in the whole study of the r and of the ε of a part."""
        study = self.union.study
        return (
            np.searchsorted(np.array(study.compositions), np.array(stored.study.compositions)),
            np.searchsorted(np.array(study.epsilon), np.array(stored.study.epsilon)),
        )

    def _token(self) -> str:
        state = [
            [each.stored.part, each.stored.head.digest, sorted(each.missing), sorted(each.failed.items())]
            for each in self.parts
        ]
        text = json.dumps([state, self.refined, self.problem])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def take_snapshot(name: str) -> Snapshot:
    """Open the store that a user names, and look what it has; errors as of `pbdist.open_study`."""
    return Snapshot(name, open_parts(name))


def listing_of(name: str) -> str:
    """Return a digest of which parts, batches, failures and refinements a store has: another one tells of a change."""
    place = place_at(name)
    folders = place.folders()
    parts = ["", *(each for each in folders if is_extension(each))]
    paths = [f"{part}/{each}".lstrip("/") for part in parts for each in (BOUNDS_ARRAY, FAILURES)]
    entries = [folders, *(sorted(place.names(path)) for path in paths)]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def _part_state(stored: StoredStudy) -> PartState:
    progress = stored.progress()
    return PartState(stored, frozenset(progress.missing), progress.failed)


#: How arrays are packed: little-endian, by the name under which a page finds them.
_KINDS = {"f": ("f8", "<f8"), "i": ("u4", "<u4"), "u": ("u4", "<u4"), "b": ("u1", "|u1")}
#: What could end a script element or a line of a script, as JSON may write it too.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def packed(values: Any) -> dict[str, JsonValue]:
    """Return an array as base64 of float64, uint32 or (of bool) uint8, in row order, under the name of its kind."""
    array = np.asarray(values)
    name, dtype = _KINDS[array.dtype.kind]
    return {name: base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")}


def embedded_json(value: JsonValue) -> str:
    """Return JSON for a script element of a page: no text in it can end the element or a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


_MOST_TOLD = 5


def contents(snapshot: Snapshot, groups: Sequence[NoiseGroup], left_out: str = "") -> dict[str, JsonValue]:
    """Return the compact index of a store, with some of its groups of noise settings.

    Cells are those of the groups, one after the other, each by increasing noise; `offsets` tells where they begin.
    Numbers of rounds are texts, as some are too large for the numbers of a page.
    """
    study = snapshot.union.study
    return {
        "title": study.name,
        "store": snapshot.name,
        "digest": snapshot.digest[:8],
        "token": snapshot.token,
        "method": study.method,
        "tolerance": study.sought,
        "compositions": [str(r) for r in study.compositions],
        "epsilon": packed(np.array(study.epsilon)),
        "exp_epsilon": packed(np.array([exponential(value) for value in study.epsilon])),
        "labels": [group.label for group in groups],
        "fixed": _fixed(groups),
        "what": [group.what for group in groups],
        "offsets": packed(np.cumsum([0, *(len(group.cells) for group in groups)])),
        "cells": packed(np.array([cell for group in groups for cell in group.cells], dtype=np.int64)),
        "amounts": packed(np.array([amount for group in groups for amount in group.amounts])),
        "notices": list(notices(snapshot)),
        "left_out": left_out,
    }


def notices(snapshot: Snapshot) -> Iterator[dict[str, JsonValue]]:
    """Yield what is to be said of a store before anything of it is shown, each with how bad it is."""
    study = snapshot.union.study
    if snapshot.problem is not None:
        yield _notice("error", f"This store is damaged, and nothing of it is shown: {snapshot.problem}")
        return
    cells, missing = len(study.cells), len(snapshot.lacking)
    if all(len(state.missing) == state.stored.batches for state in snapshot.parts):
        yield _notice("error", "This store is empty: none of its noise settings is computed yet. Run its study.")
    elif missing:
        yield _notice(
            "warning",
            f"This store is not complete: {missing:,} of {_settings(cells)} are not computed yet, or not at all r and"
            " ε. Run its study again, then load this page again.",
        )
    if missing_parts([state.stored.study for state in snapshot.parts], study):
        yield _notice("warning", "This store is not complete: an extension of its study was interrupted.")
    failed = [(state, row, why) for state in snapshot.parts for row, why in sorted(state.failed.items())]
    if failed:
        told = "; ".join(f"{_setting(state, row)}: {why}" for state, row, why in failed[:_MOST_TOLD])
        more = f"; and {len(failed) - _MOST_TOLD:,} more" if len(failed) > _MOST_TOLD else ""
        yield _notice("warning", f"{_settings(len(failed))} could not be computed: {told}{more}.")
    if snapshot.refined:
        yield _notice(
            "note",
            f"Queries have added {snapshot.refined:,} points to this store, and they are not shown here:"
            " pbdist query answers from them too.",
        )
    neighbours = neighbours_by_label(study)
    if any(relation.definite for relation in neighbours.values()):
        words = neighbours_words(neighbours.items())
        yield _notice("note", f"{words[0].upper()}{words[1:]}.")
    if snapshot.unattained.any():
        yield _notice(
            "note",
            f"Of {_settings(int(snapshot.unattained.sum()))} no lower bound is known, as no change is declared"
            " to attain their pairs: nothing refutes them.",
        )


def reading_notices(snapshot: Snapshot, points: int, missed: int) -> Iterator[dict[str, JsonValue]]:
    """Yield what was found while bounds were read: damage, and that the tolerance is missed at some of the points."""
    damaged = snapshot.damaged
    if damaged:
        cells = sum(len(state.stored.cells_of(batch)) for state, batch in damaged)
        yield _notice(
            "error",
            f"Part of this store is damaged: the files of {_settings(cells)} have"
            " changed or are missing. They are left out. Run the study again.",
        )
    if missed:
        yield _notice(
            "note",
            f"The bounds are wider than the study's tolerance, {snapshot.union.study.sought:g}, at {missed:,} of"
            f" {points:,} points read. They hold nevertheless.",
        )


def _settings(count: int) -> str:
    return f"{count:,} noise setting{'' if count == 1 else 's'}"


def _notice(level: str, text: str) -> dict[str, JsonValue]:
    return {"level": level, "text": text}


def _setting(state: PartState, row: int) -> str:
    return state.stored.study.cells[row].describe()


def _fixed(groups: Sequence[NoiseGroup]) -> list[str]:
    """Return for each group what tells it from the others of its label; a cell's number where no parameter does."""
    of_label: dict[str, list[NoiseGroup]] = {}
    for group in groups:
        of_label.setdefault(group.label, []).append(group)
    varying: dict[str, list[str]] = {}
    for label, alike in of_label.items():
        names = dict.fromkeys(name for group in alike for name in group.fixed)
        varying[label] = [name for name in names if len({group.fixed.get(name) for group in alike}) > 1]
        if all(group.fixed.get("noise", group.fixed.get("kind")) == group.fixed.get("kind") for group in alike):
            varying[label] = [name for name in varying[label] if name != "noise"]
    texts = [
        ", ".join(
            f"{name.replace('_', ' ')} {_text(group.fixed[name])}"
            for name in varying[group.label]
            if name in group.fixed
        )
        for group in groups
    ]
    times = Counter(zip((group.label for group in groups), texts, strict=True))
    return [
        text if times[group.label, text] == 1 else f"{text}{', ' if text else ''}setting {group.cells[0]}"
        for group, text in zip(groups, texts, strict=True)
    ]


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else exact(value)


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
        rows = self._snapshot.union.rows(stored, stored.cells_of(batch))
        at = np.ix_(rows, r[its_r] - slab.compositions.start, e[its_e] - slab.epsilon.start)
        return (its_r, its_e), at

    def _judge(self, state: PartState, batch: int, log_upper: FloatArray, within: BoolArray) -> None:
        """Count the points of a batch at which the tolerance was sought, and those at which it was missed."""
        stored, cells = state.stored, state.stored.cells_of(batch)
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
