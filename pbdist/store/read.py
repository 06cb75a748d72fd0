"""Read stored bounds, and whether all that is no result is still what the study says."""

from typing import Any

import numpy as np
import zarr

from pbdist.errors import StoreDamagedError, StoreUnreachableError
from pbdist.store.commit import changed_file
from pbdist.store.heads import read_or_none
from pbdist.store.irregular import IrregularError
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN
from pbdist.store.open import StoredStudy
from pbdist.store.skeleton import root_files
from pbdist.study.spec import within_tolerance
from pbdist.types import BoolArray, FloatArray

__all__ = ["changed_skeleton", "check_skeleton", "read_cell", "read_values", "read_within"]


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

    By their checksums; the second copy of the root is one of them.
    """
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
