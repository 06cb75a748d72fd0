"""The true δ of finite pairs and of their compositions, in rational arithmetic: Σ max(0, P_A - e^ε P_B), no buckets.

Outcomes that have both masses in common are counted together, which changes no sum: of the 2^64 outcomes of 64
compositions of a pair with two outcomes, 65 differ.

Source: Meiser and Mohammadi (CCS 2018), Lemma 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from pbdist.types import Direction

__all__ = ["OutcomeTable", "Rational", "composed_outcomes", "outcomes", "table_hockey_stick"]

Rational = Fraction | int


@dataclass(frozen=True)
class OutcomeTable:
    """How many outcomes have the masses (A / denominator_a, B / denominator_b), by the key (A, B)."""

    multiplicities: Mapping[tuple[int, int], int]
    denominator_a: int
    denominator_b: int


def outcomes(p: Sequence[Rational], q: Sequence[Rational]) -> OutcomeTable:
    """The outcomes of one pair, but those that neither distribution produces; masses are taken as they are."""
    masses = [(Fraction(a), Fraction(b)) for a, b in zip(p, q, strict=True) if a or b]
    denominator_a = lcm(*(a.denominator for a, _ in masses))
    denominator_b = lcm(*(b.denominator for _, b in masses))
    multiplicities: dict[tuple[int, int], int] = {}
    for a, b in masses:
        key = (int(a * denominator_a), int(b * denominator_b))
        multiplicities[key] = multiplicities.get(key, 0) + 1
    return OutcomeTable(multiplicities, denominator_a, denominator_b)


def composed_outcomes(components: Sequence[tuple[OutcomeTable, int]]) -> OutcomeTable:
    """The outcomes of independent pairs seen together, each as often as its count says."""
    product = OutcomeTable({(1, 1): 1}, 1, 1)
    for table, count in components:
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
    """δ at y = e^ε, or at any other y >= 0: Σ max(0, P_A - y P_B), or of `B_TO_A` Σ max(0, P_B - y P_A)."""
    y = Fraction(exp_epsilon)
    # The sum of max(0, P_A - y P_B) over one common denominator: scale_a A - scale_b B for each outcome.
    scale_a = table.denominator_b * y.denominator
    scale_b = table.denominator_a * y.numerator
    if direction is Direction.B_TO_A:
        scale_a, scale_b = -table.denominator_b * y.numerator, -table.denominator_a * y.denominator
    total = sum(max(0, scale_a * a - scale_b * b) * count for (a, b), count in table.multiplicities.items())
    return Fraction(total, table.denominator_a * table.denominator_b * y.denominator)
