"""The cells of a part of a store, read from its columns chunk by chunk when they are needed."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import zarr

from pbdist.errors import PbdistError, StoreDamagedError, UnknownMechanismError
from pbdist.mechanisms import MECHANISMS, Pair, pair_from_canonical
from pbdist.mechanisms.columns import depends_on_values, is_text, known_columns
from pbdist.store.layout import COLUMN_CHUNK, METADATA
from pbdist.store.place import Place, read_or_none
from pbdist.store.skeleton import FilesStore, digest_of
from pbdist.study import Cell
from pbdist.study.columns import Block, CellTable, absent
from pbdist.types import IntArray, JsonValue

#: The columns that a cell is made of.
_OF_CELL = ("mechanism", "pair", "factor")
#: How many chunks stay in memory.
_MAX_CHUNKS = 4


class StoredCells(CellTable):
    """The cells of a part of a store; damage is a `StoreDamagedError`.

    `files` has the SHA-256 of the files of the skeleton, `sha256` is `StudySpec.cells_sha256`.
    """

    def __init__(self, place: Place, files: Mapping[str, JsonValue], count: int, sha256: str) -> None:
        self._place, self._files, self._count = place, files, count
        self._read: dict[int, tuple[Any, ...]] = {}
        self.__dict__["sha256"] = sha256

    @cached_property
    def blocks(self) -> tuple[Block, ...]:  # type: ignore[override]  # read when they are needed
        """The blocks of all cells."""
        return CellTable.of(tuple(self)).blocks

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that there are, in the order of `known_columns`."""
        return tuple(name for name in known_columns() if f"{name}/{METADATA}" in self._files)

    def __len__(self) -> int:
        """Return the number of cells."""
        return self._count

    def labels(self) -> dict[str, int]:
        """Return how many cells each label has; no cell is made."""
        return dict(Counter(self.column("mechanism")))

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order."""
        return map(self.cell, range(self._count))

    def taken(self, numbers: IntArray) -> CellTable:
        """Return some cells by their numbers."""
        return CellTable.of(tuple(map(self.cell, numbers.tolist())))

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs, without the chunks in memory."""
        return {name: value for name, value in self.__dict__.items() if name != "blocks"} | {"_read": {}}

    def column(self, name: str) -> list[Any]:
        """Return a column of all cells, or ``pair``."""
        if name not in self.names and name not in _OF_CELL:
            return [absent(name)] * self._count
        return [value for chunk in range(-(-self._count // COLUMN_CHUNK)) for value in self._column(name, chunk)]

    @cached_property
    def examples(self) -> tuple[Pair, ...]:
        """A pair of each kind, and all pairs of the kinds whose values say which columns they have."""
        kinds = self.column("kind")
        found = {kind: [kinds.index(kind)] for kind in dict.fromkeys(kinds)}
        for kind in found:
            if kind in MECHANISMS and depends_on_values(MECHANISMS[kind]):
                found[kind] = [cell for cell, its in enumerate(kinds) if its == kind]
        return tuple(self[cell].pair for cells in found.values() for cell in cells)

    def cell(self, number: int) -> Cell:
        """Return a cell by its number."""
        chunk, row = divmod(number, COLUMN_CHUNK)
        if chunk not in self._read:
            while len(self._read) >= _MAX_CHUNKS:
                del self._read[next(iter(self._read))]
            self._read[chunk] = tuple(self._column(name, chunk) for name in _OF_CELL)
        labels, pairs, factors = self._read[chunk]
        try:
            factor = float(factors[row])
            pair = pair_from_canonical(json.loads(pairs[row]))
            return Cell(label=str(labels[row]), pair=pair, factor=None if math.isnan(factor) else factor)
        except UnknownMechanismError:
            # The columns are as they were written.
            raise
        except (ValueError, PbdistError) as error:
            raise self._damaged(str(error)) from error

    def _column(self, name: str, chunk: int) -> list[Any]:
        files: dict[str, bytes] = {}
        for file in (f"{name}/{METADATA}", f"{name}/{chunk}"):
            data = read_or_none(self._place, file)
            if data is None or self._files.get(file) != digest_of(data):
                raise self._damaged(f"{file} is missing or changed")
            files[file] = data
        start = chunk * COLUMN_CHUNK
        try:
            values = read_array(files, name, slice(start, start + COLUMN_CHUNK))
        except (ValueError, RuntimeError) as error:
            raise self._damaged(str(error)) from error
        if len(values) != min(COLUMN_CHUNK, self._count - start) or (values.dtype.kind == "f") == is_text(name):
            raise self._damaged(f"the column {name} has another shape or type")
        return list(values.tolist())

    def _damaged(self, problem: str) -> StoreDamagedError:
        text = " ".join(problem.split())
        return StoreDamagedError(
            f"{self._place.url}: the columns of the cells are damaged ({text}): run the study again to restore them"
        )


def read_array(files: Mapping[str, bytes], name: str, selection: Any = ...) -> Any:
    """Return a part of an array, from its metadata and chunks among some files.

    Raises `ValueError`, `RuntimeError` or `OSError` where they cannot be read.
    """
    return np.asarray(zarr.open_array(FilesStore(files).store, path=name, mode="r")[selection])
