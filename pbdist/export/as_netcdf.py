"""An export as a netCDF file."""

from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np

from pbdist.export.write import flat
from pbdist.mechanisms.columns import is_text
from pbdist.query import Study
from pbdist.query.blocks import ABOUT, Block
from pbdist.store.layout import CELL, COLUMN_CHUNK, COMPUTED, GRIDS, WITHIN, described
from pbdist.study.columns import cell_columns, column_descriptions
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction, JsonValue

_TEXT = h5py.string_dtype("utf-8")
_PACKED = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}


class NetcdfWriter:
    """Writes slices of the cells into arrays of their final size."""

    def __init__(self, study: Study, path: Path, length: int) -> None:
        spec = self._spec = study.spec
        self._names = {**column_descriptions(spec.cells), "pair": "canonical form of the pair, as JSON"}
        sizes = {
            CELL: len(spec.cells),
            DIRECTION: len(Direction),
            COMPOSITIONS: len(spec.compositions),
            EPSILON: len(spec.epsilon),
        }
        self._file = h5netcdf.File(path, "w")
        self._file.dimensions = sizes
        self._write_grids()
        self._write_columns()
        self._arrays: dict[str, Any] = {}
        coordinates = " ".join(self._names)
        for name in study.blocks.names:
            dims = (CELL,) if name in COMPUTED else tuple(sizes)
            chunks = (length, *(sizes[dim] for dim in dims[1:]))
            attributes = {"long_name": ABOUT[name]} | ({"dtype": "bool"} if name == WITHIN else {"units": "1"})
            of_points = "" if name in COMPUTED else " exp_epsilon"
            kind = np.dtype("i1") if name == WITHIN else np.dtype("f8")
            array = self._array(name, dims, kind, chunks, {**attributes, "coordinates": coordinates + of_points})
            self._arrays[name] = array

    def write(self, block: Block) -> None:
        """Write the points of the next cells."""
        first, last = int(block.cells[0]), int(block.cells[-1])
        for name, values in block.values.items():
            self._arrays[name][first : last + 1] = values.astype(self._arrays[name].dtype)

    def finish(self, about: dict[str, JsonValue]) -> None:
        """Write what is said of all."""
        self._file.attrs.update(flat(about))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write_grids(self) -> None:
        spec = self._spec
        grids: dict[str, tuple[str, Any]] = {
            COMPOSITIONS: (COMPOSITIONS, np.array(spec.compositions, dtype=np.int64)),
            EPSILON: (EPSILON, np.array(spec.epsilon)),
            "exp_epsilon": (EPSILON, np.array([exponential(value) for value in spec.epsilon])),
        }
        for name, (dim, values) in grids.items():
            about = described(GRIDS[name])
            self._array(name, (dim,), values.dtype, values.shape, about)[...] = values
        names = self._file.create_variable(DIRECTION, (DIRECTION,), dtype=_TEXT)
        names.attrs["long_name"] = GRIDS[DIRECTION]
        names[...] = np.array([one.value for one in Direction], dtype=object)

    def _write_columns(self) -> None:
        cells = self._spec.cells
        chunk = (min(len(cells), COLUMN_CHUNK),)
        columns = {}
        for name, what in self._names.items():
            about: dict[str, JsonValue] = {"long_name": what}
            text = is_text(name)
            kind = _TEXT if text else np.dtype("f8")
            columns[name] = self._array(name, (CELL,), kind, chunk, about | ({} if text else {"units": "1"}))
        for start in range(0, len(cells), COLUMN_CHUNK):
            stop = min(start + COLUMN_CHUNK, len(cells))
            for name, values in cell_columns(cells[start:stop], self._names).items():
                columns[name][start:stop] = np.array(values, dtype=object if columns[name].dtype == object else "f8")

    def _array(
        self, name: str, dims: tuple[str, ...], kind: Any, chunks: tuple[int, ...], attributes: dict[str, JsonValue]
    ) -> Any:
        fill = {"fillvalue": np.nan} if kind == np.dtype("f8") else {}
        # Texts of any length are kept apart, where no filter reaches them.
        packed = {} if kind is _TEXT else _PACKED
        array = self._file.create_variable(name, dims, dtype=kind, chunks=chunks, **fill, **packed)
        for key, value in attributes.items():
            array.attrs[key] = value
        return array
