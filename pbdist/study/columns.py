"""The cells of a study as a table: a column for each parameter, with its distinct values and a code for each cell.

Stores, queries and exports have them as columns too: label, kind, noise, factor, the parameters, the canonical pair.
"""

import hashlib
import itertools
import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from json import JSONEncoder
from operator import eq, methodcaller
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from pbdist.mechanisms import columns as declared
from pbdist.mechanisms.columns import composite_text, short_text
from pbdist.mechanisms.composite import Product
from pbdist.mechanisms.pair import Pair
from pbdist.types import Adjacency, IntArray

#: So many rows are made text at a time.
_PIECE = 2**16
#: The column of pairs that are no grid, and that of a factor of a product.
WHOLE, _FACTOR = "pair itself", "pairs[{}]"
#: What stands in a template for the value of a column.
_MARK = re.compile(r'"\\u0000(\d+)\\u0000"')


#: Encoders of parameters, which may be pairs, in canonical form: for the text that digests are of, and for columns.
_CANONICAL, _FORMS = (
    JSONEncoder(sort_keys=True, separators=separators, allow_nan=False, default=methodcaller("canonical"))
    for separators in ((",", ":"), None)
)


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
    """The values of a parameter: the distinct ones, and for each row the number of its value."""

    values: Sequence[Any]
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Column":
        """Return the column of some hashable values."""
        numbers: dict[Any, int] = {}
        codes = [numbers.setdefault(value, len(numbers)) for value in values]
        return cls(tuple(numbers), np.array(codes, dtype=np.int32))

    @classmethod
    def repeated(cls, values: Sequence[Any], each: int = 1, times: int = 1) -> "Column":
        """Return the column that has each value `each` times in a row, and all of them `times` times over."""
        if len(values) == 1:
            return cls(values, np.broadcast_to(np.int32(0), each * times))
        return cls(values, np.tile(np.repeat(np.arange(len(values), dtype=np.int32), each), times))

    def each(self, read: Callable[[Any], Any] = lambda value: value) -> list[Any]:
        """Return what is read of the value in each row; each distinct value is read once."""
        used = np.unique(self.codes).tolist() if len(self.values) > self.codes.size else range(len(self.values))
        found = {number: read(self.values[number]) for number in used}
        return [found[code] for code in self.codes.tolist()]

    def taken(self, rows: slice | IntArray) -> "Column":
        """Return the column of some rows."""
        codes = self.codes[rows]
        return Column(self.values, codes) if len(self.values) > 1 else Column.repeated(self.values, codes.size)


