"""Write a study as one flat table, some cells at a time."""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np

from pbdist.errors import MissingDependencyError, StoreIncompleteError
from pbdist.export.about import Points, about_study
from pbdist.export.target import checked_target, written_beside
from pbdist.query import Study, open_study
from pbdist.query.blocks import Block, PointState
from pbdist.query.rows import attained_of
from pbdist.store import Place
from pbdist.types import Direction, JsonValue

#: About so many bytes of one array of bounds are in memory, and are a chunk of an export.
_CHUNK_BYTES = 1 << 22
#: The module of each form, and the packages that it needs beside those that pbdist always has.
_FORMS = {
    ".zarr": ("pbdist.export.as_zarr", ()),
    ".nc": ("pbdist.export.as_netcdf", ("h5netcdf", "h5py")),
    ".parquet": ("pbdist.export.as_parquet", ("pyarrow",)),
    ".csv": ("pbdist.export.as_csv", ()),
}


class Writer(Protocol):
    """Writes one form of export: the blocks of a study in order, and in the end what is said of it."""

    def write(self, block: Block) -> None:
        """Write the points of the next cells."""

    def finish(self, about: dict[str, JsonValue]) -> None:
        """Write the rest."""

    def close(self) -> None:
        """Close all files, also after an error."""


@dataclass(frozen=True)
class Exported:
    """What was exported.

    Attributes
    ----------
    path
        Where it is.
    cells, points
        The numbers of cells and of points (cell, r, ε).
    lacking
        What has no bounds, in words; empty for a complete study.
    refinements
        How many refinements of queries were left out: they are no part of the study.
    """

    path: Path
    cells: int
    points: int
    lacking: str
    refinements: int


def export_study(store: str | Path | Place, out: str | Path, *, allow_incomplete: bool = False) -> Exported:
    """Write the study of a store, all its parts, as one flat table.

    It is written beside `out` and renamed in the end. An existing path is never overwritten, and the same store gives
    the same bytes. A few chunks are in memory at a time.

    Parameters
    ----------
    store
        The store: a path, or a URL ``s3://BUCKET/PREFIX``.
    out
        A path that ends in ``.zarr``, ``.nc``, ``.parquet`` or ``.csv``. The first two hold arrays, and `open_export`
        opens them as `Study.bounds` is. The others have the rows of ``Study.frame(direction="each")``.
    allow_incomplete
        Whether to export a store that lacks results or has damaged ones. They are not a number, and the attributes say
        how many they are.

    Raises
    ------
    StoreIncompleteError
        The store lacks results, some failed or are damaged, and that is not allowed.
    InvalidInputError
        `out` is not such a path, exists already, or lies in a store.
    MissingDependencyError
        A package for that form is not installed.
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `open_study`; or metadata or coordinates of the store have changed.
    """
    path = checked_target(out)
    module, packages = _FORMS[path.suffix]
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    if lacking:
        raise MissingDependencyError(f"an export as {path.suffix} needs {lacking[0]}: pip install 'pbdist[export]'")
    study = open_study(store)
    if not study.complete and not allow_incomplete:
        raise _incomplete(study, "some of its results are missing or failed")
    with written_beside(path) as temporary:
        length = _cells_at_once(study)
        writer: Writer = import_module(module).writer(study, temporary, length)
        points = Points()
        try:
            for block in _blocks(study, length):
                _count(study, block, points)
                if points.lacking and not allow_incomplete:
                    raise _incomplete(study, f"{points.lacking} points")
                writer.write(block)
            about = about_study(study, points)
            writer.finish(about)
        finally:
            writer.close()
    return Exported(path, len(study.spec.cells), points.all, points.lacking, int(about["refinements_left_out"]))


def _cells_at_once(study: Study) -> int:
    points = len(Direction) * len(study.spec.compositions) * len(study.spec.epsilon)
    return int(min(len(study.spec.cells), max(1, _CHUNK_BYTES // (8 * points))))


def _blocks(study: Study, length: int) -> Iterator[Block]:
    count = len(study.spec.cells)
    for start in range(0, count, length):
        yield study.blocks.read(np.arange(start, min(start + length, count)))


def _count(study: Study, block: Block, points: Points) -> None:
    counts = np.bincount(block.states.reshape(-1), minlength=len(PointState)).tolist()
    attained = attained_of([study.spec.cells[cell] for cell in block.cells.tolist()])
    above = int(np.count_nonzero(block.states[~attained] == PointState.COMPUTED))
    points.count({state: counts[state] for state in PointState}, above)


def _incomplete(study: Study, what: str) -> StoreIncompleteError:
    return StoreIncompleteError(
        f"{study.where}: expected a complete and sound store, got one without all bounds ({what}): run the study again,"
        " or export what there is with allow_incomplete (--allow-incomplete)"
    )
