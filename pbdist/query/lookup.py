"""Which cells, r and ε of a study its labels name, exactly; what is not there is refused with its neighbours."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pbdist.arguments import check_either
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import all_parameters
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.mechanisms.texts import as_list_text
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import cell_columns, column_of
from pbdist.study.fields import nearest_exponential, nearest_match, same_float
from pbdist.study.spec import exponential
from pbdist.suggestions import did_you_mean
from pbdist.types import COMPOSITIONS, EPSILON, BoolArray, FloatArray, IntArray

_MAX_LISTED = 12
_GRIDS = (COMPOSITIONS, EPSILON, "exp_epsilon")


@dataclass(frozen=True, eq=False)
class Selection:
    """Points of a study."""

    #: Numbers of cells, increasing.
    cells: IntArray
    #: Indices in the grids, in the order in which they were asked for.
    compositions: tuple[int, ...]
    epsilon: tuple[int, ...]
    #: The names of the grids of which one value was asked for, and of the columns of which one was.
    scalar: frozenset[str]


def selected(study: StudySpec, labels: Mapping[str, Any]) -> Selection:
    """Return the points that have all the labels, of a list of values any one of them; errors as `Study.frame`."""
    check_names(labels, (*known_columns(), *_GRIDS))
    if EPSILON in labels and "exp_epsilon" in labels:
        check_either(epsilon=labels[EPSILON], exp_epsilon=labels["exp_epsilon"])
    scalar = {name for name, value in labels.items() if _is_one(value)}
    if "exp_epsilon" in scalar:
        scalar.add(EPSILON)
    r: Sequence[int] = range(len(study.compositions))
    if COMPOSITIONS in labels:
        r = [_composition(study, value) for value in _each(labels, COMPOSITIONS)]
    e: Sequence[int] = range(len(study.epsilon))
    for name in {EPSILON, "exp_epsilon"} & set(labels):
        e = [_epsilon(study, name, value) for value in _each(labels, name)]
    cells = cells_with(lambda name: column_array(study, name), labels)
    return Selection(cells, tuple(dict.fromkeys(r)), tuple(dict.fromkeys(e)), frozenset(scalar))


def cells_with(column: Callable[[str], Any], labels: Mapping[str, Any]) -> IntArray:
    """Return the cells that have all the labels; `column` returns a column of all cells as an array.

    Raises
    ------
    OffGridError
        There are none; the text names the values nearest to the first label that fails.
    InvalidInputError
        A value is none that a label can have.
    """
    found = np.arange(len(column("mechanism")))
    for name in known_columns():
        if name not in labels:
            continue
        values = column(name)[found]
        matching = np.zeros(len(found), dtype=bool)
        for value in _each(labels, name):
            wanted = _wanted(name, value)
            hits = matches(name, values, wanted)
            if not hits.any():
                near = did_you_mean(wanted, dict.fromkeys(values.tolist())) if is_text(name) else ""
                stored = nearest_text(name, values.tolist(), wanted)
                raise OffGridError(f"{name}: expected {stored}, got {_text(wanted, name)}{near}")
            matching |= hits
        found = found[matching]
    return found


def column_array(study: StudySpec, name: str) -> Any:
    """Return a column of all cells of a study as an array."""
    return np.array(column_of(study.cells, name), dtype=object if is_text(name) else np.float64)


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


def other_names() -> dict[str, str]:
    """Return what people also call parameters of noise: for each such name the column that most kinds mean by it."""
    meant: dict[str, Counter[str]] = {}
    for _, one in all_parameters():
        for alias in one.aliases:
            meant.setdefault(alias, Counter())[one.columns[0]] += 1
    return {alias: columns.most_common(1)[0][0] for alias, columns in meant.items()}


def check_names(given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse parameters of noise that are not known."""
    for name in given:
        if name not in known:
            near = did_you_mean(name, known, other_names())
            raise InvalidInputError(f"{name}: expected one of {', '.join(known)}, got an unknown parameter{near}")


