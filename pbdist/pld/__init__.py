"""Privacy loss distributions on lattices, composed by a ladder of squares: one state answers every ε."""

from pbdist.pld.inversion import ladder_epsilon
from pbdist.pld.kept import KeptStates, kept_states
from pbdist.pld.reading import LARGEST_EPSILON, lower_deltas, upper_deltas
from pbdist.pld.state import PairState
from pbdist.pld.table import LadderBounds, ladder_bounds

__all__ = [
    "LARGEST_EPSILON",
    "KeptStates",
    "LadderBounds",
    "PairState",
    "kept_states",
    "ladder_bounds",
    "ladder_epsilon",
    "lower_deltas",
    "upper_deltas",
]
