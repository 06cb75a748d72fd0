"""The cells of a study as a table: a column of each parameter, with its different values and a code for each cell."""

import hashlib
import itertools
import re
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, reduce
from json import JSONEncoder
from operator import methodcaller, xor
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from pbdist.mechanisms.pair import Pair
from pbdist.mechanisms.product import Product
from pbdist.mechanisms.texts import short_text
from pbdist.types import Adjacency, IntArray

#: So many rows are made text at a time.
_PIECE = 2**16
#: The column of pairs that are no grid.
WHOLE = "pair itself"
#: The column of a factor of a product.
_FACTOR = "pairs[{}]"
#: The kind in canonical forms.
_KIND = "mechanism"
#: What stands in a template for the value of a column.
_MARK = re.compile(r'"\\u0000(\d+)\\u0000"')

Hashes: TypeAlias = npt.NDArray[np.bytes_]
_T = TypeVar("_T")


def encoder_of_forms(separators: tuple[str, str] | None = None) -> JSONEncoder:
    """Return an encoder of parameters, which may be pairs, in canonical form: one text for equal values."""
    return JSONEncoder(sort_keys=True, separators=separators, allow_nan=False, default=methodcaller("canonical"))


#: The encoder of the text that digests are of.
_CANONICAL = encoder_of_forms((",", ":"))


@dataclass(frozen=True)
class Cell:
    """One pair of a study with all its r and ε: they share one leaf and one ladder of compositions."""

    #: The name that the study gives the mechanism.
    label: str
    #: The worst-case pair.
    pair: Pair
    #: The factor f > 1 between buckets of one round, or None where it is to be chosen.
    factor: float | None

    def describe(self) -> str:
        """Return a short text on one line: the label, and the canonical parameters that are set."""
        factor = "" if self.factor is None else f" factor={self.factor:g}"
        return f"{self.label}{short_text(self.pair.canonical())}{factor}"


class Column(NamedTuple):
    """The values of a parameter: the different ones, and for each row the number of its value."""

    values: Sequence[Any]
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Column":
        """Return the column of some hashable values."""
        numbers: dict[Any, int] = {}
        codes = [numbers.setdefault(value, len(numbers)) for value in values]
        return cls(tuple(numbers), np.array(codes, dtype=np.int32))

    @classmethod
    def constant(cls, value: Any, length: int) -> "Column":
        """Return the column of one value."""
        return cls((value,), np.broadcast_to(np.int32(0), length))

    @classmethod
    def joined(cls, columns: "Sequence[Column]") -> "Column":
        """Return the values of some columns, one after the other."""
        starts = itertools.accumulate((len(each.values) for each in columns), initial=0)
        codes = [each.codes + np.int32(start) for each, start in zip(columns, starts, strict=False)]
        return cls(tuple(itertools.chain(*(each.values for each in columns))), np.concatenate(codes))

    def each(self, read: Callable[[Any], _T]) -> list[_T]:
        """Return what is read of the value in each row; of each different value it is read once."""
        values, codes = self.used()
        found = [read(value) for value in values]
        return [found[code] for code in codes.tolist()]

    def used(self) -> "Column":
        """Return the same column, with no more values than rows."""
        if len(self.values) <= self.codes.size:
            return self
        numbers, codes = np.unique(self.codes, return_inverse=True)
        return Column([self.values[number] for number in numbers.tolist()], codes.astype(np.int32))

    def taken(self, rows: slice | IntArray) -> "Column":
        """Return the column of some rows."""
        codes = self.codes[rows]
        return Column(self.values, codes) if len(self.values) > 1 else Column.constant(self.values[0], codes.size)


def _itself(value: Any) -> Any:
    return value


