"""Write a study as one flat table, some cells at a time."""

import csv
import importlib.util
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import numpy as np
import zarr
from zarr.errors import ZarrUserWarning

from pbdist.errors import InvalidInputError, MissingDependencyError, StoreIncompleteError
from pbdist.input_files import check_outside
from pbdist.mechanisms.columns import known_columns
from pbdist.query import Study, open_study
from pbdist.query.blocks import ABOUT, Block, PointState, attained_of, rows_of
from pbdist.query.settings import neighbours_by_label, neighbours_text
from pbdist.store import Place, read_refinements
from pbdist.store.layout import CELL, COLUMN_CHUNK, COMPUTED, WITHIN
from pbdist.store.skeleton import COMPRESSOR
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction, JsonValue

if TYPE_CHECKING:
    import xarray as xr

#: The attribute by which an export is known, and its version.
MARK, EXPORT_FORMAT = "pbdist_export", 1
_WHAT = (
    "certified bounds on delta(epsilon) after r-fold composition: an upper bound is never below the truth, a lower one"
    " never above it"
)
_PARTS_LOST = "parts of the store are missing, and what they hold is not known"


@dataclass
class Points:
    """How many points (cell, r, ε) an export has, and how many of them there are no bounds of, and why."""

    all: int = 0
    missing: int = 0
    failed: int = 0
    damaged: int = 0
    upper_only: int = 0

    def count(self, states: Mapping[PointState, int], upper_only: int) -> None:
        """Add the points of a block."""
        self.all += sum(states.values())
        self.missing += states[PointState.MISSING]
        self.failed += states[PointState.FAILED]
        self.damaged += states[PointState.DAMAGED]
        self.upper_only += upper_only

    @property
    def lacking(self) -> str:
        """What lacks bounds, in words; empty if nothing does."""
        told = {"missing": self.missing, "failed": self.failed, "damaged": self.damaged}
        return ", ".join(f"{count:,} {name}" for name, count in told.items() if count)


def about_study(study: Study, points: Points) -> dict[str, JsonValue]:
    """Return what is said of an export, in the types of JSON.

    There are no times and no host names: the same store gives the same bytes.
    """
    complete = study.complete and not points.lacking
    lacking = {"missing": points.missing, "failed": points.failed, "damaged": points.damaged}
    comment = _WHAT
    if not complete:
        what = f"of {points.all:,} points {points.lacking} are without bounds" if points.lacking else _PARTS_LOST
        comment = f"INCOMPLETE: {what}; {_WHAT}"
    if points.upper_only:
        comment += f"; no lower bound is known of {points.upper_only:,} points of release plans"
    return {
        "Conventions": "CF-1.11",
        "title": study.spec.name,
        "comment": comment,
        MARK: EXPORT_FORMAT,
        "complete": complete,
        "points": {"all": points.all, **lacking, "upper_only": points.upper_only},
        "refinements_left_out": len(read_refinements(study.parts[0])),
        "adjacency": neighbours_text(neighbours_by_label(study.spec)),
        "study_digest": study.spec.digest,
        "study": study.spec.head(),
        "parts": [
            {
                "part": stored.part,
                "study_digest": stored.head.digest,
                "provenance": stored.attributes.get("provenance"),
            }
            for stored in study.parts
        ],
    }


def as_text(content: JsonValue) -> str:
    """Return JSON, the same text for the same content."""
    return json.dumps(content, sort_keys=True, allow_nan=False, ensure_ascii=False)


def flat(about: Mapping[str, JsonValue]) -> dict[str, str | int]:
    """Return attributes as netCDF takes them: lists and objects as JSON, truth values as 0 or 1."""
    return {
        name: int(value) if isinstance(value, bool | int) else value if isinstance(value, str) else as_text(value)
        for name, value in about.items()
    }


#: The forms of an export, by the end of its name.
SUFFIXES = (".zarr", ".nc", ".parquet", ".csv")
#: The end of the name of the file that says what a CSV file holds, as in the W3C's model for tabular data.
METADATA = "-metadata.json"


