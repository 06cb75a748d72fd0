"""Privacy buckets (Meiser & Mohammadi 2018): states of masses on buckets, their composition, and bounds on δ."""

from pbdist.buckets.bucket_table import BoundsTable, blocked_table, bucket_table, reveals_nothing, without_loss
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule
from pbdist.buckets.state import BucketState
from pbdist.buckets.vectors import Mapper, MemoryVectors, SerialMapper, VectorStore
from pbdist.buckets.work import Layout, Work, layout_within, projected_bytes

__all__ = [
    "SHARP_RULE",
    "BoundsTable",
    "BucketState",
    "Layout",
    "Mapper",
    "MemoryVectors",
    "SerialMapper",
    "SquaringRule",
    "VectorStore",
    "Work",
    "blocked_table",
    "bucket_table",
    "layout_within",
    "projected_bytes",
    "reveals_nothing",
    "without_loss",
]
