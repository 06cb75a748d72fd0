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
from pbdist.query.labelled import Selection
from pbdist.query.settings import neighbours_by_label, neighbours_of_cells, neighbours_text
from pbdist.query.stored import Union
from pbdist.store import StoredStudy
from pbdist.store.columns import FilesStore, array_files
from pbdist.store.documents import group_document
from pbdist.store.layout import BOUNDS, CELL, COMPUTED, GRIDS, ROOT_FILE, WITHIN
from pbdist.study import StudySpec
from pbdist.study.columns import column_names, column_of
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction


def bounds_of(union: Union) -> xr.Dataset:
    """Return the bounds of a study, loaded when they are used; those of an extended store at once.

    Where they cannot be read: an `OSError`, `ValueError`, `RuntimeError` or `KeyError`.
    """
    if len(union.parts) > 1:
        dataset = _assembled(union)
    else:
        first = union.parts[0]
        dataset = xr.open_zarr(first.place.zarr_store(first.most_bytes), consolidated=False, chunks=None)
        for name in first.head.results:
            values = indexing.LazilyIndexedArray(_Results(first, name, dataset[name].shape))
            dataset[name] = xr.Variable(dataset[name].dims, values, dataset[name].attrs)
    told = [name for name in (*BOUNDS, WITHIN, *COMPUTED) if name in dataset]
    if len(union.parts) == 1:
        dataset = _with_all_columns(dataset, union.study)
    index = [name for name in known_columns() if name in dataset]
    bounds: xr.Dataset = dataset[told].set_xindex(index).set_xindex("exp_epsilon")
    return bounds.assign_attrs(adjacency=neighbours_text(neighbours_by_label(union.study)))


def _with_all_columns(dataset: xr.Dataset, study: StudySpec) -> xr.Dataset:
    """Return a part's arrays with the columns that it lacks: parameters that mechanisms have got since."""
    known = known_columns()
    lacking = [name for name in column_names(study.cells) if name not in dataset]
    columns = {name: (CELL, column_of(study.cells, name), {"long_name": known[name].what}) for name in lacking}
    return dataset.assign_coords(columns) if lacking else dataset


def _assembled(union: Union) -> xr.Dataset:
    """Return the bounds of all parts in one Dataset, in memory, with the coordinates of the whole study.

    What no part has, and what is not committed, is NaN. Where several parts have a cell, ``factor_used`` and
    ``loss_width`` are the smallest of theirs.
    """
    study = union.study
    files = {ROOT_FILE: group_document({}), **array_files(study, len(study.cells))}
    dataset: xr.Dataset = xr.open_zarr(FilesStore(files).store, consolidated=False, chunks=None).load()
    reader = BlockReader(union, lambda stored, cell: stored.results.is_sound(cell // stored.cells_per_batch))
    for name, values in reader.read(np.arange(len(study.cells))).values.items():
        dataset[name] = dataset[name].copy(data=values)
    return dataset


def selected_dataset(
    reader: BlockReader, study: StudySpec, chosen: Selection, direction: str, layout: Grid
) -> xr.Dataset:
    """Return chosen points over plain dimensions: those parameters that tell the cells apart, r and ε.

    `layout` says which parameters these are. Bounds that are not known are NaN, and ``status`` says why.
    """
    block = reader.read(chosen.cells)
    take = (slice(None), slice(None), *np.ix_(chosen.compositions, chosen.epsilon))
    about: dict[str, dict[str, Any]] = {name: one.as_dict() for name, one in BOUNDS.items()}
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
        name: (dim, values, {"long_name": GRIDS[name].long_name} | ({} if name == DIRECTION else {"units": "1"}))
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
    """An array of results of a part: each batch is compared with its record when it is read."""

    def __init__(self, stored: StoredStudy, name: str, shape: tuple[int, ...]) -> None:
        self._stored, self._name = stored, name
        self.shape, self.dtype = shape, np.dtype(bool if name == WITHIN else np.float64)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the array."""
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._part)

    def _part(self, key: tuple[Any, ...]) -> Any:
        return self._stored.results.array(self._name, key)
