"""The bounds of a study as a Dataset. Apart, so that look-ups need not wait for xarray."""

import numpy as np
import xarray as xr

from pbdist.query.union import Union
from pbdist.store import is_committed, read_values
from pbdist.store.arrays import FilesStore, array_files
from pbdist.store.documents import group_document
from pbdist.store.layout import BOUNDS, COLUMNS, COMPUTED, STORE_FORMATS
from pbdist.store.skeleton import ROOT_FILE
from pbdist.types import Direction

__all__ = ["bounds_of"]


def bounds_of(union: Union) -> xr.Dataset:
    """Return the bounds of a study, loaded when they are used; those of an extended store at once.

    Raises
    ------
    OSError, ValueError, RuntimeError, KeyError
        They cannot be read.
    """
    if len(union.parts) > 1:
        dataset = _assembled(union)
    else:
        first = union.parts[0]
        dataset = xr.open_zarr(first.place.zarr_store(first.most_bytes), consolidated=False, chunks=None)
    bounds: xr.Dataset = dataset[[*BOUNDS, *COMPUTED]].set_xindex(list(COLUMNS)).set_xindex("exp_epsilon")
    return bounds


def _assembled(union: Union) -> xr.Dataset:
    """Return the bounds of all parts in one Dataset, in memory, with the coordinates of the whole study.

    What no part has, and what is not committed, is not a number. Where several parts have a cell, ``factor_used`` and
    ``loss_width`` are the smallest of theirs.

    Raises
    ------
    StoreDamagedError
        The values cannot be read.
    """
    study = union.study
    files = {ROOT_FILE: group_document({}), **array_files(study, len(study.cells), STORE_FORMATS[-1])}
    dataset: xr.Dataset = xr.open_zarr(FilesStore(files).store, consolidated=False, chunks=None).load()
    directions = np.arange(len(Direction))
    for stored in union.parts:
        r = np.array([study.compositions.index(value) for value in stored.study.compositions])
        e = np.array([study.epsilon.index(value) for value in stored.study.epsilon])
        for index in range(stored.batches):
            if not is_committed(stored, index):
                continue
            cells = stored.head.cells_of(index)
            rows, selection = union.rows(stored, cells), slice(cells.start, cells.stop)
            for name in BOUNDS:
                values = dataset[name].values
                values[np.ix_(rows, directions, r, e)] = read_values(stored, name, selection)
            for name in COMPUTED:
                values = dataset[name].values
                values[rows] = np.fmin(values[rows], read_values(stored, name, selection))
    return dataset
