"""Find a stored point exactly, or refuse with the neighbours that are stored."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from pbdist.results import Bracket
from pbdist.study import Cell, StudySpec
from pbdist.study.columns import cell_columns, column_of
from pbdist.study.grids import nearest_exponential, nearest_match, same_float
from pbdist.study.spec import exponential
from pbdist.suggestions import did_you_mean
from pbdist.types import Adjacency, BoolArray, FloatArray

_MOST_LISTED = 12


@dataclass(frozen=True)
class Bounds:
    """Certified bounds on δ(ε) at one point.

    Attributes
    ----------
    setting
        The cell's setting, as text.
    compositions
        The number r of compositions.
    epsilon
        ε in nats, exactly as stored or asked for; where e^ε was asked for the float nearest to its logarithm.
    directions
        The names of the directions.
    brackets
        The bounds in each direction.
    asked_exp_epsilon
        The e^ε that was asked for; None where ε was.
    within_tolerance
        Whether they are as close as the study's tolerance asks, the larger direction or each, as the study says, or
        the upper bound is at most its floor, or no closer ones can be computed. None where the study has no tolerance.
    why_wide
        Why they are not within the tolerance, as in `pbdist.results.DeltaBounds`; empty text where they are, or there
        is no tolerance.
    adjacency
        For which neighbours they are, as in `pbdist.results.DeltaBounds`.
    """

    setting: str
    compositions: int
    epsilon: float
    directions: tuple[str, ...]
    brackets: tuple[Bracket, ...]
    asked_exp_epsilon: float | None = None
    within_tolerance: bool | None = None
    why_wide: str = ""
    adjacency: Adjacency = Adjacency.AS_STATED

    @property
    def delta_lower(self) -> tuple[float, ...]:
        """The lower bounds on δ, one for each direction."""
        return tuple(bracket.lower for bracket in self.brackets)

    @property
    def delta_upper(self) -> tuple[float, ...]:
        """The upper bounds on δ."""
        return tuple(bracket.upper for bracket in self.brackets)

    @property
    def log_delta_lower(self) -> tuple[float, ...]:
        """The natural logarithms of `delta_lower`."""
        return tuple(bracket.log_lower for bracket in self.brackets)

    @property
    def log_delta_upper(self) -> tuple[float, ...]:
        """The natural logarithms of `delta_upper`."""
        return tuple(bracket.log_upper for bracket in self.brackets)

    @property
    def exp_epsilon(self) -> float:
        """The value e^ε."""
        return exponential(self.epsilon) if self.asked_exp_epsilon is None else self.asked_exp_epsilon

    @property
    def maximum(self) -> tuple[float, float]:
        """Lower and upper bound on δ(ε), the larger of the two directions."""
        return max(self.delta_lower), max(self.delta_upper)

    @property
    def log_maximum(self) -> tuple[float, float]:
        """Natural logarithms of `maximum`."""
        return max(self.log_delta_lower), max(self.log_delta_upper)


def other_names() -> dict[str, str]:
    """Return what people also call parameters of noise: for each such name the column that most kinds mean by it."""
    meant: dict[str, Counter[str]] = {}
    for _, one in all_parameters():
        for alias in one.aliases:
            meant.setdefault(alias, Counter())[one.columns[0]] += 1
    return {alias: columns.most_common(1)[0][0] for alias, columns in meant.items()}


def find_cell(study: StudySpec, mechanism: str, noise: Mapping[str, float | str | None]) -> int:
    """Return the index of the one cell with that label and those parameters.

    Raises
    ------
    OffGridError
        There is none; the text names the values nearest to the first parameter that fails.
    InvalidInputError
        There are several, or a parameter is unknown.
    """
    unknown = [name for name in noise if name not in known_columns() or name == "mechanism"]
    if unknown:
        known = [name for name in known_columns() if name != "mechanism"]
        near = did_you_mean(unknown[0], known, other_names())
        raise InvalidInputError(f"{unknown[0]}: expected one of {', '.join(known)}, got an unknown parameter{near}")
    for name, value in noise.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInputError(f"{name}: expected a finite number, got {value!r}")
    found: Sequence[int] = range(len(study.cells))
    wanted = {"mechanism": mechanism, **noise}
    for name in known_columns():
        if name not in wanted:
            continue
        column = column_of(study.cells, name)
        stored = [column[cell] for cell in found]
        matching = [cell for cell, value in zip(found, stored, strict=True) if _equal(name, value, wanted[name])]
        if not matching:
            near = did_you_mean(wanted[name], {value for value in stored if isinstance(value, str)})
            raise OffGridError(
                f"{name}: expected {nearest_text(name, stored, wanted[name])}, got {_text(wanted[name])}{near}"
            )
        found = matching
    if len(found) > 1:
        raise InvalidInputError(ambiguous(mechanism, [study.cells[cell] for cell in found]))
    return found[0]


def find_composition(study: StudySpec, compositions: int) -> int:
    """Return the index of `compositions` in the study's grid; an `OffGridError` names the neighbours."""
    if compositions not in study.compositions:
        near = _neighbours(study.compositions, compositions, "{}")
        raise OffGridError(f"compositions: expected a stored number of compositions, {near}, got {shown(compositions)}")
    return study.compositions.index(compositions)


