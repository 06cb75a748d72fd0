"""Compare millions of cells by hashes of their canonical forms.

The hash of a cell has 128 bits: the sum, modulo 2^64 in each half, of the BLAKE2b digests of its label, factor and
parameters. Equal cells have equal hashes; two others have in one of about 10^24 studies of 10^7 cells.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pbdist.mechanisms.pair import Pair
from pbdist.study.cell_texts import CANONICAL
from pbdist.study.grid_cells import CellGrid, LazyCells
from pbdist.study.pair_grid import WHOLE
from pbdist.study.spec import Cell
from pbdist.types import BoolArray, IntArray

#: Two halves of each hash, shape (2, cells).
Hashes: TypeAlias = npt.NDArray[np.uint64]


class _Digests:
    """The digests of labels, factors and parameters; those of numbers are kept, as cells share them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, float], tuple[int, int]] = {}

    def of(self, field: str, value: Any) -> tuple[int, int]:
        """Return the halves of the digest of a value."""
        if type(value) is not float:
            return _digest(field, CANONICAL.encode(value))
        found = self._known.get((field, value))
        if found is None:
            found = self._known[field, value] = _digest(field, CANONICAL.encode(value))
        return found

    def of_pair(self, pair: Pair) -> tuple[int, int]:
        """Return the sums of the digests of the parameters."""
        first = second = 0
        for field, value in pair.canonical().items():
            # The factors of a product are parameters of their own, as they may vary by themselves.
            several = [(field, value)] if field != "pairs" else [(f"pairs[{k}]", one) for k, one in enumerate(value)]
            for name, each in several:
                one, other = self.of(name, each)
                first, second = first + one, second + other
        return first, second


def _digest(field: str, text: str) -> tuple[int, int]:
    data = hashlib.blake2b(f"{field} {text}".encode(), digest_size=16).digest()
    return int.from_bytes(data[:8], "big"), int.from_bytes(data[8:], "big")


def hashes_of(cells: Sequence[Cell]) -> Hashes:
    """Return the hashes of some cells; those from grids are not made."""
    result = np.empty((2, len(cells)), dtype=np.uint64)
    digests, start = _Digests(), 0
    if isinstance(cells, LazyCells):
        known: dict[int, list[Hashes]] = {}
        for grid, rows in cells.pieces():
            if id(grid) not in known:
                known = {id(grid): _of_axes(grid, digests)}
            here = slice(start, start + len(rows))
            result[:, here] = sum(column[:, at] for column, at in zip(known[id(grid)], grid.places(rows), strict=True))
            start += len(rows)
        return result
    for number, cell in enumerate(cells):
        parts = (digests.of("label", cell.label), _of_factor(cell.factor), digests.of_pair(cell.pair))
        result[:, number] = _wrapped(*parts)
    return result


def _of_axes(grid: CellGrid, digests: _Digests) -> list[Hashes]:
    """Return for each axis what its values add to the hashes; the factors, last, have all that does not vary too."""
    columns: list[Hashes] = []
    for axis in grid.pairs.axes:
        rows = [
            digests.of_pair(values[0])
            if axis.fields == (WHOLE,)
            else _summed([digests.of(field, value) for field, value in zip(axis.fields, values, strict=True)])
            for values in zip(*axis.values, strict=True)
        ]
        columns.append(np.array([_wrapped(row) for row in rows], dtype=np.uint64).T)
    shared = [digests.of("label", grid.label)]
    if grid.pairs.kind is not None:
        shared.append(digests.of("mechanism", grid.pairs.kind.__name__))
        shared += [digests.of(field, value) for field, value in grid.pairs.fixed.items()]
    of_factors = [_wrapped(*shared, _of_factor(factor)) for factor in grid.factors]
    return [*columns, np.array(of_factors, dtype=np.uint64).T]


def _of_factor(factor: float | None) -> tuple[int, int]:
    return _digest("factor", "null" if factor is None else factor.hex())


def _summed(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _wrapped(*parts: tuple[int, int]) -> tuple[int, int]:
    first, second = _summed(parts)
    return first % 2**64, second % 2**64


def distinct_numbers(hashes: Hashes) -> IntArray:
    """Return for each cell the number of the first one that is equal to it, which may be itself."""
    order = np.argsort(hashes[0], kind="stable")
    changes = np.diff(hashes[:, order], axis=1) != 0
    if np.any(changes[1] & ~changes[0]):
        # Rare: two cells that differ in the second half alone.
        order = np.lexsort((hashes[1], hashes[0]))
        changes = np.diff(hashes[:, order], axis=1) != 0
    is_new = np.concatenate(([True], changes[0] | changes[1]))[: order.size]
    # The sort is stable: the first cell of each group has the lowest number.
    result = np.empty(order.size, dtype=np.int64)
    result[order] = order[is_new][np.cumsum(is_new) - 1] if order.size else order
    return result


def standing_in(hashes: Hashes, others: Hashes) -> BoolArray:
    """Return which cells stand among others."""
    first = distinct_numbers(np.concatenate((others, hashes), axis=1))
    count = others.shape[1]
    return np.asarray(first[count:] < count)
