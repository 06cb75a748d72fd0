"""ε as a function of δ, from both sides: one trial ε at a time, each as good as if it were asked for alone."""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.buckets.tight.outline import rough_log_delta
from pbdist.buckets.tight.table import tight_bounds
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.pld import ladder_epsilon
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["LARGEST_EPSILON", "EpsilonBounds", "epsilon_table"]

#: No ε beyond this is looked for.
LARGEST_EPSILON = 1e9
#: Part of the tolerance that is aimed at, of it what a trial's bracket may take, and what its distance to its end.
_AIM, _BRACKET, _MARGIN = 0.1, 0.25, 0.2
#: Relative brackets of δ that trials are asked for, at least and at most; how much finer the next ones are.
_FINEST, _COARSEST, _FINER = 1e-7, 0.02, 4.0
#: Bracket that does, as a part of the distance to δ: both as differences of logarithms.
_FAR = 0.01
#: Difference of logarithms within which a trial is near δ.
_NEAR = 3.0
#: Trials at most; by what factor the first of those is farther that look for an end, the next one by its square, ..
_MOST_TRIALS, _STRIDE = 48, 4.0
#: .. and trials that miss what they were asked for by more than this factor, at most.
_MISSED, _MOST_MISSED = 8.0, 5
#: Middles tell a slope if they are apart by so many widths; a line may creep for so many trials.
_APART, _PATIENCE = 4.0, 3
#: Largest ε of each rough look, the number of its points, and by how much the next one is closer.
_LOOKS, _POINTS, _CLOSER = (4.0, 256.0, 1e5, LARGEST_EPSILON), 48, 1.25


@dataclass(frozen=True, eq=False)
class EpsilonBounds:
    """Bounds on the smallest ε with which δ is met, nats; shape (2, R, D), first axis A||B, B||A.

    δ is not met at any ε below ``lower`` and is met at ``upper``, which is infinite where no ε meets it.
    """

    lower: FloatArray
    upper: FloatArray


def epsilon_table(
    counts: dict[ElementaryPair, int], rounds: IntArray, delta: FloatArray, *, tolerance: float, together: bool = False
) -> EpsilonBounds:
    """Bound ε for every r and δ.

    Parameters
    ----------
    counts : dict of ElementaryPair to int
        What one round consists of.
    rounds : ndarray of int64, shape (R,)
    delta : ndarray, shape (D,)
        δ, above 0 and below 1.
    tolerance : float
        ``upper / lower - 1`` that is aimed at.
    together : bool, optional
        Whether one ε is sought for both directions, with which the larger δ is met; it is returned for both.

    Notes
    -----
    δ(ε) does not rise with ε. So any ε at which the upper bound on δ is at most δ is an upper bound, and any ε at which
    the lower bound on δ exceeds δ a lower one, however they are found: here by trials that go where the bounds of the
    last ones, continued along a rough picture of ln δ(ε), cross δ.
    """
    shape = (2, rounds.size, delta.size)
    lower, upper = np.zeros(shape), np.full(shape, np.inf)
    symmetric = all(pair.symmetric for pair in counts)
    axes: list[tuple[int, ...]] = [(0,)] if symmetric else ([(0, 1)] if together else [(0,), (1,)])
    for row in range(rounds.size):
        for column, asked in enumerate(delta.tolist()):
            for which in axes:
                search = _Search(counts, rounds[row : row + 1], asked, which, tolerance)
                lower[which, row, column], upper[which, row, column] = search.bounds()
    if symmetric:
        lower[1], upper[1] = lower[0], upper[0]
    return EpsilonBounds(lower, upper)


@dataclass(frozen=True)
class _Trial:
    """What is known of ln δ at an ε, and about its slope there."""

    epsilon: float
    log_lower: float
    log_upper: float
    slope: float

    @property
    def known(self) -> bool:
        """Whether both bounds say something."""
        return self.log_upper < 0.0 and self.log_lower > -math.inf

    @property
    def log_middle(self) -> float:
        """About ln δ, where it is known."""
        return 0.5 * (self.log_lower + self.log_upper)

    @property
    def width(self) -> float:
        """How far the bounds are apart."""
        return self.log_upper - self.log_lower


