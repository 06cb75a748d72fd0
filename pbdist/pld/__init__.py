"""Privacy loss distributions: bounds that meet, from a dominating pair above and exact masses below."""

from pbdist.pld.engine import TightBounds, factor_counts, tight_bounds
from pbdist.pld.inversion import EpsilonBounds, epsilon_table
from pbdist.pld.kept import KeptStates, kept_states
from pbdist.pld.reading import LARGEST_EPSILON, lower_deltas, upper_deltas
from pbdist.pld.state import PairState

__all__ = [
    "LARGEST_EPSILON",
    "EpsilonBounds",
    "KeptStates",
    "PairState",
    "TightBounds",
    "epsilon_table",
    "factor_counts",
    "kept_states",
    "lower_deltas",
    "tight_bounds",
    "upper_deltas",
]
