"""An export as Parquet, a row for each point; what is not known is null."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pbdist.export.write import MARK, as_text
from pbdist.mechanisms.columns import is_text
from pbdist.query import Study
from pbdist.query.blocks import STATUS, Block, rows_of
from pbdist.store.layout import WITHIN
from pbdist.types import COMPOSITIONS, DIRECTION, JsonValue

#: So many points are a row group, of twice as many rows.
_POINTS_AT_ONCE = 1 << 16
_TEXTS = {"setting", "adjacency", DIRECTION, STATUS}
_WHOLE = {"cell", COMPOSITIONS}


class ParquetWriter:
    """Writes a row group for each piece of a block."""

    def __init__(self, study: Study, path: Path, length: int) -> None:  # noqa: ARG002 -- row groups are smaller
        self._spec, self._names = study.spec, study.row_columns
        fields = [pa.field(name, _kind(name), metadata={"description": what}) for name, what in self._names.items()]
        self._schema = pa.schema(fields)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, block: Block) -> None:
        """Write the points of the next cells."""
        every = range(len(self._spec.compositions)), range(len(self._spec.epsilon))
        for piece in block.pieces(_POINTS_AT_ONCE):
            rows = rows_of(piece, self._spec, *every, "each", names=self._names)
            # NaN becomes null.
            columns = [pa.array(rows[field.name], type=field.type, from_pandas=True) for field in self._schema]
            self._file.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def finish(self, about: dict[str, JsonValue]) -> None:
        """Write what is said of all."""
        self._file.add_key_value_metadata({MARK: as_text(about)})

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _kind(name: str) -> Any:
    if name in _TEXTS or is_text(name):
        return pa.string()
    if name in _WHOLE:
        return pa.int64()
    return pa.bool_() if name == WITHIN else pa.float64()
