"""Privacy loss distributions on lattices, composed by a ladder of squares: one state answers every ε."""

from pbdist.pld.inversion import ladder_epsilon
from pbdist.pld.table import LadderBounds, ladder_bounds

__all__ = ["LadderBounds", "ladder_bounds", "ladder_epsilon"]
