"""Kept states as zarr groups: arrays and attributes in, the same state out."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr

from pbdist.buckets.state import BucketState
from pbdist.errors import InvalidInputError, StoreDamagedError, StoreFormatError, shown
from pbdist.pld import PairState
from pbdist.store.arrays import COMPRESSOR, SERIALIZER, FilesStore
from pbdist.store.commit import checked_content, commit_record
from pbdist.store.layout import cell_group
from pbdist.store.open import StoredStudy
from pbdist.store.pair_states import state_from_record, state_record
from pbdist.table import BoundsTable
from pbdist.types import Direction, FloatArray

__all__ = ["read_state", "state_files"]

#: The attribute that tells states of the tight method from a bucket state, which has none such.
_KIND, _PAIR, _TILTED = "state", "pair", "tilted-masses"
#: Dimensions of the arrays of a `PairState`; one with fewer has the last one.
_DIMENSIONS = ("mass", "place")


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


def read_state(stored: StoredStudy, cell: int, direction: Direction, compositions: int) -> BucketState | PairState:
    """Read a kept state, bit for bit; its arrays are read-only.

    Where both directions share theirs only A||B is stored: of symmetric pairs, and of all pairs with the tight method.

    Raises
    ------
    FileNotFoundError
        The state is not in the store.
    StoreDamagedError
        Its files are not those of the commit record, or are no state.
    StoreFormatError
        It is of a kind that earlier versions kept, and this one does not read.
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
    where = f"{stored.place.url}/{name}"
    try:
        return _read_group(files, where)
    except (ValueError, KeyError, RuntimeError) as error:
        told = " ".join(str(error).split())[:200]
        raise StoreDamagedError(f"{where}: expected a state, got: {told}: run the study again") from error


def _write_group(memory: FilesStore, name: str, state: BucketState | PairState) -> None:
    arrays, attributes = state_record(state) if isinstance(state, PairState) else state.to_arrays()
    if isinstance(state, PairState):
        attributes = {_KIND: _PAIR, **attributes}
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
            dimension_names=_DIMENSIONS[-values.ndim :] if isinstance(state, PairState) else ("bucket",),
            config={"write_empty_chunks": True},
        )
        array[...] = values


def _read_group(files: Mapping[str, bytes], where: str) -> BucketState | PairState:
    group = zarr.open_group(FilesStore(files).store, mode="r")
    arrays: dict[str, Any] = {name: _read_only(array) for name, array in group.arrays()}
    attributes: dict[str, Any] = dict(group.attrs)
    kind = attributes.pop(_KIND, None)
    if kind == _TILTED:
        raise StoreFormatError(
            f"{where}: expected a state that this version reads, got tilted masses, of an earlier one"
        )
    if kind is None:
        return BucketState.from_arrays(arrays, attributes)
    if kind != _PAIR:
        raise InvalidInputError(f"state: expected a kind that is known, got {shown(kind)}")
    return state_from_record(arrays, attributes)


def _distinct(table: BoundsTable) -> list[tuple[Direction, int, BucketState | PairState]]:
    """Return the states in a fixed order; where both directions share theirs, A||B stands for both."""
    first = {r: state for (direction, r), state in table.states.items() if direction is Direction.A_TO_B}
    kept = [
        (direction, r, state)
        for (direction, r), state in table.states.items()
        if direction is Direction.A_TO_B or state is not first[r]
    ]
    return sorted(kept, key=lambda item: (item[0].value, item[1]))


def _read_only(array: Any) -> FloatArray:
    values = np.asarray(array[...], dtype=np.float64)
    values.setflags(write=False)
    return values
