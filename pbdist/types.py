"""Aliases, dimension names, the two directions of a pair, and which datasets count as neighbours."""

from enum import Enum, StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

BoolArray: TypeAlias = NDArray[np.bool_]
ComplexArray: TypeAlias = NDArray[np.complex128]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
TextArray: TypeAlias = NDArray[np.object_]
#: What a canonical form is made of: what ``json.dumps`` takes.
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
    #: The neighbours are those for which the parameters of the pair, such as its sensitivity, were stated.
    AS_STATED = "as-stated"

    @property
    def definite(self) -> bool:
        """Whether it is a relation of its own, and not left to what the parameters were stated for."""
        return self is not Adjacency.AS_STATED

    @property
    def in_words(self) -> str:
        """Who the neighbours are, in a few words."""
        return _IN_WORDS[self]


_IN_WORDS = {
    Adjacency.ADD_OR_REMOVE: "one record added or removed",
    Adjacency.ADD_OR_REMOVE_GROUP: "a group of records added or removed together",
    Adjacency.REPLACE_ONE: "one record replaced",
    Adjacency.ZERO_OUT: "one record zeroed out",
    Adjacency.AS_STATED: "those that the parameters were stated for",
}
