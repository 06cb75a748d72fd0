"""How far a store is, what it holds (mechanisms, parameters, grids, gaps), and how close its bounds are."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pbdist.errors import InvalidInputError, StoreDamagedError, shown
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.quantities import counted
from pbdist.query.settings import cells_with, column_array, is_set, neighbours_by_label
from pbdist.query.stored import Block, Parts, PointState
from pbdist.query.study import Study
from pbdist.results import Bracket, log_relative_width
from pbdist.rounding import brief, exponential, rounded_down, rounded_up
from pbdist.store import Progress, StoreCheck, StoredStudy, check_store, holder, open_parts, place_at, read_refinements
from pbdist.store.layout import BOUNDS, STORE_FORMAT, WITHIN
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import CellTable
from pbdist.study.spec import log_floor, missing_parts
from pbdist.tables import Column, Printed, Sheet, Shown, text_of
from pbdist.types import Adjacency, Direction, IntArray, JsonValue

#: Longer lists of values are printed as their ends and their number.
_MAX_LISTED = 8
#: Labels that an error names, with their parameters.
_MAX_NAMED = 8
#: What a study says of all its cells.
_FACTS = ("method", "tolerance", "buckets", "keep_states")


@dataclass(frozen=True)
class WidestBracket:
    """The point with the largest upper / lower - 1 of those that miss the tolerance; ε in nats.

    `direction` is ``both`` for the larger of the two, or the name of one where the study judges each.
    """

    cell: Cell
    compositions: int
    epsilon: float
    direction: str
    bracket: Bracket


@dataclass(frozen=True)
class Precision:
    """How far a tolerance was reached.

    A point counts as missed if its larger direction is wide, or one of them where the study judges each; as judged
    if the upper bound in that direction exceeds the study's floor.
    """

    #: Number of computed points that are judged.
    points: int
    #: Those of them that miss the tolerance.
    missed: int
    #: The widest of these; None where none is missed.
    widest: WidestBracket | None
    #: Number of cells whose files cannot be read.
    unreadable: int = 0


def reached_precision(study: Parts, wanted: StudySpec | None = None) -> Precision:
    """Compare the brackets of a stored study with its tolerance; without one, no point counts.

    Of a whole store the numbers of points are those in the details of its batches, and bounds are read only where they
    miss the tolerance; what cannot be read is counted.

    Parameters
    ----------
    study
        The study in a store.
    wanted
        A study that the store contains, to which the comparison is confined. By default all of it.

    Raises
    ------
    StoreDamagedError
        The stored values cannot be read.
    """
    if wanted is not None and wanted.digest != study.spec.digest:
        cells = set(wanted.cells)
        rows = [row for row, cell in enumerate(study.spec.cells) if cell in cells]
        return _total(_of_block(study.spec, block, wanted) for block in study.blocks(np.array(rows, dtype=np.int64)))
    points = missed = unreadable = 0
    found = []
    for stored, batch, judged, wide in study.recorded_points():
        points, missed = points + judged, missed + wide
        if wide and not study.is_sound(stored, batch.start):
            unreadable += len(batch)
        elif wide:
            found.append(_of_block(stored.study, Parts((stored,)).read(np.array(batch)), stored.study))
    return replace(_total(found), points=points, missed=missed, unreadable=unreadable)


def _total(found: Iterable[Precision]) -> Precision:
    """Return the precision of several blocks together."""
    every = [*found]
    wide = [one.widest for one in every if one.widest is not None]
    widest = max(wide, key=lambda one: one.bracket.relative_width, default=None)
    return Precision(sum(one.points for one in every), sum(one.missed for one in every), widest)


def _of_block(study: StudySpec, block: Block, wanted: StudySpec) -> Precision:
    """Return the precision of those points of a block that a study wants."""
    automatic = [study.requires_tolerance_of(study.cells[cell]) for cell in block.cells.tolist()]
    if not any(automatic):
        return Precision(0, 0, None)
    both = study.direction == "both"
    # As they are judged: over cells, directions (or the larger one), r and ε.
    values = {name: block.values[name].max(axis=1, keepdims=True) if both else block.values[name] for name in BOUNDS}
    upper = values["log_delta_upper"]
    judged = (upper > log_floor(study)) & (block.states == PointState.COMPUTED)[:, None]
    judged &= np.array(automatic)[:, None, None, None]
    judged &= np.isin(study.compositions, wanted.compositions)[:, None] & np.isin(study.epsilon, wanted.epsilon)
    wide = judged & ~block.values[WITHIN][:, : upper.shape[1]]
    points, missed = (int(np.count_nonzero(which.any(axis=1))) for which in (judged, wide))
    if not missed:
        return Precision(points, 0, None)
    ratio = np.where(wide, log_relative_width(values["log_delta_lower"], upper), -1.0)
    row, axis, r, e = largest = tuple(int(index) for index in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    widest = WidestBracket(
        cell=study.cells[int(block.cells[row])],
        compositions=study.compositions[r],
        epsilon=study.epsilon[e],
        direction="both" if both else list(Direction)[axis].value,
        bracket=Bracket(**{name.replace("delta_", ""): float(one[largest]) for name, one in values.items()}),
    )
    return Precision(points, missed, widest)


def precision_line(tolerance: float, precision: Precision) -> str:
    """Return in one sentence at how many of the points judged the tolerance is missed, and where most."""
    if not precision.points and not precision.missed:
        return f"upper / lower - 1 <= {brief(tolerance)} is not judged yet: no point that it applies to is computed"
    worst, where = precision.widest, f"{counted(precision.points, 'point')} (noise setting, r, ε) judged"
    missed = f"upper / lower - 1 > {brief(tolerance)} at {precision.missed:,} of {where}"
    if worst is None:
        # The details of a batch may count points whose bounds cannot be read.
        return missed if precision.missed else f"upper / lower - 1 <= {brief(tolerance)} at all {where}"
    ratio = "infinite" if math.isinf(worst.bracket.relative_width) else f"{worst.bracket.relative_width:.3g}"
    low, high = rounded_down(worst.bracket.lower, 3), rounded_up(worst.bracket.upper, 3)
    direction = "" if worst.direction == "both" else f", {worst.direction}"
    at = f"r = {worst.compositions}, ε = {brief(worst.epsilon)}{direction}"
    return f"{missed}, at worst {ratio}: {worst.cell.describe()}, {at}, δ from {low} to {high}"


def _precision_as_json(tolerance: float, precision: Precision) -> dict[str, JsonValue]:
    """Return the same in the types of JSON; None for a ratio that is not finite."""
    worst = precision.widest
    return {
        "tolerance": tolerance,
        "asked": precision.points,
        "missed": precision.missed,
        "unreadable_cells": precision.unreadable,
        "widest": worst
        and {
            "setting": worst.cell.describe(),
            "compositions": worst.compositions,
            "epsilon": worst.epsilon,
            "direction": worst.direction,
            "ratio": ratio if math.isfinite(ratio := worst.bracket.relative_width) else None,
            "delta_lower": worst.bracket.lower,
            "delta_upper": worst.bracket.upper,
        },
    }


class MissingBatch(NamedTuple):
    """A batch that is not committed: its part, its first cell, and the one after its last."""

    part: str
    batch: int
    first: int
    stop: int
    #: Those of its first and of its last cell.
    settings: tuple[str, str]


class FailedCell(NamedTuple):
    """A cell that could not be computed, and why, on one line."""

    part: str
    cell: int
    cause: str
    setting: str


@dataclass(frozen=True)
class PartStatus:
    """How far one part of a store is."""

    stored: StoredStudy
    progress: Progress

    @property
    def counts(self) -> dict[str, int]:
        """How many cells there are, and how many are missing or have failed."""
        missing = sum(len(self.stored.cells_of(index)) for index in self.progress.missing)
        return {"all": len(self.stored.study.cells), "missing": missing, "failed": len(self.progress.failed)}

    def setting(self, cell: int) -> str:
        """Return the setting of a cell as text, also of one that is damaged."""
        try:
            return self.stored.study.cells[cell].describe()
        except StoreDamagedError:
            return "a noise setting that cannot be read"


@dataclass(frozen=True)
class StoreStatus:
    """How far a store is."""

    #: The path or URL.
    store: str
    #: In the order in which they were added.
    parts: tuple[PartStatus, ...]
    #: The parts that the root lists, but that are not there.
    parts_missing: tuple[str, ...]
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

    @cached_property
    def counts(self) -> Mapping[str, Counter[str]]:
        """How many cells, points (cell, r, ε) and batches all parts have, and how many are missing or have failed.

        Of a study that was extended by an ε these count what is there; its cells are in several parts.
        """
        found = {"cells": Counter[str](), "points": Counter[str](), "batches": Counter[str]()}
        for part in self.parts:
            of_cell = len(part.stored.study.compositions) * len(part.stored.study.epsilon)
            found["cells"].update(part.counts)
            found["points"].update({name: count * of_cell for name, count in part.counts.items()})
            found["batches"].update({"all": part.stored.batches, "missing": len(part.progress.missing)})
        return found

    @property
    def complete(self) -> bool:
        """Whether every cell is committed, by the names of the files."""
        cells = self.counts["cells"]
        return cells["missing"] == cells["failed"] == 0 and not self.parts_missing

    @property
    def passed(self) -> bool:
        """Whether the store is complete and, where its files were read, each is what it was when it was written."""
        return self.complete and (self.check is None or self.check.healthy)

    def missing(self) -> Iterator[MissingBatch]:
        """Yield the batches that are not committed."""
        for part in self.parts:
            for index in part.progress.missing:
                cells = part.stored.cells_of(index)
                ends = part.setting(cells[0]), part.setting(cells[-1])
                yield MissingBatch(part.stored.part, index, cells.start, cells.stop, ends)

    def failed(self) -> Iterator[FailedCell]:
        """Yield the cells that could not be computed."""
        for part in self.parts:
            for cell, cause in sorted(part.progress.failed.items()):
                yield FailedCell(part.stored.part, cell, cause, part.setting(cell))

    def as_json(self) -> dict[str, JsonValue]:
        """Return everything in the types of JSON."""
        first, check = self.parts[0].stored, self.check
        tolerance = first.study.required_tolerance
        return {
            "store": self.store,
            "study": first.study.name,
            "digest": first.head.digest,
            "format": STORE_FORMAT,
            "complete": self.complete,
            "healthy": None if check is None else check.healthy,
            "driver": self.driver,
            **self.counts,
            "refinements": {"all": self.refinements, "points": self.refined_points},
            "precision": self.precision and tolerance and _precision_as_json(tolerance, self.precision),
            "files": self.files,
            "bytes": self.size,
            "parts": [
                {"part": part.stored.part, "digest": part.stored.head.digest, **part.counts} for part in self.parts
            ],
            "parts_missing": [*self.parts_missing],
            "failed": [one._asdict() for one in self.failed()],
            "missing": [one._asdict() for one in self.missing()],
            "damaged": [{"file": name, "problem": what} for name, what in (check.damaged if check else ())],
            "strays": [*(check.strays if check else ())],
        }


def store_status(where: str | Path, *, check: bool = False) -> StoreStatus:
    """Return how far a store is. Nothing is computed or written, and a driver that is at work is not disturbed.

    With `check` every file is read too and compared with its checksum. Errors as of `open_study`.
    """
    place = place_at(where)
    parts = open_parts(place)
    whole, sizes = Parts(parts), dict(place.names())
    refinements = read_refinements(parts[0])
    judged = parts[0].study.required_tolerance is not None
    return StoreStatus(
        store=place.url,
        parts=tuple(PartStatus(stored, stored.progress(_files_of(sizes, stored.part))) for stored in parts),
        parts_missing=whole.parts_missing,
        files=len(sizes),
        size=sum(sizes.values()),
        driver=holder(place),
        check=check_store(place) if check else None,
        refinements=len(refinements),
        refined_points=sum(one.points for one in refinements),
        precision=reached_precision(whole) if judged else None,
    )


def _files_of(sizes: Mapping[str, int], part: str) -> Mapping[str, int]:
    """Return the bytes of the files of a part by their names in it."""
    start = f"{part}/" if part else ""
    return {name.removeprefix(start): size for name, size in sizes.items() if name.startswith(start)}


@dataclass(frozen=True)
class MechanismContents:
    """The settings of one label and one kind."""

    #: The name that the study gives the mechanism, and what it is.
    label: str
    kind: str
    #: How many noise settings (cells) it has, ``all``, and how many of them are not computed yet, ``missing``, or could
    #: not be computed, ``failed``: at some points, or at all.
    counts: Mapping[str, int]
    #: The values of each parameter that any of them has, increasing; None where a setting has none, or, as a factor,
    #: an automatic one. Not every combination need be there.
    parameters: Mapping[str, tuple[float | str | None, ...]]
    #: For which neighbours the mechanisms of the label are.
    adjacency: Adjacency = Adjacency.AS_STATED


@dataclass(frozen=True)
class StudyContents(Printed):
    """What the store of a study holds."""

    #: Path or URL of the store; the name of the study.
    store: str
    name: str
    #: What it computes: grids, method, tolerance.
    study: StudySpec
    #: In the order of the study.
    mechanisms: tuple[MechanismContents, ...]
    #: How many studies the store is made of: 1, and one for each extension.
    parts: int
    #: How many points queries have added, and their settings as text.
    refined_points: int
    refined_settings: tuple[str, ...]
    #: Whether every point of these mechanisms is computed, as far as the names of the files tell.
    complete: bool

    @property
    def counts(self) -> dict[str, int]:
        """The counts of settings of all mechanisms."""
        return {name: sum(one.counts[name] for one in self.mechanisms) for name in ("all", "missing", "failed")}

    @property
    def sheet(self) -> Sheet:
        """The contents as a table, as `pbdist query STORE` prints them; rows of the whole study have no mechanism.

        Lists are shortened in print; CSV has all values.
        """
        found = self.as_json()
        shared = [name for name in found if name not in ("store", "digest", "mechanisms")]
        rows = [("", name, *_entry(name, found[name])) for name in shared if found[name] not in (None, [])]
        for one, its in zip(self.mechanisms, found["mechanisms"], strict=True):
            entries = {"kind": one.kind, "neighbours": one.adjacency.in_words, "settings": its["settings"]}
            rows += [
                (one.label, name, *_entry(name, value)) for name, value in {**entries, **its["parameters"]}.items()
            ]
        names = ("mechanism", "what", "number", "values")
        columns = tuple(Column(name, name, number=name == "number") for name in names)
        state = "complete" if self.complete else "NOT complete"
        notes = () if self.complete else (f"{_progress(self.counts)}: pbdist status says what is missing",)
        return Sheet(columns, tuple(rows), (f"{self.name}, {state}, at {self.store}",), notes)

    def as_json(self) -> dict[str, Any]:
        """Return everything, with all values, in the types of JSON; None for an e^ε that no float holds."""
        study, judged = self.study, self.study.required_tolerance is not None
        powers = [exponential(value) for value in study.epsilon]
        return {
            "store": self.store,
            "study": self.name,
            "digest": study.digest,
            "complete": self.complete,
            **{name: getattr(study, name) for name in _FACTS},
            # Only a tolerance has a floor and a direction.
            "floor": study.floor if judged else None,
            "direction": study.direction if judged else None,
            "compositions": [*study.compositions],
            "epsilon": [*study.epsilon],
            "exp_epsilon": [value if math.isfinite(value) else None for value in powers],
            "settings": self.counts,
            "parts": self.parts,
            "refined_points": self.refined_points,
            "refined_settings": [*self.refined_settings],
            "mechanisms": [
                {
                    "mechanism": one.label,
                    "kind": one.kind,
                    "adjacency": one.adjacency.value,
                    "settings": one.counts,
                    "parameters": {name: [*values] for name, values in one.parameters.items()},
                }
                for one in self.mechanisms
            ],
        }


def contents_of(opened: Study) -> StudyContents:
    """Return what a store holds, by its parts as one study, how far each part is, and what queries have added."""
    study, refinements = opened.spec, read_refinements(opened.parts[0])
    every = np.arange(len(study.cells))
    absent, failed = np.zeros(len(every), dtype=bool), np.zeros(len(every), dtype=bool)
    if len(opened.parts) > 1:
        index = {cell: number for number, cell in enumerate(study.cells)}
        for part in missing_parts([stored.study for stored in opened.parts], study):
            absent[[index[cell] for cell in part.cells]] = True
    for stored in opened.parts:
        cells, rows = opened.rows_in(stored, every)
        progress = stored.progress()
        absent[cells[~progress.committed[rows // stored.cells_per_batch]]] = True
        failed[cells[np.isin(rows, [*progress.failed])]] = True
    absent &= ~failed
    table, neighbours = CellTable.of(study.cells), neighbours_by_label(study)
    columns = {name: table.column(name) for name in table.names}
    groups: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(columns["mechanism"], columns["kind"], strict=True)):
        groups.setdefault(key, []).append(row)
    mechanisms = tuple(
        MechanismContents(
            label=str(label),
            kind=str(kind),
            counts={"all": len(rows), "missing": int(absent[rows].sum()), "failed": int(failed[rows].sum())},
            parameters=_parameters(columns, np.array(rows)),
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
        refined_points=sum(one.points for one in refinements),
        refined_settings=tuple(dict.fromkeys(one.cell.describe() for one in refinements)),
        complete=not absent.any() and not failed.any() and not opened.parts_missing,
    )


def _parameters(columns: Mapping[str, Sequence[Any]], rows: IntArray) -> dict[str, tuple[float | str | None, ...]]:
    """Return the different values of each parameter in some rows, increasing; first None where a row has none."""
    found: dict[str, tuple[float | str | None, ...]] = {}
    for name in known_columns():
        if name in columns and name not in ("mechanism", "kind"):
            held = {columns[name][row] for row in rows.tolist()}
            values = sorted(filter(is_set, held), key=lambda value: (isinstance(value, str), value))
            if values:
                found[name] = (*([] if all(map(is_set, held)) else [None]), *values)
    return found


def _progress(counts: Mapping[str, int]) -> str:
    computed = counts["all"] - counts["missing"] - counts["failed"]
    if computed == counts["all"]:
        return "all computed"
    lacking = f"{counts['missing']:,} not yet, {counts['failed']:,} failed"
    return f"{computed:,} of {counts['all']:,} computed at all points, {lacking}"


def _entry(name: str, value: Any) -> tuple[int | None, str | Shown]:
    """Return a fact in the types of JSON as cells: the number of its values, and these."""
    if isinstance(value, dict):
        return value["all"], _progress(value)
    if isinstance(value, list):
        return len(value), _values(value, name)
    return None, Shown(text_of(value), _plain(value))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else repr(value).lower()


def _values(values: Sequence[float | str | None], name: str) -> Shown:
    """Return values as a cell: all of them, in print the ends of many numbers."""
    none = "auto" if name == "factor" else "none"
    held = [none if value is None else value for value in values]
    texts = [text_of(value) for value in held]
    text = ", ".join(texts)
    if len(texts) > _MAX_LISTED:
        start = [none] if values[0] is None else []
        text = ", ".join([*start, f"{texts[len(start)]} to {texts[-1]}"])
        if isinstance(values[-1], str):
            text = f"{', '.join(texts[:_MAX_LISTED])}, .."
    return Shown(text, "; ".join(map(_plain, held)))


def only_mechanism(study: Study, noise: Mapping[str, Sequence[Any]]) -> str:
    """Return the one label of a study that has all given values of the parameters of the noise.

    If none has all values, the one that has these parameters. Where several do, or none, an `InvalidInputError` names
    them and their parameters.
    """
    held: dict[str, dict[str, tuple[Any, ...]]] = {}
    for one in study.contents().mechanisms:
        its = held.setdefault(one.label, {})
        for name, values in {"kind": (one.kind,), **one.parameters}.items():
            its[name] = (*its.get(name, ()), *values)
    # Between texts there is no order: one that no setting has is refused, and so is a parameter that none has.
    owned = {name for its in held.values() for name in its if not is_text(name)}
    cells_with(partial(column_array, study.spec), {name: noise[name] for name in noise if name not in owned})
    named = [label for label, its in held.items() if noise.keys() <= its.keys()]
    stored = [label for label in named if all({*noise[name]} <= {*held[label][name]} for name in noise)]
    able = stored or named or [*held]
    if len(able) == 1:
        return able[0]
    known = [
        f"{shown(label)} ({'; '.join(f'{name} {_values(its, name).text}' for name, its in held[label].items())})"
        for label in able[:_MAX_NAMED]
    ]
    more = f", .. ({len(able)} in all)" if len(able) > _MAX_NAMED else ""
    raise InvalidInputError(f"--mechanism: expected a label of the store, got none: it may be {', '.join(known)}{more}")
