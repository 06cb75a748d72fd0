"""The bounds of a study as a Dataset; the only file of the room that imports xarray, which takes half a second."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query import settings
from pbdist.query.stored import ABOUT, BOTH, STATUS, Parts, attained_of
from pbdist.query.study import Study
from pbdist.store import StoredStudy
from pbdist.store.layout import BOUNDS, CELL, COMPUTED, GRIDS, WITHIN, described
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import cell_columns, column_descriptions, column_of
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Adjacency, Direction, IntArray

DIMENSIONS = (CELL, DIRECTION, COMPOSITIONS, EPSILON)
_UNATTAINED = "not known of release plans that no change is declared to attain: not a number there"


def bounds_of(parts: Parts) -> xr.Dataset:
    """Return the bounds of a study, loaded when they are used; those of an extended store at once.

    What no part has, and what is not committed, is NaN. Where several parts have a cell, ``factor_used`` and
    ``loss_width`` are the smallest.
    """
    study = parts.spec
    sizes = (len(study.cells), len(Direction), len(study.compositions), len(study.epsilon))
    if len(parts.parts) > 1:
        values: dict[str, Any] = dict(parts.read(np.arange(len(study.cells))).values)
    else:
        shapes = {name: sizes[:1] if name in COMPUTED else sizes for name in parts.result_names}
        values = {
            name: indexing.LazilyIndexedArray(_Results(parts.parts[0], name, shape)) for name, shape in shapes.items()
        }
    variables = {
        name: xr.Variable(DIMENSIONS[:1] if name in COMPUTED else DIMENSIONS, found, attributes_of(name))
        for name, found in values.items()
    }
    dataset = xr.Dataset(variables, coordinates_of(study), _about_study(study, settings.neighbours_by_label(study)))
    return dataset.set_xindex([name for name in known_columns() if name in dataset]).set_xindex("exp_epsilon")


def attributes_of(name: str) -> dict[str, Any]:
    """Return the CF attributes of an array of results."""
    return {"long_name": ABOUT[name]} if name == WITHIN else described({**BOUNDS, **COMPUTED}[name])


def coordinates_of(study: StudySpec) -> dict[str, tuple[str, Any, dict[str, Any]]]:
    """Return the coordinates of a study's bounds: the columns of its cells, and its grids."""
    columns = {**column_descriptions(study.cells), "pair": "canonical form of the pair, as JSON"}
    found: dict[str, tuple[str, Any, dict[str, Any]]] = {}
    for name, what in columns.items():
        dtype = np.dtypes.StringDType() if is_text(name) else np.float64
        found[name] = CELL, np.array(column_of(study.cells, name), dtype=dtype), _about_column(name, what)
    directions = np.array([one.value for one in Direction], dtype=np.dtypes.StringDType())
    powers = np.array([exponential(value) for value in study.epsilon])
    return found | {
        COMPOSITIONS: (COMPOSITIONS, np.array(study.compositions, dtype=np.int64), described(GRIDS[COMPOSITIONS])),
        EPSILON: (EPSILON, np.array(study.epsilon), described(GRIDS[EPSILON])),
        "exp_epsilon": (EPSILON, powers, described(GRIDS["exp_epsilon"])),
        DIRECTION: (DIRECTION, directions, {"long_name": GRIDS[DIRECTION]}),
    }


def _about_column(name: str, what: str) -> dict[str, Any]:
    return {"long_name": what} if is_text(name) else described(what)


def selected_dataset(study: Study, chosen: settings.Selection, direction: str, dimensions: Sequence[str]) -> xr.Dataset:
    """Return chosen points over plain dimensions: the parameters in which cells differ, r and ε.

    `dimensions` are parameters that are a dimension also where all cells share the value. Bounds that are not known are
    NaN, and ``status`` says why. Cells that are no grid over parameters are an `InvalidInputError`.
    """
    spec, cells = study.spec, [study.spec.cells[cell] for cell in chosen.cells.tolist()]
    axes, order, parameters = _grid_of(cells, dimensions)
    block, attained = study.checked.read(chosen.cells), attained_of(cells)
    shape, dims = tuple(axes.values()), (*axes, *DIMENSIONS[1:])
    directions = [BOTH] if direction == BOTH else [one.value for one in Direction]
    coordinates: dict[str, Any] = {
        name: one for name, one in coordinates_of(replace(spec, cells=())).items() if one[0] != CELL
    }
    coordinates[DIRECTION] = DIRECTION, directions, {"long_name": GRIDS[DIRECTION]}
    for name, (axis, values) in parameters.items():
        coordinates[name] = (() if axis is None else axis, values, _about_column(name, known_columns()[name].what))
    status = block.status(attained)[order].reshape(*shape, *block.states.shape[1:])
    variables = {STATUS: ((*axes, COMPOSITIONS, EPSILON), status, {"long_name": ABOUT[STATUS]})}
    for name, values in block.bounds(attained, direction).items():
        note = {"comment": _UNATTAINED} if not attained.all() and name.endswith("lower") else {}
        variables[name] = (dims, values[order].reshape(*shape, *values.shape[1:]), {**attributes_of(name), **note})
    dataset = xr.Dataset(variables, coordinates, _about_study(spec, settings.neighbours_of_cells(spec, cells)))
    dataset = dataset.isel({COMPOSITIONS: list(chosen.compositions), EPSILON: list(chosen.epsilon)})
    single = [name for name in (*axes, COMPOSITIONS, EPSILON) if name in chosen.scalar]
    return dataset.squeeze([*single, *([DIRECTION] if direction == BOTH else [])])