class PairTable(Sequence[Pair]):
    """Pairs of one kind, with a column of each field; or pairs of any kinds in one column.

    The values are as the pairs hold them, and constructors accept those of each row.

    Parameters
    ----------
    kind
        The class of the pairs; None where `columns` are the pairs themselves, by the name `WHOLE`.
    columns
        All fields. A product has one of each factor.
    """

    def __init__(self, kind: type[Pair] | None, columns: Mapping[str, Column]) -> None:
        self.kind = kind
        self.columns = dict(columns)

    @classmethod
    def listed(cls, pairs: Sequence[Pair]) -> "PairTable":
        """Return the table of pairs of any kinds."""
        return cls(None, {WHOLE: Column(tuple(pairs), np.arange(len(pairs), dtype=np.int32))})

    @classmethod
    def grid(cls, base: Pair, axes: Mapping[str, Sequence[Any]]) -> "PairTable":
        """Return the pairs that are as `base` but for some fields: all combinations, the last field fastest."""
        if not fields_of(base):
            return cls.listed([base])
        sizes = [len(values) for values in axes.values()]
        count = int(np.prod(sizes, dtype=np.int64))
        columns = {name: Column.constant(value, count) for name, value in fields_of(base).items()}
        for number, (name, values) in enumerate(axes.items()):
            inner = int(np.prod(sizes[number + 1 :], dtype=np.int64))
            period = np.repeat(np.arange(len(values), dtype=np.int32), inner)
            columns[name] = Column(tuple(values), np.tile(period, count // max(1, period.size)))
        return cls(type(base), columns)

    @classmethod
    def joined(cls, tables: "Sequence[PairTable]") -> "PairTable":
        """Return the pairs of some tables, one after the other."""
        first, *others = tables
        if any(one.kind is not first.kind or one.columns.keys() != first.columns.keys() for one in others):
            return cls.listed([*itertools.chain(*tables)])
        columns = {name: Column.joined([one.columns[name] for one in tables]) for name in first.columns}
        return cls(first.kind, columns) if others else first

    def __len__(self) -> int:
        """Return the number of pairs."""
        return next(iter(self.columns.values())).codes.size

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> "PairTable": ...
    def __getitem__(self, index: int | slice) -> "Pair | PairTable":
        """Return a pair, or the table of several."""
        if isinstance(index, slice):
            return self.taken(index)
        row = range(len(self))[index]
        return self._made(column.values[column.codes[row]] for column in self.columns.values())

    def __iter__(self) -> Iterator[Pair]:
        """Yield the pairs in order."""
        return map(self._made, zip(*(column.each(_itself) for column in self.columns.values()), strict=True))

    def taken(self, rows: slice | IntArray) -> "PairTable":
        """Return the table of some rows."""
        return PairTable(self.kind, {name: column.taken(rows) for name, column in self.columns.items()})

    def _made(self, values: Any) -> Pair:
        if self.kind is None:
            (pair,) = values
            return pair  # type: ignore[no-any-return]  # the column of pairs
        return Product(*values) if self.kind is Product else self.kind(**dict(zip(self.columns, values, strict=True)))

    @property
    def distinct(self) -> bool:
        """Whether pairs of a grid are known to be different; nothing is known of others."""
        every = (column.values for column in self.columns.values())
        return self.kind is not None and all(len(set(values)) == len(values) for values in every)

    @property
    def adjacencies(self) -> set[Adjacency]:
        """What the pairs say of their neighbours; few of them are made, as only pairs within them matter."""
        if self.kind is None:
            return {pair.adjacency for pair in self}
        every = (column.values for column in self.columns.values())
        unlike_values = ([values[place] for place in unlike(values)] for values in every)
        return {self._made(values).adjacency for values in itertools.product(*unlike_values)}

    def texts(self, encoder: JSONEncoder) -> Iterable[str]:
        """Return the canonical form of each pair as JSON."""
        if self.kind is None:
            return self.columns[WHOLE].each(encoder.encode)
        varying = [name for name, column in self.columns.items() if len(column.values) > 1]
        marks = {name: f"\0{number}\0" for number, name in enumerate(varying)}
        form = self[0].canonical()
        if self.kind is Product:
            form["pairs"] = [marks.get(_FACTOR.format(k), pair) for k, pair in enumerate(form["pairs"])]
        else:
            form |= marks
        template = encoder.encode(form)
        found = [self.columns[varying[int(number)]].each(encoder.encode) for number in _MARK.findall(template)]
        pattern = _MARK.sub("%s", template.replace("%", "%%"))
        return (pattern % row for row in zip(*found, strict=True)) if found else itertools.repeat(template, len(self))


def fields_of(pair: Pair) -> dict[str, Any]:
    """Return the fields of a pair, with the names of the columns of a `PairTable`."""
    if isinstance(pair, Product):
        return {_FACTOR.format(number): factor for number, factor in enumerate(pair.pairs)}
    return {name: getattr(pair, name) for name in _field_names(type(pair))}


@cache
def _field_names(kind: type[Pair]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))  # type: ignore[arg-type]  # a dataclass


def unlike(values: Sequence[Any]) -> list[int]:
    """Return the places of the first values that say different things of their neighbours: only pairs say any."""
    if not isinstance(values[0], Pair):
        return [0]
    found: dict[Any, int] = {}
    for place, pair in enumerate(values):
        said = pair.adjacency, frozenset((one.adjacency, one.removal) for one in pair.factors)
        found.setdefault(said, place)
    return list(found.values())


class Block(NamedTuple):
    """Rows of the table that have the same columns."""

    label: Column
    pairs: PairTable
    factor: Column

    @classmethod
    def of(cls, label: str, pairs: PairTable, factors: Sequence[float | None] = (None,)) -> "Block":
        """Return the cells of some pairs under one label, each with all factors, which vary fastest."""
        count = len(pairs) * len(factors)
        if len(factors) == 1:
            return cls(Column.constant(label, count), pairs, Column.constant(factors[0], count))
        repeated = pairs.taken(np.repeat(np.arange(len(pairs)), len(factors)))
        codes = np.tile(np.arange(len(factors), dtype=np.int32), len(pairs))
        return cls(Column.constant(label, count), repeated, Column(tuple(factors), codes))

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.factor.codes.size

    def taken(self, rows: slice | IntArray) -> "Block":
        """Return some of the rows."""
        return Block(self.label.taken(rows), self.pairs.taken(rows), self.factor.taken(rows))

    def pieces(self) -> Iterator["Block"]:
        """Yield all rows, some at a time."""
        return (self.taken(slice(start, start + _PIECE)) for start in range(0, self.size, _PIECE))

    def cell(self, row: int) -> Cell:
        """Return the cell of a row."""
        label, factor = (column.values[column.codes[row]] for column in (self.label, self.factor))
        return Cell(label, self.pairs[row], factor)

    def cells(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return map(Cell, self.label.each(str), self.pairs, self.factor.each(_itself))

    def lines(self) -> Iterator[str]:
        """Yield a line of canonical JSON for each cell: the factor in hexadecimal, the label and the pair."""
        factors = self.factor.each(lambda factor: "null" if factor is None else f'"{factor.hex()}"')
        rows = zip(factors, self.label.each(_CANONICAL.encode), self.pairs.texts(_CANONICAL), strict=True)
        return (f'{{"factor":{factor},"label":{label},"pair":{pair}}}\n' for factor, label, pair in rows)

    def hashes(self) -> Hashes:
        """Return a hash of each row: equal cells have equal ones, and no others."""
        kind = {} if self.pairs.kind is None else {_KIND: Column.constant(self.pairs.kind.__name__, self.size)}
        found = np.zeros((self.size, 2), dtype=np.uint64)
        columns = {"label of the cell": self.label, "factor of the cell": self.factor, **kind, **self.pairs.columns}
        for name, column in columns.items():
            values, codes = column.used()
            digests = b"".join(_hash_of(name, value).to_bytes(16) for value in values)
            found ^= np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)[codes]
        return found.view("S16").ravel()


def _hash_of(column: str, value: Any) -> int:
    """Return a hash of a value in a column; that of a whole pair is the one of its kind and fields together."""
    if column == WHOLE:
        parts = {_KIND: "Product", **fields_of(value)} if isinstance(value, Product) else value.canonical()
        return reduce(xor, itertools.starmap(_hash_of, parts.items()))
    text = f"{column} {_CANONICAL.encode(value)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())


class KnownCells(Sequence[Cell]):
    """Cells that are read when they are accessed, whose `StudySpec.cells_sha256` is known without reading them."""

    @property
    @abstractmethod
    def sha256(self) -> str:
        """As `StudySpec.cells_sha256`."""

    @property
    def some_automatic(self) -> bool:
        """Whether the factor of any cell is to be chosen."""
        return any(cell.factor is None for cell in self)

    def labels(self) -> dict[str, int]:
        """Return how many cells each label has, in the order of their first appearance."""
        return dict(Counter(cell.label for cell in self))


class CellTable(KnownCells):
    """The table of the cells of a study; a cell is made when it is accessed, and a slice is again a table."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(block for block in blocks if block.size)
        #: The number of the first cell of each block, and after them the number of all cells.
        self._starts = [0, *itertools.accumulate(block.size for block in self.blocks)]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> "CellTable":
        """Return the table of some cells, which may be one already."""
        if isinstance(cells, CellTable):
            return cells
        # Stored cells are read once.
        listed = tuple(cells)
        labels, factors = (Column.of(getattr(cell, name) for cell in listed) for name in ("label", "factor"))
        return cls([Block(labels, PairTable.listed([cell.pair for cell in listed]), factors)])

    def __len__(self) -> int:
        """Return the number of cells."""
        return self._starts[-1]

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return itertools.chain.from_iterable(piece.cells() for block in self.blocks for piece in block.pieces())

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> "CellTable": ...
    def __getitem__(self, index: int | slice) -> "Cell | CellTable":
        """Return a cell, or the table of several."""
        if isinstance(index, slice):
            return self.taken(np.arange(*index.indices(len(self))))
        number = range(len(self))[index]
        block = bisect_right(self._starts, number) - 1
        return self.blocks[block].cell(number - self._starts[block])

    def taken(self, numbers: IntArray) -> "CellTable":
        """Return the table of some cells, by their numbers."""
        block_of = self.block_of(numbers)
        ends = np.flatnonzero(np.diff(block_of)) + 1
        parts = zip(np.split(numbers, ends), np.split(block_of, ends), strict=True) if numbers.size else ()
        return CellTable([self.blocks[block].taken(part - self._starts[block]) for part, (block, *_) in parts])

    def block_of(self, numbers: IntArray) -> IntArray:
        """Return the number of the block of each of some cells."""
        return np.searchsorted(self._starts, numbers, side="right") - 1

    def __eq__(self, other: object) -> bool:
        """Whether the other sequence has the same cells."""
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return self.sha256 == other.sha256 if isinstance(other, KnownCells) else tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Return the hash of the equal tuple."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return the number of cells, as they may be many."""
        return f"<{len(self):,} cells>"

    @cached_property
    def sha256(self) -> str:
        """As `StudySpec.cells_sha256`."""
        digest = hashlib.sha256()
        for block in self.blocks:
            for piece in block.pieces():
                digest.update("".join(piece.lines()).encode())
        return digest.hexdigest()

    def hashes(self) -> Hashes:
        """Return a hash of each cell: equal cells have equal ones, and no others."""
        return np.concatenate([np.empty(0, dtype="S16"), *(block.hashes() for block in self.blocks)])

    def labels(self) -> dict[str, int]:
        """Return how many cells each label has, in the order of their first appearance."""
        found: Counter[str] = Counter()
        for block in self.blocks:
            found.update({block.label.values[0]: block.size} if len(block.label.values) == 1 else block.label.each(str))
        return dict(found)

    @property
    def some_automatic(self) -> bool:
        """Whether the factor of any cell is to be chosen."""
        factors = [block.factor for block in self.blocks]
        return any(each.values[code] is None for each in factors for code in np.unique(each.codes).tolist())


def known(cells: Sequence[Cell]) -> KnownCells:
    """Return cells that know their digest and labels: those given, or a table of them."""
    return cells if isinstance(cells, KnownCells) else CellTable.of(cells)


class Repeated(NamedTuple):
    """A repeated cell: the number of its block, the cell, and the number of the block that has it first."""

    block: int
    cell: Cell
    first_block: int


def repeated_cells(blocks: Sequence[Block]) -> Iterator[Repeated]:
    """Yield the first repeated cell of each block that has one."""
    by_label: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        if block.size:
            by_label.setdefault(block.label.values[0], []).append(number)
    for numbers in by_label.values():
        # Cells of one grid whose values are different are different, and so are those of different labels.
        if len(numbers) == 1 and blocks[numbers[0]].pairs.distinct:
            continue
        cells = CellTable([blocks[number] for number in numbers])
        _, first, place = np.unique(cells.hashes(), return_index=True, return_inverse=True)
        again = np.flatnonzero(first[place] < np.arange(len(cells)))
        block_of, first_block_of = (cells.block_of(found) for found in (again, first[place][again]))
        for block, row in zip(*np.unique(block_of, return_index=True), strict=True):
            yield Repeated(numbers[block], cells[int(again[row])], numbers[first_block_of[row]])
