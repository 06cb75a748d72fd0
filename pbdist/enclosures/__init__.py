"""Pairs without masses of their own: two finite pairs around each, one that it dominates and one that dominates it."""

from pbdist.enclosures.bounds import delta_bounds, epsilon_bounds, states_to_keep
from pbdist.enclosures.enclose import Fineness, any_enclosed, enclosed_counts
from pbdist.enclosures.refining import USUAL_PART

__all__ = [
    "USUAL_PART",
    "Fineness",
    "any_enclosed",
    "delta_bounds",
    "enclosed_counts",
    "epsilon_bounds",
    "states_to_keep",
]
