"""Privacy buckets (Meiser & Mohammadi 2018): states of masses on buckets, their composition, and bounds on δ."""

from pbdist.buckets.blocked_vectors import Mapper, MemoryVectors, SerialMapper, VectorStore
from pbdist.buckets.bucket_bounds import BucketBounds, bucket_bounds
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule
from pbdist.buckets.layout import Layout, Work, layout_within, projected_bytes
from pbdist.buckets.state import BucketState

__all__ = [
    "SHARP_RULE",
    "BucketBounds",
    "BucketState",
    "Layout",
    "Mapper",
    "MemoryVectors",
    "SerialMapper",
    "SquaringRule",
    "VectorStore",
    "Work",
    "bucket_bounds",
    "layout_within",
    "projected_bytes",
]