class Block(NamedTuple):
    """Cells of one kind of mechanism, with a column for each field; or of any kinds, with the pairs in one column.

    The values are as the pairs hold them, and constructors accept those of each row.
    """

    #: The class of the pairs; None where the columns are the pairs themselves, by the name `WHOLE`.
    kind: type[Pair] | None
    #: Those of all fields. A product has one for each factor.
    columns: Mapping[str, Column]
    label: Column
    factor: Column

    @classmethod
    def listed(cls, pairs: Sequence[Pair]) -> "Block":
        """Return the block of pairs of any kinds, without labels and factors."""
        none = Column.repeated((None,), len(pairs))
        return cls(None, {WHOLE: Column.repeated(tuple(pairs))}, none, none)

    @classmethod
    def grid(cls, base: Pair, axes: Mapping[str, Sequence[Any]]) -> "Block":
        """Return the pairs that are as `base` but for some fields: all combinations, the last field fastest."""
        held = {name: axes.get(name, (value,)) for name, value in fields_of(base).items()}
        if not held:
            return cls.listed([base])
        columns, times, count = dict[str, Column](), 1, math.prod(map(len, held.values()))
        for name, values in held.items():
            columns[name] = Column.repeated(values, count // (times * len(values)), times)
            times *= len(values)
        none = Column.repeated((None,), count)
        return cls(type(base), columns, none, none)

    def labelled(self, label: str, factors: Sequence[float | None] = (None,)) -> "Block":
        """Return the cells of the pairs under one label, each with all factors, which vary fastest."""
        pairs = self if len(factors) == 1 else self.taken(np.repeat(np.arange(self.size), len(factors)))
        factor = Column.repeated(tuple(factors), times=self.size)
        return pairs._replace(label=Column.repeated((label,), pairs.size), factor=factor)

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.factor.codes.size

    @property
    def distinct(self) -> bool:
        """Whether cells of one label are known to be different: those of a grid without repeated values are."""
        every = (self.factor, *self.columns.values())
        return self.kind is not None and all(len(set(column.values)) == len(column.values) for column in every)

    @property
    def adjacencies(self) -> set[Adjacency]:
        """What the pairs say of their neighbours; few of them are made, as only pairs within them matter."""
        if self.kind is None:
            return {pair.adjacency for pair in self.pairs()}
        unlike_values = ([column.values[place] for place in unlike(column.values)] for column in self.columns.values())
        return {self._made(values).adjacency for values in itertools.product(*unlike_values)}

    def taken(self, rows: slice | IntArray) -> "Block":
        """Return some of the rows."""
        columns = {name: column.taken(rows) for name, column in self.columns.items()}
        return Block(self.kind, columns, self.label.taken(rows), self.factor.taken(rows))

    def pieces(self) -> Iterator["Block"]:
        """Yield all rows, some at a time."""
        return (self.taken(slice(start, start + _PIECE)) for start in range(0, self.size, _PIECE))

    def cell(self, row: int) -> Cell:
        """Return the cell of a row."""
        label, factor, *values = (
            column.values[column.codes[row]] for column in (self.label, self.factor, *self.columns.values())
        )
        return Cell(label, self._made(values), factor)

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs in order."""
        for piece in self.pieces():
            yield from map(self._made, zip(*(column.each() for column in piece.columns.values()), strict=True))

    def cells(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return map(Cell, self.label.each(), self.pairs(), self.factor.each())

    def _made(self, values: Iterable[Any]) -> Pair:
        if self.kind is None:
            (pair,) = values
            return pair  # type: ignore[no-any-return]  # the column of pairs
        if self.kind is Product:
            return Product(*values)
        # Without the checks of its constructor, which has accepted these values.
        made = object.__new__(self.kind)
        vars(made).update(zip(self.columns, values, strict=True))
        return made

    def texts(self, encoder: JSONEncoder) -> Iterable[str]:
        """Return the canonical form of each pair as JSON."""
        if self.kind is None:
            return self.columns[WHOLE].each(encoder.encode)
        varying = [name for name, column in self.columns.items() if len(column.values) > 1]
        marks = {name: f"\0{number}\0" for number, name in enumerate(varying)}
        form = self.cell(0).pair.canonical()
        if self.kind is Product:
            form["pairs"] = [marks.get(_FACTOR.format(k), pair) for k, pair in enumerate(form["pairs"])]
        else:
            form |= marks
        template = encoder.encode(form)
        found = [self.columns[varying[int(number)]].each(encoder.encode) for number in _MARK.findall(template)]
        pattern = _MARK.sub("%s", template.replace("%", "%%"))
        return (pattern % row for row in zip(*found, strict=True)) if found else itertools.repeat(template, self.size)

    def lines(self) -> Iterator[str]:
        """Yield a line of canonical JSON for each cell: the factor in hexadecimal, the label and the pair."""
        factors = self.factor.each(lambda factor: "null" if factor is None else f'"{factor.hex()}"')
        rows = zip(factors, self.label.each(_CANONICAL.encode), self.texts(_CANONICAL), strict=True)
        return (f'{{"factor":{factor},"label":{label},"pair":{pair}}}\n' for factor, label, pair in rows)


def fields_of(pair: Pair) -> dict[str, Any]:
    """Return the fields of a pair, with the names of the columns of a `Block`."""
    if isinstance(pair, Product):
        return {_FACTOR.format(number): factor for number, factor in enumerate(pair.pairs)}
    return {one.name: getattr(pair, one.name) for one in fields(pair)}  # type: ignore[arg-type]  # a dataclass


def unlike(values: Sequence[Any]) -> list[int]:
    """Return the places of the first values that say different things of their neighbours: only pairs say any."""
    if not isinstance(values[0], Pair):
        return [0]
    found: dict[Any, int] = {}
    for place, pair in enumerate(values):
        said = pair.adjacency, frozenset((one.adjacency, one.removal) for one in pair.factors)
        found.setdefault(said, place)
    return list(found.values())


class CellTable(Sequence[Cell]):
    """The table of the cells of a study; a cell is made when it is accessed, and a slice is again a table."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = tuple(block for block in blocks if block.size)
        #: The number of the first cell of each block, and after them the number of all cells.
        self._starts = [0, *itertools.accumulate(block.size for block in self.blocks)]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> "CellTable":
        """Return the table of some cells, which may be one already."""
        if isinstance(cells, CellTable):
            return cells
        listed = tuple(cells)
        labels, factors = (Column.of(getattr(cell, name) for cell in listed) for name in ("label", "factor"))
        return cls([Block.listed([cell.pair for cell in listed])._replace(label=labels, factor=factors)])

    def __len__(self) -> int:
        """Return the number of cells."""
        return self._starts[-1]

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return itertools.chain.from_iterable(piece.cells() for block in self.blocks for piece in block.pieces())

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Cell]: ...
    def __getitem__(self, index: int | slice) -> Cell | Sequence[Cell]:
        """Return a cell, or several."""
        if isinstance(index, slice):
            return self.taken(np.arange(*index.indices(len(self))))
        return self.cell(range(len(self))[index])

    def __eq__(self, other: object) -> bool:
        """Whether the other sequence has the same cells."""
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return self.sha256 == other.sha256 if isinstance(other, CellTable) else all(map(eq, self, other))

    def __hash__(self) -> int:
        """Return the hash of the equal tuple."""
        return hash(tuple(self))

    def cell(self, number: int) -> Cell:
        """Return a cell by its number."""
        block = bisect_right(self._starts, number) - 1
        return self.blocks[block].cell(number - self._starts[block])

    def taken(self, numbers: IntArray) -> "CellTable":
        """Return the table of some cells, by their numbers."""
        block_of = self.block_of(numbers)
        ends = np.flatnonzero(np.diff(block_of)) + 1
        parts = zip(np.split(numbers, ends), np.split(block_of, ends), strict=True) if numbers.size else ()
        return CellTable(self.blocks[block].taken(part - self._starts[block]) for part, (block, *_) in parts)

    def block_of(self, numbers: IntArray) -> IntArray:
        """Return the number of the block of each of some cells."""
        return np.searchsorted(self._starts, numbers, side="right") - 1

    @cached_property
    def sha256(self) -> str:
        """As `StudySpec.cells_sha256`."""
        digest = hashlib.sha256()
        for block in self.blocks:
            for piece in block.pieces():
                digest.update("".join(piece.lines()).encode())
        return digest.hexdigest()

    def hashes(self) -> npt.NDArray[np.bytes_]:
        """Return a hash of each cell: equal cells have equal ones, and no others."""
        lines = (line for block in self.blocks for piece in block.pieces() for line in piece.lines())
        digests = (hashlib.blake2b(line.encode(), digest_size=16).digest() for line in lines)
        return np.fromiter(digests, dtype="S16", count=len(self))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that describe the cells: label, kind, noise, factor, and the parameters of their kinds."""
        return tuple(column_descriptions(self))

    def column(self, name: str) -> list[Any]:
        """Return a column of all cells, or ``pair``."""
        return cell_columns(self, (name,))[name]

    def labels(self) -> dict[str, int]:
        """Return how many cells each label has."""
        found = Counter[str]()
        for values, codes in (block.label for block in self.blocks):
            found.update(dict(zip(values, np.bincount(codes).tolist(), strict=False)))
        return {label: count for label, count in found.items() if count}


def repeated_cells(cells: CellTable) -> Iterator[tuple[int, Cell, int]]:
    """Yield the first repeated cell of each block: the number of the block, the cell, and the block that has it first.

    The blocks have one label each.
    """
    labels = {block.label.values[0] for block in cells.blocks}
    if len(labels) < len(cells.blocks) or not all(block.distinct for block in cells.blocks):
        _, first, place = np.unique(cells.hashes(), return_index=True, return_inverse=True)
        again = np.flatnonzero(first[place] < np.arange(len(cells)))
        block_of, first_block_of = (cells.block_of(found) for found in (again, first[place][again]))
        for block, row in zip(*np.unique(block_of, return_index=True), strict=True):
            yield int(block), cells[int(again[row])], int(first_block_of[row])


def absent(name: str) -> str | float:
    """Return what stands in a column for a parameter that a mechanism does not have."""
    return "" if declared.is_text(name) else math.nan


def column_descriptions(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the columns that describe some cells, and what each holds; few cells are made."""
    found: dict[str, set[str]] = {}
    for block in CellTable.of(cells).blocks:
        few = block.kind is not None and not declared.depends_on_values(block.kind)
        for pair in (block.taken(slice(1)) if few else block).pairs():
            kind = type(pair)
            if declared.depends_on_values(kind):
                form = pair.canonical()
                for name in {kind.__name__, *(factor["mechanism"] for factor in declared.factors_of(form))}:
                    found.setdefault(name, set()).update(declared.row_of(form))
            elif kind.__name__ not in found:
                found[kind.__name__] = declared.columns_of_kind(kind)
    return declared.described_columns(found)


