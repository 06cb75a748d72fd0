"""Privacy buckets (Meiser & Mohammadi 2018): states of masses on buckets, their composition, and bounds on δ."""

from pbdist.buckets.blocks import (
    Layout,
    Mapper,
    MemoryVectors,
    SerialMapper,
    VectorStore,
    Work,
    layout_within,
    projected_bytes,
)
from pbdist.buckets.delta import BucketBounds, bucket_bounds
from pbdist.buckets.state import BucketState

__all__ = [
    "BucketBounds",
    "BucketState",
    "Layout",
    "Mapper",
    "MemoryVectors",
    "SerialMapper",
    "VectorStore",
    "Work",
    "bucket_bounds",
    "layout_within",
    "projected_bytes",
]
