"""The skeleton of a part of a store: every file that the study alone decides, before anything is computed."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import zarr
from numcodecs.zstd import Zstd
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from pbdist.mechanisms.columns import is_text
from pbdist.provenance import provenance
from pbdist.rounding import exponential
from pbdist.store.layout import (
    BOUNDS_ARRAY,
    CELL,
    COLUMN_CHUNK,
    DETAIL,
    DETAILS,
    DETAILS_ARRAY,
    FAILURES,
    GRIDS,
    METADATA,
    QUANTITIES,
    QUANTITY,
    STATES,
    STORE_FORMAT,
    described,
    dimension,
)
from pbdist.study import StudySpec
from pbdist.study.columns import cell_columns, column_descriptions
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction, FloatArray, JsonValue

_SERIALIZER = BytesCodec()
#: With a checksum, so that a flipped bit is an error and not a wrong number.
COMPRESSOR = ZstdCodec(level=3, checksum=True)
_ZSTD = Zstd(level=3, checksum=True)
#: Chunks of an array are files in one folder: ``bounds/0.0.0.0.0``.
_CHUNK_KEYS: dict[str, JsonValue] = {"name": "v2", "separator": "."}
#: The attribute that has the SHA-256 of the whole document.
_SEAL = "sha256"
#: The attribute of the root that lists the parts which extend a store.
_EXTENSIONS = "extensions"


class FilesStore:
    """A zarr store in memory, with the given files to begin with."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        buffer = default_buffer_prototype().buffer
        self._content: dict[str, Any] = {name: buffer.from_bytes(data) for name, data in (files or {}).items()}
        self.store = MemoryStore(self._content)

    def files(self) -> dict[str, bytes]:
        """Return all files, sorted by name."""
        return {name: self._content[name].to_bytes() for name in sorted(self._content)}


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def array_files(study: StudySpec, cells_per_batch: int, part: str = "") -> dict[str, bytes]:
    """Return the files of all arrays before there are results: metadata, and coordinates with their values."""
    memory = FilesStore()
    root = zarr.open_group(memory.store, mode="w", zarr_format=3)
    columns = {**column_descriptions(study.cells), "pair": "canonical form of the pair, as JSON"}
    cells, r, e = len(study.cells), len(study.compositions), len(study.epsilon)
    inner = (len(QUANTITIES), len(Direction), r, e)
    floats = np.dtype("f8")

    def new(name: str, shape: tuple[int, ...], along: Sequence[str], **more: Any) -> zarr.Array[Any]:
        return new_array(root, name, shape, [dimension(each, part) for each in along], **more)

    # The coordinates that xarray attaches.
    about = {"coordinates": " ".join([*columns, "exp_epsilon"])}
    along = CELL, QUANTITY, DIRECTION, COMPOSITIONS, EPSILON
    new(BOUNDS_ARRAY, (cells, *inner), along, chunks=(cells_per_batch, *inner), dtype=floats, attributes=about)
    about, shape, chunks = {"coordinates": " ".join(columns)}, (cells, len(DETAILS)), (cells_per_batch, len(DETAILS))
    new(DETAILS_ARRAY, shape, (CELL, DETAIL), chunks=chunks, dtype=floats, attributes=about)
    text = np.dtypes.StringDType()
    coordinates: dict[str, tuple[str, Any, dict[str, JsonValue]]] = {
        QUANTITY: (QUANTITY, np.array(QUANTITIES, dtype=text), {}),
        DETAIL: (DETAIL, np.array(DETAILS, dtype=text), {}),
        DIRECTION: (DIRECTION, np.array([one.value for one in Direction], dtype=text), {"long_name": GRIDS[DIRECTION]}),
        COMPOSITIONS: (COMPOSITIONS, np.array(study.compositions, dtype=np.int64), described(GRIDS[COMPOSITIONS])),
        EPSILON: (EPSILON, np.array(study.epsilon), described(GRIDS[EPSILON])),
        "exp_epsilon": (EPSILON, np.array([*map(exponential, study.epsilon)]), described(GRIDS["exp_epsilon"])),
    }
    for name, (axis, values, about) in coordinates.items():
        named = name if name == "exp_epsilon" else dimension(name, part)
        new(named, values.shape, (axis,), dtype=values.dtype, attributes=about)[...] = values
    _write_columns(new, study, columns)
    for name in (FAILURES, *([STATES] if study.keep_states else [])):
        root.create_group(name)
    files = memory.files()
    del files[METADATA]
    return files


def new_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    dimensions: Sequence[str],
    *,
    dtype: Any,
    chunks: tuple[int, ...] | None = None,
    attributes: Mapping[str, JsonValue] | None = None,
) -> zarr.Array[Any]:
    """Make an array in a group, by default in one chunk."""
    floats = dtype == np.dtype("f8")
    return group.create_array(
        name,
        shape=shape,
        chunks=chunks or tuple(max(1, size) for size in shape),
        dtype=dtype,
        # A missing value must not look like a number.
        fill_value=np.nan if floats else None,
        serializer=_SERIALIZER if floats else "auto",
        compressors=COMPRESSOR,
        chunk_key_encoding=_CHUNK_KEYS,
        dimension_names=dimensions,
        attributes=dict(attributes or {}),
        config={"write_empty_chunks": True},
    )


