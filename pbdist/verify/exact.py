"""Compute bounds on δ by exact integer convolutions on one fine grid: slow and simple, to check the fast methods.

Nothing is coarsened and no narrow window is cut out. Apart from the certified float masses of the mechanisms, the only
rounding is to whole units of 2^-bits, down for the lower bound and up for the upper one. The truth lies between the
two bounds at any width of the grid, and both tend to it as the width tends to 0.

- Lower bound: the masses of A and B in each bin, convolved; Σ max(0, a - e^ε b) over the bins and ∞. Sorting events
  into bins is post-processing, and leaving some out lowers the sum.
- Upper bound: a pair on the grid that dominates each mechanism (`pbdist.verify.exact_leaf`), its P_A masses convolved;
  a(∞) + Σ a(i) max(0, 1 - e^(ε' - ih)). There ε' = ε - Σ η is lowered by the loss errors η of all compositions: with
  (A, e^η B) in the place of (A, B), H(A^r || B^r; ε) = H(A^r || (e^η B)^r; ε - r η).

Needs python-flint (``pip install 'pbdist[verify]'``), which is imported at the first call.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from itertools import zip_longest
from typing import Any

from pbdist.mechanisms import Pair, choices_of, factor_counts
from pbdist.types import Direction
from pbdist.verify.exact_leaf import dominating_leaf, event_groups, subset_leaf
from pbdist.verify.exact_power import (
    DominatingMasses,
    FixedPoint,
    SubsetMasses,
    ball_precision,
    compose_dominating,
    compose_subset,
    flint_module,
    floor_shifted,
    power,
)

#: Bits by which e^ε and f^-1 are finer than the masses they meet.
_GUARD_BITS = 64


@dataclass(frozen=True)
class ExactBounds:
    """Rational bounds on δ: the truth is in ``[lower[k], upper[k]]`` at ``epsilon[k]``."""

    #: ε, nats.
    epsilon: tuple[float, ...]
    #: Bounds on δ; an upper bound may exceed 1.
    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]

    @property
    def log_lower(self) -> tuple[float, ...]:
        """Lower bounds on ln δ, rounded down; -inf where the bound on δ is 0."""
        return tuple(enclosed_log(value)[0] for value in self.lower)

    @property
    def log_upper(self) -> tuple[float, ...]:
        """Upper bounds on ln δ, rounded up; -inf where the bound on δ is 0."""
        return tuple(enclosed_log(value)[1] for value in self.upper)

    def meets(self, lower: Sequence[float], upper: Sequence[float], *, log: bool = False) -> tuple[bool, ...]:
        """Return, for each ε, whether other bounds on δ, or on ln δ, overlap with these; NaN never does.

        Both brackets contain the truth if they are right, so bounds that do not overlap with these are proved wrong.
        Floats are compared exactly, and the logarithms of these bounds are rounded outwards.
        """
        exact: Any = (self.log_lower, self.log_upper) if log else (self.lower, self.upper)
        return tuple(
            low <= high and float(low) <= above and below <= float(high)
            for low, high, below, above in zip(lower, upper, *exact, strict=True)
        )

    @classmethod
    def worst_of(cls, found: Sequence["ExactBounds"]) -> "ExactBounds":
        """Return the largest lower and the largest upper bound at each ε."""
        lower, upper = ([getattr(one, name) for one in found] for name in ("lower", "upper"))
        return cls(
            found[0].epsilon, tuple(map(max, zip(*lower, strict=True))), tuple(map(max, zip(*upper, strict=True)))
        )


def enclosed_log(value: Fraction) -> tuple[float, float]:
    """Return floats below and above the natural logarithm of a rational number >= 0; both -inf at 0."""
    if value == 0:
        return -math.inf, -math.inf
    flint = flint_module()
    with ball_precision(128):
        logarithm = flint.arb(flint.fmpq(value.numerator, value.denominator)).log()
        return (math.nextafter(float(logarithm.lower()), -math.inf), math.nextafter(float(logarithm.upper()), math.inf))


def exact_bounds(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: int,
    epsilon: Sequence[float],
    direction: Direction,
    loss_width: float,
    bits: int = 256,
    max_bins: int = 2_000_000,
) -> ExactBounds:
    """Compute bounds on δ(ε) after r rounds by exact integer convolutions.

    Parameters
    ----------
    components
        The pairs of one round, and how often each occurs in it. The worst of several pairs must be the only one; its
        bounds are the largest of theirs, attained or not.
    compositions
        Rounds, r >= 1.
    epsilon
        ε >= 0, nats.
    direction
        Which of the two distributions plays P_A.
    loss_width
        Width h of a bin, nats. The relative width of the bracket falls with h²; where every loss is a multiple of h
        nothing is lost to the grid.
    bits
        Masses are whole units of 2^-bits. A small δ needs some more than log2(1/δ) bits for the upper bound, and
        log2(1/δ) + ε / ln 2 for the lower one, where b is compared with e^-ε a. Where a mechanism resolves no masses of
        one round below 2e-290, which is 960 bits, more bits help only a δ made of larger masses.
    max_bins
        Largest number of bins of one vector; time and memory grow with it: about bits / 4 bytes a bin. A `loss_width`
        that needs more is an `InvalidInputError`.
    """
    choices = choices_of(components)
    if choices is not None:
        bounds = partial(
            exact_bounds,
            compositions=compositions,
            epsilon=epsilon,
            direction=direction,
            loss_width=loss_width,
            bits=bits,
            max_bins=max_bins,
        )
        return ExactBounds.worst_of([bounds(one) for one, _ in choices])
    fixed = FixedPoint(bits, max_bins)
    below, above = partial(compose_subset, fixed=fixed), partial(compose_dominating, fixed=fixed)
    loss_error = Fraction(0)
    leaves: list[tuple[SubsetMasses, DominatingMasses]] = []
    for factor, count in factor_counts(components).items():
        groups = event_groups(factor, direction, loss_width, fixed)
        loss_error += count * compositions * groups.loss_error
        leaves.append(
            (
                power(subset_leaf(groups, fixed), count, below),
                power(dominating_leaf(groups, loss_width, fixed), count, above),
            )
        )
    subsets, dominating = zip(*leaves, strict=True)
    return ExactBounds(
        tuple(epsilon),
        _lower(power(reduce(below, subsets), compositions, below), epsilon, fixed),
        _upper(power(reduce(above, dominating), compositions, above), epsilon, loss_width, loss_error, fixed),
    )


def _lower(masses: SubsetMasses, epsilon: Sequence[float], fixed: FixedPoint) -> tuple[Fraction, ...]:
    """Σ max(0, a - e^ε b), e^ε rounded up."""
    flint = flint_module()
    shift = fixed.bits + _GUARD_BITS
    bounds = []
    for loss in epsilon:
        if loss > 0.7 * shift:
            # A unit of b already outweighs every a; without any b, a counts in full.
            blocks = zip_longest(masses.a.coeffs(), masses.b.coeffs(), fillvalue=0)
            total = sum(int(a) for a, b in blocks if b == 0) + (masses.infinity_a if masses.infinity_b == 0 else 0)
            bounds.append(Fraction(total, 1 << fixed.bits))
            continue
        with ball_precision(3 * shift):
            exponential = -floor_shifted(-flint.arb(loss).exp(), shift)
        differences = masses.a * (1 << shift) - masses.b * exponential
        total = sum(int(difference) for difference in differences.coeffs() if difference > 0)
        total += max(0, (masses.infinity_a << shift) - masses.infinity_b * exponential)
        bounds.append(Fraction(total, 1 << fixed.bits + shift))
    return tuple(bounds)


def _upper(
    masses: DominatingMasses, epsilon: Sequence[float], loss_width: float, loss_error: Fraction, fixed: FixedPoint
) -> tuple[Fraction, ...]:
    """a(∞) + Σ a(i) max(0, 1 - e^(ε' - ih)), what is subtracted rounded down."""
    flint = flint_module()
    width = Fraction(loss_width)
    length = masses.a.length()
    shifted = [Fraction(loss) - loss_error for loss in epsilon]
    # The first i whose loss exceeds ε'; a loss equal to ε' contributes 0.
    starts = [max(math.floor(loss / width) + 1, masses.first) for loss in shifted]
    wanted = set(starts)
    tail = discounted = 0
    # At each start j: Σ a(i) over i >= j, and Σ a(i) f^-(i-j) rounded down, finer by the guard bits.
    sums: dict[int, tuple[int, int]] = {}
    with ball_precision(fixed.bits + 2 * _GUARD_BITS):
        shift = fixed.bits + _GUARD_BITS
        inverse = flint.fmpz(floor_shifted((-flint.arb(loss_width)).exp(), shift))
        coefficients = masses.a.coeffs()
        for index in reversed(range(length)):
            mass = coefficients[index]
            tail += mass
            discounted = (mass << _GUARD_BITS) + ((discounted * inverse) >> shift)
            if masses.first + index in wanted:
                sums[masses.first + index] = int(tail), int(discounted)
        bounds = []
        for loss, start in zip(shifted, starts, strict=True):
            total, discounted = sums.get(start, (0, 0))
            exponent = loss - start * width
            below_one = flint.arb(flint.fmpq(exponent.numerator, exponent.denominator)).exp()
            total = ((masses.infinity + total) << _GUARD_BITS + shift) - discounted * floor_shifted(below_one, shift)
            bounds.append(Fraction(total, 1 << fixed.bits + _GUARD_BITS + shift))
    return tuple(bounds)
