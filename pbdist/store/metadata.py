"""Check the metadata of an array before zarr reads it: only what pbdist writes, of a size that can be read.

The metadata says how much memory is taken. Its checksum shows changes, but anybody can compute one.
"""

import json
import math
import re
from collections.abc import Mapping

import numpy as np

from pbdist.errors import shown
from pbdist.types import JsonValue

#: The most levels of lists and mappings in each other. Those of a pair are few, and it is read level by level.
_MOST_LEVELS = 100
#: A text of JSON, or the rest of a document in which one has no end. It never goes back, and so takes linear time.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)


def json_of(data: bytes) -> JsonValue:
    """Return what a JSON document says; a `ValueError` where it is none, or has more levels than a store's has."""
    if data.count(b"[") + data.count(b"{") > _MOST_LEVELS:
        signs = np.frombuffer(_TEXT.sub(b"", data), dtype=np.uint8)
        opening, closing = ((signs == pair[0]) | (signs == pair[1]) for pair in (b"[{", b"]}"))
        steps = np.where(opening, np.int8(1), np.int8(-1))[opening | closing]
        levels = np.cumsum(steps, dtype=np.int32)
        if levels.max(initial=0) > _MOST_LEVELS:
            raise ValueError(f"expected at most {_MOST_LEVELS} levels of nesting, got more")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("expected a few levels of nesting, got more") from error


#: The name of the file of a group or an array.
METADATA = "zarr.json"

#: The most elements along the first dimension of an array, of all that has one number there, and of a chunk or shard.
_MOST_ELEMENTS = 1 << 28
_TYPES = ("bool", "float64", "int64", "string")
_KEYS = {
    "zarr_format": 3,
    "node_type": "array",
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "storage_transformers": [],
}
_VALUES = {"shape", "data_type", "chunk_grid", "fill_value", "codecs", "attributes", "dimension_names"}
#: The codecs by name, with their settings.
_CODECS = {
    "bytes": {"configuration": {"endian": "little"}},
    "crc32c": {},
    "vlen-utf8": {"configuration": {}},
    "zstd": {"configuration": {"level": 3, "checksum": True}},
}
_SHARDS = "sharding_indexed"
_SHARD_KEYS = {"chunk_shape", "codecs", "index_codecs", "index_location"}


def check_metadata(data: bytes) -> None:
    """Refuse the metadata of an array that pbdist does not write, by a `ValueError`; groups are not looked at."""
    document = json_of(data)
    if not isinstance(document, dict):
        raise _wrong("zarr.json", "a mapping", document)
    if document.get("node_type") != "group":
        _check_array(document)


def check_metadata_of(files: Mapping[str, bytes]) -> None:
    """As `check_metadata`, for all metadata among some files; what has chunks must be an array."""
    for name, data in files.items():
        if name.rpartition("/")[2] == METADATA:
            check_metadata(data)


def _check_array(document: dict[str, JsonValue]) -> None:
    for key, value in _KEYS.items():
        if document.get(key, value) != value or (key not in document and key != "storage_transformers"):
            raise _wrong(key, str(value), document.get(key))
    if not _VALUES <= set(document) <= _VALUES | set(_KEYS):
        raise _wrong("keys", ", ".join(sorted(_VALUES)), sorted(document))
    shape = _checked_sizes("shape", document["shape"], least=0)
    if document["data_type"] not in _TYPES:
        raise _wrong("data_type", f"one of {', '.join(_TYPES)}", document["data_type"])
    grid = document["chunk_grid"]
    if not isinstance(grid, dict) or set(grid) != {"name", "configuration"} or grid["name"] != "regular":
        raise _wrong("chunk_grid", "a regular one", grid)
    chunks = _checked_shape("chunk_grid", grid["configuration"], len(shape))
    if not isinstance(document["fill_value"], str | bool | int | float):
        raise _wrong("fill_value", "a value", document["fill_value"])
    if document["data_type"] != "string" and not _is_fill(document["fill_value"], document["data_type"]):
        raise _wrong("fill_value", f"one of {document['data_type']}", document["fill_value"])
    _check_codecs(document["codecs"], chunks)
    about, names = document["attributes"], document["dimension_names"]
    # Others would have readers scale the numbers, or take them for dates.
    if not isinstance(about, dict) or not all(
        key in ("long_name", "units", "coordinates") and isinstance(value, str) for key, value in about.items()
    ):
        raise _wrong("attributes", "long_name, units and coordinates as text", about)
    if not isinstance(names, list) or len(names) != len(shape) or not all(isinstance(name, str) for name in names):
        raise _wrong("dimension_names", f"{len(shape)} names", names)


def _is_fill(value: JsonValue, kind: str) -> bool:
    if kind == "float64":
        return bool(value == "NaN")
    return isinstance(value, bool) if kind == "bool" else type(value) is int and value == 0


def _check_codecs(codecs: JsonValue, chunks: list[int]) -> None:
    if not isinstance(codecs, list) or not codecs or len(codecs) > len(_CODECS):
        raise _wrong("codecs", "a list of codecs", codecs)
    names = [str(codec.get("name")) for codec in codecs if isinstance(codec, dict)]
    if len(set(names)) < len(names):
        # What is compressed twice says nothing of its length.
        raise _wrong("codecs", "each codec once", names)
    for codec in codecs:
        name = codec.get("name") if isinstance(codec, dict) else None
        if name == _SHARDS:
            inner = codec.get("configuration")
            if len(codecs) > 1 or not isinstance(inner, dict) or set(inner) != _SHARD_KEYS:
                raise _wrong("codecs", f"the settings {', '.join(sorted(_SHARD_KEYS))} of shards", inner)
            sizes = _checked_sizes("codecs", inner["chunk_shape"], least=1)
            if len(sizes) != len(chunks) or any(whole % part for whole, part in zip(chunks, sizes, strict=True)):
                raise _wrong("codecs", f"chunks that fill shards of {chunks}", sizes)
            _check_codecs(inner["codecs"], sizes)
            _check_codecs(inner["index_codecs"], sizes)
        elif not isinstance(name, str) or name not in _CODECS:
            raise _wrong("codecs", f"some of {', '.join([*_CODECS, _SHARDS])}", codec)
        elif {key: value for key, value in codec.items() if key != "name"} not in (_CODECS[name], {}):
            raise _wrong("codecs", f"{name} as pbdist writes it", codec)


def _checked_shape(field: str, settings: JsonValue, dimensions: int) -> list[int]:
    if not isinstance(settings, dict) or set(settings) != {"chunk_shape"}:
        raise _wrong(field, "a chunk_shape", settings)
    sizes = _checked_sizes(field, settings["chunk_shape"], least=1)
    if len(sizes) != dimensions:
        raise _wrong(field, f"{dimensions} sizes", sizes)
    return sizes


def _checked_sizes(field: str, sizes: JsonValue, *, least: int) -> list[int]:
    whole = isinstance(sizes, list) and 1 <= len(sizes) <= 4
    if not whole or not all(type(size) is int and least <= size <= _MOST_ELEMENTS for size in sizes):
        raise _wrong(field, f"1 to 4 whole numbers from {least} to {_MOST_ELEMENTS}", sizes)
    if math.prod(sizes[1:]) > _MOST_ELEMENTS:
        raise _wrong(field, f"at most {_MOST_ELEMENTS} elements inside the first dimension", sizes)
    return list(sizes)


def _wrong(field: str, expected: str, got: object) -> ValueError:
    return ValueError(f"{field}: expected {expected}, got {shown(got)}")
