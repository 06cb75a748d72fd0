"""The cells of a study: parameter grids, each cell at its index, its text and its hash, without a list of all."""

import hashlib
import itertools
import json
import re
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from json import JSONEncoder
from operator import itemgetter, methodcaller
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from pbdist.mechanisms.pair import Pair
from pbdist.mechanisms.product import Product
from pbdist.study.spec import Cell, KnownCells
from pbdist.types import Adjacency, BoolArray, IntArray, JsonValue

#: The field of a grid whose pairs are listed one by one.
WHOLE = "pair itself"
#: The field of a factor of a product.
_FACTOR = "pairs[{}]"


def encoder_of_forms(separators: tuple[str, str] | None = None) -> json.JSONEncoder:
    """Return an encoder of parameters, which may be pairs, in canonical form: one text for equal values."""
    return json.JSONEncoder(sort_keys=True, separators=separators, allow_nan=False, default=methodcaller("canonical"))


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
        return itemgetter(WHOLE) if kind is None else lambda arguments: kind(**arguments)


def values_of(pair: Pair) -> dict[str, Any]:
    """Return the parameters of a pair by the names of the fields of its grid."""
    if isinstance(pair, Product):
        return {_FACTOR.format(number): factor for number, factor in enumerate(pair.pairs)}
    return {one.name: getattr(pair, one.name) for one in fields(pair)}  # type: ignore[arg-type]  # a dataclass


def _product(arguments: dict[str, Any]) -> Pair:
    return Product(*(arguments[_FACTOR.format(number)] for number in range(len(arguments))))


#: Canonical JSON: one text for equal values.
CANONICAL = encoder_of_forms((",", ":"))
#: Lines are made in pieces of about so many characters.
_TEXT_PIECE = 2**20
#: Control characters, but for the line feed.
_MARKS = [chr(number) for number in range(1, 0x20) if chr(number) != "\n"]
_MARK = re.compile(f"[{''.join(_MARKS)}]")


class CellTexts:
    """The lines of ``StudySpec.cells_sha256``: the canonical JSON of each cell, and a line feed.

    A line is a text with marks, for which the texts of the values are put in. A mark is a control character, which JSON
    has in no text. More axes with several values than there are such characters have no study, as its cells were too
    many.
    """

    def __init__(self, label: str, pairs: PairGrid, factors: Sequence[float | None]) -> None:
        names = [name for axis in pairs.axes for name in axis.fields]
        marks = marks_of([*names, "factor"])
        form = {"label": label, "pair": pairs.form({name: marks[name] for name in names}), "factor": marks["factor"]}
        self._template = marked(CANONICAL, form) + "\n"
        texts = [[list(map(CANONICAL.encode, column)) for column in axis.values] for axis in pairs.axes]
        #: For each axis, that of the factors last, the mark of each field and the texts of its values.
        self._axes = [
            [(marks[name], column) for name, column in zip(axis.fields, columns, strict=True)]
            for axis, columns in zip(pairs.axes, texts, strict=True)
        ]
        of_factors = [CANONICAL.encode(None if factor is None else factor.hex()) for factor in factors]
        self._axes.append([(marks["factor"], of_factors)])

    def all_lines(self) -> Iterator[str]:
        """Yield the lines of all cells in order, many at a time: those of the last axes are put together once."""
        inner, outer = self._template, list(self._axes)
        while outer and len(inner) * len(outer[-1][0][1]) <= _TEXT_PIECE:
            axis = outer.pop()
            inner = "".join(_with(inner, axis, place) for place in range(len(axis[0][1])))
        for places in itertools.product(*(range(len(axis[0][1])) for axis in outer)):
            text = inner
            for axis, place in zip(outer, places, strict=True):
                text = _with(text, axis, place)
            yield text

    def lines(self, places: Sequence[IntArray]) -> Iterator[str]:
        """Yield the lines of some cells, of which the places on each axis are given."""
        columns = {
            mark: [texts[place] for place in at.tolist()]
            for axis, at in zip(self._axes, places, strict=True)
            for mark, texts in axis
        }
        return filled(self._template, columns)


def marks_of(names: Sequence[str]) -> dict[str, str]:
    """Return a mark for each name."""
    return dict(zip(names, _MARKS[: len(names)], strict=True))


def marked(encoder: JSONEncoder, form: JsonValue) -> str:
    """Return the JSON of a form with marks among its values: the marks stand there as they are."""
    text = encoder.encode(form)
    for mark in _MARKS:
        text = text.replace(encoder.encode(mark), mark)
    return text


def filled(template: str, columns: dict[str, list[str]]) -> Iterator[str]:
    """Yield a text with marks for each row of texts that are put in; of each mark there is one."""
    order = _MARK.findall(template)
    form = _MARK.sub("%s", template.replace("%", "%%"))
    return (form % row for row in zip(*(columns[mark] for mark in order), strict=True))


