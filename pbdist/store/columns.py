"""Read the cells of a study from the columns of a store, chunk by chunk when they are needed."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from pbdist.errors import PbdistError, StoreDamagedError
from pbdist.mechanisms import MECHANISMS, Pair, pair_from_canonical
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.store.arrays import decode
from pbdist.store.cell_columns import DescribedCells, absent, cell_columns, column_names, depends_on_values
from pbdist.store.documents import FileDigest, digest_of
from pbdist.store.files import OversizeError
from pbdist.store.json_text import json_of
from pbdist.store.layout import COLUMN_CHUNK
from pbdist.store.metadata import check_metadata_of
from pbdist.store.place import Place
from pbdist.study import Cell
from pbdist.study.spec import KnownCells

#: The columns that a cell is made of.
_OF_CELL = ("mechanism", "pair", "factor")
#: How many chunks stay in memory.
_MOST_CHUNKS = 4


def column_of(cells: Sequence[Cell], name: str) -> list[Any]:
    """Return a column that describes cells, of some cells; of stored cells it is read without making the cells."""
    return cells.column(name) if isinstance(cells, StoredCells) else cell_columns(cells, (name,))[name]


def columns_of(cells: Sequence[Cell]) -> Mapping[str, Sequence[Any]]:
    """Return the columns of `column_names`; of stored cells they are read one by one, and of others made at once."""
    if not isinstance(cells, StoredCells):
        return {name: values for name, values in cell_columns(cells).items() if name != "pair"}
    return {name: cells.column(name) for name in column_names(cells)}


class StoredCells(DescribedCells):
    """The cells of a part of a store, read and checked chunk by chunk; damage is a `StoreDamagedError`.

    `files` has size and SHA-256 of the files without results, `sha256` is `StudySpec.cells_sha256`, `advice` says what
    repairs damage.
    """

    def __init__(self, place: Place, files: Mapping[str, FileDigest], count: int, sha256: str, advice: str) -> None:
        self._place, self._count, self._sha256, self._advice = place, count, sha256, advice
        self._read: dict[int, tuple[Any, ...]] = {}
        own = {*known_columns(), "pair"}
        self._files = {name: entry for name, entry in files.items() if name.split("/", maxsplit=1)[0] in own}

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
        """Return a column of all cells, or ``pair``.

        A parameter that mechanisms have got since the part was made, which has no column there, is that of the cells.
        """
        if self._has(name) or name in _OF_CELL:
            return [value for chunk in range(self._chunks) for value in self._column(name, chunk)]
        return cell_columns(tuple(self))[name] if name in column_names(self) else [absent(name)] * self._count

    @cached_property
    def examples(self) -> tuple[Pair, ...]:
        """A pair of each kind, and all pairs of the kinds whose values say which columns they have."""
        kinds = self.column("kind")
        found = {kind: [kinds.index(kind)] for kind in dict.fromkeys(kinds)}
        for kind in found:
            if kind in MECHANISMS and depends_on_values(MECHANISMS[kind]):
                found[kind] = [cell for cell, its in enumerate(kinds) if its == kind]
        return tuple(self[cell].pair for cells in found.values() for cell in cells)

    def _has(self, name: str) -> bool:
        """Whether the part has a column."""
        return f"{name}/zarr.json" in self._files

    @property
    def _chunks(self) -> int:
        return -(-self._count // COLUMN_CHUNK)

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
        text = is_text(name)
        if values.shape != (min(COLUMN_CHUNK, self._count - start),) or (values.dtype.kind == "f") == text:
            raise self._damaged(f"a column {name} of another shape or type")
        if not text and np.isinf(values).any():
            raise self._damaged(f"infinity in the column {name}")
        return values.tolist()

    def _damaged(self, problem: str) -> StoreDamagedError:
        text = " ".join(problem.split())
        return StoreDamagedError(f"{self._place.url}: expected the cells of the study, got {text}: {self._advice}")
