"""Compose masses on a grid of losses as fixed-point integers, each rounding in one direction.

A mass is a whole number of units of 2^-bits. `flint` multiplies the vectors exactly; afterwards every element is
rounded back to whole units: down where masses must not be overestimated, up where they must not be underestimated.
python-flint is imported when it is first needed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from pbdist.errors import InvalidInputError, MissingDependencyError

#: A `flint.fmpz_poly` or `flint.arb`; python-flint has no usable type information at version 0.6.
Polynomial: TypeAlias = Any
Ball: TypeAlias = Any

_Masses = TypeVar("_Masses")


def flint_module() -> Any:
    """Return the module `flint`; a `MissingDependencyError` says how to install it."""
    try:
        return import_module("flint")
    except ImportError as error:
        raise MissingDependencyError(
            "python-flint: expected for exact arithmetic, not found; install it with: pip install 'pbdist[verify]'"
        ) from error


@contextmanager
def ball_precision(bits: int) -> Iterator[None]:
    """Let `flint.arb` compute with that many bits inside a ``with`` block."""
    context = flint_module().ctx
    before = context.prec
    context.prec = bits
    try:
        yield
    finally:
        context.prec = before


def floor_shifted(ball: Ball, shift: int) -> int:
    """Return the largest whole number that is certainly at most ``ball * 2^shift``."""
    mantissa, exponent = map(int, ball.lower().man_exp())
    places = exponent + shift
    return mantissa << places if places >= 0 else mantissa >> -places


@dataclass(frozen=True)
class FixedPoint:
    """Fixed-point numbers in units of 2^-bits, in vectors of at most `max_bins`."""

    bits: int
    max_bins: int

    def checked_length(self, length: int) -> None:
        """Refuse vectors that are longer than `max_bins`."""
        if length > self.max_bins:
            raise InvalidInputError(
                f"loss_width: expected a width that needs at most {self.max_bins} bins (max_bins), got one that needs"
                f" {length}"
            )


@dataclass(frozen=True, eq=False)
class SubsetMasses:
    """Masses of some of the events, sorted into blocks: one for each bin, and one for loss ∞.

    Every event is in at most one block; P_A of a block is at least its value here, P_B at most. So
    Σ max(0, a - e^ε b) over the blocks is at most δ(ε), whichever events are left out and however they are sorted.
    """

    #: Index of the first coefficient.
    first: int
    #: Units, coefficient k for index ``first + k``.
    a: Polynomial
    b: Polynomial
    #: Units.
    infinity_a: int
    infinity_b: int


@dataclass(frozen=True, eq=False)
class DominatingMasses:
    """P_A masses of a pair whose losses lie exactly on the grid, and which dominates the pair it stands for."""

    #: Index of the first coefficient; index i means a loss of i h.
    first: int
    #: Units, coefficient k for index ``first + k``.
    a: Polynomial
    #: P_A mass of loss ∞, units.
    infinity: int


def compose_subset(x: SubsetMasses, y: SubsetMasses, fixed: FixedPoint) -> SubsetMasses:
    """Return the masses of independent events seen together, the losses added; a rounded down, b rounded up.

    Events whose P_A mass is below a unit, at both ends, are left out, with their P_B mass.
    """
    bits = fixed.bits
    a = (x.a * y.a) // (1 << bits)
    b = _rounded_up(x.b * y.b, bits)
    start = 0
    while start < a.length() and a[start] == 0:
        start += 1
    a, b = a.right_shift(start), b.truncate(a.length()).right_shift(start)
    fixed.checked_length(a.length())
    infinity_a = x.infinity_a * (int(y.a(1)) + y.infinity_a) + int(x.a(1)) * y.infinity_a
    infinity_b = x.infinity_b * (int(y.b(1)) + y.infinity_b) + int(x.b(1)) * y.infinity_b
    return SubsetMasses(x.first + y.first + start, a, b, infinity_a >> bits, -(-infinity_b >> bits))


def compose_dominating(x: DominatingMasses, y: DominatingMasses, fixed: FixedPoint) -> DominatingMasses:
    """Return the dominating masses of both seen together, rounded up.

    Elements of at most a unit at the upper end go to ∞, those at the lower end to the first index that stays: each
    moves to a larger loss.
    """
    bits = fixed.bits
    a = _rounded_up(x.a * y.a, bits)
    infinity = x.infinity * (int(y.a(1)) + y.infinity) + int(x.a(1)) * y.infinity
    infinity = -(-infinity >> bits)
    length = a.length()
    while length > 1 and a[length - 1] <= 1:
        length -= 1
        infinity += int(a[length])
    start, moved = 0, 0
    while start < length - 1 and a[start] <= 1:
        moved += int(a[start])
        start += 1
    a = a.truncate(length).right_shift(start)
    a += moved
    fixed.checked_length(length - start)
    return DominatingMasses(x.first + y.first + start, a, infinity)


def power(base: _Masses, exponent: int, compose: Callable[[_Masses, _Masses], _Masses]) -> _Masses:
    """Return `base` composed with itself, `exponent` >= 1 copies in all, by repeated squaring."""
    result = base
    for digit in f"{exponent:b}"[1:]:
        result = compose(result, result)
        if digit == "1":
            result = compose(result, base)
    return result


def _rounded_up(product: Polynomial, bits: int) -> Polynomial:
    """Divide non-negative coefficients by 2^bits, rounding up."""
    # A polynomial of that length whose coefficients are all 2^bits - 1, by doubling.
    almost, size = flint_module().fmpz_poly([(1 << bits) - 1]), 1
    while size < product.length():
        almost, size = almost + almost.left_shift(size), 2 * size
    return (product + almost.truncate(product.length())) // (1 << bits)
