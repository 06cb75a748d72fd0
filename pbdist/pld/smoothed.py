"""Rows of a table by exact transforms of losses: which tilts, how little smoothing, which period. Nothing is a bound.

The bounds are those of `smoothing`; here is chosen with what, from measured brackets.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pbdist.pld.large_losses import LossCuts
from pbdist.pld.question import Question
from pbdist.pld.rounds import Rounds, rounds_of
from pbdist.pld.smoothing import Smoothed, SmoothedBounds, Tilts
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["Smoothing", "guessed_epsilon", "has_transforms"]

#: Passes at most; part of the tolerance that smoothing aims at, first and when the tolerance was missed.
_PASSES, _FIRST_AIM, _AIM = 5, 0.5, 0.7
#: Nats, relative to the tolerance and to δ, by which terms of high frequencies are smaller that are left out; at most.
_CUT, _MOST_CUT = 14.0, 40.0
#: Part that smoothing may take at first of what the larger direction seems to be larger by.
_OF_SPARE = 0.5
#: No ratio is larger: from 1.6 on nothing is known from below.
_LARGEST_RATIO = 0.5
#: By how much the ratio shrinks at least and at most.
_LEAST, _MOST = 0.8, 0.08
#: (1 + c) / 2 of the smoothing: its bracket is so many times s² τ (τ + 1).
_BRACKET = 1.25
#: About what bounds are off by with the best tilt.
_ROUNDING = 3e-10
#: ε of one tilt have at most e to this times the error of the best one's, at first and where they missed.
_LEAST_EXCESS, _MOST_EXCESS, _CAREFUL_EXCESS = 0.5, 11.0, 0.5
#: Less steep tilts that are tried, and what they may add to the error at least: logarithm.
_GENTLER, _GENTLE_EXCESS = (1.0, 0.85, 0.7, 0.55, 0.4), 2.5
#: So many frequencies need not be made fewer.
_FEW_ENOUGH = 500
#: Frequencies of one pass, at most, and with how much more smoothing where there would be more.
_MOST_FREQUENCIES, _TOO_MANY = 1 << 17, 1.1
#: A bracket that is no smaller than this part of the one before will not become small.
_HOPELESS = 0.9
#: ε up to so many times the least are cut alike where both parts matter, and what logarithms of sums may be off by.
_TOGETHER, _SUMMED = 1.5, 1e-12
#: Points of a look for an ε, and looks.
_POINTS, _LOOKS, _HALVINGS = 17, 5, 9
#: Frequencies of a period and a ratio; seconds of a tilt, and of a frequency, and by how much more for each ε.
_PER_PERIOD, _SECONDS_PER_TILT, _SECONDS_PER_FREQUENCY, _PER_POINT = 1.4, 5e-3, 7e-7, 0.03

#: Logarithms of lower and upper bounds on δ at some ε.
Reader = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def has_transforms(question: Question) -> bool:
    """Whether all pairs have a transform."""
    return rounds_of(question.counts, Direction.A_TO_B) is not None


@dataclass(frozen=True, eq=False)
class _Group:
    """ε that are served by one tilt, and by a less steep one at less cost, but not as well."""

    tilt: float
    gentle: float
    columns: IntArray
    log_delta: FloatArray


class Smoothing:
    """Bounds by transforms for the rows of a table.

    Parameters
    ----------
    question : Question
        Of pairs that have transforms.
    finer : float, optional
        By what factor less to smooth than seems to do.
    """

    def __init__(self, question: Question, *, finer: float = 1.0) -> None:
        self._question, self._part = question, finer
        self._sides: dict[Direction, tuple[Rounds, Tilts]] = {}
        self._cuts: dict[Rounds, LossCuts] = {}
        for direction in question.directions:
            rounds = rounds_of(question.counts, direction)
            if rounds is not None:
                tilts = Tilts.of(rounds, int(question.rounds.min()), question.largest)
                self._sides[direction] = rounds, tilts
                if LossCuts.serves(rounds):
                    self._cuts[rounds] = LossCuts(rounds, tilts)
        #: The smallest ratio that was used.
        self.width = math.inf
        #: Points that only parts of the losses will tell.
        self.left_to_parts = 0
        self._log_floor = math.log(question.floor) if question.floor > 0.0 else -math.inf

    def sides(self, row: int) -> list[tuple[Direction, Smoothed]]:
        """All directions of a row, the one whose δ seems to be larger first."""
        epsilon = self._question.epsilon
        sides = [(direction, self._smoothed(direction, row)) for direction in self._sides]
        return sorted(sides, key=lambda side: -float(np.sum(side[1].saddle(epsilon)[1])))

    def _smoothed(self, direction: Direction, row: int) -> Smoothed:
        rounds, tilts = self._sides[direction]
        return Smoothed(rounds, int(self._question.rounds[row]), tilts)

    def seconds(self, row: int) -> tuple[float, float]:
        """Return about what a row takes on one core, and the number of frequencies of its largest part.

        Without points that only parts of the losses tell: `left_to_parts` counts them.
        """
        question = self._question
        total, largest = 0.0, 0.0
        for _, side in self.sides(row):
            wanted = side.chernoff(question.epsilon) > self._log_floor
            wanted &= side.nearly_all(question.epsilon) < -question.tolerance
            cuts = self._cuts.get(side.rounds)
            if cuts is not None:
                needed = wanted.copy()
                needed[needed] = cuts.needed(side, question.epsilon[needed])
                self.left_to_parts += int(np.count_nonzero(needed))
                wanted &= ~needed
            for group in self._groups(side, np.flatnonzero(wanted), _MOST_EXCESS):
                epsilon = question.epsilon[group.columns]
                period = side.period(epsilon, group.log_delta, group.tilt, question.tolerance)
                number = _PER_PERIOD * period / self._first_ratio(side, epsilon, question.tolerance)
                if number <= _MOST_FREQUENCIES:
                    points = 1.0 + _PER_POINT * epsilon.size
                    total += _SECONDS_PER_TILT + _SECONDS_PER_FREQUENCY * number * points
                    largest = max(largest, number)
        return total, largest

    def _first_ratio(self, side: Smoothed, epsilon: FloatArray, tolerance: float) -> float:
        steepest = float(side.saddle(epsilon)[0].max())
        ratio = math.sqrt(_FIRST_AIM * tolerance / (_BRACKET * steepest * (steepest + 1.0)))
        return self._part * min(ratio, _LARGEST_RATIO)

    def row(
        self, row: int, told: tuple[FloatArray, FloatArray] | None = None, *, parts: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ of one row, shape (2, E) each.

        Parameters
        ----------
        row : int
        told : (ndarray, ndarray), optional
            Bounds that are known already.
        parts : bool, optional
            Whether to cut losses into parts where that is needed; otherwise `left_to_parts` counts such points.
        """
        question = self._question
        shape = (2, question.epsilon.size)
        lower, upper = (np.full(shape, -np.inf), np.zeros(shape)) if told is None else (told[0].copy(), told[1].copy())
        known = np.full(question.epsilon.size, -np.inf)
        spare = np.zeros(known.size)
        for direction, side in self.sides(row):
            axis = list(Direction).index(direction)
            own = known if question.together else np.full(known.size, -np.inf)
            self._side(side, own, spare, lower[axis], upper[axis], parts=parts)
            known = np.maximum(known, lower[axis])
            if question.together and len(self._sides) == 2:
                # Of the other one it only is to be shown that it is smaller.
                other = next(each for each in self._sides if each is not direction)
                spare = side.saddle(question.epsilon)[1] - self._smoothed(other, row).saddle(question.epsilon)[1]
        if question.symmetric:
            lower[1], upper[1] = lower[0], upper[0]
        return lower, upper

    def _side(
        self,
        side: Smoothed,
        known: FloatArray,
        spare: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        *,
        parts: bool,
    ) -> None:
        """Improve the bounds of one direction."""
        question, met = self._question, math.log1p(self._question.tolerance)
        np.maximum(lower, side.nearly_all(question.epsilon), out=lower)
        np.minimum(upper, side.chernoff(question.epsilon), out=upper)
        hopeless = np.zeros(upper.size, dtype=bool)
        cuts = self._cuts.get(side.rounds)
        if cuts is not None:
            needed = (upper > self._log_floor) & (upper > np.maximum(known, lower) + met)
            needed[needed] = cuts.needed(side, question.epsilon[needed], missed=parts)
            if parts:
                self._by_parts(cuts, side.number, needed, known, lower, upper)
            else:
                self.left_to_parts += int(np.count_nonzero(needed))
                hopeless = needed
        excess = math.log(0.1 * question.tolerance / _ROUNDING)
        for most in (min(max(excess, _LEAST_EXCESS), _MOST_EXCESS), _CAREFUL_EXCESS):
            wanted = (upper > self._log_floor) & (upper > np.maximum(known, lower) + met) & ~hopeless
            for group in self._joined(side, np.flatnonzero(wanted), most):
                columns = group.columns
                for bounds, found_lower, found_upper in self._passes(side, group, known[columns], spare[columns]):
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
            found = None if again else cuts.part(number, epsilon[columns], question.tolerance)
            choices: Iterable[tuple[Smoothed, ...]] = cuts.both(number, least)
            served = epsilon[columns] <= _TOGETHER * least
            if found is not None:
                choices, served = [(found[0],)], found[1]
            # Where it missed beside others, or by one part, an ε is tried alone and by both.
            columns = columns[(epsilon[columns] == least) | (served & (not again))]
            tried, last = least, again or (found is None and bool(np.all(epsilon[columns] == least)))
            for parts in choices:
                told = [self._part_bounds(part, columns, known) for part in parts]
                # Of both δ is the sum.
                lower[columns] = np.maximum(lower[columns], np.logaddexp.reduce([each[0] for each in told]) - _SUMMED)
                upper[columns] = np.minimum(upper[columns], np.logaddexp.reduce([each[1] for each in told]) + _SUMMED)
                missed = upper[columns] > np.maximum(known, lower)[columns] + met
                left[columns] = missed
                columns = columns[missed]
                if not columns.size:
                    break
            left[epsilon == least] &= not last

    def _part_bounds(self, part: Smoothed, columns: IntArray, known: FloatArray) -> tuple[FloatArray, FloatArray]:
        epsilon = self._question.epsilon
        lower = np.full(known.size, -np.inf)
        upper = np.logaddexp(part.chernoff(epsilon), part.log_left_out(epsilon, 0.0)) + _SUMMED
        for group in self._joined(part, columns, _MOST_EXCESS):
            chosen = group.columns
            for _, found_lower, found_upper in self._passes(part, group, known[chosen], np.zeros(chosen.size)):
                lower[chosen] = np.maximum(lower[chosen], found_lower)
                upper[chosen] = np.minimum(upper[chosen], found_upper)
        return lower[columns], upper[columns]

    def _groups(self, side: Smoothed, columns: IntArray, most: float) -> Iterator[_Group]:
        """Cover ε by as few tilts as keep the rounding below the tolerance."""
        question = self._question
        if columns.size == 0:
            return
        tilt, log_delta = side.saddle(question.epsilon[columns])
        left = np.argsort(tilt, kind="stable")
        while left.size:
            # As far as the tilt of the first one serves, and then as far as that one's.
            reached = left[side.excess(question.epsilon[columns[left]], float(tilt[left[0]])) <= most]
            middle = side.gentler(float(tilt[reached[-1]] if reached.size else tilt[left[0]]))
            served = side.excess(question.epsilon[columns[left]], middle) <= most
            served[0] = True
            chosen = left[served]
            told = _Group(middle, middle, columns[chosen], log_delta[chosen])
            yield replace(told, gentle=self._gentle(side, told, most))
            left = left[~served]

    def _joined(self, side: Smoothed, columns: IntArray, most: float) -> list[_Group]:
        """Take groups together whose less steep tilt is the same."""
        alike: dict[float, _Group] = {}
        for group in self._groups(side, columns, most):
            first = alike.setdefault(group.gentle, group)
            if first is not group:
                alike[group.gentle] = replace(
                    first,
                    columns=np.append(first.columns, group.columns),
                    log_delta=np.append(first.log_delta, group.log_delta),
                )
        return list(alike.values())

    def _gentle(self, side: Smoothed, group: _Group, most: float) -> float:
        """Return a less steep tilt if its period is much shorter: where rare large losses count as much as many."""
        best, tilt, epsilon = math.inf, group.tilt, self._question.epsilon[group.columns]
        most, ratio = max(most, _GENTLE_EXCESS), self._first_ratio(side, epsilon, self._question.tolerance)
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

    def _passes(
        self, side: Smoothed, group: _Group, known: FloatArray, spare: FloatArray
    ) -> Iterator[tuple[SmoothedBounds, FloatArray, FloatArray]]:
        """Yield bounds with a tilt that costs less, and with the group's own where they do not meet."""
        question = self._question
        epsilon, tolerance = question.epsilon[group.columns], question.tolerance
        upper = np.zeros(epsilon.size)
        for tilt in dict.fromkeys((group.gentle, group.tilt)):
            for bounds, lower, upper in self._finer(side, group, tilt, known, spare):
                yield bounds, lower, upper
                known = np.maximum(known, lower)
            if not np.any((upper > self._log_floor) & (upper > known + math.log1p(tolerance))):
                return

    def _finer(
        self, side: Smoothed, group: _Group, tilt: float, known: FloatArray, spare: FloatArray
    ) -> Iterator[tuple[SmoothedBounds, FloatArray, FloatArray]]:
        """Yield ever better bounds, until they meet or will not."""
        question = self._question
        epsilon, tolerance = question.epsilon[group.columns], question.tolerance
        ratio = self._first_ratio(side, epsilon, max(tolerance, _OF_SPARE * float(np.min(spare))))
        cut = min(_CUT + float(np.max(side.excess(epsilon, tilt))) - math.log(tolerance), _MOST_CUT)
        used, log_delta, before, least = math.inf, group.log_delta, math.inf, np.full(epsilon.size, np.inf)
        for _ in range(_PASSES):
            period = side.period(epsilon, log_delta, tilt, tolerance)
            # As little smoothing as so many frequencies allow, if that is less than before.
            many = side.size(tilt, ratio, period, cut) / _MOST_FREQUENCIES
            if many > 1.0:
                ratio *= _TOO_MANY * many
                if ratio > _LEAST * used or side.size(tilt, ratio, period, cut) > _MOST_FREQUENCIES:
                    return
            used = ratio
            self.width = min(self.width, ratio)
            bounds = side.at(tilt, ratio, period, cut)
            lower, upper = bounds.bounds(epsilon)
            yield bounds, lower, upper
            judged = np.maximum(known, lower)
            # Less smoothing does not help where rounding alone takes the tolerance.
            missed = (upper > self._log_floor) & (upper > judged + math.log1p(tolerance))
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

    def reader(self, directions: Collection[Direction]) -> Reader | None:
        """Return a function that bounds the larger ln δ of some directions, close near the only point of the question.

        None where too many frequencies were needed.
        """
        readers: list[Reader] = []
        for direction, side in self.sides(0):
            if direction not in directions and not self._question.symmetric:
                continue
            if readers and side.chernoff(self._question.epsilon)[0] < self._log_floor:
                # It is too small to matter.
                readers.append(partial(_from_above, side))
                continue
            best = self._best_of_parts(side) or self._best(side)
            if best is None:
                return None
            readers.append(best)

        def read(epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
            found = [each(epsilon) for each in readers]
            return np.max([each[0] for each in found], axis=0), np.max([each[1] for each in found], axis=0)

        return read

    def _best(self, side: Smoothed) -> Reader | None:
        """Return the closest bounds of a direction at the only point."""
        best: SmoothedBounds | None = None
        least = math.inf
        for group in self._groups(side, np.arange(1), _MOST_EXCESS):
            for bounds, lower, upper in self._passes(side, group, np.full(1, -np.inf), np.zeros(1)):
                if best is None or upper[0] - lower[0] < least:
                    best, least = bounds, float(upper[0] - lower[0])
        return None if best is None else best.bounds

    def _best_of_parts(self, side: Smoothed) -> Reader | None:
        """Return bounds by parts of the losses, where they are needed."""
        question, cuts = self._question, self._cuts.get(side.rounds)
        if cuts is None or not cuts.needed(side, question.epsilon)[0]:
            return None
        found = cuts.part(side.number, question.epsilon, question.tolerance)
        parts = next(cuts.both(side.number, float(question.epsilon[0]))) if found is None else (found[0],)
        best = [each for part in parts if (each := self._best(part)) is not None]
        return partial(_sum, best) if len(best) == len(parts) else None


def _sum(readers: Sequence[Reader], epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    found = [each(epsilon) for each in readers]
    lower = np.logaddexp.reduce([each[0] for each in found]) - _SUMMED
    return lower, np.minimum(np.logaddexp.reduce([each[1] for each in found]) + _SUMMED, 0.0)


def _from_above(side: Smoothed, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.full(epsilon.size, -np.inf), side.chernoff(epsilon)


def guessed_epsilon(
    question: Question, delta: float, largest: float, directions: Collection[Direction]
) -> tuple[float, float] | None:
    """Return about the ε that meets δ in some directions, and the slope of ln δ there; None beyond `largest`."""
    number, wanted = int(question.rounds[0]), math.log(delta)
    best = 0.0, -1.0
    for direction in directions:
        rounds = rounds_of(question.counts, direction)
        if rounds is None:
            return None
        end = 1.0
        while True:
            side = Smoothed(rounds, number, Tilts.of(rounds, number, end))
            if side.saddle(np.array([end]))[1][0] < wanted:
                break
            end *= 4.0
            if end > largest:
                return None
        low = 0.0
        for _ in range(_LOOKS):
            points = np.linspace(low, end, _POINTS)
            met = side.saddle(points)[1] < wanted
            first = int(np.argmax(met))
            low, end = float(points[max(first - 1, 0)]), float(points[first])
        end = min(end, _guessed_by_parts(Smoothed(rounds, number, Tilts.of(rounds, number, end)), wanted, end))
        if end > best[0]:
            best = end, -max(float(side.saddle(np.array([end]))[0][0]), 1e-3)
    return best


def _guessed_by_parts(side: Smoothed, wanted: float, end: float) -> float:
    """Return about the ε of a ln δ where parts of losses tell better, and the end otherwise."""
    point = np.array([end])
    if not LossCuts.serves(side.rounds):
        return end
    cuts = LossCuts(side.rounds, side.tilts)
    if not cuts.needed(side, point)[0]:
        return end
    low, high = 0.0, end
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not cuts.sees(middle):
            break
        low, high = (middle, high) if cuts.about(side.number, middle) > wanted else (low, middle)
    return high
