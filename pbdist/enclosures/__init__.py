"""Pairs without masses of their own: two finite pairs around each, one that it dominates and one that dominates it."""

from pbdist.enclosures.bounds import (
    USUAL_PART,
    Fineness,
    compute_enclosed_states,
    delta_bounds,
    enclosed_counts,
    enclosed_epsilon_table,
)

__all__ = [
    "USUAL_PART",
    "Fineness",
    "compute_enclosed_states",
    "delta_bounds",
    "enclosed_counts",
    "enclosed_epsilon_table",
]
