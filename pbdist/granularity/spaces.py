"""Privacy spaces: classes of databases, distances over them, and maps between them (Guerra-Balboa et al. 2024, III)."""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown

#: Databases are compared by equality; those of a finite class are hashable.
Database: TypeAlias = Any


@dataclass(frozen=True)
class DatabaseClass:
    """A class 𝔻 of databases: what the input of a mechanism may be.

    Two classes are the same if their names and their databases are.

    Parameters
    ----------
    name : str
        Told in errors.
    databases : tuple, optional
        All of them, distinct and hashable, where the class is finite and small enough to be looked through. What is
        checked by looking at all pairs, such as a sensitivity, needs them.

    Raises
    ------
    InvalidInputError
        If the name is empty, or databases are not hashable or occur twice.
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
        """Return the databases.

        Raises
        ------
        InvalidInputError
            If they are not listed; the text says what needs them.
        """
        if self.databases is None:
            raise InvalidInputError(f"{self.name}: expected a class whose databases are listed, which {why} needs")
        return self.databases


@dataclass(frozen=True, eq=False)
class _Distance:
    domain: DatabaseClass
    function: Callable[[Database, Database], float] = field(repr=False)
    name: str = "d"

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not isinstance(self.domain, DatabaseClass):
            raise InvalidInputError(f"{kind}.domain: expected a DatabaseClass, got {shown(self.domain)}")
        if not callable(self.function):
            raise InvalidInputError(
                f"{kind}.function: expected a function of two databases, got {shown(self.function)}"
            )

    def __call__(self, first: Database, second: Database) -> float:
        """Return the distance, at least 0; it may be infinite.

        Raises
        ------
        InvalidInputError
            If the function returns something else.
        """
        value = self.function(first, second)
        if not value >= 0.0:
            raise InvalidInputError(f"{self.name}: expected a distance of at least 0, got {shown(value)}")
        return math.inf if value == math.inf else value


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
        Told in errors.
    """


class StarDistance(_Distance):
    """A distance for which the triangle inequality may fail: what "private*" means (Proposition IV.10).

    It bounds the loss of each pair of databases, but is no metric: no chain of neighbours may be summed with it, so
    that no rule that needs a metric takes it, nor does group privacy.
    """


@dataclass(frozen=True)
class DatabaseMap:
    """A deterministic map f from a class into a class, such as the part of a database that a mechanism reads.

    It is a function of the database alone. One that closes over an earlier output cannot be told from another one: it
    is for the caller not to do that.

    Parameters
    ----------
    domain, codomain : DatabaseClass
        𝔻, and a class with f(𝔻) in it.
    function : callable
        f.
    name : str, optional
        Told in errors.
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
