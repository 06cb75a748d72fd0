"""A study as a value: its cells, its grids and its digest."""

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from pbdist.arguments import DEFAULT_FLOOR
from pbdist.mechanisms.pair import Pair
from pbdist.types import JsonValue

__all__ = ["STUDY_FORMAT", "Cell", "KnownCells", "StudySpec", "Target", "exponential"]

#: The version of the study file's format.
STUDY_FORMAT = 1
#: The versions of the canonical form that has the number and the SHA-256 of the cells in their place. The first of them
#: knows no floor but the default, and no direction but each, and says nothing of them.
_HEAD_FORMATS = (3, 4)
#: Canonical JSON: one text for equal values.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Cell:
    """One noise setting: one leaf and one ladder of compositions serve all its r and ε.

    Attributes
    ----------
    label
        The name that the study gives the mechanism.
    pair
        The worst-case pair.
    factor
        The factor f > 1 between buckets of one round, or None where it is to be chosen.
    """

    label: str
    pair: Pair
    factor: float | None

    def canonical(self) -> dict[str, JsonValue]:
        """Return label, pair and factor as JSON takes them; the factor in hexadecimal."""
        factor = None if self.factor is None else self.factor.hex()
        return {"label": self.label, "pair": self.pair.canonical(), "factor": factor}

    def describe(self) -> str:
        """Return a short text on one line: the label and the canonical parameters, without what is unset."""
        factor = "" if self.factor is None else f" factor={self.factor:g}"
        return f"{self.label}{_parameters(self.pair.canonical())}{factor}"


class KnownCells(Sequence[Cell]):
    """Cells that are read when they are asked for, and whose `StudySpec.cells_sha256` is known without reading them."""

    @property
    @abstractmethod
    def sha256(self) -> str:
        """As `StudySpec.cells_sha256`."""


@dataclass(frozen=True)
class Target:
    """A wish: δ(ε) <= delta after that many compositions.

    Attributes
    ----------
    epsilon
        A value of the study's grid, in nats.
    delta
        The δ that is allowed, above 0 and below 1.
    compositions
        A value of the study's grid.
    """

    epsilon: float
    delta: float
    compositions: int


@dataclass(frozen=True)
class StudySpec:
    """What is to be computed, and what it is called.

    Attributes
    ----------
    name
        The name of the study, which also names its default store.
    cells
        The noise settings in the order of the study file; no two are equal.
    method
        ``tight``, or ``buckets`` for privacy buckets.
    tolerance
        With ``tight`` the largest upper / lower - 1 aimed at; None with ``buckets``.
    buckets
        The number of finite buckets; even. With ``tight``, where it takes the place of the tolerance, or None.
    compositions, epsilon
        The grids, increasing; ε in nats.
    keep_states
        Whether the bucket states of every cell and r are kept.
    floor
        Where an upper bound on δ is at most that, the tolerance need not be met.
    direction
        ``both``: the tolerance is judged on the larger of the two directions. ``each``: on each of them.
    description, targets
        Not part of the digest: they change what is told, not what is computed.
    """

    name: str
    cells: Sequence[Cell]
    method: str
    tolerance: float | None
    buckets: int | None
    compositions: tuple[int, ...]
    epsilon: tuple[float, ...]
    keep_states: bool = False
    floor: float = DEFAULT_FLOOR
    direction: str = "each"
    description: str | None = None
    targets: tuple[Target, ...] = ()

    def head(self) -> dict[str, JsonValue]:
        """Return everything that decides the result, as JSON takes it, of the cells their number and SHA-256 alone.

        In the oldest format that can say it, so that a study keeps the digest it always had.
        """
        old = (self.floor, self.direction) == (DEFAULT_FLOOR, "each")
        promise = {} if old else {"floor": self.floor.hex(), "direction": self.direction}
        return {
            "format": _HEAD_FORMATS[0 if old else 1],
            **self._precision(),
            **promise,
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
        if isinstance(self.cells, KnownCells):
            return self.cells.sha256
        digest = hashlib.sha256()
        for cell in self.cells:
            digest.update(f"{_ENCODER.encode(cell.canonical())}\n".encode())
        return digest.hexdigest()

    def _precision(self) -> dict[str, JsonValue]:
        return {"method": self.method, "tolerance": None if self.tolerance is None else self.tolerance.hex()}

    @property
    def sought(self) -> float | None:
        """The tolerance within which bounds are to meet; None where none is aimed at, as buckets take its place."""
        return self.tolerance if self.method == "tight" and self.buckets is None else None

    def seeks_tolerance(self, cell: Cell) -> bool:
        """Whether the bounds of a cell are to meet within the tolerance: neither buckets nor a factor replace it."""
        return self.sought is not None and cell.factor is None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the head: equal for two studies if and only if they compute the same."""
        return hashlib.sha256(_ENCODER.encode(self.head()).encode()).hexdigest()

    @classmethod
    def from_head(cls, head: Mapping[str, JsonValue], cells: Sequence[Cell], *, name: str) -> Self:
        """Return the study of a head and its cells, without description and targets.

        Raises
        ------
        KeyError, TypeError, ValueError
            `head` is not one.
        """
        if head["format"] not in _HEAD_FORMATS:
            raise ValueError(f"expected study format {' or '.join(map(str, _HEAD_FORMATS))}, got {head['format']!r}")
        old = head["format"] == _HEAD_FORMATS[0]
        return cls(
            name=name,
            cells=cells,
            method=head["method"],
            tolerance=None if head["tolerance"] is None else float.fromhex(head["tolerance"]),
            buckets=head["buckets"],
            compositions=tuple(head["compositions"]),
            epsilon=tuple(float.fromhex(value) for value in head["epsilon"]),
            keep_states=head["keep_states"],
            floor=DEFAULT_FLOOR if old else float.fromhex(head["floor"]),
            direction="each" if old else head["direction"],
        )


def exponential(epsilon: float) -> float:
    """Return e^ε, as the shortest decimal whose logarithm is `epsilon` where there is one: 2.0 for ln 2."""
    value = math.exp(epsilon) if epsilon < 709.0 else math.inf
    for digits in range(1, 17):
        short = float(f"{value:.{digits}g}")
        if math.isfinite(short) and math.log(short) == epsilon:
            return short
    return value


def _parameters(form: Mapping[str, JsonValue]) -> str:
    """Return the parameters of a canonical pair as ``(scale=200, ..)``; long lists by their length."""
    parts: list[str] = []
    for field, value in form.items():
        if field == "mechanism" or value is None:
            continue
        if isinstance(value, Mapping):
            text = f"{value['mechanism']}{_parameters(value)}"
        elif isinstance(value, list):
            inner = [f"{x['mechanism']}{_parameters(x)}" if isinstance(x, Mapping) else _short(x) for x in value]
            text = "[" + ", ".join(inner) + "]" if len(inner) <= 4 else f"[{len(inner)} values]"
        else:
            text = _short(value)
        parts.append(f"{field}={text}")
    return f"({', '.join(parts)})"


def _short(value: JsonValue) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
