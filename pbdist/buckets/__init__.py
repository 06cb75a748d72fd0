"""Privacy buckets: bucket lists, their composition, and the bounds on δ that they give; numpy and scipy only."""

from pbdist.buckets.arguments import DEFAULT_BUCKETS, DEFAULT_TOLERANCE, MAX_COMPOSITIONS, half_width_of
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
from pbdist.buckets.table import METHODS, BoundsTable, EpsilonTable, bounds_table, epsilon_table_of
from pbdist.fourier import convolve
from pbdist.pld import PairState

__all__ = [
    "DEFAULT_BUCKETS",
    "DEFAULT_TOLERANCE",
    "MAX_COMPOSITIONS",
    "METHODS",
    "SHARP_RULE",
    "BoundsTable",
    "BucketState",
    "Composed",
    "EpsilonTable",
    "Grid",
    "Leaf",
    "LowerBound",
    "PairState",
    "Squared",
    "SquaringRule",
    "UpperBound",
    "bounds_table",
    "compose",
    "compose_adaptively",
    "convolve",
    "delta_lower",
    "delta_upper",
    "epsilon_table_of",
    "evaluate",
    "half_width_of",
    "leaf_of",
    "powers",
    "square",
]
