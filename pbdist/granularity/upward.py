"""Sums, products and roots of parameters: exact for whole numbers and fractions, else rounded upwards to a float.

Every float is a fraction, so that each result is computed exactly first and rounded once: it is the least float that is
not below the value.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown

#: A parameter or a distance: a whole number, a fraction or a float, at least 0; ∞ says nothing.
Amount: TypeAlias = float | Fraction


def checked_amount(value: Any, name: str) -> Amount:
    """Return a parameter of at least 0; it may be infinite."""
    known = isinstance(value, Rational | float) and not isinstance(value, bool)
    if not known or not value >= 0:
        raise InvalidInputError(f"{name}: expected a number of at least 0, got {shown(value)}")
    return (
        simplest(Fraction(int(value.numerator), int(value.denominator)))
        if isinstance(value, Rational)
        else float(value)
    )


def checked_amounts(values: Any, name: str) -> tuple[Amount, ...]:
    """Return one or more parameters; see `checked_amount`."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name}: expected one number for each mechanism, got {shown(values)}")
    amounts = tuple(checked_amount(value, f"{name}[{i}]") for i, value in enumerate(values))
    if not amounts:
        raise InvalidInputError(f"{name}: give at least one number")
    return amounts


def checked_delta(value: Any, name: str) -> Amount:
    """Return a δ from 0 to 1; see `checked_amount`."""
    delta = checked_amount(value, name)
    if delta > 1:
        raise InvalidInputError(f"{name}: expected a probability, got {shown(value)}")
    return delta


def upward_sum(values: Iterable[Amount]) -> Amount:
    """Return the sum, exact or rounded upwards once."""
    amounts = tuple(values)
    if math.inf in amounts:
        return math.inf
    return returned(sum(map(as_fraction, amounts), Fraction(0)), amounts)


def upward_product(*values: Amount) -> Amount:
    """Return the product, exact or rounded upwards once; with an infinite factor it is ∞, also where another is 0."""
    if math.inf in values:
        return math.inf
    return returned(math.prod(map(as_fraction, values), start=Fraction(1)), values)


def upward_root(square: Amount) -> Amount:
    """Return the square root: exact where it is rational, else the least float that is not below it."""
    if square == math.inf:
        return math.inf
    value = as_fraction(square)
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return returned(Fraction(top, bottom), (square,))
    root = math.sqrt(float_above(value))
    while as_fraction(root) ** 2 >= value:
        root = math.nextafter(root, 0.0)
    while as_fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def float_above(value: Fraction) -> float:
    """Return the least float that is not below a fraction of at least 0."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if as_fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_below(value: Fraction) -> float:
    """Return the largest float that is not above a fraction of at least 0."""
    above = float_above(value)
    return above if above < math.inf and as_fraction(above) == value else math.nextafter(above, 0.0)


def simplest(value: Fraction) -> Amount:
    """Return a whole number as an int."""
    return value.numerator if value.denominator == 1 else value


def returned(value: Fraction, given: Iterable[Amount]) -> Amount:
    """Return a result as it is if what it was computed from was exact, else as the least float that is not below."""
    return simplest(value) if all(isinstance(amount, Rational) for amount in given) else float_above(value)


def as_fraction(value: Amount) -> Fraction:
    """Return a finite amount as the fraction that it is."""
    return Fraction(int(value.numerator), int(value.denominator)) if isinstance(value, Rational) else Fraction(value)


def upward_norm(values: Iterable[Amount]) -> Amount:
    """Return the root of the sum of squares: exact where it is rational, else rounded upwards once."""
    amounts = tuple(values)
    if math.inf in amounts:
        return math.inf
    square = sum((as_fraction(amount) ** 2 for amount in amounts), Fraction(0))
    return returned(as_fraction(root), amounts) if isinstance(root := upward_root(square), Rational) else root
