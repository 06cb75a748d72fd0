"""Write a study as one flat table, some cells at a time: arrays as zarr or netCDF, rows as Parquet or CSV."""

import csv
import importlib.util
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import zarr
from zarr.errors import ZarrUserWarning

from pbdist.errors import InvalidInputError, MissingDependencyError, StoreIncompleteError
from pbdist.input_files import check_outside
from pbdist.mechanisms.columns import is_text
from pbdist.query import Study, open_study
from pbdist.query.settings import neighbours_by_label, neighbours_text
from pbdist.query.stored import STATUS, Block, PointState, attained_of
from pbdist.store import Place, read_refinements
from pbdist.store.layout import CELL, WITHIN
from pbdist.store.skeleton import COMPRESSOR
from pbdist.tables import digits
from pbdist.types import COMPOSITIONS, DIRECTION, Direction, JsonValue

#: Returns what is said of an export, once all blocks are written.
About: TypeAlias = Callable[[], dict[str, JsonValue]]
#: The attribute that marks an export, and its version.
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
    the same bytes. A few chunks are in memory at a time; of netCDF one array.

    Parameters
    ----------
    store
        The store: a path, or a URL ``s3://BUCKET/PREFIX``.
    out
        A path that ends in ``.zarr``, ``.nc``, ``.parquet`` or ``.csv``. The first two hold the arrays of
        `Study.bounds`, without its index of the cells. The others have the rows of ``Study.frame(direction="each")``.
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

    Examples
    --------
    >>> export_study("data/quickstart.zarr", "quickstart.csv").lacking
    ''
    """
    path = _checked_target(out)
    _check_packages(path.suffix)
    study = open_study(store)
    check_outside(path, study.where, "out")
    if not study.complete and not allow_incomplete:
        raise _incomplete(study, "some of its results are missing or failed")
    points = Counter[str]()

    def counted_blocks() -> Iterator[Block]:
        of_cell = len(Direction) * len(study.spec.compositions) * len(study.spec.epsilon)
        for block in study.blocks(np.arange(len(study.spec.cells)), max(1, _CHUNK_BYTES // (8 * of_cell))):
            points.update(_counted(study, block))
            if _lacking(points) and not allow_incomplete:
                raise _incomplete(study, f"{_lacking(points)} points")
            yield block

    with written_beside(path) as temporary:
        _FORMS[path.suffix](study, temporary, counted_blocks(), lambda: about_study(study, points))
    refinements = len(read_refinements(study.parts[0]))
    return Exported(path, len(study.spec.cells), points["all"], _lacking(points), refinements)


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
        _check_free(path)
        # The bounds come last.
        for each in sorted(Path(folder).iterdir(), key=lambda file: file.name == path.name):
            each.rename(path.with_name(each.name))


def _check_packages(suffix: str) -> None:
    for package in _PACKAGES.get(suffix, ()):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(f"an export as {suffix} needs {package}: pip install 'pbdist[export]'")


def _write_zarr(study: Study, path: Path, blocks: Iterator[Block], about: About) -> None:
    """Write arrays with the coordinates of `Study.bounds`; the metadata of all arrays comes last."""
    dataset, xarray = import_module("pbdist.query.dataset"), import_module("xarray")
    coordinates = dataset.coordinates_of(study.spec)
    for block in blocks:
        first, cells = not block.cells[0], slice(int(block.cells[0]), int(block.cells[-1]) + 1)
        # What does not lie along the cells is written once.
        variables = {
            name: (along, values[cells] if along == CELL else values, what)
            for name, (along, values, what) in coordinates.items()
            if first or along == CELL
        }
        results = {
            name: (dataset.DIMENSIONS[: values.ndim], values, dataset.attributes_of(name))
            for name, values in block.values.items()
        }
        arrays = xarray.Dataset(results, variables)
        if first:
            encoding = {
                name: {"chunks": array.shape, "compressors": (COMPRESSOR,)} for name, array in arrays.variables.items()
            }
            arrays.to_zarr(path, mode="w-", zarr_format=3, consolidated=False, encoding=encoding)
        else:
            arrays.to_zarr(path, append_dim=CELL, consolidated=False)
    group = zarr.open_group(path)
    group.attrs.update(about())
    with warnings.catch_warnings():
        # The specification of zarr v3 does not have consolidated metadata yet.
        warnings.simplefilter("ignore", ZarrUserWarning)
        zarr.consolidate_metadata(group.store)


def _write_netcdf(study: Study, path: Path, blocks: Iterator[Block], about: About) -> None:
    """Write the same arrays as netCDF, one after the other; attributes that are lists and objects are JSON."""
    with TemporaryDirectory(dir=path.parent) as folder:
        _write_zarr(study, Path(folder, "arrays.zarr"), blocks, about)
        arrays = import_module("xarray").open_zarr(Path(folder, "arrays.zarr"), chunks=None)
        stored = {"zlib": True, "complevel": 4, "shuffle": True, "fletcher32": True}
        encoding = {
            name: {**stored, "chunksizes": array.encoding["chunks"]}
            for name, array in arrays.variables.items()
            if array.dtype.kind != "T"
        }
        # Texts of any length lie apart, where no filter reaches them.
        texts = {name: array.astype(object) for name, array in arrays.variables.items() if array.dtype.kind == "T"}
        for name, value in arrays.attrs.items():
            plain = int(value) if isinstance(value, bool | int) else value
            arrays.attrs[name] = plain if isinstance(plain, int | str) else _as_text(plain)
        arrays.drop_encoding().assign_coords(texts).to_netcdf(path, engine="h5netcdf", encoding=encoding)


def _write_parquet(study: Study, path: Path, blocks: Iterator[Block], about: About) -> None:
    """Write a row for each point, as ``Study.frame(direction="each")``; what is not known is null."""
    arrow = import_module("pyarrow")
    kinds = dict.fromkeys(("setting", "adjacency", DIRECTION, STATUS), arrow.string())
    kinds |= {"cell": arrow.int64(), COMPOSITIONS: arrow.int64(), WITHIN: arrow.bool_()}
    fields = []
    for name, what in study.row_columns.items():
        kind = kinds.get(name, arrow.string() if is_text(name) else arrow.float64())
        fields.append(arrow.field(name, kind, metadata={"description": what}))
    schema = arrow.schema(fields)
    with import_module("pyarrow.parquet").ParquetWriter(path, schema, compression="zstd") as file:
        for block in blocks:
            rows = study.rows(block, "each")
            # NaN becomes null.
            columns = [arrow.array(rows[field.name], type=field.type, from_pandas=True) for field in schema]
            file.write_table(arrow.Table.from_arrays(columns, schema=schema))
        file.add_key_value_metadata({MARK: _as_text(about())})


def _write_csv(study: Study, path: Path, blocks: Iterator[Block], about: About) -> None:
    """Write the same rows as lines, and a file beside them that says what they hold.

    Decimals of bounds are rounded outwards, and all read back as the same float64. What is not known, and what a
    mechanism does not have, is empty; the natural logarithm of 0 is -inf.
    """
    columns = study.row_columns
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(columns)
        for block in blocks:
            rows = study.rows(block, "each")
            lines.writerows(zip(*(_texts(name, rows[name].tolist()) for name in columns), strict=True))
    described = [{"name": name, "description": what} for name, what in columns.items()]
    text = _as_text({"about": about(), "columns": described})
    path.with_name(path.name + METADATA).write_text(f"{text}\n", encoding="utf-8")


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
_FORMS: Mapping[str, Callable[[Study, Path, Iterator[Block], About], None]] = {
    ".zarr": _write_zarr,
    ".nc": _write_netcdf,
    ".parquet": _write_parquet,
    ".csv": _write_csv,
}
