"""Cells that cost about the same: those of one kind whose parameters are of one size, so that one is looked at for all.

Sizes are binary orders of magnitude, exact on every machine.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np

from pbdist.mechanisms import NoisyCount, Pair, Product, RandomizedResponse
from pbdist.study.spec import Cell
from pbdist.types import IntArray

__all__ = ["alike_cells"]

#: So many cells are looked at, at most.
_MOST_CLASSES = 200
#: More than any binary order of a float is told apart by.
_COARSEST = 12
#: The size of 0, below all others.
_OF_ZERO = -2000


def alike_cells(cells: Sequence[Cell]) -> tuple[IntArray, tuple[int, ...]]:
    """Sort cells into classes.

    Parameters
    ----------
    cells : sequence of Cell

    Returns
    -------
    class_of : ndarray of int, shape (len(cells),)
        The class of each cell.
    examples : tuple of int
        The number of the cell that stands for each class: the middle one of its members.
    """
    # Most parameters of a large study come from grids: each value is measured once.
    sizes: dict[float, int] = {}
    numbers: dict[tuple[Hashable, ...], int] = {}
    readers: dict[type[Pair], Callable[[Any], tuple[Any, ...]]] = {}
    found = np.fromiter(
        (numbers.setdefault(_key(cell, sizes, readers), len(numbers)) for cell in cells),
        dtype=np.int64,
        count=len(cells),
    )
    class_of, count = found, len(numbers)
    for shift in range(1, _COARSEST):
        if count <= _MOST_CLASSES:
            break
        merged: dict[Hashable, int] = {}
        table = np.array([merged.setdefault(_coarser(key, shift), len(merged)) for key in numbers], dtype=np.int64)
        class_of, count = table[found], len(merged)
    order = np.argsort(class_of, kind="stable")
    ends = np.cumsum(np.bincount(class_of, minlength=count))
    starts = ends - np.bincount(class_of, minlength=count)
    return class_of, tuple(order[(starts + ends) // 2].tolist())


def _key(
    cell: Cell, sizes: dict[float, int], readers: dict[type[Pair], Callable[[Any], tuple[Any, ...]]]
) -> tuple[Hashable, ...]:
    key = _pair_key(cell.pair, sizes, readers)
    return key if cell.factor is None else (*key, _size(cell.factor - 1.0))


def _pair_key(
    pair: Pair, sizes: dict[float, int], readers: dict[type[Pair], Callable[[Any], tuple[Any, ...]]]
) -> tuple[Hashable, ...]:
    kind = type(pair)
    if kind is Product:
        return (kind, *(_pair_key(part, sizes, readers) for part in pair.pairs))  # type: ignore[attr-defined]
    if kind is RandomizedResponse:
        p = pair.p  # type: ignore[attr-defined]
        return (kind, _size(abs(p - 0.5)), _size(1.0 - p))
    reader = readers.get(kind)
    if reader is None:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every pair is a dataclass
        # One name more, so that one field is a tuple too.
        reader = readers[kind] = attrgetter(*names, "symmetric")
    key: list[Hashable] = [kind]
    for value in reader(pair):
        if type(value) is float:
            size = sizes.get(value)
            if size is None:
                size = sizes[value] = _size(value)
            key.append(size)
        elif isinstance(value, Pair):
            key.append(_pair_key(value, sizes, readers))
        elif isinstance(value, tuple):
            key.append(_size(float(len(value))) if len(value) != 2 else tuple(map(_size, value)))
        elif type(value) is int:
            key.append(_size(float(value)))
        else:
            key.append(value)
    if kind is NoisyCount:
        # How far 0 is from the mean decides how much is revealed.
        key.append(min(int(pair.mean / pair.noise.scale), 40))  # type: ignore[attr-defined]
    return tuple(key)


def _size(value: float) -> int:
    return math.frexp(value)[1] if value else _OF_ZERO


def _coarser(key: Hashable, shift: int) -> Hashable:
    if isinstance(key, tuple):
        return tuple(_coarser(part, shift) for part in key)
    return key >> shift if type(key) is int else key
