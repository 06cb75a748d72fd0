"""Checks of a mechanism's parameters; each error names the field, what was expected and what came."""

import math
from numbers import Integral, Real
from typing import Any

from pbdist.errors import InvalidInputError

__all__ = ["integer", "number", "positive", "probability", "truncation"]


def number(owner: str, field: str, value: Any) -> float:
    """Return `value` as a finite float, or raise `InvalidInputError`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInputError(f"{owner}.{field}: expected a number, got {value!r}")
    result = float(value)
    if not math.isfinite(result):
        raise InvalidInputError(f"{owner}.{field}: expected a finite number, got {value!r}")
    return result


def positive(owner: str, field: str, value: Any) -> float:
    """Return `value` as a finite float above 0, or raise `InvalidInputError`."""
    result = number(owner, field, value)
    if result <= 0.0:
        raise InvalidInputError(f"{owner}.{field}: expected a number above 0, got {value!r}")
    return result


def probability(owner: str, field: str, value: Any) -> float:
    """Return `value` as a float in [0, 1], or raise `InvalidInputError`."""
    result = number(owner, field, value)
    if not 0.0 <= result <= 1.0:
        raise InvalidInputError(f"{owner}.{field}: expected a probability in [0, 1], got {value!r}")
    return result


def integer(owner: str, field: str, value: Any, *, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`, or raise `InvalidInputError`."""
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if isinstance(value, bool) or not whole or int(value) < minimum:
        raise InvalidInputError(f"{owner}.{field}: expected a whole number of at least {minimum}, got {value!r}")
    return int(value)


def truncation(owner: str, value: Any) -> tuple[float, float] | None:
    """Return `value` as (low, high) with low < high, or None, or raise `InvalidInputError`."""
    if value is None:
        return None
    try:
        low, high = value
    except (TypeError, ValueError):
        raise InvalidInputError(f"{owner}.truncate: expected (low, high) or None, got {value!r}") from None
    low, high = number(owner, "truncate", low), number(owner, "truncate", high)
    if not low < high:
        raise InvalidInputError(f"{owner}.truncate: expected low < high, got ({low!r}, {high!r})")
    return (low, high)
