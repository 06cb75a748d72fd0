"""The tight engine: bounds that meet, from a dominating pair on a grid above and exact masses below, at any δ."""

from pbdist.buckets.tight.inversion import EpsilonBounds, epsilon_table
from pbdist.buckets.tight.state import TiltedMasses
from pbdist.buckets.tight.table import TightBounds, tight_bounds

__all__ = ["EpsilonBounds", "TightBounds", "TiltedMasses", "epsilon_table", "tight_bounds"]
