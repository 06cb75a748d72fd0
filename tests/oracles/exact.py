"""The privacy-bucket method in rational arithmetic: slow, obvious, and without any rounding.

For the tests and for the verification of stored results only. Everything is a :class:`fractions.Fraction`:
the masses, the factor f = e^h of the grid, and y = e^ε; a loss is compared with an edge as P_A <= f^i P_B, so
that an event on an edge falls where Definition 4 puts it. The bounds that a state gives are in
:mod:`tests.oracles.exact_delta`, the true δ in :mod:`tests.oracles.exact_truth`.

Source: Meiser and Mohammadi, "Tight on Budget? Tight Bounds for r-Fold Approximate Differential Privacy" (CCS
2018), Definitions 3, 4, 6 and 7.

A state carries masses, not the paper's error terms. With b(i) the P_B mass of the events in bucket i, the
virtual term of Definition 7 is ℓ~(i) = b(i) - a(i) f^-i, and its rule of composition reads "convolve the
b's". With b_real in the place of b, the same holds for the real term ℓ(i) = b_real(i) - a(i) f^-i, and "ℓ(-n)
= 0" reads "b_real(-n) = a(-n) f^n".

What every event x in a finite bucket i satisfies, with b*(x) its share of b_real(i) and u the state's
misplacement:

    P_A(x) f^-i <= b*(x) <= min(P_B(x), P_A(x) f^-(i-u)).                                                 (*)

- Leaf: Definition 4 for i > -n, with u = 1; at -n, b* = P_A f^n <= P_B.
- Composition: multiply the two inequalities. Where i1 + i2 < -n the event moves up to -n, and b* = P_A f^n is
  no more than P_A f^-(i1+i2) <= P_B.
- Squaring: bucket i of width h becomes bucket ceil(i/2) of width 2h. Going up only lowers the left side, and
  2 (ceil(i/2) - ceil(u/2) - 1) <= i - u keeps the right side.

Slips of the paper that are met here, so that the masses are kept and (*) holds:

- Definition 7 takes a f^-(j+k) off the virtual term where j + k < -n, where Lemma 11 needs a f^n. Convolving
  b is right there too.
- Definition 4 gives the bucket ∞ of a composition as "j + k > n"; a factor ∞ belongs there with any partner.
- Definition 4's squaring fills the buckets -n/2 + 1 .. n/2 only and so loses what is in -n; Definition 6
  sends it to ceil(-n/2) = -n/2, as Definition 7 does for its terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

from pbdist.errors import InvalidInputError
from tests.oracles.exact_truth import Rational, checked_masses, checked_rational

__all__ = ["ExactState", "compose", "leaf", "square"]


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
        u >= 1: how many buckets too high an event may stand, see (*) of the module.
    mass_a, mass_b : tuple of Fraction, length 2n + 1
        P_A and P_B mass of bucket i at position i + n.
    mass_b_real : tuple of Fraction, length 2n + 1
        The P_B mass that (*) vouches for: no more than ``mass_b``, and ``mass_a[0] * factor**n`` in bucket
        -n.
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
    """Return the bucket list of one pair of finite distributions (Definition 4).

    Parameters
    ----------
    p, q : sequence of Fraction or int
        The masses of A and of B on the same outcomes; zeros are allowed on either side.
    factor : Fraction or int
        f > 1.
    half_width : int
        n, even and positive.

    Returns
    -------
    ExactState
        With ``misplacement`` 1. An outcome with P_A = 0 is in bucket -n, one with P_B = 0 in ∞.

    Raises
    ------
    InvalidInputError
        If f <= 1, if n is odd or not positive, or as :func:`tests.oracles.exact_truth.checked_masses` does.
    """
    exact_factor = checked_rational("factor", factor, 1)
    if exact_factor == 1:
        raise InvalidInputError("factor: expected a rational number > 1, got 1")
    if half_width <= 0 or half_width % 2:
        raise InvalidInputError(f"half_width: expected an even whole number > 0, got {half_width!r}")
    mass_a = [Fraction(0)] * (2 * half_width + 1)
    mass_b = list(mass_a)
    infinity_a = infinity_b = Fraction(0)
    for a, b in checked_masses(p, q):
        index = _leaf_index(a, b, exact_factor, half_width)
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
    """Return the index of an outcome at a leaf (Definition 6), None for ∞."""
    if a > factor**half_width * b:
        return None
    # The smallest i with P_A <= f^i P_B, found by walking down from n: P_A <= f^n P_B holds here.
    index = half_width
    while index > -half_width and a <= factor ** (index - 1) * b:
        index -= 1
    return index


def compose(left: ExactState, right: ExactState) -> ExactState:
    """Return the bucket list of T1 x T2: indices add, losses beyond the grid go to -n and to ∞.

    Parameters
    ----------
    left, right : ExactState
        Of independent mechanisms, on the same grid.

    Returns
    -------
    ExactState
        With ``misplacement`` u1 + u2.

    Raises
    ------
    InvalidInputError
        If the grids differ.
    """
    if (left.factor, left.half_width) != (right.factor, right.half_width):
        raise InvalidInputError(
            f"right: expected the grid (factor {left.factor}, half_width {left.half_width}) of left, "
            f"got (factor {right.factor}, half_width {right.half_width})"
        )
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
    """Return the bucket list on the grid of twice the loss width: bucket i goes to ceil(i/2).

    Parameters
    ----------
    state : ExactState
        Any state.

    Returns
    -------
    ExactState
        With ``factor`` f^2, the same n, and ``misplacement`` ceil(u/2) + 1. Its buckets beyond -n/2 and n/2
        are empty; ∞ stays as it is. No corner needs resetting: -n goes to -n/2 alone, where a f^n = a
        (f^2)^(n/2).
    """
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


def _halved(masses: Sequence[Fraction], half_width: int) -> tuple[Fraction, ...]:
    """Add the masses of bucket i to bucket ceil(i/2), for negative odd i too: -1 goes to 0, -3 to -1."""
    halved = [Fraction(0)] * len(masses)
    for position, mass in enumerate(masses):
        halved[ceil(Fraction(position - half_width, 2)) + half_width] += mass
    return tuple(halved)


def _with_corner_reset(
    mass_b_real: Sequence[Fraction], mass_a: Sequence[Fraction], factor: Fraction, half_width: int
) -> tuple[Fraction, ...]:
    """Return the real masses with a(-n) f^n in the bucket -n, where an event may be arbitrarily misplaced."""
    return (mass_a[0] * factor**half_width, *mass_b_real[1:])


def _at_infinity(
    left: Sequence[Fraction], left_infinity: Fraction, right: Sequence[Fraction], right_infinity: Fraction
) -> Fraction:
    """Return the mass of the pairs of events of which at least one is in ∞."""
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
    """Return the non-zero masses as (position, integer) over one denominator: cheaper to add."""
    denominator = lcm(*(mass.denominator for mass in masses))
    numerators = [
        (position, mass.numerator * (denominator // mass.denominator)) for position, mass in enumerate(masses) if mass
    ]
    return numerators, denominator
