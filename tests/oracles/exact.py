"""The privacy-bucket method in rational arithmetic: slow, obvious, and without any rounding.

Masses, the factor f = e^h of the grid, and y = e^ε are fractions; a loss is compared with an edge as P_A <= f^i P_B, so
that an event on an edge falls where Definition 4 puts it. `docs/theory.md`, sections 2 to 4 and 8, has the proofs, and
what is mended of the paper: Meiser and Mohammadi, "Tight on Budget? Tight Bounds for r-Fold Approximate Differential
Privacy" (CCS 2018), Definitions 3, 4, 6 and 7.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

from tests.oracles.exact_truth import Rational

__all__ = ["ExactState", "compose", "leaf", "lower_post_processing", "square", "upper_chord"]


@dataclass(frozen=True)
class ExactState:
    """The bucket list of a composition tree, exactly.

    Attributes
    ----------
    factor : Fraction
        f = e^h > 1; bucket i holds the losses in (ln f^(i-1), ln f^i].
    half_width : int
        n, even and positive; the finite buckets are -n .. n.
    misplacement : int
        u >= 1: how many buckets too high an event may stand.
    mass_a, mass_b : tuple of Fraction, length 2n + 1
        P_A and P_B mass of bucket i at position i + n.
    mass_b_real : tuple of Fraction, length 2n + 1
        The P_B mass that Theorem 4 vouches for, ``mass_a[0] * factor**n`` in bucket -n.
    infinity_a, infinity_b : Fraction
        The masses in the bucket ∞.
    """

    factor: Fraction
    half_width: int
    misplacement: int
    mass_a: tuple[Fraction, ...]
    mass_b: tuple[Fraction, ...]
    mass_b_real: tuple[Fraction, ...]
    infinity_a: Fraction
    infinity_b: Fraction

    @property
    def indices(self) -> range:
        """The finite buckets -n .. n, in the order of the mass tuples."""
        return range(-self.half_width, self.half_width + 1)


def leaf(p: Sequence[Rational], q: Sequence[Rational], factor: Rational, half_width: int) -> ExactState:
    """The bucket list of one pair of finite distributions (Definition 4)."""
    exact_factor = Fraction(factor)
    mass_a = [Fraction(0)] * (2 * half_width + 1)
    mass_b = list(mass_a)
    infinity_a = infinity_b = Fraction(0)
    for a, b in zip(p, q, strict=True):
        index = _leaf_index(Fraction(a), Fraction(b), exact_factor, half_width)
        if index is None:
            infinity_a += a
            infinity_b += b
        else:
            mass_a[index + half_width] += a
            mass_b[index + half_width] += b
    return ExactState(
        factor=exact_factor,
        half_width=half_width,
        misplacement=1,
        mass_a=tuple(mass_a),
        mass_b=tuple(mass_b),
        mass_b_real=_with_corner_reset(mass_b, mass_a, exact_factor, half_width),
        infinity_a=infinity_a,
        infinity_b=infinity_b,
    )


def _leaf_index(a: Fraction, b: Fraction, factor: Fraction, half_width: int) -> int | None:
    """The index of an outcome at a leaf (Definition 6), None for ∞."""
    if a > factor**half_width * b:
        return None
    # The smallest i with P_A <= f^i P_B, found by walking down from n: P_A <= f^n P_B holds here.
    index = half_width
    while index > -half_width and a <= factor ** (index - 1) * b:
        index -= 1
    return index


def compose(left: ExactState, right: ExactState) -> ExactState:
    """The bucket list of T1 x T2 on one grid: indices add, losses beyond the grid go to -n and to ∞."""
    assert (left.factor, left.half_width) == (right.factor, right.half_width)
    mass_a, overflow_a = _clipped_convolution(left.mass_a, right.mass_a)
    mass_b, overflow_b = _clipped_convolution(left.mass_b, right.mass_b)
    mass_b_real, _ = _clipped_convolution(left.mass_b_real, right.mass_b_real)
    return ExactState(
        factor=left.factor,
        half_width=left.half_width,
        misplacement=left.misplacement + right.misplacement,
        mass_a=tuple(mass_a),
        mass_b=tuple(mass_b),
        mass_b_real=_with_corner_reset(mass_b_real, mass_a, left.factor, left.half_width),
        infinity_a=overflow_a + _at_infinity(left.mass_a, left.infinity_a, right.mass_a, right.infinity_a),
        infinity_b=overflow_b + _at_infinity(left.mass_b, left.infinity_b, right.mass_b, right.infinity_b),
    )


def square(state: ExactState) -> ExactState:
    """The bucket list on the grid of twice the loss width: bucket i goes to ceil(i/2), and ∞ stays as it is."""
    return ExactState(
        factor=state.factor**2,
        half_width=state.half_width,
        misplacement=ceil(Fraction(state.misplacement, 2)) + 1,
        mass_a=_halved(state.mass_a, state.half_width),
        mass_b=_halved(state.mass_b, state.half_width),
        mass_b_real=_halved(state.mass_b_real, state.half_width),
        infinity_a=state.infinity_a,
        infinity_b=state.infinity_b,
    )


def upper_chord(state: ExactState, y: Fraction) -> Fraction:
    """δ at y = e^ε from above: the worst spread of a bucket's events that its two masses allow."""
    delta = state.infinity_a
    for index, a, b_real in zip(state.indices, state.mass_a, state.mass_b_real, strict=True):
        if a:
            low = 1 / state.factor**index
            high = low * state.factor**state.misplacement
            part = (b_real / a - low) / (high - low)
            delta += a * ((1 - part) * max(Fraction(0), 1 - y * low) + part * max(Fraction(0), 1 - y * high))
    return delta


