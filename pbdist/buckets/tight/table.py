"""A table of tight bounds: loss widths, tilts and windows are chosen so that the bounds meet within a tolerance."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.buckets.tight.engine import PointBounds, bounds_of_group
from pbdist.buckets.tight.gaussian import gaussian_bounds, gaussian_ratio, gaussian_width
from pbdist.buckets.tight.ladder import STEP
from pbdist.buckets.tight.outline import LONGEST, LONGEST_GIVEN, TRIVIAL_WIDTH, TableOutline
from pbdist.buckets.tight.plan import Group
from pbdist.buckets.tight.points import Means, Point
from pbdist.buckets.tight.state import TiltedMasses
from pbdist.errors import PrecisionError
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Pair
from pbdist.pld import ladder_bounds
from pbdist.progress import report
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["LONGEST", "LONGEST_GIVEN", "TightBounds", "TightTable", "factor_counts", "tight_bounds"]

#: Passes at most, and of few points where a ladder follows.
_PASSES, _QUICK_PASSES = 8, 2
#: After so many lower bounds of 0 without an excuse it is not looked closer any more.
_EXCUSES = 16
#: For so many points at most the ladder comes second.
_FEW_POINTS = 12
#: No ladder looks deeper.
LEAST_FLOOR = 1e-130
#: Below this, as a logarithm, masses of single outcomes are not told from 0.
_UNRESOLVED = -600.0
#: How much wider the next attempt is where a width does not do.
_WIDER = 4.0
#: Below this, as a logarithm, δ is told as well as one pass tells it.
_DEEPEST = -2500.0
#: Largest product of tilt and width, that of the coarsest grid.
_STEEPEST = 300.0


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
    slow : bool
        Whether some points were not known by few frequencies.
    within : ndarray of bool, shape (2, R, E), or None
        Where the tolerance is met, or no better is to be had; with `together` both directions alike. None where none
        was aimed at.
    """

    log_lower: FloatArray
    log_upper: FloatArray
    width: float
    states: dict[tuple[Direction, int], TiltedMasses]
    slow: bool = False
    within: BoolArray | None = None


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
    together: bool = False,
    floor: float = 0.0,
    climbs: bool = True,
    excuses: bool = False,
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
    together : bool, optional
        Whether the larger of the two directions alone is to meet the tolerance: the other one's bounds then only need
        to show that it is the smaller one.
    floor : float, optional
        Where an upper bound is at most that, no tolerance is to be met.
    climbs : bool, optional
        Whether a ladder may be asked where this method does not do; if not, it does not try for long either.
    excuses : bool, optional
        Whether to look closer where a lower bound is 0: no better may be to be had there, as at the largest loss.

    Raises
    ------
    PrecisionError
        If `strict` and the tolerance is not reached.
    InvalidInputError
        If the losses need more cells than are allowed.
    """
    table = TightTable(
        counts,
        rounds,
        epsilon,
        tolerance=tolerance,
        width=width,
        buckets=buckets,
        keep_states=keep_states,
        together=together,
        floor=floor,
    )
    table.may_climb = climbs
    table.solve(strict=strict)
    if table.symmetric:
        table.log_lower[1], table.log_upper[1] = table.log_lower[0], table.log_upper[0]
    within = None if table.fixed else table.within(excuses=excuses)
    return TightBounds(
        np.minimum(table.log_lower, 0.0), table.log_upper, table.narrowest, table.states, table.slow, within
    )


class TightTable(TableOutline):
    """The bounds, pass by pass."""

    #: Whether the ladder may be asked, and whether points were not known by few frequencies.
    may_climb, slow = True, False

    def solve(self, *, strict: bool) -> None:
        """Fill the table."""
        every = [(row, column) for row in range(self.rounds.size) for column in range(self.epsilon.size)]
        if not self.fixed and not self.keep_states and self.solved_in_closed_form():
            return
        if self._climbs:
            self._by_turns(len(every))
        else:
            self._passes(self._wanted_first(), _PASSES)
        if not self.widths:
            self.widths.append(self.lattice or TRIVIAL_WIDTH)
        if strict and not self.fixed:
            self._check(every)

    def _by_turns(self, points: int) -> None:
        """Ask for what is missed first what is quick: a ladder for tables, few frequencies for points."""
        finer, table = 1.0, points > _FEW_POINTS
        if table and self.may_climb:
            finer = self._by_ladder(enough=points // 2)
        self._passes(self._wanted_first(), _QUICK_PASSES, light=table)
        if not self.may_climb:
            return
        wanted = self._wanted_first()
        if table:
            self._passes(wanted, _PASSES)
            wanted = self._wanted_first()
        # What few points are left may take long.
        if _points(wanted) and finer > 0.0:
            self._by_ladder(finer=finer, wanted=wanted)
            wanted = self._wanted_first()
        self._passes(wanted, _PASSES)

    @property
    def _climbs(self) -> bool:
        """Whether the ladder may serve: nothing is fixed, and no tilted states are asked for."""
        return not self.fixed and not self.keep_states

    def _by_ladder(
        self,
        *,
        enough: int = 0,
        finer: float = 1.0,
        wanted: dict[Direction, dict[tuple[int, int], Means]] | None = None,
    ) -> float:
        """Take over what a ladder of lattices tells of the points; how much finer it should have been, 0 if no use."""
        rows = list(range(self.rounds.size))
        if wanted is not None:
            rows = sorted({row for chosen in wanted.values() for row, _ in chosen})
        found = ladder_bounds(
            self.counts,
            self.rounds[rows],
            self.epsilon,
            tolerance=self.tolerance,
            floor=max(self.floor, LEAST_FLOOR),
            together=self.together,
            enough=enough,
            finer=finer,
        )
        if found is None:
            return 0.0
        with np.errstate(divide="ignore"):
            log_lower, log_upper = np.log(found.lower), np.log(found.upper)
        slack = 4.0 * UNIT_ROUNDOFF
        for axis in range(len(self.directions)):
            lower, upper = log_lower[axis], log_upper[axis]
            lower = lower - slack * (1.0 + np.abs(np.where(lower > -np.inf, lower, 0.0)))
            upper = upper + slack * (1.0 + np.abs(np.where(upper > -np.inf, upper, 0.0)))
            self.log_lower[axis, rows] = np.maximum(self.log_lower[axis, rows], lower)
            self.log_upper[axis, rows] = np.minimum(self.log_upper[axis, rows], upper)
        self.widths.append(found.spacing)
        return found.finer

    def _passes(
        self, wanted: dict[Direction, dict[tuple[int, int], Means]], passes: int, *, light: bool = False
    ) -> None:
        """Compute what is wanted, again and again where it misses the tolerance and another pass may help.

        With `light` what few frequencies do not tell is left.
        """
        before: dict[tuple[int, int, int], float] = {}
        for attempt in range(passes):
            if not _points(wanted):
                break
            report("pass", attempt + 1, passes)
            errors: dict[tuple[int, int, int], float] = {}
            used: dict[tuple[int, int, int], Means] = {}
            groups = deque(self.groups(self.points(wanted, self._found())))
            while groups:
                group = groups.popleft()
                results = self._pass(group)
                if group.few:
                    done = {found.point for found in results}
                    self.slow |= any(point not in done for point in group.points)
                    left = [point.without_few(self.tolerance) for point in group.points if point not in done]
                    groups.extend([] if light else self.groups(left))
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
                and cell in used
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

    def _check(self, every: list[tuple[int, int]]) -> None:
        """Refuse a table of which a point misses the tolerance without an excuse."""
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

    @property
    def narrowest(self) -> float:
        """The smallest width that was used, nats."""
        return min(self.widths, default=TRIVIAL_WIDTH)

    def within(self, *, excuses: bool) -> BoolArray:
        """Where the tolerance is met, or no better is to be had."""
        axes = len(self.directions)
        met = np.zeros((axes, self.rounds.size, self.epsilon.size), bool)
        looks = _EXCUSES if excuses else 0
        for cell in np.ndindex(*met.shape):
            met[cell] = self._bracket(cell) <= self.tolerance
            if not met[cell] and looks:
                met[cell] = self._excused(cell)
                # Where many have no excuse, no more are looked for.
                looks -= not met[cell] and self._judged_lower(cell) == -math.inf
        if self.together:
            met = np.broadcast_to(met.all(axis=0), met.shape)
        return np.array(np.broadcast_to(met, (2, *met.shape[1:])))

    def _found(self) -> list[FloatArray]:
        """Lower bounds that passes have found, -inf where none has found a better one than was known before."""
        result: list[FloatArray] = []
        for axis, direction in enumerate(self.directions):
            apart, found = self.apart.get(direction), self.log_lower[axis]
            result.append(found if apart is None else np.where(found > apart.lower, found, -np.inf))
        return result

    def _deepest(self, axis: int) -> float:
        """Logarithm of δ below which one pass does: as little is promised as is known of what may be infinite."""
        apart = self.apart.get(self.directions[axis])
        return _UNRESOLVED if apart is not None and apart.uncertain else _DEEPEST

    def first_groups(self) -> list[Group]:
        """The groups that a first pass computes."""
        wanted = self._wanted_first()
        return self.groups(self.points(wanted, self._found()))

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

    def solved_in_closed_form(self) -> bool:
        """Fill in what has a closed form; whether the tolerance is met everywhere."""
        ratio = gaussian_ratio(self.counts)
        if ratio is None:
            return False
        self.log_lower[0], upper = gaussian_bounds(ratio, self.rounds, self.epsilon)
        self.log_upper[0] = np.minimum(upper, 0.0)
        leaves = sum(self.counts.values())
        self.widths.append(gaussian_width(ratio, self.rounds, self.epsilon, leaves, self.tolerance))
        return bool(np.all(self.log_upper[0] - self.log_lower[0] <= math.log1p(self.tolerance)))

    def _used(self, point: Point) -> Means:
        """Return what a point has been computed with: the width may be one that others of its group needed."""
        if self.fixed or not self.coarsens:
            return point.means
        estimate = point.width(self.tolerance, coarsens=True) / point.means.factor
        return replace(point.means, factor=self.widths[-1] / estimate)

    def _judged_lower(self, cell: tuple[int, int, int]) -> float:
        """The lower bound that an upper one is judged by: the larger direction's, if that alone is to be met."""
        if self.together:
            return float(np.max(self.log_lower[(slice(None), *cell[1:])]))
        return float(self.log_lower[cell])

    def _bracket(self, cell: tuple[int, int, int]) -> float:
        lower, upper = min(self._judged_lower(cell), 0.0), float(self.log_upper[cell])
        if upper == -math.inf or upper <= lower or upper <= self._log_floor:
            return 0.0
        return math.expm1(min(upper - lower, 700.0)) if lower > -math.inf else math.inf

    def _pass(self, group: Group) -> list[PointBounds]:
        coarsens, width, stages = self.coarsens, self.width_of(group), self.stages_of(group)
        if stages and (len(self.families) > 1 or self.families[0].pairs[1:]):
            # What is composed of different pairs first is made coarser once more.
            stages += 1
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
                # States have to be told; of bounds what is known is told.
                if self.fixed or (self.keep_states and attempt == _PASSES - 1):
                    raise
                # Losses too far apart for that width; what a wider one gives is told.
                self.widths.pop()
                width *= _WIDER
        return []

    def _excused(self, cell: tuple[int, int, int]) -> bool:
        """Whether no better is to be had: an ε lower by a part in 10^6 has a δ beyond the upper bound.

        So it is where ε is the largest loss, or beyond it by less than rounding: δ is 0, and the upper bound is not.
        """
        log_upper = float(self.log_upper[cell])
        if log_upper < _UNRESOLVED or log_upper <= self._log_floor:
            return True
        if self._judged_lower(cell) > -math.inf:
            return False
        asked = float(self.epsilon[cell[2]])
        near = TightTable(
            self.counts,
            self.rounds[cell[1] : cell[1] + 1],
            np.array([asked * (1.0 - 1e-6), asked]),
            tolerance=1e-6 * self.tolerance,
            width=self.narrowest,
        )
        # No more than a pass of its own takes.
        near.longest = LONGEST
        try:
            near.solve(strict=False)
        except PrecisionError:
            return False
        # What is found at ε itself on the way is no worse than what was known.
        self.log_lower[cell] = max(self.log_lower[cell], near.log_lower[cell[0], 0, 1])
        self.log_upper[cell] = min(self.log_upper[cell], near.log_upper[cell[0], 0, 1])
        if self._judged_lower(cell) > -math.inf:
            return self._bracket(cell) <= self.tolerance
        return float(near.log_lower[cell[0], 0, 0]) >= log_upper - math.log1p(self.tolerance)

    def _refuse(self, worst: tuple[int, int, int]) -> None:
        raise PrecisionError(
            f"tolerance: expected upper / lower - 1 <= {self.tolerance:g} for every r and ε, got"
            f" {self._bracket(worst):.3g} at r = {int(self.rounds[worst[1]])},"
            f" ε = {float(self.epsilon[worst[2]]):g} (ln δ between {self._judged_lower(worst):.6g} and"
            f" {self.log_upper[worst]:.6g}) with loss buckets of {self.narrowest:.3g} nats; allow a larger tolerance,"
            " or give `factor`, with which none is asked for"
        )


def _points(wanted: dict[Direction, dict[tuple[int, int], Means]]) -> int:
    """Number of points of both directions."""
    return sum(len(chosen) for chosen in wanted.values())


def factor_counts(components: Sequence[tuple[Pair, int]]) -> dict[ElementaryPair, int]:
    """Return the elementary pairs of a round, and how often each occurs in it.

    Those that change nothing are left out, unless there are no others.
    """
    counts: dict[ElementaryPair, int] = {}
    for pair, count in components:
        for factor in pair.factors:
            counts[factor] = counts.get(factor, 0) + count
    telling = {factor: count for factor, count in counts.items() if not factor.neutral}
    return telling or counts
