"""The arguments of a query, each refused by its name: what would change its meaning on the way is no number."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.types import FloatArray

__all__ = ["check_direction", "check_flag", "given_array", "noise_parameter", "one_parameter", "one_setting"]

_DIRECTIONS = ("both", "each")


def check_direction(direction: Any) -> None:
    """Refuse what is no direction."""
    if not isinstance(direction, str) or direction not in _DIRECTIONS:
        raise InvalidInputError(f"direction: expected one of {', '.join(_DIRECTIONS)}, got {shown(direction)}")


def check_flag(name: str, value: Any) -> bool:
    """Return a truth value, which nothing else is taken for: a query that refines writes."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def given_array(name: str, value: Any) -> Any:
    """Return an argument as an array of at least one value, of whatever kind; its numbers are not looked at.

    Raises
    ------
    InvalidInputError
        Truth values, masked entries, nothing, or no rectangle of values: they would be taken for other numbers.
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
    """Return a parameter of the noise: numbers as float64, one text, or None.

    Whole numbers, fractions and decimals are the nearest float64.

    Raises
    ------
    InvalidInputError
        It is anything else.
    """
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


def one_parameter(name: str, value: Any) -> float | str | None:
    """Return a parameter of the noise of which there is one value, as `noise_parameter`."""
    found = noise_parameter(name, value)
    if not isinstance(found, np.ndarray):
        return found
    if found.ndim:
        raise InvalidInputError(f"{name}: expected one value, as it names one setting, got {shown(value)}")
    return float(found)


def one_setting(noise: Mapping[str, Any]) -> dict[str, float | str | None]:
    """Return the parameters of one noise setting."""
    return {name: one_parameter(name, value) for name, value in noise.items()}


_EXACT = int | float | np.integer | np.floating | Fraction | Decimal


def _parts(value: Any) -> Iterator[Any]:
    """Yield what lists and tuples are made of."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value
