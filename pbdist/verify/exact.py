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
from functools import partial
from numbers import Integral, Real
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ElementaryPair, Pair, choices_of
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
_SMALLEST_BITS, _LARGEST_BITS = 64, 65_536


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

    def meets(self, lower: Sequence[float], upper: Sequence[float]) -> tuple[bool, ...]:
        """Return, for each ε, whether other bounds on δ have a number in common with these; a NaN never has.

        Both brackets contain the truth if they are right, so bounds that do not meet these are proved wrong. Floats are
        compared exactly.
        """
        self._checked_lengths(lower, upper)
        return tuple(
            low <= high and float(low) <= most and least <= float(high)
            for low, high, least, most in zip(lower, upper, self.lower, self.upper, strict=True)
        )

    def meets_log(self, log_lower: Sequence[float], log_upper: Sequence[float]) -> tuple[bool, ...]:
        """As `meets`, for natural logarithms of bounds; -inf stands for δ = 0.

        The logarithms of these bounds are rounded outwards, so that False is still a proof.
        """
        self._checked_lengths(log_lower, log_upper)
        return tuple(
            low <= high and low <= most and least <= high
            for low, high, least, most in zip(log_lower, log_upper, self.log_lower, self.log_upper, strict=True)
        )

    def _checked_lengths(self, lower: Sequence[float], upper: Sequence[float]) -> None:
        if not len(lower) == len(upper) == len(self.epsilon):
            raise InvalidInputError(
                f"bounds: expected one lower and one upper for each of {len(self.epsilon)} epsilon,"
                f" got {len(lower)} and {len(upper)}"
            )


