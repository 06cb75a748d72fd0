"""Pairs of Gaussian noise around those that are enclosed: wide, but known for every amount of noise."""

import math
from collections.abc import Mapping

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Gaussian, RandomAllocation, Reversed


def dominating_gaussians(counts: Mapping[ElementaryPair, int]) -> dict[ElementaryPair, int]:
    """Return the pairs of a round, those that are enclosed replaced by noise that dominates them (Theorem 48)."""
    return _replaced(counts, above=True)


def dominated_gaussians(counts: Mapping[ElementaryPair, int]) -> dict[ElementaryPair, int]:
    """Return the pairs of a round, those that are enclosed replaced by noise that they dominate (Theorem 48)."""
    return _replaced(counts, above=False)


def _replaced(counts: Mapping[ElementaryPair, int], *, above: bool) -> dict[ElementaryPair, int]:
    result: dict[ElementaryPair, int] = {}
    for pair, count in counts.items():
        standing = _standing_for(pair, above=above) if pair.enclosed else pair
        result[standing] = result.get(standing, 0) + count
    return result


def _standing_for(pair: ElementaryPair, *, above: bool) -> ElementaryPair:
    if isinstance(pair, Reversed):
        return Reversed(_standing_for(pair.pair, above=above))
    if not isinstance(pair, RandomAllocation):
        raise InvalidInputError(f"mechanism: expected one that can be enclosed, got {shown(pair)}")
    # More noise is a post-processing of less (Theorem 11): it is rounded up for what is dominated.
    scale = pair.scale if above else pair.scale * math.sqrt(pair.steps) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    return Gaussian(scale, pair.sensitivity)
