"""States: the masses of a pair, or of a composition of pairs, on a grid of privacy losses; in arrays or in blocks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pbdist.buckets.blocks import BlockedVector, Summary
from pbdist.errors import InvalidInputError
from pbdist.types import FloatArray, JsonValue


@dataclass(frozen=True)
class Grid:
    """The loss buckets ((i-1) h, i h] for i in -n .. n, with corners below and above.

    The loss width h = ln f is in nats; the index n of the last finite bucket, the half width, is even and above 0
    (Meiser & Mohammadi 2018, Definition 3).
    """

    loss_width: float
    half_width: int

    def __post_init__(self) -> None:
        n: Any = self.half_width
        h: Any = self.loss_width
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n <= 0 or n % 2:
            raise InvalidInputError(f"grid.half_width: expected an even whole number above 0, got {n!r}")
        if not (isinstance(h, float) and math.isfinite(h * n) and h > 1e-300):
            raise InvalidInputError(f"grid.loss_width: expected a finite number of nats above 0, got {h!r}")

    @property
    def squared(self) -> "Grid":
        """The grid of the squared factor, twice as wide in each bucket."""
        return Grid(2.0 * self.loss_width, self.half_width)


#: The vectors of a state.
VECTORS = ("a_lower", "a_upper", "b_upper", "b_real_lower")


@dataclass(frozen=True, eq=False)
class StateHead:
    """A state without its vectors."""

    grid: Grid
    #: Bounds on the P_A and P_B masses of the bucket ∞.
    infinity_a_lower: float
    infinity_a_upper: float
    infinity_b_upper: float
    #: The counter u (Definition 7): an event in bucket i has a loss in ((i - u) h, i h]; not in the corner -n.
    window: int
    #: By how many nats the losses may lie outside that window for rounding.
    loss_error: float
    #: Upper value of the P_A mass, and of the P_B mass, of everything; at least 1.
    mass_limit: float


def head_of(state: StateHead) -> StateHead:
    """Return a state without its vectors."""
    return StateHead(**{field.name: getattr(state, field.name) for field in fields(StateHead)})


def check_masses(name: str, vector: FloatArray, size: int) -> None:
    """Refuse anything but `size` finite masses of at least 0."""
    if vector.shape != (size,) or not np.all(np.isfinite(vector)) or float(np.min(vector, initial=0.0)) < 0.0:
        raise InvalidInputError(
            f"state.{name}: expected {size} finite masses of at least 0,"
            f" got shape {vector.shape} from {np.min(vector, initial=np.inf)!r}"
        )


@dataclass(frozen=True, eq=False)
class BucketState(StateHead):
    """Masses on a grid, in arrays: Definitions 4 and 7 of Meiser & Mohammadi 2018, with masses for error terms.

    The P_B mass b of a bucket stands for the paper's virtual error term, ℓ̃(i) = b(i) - a(i) f^-i, and `b_real_lower`
    for the real one, ℓ(i) = b_real(i) - a(i) f^-i: it equals b but that events which have been in the corner -n count
    as a f^n, so that a misplaced event can never be credited with more P_B mass than its bucket allows.

    Attributes
    ----------
    a_lower, a_upper : ndarray, shape (2n + 1,)
        Bounds on the P_A mass of each bucket.
    b_upper : ndarray, shape (2n + 1,)
        Upper bound on the P_B mass of each bucket.
    b_real_lower : ndarray, shape (2n + 1,)
        Lower bound on b_real.
    """

    a_lower: FloatArray
    a_upper: FloatArray
    b_upper: FloatArray
    b_real_lower: FloatArray

    def __post_init__(self) -> None:
        size = 2 * self.grid.half_width + 1
        for name in VECTORS:
            vector = getattr(self, name)
            check_masses(name, vector, size)
            vector.setflags(write=False)

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, JsonValue]]:
        """Return the state as vectors trimmed to their common support, and plain attributes.

        Returns
        -------
        arrays : dict
            The four vectors, one length, from bucket ``attributes["first_bucket"]`` on.
        attributes : dict
            All else, in values that JSON keeps exactly.
        """
        n = self.grid.half_width
        occupied = np.flatnonzero(self.a_upper + self.b_upper)
        first, last = (int(occupied[0]), int(occupied[-1])) if occupied.size else (n, n)
        arrays = {name: np.array(getattr(self, name)[first : last + 1]) for name in VECTORS}
        attributes: dict[str, JsonValue] = {
            "loss_width": self.grid.loss_width,
            "half_width": n,
            "first_bucket": first - n,
        }
        attributes.update({name: getattr(self, name) for name in _SCALARS})
        return arrays, attributes

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray], attributes: Mapping[str, JsonValue]) -> "BucketState":
        """Rebuild a state from the result of `to_arrays`."""
        grid = Grid(float(attributes["loss_width"]), int(attributes["half_width"]))
        start = int(attributes["first_bucket"]) + grid.half_width
        parts: dict[str, Any] = {name: attributes[name] for name in _SCALARS}
        for name in VECTORS:
            parts[name] = np.zeros(2 * grid.half_width + 1)
            parts[name][start : start + arrays[name].size] = arrays[name]
        return cls(grid=grid, **parts)


_SCALARS = tuple(field.name for field in fields(StateHead) if field.name != "grid")


@dataclass(frozen=True, eq=False)
class BlockedState(StateHead):
    """The masses of a `BucketState` in blocks."""

    #: The four vectors and their summaries, by name.
    vectors: Mapping[str, BlockedVector]
    summaries: Mapping[str, Summary]

    @classmethod
    def of(
        cls, grid: Grid, vectors: Mapping[str, BlockedVector], summaries: Mapping[str, Summary], scalars: dict[str, Any]
    ) -> "BlockedState":
        """Return the state of vectors that are written."""
        known = {name: replace(vector, largest=summaries[name].largest) for name, vector in vectors.items()}
        return cls(grid=grid, vectors=known, summaries=summaries, **scalars)

    def vector(self, name: str) -> tuple[BlockedVector, Summary]:
        """Return a vector and its summary."""
        return self.vectors[name], self.summaries[name]

    def gathered(self) -> BucketState:
        """Return the whole state, in the memory of this process."""
        arrays: dict[str, Any] = {name: self.vectors[name][:] for name in VECTORS}
        return BucketState(**vars(head_of(self)), **arrays)

    def remove(self) -> None:
        """Remove its blocks."""
        for vector in self.vectors.values():
            vector.remove()
