"""A study as a value: its cells, grids and digest, and whether bounds meet its tolerance.

Also the union of studies, and the points of a study that stored studies do not have, as studies of their own.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np

from pbdist.arguments import DEFAULT_FLOOR
from pbdist.errors import StoreMismatchError
from pbdist.quantities import counted
from pbdist.rounding import brief, exact
from pbdist.study.columns import Cell, CellTable
from pbdist.types import Adjacency, JsonValue

#: What a study may be called.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: The version of the canonical form, which has the number and the SHA-256 of the cells in place of the cells.
_HEAD_FORMAT = 6
#: For which neighbours mechanisms are that do not say it themselves, by their labels, sorted.
Stated: TypeAlias = tuple[tuple[str, Adjacency], ...]
#: Canonical JSON: one text for equal values.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target: δ(ε) <= delta after that many compositions."""

    #: In nats; of a study a value of its grid.
    epsilon: float
    #: The allowed δ, above 0 and below 1.
    delta: float
    #: Of a study a value of its grid.
    compositions: int

    def __str__(self) -> str:
        """Return the target as text."""
        return (
            f"δ <= {exact(self.delta)} at ε = {brief(self.epsilon)} after {counted(self.compositions, 'composition')}"
        )


@dataclass(frozen=True)
class StudySpec:
    """What a study computes, and its name."""

    #: The name of the study, which also names its default store.
    name: str
    #: In the order of the study file; no two are equal.
    cells: Sequence[Cell]
    #: ``tight``, or ``buckets`` for privacy buckets.
    method: str
    #: With ``tight`` the largest upper / lower - 1 to reach; None with ``buckets``.
    tolerance: float | None
    #: The number of finite buckets, even. With ``tight`` None, or a number that replaces the tolerance.
    buckets: int | None
    #: The grids, increasing; ε in nats.
    compositions: tuple[int, ...]
    epsilon: tuple[float, ...]
    #: Whether the states of every cell and r are saved.
    keep_states: bool = False
    #: Where an upper bound on δ is at most this, the tolerance need not be met.
    floor: float = DEFAULT_FLOOR
    #: ``both``: the tolerance is judged on the larger of the two directions. ``each``: on each of them.
    direction: str = "each"
    #: What is stated of mechanisms that do not say themselves for which neighbours they are, by their labels. It is
    #: part of the digest: bounds of a study for one relation are no answer to a study for another one.
    adjacency: Stated = ()
    #: Description and targets are not part of the digest, as nothing that is computed depends on them.
    description: str | None = None
    targets: tuple[Target, ...] = ()
    #: Those values of the grids, increasing, that only targets ask for. The digest depends on the grids, with them.
    target_compositions: tuple[int, ...] = ()
    target_epsilon: tuple[float, ...] = ()

    def head(self) -> dict[str, JsonValue]:
        """Return all that the results depend on, as JSON values; of the cells only their number and SHA-256."""
        return {
            "format": _HEAD_FORMAT,
            "method": self.method,
            "tolerance": None if self.tolerance is None else self.tolerance.hex(),
            "floor": self.floor.hex(),
            "direction": self.direction,
            "adjacency": {label: relation.value for label, relation in self.adjacency},
            "buckets": self.buckets,
            "compositions": list(self.compositions),
            "epsilon": [value.hex() for value in self.epsilon],
            "keep_states": self.keep_states,
            "cells": len(self.cells),
            "cells_sha256": self.cells_sha256,
        }

    @cached_property
    def cells_sha256(self) -> str:
        """SHA-256 of the canonical JSON of the cells, a line each."""
        return CellTable.of(self.cells).sha256

    @property
    def required_tolerance(self) -> float | None:
        """The tolerance to reach; None where there is none, or buckets replace it."""
        return self.tolerance if self.method == "tight" and self.buckets is None else None

    def summary(self) -> dict[str, str]:
        """Return what the study computes in a few words, by the names of its keys."""
        r, epsilon = self.compositions, self.epsilon
        precision = f"tolerance {brief(self.tolerance or 0.0)}" if self.buckets is None else f"buckets {self.buckets:,}"
        neighbours = "; ".join(f"{label}: {relation.in_words}" for label, relation in self.adjacency)
        return {
            "method": f"{self.method}, {precision}",
            "cells": f"{len(self.cells):,}",
            "compositions": f"{len(r):,}, from {r[0]:,} to {r[-1]:,}",
            "epsilon": f"{len(epsilon):,}, from {brief(epsilon[0])} to {brief(epsilon[-1])}",
            **({"neighbours": neighbours} if neighbours else {}),
        }

    def neighbours_of(self, cell: Cell) -> Adjacency:
        """Return for which neighbours a cell is: what its pair says, or else what the study states of its label."""
        own = cell.pair.adjacency
        return own if own.definite else dict(self.adjacency).get(cell.label, Adjacency.AS_STATED)

    @property
    def requires_tolerance(self) -> bool:
        """Whether the bounds of any cell should meet the tolerance."""
        return self.required_tolerance is not None and any(map(self.requires_tolerance_of, self.cells))

    def requires_tolerance_of(self, cell: Cell) -> bool:
        """Whether the bounds of a cell should meet the tolerance: neither buckets nor a factor replace it."""
        return self.required_tolerance is not None and cell.factor is None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the head: two studies that compute the same have the same digest, and no others."""
        return hashlib.sha256(_ENCODER.encode(self.head()).encode()).hexdigest()

    @classmethod
    def from_head(cls, head: Mapping[str, JsonValue], cells: Sequence[Cell], *, name: str) -> Self:
        """Return the study of a head and its cells, without description and targets.

        A `KeyError`, `TypeError` or `ValueError` where it is not the head of a study.
        """
        if head["format"] != _HEAD_FORMAT:
            raise ValueError(f"expected study format {_HEAD_FORMAT}, got {head['format']!r}")
        return cls(
            name=name,
            cells=cells,
            method=head["method"],
            tolerance=None if head["tolerance"] is None else float.fromhex(head["tolerance"]),
            buckets=head["buckets"],
            compositions=tuple(head["compositions"]),
            epsilon=tuple(float.fromhex(value) for value in head["epsilon"]),
            keep_states=head["keep_states"],
            floor=float.fromhex(head["floor"]),
            direction=head["direction"],
            adjacency=tuple(sorted((label, Adjacency(one)) for label, one in head["adjacency"].items())),
        )


def log_floor(study: StudySpec) -> float:
    """Return the natural logarithm of a study's floor."""
    return math.log(study.floor) if study.floor > 0.0 else -math.inf


