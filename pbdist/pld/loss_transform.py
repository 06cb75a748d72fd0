r"""The transform of a sampled Gaussian's losses, χ(w) = E_B e^{w loss}: its rule of summation, and real moments.

With noise of deviation 1, y its outcome, and shifts of 0 < μ_1 < .. < μ_K deviations, of weights q_0, q_1, .., q_K, the
likelihood ratio A / B is C = q_0 + Σ q_k e^{V_k}, V_k = μ_k y - μ_k²/2: of a subsampled Gaussian 1 - q + q e^V. With
X = ln(C / q_0) >= 0, the excess of a loss over the smallest one,

    χ(w) = q_0^w (1 + G(w)),   G(w) = ∫ (e^{wX} - 1) e^{-y²/2} dy / √(2π),

where G is as small as sampling is rare, so that powers of 1 + G are known well. It is summed by the trapezoidal rule
(section 13 of ``docs/pld.md``), on the real line here and on lines y + ia in `transform_line`. A `SoftCut` parts large
losses from usual ones (section 15). `Rounds` are all pairs of a round in one direction.
"""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, wofz

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Gaussian, GaussianMixture, Reversed, SubsampledGaussian
from pbdist.types import Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Outcomes that are summed beyond all modes, deviations.
REACH = 10.0
#: Largest Im V on any strip, and on one where no loss is below the smallest one; and the largest Im y.
_WIDEST_ANGLE, _ACUTE_ANGLE, _WIDEST_STRIP = 2.7, 1.5, 3.0
#: Nats by which the error of a trapezoidal rule lies below what is summed, and what steep tilts may add on the strip.
_QUADRATURE, _STEEP = 42.0, 8.0
#: Where E = C / q_0 - 1 exceeds e to this, it is C / q_0 but for a small part.
_LARGE = 30.0
#: Largest Im y of a soft cut's strip, relative to b.
_STRIP = 4.0
#: Error of w(z) = e^{-z²} erfc(-iz): 10^-13 is documented (Johnson, Faddeeva package).
_ERROR = 2e-13
#: Nats below its largest term at which a part's sum ends.
_FALLEN = 60.0
#: Different pairs of a round, at most; their largest shift in deviations, where there is one and usually, and where
#: there are several: beyond, transforms take long.
_MOST_PAIRS, _LARGEST_RATIO, _LARGEST_OF_SEVERAL = 4096, 4.0, 40.0
#: Terms of one sum, at most, and terms times exponents that are summed at once. Without the steepest tilts bounds are
#: wider at most.
_MOST_TERMS, _MOST_AT_ONCE = 4e5, 4e6
#: Steps of Newton's method, at most.
_STEPS = 60


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
        size_z = np.abs(z)
        # An outcome is off by a rounding of its own, and ln Φ moves by |z| + 1 times what z does.
        error = _ERROR + 8.0 * _U * size_z**2 + 2.0 * _U * np.abs(y) * (1.0 + size_z) / self.blur
        tail = np.exp(np.minimum(log_tail.real, 0.5 * height * height + 1.0) + 1j * log_tail.imag)
        rest = np.where(below, 1.0, 1.0 - tail)
        size = np.maximum(np.abs(rest), 1e-300)
        result = np.where(below, log_tail, np.log(np.where(size > 1e-300, rest, 1e-300)))
        return result.real, result.imag, np.where(below, error, (np.abs(tail) * error + 4.0 * _U) / size)


