"""Check the arguments of public functions before any computation.

Every function here raises an `InvalidInputError` that names the argument.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Pair, Product, adjacency_together, checked_adjacency, stated
from pbdist.rounding import brief
from pbdist.types import Adjacency, Direction, FloatArray, IntArray

#: Defaults of `buckets` and `tolerance`.
DEFAULT_BUCKETS, DEFAULT_TOLERANCE = 100_000, 1e-3
#: Default of `floor`, the δ below which the tolerance need not be met: below 2^-128.
DEFAULT_FLOOR = 1e-40
#: The smallest tolerance that float64 can certify.
SMALLEST_TOLERANCE = 1e-9

#: Values of `direction`: the larger of the two directions, or each.
DIRECTIONS = ("both", "each")

#: Largest number of buckets: beyond this no worker's memory is enough.
MAX_BUCKETS = 2**30
#: Largest number of compositions: a safe distance from the end of int64.
MAX_COMPOSITIONS = 2**62
#: Up to this number of compositions no sum of a histogram's masses differs from 1 by a factor of e.
_FEW_COMPOSITIONS = 10**8
#: The largest ε, nats: the square of a larger one overflows.
MAX_EPSILON = 1e150


def half_width_of(buckets: Any) -> int:
    """Return the half width n of the grid with at least that many finite buckets.

    A grid has 2n buckets of finite width, i = -n+1 .. n, with n even: n is half of `buckets`, plus 1 if that is odd.
    """
    whole = isinstance(buckets, Integral) and not isinstance(buckets, bool)
    if not whole or not 0 < int(buckets) <= MAX_BUCKETS or int(buckets) % 2:
        raise InvalidInputError(
            f"buckets: expected an even whole number above 0 and at most {MAX_BUCKETS}, got {shown(buckets)}"
        )
    half = int(buckets) // 2
    return half + half % 2


@dataclass(frozen=True)
class Request:
    """The requested precision of bounds on δ by the tight method."""

    #: Largest upper / lower - 1 aimed at, where neither `width` nor `buckets` is given.
    tolerance: float = DEFAULT_TOLERANCE
    #: Where the upper bound is at most this, the tolerance need not be met.
    floor: float = 0.0
    #: Loss width of one round, nats, instead of a tolerance.
    width: float | None = None
    #: Approximate number of positions of one round, instead of a tolerance: it determines the width.
    buckets: int | None = None
    #: Whether a missed tolerance is an error.
    strict: bool = True
    #: Whether only the larger of the two directions must meet the tolerance; the bounds of the other one then only
    #: show that it is smaller.
    joint_directions: bool = False
    #: Bounds that show on which side of this δ the larger direction lies need not be closer; used for enclosed pairs
    #: only.
    decision_delta: float | None = None

    @property
    def given_width(self) -> bool:
        """Whether a loss width is given instead of a tolerance."""
        return self.width is not None or self.buckets is not None


def checked_number(field: str, value: Any, expected: str, allowed: Callable[[float], bool]) -> float:
    """Return one number that is allowed; `expected` says in words which are."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.inf
    if allowed(number):
        return number
    raise InvalidInputError(f"{field}: expected {expected}, got {shown(value)}")


def checked_tolerance(tolerance: Any) -> float:
    """Return the tolerance of the tight method, `DEFAULT_TOLERANCE` for None."""
    if tolerance is None:
        return DEFAULT_TOLERANCE
    expected = f"a number from {brief(SMALLEST_TOLERANCE)} to 1"
    return checked_number("tolerance", tolerance, expected, lambda value: SMALLEST_TOLERANCE <= value <= 1.0)


def checked_buckets(buckets: Any, width: float | None) -> int | None:
    """Return the number of buckets of the tight method; `width` is that of a factor that was checked."""
    if buckets is not None:
        half_width_of(buckets)
        if width is not None:
            raise InvalidInputError("buckets: give either buckets or factor, not both")
    return None if buckets is None else int(buckets)


