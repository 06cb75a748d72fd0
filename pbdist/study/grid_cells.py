"""The cells of a study from the grids of its mechanisms: each is made when it is accessed.

Ten million of them take as much memory as the values of their grids.
"""

import hashlib
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, overload

import numpy as np

from pbdist.study.cell_texts import CellTexts
from pbdist.study.pair_grid import PairGrid
from pbdist.study.spec import Cell, KnownCells
from pbdist.types import IntArray

#: So many cells are worked on at a time.
_PIECE = 2**18


@dataclass(frozen=True, eq=False)
class CellGrid:
    """All pairs of a grid under one label, each with all factors, which vary fastest."""

    label: str
    pairs: PairGrid
    factors: tuple[float | None, ...]

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.pairs) * len(self.factors)

    def cell(self, row: int) -> Cell:
        """Return one cell."""
        pair, factor = divmod(row, len(self.factors))
        return Cell(self.label, self.pairs[pair], self.factors[factor])

    def cells(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return (Cell(self.label, pair, factor) for pair in self.pairs for factor in self.factors)

    def places(self, rows: IntArray) -> list[IntArray]:
        """Return of some cells the places on the axes of the pairs, and after them that of the factor."""
        count = len(self.factors)
        return [*self.pairs.places(rows // count), rows % count]

    @cached_property
    def texts(self) -> CellTexts:
        """The canonical JSON of the cells."""
        return CellTexts(self.label, self.pairs, self.factors)


class Piece(NamedTuple):
    """Some cells of one grid, in order."""

    grid: CellGrid
    rows: IntArray


class LazyCells(KnownCells):
    """Cells that are made when they are accessed; a slice is again such a sequence."""

    @abstractmethod
    def cell(self, number: int) -> Cell:
        """Return a cell by its number, from 0."""

    @abstractmethod
    def pieces(self, most: int = _PIECE) -> Iterator[Piece]:
        """Yield all cells in order, at most so many at a time."""

    @abstractmethod
    def picked(self, numbers: IntArray) -> "PickedCells":
        """Return some of the cells, by their numbers."""

    @abstractmethod
    def _picked(self, numbers: range) -> "PickedCells":
        """Return some of the cells."""

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> "PickedCells": ...
    def __getitem__(self, index: int | slice) -> "Cell | PickedCells":
        """Return a cell, or several as a sequence that makes them when they are accessed."""
        numbers = range(len(self))
        return self._picked(numbers[index]) if isinstance(index, slice) else self.cell(numbers[index])

    def __eq__(self, other: object) -> bool:
        """Whether the other sequence has the same cells."""
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        if isinstance(other, KnownCells):
            return self.sha256 == other.sha256
        return all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return the hash of the equal tuple."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Tell the number of cells, as they may be many."""
        return f"<{len(self):,} cells>"

    @cached_property
    def sha256(self) -> str:
        """As `StudySpec.cells_sha256`."""
        digest = hashlib.sha256()
        for text in self._lines():
            digest.update(text.encode())
        return digest.hexdigest()

    def _lines(self) -> Iterator[str]:
        """Yield the canonical JSON of the cells, a line each, many lines at a time."""
        for grid, rows in self.pieces():
            yield "".join(grid.texts.lines(grid.places(rows)))

    def labels(self) -> dict[str, int]:
        """Return how many cells each label has, in the order of their first appearance."""
        found: Counter[str] = Counter()
        for grid, rows in self.pieces():
            found[grid.label] += len(rows)
        return dict(found)

    @property
    def some_automatic(self) -> bool:
        """Whether the factor of any cell is to be chosen."""
        return any(
            grid.factors[place] is None
            for grid, rows in self.pieces()
            for place in np.unique(grid.places(rows)[-1]).tolist()
        )


class GridCells(LazyCells):
    """The cells of some grids, one after the other; the caller guarantees that no two are equal."""

    def __init__(self, grids: Sequence[CellGrid]) -> None:
        self.grids = tuple(grid for grid in grids if len(grid))
        #: The number of the first cell of each grid, and after them the number of all cells.
        self.starts = [0, *accumulate(map(len, self.grids))]

    def __len__(self) -> int:
        """Return the number of cells."""
        return self.starts[-1]

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return (cell for grid in self.grids for cell in grid.cells())

    def cell(self, number: int) -> Cell:
        """Return a cell by its number, from 0."""
        grid = bisect_right(self.starts, number) - 1
        return self.grids[grid].cell(number - self.starts[grid])

    def pieces(self, most: int = _PIECE) -> Iterator[Piece]:
        """Yield all cells in order, at most so many at a time."""
        for grid in self.grids:
            for start in range(0, len(grid), most):
                yield Piece(grid, np.arange(start, min(start + most, len(grid))))

    def picked(self, numbers: IntArray) -> "PickedCells":
        """Return some of the cells, by their numbers."""
        return PickedCells(self, numbers)

    def _picked(self, numbers: range) -> "PickedCells":
        return PickedCells(self, numbers)

    def _lines(self) -> Iterator[str]:
        for grid in self.grids:
            yield from grid.texts.all_lines()


class PickedCells(LazyCells):
    """Some cells of others, by their numbers."""

    def __init__(self, cells: GridCells, numbers: range | IntArray) -> None:
        self._cells, self._numbers = cells, numbers

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._numbers)

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return map(self._cells.cell, map(int, self._numbers))

    def cell(self, number: int) -> Cell:
        """Return a cell by its number, from 0."""
        return self._cells.cell(int(self._numbers[number]))

    def pieces(self, most: int = _PIECE) -> Iterator[Piece]:
        """Yield all cells in order, at most so many at a time."""
        starts = np.array(self._cells.starts)
        for start in range(0, len(self), most):
            numbers = np.asarray(self._numbers[start : start + most], dtype=np.int64)
            of_grid = np.searchsorted(starts, numbers, side="right") - 1
            ends = np.flatnonzero(np.diff(of_grid)) + 1
            for rows, (grid, *_) in zip(np.split(numbers, ends), np.split(of_grid, ends), strict=True):
                yield Piece(self._cells.grids[grid], rows - starts[grid])

    def picked(self, numbers: IntArray) -> "PickedCells":
        """Return some of the cells, by their numbers."""
        return PickedCells(self._cells, np.asarray(self._numbers)[numbers])

    def _picked(self, numbers: range) -> "PickedCells":
        if not numbers:
            return PickedCells(self._cells, numbers)
        # Before the first item there is none that a slice could end at.
        stop = None if numbers.stop < 0 else numbers.stop
        return PickedCells(self._cells, self._numbers[numbers.start : stop : numbers.step])
