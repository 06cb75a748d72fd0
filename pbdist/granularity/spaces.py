"""Privacy spaces: classes of databases, distances, maps, and what is known of mechanisms (Guerra-Balboa et al. 2024).

A statement about a mechanism M* that is applied to f(D) is of one of two kinds, and they are different types, for
Example II.9 shows what happens where they are mixed up:

- `OnItsOwnDomain`: M* is private for the databases that it reads, 𝔻_i = f(𝔻) or a class around it.
- `OnTheCommonDomain`: the whole M = M* ∘ f is private on 𝔻, and depends on f(D) alone (Definition IV.8).
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, TypeAlias, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.upward import (
    Amount,
    as_fraction,
    checked_amount,
    float_above,
    float_below,
    upward_product,
    upward_root,
)

#: Databases are compared by equality; those of a finite class are hashable.
Database: TypeAlias = Any


@dataclass(frozen=True)
class DatabaseClass:
    """A class 𝔻 of databases: what the input of a mechanism may be.

    Two classes are the same if their names and their databases are.

    Parameters
    ----------
    name : str
        Used in errors.
    databases : tuple, optional
        All of them, distinct and hashable, where the class is finite and small enough to be looked through. What is
        checked by looking at all pairs, such as a sensitivity, needs them.
    """

    name: str
    databases: tuple[Hashable, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.name
        if not isinstance(given, str) or not given:
            raise InvalidInputError(f"DatabaseClass.name: expected a name, got {shown(given)}")
        if self.databases is None:
            return
        try:
            listed = tuple(self.databases)
            distinct = len(set(listed))
        except TypeError as error:
            raise InvalidInputError(f"DatabaseClass.databases: expected hashable databases: {error}") from error
        if not listed or distinct < len(listed):
            raise InvalidInputError(
                f"DatabaseClass.databases: expected one or more, each once, got {len(listed)}, {distinct} distinct"
            )
        object.__setattr__(self, "databases", listed)

    def listed(self, why: str) -> tuple[Hashable, ...]:
        """Return the databases."""
        if self.databases is None:
            raise InvalidInputError(f"{self.name}: expected a class whose databases are listed, which {why} needs")
        return self.databases


@dataclass(frozen=True, eq=False)
class _Distance:
    domain: DatabaseClass
    function: Callable[[Database, Database], Amount] = field(repr=False)
    name: str = "d"
    squared: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not isinstance(self.domain, DatabaseClass):
            raise InvalidInputError(f"{kind}.domain: expected a DatabaseClass, got {shown(self.domain)}")
        if not callable(self.function):
            raise InvalidInputError(
                f"{kind}.function: expected a function of two databases, got {shown(self.function)}"
            )

    def value(self, first: Database, second: Database) -> Amount:
        """Return what the distance is given by: d(D, D'), or d(D, D')² if it is `squared`."""
        value = self.function(first, second)
        if not value >= 0.0:
            raise InvalidInputError(f"{self.name}: expected a distance of at least 0, got {shown(value)}")
        return math.inf if value == math.inf else value

    def __call__(self, first: Database, second: Database) -> float:
        """Return the distance, at least 0; it may be infinite. A root is rounded upwards."""
        value = self.value(first, second)
        return cast("float", upward_root(value) if self.squared else value)

    def square(self, first: Database, second: Database) -> Amount:
        """Return d(D, D')², without the rounding of a root."""
        value = self.value(first, second)
        return value if self.squared else upward_product(value, value)


class Metric(_Distance):
    """An extended pseudometric over a class: symmetric, with the triangle inequality; 0 and ∞ are allowed.

    Exact values stay exact: a function that returns whole numbers or fractions is not rounded.

    Parameters
    ----------
    domain : DatabaseClass
        𝔻.
    function : callable
        d(D, D'), in nats where it is a privacy loss.
    name : str, optional
        Used in errors.
    squared : bool, optional
        Whether `function` returns d(D, D')², which sums of squares lead to: then only the root is rounded.
    """


class StarDistance(_Distance):
    """A distance for which the triangle inequality may fail: what "private*" means (Proposition IV.10).

    It bounds the loss of each pair of databases, but is no metric: no chain of neighbours may be summed with it, so
    that no rule that needs a metric takes it, nor does group privacy.
    """


@dataclass(frozen=True)
class DatabaseMap:
    """A deterministic map f from a class into a class, such as the part of a database that a mechanism reads.

    It is a function of the database alone. One that closes over an earlier output cannot be
    detected: the caller must not do that.

    Parameters
    ----------
    domain, codomain : DatabaseClass
        𝔻, and a class with f(𝔻) in it.
    function : callable
        f.
    name : str, optional
        Used in errors.
    """

    domain: DatabaseClass
    codomain: DatabaseClass
    function: Callable[[Database], Database] = field(repr=False)
    name: str = "f"

    def __post_init__(self) -> None:
        for name in ("domain", "codomain"):
            if not isinstance(getattr(self, name), DatabaseClass):
                raise InvalidInputError(
                    f"DatabaseMap.{name}: expected a DatabaseClass, got {shown(getattr(self, name))}"
                )
        if not callable(self.function):
            raise InvalidInputError(f"DatabaseMap.function: expected a function, got {shown(self.function)}")
        if not _takes_one(self.function):
            raise InvalidInputError(
                f"DatabaseMap.function: expected a function of the database alone, got {shown(self.function)}: blocks"
                " chosen from earlier outputs are not covered by the rules of composition, for a record may then be"
                " read more than once"
            )

    def __call__(self, database: Database) -> Database:
        """Return f(D)."""
        return self.function(database)


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None)
    except ValueError:  # Some builtins do not tell.
        return True
    except TypeError:
        return False
    return True


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
            lambda first, second: times(amount, base(first, second)),
            f"{amount} {base.name}",
        )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "factor", amount)


