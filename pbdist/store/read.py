"""Read stored bounds, and whether all that is no result is still what the study says."""

from typing import Any

import numpy as np
import zarr
from zarr.storage import MemoryStore

from pbdist.errors import StoreDamagedError
from pbdist.store.create import build_arrays, changed_arrays
from pbdist.store.layout import BOUNDS, COMPUTED
from pbdist.store.open import StoredStudy
from pbdist.types import FloatArray

__all__ = ["check_coordinates", "read_cell"]


def read_cell(stored: StoredStudy, cell: int) -> dict[str, FloatArray]:
    """Return what a cell has in each array of bounds, over direction, compositions and ε, and of computed values.

    Raises
    ------
    StoreDamagedError
        An array cannot be read.
    """
    try:
        return {
            name: np.asarray(zarr.open_array(stored.path / name, mode="r")[cell], dtype=np.float64)
            for name in (*BOUNDS, *COMPUTED)
        }
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise StoreDamagedError(
            f"{stored.path}: expected readable bounds, got: {error}: run the study again"
        ) from error


def check_coordinates(stored: StoredStudy) -> None:
    """Compare metadata and coordinates with those that follow from the study.

    Raises
    ------
    StoreDamagedError
        One of them is missing or changed, so that sound bytes would be read as other numbers, or as those of another
        point.
    """
    changed = changed_arrays(stored)
    if not changed:
        fresh = zarr.open_group(MemoryStore(), mode="w", zarr_format=3)
        build_arrays(fresh, stored.study, stored.cells_per_batch)
        coordinates = {name: array for name, array in fresh.arrays() if name not in {*BOUNDS, *COMPUTED}}
        changed = [name for name in sorted(coordinates) if not _equal(stored, name, coordinates[name][...])]
    if changed:
        raise StoreDamagedError(
            f"{stored.path}: expected the metadata and coordinates of the study, got others in {', '.join(changed)}: "
            "run the study again"
        )


def _equal(stored: StoredStudy, name: str, expected: Any) -> bool:
    try:
        found = np.asarray(zarr.open_array(stored.path / name, mode="r")[...])
    except (OSError, ValueError, RuntimeError, KeyError):
        return False
    return np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")
