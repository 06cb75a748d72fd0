r"""The transform of a subsampled Gaussian's losses, χ(w) = E_B e^{w loss}: its rule of summation, and real moments.

With noise of deviation 1, y its outcome, and μ the sensitivity in deviations, the likelihood ratio A / B is
C = 1 - q + q e^V, V = μ y - μ²/2. With X = ln(C / (1-q)) >= 0, the excess of a loss over the smallest one,

    χ(w) = (1-q)^w (1 + G(w)),   G(w) = ∫ (e^{wX} - 1) e^{-y²/2} dy / √(2π),

where G is as small as sampling is rare, so that powers of 1 + G are known well. It is summed by the trapezoidal rule
(section 13 of ``docs/pld.md``), on the real line here and on lines y + ia in `transform_line`. A `SoftCut` parts large
losses from usual ones (section 15). `Rounds` are all pairs of a round in one direction.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, wofz

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Gaussian, Reversed, SubsampledGaussian
from pbdist.types import Direction, FloatArray

__all__ = ["REACH", "LossTransform", "Rounds", "SoftCut", "rounds_of"]

_U = UNIT_ROUNDOFF
#: Outcomes that are summed beyond all modes, deviations.
REACH = 10.0
#: Largest Im V on any line, and the largest Im y.
_WIDEST_ANGLE, _WIDEST_STRIP = 2.7, 3.0
#: Nats by which the error of a trapezoidal rule lies below what is summed, and what steep tilts may add on the strip.
_QUADRATURE, _STEEP = 42.0, 8.0
#: Where q e^V / (1-q) exceeds e to this, it is C / (1-q) but for a small part.
_LARGE = 30.0
#: Largest Im y of a soft cut's strip, relative to b.
_STRIP = 4.0
#: Error of w(z) = e^{-z²} erfc(-iz): 10^-13 is documented (Johnson, Faddeeva package).
_ERROR = 2e-13
#: Nats below its largest term at which a part's sum ends.
_FALLEN = 60.0
#: Different pairs of a round, at most, and their largest sensitivity in deviations: beyond, transforms take long.
_MOST_PAIRS, _LARGEST_RATIO = 4096, 4.0


@dataclass(frozen=True)
class SoftCut:
    """One of the two parts."""

    #: c, in deviations of the noise; from 0 to 60.
    outcome: float
    #: b, at most 1/2.
    blur: float
    #: Whether it is the part of large losses.
    large: bool

    @property
    def strip(self) -> float:
        """Largest Im y of the strip that is used."""
        return _STRIP * self.blur

    def range(self, low: float, mode: float, reach: float) -> tuple[float, float]:
        """Return which outcomes matter: those from `low` on, up to some `reach` above the mode without a cut."""
        if self.large:
            return self.outcome - self.blur * math.sqrt(self.outcome**2 + 2.0 * _FALLEN), max(
                mode, self.outcome
            ) + reach
        return low, self._mode(mode) + math.sqrt(2.0 * _FALLEN / self._sharpness)

    @property
    def _sharpness(self) -> float:
        return 1.0 + 1.0 / self.blur**2

    def _mode(self, shift: float) -> float:
        """Return an outcome m from which on ln of (1 - S) e^{wX - y²/2} falls by at least (1 + 1/b²)(y - m) for each y.

        For -(ln Φ(-z))' >= z, and wX rises by at most `shift` for each y.
        """
        return max((self.outcome / self.blur**2 + shift) / self._sharpness, self.outcome)

    def log_growth(self, above: float) -> float:
        """By how much the logarithm of the part's modulus may be larger at y + i `above` than at y."""
        return 0.5 * (above / self.blur) ** 2

    def log_real(self, y: FloatArray) -> FloatArray:
        """Return ln of the part at real outcomes."""
        away = (y - self.outcome) / self.blur
        return np.asarray(log_ndtr(away if self.large else -away))

    def log_below(self, y: float, above: float) -> float:
        r"""Bound ln of the sum of h \|S e^{-z²/2}\| / √(2π), z = y' + i `above`, over all outcomes y' < y of a rule."""
        part = float(self.log_real(np.array([y]))[0]) if self.large else float(log_ndtr(y))
        # The sum over all outcomes of the normal density is at most 1 + h; below, that over lower ones.
        return part + self.log_growth(above) + 0.5 * above * above + 1.0

    def log_beyond(self, y: float, above: float, shift: float, step: float) -> float:
        r"""Bound ln of the sum of h \|S e^{wX(z) - z²/2}\| / √(2π) over all outcomes above y, relative to e^{wX(y)}.

        `shift` is the most that wX rises for each y.
        """
        own = float(self.log_real(np.array([y]))[0]) + self.log_growth(above) + 0.5 * (above * above - y * y)
        slope = y - shift if self.large else self._sharpness * (y - self._mode(shift))
        if self.large:
            # It rises to 1.
            own -= float(self.log_real(np.array([y]))[0])
        return own - math.log(-math.expm1(-step * slope)) + math.log(step) if slope > 0.0 else math.inf

    def at(self, y: FloatArray, above: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        r"""Return ln of the modulus, the phase, and a bound on the relative error, at y + i `above`."""
        away, height = (y - self.outcome) / self.blur, above / self.blur
        if not self.large:
            away, height = -away, -height
        # Φ(-z) = e^{-z²/2} w(iz / √2) / 2 for Re z >= 0.
        below = away < 0.0
        z = np.where(below, -away, away) + 1j * np.where(below, -height, height)
        log_tail = np.log(0.5 * wofz(1j * z / math.sqrt(2.0))) - 0.5 * z * z
        error = _ERROR + 8.0 * _U * np.abs(z) ** 2
        tail = np.exp(np.minimum(log_tail.real, 0.5 * height * height + 1.0) + 1j * log_tail.imag)
        rest = np.where(below, 1.0, 1.0 - tail)
        size = np.maximum(np.abs(rest), 1e-300)
        result = np.where(below, log_tail, np.log(np.where(size > 1e-300, rest, 1e-300)))
        return result.real, result.imag, np.where(below, error, (np.abs(tail) * error + 4.0 * _U) / size)


@dataclass(frozen=True)
class LossTransform:
    """χ of one pair."""

    #: μ: sensitivity / scale, above 0.
    ratio: float
    #: q, above 0 and below 1.
    rate: float

    @property
    def smallest_loss(self) -> float:
        """ln(1 - q), nats."""
        return math.log1p(-self.rate)

    def log_real(self, exponents: FloatArray, part: SoftCut | None = None) -> FloatArray:
        r"""Return ln χ at some real exponents, to 10^-11 (1 + \|w\|) and 64u (μ w)².

        Of a part, with exponents of at least 1, what it has of χ.
        """
        step, low, high = self.rule(exponents, shifted=False, part=part)
        y: FloatArray = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1).astype(np.float64)
        excess, _, _ = self.excess(y, 0.0)
        exponent = np.multiply.outer(exponents, excess) - 0.5 * y * y
        if part is not None:
            exponent = exponent + part.log_real(y)
        most = exponent.max(axis=-1)
        total = np.exp(exponent - most[..., None]).sum(axis=-1)
        result: FloatArray = most + np.log(total * (step / math.sqrt(2.0 * math.pi))) + exponents * self.smallest_loss
        return result

    def outcome(self, loss: float) -> float:
        """Return the outcome of a loss above the smallest one, about."""
        odds = loss + math.log(self.rate * math.exp(-loss) - math.expm1(-loss)) - math.log(self.rate)
        return odds / self.ratio + 0.5 * self.ratio

    def excess(self, y: FloatArray, above: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return real and imaginary part of X at y + i `above`, and a bound on its error; no angle exceeds π/2."""
        odds = math.log(self.rate) - self.smallest_loss
        real = (self.ratio * y - 0.5 * self.ratio * self.ratio) + odds
        angle = self.ratio * above
        large = real > _LARGE
        # ln(1 + E) for E = e^{real + i angle}, and real + i angle + ln(1 + 1 / E) where E is large.
        size = np.exp(np.where(large, -real, real))
        cosine, sine = math.cos(angle), math.sin(angle)
        modulus = 0.5 * np.log1p(size * (2.0 * cosine + size))
        turn = np.arctan2(size * sine, 1.0 + size * cosine)
        part = np.where(large, 1.0, size / np.hypot(1.0 + size * cosine, size * sine))
        excess, turned = np.where(large, real + modulus, modulus), np.where(large, angle - turn, turn)
        off = 8.0 * (np.abs(real) + abs(odds) + self.ratio * (self.ratio + np.abs(y)) + angle) + 16.0
        return excess, turned, _U * (part * off + 8.0 * (excess + turned))

    def rule(self, exponents: FloatArray, *, shifted: bool, part: SoftCut | None = None) -> tuple[float, float, float]:
        """Return the step of a trapezoidal rule that serves all exponents, and where to begin and to end."""
        least = float(exponents.min())
        strip = self.strip(least, part)
        half = 0.5 * strip if shifted else strip
        grown = 0.0 if part is None else part.log_growth(strip)
        step = 2.0 * math.pi * half / (_QUADRATURE + 0.5 * strip * strip + grown + _STEEP)
        low, high = self.lowest_mode(least) - REACH, max(float(exponents.max()), 0.0) * self.ratio
        if part is None:
            return step, low, high + REACH
        return (step, *part.range(low, high, REACH))

    def strip(self, least: float, part: SoftCut | None = None) -> float:
        """Largest Im y of the strip that is used, for exponents of at least `least`."""
        angle = _WIDEST_ANGLE if least >= 0.0 else min(_WIDEST_ANGLE, math.sqrt(6.0 * _STEEP / -least))
        return min(_WIDEST_STRIP if part is None else part.strip, angle / self.ratio)

    def lowest_mode(self, exponent: float) -> float:
        """Return an outcome with no mode of C^ρ e^{-y²/2} below it."""
        if exponent >= 0.0:
            return 0.0
        # -y = |ρ| μ p(y), of which the left side falls and the right one rises.
        low, high = exponent * self.ratio, 0.0
        for _ in range(20):
            middle = 0.5 * (low + high)
            if -middle > -exponent * self.ratio * self.sampled(middle):
                low = middle
            else:
                high = middle
        return low

    def sampled(self, y: float) -> float:
        """Return with what probability q e^V / C the record was sampled, at a real outcome."""
        odds = self.ratio * y - 0.5 * self.ratio * self.ratio + math.log(self.rate) - self.smallest_loss
        return 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0


@dataclass(frozen=True)
class Rounds:
    """What a round consists of, seen in one direction."""

    #: Transforms, whether the pair is taken as it is (its loss under the mixture), and how often it occurs.
    sampled: tuple[tuple[LossTransform, bool, int], ...]
    #: Of the losses of all Gaussian mechanisms of a round together.
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
