"""One state of a store as a page needs it: its index, the bounds of its noise settings, and notices about it."""

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from pbdist.mechanisms import noise_order
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.quantities import counted
from pbdist.query import open_study
from pbdist.query.noise_choice import NoiseGroup, noise_groups
from pbdist.query.settings import column_array, neighbours_by_label
from pbdist.query.status import store_status
from pbdist.query.stored import BOTH, PointState
from pbdist.report.pages.answers import neighbours_sentence
from pbdist.report.pages.document import ALARM, command
from pbdist.report.pages.store_report import condition
from pbdist.rounding import exact, exponential
from pbdist.store.layout import BOUNDS
from pbdist.study.columns import CellTable
from pbdist.types import BoolArray, FloatArray, IntArray, JsonValue

#: The most cells that are explored.
MAX_CELLS = 1_000_000
#: The most memory for the bounds of groups that stay in memory.
MAX_BYTES = 256 << 20
#: A group is read in slices: so many cells at most, and so many bytes of bounds, but at least one cell.
_SLICE_CELLS, _SLICE_BYTES = 4096, 16 << 20


class Table(NamedTuple):
    """The bounds of some cells over r and ε, the larger of the two directions."""

    #: The arrays of a store by name, over (cells, r, ε). NaN where no bound is known.
    values: Mapping[str, FloatArray]
    #: The `PointState` of each point.
    states: IntArray


