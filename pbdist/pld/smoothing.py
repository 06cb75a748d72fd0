r"""Bounds on δ by Fourier inversion of exact transforms, made smooth by one faint Gaussian mechanism.

A Gaussian mechanism of ratio s (sensitivity / scale) is composed with the rounds: that makes δ larger, and its
transform fall so fast that few frequencies suffice. Two such mechanisms, of ratios s and c s, bound δ from below by
(1 + α) δ_s - α δ_{cs}, α = 1 / (c e^{-s²(c²-1)/8} - 1). Both bounds are off by about s² times the curvature of δ.
Section 14 of ``docs/pld.md`` proves this, and the errors of sums in position of integrals.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.loss_transform import Rounds, SoftCut
from pbdist.pld.powers import Differences, Powers, log_most
from pbdist.pld.transform_line import Lines, TransformLine
from pbdist.types import BoolArray, FloatArray

_U = UNIT_ROUNDOFF
#: c.
_WIDER = 1.5
#: Terms so many nats below the largest one are cut off, by default.
_CUT = 36.0
#: Tilts that are looked at, the largest, and by how many deviations they may move an outcome.
_TILTS, _LEAST_TILT, _MOST_TILT, _MOST_SHIFT = 161, 1e-3, 1e6, 400.0
#: They are computed in so many parts.
_AT_ONCE = 4
#: Moments of so many rounds are kept for further questions.
_KEPT = 16
#: The first look at tilts goes up to this times the deviation of one event.
_FIRST_TILT = 60.0
#: Periods that are tried, relative to 2 / tilt, the part of the tolerance that the others may take, and how
#: many are looked at together.
_PERIODS, _OF_PERIODS, _LOOKED_AT = np.geomspace(1.0, 3000.0, 60), 1e-3, 9
#: Near tilts at which rare large losses take over, tilted losses seem to be spread far more than they are.
_STEEP = 30.0
#: By so much, nats, the square of their deviations exceeds what is normal.
_TWO_MODES = 5.0
#: Tilts below 0 that are looked at where δ is nearly 1.
_BELOW = -np.linspace(0.0, 1.0, 41)


class Smoothed:
    """δ of r rounds in one direction, by the frequencies of tilted losses: of all losses, or of a part of them.

    The tilts hold the transforms that were used, for all numbers of rounds; those of a soft cut are of usual losses
    alone. With `large` it is δ of P^r - U^r, where at least one loss is large.
    """

    def __init__(self, rounds: Rounds, number: int, tilts: "Tilts", large: "LargeLosses | None" = None) -> None:
        self.rounds, self.number, self.tilts, self.large = rounds, number, tilts, large
        #: The part that is left out, and closer bounds on it.
        self.left_out: Smoothed | None = None
        self.left_out_bounds: SmoothedBounds | None = None
        #: ln E e^{τ loss} of all rounds at all tilts, about, and from above.
        self._log_moments, self._log_moments_upper = self._moments()
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

    def chernoff(self, epsilon: FloatArray, ratio: float = 0.0) -> FloatArray:
        """Return upper bounds on ln δ: (1 - e^{ε-ℓ})_+ <= c e^{τ(ℓ-ε)}, c = τ^τ / (1+τ)^(1+τ), for any τ > 0.

        With a mechanism of ratio s composed in, if one is given.
        """
        tilts = self.tilts
        exponent = self._log_moments_upper + tilts.log_largest
        exponent = exponent + 0.5 * ratio * ratio * (tilts.tilt + tilts.tilt**2)
        # ε and τ meet rounded.
        result = np.min(exponent - np.multiply.outer(epsilon, tilts.tilt * (1.0 - 8.0 * _U)), axis=-1)
        return np.asarray(np.minimum(result + 1e-12 * (1.0 + np.abs(result)), 0.0))

    def nearly_all(self, epsilon: FloatArray) -> FloatArray:
        """Return lower bounds on ln δ: 1 - δ = E min(1, e^{ε-ℓ}) <= E e^{τ(ℓ-ε)} for -1 <= τ <= 0."""
        exponent = self.number * (self.rounds.log_moment(_BELOW) + self.rounds.log_moment_error(_BELOW))
        exponent = exponent - np.multiply.outer(epsilon, _BELOW)
        rest = np.exp(np.minimum(np.min(exponent, axis=-1) + 1e-9 * (1.0 + epsilon), 0.0))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-np.maximum(rest, 1e-300)) * (1.0 + 8.0 * _U))

    def excess(self, epsilon: FloatArray, tilt: float) -> FloatArray:
        """By how much ln of Chernoff's bound is larger with this tilt than with the best one."""
        tilts = self.tilts
        exponent = self._exponent(epsilon)
        own = np.array([np.interp(math.log(tilt), np.log(tilts.tilt), row) for row in exponent])
        return np.asarray(own - np.min(exponent, axis=-1))

    def _exponent(self, epsilon: FloatArray) -> FloatArray:
        tilts = self.tilts
        exponent = self._log_moments - np.log(tilts.tilt * (1.0 + tilts.tilt))
        return np.asarray(exponent - np.multiply.outer(epsilon, tilts.tilt))

    def size(self, tilt: float, ratio: float, period: float, cut: float = _CUT) -> int:
        """Return the number of frequencies above which terms are less than the largest by so many nats."""
        variance = ratio**2 + self.number * self.rounds.variance
        low, high = 0.0, math.sqrt(2.0 * cut / variance)
        for _ in range(12):
            middle = 0.5 * (low + high)
            left = self.log_fall(tilt, middle)
            low, high = (low, middle) if left - 0.5 * variance * middle**2 < -cut else (middle, high)
        return math.ceil(high * period / (2.0 * math.pi)) + 2

    def log_fall(self, tilt: float, t: float) -> float:
        """By how much terms are less from frequency t on than at 0, but for Gaussian mechanisms; about."""
        lines = self.lines_at(tilt)
        if self.large is None:
            return sum(self.number * count * line.log_fall(t) for line, _, count in lines)
        [(line, _, count)], part = lines, self._large_line(tilt, self.large)
        number = self.number * count
        return log_most(line, part, number, t) - log_most(line, part, number, 0.0)

    def powers(self, tilt: float, ratio: float, period: float, cut: float) -> Powers:
        """Return the powers of transforms at all frequencies that matter, with a mechanism of ratio s."""
        lines, variance = self.lines_at(tilt), self.number * self.rounds.variance
        spacing, size = 2.0 * math.pi / period, self.size(tilt, ratio, period, cut)
        if self.large is None:
            return Powers(lines, self.number, variance, tilt=tilt, spacing=spacing, size=size)
        part = self._large_line(tilt, self.large)
        return Differences(part, lines, self.number, variance, tilt=tilt, spacing=spacing, size=size)

    def log_left_out(self, epsilon: FloatArray, ratio: float) -> FloatArray:
        """Bound ln δ of the part that is left out, with a mechanism of ratio s."""
        if self.left_out is None:
            return np.full(epsilon.size, -np.inf)
        result = self.left_out.chernoff(epsilon, ratio)
        # δ rises with the ratio.
        if self.left_out_bounds is not None and ratio <= self.left_out_bounds.ratio:
            result = np.minimum(result, self.left_out_bounds.log_most(epsilon))
        return result

    def lines_at(self, tilt: float) -> list[tuple[TransformLine, bool, int]]:
        """Return the transforms on the line of a tilt, kept for further numbers of rounds."""
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
        best, least, spread = self._best(epsilon)
        # Between two modes there is none.
        return best, np.minimum(least - np.log(math.sqrt(2.0 * math.pi) * np.minimum(spread, _STEEP) / best), 0.0)

    def between_modes(self, epsilon: FloatArray) -> BoolArray:
        """Whether losses with the best tilt are spread as if they had two modes; about."""
        _, least, spread = self._best(epsilon)
        # Of normal losses ln of Chernoff's bound is half the square of the deviations.
        return np.asarray(0.5 * spread**2 + least > _TWO_MODES)

    def _best(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the best tilt τ, the exponent there, and τ times the deviation of tilted losses."""
        tilt = self.tilts.tilt
        exponent = self._exponent(epsilon)
        index = np.clip(np.argmin(exponent, axis=-1), 1, tilt.size - 2)
        rows = np.arange(epsilon.size)
        # A parabola in ln τ.
        left, middle, right = (exponent[rows, index + shift] for shift in (-1, 0, 1))
        bend = left - 2.0 * middle + right
        step = math.log(tilt[1] / tilt[0])
        bend = np.where(bend > 1e-9, bend, step * step)
        moved = np.clip(0.5 * (left - right) / bend, -1.0, 1.0)
        return tilt[index] * np.exp(moved * step), middle, np.sqrt(np.maximum(bend, step * step)) / step

    def period(self, epsilon: FloatArray, log_delta: FloatArray, tilt: float, tolerance: float) -> float:
        """Return a period with which hardly anything is added by what lies one or more periods away."""
        wanted = log_delta + tilt * epsilon + math.log(_OF_PERIODS * tolerance)
        sides = []
        for sign, chosen in ((1.0, self._other > tilt), (-1.0, self._other < tilt)):
            if not chosen.any():
                return 2.0 / tilt * float(_PERIODS[-1])
            apart = np.abs(self._other[chosen] - tilt)
            sides.append((apart, self._log_factors[chosen] - np.multiply.outer(sign * epsilon, apart)))
        first, last = 0, _PERIODS.size - 1
        while first < last:
            # Some at a time.
            tried = np.unique(np.linspace(first, last, _LOOKED_AT).astype(np.int64))
            added = np.full((tried.size, epsilon.size), -np.inf)
            for apart, factors in sides:
                turned = np.multiply.outer(2.0 / tilt * _PERIODS[tried], apart)
                less = turned + np.log(-np.expm1(-turned))
                added = np.maximum(added, np.min(factors - less[:, None, :], axis=-1))
            enough = np.append(np.all(added[:-1] <= wanted, axis=1), True)
            found = int(np.argmax(enough))
            first, last = int(tried[found - 1]) + 1 if found else first, int(tried[found])
        return 2.0 / tilt * float(_PERIODS[last])

    def others(self, epsilon: FloatArray, tilt: float, period: float, ratio: float) -> FloatArray:
        """Bound ln Σ e^{τx} δ(x) over x = ε + m period, m not 0, by Chernoff's bound with other tilts."""
        other = self._other
        log_factors = self._log_factors + 0.5 * ratio * ratio * (other + other * other)
        result = np.full(epsilon.size, -np.inf)
        for sign, chosen in ((1.0, other > tilt), (-1.0, other < tilt)):
            if not chosen.any():
                return np.full(epsilon.size, np.inf)
            apart = np.abs(other[chosen] - tilt)
            with np.errstate(divide="ignore"):
                geometric = np.log(-np.expm1(-apart * period))
            reach = np.multiply.outer(sign * epsilon + period, apart)
            result = np.logaddexp(result, np.min(log_factors[chosen] - geometric - reach, axis=-1))
        return (
            result + 1e-9 * (1.0 + np.abs(tilt * epsilon)) + 1e-12 * np.where(np.isfinite(result), np.abs(result), 0.0)
        )

    def at(self, tilt: float, ratio: float, period: float, cut: float = _CUT) -> "SmoothedBounds":
        """Prepare bounds with a tilt τ > 0, a mechanism of ratio s composed in, and a period in nats."""
        return SmoothedBounds(self, exactly(tilt), ratio, period, cut)


class SmoothedBounds:
    """Bounds on δ with one tilt."""

    def __init__(self, side: Smoothed, tilt: float, ratio: float, period: float, cut: float) -> None:
        self._side, self.tilt, self.ratio, self._period = side, tilt, ratio, period
        #: Which part of δ rounding was, at the ε of the last call.
        self.rounding = np.zeros(0)
        powers = side.powers(tilt, ratio, period, cut)
        self._narrow, self._wide = powers.sums(ratio), powers.sums(_WIDER * ratio)
        self._exponents = powers.exponents

    def bounds(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ at some ε from both sides."""
        tilt, ratio = self.tilt, self.ratio
        narrow, narrow_error = self._narrow.at(epsilon)
        wide, wide_error = self._wide.at(epsilon)
        grown = _WIDER * math.exp(-ratio * ratio * (_WIDER**2 - 1.0) / 8.0) * (1.0 - 16.0 * _U)
        # With a larger ratio there is no lower bound.
        known = grown > 1.0
        weight = 1.0 / (grown - 1.0) if known else 0.0
        log_scale = self._narrow.log_scale
        besides = self._side.log_left_out(epsilon, ratio)
        others = self._side.others(epsilon, tilt, self._period, ratio) - log_scale
        moved = log_scale - tilt * epsilon
        slack = self._slack(moved, epsilon)
        above = narrow + narrow_error
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below = (1.0 + weight) * (narrow - narrow_error - np.exp(others))
            # The wider one has another factor in front.
            larger = 0.5 * (_WIDER**2 - 1.0) * ratio * ratio * (tilt + tilt * tilt)
            grown = np.exp(larger) * (1.0 + 16.0 * _U * (1.0 + larger))
            below -= weight * grown * (wide + wide_error) + 16.0 * _U * (1.0 + weight) * np.abs(narrow)
            if known:
                below -= weight * np.exp(self._side.log_left_out(epsilon, _WIDER * ratio) - moved + slack)
            lower = np.where(known & (below > 0.0), moved + np.log(below) - slack, -np.inf)
            upper = self._from_above(above, moved, slack)
            upper = np.where(np.isfinite(besides), np.logaddexp(upper, besides) + 8.0 * _U * np.abs(upper), upper)
            self.rounding = (1.0 + 2.0 * weight) * narrow_error / np.abs(narrow)
        return np.minimum(lower, 0.0), np.minimum(upper, 0.0)

    def log_most(self, epsilon: FloatArray) -> FloatArray:
        """Bound ln δ with the mechanism from above, without what is left out."""
        narrow, error = self._narrow.at(epsilon)
        moved = self._narrow.log_scale - self.tilt * epsilon
        return self._from_above(narrow + error, moved, self._slack(moved, epsilon))

    def _slack(self, moved: FloatArray, epsilon: FloatArray) -> FloatArray:
        """By how much logarithms are off."""
        return np.asarray(16.0 * _U * (np.abs(moved) + self.tilt * np.abs(epsilon) + self._exponents))

    @staticmethod
    def _from_above(above: FloatArray, moved: FloatArray, slack: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(above > 0.0, moved + np.log(above) + slack, 0.0)


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
    def of(rounds: Rounds, top: int, epsilon: float, lines: Lines | None = None) -> "Tilts":
        """Look at as many as matter for up to `epsilon` after `top` rounds, with `lines` that are known already."""
        # Where a record is added steep tilts move no outcome far.
        ratio = max((transform.ratio for transform, forward, _ in rounds.sampled if forward), default=0.0)
        most = max(min(_MOST_TILT, _MOST_SHIFT / ratio if ratio > 0.0 else math.inf), _FIRST_TILT)
        largest = _FIRST_TILT
        while True:
            tilt, last = _steepest(rounds, largest)
            with np.errstate(over="ignore", invalid="ignore"):
                exponent = top * last - epsilon * tilt
            if exponent[-1] > exponent[0] + 40.0 or not math.isfinite(exponent[-1]) or largest >= most:
                break
            largest = min(3.0 * largest, most)
        return Tilts(*_moments(rounds, largest), lines={} if lines is None else lines)

    @property
    def log_largest(self) -> FloatArray:
        """(1 - e^{ε-ℓ})_+ is at most this, exponentiated, times e^{τ(ℓ-ε)}."""
        result: FloatArray = self.tilt * np.log(self.tilt) - (1.0 + self.tilt) * np.log1p(self.tilt)
        return result


def _tilts(largest: float) -> FloatArray:
    result: FloatArray = exactly(np.geomspace(_LEAST_TILT, largest, _TILTS))
    return result


@lru_cache(maxsize=_KEPT)
def _steepest(rounds: Rounds, largest: float) -> tuple[FloatArray, FloatArray]:
    """Return the steepest tilts up to so much, and their moments of a round."""
    tilt = _tilts(largest)[-4:]
    return tilt, rounds.log_moment(tilt)


@lru_cache(maxsize=_KEPT)
def _moments(rounds: Rounds, largest: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return all tilts up to so much, their moments of a round, and upper bounds on these."""
    tilt = _tilts(largest)
    # Apart, as steeper ones take more outcomes.
    moments = np.concatenate([rounds.log_moment(each) for each in np.array_split(tilt, _AT_ONCE)])
    upper = moments + rounds.log_moment_error(tilt)
    for array in (tilt, moments, upper):
        array.setflags(write=False)
    return tilt, moments, upper


def exactly(tilt: Any) -> Any:
    """Round tilts so that no sum 1 + τ is rounded."""
    return (1.0 + tilt) - 1.0