#: The fields that all parts of a store share: the bounds, or what is stored of them, depend on these.
COMMON = ("method", "tolerance", "buckets", "floor", "direction", "keep_states")
#: Pairs of values of ε and of r.
_Grids: TypeAlias = tuple[tuple[tuple[float, ...], tuple[int, ...]], ...]


def union_of(studies: Sequence[StudySpec]) -> StudySpec:
    """Return the smallest study that contains all of `studies`, the parts of a store.

    Cells and targets are in the order of their first appearance; the description is that of the first study.
    """
    first = studies[0]
    if len(studies) == 1:
        return first
    return replace(
        first,
        cells=tuple(dict.fromkeys(cell for study in studies for cell in study.cells)),
        compositions=tuple(sorted({r for study in studies for r in study.compositions})),
        epsilon=tuple(sorted({epsilon for study in studies for epsilon in study.epsilon})),
        adjacency=tuple(sorted({stated for study in studies for stated in study.adjacency})),
        targets=tuple(dict.fromkeys(target for study in studies for target in study.targets)),
    )


def missing_parts(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """Return what `missing_points` returns, for a study that is to have all that the store holds.

    A `StoreMismatchError` also where points are missing, and the stored studies have some that `wanted` lacks.
    """
    parts = missing_points(studies, wanted)
    if parts:
        _check_contained(studies, wanted)
    return parts


def missing_points(studies: Sequence[StudySpec], wanted: StudySpec) -> tuple[StudySpec, ...]:
    """Return disjoint studies that together have the points (cell, r, ε) of `wanted` that none of `studies` has.

    They are few: cells and r that lack the same points are in one study. They have its targets, but no description.
    There are none if the stored `studies`, of which there is at least one, contain `wanted`. A `StoreMismatchError`
    where the studies differ in more than cells and grids, or state different neighbours of one label.
    """
    check_common(studies[0], {name: getattr(wanted, name) for name in COMMON})
    if any(len(study.cells) == len(wanted.cells) and study.digest == wanted.digest for study in studies):
        return ()
    _check_neighbours(studies, wanted)
    cells = CellTable.of(wanted.cells)
    hashes, group_of = cells.hashes(), np.zeros(len(cells), dtype=np.int64)
    # No two cells of a study are equal.
    stored = [np.isin(hashes, CellTable.of(study.cells).hashes(), assume_unique=True) for study in studies]
    for each in stored:
        # Cells of a group are in the same studies.
        group_of = np.unique(2 * group_of + each, return_inverse=True)[1]
    groups_by_grids: dict[_Grids, list[int]] = {}
    for row in np.sort(np.unique(group_of, return_index=True)[1]).tolist():
        having = [study for study, each in zip(studies, stored, strict=True) if each[row]]
        groups_by_grids.setdefault(_missing_grids(having, wanted), []).append(group_of[row])
    groups_by_grids.pop((), None)
    bare = replace(wanted, description=None, target_compositions=(), target_epsilon=())
    found = []
    for grids, groups in groups_by_grids.items():
        part = cells.taken(np.flatnonzero(np.isin(group_of, groups)))
        adjacency = tuple(one for one in wanted.adjacency if one[0] in part.labels())
        for epsilon, compositions in grids:
            found.append(replace(bare, cells=part, compositions=compositions, epsilon=epsilon, adjacency=adjacency))
    return tuple(found)


def check_common(stored: StudySpec, given: Mapping[str, Any]) -> None:
    """Raise `StoreMismatchError` for values other than those of a store in fields that all its parts share."""
    for name, value in given.items():
        if value != getattr(stored, name):
            raise StoreMismatchError(f"{name}: expected {getattr(stored, name)!r} as in the store, got {value!r}")


def _check_neighbours(studies: Sequence[StudySpec], wanted: StudySpec) -> None:
    """Refuse a study that states other neighbours of a label than the stored ones."""
    mine = dict(wanted.adjacency)
    for study in studies:
        its = dict(study.adjacency)
        # Where neither states anything, no cell is looked at.
        for label in sorted(mine.keys() | its.keys()):
            first, second = (one.get(label, Adjacency.AS_STATED) for one in (its, mine))
            if first is not second and all(label in CellTable.of(one.cells).labels() for one in (study, wanted)):
                raise StoreMismatchError(
                    f"adjacency: expected {first.value} of {label!r} as in the store, got {second.value}: bounds for"
                    " one are no bounds for the other"
                )


def _missing_grids(studies: Sequence[StudySpec], wanted: StudySpec) -> _Grids:
    """Return grids of ε and of r: the points of a cell that all of `studies` have, and that none of them covers."""
    found: dict[tuple[float, ...], list[int]] = {}
    for r in wanted.compositions:
        stored = {epsilon for study in studies if r in study.compositions for epsilon in study.epsilon}
        if epsilon := tuple(value for value in wanted.epsilon if value not in stored):
            found.setdefault(epsilon, []).append(r)
    return tuple((epsilon, tuple(compositions)) for epsilon, compositions in found.items())


def _check_contained(studies: Sequence[StudySpec], wanted: StudySpec) -> None:
    """Refuse a study that lacks stored points: the store would be that of neither study file."""
    hashes = CellTable.of(wanted.cells).hashes()
    for study in studies:
        absent = np.isin(CellTable.of(study.cells).hashes(), hashes, assume_unique=True, invert=True)
        missing: dict[str, list[Any]] = {
            "noise setting": np.flatnonzero(absent).tolist(),
            "compositions": [r for r in study.compositions if r not in wanted.compositions],
            "epsilon": [brief(epsilon, 10) for epsilon in study.epsilon if epsilon not in wanted.epsilon],
        }
        for name, (first, *others) in ((name, found) for name, found in missing.items() if found):
            text = study.cells[first].describe() if name == "noise setting" else first
            more = f" and {len(others)} more" if others else ""
            raise StoreMismatchError(
                f"{name}: the store holds {text}{more}, which the study does not have: add it, or give a file with"
                " extend: true and only what is new"
            )
