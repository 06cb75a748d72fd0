"""Sort the cells of a study into classes of similar ones, of which one is examined."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from pbdist.mechanisms import Pair
from pbdist.study.grid_cells import CellGrid, LazyCells, Piece
from pbdist.study.spec import Cell
from pbdist.types import IntArray

#: Classes of similar cells, at most.
_MOST_CLASSES = 200
#: Sizes are binary orders of floats, of at most this many bits.
_COARSEST = 12
#: Of more values than two it is how many there are that counts.
_LONG = 2
#: The size of 0, below all others.
_OF_ZERO = -2000
#: The kind of a pair and the sizes of its parameters, then that of its factor.
_Key: TypeAlias = tuple[Hashable, ...]


def alike_cells(cells: Sequence[Cell]) -> tuple[IntArray, tuple[int, ...]]:
    """Return the class of each cell, and the number of one cell of each class: the middle one.

    Cells of a class have mechanisms of the same kind, and parameters of the same size.
    """
    numbers: dict[_Key, int] = {}
    found = _of_grids(cells, numbers) if isinstance(cells, LazyCells) else _one_by_one(cells, numbers)
    class_of, count = found, len(numbers)
    for shift in range(1, _COARSEST):
        if count <= _MOST_CLASSES:
            break
        merged: dict[Hashable, int] = {}
        merged_into = [merged.setdefault(_coarser(key, shift), len(merged)) for key in numbers]
        class_of, count = np.array(merged_into, dtype=np.int64)[found], len(merged)
    order = np.argsort(class_of, kind="stable")
    ends = np.cumsum(np.bincount(class_of, minlength=count))
    starts = ends - np.bincount(class_of, minlength=count)
    return class_of, tuple(order[(starts + ends) // 2].tolist())


def _one_by_one(cells: Sequence[Cell], numbers: dict[_Key, int]) -> IntArray:
    """Return the number of the key of each cell; new keys get new numbers."""
    keys = _Keys()
    found = (numbers.setdefault(keys.of_cell(cell), len(numbers)) for cell in cells)
    return np.fromiter(found, dtype=np.int64, count=len(cells))


def _of_grids(cells: LazyCells, numbers: dict[_Key, int]) -> IntArray:
    """Return the same for cells from grids: of cells whose values look alike one after the other, one is made."""
    keys = _Keys()
    axes: dict[int, _Likeness] = {}
    result = np.empty(len(cells), dtype=np.int64)
    start = 0
    for piece in cells.pieces():
        if id(piece.grid) not in axes:
            axes = {id(piece.grid): _Likeness(piece.grid, keys)}
        likeness, first, inverse = np.unique(axes[id(piece.grid)].of(piece), return_index=True, return_inverse=True)
        number_of = np.empty(likeness.size, dtype=np.int64)
        # In the order of the cells, so that the numbers are those of `_one_by_one`.
        for place in np.argsort(first).tolist():
            cell = piece.grid.cell(int(piece.rows[first[place]]))
            number_of[place] = numbers.setdefault(keys.of_cell(cell), len(numbers))
        result[start : start + piece.rows.size] = number_of[inverse]
        start += piece.rows.size
    return result


class _Likeness:
    """Numbers for the cells of a grid: cells of the same number have the same key.

    A key has an item for each parameter. So cells have the same key if, on each axis, the pairs of their values and
    the first values of the other axes have; but for `Pair.likeness`, which may depend on several parameters.
    """

    def __init__(self, grid: CellGrid, keys: "_Keys") -> None:
        self._axes = [_numbered(map(keys.of_pair, grid.pairs.along(axis))) for axis in range(len(grid.pairs.axes))]
        self._axes.append(_numbered(map(keys.of_factor, grid.factors)))
        kind = grid.pairs.kind
        self._of_pairs = None
        if kind is not None and kind.likeness is not Pair.likeness and len(grid.pairs.axes) > 1:
            self._of_pairs = _numbered(map(keys.of_likeness, grid.pairs))

    def of(self, piece: Piece) -> IntArray:
        """Return the numbers of some cells of the grid."""
        places = piece.grid.places(piece.rows)
        result = np.zeros(1, dtype=np.int64)
        if self._of_pairs is not None:
            result = self._of_pairs[piece.rows // len(piece.grid.factors)]
        for axis, at in zip(self._axes, places, strict=True):
            result = result * (int(axis.max()) + 1) + axis[at]
        return result


def _numbered(keys: Iterator[Hashable]) -> IntArray:
    """Return for each key which of the different ones it is."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


class _Keys:
    """The keys of cells and pairs. The size of each value is found once, as most come from grids."""

    def __init__(self) -> None:
        self._sizes: dict[float, int] = {}
        self._readers: dict[type[Pair], Callable[[Any], tuple[Any, ...]]] = {}

    def of_cell(self, cell: Cell) -> _Key:
        """Return the key of a cell."""
        return (*self.of_pair(cell.pair), *self.of_factor(cell.factor))

    def of_factor(self, factor: float | None) -> _Key:
        """Return what a factor adds to the key of a pair."""
        return () if factor is None else (_size(factor - 1.0),)

    def of_pair(self, pair: Pair) -> _Key:
        """Return the key of a pair: its kind, and the sizes of its parameters."""
        kind = type(pair)
        reader = self._readers.get(kind)
        if reader is None:
            names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every pair is a dataclass
            # With one name more the reader returns a tuple for a single field too.
            reader = self._readers[kind] = attrgetter(*names, "symmetric")
        return (kind, *map(self._of_value, reader(pair)), *self.of_likeness(pair))

    def of_likeness(self, pair: Pair) -> _Key:
        """Return the part of the key of a pair that its kind adds."""
        return tuple(one if type(one) is int else _size(one) for one in pair.likeness())

    def _of_value(self, value: Any) -> Hashable:
        if isinstance(value, float | int):
            size = self._sizes.get(value)
            if size is None:
                size = self._sizes[value] = _size(value)
            return size
        if isinstance(value, Pair):
            return self.of_pair(value)
        if isinstance(value, tuple):
            long = len(value) > _LONG and not isinstance(value[0], Pair)
            return _size(len(value)) if long else tuple(map(self._of_value, value))
        hashable: Hashable = value
        return hashable


def _size(value: float) -> int:
    return math.frexp(value)[1] if value else _OF_ZERO


def _coarser(key: Hashable, shift: int) -> Hashable:
    if isinstance(key, tuple):
        return tuple(_coarser(part, shift) for part in key)
    return key >> shift if type(key) is int else key
