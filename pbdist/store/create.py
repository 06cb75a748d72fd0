"""Create a store: everything but the results, all at once or not at all."""

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.store.layout import (
    BOUNDS,
    CELL,
    COLUMNS,
    COMMITS,
    COMPUTED,
    GRIDS,
    STATES,
    TEXT_COLUMNS,
    batch_group,
    cell_columns,
    store_format,
)
from pbdist.store.open import StoredStudy, open_store
from pbdist.store.provenance import provenance
from pbdist.study import Plan, StudySpec
from pbdist.study.spec import exponential
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction, JsonValue

__all__ = [
    "COMPRESSOR",
    "SERIALIZER",
    "build_arrays",
    "changed_arrays",
    "create_or_open",
    "restore_skeleton",
    "write_attributes",
]

SERIALIZER = BytesCodec()
#: Its checksum is what makes a flipped bit an error instead of a wrong number.
COMPRESSOR = ZstdCodec(level=3, checksum=True)

#: What of an array's metadata decides how its bytes become numbers.
_DECISIVE = (
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "dimension_names",
)


class _Shape(NamedTuple):
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    dimensions: tuple[str, ...]


def create_or_open(path: str | Path, plan: Plan) -> StoredStudy:
    """Open the store at `path` if it holds the study of `plan`, or create it if there is nothing yet.

    Guaranteed: a new store appears complete, by one rename, and whatever is refused stays as it was.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_store`, if something exists at `path`.
    StoreMismatchError
        The store holds another study.
    InvalidInputError
        The store cannot be created there.
    """
    path = Path(path)
    if not os.path.lexists(path):
        try:
            _create(path, plan)
        except OSError as error:
            raise InvalidInputError(f"store: expected a path to create a store at, got: {error}") from error
    stored = open_store(path)
    if stored.study.digest == plan.study.digest and stored.cells_per_batch != plan.cells_per_batch:
        raise StoreMismatchError(
            f"{path}: cells_per_batch: expected a store with {plan.cells_per_batch} cells in a batch, "
            f"got one with {stored.cells_per_batch}"
        )
    if stored.study.digest != plan.study.digest:
        raise StoreMismatchError(
            f"{path}: expected a store of study {plan.study.name!r} with digest {plan.study.digest[:12]}, "
            f"got one of study {stored.study.name!r} with digest {stored.study.digest[:12]}"
        )
    return stored


