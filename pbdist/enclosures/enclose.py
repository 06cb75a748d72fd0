"""Enclosures of pairs whose masses have no closed form, as fine as is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pbdist.enclosures.allocation import dominated_sum, dominating_sum
from pbdist.enclosures.finite import dominated_pair, dominating_pair
from pbdist.enclosures.gaussian_ratio import GaussianRatio
from pbdist.enclosures.spacings import chosen_plan
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ElementaryPair, Enclosure, Gaussian, RandomAllocation, Reversed

#: Enclosures that are kept from one call to the next.
_KEPT = 4


@dataclass(frozen=True)
class Fineness:
    """How closely an enclosure encloses.

    Attributes
    ----------
    resolution : float
        Points in a standard deviation, about. The relative distance of both δ falls as its square.
    lost : float
        Mass of one pair that may become infinite above, and be left out below.
    matters : float
        The smallest δ of one pair that matters.
    """

    resolution: float
    lost: float
    matters: float


def any_enclosed(counts: Mapping[ElementaryPair, int]) -> bool:
    """Whether the masses of some pair are known only through an enclosure."""
    return any(pair.enclosed for pair in counts)


def enclosed_counts(counts: Mapping[ElementaryPair, int], fineness: Fineness) -> dict[ElementaryPair, int]:
    """Return the pairs of a round, those without masses of their own replaced by enclosures."""
    result: dict[ElementaryPair, int] = {}
    for pair, count in counts.items():
        standing = _standing_for(pair, fineness) if pair.enclosed else pair
        result[standing] = result.get(standing, 0) + count
    return result


def _standing_for(pair: ElementaryPair, fineness: Fineness) -> ElementaryPair:
    if isinstance(pair, Reversed):
        return Reversed(_standing_for(pair.pair, fineness))
    if isinstance(pair, RandomAllocation):
        return _allocation(pair, fineness)
    raise InvalidInputError(f"mechanism: expected one that can be enclosed, got {shown(pair)}")


@lru_cache(maxsize=_KEPT)
def _allocation(pair: RandomAllocation, fineness: Fineness) -> ElementaryPair:
    if pair.steps == 1:
        return Gaussian(pair.scale, pair.sensitivity)
    plan = chosen_plan(pair.sensitivity / pair.scale, pair.steps, fineness.resolution, fineness.lost, fineness.matters)
    ratio = GaussianRatio(pair.scale, pair.sensitivity)
    return Enclosure(
        dominated=dominated_pair(dominated_sum(ratio, plan)),
        above=dominating_pair(dominating_sum(ratio, plan), plan.unit),
    )