def _about_study(study: StudySpec, neighbours: Mapping[str, Adjacency]) -> dict[str, str]:
    return {"title": study.name, "study_digest": study.digest, "adjacency": settings.neighbours_text(neighbours)}


def _grid_of(
    cells: Sequence[Cell], dimensions: Sequence[str]
) -> tuple[dict[str, int], IntArray, dict[str, tuple[str | None, Any]]]:
    """Return some cells as a grid: its axes with their lengths, the order of the cells, and their parameters.

    Axes are the parameters in which the cells differ; their values increase, and texts are in the order of the study.
    The last axis changes fastest. A parameter is given with the axis that it follows from and its values along that
    axis; with None and one value where all cells share it.
    """
    columns = {name: values for name, values in cell_columns(cells, dimensions).items() if name in known_columns()}
    frame = pd.DataFrame(
        {
            name: pd.Categorical(values, list(dict.fromkeys(values))) if is_text(name) else np.array(values, float)
            for name, values in columns.items()
        }
    )

    def different(names: Sequence[str]) -> int:
        return len(frame[names].drop_duplicates())

    follows: dict[str, str | None] = {}
    for name in sorted(frame, key=lambda name: name not in dimensions):
        axes = [axis for axis, own in follows.items() if axis == own]
        if different([name]) > 1:
            # A parameter that follows from another one is no axis.
            follows[name] = next((axis for axis in axes if different([axis, name]) == different([axis])), name)
        else:
            follows[name] = name if name in dimensions else None
    axes = [name for name in known_columns() if name in follows and follows[name] == name]
    # What a pair is made of follows from the others, where they distinguish the cells.
    others = [axis for axis in axes if axis != "made_of"]
    if others and "made_of" not in dimensions and different(others) == len(cells):
        axes, follows = others, {name: axis for name, axis in follows.items() if axis != "made_of"}
    sizes = {name: different([name]) for name in axes}
    if math.prod(sizes.values()) != len(cells) or (axes and different(axes) != len(cells)):
        raise InvalidInputError(_no_grid(cells, axes))
    found: dict[str, tuple[str | None, Any]] = {}
    for name, axis in follows.items():
        values = frame[name] if axis is None else frame.drop_duplicates(axis).sort_values(axis)[name]
        plain = np.array(values, dtype=str if is_text(name) else np.float64)
        if axis is not None or settings.is_set(columns[name][0]):
            found[name] = axis, plain if axis else plain[0]
    order = frame.sort_values(axes).index if axes else frame.index
    return sizes, np.asarray(order), found


def _no_grid(cells: Sequence[Cell], axes: Sequence[str]) -> str:
    labels = list(dict.fromkeys(cell.label for cell in cells))
    several = f"{len(cells)} noise settings of {', '.join(map(repr, labels[:4]))}{', ..' if len(labels) > 4 else ''}"
    different = settings.distinguishing(cells)
    if not different:
        return f"selection: expected settings that differ in a parameter, got {several} that differ in none"
    reason = f"that do not have all combinations of {', '.join(axes)}"
    return f"selection: expected a grid of noise settings, got {several} {reason}: also give {', '.join(different)}"


class _Results(BackendArray):
    """An array of results of a part: each batch is compared with its checksums when it is read."""

    def __init__(self, stored: StoredStudy, name: str, shape: tuple[int, ...]) -> None:
        self._stored, self._name = stored, name
        self.shape, self.dtype = shape, np.dtype(bool if name == WITHIN else np.float64)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the array."""
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._part)

    def _part(self, key: tuple[Any, ...]) -> Any:
        return self._stored.values(self._name, key)
