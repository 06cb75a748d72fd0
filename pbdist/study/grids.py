"""Expand grids of a study file: a scalar, a list, ``{linspace: [a, b, count]}`` or ``{geomspace: [a, b, count]}``.

The values of a linspace and a geomspace are rounded to 15 significant decimal digits, so that ``[0, 1, 11]`` has the
float that a user writes as 0.3, and a look-up of 0.3 finds it. What is malformed, empty, repeated or out of its range
is a `GridError` with all problems.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal, localcontext
from typing import TypeVar

import numpy as np

from pbdist.errors import shown
from pbdist.study.document import Keys
from pbdist.study.fields import number_hint
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

#: The largest number of compositions: one more doubling still fits an int64.
MAX_COMPOSITIONS = 2**62

_T = TypeVar("_T")
_SPACES = ("linspace", "geomspace")
#: What people also call them.
_OTHER_SPACES = {"logspace": "geomspace", "range": "linspace", "arange": "linspace", "powers": "powers_of_two"}
_LONGEST_SPACE = 1_000_000
#: So many that a million products leave more than twice the 15 digits kept.
_GEOMSPACE_DIGITS = 40
_MATCH_ULP = 4


class GridError(ValueError):
    """Wrong values: `problems` are the keys that lead to each, and what is wrong with it."""

    def __init__(self, problem: str, at: Keys = ()) -> None:
        super().__init__(problem)
        self.problems: Sequence[tuple[Keys, str]] = ((at, problem),)


def each(items: Sequence[JsonValue], read: Callable[[JsonValue], _T], *, repeated: bool = False) -> tuple[_T, ...]:
    """Return what is read of each item; unless `repeated`, no two are equal."""
    found: list[_T] = []
    known: set[_T] = set()
    wrong: list[tuple[Keys, str]] = []
    for index, item in enumerate(items):
        try:
            found.append(read(item))
            if not repeated and found[-1] in known:
                raise GridError(f"expected each value once, got {shown(item)} again")
            known.add(found[-1])
        except GridError as error:
            wrong += [((index, *at), problem) for at, problem in error.problems]
    if wrong:
        together = GridError(wrong[0][1])
        together.problems = wrong
        raise together
    return tuple(found)


def number(value: JsonValue) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise GridError(f"expected a number, got {shown(value)}{number_hint(value)}")
    if not math.isfinite(value):
        raise GridError(f"expected a finite number, got {shown(value)}")
    return float(value)


def numbers(value: JsonValue, read: Callable[[JsonValue], float] = number) -> tuple[float, ...]:
    """Return the floats of a grid in the given order, each as `read` returns it."""
    return tuple(map(read, _space(value, _SPACES))) if isinstance(value, dict) else listed(value, read)


def integers(value: JsonValue) -> tuple[int, ...]:
    """Return the numbers of compositions of a grid, which may also be ``{powers_of_two: [low, high]}``.

    The values of a linspace or geomspace are rounded to the nearest integer, and repeats that come of it are dropped.
    """
    if isinstance(value, dict):
        return tuple(dict.fromkeys(_composition(round(x)) for x in _space(value, (*_SPACES, "powers_of_two"))))
    return listed(value, _composition)


def listed(value: JsonValue, read: Callable[[JsonValue], _T]) -> tuple[_T, ...]:
    """Return what is read of one value, or of each of a list of values."""
    if value == []:
        raise GridError("expected at least one value, got []")
    return each(value, read) if isinstance(value, list) else (read(value),)


def same_float(left: float, right: float) -> bool:
    """Whether two floats differ by rounding of a few operations at most (4 ulp)."""
    if not (math.isfinite(left) and math.isfinite(right)):
        # One ulp of infinity is infinite.
        return left == right
    return abs(left - right) <= _MATCH_ULP * math.ulp(max(abs(left), abs(right)))


def nearest_match(stored: Sequence[float], wanted: float) -> int | None:
    """Return the index of the stored float that equals `wanted` but for rounding, or None; an equal one first."""
    close = [index for index, value in enumerate(stored) if same_float(value, wanted)]
    return min(close, key=lambda index: stored[index] != wanted, default=None)


def nearest_exponential(stored: Sequence[float], wanted: float) -> int | None:
    """Return the index of the stored ε with e^ε equal to `wanted` but for rounding, or None."""
    if not wanted > 0.0:
        return None
    index = nearest_match(stored, math.log(wanted))
    if index is not None:
        return index
    # Near ε = 0 one ulp of e^ε is many of ε.
    return nearest_match([math.exp(value) if value < 709.0 else math.inf for value in stored], wanted)


def _composition(value: JsonValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COMPOSITIONS:
        raise GridError(f"expected an integer from 1 to 2^62, got {shown(value)}{number_hint(value)}")
    return value


def _space(value: dict[str, JsonValue], kinds: Sequence[str]) -> Iterable[float]:
    """Return the values of a linspace, a geomspace or, as whole numbers, of powers of two."""
    kind, arguments = next(iter(value.items()), ("", None))
    if len(value) != 1 or kind not in kinds:
        near = did_you_mean(kind, kinds, _OTHER_SPACES)
        raise GridError(f"expected a number, a list, or one of {', '.join(kinds)}, got {shown(value)}{near}")
    try:
        return _powers_of_two(arguments) if kind == "powers_of_two" else _between(kind, arguments)
    except GridError as error:
        raise GridError(str(error), (kind,)) from None


def _powers_of_two(arguments: JsonValue) -> list[int]:
    whole = isinstance(arguments, list) and len(arguments) == 2 and all(type(x) is int for x in arguments)
    if not whole or not 0 <= arguments[0] <= arguments[1] <= 62:
        raise GridError(f"expected [low, high] with 0 <= low <= high <= 62, got {shown(arguments)}")
    return [2**exponent for exponent in range(arguments[0], arguments[1] + 1)]


def _between(kind: str, arguments: JsonValue) -> list[float]:
    """Return the values of a linspace or a geomspace.

    The latter by decimals, not by NumPy: its powers differ by processor, in the last of the 15 digits too, and the same
    study file would be another study on another machine.
    """
    if not isinstance(arguments, list) or len(arguments) != 3:
        raise GridError(f"expected [first, last, count], got {shown(arguments)}")
    first, last, count = number(arguments[0]), number(arguments[1]), arguments[2]
    if type(count) is not int or not 2 <= count <= _LONGEST_SPACE:
        raise GridError(f"expected a count from 2 to {_LONGEST_SPACE}, got {shown(count)}")
    if first >= last:
        raise GridError(f"expected first < last, got {first!r} and {last!r}")
    if kind == "linspace":
        return [first, *(float(f"{x:.15g}") for x in np.linspace(first, last, count)[1:-1]), last]
    if first <= 0:
        raise GridError(f"expected first > 0, got {first!r}")
    with localcontext(Context(prec=_GEOMSPACE_DIGITS)):
        value = Decimal(repr(first))
        ratio = ((Decimal(repr(last)) / value).ln() / (count - 1)).exp()
        return [first, *(float(f"{(value := value * ratio):.15g}") for _ in range(count - 2)), last]
