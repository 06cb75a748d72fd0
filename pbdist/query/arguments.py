"""Check the arguments of a query; refuse by its name what would be taken for another number."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.study import StudySpec
from pbdist.types import FloatArray


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