def _with(text: str, axis: Sequence[tuple[str, list[str]]], place: int) -> str:
    for mark, texts in axis:
        text = text.replace(mark, texts[place])
    return text


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
    def picked(self, numbers: range | IntArray) -> "PickedCells":
        """Return some of the cells, by their numbers."""

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> "PickedCells": ...
    def __getitem__(self, index: int | slice) -> "Cell | PickedCells":
        """Return a cell, or several as a sequence that makes them when they are accessed."""
        numbers = range(len(self))
        return self.picked(numbers[index]) if isinstance(index, slice) else self.cell(numbers[index])

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

    def picked(self, numbers: range | IntArray) -> "PickedCells":
        """Return some of the cells, by their numbers."""
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

    def picked(self, numbers: range | IntArray) -> "PickedCells":
        """Return some of the cells, by their numbers."""
        if not isinstance(numbers, range):
            return PickedCells(self._cells, np.asarray(self._numbers)[numbers])
        # Before the first item there is none that a slice could end at.
        stop = None if numbers.stop < 0 else numbers.stop
        return PickedCells(self._cells, self._numbers[numbers.start : stop : numbers.step] if numbers else numbers)


def columns_of_pairs(piece: Piece, describe: Callable[[Pair], Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return what describes the pair of each of some cells, one list a name; None where a pair has no such value.

    A value may depend on the parameters of one axis; where some depend on several, the pairs are made one by one.
    """
    grid, places = piece.grid.pairs, piece.grid.places(piece.rows)[:-1]
    base = [int(at[0]) for at in places]
    shared = describe(grid.at(base))
    found: dict[str, list[Any]] = {name: [value] * piece.rows.size for name, value in shared.items()}
    varying: set[str] = set()
    for number, at in enumerate(places):
        # Only values that occur are described.
        occurring, which = np.unique(at, return_inverse=True)
        rows = [describe(grid.at([*base[:number], place, *base[number + 1 :]])) for place in occurring.tolist()]
        for name in {name: None for row in rows for name in (*row, *shared)}:
            values = [row.get(name) for row in rows]
            if any(value != values[0] for value in values):
                if name in varying:
                    return _one_by_one(piece, describe)
                varying.add(name)
                found[name] = [values[row] for row in which.tolist()]
    return found


def _one_by_one(piece: Piece, describe: Callable[[Pair], Mapping[str, Any]]) -> dict[str, list[Any]]:
    rows = [describe(piece.grid.cell(row).pair) for row in piece.rows.tolist()]
    return {name: [row.get(name) for row in rows] for name in {name: None for row in rows for name in row}}


def texts_of_pairs(piece: Piece, encoder: JSONEncoder) -> Iterable[str]:
    """Return the canonical form of the pair of each of some cells as JSON."""
    grid, columns = piece.grid.pairs, {}
    marks = marks_of([name for axis in grid.axes for name in axis.fields])
    for axis, at in zip(grid.axes, piece.grid.places(piece.rows), strict=False):
        occurring, which = np.unique(at, return_inverse=True)
        for name, values in zip(axis.fields, axis.values, strict=True):
            texts = [encoder.encode(values[place]) for place in occurring.tolist()]
            columns[marks[name]] = [texts[row] for row in which.tolist()]
    template = marked(encoder, grid.form(marks))
    return filled(template, columns) if columns else [template] * piece.rows.size


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


class Repeated(NamedTuple):
    """The first cell of an entry that stands before it too, and the entry where it stood first."""

    entry: int
    cell: Cell
    first_entry: int


def repeated_cells(entries: Mapping[int, Sequence[CellGrid]]) -> Iterator[Repeated]:
    """Yield the first repeated cell of each entry that has one; the cells after it are not looked at."""
    by_label: dict[str, dict[int, Sequence[CellGrid]]] = {}
    for entry, grids in entries.items():
        for grid in grids[:1]:
            by_label.setdefault(grid.label, {})[entry] = grids
    for suspects in by_label.values():
        grids = [grid for each in suspects.values() for grid in each]
        # Cells of one grid whose values are distinct are distinct, and so are those of different labels.
        if len(grids) > 1 or not all(axis.distinct for axis in grids[0].pairs.axes):
            yield from _repeated(suspects)


def _repeated(entries: Mapping[int, Sequence[CellGrid]]) -> Iterator[Repeated]:
    cells = GridCells([grid for grids in entries.values() for grid in grids])
    first = distinct_numbers(hashes_of(cells))
    counts = [sum(map(len, grids)) for grids in entries.values()]
    #: Whether the cell that stands first under this number has been taken, and by which entry.
    taken_by = np.full(len(cells), -1)
    ends = np.cumsum(counts)
    for entry, start, end in zip(entries, ends - counts, ends, strict=True):
        mine = first[start:end]
        own_first = np.zeros(mine.size, dtype=bool)
        own_first[np.unique(mine, return_index=True)[1]] = True
        again = np.flatnonzero((taken_by[mine] >= 0) | ~own_first)
        stop = int(again[0]) if again.size else mine.size
        taken_by[mine[:stop]] = entry
        if again.size:
            yield Repeated(entry, cells[int(start) + stop], int(taken_by[mine[stop]]))
