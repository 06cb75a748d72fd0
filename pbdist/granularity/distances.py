"""Multiples of metrics, distances that are given by their squares, and the δ of groups."""

import math
from collections.abc import Callable
from typing import Any, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.spaces import Database, DatabaseClass, Metric, StarDistance, _Distance
from pbdist.granularity.upward import (
    Amount,
    as_fraction,
    checked_amount,
    float_above,
    float_below,
    upward_product,
    upward_root,
)


class ScaledMetric(Metric):
    """c · d, with ∞ where d is ∞ also if c is 0.

    Parameters
    ----------
    base : Metric
        d.
    factor : int, Fraction or float
        c: ε, or μ.
    """

    base: Metric
    factor: Amount

    def __init__(self, base: Metric, factor: Amount) -> None:
        _check_base(base)
        amount = checked_amount(factor, "ScaledMetric.factor")
        super().__init__(
            base.domain,
            lambda first, second: cast("float", times(amount, base(first, second))),
            f"{amount} {base.name}",
        )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "factor", amount)


class _Root(_Distance):
    """A distance whose square is what is computed: its root is rounded upwards, its square is not."""

    def square(self, first: Database, second: Database) -> Amount:
        """Return d(D, D')²."""
        return super().__call__(first, second)

    def __call__(self, first: Database, second: Database) -> float:
        """Return d(D, D')."""
        return cast("float", upward_root(self.square(first, second)))


class RootMetric(_Root, Metric):
    """A metric d that is given by its square, `function`: what sums of squares lead to."""


class RootStarDistance(_Root, StarDistance):
    """A distance that is no metric and is given by its square, `function`."""


class RootScaledMetric(RootMetric):
    """√ρ · d, with ρ kept as it is.

    Parameters
    ----------
    base : Metric
        d.
    rho : int, Fraction or float
        ρ.
    """

    base: Metric
    rho: Amount

    def __init__(self, base: Metric, rho: Amount) -> None:
        _check_base(base)
        amount = checked_amount(rho, "RootScaledMetric.rho")
        super().__init__(
            base.domain,
            lambda first, second: cast("float", times(amount, square_of(base, first, second))),
            f"√{amount} {base.name}",
        )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "rho", amount)


class GroupDelta(StarDistance):
    """δ [d]_ε = δ (e^(ε d) - 1)/(e^ε - 1): the δ between databases at distance d (Theorem VI.3)."""

    base: Metric
    epsilon: Amount
    delta: Amount

    def __init__(self, base: Metric, epsilon: Amount, delta: Amount) -> None:
        super().__init__(
            base.domain,
            lambda first, second: cast("float", group_delta(epsilon, delta, base(first, second))),
            f"{delta} [{base.name}]",
        )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)


def group_delta(epsilon: Amount, delta: Amount, distance: Amount) -> Amount:
    """Return δ (e^(ε d) - 1)/(e^ε - 1), rounded upwards; δ d for ε = 0, ∞ for d = ∞ (Theorem VI.3).

    The floats within are moved outwards: the exponents by one rounding, the values of expm1 by 4 units in the last
    place, which is more than any of the C libraries err by.
    """
    if distance in (0, 1):
        return upward_product(delta, distance)
    if distance == math.inf:
        return math.inf
    if epsilon == 0:
        return upward_product(delta, distance)
    if epsilon == math.inf:
        return math.inf if distance > 1 else delta
    exponent = float_above(as_fraction(epsilon) * as_fraction(distance))
    base = float_below(as_fraction(epsilon))
    if exponent > 709.0 or base == 0.0:
        return math.inf
    slack = 4 * math.ulp(1.0)
    grown = as_fraction(math.expm1(exponent)) * as_fraction(1.0 + slack)
    return float_above(as_fraction(delta) * grown / (as_fraction(math.expm1(base)) * as_fraction(1.0 - slack)))


def square_of(distance: Metric | StarDistance, first: Database, second: Database) -> Amount:
    """Return d(D, D')², without the rounding of a root."""
    if isinstance(distance, _Root):
        return distance.square(first, second)
    value = distance(first, second)
    return upward_product(value, value)


def like(
    distance: Metric | StarDistance, domain: DatabaseClass, function: Callable[..., Amount], name: str, *, starred: bool
) -> Metric | StarDistance:
    """Return another distance that is given as this one is (`computed`): by its values, or by its squares."""
    root = isinstance(distance, _Root)
    if starred or isinstance(distance, StarDistance):
        return (RootStarDistance if root else StarDistance)(domain, cast("Any", function), name)
    return (RootMetric if root else Metric)(domain, cast("Any", function), name)


def computed(distance: Metric | StarDistance) -> Callable[[Database, Database], Amount]:
    """Return what a distance is given by: d(D, D'), or d(D, D')² where only its root is rounded."""
    return distance.square if isinstance(distance, _Root) else distance


def times(factor: Amount, distance: Amount) -> Amount:
    """Return the product, 0 at distance 0 and ∞ at ∞ whatever the factor is."""
    return 0 if distance == 0 else upward_product(factor, distance)


def _check_base(base: Any) -> None:
    if not isinstance(base, Metric):
        raise InvalidInputError(f"expected a Metric to be scaled, got {shown(base)}: private* is no metric")
