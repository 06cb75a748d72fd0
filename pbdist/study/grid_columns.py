"""Columns of values and of canonical JSON that describe the pairs of grids, from the values of the axes."""

from collections.abc import Callable, Iterable, Mapping
from json import JSONEncoder
from typing import Any

import numpy as np

from pbdist.mechanisms.pair import Pair
from pbdist.study.cell_texts import filled, marked, marks_of
from pbdist.study.grid_cells import Piece


def columns_of_pairs(piece: Piece, describe: Callable[[Pair], Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return what describes the pair of each of some cells, one list a name; None where a pair has no such value.

    A value may depend on the parameters of one axis; where some depend on several, the pairs are made one by one.
    """
    grid, places = piece.grid.pairs, piece.grid.places(piece.rows)[:-1]
    base = [int(at[0]) for at in places]
    shared = describe(grid.at(base))
    found: dict[str, list[Any]] = {name: [value] * piece.rows.size for name, value in shared.items()}
    varying: set[str] = set()
    for number, at in enumerate(places):
        # Only values that occur are described.
        occurring, which = np.unique(at, return_inverse=True)
        rows = [describe(grid.at([*base[:number], place, *base[number + 1 :]])) for place in occurring.tolist()]
        for name in {name: None for row in rows for name in (*row, *shared)}:
            values = [row.get(name) for row in rows]
            if any(value != values[0] for value in values):
                if name in varying:
                    return _one_by_one(piece, describe)
                varying.add(name)
                found[name] = [values[row] for row in which.tolist()]
    return found


def _one_by_one(piece: Piece, describe: Callable[[Pair], Mapping[str, Any]]) -> dict[str, list[Any]]:
    rows = [describe(piece.grid.cell(row).pair) for row in piece.rows.tolist()]
    return {name: [row.get(name) for row in rows] for name in {name: None for row in rows for name in row}}


def texts_of_pairs(piece: Piece, encoder: JSONEncoder) -> Iterable[str]:
    """Return the canonical form of the pair of each of some cells as JSON."""
    grid, columns = piece.grid.pairs, {}
    marks = marks_of([name for axis in grid.axes for name in axis.fields])
    for axis, at in zip(grid.axes, piece.grid.places(piece.rows), strict=False):
        occurring, which = np.unique(at, return_inverse=True)
        for name, values in zip(axis.fields, axis.values, strict=True):
            texts = [encoder.encode(values[place]) for place in occurring.tolist()]
            columns[marks[name]] = [texts[row] for row in which.tolist()]
    template = marked(encoder, grid.form(marks))
    return filled(template, columns) if columns else [template] * piece.rows.size
