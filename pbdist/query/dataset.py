"""The bounds of a study as a Dataset; the only file of the room that imports xarray, which takes half a second."""

from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pbdist.query.stored import Union
from pbdist.store import StoredStudy, is_committed, read_values, read_within
from pbdist.store.arrays import FilesStore, array_files
from pbdist.store.documents import group_document
from pbdist.store.layout import BOUNDS, COLUMNS, COMPUTED, ROOT_FILE, STORE_FORMATS, WITHIN
from pbdist.types import Direction

__all__ = ["bounds_of"]


def bounds_of(union: Union) -> xr.Dataset:
    """Return the bounds of a study, loaded when they are used; those of an extended store at once.

    Where they cannot be read: an `OSError`, `ValueError`, `RuntimeError` or `KeyError`.
    """
    if len(union.parts) > 1:
        dataset = _assembled(union)
    else:
        first = union.parts[0]
        dataset = xr.open_zarr(first.place.zarr_store(first.most_bytes), consolidated=False, chunks=None)
        if first.study.sought is not None and WITHIN not in first.head.results:
            like, name = dataset[next(iter(BOUNDS))], {"long_name": "whether the bounds meet within the tolerance"}
            derived = indexing.LazilyIndexedArray(_Within(first, like.shape))
            dataset[WITHIN] = xr.Variable(like.dims, derived, name)
    told = [name for name in (*BOUNDS, WITHIN, *COMPUTED) if name in dataset]
    bounds: xr.Dataset = dataset[told].set_xindex(list(COLUMNS)).set_xindex("exp_epsilon")
    return bounds


def _assembled(union: Union) -> xr.Dataset:
    """Return the bounds of all parts in one Dataset, in memory, with the coordinates of the whole study.

    What no part has, and what is not committed, is NaN. Where several parts have a cell, ``factor_used`` and
    ``loss_width`` are the smallest of theirs.
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
            if WITHIN in dataset:
                dataset[WITHIN].values[np.ix_(rows, directions, r, e)] = read_within(stored, selection)
            for name in COMPUTED:
                values = dataset[name].values
                values[rows] = np.fmin(values[rows], read_values(stored, name, selection))
    return dataset


class _Within(BackendArray):
    """Where the bounds meet within the tolerance, for a store that does not hold it: computed when it is read."""

    def __init__(self, stored: StoredStudy, shape: tuple[int, ...]) -> None:
        self._stored = stored
        self.shape, self.dtype = shape, np.dtype(bool)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the array."""
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._part)

    def _part(self, key: tuple[Any, ...]) -> Any:
        # Of whole cells, as the study may judge the larger direction.
        cells, *inner = key
        found = read_within(self._stored, cells)
        return found[(*([] if isinstance(cells, int | np.integer) else [slice(None)]), *inner)]
