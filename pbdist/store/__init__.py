"""The store of a study's results: zarr v3, checksummed, committed batch by batch. The only writer of zarr."""

from pbdist.store.commit import commit_record, is_committed, remove_strays
from pbdist.store.create import changed_arrays, create_or_open, restore_skeleton
from pbdist.store.layout import STORE_FORMATS
from pbdist.store.open import StoredStudy, open_store
from pbdist.store.read import check_coordinates, read_cell
from pbdist.store.write import BatchWriter, read_state

__all__ = [
    "STORE_FORMATS",
    "BatchWriter",
    "StoredStudy",
    "changed_arrays",
    "check_coordinates",
    "commit_record",
    "create_or_open",
    "is_committed",
    "open_store",
    "read_cell",
    "read_state",
    "remove_strays",
    "restore_skeleton",
]