def _composition(study: StudySpec, value: Any) -> int:
    """Return the index of an r in the study's grid."""
    r = one_number(COMPOSITIONS, value)
    if r not in study.compositions:
        near = _neighbours(study.compositions, r, "{}")
        raise OffGridError(f"compositions: expected a stored number of compositions, {near}, got {shown(r)}")
    return study.compositions.index(r)


def _epsilon(study: StudySpec, name: str, value: Any) -> int:
    """Return the index in the study's grid of an ε, or of the logarithm of an e^ε, as `name` says; to 4 ulp."""
    number = one_number(name, value)
    if not math.isfinite(number):
        raise InvalidInputError(f"{name}: expected a finite number, got {number!r}")
    find, stored = nearest_match, study.epsilon
    if name != EPSILON:
        find, stored = nearest_exponential, tuple(exponential(each) for each in study.epsilon)
    index = find(study.epsilon, number)
    if index is None:
        near = _neighbours(stored, number, "{:.10g}")
        raise OffGridError(f"{name}: expected a stored value, {near}, got {number!r}")
    return index


def matches(name: str, stored: Any, wanted: float | str | None) -> BoolArray:
    """Return where a column, an array, has a value, to 4 ulp; None and ``"auto"`` where there is none."""
    if is_text(name):
        # Of a list of numbers a column has the one way in which it is written.
        text = as_list_text(wanted) if isinstance(wanted, str) and known_columns()[name].listed else wanted
        return np.asarray(stored == text, dtype=bool)
    if wanted is None or wanted == "auto":
        return np.asarray(np.isnan(stored))
    if isinstance(wanted, str):
        return np.zeros(stored.shape, dtype=bool)
    close = np.flatnonzero(np.abs(stored - wanted) <= 1e-12 * abs(wanted))
    result = np.asarray(stored == wanted)
    result[close] = [same_float(value, float(wanted)) for value in stored[close].tolist()]
    return result


def ambiguous(mechanism: str, found: Sequence[Cell]) -> str:
    """Return the text of an error: several cells match, and these parameters tell them apart."""
    undetermined = told_apart(found)
    more = f": also give {', '.join(undetermined)}"
    more = more if undetermined else " that differ in no parameter: give them labels of their own in the study"
    return f"mechanism: expected one noise setting of {mechanism!r}, got {len(found)}{more}"


def told_apart(found: Sequence[Cell]) -> list[str]:
    """Return the parameters in which cells differ, each with its values as text."""
    columns = cell_columns(found)
    return [
        f"{name} ({_listed(list(dict.fromkeys(_text(value, name) for value in columns[name])))})"
        for name in telling(columns, len(found))
    ]


def telling(columns: Mapping[str, Sequence[Any]], count: int) -> list[str]:
    """Return the columns in which cells differ.

    What composite pairs are made of is among them only where the others do not tell all cells apart.
    """
    texts = {name: [_text(value, name) for value in columns[name]] for name in known_columns() if name in columns}
    found = [name for name, values in texts.items() if len(set(values)) > 1]
    others = [name for name in found if name != "made_of"]
    apart = len(set(zip(*(texts[name] for name in others), strict=True))) == count
    return others if apart else found


def nearest_text(name: str, stored: Sequence[float | str], wanted: float | str | None) -> str:
    """Return what a column has that is nearest to a value which it has not, or all that it has."""
    values = sorted({value for value in stored if isinstance(value, float) and not math.isnan(value)})
    if values and isinstance(wanted, int | float):
        return f"a stored value, {_neighbours(values, float(wanted), '{:.10g}')}"
    texts = sorted({_text(value, name) for value in stored})
    if len(texts) == 1:
        return "no value" if texts[0] == "none" else texts[0]
    return f"one of {_listed(texts)}"


def _neighbours(stored: Sequence[float] | Sequence[int], wanted: float, form: str) -> str:
    """Return the neighbours of `wanted` in the increasing `stored` as text."""
    index = bisect_left(stored, wanted)
    near = [form.format(value) for value in stored[max(0, index - 1) : index + 1]]
    return f"the neighbours being {' and '.join(near)}" if len(near) == 2 else f"the nearest being {near[0]}"


