"""Write a study as one flat table, some cells at a time: arrays as zarr or netCDF, rows as Parquet or CSV."""

import csv
import importlib.util
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.errors import ZarrUserWarning

from pbdist.errors import InvalidInputError, MissingDependencyError, StoreIncompleteError
from pbdist.input_files import check_outside
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query import Study, open_study
from pbdist.query.settings import neighbours_by_label, neighbours_text
from pbdist.query.stored import STATUS, Block, PointState, attained_of
from pbdist.store import Place, read_refinements
from pbdist.store.layout import CELL, COLUMN_CHUNK, COMPUTED, WITHIN
from pbdist.store.skeleton import COMPRESSOR
from pbdist.tables import digits
from pbdist.types import COMPOSITIONS, DIRECTION, Direction, JsonValue

if TYPE_CHECKING:
    import xarray as xr

#: The attribute by which an export is known, and its version.
MARK, EXPORT_FORMAT = "pbdist_export", 1
#: The end of the name of the file that says what a CSV file holds, as in the W3C's model for tabular data.
METADATA = "-metadata.json"
#: About so many bytes of one array of bounds are in memory, and are a chunk of an export.
_CHUNK_BYTES = 1 << 22
#: The packages of the extra ``export`` that a form needs.
_PACKAGES = {".nc": ("h5netcdf", "h5py"), ".parquet": ("pyarrow",)}
_WHAT = (
    "certified bounds on delta(epsilon) after r-fold composition: an upper bound is never below the truth, a lower one"
    " never above it"
)


