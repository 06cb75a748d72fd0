"""How far a store is, and what it holds: mechanisms with the values of their parameters, grids, gaps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from pbdist.errors import InvalidInputError, OffGridError, StoreDamagedError, shown
from pbdist.mechanisms.columns import known_columns
from pbdist.query.judging import Precision, precision_as_json, recorded_precision
from pbdist.query.lookup import is_set
from pbdist.query.settings import neighbours_by_label
from pbdist.query.study import Study
from pbdist.store import (
    StoreCheck,
    StoredStudy,
    check_store,
    holder,
    open_parts,
    place_at,
    read_refinements,
)
from pbdist.store.layout import STORE_FORMAT
from pbdist.study import StudySpec
from pbdist.study.columns import column_of, columns_of
from pbdist.study.spec import exponential, missing_parts
from pbdist.suggestions import did_you_mean
from pbdist.tables import Cell, Column, Sheet, Shown, Value, text_of
from pbdist.types import Adjacency, JsonValue


class MissingBatch(NamedTuple):
    """A batch that is not committed: its number, its first cell, and the one after its last."""

    batch: int
    first: int
    stop: int


class FailedCell(NamedTuple):
    """A cell that could not be computed, and why, on one line."""

    cell: int
    cause: str


@dataclass(frozen=True)
class PartStatus:
    """One part of a store."""

    #: The part.
    stored: StoredStudy
    #: Batches that are not committed.
    missing: tuple[MissingBatch, ...]
    #: Cells that could not be computed.
    failed: tuple[FailedCell, ...]
    #: Of each committed batch, at how many points the tolerance was sought, and at how many of them it was missed.
    judged: Mapping[int, tuple[int, int]]

    @property
    def cells(self) -> int:
        """All cells of the part."""
        return len(self.stored.study.cells)

    @property
    def cells_missing(self) -> int:
        """Cells of the missing batches."""
        return sum(batch.stop - batch.first for batch in self.missing)

    def setting(self, cell: int) -> str:
        """Return the setting of a cell as text, also of one that is damaged."""
        try:
            return self.stored.study.cells[cell].describe()
        except StoreDamagedError:
            return "a noise setting that cannot be read"


@dataclass(frozen=True)
class StoreStatus:
    """What was found."""

    #: The path or URL.
    store: str
    #: In the order in which they were added.
    parts: tuple[PartStatus, ...]
    #: Number and bytes of all files.
    files: int
    size: int
    #: The process that writes to the store, or None.
    driver: str | None
    #: What reading every file has found; None where files were not read.
    check: StoreCheck | None
    #: What queries have added to the store: documents, and points in them.
    refinements: int
    refined_points: int
    #: How far the tolerance was reached in what is committed; None where the study has none.
    precision: Precision | None

    @property
    def cells(self) -> int:
        """Cells of all parts."""
        return sum(part.cells for part in self.parts)

    @property
    def cells_missing(self) -> int:
        """Cells of the missing batches."""
        return sum(part.cells_missing for part in self.parts)

    @property
    def cells_failed(self) -> int:
        """Cells that could not be computed."""
        return sum(len(part.failed) for part in self.parts)

    @property
    def points(self) -> dict[str, int]:
        """How many points (cell, r, ε) there are in all parts, computed, missing, and failed.

        Of a study that was extended by an ε these count what is there; its cells are in several parts.
        """
        counts = [
            np.multiply(
                [one.cells, one.cells - one.cells_missing - len(one.failed), one.cells_missing, len(one.failed)],
                len(one.stored.study.compositions) * len(one.stored.study.epsilon),
            )
            for one in self.parts
        ]
        return dict(zip(("all", "computed", "missing", "failed"), np.sum(counts, axis=0).tolist(), strict=True))

    @property
    def batches(self) -> int:
        """Batches of all parts."""
        return sum(part.stored.batches for part in self.parts)

    @property
    def batches_missing(self) -> int:
        """Batches that are not committed."""
        return sum(len(part.missing) for part in self.parts)

    @property
    def parts_missing(self) -> tuple[str, ...]:
        """The parts that the root lists, but that are not there."""
        there = {part.stored.part for part in self.parts}
        return tuple(part for part in self.parts[0].stored.extensions if part not in there)

    @property
    def complete(self) -> bool:
        """Whether every cell is committed, as far as the names of the files tell."""
        return self.cells_missing == self.cells_failed == 0 and not self.parts_missing

    @property
    def passed(self) -> bool:
        """Whether the store is complete and, where its files were read, each is what it was when it was written."""
        return self.complete and (self.check is None or self.check.healthy)

    def as_json(self) -> dict[str, JsonValue]:
        """Return everything in the types of JSON."""
        first, sought = self.parts[0].stored, self.parts[0].stored.study.required_tolerance
        missing, failed = self.cells_missing, self.cells_failed
        return {
            "store": self.store,
            "study": first.study.name,
            "digest": first.head.digest,
            "format": STORE_FORMAT,
            "complete": self.complete,
            "healthy": None if self.check is None else self.check.healthy,
            "driver": self.driver,
            "points": self.points,
            "cells": {"all": self.cells, "committed": self.cells - missing - failed}
            | {"missing": missing, "failed": failed},
            "batches": {"all": self.batches, "missing": self.batches_missing},
            "refinements": {"all": self.refinements, "points": self.refined_points},
            "precision": None
            if self.precision is None or sought is None
            else precision_as_json(sought, self.precision),
            "files": self.files,
            "bytes": self.size,
            "parts": [
                {
                    "part": part.stored.part,
                    "digest": part.stored.head.digest,
                    "cells": part.cells,
                    "compositions": len(part.stored.study.compositions),
                    "epsilon": len(part.stored.study.epsilon),
                    "batches": part.stored.batches,
                    "cells_per_batch": part.stored.cells_per_batch,
                }
                for part in self.parts
            ],
            "parts_missing": list(self.parts_missing),
            "failed": [
                {"part": part.stored.part, **item._asdict(), "setting": part.setting(item.cell)}
                for part in self.parts
                for item in part.failed
            ],
            "missing": [
                {
                    "part": part.stored.part,
                    **item._asdict(),
                    "settings": [part.setting(item.first), part.setting(item.stop - 1)],
                }
                for part in self.parts
                for item in part.missing
            ],
            "damaged": [{"file": name, "problem": what} for name, what in (self.check.damaged if self.check else ())],
            "strays": list(self.check.strays if self.check else ()),
        }


def store_status(where: str | Path, *, check: bool = False) -> StoreStatus:
    """Return how far a store is. Nothing is computed or written, and a driver that is at work is not disturbed.

    Parameters
    ----------
    where
        The path or URL of the store.
    check
        Whether to read every file too and compare it with its checksum.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_parts`.
    OSError
        The store cannot be reached.
    """
    place = place_at(where)
    parts = open_parts(place)
    sizes = dict(place.names())
    refinements = read_refinements(parts[0])
    found = tuple(part_status(stored, sizes) for stored in parts)
    return StoreStatus(
        store=place.url,
        parts=found,
        files=len(sizes),
        size=sum(sizes.values()),
        driver=holder(place),
        check=check_store(place) if check else None,
        refinements=len(refinements),
        refined_points=sum(one.points for one in refinements),
        precision=None
        if parts[0].study.required_tolerance is None
        else recorded_precision(
            (part.stored, part.stored.cells_of(index), *counts)
            for part in found
            for index, counts in part.judged.items()
        ),
    )


def part_status(stored: StoredStudy, sizes: Mapping[str, int] | None = None) -> PartStatus:
    """Return how far a part is, by a listing of the store, if one is given, and how its cells meet the tolerance."""
    start = f"{stored.part}/" if stored.part else ""
    own = None if sizes is None else {n.removeprefix(start): size for n, size in sizes.items() if n.startswith(start)}
    progress = stored.progress(own)
    missing = tuple(
        MissingBatch(index, cells.start, cells.stop) for index in progress.missing for cells in [stored.cells_of(index)]
    )
    failed = tuple(FailedCell(cell, cause) for cell, cause in sorted(progress.failed.items()))
    return PartStatus(stored, missing, failed, stored.judged(progress) if stored.study.requires_tolerance else {})


@dataclass(frozen=True)
class MechanismContents:
    """The settings of one label and one kind.

    Attributes
    ----------
    label, kind
        The name that the study gives the mechanism, and what it is.
    settings
        How many noise settings (cells) it has.
    missing, failed
        How many of them are not computed yet, and could not be computed: at some points, or at all.
    parameters
        The values of each parameter that any of them has, increasing; None where a setting has none, or, as a factor,
        an automatic one. Not every combination need be there.
    adjacency
        For which neighbours the mechanisms of the label are.
    """

    label: str
    kind: str
    settings: int
    missing: int
    failed: int
    parameters: Mapping[str, tuple[float | str | None, ...]]
    adjacency: Adjacency = Adjacency.AS_STATED

    @property
    def computed(self) -> int:
        """The settings that are computed at all their points."""
        return self.settings - self.missing - self.failed


#: What a study says of all its cells.
_FACTS = ("method", "tolerance", "buckets", "floor", "direction", "keep_states")


@dataclass(frozen=True)
class StudyContents:
    """What the store of a study holds.

    Attributes
    ----------
    store, name
        Path or URL of the store; the name of the study.
    study
        What it computes: grids, method, tolerance.
    mechanisms
        In the order of the study.
    parts
        How many studies the store is made of: 1, and one for each extension.
    refinements, refined_points
        What queries have added: documents, and points in them.
    refined_settings
        The settings of these points, as text.
    complete
        Whether every point of these mechanisms is computed, as far as the names of the files tell.
    """

    store: str
    name: str
    study: StudySpec
    mechanisms: tuple[MechanismContents, ...]
    parts: int
    refinements: int
    refined_points: int
    refined_settings: tuple[str, ...]
    complete: bool

    @property
    def settings(self) -> int:
        """The number of noise settings (cells)."""
        return sum(one.settings for one in self.mechanisms)

    @property
    def missing(self) -> int:
        """Settings that are not computed yet, at some points or at all."""
        return sum(one.missing for one in self.mechanisms)

    @property
    def failed(self) -> int:
        """Settings that could not be computed."""
        return sum(one.failed for one in self.mechanisms)

    def __str__(self) -> str:
        """Return it as `pbdist query STORE` prints it."""
        return str(contents_sheet(self))

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        return contents_sheet(self)._repr_html_()

    def of(self, label: str | None) -> Self:
        """Return the same with one mechanism alone, or with all of them for None.

        Raises
        ------
        InvalidInputError
            There is no mechanism of that label.
        """
        known = list(dict.fromkeys(one.label for one in self.mechanisms))
        if label is not None and label not in known:
            raise InvalidInputError(
                f"mechanism: expected one of {', '.join(map(shown, known))}, got {shown(label)}"
                f"{did_you_mean(label, known)}"
            )
        if label is None:
            return self
        kept = tuple(one for one in self.mechanisms if one.label == label)
        return replace(self, mechanisms=kept, complete=all(one.computed == one.settings for one in kept))

    @property
    def _grids(self) -> dict[str, Sequence[float]]:
        powers = [exponential(value) for value in self.study.epsilon]
        return {"compositions": self.study.compositions, "epsilon": self.study.epsilon, "exp_epsilon": powers}

    def as_json(self) -> dict[str, JsonValue]:
        """Return everything, with all values, in the types of JSON; None for an e^ε that no float holds."""
        grids = {name: [one if math.isfinite(one) else None for one in values] for name, values in self._grids.items()}
        return {
            "store": self.store,
            "study": self.name,
            "digest": self.study.digest,
            "complete": self.complete,
            **{name: getattr(self.study, name) for name in _FACTS},
            **grids,
            "settings": {"all": self.settings, "missing": self.missing, "failed": self.failed},
            "parts": self.parts,
            "refinements": {
                "all": self.refinements,
                "points": self.refined_points,
                "settings": list(self.refined_settings),
            },
            "mechanisms": [
                {
                    "mechanism": one.label,
                    "kind": one.kind,
                    "adjacency": one.adjacency.value,
                    "settings": {"all": one.settings, "missing": one.missing, "failed": one.failed},
                    "parameters": {name: list(values) for name, values in one.parameters.items()},
                }
                for one in self.mechanisms
            ],
        }


def contents_of(opened: Study) -> StudyContents:
    """Return what a store holds, by its parts as one study, how far each part is, and what queries have added."""
    study, refinements = opened.spec, read_refinements(opened.parts[0])
    absent, failed = np.zeros(len(study.cells), dtype=bool), np.zeros(len(study.cells), dtype=bool)
    if len(opened.parts) > 1:
        index = {cell: number for number, cell in enumerate(study.cells)}
        for part in missing_parts([stored.study for stored in opened.parts], study):
            absent[[index[cell] for cell in part.cells]] = True
    for each in map(part_status, opened.parts):
        for batch in each.missing:
            absent[opened.numbers(each.stored, range(batch.first, batch.stop))] = True
        for item in each.failed:
            failed[opened.numbers(each.stored, range(item.cell, item.cell + 1))] = True
    columns = columns_of(study.cells)
    groups: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(columns["mechanism"], columns["kind"], strict=True)):
        groups.setdefault(key, []).append(row)
    neighbours = neighbours_by_label(study)
    mechanisms = tuple(
        MechanismContents(
            label=str(label),
            kind=str(kind),
            settings=len(rows),
            missing=int(np.count_nonzero(absent[rows] & ~failed[rows])),
            failed=int(np.count_nonzero(failed[rows])),
            parameters=dict(_parameters(columns, rows)),
            adjacency=neighbours[str(label)],
        )
        for (label, kind), rows in groups.items()
    )
    return StudyContents(
        store=opened.where,
        name=study.name,
        study=study,
        mechanisms=mechanisms,
        parts=len(opened.parts),
        refinements=len(refinements),
        refined_points=sum(one.points for one in refinements),
        refined_settings=tuple(dict.fromkeys(one.cell.describe() for one in refinements)),
        complete=not absent.any() and not failed.any(),
    )


def _parameters(
    columns: Mapping[str, Sequence[float | str]], rows: Sequence[int]
) -> Iterator[tuple[str, tuple[float | str | None, ...]]]:
    for name in known_columns():
        if name in ("mechanism", "kind") or name not in columns:
            continue
        column = columns[name]
        found = {column[row] if is_set(column[row]) else None for row in rows}
        values = sorted(
            (value for value in found if value is not None), key=lambda value: (isinstance(value, str), value)
        )
        if values:
            yield name, (*([None] if None in found else []), *values)


#: Of longer lists of values print has the ends and the number.
_MAX_LISTED = 8


def contents_sheet(contents: StudyContents) -> Sheet:
    """Return what a store holds as a sheet: rows of the study first, which have no mechanism; in CSV all values."""
    study = contents.study
    # Only a tolerance has a floor, and is sought in some direction.
    names = [name for name in _FACTS if study.required_tolerance is not None or name not in ("floor", "direction")]
    facts: dict[str, Value] = {"study": contents.name, "complete": contents.complete}
    facts |= {name: getattr(study, name) for name in names}
    rows: list[tuple[str, str, int | None, Cell]] = [
        *(("", name, None, Shown(text_of(fact), _plain(fact))) for name, fact in facts.items() if fact is not None),
        *(("", name, len(values), _values(values, name)) for name, values in contents._grids.items()),
        ("", "settings", contents.settings, _progress(contents)),
        ("", "parts", contents.parts, None),
        ("", "refined_points", contents.refined_points, _values(contents.refined_settings, "refined")),
    ]
    for one in contents.mechanisms:
        rows += [
            (one.label, "kind", None, one.kind),
            (one.label, "neighbours", None, Shown(one.adjacency.in_words, one.adjacency.value)),
            (one.label, "settings", one.settings, _progress(one)),
            *((one.label, name, len(values), _values(values, name)) for name, values in one.parameters.items()),
        ]
    columns = (
        Column("mechanism", "mechanism", number=False),
        Column("what", "what", number=False),
        Column("number", "number"),
        Column("values", "values", number=False),
    )
    state = "complete" if contents.complete else "NOT complete"
    notes = [] if contents.complete else [f"{_progress(contents)}: pbdist status says which and why"]
    return Sheet(columns, tuple(rows), (f"{contents.name}, {state}, at {contents.store}",), tuple(notes))


def _progress(one: StudyContents | MechanismContents) -> str:
    computed = one.settings - one.missing - one.failed
    if computed == one.settings:
        return "all computed"
    return f"{computed:,} of {one.settings:,} computed at all points, {one.missing:,} not yet, {one.failed:,} failed"


def _values(values: Sequence[float | str | None], name: str) -> Shown:
    return Shown(_listed(values, name), "; ".join(_plain(_named(value, name)) for value in values))


def _plain(value: Value) -> str:
    return value if isinstance(value, str) else repr(value).lower()


def _listed(values: Sequence[float | str | None], name: str) -> str:
    """Return values as text: all of them, or the ends of many numbers."""
    texts = [text_of(_named(value, name)) for value in values]
    if len(texts) <= _MAX_LISTED:
        return ", ".join(texts)
    if isinstance(values[-1], str):
        return f"{', '.join(texts[:_MAX_LISTED])}, .."
    start = [texts[0]] if values[0] is None else []
    return ", ".join([*start, f"{texts[len(start)]} to {texts[-1]}"])


def _named(value: float | str | None, name: str) -> float | str:
    """Return a value, or the word for none."""
    return ("auto" if name == "factor" else "none") if value is None else value


#: Labels that an error names, with their parameters.
_MAX_NAMED = 8


def only_mechanism(study: Study, noise: Mapping[str, Sequence[Any]], *, refine: bool) -> str:
    """Return the one label of a study that can answer for some parameters of the noise.

    Parameters
    ----------
    study
        The study in the store.
    noise
        The values of each parameter that is given.
    refine
        Whether points may be computed: then a label can answer for every setting of its kind.

    Raises
    ------
    InvalidInputError
        Several labels can, or none; the text names them and their parameters.
    """
    labels = list(dict.fromkeys(map(str, column_of(study.spec.cells, "mechanism"))))
    able = [label for label in labels if _can_answer(study, label, noise, refine=refine)] if len(labels) > 1 else labels
    if len(able) == 1:
        return able[0]
    what = "with these parameters" if noise else "of the store"
    if not able:
        what, able = "of the store, and parameters that it has", labels
    held: dict[str, dict[str, None]] = {label: {} for label in able[:_MAX_NAMED]}
    for one in study.contents().mechanisms:
        for name, values in one.parameters.items() if one.label in held else ():
            held[one.label][f"{name} {_listed(values, name)}"] = None
    named = [f"{shown(label)} ({'; '.join(texts) or 'no parameters'})" for label, texts in held.items()]
    more = f", .. ({len(able)} in all)" if len(able) > _MAX_NAMED else ""
    raise InvalidInputError(f"--mechanism: expected one {what}, got none: it may be {', '.join(named)}{more}")


def _can_answer(study: Study, label: str, noise: Mapping[str, Sequence[Any]], *, refine: bool) -> bool:
    """Whether a label has a setting of these parameters, or one that bounds it; doubtful cases count."""
    for values in product(*noise.values()):
        try:
            setting = study.setting(label, dict(zip(noise, values, strict=True)))
        except OffGridError:
            continue
        except InvalidInputError:
            # Several settings have these parameters, or a value is out of its range: its own error says more.
            return True
        if refine or len(setting.above):
            return True
    return False
