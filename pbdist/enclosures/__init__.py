"""Pairs without masses of their own: two finite pairs around each, one that it dominates and one that dominates it."""

from pbdist.enclosures.bounds import delta_bounds, epsilon_bounds, states_to_keep
from pbdist.enclosures.enclose import Fineness, any_enclosed, enclosed_counts

__all__ = ["Fineness", "any_enclosed", "delta_bounds", "enclosed_counts", "epsilon_bounds", "states_to_keep"]
