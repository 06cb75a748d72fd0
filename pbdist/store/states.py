"""Save the states of a cell as zarr groups, and read them bit for bit; a record that is no state is an error."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr

from pbdist.buckets.state import BucketState
from pbdist.errors import StoreDamagedError
from pbdist.pld import PairState
from pbdist.pld.lattice import Dominating, Exact
from pbdist.pld.state import Masses
from pbdist.store.layout import PartHead, cell_states
from pbdist.store.open import StoredStudy
from pbdist.store.skeleton import FilesStore, new_array
from pbdist.table import BoundsTable
from pbdist.types import Direction, FloatArray, JsonValue

#: The attribute that marks a state of the tight method; a bucket state has none.
_KIND, _PAIR = "state", "pair"
#: The attribute with the SHA-256 of a state, and of which one it is.
_SEAL = "sha256"
_PARTS = ("core", "far")
_SAME = "same"


def state_files(head: PartHead, cell: int, table: BoundsTable) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of every file of the states of a cell, one state after the other."""
    folder = cell_states(cell)
    groups: list[str] = []
    for direction, compositions, state in _distinct(table):
        memory = FilesStore()
        name = f"{folder}/{direction.name}/r-{compositions}"
        _write_group(memory, name, state, head)
        for file, data in memory.files().items():
            if file.startswith(f"{name}/"):
                yield file, data
            elif file.startswith(f"{folder}/") and file not in groups:
                groups.append(file)
                yield file, data


def read_state(stored: StoredStudy, cell: int, direction: Direction, compositions: int) -> BucketState | PairState:
    """Read a saved state, bit for bit; its arrays are read-only.

    Where both directions share a state, only A||B is stored: for symmetric pairs, and for all with the tight method. A
    `FileNotFoundError` where the state is not in the store, a `StoreDamagedError` where it is damaged.
    """
    name = f"{cell_states(cell)}/{direction.name}/r-{compositions}"
    where = f"{stored.place.url}/{name}"
    names = [file for file, _ in stored.place.names(name)]
    if not names:
        raise FileNotFoundError(f"{where}: expected a saved state, got none")
    files = {file.removeprefix(f"{name}/"): stored.place.read(file) for file in names}
    try:
        group = zarr.open_group(FilesStore(files).store, mode="r")
        attributes: dict[str, Any] = dict(group.attrs)
        seal = attributes.pop(_SEAL, None)
        arrays = {array_name: _read_only(array) for array_name, array in group.arrays()}
        if seal != _digest(stored.head, name, arrays, attributes):
            raise ValueError("its checksum differs")
        if attributes.pop(_KIND, None) == _PAIR:
            return state_from_record(arrays, attributes)
        return BucketState.from_arrays(arrays, attributes)
    except (ValueError, KeyError, RuntimeError) as error:
        text = " ".join(str(error).split())[:200]
        raise StoreDamagedError(f"{where}: damaged state ({text}): pbdist run STUDY --check repairs it") from error


def state_record(state: PairState) -> tuple[dict[str, FloatArray], dict[str, JsonValue]]:
    """Return the arrays and the attributes of a state; floats in attributes are hexadecimal text.

    ``dominating_core`` and, where there is a far part, ``dominating_far``, of shape (positions,), are u. In each
    direction ``exact_A_TO_B_core`` and so on, of shape (2, positions), are `own` and `other`. A direction with the same
    masses as the one before has no arrays.
    """
    arrays: dict[str, FloatArray] = {}
    attributes: dict[str, JsonValue] = {
        "shift": state.shift.hex(),
        "lowest": float(state.lowest).hex(),
        "highest": float(state.highest).hex(),
        "dominating": _masses_record("dominating", state.dominating, arrays),
    }
    known: dict[int, Direction] = {}
    exact: dict[str, JsonValue] = {}
    for direction, masses in state.exact.items():
        if id(masses) in known:
            exact[direction.name] = {_SAME: known[id(masses)].name}
            continue
        known[id(masses)] = direction
        exact[direction.name] = _masses_record(f"exact_{direction.name}", masses, arrays)
    return arrays, {**attributes, "exact": exact}


