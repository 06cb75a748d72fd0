r"""Bounds on δ by Fourier inversion of exact transforms, after one more mechanism that tells next to nothing.

A Gaussian mechanism of ratio s (sensitivity / scale) is composed with the rounds: that makes δ larger, and its
transform fall so fast that few frequencies do. Two such mechanisms, of ratios s and c s, bound δ from below by
(1 + α) δ_s - α δ_{cs}, α = 1 / (c e^{-s²(c²-1)/8} - 1). Both bounds are off by about s² times the curvature of δ.
Section 14 of ``docs/pld.md`` proves this, and the errors of sums in place of integrals.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Gaussian, Reversed, SubsampledGaussian
from pbdist.pld.loss_transform import LossTransform, TransformLine
from pbdist.types import ComplexArray, Direction, FloatArray

__all__ = ["Rounds", "Smoothed", "SmoothedBounds", "Tilts", "rounds_of"]

_U = UNIT_ROUNDOFF
#: c.
_WIDER = 1.5
#: What is cut off at high frequencies, nats below the largest term, where nothing else is said.
_CUT = 36.0
#: Tilts that are looked at, the largest, and by how many deviations they may move an outcome.
_TILTS, _LEAST_TILT, _MOST_TILT, _MOST_SHIFT = 161, 1e-3, 2e4, 400.0
#: In so many parts.
_AT_ONCE = 4
#: The first look at tilts goes up to this times the deviation of one event.
_FIRST_TILT = 60.0
#: Periods that are tried, relative to what the tilt tells, the part of the tolerance that the others may take, and how
#: many are looked at together.
_PERIODS, _OF_PERIODS, _LOOKED_AT = np.geomspace(1.0, 3000.0, 60), 1e-3, 9
#: Different pairs of a round, at most, and their largest sensitivity in deviations: beyond, transforms take long.
_MOST_PAIRS, _LARGEST_RATIO = 12, 4.0
#: Next to where rare large losses take over, tilted losses seem to be spread far more than they are.
_STEEP = 30.0
#: Frequencies that are summed together.
_BLOCK = 32
#: Tilts below 0 that are looked at where δ is nearly 1.
_BELOW = -np.linspace(0.0, 1.0, 41)


@dataclass(frozen=True, eq=False)
class Rounds:
    """What a round consists of, seen in one direction.

    Attributes
    ----------
    sampled : tuple of (LossTransform, bool, int)
        Transforms, whether the pair is taken as it is (its loss under the mixture), and how often it occurs.
    variance : float
        Of the losses of all Gaussian mechanisms of a round together.
    """

    sampled: tuple[tuple[LossTransform, bool, int], ...]
    variance: float

    def log_moment(self, tilt: FloatArray) -> FloatArray:
        """Return ln E e^{τ loss} of a round."""
        total = 0.5 * self.variance * (tilt + tilt * tilt)
        for transform, forward, count in self.sampled:
            total = total + count * transform.log_real(1.0 + tilt if forward else -tilt)
        return total

    def log_moment_error(self, tilt: FloatArray) -> FloatArray:
        """Return by how much `log_moment` may be off."""
        counts = sum(count for _, _, count in self.sampled)
        # Of ln χ, as the transforms say.
        variance = self.variance + sum(8.0 * count * transform.ratio**2 for transform, _, count in self.sampled)
        return np.asarray(1e-11 * counts * (2.0 + np.abs(tilt)) + 8.0 * _U * variance * (2.0 + np.abs(tilt)) ** 2)

    def lines(self, tilt: float) -> list[tuple[TransformLine, bool, int]]:
        """Return the transforms on the line that belongs to a tilt."""
        return [
            (transform.line(1.0 + tilt if forward else -tilt), forward, count)
            for transform, forward, count in self.sampled
        ]


def rounds_of(counts: Mapping[ElementaryPair, int], direction: Direction) -> Rounds | None:
    """Return what a round consists of, None where a pair has no transform here."""
    sampled, variance = [], 0.0
    for pair, count in counts.items():
        inner = pair.pair if isinstance(pair, Reversed) else pair
        if isinstance(inner, Gaussian) and inner.truncate is None:
            variance += count * (inner.sensitivity / inner.scale) ** 2
        elif isinstance(inner, SubsampledGaussian) and inner.rate < 1.0:
            transform = LossTransform(inner.sensitivity / inner.scale, inner.rate)
            if transform.ratio > _LARGEST_RATIO:
                return None
            sampled.append((transform, (direction is Direction.A_TO_B) is (inner is pair), count))
        else:
            return None
    if not 1 <= len(sampled) <= _MOST_PAIRS:
        return None
    return Rounds(tuple(sampled), variance)


class Smoothed:
    """δ of some number of rounds in one direction, by the frequencies of tilted losses.

    Parameters
    ----------
    rounds : Rounds
    number : int
        r.
    tilts : Tilts
        They hold the transforms of all tilts that were used, for all numbers of rounds.
    """

    def __init__(self, rounds: Rounds, number: int, tilts: "Tilts") -> None:
        self.rounds, self.number, self._tilts = rounds, number, tilts
        # Chernoff's bounds of all tilts, and that δ is at most 1.
        self._other = np.concatenate(([0.0], tilts.tilt))
        self._log_factors = np.concatenate(([0.0], number * tilts.log_moments_upper + tilts.log_largest))

    def chernoff(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on ln δ: (1 - e^{ε-ℓ})_+ <= c e^{τ(ℓ-ε)}, c = τ^τ / (1+τ)^(1+τ), for any τ > 0."""
        tilts = self._tilts
        exponent = self.number * tilts.log_moments_upper + tilts.log_largest
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
        tilts = self._tilts
        exponent = self._exponent(epsilon)
        own = np.array([np.interp(math.log(tilt), np.log(tilts.tilt), row) for row in exponent])
        return np.asarray(own - np.min(exponent, axis=-1))

    def _exponent(self, epsilon: FloatArray) -> FloatArray:
        tilts = self._tilts
        exponent = self.number * tilts.log_moments - np.log(tilts.tilt * (1.0 + tilts.tilt))
        return np.asarray(exponent - np.multiply.outer(epsilon, tilts.tilt))

    def size(self, tilt: float, ratio: float, period: float, cut: float = _CUT) -> int:
        """Return the number of frequencies above which terms are less than the largest by so many nats."""
        variance = ratio**2 + self.number * self.rounds.variance
        lines, low, high = self.lines_at(tilt), 0.0, math.sqrt(2.0 * cut / variance)
        for _ in range(12):
            middle = 0.5 * (low + high)
            left = sum(self.number * count * line.log_fall(middle) for line, _, count in lines)
            low, high = (low, middle) if left - 0.5 * variance * middle**2 < -cut else (middle, high)
        return math.ceil(high * period / (2.0 * math.pi)) + 2

    def lines_at(self, tilt: float) -> list[tuple[TransformLine, bool, int]]:
        """Return the transforms on the line of a tilt."""
        lines = self._tilts.lines
        if tilt not in lines:
            lines[tilt] = self.rounds.lines(tilt)
        return lines[tilt]

    def gentler(self, tilt: float) -> float:
        """Return the next lower one of the tilts that are looked at, whose transforms may be known already."""
        grid = self._tilts.tilt
        return float(grid[max(int(np.searchsorted(grid, tilt * (1.0 + 1e-12), side="right")) - 1, 0)])

    def saddle(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return at each ε the best tilt, and about ln δ."""
        tilt = self._tilts.tilt
        exponent = self._exponent(epsilon)
        place = np.clip(np.argmin(exponent, axis=-1), 1, tilt.size - 2)
        rows = np.arange(epsilon.size)
        # A parabola in ln τ.
        left, middle, right = (exponent[rows, place + shift] for shift in (-1, 0, 1))
        bend = left - 2.0 * middle + right
        step = math.log(tilt[1] / tilt[0])
        # Between two modes there is none.
        bend = np.where(bend > 1e-9, bend, step * step)
        moved = np.clip(0.5 * (left - right) / bend, -1.0, 1.0)
        best = tilt[place] * np.exp(moved * step)
        deviation = np.sqrt(np.maximum(bend, step * step)) / (step * best)
        log_delta = middle - np.log(math.sqrt(2.0 * math.pi) * np.minimum(deviation, _STEEP / best))
        return best, np.minimum(log_delta, 0.0)

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
            places = np.unique(np.linspace(first, last, _LOOKED_AT).astype(np.int64))
            added = np.full((places.size, epsilon.size), -np.inf)
            for apart, factors in sides:
                turned = np.multiply.outer(2.0 / tilt * _PERIODS[places], apart)
                less = turned + np.log(-np.expm1(-turned))
                added = np.maximum(added, np.min(factors - less[:, None, :], axis=-1))
            enough = np.append(np.all(added[:-1] <= wanted, axis=1), True)
            place = int(np.argmax(enough))
            first, last = int(places[place - 1]) + 1 if place else first, int(places[place])
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
        return SmoothedBounds(self, _exactly(tilt), ratio, period, cut)


class SmoothedBounds:
    """Bounds on δ with one tilt."""

    def __init__(self, side: Smoothed, tilt: float, ratio: float, period: float, cut: float) -> None:
        self._side, self.tilt, self._ratio, self._period = side, tilt, ratio, period
        #: Which part of δ rounding was, for the ε asked for last.
        self.rounding = np.zeros(0)
        powers = _Powers(side, tilt, ratio, period, cut)
        self._narrow, self._wide = powers.sums(ratio), powers.sums(_WIDER * ratio)
        self._exponents = powers.exponents

    def bounds(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound ln δ at some ε from both sides."""
        tilt, ratio = self.tilt, self._ratio
        narrow, narrow_error = self._narrow.at(epsilon)
        wide, wide_error = self._wide.at(epsilon)
        grown = _WIDER * math.exp(-ratio * ratio * (_WIDER**2 - 1.0) / 8.0) * (1.0 - 16.0 * _U)
        # With a larger ratio nothing is known from below.
        known = grown > 1.0
        weight = 1.0 / (grown - 1.0) if known else 0.0
        log_scale = self._narrow.log_scale
        others = self._side.others(epsilon, tilt, self._period, ratio) - log_scale
        moved = log_scale - tilt * epsilon
        slack = 16.0 * _U * (np.abs(moved) + tilt * np.abs(epsilon) + self._exponents)
        above = narrow + narrow_error
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below = (1.0 + weight) * (narrow - narrow_error - np.exp(others))
            # The wider one has another factor in front.
            larger = 0.5 * (_WIDER**2 - 1.0) * ratio * ratio * (tilt + tilt * tilt)
            grown = np.exp(larger) * (1.0 + 16.0 * _U * (1.0 + larger))
            below -= weight * grown * (wide + wide_error) + 16.0 * _U * (1.0 + weight) * np.abs(narrow)
            lower = np.where(known & (below > 0.0), moved + np.log(below) - slack, -np.inf)
            upper = np.where(above > 0.0, moved + np.log(above) + slack, 0.0)
            self.rounding = (1.0 + 2.0 * weight) * narrow_error / np.abs(narrow)
        return np.minimum(lower, 0.0), np.minimum(upper, 0.0)


@dataclass(frozen=True, eq=False)
class Tilts:
    """Tilts that are looked at, with ln E e^{τ loss} of a round, and ln of τ^τ / (1+τ)^(1+τ)."""

    tilt: FloatArray
    log_moments: FloatArray
    log_moments_upper: FloatArray
    lines: dict[float, list[tuple[TransformLine, bool, int]]] = field(default_factory=dict)

    @staticmethod
    def of(rounds: Rounds, top: int, epsilon: float) -> "Tilts":
        """Look at as many as matter for up to `epsilon` after `top` rounds."""
        ratio = max(transform.ratio for transform, _, _ in rounds.sampled)
        most = max(min(_MOST_TILT, _MOST_SHIFT / ratio), _FIRST_TILT)
        largest = _FIRST_TILT
        while True:
            tilt = _exactly(np.geomspace(_LEAST_TILT, largest, _TILTS))
            with np.errstate(over="ignore", invalid="ignore"):
                exponent = top * rounds.log_moment(tilt[-4:]) - epsilon * tilt[-4:]
            if exponent[-1] > exponent[0] + 40.0 or not math.isfinite(exponent[-1]) or largest >= most:
                break
            largest = min(3.0 * largest, most)
        # Apart, as steeper ones take more outcomes.
        moments = np.concatenate([rounds.log_moment(each) for each in np.array_split(tilt, _AT_ONCE)])
        return Tilts(tilt, moments, moments + rounds.log_moment_error(tilt))

    @property
    def log_largest(self) -> FloatArray:
        """(1 - e^{ε-ℓ})_+ is at most this, exponentiated, times e^{τ(ℓ-ε)}."""
        result: FloatArray = self.tilt * np.log(self.tilt) - (1.0 + self.tilt) * np.log1p(self.tilt)
        return result


class _Powers:
    """Powers of transforms at all frequencies, but for Gaussian mechanisms, relative to e^{log_scale}."""

    def __init__(self, side: Smoothed, tilt: float, ratio: float, period: float, cut: float) -> None:
        number, lines = side.number, side.lines_at(tilt)
        self._tilt, self._spacing = tilt, 2.0 * math.pi / period
        self._variance = number * side.rounds.variance
        size = side.size(tilt, ratio, period, cut)
        self._t = self._spacing * np.arange(size)
        self._exponent: ComplexArray = np.zeros(size, dtype=np.complex128)
        self._doubt, self._log_scale, self.exponents = np.zeros(size), 0.0, 0.0
        for line, forward, count in lines:
            power = float(number * count)
            logarithm, doubt = line.logarithms(self._spacing, size)
            logarithm = logarithm + 1j * (line.smallest_loss * self._t)
            self._exponent += power * (logarithm if forward else np.conj(logarithm))
            # |Π (a + e) - Π a| <= Π (|a| + |e|) - Π |a|
            self._doubt += power * (doubt + 8.0 * _U * abs(line.smallest_loss) * self._t)
            self._log_scale += power * line.log_scale
            self.exponents += power * line.log_scale_size
        # No power is larger than that at t = 0.
        largest = float(self._exponent[0].real)
        self._exponent -= largest
        self._log_scale += largest
        self.exponents += abs(largest)
        # What lies beyond all frequencies.
        last = float(self._t[-1])
        self._log_beyond = -largest + sum(number * count * line.log_largest(last) for line, _, count in lines)

    def sums(self, ratio: float) -> "_Sums":
        """Sums over all frequencies, with a mechanism of ratio s composed in."""
        tilt, t, spacing = self._tilt, self._t, self._spacing
        variance = ratio * ratio + self._variance
        turn = (0.5 * variance * (1.0 + 2.0 * tilt)) * t
        exponent = self._exponent + 1j * turn - 0.5 * variance * t * t
        point = tilt + 1j * t
        kernel = point * (point + 1.0)
        terms = np.exp(exponent) / kernel
        sizes = np.abs(terms)
        doubt = self._doubt + 8.0 * _U * (8.0 + np.abs(exponent) + turn)
        with np.errstate(over="ignore", under="ignore"):
            certain = sizes * np.expm1(np.minimum(doubt, 1.0))
            off = np.where(doubt < 1.0, certain, np.exp(exponent.real + doubt) / np.abs(kernel))
        # Of t -> -t are the conjugates.
        terms[0] *= 0.5
        last = float(t[-1])
        # Σ over t > T of e^{-v t²/2} / t², by the integral.
        beyond = math.exp(min(max(self._log_beyond - 0.5 * variance * last * last, -700.0), 700.0))
        beyond *= 2.02 / (spacing * last) / max(1.0, variance * last * last)
        return _Sums(
            self._log_scale + 0.5 * variance * (tilt + tilt * tilt),
            spacing,
            terms,
            2.02 * float(off.sum()) + beyond,
            (float(sizes.sum()), float(np.sum(sizes * t))),
        )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Σ of terms e^{-itε} over all frequencies, of both signs, per period; relative to e^{log_scale}."""

    log_scale: float
    spacing: float
    terms: ComplexArray
    error: float
    moments: tuple[float, float]

    def at(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums at some ε, and what they are off by."""
        # e^{-i t ε} = e^{-i t' ε} e^{-i t'' ε}, t' a multiple of so many spacings.
        blocks = -(-self.terms.size // _BLOCK)
        padded = np.zeros(blocks * _BLOCK, dtype=np.complex128)
        padded[: self.terms.size] = self.terms
        near, far = (
            np.exp(-1j * np.multiply.outer(self.spacing * places, epsilon))
            for places in (np.arange(_BLOCK), _BLOCK * np.arange(blocks))
        )
        # Not by a library whose sums may depend on the number of its threads; the outer sum by pairs.
        inner = np.einsum("fn,ne->fe", padded.reshape(blocks, _BLOCK), near)
        value = 2.0 * np.sum(np.ascontiguousarray((inner * far).real.T), axis=1)
        total, first = self.moments
        error = self.error + _U * ((4.0 * _BLOCK + 64.0) * total + 16.0 * np.abs(epsilon) * first)
        period = 2.0 * math.pi / self.spacing
        return value / period, 1.01 * error / period


def _exactly(tilt: Any) -> Any:
    """Round tilts so that no sum 1 + τ is rounded."""
    return (1.0 + tilt) - 1.0
