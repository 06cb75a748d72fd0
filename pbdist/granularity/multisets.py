"""Tabular databases: multisets of records, kept as tuples in one fixed order, so that equal ones are equal tuples."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from functools import lru_cache
from itertools import combinations_with_replacement
from numbers import Real
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.spaces import DatabaseClass

Multiset: TypeAlias = tuple[Hashable, ...]


def _place(record: Any) -> tuple[Any, ...]:
    """Return where a record stands in the order, which is total: sets, of which `<` means inclusion, are sorted too."""
    if isinstance(record, float) and math.isnan(record):
        raise InvalidInputError("record: expected a value that equals itself, got a NaN")
    if isinstance(record, float | Real):
        return (0, record)
    if isinstance(record, str):
        return (1, record)
    if isinstance(record, bytes):
        return (2, record)
    if record is None:
        return (3,)
    if isinstance(record, tuple):
        return (4, tuple(_place(one) for one in record))
    if isinstance(record, frozenset):
        return (5, tuple(sorted(_place(one) for one in record)))
    raise InvalidInputError(
        f"record: expected a number, a text, bytes, None, or a tuple or frozenset of them, got {shown(record)}"
    )


def multiset(records: Iterable[Hashable]) -> Multiset:
    """Return a database as a multiset: the same tuple in whatever order the records come.

    Parameters
    ----------
    records : iterable
        Numbers, texts, bytes, None, and tuples and frozensets of them. A record may occur many times.

    Raises
    ------
    InvalidInputError
        If a record is of another kind, or no number.
    """
    return tuple(sorted(records, key=_place))


@lru_cache(maxsize=2**14)
def _checked(database: Multiset) -> Counter[Hashable]:
    """Return the multiplicities of a multiset, which is not to be changed."""
    if multiset(database) != database:
        raise InvalidInputError(f"database: expected a multiset, as multiset() orders it, got {shown(database)}")
    return Counter(database)


def counts(database: Any) -> Counter[Hashable]:
    """Return the multiplicities, not to be changed; refuse what is no multiset in its order."""
    if not isinstance(database, tuple):
        raise InvalidInputError(f"database: expected a tuple of records, made by multiset(), got {shown(database)}")
    try:
        return _checked(database)
    except TypeError as error:
        raise InvalidInputError(f"database: expected records that can be hashed and ordered: {error}") from error


def difference(first: Multiset, second: Multiset) -> Multiset:
    r"""Return D \ D': multiplicities max(0, m_D - m_D')."""
    return multiset((counts(first) - counts(second)).elements())


def intersection(first: Multiset, second: Multiset) -> Multiset:
    """Return D ∩ D': the smaller multiplicity of each record."""
    return multiset((counts(first) & counts(second)).elements())


def union(first: Multiset, second: Multiset) -> Multiset:
    """Return D ∪ D': the larger multiplicity of each record."""
    return multiset((counts(first) | counts(second)).elements())


def multiset_sum(first: Multiset, second: Multiset) -> Multiset:
    """Return D + D': multiplicities added."""
    return multiset((counts(first) + counts(second)).elements())


def symmetric_difference(first: Multiset, second: Multiset) -> Multiset:
    """Return D △ D': multiplicities |m_D - m_D'|."""
    left, right = counts(first), counts(second)
    return multiset(((left - right) + (right - left)).elements())


def symmetric_difference_size(first: Multiset, second: Multiset) -> int:
    """Return |D △ D'|."""
    return sum(one_sided(first, second))


def one_sided(first: Multiset, second: Multiset) -> tuple[int, int]:
    r"""Return |D \ D'| and |D' \ D|."""
    left, right = counts(first), counts(second)
    return (left - right).total(), (right - left).total()


def part_of(first: Multiset, second: Multiset) -> bool:
    """Return whether D ⊆ D', multiplicities counted."""
    return counts(first) <= counts(second)


def listed_multisets(name: str, records: Iterable[Hashable], sizes: Iterable[int]) -> DatabaseClass:
    """Return the class of all multisets over some records of some sizes, listed.

    Parameters
    ----------
    name : str
        Told in errors.
    records : iterable
        𝒳, finite.
    sizes : iterable of int
        The numbers of records that a database may have.
    """
    different = multiset(set(records))
    chosen = [multiset(one) for size in sorted(set(sizes)) for one in combinations_with_replacement(different, size)]
    return DatabaseClass(name, tuple(chosen))
