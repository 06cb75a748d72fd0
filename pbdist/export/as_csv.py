"""An export as CSV, a line for each point, and beside it a file that says what it is.

Floats are the shortest decimals that read back as the same float64. What is not known, and what a mechanism does not
have, is empty; the natural logarithm of 0 is -inf.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pbdist.export.about import as_text
from pbdist.export.target import METADATA
from pbdist.query import Study
from pbdist.query.blocks import Block
from pbdist.query.rows import rows_of
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, JsonValue

#: So many points are lines in memory.
_POINTS_AT_ONCE = 1 << 14
_GRID = (DIRECTION, COMPOSITIONS, EPSILON, "exp_epsilon")


class _CsvWriter:
    """Writes the lines of cell after cell."""

    def __init__(self, study: Study, path: Path) -> None:
        self._spec, self._names, self._path = study.spec, study.row_columns, path
        names = tuple(self._names)
        at = names.index(_GRID[0])
        self._of_cell, self._of_point = names[:at], names[at + len(_GRID) :]
        self._grid: list[str] = []
        self._file = path.open("w", encoding="utf-8", newline="")
        self._file.write(f"{','.join(self._names)}\n")

    def write(self, block: Block) -> None:
        every = range(len(self._spec.compositions)), range(len(self._spec.epsilon))
        for piece in block.pieces(_POINTS_AT_ONCE):
            rows = rows_of(piece, self._spec, *every, "each", names=self._names)
            inner = len(rows["cell"]) // len(piece.cells)
            # The same for all cells.
            self._grid = self._grid or list(_lines([rows[name][:inner].tolist() for name in _GRID]))
            points = _lines([rows[name].tolist() for name in self._of_point])
            for cell in _lines([rows[name][::inner].tolist() for name in self._of_cell]):
                of_cell = zip(self._grid, islice(points, inner), strict=True)
                self._file.writelines(f"{cell},{grid},{point}\n" for grid, point in of_cell)

    def finish(self, about: dict[str, JsonValue]) -> None:
        columns = [{"name": name, "description": what} for name, what in self._names.items()]
        content = {"about": about, "columns": columns}
        self._path.with_name(self._path.name + METADATA).write_text(f"{as_text(content)}\n", encoding="utf-8")

    def close(self) -> None:
        self._file.close()


def writer(study: Study, path: Path, length: int) -> _CsvWriter:  # noqa: ARG001 -- lines have no chunks
    """Return what writes the export of a study."""
    return _CsvWriter(study, path)


def _lines(columns: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield lines of CSV without their ends, from columns."""
    texts = [[_text(value) for value in column] for column in columns]
    return map(",".join, zip(*texts, strict=True))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not set(value) & {",", '"', "\n", "\r"}:
        return str(value)
    quoted = io.StringIO()
    csv.writer(quoted, lineterminator="").writerow([value])
    return quoted.getvalue()
