"""The store of a study's results: zarr v3, checksummed, committed batch by batch. The only writer of zarr."""

from pbdist.store.check import StoreCheck, check_store
from pbdist.store.columns import StoredCells
from pbdist.store.commit import commit_record, failed_cells, is_committed
from pbdist.store.create import create_or_open, extend
from pbdist.store.layout import STORE_FORMATS
from pbdist.store.links import refuse_links
from pbdist.store.lock import Held, Holder, hold, holder
from pbdist.store.open import PartHead, StoredStudy, is_there, open_parts, open_store
from pbdist.store.outages import PATIENCE_SECONDS, Trouble, probe, trouble_of
from pbdist.store.place import LocalPlace, ObjectPlace, Place, place_at, with_patience
from pbdist.store.read import changed_skeleton, check_skeleton, read_cell, read_values, read_within
from pbdist.store.recover import restore_heads
from pbdist.store.refinements import Refinement, add_refinement, read_refinements
from pbdist.store.restore import remove_strays, restore_parts, restore_skeleton
from pbdist.store.states import read_state
from pbdist.store.write import BatchWriter

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
