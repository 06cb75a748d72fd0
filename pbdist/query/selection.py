"""Select points of a study by labels: the names and values of its parameters, r and ε."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.arguments import check_either
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.arguments import noise_parameter, one_number
from pbdist.query.lookup import find_composition, find_epsilon, matches, nearest_text, other_names
from pbdist.store.columns import column_of
from pbdist.study import StudySpec
from pbdist.suggestions import did_you_mean
from pbdist.types import COMPOSITIONS, EPSILON, IntArray

_GRIDS = (COMPOSITIONS, EPSILON, "exp_epsilon")


@dataclass(frozen=True, eq=False)
class Selection:
    """Points of a study.

    Attributes
    ----------
    cells : ndarray of int
        Numbers of cells, increasing.
    compositions, epsilon
        Indices in the grids, in the order in which they were asked for.
    scalar
        The names of the grids of which one value was asked for, and of the columns of which one was.
    """

    cells: IntArray
    compositions: tuple[int, ...]
    epsilon: tuple[int, ...]
    scalar: frozenset[str]


def selected(study: StudySpec, labels: Mapping[str, Any]) -> Selection:
    """Return the points that have all the labels; of a list of values any one of them.

    Raises
    ------
    OffGridError
        No cell has the labels, or an r or an ε is not stored; the text names what is.
    InvalidInputError
        A label is unknown, or its value is none that a label can have.
    """
    unknown = [name for name in labels if name not in known_columns() and name not in _GRIDS]
    if unknown:
        known = (*known_columns(), *_GRIDS)
        near = did_you_mean(unknown[0], known, other_names())
        raise InvalidInputError(f"{unknown[0]}: expected one of {', '.join(known)}, got an unknown parameter{near}")
    if EPSILON in labels and "exp_epsilon" in labels:
        check_either(epsilon=labels[EPSILON], exp_epsilon=labels["exp_epsilon"])
    scalar = {name for name, value in labels.items() if _is_one(value)}
    if "exp_epsilon" in scalar:
        scalar.add(EPSILON)
    r: Sequence[int] = range(len(study.compositions))
    if COMPOSITIONS in labels:
        r = [find_composition(study, one_number(COMPOSITIONS, value)) for value in _each(labels, COMPOSITIONS)]
    e: Sequence[int] = range(len(study.epsilon))
    if EPSILON in labels:
        e = [find_epsilon(study, one_number(EPSILON, value), None) for value in _each(labels, EPSILON)]
    elif "exp_epsilon" in labels:
        e = [find_epsilon(study, None, one_number("exp_epsilon", value)) for value in _each(labels, "exp_epsilon")]
    return Selection(_cells(study, labels), tuple(dict.fromkeys(r)), tuple(dict.fromkeys(e)), frozenset(scalar))


def _cells(study: StudySpec, labels: Mapping[str, Any]) -> IntArray:
    """Return the cells that have all the labels."""
    found = np.arange(len(study.cells))
    for name in known_columns():
        if name not in labels:
            continue
        text = is_text(name)
        column = np.array(column_of(study.cells, name), dtype=object if text else np.float64)[found]
        matching = np.zeros(len(found), dtype=bool)
        for value in _each(labels, name):
            wanted = _wanted(name, value)
            hits = matches(name, column, wanted)
            if not hits.any():
                near = did_you_mean(wanted, dict.fromkeys(column.tolist())) if text else ""
                stored = nearest_text(name, column.tolist(), wanted)
                raise OffGridError(f"{name}: expected {stored}, got {shown(value)}{near}")
            matching |= hits
        found = found[matching]
    return found


def _wanted(name: str, value: Any) -> float | str | None:
    if is_text(name):
        if not isinstance(value, str):
            raise InvalidInputError(f"{name}: expected text, or a list of texts, got {shown(value)}")
        return str(value)
    wanted = noise_parameter(name, value)
    return float(wanted) if isinstance(wanted, np.ndarray) else wanted


def _each(labels: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return the values of a label, of which there is at least one."""
    value = labels[name]
    if _is_one(value):
        return [value]
    values = list(value)
    if not values or not all(map(_is_one, values)):
        raise InvalidInputError(f"{name}: expected one value or a list of values, got {shown(value)}")
    return values


def _is_one(value: Any) -> bool:
    return isinstance(value, str | bytes) or not isinstance(value, Iterable) or getattr(value, "ndim", None) == 0
