"""Rows of a table by exact transforms: chooses tilts, smoothing and periods from measured brackets. Nothing is a bound.

The bounds are those of `smoothing`.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pbdist.pld.large_losses import LossCuts
from pbdist.pld.loss_transform import Rounds, rounds_of
from pbdist.pld.question import Question
from pbdist.pld.smoothing import Smoothed, SmoothedBounds, Tilts
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

#: Passes at most; part of the tolerance that smoothing aims at, first and when the tolerance was missed.
_PASSES, _FIRST_AIM, _AIM = 5, 0.5, 0.7
#: Terms that are left out are smaller by so many nats, relative to the tolerance and to δ; at most.
_CUT, _MOST_CUT = 14.0, 40.0
#: Part that smoothing may take at first of what the larger direction seems to be larger by.
_OF_SPARE = 0.5
#: Largest ratio: from 1.6 on there is no lower bound.
_LARGEST_RATIO = 0.5
#: By how much the ratio shrinks at least and at most.
_LEAST, _MOST = 0.8, 0.08
#: (1 + c) / 2 of the smoothing: its bracket is so many times s² τ (τ + 1).
_BRACKET = 1.25
#: About the error of bounds with the best tilt.
_ROUNDING = 3e-10
#: ε of one tilt have at most e to this times the error of the best one's, at first and where they missed.
_LEAST_EXCESS, MOST_EXCESS, _CAREFUL_EXCESS = 0.5, 11.0, 0.5
#: Less steep tilts that are tried, and what they may add to the error at least: logarithm.
_GENTLER, _GENTLE_EXCESS = (1.0, 0.85, 0.7, 0.55, 0.4), 2.5
#: So many frequencies need not be made fewer.
_FEW_ENOUGH = 500
#: Frequencies of one pass, at most, and with how much more smoothing where there would be more.
MOST_FREQUENCIES, _TOO_MANY = 1 << 17, 1.1
#: A bracket of more than this part of the one before is not tried again.
_HOPELESS = 0.9
#: ε up to so many times the least are cut alike where both parts matter, and what logarithms of sums may be off by.
_TOGETHER, SUMMED = 1.5, 1e-12


def has_transforms(question: Question) -> bool:
    """Whether all pairs have a transform."""
    return rounds_of(question.counts, Direction.A_TO_B) is not None


@dataclass(frozen=True, eq=False)
class Group:
    """ε that are served by one tilt, and by a less steep one at less cost, but not as well."""

    tilt: float
    gentle: float
    columns: IntArray
    log_delta: FloatArray


class DirectedRow:
    """One direction of a row, with what is known of it before any inversion, at all ε."""

    def __init__(self, direction: Direction, smoothed: Smoothed, epsilon: FloatArray) -> None:
        self.direction, self.smoothed, self._epsilon = direction, smoothed, epsilon

    @cached_property
    def log_delta(self) -> FloatArray:
        """About ln δ, by saddle points."""
        return self.smoothed.saddle(self._epsilon)[1]

    @cached_property
    def chernoff(self) -> FloatArray:
        """Upper bounds on ln δ."""
        return self.smoothed.chernoff(self._epsilon)

    @cached_property
    def nearly_all(self) -> FloatArray:
        """Lower bounds on ln δ, of use where δ is nearly 1."""
        return self.smoothed.nearly_all(self._epsilon)


class TransformRows:
    """Bounds by transforms for the rows of a table of pairs that have transforms.

    `finer` is a factor by which less is smoothed than seems enough.
    """

    def __init__(self, question: Question, *, finer: float = 1.0) -> None:
        self._question, self._part = question, finer
        self._sides: dict[Direction, tuple[Rounds, Tilts]] = {}
        #: Cuts of the losses, where they are cut.
        self.cuts: dict[Rounds, LossCuts] = {}
        for direction in question.directions:
            rounds = rounds_of(question.counts, direction)
            if rounds is not None:
                lines = question.shared.lines.setdefault(rounds, {})
                tilts = Tilts.of(rounds, int(question.rounds.min()), question.largest, lines)
                self._sides[direction] = rounds, tilts
                if LossCuts.serves(rounds):
                    self.cuts[rounds] = LossCuts(rounds, tilts)
        self._waiting: dict[int, list[DirectedRow]] = {}
        #: The smallest ratio that was used.
        self.width = math.inf
        #: Number of points that only parts of the losses will bound.
        self.left_to_parts = 0
        self.log_floor = math.log(question.floor) if question.floor > 0.0 else -math.inf

    def sides(self, row: int) -> list[DirectedRow]:
        """All directions of a row, the one whose δ seems to be larger first."""
        number = int(self._question.rounds[row])
        sides = [
            DirectedRow(direction, Smoothed(rounds, number, tilts), self._question.epsilon)
            for direction, (rounds, tilts) in self._sides.items()
        ]
        return sorted(sides, key=lambda side: -float(np.sum(side.log_delta)))

    def first_ratio(self, side: Smoothed, epsilon: FloatArray, tolerance: float) -> float:
        """Return the ratio of the first pass."""
        steepest = float(side.saddle(epsilon)[0].max())
        ratio = math.sqrt(_FIRST_AIM * tolerance / (_BRACKET * steepest * (steepest + 1.0)))
        return self._part * min(ratio, _LARGEST_RATIO)

    def row(
        self, row: int, known: tuple[FloatArray, FloatArray] | None = None, *, parts: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ of one row, shape (2, E) each, given lower and upper bounds that are known already.

        With `parts` losses are cut where that is needed; otherwise `left_to_parts` counts such points.
        """
        question = self._question
        shape = (2, question.epsilon.size)
        lower, upper = (np.full(shape, -np.inf), np.zeros(shape)) if known is None else map(np.copy, known)
        least, spare = np.full(question.epsilon.size, -np.inf), np.zeros(question.epsilon.size)
        sides = self._waiting.pop(row, None) or self.sides(row)
        before = self.left_to_parts
        for side in sides:
            axis = list(Direction).index(side.direction)
            own = least if question.together else np.full(least.size, -np.inf)
            self._side(side, own, spare, lower[axis], upper[axis], parts=parts)
            least = np.maximum(least, lower[axis])
            if question.together and len(sides) == 2:
                # The other direction only has to be shown to be smaller.
                other = next(each for each in sides if each is not side)
                spare = side.log_delta - other.log_delta
        if self.left_to_parts > before:
            self._waiting[row] = sides
        if question.symmetric:
            lower[1], upper[1] = lower[0], upper[0]
        return lower, upper

    def _side(
        self,
        row: DirectedRow,
        known: FloatArray,
        spare: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        *,
        parts: bool,
    ) -> None:
        """Improve the bounds of one direction."""
        side = row.smoothed
        question, met = self._question, math.log1p(self._question.tolerance)
        np.maximum(lower, row.nearly_all, out=lower)
        np.minimum(upper, row.chernoff, out=upper)
        hopeless = np.zeros(upper.size, dtype=bool)
        cuts = self.cuts.get(side.rounds)
        if cuts is not None:
            needed = (upper > self.log_floor) & (upper > np.maximum(known, lower) + met)
            needed[needed] = cuts.needed(side, question.epsilon[needed], missed=parts)
            if parts:
                self._by_parts(cuts, side.number, needed, known, lower, upper)
            else:
                self.left_to_parts += int(np.count_nonzero(needed))
                hopeless = needed
        excess = math.log(0.1 * question.tolerance / _ROUNDING)
        for most in (min(max(excess, _LEAST_EXCESS), MOST_EXCESS), _CAREFUL_EXCESS):
            wanted = (upper > self.log_floor) & (upper > np.maximum(known, lower) + met) & ~hopeless
            for group in self._joined(side, np.flatnonzero(wanted), most):
                columns = group.columns
                for bounds, found_lower, found_upper in self.passes(side, group, known[columns], spare[columns]):
                    # The best tilt's rounding is less by what that one's has in excess.
                    least = bounds.rounding * np.exp(-side.excess(question.epsilon[columns], bounds.tilt))
                    hopeless[columns] |= least > question.tolerance
                    lower[columns] = np.maximum(lower[columns], found_lower)
                    upper[columns] = np.minimum(upper[columns], found_upper)

    def _by_parts(  # noqa: PLR0917, three arrays that are improved together
        self, cuts: LossCuts, number: int, left: BoolArray, known: FloatArray, lower: FloatArray, upper: FloatArray
    ) -> None:
        """Improve bounds where no one tilt does, by the parts of large losses and of usual ones."""
        question = self._question
        epsilon, met, left = question.epsilon, math.log1p(question.tolerance), left.copy()
        tried = math.nan
        while left.any():
            columns = np.flatnonzero(left)
            least = float(epsilon[columns].min())
            again = least == tried
            main = None if again else cuts.part(number, epsilon[columns], question.tolerance)
            choices: Iterable[tuple[Smoothed, ...]] = cuts.both(number, least)
            served = epsilon[columns] <= _TOGETHER * least
            if main is not None:
                choices, served = [(main[0],)], main[1]
            # An ε that missed beside others, or by one part, is tried alone and by both parts.
            columns = columns[(epsilon[columns] == least) | (served & (not again))]
            tried, last = least, again or (main is None and bool(np.all(epsilon[columns] == least)))
            for parts in choices:
                found = [self._part_bounds(part, columns, known) for part in parts]
                # δ is the sum of both.
                lower[columns] = np.maximum(lower[columns], np.logaddexp.reduce([each[0] for each in found]) - SUMMED)
                upper[columns] = np.minimum(upper[columns], np.logaddexp.reduce([each[1] for each in found]) + SUMMED)
                missed = upper[columns] > np.maximum(known, lower)[columns] + met
                left[columns] = missed
                columns = columns[missed]
                if not columns.size:
                    break
            left[epsilon == least] &= not last

    def _part_bounds(self, part: Smoothed, columns: IntArray, known: FloatArray) -> tuple[FloatArray, FloatArray]:
        epsilon = self._question.epsilon
        lower = np.full(known.size, -np.inf)
        upper = np.logaddexp(part.chernoff(epsilon), part.log_left_out(epsilon, 0.0)) + SUMMED
        for group in self._joined(part, columns, MOST_EXCESS):
            chosen = group.columns
            for _, found_lower, found_upper in self.passes(part, group, known[chosen], np.zeros(chosen.size)):
                lower[chosen] = np.maximum(lower[chosen], found_lower)
                upper[chosen] = np.minimum(upper[chosen], found_upper)
        return lower[columns], upper[columns]

    def groups(self, side: Smoothed, columns: IntArray, most: float) -> Iterator[Group]:
        """Cover ε of which a tilt is known, by as few tilts as keep the rounding below the tolerance."""
        question = self._question
        if columns.size == 0:
            return
        tilt, log_delta = side.saddle(question.epsilon[columns])
        known = ~np.isnan(log_delta)
        columns, tilt, log_delta = columns[known], tilt[known], log_delta[known]
        left = np.argsort(tilt, kind="stable")
        while left.size:
            # As far as the tilt of the first one serves, and then as far as that one's.
            reached = left[side.excess(question.epsilon[columns[left]], float(tilt[left[0]])) <= most]
            middle = side.gentler(float(tilt[reached[-1]] if reached.size else tilt[left[0]]))
            served = side.excess(question.epsilon[columns[left]], middle) <= most
            served[0] = True
            chosen = left[served]
            group = Group(middle, middle, columns[chosen], log_delta[chosen])
            yield replace(group, gentle=self._gentle(side, group, most))
            left = left[~served]

    def _joined(self, side: Smoothed, columns: IntArray, most: float) -> list[Group]:
        """Take groups together whose less steep tilt is the same."""
        alike: dict[float, Group] = {}
        for group in self.groups(side, columns, most):
            first = alike.setdefault(group.gentle, group)
            if first is not group:
                alike[group.gentle] = replace(
                    first,
                    columns=np.append(first.columns, group.columns),
                    log_delta=np.append(first.log_delta, group.log_delta),
                )
        return list(alike.values())

    def _gentle(self, side: Smoothed, group: Group, most: float) -> float:
        """Return a less steep tilt if its period is much shorter: where rare large losses count as much as many."""
        best, tilt, epsilon = math.inf, group.tilt, self._question.epsilon[group.columns]
        most, ratio = max(most, _GENTLE_EXCESS), self.first_ratio(side, epsilon, self._question.tolerance)
        for part in _GENTLER:
            chosen = side.gentler(part * group.tilt)
            if part < 1.0 and np.any(side.excess(epsilon, chosen) > most):
                break
            period = side.period(epsilon, group.log_delta, chosen, self._question.tolerance)
            if period < 0.7 * best:
                best, tilt = period, chosen
            if period < _FEW_ENOUGH * ratio:
                break
        return tilt

    def passes(
        self, side: Smoothed, group: Group, known: FloatArray, spare: FloatArray
    ) -> Iterator[tuple[SmoothedBounds, FloatArray, FloatArray]]:
        """Yield bounds with a tilt that costs less, and with the group's own where they do not meet."""
        question = self._question
        epsilon, tolerance = question.epsilon[group.columns], question.tolerance
        upper = np.zeros(epsilon.size)
        for tilt in dict.fromkeys((group.gentle, group.tilt)):
            for bounds, lower, upper in self._finer(side, group, tilt, known, spare):
                yield bounds, lower, upper
                known = np.maximum(known, lower)
            if not np.any((upper > self.log_floor) & (upper > known + math.log1p(tolerance))):
                return

    def _finer(
        self, side: Smoothed, group: Group, tilt: float, known: FloatArray, spare: FloatArray
    ) -> Iterator[tuple[SmoothedBounds, FloatArray, FloatArray]]:
        """Yield ever better bounds, until they meet or will not."""
        question = self._question
        epsilon, tolerance = question.epsilon[group.columns], question.tolerance
        ratio = self.first_ratio(side, epsilon, max(tolerance, _OF_SPARE * float(np.min(spare))))
        cut = min(_CUT + float(np.max(side.excess(epsilon, tilt))) - math.log(tolerance), _MOST_CUT)
        used, log_delta, before, least = math.inf, group.log_delta, math.inf, np.full(epsilon.size, np.inf)
        for _ in range(_PASSES):
            period = side.period(epsilon, log_delta, tilt, tolerance)
            # As little smoothing as so many frequencies allow, if that is less than before.
            many = side.size(tilt, ratio, period, cut) / MOST_FREQUENCIES
            if many > 1.0:
                ratio *= _TOO_MANY * many
                if ratio > _LEAST * used or side.size(tilt, ratio, period, cut) > MOST_FREQUENCIES:
                    return
            used = ratio
            self.width = min(self.width, ratio)
            bounds = side.at(tilt, ratio, period, cut)
            lower, upper = bounds.bounds(epsilon)
            yield bounds, lower, upper
            judged = np.maximum(known, lower)
            # Less smoothing does not help where rounding alone takes the tolerance.
            missed = (upper > self.log_floor) & (upper > judged + math.log1p(tolerance))
            missed &= bounds.rounding < 0.8 * tolerance
            if not missed.any():
                return
            with np.errstate(over="ignore"):
                bracket = float(np.max(np.expm1(np.minimum(upper - judged, 50.0)[missed])))
            fallen = bool(np.any(upper < least - 0.5))
            least = np.minimum(least, upper)
            if bracket > _HOPELESS * before and not fallen:
                return
            better = np.where(np.isfinite(lower), lower, upper - 3.0)
            moved = bool(np.any(better < log_delta - 1.0))
            log_delta = np.minimum(log_delta, better)
            # What comes from other periods is not mended by less smoothing.
            if not moved:
                before = bracket
            ratio *= min(max(math.sqrt(_AIM * tolerance / bracket), _MOST), 1.0 if moved else _LEAST)
