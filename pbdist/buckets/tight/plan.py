"""What is computed together: tilts, loss widths and windows for the (r, ε) that are asked for.

Nothing here is a bound.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from pbdist.buckets.tight.leaf_atoms import LeafWindow
from pbdist.buckets.tight.points import Point
from pbdist.pld.profile import LossProfile
from pbdist.types import Direction

__all__ = ["Group", "leaf_window", "loss_range", "tilt_groups"]

#: Points whose widths are alike within this factor are computed together.
_ALIKE = 16.0


@dataclass(frozen=True)
class Group:
    """Points that one tilt serves."""

    tilt: float
    points: tuple[Point, ...]

    @property
    def extended(self) -> bool:
        """Whether the transforms are to be in extended precision."""
        return self.points[0].means.extended

    @property
    def few(self) -> bool:
        """Whether the compositions are to be known by few frequencies."""
        return self.points[0].means.few

    @property
    def apart(self) -> bool:
        """Whether rare losses far above all others are told apart; all points are in one direction then."""
        return self.points[0].means.apart

    @property
    def excess(self) -> float:
        """Largest excess of the points at the group's tilt."""
        return max(point.excess_at(self.tilt) for point in self.points)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of the points, in their fixed order."""
        present = {point.direction for point in self.points}
        return tuple(direction for direction in Direction if direction in present)

    def of(self, direction: Direction) -> "Group":
        """The points of one direction."""
        return Group(self.tilt, tuple(point for point in self.points if point.direction is direction))

    def width(self, tolerance: float, *, coarsens: bool) -> float:
        """Loss width with which the bracket of every point is about 0.75 of the tolerance."""
        return min(point.width(tolerance, coarsens=coarsens) for point in self.points)


def tilt_groups(points: Sequence[Point], tolerance: float, *, coarsens: bool) -> list[Group]:
    """Cover the points by as few tilts as keep the rounding well below the tolerance, like widths together."""
    ordered = sorted(points, key=lambda point: point.width(tolerance, coarsens=coarsens))
    groups: list[Group] = []
    while ordered:
        widest = _ALIKE * ordered[0].width(tolerance, coarsens=coarsens) if coarsens else math.inf
        alike = [point for point in ordered if point.width(tolerance, coarsens=coarsens) <= widest]
        ordered = ordered[len(alike) :]
        for few, extended, apart in product((True, False), (False, True), (None, *Direction)):
            groups += _covered([point for point in alike if _kind(point) == (few, extended, apart)], tolerance)
    return groups


def _kind(point: Point) -> tuple[bool, bool, Direction | None]:
    """Return what points that are computed together have in common."""
    return point.means.few, point.means.extended, point.direction if point.means.apart else None


def _covered(points: Sequence[Point], tolerance: float) -> list[Group]:
    """Cover points by as few tilts as possible: intervals by points, the first end first."""
    reaches: list[tuple[float, float, Point]] = []
    for point in points:
        budget = math.log(0.1 * tolerance / point.rounding) - point.excess
        reach = point.reach(max(budget, 0.05))
        reaches.append((point.tilt - reach, point.tilt + reach, point))
    reaches.sort(key=lambda item: (item[1], item[2].direction.value, item[2].row, item[2].column))
    groups: list[Group] = []
    while reaches:
        end = reaches[0][1]
        served = [item for item in reaches if item[0] <= end]
        begin = max(item[0] for item in served)
        # The middle of what serves all leaves room for the estimates.
        tilt = 0.5 * (begin + end) if begin > 0.0 else min(end, float(np.median([item[2].tilt for item in served])))
        groups.append(Group(max(tilt, 0.0), tuple(item[2] for item in served)))
        reaches = [item for item in reaches if item[0] > end]
    return groups


def leaf_window(
    profile: LossProfile, group: Group, *, width: float, outside: float, limit: float, lost: float
) -> LeafWindow:
    """Choose the cells of a leaf.

    Parameters
    ----------
    profile : LossProfile
    group : Group
    width : float
        h, nats.
    outside : float
        Weight that may be left out on either side.
    limit : float
        Losses above this, nats, tell the same as infinite ones.
    lost : float
        P_B mass of what goes to infinity that is not worth more cells.
    """
    if profile.loss.size == 0:
        return LeafWindow(width, 0, 1, True)
    low, high, spread = profile.range(group.tilt, outside, limit, lost)
    # The end lies above the last loss, so that an atom there is not taken for one beyond it, and stands alone.
    last = math.floor(high / width + 1e-9) + 2
    first = min(math.floor(low / width + 1e-9), last)
    return LeafWindow(width, first, last, spread)


def loss_range(profile: LossProfile, group: Group, *, outside: float, limit: float, lost: float) -> tuple[float, float]:
    """Return the lowest and the highest loss that a leaf needs, nats; parameters as for `leaf_window`."""
    if profile.loss.size == 0:
        return 0.0, 0.0
    low, high, _ = profile.range(group.tilt, outside, limit, lost)
    return min(low, high), high
