"""Tell the bins and counts of a histogram file exactly: no value is rounded on its way."""

import re
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

#: The name of a bin: a number, exactly, or a text that is none.
Label: TypeAlias = Decimal | str

LARGEST_COUNT = 2**63 - 1
#: A number in a text, of ASCII digits: the part before the exponent, and the exponent.
_NUMBER = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([-+]?[0-9]+))?")
_INFINITE = re.compile(r"[-+]?inf(inity)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+]?nan", re.IGNORECASE)
#: Longer numbers and exponents are refused: Decimal holds them no more, or comparing them takes long.
_LONGEST_NUMBER, _LONGEST_EXPONENT = 400, 6


def label_of(value: object) -> Label | None:
    """Return the bin that a value names, None if it names none; equal numbers are one bin, whatever their form."""
    if isinstance(value, str) and _exact(value) is None:
        text = value.strip()
        return text if text and not _NO_NUMBER.fullmatch(text) and not _NUMBER.fullmatch(text) else None
    number = _exact(value)
    return None if number is None or number.is_nan() else number


def count_of(value: object, limit: int = LARGEST_COUNT + 1) -> int | None:
    """Return the count that a value is, None if it is none; a float must be below `limit`."""
    number = _exact(value)
    if number is None or not number.is_finite() or not 0 <= number <= LARGEST_COUNT:
        return None
    count = int(number)
    too_large = isinstance(value, float | np.floating) and count >= limit
    return None if count != number or too_large else count


def _exact(value: Any) -> Decimal | None:
    """Return a number as it is, without rounding; None for anything else, and for a text that is too long."""
    if isinstance(value, bool):
        return None
    if isinstance(value, np.float16 | np.float32):
        value = float(value)
    if isinstance(value, float):
        return Decimal.from_float(value)
    if isinstance(value, int | Decimal):
        return Decimal(value)
    return _exact_text(value.strip()) if isinstance(value, str) else None


def _exact_text(text: str) -> Decimal | None:
    if _INFINITE.fullmatch(text):
        return Decimal(text)
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return None
    number, exponent = parts.groups(default="")
    short = len(number) <= _LONGEST_NUMBER and len(exponent.lstrip("+-")) <= _LONGEST_EXPONENT
    return Decimal(text) if short else None
