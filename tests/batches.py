"""Change what a store has of single batches: remove, damage, or mark cells as failed."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pbdist.store import Place, StoredBatch, StoredStudy, open_parts
from pbdist.store.batches import failure_document
from pbdist.store.layout import BOUNDS_ARRAY, bounds_file, failures_file
from tests.studies import write_results


def part_of(store: Path | str, part: str = "") -> StoredStudy:
    """A part of a store."""
    return next(stored for stored in open_parts(store) if stored.part == part)


def remove_batch(store: Path, index: int) -> None:
    """Have a store that lacks one batch, as after a run that was killed."""
    stored = part_of(store)
    (Path(stored.place.url) / bounds_file(index)).unlink()


def damage_batch(store: Path | str, index: int, data: bytes = b"damaged") -> str:
    """Put other bytes in the place of the bounds of a batch, by default junk; return the file that was changed."""
    part_of(store).place.write(bounds_file(index), data)
    return bounds_file(index)


def committed(place: Place) -> int:
    """How many batches of a store of one part are committed, by what is there."""
    return sum(not name.endswith("zarr.json") for name, _ in place.names(BOUNDS_ARRAY))


def fail_cells(stored: StoredStudy, failed: Mapping[int, str]) -> None:
    """Write the results as if these cells had failed."""
    for index in range(stored.batches):
        mine = {cell: why for cell, why in failed.items() if cell in stored.cells_of(index)}
        found = stored.read(index)
        if not mine or found is None:
            continue
        bounds = found.bounds.copy()
        bounds[[cell - stored.cells_of(index).start for cell in mine]] = np.nan
        stored.place.write(failures_file(index), failure_document(mine))
        write_results(stored, index, StoredBatch(bounds, found.details))