@dataclass(frozen=True)
class LossTransform:
    """χ of one pair."""

    #: μ_1, .., μ_K: shifts / scale, increasing, above 0.
    ratios: tuple[float, ...]
    #: ln q_1, .., ln q_K.
    log_weights: tuple[float, ...]
    #: ln q_0, nats.
    smallest_loss: float

    @staticmethod
    def subsampled(ratio: float, rate: float) -> "LossTransform":
        """Return that of a sampling probability q, above 0 and below 1, and a shift μ above 0."""
        return LossTransform((ratio,), (math.log(rate),), math.log1p(-rate))

    @property
    def ratio(self) -> float:
        """The largest μ."""
        return self.ratios[-1]

    @property
    def usual_ratio(self) -> float:
        """The mean μ_k of outcomes that show a shift; of one shift μ itself."""
        if len(self.ratios) == 1:
            return self.ratio
        shares = np.exp(np.array(self.log_weights) - max(self.log_weights))
        return float(shares @ np.array(self.ratios)) / float(shares.sum())

    def log_real(self, exponents: FloatArray, part: SoftCut | None = None) -> FloatArray:
        r"""Return ln χ at some real exponents, to 10^-11 (1 + \|w\|) and 64u (μ w)².

        Of a part, with exponents of at least 1, what it has of χ. Infinite, so not below ln χ, where the
        sum would have too many terms.
        """
        step, low, high = self.rule(exponents, shifted=False, part=part)
        terms = (high - low) / step
        if exponents.size > 1 and terms * exponents.size > _MOST_AT_ONCE:
            return np.concatenate([self.log_real(each, part) for each in np.split(exponents, exponents.size)])
        if terms > _MOST_TERMS:
            return np.full(exponents.shape, np.inf)
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
        # Σ q_k e^{V_k} = e^loss - q_0.
        wanted = loss + math.log(-math.expm1(self.smallest_loss - loss))
        ratios, odds = np.array(self.ratios), np.array(self.log_weights)
        # No single shift has more; from there on Newton's steps come down.
        y = float(np.min((wanted - odds) / ratios + 0.5 * ratios))
        if ratios.size == 1:
            return y
        for _ in range(_STEPS):
            terms = odds + ratios * (y - 0.5 * ratios)
            top = float(terms.max())
            parts = np.exp(terms - top)
            step = (top + math.log(float(parts.sum())) - wanted) * float(parts.sum()) / float(ratios @ parts)
            y -= step
            if step < 1e-9:
                break
        return y

    def excess(self, y: FloatArray, above: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return real and imaginary part of X at y + i `above`, and a bound on its error; no angle exceeds π/2."""
        real, angle, error = self._log_odds(y, above)
        large = real > _LARGE
        # ln(1 + E) for E = e^{real + i angle}, and real + i angle + ln(1 + 1 / E) where E is large.
        size = np.exp(np.where(large, -real, real))
        cosine, sine = np.cos(angle), np.sin(angle)
        modulus = 0.5 * np.log1p(size * (2.0 * cosine + size))
        turn = np.arctan2(size * sine, 1.0 + size * cosine)
        part = np.where(large, 1.0, size / np.hypot(1.0 + size * cosine, size * sine))
        excess, turned = np.where(large, real + modulus, modulus), np.where(large, angle - turn, turn)
        return excess, turned, _U * (part * error + 8.0 * (excess + turned))

    def _log_odds(self, y: FloatArray, above: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return real and imaginary part of ln E, E = C / q_0 - 1, and a bound on its error, in u."""
        real, angle, off = self._odds_of(0, y, above)
        if len(self.ratios) == 1:
            return real, np.asarray(angle), off
        highest = real
        for place in range(1, len(self.ratios)):
            highest = np.maximum(highest, self._odds_of(place, y, above)[0])
        total = np.zeros(y.size, dtype=np.complex128)
        errors = np.zeros(y.size)
        for place in range(len(self.ratios)):
            real, angle, off = self._odds_of(place, y, above)
            term = np.exp(real - highest + 1j * angle)
            total += term
            errors += np.abs(term) * off
        size = np.abs(total)
        # Logarithms of weights, and of q_0, of which the difference may be next to none; and the sum.
        besides = 16.0 * abs(self.smallest_loss) + 2.0 * len(self.ratios) + 8.0
        return highest + np.log(size), np.angle(total), errors / size + besides

    def _odds_of(self, place: int, y: FloatArray, above: float) -> tuple[FloatArray, float, FloatArray]:
        """Return ln of q_k e^{V_k} / q_0 at y + i `above`, real and imaginary, and a bound on its error, in u."""
        ratio, odds = self.ratios[place], self.log_weights[place] - self.smallest_loss
        real = (ratio * y - 0.5 * ratio * ratio) + odds
        angle = ratio * above
        return real, angle, 8.0 * (np.abs(real) + abs(odds) + ratio * (ratio + np.abs(y)) + angle) + 16.0

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
        angle = _WIDEST_ANGLE
        if least < 0.0:
            angle = min(angle, math.sqrt(6.0 * _STEEP / -least))
            if least * self.smallest_loss <= _STEEP:
                angle = max(angle, _ACUTE_ANGLE)
        return min(_WIDEST_STRIP if part is None else part.strip, angle / self.ratio)

    def log_growth(self, exponent: float, strip: float) -> float:
        r"""Bound ln of the integral of \|e^{wX}\| e^{-(Re y)²/2} on lines of a strip, relative to the real line."""
        if exponent >= 0.0:
            return 0.0
        angle = self.ratio * strip
        growth = exponent * math.log(math.cos(0.5 * angle))
        # Where no angle exceeds π/2, |C| is at least q_0; and χ(ρ) is at least 1, as E_B C is.
        return growth if angle > 0.5 * math.pi else min(growth, exponent * self.smallest_loss)

    def lowest_mode(self, exponent: float) -> float:
        """Return an outcome with no mode of C^ρ e^{-y²/2} below it."""
        if exponent >= 0.0:
            return 0.0
        # -y = |ρ| Σ μ_k p_k(y), of which the left side falls and the right one rises.
        low, high = exponent * self.ratio, 0.0
        for _ in range(20):
            middle = 0.5 * (low + high)
            if -middle > -exponent * self.slope_below(middle):
                low = middle
            else:
                high = middle
        return low

    def slope_below(self, y: float) -> float:
        """Bound Σ μ_k Re p_k, p_k = q_k e^{V_k} / C, at all outcomes up to y + ia, whose angles are at most π/2."""
        # As `_odds_of` has them.
        odds = [
            (ratio * y - 0.5 * ratio * ratio) + (log_weight - self.smallest_loss)
            for ratio, log_weight in zip(self.ratios, self.log_weights, strict=True)
        ]
        if max(odds) > 0.0:
            return self.ratio
        if len(odds) == 1:
            return self.ratio / (1.0 + math.exp(-odds[0])) if odds[0] > -700.0 else 0.0
        return min(math.fsum(map(operator.mul, self.ratios, map(math.exp, odds))), self.ratio)


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
    sampled, variances = [], []
    for pair, count in counts.items():
        inner = pair.pair if isinstance(pair, Reversed) else pair
        if isinstance(inner, Gaussian) and inner.truncate is None:
            variances.append(count * (inner.sensitivity / inner.scale) ** 2)
        elif (transform := _transform_of(inner)) is not None:
            sampled.append((transform, (direction is Direction.A_TO_B) is (inner is pair), count))
        else:
            return None
    if not 1 <= len(sampled) <= _MOST_PAIRS:
        return None
    return Rounds(tuple(sampled), math.fsum(variances))


def _transform_of(pair: ElementaryPair) -> LossTransform | None:
    if isinstance(pair, SubsampledGaussian) and pair.rate < 1.0:
        found = LossTransform.subsampled(pair.sensitivity / pair.scale, pair.rate)
    elif isinstance(pair, GaussianMixture) and pair.shifts[0] == 0.0:
        ratios = tuple(shift / pair.scale for shift in pair.shifts[1:])
        found = LossTransform(ratios, pair.log_weights[1:], pair.smallest_loss)
    else:
        return None
    return found if found.usual_ratio <= _LARGEST_RATIO and found.ratio <= _LARGEST_OF_SEVERAL else None
