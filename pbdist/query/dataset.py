"""The bounds of a study as a Dataset; the only file of the room that imports xarray, which takes half a second."""

from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pbdist.bounds.dataset import Bounds
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query import settings
from pbdist.query.stored import ABOUT, Parts
from pbdist.rounding import exponential
from pbdist.store import StoredStudy
from pbdist.store.layout import BOUNDS, CELL, COMPUTED, GRIDS, WITHIN, described
from pbdist.study import StudySpec
from pbdist.study.columns import CellTable, column_descriptions
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction

DIMENSIONS = (CELL, DIRECTION, COMPOSITIONS, EPSILON)


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
    about = {
        "title": study.name,
        "study_digest": study.digest,
        "adjacency": settings.neighbours_text(settings.neighbours_by_label(study)),
    }
    dataset = Bounds(variables, coordinates_of(study), about)
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
        about = {"long_name": what} if is_text(name) else described(what)
        found[name] = CELL, np.array(CellTable.of(study.cells).column(name), dtype=dtype), about
    directions = np.array([one.value for one in Direction], dtype=np.dtypes.StringDType())
    powers = np.array([exponential(value) for value in study.epsilon])
    return found | {
        COMPOSITIONS: (COMPOSITIONS, np.array(study.compositions, dtype=np.int64), described(GRIDS[COMPOSITIONS])),
        EPSILON: (EPSILON, np.array(study.epsilon), described(GRIDS[EPSILON])),
        "exp_epsilon": (EPSILON, powers, described(GRIDS["exp_epsilon"])),
        DIRECTION: (DIRECTION, directions, {"long_name": GRIDS[DIRECTION]}),
    }


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
