"""Aliases, dimension names and the two directions of a pair."""

from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COMPOSITIONS",
    "DELTA",
    "DIRECTION",
    "EPSILON",
    "BoolArray",
    "ComplexArray",
    "Direction",
    "FloatArray",
    "IntArray",
    "JsonValue",
    "TextArray",
]

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