@dataclass(frozen=True)
class Exported:
    """What was exported."""

    #: Where it is.
    path: Path
    #: The numbers of cells and of points (cell, r, ε).
    cells: int
    points: int
    #: What has no bounds, in words; empty for a complete study.
    lacking: str
    #: How many refinements of queries were left out: they are no part of the study.
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
    path = _checked_target(out)
    _check_packages(path.suffix)
    study = open_study(store)
    check_outside(path, study.where, "out")
    if not study.complete and not allow_incomplete:
        raise _incomplete(study, "some of its results are missing or failed")
    spec, points = study.spec, Counter[str]()
    of_cell = len(Direction) * len(spec.compositions) * len(spec.epsilon)
    length = min(len(spec.cells), max(1, _CHUNK_BYTES // (8 * of_cell)))
    with written_beside(path) as temporary, closing(_FORMS[path.suffix](study, temporary, length)) as writer:
        for block in study.blocks(np.arange(len(spec.cells)), length):
            points += _counted(study, block)
            if _lacking(points) and not allow_incomplete:
                raise _incomplete(study, f"{_lacking(points)} points")
            writer.write(block)
        about = about_study(study, points)
        writer.finish(about)
    return Exported(path, len(spec.cells), points["all"], _lacking(points), int(about["refinements_left_out"]))


def _incomplete(study: Study, what: str) -> StoreIncompleteError:
    return StoreIncompleteError(
        f"{study.where}: expected a complete and sound store, got one without all bounds ({what}): run the study again,"
        " or export what there is with allow_incomplete (--allow-incomplete)"
    )


def _counted(study: Study, block: Block) -> Counter[str]:
    """Return how many points (cell, r, ε) a block has, of how many only upper bounds, or none, are known, and why."""
    attained = attained_of([study.spec.cells[cell] for cell in block.cells.tolist()])
    counts = {state.name.lower(): int(np.count_nonzero(block.states == state)) for state in PointState}
    upper_only = int(np.count_nonzero(block.states[~attained] == PointState.COMPUTED))
    return Counter({**counts, "all": block.states.size, "upper_only": upper_only})


def _lacking(points: Counter[str]) -> str:
    """Return how many points lack bounds, and why, in words; empty if none does."""
    return ", ".join(f"{points[name]:,} {name}" for name in ("missing", "failed", "damaged") if points[name])


def about_study(study: Study, points: Counter[str]) -> dict[str, JsonValue]:
    """Return what is said of an export, in the types of JSON.

    There are no times and no host names: the same store gives the same bytes.
    """
    lacking, comment = _lacking(points), _WHAT
    if lacking:
        comment = f"INCOMPLETE: of {points['all']:,} points {lacking} are without bounds; {comment}"
    elif not study.complete:
        comment = f"INCOMPLETE: parts of the store are missing, and what they hold is not known; {comment}"
    if points["upper_only"]:
        comment += f"; no lower bound is known of {points['upper_only']:,} points of release plans"
    return {
        "Conventions": "CF-1.11",
        "title": study.spec.name,
        "comment": comment,
        MARK: EXPORT_FORMAT,
        "complete": study.complete and not lacking,
        "points": {name: points[name] for name in ("all", "missing", "failed", "damaged", "upper_only")},
        "refinements_left_out": len(read_refinements(study.parts[0])),
        "adjacency": neighbours_text(neighbours_by_label(study.spec)),
        "study_digest": study.spec.digest,
        "study": study.spec.head(),
        "parts": [
            {"part": one.part, "study_digest": one.head.digest, "provenance": one.attributes.get("provenance")}
            for one in study.parts
        ],
    }


def _as_text(content: JsonValue) -> str:
    """Return JSON, the same text for the same content."""
    return json.dumps(content, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _checked_target(out: str | Path) -> Path:
    """Return the absolute path of an export: of a known form, in a folder that exists, and free."""
    if "://" in str(out):
        raise InvalidInputError(
            f"out: expected a path on this machine, got {str(out)!r}: export to a folder, and copy it there"
        )
    path = Path(os.path.abspath(out))
    if path.suffix not in _FORMS or path.name == path.suffix:
        raise InvalidInputError(f"out: expected a name that ends in {', '.join(_FORMS)}, got {path.name!r}")
    _check_free(path)
    if not path.parent.is_dir():
        raise InvalidInputError(f"out: expected a path in a folder that exists, got {path}")
    return path


def _check_free(path: Path) -> None:
    for each in (path.with_name(path.name + METADATA), path) if path.suffix == ".csv" else (path,):
        if os.path.lexists(each):
            raise InvalidInputError(f"out: {each} exists already: choose another path")


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Yield a path in a hidden folder beside `path`; with the end of the block what is in it is moved to its place.

    Whatever ends the block early leaves nothing; a kill leaves a hidden name that ends in ``.partial``.
    """
    with TemporaryDirectory(prefix=f".{path.name}.", suffix=".partial", dir=path.parent) as folder:
        yield Path(folder, path.name)
        # The bounds come last.
        files = sorted(Path(folder).iterdir(), key=lambda each: each.name == path.name)
        for file in filter(Path.is_file, files):
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
        _check_free(path)
        for each in files:
            each.rename(path.with_name(each.name))


def _check_packages(suffix: str) -> None:
    for package in _PACKAGES.get(suffix, ()):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(f"an export as {suffix} needs {package}: pip install 'pbdist[export]'")


class _Arrays:
    """Arrays of their final size, with the coordinates of `Study.bounds`; blocks fill slices of the cells."""

    #: Creates an array, by its name, dimensions, chunks, type and attributes.
    _array: Callable[..., Any]

    def __init__(self, study: Study, length: int) -> None:
        dataset = import_module("pbdist.query.dataset")
        coordinates = dataset.coordinates_of(study.spec)
        sizes = {along: len(values) for along, values, _ in coordinates.values()}
        for name, (along, values, about) in coordinates.items():
            chunks = (min(len(values), COLUMN_CHUNK),) if along == CELL else values.shape
            self._fill(self._array(name, {along: len(values)}, chunks, values.dtype, about), values)
        columns = " ".join(name for name, (along, _, _) in coordinates.items() if along == CELL)
        self._results: dict[str, Any] = {}
        for name in study.result_names:
            of_cells = name in COMPUTED
            dims = {dim: sizes[dim] for dim in dataset.DIMENSIONS[: 1 if of_cells else None]}
            about = {**dataset.attributes_of(name), "coordinates": columns if of_cells else f"{columns} exp_epsilon"}
            kind, chunks = np.dtype(bool if name == WITHIN else "f8"), (length, *[*dims.values()][1:])
            self._results[name] = self._array(name, dims, chunks, kind, about)

    def write(self, block: Block) -> None:
        for name, values in block.values.items():
            self._results[name][int(block.cells[0]) : int(block.cells[-1]) + 1] = values

    def _fill(self, array: Any, values: Any) -> None:
        array[...] = values


class _ZarrWriter(_Arrays):
    """Writes zarr; the metadata of all arrays comes last, so that nothing opens what is not whole."""

    def __init__(self, study: Study, path: Path, length: int) -> None:
        self._root = zarr.open_group(path, mode="w-", zarr_format=3)
        super().__init__(study, length)

    def close(self) -> None:
        """Nothing is open."""

    def finish(self, about: Mapping[str, JsonValue]) -> None:
        self._root.attrs.update(dict(about))
        with warnings.catch_warnings():
            # The specification of zarr v3 does not have consolidated metadata yet.
            warnings.simplefilter("ignore", ZarrUserWarning)
            zarr.consolidate_metadata(self._root.store)

    def _array(self, name: str, dims: Mapping[str, int], chunks: tuple[int, ...], dtype: Any, about: Any) -> Any:
        return self._root.create_array(
            name,
            shape=tuple(dims.values()),
            chunks=chunks,
            dtype=dtype,
            fill_value=np.nan if dtype == np.dtype("f8") else None,
            compressors=COMPRESSOR,
            dimension_names=tuple(dims),
            attributes=dict(about),
            config={"write_empty_chunks": True},
        )


class _NetcdfWriter(_Arrays):
    """Writes netCDF; lists and objects are JSON, and truth values 0 or 1."""

    def __init__(self, study: Study, path: Path, length: int) -> None:
        self._file = import_module("h5netcdf").File(path, "w")
        self.close = self._file.close
        super().__init__(study, length)

    def finish(self, about: Mapping[str, JsonValue]) -> None:
        for name, value in about.items():
            plain = int(value) if isinstance(value, bool | int) else value
            self._file.attrs[name] = plain if isinstance(plain, int | str) else _as_text(plain)

    def _fill(self, array: Any, values: Any) -> None:
        array[...] = values.astype(object) if values.dtype.kind == "T" else values

    def _array(self, name: str, dims: Mapping[str, int], chunks: tuple[int, ...], dtype: Any, about: Any) -> Any:
        for dim, size in dims.items():
            if dim not in self._file.dimensions:
                self._file.dimensions[dim] = size
        how: dict[str, Any] = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}
        if dtype == np.dtype("f8"):
            how["fillvalue"] = np.nan
        elif dtype == np.dtype(bool):
            dtype, about = np.dtype("i1"), {**about, "dtype": "bool"}
        elif dtype.kind == "T":
            # Texts of any length lie apart, where no filter reaches them.
            dtype, how = import_module("h5py").string_dtype("utf-8"), {}
        array = self._file.create_variable(name, tuple(dims), dtype=dtype, chunks=chunks, **how)
        array.attrs.update(about)
        return array


class _ParquetWriter:
    """Writes a row for each point, as ``Study.frame(direction="each")``, as Parquet; what is not known is null."""

    def __init__(self, study: Study, path: Path, _: int) -> None:
        self._study, self._arrow = study, import_module("pyarrow")
        kinds = dict.fromkeys(("setting", "adjacency", DIRECTION, STATUS), self._arrow.string())
        kinds |= {"cell": self._arrow.int64(), COMPOSITIONS: self._arrow.int64(), WITHIN: self._arrow.bool_()}
        fields = []
        for name, what in study.row_columns.items():
            kind = kinds.get(name, self._arrow.string() if is_text(name) else self._arrow.float64())
            fields.append(self._arrow.field(name, kind, metadata={"description": what}))
        self._schema = self._arrow.schema(fields)
        self._file = import_module("pyarrow.parquet").ParquetWriter(path, self._schema, compression="zstd")
        self.close = self._file.close

    def write(self, block: Block) -> None:
        rows = self._study.rows(block, "each")
        # NaN becomes null.
        columns = [self._arrow.array(rows[field.name], type=field.type, from_pandas=True) for field in self._schema]
        self._file.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))

    def finish(self, about: Mapping[str, JsonValue]) -> None:
        self._file.add_key_value_metadata({MARK: _as_text(about)})


class _CsvWriter:
    """Writes the same rows as lines, and a file beside them that says what they hold.

    Decimals of bounds are rounded outwards, and all read back as the same float64. What is not known, and what a
    mechanism does not have, is empty; the natural logarithm of 0 is -inf.
    """

    def __init__(self, study: Study, path: Path, _: int) -> None:
        self._study, self._path, self._file = study, path, path.open("w", encoding="utf-8", newline="")
        self.close = self._file.close
        self._lines = csv.writer(self._file, lineterminator="\n")
        self._lines.writerow(study.row_columns)

    def write(self, block: Block) -> None:
        rows = self._study.rows(block, "each")
        self._lines.writerows(
            zip(*(_texts(name, rows[name].tolist()) for name in self._study.row_columns), strict=True)
        )

    def finish(self, about: Mapping[str, JsonValue]) -> None:
        columns = [{"name": name, "description": what} for name, what in self._study.row_columns.items()]
        text = _as_text({"about": dict(about), "columns": columns})
        self._path.with_name(self._path.name + METADATA).write_text(f"{text}\n", encoding="utf-8")


def _texts(name: str, values: Sequence[Any]) -> Iterator[Any]:
    """Yield a column as text."""
    for value in values:
        if isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, float):
            yield digits(name, value) if not math.isnan(value) else ""
        else:
            yield value


#: The forms of an export, by the end of its name.
_FORMS: Mapping[str, Callable[[Study, Path, int], Any]] = {
    ".zarr": _ZarrWriter,
    ".nc": _NetcdfWriter,
    ".parquet": _ParquetWriter,
    ".csv": _CsvWriter,
}


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
    _check_packages(path.suffix)
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