class Snapshot:
    """A store as it was when it was opened, by the name that its user gives it. Of one thread at a time."""

    def __init__(self, name: str, most_bytes: int = MAX_BYTES) -> None:
        self.name = name
        self.study = open_study(name).checked
        self.status = store_status(name)
        #: The cells whose files were found damaged so far.
        self.damaged: set[int] = set()
        parts = [(one.stored.part, one.stored.head.digest, one.progress) for one in self.status.parts]
        state = [(part, digest, one.committed.tolist(), sorted(one.failed)) for part, digest, one in parts]
        #: A text that differs from that of any other state.
        self.token = hashlib.sha256(repr([state, self.status.refined_points]).encode()).hexdigest()[:16]
        of_cell = len(BOUNDS) * 8 * len(self.study.spec.compositions) * len(self.study.spec.epsilon)
        self.cells_per_slice = max(1, min(_SLICE_CELLS, _SLICE_BYTES // of_cell))
        slices = max(1, most_bytes // (of_cell * self.cells_per_slice))
        self._slice = lru_cache(slices)(self._read_slice)

    @property
    def whole(self) -> bool:
        """Whether every setting is computed, and none was found damaged."""
        return self.status.complete and not self.damaged

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """The columns that describe cells, as arrays with one value a cell; texts are Python's."""
        cells = self.study.spec.cells
        return {name: column_array(self.study.spec, name) for name in (*CellTable.of(cells).names, "pair")}

    @cached_property
    def groups(self) -> tuple[NoiseGroup, ...]:
        """The noise settings, grouped by all but their amount."""
        return noise_groups(self.columns)

    @cached_property
    def unattained(self) -> BoolArray:
        """Which cells have no lower bound, as no change is declared to attain their pairs."""
        cells = self.study.spec.cells
        found = np.asarray(self.columns["kind"] == "WorstOf")
        found[found] = [not cells[cell].pair.attained_by_some for cell in np.flatnonzero(found).tolist()]
        return np.asarray(found, dtype=bool)

    def table(self, cells: Sequence[int] | IntArray) -> Table:
        """Return all bounds of some cells; what is damaged is missing."""
        chosen = np.asarray(cells, dtype=np.int64)
        block = self.study.read(chosen)
        self.damaged |= {*chosen[(block.states == PointState.DAMAGED).any(axis=(1, 2))].tolist()}
        larger = block.bounds(~self.unattained[chosen], BOTH)
        return Table({name: larger[name][:, 0] for name in BOUNDS}, block.states)

    def settings(self, cells: Sequence[int], found: Table) -> list[JsonValue]:
        """Return what a page says of each cell: its setting, its command, and why points are missing."""
        causes = {one.setting: one.cause for one in self.status.failed()}
        described: list[JsonValue] = []
        for cell, states in zip(cells, found.states, strict=True):
            one = self.study.spec.cells[cell]
            setting, ordered = one.describe(), noise_order(one.pair) is not None
            why = {
                PointState.MISSING: "not computed yet",
                PointState.FAILED: f"could not be computed: {causes.get(setting, 'its cause is not recorded')}",
                PointState.DAMAGED: "damaged: its files have changed or are missing",
            }
            gaps = "; ".join(text for state, text in why.items() if (states == state).any())
            described.append({"setting": setting, "command": self.command(cell), "gaps": gaps, "ordered": ordered})
        return described

    def command(self, cell: int) -> str | None:
        """Return the `pbdist query` of a cell, without r and ε; None where no options tell it from the others."""
        label = self.columns["mechanism"][cell]
        others = np.flatnonzero(self.columns["mechanism"] == label)
        words = ["pbdist", "query", self.name, f"--mechanism={label}"]
        for name in known_columns():
            if name == "mechanism" or name not in self.columns or others.size == 1:
                continue
            values, own = self.columns[name][others], self.columns[name][cell]
            absent = own == "" if is_text(name) else math.isnan(own)
            equal = np.isnan(values) if absent and not is_text(name) else values == own
            # Of what a mechanism does not have, only a factor has a word.
            if not equal.all() and (not absent or name == "factor"):
                others = others[equal]
                words.append(f"{_option(name)}={'auto' if absent else own if is_text(name) else repr(float(own))}")
        # It is copied into a terminal.
        return command(*words) if others.size == 1 else None

    def _read_slice(self, group: int, start: int) -> Table:
        # In the order of the study, as batches are.
        return self.table(np.sort(self.groups[group].cells)[start : start + self.cells_per_slice])

    def group(self, group: int, compositions: int, epsilon: int, start: int) -> dict[str, JsonValue]:
        """Return the bounds of a slice of a group's cells, by increasing number, at an r and an ε by their indices."""
        values = self._slice(group, start).values
        found = {name: packed(values[name][:, compositions, epsilon]) for name in BOUNDS}
        return {**found, "notices": self.damage_notices()}

    def index(self, groups: Sequence[NoiseGroup], left_out: str = "") -> dict[str, JsonValue]:
        """Return the compact index of the store, with some of its groups of noise settings.

        Cells are those of the groups, one after the other, each by increasing noise; `offsets` says where they begin.
        Numbers of rounds are texts, as some are too large for the numbers of a page.
        """
        study = self.study.spec
        cells, amounts = ([one for group in groups for one in getattr(group, name)] for name in ("cells", "amounts"))
        r, e = study.compositions, study.epsilon
        return {
            "title": study.name,
            "store": self.name,
            "digest": self.study.parts[0].head.digest[:8],
            "token": self.token,
            "method": study.method,
            "tolerance": study.required_tolerance,
            "compositions": [str(value) for value in r],
            "epsilon": packed(np.array(e)),
            "exp_epsilon": packed(np.array([exponential(value) for value in e])),
            "targets": [
                [r.index(one.compositions), e.index(one.epsilon), one.delta]
                for one in study.targets
                if one.compositions in r and one.epsilon in e
            ],
            "labels": [group.label for group in groups],
            "fixed": _fixed(groups),
            "what": [group.what for group in groups],
            "option": self._amount_options(groups),
            "offsets": packed(np.cumsum([0, *(len(group.cells) for group in groups)])),
            "cells": packed(np.array(cells, dtype=np.int64)),
            "amounts": packed(np.array(amounts)),
            "notices": self.notices(),
            "left_out": left_out,
        }

    def _amount_options(self, groups: Sequence[NoiseGroup]) -> list[str]:
        """Return for each group the option of `pbdist query` that gives its amount of noise; empty where none does."""
        numbers = [name for name in known_columns() if name in self.columns and not is_text(name)]
        # Groups of one label and one kind of noise have the same.
        found = {}
        for one in {(group.label, group.what): group for group in groups}.values():
            cells = np.array(one.cells)
            equal = (name for name in numbers if np.array_equal(self.columns[name][cells], one.amounts))
            found[one.label, one.what] = next(map(_option, equal), "") if one.what else ""
        return [found[group.label, group.what] for group in groups]

    def notices(self) -> list[dict[str, JsonValue]]:
        """Return what a page says of the store before anything of it is shown, each with how bad it is."""
        found = [
            ("error" if one.kind == ALARM else "note", " ".join((f"{one.title}.", *one.items)))
            for one in condition(self.status, self.study)
        ]
        notes = [neighbours_sentence(neighbours_by_label(self.study.spec))]
        if self.status.refined_points:
            notes.append(
                f"Queries have added {counted(self.status.refined_points, 'point')} that this page does not show:"
                " pbdist query answers from them too."
            )
        if self.unattained.any():
            notes.append(
                f"Of {counted(int(self.unattained.sum()), 'noise setting')} no lower bound is known, as no change is"
                " declared to attain their pairs: nothing refutes them."
            )
        return [{"level": level, "text": text} for level, text in (*found, *(("note", one) for one in notes if one))]

    def damage_notices(self) -> list[dict[str, JsonValue]]:
        """Return what was found damaged while bounds were read."""
        if not self.damaged:
            return []
        text = (
            f"Part of this store is damaged: the files of {counted(len(self.damaged), 'noise setting')} have changed"
            " or are missing. They are left out. Run the study again with --check."
        )
        return [{"level": "error", "text": text}]


#: How arrays are packed: little-endian, by the name under which a page finds them.
_KINDS = {"f": ("f8", "<f8"), "i": ("u4", "<u4"), "u": ("u4", "<u4"), "b": ("u1", "|u1")}


def packed(values: Any) -> dict[str, JsonValue]:
    """Return an array as base64 of float64, uint32 or (of bool) uint8, in row order, under the name of its kind."""
    array = np.asarray(values)
    name, dtype = _KINDS[array.dtype.kind]
    return {name: base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")}


def tables_as_json(found: Table) -> dict[str, JsonValue]:
    """Return the bounds of some cells as a page takes them."""
    return {name: packed(values) for name, values in found.values.items()}


def _option(column: str) -> str:
    return f"--{column.replace('_', '-')}"


def _fixed(groups: Sequence[NoiseGroup]) -> list[str]:
    """Return for each group what tells it from the others of its label; a cell's number where no parameter does."""
    values: dict[tuple[str, str], set[object]] = {}
    for group in groups:
        for name in known_columns():
            values.setdefault((group.label, name), set()).add(group.fixed.get(name))
    texts = []
    for group in groups:
        varying = [name for name in group.fixed if len(values[group.label, name]) > 1]
        written = ((name.replace("_", " "), group.fixed[name]) for name in varying)
        texts.append(", ".join(f"{name} {one if isinstance(one, str) else exact(one)}" for name, one in written))
    times = Counter((group.label, text) for group, text in zip(groups, texts, strict=True))
    return [
        text if times[group.label, text] == 1 else f"{text}{', ' if text else ''}setting {group.cells[0]}"
        for group, text in zip(groups, texts, strict=True)
    ]
