"""The store of a study's results: zarr v3, checksummed, committed batch by batch. Only this room writes stores."""

from pbdist.store.batch_results import BatchWriter, read_cell, read_values, read_within
from pbdist.store.check import StoreCheck, check_store, refuse_links, sizes_of_store
from pbdist.store.columns import StoredCells
from pbdist.store.create import changed_skeleton, check_outside, check_skeleton, create_or_open, extend
from pbdist.store.documents import BRINGS_BACK, repaired_together
from pbdist.store.files import at_once
from pbdist.store.layout import STORE_FORMAT
from pbdist.store.lock import Fence, Held, Holder, hold, holder
from pbdist.store.objects import PATIENCE_SECONDS, ObjectPlace, Trouble, trouble_of
from pbdist.store.open import StoredStudy, is_there, open_parts, open_store
from pbdist.store.place import LocalPlace, Place, place_at, probe, with_patience
from pbdist.store.refinements import Refinement, add_refinement, check_refinement_size, read_refinements
from pbdist.store.repair import remove_strays, restore_heads, restore_parts, restore_skeleton
from pbdist.store.results import JoinedShard, PartHead, PartResults, ShardState, join_shard, sizes_of_part, survey
from pbdist.store.states import read_state

__all__ = [
    "BRINGS_BACK",
    "PATIENCE_SECONDS",
    "STORE_FORMAT",
    "BatchWriter",
    "Fence",
    "Held",
    "Holder",
    "JoinedShard",
    "LocalPlace",
    "ObjectPlace",
    "PartHead",
    "PartResults",
    "Place",
    "Refinement",
    "ShardState",
    "StoreCheck",
    "StoredCells",
    "StoredStudy",
    "Trouble",
    "add_refinement",
    "at_once",
    "changed_skeleton",
    "check_outside",
    "check_refinement_size",
    "check_skeleton",
    "check_store",
    "create_or_open",
    "extend",
    "hold",
    "holder",
    "is_there",
    "join_shard",
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
    "repaired_together",
    "restore_heads",
    "restore_parts",
    "restore_skeleton",
    "sizes_of_part",
    "sizes_of_store",
    "survey",
    "trouble_of",
    "with_patience",
]
