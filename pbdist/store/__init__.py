"""The store of a study's results: zarr v3, a file a batch, with checksums. Only this room writes stores."""

from pbdist.store.batches import BatchWriter
from pbdist.store.check import StoreCheck, check_store, damaged_batches
from pbdist.store.create import add_refinement, create_or_open, extend, restore
from pbdist.store.layout import STORE_FORMAT, PartHead
from pbdist.store.open import (
    Progress,
    Refinement,
    StoredBatch,
    StoredStudy,
    check_skeleton,
    is_there,
    open_parts,
    open_store,
    read_refinements,
)
from pbdist.store.place import LocalPlace, ObjectPlace, Place, hold, holder, place_at, with_patience
from pbdist.store.states import read_state

__all__ = [
    "STORE_FORMAT",
    "BatchWriter",
    "LocalPlace",
    "ObjectPlace",
    "PartHead",
    "Place",
    "Progress",
    "Refinement",
    "StoreCheck",
    "StoredBatch",
    "StoredStudy",
    "add_refinement",
    "check_skeleton",
    "check_store",
    "create_or_open",
    "damaged_batches",
    "extend",
    "hold",
    "holder",
    "is_there",
    "open_parts",
    "open_store",
    "place_at",
    "read_refinements",
    "read_state",
    "restore",
    "with_patience",
]
