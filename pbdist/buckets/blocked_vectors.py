"""Vectors that lie in blocks in some store, what is known of them, their sums, and who maps functions over blocks.

Sums are taken piece by piece, so that they are the same whether a vector is summed whole or in blocks. A piece is what
lies between two multiples of `PIECE` positions, counted from where the sum begins or from the vector's first element,
as each function says. numpy sums a piece, in any order, and `math.fsum` the pieces, which rounds once: elements that
are not negative are summed with a relative error of at most `summation_error`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from pbdist.fourier.vectors import ranges
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Positions of a piece.
PIECE = 1 << 14


def piece_sums(values: FloatArray, start: int = 0) -> list[float]:
    """Sum each piece of consecutive elements, the first of which has the position `start`."""
    return [
        float(np.sum(values[first - start : last - start])) for first, last in ranges(start, start + values.size, PIECE)
    ]


def total(sums: Iterable[float]) -> float:
    """Return the sum of pieces, rounded once."""
    return math.fsum(sums)


def summation_error(count: int) -> float:
    """Bound on the relative error of the sum of so many elements that are not negative."""
    return (min(count, PIECE) + 1.0) * UNIT_ROUNDOFF


class VectorStore(Protocol):
    """Holds arrays by name. Small and picklable, unless all work is done in one process."""

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array as it was written; it may be read-only.

        Raises
        ------
        OSError
            It is not there, or is damaged.
        """

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Keep an array, and drop any other of that name: whole or not at all. Nothing changes it afterwards."""

    def remove(self, name: str) -> None:
        """Forget an array, if it is there."""


class MemoryVectors:
    """Holds arrays in this process."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        if name not in self.arrays:
            raise FileNotFoundError(name)
        return self.arrays[name]

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Keep an array, not a copy."""
        self.arrays[name] = array

    def remove(self, name: str) -> None:
        """Forget an array."""
        self.arrays.pop(name, None)


class Mapper(Protocol):
    """Does the same work on many items, in this process or elsewhere."""

    @property
    def parallel(self) -> int:
        """About how many items are worked on at a time: it decides how finely work is cut, never a result."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items.

        Function, items and results are picklable; the function may be called more than once for an item.
        """


class SerialMapper:
    """Does all work in this process, one item after the other."""

    parallel = 1

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item."""
        return map(function, items)


@dataclass(frozen=True, eq=False)
class Summary:
    """What is kept of a vector's elements, or of a part of them.

    Attributes
    ----------
    sums
        Of the pieces, in order.
    largest, smallest
        The largest element, and the smallest one above 0 (infinite if there is none).
    nonzero
        How many are above 0.
    first, last
        The first and the last position of one above 0; `first` is beyond every position if there is none.
    """

    sums: tuple[float, ...]
    largest: float
    smallest: float
    nonzero: int
    first: int
    last: int

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> "Summary":
        """Return the summary of consecutive parts, each of whole pieces."""
        listed = list(parts)
        if len(listed) == 1:
            return listed[0]
        return Summary(
            sums=tuple(value for part in listed for value in part.sums),
            largest=max(part.largest for part in listed),
            smallest=min(part.smallest for part in listed),
            nonzero=sum(part.nonzero for part in listed),
            first=min(part.first for part in listed),
            last=max(part.last for part in listed),
        )


def _summarised(values: FloatArray, start: int) -> Summary:
    """Summarise consecutive elements from the position `start` on, the start of a piece."""
    occupied = values > 0.0
    nonzero = int(np.count_nonzero(occupied))
    return Summary(
        sums=tuple(piece_sums(values, start)),
        largest=float(values.max()),
        smallest=float(np.min(values, where=occupied, initial=math.inf)),
        nonzero=nonzero,
        first=start + int(occupied.argmax()) if nonzero else np.iinfo(np.int64).max,
        last=start + values.size - 1 - int(occupied[::-1].argmax()) if nonzero else -1,
    )


@dataclass(frozen=True, eq=False)
class BlockedVector:
    """A vector in blocks, or a part of one.

    Attributes
    ----------
    store
        What holds the blocks.
    name
        The blocks are called ``NAME/POSITION`` after their first element.
    block
        Length of a block, a multiple of a piece.
    start, stop
        Which elements of the whole vector this is.
    largest
        The largest element.
    """

    store: VectorStore
    name: str
    block: int
    start: int
    stop: int
    largest: float = math.nan

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.stop - self.start

    def __getitem__(self, part: slice) -> FloatArray:
        """Read the elements of a range, which lies within the vector."""
        first, last, _ = part.indices(self.size)
        begin, end = first + self.start, max(first, last) + self.start
        pieces = [
            self.store.read(self._block_name(start))[start % self.block : start % self.block + stop - start]
            for start, stop in ranges(begin, end, self.block)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0), *pieces])

    def write(self, start: int, values: FloatArray) -> Summary:
        """Write the blocks from a position on, the start of a block."""
        parts = []
        for begin, end in ranges(start, start + values.size, self.block):
            part = values[begin - start : end - start]
            self.store.write(self._block_name(begin), part)
            parts.append(_summarised(part, begin))
        return Summary.joined(parts)

    def part(self, start: int, stop: int) -> "BlockedVector":
        """Return the elements of a range as a vector."""
        return replace(self, start=self.start + start, stop=self.start + stop)

    def blocks(self) -> list[tuple[int, int]]:
        """Return the ranges of the blocks of the whole vector."""
        return list(ranges(self.start, self.stop, self.block))

    def remove(self) -> None:
        """Remove the blocks."""
        for start, _ in self.blocks():
            self.store.remove(self._block_name(start))

    def _block_name(self, position: int) -> str:
        return f"{self.name}/{position // self.block * self.block}"


def groups(start: int, stop: int, length: int, step: int) -> list[list[tuple[int, int]]]:
    """Cut a range at multiples of `length`, and gather `step` of those parts, in order, for each task."""
    parts = list(ranges(start, stop, length))
    return [parts[begin : begin + step] for begin in range(0, len(parts), step)]
