"""One state of a store: which batches it had when it was looked at, its groups of noise settings, what to say of it."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pbdist.errors import StoreDamagedError
from pbdist.mechanisms.columns import is_text
from pbdist.query.noise_choice import NoiseGroup, noise_groups
from pbdist.query.stored import Union
from pbdist.store import (
    Place,
    StoredStudy,
    check_skeleton,
    open_parts,
    place_at,
    read_refinements,
    sizes_of_store,
    survey,
)
from pbdist.store.cell_columns import column_names
from pbdist.store.columns import column_of
from pbdist.store.layout import BOUNDS, COMMITS, EXTENSIONS, LOOSE, REFINEMENTS, WITHIN
from pbdist.types import BoolArray, IntArray

#: So many cells are explored at most.
MOST_CELLS = 1_000_000


@dataclass(frozen=True, eq=False)
class PartState:
    """What a part of a store has.

    Attributes
    ----------
    stored
        The part.
    missing
        Its batches without a sound commit record.
    failed
        The cells that could not be computed, by their row in the part, and why.
    records
        The SHA-256 of the record of each batch, by its number; without those that are missing.
    """

    stored: StoredStudy
    missing: frozenset[int]
    failed: Mapping[int, str]
    records: Mapping[int, str]


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
        self.refined = sum(len(one.compositions) * len(one.epsilon) for one in refinements)
        self.token = self._token()
        self._sound: set[tuple[str, int]] = set()
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
            for cell in self.union.rows(state.stored, state.stored.head.cells_of(batch)).tolist()
        )

    @property
    def damaged(self) -> tuple[tuple[PartState, int], ...]:
        """The batches found so far whose files are not those of their commit records."""
        by_part = {state.stored.part: state for state in self.parts}
        return tuple((by_part[part], batch) for part, batch in sorted(self._damaged.copy()))

    def read(self, state: PartState, batch: int) -> dict[str, Any] | None:
        """Return the bounds of a batch over its cells, and `WITHIN` where the study has a tolerance.

        None where it is not there, or is damaged. What is returned was compared with its record, and that with the one
        of this state of the store: files may be exchanged at any time. A batch that was found damaged once stays so.
        """
        stored, key = state.stored, (state.stored.part, batch)
        if batch in state.missing or self.problem is not None or key in self._damaged:
            return None
        try:
            # All files of the batch, also those that are not shown; once, as there may be many.
            if key in self._sound or stored.results.is_sound(batch):
                self._sound.add(key)
                names = [name for name in stored.head.results if name in (*BOUNDS, WITHIN)]
                found = stored.results.read(batch, names)
                if found is not None and found[0].digest == state.records.get(batch):
                    return found[1]
        except StoreDamagedError:
            pass
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
    """Return a digest of which commit records, parts and refinements a store has: another one tells of a change."""
    place = place_at(name)
    entries = [entry for folder in (COMMITS, EXTENSIONS, REFINEMENTS) for entry in _names(place, folder)]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def _names(place: Place, folder: str) -> list[tuple[str, int]]:
    # Results and states have their checksums in the commit records.
    return sorted(entry for entry in place.names(folder) if entry[0].endswith("zarr.json") or f"{LOOSE}/" in entry[0])


def _part_state(stored: StoredStudy) -> PartState:
    failed: dict[int, str] = {}
    records: dict[int, str] = {}
    damaged: set[int] = set()
    for state in survey(stored.head, sizes_of_store(stored.place)):
        damaged |= state.damaged
        records |= {index: record.digest for index, record in state.batches.items()}
        failed |= {cell: why for record in state.batches.values() for cell, why in record.failed.items()}
    missing = frozenset(range(stored.batches)) - set(records) - damaged
    return PartState(stored, missing, failed, records)
