"""Full universes: classes that are too large to be listed, over which distances have proved closed forms."""

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.spaces import DatabaseClass


def whole(owner: str, value: Any, at_least: int, *, optional: bool = False) -> None:
    """Refuse what is no whole number of at least so much; None is allowed where it is optional."""
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InvalidInputError(f"{owner}: expected a whole number of at least {at_least}, got {shown(value)}")


@dataclass(frozen=True)
class _Universe(DatabaseClass):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.databases is not None:
            raise InvalidInputError(
                f"{type(self).__name__}.databases: expected none, for a universe is not listed: list a DatabaseClass"
            )


@dataclass(frozen=True)
class Multisets(_Universe):
    """All finite multisets over a universe 𝒳 of records, 𝔻_𝒳, or those of one size.

    Parameters
    ----------
    name : str
        Told in errors.
    size : int, optional
        The number of records, where it is public and fixed; without it every size is in.
    records : tuple, optional
        𝒳, where it is known and finite. One that is not known, or with a size, has two or more records.
    """

    _: KW_ONLY
    size: int | None = None
    records: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("Multisets.size", self.size, 1, optional=True)
        least = 1 if self.size is None else 2
        if self.records is not None and len(set(self.records)) < max(least, len(self.records)):
            raise InvalidInputError(
                f"Multisets.records: expected {least} or more, each once, got {shown(tuple(self.records))}"
            )


@dataclass(frozen=True)
class OrderedDatabases(_Universe):
    """All databases of records (n, x) with n = 1 .. |D|, each once, and x of two or more values (Example IV.7).

    Parameters
    ----------
    name : str
        Told in errors.
    size : int, optional
        |D|, where it is public and fixed.
    some_places : bool
        Whether these are parts: n are those of the places of one block that come first.
    """

    _: KW_ONLY
    size: int | None = None
    some_places: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("OrderedDatabases.size", self.size, 1, optional=True)


@dataclass(frozen=True)
class UserDatabases(_Universe):
    """All multisets of records (user, value) in which no user has more than so many.

    There are infinitely many users, and two or more values.

    Parameters
    ----------
    name : str
        Told in errors.
    records : int
        The largest number of records of a user.
    """

    _: KW_ONLY
    records: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("UserDatabases.records", self.records, 1)


@dataclass(frozen=True)
class Graphs(_Universe):
    """All finite simple undirected graphs over infinitely many possible nodes.

    Parameters
    ----------
    name : str
        Told in errors.
    degree : int, optional
        The declared maximal degree, if there is one.
    """

    _: KW_ONLY
    degree: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("Graphs.degree", self.degree, 1, optional=True)
