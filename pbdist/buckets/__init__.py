"""Privacy buckets: bucket lists, their composition, and the bounds on δ that they give; numpy and scipy only."""

from pbdist.buckets.composition import (
    SHARP_RULE,
    Composed,
    Leaf,
    Squared,
    SquaringRule,
    compose,
    compose_adaptively,
    evaluate,
    leaf_of,
    powers,
    square,
)
from pbdist.buckets.delta import LowerBound, UpperBound, delta_lower, delta_upper
from pbdist.buckets.state import BucketState, Grid

__all__ = [
    "SHARP_RULE",
    "BucketState",
    "Composed",
    "Grid",
    "Leaf",
    "LowerBound",
    "Squared",
    "SquaringRule",
    "UpperBound",
    "compose",
    "compose_adaptively",
    "delta_lower",
    "delta_upper",
    "evaluate",
    "leaf_of",
    "powers",
    "square",
]
