"""Read the cells of a study from the columns of a store, chunk by chunk when they are needed."""

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from pbdist.errors import PbdistError, StoreDamagedError
from pbdist.mechanisms import pair_from_canonical
from pbdist.store.arrays import decode
from pbdist.store.cell_columns import (
    OPTIONAL_OF_KIND,
    DescribedCells,
    absent,
    cell_columns,
    column_names,
    optional_of,
    row_of,
)
from pbdist.store.documents import FileDigest, digest_of
from pbdist.store.files import OversizeError
from pbdist.store.json_text import json_of
from pbdist.store.layout import COLUMN_CHUNK, COLUMNS, OPTIONAL_COLUMNS, TEXT_COLUMNS
from pbdist.store.metadata import check_metadata_of
from pbdist.store.place import Place
from pbdist.study import Cell
from pbdist.study.spec import KnownCells

#: The columns that a cell is made of.
_OF_CELL = ("mechanism", "pair", "factor")
#: How many chunks stay in memory.
_MOST_CHUNKS = 4


def column_of(cells: Sequence[Cell], name: str) -> list[Any]:
    """Return one column of `COLUMNS` of some cells; of stored cells it is read without making the cells."""
    return cells.column(name) if isinstance(cells, StoredCells) else cell_columns(cells, (name,))[name]


def columns_of(cells: Sequence[Cell]) -> Mapping[str, Sequence[Any]]:
    """Return the columns of `column_names`; of stored cells they are read one by one, and of others made at once."""
    if not isinstance(cells, StoredCells):
        return {name: values for name, values in cell_columns(cells).items() if name in COLUMNS}
    return {name: cells.column(name) for name in column_names(cells)}