def restore_skeleton(stored: StoredStudy, plan: Plan) -> None:
    """Put back every file of a store that is missing or changed, results and commit records apart.

    All that is not a result follows from the plan alone, so that it is built anew beside the store and compared. For
    the one driver of a store.
    """
    temporary = stored.path.parent / f".{stored.path.name}.{uuid.uuid4().hex}.partial"
    try:
        _build(temporary, plan)
        for fresh in sorted(path for path in temporary.rglob("*") if path.is_file()):
            place = fresh.relative_to(temporary)
            existing = stored.path / place
            if place.parts[0] == "zarr.json" or (place.parts[0] == COMMITS and _is_group(existing)):
                # The root was checked when the store was opened, and a commit record is checked against its files.
                continue
            if not existing.is_file() or existing.read_bytes() != fresh.read_bytes():
                existing.parent.mkdir(parents=True, exist_ok=True)
                fresh.replace(existing)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def changed_arrays(stored: StoredStudy) -> list[str]:
    """Return the arrays of a store whose metadata is missing, or would read their bytes as other numbers."""
    # In memory: an interrupted folder would be cleared away while zarr's thread still writes to it.
    root = zarr.open_group(MemoryStore(), mode="w", zarr_format=3)
    build_arrays(root, stored.study, stored.cells_per_batch)
    fresh = {
        name: json.loads(array.metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"].to_bytes())
        for name, array in root.arrays()
    }
    return [
        name
        for name in sorted(fresh)
        if _decisive(_metadata(stored.path / name / "zarr.json")) != _decisive(fresh[name])
    ]


def _decisive(document: dict[str, JsonValue]) -> list[JsonValue]:
    return [document.get(key) for key in _DECISIVE]


def _is_group(path: Path) -> bool:
    """Whether a file is the metadata of a zarr group."""
    return _metadata(path).get("node_type") == "group"


def _metadata(path: Path) -> dict[str, JsonValue]:
    """Return the content of a ``zarr.json``, empty where it cannot be read."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def write_attributes(group: Path, attributes: dict[str, JsonValue]) -> None:
    """Replace the attributes of the zarr group in the folder `group`, on the disk before this returns.

    Guaranteed: at any moment the group has either the old attributes or the new ones.
    """
    document = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
    temporary = group / f"zarr.{uuid.uuid4().hex}.partial"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(document, file, indent=2, sort_keys=True, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(group / "zarr.json")
    descriptor = os.open(group, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create(path: Path, plan: Plan) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.partial"
    try:
        _build(temporary, plan)
        try:
            temporary.rename(path)
        except OSError:
            # Somebody else was faster: their store is opened, and refused if it is another study's.
            if not path.exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _build(path: Path, plan: Plan) -> None:
    root = zarr.open_group(path, mode="w-", zarr_format=3, attributes=_root_attributes(plan))
    build_arrays(root, plan.study, plan.cells_per_batch)
    root.create_group(COMMITS)
    if plan.study.keep_states:
        root.create_group(STATES)
    for index in range(len(plan.batches)):
        root.create_group(batch_group(index))


def build_arrays(root: zarr.Group, study: StudySpec, cells_per_batch: int) -> None:
    """Create every array of a store, the coordinates with their values."""
    sizes = (len(study.cells), len(Direction), len(study.compositions), len(study.epsilon))
    dimensions = (CELL, DIRECTION, COMPOSITIONS, EPSILON)
    of_cell = {"coordinates": " ".join([*COLUMNS, "pair"])}
    coordinates = {"coordinates": f"{of_cell['coordinates']} exp_epsilon"}
    for name, about in BOUNDS.items():
        shape = _Shape(sizes, (cells_per_batch, *sizes[1:]), dimensions)
        _array(root, name, shape, np.dtype("f8"), {**about.as_dict(), **coordinates})
    for name, about in COMPUTED.items():
        shape = _Shape(sizes[:1], (cells_per_batch,), (CELL,))
        _array(root, name, shape, np.dtype("f8"), {**about.as_dict(), **of_cell})
    _write_grids(root, study)
    text = np.dtypes.StringDType()
    for name, values in cell_columns(study).items():
        kind: Any = text if name in TEXT_COLUMNS or name == "pair" else np.dtype("f8")
        attributes: dict[str, JsonValue] = {"long_name": COLUMNS.get(name, "canonical form of the pair, as JSON")}
        if kind is not text:
            attributes["units"] = "1"
        _coordinate(root, name, np.array(values, dtype=kind), (CELL,), attributes)


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
        _coordinate(root, name, values, (dimension,), about)


def _root_attributes(plan: Plan) -> dict[str, JsonValue]:
    return {
        "Conventions": "CF-1.11",
        "title": plan.study.name,
        "pbdist_format": store_format(plan.study),
        "study_digest": plan.study.digest,
        "study": plan.study.canonical(),
        "cells_per_batch": plan.cells_per_batch,
        "provenance": provenance(),
    }


def _coordinate(
    root: zarr.Group, name: str, values: np.ndarray[Any, Any], dimensions: tuple[str, ...], about: dict[str, JsonValue]
) -> None:
    array = _array(root, name, _Shape(values.shape, values.shape, dimensions), values.dtype, about)
    array[...] = values


def _array(root: zarr.Group, name: str, shape: _Shape, dtype: Any, attributes: dict[str, JsonValue]) -> zarr.Array[Any]:
    floats = dtype == np.dtype("f8")
    return root.create_array(
        name,
        shape=shape.sizes,
        chunks=shape.chunks,
        dtype=dtype,
        # What is missing must never look like a number.
        fill_value=np.nan if floats else None,
        serializer=SERIALIZER if floats else "auto",
        compressors=COMPRESSOR,
        dimension_names=shape.dimensions,
        attributes=attributes,
        config={"write_empty_chunks": True},
    )