def cell_columns(cells: Sequence[Cell], also: Collection[str] = ()) -> dict[str, list[str | float]]:
    """Return the columns of `CellTable.names`, those in `also`, and ``pair``, with one value a cell.

    ``pair`` is the canonical form as JSON. A column that a mechanism does not have is empty text or NaN.
    """
    wanted = {*CellTable.of(cells).names, *also, "pair"}
    columns: dict[str, list[str | float]] = {name: [] for name in (*declared.known_columns(), "pair") if name in wanted}
    for block in CellTable.of(cells).blocks:
        found = _columns_of(block)
        for name, values in columns.items():
            none, given = absent(name), found.get(name, itertools.repeat(None, block.size))
            values.extend(none if value is None else value for value in given)
    return columns


def _columns_of(block: Block) -> dict[str, Iterable[str | float | None]]:
    """Return the columns that some cells fill; None where one has no value."""
    kind, texts = block.kind, [*block.texts(_FORMS)]
    found: dict[str, Iterable[str | float | None]] = {
        "mechanism": block.label.each(str),
        "factor": block.factor.each(),
        "pair": texts,
    }
    if kind is None or declared.depends_on_values(kind):
        rows = [declared.row_of(json.loads(text)) for text in texts]
        return found | {name: [row.get(name) for row in rows] for name in dict.fromkeys(itertools.chain(*rows))}
    found |= {"kind": [kind.__name__] * block.size, "noise": [kind.noise_family] * block.size}
    for name, (_, (field, *keys)) in declared.places_of(kind).items():
        found[name] = block.columns[str(field)].each(partial(declared.column_value, keys=tuple(keys)))
    if declared.is_composite(kind):
        found["made_of"] = [composite_text(json.loads(text)) for text in texts]
    return found