class StoredCells(DescribedCells):
    """The cells of a part of a store, read and checked chunk by chunk; damage is a `StoreDamagedError`.

    `files` has size and SHA-256 of the files without results, `sha256` is `StudySpec.cells_sha256`, `advice` says what
    repairs damage.
    """

    def __init__(self, place: Place, files: Mapping[str, FileDigest], count: int, sha256: str, advice: str) -> None:
        self._place, self._count, self._sha256, self._advice = place, count, sha256, advice
        self._read: dict[int, tuple[Any, ...]] = {}
        self._files = {
            name: entry for name, entry in files.items() if name.split("/", maxsplit=1)[0] in {*COLUMNS, "pair"}
        }

    @property
    def sha256(self) -> str:
        """As `StudySpec.cells_sha256`."""
        return self._sha256

    def __len__(self) -> int:
        """Return the number of cells."""
        return self._count

    def labels(self) -> dict[str, int]:
        """As `KnownCells.labels`; no cell is made."""
        return dict(Counter(self.column("mechanism")))

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Cell, ...]: ...
    def __getitem__(self, index: int | slice) -> Cell | tuple[Cell, ...]:
        """Return a cell, or several as a tuple."""
        if isinstance(index, slice):
            return tuple(self._cell(number) for number in range(self._count)[index])
        return self._cell(range(self._count)[index])

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return map(self._cell, range(self._count))

    def __eq__(self, other: object) -> bool:
        """Whether the other sequence has the same cells."""
        if isinstance(other, KnownCells):
            return self._sha256 == other.sha256
        if not isinstance(other, Sequence) or len(other) != self._count:
            return False
        return all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return the hash of the equal tuple."""
        return hash(tuple(self))

    def _cell(self, number: int) -> Cell:
        chunk, row = divmod(number, COLUMN_CHUNK)
        labels, pairs, factors = self._columns(chunk)
        try:
            factor = float(factors[row])
            return Cell(
                label=str(labels[row]),
                pair=pair_from_canonical(json_of(str(pairs[row]).encode())),
                factor=None if math.isnan(factor) else factor,
            )
        except (ValueError, PbdistError) as error:
            raise self._damaged(str(error)) from error

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs, without the chunks in memory."""
        return {**self.__dict__, "_read": {}}

    def _columns(self, chunk: int) -> tuple[Any, ...]:
        """Return labels, canonical pairs as JSON, and factors of one chunk."""
        if chunk not in self._read:
            while len(self._read) >= _MOST_CHUNKS:
                del self._read[next(iter(self._read))]
            self._read[chunk] = tuple(self._column(name, chunk) for name in _OF_CELL)
        return self._read[chunk]

    def column(self, name: str) -> list[Any]:
        """Return a column of all cells: one of `COLUMNS`, or ``pair``.

        A parameter that mechanisms have got since the part was made, which has no column there, is that of the cells.
        """
        if name in OPTIONAL_COLUMNS and not self._has(name):
            return self._column_of_some(name)
        if name not in _OF_CELL and not self._has(name):
            return cell_columns(tuple(self))[name]
        return [value for chunk in range(self._chunks) for value in self._column(name, chunk)]

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """The columns of `OPTIONAL_COLUMNS` that any cell fills."""
        found = set(filter(self._has, OPTIONAL_COLUMNS))
        # A part that was made when a kind had no such columns lacks them.
        lacking = {kind for kind, names in OPTIONAL_OF_KIND.items() if not found.issuperset(names)}
        for kind, cells in self._of_kinds(lacking).items():
            found.update(OPTIONAL_OF_KIND[kind])
            if kind == "WorstOf":
                found.update(*(optional_of(self[cell].pair) for cell in cells))
        return tuple(name for name in OPTIONAL_COLUMNS if name in found)

    def _has(self, name: str) -> bool:
        """Whether the part has a column."""
        return f"{name}/zarr.json" in self._files

    @property
    def _chunks(self) -> int:
        return -(-self._count // COLUMN_CHUNK)

    def _of_kinds(self, kinds: Container[str]) -> dict[str, list[int]]:
        """Return the cells of some kinds, by their numbers."""
        found: dict[str, list[int]] = {}
        for chunk in range(self._chunks):
            there = self._column("kind", chunk)
            if any(kind in kinds for kind in set(there)):
                for cell, kind in enumerate(there, start=chunk * COLUMN_CHUNK):
                    if kind in kinds:
                        found.setdefault(kind, []).append(cell)
        return found

    def _column_of_some(self, name: str) -> list[Any]:
        """Return a column that the part does not have: of the cells that may fill it, which alone are made."""
        values = [absent(name)] * self._count
        if name in self.optional:
            kinds = {kind for kind, names in OPTIONAL_OF_KIND.items() if name in names or kind == "WorstOf"}
            for cells in self._of_kinds(kinds).values():
                for cell in cells:
                    values[cell] = row_of(self[cell].pair.canonical()).get(name, values[cell])
        return values

    def _column(self, name: str, chunk: int) -> Any:
        names = (f"{name}/zarr.json", f"{name}/c/{chunk}")
        files = {}
        for file in names:
            entry = self._files.get(file, {})
            try:
                data = self._place.read(file, int(entry.get("bytes", 0)))
            except FileNotFoundError as error:
                raise self._damaged(f"no file {' or '.join(names)}") from error
            except OversizeError as error:
                raise self._damaged(f"another file {file}") from error
            if entry.get("sha256") != digest_of(data):
                raise self._damaged(f"another file {file}")
            files[file] = data
        start = chunk * COLUMN_CHUNK
        try:
            check_metadata_of(files)
            values = decode(files, name, slice(start, start + COLUMN_CHUNK))
        except (ValueError, RuntimeError) as error:
            raise self._damaged(str(error)) from error
        is_text = name in TEXT_COLUMNS or name == "pair"
        if values.shape != (min(COLUMN_CHUNK, self._count - start),) or (values.dtype.kind == "f") == is_text:
            raise self._damaged(f"a column {name} of another shape or type")
        if not is_text and np.isinf(values).any():
            raise self._damaged(f"infinity in the column {name}")
        return values.tolist()

    def _damaged(self, problem: str) -> StoreDamagedError:
        text = " ".join(problem.split())
        return StoreDamagedError(f"{self._place.url}: expected the cells of the study, got {text}: {self._advice}")