def checked_target(out: str | Path) -> Path:
    """Return the path of an export, as an absolute one.

    Raises
    ------
    InvalidInputError
        It has another end than those of the forms, something is there already, or its folder is not.
    """
    if "://" in str(out):
        raise InvalidInputError(
            f"out: expected a path on this machine, got {str(out)!r}: export to a folder, and copy it there"
        )
    path = Path(os.path.abspath(out))
    if path.suffix not in SUFFIXES or path.name == path.suffix:
        raise InvalidInputError(f"out: expected a name that ends in {', '.join(SUFFIXES)}, got {path.name!r}")
    for each in _names(path):
        if os.path.lexists(each):
            raise InvalidInputError(f"out: expected a path at which there is nothing yet, got {each}")
    if not path.parent.is_dir():
        raise InvalidInputError(f"out: expected a path in a folder that exists, got {path}")
    return path


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Yield a path in the same folder to write to; with the end of the block what is there gets the name `path`.

    What is there is a folder, or a file (beside a CSV file that with its metadata). Whatever ends the block early
    leaves nothing at `path`; a kill leaves a hidden name that ends in ``.partial``.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        yield temporary
        try:
            _publish(temporary, path)
        except FileExistsError as error:
            raise InvalidInputError(f"out: expected a path at which there is nothing yet, got {path}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for each in _names(temporary, path.suffix):
            with suppress(OSError):
                each.unlink()


def _names(path: Path, suffix: str = "") -> tuple[Path, ...]:
    """Return all paths of an export, that of the bounds last."""
    return (*([path.with_name(path.name + METADATA)] if (suffix or path.suffix) == ".csv" else []), path)


def _publish(temporary: Path, path: Path) -> None:
    if temporary.is_dir():
        if os.path.lexists(path):
            raise FileExistsError(path)
        # Fails where there is a folder with anything in it by now.
        temporary.rename(path)
        return
    done: list[Path] = []
    try:
        for source, name in zip(_names(temporary, path.suffix), _names(path), strict=True):
            with source.open("rb+") as file:
                os.fsync(file.fileno())
            _give_name(source, name)
            done.append(name)
    except BaseException:
        for name in done:
            name.unlink()
        raise


def _give_name(source: Path, name: Path) -> None:
    """Give a file a name that nothing has yet."""
    try:
        os.link(source, name)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        if os.path.lexists(name):
            raise FileExistsError(name) from None
        source.rename(name)


#: About so many bytes of one array of bounds are in memory, and are a chunk of an export.
_CHUNK_BYTES = 1 << 22


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
    form = _writer_of(path.suffix)
    study = open_study(store)
    check_outside(path, study.where, "out")
    if not study.complete and not allow_incomplete:
        raise _incomplete(study, "some of its results are missing or failed")
    with written_beside(path) as temporary:
        length = _cells_at_once(study)
        writer = form(study, temporary, length)
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


def _writer_of(suffix: str) -> Callable[[Study, Path, int], Writer]:
    """Return what makes the writer of a form; netCDF and Parquet need packages of the extra ``export``."""
    if suffix in (".zarr", ".csv"):
        return _ZarrWriter if suffix == ".zarr" else _CsvWriter
    for package in ("h5netcdf", "h5py") if suffix == ".nc" else ("pyarrow",):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(f"an export as {suffix} needs {package}: pip install 'pbdist[export]'")
    module, name = ("as_netcdf", "NetcdfWriter") if suffix == ".nc" else ("as_parquet", "ParquetWriter")
    writer: Callable[[Study, Path, int], Writer] = getattr(import_module(f"pbdist.export.{module}"), name)
    return writer


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


#: So many points are lines in memory.
_POINTS_AT_ONCE = 1 << 14


class _CsvWriter:
    """Writes a line for each point.

    Floats are the shortest decimals that read back as the same float64. What is not known, and what a mechanism does
    not have, is empty; the natural logarithm of 0 is -inf. A file beside it says what it holds.
    """

    def __init__(self, study: Study, path: Path, length: int) -> None:  # noqa: ARG002 -- lines have no chunks
        self._spec, self._names, self._path = study.spec, study.row_columns, path
        self._file = path.open("w", encoding="utf-8", newline="")
        self._lines = csv.writer(self._file, lineterminator="\n")
        self._lines.writerow(self._names)

    def write(self, block: Block) -> None:
        every = range(len(self._spec.compositions)), range(len(self._spec.epsilon))
        for piece in block.pieces(_POINTS_AT_ONCE):
            rows = rows_of(piece, self._spec, *every, "each", names=self._names)
            self._lines.writerows(zip(*(map(_text, rows[name].tolist()) for name in self._names), strict=True))

    def finish(self, about: dict[str, JsonValue]) -> None:
        columns = [{"name": name, "description": what} for name, what in self._names.items()]
        content = {"about": about, "columns": columns}
        self._path.with_name(self._path.name + METADATA).write_text(f"{as_text(content)}\n", encoding="utf-8")

    def close(self) -> None:
        self._file.close()


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value != value else value  # noqa: PLR0124 -- NaN


class _ZarrWriter:
    """Writes chunk by chunk; the metadata of all arrays comes last, so that nothing opens what is not whole."""

    def __init__(self, study: Study, folder: Path, length: int) -> None:
        coordinates = import_module("pbdist.query.dataset").coordinates_of(study.spec)
        self._root = zarr.open_group(folder, mode="w-", zarr_format=3)
        columns = [name for name, (along, _, _) in coordinates.items() if along == CELL]
        for name, (along, values, about) in coordinates.items():
            chunks = (min(len(values), COLUMN_CHUNK),) if along == CELL else values.shape
            self._array(name, values.shape, chunks, values.dtype, dimensions=(along,), attributes=about)[...] = values
        spec = study.spec
        shape = len(spec.cells), len(Direction), len(spec.compositions), len(spec.epsilon)
        dimensions = (CELL, DIRECTION, COMPOSITIONS, EPSILON)
        self._arrays: dict[str, Any] = {}
        for name in study.blocks.names:
            axes = 1 if name in COMPUTED else len(shape)
            about = {
                "long_name": ABOUT[name],
                "coordinates": " ".join([*columns, *(["exp_epsilon"] if axes > 1 else [])]),
            }
            about |= {} if name == WITHIN else {"units": "1"}
            dtype = np.dtype(bool if name == WITHIN else "f8")
            chunks = (length, *shape[1:axes])
            array = self._array(name, shape[:axes], chunks, dtype, dimensions=dimensions[:axes], attributes=about)
            self._arrays[name] = array

    def write(self, block: Block) -> None:
        cells = slice(int(block.cells[0]), int(block.cells[-1]) + 1)
        for name, values in block.values.items():
            self._arrays[name][cells] = values

    def finish(self, about: dict[str, JsonValue]) -> None:
        self._root.attrs.update(about)
        with warnings.catch_warnings():
            # The specification of zarr v3 does not have consolidated metadata yet.
            warnings.simplefilter("ignore", ZarrUserWarning)
            zarr.consolidate_metadata(self._root.store)

    def close(self) -> None:
        """Nothing is open."""

    def _array(
        self,
        name: str,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        dtype: Any,
        *,
        dimensions: tuple[str, ...],
        attributes: Mapping[str, JsonValue],
    ) -> Any:
        return self._root.create_array(
            name,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            fill_value=np.nan if dtype == np.dtype("f8") else None,
            compressors=COMPRESSOR,
            dimension_names=dimensions,
            attributes=dict(attributes),
            config={"write_empty_chunks": True},
        )


def open_export(where: str | Path) -> "xr.Dataset":
    """Open an export that ends in ``.zarr`` or ``.nc``, with the parameters of the cells as one index.

    The result equals `Study.bounds` of the exported store: the same variables, coordinates and indexes with the same
    values and attributes; the attributes of the whole are those of the export. Plain ``xarray.open_zarr(where)`` gives
    the same without the index over ``cell``.

    Raises
    ------
    InvalidInputError
        It is no such export.
    MissingDependencyError
        A package for netCDF is not installed.
    """
    path = Path(where)
    # xarray takes half a second to import.
    xarray = import_module("xarray")
    if not path.exists() or path.suffix not in (".zarr", ".nc"):
        got = path.name if path.exists() else f"nothing at {path}"
        raise InvalidInputError(f"export: expected an export that ends in .zarr or .nc, got {got}")
    if path.suffix == ".nc" and (
        importlib.util.find_spec("h5netcdf") is None or importlib.util.find_spec("h5py") is None
    ):
        raise MissingDependencyError("an export as .nc needs h5netcdf and h5py: pip install 'pbdist[export]'")
    try:
        dataset: xr.Dataset = (
            xarray.open_zarr(path, chunks=None, consolidated=True)
            if path.suffix == ".zarr"
            else xarray.open_dataset(path, engine="h5netcdf")
        )
    except (OSError, ValueError, KeyError) as error:
        text = " ".join(str(error).split())[:200]
        raise InvalidInputError(f"export: expected an export of pbdist, got {path}: {text}") from error
    if MARK not in dataset.attrs:
        dataset.close()
        raise InvalidInputError(f"export: expected an export of pbdist, got something else at {path}")
    return dataset.set_xindex([name for name in known_columns() if name in dataset]).set_xindex("exp_epsilon")
