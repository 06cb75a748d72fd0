"""Neighbourhoods of databases, partitions of them, the rules of composition for both, and release plans.

The plans and what they are declared with are here. The mathematics of notions, metrics and partitions, and the rules
for parameters, are in the modules that ``docs/granularity-notions.md`` and ``docs/granularity-rules.md`` name.
"""

from pbdist.granularity.group import group_pair
from pbdist.granularity.notions import (
    Bounded,
    EdgeLevel,
    FreeLunch,
    GivenRelation,
    Granularity,
    NodeLevel,
    Unbounded,
    UserLevel,
)
from pbdist.granularity.release.declared import (
    Analysis,
    Memberships,
    Overlapping,
    Partition,
    Profile,
    Touch,
    on_each_block,
)
from pbdist.granularity.release.plan import ReleasePlan

__all__ = [
    "Analysis",
    "Bounded",
    "EdgeLevel",
    "FreeLunch",
    "GivenRelation",
    "Granularity",
    "Memberships",
    "NodeLevel",
    "Overlapping",
    "Partition",
    "Profile",
    "ReleasePlan",
    "Touch",
    "Unbounded",
    "UserLevel",
    "group_pair",
    "on_each_block",
]