def checked_floor(floor: Any, default: float) -> float:
    """Return the δ below which the tolerance need not be met."""
    if floor is None:
        return default
    return checked_number("floor", floor, "a number from 0 to below 1", lambda value: 0.0 <= value < 1.0)


def checked_components(components: Any, *, worst_of: bool = False) -> list[tuple[Pair, int]]:
    """Return the pairs of a round and how often each occurs; with `worst_of` it may be the worst of several, alone.

    A pair that is known through an enclosing pair and an attained one may be in a sequence too. The worst of a single
    attained pair is that pair.
    """
    parts: list[tuple[Pair, int]] = []
    for position, item in enumerate(components):
        try:
            pair, count = item
        except (TypeError, ValueError):
            raise InvalidInputError(f"mechanism[{position}]: expected (pair, count), got {shown(item)}") from None
        if not isinstance(pair, Pair):
            raise InvalidInputError(f"mechanism[{position}]: expected a mechanism, got {shown(pair)}")
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        if not whole or not 1 <= int(count) <= MAX_COMPOSITIONS:
            raise InvalidInputError(
                f"mechanism[{position}]: expected a count of at least 1 and at most 2^62, got {shown(count)}"
            )
        parts.append((pair.sole_pair or pair, int(count)))
    if not parts:
        raise InvalidInputError("mechanism: expected at least one pair, got none")
    if not worst_of and any(pair.is_worst_of_several for pair, _ in parts):
        raise InvalidInputError(
            "mechanism: expected one worst-case pair, got the worst of several; bound each of its pairs by itself"
        )
    if len(parts) > 1 and any(pair.enclosing_pairs is None for pair, _ in parts):
        raise InvalidInputError(
            "mechanism: the worst of several pairs cannot be composed with other mechanisms: pass it alone"
        )
    if len(parts) > 1:
        adjacency_together([pair for pair, _ in parts], "mechanism")
    return parts


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of bounds, and the direction that is a removal, if it is known."""

    adjacency: Adjacency
    removal: Direction | None

    @property
    def directions(self) -> str | None:
        """The meaning of the two directions; None unless they are a removal and an addition."""
        if self.removal is None:
            return None
        away, back = ("zeroed out", "put back") if self.adjacency is Adjacency.ZERO_OUT else ("removed", "added")
        return f"{self.removal.value}: a record is {away}; {self.removal.opposite.value}: a record is {back}"


def checked_neighbours(components: Any, adjacency: Any) -> Neighbours:
    """Return the neighbours of a round: those of its pairs, or else the given ones."""
    given = checked_adjacency(adjacency)
    checked_components(components, worst_of=True)
    # The given pairs: the worst of one pair may define its neighbours where the pair does not.
    pairs: list[Pair] = [pair for pair, _ in components]
    own = adjacency_together(pairs, "mechanism")
    parts = [one for pair in pairs for one in ((pair,) if pair.is_worst_of_several else pair.factors)]
    named = next((type(one).__name__ for one in parts if one.adjacency.definite), "the pair")
    removal = pairs[0].removal if len(pairs) == 1 else Product(*pairs).removal
    return Neighbours(stated(own, given, "adjacency", named), removal)


def check_totals(components: Sequence[tuple[Pair, int]], rounds: IntArray) -> None:
    """Refuse r compositions of a histogram whose masses M do not sum to 1 if M^r differs from 1 by a factor of e."""
    most = int(rounds.max())
    for pair, count in components:
        for factor in pair.factors:
            for excess in factor.mass_excess if most * count > _FEW_COMPOSITIONS else ():
                if most * count * abs(excess) >= 1:
                    raise InvalidInputError(
                        f"compositions: expected fewer than {float(1 / abs(excess)):.3g} of a {type(factor).__name__}"
                        f" whose probabilities sum to 1 {float(excess):+.3g}, got {most * count}: give counts, or"
                        " divide by the sum"
                    )


def checked_compositions(compositions: Any) -> IntArray:
    """Return numbers of rounds, shape (R,)."""
    expected = "compositions: expected whole numbers of at least 1 and at most 2^62, got"
    try:
        values = np.atleast_1d(np.asarray(compositions))
    except ValueError:
        raise InvalidInputError(f"{expected} {shown(compositions)}") from None
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool(np.all(values == np.floor(values))))
    if values.ndim != 1 or values.size == 0 or not whole:
        raise InvalidInputError(f"{expected} {shown(compositions)}")
    for value in values.tolist():
        if not 1 <= value <= MAX_COMPOSITIONS:
            raise InvalidInputError(f"{expected} {shown(value)}")
    return values.astype(np.int64)


def checked_numbers(field: str, given: Any, expected: str, allowed: Callable[[float], bool]) -> FloatArray:
    """Return numbers that are all allowed, shape (K,); `expected` says in words which are."""
    try:
        values = np.atleast_1d(np.asarray(given))
    except ValueError:
        values = np.zeros(0)
    if values.dtype.kind not in "iuf" or values.ndim != 1 or values.size == 0:
        raise InvalidInputError(f"{field}: expected {expected}, got {shown(given)}")
    for value in values.tolist():
        if not allowed(value):
            raise InvalidInputError(f"{field}: expected {expected}, got {shown(value)}")
    return values.astype(np.float64)


def checked_epsilon(epsilon: Any) -> FloatArray:
    """Return losses from 0 to `MAX_EPSILON`, nats, shape (E,)."""
    expected = f"finite numbers of at least 0 and at most {MAX_EPSILON:g}"
    return checked_numbers("epsilon", epsilon, expected, lambda value: 0.0 <= value <= MAX_EPSILON)


def checked_delta(delta: Any, *, zero: bool = False) -> FloatArray:
    """Return numbers above 0 and below 1, shape (D,); with `zero` also 0, which is pure differential privacy."""
    if zero:
        return checked_numbers("delta", delta, "numbers from 0 to below 1", lambda value: 0.0 <= value < 1.0)
    return checked_numbers("delta", delta, "numbers above 0 and below 1", lambda value: 0.0 < value < 1.0)


def checked_factor(factor: Any) -> float:
    """Return a finite factor above 1."""
    return checked_number("factor", factor, "a finite number above 1", lambda value: 1.0 < value < math.inf)


def components_of(mechanism: Any) -> list[tuple[Pair, int]]:
    """Return a pair, or a sequence of (pair, count), as a list; `checked_components` checks its items."""
    if isinstance(mechanism, Pair):
        return [(mechanism, 1)]
    if isinstance(mechanism, str) or not isinstance(mechanism, Iterable):
        raise InvalidInputError(
            f"mechanism: expected a mechanism or a sequence of (mechanism, count), got {shown(mechanism)}"
        )
    return list(mechanism)


def check_choice(field: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInputError(f"{field}: expected one of {', '.join(choices)}, got {shown(value)}")


def check_direction(direction: Any) -> None:
    """Refuse a direction other than "both" and "each"."""
    check_choice("direction", direction, DIRECTIONS)


def check_flag(name: str, value: Any) -> bool:
    """Return a truth value; nothing else is accepted for one, as a query that refines writes to the store."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def problem_of_either(**given: Any) -> str | None:
    """Return an error text unless exactly one of two arguments is given."""
    count = sum(value is not None for value in given.values())
    got = "neither" if count == 0 else "both"
    return None if count == 1 else f"expected exactly one of {' and '.join(given)}, got {got}"


def check_either(**given: Any) -> None:
    """Require exactly one of two arguments; the error is that of the first."""
    problem = problem_of_either(**given)
    if problem is not None:
        raise InvalidInputError(f"{next(iter(given))}: {problem}")
