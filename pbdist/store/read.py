"""Read stored bounds, and whether all that is no result is still what the study says."""

import json
from typing import Any

import numpy as np
import zarr

from pbdist.errors import StoreDamagedError, StoreUnreachableError
from pbdist.store.arrays import FilesStore, array_files
from pbdist.store.commit import changed_file
from pbdist.store.heads import read_or_none
from pbdist.store.irregular import IrregularError
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN
from pbdist.store.open import StoredStudy
from pbdist.store.skeleton import ROOT_FILE, root_files
from pbdist.study.promise import within_tolerance
from pbdist.types import BoolArray, FloatArray, JsonValue

__all__ = ["changed_skeleton", "check_skeleton", "read_cell", "read_values", "read_within"]

#: What of an array's metadata decides how its bytes become numbers.
_DECISIVE = (
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "dimension_names",
)


def read_values(stored: StoredStudy, name: str, selection: Any) -> FloatArray:
    """Return a part of an array of results, as zarr selects it, without a look at any checksum but those of the chunks.

    Raises
    ------
    StoreDamagedError
        It cannot be read.
    """
    return np.asarray(_selected(stored, name, selection), dtype=np.float64)


def read_within(stored: StoredStudy, cells: Any) -> BoolArray:
    """Return where the bounds of some cells meet within the tolerance, over the axes of the bounds.

    In a store that does not hold it, it is found from the bounds. False where nothing is known.

    Raises
    ------
    StoreDamagedError
        It cannot be read.
    """
    if WITHIN in stored.head.results:
        return np.asarray(_selected(stored, WITHIN, cells), dtype=bool)
    return within_tolerance(
        stored.study, *(read_values(stored, name, cells) for name in ("log_delta_lower", "log_delta_upper"))
    )


def _selected(stored: StoredStudy, name: str, selection: Any) -> Any:
    try:
        array = zarr.open_array(stored.place.zarr_store(stored.most_bytes), path=name, mode="r")
        return np.asarray(array[selection])
    except (IrregularError, StoreUnreachableError):
        raise
    except (OSError, ValueError, RuntimeError, KeyError, IndexError) as error:
        text = " ".join(str(error).split())[:200]
        raise StoreDamagedError(
            f"{stored.place.url}: expected readable bounds, got: {text}: run the study again"
        ) from error


def read_cell(stored: StoredStudy, cell: int) -> dict[str, FloatArray]:
    """Return what a cell has in each array of bounds, over direction, compositions and ε, and of computed values.

    Raises
    ------
    StoreDamagedError
        An array cannot be read.
    """
    return {name: read_values(stored, name, cell) for name in (*BOUNDS, *COMPUTED)}


def check_skeleton(stored: StoredStudy) -> None:
    """Compare root, metadata and coordinates with what they were when the part was created.

    Raises
    ------
    StoreDamagedError
        One of them is missing or changed, so that sound bytes would be read as other numbers, or as those of another
        point.
    """
    changed = changed_skeleton(stored)
    if changed:
        more = ", .." if len(changed) > 5 else ""
        raise StoreDamagedError(
            f"{stored.place.url}: expected the metadata and coordinates of the study, got others in"
            f" {', '.join(list(changed)[:5])}{more}: run the study again"
        )


def changed_skeleton(stored: StoredStudy) -> dict[str, str]:
    """Return the files without results that are missing or changed, and what is wrong with each.

    From format 3 on by their checksums, the second copy of the root included. Before, those whose content would be
    read as something else: the metadata and the coordinates of the arrays.
    """
    if stored.format < 3:
        return {f"{name}/zarr.json": "other content" for name in _changed_listing(stored)}
    changed = {}
    for name, data in root_files(stored.root).items():
        found = read_or_none(stored.place, name, len(data))
        if found != data:
            changed[name] = "missing" if found is None else "other content"
    for name, entry in stored.files.items():
        problem = changed_file(stored.place, name, entry)
        if problem is not None:
            changed[name] = problem
    return changed


def _changed_listing(stored: StoredStudy) -> list[str]:
    """Return the arrays of a store of format 1 or 2 whose metadata or coordinates would be read as something else."""
    fresh = array_files(stored.study, stored.cells_per_batch, stored.format)
    fresh_store, store = FilesStore(fresh).store, stored.place.zarr_store(stored.most_bytes)
    names = sorted({name.split("/", maxsplit=1)[0] for name in fresh} - {ROOT_FILE})
    changed = []
    for name in names:
        file = f"{name}/zarr.json"
        if _decisive(fresh[file]) != _decisive(read_or_none(stored.place, file)):
            changed.append(name)
        elif name not in {*BOUNDS, *COMPUTED}:
            expected = np.asarray(zarr.open_array(fresh_store, path=name, mode="r")[...])
            if not _equal(store, name, expected):
                changed.append(name)
    return changed


def _decisive(data: bytes | None) -> list[JsonValue]:
    try:
        document = json.loads(data or b"")
        return [document.get(key) for key in _DECISIVE]
    except (ValueError, AttributeError):
        return []


def _equal(store: Any, name: str, expected: Any) -> bool:
    try:
        found = np.asarray(zarr.open_array(store, path=name, mode="r")[...])
    except StoreUnreachableError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError):
        return False
    return np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")
