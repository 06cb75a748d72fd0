"""Read the cells of a study from the columns of a store, chunk by chunk when they are needed."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
import zarr
from numcodecs.zstd import Zstd
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from pbdist.errors import PbdistError, StoreDamagedError
from pbdist.mechanisms import MECHANISMS, Pair, pair_from_canonical
from pbdist.mechanisms.columns import (
    is_text,
    known_columns,
)
from pbdist.store.documents import FileDigest, digest_of
from pbdist.store.files import MOST_CONTENT, OversizeError, check_content
from pbdist.store.layout import BOUNDS, CELL, COLUMN_CHUNK, COMPUTED, GRIDS, WITHIN, batch_shape, result_names
from pbdist.store.metadata import check_metadata_of, json_of
from pbdist.store.place import Place
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import (
    DescribedCells,
    absent,
    cell_columns,
    column_descriptions,
    column_names,
    depends_on_values,
)
from pbdist.study.spec import KnownCells, exponential
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


#: The columns that a cell is made of.
_OF_CELL = ("mechanism", "pair", "factor")
#: How many chunks stay in memory.
_MOST_CHUNKS = 4


class StoredCells(DescribedCells):
    """The cells of a part of a store, read and checked chunk by chunk; damage is a `StoreDamagedError`.

    `files` has size and SHA-256 of the files without results, `sha256` is `StudySpec.cells_sha256`, `advice` says what
    repairs damage.
    """

    def __init__(self, place: Place, files: Mapping[str, FileDigest], count: int, sha256: str, advice: str) -> None:
        self._place, self._count, self._sha256, self._advice = place, count, sha256, advice
        self._read: dict[int, tuple[Any, ...]] = {}
        own = {*known_columns(), "pair"}
        self._files = {name: entry for name, entry in files.items() if name.split("/", maxsplit=1)[0] in own}

    @property
    def sha256(self) -> str:
        """As `StudySpec.cells_sha256`."""
        return self._sha256

    def __len__(self) -> int:
        """Return the number of cells."""
        return self._count

    def labels(self) -> dict[str, int]:
        """As `KnownCells.labels`; no cell is made."""
        return dict(Counter(self.column("mechanism")))

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Cell, ...]: ...
    def __getitem__(self, index: int | slice) -> Cell | tuple[Cell, ...]:
        """Return a cell, or several as a tuple."""
        if isinstance(index, slice):
            return tuple(self._cell(number) for number in range(self._count)[index])
        return self._cell(range(self._count)[index])

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return map(self._cell, range(self._count))

    def __eq__(self, other: object) -> bool:
        """Whether the other sequence has the same cells."""
        if isinstance(other, KnownCells):
            return self._sha256 == other.sha256
        if not isinstance(other, Sequence) or len(other) != self._count:
            return False
        return all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return the hash of the equal tuple."""
        return hash(tuple(self))

    def _cell(self, number: int) -> Cell:
        chunk, row = divmod(number, COLUMN_CHUNK)
        labels, pairs, factors = self._columns(chunk)
        try:
            factor = float(factors[row])
            return Cell(
                label=str(labels[row]),
                pair=pair_from_canonical(json_of(str(pairs[row]).encode())),
                factor=None if math.isnan(factor) else factor,
            )
        except (ValueError, PbdistError) as error:
            raise self._damaged(str(error)) from error

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs, without the chunks in memory."""
        return {**self.__dict__, "_read": {}}

    def _columns(self, chunk: int) -> tuple[Any, ...]:
        """Return labels, canonical pairs as JSON, and factors of one chunk."""
        if chunk not in self._read:
            while len(self._read) >= _MOST_CHUNKS:
                del self._read[next(iter(self._read))]
            self._read[chunk] = tuple(self._column(name, chunk) for name in _OF_CELL)
        return self._read[chunk]

    def column(self, name: str) -> list[Any]:
        """Return a column of all cells, or ``pair``.

        A parameter that mechanisms have got since the part was made, which has no column there, is that of the cells.
        """
        if self.has(name) or name in _OF_CELL:
            return [value for chunk in range(self._chunks) for value in self._column(name, chunk)]
        return cell_columns(tuple(self))[name] if name in column_names(self) else [absent(name)] * self._count

    @cached_property
    def examples(self) -> tuple[Pair, ...]:
        """A pair of each kind, and all pairs of the kinds whose values say which columns they have."""
        kinds = self.column("kind")
        found = {kind: [kinds.index(kind)] for kind in dict.fromkeys(kinds)}
        for kind in found:
            if kind in MECHANISMS and depends_on_values(MECHANISMS[kind]):
                found[kind] = [cell for cell, its in enumerate(kinds) if its == kind]
        return tuple(self[cell].pair for cells in found.values() for cell in cells)

    def has(self, name: str) -> bool:
        """Whether the part has a column."""
        return f"{name}/zarr.json" in self._files

    @property
    def _chunks(self) -> int:
        return -(-self._count // COLUMN_CHUNK)

    def _column(self, name: str, chunk: int) -> Any:
        names = (f"{name}/zarr.json", f"{name}/c/{chunk}")
        files = {}
        for file in names:
            entry = self._files.get(file, {})
            try:
                data = self._place.read(file, int(entry.get("bytes", 0)))
            except FileNotFoundError as error:
                raise self._damaged(f"no file {' or '.join(names)}") from error
            except OversizeError as error:
                raise self._damaged(f"another file {file}") from error
            if entry.get("sha256") != digest_of(data):
                raise self._damaged(f"another file {file}")
            files[file] = data
        start = chunk * COLUMN_CHUNK
        try:
            check_metadata_of(files)
            values = decode(files, name, slice(start, start + COLUMN_CHUNK))
        except (ValueError, RuntimeError) as error:
            raise self._damaged(str(error)) from error
        text = is_text(name)
        if values.shape != (min(COLUMN_CHUNK, self._count - start),) or (values.dtype.kind == "f") == text:
            raise self._damaged(f"a column {name} of another shape or type")
        if not text and np.isinf(values).any():
            raise self._damaged(f"infinity in the column {name}")
        return values.tolist()

    def _damaged(self, problem: str) -> StoreDamagedError:
        text = " ".join(problem.split())
        return StoreDamagedError(f"{self._place.url}: expected the cells of the study, got {text}: {self._advice}")
