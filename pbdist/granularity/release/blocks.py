"""Which blocks a record may belong to: partitions and overlapping groupings, as declared data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pbdist.errors import InvalidInputError, shown


@dataclass(frozen=True)
class Partition:
    """Blocks of records, of which each record belongs to one (Guerra-Balboa et al. 2024, Examples IV.4 and IV.7).

    Parameters
    ----------
    blocks : sequence of str
        Names, each once.
    exhaustive : bool, optional
        Whether every record belongs to a block; if not, some belong to none. By default it is.
    by : {"value", "position"}, optional
        What decides of a record. Its value, by default: then a changed record may move to another block. Its position
        in an ordered database: then it stays, but one record more or less would move all others, so that only `Bounded`
        neighbours are allowed.

    Raises
    ------
    InvalidInputError
        If there is no block, or a name is empty or occurs twice, or `by` is neither.
    """

    blocks: tuple[str, ...]
    exhaustive: bool = True
    by: Literal["value", "position"] = "value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", checked_names("Partition.blocks", self.blocks))
        _check_bool("Partition.exhaustive", self.exhaustive)
        given: Any = self.by
        if given not in ("value", "position"):
            raise InvalidInputError(f"Partition.by: expected value or position, got {shown(given)}")

    @property
    def at_most(self) -> int:
        """To how many blocks a record belongs at most: 1."""
        return 1


@dataclass(frozen=True)
class Overlapping:
    """Blocks of records, of which each record belongs to some, by its value alone (Guerra-Balboa et al. 2024, IV.5).

    Parameters
    ----------
    blocks : sequence of str
        Names, each once.
    at_most : int
        To how many blocks a record belongs at most, m. Every set of up to m blocks is taken to occur; declare
        `Memberships` where that is not so, for sharper bounds from above, and right ones from below.
    exhaustive : bool, optional
        Whether every record belongs to at least one. By default it need not.

    Raises
    ------
    InvalidInputError
        If there is no block, a name is empty or occurs twice, or m is not a whole number from 1.
    """

    blocks: tuple[str, ...]
    at_most: int
    exhaustive: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", checked_names("Overlapping.blocks", self.blocks))
        _check_bool("Overlapping.exhaustive", self.exhaustive)
        check_count("Overlapping.at_most", self.at_most)
        object.__setattr__(self, "at_most", min(self.at_most, len(self.blocks)))


@dataclass(frozen=True)
class Memberships:
    """Blocks of records, and every set of blocks to which one record may belong.

    For groupings in which not all sets occur: hospitals of a city, and which of them share an ambulance.

    Parameters
    ----------
    sets : sequence of sequences of str
        Each a set of names, without order; an empty one stands for records outside all blocks.

    Raises
    ------
    InvalidInputError
        If there is no set, no block, a name is empty or occurs twice in a set, or a set occurs twice.
    """

    sets: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        given: Any = self.sets
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidInputError(f"Memberships.sets: expected a sequence of sets of names, got {shown(given)}")
        listed = [tuple(sorted(_names(f"Memberships.sets[{i}]", one))) for i, one in enumerate(given)]
        if not any(listed):
            raise InvalidInputError(f"Memberships.sets: expected a set with a name in it, got {shown(given)}")
        if len(set(listed)) < len(listed):
            raise InvalidInputError(f"Memberships.sets: expected each set once, got {shown(given)}")
        object.__setattr__(self, "sets", tuple(listed))

    @property
    def blocks(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted({name for one in self.sets for name in one}))

    @property
    def at_most(self) -> int:
        """To how many blocks a record belongs at most."""
        return max(map(len, self.sets))

    @property
    def exhaustive(self) -> bool:
        """Whether every record belongs to a block."""
        return () not in self.sets


Blocks: TypeAlias = Partition | Overlapping | Memberships


def checked_names(field: str, given: Any) -> tuple[str, ...]:
    """Return names of which there is at least one, each once."""
    names = _names(field, given)
    if not names:
        raise InvalidInputError(f"{field}: expected at least one name, got none")
    return names


def check_count(field: str, value: Any) -> None:
    """Refuse what is not a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{field}: expected a whole number of at least 1, got {shown(value)}")


def _names(field: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
        raise InvalidInputError(f"{field}: expected a sequence of names, got {shown(given)}")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"{field}: expected names, got {shown(name)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"{field}: expected each name once, got {shown(twice)} twice")
    return names


def _check_bool(field: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidInputError(f"{field}: expected true or false, got {shown(value)}")