def find_epsilon(study: StudySpec, epsilon: float | None, exp_epsilon: float | None) -> int:
    """Return the index of ε, or of ln(e^ε), in the study's grid.

    Raises
    ------
    OffGridError
        It is more than 4 ulp from every ε of the grid; the text names the neighbours.
    InvalidInputError
        Not exactly one of the two is given.
    """
    check_either(epsilon=epsilon, exp_epsilon=exp_epsilon)
    for field, value in (("epsilon", epsilon), ("exp_epsilon", exp_epsilon)):
        if value is not None and not math.isfinite(value):
            raise InvalidInputError(f"{field}: expected a finite number, got {value!r}")
    if epsilon is not None:
        name, wanted, stored = "epsilon", epsilon, study.epsilon
        index = nearest_match(study.epsilon, epsilon)
    else:
        name, wanted = "exp_epsilon", math.nan if exp_epsilon is None else exp_epsilon
        stored = tuple(exponential(value) for value in study.epsilon)
        index = nearest_exponential(study.epsilon, wanted)
    if index is None:
        near = _neighbours(stored, wanted, "{:.10g}")
        raise OffGridError(f"{name}: expected a stored value, {near}, got {wanted!r}")
    return index


def matches(name: str, stored: Any, wanted: float | str | None) -> BoolArray:
    """Return where a column, an array, has a value, by the rules of `find_cell`."""
    if is_text(name):
        return np.asarray(stored == _stored_text(name, wanted), dtype=bool)
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
    start = f"mechanism: expected one noise setting of {mechanism!r}, got {len(found)}"
    if not undetermined:
        return f"{start} that differ in no parameter: give them labels of their own in the study"
    return f"{start}: also give {', '.join(undetermined)}"


def told_apart(found: Sequence[Cell]) -> list[str]:
    """Return the parameters in which cells differ, each with its values as text."""
    undetermined = []
    columns = cell_columns(found)
    for name in telling(columns, len(found)):
        texts = list(dict.fromkeys(_text(value, name) for value in columns[name]))
        undetermined.append(f"{name} ({_listed(texts)})")
    return undetermined


def telling(columns: Mapping[str, Sequence[Any]], count: int) -> list[str]:
    """Return the columns in which cells differ.

    What composite pairs are made of is among them only where the others do not tell all cells apart.
    """
    texts = {name: [_text(value, name) for value in columns[name]] for name in known_columns() if name in columns}
    found = [name for name, values in texts.items() if len(set(values)) > 1]
    others = [name for name in found if name != "made_of"]
    apart = len(set(zip(*(texts[name] for name in others), strict=True))) == count
    return others if apart else found


def _stored_text(name: str, wanted: float | str | None) -> float | str | None:
    """Return a text as a column has it: of a list of numbers the one way in which it is written."""
    return as_list_text(wanted) if isinstance(wanted, str) and known_columns()[name].listed else wanted


def _equal(name: str, stored: float | str, wanted: float | str | None) -> bool:
    if is_text(name):
        return stored == _stored_text(name, wanted)
    if wanted is None or wanted == "auto":
        return isinstance(stored, float) and math.isnan(stored)
    if isinstance(wanted, str) or isinstance(stored, str):
        return False
    return same_float(stored, float(wanted))


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
    more = f", .. ({len(texts)} in all)" if len(texts) > _MOST_LISTED else ""
    return ", ".join(texts[:_MOST_LISTED]) + more


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
    """Refuse what is no truth value, and True for a study without a tolerance."""
    if check_flag("strict", strict) and study.sought is None:
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
