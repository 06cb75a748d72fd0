"""Privacy loss distributions: bounds that meet, from a dominating pair above and exact masses below."""

from pbdist.pld.engine import TightBounds, tight_bounds
from pbdist.pld.inversion import EpsilonTable, epsilon_table
from pbdist.pld.saved_states import SavedStates, compute_states
from pbdist.pld.state import LARGEST_READ, PairState, lower_deltas, upper_deltas

__all__ = [
    "LARGEST_READ",
    "EpsilonTable",
    "PairState",
    "SavedStates",
    "TightBounds",
    "compute_states",
    "epsilon_table",
    "lower_deltas",
    "tight_bounds",
    "upper_deltas",
]