def _write_columns(new: Callable[..., zarr.Array[Any]], study: StudySpec, columns: Mapping[str, str]) -> None:
    count = len(study.cells)
    arrays: dict[str, zarr.Array[Any]] = {}
    for name, what in columns.items():
        text = is_text(name)
        kind: Any = np.dtypes.StringDType() if text else np.dtype("f8")
        about: dict[str, JsonValue] = {"long_name": what} if text else described(what)
        chunks = (min(count, COLUMN_CHUNK),)
        arrays[name] = new(name, (count,), (CELL,), chunks=chunks, dtype=kind, attributes=about)
    for start in range(0, count, COLUMN_CHUNK):
        # Chunk by chunk, so that a large study is never in memory as rows.
        stop = min(start + COLUMN_CHUNK, count)
        for name, values in cell_columns(study.cells[start:stop], columns).items():
            arrays[name][start:stop] = np.array(values, dtype=arrays[name].dtype)


def encode_chunk(values: FloatArray, cells_per_batch: int) -> bytes:
    """Return the bytes of a batch as zarr writes the chunk; a short batch is filled up."""
    chunk = np.full((cells_per_batch, *values.shape[1:]), np.nan, dtype="<f8")
    chunk[: len(values)] = values
    return bytes(_ZSTD.encode(chunk))


def decode_chunk(data: bytes, shape: tuple[int, ...]) -> FloatArray:
    """Return the values of a batch; a `RuntimeError` or `ValueError` where they cannot be read."""
    return np.frombuffer(_ZSTD.decode(data), dtype="<f8").reshape(shape)


def group_document(attributes: Mapping[str, JsonValue]) -> bytes:
    """Return the ``zarr.json`` of a group with these attributes: the only text of that content."""
    return _document({"attributes": attributes, "zarr_format": 3, "node_type": "group"})


def part_attributes(study: StudySpec, cells_per_batch: int, files: Mapping[str, bytes]) -> dict[str, JsonValue]:
    """Return the attributes of a part: of the study all but its cells, which are columns, and checksums of `files`."""
    targets = [[one.compositions, one.epsilon.hex(), one.delta.hex()] for one in study.targets]
    return {
        "Conventions": "CF-1.11",
        "title": study.name,
        # As the name they are no part of the digest: those of the study that made the part.
        **({"targets": targets} if targets else {}),
        "pbdist_format": STORE_FORMAT,
        "study_digest": study.digest,
        "study": study.head(),
        "cells_per_batch": cells_per_batch,
        "provenance": provenance(),
        "files": {name: digest_of(data) for name, data in files.items()},
    }


def part_document(
    attributes: Mapping[str, JsonValue], nodes: Mapping[str, JsonValue], extensions: Iterable[str] = ()
) -> bytes:
    """Return the ``zarr.json`` of a part, sealed with its own SHA-256.

    Parameters
    ----------
    attributes
        Those of `part_attributes`.
    nodes
        The metadata of all arrays and groups below, by path. Readers of zarr take them from here.
    extensions
        The paths of the parts that extend a store, in its root.
    """
    paths = sorted(extensions)
    about = {name: value for name, value in attributes.items() if name not in (_SEAL, _EXTENSIONS)}
    about |= {_EXTENSIONS: paths} if paths else {}
    content: dict[str, JsonValue] = {
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": _consolidated({name: _shown(node) for name, node in nodes.items()}),
    }
    seal = digest_of(_document({**content, "attributes": about}))
    return _document({**content, "attributes": {**about, _SEAL: seal}})


def _consolidated(nodes: Mapping[str, JsonValue]) -> JsonValue:
    return {"kind": "inline", "must_understand": False, "metadata": dict(nodes)}


def _shown(node: JsonValue) -> JsonValue:
    """Return a group as one whose members are listed: readers look for no others, such as states."""
    return {**node, "consolidated_metadata": _consolidated({})} if node["node_type"] == "group" else node


def nodes_of(data: bytes) -> dict[str, JsonValue]:
    """Return the metadata of all arrays and groups below a part, by path, from its sound ``zarr.json``."""
    nodes: dict[str, JsonValue] = json.loads(data)["consolidated_metadata"]["metadata"]
    return nodes


def attributes_of(data: bytes | None) -> dict[str, JsonValue] | None:
    """Return the attributes of a group by its ``zarr.json``; None where that is none."""
    try:
        document = json.loads(data or b"")
        attributes = document["attributes"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return attributes if isinstance(attributes, dict) and document.get("node_type") == "group" else None


def is_sealed(data: bytes) -> bool:
    """Whether the ``zarr.json`` of a part has the SHA-256 that it contains."""
    document = json.loads(data)
    return bool(document["attributes"].pop(_SEAL, None) == digest_of(_document(document)))


def nodes_among(files: Mapping[str, bytes]) -> dict[str, JsonValue]:
    """Return the metadata of all arrays and groups among some files, by path."""
    ends = f"/{METADATA}"
    return {name.removesuffix(ends): json.loads(data) for name, data in files.items() if name.endswith(ends)}


def _document(content: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False).encode()
