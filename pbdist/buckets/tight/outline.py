"""What a table is to be computed from: pictures of a round's losses, its points and groups, and their widths."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from pbdist.buckets.tight.apart import Apart, told_apart
from pbdist.buckets.tight.engine import MAX_CELLS, Family, families_of, farthest_loss, infinite_loss, widest_span
from pbdist.buckets.tight.ladder import stages_of
from pbdist.buckets.tight.plan import Group, tilt_groups
from pbdist.buckets.tight.points import Means, Point, points_of
from pbdist.buckets.tight.state import TiltedMasses
from pbdist.mechanisms import ElementaryPair
from pbdist.pld.profile import LossProfile, loss_profile
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["LONGEST", "LONGEST_GIVEN", "TRIVIAL_WIDTH", "TableOutline", "rough_log_delta"]

#: Longest transform where the width is chosen, and where it is given.
LONGEST, LONGEST_GIVEN = 1 << 22, 1 << 25
#: Width for pairs without any loss.
TRIVIAL_WIDTH = 1e-6
#: So many cells from 0, a position is still told from its neighbours with some bits to spare.
_FARTHEST_CELL = 2.0**48
#: By how many nats the other direction's δ is larger where it decides how well this one need be known.
_CLEARLY_LARGER = 5.0


class TableOutline:
    """A table over r and ε before its first pass; of what is chosen here only what is told apart is a bound."""

    def __init__(
        self,
        counts: dict[ElementaryPair, int],
        rounds: IntArray,
        epsilon: FloatArray,
        *,
        tolerance: float,
        width: float | None,
        buckets: int | None = None,
        keep_states: bool = False,
        together: bool = False,
        floor: float = 0.0,
    ) -> None:
        self.counts, self.rounds, self.epsilon, self.tolerance = counts, rounds, epsilon, tolerance
        self.width, self.buckets, self.keep_states, self.together = width, buckets, keep_states, together
        self.floor = floor
        self._log_floor = math.log(floor) if floor > 0.0 else -math.inf
        self.longest = LONGEST_GIVEN if self.fixed else LONGEST
        shape = (2, rounds.size, epsilon.size)
        # No δ of distributions exceeds 1, also where a histogram's masses sum to a little more.
        self.log_lower, self.log_upper = np.full(shape, -np.inf), np.zeros(shape)
        self.symmetric = all(pair.symmetric for pair in counts)
        self.directions = tuple(Direction)[: 1 if self.symmetric else 2]
        self.widths: list[float] = []
        self.states: dict[tuple[Direction, int], TiltedMasses] = {}

    @cached_property
    def families(self) -> list[Family]:
        """What a round consists of, with rough pictures of the losses."""
        target = float(self.epsilon.max()) / (float(self.rounds.min()) * sum(self.counts.values()))
        families: list[Family] = []
        for pairs, count in families_of(self.counts):
            profile = loss_profile(_widest(pairs), target)
            families.append(Family(pairs, count, {Direction.A_TO_B: profile, Direction.B_TO_A: profile.swapped()}))
        return families

    @cached_property
    def lattice(self) -> float:
        """A width of which all losses are multiples; 0 if there is none."""
        lattices = {family.profiles[Direction.A_TO_B].lattice for family in self.families}
        return lattices.pop() if len(lattices) == 1 else 0.0

    @cached_property
    def apart(self) -> dict[Direction, Apart]:
        """What infinite losses, and rare ones far above all others, are worth."""
        if self.fixed or self.keep_states:
            return {}
        found = {
            direction: told_apart(self.families, direction, self.rounds, self.epsilon, self.tolerance)
            for direction in self.directions
        }
        return {direction: apart for direction, apart in found.items() if apart is not None}

    def families_of(self, group: Group) -> list[Family]:
        """What a round consists of that a group is to compose."""
        return self.apart[group.directions[0]].families if group.apart else self.families

    @property
    def fixed(self) -> bool:
        """Whether the width is given."""
        return self.width is not None or self.buckets is not None

    @property
    def coarsens(self) -> bool:
        """Whether the grid evolves."""
        return self.width is None and self.lattice == 0.0

    def _profiles(self, direction: Direction, *, apart: bool) -> list[tuple[LossProfile, int]]:
        """Pictures of the losses, those that tell the same as infinite ones split as in the leaves."""
        families = self.apart[direction].families if apart else self.families
        limit = infinite_loss(families, direction, int(self.rounds.max()), float(self.epsilon.max()), self.tolerance)
        found = [(family.profiles[direction].bounded(limit), family.leaves) for family in families]
        return [(profile, leaves) for profile, leaves in found if profile.loss.size]

    def points(
        self, wanted: Mapping[Direction, Mapping[tuple[int, int], Means]], known: Sequence[FloatArray]
    ) -> list[Point]:
        """Points of a table, by what each direction's are to be computed with and the lower bounds found so far."""
        leaves = sum(family.leaves for family in self.families)
        return [
            point
            for axis, (direction, every) in enumerate(wanted.items())
            for apart in (False, True)
            if (chosen := {cell: means for cell, means in every.items() if means.apart is apart})
            for point in points_of(
                direction,
                self._profiles(direction, apart=apart),
                self.rounds,
                self.epsilon,
                leaves=leaves,
                tolerance=self.tolerance,
                wanted=chosen,
                known=known[axis],
                floor=self._floor(axis),
            )
        ]

    def _floor(self, axis: int) -> FloatArray | None:
        """Logarithms of what δ need not be known better than, shape (R, E): that of infinite and far losses alone.

        Where the larger direction alone is to be met, that of the other one as well, if it is clearly the larger one.
        """
        apart = self.apart.get(self.directions[axis])
        floor = None if apart is None else apart.lower
        if not self.together or self.symmetric:
            return floor
        own, other = self.log_lower[axis], self.log_lower[1 - axis]
        other = np.where(other - _CLEARLY_LARGER > own, other, -np.inf)
        return other if floor is None else np.maximum(floor, other)

    def groups(self, points: Sequence[Point]) -> list[Group]:
        """Gather points into groups."""
        return tilt_groups(points, self.tolerance, coarsens=self.coarsens)

    def width_of(self, group: Group) -> float:
        """Choose the loss width of a group's leaves."""
        if self.width is not None:
            return self.width
        if self.lattice > 0.0:
            return self.lattice
        if self.buckets is not None:
            return self._aligned(
                max(widest_span(self.families, group, self.tolerance) / self.buckets, self._finest_width(group))
            )
        if not any(family.profiles[Direction.A_TO_B].loss.size for family in self.families):
            return TRIVIAL_WIDTH
        finest = widest_span(self.families_of(group), group, self.tolerance) / MAX_CELLS
        # A stack's picture is that of its widest pair, somewhat wider than the others.
        stacked = any(len(family.pairs) > 1 for family in self.families)
        aimed = group.width((0.6 if stacked else 1.0) * self.tolerance, coarsens=self.coarsens)
        return self._aligned(max(aimed, finest, self._finest_width(group)))

    def _finest_width(self, group: Group) -> float:
        """Return the width below which the positions of the farthest losses were no floats of their own."""
        return farthest_loss(self.families_of(group), group, self.tolerance) / _FARTHEST_CELL

    def stages_of(self, group: Group) -> int:
        """How often a group's grid is made coarser."""
        return stages_of(max(point.leaves for point in group.points), coarsens=self.coarsens and not group.few)

    def _aligned(self, width: float) -> float:
        """Let the heaviest atom, if there is one, lie on the grid, unless it is closer to 0 than that."""
        atom = max(profile.heaviest_atom for family in self.families for profile in family.profiles.values())
        return atom / math.ceil(atom / width) if atom > 0.1 * width else width


def _widest(pairs: Sequence[ElementaryPair]) -> ElementaryPair:
    """The pair of a stack whose losses spread most: its sensitivity is the largest against its scale."""
    return max(pairs, key=lambda pair: getattr(pair, "sensitivity", 1.0) / getattr(pair, "scale", 1.0))


def rough_log_delta(
    counts: dict[ElementaryPair, int], rounds: IntArray, epsilon: FloatArray, directions: Sequence[Direction]
) -> FloatArray:
    """About ln δ after a number of rounds, shape (1,), at every ε: the largest of some directions', shape (E,).

    No bound: by saddle points of rough pictures of the losses.
    """
    table = TableOutline(counts, rounds, epsilon, tolerance=1e-2, width=None)
    every = {(0, column): Means() for column in range(epsilon.size)}
    unknown = np.full((1, epsilon.size), -np.inf)
    result = np.full(epsilon.size, -np.inf)
    for point in table.points(dict.fromkeys(directions, every), [unknown] * len(directions)):
        result[point.column] = max(result[point.column], min(point.log_delta, 0.0))
    # A δ of 0 is told apart from none at all.
    return np.where(result > -1e6, result, -1e6)
