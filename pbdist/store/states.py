"""Keep the states of a cell as zarr groups, and read them bit for bit; a record that is no state is an error."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr

from pbdist.buckets.state import BucketState
from pbdist.errors import InvalidInputError, StoreDamagedError, shown
from pbdist.pld import PairState
from pbdist.pld.lattice import Dominating, Exact
from pbdist.pld.state import LARGEST_SHIFT, Masses
from pbdist.store.layout import PartHead, cell_states
from pbdist.store.open import StoredStudy
from pbdist.store.skeleton import CHUNK_KEYS, COMPRESSOR, SERIALIZER, FilesStore
from pbdist.table import BoundsTable
from pbdist.types import Direction, FloatArray, JsonValue

#: The attribute that marks a state of the tight method; a bucket state has none.
_KIND, _PAIR = "state", "pair"
#: The attribute with the SHA-256 of a state, and of which one it is.
_SEAL = "sha256"
#: Losses farther out than this, nats, leave float64 when they are read.
_FARTHEST = 1400.0
#: Positions up to this are whole numbers in float64.
_MOST_POSITION = 1 << 52
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
    """Read a kept state, bit for bit; its arrays are read-only.

    Where both directions share a state, only A||B is stored: for symmetric pairs, and for all with the tight method.

    Raises
    ------
    FileNotFoundError
        The state is not in the store.
    StoreDamagedError
        Its files are not those that were written.
    """
    name = f"{cell_states(cell)}/{direction.name}/r-{compositions}"
    where = f"{stored.place.url}/{name}"
    names = [file for file, _ in stored.place.names(name)]
    if not names:
        raise FileNotFoundError(f"{where}: expected a kept state, got none")
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
        raise StoreDamagedError(f"{where}: the state is damaged ({text}): run the study again with --check") from error


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
    """Return the state of a record, with the arrays given.

    Raises
    ------
    InvalidInputError
        An array or an attribute is missing, of another shape or kind, or out of its range.
    """
    try:
        shift, lowest, highest = (float.fromhex(attributes[name]) for name in ("shift", "lowest", "highest"))
        used: set[str] = set()
        dominating = _masses("dominating", attributes["dominating"], arrays, used, exact=False)
        spacings = [row.spacing for row in dominating.rows]
        exact: dict[Direction, Masses[Exact]] = {}
        for name, entry in attributes["exact"].items():
            if set(entry) == {_SAME}:
                exact[Direction[name]] = exact[Direction[entry[_SAME]]]
                continue
            exact[Direction[name]] = _masses(f"exact_{name}", entry, arrays, used, exact=True)
            _check([row.spacing for row in exact[Direction[name]].rows] == spacings, "spacings", "one for all rows")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInputError(
            f"state: expected the record of a state, got {type(error).__name__}: {error}"
        ) from error
    _check(set(exact) == set(Direction), "exact", "masses of both directions")
    _check(set(arrays) == used, "arrays", f"{sorted(used)}")
    _check(0.0 <= shift <= LARGEST_SHIFT, "shift", f"0 to {LARGEST_SHIFT:g}")
    _check(-math.inf < lowest <= highest < math.inf, "lowest", "finite numbers in their order")
    return PairState(dominating, exact, shift, lowest, highest)


def _write_group(memory: FilesStore, name: str, state: BucketState | PairState, head: PartHead) -> None:
    arrays, attributes = state_record(state) if isinstance(state, PairState) else state.to_arrays()
    if isinstance(state, PairState):
        attributes = {_KIND: _PAIR, **attributes}
    attributes = {**attributes, _SEAL: _digest(head, name, arrays, attributes)}
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
            chunk_key_encoding=CHUNK_KEYS,
            dimension_names=("mass", f"place_{array_name}")[-values.ndim :],
            config={"write_empty_chunks": True},
        )
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


def _masses_record(name: str, masses: Masses[Any], arrays: dict[str, FloatArray]) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"infinite": [float(value).hex() for value in masses.infinite]}
    for part, row in zip(_PARTS, masses.rows, strict=False):
        arrays[f"{name}_{part}"] = np.stack((row.own, row.other)) if isinstance(row, Exact) else row.u
        attributes: dict[str, JsonValue] = {"spacing": row.spacing.hex(), "first": int(row.first)}
        if isinstance(row, Exact):
            attributes["label"] = float(row.label).hex()
        entry[part] = attributes
    return entry


def _masses(
    name: str, entry: Mapping[str, Any], arrays: Mapping[str, FloatArray], used: set[str], *, exact: bool
) -> Masses[Any]:
    rows: list[Any] = []
    for part in _PARTS:
        if part not in entry:
            continue
        used.add(f"{name}_{part}")
        rows.append(_row(f"{name}_{part}", entry[part], arrays[f"{name}_{part}"], exact=exact))
    _check("core" in entry and set(entry) <= {*_PARTS, "infinite"}, name, "a core, perhaps a far part, and infinite")
    if len(rows) > 1:
        ratio = rows[1].spacing / rows[0].spacing
        _check(ratio > 1.0 and math.frexp(ratio)[0] == 0.5, f"{name}_far", "a spacing a power of two times as wide")
    infinite = [float.fromhex(value) for value in entry["infinite"]]
    _check(len(infinite) == 2 and all(0.0 <= value < math.inf for value in infinite), name, "two infinite masses")
    return Masses(rows[0], rows[1] if len(rows) > 1 else None, (infinite[0], infinite[1]))


def _row(name: str, entry: Mapping[str, Any], values: FloatArray, *, exact: bool) -> Dominating | Exact:
    spacing, first = float.fromhex(entry["spacing"]), entry["first"]
    _check(set(entry) == {"spacing", "first", *(["label"] if exact else [])}, name, "spacing, first and label")
    _check(values.dtype == np.float64 and values.ndim == 1 + exact, name, "an array of float64 of its dimensions")
    _check(values.shape[-1] >= 1 and (not exact or values.shape[0] == 2), name, "some positions, in two rows if exact")
    _check(bool(np.all(np.isfinite(values)) and np.all(values >= 0.0)), name, "finite masses of at least 0")
    _check(0.0 < spacing < math.inf, name, "a finite spacing above 0")
    _check(type(first) is int and abs(first) <= _MOST_POSITION, name, "a whole number for the first position")
    if not exact:
        row: Dominating | Exact = Dominating(spacing, first, values)
    else:
        label = float.fromhex(entry["label"])
        _check(abs(label) <= spacing, name, "a label of at most a spacing")
        row = Exact(spacing, first, label, values[0], values[1])
    _check(row.reach <= _FARTHEST, name, f"losses of at most {_FARTHEST:g} nats")
    return row


def _check(holds: bool, name: str, expected: str) -> None:
    if not holds:
        raise InvalidInputError(f"state: {shown(name)}: expected {expected}, got something else")
