"""Rényi divergences of single pairs; numpy and scipy only."""

from pbdist.renyi.divergence import closest_bounds, divergence_bounds, finite_moment_above

__all__ = ["closest_bounds", "divergence_bounds", "finite_moment_above"]
