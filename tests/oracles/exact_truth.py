"""The true δ of finite pairs and of their compositions, in rational arithmetic.

The hockey-stick divergence H(A||B; ε) = Σ max(0, P_A - e^ε P_B) over every outcome, with no buckets at all.
Outcomes that have both masses in common are counted together, which changes no sum: of the 2^64 outcomes of
64 compositions of a pair with two outcomes, 65 differ.

Source: Meiser and Mohammadi (CCS 2018), Lemma 1.
"""

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from pbdist.errors import InvalidInputError
from pbdist.types import Direction

__all__ = [
    "OutcomeTable",
    "Rational",
    "checked_masses",
    "checked_rational",
    "composed_outcomes",
    "hockey_stick",
    "outcomes",
    "table_hockey_stick",
]

#: A mass, a factor or a y = e^ε: an int counts as the whole number it is, a float is refused.
Rational = Fraction | int

#: How far from 1 the masses of a distribution may sum; they are taken as they are, never renormalised.
_TOTAL_TOLERANCE = Fraction(1, 10**9)


@dataclass(frozen=True)
class OutcomeTable:
    """Every outcome of a pair (A, B), those of equal masses counted together.

    Attributes
    ----------
    multiplicities : mapping of (int, int) to int
        How many outcomes have the masses (A / denominator_a, B / denominator_b), by the key (A, B).
    denominator_a, denominator_b : int
        Positive.
    """

    multiplicities: Mapping[tuple[int, int], int]
    denominator_a: int
    denominator_b: int


def outcomes(p: Sequence[Rational], q: Sequence[Rational]) -> OutcomeTable:
    """Return the outcomes of one pair of finite distributions.

    Parameters
    ----------
    p, q : sequence of Fraction or int
        The masses of A and of B on the same outcomes.

    Returns
    -------
    OutcomeTable
        Without the outcomes that neither distribution produces.

    Raises
    ------
    InvalidInputError
        As :func:`checked_masses` does.
    """
    masses = checked_masses(p, q)
    denominator_a = lcm(*(a.denominator for a, _ in masses))
    denominator_b = lcm(*(b.denominator for _, b in masses))
    multiplicities: dict[tuple[int, int], int] = {}
    for a, b in masses:
        key = (int(a * denominator_a), int(b * denominator_b))
        multiplicities[key] = multiplicities.get(key, 0) + 1
    return OutcomeTable(multiplicities, denominator_a, denominator_b)


def composed_outcomes(components: Sequence[tuple[OutcomeTable, int]]) -> OutcomeTable:
    """Return the outcomes of independent pairs seen together.

    Parameters
    ----------
    components : sequence of (OutcomeTable, int)
        Each pair with how often it is seen, >= 0.

    Returns
    -------
    OutcomeTable
        Of the product distributions. With k distinct outcomes a pair seen r times has at most
        binomial(r + k - 1, k - 1) entries.

    Raises
    ------
    InvalidInputError
        If a count is negative.
    """
    product = OutcomeTable({(1, 1): 1}, 1, 1)
    for table, count in components:
        if count < 0:
            raise InvalidInputError(f"components: expected counts >= 0, got {count!r}")
        for _ in range(count):
            product = _product(product, table)
    return product


def _product(left: OutcomeTable, right: OutcomeTable) -> OutcomeTable:
    multiplicities: dict[tuple[int, int], int] = {}
    for (left_a, left_b), left_count in left.multiplicities.items():
        for (right_a, right_b), right_count in right.multiplicities.items():
            key = (left_a * right_a, left_b * right_b)
            multiplicities[key] = multiplicities.get(key, 0) + left_count * right_count
    return OutcomeTable(
        multiplicities, left.denominator_a * right.denominator_a, left.denominator_b * right.denominator_b
    )


def table_hockey_stick(table: OutcomeTable, exp_epsilon: Rational, direction: Direction = Direction.A_TO_B) -> Fraction:
    """Return the true δ of a table of outcomes.

    Parameters
    ----------
    table : OutcomeTable
        Of the pair (A, B).
    exp_epsilon : Fraction or int
        y = e^ε, or any other y >= 0.
    direction : Direction
        Σ max(0, P_A - y P_B) for ``A_TO_B``, Σ max(0, P_B - y P_A) for ``B_TO_A``.

    Returns
    -------
    Fraction
        δ(ε), exactly.

    Raises
    ------
    InvalidInputError
        If y is not a rational number >= 0.
    """
    y = checked_rational("exp_epsilon", exp_epsilon, 0)
    # The sum of max(0, P_A - y P_B) over one common denominator: scale_a A - scale_b B for each outcome.
    scale_a = table.denominator_b * y.denominator
    scale_b = table.denominator_a * y.numerator
    if direction is Direction.B_TO_A:
        scale_a, scale_b = -table.denominator_b * y.numerator, -table.denominator_a * y.denominator
    total = sum(max(0, scale_a * a - scale_b * b) * count for (a, b), count in table.multiplicities.items())
    return Fraction(total, table.denominator_a * table.denominator_b * y.denominator)


def hockey_stick(
    p: Sequence[Rational],
    q: Sequence[Rational],
    exp_epsilon: Rational,
    direction: Direction = Direction.A_TO_B,
) -> Fraction:
    """Return the true δ of one pair of finite distributions.

    Parameters
    ----------
    p, q : sequence of Fraction or int
        The masses of A and of B on the same outcomes.
    exp_epsilon : Fraction or int
        y = e^ε, or any other y >= 0.
    direction : Direction
        Which of the two divergences.

    Returns
    -------
    Fraction
        δ(ε), exactly.

    Raises
    ------
    InvalidInputError
        As :func:`outcomes` and :func:`table_hockey_stick` do.
    """
    return table_hockey_stick(outcomes(p, q), exp_epsilon, direction)


def checked_masses(p: Sequence[Rational], q: Sequence[Rational]) -> list[tuple[Fraction, Fraction]]:
    """Return the outcomes that have mass, as pairs (P_A, P_B).

    Parameters
    ----------
    p, q : sequence of Fraction or int
        The masses of the same outcomes under A and under B.

    Returns
    -------
    list of tuple of Fraction
        In the given order, without the outcomes that neither distribution produces.

    Raises
    ------
    InvalidInputError
        If the lengths differ, a mass is negative or not rational, or a total differs from 1 by more than
        1e-9.
    """
    if len(p) != len(q):
        raise InvalidInputError(f"p and q: expected as many masses in each, got {len(p)} and {len(q)}")
    mass_a, mass_b = ([checked_rational(name, mass, 0) for mass in masses] for name, masses in (("p", p), ("q", q)))
    for name, masses in (("p", mass_a), ("q", mass_b)):
        total = sum(masses, Fraction(0))
        if abs(total - 1) > _TOTAL_TOLERANCE:
            raise InvalidInputError(f"{name}: expected masses that sum to 1, got {float(total)!r}")
    return [(a, b) for a, b in zip(mass_a, mass_b, strict=True) if a or b]


def checked_rational(name: str, value: object, smallest: int) -> Fraction:
    """Return a rational number as a Fraction.

    Parameters
    ----------
    name : str
        What an error calls it.
    value : object
        Taken if it is a :class:`numbers.Rational`; a float is refused.
    smallest : int
        The smallest value allowed.

    Returns
    -------
    Fraction
        Equal to ``value``.

    Raises
    ------
    InvalidInputError
        If ``value`` is not rational or is below ``smallest``.
    """
    if not isinstance(value, numbers.Rational) or value < smallest:
        raise InvalidInputError(f"{name}: expected a rational number >= {smallest}, got {value!r}")
    return Fraction(value)