def enclosed_log(value: Fraction) -> tuple[float, float]:
    """Return floats below and above the natural logarithm of a rational number >= 0; both -inf at 0."""
    if value == 0:
        return -math.inf, -math.inf
    flint = flint_module()
    with ball_precision(128):
        logarithm = flint.arb(flint.fmpq(value.numerator, value.denominator)).log()
        return (
            math.nextafter(float(logarithm.lower()), -math.inf),
            math.nextafter(float(logarithm.upper()), math.inf),
        )


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
    components : sequence of (Pair, int)
        The mechanisms of one round: each pair, and how often it occurs in a round. The worst of several pairs stands
        alone; its bounds are the largest of theirs, attained or not.
    compositions : int
        Rounds, r >= 1.
    epsilon : sequence of float
        ε >= 0, nats.
    direction : Direction
        Which of the two distributions plays P_A.
    loss_width : float
        Width h of a bin, nats. The relative width of the bracket falls with h²; where every loss is a multiple of h
        nothing is lost to the grid.
    bits : int, optional
        Masses are whole units of 2^-bits. A small δ needs some more than log2(1/δ) bits for the upper bound, and
        log2(1/δ) + ε / ln 2 for the lower one, where b is compared with e^-ε a. Where a mechanism resolves no masses of
        one round below 2e-290, which is 960 bits, more bits help only a δ made of larger masses.
    max_bins : int, optional
        Largest number of bins of one vector; time and memory grow with it: about bits / 4 bytes a bin.

    Returns
    -------
    ExactBounds
        One lower and one upper bound for each ε, in the order given.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range, or `loss_width` needs more than `max_bins` bins.
    MissingDependencyError
        If python-flint is not installed.
    """
    flint_module()
    alternatives = _alternatives(components)
    if len(alternatives) > 1:
        found = [
            exact_bounds(
                one,
                compositions=compositions,
                epsilon=epsilon,
                direction=direction,
                loss_width=loss_width,
                bits=bits,
                max_bins=max_bins,
            )
            for one in alternatives
        ]
        lower, upper = (
            tuple(map(max, zip(*side, strict=True)))
            for side in ([one.lower for one in found], [one.upper for one in found])
        )
        return ExactBounds(found[0].epsilon, lower, upper)
    components = alternatives[0]
    fixed = FixedPoint(
        _checked_integer("bits", bits, _SMALLEST_BITS, _LARGEST_BITS),
        _checked_integer("max_bins", max_bins, 4, 2**40),
    )
    rounds = _checked_integer("compositions", compositions, 1, 2**62)
    losses = tuple(_checked_number("epsilon", value) for value in epsilon)
    width = _checked_number("loss_width", loss_width)
    if not 1e-100 <= width <= 100.0:
        raise InvalidInputError(f"loss_width: expected a number from 1e-100 to 100, got {shown(loss_width)}")

    subset: SubsetMasses | None = None
    dominating: DominatingMasses | None = None
    loss_error = Fraction(0)
    below, above = partial(compose_subset, fixed=fixed), partial(compose_dominating, fixed=fixed)
    for factor, count in _factor_counts(components).items():
        groups = event_groups(factor, direction, width, fixed)
        loss_error += count * rounds * groups.loss_error
        part_below = power(subset_leaf(groups, fixed), count, below)
        part_above = power(dominating_leaf(groups, width, fixed), count, above)
        subset = part_below if subset is None else below(subset, part_below)
        dominating = part_above if dominating is None else above(dominating, part_above)
    if subset is None or dominating is None:
        raise InvalidInputError("components: expected at least one pair, got none")
    return ExactBounds(
        losses,
        _lower(power(subset, rounds, below), losses, fixed),
        _upper(power(dominating, rounds, above), losses, width, loss_error, fixed),
    )


def _lower(masses: SubsetMasses, epsilon: Sequence[float], fixed: FixedPoint) -> tuple[Fraction, ...]:
    """Σ max(0, a - e^ε b), e^ε rounded up."""
    flint = flint_module()
    shift = fixed.bits + _GUARD_BITS
    bounds = []
    for loss in epsilon:
        if loss > 0.7 * shift:
            # A unit of b already outweighs every a; without any b, a counts in full.
            blocks = zip(masses.a.coeffs(), _padded(masses.b, masses.a.length()), strict=True)
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
    # At each j wanted: Σ a(i) over i >= j, and Σ a(i) f^-(i-j) rounded down, finer by the guard bits.
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
            total, kept = sums.get(start, (0, 0))
            exponent = loss - start * width
            below_one = flint.arb(flint.fmpq(exponent.numerator, exponent.denominator)).exp()
            total = ((masses.infinity + total) << _GUARD_BITS + shift) - kept * floor_shifted(below_one, shift)
            bounds.append(Fraction(total, 1 << fixed.bits + _GUARD_BITS + shift))
    return tuple(bounds)


def _padded(polynomial: Any, length: int) -> list[Any]:
    coefficients = list(polynomial.coeffs())
    return coefficients + [0] * (length - len(coefficients))


def _alternatives(components: Sequence[tuple[Pair, int]]) -> list[Sequence[tuple[Pair, int]]]:
    """Return the sequences of which the worst counts: more than one where a worst of several pairs stands alone."""
    given: Any = components
    if not all(isinstance(pair, Pair) for pair, _ in given):
        return [components]
    choices = choices_of(components)
    return [components] if choices is None else [one for one, _ in choices]


def _factor_counts(components: Sequence[tuple[Pair, int]]) -> dict[ElementaryPair, int]:
    counts: dict[ElementaryPair, int] = {}
    for index, (given, count) in enumerate(components):
        pair: Any = given
        if not isinstance(pair, Pair) or pair.is_worst_of_several:
            raise InvalidInputError(f"components[{index}]: expected a mechanism, got {shown(pair)}")
        times = _checked_integer(f"components[{index}]", count, 1, 2**62)
        for factor in pair.factors:
            counts[factor] = counts.get(factor, 0) + times
    return counts


def _checked_integer(field: str, value: Any, smallest: int, largest: int) -> int:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not smallest <= int(value) <= largest:
        raise InvalidInputError(f"{field}: expected a whole number from {smallest} to {largest}, got {shown(value)}")
    return int(value)


def _checked_number(field: str, value: Any) -> float:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not (math.isfinite(value) and value >= 0):
        raise InvalidInputError(f"{field}: expected finite numbers of at least 0, got {shown(value)}")
    return float(value)
