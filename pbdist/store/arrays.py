"""Encode and decode the zarr arrays of a store in memory, from and to the bytes of files."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import zarr
from numcodecs.zstd import Zstd
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from pbdist.mechanisms.columns import is_text
from pbdist.store.cell_columns import cell_columns, column_descriptions
from pbdist.store.frames import MOST_CONTENT, check_content
from pbdist.store.layout import (
    BOUNDS,
    CELL,
    COLUMN_CHUNK,
    COMPUTED,
    GRIDS,
    WITHIN,
    batch_shape,
    result_names,
)
from pbdist.study import StudySpec
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, BoolArray, Direction, FloatArray, JsonValue

SERIALIZER = BytesCodec()
#: With a checksum, so that a flipped bit is an error and not a wrong number.
COMPRESSOR = ZstdCodec(level=3, checksum=True)
_ZSTD = Zstd(level=3, checksum=True)
#: The type of results on the disk and what stands for a value that is not known, by the kind of their dtype.
_RESULT_TYPES: Mapping[str, tuple[str, Any]] = {"f": ("<f8", np.nan), "b": ("|b1", False)}


class _Shape(NamedTuple):
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    dimensions: tuple[str, ...]
    #: Of a shard, which is one file of several chunks.
    shards: tuple[int, ...] | None = None


class FilesStore:
    """A zarr store in memory, with the given files to begin with."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        buffer = default_buffer_prototype().buffer
        self._content: dict[str, Any] = {name: buffer.from_bytes(data) for name, data in (files or {}).items()}
        self.store = MemoryStore(self._content)

    def files(self) -> dict[str, bytes]:
        """Return all files, sorted by name."""
        return {name: self._content[name].to_bytes() for name in sorted(self._content)}


def array_files(study: StudySpec, cells_per_batch: int, batches_per_shard: int | None = None) -> dict[str, bytes]:
    """Return the files of all arrays before there are results: metadata, and coordinates with their values.

    Without `batches_per_shard` each batch is a file of its own in each array.
    """
    memory = FilesStore()
    root = zarr.open_group(memory.store, mode="w", zarr_format=3)
    columns = {**column_descriptions(study.cells), "pair": "canonical form of the pair, as JSON"}
    for name in result_names(study):
        _result_array(root, name, study, cells_per_batch, batches_per_shard, columns=tuple(columns))
    _write_grids(root, study)
    _write_columns(root, study, columns)
    files = memory.files()
    del files["zarr.json"]
    return files


def encode_chunk(values: FloatArray | BoolArray, cells_per_batch: int) -> bytes:
    """Return the bytes of a batch in an array of results, as zarr writes the chunk; a short batch is filled up."""
    dtype, fill = _RESULT_TYPES[values.dtype.kind]
    chunk = np.full((cells_per_batch, *values.shape[1:]), fill, dtype=dtype)
    chunk[: len(values)] = values
    return bytes(_ZSTD.encode(chunk))


def decode_chunk(data: bytes, shape: tuple[int, ...], name: str) -> Any:
    """Return the values of a batch in an array of results, an array of that shape.

    Raises `RuntimeError` or `ValueError` where they cannot be read.
    """
    dtype, fill = _RESULT_TYPES["b" if name == WITHIN else "f"]
    most = math.prod(shape) * np.dtype(dtype).itemsize
    if most > MOST_CONTENT:
        raise ValueError(f"a chunk of more than {MOST_CONTENT:,} bytes")
    check_content(data, most)
    # What too short a content leaves out is not known.
    values = np.full(shape, fill, dtype=dtype)
    _ZSTD.decode(data, out=values.view(np.uint8).reshape(-1))
    return values.view(np.uint8) != 0 if name == WITHIN else values


def decode(files: Mapping[str, bytes], name: str, selection: slice) -> Any:
    """Return a part of an array along its first dimension, from its metadata and the chunks that hold that part.

    Raises `ValueError` or `RuntimeError` where they cannot be read.
    """
    return read_array(zarr.open_array(FilesStore(files).store, path=name, mode="r"), files, selection)


def read_array(array: zarr.Array[Any], files: Mapping[str, bytes], selection: Any = ...) -> Any:
    """Return a part of an array without shards, whose files are among those given.

    Raises `ValueError` where a chunk is missing, or its content is longer than any that pbdist writes.
    """
    chunks = [data for name, data in files.items() if name.startswith(f"{array.path}/c/".lstrip("/"))]
    if array.shards is not None or (array.size and not chunks):
        raise ValueError("an array with shards, or without its chunks")
    most = MOST_CONTENT
    if array.dtype.kind in "bif":
        # What is missing would be made of the fill value.
        elements = max(math.prod(array.chunks), array.size if selection is ... else 0)
        if elements * array.dtype.itemsize > most:
            raise ValueError(f"an array or a chunk of more than {most:,} bytes")
        most = math.prod(array.chunks) * array.dtype.itemsize
    for data in chunks:
        check_content(data, most)
    return np.asarray(array[selection])


def _result_array(
    root: zarr.Group,
    name: str,
    study: StudySpec,
    cells_per_batch: int,
    batches_per_shard: int | None,
    *,
    columns: Sequence[str],
) -> zarr.Array[Any]:
    sizes, chunks = (batch_shape(study, name, cells) for cells in (len(study.cells), cells_per_batch))
    shards = None if batches_per_shard is None else batch_shape(study, name, cells_per_batch * batches_per_shard)
    dimensions = (CELL,) if name in COMPUTED else (CELL, DIRECTION, COMPOSITIONS, EPSILON)
    shape = _Shape(sizes, chunks, dimensions, shards)
    coordinates = " ".join([*columns, *(["exp_epsilon"] if name not in COMPUTED else [])])
    about: dict[str, JsonValue] = {"long_name": "whether the bounds meet within the tolerance"}
    if name != WITHIN:
        about = {**BOUNDS, **COMPUTED}[name].as_dict()
    dtype = np.dtype("bool" if name == WITHIN else "f8")
    return _array(root, name, shape, dtype, {**about, "coordinates": coordinates})


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


def _write_columns(root: zarr.Group, study: StudySpec, columns: Mapping[str, str]) -> None:
    text = np.dtypes.StringDType()
    count = len(study.cells)
    arrays: dict[str, zarr.Array[Any]] = {}
    for name, what in columns.items():
        kind: Any = text if is_text(name) else np.dtype("f8")
        attributes: dict[str, JsonValue] = {"long_name": what}
        if kind is not text:
            attributes["units"] = "1"
        arrays[name] = _array(root, name, _Shape((count,), (min(count, COLUMN_CHUNK),), (CELL,)), kind, attributes)
    for start in range(0, count, COLUMN_CHUNK):
        # Chunk by chunk, so that a large study is never in memory as rows.
        stop = min(start + COLUMN_CHUNK, count)
        for name, values in cell_columns(study.cells[start:stop], columns).items():
            arrays[name][start:stop] = np.array(values, dtype=arrays[name].dtype)


def _array(root: zarr.Group, name: str, shape: _Shape, dtype: Any, attributes: dict[str, JsonValue]) -> zarr.Array[Any]:
    floats = dtype == np.dtype("f8")
    return root.create_array(
        name,
        shape=shape.sizes,
        chunks=shape.chunks,
        shards=shape.shards,
        dtype=dtype,
        # A missing value must not look like a number, nor like a tolerance that is met.
        fill_value=np.nan if floats else None,
        serializer=SERIALIZER if floats else "auto",
        compressors=COMPRESSOR,
        dimension_names=shape.dimensions,
        attributes=attributes,
        config={"write_empty_chunks": True},
    )
