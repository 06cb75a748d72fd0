"""Tables of bounds on δ and on ε for every r and ε, or r and δ, by either method."""

from pbdist.arguments import DEFAULT_FLOOR
from pbdist.table.delta import METHODS, BoundsTable, EpsilonTable, bounds_table, epsilon_table_of

__all__ = [
    "DEFAULT_FLOOR",
    "METHODS",
    "BoundsTable",
    "EpsilonTable",
    "bounds_table",
    "epsilon_table_of",
]
