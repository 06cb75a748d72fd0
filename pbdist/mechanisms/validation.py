"""Checks of a mechanism's parameters; each error names the field, what was expected and what came."""

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from pbdist.errors import InvalidInputError, shown

#: Noise may be cut or redrawn only where at least this much of it is kept: masses are divided by it.
SMALLEST_KEPT = 1e-10

#: Scales, sensitivities and truncations beyond this, or below its inverse, are refused rather than left to overflow.
_LARGEST = 1e30


def number(owner: str, field: str, value: Any) -> float:
    """Return `value` as a finite float, or raise `InvalidInputError`."""
    # The usual case first: a study makes a million of them, and a check against an abstract base class is slow.
    if type(value) is float and math.isfinite(value):
        return value + 0.0
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInputError(f"{owner}.{field}: expected a number, got {shown(value)}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise InvalidInputError(f"{owner}.{field}: expected a finite number, got {shown(value)}")
    # Without the sign of a zero, so that equal pairs have equal canonical forms.
    return result + 0.0


def size(owner: str, field: str, value: Any) -> float:
    """Return `value` as a float above 0 whose square neither overflows nor vanishes, or raise `InvalidInputError`."""
    result = number(owner, field, value)
    if result <= 0.0:
        raise InvalidInputError(f"{owner}.{field}: expected a number above 0, got {shown(value)}")
    if not 1.0 / _LARGEST <= result <= _LARGEST:
        raise InvalidInputError(
            f"{owner}.{field}: expected a number from {1.0 / _LARGEST:g} to {_LARGEST:g}, got {shown(value)}"
        )
    return result


def probability(owner: str, field: str, value: Any) -> float:
    """Return `value` as a float in [0, 1], or raise `InvalidInputError`."""
    result = number(owner, field, value)
    if not 0.0 <= result <= 1.0:
        raise InvalidInputError(f"{owner}.{field}: expected a probability in [0, 1], got {shown(value)}")
    return result


def rate(owner: str, field: str, value: Any) -> float:
    """Return `value` as a float in (0, 1], or raise `InvalidInputError`."""
    result = probability(owner, field, value)
    if result == 0.0:
        raise InvalidInputError(f"{owner}.{field}: expected a probability in (0, 1], got {result!r}")
    return result


def integer(owner: str, field: str, value: Any, *, minimum: int, maximum: int) -> int:
    """Return `value` as an int from `minimum` to `maximum`, or raise `InvalidInputError`."""
    if type(value) is int and minimum <= value <= maximum:
        return value
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if isinstance(value, bool) or not whole or not minimum <= int(value) <= maximum:
        raise InvalidInputError(
            f"{owner}.{field}: expected a whole number from {minimum} to {maximum}, got {shown(value)}"
        )
    return int(value)


def between(owner: str, field: str, value: Any, *, low: float, high: float) -> float:
    """Return `value` as a float from `low` to `high`, or raise `InvalidInputError`."""
    result = number(owner, field, value)
    if not low <= result <= high:
        raise InvalidInputError(f"{owner}.{field}: expected a number from {low:g} to {high:g}, got {shown(value)}")
    return result


def numbers(owner: str, field: str, value: Any) -> tuple[float, ...]:
    """Return `value` as a tuple of finite floats, at least one, or raise `InvalidInputError`."""
    listed: Any = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, list | tuple) or not listed:
        raise InvalidInputError(f"{owner}.{field}: expected a list of numbers, got {shown(value)}")
    return tuple(number(owner, f"{field}[{index}]", one) for index, one in enumerate(listed))


def two_sizes(owner: str, field: str, value: Any) -> tuple[float, float]:
    """Return `value` as two sizes as of `size`, or raise `InvalidInputError`."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InvalidInputError(f"{owner}.{field}: expected two numbers, got {shown(value)}")
    first, second = (size(owner, f"{field}[{index}]", one) for index, one in enumerate(value))
    return first, second


def times_above(value: float, times: int) -> float:
    """Return the least float that is at least the product."""
    product = value * times
    return product if Fraction(product) >= Fraction(value) * times else math.nextafter(product, math.inf)


def truncation(owner: str, field: str, value: Any) -> tuple[float, float] | None:
    """Return `value` as (low, high) with low < high, or None, or raise `InvalidInputError`."""
    if value is None:
        return None
    try:
        low, high = value
    except (TypeError, ValueError):
        raise InvalidInputError(f"{owner}.{field}: expected (low, high) or None, got {shown(value)}") from None
    low, high = number(owner, field, low), number(owner, field, high)
    if max(abs(low), abs(high)) > _LARGEST:
        raise InvalidInputError(f"{owner}.{field}: expected limits of at most {_LARGEST:g}, got ({low!r}, {high!r})")
    if not low < high:
        raise InvalidInputError(f"{owner}.{field}: expected low < high, got ({low!r}, {high!r})")
    return (low, high)