class _Search:
    """The search for one r and δ; `axes` are the directions of which the larger δ is to be met.

    The two ends are sought apart, each between a trial that tells it and one that does not: `low` is below `beyond`,
    which is not known to miss δ, and `high` is above `short`, which is not known to meet it.
    """

    def __init__(
        self,
        counts: dict[ElementaryPair, int],
        rounds: IntArray,
        delta: float,
        axes: tuple[int, ...],
        tolerance: float,
    ) -> None:
        self._counts, self._rounds, self._axes = counts, rounds, axes
        self._aim = _AIM * tolerance
        self._goal = math.log(delta)
        slack = 8.0 * UNIT_ROUNDOFF * (1.0 + abs(self._goal))
        #: The logarithm of δ, rounded down and up.
        self._met, self._unmet = self._goal - slack, self._goal + slack
        self._low, self._beyond = -1.0, math.inf
        self._short, self._high = -1.0, math.inf
        self._rough: tuple[FloatArray, FloatArray] = (np.zeros(1), np.zeros(1))
        self._known: list[_Trial] = []
        self._climbed, self._guess = False, 0.0
        #: Whether a trial near δ was no matter of few frequencies.
        self._slow = False
        self._stride = _STRIDE
        self._gaps: dict[bool, list[float]] = {True: [], False: []}

    def bounds(self) -> tuple[float, float]:
        """Return the largest ε that is known not to meet δ, or 0, and the smallest that is known to meet it."""
        self._guess = self._first_guess()
        trial = self._look(self._guess, _COARSEST)
        if self._slow or not trial.log_upper - max(trial.log_lower, -1e9) <= _MISSED * _COARSEST:
            self._climb(trial)
        finer, missed = 1.0, 0
        for _ in range(_MOST_TRIALS):
            if self._high == 0.0 or self._high - max(self._low, 0.0) <= self._aim * self._high < math.inf:
                break
            bracket = _BRACKET * self._aim * trial.epsilon * -trial.slope / finer
            epsilon = self._next(trial)
            if epsilon is None:
                # Both ends are as close as this bracket of δ brings them.
                if bracket <= _FINEST or self._high == math.inf:
                    break
                finer *= _FINER
                self._beyond, self._short = self._high, self._low
                continue
            if trial.known:
                # Far from δ a coarse look shows the way.
                bracket = max(bracket, _FAR * abs(trial.log_middle - self._goal))
            asked = min(max(bracket, _FINEST), _COARSEST)
            trial = self._look(epsilon, asked)
            if self._slow and self._climb(trial):
                continue
            if not trial.log_upper - max(trial.log_lower, -1e9) <= _MISSED * asked:
                if missed == 0 and self._climb(trial):
                    continue
                missed += 1
            if missed == _MOST_MISSED:
                break
        return max(self._low, 0.0), self._high

    def _climb(self, trial: _Trial) -> bool:
        """Ask the ladder where trials do not tell enough; whether it told something, and was not asked before."""
        if self._climbed:
            return False
        self._climbed = True
        guess = trial.epsilon if trial.known else self._guess
        place = min(max(int(np.searchsorted(self._rough[0], guess)), 1), self._rough[0].size - 1)
        points, logs = self._rough
        slope = trial.slope if trial.known else (logs[place] - logs[place - 1]) / (points[place] - points[place - 1])
        found = ladder_epsilon(
            self._counts,
            int(self._rounds[0]),
            math.exp(self._goal),
            self._axes,
            guess=guess,
            slope=float(slope),
            aim=self._aim,
        )
        if found is None:
            return False
        self._low, self._high = max(self._low, found[0]), min(self._high, found[1])
        return True

    def _first_guess(self) -> float:
        """Return about the ε that meets δ, by rough looks ever closer around it."""
        for largest in _LOOKS:
            guess = self._look_roughly(np.concatenate(([0.0], np.geomspace(1e-4 * largest, largest, _POINTS))))
            if guess < largest:
                break
        else:
            return LARGEST_EPSILON
        if guess > 0.0:
            guess = self._look_roughly(np.geomspace(guess / _CLOSER, guess * _CLOSER, _POINTS))
        return guess

    def _look_roughly(self, epsilon: FloatArray) -> float:
        """Take a picture of ln δ at these ε, and return where it crosses δ: one of its ends where it does not."""
        directions = tuple(tuple(Direction)[axis] for axis in self._axes)
        logs = rough_log_delta(self._counts, self._rounds, epsilon, directions)
        # Falling, as δ does, so that every place has a slope.
        logs = np.minimum.accumulate(logs) - 1e-9 * np.arange(epsilon.size)
        self._rough = epsilon, logs
        return float(np.interp(-self._goal, -logs, epsilon))

    def _slope(self, epsilon: float, log_lower: float, log_upper: float) -> float:
        """Return about the slope of ln δ, below 0: to the best trial that tells one, or else that of the picture."""
        width = log_upper - log_lower
        log_middle = 0.5 * (log_lower + log_upper)
        # Brackets must not be taken for a slope.
        others = [one for one in self._known if abs(one.log_middle - log_middle) > _APART * (one.width + width)]
        if others and log_middle > -math.inf:
            nearest = min(others, key=lambda one: abs(one.log_middle - self._goal))
            slope = (nearest.log_middle - log_middle) / (nearest.epsilon - epsilon)
            if slope < 0.0:
                return slope
        points, logs = self._rough
        place = min(max(int(np.searchsorted(points, epsilon)), 1), points.size - 1)
        return float((logs[place] - logs[place - 1]) / (points[place] - points[place - 1]))

    def _look(self, epsilon: float, tolerance: float) -> _Trial:
        """Bound δ at one ε with about that relative bracket, and move the ends."""
        table = tight_bounds(
            self._counts,
            self._rounds,
            np.array([epsilon]),
            tolerance=tolerance,
            strict=False,
            together=len(self._axes) > 1,
            climbs=False,
        )
        self._slow |= table.slow and abs(self._goal - float(table.log_upper[self._axes[0], 0, 0])) < _NEAR
        log_lower = max(float(table.log_lower[axis, 0, 0]) for axis in self._axes)
        log_upper = max(float(table.log_upper[axis, 0, 0]) for axis in self._axes)
        if log_lower > self._unmet:
            self._low = max(self._low, epsilon)
        else:
            self._beyond = min(self._beyond, epsilon)
        if log_upper <= self._met:
            self._high = min(self._high, epsilon)
        else:
            self._short = max(self._short, epsilon)
        trial = _Trial(epsilon, log_lower, log_upper, self._slope(epsilon, log_lower, log_upper))
        if trial.known:
            self._known.append(trial)
        return trial

    def _next(self, trial: _Trial) -> float | None:
        """Return the next ε to try, or None where neither end is left to be brought closer."""
        margin = _MARGIN * self._aim * trial.epsilon
        ends = [
            (self._high - self._short, self._short, self._high, trial.log_upper, margin),
            (self._beyond - self._low, self._low, self._beyond, trial.log_lower, -margin),
        ]
        for gap, inner, outer, log_delta, distance in sorted(ends, reverse=True):
            if inner >= LARGEST_EPSILON or gap <= 2.0 * margin:
                continue
            crossed = trial.epsilon + (log_delta - self._goal) / -trial.slope + distance if trial.known else math.nan
            creeping = self._creeping(distance > 0.0, gap)
            if not creeping and inner < crossed < outer and 0.0 <= crossed <= LARGEST_EPSILON:
                return crossed
            between = self._between(inner, outer)
            if between is not None:
                return between
        return None

    def _creeping(self, is_high: bool, gap: float) -> bool:
        """Whether lines have left an end's gap more than half of what it was some trials ago, as on a level stretch."""
        gaps = self._gaps[is_high]
        gaps.append(gap)
        if len(gaps) > _PATIENCE and gap > 0.5 * gaps[-1 - _PATIENCE]:
            gaps.clear()
            return True
        return False

    def _between(self, inner: float, outer: float) -> float | None:
        """Return an ε between two others, by factors where they are far apart; None if there is none to tell."""
        if outer == math.inf:
            farther = max(inner * self._stride, 1e-3)
            self._stride = min(self._stride**2, 1e6)
            return min(farther, LARGEST_EPSILON)
        if inner < 0.0:
            # δ may be met everywhere, or next to everywhere.
            return 0.0 if outer < 1e-9 else 0.5 * outer if outer < 4.0 else math.sqrt(outer)
        smallest = max(inner, 1e-6 * outer)
        middle = math.sqrt(smallest * outer) if outer > 4.0 * smallest else 0.5 * (inner + outer)
        return middle if inner < middle < outer else None
