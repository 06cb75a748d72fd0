"""Pairs from grids of their parameters: each is made when it is accessed, so that millions take no memory."""

import itertools
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np

from pbdist.mechanisms.pair import Pair
from pbdist.mechanisms.product import Product
from pbdist.types import Adjacency, IntArray, JsonValue

#: The field of a grid whose pairs are listed one by one.
WHOLE = "pair itself"
#: The field of a factor of a product.
_FACTOR = "pairs[{}]"


def encoder_of_forms(separators: tuple[str, str] | None = None) -> json.JSONEncoder:
    """Return an encoder of parameters, which may be pairs, in canonical form: one text for equal values."""
    return json.JSONEncoder(sort_keys=True, separators=separators, allow_nan=False, default=_canonical)


def _canonical(pair: Pair) -> dict[str, JsonValue]:
    return pair.canonical()


@dataclass(frozen=True)
class Axis:
    """Parameters that vary together: some fields of a pair, and for each of them as many values."""

    fields: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.values[0])

    @property
    def distinct(self) -> bool:
        """Whether no value occurs twice."""
        return len(set(zip(*self.values, strict=True))) == len(self)


def alike_values(values: Sequence[Any]) -> list[int]:
    """Return the places of the first values of each kind: those that say the same of their neighbours, if pairs.

    Numbers say nothing, and so do texts: of these it is the first one alone.
    """
    if not isinstance(values[0], Pair):
        return [0]
    found: dict[Hashable, int] = {}
    for place, pair in enumerate(values):
        said = pair.adjacency, frozenset((one.adjacency, one.removal) for one in pair.factors)
        found.setdefault(said, place)
    return list(found.values())


class PairGrid(Sequence[Pair]):
    """All combinations of the values of some axes, the last axis varying fastest.

    The parameters are as the pairs hold them. Two combinations of different values are different pairs. The caller
    guarantees that the constructor accepts all of them.

    Parameters
    ----------
    kind
        The class of the pairs; None where they are listed one by one.
    fixed
        The parameters that all pairs share, by the names of the fields.
    axes
        The others.
    """

    def __init__(self, kind: type[Pair] | None, fixed: Mapping[str, Any], axes: Sequence[Axis]) -> None:
        self.kind = kind
        self.fixed = dict(fixed)
        self.axes = tuple(axes)
        sizes = [len(axis) for axis in self.axes]
        self._length = int(np.prod(sizes, dtype=np.int64))
        self._strides = [int(np.prod(sizes[number + 1 :], dtype=np.int64)) for number in range(len(sizes))]
        self._names = tuple(name for axis in self.axes for name in axis.fields)

    @classmethod
    def listed(cls, pairs: Sequence[Pair]) -> "PairGrid":
        """Return the grid of pairs that are listed one by one."""
        return cls(None, {}, (Axis((WHOLE,), (tuple(pairs),)),))

    @classmethod
    def around(cls, base: Pair, axes: Sequence[Axis]) -> "PairGrid":
        """Return the grid of pairs that are as `base` but for the fields of some axes."""
        varying = {name for axis in axes for name in axis.fields}
        return cls(type(base), {k: v for k, v in values_of(base).items() if k not in varying}, axes)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self._length

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Pair, ...]: ...
    def __getitem__(self, index: int | slice) -> Pair | tuple[Pair, ...]:
        """Return a pair, or several as a tuple."""
        if isinstance(index, slice):
            return tuple(self[number] for number in range(self._length)[index])
        row = range(self._length)[index]
        return self.at([row // stride % len(axis) for axis, stride in zip(self.axes, self._strides, strict=True)])

    def __iter__(self) -> Iterator[Pair]:
        """Yield the pairs in order."""
        make, names, fixed = self._maker(), self._names, self.fixed
        for chosen in itertools.product(*(zip(*axis.values, strict=True) for axis in self.axes)):
            yield make({**fixed, **dict(zip(names, itertools.chain(*chosen), strict=True))})

    def at(self, places: Sequence[int]) -> Pair:
        """Return the pair of one place on each axis."""
        values = [column[place] for axis, place in zip(self.axes, places, strict=True) for column in axis.values]
        return self._maker()({**self.fixed, **dict(zip(self._names, values, strict=True))})

    def along(self, number: int) -> Iterator[Pair]:
        """Yield the pairs along one axis, at the first place of all others."""
        places = [0] * len(self.axes)
        for place in range(len(self.axes[number])):
            places[number] = place
            yield self.at(places)

    def adjacencies(self) -> set[Adjacency]:
        """Return what the pairs say of their neighbours; few of them are made, as no number tells."""
        if not self._length:
            return set()
        kinds = [sorted({place for column in axis.values for place in alike_values(column)}) for axis in self.axes]
        return {self.at(places).adjacency for places in itertools.product(*kinds)}

    def places(self, rows: IntArray) -> list[IntArray]:
        """Return on each axis the places of some pairs, given by their indices."""
        return [rows // stride % len(axis) for axis, stride in zip(self.axes, self._strides, strict=True)]

    def form(self, marks: Mapping[str, JsonValue]) -> JsonValue:
        """Return the canonical form of the first pair, with marks in place of the values of some fields."""
        if WHOLE in marks:
            return marks[WHOLE]
        form = self[0].canonical()
        if self.kind is Product:
            count = len(form["pairs"])
            form["pairs"] = [marks.get(_FACTOR.format(k), form["pairs"][k]) for k in range(count)]
            return form
        return {**form, **marks}

    def _maker(self) -> Callable[[dict[str, Any]], Pair]:
        if self.kind is Product:
            return _product
        kind = self.kind
        return _itself if kind is None else lambda arguments: kind(**arguments)


def values_of(pair: Pair) -> dict[str, Any]:
    """Return the parameters of a pair by the names of the fields of its grid."""
    if isinstance(pair, Product):
        return {_FACTOR.format(number): factor for number, factor in enumerate(pair.pairs)}
    return {one.name: getattr(pair, one.name) for one in fields(pair)}  # type: ignore[arg-type]  # a dataclass


def _product(arguments: dict[str, Any]) -> Pair:
    return Product(*(arguments[_FACTOR.format(number)] for number in range(len(arguments))))


def _itself(arguments: dict[str, Any]) -> Pair:
    pair: Pair = arguments[WHOLE]
    return pair
