"""What a store holds: its mechanisms with the values of their parameters, its grids, and how complete it is."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.columns import known_columns
from pbdist.query.neighbours import neighbours_by_label
from pbdist.query.status import PartStatus
from pbdist.store import Refinement
from pbdist.store.columns import columns_of
from pbdist.study import StudySpec
from pbdist.study.extension import missing_parts
from pbdist.study.spec import exponential
from pbdist.suggestions import did_you_mean
from pbdist.types import Adjacency, JsonValue

if TYPE_CHECKING:
    from pbdist.query.stored import Union


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
        Whether every point of these mechanisms is computed, as far as the commit records tell; files are not read.
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

    def as_json(self) -> dict[str, JsonValue]:
        """Return everything, with all values, in the types of JSON; None for an e^ε that no float holds."""
        study = self.study
        powers = [exponential(value) for value in study.epsilon]
        return {
            "store": self.store,
            "study": self.name,
            "digest": study.digest,
            "complete": self.complete,
            "method": study.method,
            "tolerance": study.tolerance,
            "buckets": study.buckets,
            "floor": study.floor,
            "direction": study.direction,
            "keep_states": study.keep_states,
            "compositions": list(study.compositions),
            "epsilon": list(study.epsilon),
            "exp_epsilon": [power if math.isfinite(power) else None for power in powers],
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


def contents_of(
    union: "Union", where: str, parts: Sequence[PartStatus], refinements: Sequence[Refinement]
) -> StudyContents:
    """Return what a store holds, by its parts as one study, how far each part is, and what queries have added."""
    study = union.study
    lacking = missing_parts([stored.study for stored in union.parts], study) if len(union.parts) > 1 else ()
    absent, failed = np.zeros(len(study.cells), dtype=bool), np.zeros(len(study.cells), dtype=bool)
    if lacking:
        index = {cell: number for number, cell in enumerate(study.cells)}
        absent[[index[cell] for part in lacking for cell in part.cells]] = True
    for part in parts:
        for batch in part.missing:
            absent[union.rows(part.stored, range(batch.first, batch.stop))] = True
        for item in part.failed:
            failed[union.rows(part.stored, range(item.cell, item.cell + 1))] = True
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
        store=where,
        name=study.name,
        study=study,
        mechanisms=mechanisms,
        parts=len(parts),
        refinements=len(refinements),
        refined_points=sum(len(one.compositions) * len(one.epsilon) for one in refinements),
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
        found = {column[row] if _is_set(column[row]) else None for row in rows}
        values = sorted(
            (value for value in found if value is not None), key=lambda value: (isinstance(value, str), value)
        )
        if values:
            yield name, (*([None] if None in found else []), *values)


def _is_set(value: float | str) -> bool:
    """Whether a column has a value: a mechanism without that parameter has empty text or NaN there."""
    return value != "" and not (isinstance(value, float) and math.isnan(value))
