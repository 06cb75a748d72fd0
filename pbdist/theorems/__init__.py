"""Bounds of earlier work, to be compared with certified ones."""

from pbdist.theorems.api import THEOREMS, earlier_bounds

__all__ = ["THEOREMS", "earlier_bounds"]
