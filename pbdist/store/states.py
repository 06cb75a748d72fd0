"""Kept states as zarr groups: arrays and attributes in, the same state out."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import zarr

from pbdist.buckets.state import BucketState
from pbdist.buckets.table import BoundsTable
from pbdist.errors import StoreDamagedError
from pbdist.pld.state import PairState as TiltedMasses
from pbdist.store.arrays import COMPRESSOR, SERIALIZER, FilesStore
from pbdist.store.commit import checked_content, commit_record
from pbdist.store.layout import cell_group
from pbdist.store.open import StoredStudy
from pbdist.types import Direction, FloatArray, JsonValue

__all__ = ["read_state", "state_files"]

#: The attribute that tells tilted masses from a bucket state, which has none such.
_KIND, _TILTED = "state", "tilted-masses"
#: Dimensions of the arrays of `TiltedMasses`; one with fewer has the first ones.
_DIMENSIONS = ("member", "row", "position")


def state_files(cell: int, table: BoundsTable) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file of the states of a cell, one state after the other."""
    folder = cell_group(cell)
    groups: list[str] = []
    for direction, compositions, state in _distinct(table):
        memory = FilesStore()
        name = f"{folder}/{direction.name}/r-{compositions}"
        _write_group(memory, name, state)
        for file, data in memory.files().items():
            if file.startswith(f"{name}/"):
                yield file, data
            elif file.startswith(f"{folder}/") and file not in groups:
                groups.append(file)
                yield file, data


def read_state(stored: StoredStudy, cell: int, direction: Direction, compositions: int) -> BucketState | TiltedMasses:
    """Read a kept state, bit for bit; its arrays are read-only.

    Of a symmetric pair, whose directions are the same, only A||B is stored.

    Raises
    ------
    FileNotFoundError
        The state is not in the store.
    StoreDamagedError
        Its files are not those of the commit record.
    """
    name = f"{cell_group(cell)}/{direction.name}/r-{compositions}"
    record = commit_record(stored, cell // stored.cells_per_batch) or {}
    named = {file: entry for file, entry in record.get("files", {}).items() if file.startswith(f"{name}/")}
    if not named:
        raise FileNotFoundError(f"{stored.place.url}/{name}: expected a kept state, got none")
    files: dict[str, bytes] = {}
    for file, entry in named.items():
        found = checked_content(stored.place, file, entry)
        if isinstance(found, str):
            raise StoreDamagedError(f"{stored.place.url}/{file}: expected what was stored, got: {found}: run it again")
        files[file.removeprefix(f"{name}/")] = found
    return _read_group(files)


def _write_group(memory: FilesStore, name: str, state: BucketState | TiltedMasses) -> None:
    arrays: Mapping[str, FloatArray]
    attributes: dict[str, JsonValue]
    if isinstance(state, TiltedMasses):
        content = {field.name: getattr(state, field.name) for field in fields(state)}
        arrays = {name: value for name, value in content.items() if isinstance(value, np.ndarray)}
        plain = {name: _listed(value) for name, value in content.items() if name not in arrays}
        attributes = {_KIND: _TILTED, **plain}
    else:
        arrays, attributes = state.to_arrays()
    group = zarr.open_group(memory.store, path=name, mode="w-", zarr_format=3, attributes=attributes)
    for array_name, values in arrays.items():
        array = group.create_array(
            array_name,
            shape=values.shape,
            chunks=tuple(max(1, size) for size in values.shape),
            dtype=np.dtype("f8"),
            fill_value=np.nan,
            serializer=SERIALIZER,
            compressors=COMPRESSOR,
            dimension_names=_DIMENSIONS[: values.ndim] if isinstance(state, TiltedMasses) else ("bucket",),
            config={"write_empty_chunks": True},
        )
        array[...] = values


def _read_group(files: Mapping[str, bytes]) -> BucketState | TiltedMasses:
    group = zarr.open_group(FilesStore(files).store, mode="r")
    arrays: dict[str, Any] = {name: _read_only(array) for name, array in group.arrays()}
    attributes: dict[str, Any] = dict(group.attrs)
    if attributes.get(_KIND) != _TILTED:
        return BucketState.from_arrays(arrays, attributes)
    del attributes[_KIND]
    content: dict[str, Any] = {name: _frozen(value) for name, value in attributes.items()}
    return TiltedMasses(**arrays, **content)


def _distinct(table: BoundsTable) -> list[tuple[Direction, int, BucketState | TiltedMasses]]:
    """Return the states in a fixed order; where both directions share theirs, A||B stands for both."""
    first = {r: state for (direction, r), state in table.states.items() if direction is Direction.A_TO_B}
    kept = [
        (direction, r, state)
        for (direction, r), state in table.states.items()
        if direction is Direction.A_TO_B or state is not first[r]
    ]
    return sorted(kept, key=lambda item: (item[0].value, item[1]))


def _listed(value: Any) -> JsonValue:
    """Return tuples as lists, which JSON keeps."""
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _read_only(array: Any) -> FloatArray:
    values = np.asarray(array[...], dtype=np.float64)
    values.setflags(write=False)
    return values
