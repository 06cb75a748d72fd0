"""Decimals rounded outwards: a printed bound is a bound."""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_DIGITS = 6
#: With so many digits the decimals next to a float64 on either side of it read back as the same float64.
_WHOLE = 18


def rounded_down(value: float | Decimal, digits: int = _DIGITS) -> str:
    """Return the largest decimal of so many digits that is at most `value`."""
    return _rounded(value, ROUND_FLOOR, digits)


def rounded_up(value: float | Decimal, digits: int = _DIGITS) -> str:
    """Return the smallest decimal of so many digits that is at least `value`."""
    return _rounded(value, ROUND_CEILING, digits)


def exact(value: float) -> str:
    """Return a number that is no bound: the shortest decimal that is this float and no other, 200 for 200.0."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else short_exponent(repr(value))


def brief(value: float, digits: int = 6) -> str:
    """Return a number that is no bound in few digits: 0.001, 1e-5."""
    return short_exponent(f"{value:.{digits}g}")


def short_exponent(text: str) -> str:
    """Return 1e-5 for 1e-05, as bounds are printed."""
    return re.sub(r"e([-+])0", r"e\1", text)


def whole_down(value: float) -> str:
    """Return a decimal that is at most `value` and reads back as the same float: the shortest one where that does."""
    text = repr(value)
    return text if not math.isfinite(value) or Decimal(text) <= Decimal(value) else rounded_down(value, _WHOLE)


def whole_up(value: float) -> str:
    """Return a decimal that is at least `value` and reads back as the same float: the shortest one where that does."""
    text = repr(value)
    return text if not math.isfinite(value) or Decimal(text) >= Decimal(value) else rounded_up(value, _WHOLE)


def _rounded(value: float | Decimal, rounding: str, digits: int) -> str:
    if not math.isfinite(value):
        return str(value)
    # Decimal(float) is exact: this is the only rounding.
    decimal = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    return "0" if decimal == 0 else f"{decimal:.{digits - 1}e}" if abs(decimal) < Decimal("1e-3") else f"{decimal:f}"


def exponential(epsilon: float) -> float:
    """Return e^ε, as the shortest decimal whose logarithm is `epsilon` where there is one: 2.0 for ln 2."""
    value = math.exp(epsilon) if epsilon < 709.0 else math.inf
    for digits in range(1, 17):
        short = float(f"{value:.{digits}g}")
        if math.isfinite(short) and math.log(short) == epsilon:
            return short
    return value
