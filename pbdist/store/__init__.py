"""The store of a study's results: zarr v3, checksummed, committed batch by batch. Only this room writes zarr."""

from pbdist.store.batch_results import BatchWriter, read_cell, read_values, read_within
from pbdist.store.check import StoreCheck, check_store, refuse_links
from pbdist.store.columns import StoredCells
from pbdist.store.commit import commit_record, failed_cells, is_committed
from pbdist.store.create import changed_skeleton, check_skeleton, create_or_open, extend
from pbdist.store.layout import STORE_FORMATS
from pbdist.store.lock import Held, Holder, hold, holder
from pbdist.store.open import PartHead, StoredStudy, is_there, open_parts, open_store
from pbdist.store.outages import PATIENCE_SECONDS, Trouble, trouble_of
from pbdist.store.place import LocalPlace, ObjectPlace, Place, place_at, probe, with_patience
from pbdist.store.refinements import Refinement, add_refinement, read_refinements
from pbdist.store.repair import remove_strays, restore_heads, restore_parts, restore_skeleton
from pbdist.store.states import read_state

__all__ = [
    "PATIENCE_SECONDS",
    "STORE_FORMATS",
    "BatchWriter",
    "Held",
    "Holder",
    "LocalPlace",
    "ObjectPlace",
    "PartHead",
    "Place",
    "Refinement",
    "StoreCheck",
    "StoredCells",
    "StoredStudy",
    "Trouble",
    "add_refinement",
    "changed_skeleton",
    "check_skeleton",
    "check_store",
    "commit_record",
    "create_or_open",
    "extend",
    "failed_cells",
    "hold",
    "holder",
    "is_committed",
    "is_there",
    "open_parts",
    "open_store",
    "place_at",
    "probe",
    "read_cell",
    "read_refinements",
    "read_state",
    "read_values",
    "read_within",
    "refuse_links",
    "remove_strays",
    "restore_heads",
    "restore_parts",
    "restore_skeleton",
    "trouble_of",
    "with_patience",
]
