"""The distances that the rules work with: canonical metrics, their multiples, and roots of sums of squares."""

import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.rules.upward import (
    Amount,
    as_fraction,
    checked_amount,
    float_above,
    float_below,
    upward_product,
    upward_root,
)
from pbdist.granularity.spaces import Database, Metric, StarDistance, _Distance

__all__ = ["CanonicalMetric", "GroupDelta", "RootMetric", "RootScaledMetric", "RootStarDistance", "ScaledMetric"]


@dataclass(frozen=True, eq=False)
class CanonicalMetric(Metric):
    """d^𝒢: the fewest steps from neighbour to neighbour that lead from D to D' inside the class, ∞ if none do.

    What holds for neighbours alone, such as 𝒢 ε-DP, says something of other pairs only through such steps. So the
    rules for granularities need this type. A metric of a larger class, restricted to this one, need not be canonical
    (Remark A.2).

    Parameters
    ----------
    domain : DatabaseClass
        𝔻. If its databases are listed, it is checked that the metric is canonical.
    function : callable
        d(D, D'); neighbours have distance 1.
    name : str, optional
        Told in errors.
    declared : str, optional
        Why it is canonical. Needed for a class that is not listed.

    Raises
    ------
    InvalidInputError
        If it is not canonical, or no two different databases of a listed class are neighbours (Example III.4: every
        mechanism would be 0-DP), or the class is not listed and no reason is given.
    """

    declared: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.declared
        if not isinstance(given, str):
            raise InvalidInputError(f"CanonicalMetric.declared: expected a reason, got {shown(given)}")
        if self.domain.databases is not None:
            self._check()
        elif not self.declared:
            raise InvalidInputError(
                f"CanonicalMetric.declared: {self.domain.name} is not listed, so that it cannot be checked that"
                f" {self.name} counts steps between neighbours: give the reason why it does"
            )

    @cached_property
    def neighbours(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """All ordered pairs of neighbours of a listed class."""
        databases = self.domain.listed("looking at all neighbours")
        return tuple((first, second) for first in databases for second in databases if self(first, second) == 1)

    def _check(self) -> None:
        databases = self.domain.listed("looking at all neighbours")
        reached: dict[Hashable, list[Hashable]] = {database: [] for database in databases}
        for first, second in self.neighbours:
            reached[first].append(second)
        if not self.neighbours and len(databases) > 1:
            raise InvalidInputError(
                f"{self.name}: no two databases of {self.domain.name} are neighbours, so that every mechanism would be"
                " 0-DP, also one that reveals the database (Example III.4): choose another granularity or class"
            )
        for first in databases:
            steps = _steps(first, reached)
            for second in databases:
                if self(first, second) != steps.get(second, math.inf):
                    raise InvalidInputError(
                        f"{self.name}: expected the fewest steps between neighbours of {self.domain.name}, which are"
                        f" {steps.get(second, math.inf)} from {shown(first)} to {shown(second)}, got"
                        f" {self(first, second)} (Remark A.2)"
                    )


def _steps(start: Hashable, reached: dict[Hashable, list[Hashable]]) -> dict[Hashable, int]:
    """Return the fewest steps to each database that can be reached."""
    steps = {start: 0}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        for there in reached[here]:
            if there not in steps:
                steps[there] = steps[here] + 1
                waiting.append(there)
    return steps


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
            lambda first, second: cast("float", _times(amount, base(first, second))),
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
            lambda first, second: cast("float", _times(amount, square_of(base, first, second))),
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


def is_scaled(distance: Any) -> TypeGuard[ScaledMetric | RootScaledMetric]:
    """Return whether a distance is a parameter times a metric."""
    return isinstance(distance, ScaledMetric | RootScaledMetric)


def _times(factor: Amount, distance: Amount) -> Amount:
    return 0 if distance == 0 else upward_product(factor, distance)


def _check_base(base: Any) -> None:
    if not isinstance(base, Metric):
        raise InvalidInputError(f"expected a Metric to be scaled, got {shown(base)}: private* is no metric")
