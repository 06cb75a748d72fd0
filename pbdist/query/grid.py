"""Lay cells out as a grid over those of their parameters that tell them apart."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.lookup import told_apart
from pbdist.store.cell_columns import cell_columns
from pbdist.study import Cell
from pbdist.types import IntArray


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells over the axes of a grid.

    Attributes
    ----------
    axes
        The parameters that tell the cells apart, and the values of each: numbers increase, texts are in the order of
        the study.
    order : ndarray of int
        The places of the cells in the order of the grid, whose last axis changes fastest.
    columns
        All parameters that the cells have: the axis that each belongs to, None for one that all cells share, and its
        values along it.
    """

    axes: Mapping[str, Sequence[Any]]
    order: IntArray
    columns: Mapping[str, tuple[str | None, Any]]


def grid_of(cells: Sequence[Cell], kept: Sequence[str]) -> Grid:
    """Return some cells as a grid; `kept` are parameters that are an axis also where all cells share the value.

    Raises
    ------
    InvalidInputError
        There is no such grid: cells differ in no parameter, or some combinations of parameters have no cell.
    """
    columns = {name: values for name, values in cell_columns(cells, kept).items() if name in known_columns()}
    codes = {name: _codes(name, values) for name, values in columns.items()}
    axes: list[str] = []
    belongs: dict[str, str | None] = {}
    for name in sorted(columns, key=lambda name: name not in kept):
        number = len(codes[name][0])
        if number == 1 and name not in kept:
            belongs[name] = None
            continue
        # A parameter that follows from another one is no axis.
        before = axes if number > 1 else []
        source = next((axis for axis in before if _follows(codes[name][1], codes[axis][1])), None)
        belongs[name] = source
        if source is None:
            axes.append(name)
            belongs[name] = name
    # What a pair is made of follows from the others, where they tell the cells apart.
    others = [axis for axis in axes if axis != "made_of"]
    if "made_of" not in kept and _differ([codes[axis][1] for axis in others], len(cells)):
        axes = others
        belongs = {column: axis for column, axis in belongs.items() if axis != "made_of"}
    axes.sort(key=list(known_columns()).index)
    shape = tuple(len(codes[name][0]) for name in axes)
    place = np.ravel_multi_index(tuple(codes[name][1] for name in axes), shape) if axes else np.zeros(len(cells), int)
    if len(set(place.tolist())) < len(cells) or len(cells) != int(np.prod(shape)):
        raise InvalidInputError(_no_grid(cells, axes))
    order = np.argsort(place)
    found: dict[str, tuple[str | None, Any]] = {}
    for name, axis in belongs.items():
        values = _array(name, columns[name])
        if axis is not None:
            # The first cell with each value of the axis.
            firsts = np.unique(codes[axis][1], return_index=True)[1]
            found[name] = axis, values[firsts]
        elif not _is_absent(name, columns[name][0]):
            found[name] = None, values[0]
    return Grid({name: codes[name][0] for name in axes}, order, found)


def _codes(name: str, values: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """Return the different values of a column in their order, and the number of each entry's among them."""
    # One name for all NaN, which differ from themselves.
    plain = [None if _is_absent(name, value) and not is_text(name) else value for value in values]
    different = list(dict.fromkeys(plain))
    if not is_text(name):
        different.sort(key=lambda value: (value is None, value or 0.0))
    number = {value: index for index, value in enumerate(different)}
    return different, np.array([number[value] for value in plain])


def _differ(codes: Sequence[IntArray], count: int) -> bool:
    """Whether so many cells are told apart by some parameters."""
    return len(set(zip(*(one.tolist() for one in codes), strict=True))) == count


def _follows(codes: IntArray, axis: IntArray) -> bool:
    """Whether one parameter follows from another one."""
    pairs = np.unique(np.stack([axis, codes]), axis=1)
    return bool(pairs.shape[1] == len(np.unique(axis)))


def _is_absent(name: str, value: Any) -> bool:
    """Whether a mechanism does not have the parameter."""
    return not value if is_text(name) else math.isnan(value)


def _array(name: str, values: Sequence[Any]) -> Any:
    return np.array(values, dtype=str if is_text(name) else np.float64)


def _no_grid(cells: Sequence[Cell], axes: Sequence[str]) -> str:
    labels = list(dict.fromkeys(cell.label for cell in cells))
    several = f"{len(cells)} noise settings of {', '.join(map(repr, labels[:4]))}{', ..' if len(labels) > 4 else ''}"
    different = told_apart(cells)
    if not different:
        return f"selection: expected settings that differ in a parameter, got {several} that differ in none"
    if len(axes) == 1:
        reason = f"some of which have the same {axes[0]}"
    else:
        reason = f"that do not have all combinations of {', '.join(axes)}"
    return f"selection: expected a grid of noise settings, got {several} {reason}: also give {', '.join(different)}"
