"""Bounds on δ by Fourier inversion of exact transforms, made smooth by one faint Gaussian mechanism.

A Gaussian mechanism of ratio s (sensitivity / scale) is composed with the rounds: that makes δ larger, and its
transform fall so fast that few frequencies suffice. Two such mechanisms, of ratios s and c s, bound δ from below by
(1 + α) δ_s - α δ_{cs}, α = 1 / (c e^{-s²(c²-1)/8} - 1). Both bounds are off by about s² times the curvature of δ.
Section 14 of ``docs/pld.md`` proves this, and the errors of sums in position of integrals.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.loss_transform import (
    Differences,
    Lines,
    LossTransform,
    Powers,
    Rounds,
    SoftCut,
    TransformLine,
    log_most,
    rounds_of,
)
from pbdist.pld.question import Question, Reader, largest_of
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

_U = UNIT_ROUNDOFF
#: c.
_RATIO_FACTOR = 1.5
#: Terms so many nats below the largest one are cut off, by default.
_CUT = 36.0
#: Tilts that are looked at: the smallest, the ratio of neighbours, how many at first, and how many more at a time; ..
_MIN_TILT, _TILT_RATIO, _FIRST_TILTS, _MORE_TILTS = 1e-3, 1.15, 80, 8
#: .. the largest, and by how many deviations they may move an outcome; by so many nats of a Chernoff bound at most.
_MAX_TILT, _MAX_SHIFT, _RISE = 1e6, 400.0, 40.0
#: The first tilts are computed in so many parts, where the largest moves an outcome by so many deviations.
_TILT_PARTS, _MOVED = 3, 40.0
#: Cached moments of rounds, and of their parts.
_CACHED, _CACHED_CUTS = 64, 256
#: The shortest and the longest period, relative to 2 / tilt, and the part of the tolerance that the others may take.
_PERIODS, _OF_PERIODS = (1.0, 3000.0), 1e-3
#: Where a frequency is looked for, relative to the largest; and then relative to the one that was found.
_HALVED, _BETWEEN = 2.0 ** np.arange(-12.0, 1.0), np.linspace(0.5, 1.0, 17)[1:]
#: Near tilts at which rare large losses take over, tilted losses seem to be spread far more than they are.
_STEEP = 30.0
#: By so much, nats, half the square of their deviations exceeds what is normal; and where modes are far apart.
_TWO_MODES, _FAR_APART = 5.0, 500.0
#: Tilts below 0 that are looked at where δ is nearly 1, and the ln δ from which on it may be.
_BELOW, _NEARLY_ALL = -np.linspace(0.0, 1.0, 41), -1.0


class Smoothed:
    """δ of r rounds in one direction, by the frequencies of tilted losses: of all losses, or of a part of them.

    The tilts hold the transforms that were used, for all numbers of rounds; those of a soft cut are of usual losses
    alone. With `large` it is δ of P^r - U^r, where at least one loss is large.
    """

    def __init__(self, rounds: Rounds, number: int, tilts: "Tilts", large: "LargeLosses | None" = None) -> None:
        self.rounds, self.number, self.tilts, self.large = rounds, number, tilts, large
        #: About how steeply ln δ falls where it is wanted, a nat; 0 where only tilts say that.
        self.steepness = 0.0
        #: ln E e^{τ loss} of all rounds at all tilts, about, and from above.
        self._log_moments, self._log_moments_upper = self._moments()
        self._found: dict[bytes, tuple[FloatArray, ...]] = {}
        #: Frequencies at which terms have fallen, and periods.
        self._ends: dict[tuple[float, float, float], float] = {}
        self._periods: dict[tuple[bytes, bytes, float, float], float] = {}
        # Chernoff's bounds of all tilts, and that δ is at most 1.
        self._other = np.concatenate(([0.0], tilts.tilt))
        self._log_factors = np.concatenate(([0.0], self._log_moments_upper + tilts.log_largest))

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        tilts = self.tilts
        whole, upper = self.number * tilts.log_moments, self.number * tilts.log_moments_upper
        if self.large is None:
            return whole, upper
        # P^n - U^n <= n (P - U) P^(n-1), and at most P^n.
        tilt, count = tilts.tilt, self.rounds.sampled[0][2]
        single = (tilts.log_moments - 0.5 * self.rounds.variance * (tilt + tilt * tilt)) / count
        large = math.log(self.number * count) + self.large.log_moments - single
        off = 3.0 * self.rounds.log_moment_error(tilt)
        return np.minimum(whole, whole + large), np.minimum(upper, upper + large + off)

    def chernoff(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on ln δ: (1 - e^{ε-ℓ})_+ <= c e^{τ(ℓ-ε)}, c = τ^τ / (1+τ)^(1+τ), for any τ > 0."""
        tilts = self.tilts
        exponent = self._log_moments_upper + tilts.log_largest
        # ε and τ meet rounded.
        result = np.min(exponent - np.multiply.outer(epsilon, tilts.tilt * (1.0 - 8.0 * _U)), axis=-1)
        return np.asarray(np.minimum(result + 1e-12 * (1.0 + np.abs(result)), 0.0))

    def nearly_all(self, epsilon: FloatArray) -> FloatArray:
        """Return lower bounds on ln δ: 1 - δ = E min(1, e^{ε-ℓ}) <= E e^{τ(ℓ-ε)} for -1 <= τ <= 0."""
        exponent = self.number * _gentlest(self.rounds) - np.multiply.outer(epsilon, _BELOW)
        rest = np.exp(np.minimum(np.min(exponent, axis=-1) + 1e-9 * (1.0 + epsilon), 0.0))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-np.maximum(rest, 1e-300)) * (1.0 + 8.0 * _U))

    def excess(self, epsilon: FloatArray, tilt: float) -> FloatArray:
        """By how much ln of Chernoff's bound is larger with this tilt than with the best one."""
        grid, exponent = self.tilts.tilt, self._exponent
        place = min(max(int(np.searchsorted(grid, tilt)), 1), grid.size - 1)
        share = min(max(math.log(tilt / grid[place - 1]) / math.log(grid[place] / grid[place - 1]), 0.0), 1.0)
        between = [(1.0 - share) * each[place - 1] + share * each[place] for each in (exponent, grid)]
        return np.asarray(between[0] - epsilon * between[1] - self._best(epsilon)[3])

    @cached_property
    def _exponent(self) -> FloatArray:
        """What is smallest, less τε, at the best tilt τ."""
        return np.asarray(self._log_moments - self.tilts.log_kernel)

    def size(self, tilt: float, ratio: float, period: float, cut: float = _CUT) -> int:
        """Return the number of frequencies above which terms are less than the largest by so many nats."""
        variance = ratio**2 + self.number * self.rounds.variance
        key = tilt, variance, cut
        if key not in self._ends:
            high = math.sqrt(2.0 * cut / variance)
            # By factors of 2, and then between two of them.
            for part in (_HALVED, _BETWEEN):
                tried = high * part
                left = self.log_fall(tilt, tried) - 0.5 * variance * tried**2
                high = float(tried[int(np.argmax(left < -cut)) if left[-1] < -cut else -1])
            self._ends[key] = high
        return math.ceil(self._ends[key] * period / (2.0 * math.pi)) + 2

    def log_fall(self, tilt: float, t: FloatArray) -> FloatArray:
        """By how much terms are less from frequencies t on than at 0, but for Gaussian mechanisms; about."""
        lines, frequencies = self.lines_at(tilt), np.append(0.0, t)
        if self.large is None:
            most = np.sum([self.number * count * line.log_largest(frequencies) for line, _, count in lines], axis=0)
        else:
            [(line, _, count)] = lines
            most = log_most(line, self._large_line(tilt, self.large), self.number * count, frequencies)
        return np.asarray(most[1:] - most[0])

    def powers(self, tilt: float, ratio: float, period: float, cut: float) -> Powers:
        """Return the powers of transforms at all frequencies that matter, with a mechanism of ratio s."""
        lines, variance = self.lines_at(tilt), self.number * self.rounds.variance
        spacing, size = 2.0 * math.pi / period, self.size(tilt, ratio, period, cut)
        if self.large is None:
            return Powers(lines, self.number, variance, tilt=tilt, spacing=spacing, size=size)
        part = self._large_line(tilt, self.large)
        return Differences(part, lines, self.number, variance, tilt=tilt, spacing=spacing, size=size)

    def bounds(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ from above only, without any inversion."""
        return np.full(epsilon.size, -np.inf), self.chernoff(epsilon)

    def lines_at(self, tilt: float) -> list[tuple[TransformLine, bool, int]]:
        """Return the transforms on the line of a tilt, shared by all numbers of rounds."""
        lines = self.tilts.lines
        if tilt not in lines:
            lines[tilt] = [
                (TransformLine(transform, 1.0 + tilt if forward else -tilt, self.tilts.part), forward, count)
                for transform, forward, count in self.rounds.sampled
            ]
        return lines[tilt]

    def _large_line(self, tilt: float, large: "LargeLosses") -> TransformLine:
        if tilt not in large.lines:
            large.lines[tilt] = TransformLine(self.rounds.sampled[0][0], 1.0 + tilt, large.part)
        return large.lines[tilt]

    def gentler(self, tilt: float) -> float:
        """Return the next lower one of the tilts that are looked at, whose transforms may be known already."""
        grid = self.tilts.tilt
        return float(grid[max(int(np.searchsorted(grid, tilt * (1.0 + 1e-12), side="right")) - 1, 0)])

    def saddle(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return at each ε the best tilt, and about ln δ."""
        best, least, spread, _ = self._best(epsilon)
        # Between two modes there is none.
        return best, np.minimum(least - np.log(math.sqrt(2.0 * math.pi) * np.minimum(spread, _STEEP) / best), 0.0)

    def between_modes(self, epsilon: FloatArray, apart: float = _TWO_MODES) -> BoolArray:
        """Whether losses with the best tilt are spread as if they had two modes, by so many nats; about."""
        _, least, spread, _ = self._best(epsilon)
        # Of normal losses ln of Chernoff's bound is half the square of the deviations.
        return np.asarray(0.5 * spread**2 + least > apart)

    def _best(self, epsilon: FloatArray) -> tuple[FloatArray, ...]:
        """Return the best tilt τ, about the exponent there, τ times the deviation of losses, and the least exponent.

        They are cached.
        """
        key = epsilon.tobytes()
        if key not in self._found:
            self._found[key] = self._look(epsilon)
        return self._found[key]

    def _look(self, epsilon: FloatArray) -> tuple[FloatArray, ...]:
        tilt = self.tilts.tilt
        exponent = self._exponent - np.multiply.outer(epsilon, tilt)
        found, rows = np.argmin(exponent, axis=-1), np.arange(epsilon.size)
        index = np.clip(found, 1, tilt.size - 2)
        # A parabola in ln τ.
        left, middle, right = (exponent[rows, index + shift] for shift in (-1, 0, 1))
        bend = left - 2.0 * middle + right
        step = math.log(tilt[1] / tilt[0])
        bend = np.where(bend > 1e-9, bend, step * step)
        best = tilt[index] * np.exp(step * np.clip(0.5 * (left - right) / bend, -1.0, 1.0))
        return best, middle, np.sqrt(np.maximum(bend, step * step)) / step, exponent[rows, found]

    def period(self, epsilon: FloatArray, log_delta: FloatArray, tilt: float, tolerance: float) -> float:
        """Return a period with which hardly anything is added by what lies one or more periods away; cached."""
        key = epsilon.tobytes(), log_delta.tobytes(), tilt, tolerance
        if key not in self._periods:
            self._periods[key] = self._period(epsilon, log_delta, tilt, tolerance)
        return self._periods[key]

    def _period(self, epsilon: FloatArray, log_delta: FloatArray, tilt: float, tolerance: float) -> float:
        wanted = (log_delta + tilt * epsilon + math.log(_OF_PERIODS * tolerance))[:, None]
        least = 0.0
        for sign, chosen in ((1.0, self._other > tilt), (-1.0, self._other < tilt)):
            if not chosen.any():
                least = math.inf
                break
            # Another tilt adds e^{factor - x} / (1 - e^-x), x = period · apart.
            apart = np.abs(self._other[chosen] - tilt)
            factors = self._log_factors[chosen] - np.multiply.outer(sign * epsilon, apart)
            least = max(least, float(np.max(np.min(np.logaddexp(0.0, factors - wanted) / apart, axis=-1))))
        shortest, longest = _PERIODS
        return 2.0 / tilt * min(max(0.5 * tilt * least, shortest), longest)

    def others(self, tilt: float, period: float, ratio: float) -> list[tuple[FloatArray, FloatArray]]:
        """Return b and a of Chernoff's bounds a + bε on ln Σ e^{τx} δ(x), x = ε + m period, for m > 0 and m < 0."""
        other, result = self._other, []
        log_factors = self._log_factors + 0.5 * ratio * ratio * (other + other * other)
        for sign, chosen in ((1.0, other > tilt), (-1.0, other < tilt)):
            apart = np.abs(other[chosen] - tilt)
            with np.errstate(divide="ignore"):
                geometric = np.log(-np.expm1(-apart * period))
            # ε and τ meet rounded.
            slope = -sign * apart * (1.0 - sign * 8.0 * _U)
            result.append((slope, log_factors[chosen] - geometric - apart * period * (1.0 - 8.0 * _U)))
        return result

    def at(self, tilt: float, ratio: float, period: float, cut: float = _CUT) -> "SmoothedBounds":
        """Prepare bounds with a tilt τ > 0, a mechanism of ratio s composed in, and a period in nats."""
        return SmoothedBounds(self, exactly(tilt), ratio, period, cut)


class SmoothedBounds:
    """Bounds on δ with one tilt."""

    def __init__(self, side: Smoothed, tilt: float, ratio: float, period: float, cut: float) -> None:
        self.tilt, self.ratio = tilt, ratio
        #: Which part of δ rounding was, at the ε of the last call.
        self.rounding = np.zeros(0)
        powers = side.powers(tilt, ratio, period, cut)
        self._sums = powers.sums(ratio, _RATIO_FACTOR * ratio)
        self._exponents, self._others = powers.exponents, side.others(tilt, period, ratio)

    def _periods(self, epsilon: FloatArray) -> FloatArray:
        """Bound ln of what all periods but the own one add; infinite without steeper tilts."""
        if not all(apart.size for apart, _ in self._others):
            return np.full(epsilon.size, np.inf)
        each = [np.min(log_bound + np.multiply.outer(epsilon, apart), axis=-1) for apart, log_bound in self._others]
        result = np.logaddexp(*each)
        size = np.where(np.isfinite(result), np.abs(result), 0.0)
        return np.asarray(result + 1e-9 * (1.0 + np.abs(self.tilt * epsilon)) + 1e-12 * size)

    def bounds(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ at some ε from both sides."""
        tilt, ratio = self.tilt, self.ratio
        (narrow, wide), (narrow_error, wide_error) = self._sums.at(epsilon)
        grown = _RATIO_FACTOR * math.exp(-ratio * ratio * (_RATIO_FACTOR**2 - 1.0) / 8.0) * (1.0 - 16.0 * _U)
        # With a larger ratio there is no lower bound.
        known = grown > 1.0
        weight = 1.0 / (grown - 1.0) if known else 0.0
        log_scale = self._sums.log_scale
        others = self._periods(epsilon) - log_scale
        moved = log_scale - tilt * epsilon
        # By how much logarithms are off.
        slack = 16.0 * _U * (np.abs(moved) + tilt * np.abs(epsilon) + self._exponents)
        above = narrow + narrow_error
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below = (1.0 + weight) * (narrow - narrow_error - np.exp(others))
            # The wider one has another factor in front.
            larger = 0.5 * (_RATIO_FACTOR**2 - 1.0) * ratio * ratio * (tilt + tilt * tilt)
            grown = np.exp(larger) * (1.0 + 16.0 * _U * (1.0 + larger))
            below -= weight * grown * (wide + wide_error) + 16.0 * _U * (1.0 + weight) * np.abs(narrow)
            lower = np.where(known & (below > 0.0), moved + np.log(below) - slack, -np.inf)
            upper = np.where(above > 0.0, moved + np.log(above) + slack, 0.0)
            self.rounding = (1.0 + 2.0 * weight) * narrow_error / np.abs(narrow)
        return np.minimum(lower, 0.0), np.minimum(upper, 0.0)


@dataclass(frozen=True, eq=False)
class LargeLosses:
    """Large losses: their part, ln of their moment of a round at all tilts (infinite if unknown), and transforms."""

    part: SoftCut
    log_moments: FloatArray
    lines: dict[float, TransformLine] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Tilts:
    """Tilts that are looked at, with ln E e^{τ loss} of a round, and ln of τ^τ / (1+τ)^(1+τ)."""

    tilt: FloatArray
    log_moments: FloatArray
    log_moments_upper: FloatArray
    #: Of which losses; None for all.
    part: SoftCut | None = None
    lines: Lines = field(default_factory=dict)

    @staticmethod
    def of(rounds: Rounds, top: int, epsilon: float, lines: Lines | None = None, floor: float = 0.0) -> "Tilts":
        """Look at as many as matter up to `epsilon` after `top` rounds, or as show that δ there is below a floor."""
        # Where a record is added steep tilts move no outcome far.
        ratio = max((transform.ratio for transform, forward, _ in rounds.sampled if forward), default=0.0)
        most = min(_MAX_TILT, _MAX_SHIFT / ratio) if ratio > 0.0 else _MAX_TILT
        blocks: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        while True:
            blocks.append(_moments(rounds, len(blocks)))
            tilt, moments, upper = blocks[-1]
            with np.errstate(over="ignore", invalid="ignore"):
                rise = top * float(moments[-1] - moments[0]) - epsilon * float(tilt[-1] - tilt[0])
                small = np.exp(float(np.min(top * upper - epsilon * tilt))) < 0.5 * floor
            if small or not rise < _RISE or tilt[-1] >= most:
                break
        tilts, log_moments, uppers = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        return Tilts(tilts, log_moments, uppers, lines={} if lines is None else lines)

    @cached_property
    def log_kernel(self) -> FloatArray:
        """Logarithms of τ (1 + τ)."""
        return np.asarray(np.log(self.tilt * (1.0 + self.tilt)))

    @cached_property
    def log_largest(self) -> FloatArray:
        """(1 - e^{ε-ℓ})_+ is at most this, exponentiated, times e^{τ(ℓ-ε)}."""
        result: FloatArray = self.tilt * np.log(self.tilt) - (1.0 + self.tilt) * np.log1p(self.tilt)
        return result


@lru_cache(maxsize=_CACHED)
def _gentlest(rounds: Rounds) -> FloatArray:
    """Return upper bounds on the moments of a round at the tilts below 0."""
    return rounds.log_moment(_BELOW) + rounds.log_moment_error(_BELOW)


@lru_cache(maxsize=_CACHED)
def _moments(rounds: Rounds, block: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a block of tilts, their moments of a round, and upper bounds on these."""
    first = _FIRST_TILTS + (block - 1) * _MORE_TILTS if block else 0
    number = _MORE_TILTS if block else _FIRST_TILTS
    tilt = _tilts(first, number)
    # Apart, as steeper ones take more outcomes.
    moved = tilt[-1] * max(transform.ratio for transform, _, _ in rounds.sampled)
    parts = np.array_split(tilt, 1 if block or moved < _MOVED else _TILT_PARTS)
    moments = np.concatenate([rounds.log_moment(part) for part in parts])
    upper = moments + rounds.log_moment_error(tilt)
    for array in (tilt, moments, upper):
        array.setflags(write=False)
    return tilt, moments, upper


def _tilts(first: int, number: int) -> FloatArray:
    """Return some of the tilts that are looked at."""
    return np.asarray(exactly(_MIN_TILT * _TILT_RATIO ** np.arange(first, first + number)))


def exactly(tilt: Any) -> Any:
    """Round tilts so that no sum 1 + τ is rounded."""
    return (1.0 + tilt) - 1.0


#: Width of the cut, in deviations; cuts lie at multiples of the second.
_BLUR, _STEPS = 0.1, 0.05
#: The narrowest cut, from which outcome on any is narrower, deviations, and what tilts a cut sees, relative to 1 / cut.
_NARROWEST, _RARE_OUTCOME, _WANTED_TILT = 0.01, 3.0, 10.0
#: Cuts, relative to ε, in the order in which they are tried: so that either part is uniform.
_MIDDLES = (0.65, 0.45)
#: Tilts of usual losses: how many, the least and the largest, relative to 1 / cut, and the largest one by the
#: deviations, times 1 + 1 / b², by which it moves outcomes.
_USUAL_TILTS, _MIN_USUAL, _MAX_USUAL, _MAX_USUAL_SHIFT = 61, 0.05, 100.0, 10.0
#: Nothing is cut where a cut would see tilts up to less than this, relative to 1 / cut. No cut lies beyond such an
#: outcome: there is next to nothing.
_MIN_TILT_REACH, _MAX_OUTCOME = 2.0, 50.0
#: Nats by which a saddle point may overstate ln δ of usual losses, and by which all losses seem to have more δ than
#: their parts where they are cut: at first, and where the tolerance was missed.
_SADDLE_ERROR, _MODE_GAP, _MODE_GAP_MISSED = 2.0, 10.0, 5.0
#: Modes so far above the cut see nothing of it, deviations.
_MAX_MODE_DISTANCE = 6.0
#: Outcomes of one large loss that are looked at: step and reach, deviations; for so many ε at once.
_STEP, _REACH, _AT_ONCE = 0.05, 10.0, 1024


def _soft_cut(rounds: Rounds, outcome: float, exponent: int, *, large: bool) -> tuple[SoftCut, float]:
    """Return a part of losses that are cut between 2^exponent and half of it, and the largest tilt that it sees."""
    loss, ratio = 0.75 * 2.0**exponent, rounds.sampled[0][0].usual_ratio
    blur = min(max(math.sqrt(_MAX_USUAL_SHIFT * loss / (_WANTED_TILT * ratio)), _NARROWEST), _BLUR)
    return SoftCut(outcome, blur, large), min(_MAX_USUAL / loss, _MAX_USUAL_SHIFT / (blur**2 * ratio))


@lru_cache(maxsize=_CACHED_CUTS)
def _large_moments(rounds: Rounds, outcome: float, exponent: int, number: int) -> tuple[SoftCut, FloatArray]:
    """Return the part of large losses, and its moments of a round at the first tilts."""
    transform, tilt = rounds.sampled[0][0], _tilts(0, number)
    part, _ = _soft_cut(rounds, outcome, exponent, large=True)
    log_moments = np.full(tilt.size, np.inf)
    seen = (1.0 + tilt) * transform.ratio <= outcome + _MAX_MODE_DISTANCE
    if seen.any():
        log_moments[seen] = transform.log_real(1.0 + tilt[seen], part)
    return part, log_moments


@lru_cache(maxsize=_CACHED_CUTS)
def _usual_moments(rounds: Rounds, outcome: float, exponent: int) -> Tilts:
    """Return tilts of usual losses, which are below the cut, with their moments of a round."""
    transform, _, count = rounds.sampled[0]
    part, most = _soft_cut(rounds, outcome, exponent, large=False)
    tilt = exactly(np.geomspace(_MIN_USUAL / (0.75 * 2.0**exponent), most, _USUAL_TILTS))
    moments = count * transform.log_real(1.0 + tilt, part)
    moments += 0.5 * rounds.variance * (tilt + tilt * tilt)
    return Tilts(tilt, moments, moments + rounds.log_moment_error(tilt), part)


class LossCuts:
    """Cuts of one direction's losses: of one pair with a transform, besides Gaussian mechanisms."""

    def __init__(self, rounds: Rounds, tilts: Tilts) -> None:
        self._rounds, self._tilts = rounds, tilts
        #: Parts, large losses and usual ones, of each cut.
        self._large: dict[tuple[float, int], LargeLosses] = {}
        self._usual_tilts: dict[tuple[float, int], Tilts] = {}
        #: Parts for the last number of rounds.
        self._number, self._parts = 0, dict[tuple[tuple[float, int], bool], Smoothed]()

    @staticmethod
    def serves(rounds: Rounds) -> bool:
        """Whether these losses are cut: those of one pair, under its mixture."""
        return len(rounds.sampled) == 1 and rounds.sampled[0][1]

    def needed(self, side: Smoothed, epsilon: FloatArray, *, missed: bool = False, usual: bool = True) -> BoolArray:
        """Where one tilt of all losses does not do: it seems to have far more δ than both parts.

        With `missed` bounds by one tilt have missed the tolerance. Without `usual` large losses alone are looked at.
        """
        result, most = side.between_modes(epsilon), side.saddle(epsilon)[1]
        # If modes are far apart, no tilt of the grid may show both.
        far_apart = side.between_modes(epsilon, _FAR_APART)
        most = most - np.where(far_apart | missed, _MODE_GAP_MISSED, _MODE_GAP)
        result &= most > -np.inf
        if result.any():
            result[result] = [self.sees(each) for each in epsilon[result].tolist()]
            result[result] = self._log_single(side.number, epsilon[result]) < most[result]
        if usual:

            def less(index: int) -> bool:
                point = epsilon[index : index + 1]
                part = self._part(side.number, _MIDDLES[0] * float(point[0]), large=False)
                return bool(self.log_delta(part, point)[0] < most[index])

            # Usual losses have less from some ε on, but perhaps for the largest.
            ordered = sorted(np.flatnonzero(result).tolist(), key=lambda index: float(epsilon[index]))
            while ordered and not less(ordered[-1]):
                result[ordered.pop()] = False
            result[ordered[: bisect_left(ordered, True, key=less)]] = False
        return result

    def sees(self, epsilon: float) -> bool:
        """Whether cuts for an ε see tilts that matter."""
        transform, least = self._rounds.sampled[0][0], max(_MIDDLES[-1] * epsilon, 1e-300)
        blur = _NARROWEST if transform.outcome(least) > _RARE_OUTCOME else _BLUR
        return least * _MAX_USUAL_SHIFT > _MIN_TILT_REACH * transform.usual_ratio * blur**2

    def steepness(self, side: Smoothed, epsilon: float) -> float:
        """Return how steeply ln δ falls at an ε, where one tilt of all losses understates that."""
        point = np.array([epsilon])
        if not (epsilon > 0.0 and side.between_modes(point)[0] and self.sees(epsilon)):
            return 0.0
        tilt, most = self._part(side.number, _MIDDLES[0] * epsilon, large=False).saddle(point)
        return float(tilt[0]) if most[0] > self._log_single(side.number, point)[0] else 0.0

    def left(self, number: int, epsilon: FloatArray, log_floor: float) -> int:
        """Estimate how many cuts some ε need whose δ is not below a floor."""
        ordered = np.sort(epsilon).tolist()
        below = bisect_left(ordered, True, key=lambda each: self.log_delta_of_both(number, each) <= log_floor)
        cuts, reached = 0, -math.inf
        for each in ordered[:below]:
            if each > reached:
                cuts, reached = cuts + 1, _JOINT_RATIO * each
        return cuts

    def log_delta_of_both(self, number: int, epsilon: float) -> float:
        """Return about ln δ of both parts at one ε that is seen."""
        (large, usual), points = next(self.both(number, epsilon)), np.array([epsilon])
        return max(float(self.log_delta(large, points)[0]), float(usual.saddle(points)[1][0]))

    def log_delta(self, part: Smoothed, epsilon: FloatArray) -> FloatArray:
        """Return about ln δ of a part, rather less than more: of one large loss alone, or by the saddle point."""
        if part.large is None:
            return part.saddle(epsilon)[1] - _SADDLE_ERROR
        return np.minimum(self._log_single(part.number, epsilon), part.saddle(epsilon)[1])

    def _log_single(self, number: int, epsilon: FloatArray) -> FloatArray:
        """Return about ln δ of one large loss alone."""
        transform, _, count = self._rounds.sampled[0]
        return _log_single(transform, number * count, epsilon)

    def both(self, number: int, least: float) -> Iterator[tuple[Smoothed, ...]]:
        """Cut so that each part has some of δ for the smallest ε, and leave nothing out; in more than one way."""
        for fraction in _MIDDLES:
            yield tuple(self.parts(number, fraction * least))

    def parts(self, number: int, loss: float) -> list[Smoothed]:
        """Cut at about a loss, and return both parts: large losses, usual ones."""
        return [self._part(number, loss, large=large) for large in (True, False)]

    def _part(self, number: int, loss: float, *, large: bool) -> Smoothed:
        outcome = _STEPS * math.floor(min(self._rounds.sampled[0][0].outcome(loss), _MAX_OUTCOME) / _STEPS)
        # Of the farthest outcome losses may differ much.
        cut = outcome, math.frexp(loss)[1]
        if number != self._number:
            self._number, self._parts = number, {}
        if (cut, large) not in self._parts:
            if large and cut not in self._large:
                self._large[cut] = LargeLosses(*_large_moments(self._rounds, *cut, self._tilts.tilt.size))
            elif not large and cut not in self._usual_tilts:
                # Transforms, which are large, are not shared.
                self._usual_tilts[cut] = replace(_usual_moments(self._rounds, *cut), lines={})
            of = (self._tilts, self._large[cut]) if large else (self._usual_tilts[cut],)
            self._parts[cut, large] = Smoothed(self._rounds, number, *of)
        return self._parts[cut, large]


def _log_single(transform: LossTransform, number: int, epsilon: FloatArray) -> FloatArray:
    """Return about ln δ of one large loss among so many rounds; -inf where that is no float."""
    if epsilon.size > _AT_ONCE:
        pieces = np.array_split(epsilon, -(-epsilon.size // _AT_ONCE))
        return np.concatenate([_log_single(transform, number, piece) for piece in pieces])
    first = transform.outcomes(epsilon - transform.smallest_loss)
    y: FloatArray = np.add.outer(first, _STEP * np.arange(1.0, math.ceil(_REACH / _STEP)))
    losses = transform.real_excess(y) + transform.smallest_loss
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        mass = np.exp(epsilon[:, None] - 0.5 * y * y) * np.expm1(np.maximum(losses - epsilon[:, None], 0.0))
        return np.asarray(np.log(np.sum(mass, axis=1)) + math.log(number * _STEP / math.sqrt(2.0 * math.pi)))


#: Passes at most; part of the tolerance that smoothing aims at, first and when the tolerance was missed.
_MAX_PASSES, _FIRST_FRACTION, _TARGET_FRACTION = 5, 0.5, 0.7
#: Terms that are left out are smaller by so many nats, relative to the tolerance and to δ; at most.
_ROW_CUT, _MAX_ROW_CUT = 14.0, 40.0
#: Where the slope of ln δ is looked at, relative to ε; and its least value.
_BESIDE, _LEAST = 1.001, -1e6
#: δ is taken to be below the floor if it seems to be so many nats below.
_BELOW_FLOOR = 1.0
#: Part that smoothing may take at first of what the larger direction, or part, seems to be larger by; and part of the
#: tolerance that the smaller part may take.
_OF_SPARE, _OF_SMALLER = 0.5, 0.3
#: Largest ratio: from 1.6 on there is no lower bound.
_LARGEST_RATIO = 0.5
#: By how much the ratio shrinks at least and at most.
_MIN_REFINEMENT, _MAX_REFINEMENT = 0.8, 0.08
#: (1 + c) / 2 of the smoothing: its bracket is so many times s² τ (τ + 1).
_BRACKET = 1.25
#: About the error of bounds with the best tilt.
_ROUNDING = 3e-10
#: ε of one tilt have at most e to this times the error of the best one's, at first and where they missed; and how much
#: more the first of them may have.
_MIN_EXCESS, MAX_EXCESS, _CAREFUL_EXCESS, _FORCED_EXCESS = 0.5, 11.0, 0.5, 3.0
#: Less steep tilts that are tried, and what they may add to the error at least: logarithm.
_GENTLER_TILTS, _GENTLE_EXCESS = (1.0, 0.85, 0.7, 0.55, 0.4), 2.5
#: So many frequencies need not be made fewer.
_FEW_FREQUENCIES = 1000
#: Frequencies of one pass, at most, and with how much more smoothing where there would be more.
MAX_FREQUENCIES, _EXCESS_FACTOR = 1 << 17, 1.1
#: A bracket of more than this part of the one before is not tried again.
_STALLED_FRACTION = 0.9
#: Seconds of a tilt, and of a frequency, and by how much more for each ε.
_SECONDS_PER_GROUP, _SECONDS_PER_TERM, _PER_POINT = 3e-3, 6e-7, 0.03
#: ε up to this multiple of the least one share a cut if both parts matter; and the error of logarithms of sums.
_JOINT_RATIO, SUMMED = 1.5, 1e-12


def seconds_of_sums(frequencies: float, points: int) -> float:
    """Return about the seconds that the sums of one tilt take, on the machine of ``cost``."""
    return _SECONDS_PER_GROUP + _SECONDS_PER_TERM * frequencies * (1.0 + _PER_POINT * points)


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


class Found:
    """The best bounds on ln δ so far, at all ε, and which part's bounds they are: of several, δ is the sum."""

    def __init__(self, lower: FloatArray, upper: FloatArray, *parts: "SmoothedBounds | Smoothed") -> None:
        self.lower, self.upper = lower, upper
        self.parts: list[tuple[SmoothedBounds | Smoothed, ...]] = [parts] * lower.size
        self._width = np.full(lower.size, np.inf)

    def take(self, columns: IntArray, lower: FloatArray, upper: FloatArray, *parts: "SmoothedBounds | Found") -> None:
        """Keep what is closer at some ε."""
        with np.errstate(invalid="ignore"):
            width = upper - lower
        for place, column in enumerate(columns.tolist()):
            before = self._width[column]
            if width[place] < before or (before == np.inf and upper[place] < self.upper[column]):
                each = [part.parts[column] if isinstance(part, Found) else (part,) for part in parts]
                self.parts[column] = sum(each, ()) if all(each) else ()
        self._width[columns] = np.fmin(self._width[columns], width)
        self.lower[columns] = np.maximum(self.lower[columns], lower)
        self.upper[columns] = np.minimum(self.upper[columns], upper)


class DirectedRow:
    """One direction of a row, with what is known of it before any inversion, at all ε."""

    def __init__(self, direction: Direction, smoothed: Smoothed, epsilon: FloatArray) -> None:
        self.direction, self.smoothed, self._epsilon = direction, smoothed, epsilon
        #: For which ε tilts of all losses were tried.
        self.tried = np.zeros(epsilon.size, dtype=bool)

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

    `finer` is a factor by which less is smoothed than seems enough. With `below_floor` parts of losses are
    bounded closely below the floor, too.
    """

    def __init__(self, question: Question, *, finer: float = 1.0, below_floor: bool = False) -> None:
        self._question, self._part, self._below_floor = question, finer, below_floor
        self._sides: dict[Direction, tuple[Rounds, Tilts]] = {}
        #: Directions in which no loss exceeds any ε.
        self.without_loss: dict[Direction, Rounds] = {}
        least, first = float(question.epsilon.min()), int(question.rounds.min())
        #: Cuts of the losses, where they are cut.
        self.cuts: dict[Rounds, LossCuts | None] = {}
        for direction in question.directions:
            rounds = rounds_of(question.counts, direction)
            if rounds is not None and question.top * rounds.largest_loss <= least:
                self.without_loss[direction] = rounds
            elif rounds is not None:
                lines = question.shared.lines.setdefault(rounds, {})
                end, tilts = question.shared.tilts.get(rounds, (0.0, None))
                if tilts is None or end < question.largest:
                    single = question.rounds.size * question.epsilon.size == 1 and not below_floor
                    tilts = Tilts.of(rounds, first, question.largest, lines, question.floor if single else 0.0)
                self._sides[direction] = rounds, tilts
                self.cuts[rounds] = _cuts_of(question, rounds, tilts)
        #: Of each row, with what is known of it and was tried.
        self._rows: dict[int, list[DirectedRow]] = {}
        #: The smallest ratio that was used.
        self.width = math.inf
        #: What has been computed takes about so many seconds.
        self.seconds = 0.0
        #: Number of cuts of the losses that will be needed for points that no one tilt bounds.
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
        steepest = max(float(side.saddle(epsilon)[0].max()), side.steepness)
        ratio = math.sqrt(_FIRST_FRACTION * tolerance / (_BRACKET * steepest * (steepest + 1.0)))
        return self._part * min(ratio, _LARGEST_RATIO)

    def row(
        self, row: int, known: tuple[FloatArray, FloatArray] | None = None, *, parts: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ of one row, shape (2, E) each, given lower and upper bounds that are known already.

        With `parts` losses are cut where that is needed; otherwise `left_to_parts` counts the cuts.
        """
        question = self._question
        shape = (2, question.epsilon.size)
        lower, upper = (np.full(shape, -np.inf), np.zeros(shape)) if known is None else map(np.copy, known)
        least, spare = np.full(question.epsilon.size, -np.inf), np.zeros(question.epsilon.size)
        sides = self._rows[row] = self._rows.get(row) or self.sides(row)
        for side in sides:
            axis = list(Direction).index(side.direction)
            own = least if question.joint_directions else np.full(least.size, -np.inf)
            if np.any(side.log_delta > _NEARLY_ALL):
                np.maximum(lower[axis], side.nearly_all, out=lower[axis])
            np.minimum(upper[axis], side.chernoff, out=upper[axis])
            self.improve(side, own, spare, Found(lower[axis], upper[axis]), parts=parts)
            least = np.maximum(least, lower[axis])
            if not parts:
                # Where the larger direction is left to parts, so is the other one.
                least[upper[axis] > least + math.log1p(question.tolerance)] = np.inf
            if question.joint_directions and len(sides) == 2:
                # The other direction only has to be shown to be smaller.
                other = next(each for each in sides if each is not side)
                spare = side.log_delta - other.log_delta
        for direction in self.without_loss:
            upper[list(Direction).index(direction)] = -np.inf
        if question.symmetric:
            lower[1], upper[1] = lower[0], upper[0]
        return lower, upper

    def improve(self, row: DirectedRow, known: FloatArray, spare: FloatArray, found: Found, *, parts: bool) -> None:
        """Improve the bounds of one direction, given lower bounds of both and what may be left open."""
        side, question, met = row.smoothed, self._question, math.log1p(self._question.tolerance)

        def missed() -> BoolArray:
            return self._above_floor(found) & (found.upper > np.maximum(known, found.lower) + met)

        hopeless, cuts, left = row.tried.copy(), self.cuts.get(side.rounds), missed()
        if cuts is not None and left.any():
            needed, number = self.for_parts(side, left, missed=parts)
            if not parts:
                usual = question.epsilon[left & ~needed]
                if side.between_modes(question.epsilon[left]).any():
                    side.steepness = max(side.steepness, cuts.steepness(side, float(np.max(usual, initial=0.0))))
            if parts or number == 0:
                self._by_parts(cuts, side.number, needed, known, found)
                left = missed()
            else:
                self.left_to_parts += number
                hopeless |= needed
        row.tried |= left & ~hopeless
        excess = math.log(0.1 * question.tolerance / _ROUNDING)
        for most in (min(max(excess, _MIN_EXCESS), MAX_EXCESS), _CAREFUL_EXCESS):
            for group in self._joined(side, np.flatnonzero(left & ~hopeless), most):
                columns = group.columns
                if not self._above_floor(found)[columns].any():
                    continue
                for bounds, lower, upper in self.passes(side, group, known[columns], spare[columns]):
                    # The best tilt's rounding is less by what that one's has in excess.
                    least = bounds.rounding * np.exp(-side.excess(question.epsilon[columns], bounds.tilt))
                    hopeless[columns] |= least > question.tolerance
                    found.take(columns, lower, upper, bounds)
            left = missed()

    def for_parts(self, side: Smoothed, wanted: BoolArray, *, missed: bool = False) -> tuple[BoolArray, int]:
        """Return which of the wanted ε need parts of losses, and with about how many cuts down to the floor.

        With `missed` bounds by one tilt have missed the tolerance, and cuts are not counted.
        """
        cuts, needed, epsilon = self.cuts.get(side.rounds), np.zeros_like(wanted), self._question.epsilon
        if cuts is None:
            return needed, 0
        needed[wanted] = cuts.needed(side, epsilon[wanted], missed=missed)
        return needed, 0 if missed else cuts.left(side.number, epsilon[needed], self.log_floor)

    def cuts_for(self, row: int) -> int:
        """Return about how many cuts of losses a row takes."""
        sides = self._rows[row] = self._rows.get(row) or self.sides(row)
        return sum(self.for_parts(side.smoothed, side.chernoff > self.log_floor)[1] for side in sides)

    def _above_floor(self, found: "Found") -> BoolArray:
        """Return which δ may be above the floor: none of an ε beyond one where it is not."""
        epsilon = self._question.epsilon
        return np.asarray(epsilon < np.min(epsilon[found.upper <= self.log_floor], initial=np.inf))

    def _by_parts(self, cuts: LossCuts, number: int, left: BoolArray, known: FloatArray, found: Found) -> None:
        """Improve bounds where no one tilt does, by the parts of large losses and of usual ones."""
        question = self._question
        epsilon, met, left = question.epsilon, math.log1p(question.tolerance), left.copy()
        tried = math.nan
        while left.any():
            columns = np.flatnonzero(left)
            least = float(epsilon[columns].min())
            # An ε that missed beside others is tried alone.
            columns = columns[epsilon[columns] <= (1.0 if least == tried else _JOINT_RATIO) * least]
            tried, last = least, bool(np.all(epsilon[columns] == least))
            for parts in cuts.both(number, least):
                each = self._of_parts(cuts, parts, columns, known)
                # δ is the sum of both.
                lower, upper = (
                    np.logaddexp.reduce([getattr(one, end)[columns] for one in each]) + sign * SUMMED
                    for end, sign in (("lower", -1.0), ("upper", 1.0))
                )
                found.take(columns, lower, upper, *each)
                left[columns] = found.upper[columns] > np.maximum(known, found.lower)[columns] + met
                left &= self._below_floor | self._above_floor(found)
                columns = columns[left[columns]]
                if not columns.size:
                    break
            left[epsilon == least] &= not last

    def _of_parts(self, cuts: LossCuts, parts: Sequence[Smoothed], columns: IntArray, known: FloatArray) -> list[Found]:
        """Bound ln δ of parts at some ε: of the smaller one as well as it matters for the sum."""
        tolerance, spare, epsilon = self._question.tolerance, np.zeros(known.size), self._question.epsilon[columns]
        about = {part: cuts.log_delta(part, epsilon) for part in parts}
        # Where δ seems to be below the floor, each part need only be shown to be below half of it.
        small, known = np.logaddexp.reduce(list(about.values())) < self.log_floor - _BELOW_FLOOR, known.copy()
        small &= not self._below_floor
        known[columns[small]] = np.maximum(
            known[columns[small]], self.log_floor - math.log(2.0) - math.log1p(tolerance)
        )
        ordered, result = sorted(parts, key=lambda part: -float(np.sum(about[part]))), []
        for part in ordered:
            # Of next to nothing the slope does not matter.
            fall = np.maximum(about[part], _LEAST) - np.maximum(cuts.log_delta(part, epsilon * _BESIDE), _LEAST)
            part.steepness = float(np.max(fall / (_BESIDE - 1.0) / epsilon))
            result.append(self._of_part(part, columns, known, spare))
            known = np.maximum(known, result[0].lower + math.log(_OF_SMALLER * tolerance))
            larger = np.maximum(about[ordered[0]], _LEAST) - np.maximum(about[ordered[-1]], _LEAST)
            spare[columns] = tolerance * np.exp(np.clip(larger, 0.0, -math.log(tolerance)))
        return result

    def _of_part(self, part: Smoothed, columns: IntArray, known: FloatArray, spare: FloatArray) -> Found:
        """Bound ln δ of a part at some ε."""
        found = Found(*part.bounds(self._question.epsilon), part)
        missed = columns[found.upper[columns] > known[columns] + math.log1p(self._question.tolerance)]
        for group in self._joined(part, missed, MAX_EXCESS):
            chosen = group.columns
            for bounds, lower, upper in self.passes(part, group, known[chosen], spare[chosen]):
                found.take(chosen, lower, upper, bounds)
        return found

    def groups(self, side: Smoothed, columns: IntArray, most: float) -> Iterator[Group]:
        """Cover ε of which a tilt is known, by as few tilts as keep the rounding below the tolerance."""
        question = self._question
        if columns.size == 0:
            return
        tilt, log_delta = side.saddle(question.epsilon[columns])
        known = ~np.isnan(log_delta)
        columns, tilt, log_delta = columns[known], tilt[known], log_delta[known]
        left, epsilon = np.argsort(tilt, kind="stable"), question.epsilon[columns]
        while left.size:
            # As far as the tilt of the first one serves, and then as far as that one's.
            reached = left[side.excess(epsilon, float(tilt[left[0]]))[left] <= most]
            for best in (tilt[reached[-1]] if reached.size else tilt[left[0]], tilt[left[0]]):
                # Between two modes the nearest tilt of the grid may be far from the best one.
                middle = side.gentler(float(best)) if most > _CAREFUL_EXCESS else float(exactly(best))
                excess = side.excess(epsilon, middle)[left]
                if excess[0] <= most + _FORCED_EXCESS:
                    break
            served = excess <= most
            served[0] = True
            # In the order of ε, of which more is known.
            chosen = np.sort(left[served])
            group = Group(middle, middle, columns[chosen], log_delta[chosen])
            yield replace(group, gentle=self._gentle(side, group, most))
            left = left[~served]

    def _joined(self, side: Smoothed, columns: IntArray, most: float) -> list[Group]:
        """Take groups together whose less steep tilt is the same."""
        by_tilt: dict[float, Group] = {}
        for group in self.groups(side, columns, most):
            first = by_tilt.setdefault(group.gentle, group)
            if first is not group:
                by_tilt[group.gentle] = replace(
                    first,
                    columns=np.append(first.columns, group.columns),
                    log_delta=np.append(first.log_delta, group.log_delta),
                )
        return list(by_tilt.values())

    def _gentle(self, side: Smoothed, group: Group, most: float) -> float:
        """Return a less steep tilt if its period is much shorter: where rare large losses count as much as many."""
        best, before, tilt, epsilon = math.inf, math.inf, group.tilt, self._question.epsilon[group.columns]
        most, ratio = max(most, _GENTLE_EXCESS), self.first_ratio(side, epsilon, self._question.tolerance)
        for part in _GENTLER_TILTS:
            chosen = side.gentler(part * group.tilt)
            if part < 1.0 and np.any(side.excess(epsilon, chosen) > most):
                break
            period = side.period(epsilon, group.log_delta, chosen, self._question.tolerance)
            if period < 0.7 * best:
                best, tilt = period, chosen
            if period < _FEW_FREQUENCIES * ratio or period > before:
                break
            before = period
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
        """Yield better and better bounds, until they meet the tolerance or stop improving."""
        question = self._question
        epsilon, tolerance = question.epsilon[group.columns], question.tolerance
        ratio = self.first_ratio(side, epsilon, max(tolerance, _OF_SPARE * float(np.min(spare))))
        cut = min(_ROW_CUT + float(np.max(side.excess(epsilon, tilt))) - math.log(tolerance), _MAX_ROW_CUT)
        used, log_delta, before, least = math.inf, group.log_delta, math.inf, np.full(epsilon.size, np.inf)
        for _ in range(_MAX_PASSES):
            period = side.period(epsilon, log_delta, tilt, tolerance)
            # As little smoothing as so many frequencies allow, if that is less than before.
            many = side.size(tilt, ratio, period, cut) / MAX_FREQUENCIES
            if many > 1.0:
                ratio *= _EXCESS_FACTOR * many
                if ratio > _MIN_REFINEMENT * used or side.size(tilt, ratio, period, cut) > MAX_FREQUENCIES:
                    return
            used = ratio
            self.width = min(self.width, ratio)
            bounds = side.at(tilt, ratio, period, cut)
            self.seconds += seconds_of_sums(side.size(tilt, ratio, period, cut), epsilon.size)
            lower, upper = bounds.bounds(epsilon)
            yield bounds, lower, upper
            judged = np.maximum(known, lower)
            # Less smoothing does not help where rounding alone takes the tolerance.
            missed = (upper > self.log_floor) & (upper > judged + math.log1p(tolerance))
            missed &= bounds.rounding < 0.7 * tolerance
            # Without a steeper tilt there are no lower bounds.
            if not missed.any() or tilt >= side.tilts.tilt[-1]:
                return
            with np.errstate(over="ignore"):
                bracket = float(np.max(np.expm1(np.minimum(upper - judged, 50.0)[missed])))
            fallen = bool(np.any(upper < least - 0.5))
            least = np.minimum(least, upper)
            if bracket > _STALLED_FRACTION * before and not fallen:
                return
            better = np.where(np.isfinite(lower), lower, upper - 3.0)
            moved = bool(np.any(better < log_delta - 1.0))
            log_delta = np.minimum(log_delta, better)
            # What comes from other periods is not mended by less smoothing.
            if not moved:
                before = bracket
            ratio *= min(
                max(math.sqrt(_TARGET_FRACTION * tolerance / bracket), _MAX_REFINEMENT),
                1.0 if moved else _MIN_REFINEMENT,
            )


#: Where an ε is looked for, relative to the largest; and then between two of these.
_LOOKED_AT, _EVENLY = np.append(0.0, np.geomspace(1e-4, 1.0, 47)), np.linspace(0.0, 1.0, 9)
#: Nats by which a direction is smaller for certain; and ratio of neighbouring ε that are looked at for parts of losses,
#: the first of them, at most how many, and where parts are needed, relative to one tilt.
_SMALLER, _NEIGHBOURS, _FIRST_NEIGHBOUR, _MOST_LOOKS, _MUCH_LESS = 0.1, 1.6, 3, 30, 0.75


@dataclass(frozen=True, eq=False)
class Readers:
    """Bounds on the larger ln δ of some directions, closest near each of some ε."""

    #: Which of these ε a reader serves; each has one of every direction. Of several, the larger bounds hold.
    parts: Sequence[tuple[IntArray, Reader]]

    def near(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ from both sides at points near each ε, shape (K, n)."""
        lower, upper = np.full(points.shape, -np.inf), np.full(points.shape, -np.inf)
        for columns, reader in self.parts:
            for known, more in zip((lower, upper), reader(points[columns].ravel()), strict=True):
                known[columns] = np.maximum(known[columns], more.reshape(columns.size, -1))
        return lower, upper

    def of(self, column: int) -> Reader:
        """Return the bounds near one of the ε."""
        return partial(largest_of, [reader for columns, reader in self.parts if column in columns])


def transform_readers(question: Question, finer: float) -> Readers | None:
    """Return bounds on the larger ln δ of the requested directions, closest near the question's ε, of one r.

    `finer` is that of `TransformRows`. Nothing is known of an ε for which too many frequencies were needed. None where
    no direction has a loss that exceeds any ε.
    """
    # Bounds from both sides show how far off a guess is.
    rows, size = TransformRows(question, finer=finer, below_floor=True), question.epsilon.size
    sides, everywhere = rows.sides(0), np.arange(size)
    known, spare = np.full(size, -np.inf), np.zeros(size)
    readers: list[tuple[IntArray, Reader]] = []
    for row in sides:
        small = np.zeros(size, bool)
        if readers:
            # A direction that is much smaller does not matter.
            small = row.chernoff < np.maximum(rows.log_floor, known - _SMALLER)
            readers.append((everywhere[small], row.smoothed.bounds))
        row.smoothed.steepness = question.steepness
        found = Found(np.full(size, -np.inf), np.where(small, -np.inf, 0.0))
        for parts in (False, True):
            rows.improve(row, known, spare, found, parts=parts)
        served: dict[tuple[SmoothedBounds | Smoothed, ...], list[int]] = {}
        for column in everywhere[~small].tolist():
            served.setdefault(found.parts[column], []).append(column)
        readers += [(np.array(columns), partial(_sum, parts)) for parts, columns in served.items()]
        # The smaller direction only has to be shown to be smaller.
        known, spare = np.maximum(known, found.lower), sides[0].log_delta - sides[-1].log_delta
    largest = (int(question.rounds[0]) * one.largest_loss for one in rows.without_loss.values())
    readers += [(everywhere, partial(_beyond_losses, each)) for each in largest]
    return Readers([reader for reader in readers if reader[0].size]) if sides else None


def _sum(parts: Sequence[SmoothedBounds | Smoothed], epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the sum of δ of some parts; without any, nothing is known."""
    found = [each.bounds(epsilon) for each in parts]
    if len(found) == 1:
        return found[0]
    if not found:
        return np.full(epsilon.size, -np.inf), np.zeros(epsilon.size)
    lower = np.logaddexp.reduce([each[0] for each in found]) - SUMMED
    return lower, np.minimum(np.logaddexp.reduce([each[1] for each in found]) + SUMMED, 0.0)


def _beyond_losses(largest: float, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.full(epsilon.size, -np.inf), np.where(epsilon >= largest, -np.inf, 0.0)


def guessed_epsilons(question: Question, log_delta: FloatArray, largest: float) -> tuple[FloatArray, FloatArray] | None:
    """Return about the ε that meet some ln δ in the requested directions, of one r, and the slopes of ln δ there.

    None if some ε is beyond `largest`.
    """
    number, best, slopes = int(question.rounds[0]), np.zeros(log_delta.size), np.full(log_delta.size, -1.0)
    for direction in question.directions:
        rounds = rounds_of(question.counts, direction)
        if rounds is None:
            return None
        # A direction with smaller ε does not matter.
        end, lines = float(best.max()) or 1.0, question.shared.lines.setdefault(rounds, {})
        if number * rounds.largest_loss <= best.min():
            continue
        while True:
            side = Smoothed(rounds, number, Tilts.of(rounds, number, end, lines))
            about = side.saddle(end * _LOOKED_AT)[1]
            if about[-1] < log_delta.min():
                break
            end *= 4.0
            if end > largest:
                return None
        above = np.maximum(np.argmax(about < log_delta[:, None], axis=1), 1)
        begin = _LOOKED_AT[above - 1]
        between = end * (begin[:, None] + np.multiply.outer(_LOOKED_AT[above] - begin, _EVENLY))
        about = np.minimum.accumulate(side.saddle(between.ravel())[1].reshape(between.shape), axis=1)
        guess = np.array([np.interp(*each) for each in zip(-log_delta, -about, between, strict=True)])
        side = Smoothed(rounds, number, Tilts.of(rounds, number, float(guess.max()), lines))
        question.shared.tilts[rounds] = float(guess.max()), side.tilts
        guess, steepest = _guessed_by_parts(question, side, log_delta, guess)
        steepest = np.maximum(np.maximum(steepest, side.saddle(guess)[0]), 1e-3)
        slopes, best = np.where(guess > best, -steepest, slopes), np.maximum(best, guess)
    return best, slopes


def _guessed_by_parts(
    question: Question, side: Smoothed, log_delta: FloatArray, ends: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return about the ε of some ln δ, and how steeply ln δ falls there: by parts of losses where these are needed.

    Elsewhere it is the end, and the fall 0.
    """
    cuts, nothing = _cuts_of(question, side.rounds, side.tilts), np.zeros(ends.size)
    if cuts is None or not (needed := cuts.needed(side, ends, usual=False)).any():
        return ends, nothing
    wanted = log_delta[needed]
    # Always at the same ε, of whose parts the moments may be known.
    points = [_NEIGHBOURS ** (math.ceil(math.log(ends[needed].max(), _NEIGHBOURS)) - _FIRST_NEIGHBOUR)]
    found = [cuts.log_delta_of_both(side.number, points[0])]
    for factor, at in ((1.0 / _NEIGHBOURS, 0), (_NEIGHBOURS, -1)):
        while len(points) < _MOST_LOOKS and (found[0] < wanted.max() if at == 0 else found[-1] > wanted.min()):
            point = factor * points[at]
            if not cuts.sees(point):
                break
            last = 0 if at == 0 else len(points)
            points.insert(last, point)
            found.insert(last, cuts.log_delta_of_both(side.number, point))
    if len(points) < 2:
        return ends, nothing
    # Between neighbours about a straight line of ln ε.
    falling, logs = np.minimum.accumulate(found), np.log(points)
    guess = np.minimum(np.exp(np.interp(-log_delta, -falling, logs)), ends)
    place = np.clip(np.searchsorted(points, guess), 1, logs.size - 1)
    fall = (falling[place - 1] - falling[place]) / (logs[place] - logs[place - 1]) / np.maximum(guess, points[0])
    # Where the parts are as large as they seem to be together they say less than one tilt.
    needed &= guess < _MUCH_LESS * ends
    return np.where(needed, guess, ends), np.where(needed, fall, 0.0)


def _cuts_of(question: Question, rounds: Rounds, tilts: Tilts) -> LossCuts | None:
    """Return the cuts of a round's losses, shared by all numbers of rounds; None where losses are not cut."""
    key, known = (rounds, tilts.tilt.size), question.shared.cuts
    if key not in known:
        known[key] = LossCuts(rounds, tilts) if LossCuts.serves(rounds) else None
    return known[key]  # type: ignore[no-any-return]
