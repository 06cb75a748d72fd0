"""Aliases, dimension names, the two directions of a pair, and which datasets count as neighbours."""

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pbdist.errors import InvalidInputError, shown
from pbdist.suggestions import did_you_mean

BoolArray: TypeAlias = NDArray[np.bool_]
ComplexArray: TypeAlias = NDArray[np.complex128]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
TextArray: TypeAlias = NDArray[np.object_]
#: A value of a canonical form: anything that ``json.dumps`` takes.
JsonValue: TypeAlias = Any

DIRECTION = "direction"
COMPOSITIONS = "compositions"
EPSILON = "epsilon"
DELTA = "delta"


class Direction(Enum):
    """Which of the two hockey-stick divergences of a pair (A, B) is meant."""

    A_TO_B = "A||B"
    B_TO_A = "B||A"

    @property
    def opposite(self) -> "Direction":
        """The other one."""
        return Direction.B_TO_A if self is Direction.A_TO_B else Direction.A_TO_B


class Adjacency(StrEnum):
    """The relation between neighbouring datasets that a pair is the worst case of.

    A bound holds for the neighbours of its pair alone: ε for one record added or removed says nothing of one record
    replaced, which may need twice as much.
    """

    #: One record is added or removed. The direction "A||B" is the removal, "B||A" the addition.
    ADD_OR_REMOVE = "add-or-remove"
    #: Up to some number of records are added together, or removed together. The directions are the same.
    ADD_OR_REMOVE_GROUP = "add-or-remove-group"
    #: One record is replaced by another one; the number of records stays.
    REPLACE_ONE = "replace-one"
    #: One record is replaced by one that contributes nothing; the number of records stays.
    ZERO_OUT = "zero-out"
    #: The neighbours that the given parameters of the pair, such as its sensitivity, assume.
    AS_STATED = "as-stated"

    @property
    def definite(self) -> bool:
        """Whether it is a relation of its own, and not left to the given parameters."""
        return self is not Adjacency.AS_STATED

    @property
    def in_words(self) -> str:
        """A description of the neighbours."""
        return _IN_WORDS[self]


_IN_WORDS = {
    Adjacency.ADD_OR_REMOVE: "one record added or removed",
    Adjacency.ADD_OR_REMOVE_GROUP: "a group of records added or removed together",
    Adjacency.REPLACE_ONE: "one record replaced",
    Adjacency.ZERO_OUT: "one record zeroed out",
    Adjacency.AS_STATED: "as assumed by the given parameters",
}


#: Synonyms of the relations, in lower case.
_OTHER_NAMES = {
    **dict.fromkeys(
        ("add-remove", "add_remove", "add", "remove", "unbounded", "add_or_remove_one", "add-or-remove-one"),
        Adjacency.ADD_OR_REMOVE.value,
    ),
    **dict.fromkeys(("replace", "bounded", "substitute", "swap", "change-one"), Adjacency.REPLACE_ONE.value),
    **dict.fromkeys(("zero", "zeroout", "replace-special", "replace_special"), Adjacency.ZERO_OUT.value),
}


def joined(found: Iterable[tuple[Adjacency, str]], field: str) -> Adjacency:
    """Return the common relation of several things, given with their names; "as stated" goes with any other one.

    Two different relations are an `InvalidInputError` about `field`: a bound on both together would hold for neither.
    """
    relations: dict[Adjacency, str] = {}
    for relation, name in found:
        if relation.definite:
            relations.setdefault(relation, name)
    if len(relations) > 1:
        (first, one), (second, other), *_ = relations.items()
        raise InvalidInputError(
            f"{field}: expected pairs for the same neighbours, got {one} for {first} and {other} for {second}"
        )
    return next(iter(relations), Adjacency.AS_STATED)


def common_adjacency(found: Iterable[Adjacency]) -> Adjacency:
    """Return the relation that several things share, and "as stated" where they differ."""
    relations = set(found)
    return relations.pop() if len(relations) == 1 else Adjacency.AS_STATED


def checked_adjacency(given: Any, field: str = "adjacency") -> Adjacency:
    """Return a relation by its name; None is as stated."""
    if given is None:
        return Adjacency.AS_STATED
    names = tuple(relation.value for relation in Adjacency)
    if not isinstance(given, str) or given not in names:
        near = did_you_mean(given, names, _OTHER_NAMES)
        raise InvalidInputError(f"{field}: expected one of {', '.join(names)}, got {shown(given)}{near}")
    return Adjacency(given)


def stated(own: Adjacency, given: Adjacency, field: str, name: str) -> Adjacency:
    """Return the relation that a bound is for: that of its pair, or else the one that a person states.

    A different statement is an `InvalidInputError`: the bounds hold for no other neighbours.
    """
    if not own.definite or not given.definite or own is given:
        return own if own.definite else given
    raise InvalidInputError(
        f"{field}: expected {own}, as {name} is the worst case of {own.in_words}, got {given}: its bounds say nothing"
        f" of {given.in_words}"
    )
