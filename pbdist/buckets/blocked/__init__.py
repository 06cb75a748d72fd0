"""Privacy buckets in blocks: the same numbers as in memory, where a vector is too long for it."""

from pbdist.buckets.blocked.engine import BlockedEngine, blocked_table
from pbdist.buckets.blocked.layout import Layout, layout_within, projected_bytes
from pbdist.buckets.blocked.vectors import Mapper, MemoryVectors, SerialMapper, VectorStore

__all__ = [
    "BlockedEngine",
    "Layout",
    "Mapper",
    "MemoryVectors",
    "SerialMapper",
    "VectorStore",
    "blocked_table",
    "layout_within",
    "projected_bytes",
]