def _listed(texts: Sequence[str]) -> str:
    more = f", .. ({len(texts)} in all)" if len(texts) > _MAX_LISTED else ""
    return ", ".join(texts[:_MAX_LISTED]) + more


def _text(value: float | str | None, name: str = "") -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        # No factor means the automatic one.
        return "auto" if name == "factor" else "none"
    return f"{value:.10g}" if isinstance(value, int | float) else value or "none"


def is_set(value: Any) -> bool:
    """Whether a column has a value: a mechanism without that parameter has empty text or NaN there."""
    return value != "" and not (isinstance(value, float) and math.isnan(value))


def check_flag(name: str, value: Any) -> bool:
    """Return a truth value; nothing else is taken for one, as a query that refines writes to the store."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def check_strict(study: StudySpec, strict: Any) -> None:
    """Refuse what is neither a truth value nor ``"silent"``, and True for a study without a tolerance."""
    if strict != "silent" and check_flag("strict", strict) and study.required_tolerance is None:
        instead = "method buckets" if study.method == "buckets" else "a number of buckets"
        raise InvalidInputError(f"strict: expected a study with a tolerance, got one with {instead}")


def given_array(name: str, value: Any) -> Any:
    """Return an argument as an array of any kind; its numbers are not checked.

    Refused are truth values, masked entries, nothing, and lists of unequal lengths.
    """
    for part in _parts(value):
        if isinstance(part, bool) or getattr(part, "dtype", None) == np.bool_:
            raise InvalidInputError(f"{name}: expected numbers, got the truth value {shown(part)}")
        if isinstance(part, np.ma.MaskedArray) and np.ma.getmaskarray(part).any():
            raise InvalidInputError(f"{name}: expected numbers, got masked entries")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name}: expected a rectangular array of numbers, got {shown(value)}") from None
    if not array.size:
        raise InvalidInputError(f"{name}: expected at least one value, got none")
    return array


def noise_parameter(name: str, value: Any) -> FloatArray | str | None:
    """Return a parameter of the noise: numbers, exact ones as the nearest float64, one text, or None."""
    if value is None or isinstance(value, str):
        return value
    array = given_array(name, value)
    if array.dtype.kind in "UT" and array.ndim == 0:
        return str(array.item())
    try:
        if array.dtype.kind == "O" and all(isinstance(one, _EXACT) for one in array.reshape(-1).tolist()):
            array = np.array([float(one) for one in array.reshape(-1).tolist()]).reshape(array.shape)
        numbers = array.astype(np.float64) if array.dtype.kind in "iuf" else None
    except OverflowError:
        raise InvalidInputError(f"{name}: expected a finite number, got {shown(value)}") from None
    if numbers is None:
        raise InvalidInputError(f"{name}: expected a number, an array of numbers, or one text, got {shown(value)}")
    for one in numbers.reshape(-1)[~np.isfinite(numbers.reshape(-1))].tolist():
        raise InvalidInputError(f"{name}: expected a finite number, got {one!r}")
    return np.asarray(numbers)


def one_setting(noise: Mapping[str, Any]) -> dict[str, float | str | None]:
    """Return the parameters of one setting, each with one value."""
    setting: dict[str, float | str | None] = {}
    for name, value in noise.items():
        found = noise_parameter(name, value)
        if isinstance(found, np.ndarray) and found.ndim:
            raise InvalidInputError(f"{name}: expected one value, as it names one setting, got {shown(value)}")
        setting[name] = float(found) if isinstance(found, np.ndarray) else found
    return setting


def one_number(name: str, value: Any) -> Any:
    """Return one number, of numpy or not, as an int or a float."""
    found = given_array(name, value)
    if found.ndim or found.dtype.kind not in "iufO" or not isinstance(found.item(), int | float):
        raise InvalidInputError(f"{name}: expected one number, got {shown(value)}")
    return found.item()


_EXACT = int | float | np.integer | np.floating | Fraction | Decimal


def _parts(value: Any) -> Iterator[Any]:
    """Yield the entries of nested lists and tuples."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value