def state_from_record(arrays: Mapping[str, FloatArray], attributes: Mapping[str, Any]) -> PairState:
    """Return the state of a record that `state_record` has made; its checksum has been compared."""
    shift, lowest, highest = (float.fromhex(attributes[name]) for name in ("shift", "lowest", "highest"))
    exact: dict[Direction, Masses[Exact]] = {}
    for name, entry in attributes["exact"].items():
        same = entry.get(_SAME)
        exact[Direction[name]] = exact[Direction[same]] if same else _masses(f"exact_{name}", entry, arrays)
    dominating: Masses[Dominating] = _masses("dominating", attributes["dominating"], arrays)
    return PairState(dominating, exact, shift, lowest, highest)


def _write_group(memory: FilesStore, name: str, state: BucketState | PairState, head: PartHead) -> None:
    arrays, attributes = state_record(state) if isinstance(state, PairState) else state.to_arrays()
    if isinstance(state, PairState):
        attributes = {_KIND: _PAIR, **attributes}
    attributes = {**attributes, _SEAL: _digest(head, name, arrays, attributes)}
    group = zarr.open_group(memory.store, path=name, mode="w-", zarr_format=3, attributes=attributes)
    for array_name, values in arrays.items():
        along = ("mass", f"place_{array_name}")[-values.ndim :]
        array = new_array(group, array_name, values.shape, along, dtype=np.dtype("f8"))
        array[...] = values


def _digest(head: PartHead, name: str, arrays: Mapping[str, FloatArray], attributes: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a state, its path and the study: one that was exchanged is seen."""
    digest = hashlib.sha256(json.dumps([head.digest, name, dict(attributes)], sort_keys=True).encode())
    for array_name in sorted(arrays):
        values = np.ascontiguousarray(arrays[array_name], dtype="<f8")
        digest.update(f"{array_name} {values.shape} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _distinct(table: BoundsTable) -> list[tuple[Direction, int, BucketState | PairState]]:
    """Return the states in a fixed order; where both directions share one, only A||B."""
    first = {r: state for (direction, r), state in table.states.items() if direction is Direction.A_TO_B}
    saved = [
        (direction, r, state)
        for (direction, r), state in table.states.items()
        if direction is Direction.A_TO_B or state is not first[r]
    ]
    return sorted(saved, key=lambda item: (item[0].value, item[1]))


def _read_only(array: Any) -> FloatArray:
    values = np.asarray(array[...], dtype=np.float64)
    values.setflags(write=False)
    return values


def _masses_record(name: str, masses: Masses[Any], arrays: dict[str, FloatArray]) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"infinite": [float(value).hex() for value in masses.infinite]}
    # A state with more parts is refused: its masses would be lost.
    for part, row in zip(_PARTS[: len(masses.rows)], masses.rows, strict=True):
        arrays[f"{name}_{part}"] = np.stack((row.own, row.other)) if isinstance(row, Exact) else row.u
        attributes: dict[str, JsonValue] = {"spacing": row.spacing.hex(), "first": int(row.first)}
        if isinstance(row, Exact):
            attributes["label"] = float(row.label).hex()
        entry[part] = attributes
    return entry


def _masses(name: str, entry: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Masses[Any]:
    rows = [_row(entry[part], arrays[f"{name}_{part}"]) for part in _PARTS if part in entry]
    first, second = map(float.fromhex, entry["infinite"])
    return Masses(tuple(rows), (first, second))


def _row(entry: Mapping[str, Any], values: FloatArray) -> Dominating | Exact:
    spacing, first = float.fromhex(entry["spacing"]), int(entry["first"])
    if "label" in entry:
        return Exact(spacing, first, float.fromhex(entry["label"]), values[0], values[1])
    return Dominating(spacing, first, values)
