"""Pairs without masses of their own: two finite pairs around each, one that it dominates and one that dominates it."""

from pbdist.enclosures.bounds import (
    USUAL_PART,
    Fineness,
    any_enclosed,
    delta_bounds,
    enclosed_counts,
    enclosed_epsilon_table,
    states_to_keep,
)

__all__ = [
    "USUAL_PART",
    "Fineness",
    "any_enclosed",
    "delta_bounds",
    "enclosed_counts",
    "enclosed_epsilon_table",
    "states_to_keep",
]
