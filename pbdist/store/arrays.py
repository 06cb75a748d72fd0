"""Encode and decode the zarr arrays of a store in memory, from and to the bytes of files."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from pbdist.store.layout import (
    BOUNDS,
    CELL,
    COLUMN_CHUNK,
    COLUMNS,
    COMPUTED,
    GRIDS,
    TEXT_COLUMNS,
    WITHIN,
    cell_columns,
    chunk_file,
    result_names,
)
from pbdist.study import StudySpec
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, BoolArray, Direction, FloatArray, JsonValue

__all__ = ["COMPRESSOR", "SERIALIZER", "FilesStore", "array_files", "decode", "encode_chunk"]

SERIALIZER = BytesCodec()
#: With a checksum, so that a flipped bit is an error and not a wrong number.
COMPRESSOR = ZstdCodec(level=3, checksum=True)


class _Shape(NamedTuple):
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    dimensions: tuple[str, ...]


class FilesStore:
    """A zarr store in memory, with the given files to begin with."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        buffer = default_buffer_prototype().buffer
        self._content: dict[str, Any] = {name: buffer.from_bytes(data) for name, data in (files or {}).items()}
        self.store = MemoryStore(self._content)

    def files(self) -> dict[str, bytes]:
        """Return all files, sorted by name."""
        return {name: self._content[name].to_bytes() for name in sorted(self._content)}


def array_files(study: StudySpec, cells_per_batch: int, format_version: int) -> dict[str, bytes]:
    """Return the files of all arrays before there are results: metadata, and coordinates with their values."""
    memory = FilesStore()
    root = zarr.open_group(memory.store, mode="w", zarr_format=3)
    for name in result_names(study, format_version):
        _result_array(root, name, study, len(study.cells), cells_per_batch)
    _write_grids(root, study)
    _write_columns(root, study)
    files = memory.files()
    del files["zarr.json"]
    return files


def encode_chunk(
    settings: StudySpec, cells: int, cells_per_batch: int, index: int, values: Mapping[str, FloatArray | BoolArray]
) -> Iterator[tuple[str, bytes]]:
    """Yield for each array of results the name and the content of the file of batch `index`.

    `settings` is the study, whose cells are not read: their number is `cells`. `values` has those of the batch's cells.
    """
    start = index * cells_per_batch
    for name, content in values.items():
        memory = FilesStore()
        root = zarr.open_group(memory.store, mode="w", zarr_format=3)
        _result_array(root, name, settings, cells, cells_per_batch)[start : start + len(content)] = content
        file = chunk_file(name, index)
        yield file, memory.files()[file]


def decode(files: Mapping[str, bytes], name: str, selection: slice) -> Any:
    """Return a part of an array along its first dimension, from its metadata and the chunks that hold that part.

    Raises `ValueError` or `RuntimeError` where they cannot be read.
    """
    return np.asarray(zarr.open_array(FilesStore(files).store, path=name, mode="r")[selection])


def _result_array(
    root: zarr.Group, name: str, settings: StudySpec, cells: int, cells_per_batch: int
) -> zarr.Array[Any]:
    of_cell = {"coordinates": " ".join([*COLUMNS, "pair"])}
    if name in COMPUTED:
        shape = _Shape((cells,), (cells_per_batch,), (CELL,))
        return _array(root, name, shape, np.dtype("f8"), {**COMPUTED[name].as_dict(), **of_cell})
    inner = (len(Direction), len(settings.compositions), len(settings.epsilon))
    shape = _Shape((cells, *inner), (cells_per_batch, *inner), (CELL, DIRECTION, COMPOSITIONS, EPSILON))
    coordinates = {"coordinates": f"{of_cell['coordinates']} exp_epsilon"}
    if name == WITHIN:
        about: dict[str, JsonValue] = {"long_name": "whether the bounds meet within the tolerance"}
        return _array(root, name, shape, np.dtype("bool"), {**about, **coordinates})
    return _array(root, name, shape, np.dtype("f8"), {**BOUNDS[name].as_dict(), **coordinates})


def _write_grids(root: zarr.Group, study: StudySpec) -> None:
    grids: dict[str, tuple[Any, str]] = {
        COMPOSITIONS: (np.array(study.compositions, dtype=np.int64), COMPOSITIONS),
        EPSILON: (np.array(study.epsilon), EPSILON),
        "exp_epsilon": (np.array([exponential(value) for value in study.epsilon]), EPSILON),
        DIRECTION: (np.array([item.value for item in Direction], dtype=np.dtypes.StringDType()), DIRECTION),
    }
    for name, (values, dimension) in grids.items():
        about = GRIDS[name].as_dict()
        if name == DIRECTION:
            del about["units"]
        shape = _Shape(values.shape, values.shape, (dimension,))
        _array(root, name, shape, values.dtype, about)[...] = values


def _write_columns(root: zarr.Group, study: StudySpec) -> None:
    text = np.dtypes.StringDType()
    count = len(study.cells)
    arrays: dict[str, zarr.Array[Any]] = {}
    for name in (*COLUMNS, "pair"):
        kind: Any = text if name in TEXT_COLUMNS or name == "pair" else np.dtype("f8")
        attributes: dict[str, JsonValue] = {"long_name": COLUMNS.get(name, "canonical form of the pair, as JSON")}
        if kind is not text:
            attributes["units"] = "1"
        arrays[name] = _array(root, name, _Shape((count,), (min(count, COLUMN_CHUNK),), (CELL,)), kind, attributes)
    for start in range(0, count, COLUMN_CHUNK):
        # Chunk by chunk, so that a large study is never in memory as rows.
        stop = min(start + COLUMN_CHUNK, count)
        for name, values in cell_columns(study.cells[start:stop]).items():
            arrays[name][start:stop] = np.array(values, dtype=arrays[name].dtype)


def _array(root: zarr.Group, name: str, shape: _Shape, dtype: Any, attributes: dict[str, JsonValue]) -> zarr.Array[Any]:
    floats = dtype == np.dtype("f8")
    return root.create_array(
        name,
        shape=shape.sizes,
        chunks=shape.chunks,
        dtype=dtype,
        # A missing value must not look like a number, nor like a tolerance that is met.
        fill_value=np.nan if floats else None,
        serializer=SERIALIZER if floats else "auto",
        compressors=COMPRESSOR,
        dimension_names=shape.dimensions,
        attributes=attributes,
        config={"write_empty_chunks": True},
    )
