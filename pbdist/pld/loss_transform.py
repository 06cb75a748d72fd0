"""The transform of a sampled Gaussian's losses, χ(w) = E_B e^{w loss}: its rule of summation, and real moments.

With noise of deviation 1, y its outcome, and shifts of 0 < μ_1 < .. < μ_K deviations, of weights q_0, q_1, .., q_K, the
likelihood ratio A / B is C = q_0 + Σ q_k e^{V_k}, V_k = μ_k y - μ_k²/2: of a subsampled Gaussian 1 - q + q e^V. With
X = ln(C / q_0) >= 0, the excess of a loss over the smallest one,

    χ(w) = q_0^w (1 + G(w)),   G(w) = ∫ (e^{wX} - 1) e^{-y²/2} dy / √(2π),

where G is as small as sampling is rare. It is summed by the trapezoidal rule (section 13 of ``docs/pld.md``), on the
real line here and on lines y + ia in `transform_line`. A `SoftCut` parts large losses from usual ones (section 15).
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.special import log_ndtr, wofz

from pbdist.mechanisms import UNIT_ROUNDOFF, PairCounts
from pbdist.types import BoolArray, ComplexArray, Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Outcomes that are summed beyond all modes, deviations.
REACH = 10.0
#: Largest Im V on any strip, and on one where no loss is below the smallest one; and the largest Im y.
_WIDEST_ANGLE, _ACUTE_ANGLE, _WIDEST_STRIP = 2.7, 1.5, 3.0
#: Nats by which the error of a trapezoidal rule lies below what is summed, and what steep tilts may add on the strip.
_QUADRATURE, _STEEP = 42.0, 8.0
#: Of real moments, which need be known to 10^-11 only: outcomes beyond all modes, and nats.
_REAL_REACH, _REAL_QUADRATURE = 8.0, 30.0
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
_MAX_PAIRS, _LARGEST_RATIO, _LARGEST_OF_SEVERAL = 4096, 4.0, 40.0
#: Terms of one sum, at most, and terms times exponents that are summed at once. Without the steepest tilts bounds are
#: wider at most.
_MAX_TERMS, _MAX_AT_ONCE = 4e5, 4e6
#: Steps of Newton's method, at most; and how far below the lowest mode a sum may begin in vain, deviations.
_STEPS, _MODE_STEP = 60, 0.25


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
        if exponents.size > 1 and terms * exponents.size > _MAX_AT_ONCE:
            return np.concatenate([self.log_real(each, part) for each in np.split(exponents, exponents.size)])
        if terms > _MAX_TERMS:
            return np.full(exponents.shape, np.inf)
        y: FloatArray = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1).astype(np.float64)
        exponent = np.multiply.outer(exponents, self.real_excess(y)) - 0.5 * y * y
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
        if len(self.ratios) == 1:
            return (wanted - self.log_weights[0]) / self.ratio + 0.5 * self.ratio
        ratios, odds = np.array(self.ratios), np.array(self.log_weights)
        # No single shift has more; from there on Newton's steps come down.
        y = float(np.min((wanted - odds) / ratios + 0.5 * ratios))
        for _ in range(_STEPS):
            terms = odds + ratios * (y - 0.5 * ratios)
            top = float(terms.max())
            parts = np.exp(terms - top)
            step = (top + math.log(float(parts.sum())) - wanted) * float(parts.sum()) / float(ratios @ parts)
            y -= step
            if step < 1e-9:
                break
        return y

    def outcomes(self, losses: FloatArray) -> FloatArray:
        """Return the outcomes of losses above the smallest one, about."""
        if len(self.ratios) > 1:
            return np.array([self.outcome(each) for each in losses.tolist()])
        wanted = losses + np.log(-np.expm1(self.smallest_loss - losses))
        return np.asarray((wanted - self.log_weights[0]) / self.ratio + 0.5 * self.ratio)

    def real_excess(self, y: FloatArray) -> FloatArray:
        """Return X at real outcomes: ln(1 + E)."""
        if len(self.ratios) > 1:
            return self.excess(y.ravel(), 0.0)[0].reshape(y.shape)
        log_odds = self.ratio * y + (self.log_weights[0] - self.smallest_loss - 0.5 * self.ratio * self.ratio)
        return np.asarray(np.logaddexp(0.0, log_odds))

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
        half, reach, nats = (0.5 * strip, REACH, _QUADRATURE) if shifted else (strip, _REAL_REACH, _REAL_QUADRATURE)
        grown = 0.0 if part is None else part.log_growth(strip)
        step = 2.0 * math.pi * half / (nats + 0.5 * strip * strip + grown + _STEEP)
        low, high = self.lowest_mode(least) - reach, max(float(exponents.max()), 0.0) * self.ratio
        if part is None:
            return step, low, high + reach
        return (step, *part.range(low, high, reach))

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
        while high - low > _MODE_STEP:
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

    @cached_property
    def largest_loss(self) -> float:
        """No loss of a round is larger: where all are below -ln q_0, as those of B||A (section 13), nats."""
        if self.variance > 0.0 or any(forward for _, forward, _ in self.sampled):
            return math.inf
        return -math.fsum(count * transform.smallest_loss for transform, _, count in self.sampled) * (1.0 + 1e-12)

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


def rounds_of(counts: PairCounts, direction: Direction) -> Rounds | None:
    """Return what a round consists of, None where a pair has no transform here."""
    sampled, variances = [], []
    for pair, count in counts.items():
        inner, its = pair.facing(direction)
        if inner.gaussian_ratio is not None:
            variances.append(count * inner.gaussian_ratio**2)
            continue
        transform = None if inner.gaussian_mixture is None else LossTransform(*inner.gaussian_mixture)
        if transform is None or transform.usual_ratio > _LARGEST_RATIO or transform.ratio > _LARGEST_OF_SEVERAL:
            return None
        sampled.append((transform, its is Direction.A_TO_B, count))
    if not 1 <= len(sampled) <= _MAX_PAIRS:
        return None
    return Rounds(tuple(sampled), math.fsum(variances))


#: Terms that are left out, relative to the largest.
_LEFT_OUT = 1e-20
#: Frequencies that are summed first together, and terms times the root of their number, at most.
_FIRST_BLOCK, _MAX_BLOCK = 512, 1 << 22
#: Terms that are summed one after the other, before such sums are.
_SUMMED = 32
#: Terms e^{wX} below e to this are left out.
_FALLEN_PART = -54.0
#: No frequency exceeds this.
_LARGEST_FREQUENCY = 1e8
#: Error of `LossTransform.log_real`, times 1 + |w|.
_REAL_ERROR = 1e-11


class TransformLine:
    """χ(ρ + it) for t >= 0 on one line Re w = ρ, relative to e^{log_scale}, of all losses or of a `part` of them.

    Of a part ρ is at least 1. The phase t ln(1 - q) is left out.
    """

    def __init__(self, transform: LossTransform, exponent: float, part: SoftCut | None = None) -> None:
        self._exponent = exponent
        step, low, high = transform.rule(np.array([exponent]), shifted=True, part=part)
        strip = transform.strip(exponent, part)
        above = 0.5 * strip
        y: FloatArray = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1).astype(np.float64)
        excess, turn, error = transform.excess(y, above)
        least = exponent * transform.smallest_loss
        point = np.array([exponent])
        whole = float(transform.log_real(point, part)[0]) - least
        #: Whether all of 1 + G is summed, relative to its value at t = 0, instead of G alone, where that is small.
        self._direct = abs(whole) > 1.0 or part is not None
        self._scale = whole if self._direct else 0.0
        self.log_scale = least + self._scale
        #: Of the parts of `log_scale`, whose rounding it has.
        self.log_scale_size = abs(least) + abs(self._scale)
        #: ln(1 - q), by which the phase turns.
        self.smallest_loss = transform.smallest_loss
        rounded = _REAL_ERROR * (1.0 + abs(exponent)) + 64.0 * _U * (transform.ratio * exponent) ** 2
        self._log_largest = whole - self._scale + rounded
        log_normal = 0.5 * (above * above - y * y) + math.log(step / math.sqrt(2.0 * math.pi))
        phase, real = -above * y, exponent * excess
        # Of the masses, and their phases; of a product and what is added besides, of sums of 32, and of such sums.
        summed = 128.0 + y.size / _SUMMED
        off = _U * (3.0 * (y**2 + above**2 + np.abs(above * y)) + 4.0 * abs(self._scale) + summed)
        if part is not None:
            log_part, turned, doubt = part.at(y, above)
            log_normal, phase, off = log_normal + log_part, phase + turned, off + doubt
        move = error + 8.0 * _U * (excess + turn)
        # Rounded up.
        self._every_turn = turn
        self._weight = np.exp(log_normal + real - self._scale) * (1.0 + 2.0 * (off + abs(exponent) * move))
        sizes = self._sizes(log_normal, real, (abs(exponent) + _LARGEST_FREQUENCY) * np.hypot(excess, turn))
        chosen = sizes > _LEFT_OUT * sizes.max()
        if part is None:
            edge = 2.0 * float(self._weight[0] + self._weight[-1] + np.exp(log_normal[0]) + np.exp(log_normal[-1]))
            beyond = edge * _beyond(transform, exponent, float(y[0]), step)
        else:
            ends = float(y[0]), float(y[-1])
            shift = exponent * transform.ratio
            beyond = math.exp(part.log_below(ends[0], above) + float(real[0]) - self._scale)
            # |e^{wX}| is largest on the real line.
            highest = exponent * float(transform.real_excess(y[-1:])[0])
            beyond += math.exp(part.log_beyond(ends[1], above, shift, step) + highest - self._scale)
        lost = float(sizes[~chosen].sum()) + beyond if math.isfinite(beyond) else math.inf
        self._excess, self._turn, self._log_normal = excess[chosen], turn[chosen], log_normal[chosen]
        self._phase = phase[chosen]
        self._error, self._move = off[chosen], move[chosen]
        steep = transform.log_growth(exponent, strip)
        # e^{itX} is at most 1; 1 + G is at most e as it is scaled, and 1 is summed besides or not.
        grown = 0.0 if part is None else part.log_growth(strip)
        quadrature = (
            math.exp(0.5 * strip * strip + grown) * (3.0 * math.exp(steep) + 1.0) / math.expm1(math.pi * strip / step)
        )
        #: What every value is off by, but for rounding.
        self._constant_error = (2.02 * quadrature + lost) * (1.0 + 1e-6)

    def log_largest(self, t: FloatArray | float) -> FloatArray:
        r"""Return upper bounds on ln \|χ\| for all frequencies from each t on, relative to e^{log_scale}."""
        terms = np.dot(np.exp(-np.multiply.outer(t, self._every_turn)), self._weight)
        # It is nowhere larger than at t = 0.
        return np.asarray(np.minimum(np.log(terms * (1.0 + 1e-9) + self._constant_error), self._log_largest))

    def logarithms(self, spacing: float, number: int) -> tuple[ComplexArray, FloatArray]:
        """Return ln χ at t = spacing × 0, 1, .. number - 1, but for its phase t ln(1 - q).

        Besides, numbers x with e^x - 1 a bound on the relative error of χ.
        """
        if spacing * number > _LARGEST_FREQUENCY:
            return np.zeros(number, dtype=np.complex128), np.full(number, math.inf)
        values, errors = self._values(spacing * np.arange(number).astype(np.float64))
        if self._direct:
            absolute = np.maximum(np.abs(values), 1e-300)
            result = np.log(np.where(absolute > 1e-300, values, 1e-300))
            errors = errors + 8.0 * _U * absolute
        else:
            square = np.abs(values) ** 2
            inner = 2.0 * values.real + square
            # ln(1 + G) by what 1 + G differs from 1, or by itself where it is small.
            small = inner < -0.5
            whole = 1.0 + values
            absolute = np.where(small, np.maximum(np.abs(whole), 1e-300), np.sqrt(1.0 + np.where(small, 0.0, inner)))
            size = np.where(small, np.log(absolute), 0.5 * np.log1p(np.where(small, 0.0, inner)))
            result = size + 1j * np.arctan2(whole.imag, whole.real)
            errors = errors + 8.0 * _U * np.sqrt(square) * (1.0 + np.sqrt(square)) / np.where(small, 1.0, absolute)
        return result, np.log1p(errors / absolute) + 8.0 * _U * np.abs(result)

    def _values(self, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Sum at each frequency, in blocks over which few terms fall."""
        values, errors = np.empty(t.size, dtype=np.complex128), np.empty(t.size)
        first, most = 0, max(_MAX_BLOCK // self._excess.size, 1) ** 2
        while first < t.size:
            last = min(max(2 * first, first + _FIRST_BLOCK), first + most, t.size)
            present, constant, errors[first:last] = self._present(float(t[first]), float(t[last - 1]))
            values[first:last] = constant + self._even_terms(t[first:last], present)
            first = last
        return values, errors + self._constant_error

    def _present(self, begin: float, end: float) -> tuple[BoolArray, complex, float]:
        """Return which terms there are at some frequencies, the sum of the others, and what all together are off by."""
        exponent, wide = self._exponent, abs(self._exponent) + end
        # Where e^{wX} has fallen to nothing its term is the mass, less than 0, or none.
        fallen = self._log_normal + exponent * self._excess - begin * self._turn < _FALLEN_PART + self._scale
        constant, gone, off = 0j, 0.0, math.exp(_FALLEN_PART) * float(np.count_nonzero(fallen))
        if not self._direct:
            lost = np.exp(self._log_normal[fallen] + 1j * self._phase[fallen])
            constant, gone = -complex(np.sum(lost)), float(np.sum(np.abs(lost)))
            off += float(np.dot(np.abs(lost), self._error[fallen]))
        excess, turn, log_normal = self._excess[~fallen], self._turn[~fallen], self._log_normal[~fallen]
        real = exponent * excess - begin * turn
        sizes = self._sizes(log_normal, real, wide * np.hypot(excess, turn))
        # Of X, by e^z dz, and of everything else.
        grown = np.exp(log_normal + (real if self._direct else np.maximum(real, 0.0)) - self._scale)
        total = float(sizes.sum()) + gone
        rounding = float(np.dot(grown, wide * self._move[~fallen])) + float(np.dot(sizes, self._error[~fallen]))
        return ~fallen, constant, (rounding + 4.0 * _U * total + off) * 1.01

    def _sizes(self, log_normal: FloatArray, real: FloatArray, modulus: FloatArray) -> FloatArray:
        """Bound all terms: |e^z - 1| <= 2 min(|z|, 1) e^max(Re z, 0), or e^Re z where all of 1 + G is summed."""
        if self._direct:
            return np.asarray(np.exp(np.minimum(log_normal + real - self._scale, 600.0)))
        exponents = np.minimum(log_normal + np.maximum(real, 0.0), 600.0)
        return np.asarray(2.0 * np.minimum(modulus, 1.0) * np.exp(exponents))

    def _even_terms(self, t: FloatArray, chosen: BoolArray) -> ComplexArray:
        """Sum some terms at evenly spaced frequencies: e^{x+y} - 1 = (e^x - 1) e^y + (e^y - 1)."""
        near = max(math.isqrt(t.size), 1)
        moved, turn = t[:near] - t[0], self._turn[chosen]
        less = _less_one(-np.multiply.outer(moved, turn), np.multiply.outer(moved, self._excess[chosen]))
        far, grown = self._single_terms(t[::near], chosen), less + 1.0
        sums = np.zeros((far.shape[0], near), dtype=np.complex128)
        if not self._direct:
            sums += np.sum(np.exp(self._log_normal[chosen] + 1j * self._phase[chosen]) * less, axis=1)
        # Not by a library whose sums may depend on the number of its threads.
        for first in range(0, turn.size, _SUMMED):
            part = slice(first, first + _SUMMED)
            sums += np.einsum("fk,nk->fn", far[:, part], grown[:, part])
        return sums.reshape(-1)[: t.size]

    def _single_terms(self, t: FloatArray, chosen: BoolArray) -> ComplexArray:
        """Return some terms at some frequencies."""
        excess, turn = self._excess[chosen], self._turn[chosen]
        real = self._exponent * excess - np.multiply.outer(t, turn)
        phase = self._exponent * turn + np.multiply.outer(t, excess)
        log_normal, turned = self._log_normal[chosen], self._phase[chosen]
        if self._direct:
            return np.asarray(np.exp(log_normal + real - self._scale + 1j * (phase + turned)))
        masses = np.exp(log_normal + 1j * turned)
        # Where e^z may be no float its mass makes it one.
        large = self._exponent * excess > _LARGE
        if not large.any():
            return np.asarray(_less_one(real, phase) * masses)
        small = ~large
        terms = np.empty(real.shape, dtype=np.complex128)
        terms[:, small] = _less_one(real[:, small], phase[:, small]) * masses[small]
        whole = np.exp((log_normal + real + 1j * (phase + turned))[:, large])
        terms[:, large] = whole - masses[large]
        return terms


def _on_circle(phase: FloatArray) -> ComplexArray:
    """Return e^{i phase}."""
    result = np.empty(phase.shape, dtype=np.complex128)
    result.real, result.imag = np.cos(phase), np.sin(phase)
    return result


def _less_one(real: FloatArray, phase: FloatArray) -> ComplexArray:
    """Return e^z - 1."""
    growth, angle = np.expm1(real), 0.5 * phase
    sine = np.sin(angle)
    square = 2.0 * sine * sine
    result = np.empty(real.shape, dtype=np.complex128)
    result.real = growth * (1.0 - square) - square
    result.imag = (growth + 1.0) * (2.0 * sine * np.cos(angle))
    return result


#: By tilt the transforms of all pairs of a round, whether each is taken as it is, and how often it occurs.
Lines: TypeAlias = dict[float, list[tuple[TransformLine, bool, int]]]


def _beyond(transform: LossTransform, exponent: float, first: float, step: float) -> float:
    """All terms beyond both ends, relative to the outermost ones.

    The logarithm of a term changes by -y + ρ Σ μ_k Re p_k, p_k = q_k e^{V_k} / C; no Re p_k is below 0, nor their sum
    above 1, as no angle exceeds π/2: above all modes it falls by at least the reach. Below the first outcome so it
    does, too, but for what the sum is there.
    """
    slope = REACH
    if exponent < 0.0:
        slope = min(slope, -first + exponent * transform.slope_below(first))
        if slope < 0.5 * REACH:
            return math.inf
    return 1.0 / -math.expm1(-step * slope)


#: Frequencies that are summed together.
_BLOCK = 32
#: More than the error of a difference of floats that have lost digits by underflow.
_FAINT = 1e-299
#: Largest relative part of the large losses in a transform for which differences are computed.
_LARGEST_PART = 0.9


class Powers:
    """r-th powers of the transforms at `tilt` + i `spacing` n, n < `size`, relative to e^{log_scale}.

    `lines` are the transforms of a round on the line of the tilt. `sums` multiplies Gaussian mechanisms in: `variance`
    is that of their losses in all rounds together.
    """

    def __init__(
        self,
        lines: Sequence[tuple[TransformLine, bool, int]],
        number: int,
        variance: float,
        *,
        tilt: float,
        spacing: float,
        size: int,
    ) -> None:
        self._tilt, self._spacing, self._variance = tilt, spacing, variance
        self._t = spacing * np.arange(size)
        point = tilt + 1j * self._t
        self._kernel: ComplexArray = point * (point + 1.0)
        self._kernel_size = np.abs(self._kernel)
        self._exponent: ComplexArray = np.zeros(size, dtype=np.complex128)
        self._doubt, self._log_scale, self.exponents = np.zeros(size), 0.0, 0.0
        for line, forward, count in lines:
            power = float(number * count)
            self._single = logarithm, doubt = line.logarithms(spacing, size)
            logarithm = logarithm + 1j * (line.smallest_loss * self._t)
            self._exponent += power * (logarithm if forward else np.conj(logarithm))
            # |Π (a + e) - Π a| <= Π (|a| + |e|) - Π |a|
            self._doubt += power * (doubt + 8.0 * _U * abs(line.smallest_loss) * self._t)
            self._log_scale += power * line.log_scale
            self.exponents += power * line.log_scale_size
        # What lies beyond all frequencies.
        last = float(self._t[-1])
        self._log_beyond = float(sum(number * count * line.log_largest(last) for line, _, count in lines))
        self._scaled()

    def _scaled(self) -> None:
        """Divide by the value at t = 0: no power is larger than that."""
        largest = float(self._exponent[0].real)
        self._exponent -= largest
        self._log_scale += largest
        self._log_beyond -= largest
        self.exponents += abs(largest)

    def sums(self, *ratios: float) -> "FrequencySums":
        """Sums over all frequencies, for each ratio s with a mechanism of that ratio composed in."""
        tilt, t, spacing = self._tilt, self._t, self._spacing
        variance = np.array([ratio * ratio + self._variance for ratio in ratios])[:, None]
        turn = (0.5 * variance * (1.0 + 2.0 * tilt)) * t
        real, phase = self._exponent.real - 0.5 * variance * t * t, self._exponent.imag + turn
        powers = np.exp(real)
        terms = _on_circle(phase) * powers
        terms /= self._kernel
        sizes = powers / self._kernel_size
        doubt = self._doubt + 8.0 * _U * (8.0 + np.abs(real) + np.abs(phase) + turn)
        off = sizes * np.expm1(np.minimum(doubt, 1.0))
        if doubt.max() > 1.0:
            with np.errstate(over="ignore", under="ignore"):
                off = np.where(doubt < 1.0, off, np.exp(real + doubt) / self._kernel_size)
        # Of t -> -t are the conjugates.
        terms[:, 0] *= 0.5
        last, variance = float(t[-1]), variance[:, 0]
        # Σ over t > T of e^{-v t²/2} / t², by the integral.
        beyond = np.exp(np.clip(self._log_beyond - 0.5 * variance * last * last, -700.0, 700.0))
        beyond *= 2.02 / (spacing * last) / np.maximum(1.0, variance * last * last)
        return FrequencySums(
            float(self._log_scale + 0.5 * variance[0] * (tilt + tilt * tilt)),
            spacing,
            terms,
            2.02 * off.sum(axis=1) + beyond,
            (sizes.sum(axis=1), np.sum(sizes * t, axis=1)),
        )


class Differences(Powers):
    """P^n - U^n = P^n (1 - (1 - V / P)^n) at all frequencies; `part` is V, the transform of large losses."""

    def __init__(
        self,
        part: TransformLine,
        lines: Sequence[tuple[TransformLine, bool, int]],
        number: int,
        variance: float,
        **grid: Any,
    ) -> None:
        self._part, self._line = part, lines[0][0]
        self._number = number * lines[0][2]
        super().__init__(lines, number, variance, **grid)

    def _scaled(self) -> None:
        line, part, number = self._line, self._part, self._number
        log_whole, doubt = self._single
        log_part, part_doubt = part.logarithms(self._spacing, self._t.size)
        ratio = np.exp(np.minimum((log_part - log_whole).real + (part.log_scale - line.log_scale), 300.0)) * np.exp(
            1j * (log_part - log_whole).imag
        )
        scales = line.log_scale_size + part.log_scale_size
        doubts = doubt + part_doubt + 8.0 * _U * (4.0 + scales + np.abs(log_part - log_whole))
        less, error = _one_less_power(ratio, np.abs(ratio) * np.expm1(np.minimum(doubts, 300.0)), number)
        size = np.maximum(np.abs(less), 1e-300)
        self._exponent += np.log(np.where(size > 1e-300, less, 1e-300))
        # Values that small have lost digits by underflow, or replace such values.
        self._doubt += np.log1p((error + _FAINT * (1.0 + number)) / size)
        self._doubt[doubts > 300.0] = math.inf
        self._log_beyond = float(log_most(line, part, number, float(self._t[-1]))) - self._log_scale
        super()._scaled()


@dataclass(frozen=True, eq=False)
class FrequencySums:
    """For each ratio Σ of terms e^{-itε} over all frequencies, of both signs, per period; relative to a scale."""

    #: ln of the first ratio's scale.
    log_scale: float
    spacing: float
    #: Shape (K, n).
    terms: ComplexArray
    #: Shape (K,).
    error: FloatArray
    moments: tuple[FloatArray, FloatArray]

    def at(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums at some ε, and what they are off by, shape (K, E)."""
        # e^{-i t ε} = e^{-i t' ε} e^{-i t'' ε}, t' a multiple of so many spacings.
        number, size = self.terms.shape
        blocks = -(-size // _BLOCK)
        padded = np.zeros((number, blocks * _BLOCK), dtype=np.complex128)
        padded[:, :size] = self.terms
        near, far = (
            _on_circle(-np.multiply.outer(self.spacing * orders, epsilon))
            for orders in (np.arange(_BLOCK), _BLOCK * np.arange(blocks))
        )
        # Not by a library whose sums may depend on the number of its threads; the outer sum by pairs.
        inner = np.einsum("sfn,ne->sfe", padded.reshape(number, blocks, _BLOCK), near)
        values = 2.0 * np.sum(np.ascontiguousarray((inner * far).real.swapaxes(1, 2)), axis=2)
        per_period = self.spacing / (2.0 * math.pi)
        total, first = (each[:, None] for each in self.moments)
        error = self.error[:, None] + _U * ((4.0 * _BLOCK + 64.0) * total + 16.0 * np.abs(epsilon) * first)
        return values * per_period, 1.01 * error * per_period


def _one_less_power(part: ComplexArray, off: FloatArray, number: int) -> tuple[ComplexArray, FloatArray]:
    """Return 1 - (1 - v)^n, and a bound on its error where v is off by so much; that is infinite for a large v."""
    size = np.abs(part)
    known = size + off < _LARGEST_PART
    v = np.where(known, part, 0.0)
    size = np.abs(v)
    power = number * (0.5 * np.log1p(size**2 - 2.0 * v.real) + 1j * np.arctan2(-v.imag, 1.0 - v.real))
    doubt = number * (off + 32.0 * _U * size) / (1.0 - _LARGEST_PART) + 8.0 * _U * np.abs(power)
    # |1 - v| may exceed 1, where v has turned.
    real = np.minimum(power.real, 600.0)
    sine = np.sin(0.5 * power.imag)
    grown = np.exp(real)
    result = -(np.expm1(real) * np.cos(power.imag) - 2.0 * sine * sine) - 1j * grown * np.sin(power.imag)
    error = grown * np.expm1(np.minimum(doubt, 1.0)) + 16.0 * _U * (
        np.abs(np.expm1(real)) + 2.0 * np.abs(sine) * (1.0 + grown)
    )
    return result, np.where(known & (doubt < 1.0) & (power.real < 600.0), error, np.inf)


def log_most(line: TransformLine, part: TransformLine, number: int, t: FloatArray | float) -> FloatArray:
    r"""Bound ln \|P^n - U^n\| from frequencies t on: \|U\| <= \|P\| + \|V\|, and n factors differ by V."""
    log_part = part.log_largest(t) + part.log_scale
    log_both = np.logaddexp(line.log_largest(t) + line.log_scale, log_part)
    several = math.log(number) + log_part + (number - 1) * log_both
    slack = 16.0 * _U * number * (np.abs(log_both) + line.log_scale_size + part.log_scale_size) + 1e-12
    return np.asarray(np.minimum(several, math.log(2.0) + number * log_both) + slack)
