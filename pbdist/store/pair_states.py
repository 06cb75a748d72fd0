"""A state as plain arrays and attributes, and back: every bit of it, or an error that says what is wrong."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.pld.lattice import Dominating, Exact
from pbdist.pld.state import LARGEST_SHIFT, Masses, PairState
from pbdist.types import Direction, FloatArray, JsonValue

__all__ = ["state_from_record", "state_record"]

#: Losses farther out than this, nats, leave float64 when they are read.
_FARTHEST = 1400.0
#: Places are whole numbers that floats tell.
_MOST_PLACE = 1 << 52
_PARTS = ("core", "far")
_SAME = "same"


def state_record(state: PairState) -> tuple[dict[str, FloatArray], dict[str, JsonValue]]:
    """Return the arrays and the attributes of a state.

    Returns
    -------
    arrays : dict of str to ndarray
        ``dominating_core`` and, where there is a far part, ``dominating_far``, of shape (places,): u. For each
        direction ``exact_A_TO_B_core`` and so on, of shape (2, places): `own` and `other`. A direction that has the
        events of the one before has no arrays.
    attributes : dict
        Floats are hexadecimal text.
    """
    arrays: dict[str, FloatArray] = {}
    attributes: dict[str, JsonValue] = {
        "shift": state.shift.hex(),
        "lowest": float(state.lowest).hex(),
        "highest": float(state.highest).hex(),
        "dominating": _record("dominating", state.dominating, arrays),
    }
    known: dict[int, Direction] = {}
    exact: dict[str, JsonValue] = {}
    for direction, masses in state.exact.items():
        if id(masses) in known:
            exact[direction.name] = {_SAME: known[id(masses)].name}
            continue
        known[id(masses)] = direction
        exact[direction.name] = _record(f"exact_{direction.name}", masses, arrays)
    return arrays, {**attributes, "exact": exact}


def state_from_record(arrays: Mapping[str, FloatArray], attributes: Mapping[str, Any]) -> PairState:
    """Return the state of a record; its arrays are those given.

    Raises
    ------
    InvalidInputError
        If that is no state: an array or an attribute is missing, of another shape or kind, or out of its range.
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


def _record(name: str, masses: Masses[Any], arrays: dict[str, FloatArray]) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"infinite": [float(value).hex() for value in masses.infinite]}
    for part, row in zip(_PARTS, masses.rows, strict=False):
        arrays[f"{name}_{part}"] = np.stack((row.own, row.other)) if isinstance(row, Exact) else row.u
        told: dict[str, JsonValue] = {"spacing": row.spacing.hex(), "first": int(row.first)}
        if isinstance(row, Exact):
            told["label"] = float(row.label).hex()
        entry[part] = told
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
    _check(values.shape[-1] >= 1 and (not exact or values.shape[0] == 2), name, "some places, in two rows if exact")
    _check(bool(np.all(np.isfinite(values)) and np.all(values >= 0.0)), name, "finite masses of at least 0")
    _check(0.0 < spacing < math.inf, name, "a finite spacing above 0")
    _check(type(first) is int and abs(first) <= _MOST_PLACE, name, "a whole number for the first place")
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
