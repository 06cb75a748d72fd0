"""A table of tight bounds: loss widths, tilts and windows are chosen so that the bounds meet within a tolerance."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pbdist.buckets.tight.apart import Apart, told_apart
from pbdist.buckets.tight.engine import (
    MAX_CELLS,
    Family,
    PointBounds,
    bounds_of_group,
    families_of,
    infinite_loss,
    widest_span,
)
from pbdist.buckets.tight.gaussian import gaussian_bounds, gaussian_ratio, gaussian_width
from pbdist.buckets.tight.ladder import STEP, stages_of
from pbdist.buckets.tight.plan import Group, tilt_groups
from pbdist.buckets.tight.points import Means, Point, points_of
from pbdist.buckets.tight.profile import LossProfile, loss_profile
from pbdist.buckets.tight.state import TiltedMasses
from pbdist.errors import PrecisionError
from pbdist.mechanisms import ElementaryPair, Pair
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["LONGEST", "LONGEST_GIVEN", "TightBounds", "TightTable", "factor_counts", "tight_bounds"]

#: Passes at most.
_PASSES = 8
#: Below this, as a logarithm, masses of single outcomes are not told from 0.
_UNRESOLVED = -600.0
#: Longest transform where the width is chosen, and where it is given; how much wider the next attempt is.
LONGEST, LONGEST_GIVEN, _WIDER = 1 << 22, 1 << 25, 4.0
#: Below this, as a logarithm, δ is told as well as one pass tells it.
_DEEPEST = -2500.0
#: Largest product of tilt and width, that of the coarsest grid.
_STEEPEST = 300.0
#: Width for pairs without any loss.
_TRIVIAL_WIDTH = 1e-6


@dataclass(frozen=True, eq=False)
class TightBounds:
    """Bounds of both directions.

    Attributes
    ----------
    log_lower, log_upper : ndarray, shape (2, R, E)
    width : float
        The smallest loss width used, nats.
    states : dict of (Direction, int) to TiltedMasses
        The last state of every direction and r.
    """

    log_lower: FloatArray
    log_upper: FloatArray
    width: float
    states: dict[tuple[Direction, int], TiltedMasses]


def tight_bounds(
    counts: dict[ElementaryPair, int],
    rounds: IntArray,
    epsilon: FloatArray,
    *,
    tolerance: float,
    width: float | None = None,
    buckets: int | None = None,
    strict: bool = True,
    keep_states: bool = False,
) -> TightBounds:
    """Bound δ for every r and ε.

    Parameters
    ----------
    counts : dict of ElementaryPair to int
        What one round consists of.
    rounds : ndarray of int64, shape (R,)
    epsilon : ndarray, shape (E,)
        Nats.
    tolerance : float
        Largest upper / lower - 1 aimed at.
    width : float, optional
        Loss width of the leaves, nats: nothing is chosen or refined then, and the grid does not evolve.
    buckets : int, optional
        Number of cells of a leaf, about: the width follows from it, and nothing is refined.
    strict : bool, optional
        Whether a tolerance that is not reached is an error.
    keep_states : bool, optional
        Whether to return the states, too: every composition is then computed in full.

    Raises
    ------
    PrecisionError
        If `strict` and the tolerance is not reached.
    InvalidInputError
        If the losses need more cells than are allowed.
    """
    table = TightTable(
        counts, rounds, epsilon, tolerance=tolerance, width=width, buckets=buckets, keep_states=keep_states
    )
    table.solve(strict=strict)
    if table.symmetric:
        table.log_lower[1], table.log_upper[1] = table.log_lower[0], table.log_upper[0]
    upper = np.minimum(table.log_upper, _log_limit(counts, rounds)[None, :, None])
    return TightBounds(table.log_lower, upper, min(table.widths), table.states)


def _log_limit(counts: dict[ElementaryPair, int], rounds: IntArray) -> FloatArray:
    """Logarithm of what no δ exceeds: all P_A mass."""
    result: FloatArray = rounds.astype(np.float64) * sum(
        count * math.log(max(pair.total_mass)) for pair, count in counts.items()
    )
    return result


class TightTable:
    """The bounds, pass by pass."""

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
    ) -> None:
        self.counts, self.rounds, self.epsilon, self.tolerance = counts, rounds, epsilon, tolerance
        self.width, self.buckets, self.keep_states = width, buckets, keep_states
        self.longest = LONGEST_GIVEN if self.fixed else LONGEST
        shape = (2, rounds.size, epsilon.size)
        self.log_lower, self.log_upper = np.full(shape, -np.inf), np.full(shape, np.inf)
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

    def solve(self, *, strict: bool) -> None:
        """Fill the table."""
        every = [(row, column) for row in range(self.rounds.size) for column in range(self.epsilon.size)]
        if not self.fixed and not self.keep_states and self.solved_in_closed_form():
            return
        wanted = self._wanted_first()
        if not any(wanted.values()):
            self.widths.append(self.lattice or _TRIVIAL_WIDTH)
            return
        before: dict[tuple[int, int, int], float] = {}
        for attempt in range(_PASSES):
            errors: dict[tuple[int, int, int], float] = {}
            used: dict[tuple[int, int, int], Means] = {}
            groups = deque(self.groups(self._points(wanted)))
            while groups:
                group = groups.popleft()
                results = self._pass(group)
                if group.few:
                    done = {found.point for found in results}
                    left = [point.without_few(self.tolerance) for point in group.points if point not in done]
                    groups.extend(self.groups(left))
                for found in results:
                    cell = (list(Direction).index(found.point.direction), found.point.row, found.point.column)
                    self.log_lower[cell] = max(self.log_lower[cell], found.log_lower)
                    self.log_upper[cell] = min(self.log_upper[cell], found.log_upper)
                    errors[cell] = math.exp(min(found.log_error - found.log_upper, 0.0))
                    used[cell] = self._used(found.point)
            brackets = {
                (axis, *cell): self._bracket((axis, *cell))
                for axis, chosen in enumerate(wanted.values())
                for cell in chosen
            }
            # What two passes have not made much better no further one will.
            hopeful = {
                cell: bracket
                for cell, bracket in brackets.items()
                if not bracket <= self.tolerance
                and self.log_upper[cell] > self._deepest(cell[0])
                and (attempt < 2 or bracket < 0.8 * before.get(cell, math.inf))
            }
            if self.fixed or not hopeful or (self.lattice > 0.0 and attempt > 1):
                break
            wanted = {
                direction: {
                    cell[1:]: used[cell].changed(
                        bracket / self.tolerance, attempt, rounds=errors[cell] > 0.2 * min(bracket, 1.0)
                    )
                    for cell, bracket in hopeful.items()
                    if cell[0] == axis
                }
                for axis, direction in enumerate(self.directions)
            }
            before = brackets
        if strict and not self.fixed:
            missed = [
                (axis, *cell)
                for axis in range(len(self.directions))
                for cell in every
                if not self._bracket((axis, *cell)) <= self.tolerance
            ]
            # The worst that is not excused is told, and the first one to be found is that.
            for cell in sorted(missed, key=self._bracket, reverse=True):
                if not self._excused(cell):
                    self._refuse(cell)

    def _points(self, wanted: Mapping[Direction, Mapping[tuple[int, int], Means]]) -> list[Point]:
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
                known=self._found(axis),
                floor=self.apart[direction].lower if direction in self.apart else None,
            )
        ]

    def _found(self, axis: int) -> FloatArray:
        """Lower bounds that passes have found, -inf where none has found a better one than was known before."""
        apart = self.apart.get(self.directions[axis])
        found = self.log_lower[axis]
        return found if apart is None else np.where(found > apart.lower, found, -np.inf)

    def _deepest(self, axis: int) -> float:
        """Logarithm of δ below which one pass does: as little is promised as is known of what may be infinite."""
        apart = self.apart.get(self.directions[axis])
        return _UNRESOLVED if apart is not None and apart.uncertain else _DEEPEST

    def first_groups(self) -> list[Group]:
        """The groups that a first pass computes."""
        return self.groups(self._points(self._wanted_first()))

    def _wanted_first(self) -> dict[Direction, dict[tuple[int, int], Means]]:
        """What is left to be computed, and with what means at first."""
        means = Means(few=not self.keep_states and self.lattice == 0.0)
        every = [(row, column) for row in range(self.rounds.size) for column in range(self.epsilon.size)]
        wanted: dict[Direction, dict[tuple[int, int], Means]] = {}
        for axis, direction in enumerate(self.directions):
            apart = self.apart.get(direction)
            if apart is not None:
                np.maximum(self.log_lower[axis], apart.lower, out=self.log_lower[axis])
                np.minimum(self.log_upper[axis], apart.upper, out=self.log_upper[axis])
            wanted[direction] = {
                cell: replace(means, apart=apart is not None and bool(apart.known[cell]))
                for cell in every
                if not (self._bracket((axis, *cell)) <= self.tolerance or (apart is not None and apart.settled[cell]))
            }
        return wanted

    def groups(self, points: Sequence[Point]) -> list[Group]:
        """Gather points into groups."""
        return tilt_groups(points, self.tolerance, coarsens=self.coarsens)

    def solved_in_closed_form(self) -> bool:
        """Fill in what has a closed form; whether the tolerance is met everywhere."""
        ratio = gaussian_ratio(self.counts)
        if ratio is None:
            return False
        self.log_lower[0], self.log_upper[0] = gaussian_bounds(ratio, self.rounds, self.epsilon)
        leaves = sum(self.counts.values())
        self.widths.append(gaussian_width(ratio, self.rounds, self.epsilon, leaves, self.tolerance))
        return bool(np.all(self.log_upper[0] - self.log_lower[0] <= math.log1p(self.tolerance)))

    def _used(self, point: Point) -> Means:
        """Return what a point has been computed with: the width may be one that others of its group needed."""
        if self.fixed or not self.coarsens:
            return point.means
        estimate = point.width(self.tolerance, coarsens=True) / point.means.factor
        return replace(point.means, factor=self.widths[-1] / estimate)

    def _bracket(self, cell: tuple[int, int, int]) -> float:
        lower, upper = float(self.log_lower[cell]), float(self.log_upper[cell])
        if upper in (-math.inf, lower):
            return 0.0
        return math.expm1(min(upper - lower, 700.0)) if lower > -math.inf else math.inf

    def width_of(self, group: Group) -> float:
        """Choose the loss width of a group's leaves."""
        if self.width is not None:
            return self.width
        if self.lattice > 0.0:
            return self.lattice
        if self.buckets is not None:
            return self._aligned(widest_span(self.families, group, self.tolerance) / self.buckets)
        if not any(family.profiles[Direction.A_TO_B].loss.size for family in self.families):
            return _TRIVIAL_WIDTH
        finest = widest_span(self.families_of(group), group, self.tolerance) / MAX_CELLS
        # A stack's picture is that of its widest pair, somewhat wider than the others.
        stacked = any(len(family.pairs) > 1 for family in self.families)
        aimed = group.width((0.6 if stacked else 1.0) * self.tolerance, coarsens=self.coarsens)
        return self._aligned(max(aimed, finest))

    def stages_of(self, group: Group) -> int:
        """How often a group's grid is made coarser."""
        return stages_of(max(point.leaves for point in group.points), coarsens=self.coarsens and not group.few)

    def _pass(self, group: Group) -> list[PointBounds]:
        coarsens, width, stages = self.coarsens, self.width_of(group), self.stages_of(group)
        for attempt in range(_PASSES):
            self.widths.append(width)
            # A position more must not weigh more than floats can tell, in any row.
            coarsest = width * float(STEP) ** stages
            steepest = max(_STEEPEST / coarsest - (1.0 if stages else 0.0), 0.0)
            try:
                if stages and coarsest > _STEEPEST:
                    raise PrecisionError(
                        f"compositions: expected losses that take buckets of at most {_STEEPEST:g} nats, got"
                        f" {coarsest:.3g} nats"
                    )
                results = bounds_of_group(
                    self.families_of(group),
                    replace(group, tilt=min(group.tilt, steepest)),
                    width,
                    self.tolerance,
                    coarsens=coarsens,
                    longest=self.longest,
                    keep=self.states if self.keep_states else None,
                )
                apart = self.apart[group.directions[0]] if group.apart else None
                return results if apart is None else [apart.with_far(found) for found in results]
            except PrecisionError:
                if self.fixed or attempt == _PASSES - 1:
                    raise
                # Losses too far apart for that width; what a wider one gives is told.
                self.widths.pop()
                width *= _WIDER
        return []

    def _aligned(self, width: float) -> float:
        """Let the heaviest atom, if there is one, lie on the grid, unless it is closer to 0 than that."""
        atom = max(profile.heaviest_atom for family in self.families for profile in family.profiles.values())
        return atom / math.ceil(atom / width) if atom > 0.1 * width else width

    def _excused(self, cell: tuple[int, int, int]) -> bool:
        """Whether no better is to be had: an ε lower by a part in 10^6 has a δ beyond the upper bound.

        So it is where ε is the largest loss, or beyond it by less than rounding: δ is 0, and the upper bound is not.
        """
        log_upper = float(self.log_upper[cell])
        if log_upper < _UNRESOLVED:
            return True
        if float(self.log_lower[cell]) > -math.inf:
            return False
        lower_epsilon = float(self.epsilon[cell[2]]) * (1.0 - 1e-6)
        near = TightTable(
            self.counts,
            self.rounds[cell[1] : cell[1] + 1],
            np.array([lower_epsilon]),
            tolerance=1e-6 * self.tolerance,
            width=min(self.widths),
        )
        # No more than a pass of its own takes.
        near.longest = LONGEST
        try:
            near.solve(strict=False)
        except PrecisionError:
            return False
        return float(near.log_lower[cell[0], 0, 0]) >= log_upper - math.log1p(self.tolerance)

    def _refuse(self, worst: tuple[int, int, int]) -> None:
        raise PrecisionError(
            f"tolerance: expected upper / lower - 1 <= {self.tolerance:g} for every r and ε, got"
            f" {self._bracket(worst):.3g} at r = {int(self.rounds[worst[1]])},"
            f" ε = {float(self.epsilon[worst[2]]):g} (ln δ between {self.log_lower[worst]:.6g} and"
            f" {self.log_upper[worst]:.6g}) with loss buckets of {min(self.widths):.3g} nats; allow a larger tolerance,"
            " or give `factor`, with which none is asked for"
        )


def _widest(pairs: Sequence[ElementaryPair]) -> ElementaryPair:
    """The pair of a stack whose losses spread most: its sensitivity is the largest against its scale."""
    return max(pairs, key=lambda pair: getattr(pair, "sensitivity", 1.0) / getattr(pair, "scale", 1.0))


def factor_counts(components: Sequence[tuple[Pair, int]]) -> dict[ElementaryPair, int]:
    """Return the elementary pairs of a round, and how often each occurs in it."""
    counts: dict[ElementaryPair, int] = {}
    for pair, count in components:
        for factor in pair.factors:
            counts[factor] = counts.get(factor, 0) + count
    return counts
