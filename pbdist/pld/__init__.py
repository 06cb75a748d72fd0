"""Privacy loss distributions: bounds that meet, from a dominating pair above and exact masses below."""

from pbdist.pld.engine import TightBounds, factor_counts, tight_bounds
from pbdist.pld.inversion import EpsilonBounds, epsilon_table

__all__ = ["EpsilonBounds", "TightBounds", "epsilon_table", "factor_counts", "tight_bounds"]