def lower_post_processing(state: ExactState, y: Fraction) -> Fraction:
    """δ at y = e^ε from below: mapping an event to its bucket, ∞ included, is post-processing."""
    delta = max(Fraction(0), state.infinity_a - y * state.infinity_b)
    for a, b in zip(state.mass_a, state.mass_b, strict=True):
        delta += max(Fraction(0), a - y * b)
    return delta


def _halved(masses: Sequence[Fraction], half_width: int) -> tuple[Fraction, ...]:
    """Add the masses of bucket i to bucket ceil(i/2), for negative odd i too: -1 goes to 0, -3 to -1."""
    halved = [Fraction(0)] * len(masses)
    for position, mass in enumerate(masses):
        halved[ceil(Fraction(position - half_width, 2)) + half_width] += mass
    return tuple(halved)


def _with_corner_reset(
    mass_b_real: Sequence[Fraction], mass_a: Sequence[Fraction], factor: Fraction, half_width: int
) -> tuple[Fraction, ...]:
    """The real masses with a(-n) f^n in the bucket -n, where an event may be arbitrarily misplaced."""
    return (mass_a[0] * factor**half_width, *mass_b_real[1:])


def _at_infinity(
    left: Sequence[Fraction], left_infinity: Fraction, right: Sequence[Fraction], right_infinity: Fraction
) -> Fraction:
    """The mass of the pairs of events of which at least one is in ∞."""
    right_total = sum(right, right_infinity)
    return left_infinity * right_total + sum(left, Fraction(0)) * right_infinity


def _clipped_convolution(left: Sequence[Fraction], right: Sequence[Fraction]) -> tuple[list[Fraction], Fraction]:
    """Convolve two mass vectors over -n .. n: what falls below is added at -n, the overflow comes apart."""
    half_width = (len(left) - 1) // 2
    left_numerators, left_denominator = _over_one_denominator(left)
    right_numerators, right_denominator = _over_one_denominator(right)
    sums = [0] * len(left)
    overflow = 0
    for j, left_mass in left_numerators:
        for k, right_mass in right_numerators:
            # Positions are index + n, so the position of the index sum is j + k - n.
            position = max(j + k - half_width, 0)
            if position < len(sums):
                sums[position] += left_mass * right_mass
            else:
                overflow += left_mass * right_mass
    denominator = left_denominator * right_denominator
    return [Fraction(total, denominator) for total in sums], Fraction(overflow, denominator)


def _over_one_denominator(masses: Sequence[Fraction]) -> tuple[list[tuple[int, int]], int]:
    """The non-zero masses as (position, integer) over one denominator: cheaper to add."""
    denominator = lcm(*(mass.denominator for mass in masses))
    numerators = [
        (position, mass.numerator * (denominator // mass.denominator)) for position, mass in enumerate(masses) if mass
    ]
    return numerators, denominator
