"""Rényi divergences of single pairs; numpy and scipy only."""

from pbdist.renyi.closed_form import closed_form_bounds
from pbdist.renyi.divergence import closest_bounds, divergence_bounds, finite_moment_above

__all__ = ["closed_form_bounds", "closest_bounds", "divergence_bounds", "finite_moment_above"]
