"""The bounds of a study as a Dataset; the only file of the room that imports xarray, which takes half a second."""

from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.blocks import (
    ABOUT,
    BOTH,
    STATUS,
    UNATTAINED,
    BlockReader,
    Grid,
    attained_of,
    bounds_of_block,
    status_of,
)
from pbdist.query.lookup import Selection
from pbdist.query.settings import neighbours_by_label, neighbours_of_cells, neighbours_text
from pbdist.query.stored import Parts
from pbdist.store import StoredStudy
from pbdist.store.layout import BOUNDS, CELL, COMPUTED, GRIDS, WITHIN, described
from pbdist.study import StudySpec
from pbdist.study.columns import column_descriptions, column_of
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction


def bounds_of(parts: Parts) -> xr.Dataset:
    """Return the bounds of a study, loaded when they are used; those of an extended store at once.

    Where they cannot be read: an `OSError`, `ValueError`, `RuntimeError` or `KeyError`. What no part has, and what is
    not committed, is NaN. Where several parts have a cell, ``factor_used`` and ``loss_width`` are the smallest.
    """
    study, reader = parts.spec, BlockReader(parts)
    dims = (CELL, DIRECTION, COMPOSITIONS, EPSILON)
    sizes = (len(study.cells), len(Direction), len(study.compositions), len(study.epsilon))
    if len(parts.parts) > 1:
        values: dict[str, Any] = dict(reader.read(np.arange(len(study.cells))).values)
    else:
        shapes = {name: sizes[:1] if name in COMPUTED else sizes for name in reader.names}
        values = {
            name: indexing.LazilyIndexedArray(_Results(parts.parts[0], name, shape)) for name, shape in shapes.items()
        }
    about: dict[str, Any] = {name: described(what) for name, what in {**BOUNDS, **COMPUTED}.items()}
    about[WITHIN] = {"long_name": ABOUT[WITHIN]}
    variables = {
        name: xr.Variable(dims[:1] if name in COMPUTED else dims, found, about[name]) for name, found in values.items()
    }
    told = neighbours_text(neighbours_by_label(study))
    attributes = {"title": study.name, "study_digest": study.digest, "adjacency": told}
    dataset = xr.Dataset(variables, coordinates_of(study), attributes)
    index = [name for name in known_columns() if name in dataset]
    return dataset.set_xindex(index).set_xindex("exp_epsilon")


def coordinates_of(study: StudySpec) -> dict[str, tuple[str, Any, dict[str, str]]]:
    """Return the coordinates of a study's bounds: the columns of its cells, and its grids."""
    text = np.dtypes.StringDType()
    grids: dict[str, tuple[str, Any]] = {
        COMPOSITIONS: (COMPOSITIONS, np.array(study.compositions, dtype=np.int64)),
        EPSILON: (EPSILON, np.array(study.epsilon)),
        "exp_epsilon": (EPSILON, np.array([exponential(value) for value in study.epsilon])),
        DIRECTION: (DIRECTION, np.array([one.value for one in Direction], dtype=text)),
    }
    columns = {**column_descriptions(study.cells), "pair": "canonical form of the pair, as JSON"}
    found: dict[str, tuple[str, Any, dict[str, str]]] = {}
    for name, what in columns.items():
        texts = is_text(name)
        values = np.array(column_of(study.cells, name), dtype=text if texts else np.float64)
        found[name] = (CELL, values, {"long_name": what} | ({} if texts else {"units": "1"}))
    for name, (along, values) in grids.items():
        about = {"long_name": GRIDS[name]} | ({} if name == DIRECTION else {"units": "1"})
        found[name] = (along, values, about)
    return found


def selected_dataset(
    reader: BlockReader, study: StudySpec, chosen: Selection, direction: str, layout: Grid
) -> xr.Dataset:
    """Return chosen points over plain dimensions: those parameters that tell the cells apart, r and ε.

    `layout` says which parameters these are. Bounds that are not known are NaN, and ``status`` says why.
    """
    block = reader.read(chosen.cells)
    take = (slice(None), slice(None), *np.ix_(chosen.compositions, chosen.epsilon))
    about: dict[str, dict[str, Any]] = {name: described(what) for name, what in BOUNDS.items()}
    about[WITHIN] = {"long_name": ABOUT[WITHIN]}
    cells = [study.cells[cell] for cell in chosen.cells.tolist()]
    attained = attained_of(cells)
    inner = (DIRECTION, COMPOSITIONS, EPSILON)
    dims, shape = tuple(layout.axes), tuple(map(len, layout.axes.values()))
    variables: dict[str, Any] = {}
    for name, values in bounds_of_block(block, attained, direction).items():
        found = values[take][layout.order]
        note = {"comment": UNATTAINED} if not attained.all() and name.endswith("lower") else {}
        variables[name] = ((*dims, *inner), found.reshape(*shape, *found.shape[1:]), {**about[name], **note})
    status = status_of(block, attained)[(take[0], *take[2:])][layout.order]
    variables[STATUS] = ((*dims, *inner[1:]), status.reshape(*shape, *status.shape[1:]), {"long_name": ABOUT[STATUS]})
    epsilon = np.array([study.epsilon[index] for index in chosen.epsilon])
    grids: dict[str, tuple[str, Any]] = {
        COMPOSITIONS: (COMPOSITIONS, np.array([study.compositions[index] for index in chosen.compositions])),
        EPSILON: (EPSILON, epsilon),
        "exp_epsilon": (EPSILON, np.array([exponential(value) for value in epsilon.tolist()])),
        DIRECTION: (DIRECTION, [BOTH] if direction == BOTH else [one.value for one in Direction]),
    }
    coords: dict[str, Any] = {
        name: (dim, values, {"long_name": GRIDS[name]} | ({} if name == DIRECTION else {"units": "1"}))
        for name, (dim, values) in grids.items()
    }
    known = known_columns()
    for name, (dim, values) in layout.columns.items():
        units = {} if is_text(name) else {"units": "1"}
        coords[name] = (() if dim is None else dim, values, {"long_name": known[name].what, **units})
    told = neighbours_text(neighbours_of_cells(study, cells))
    dataset = xr.Dataset(variables, coords, {"title": study.name, "study_digest": study.digest, "adjacency": told})
    single = [name for name in (*dims, COMPOSITIONS, EPSILON) if name in chosen.scalar]
    return dataset.squeeze([*single, *([DIRECTION] if direction == BOTH else [])])


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