class RootScaledMetric(Metric):
    """√ρ · d, of which ρ is stored exactly.

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
            lambda first, second: times(amount, base.square(first, second)),
            f"√{amount} {base.name}",
            squared=True,
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
            lambda first, second: group_delta(epsilon, delta, base(first, second)),
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


def made(
    domain: DatabaseClass, function: Callable[..., Amount], name: str, *, squared: bool, starred: bool
) -> Metric | StarDistance:
    """Return a distance that is given by its values, or by its squares."""
    return (StarDistance if starred else Metric)(domain, function, name, squared)


def times(factor: Amount, distance: Amount) -> Amount:
    """Return the product, 0 at distance 0 and ∞ at ∞ whatever the factor is."""
    return 0 if distance == 0 else upward_product(factor, distance)


def _check_base(base: Any) -> None:
    if not isinstance(base, Metric):
        raise InvalidInputError(f"expected a Metric to be scaled, got {shown(base)}: private* is no metric")


@dataclass(frozen=True, eq=False)
class _Privacy:
    distance: Metric | StarDistance

    def __post_init__(self) -> None:
        if not isinstance(self.distance, Metric | StarDistance):
            raise InvalidInputError(
                f"{type(self).__name__}.distance: expected a Metric or a StarDistance, got {shown(self.distance)}"
            )

    @property
    def starred(self) -> bool:
        """Whether this is "private*" only: a bound for each pair of databases that is no metric."""
        return isinstance(self.distance, StarDistance)


class PurePrivacy(_Privacy):
    """d-privacy (Definition III.2): no loss between D and D' is above d(D, D') nats."""


@dataclass(frozen=True, eq=False)
class ApproximatePrivacy(_Privacy):
    """(d, δ)-privacy (Definition VI.2): P(M(D) in S) <= e^d(D, D') P(M(D') in S) + δ(D, D').

    Attributes
    ----------
    distance : Metric or StarDistance
        Nats.
    delta : StarDistance
        δ(D, D'), over the same class; it need not be a metric. 1 and more says nothing.
    """

    delta: StarDistance

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.delta
        if not isinstance(given, StarDistance) or given.domain != self.distance.domain:
            raise InvalidInputError(
                f"ApproximatePrivacy.delta: expected a StarDistance over {self.distance.domain.name},"
                f" got {shown(given)}"
            )


class ZeroConcentratedPrivacy(_Privacy):
    """d²-zero-concentrated privacy (Definition VI.11): D_α(M(D) ‖ M(D')) <= α d(D, D')² for all α > 1.

    With ρ-zCDP d is √ρ times the metric of the granularity.
    """


class GaussianPrivacy(_Privacy):
    """d-Gaussian privacy (Definition VI.19): the trade-off function is at least that of N(0, 1) and N(d(D, D'), 1)."""


Statement: TypeAlias = PurePrivacy | ApproximatePrivacy | ZeroConcentratedPrivacy | GaussianPrivacy


@dataclass(frozen=True, eq=False)
class _Placed:
    privacy: Statement
    reads: DatabaseMap

    def __post_init__(self) -> None:
        kind, given = type(self).__name__, cast("Any", self.reads)
        if not isinstance(given, DatabaseMap):
            raise InvalidInputError(
                f"{kind}.reads: expected a DatabaseMap, got {shown(given)}: what a mechanism reads is a map of the"
                " database alone, and blocks chosen from earlier outputs are not covered by the rules of composition"
            )
        domain, wanted = self.privacy.distance.domain, self._domain
        if domain != wanted:
            raise InvalidInputError(
                f"{kind}.privacy: expected privacy over {wanted.name}, got privacy over {domain.name}: privacy of what"
                " is applied to f(D) (OnItsOwnDomain) and of the whole mechanism (OnTheCommonDomain) are not the same"
            )

    @property
    def _domain(self) -> DatabaseClass:
        return self.reads.codomain


class OnItsOwnDomain(_Placed):
    """M* is private over the codomain of f, and is applied to f(D): "variable domain".

    Attributes
    ----------
    privacy : Statement
        Over the codomain of `reads`; for an adaptive composition, whatever the earlier outputs were.
    reads : DatabaseMap
        f.
    """


class OnTheCommonDomain(_Placed):
    """M is private over 𝔻 itself, and depends on f(D) alone (Definition IV.8).

    Attributes
    ----------
    privacy : Statement
        Over the domain of `reads`; for an adaptive composition, whatever the earlier outputs were.
    reads : DatabaseMap
        f.
    """

    @property
    def _domain(self) -> DatabaseClass:
        return self.reads.domain
