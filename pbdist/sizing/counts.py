"""Find mean and scale of the noise on counts that meet a target with the fewest messages on average."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.mechanisms import (
    AdditiveNoise,
    DiscreteLaplace,
    ElementaryPair,
    Gaussian,
    Laplace,
    NoisyCount,
    Pair,
    Product,
)
from pbdist.mechanisms.counts import REDRAW_AND_FLOOR, SHIFT_INSIDE, WholeNoise
from pbdist.results import Bracket
from pbdist.sizing.families import CountFamily
from pbdist.sizing.target import Certificate, Judge, ScannedPoint, gaussian_scale
from pbdist.study import Target
from pbdist.table import bounds_table
from pbdist.types import Direction

#: The scales of the scan, as logarithms over the answer's: up to a factor of 3.6 either way, denser near it.
_OFFSETS = (0.0, *(side * 0.01 * 2.0**power for power in range(8) for side in (-1.0, 1.0)))
#: How far above the estimated smallest noise the answer is placed, in tolerances.
_MARGIN = 0.25
#: Steps that a search for noise that meets the target may take, and answers that scans may replace.
_MAX_STEPS, _MAX_SCANS = 20, 20
#: Logarithm of the largest scale of the estimate over the smallest that can meet the target; intervals of its grid.
_WIDEST, _POINTS = math.log(64.0), 14
#: Scales grow until ln δ, once below the first number, has not fallen in this number of steps.
_BELOW_ONE, _PATIENCE = -1e-6, 12
#: Largest mean and scale of a count.
_LARGEST = 1e12
#: The surrogate interpolates δ of the noise alone between scales with this distance of their logarithms ..
_STEP = 0.02
#: .. unless their ln δ are further apart than this.
_FAR_APART = 3.0
#: Discrete noise of larger scales is estimated as real-valued noise, which is quicker.
_COARSE = 100.0
#: Up to this scale few masses of discrete Gaussian noise make up all of it.
_FEW = 2.0
#: Tolerance of the bounds that the surrogate rests on.
_TOLERANCE = 0.02
#: ln δ that counts as δ = 0.
_LOWEST = -1e4


def smallest_count(
    family: CountFamily, judge: Judge, tolerance: float, stored: Sequence[tuple[float, float]] = ()
) -> Certificate:
    """Return the mean and the scale with the fewest messages on average, with a certificate.

    `stored` has means and scales whose bounds take no time.

    Notes
    -----
    The certificate is that of `pbdist.size`. The search uses an estimate of δ that certified bounds correct where they
    are known. Scales at which a mean of 0 takes more messages than allowed are left out of the scan.
    """
    search = _CountSearch(family, judge, tolerance)
    best = search.answer(search.best_of(stored))
    for _ in range(_MAX_SCANS):
        found = search.certificate(*best)
        if isinstance(found, Certificate):
            return found
        # A point of the scan meets the target: it is the next answer, unless the search finds a better one.
        best = search.answer(found)
    raise PrecisionError(
        f"family: expected counts with a least number of messages, but ever fewer meet {judge.target}, the last"
        f" with mean {best[0]:.6g} and scale {best[1]:.6g}: check the family"
    )


def mean_below(mean: float, step: int) -> float:
    """Return the largest mean of a family of that `CountFamily.mean_step` that is at most `mean`."""
    return float(step * math.floor(mean / step)) if step else mean


class _CountSearch:
    """A search over means and scales; the judge's bounds have the proofs."""

    def __init__(self, family: CountFamily, judge: Judge, tolerance: float) -> None:
        self.family, self.judge, self.tolerance = family, judge, tolerance
        self.step = family.mean_step
        self.surrogate = Surrogate(family, judge.target, judge.count)
        self.log_target = math.log(judge.target.delta)

    def best_of(self, stored: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
        """Return the mean and scale among some that meet the target with the fewest messages; correct the estimate."""
        found = [one for one in stored if one[0] >= 0.0 and self.judge.meets(self.look(*one))]
        return min(found, key=lambda one: self.family.messages(*one), default=None)

    def answer(self, known: tuple[float, float] | None = None) -> tuple[float, float]:
        """Return mean and scale that meet the target with about the fewest messages, no more than `known` takes."""
        for step in range(_MAX_STEPS):
            # The margin grows with every estimate that has failed.
            larger = 1.0 + _MARGIN * self.tolerance * 1.5 ** max(step - 2, 0)
            mean, scale = (larger * best for best in self._estimated_best())
            if self.step:
                mean = float(self.step * round(mean / self.step))
            if known is not None and self.family.messages(mean, scale) >= self.family.messages(*known):
                return known
            found = self.look(mean, scale)
            if self.judge.meets(found):
                return mean, scale
            if found.vacuous:
                raise self.judge.undecided(self.family.pair(mean, scale), found)
        raise PrecisionError(
            f"delta: no noise that meets {self.judge.target} was found in {_MAX_STEPS} steps, the last with mean"
            f" {mean:.6g} and scale {scale:.6g}: give a mean, or a larger delta"
        )

    def look(self, mean: float, scale: float) -> Bracket:
        """Bound δ narrowly enough to decide, and correct the estimate by it."""
        found = self.judge.decided(
            self.family.pair(mean, scale), self.surrogate.log_delta(mean, scale) - self.log_target
        )
        self.surrogate.correct(mean, scale, found.log_middle)
        return found

    def certificate(self, mean: float, scale: float) -> Certificate | tuple[float, float]:
        """Return the certified answer, or else mean and scale of a better one."""
        part = 1.0 - self.tolerance
        below = (mean_below(mean * part, self.step), scale * part)
        refuted = self._decided(*below)
        if self.judge.meets(refuted):
            return below
        scanned = []
        fewer = part * self.family.messages(mean, scale)
        for other in (scale * math.exp(offset) for offset in _OFFSETS):
            mean_there = self._mean_of(fewer, other)
            if mean_there is None:
                continue
            found = self._decided(mean_there, other)
            if self.judge.meets(found):
                return mean_there, other
            pair, messages = self.family.pair(mean_there, other), self.family.messages(mean_there, other)
            scanned.append(ScannedPoint(pair, other, mean_there, found.lower, messages))
        scanned.sort(key=lambda point: point.scale)
        meets, less = (scale, self.family.pair(mean, scale)), (below[1], self.family.pair(*below))
        return self.judge.certificate(*meets, *less, scanned=tuple(scanned), mean=mean, refuted_mean=below[0])

    def _decided(self, mean: float, scale: float) -> Bracket:
        """Bound δ as `look` does; bounds that do not decide are an error."""
        found = self.look(mean, scale)
        if not self.judge.decides(found):
            raise self.judge.undecided(self.family.pair(mean, scale), found)
        return found

    def _estimated_best(self) -> tuple[float, float]:
        """Return mean and scale with the fewest messages by the estimate, on smaller and smaller grids of scales."""
        first = self._smallest_scale()
        low, high = math.log(first), math.log(first) + _WIDEST
        best = (math.inf, math.nan, math.nan)
        while True:
            step = (high - low) / _POINTS
            for number in range(_POINTS + 1):
                scale = math.exp(low + number * step)
                mean = self._mean_for(scale)
                if mean is not None:
                    best = min(best, (self.family.messages(mean, scale), mean, scale))
            if math.isinf(best[0]):
                raise self._nothing(first)
            middle = math.log(best[2])
            low, high = max(low, middle - 1.5 * step), min(high, middle + 1.5 * step)
            if high - low <= 0.05 * self.tolerance:
                return best[1], best[2]

    def _smallest_scale(self) -> float:
        """Return a scale below which no mean meets the target, by the estimate."""
        scale = min(max(gaussian_scale(self.judge.target), 1e-3), 1e10)
        factor = 1.25
        try:
            while self.surrogate.lowest_log_delta(scale) <= self.log_target and scale > 1e-6:
                scale /= factor
            values = [self.surrogate.lowest_log_delta(scale * factor)]
            while values[-1] > self.log_target:
                scale *= factor
                # Refuses a scale that a count cannot have.
                self.family.pair(0.0, scale)
                values.append(self.surrogate.lowest_log_delta(scale * factor))
                if len(values) > _PATIENCE and values[-1] < _BELOW_ONE and values[-1] >= values[-_PATIENCE]:
                    # δ no longer falls with the scale.
                    break
        except InvalidInputError as error:
            raise InvalidInputError(f"delta: no noise meets {self.judge.target}: {error}") from error
        if values[-1] > self.log_target:
            raise self._nothing(scale)
        return scale

    def _mean_for(self, scale: float) -> float | None:
        """Return the smallest mean >= 0 that meets the target at a scale, by the estimate; None where none does."""

        def meets(mean: float) -> bool:
            return self.surrogate.log_delta(mean, scale) <= self.log_target

        try:
            if self.surrogate.lowest_log_delta(scale) >= self.log_target:
                return None
            if meets(0.0):
                return 0.0
            found = self._switch(meets, scale, 1e6 * scale, 0.01 * self.tolerance)
        except InvalidInputError:
            # A count cannot have such a mean.
            return None
        return None if found is None else found[1]

    def _mean_of(self, messages: float, scale: float) -> float | None:
        """Return the mean >= 0 with which the noise takes that number of messages at a scale; None where there is none.

        Where means are whole, the largest one with which it takes fewer.
        """
        if self.family.messages(0.0, scale) > messages:
            return None
        found = self._switch(
            lambda mean: self.family.messages(mean, scale) >= messages, max(scale, messages), _LARGEST, 1e-12
        )
        return None if found is None else found[0]

    def _switch(
        self, holds: Callable[[float], bool], guess: float, largest: float, precision: float
    ) -> tuple[float, float] | None:
        """Return neighbouring means of which only the larger one `holds`, as 0 does not; None up to the largest."""
        low, high = 0.0, float(self.step * max(round(guess / self.step), 1)) if self.step else guess
        while not holds(high):
            low, high = high, 2.0 * high
            if high > largest:
                return None
        while high - low > max(precision * high, self.step):
            middle = mean_below(0.5 * (low + high), self.step)
            if middle in (low, high):
                break
            low, high = (low, middle) if holds(middle) else (middle, high)
        return low, high

    def _nothing(self, scale: float) -> InvalidInputError:
        return InvalidInputError(
            f"delta: no noise meets {self.judge.target}: by the estimate no mean does at scales from {scale:.6g} to"
            f" {scale * math.exp(_WIDEST):.6g}"
        )


class Surrogate:
    """Estimates ln δ of noisy counts at a target; no bound rests on it.

    Noise that is cut at 0 fails in two ways: an output below the shift reveals the input in some round, or the noise
    about its mean, uncut and not rounded, does not hide the shift. The estimate joins the two. `correct` adds the error
    that certified bounds show, interpolated along the scale.
    """

    def __init__(self, family: CountFamily, target: Target, count: Callable[[], None] = lambda: None) -> None:
        self._family, self._target, self._count = family, target, count
        self._alone: dict[float, float] = {}
        self._errors: dict[float, float] = {}

    def correct(self, mean: float, scale: float, log_delta: float) -> None:
        """Learn ln δ at a mean and a scale."""
        if math.isfinite(log_delta):
            self._errors[math.log(scale)] = log_delta - self._estimate(mean, scale)

    def log_delta(self, mean: float, scale: float) -> float:
        """Estimate ln δ, at most 0."""
        return min(self._estimate(mean, scale) + self._error(scale), 0.0)

    def lowest_log_delta(self, scale: float) -> float:
        """Estimate ln δ for an arbitrarily large mean."""
        return self._noise_alone(scale) + self._error(scale)

    def _error(self, scale: float) -> float:
        if not self._errors:
            return 0.0
        scales = sorted(self._errors)
        return float(np.interp(math.log(scale), scales, [self._errors[one] for one in scales]))

    def _estimate(self, mean: float, scale: float) -> float:
        factors = self._family.pair(mean, scale).factors
        hidden = min(math.fsum(_log_hidden(factor, direction) for factor in factors) for direction in Direction)
        revealed = -math.expm1(self._target.compositions * hidden)
        alone = math.exp(self._noise_alone(scale))
        total = revealed + (1.0 - revealed) * alone
        return math.log(total) if total > 0.0 else _LOWEST

    def _noise_alone(self, scale: float) -> float:
        node = math.log(scale) / _STEP
        below = math.floor(node)
        ends = [-self._at(node) for node in (below, below + 1)]
        if min(ends) <= 0.0 or abs(ends[1] - ends[0]) > _FAR_APART:
            # δ falls to 0 here, or from 1.
            return self._at(node)
        values = [math.log(end) for end in ends]
        return -math.exp(values[0] + (node - below) * (values[1] - values[0]))

    def _at(self, node: float) -> float:
        """Return ln δ of the noise alone at a node of the grid of scales."""
        if node not in self._alone:
            scale = math.exp(_STEP * node)
            self._count()
            try:
                pair = self._family.pair(mean_below(8.0 * scale, self._family.mean_step), scale)
                table = bounds_table(
                    [(Product(*map(_uncut, pair.factors)), 1)],
                    compositions=self._target.compositions,
                    epsilon=self._target.epsilon,
                    tolerance=_TOLERANCE,
                    strict=False,
                    joint_directions=True,
                )
                value = float(table.log_delta_upper.max())
            except (PrecisionError, InvalidInputError):
                # Losses that no lattice holds, or no such noise.
                value = 0.0
            self._alone[node] = max(value, _LOWEST)
        return self._alone[node]


def _uncut(factor: ElementaryPair) -> Pair:
    """Return the noise of a noisy count before it is cut and rounded; it is symmetric."""
    count = factor.inner
    if not isinstance(count, NoisyCount):
        return factor
    if isinstance(count.noise, WholeNoise) and count.noise.scale <= _COARSE:
        return count.noise.moved(count.shift)
    kind = Laplace if isinstance(count.noise, Laplace | DiscreteLaplace) else Gaussian
    return kind(count.noise.scale, float(count.shift))


def _log_hidden(factor: ElementaryPair, direction: Direction) -> float:
    """Estimate the log probability, under the first distribution, of an output that either input could have."""
    count, direction = factor.facing(direction)
    if not isinstance(count, NoisyCount) or count.reading == SHIFT_INSIDE:
        return 0.0
    redrawn, real = count.reading == REDRAW_AND_FLOOR, isinstance(count.noise, AdditiveNoise)
    # Draws from the first to the last one reveal the input; of real-valued ones that are redrawn, up to the next one.
    first, last = (0.0, count.shift if real else count.shift - 1) if redrawn else (-math.inf, count.shift - 1)
    if direction is Direction.B_TO_A:
        if redrawn:
            return 0.0
        # B's smallest output is a rare one of A where noise is clamped.
        last = 0
    lower, upper = np.array([first, first]), np.array([float(last), math.inf])
    if isinstance(count.noise, AdditiveNoise | DiscreteLaplace) or count.noise.scale <= _FEW:
        mass = count.noise.interval(lower, upper, count.mean)[0]
    else:
        # Sums of many masses take long.
        mass = Gaussian(count.noise.scale).interval(lower - 0.5, upper + 0.5, count.mean)[0]
    return math.log1p(-min(float(mass[0]) / float(mass[1]), 1.0 - 1e-16))
