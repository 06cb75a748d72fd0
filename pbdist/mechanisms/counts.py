"""Noise on whole numbers: discrete Laplace, discrete Gaussian, Poisson, and counts under rounded noise."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import AdditiveNoise, Gaussian, Laplace, cut_gaussian
from pbdist.mechanisms.declaration import (
    LOSSES,
    SMALLEST_REMAINDER,
    SPREADS,
    Domain,
    Form,
    mechanism,
    one_of,
    parameter,
    parametrised,
    positive,
    real,
    sensitivity_of,
    whole,
)
from pbdist.mechanisms.masses import (
    SMALLEST_FLOAT,
    SMALLEST_MASS,
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
    rounded_up,
)
from pbdist.mechanisms.outcomes import MAX_OUTCOMES, PairOfOutcomes, masses_of_outcomes
from pbdist.mechanisms.pair import BoundedPair, ElementaryPair, NoiseOrder, ScaledPair, ordered
from pbdist.types import Direction, FloatArray

#: Scaled masses with a larger exponent are given with a factor of their own.
_DEEP = 600.0
#: Larger losses, in nats, are refused: such noise hides nothing.
_LARGEST_LOSS = 1e9

#: Discrete Gaussian noise further than this from 0, in scales, has a mass below `SMALLEST_MASS`.
_GAUSSIAN_REACH = 38.0

#: From this scale on the dual series of the discrete Gaussian's total is the shorter one.
_LARGE_SCALE = 0.5
#: Terms of either series; the rest is below 2^-60.
_THETA_TERMS = 5
#: Those of the series of Rényi divergences, of which underflows lose less than this.
_DIVERGENCE_TERMS, _HIDDEN = 8, 1e-300


@parametrised
class WholeNoise(ElementaryPair):
    """Symmetric noise N on whole numbers: A = N, B = N + sensitivity."""

    assumes = "One individual moves the answer by at most the sensitivity, whole."
    checked_together = ("scale", "sensitivity")
    largest_decides = ("sensitivity",)
    symmetric = True

    scale: float = parameter(positive, "the scale of the noise", unit="counts", example=[20.0, 40.0, 80.0], sized=True)
    sensitivity: int = sensitivity_of("by how much one record moves the answer", whole(1, MAX_OUTCOMES), 1)

    def check(self) -> None:
        """Refuse noise that hides nothing, or has too many outcomes."""
        name = type(self).__name__
        if self.outcomes <= MAX_OUTCOMES and self.largest_loss > _LARGEST_LOSS:
            raise InvalidInputError(
                f"{name}.scale: expected a scale that leaves losses of at most {_LARGEST_LOSS:g},"
                f" got {shown(self.scale)}"
            )
        if self.outcomes > MAX_OUTCOMES:
            raise InvalidInputError(
                f"{name}.scale: expected a scale and a sensitivity that leave at most {MAX_OUTCOMES} outcomes,"
                f" got {shown(self.scale)} and {self.sensitivity}"
            )

    def moved(self, times: int) -> "WholeNoise":
        """With so many times the sensitivity."""
        return replace(self, sensitivity=self.sensitivity * times)

    @property
    @abstractmethod
    def largest_loss(self) -> float:
        """The largest loss of the outcomes that are atoms, in nats, but for some roundings."""

    @abstractmethod
    def interval(self, first: FloatArray, last: FloatArray, mean: float) -> tuple[FloatArray, FloatArray]:
        """Return P(first <= X <= last), X the noise about a whole mean, and bounds on the relative errors.

        The ends are whole numbers below 2^53 in size, or infinite, and no stretch is empty. The errors hold where a
        mass is at least `SMALLEST_MASS`.
        """


@mechanism
class DiscreteLaplace(WholeNoise, ScaledPair, BoundedPair):
    """Discrete Laplace noise (two-sided geometric) on whole numbers: A = N, B = N + sensitivity.

    P(N = k) is proportional to e^(-abs(k) / scale): Ghosh, Roughgarden & Sundararajan 2009 (the geometric mechanism).
    For sensitivity 1 the pair is that of randomized response with odds e^(1/scale).

    Examples
    --------
    >>> from pbdist import DiscreteLaplace, epsilon_bounds
    >>> round(epsilon_bounds(DiscreteLaplace(scale=40.0), compositions=100, delta=0.0).epsilon_upper.item(), 6)
    2.5
    """

    aliases = ("geometric", "twosidedgeometric")
    noise_family = "DiscreteLaplace"
    does = "Whole-numbered (discrete) Laplace noise is added to an answer that is a whole number."

    scale: float = parameter(
        positive,
        "the scale b of the noise, whose probabilities are in proportion to e^(-|k| / b)",
        unit="counts",
        aliases=(*SPREADS, *LOSSES),
        hint="scale is b of the probabilities in proportion to e^(-|k| / b): for large b the variance is 2 b²; for the"
        " ε of one round it is sensitivity / ε",
        example=[20.0, 40.0, 80.0],
        sized=True,
    )

    @property
    def order(self) -> NoiseOrder | None:
        """By the scale and by the inverse of the sensitivity."""
        return ordered(self, DiscreteLaplace, Fraction(self.scale), Fraction(1, self.sensitivity))

    @property
    def cost_stand_in(self) -> ElementaryPair:
        """Laplace noise of the same scale."""
        return Laplace(self.scale, float(self.sensitivity))

    @property
    def outcomes(self) -> int:
        """The stretches of constant loss on either side, and the outcomes between them."""
        return self.sensitivity + 1

    @property
    def largest_loss(self) -> float:
        """The largest loss, in nats, but for one rounding."""
        return self.sensitivity / self.scale

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        """One atom for all k <= 0, one for all k >= sensitivity, and one for each k between.

        The factor of a deep one is the exponential of its distance.
        """
        exponent = np.arange(self.sensitivity + 1, dtype=np.float64) / self.scale
        deep = (exponent > _DEEP) & scaled
        log_scale = np.where(deep, -exponent, 0.0)
        with np.errstate(under="ignore"):
            masses = self._atoms(edges, np.exp(np.where(deep, 0.0, -exponent)), exponent)
        return ScaledLossMasses.of_atoms(masses, log_scale, log_scale[::-1].copy())

    def _largest_loss(self, direction: Direction) -> float:  # noqa: ARG002
        return rounded_up(self.largest_loss)

    def interval(self, first: FloatArray, last: FloatArray, mean: float) -> tuple[FloatArray, FloatArray]:
        """Sum p^|d| (1 - p) / (1 + p) over the distances d from the mean, p = e^(-1/scale), in closed form.

        n distances of one sign from size d on have the mass p^d (1 - p^n) / (1 + p). A power is off by 8u, and by the u
        of its exponent; 1 - p^n by 8u and by the u of its argument, 1 + p by 10u; quotients, products and the sum of
        the two sides, both of them at least 0, by 5u.
        """
        scale, first, last = self.scale, first - mean, last - mean
        total = 1.0 + math.exp(-1.0 / scale)
        above, below = np.maximum(first, 0.0), np.maximum(-last, 1.0)
        sides = []
        for nearest, farthest in ((above, last), (below, -first)):
            there = nearest <= farthest
            exponent = np.where(there, nearest, 0.0) / scale
            # An infinite end has infinitely many distances.
            count = np.where(there, farthest - nearest + 1.0, 0.0)
            with np.errstate(under="ignore"):
                sides.append((np.exp(-exponent) * -np.expm1(-count / scale) / total, np.where(there, exponent, 0.0)))
        # The error of a power is at most that of the larger exponent among the sides that are there.
        return sides[0][0] + sides[1][0], (40.0 + 2.0 * np.maximum(sides[0][1], sides[1][1])) * UNIT_ROUNDOFF

    def _atoms(self, edges: FloatArray, power: FloatArray, exponent: FloatArray) -> LossMasses:
        """Masses for the powers p^k, p = e^(-1/scale), as given, that have the given size of their logarithm.

        P_A(k) = p^k (1 - p) / (1 + p), and P_A(k <= 0) = 1 / (1 + p), P_A(k >= s) = p^s / (1 + p). The powers are off
        by u k / scale and by 8u; 1 - p, as by ``expm1``, by 9u, 1 + p by 10u, products and quotients by 3u.
        """
        inverse = -1.0 / self.scale
        total = 1.0 + math.exp(inverse)
        a = power / total
        a[1:-1] *= -math.expm1(inverse)
        a = np.maximum(a, SMALLEST_FLOAT)
        atoms = MassBounds.around(a, (32.0 + 2.0 * exponent) * UNIT_ROUNDOFF)
        loss = (self.sensitivity - 2.0 * np.arange(self.sensitivity + 1, dtype=np.float64)) / self.scale
        return LossMasses.of_atoms(edges, loss, atoms, atoms.reversed(), 2.0 * UNIT_ROUNDOFF * float(loss[0]))


@mechanism
class DiscreteGaussian(WholeNoise, PairOfOutcomes):
    """Discrete Gaussian noise on whole numbers: A = N, B = N + sensitivity.

    P(N = k) is proportional to e^(-k² / (2 scale²)): Canonne, Kamath & Steinke 2020, "The Discrete Gaussian for
    Differential Privacy".

    Examples
    --------
    >>> from pbdist import DiscreteGaussian, Gaussian, epsilon_bounds
    >>> whole, real = (
    ...     epsilon_bounds(kind(scale=40.0), compositions=100, delta=1e-6).epsilon_upper.item()
    ...     for kind in (DiscreteGaussian, Gaussian)
    ... )
    >>> abs(whole / real - 1) < 1e-3
    True
    """

    noise_family = "DiscreteGaussian"
    does = "Whole-numbered (discrete) Gaussian noise is added to an answer that is a whole number."

    scale: float = parameter(
        positive,
        "the scale σ of the noise, whose probabilities are in proportion to e^(-k² / (2 σ²))",
        unit="counts",
        aliases=SPREADS,
        example=[20.0, 40.0, 80.0],
        sized=True,
    )

    @property
    def cost_stand_in(self) -> ElementaryPair:
        """Gaussian noise of the same scale."""
        return cut_gaussian(self.scale, float(self.sensitivity))

    @property
    def outcomes(self) -> int:
        """How many outcomes are atoms of their own."""
        return 2 * self._reach() + 1 + self.sensitivity

    @property
    def largest_loss(self) -> float:
        """The largest loss of these outcomes, in nats, but for some roundings."""
        s = self.sensitivity
        return 0.5 * s * (s + 2.0 * self._reach()) / (self.scale * self.scale)

    def renyi_divergence(self, alpha: float) -> tuple[float, float]:
        """That of the Gaussian mechanism, but for a theta function (Theorem 13 of docs/theory.md)."""
        lower, upper = _renyi_divergence(self, alpha)
        return math.nextafter(float(lower), 0.0), math.nextafter(float(upper), math.inf)

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    def atoms(self) -> LossMasses:
        """One atom an outcome."""
        s, reach = self.sensitivity, self._reach()
        k = np.arange(-reach - s, reach + s + 1, dtype=np.float64)
        square, variance = k * k, self.scale * self.scale
        # Square, variance and quotient round once each; halving is exact.
        exponent = 0.5 * square / variance
        total, total_error = discrete_gaussian_total(self.scale)
        with np.errstate(under="ignore"):
            # No outcome is impossible: a mass that underflows must not become 0.
            mass = np.maximum(np.exp(-exponent) / total, SMALLEST_FLOAT)
        error = total_error + (12.0 + 4.0 * exponent) * UNIT_ROUNDOFF
        return masses_of_outcomes(
            np.zeros(0),
            mass[s:],
            mass[: mass.size - s],
            error_a=error[s:],
            error_b=error[: error.size - s],
            # (s² - 2sk) / (2 scale²): numerator, variance and quotient round once each.
            known_loss=0.5 * (s * (s - 2.0 * k[s:])) / variance,
            further_a=4.0 * SMALLEST_MASS,
            further_b=4.0 * SMALLEST_MASS,
        )

    def interval(self, first: FloatArray, last: FloatArray, mean: float) -> tuple[FloatArray, FloatArray]:
        """Sum e^(-d² / (2 scale²)) / total over the distances d from the mean, as far out as `_GAUSSIAN_REACH`.

        What lies further out is below e^-722, and so below 1e-20 of any mass of 1e-290. The exponent E of a summand is
        off by 3u of it, its exponential by 8u more, and correctly rounded sums and the quotient by 2u; the summands of
        the largest weight are those nearest to the mean.
        """
        scale, first, last = self.scale, first - mean, last - mean
        total, total_error = discrete_gaussian_total(scale)
        reach = float(math.ceil(_GAUSSIAN_REACH * scale) + 1)
        nearest = np.maximum(np.maximum(first, -last), 0.0)
        exponent = 0.5 * nearest * nearest / (scale * scale)
        with np.errstate(under="ignore"):
            mass = np.exp(-exponent)
            for index in np.flatnonzero(first < last).tolist():
                # At least one summand, however far out it is.
                low, high = max(first[index], min(-reach, last[index])), min(last[index], max(reach, first[index]))
                d = np.arange(low, high + 1.0)
                z = 0.5 * d * d / (scale * scale)
                mass[index] = math.fsum(np.exp(-z))
                # Of summands further out than the nearest by more than 60 nats less than 1e-20 is left.
                exponent[index] = min(exponent[index] + 60.0 + math.log(d.size), float(z.max(initial=0.0)))
            return mass / total, total_error + (16.0 + 4.0 * exponent) * UNIT_ROUNDOFF

    def _reach(self) -> int:
        """Return K such that the outcomes above K + 1, or below -(K + 1), have a mass of at most e^-722.

        Σ_(j>=0) exp(-(x + j)² / 2 scale²) <= exp(-x² / 2 scale²) Σ_(j>=0) exp(-j² / 2 scale²) for x >= 0, and the last
        sum is less than the total.
        """
        return math.ceil(_GAUSSIAN_REACH * self.scale) + 1


def discrete_gaussian_total(scale: float) -> tuple[float, float]:
    """Return Σ_k exp(-k² / (2 scale²)) over the integers and a bound on its relative error.

    With a = 1 / (2 scale²), the sum of 1 + 2 Σ_(k>=1) e^(-a k²), or by Poisson's summation formula (Jacobi's theta
    function) √(π/a) (1 + 2 Σ_(k>=1) e^(-π² k² / a)). For scales up to 1/2, a >= 2; above, π²/a > 4.9: five
    terms leave out less than 3 e^-72 in either case. An exponential is off by 8u and by 4u of its exponent, hence by
    less than 12u, as its size falls; two sums of less than 1.3, root and products add less than 12u.
    """
    error = 32.0 * UNIT_ROUNDOFF
    variance = scale * scale
    if scale <= _LARGE_SCALE:
        rate, factor = 0.5 / variance, 1.0
    else:
        rate, factor = 2.0 * math.pi * math.pi * variance, scale * math.sqrt(2.0 * math.pi)
    tail = math.fsum(math.exp(-rate * k * k) for k in range(_THETA_TERMS, 0, -1))
    return factor * (1.0 + 2.0 * tail), error


def _renyi_divergence(pair: DiscreteGaussian, alpha: float) -> tuple[Fraction, Fraction]:
    """Bounds on α s² / (2 scale²) less the error of a theta function where (α - 1) s is not whole."""
    whole = Fraction(alpha) * (Fraction(pair.sensitivity) / Fraction(pair.scale)) ** 2 / 2
    tilt = Fraction(alpha) - 1
    shift = tilt * pair.sensitivity
    distance = abs(shift - round(shift))
    if distance == 0:
        return whole, whole
    if pair.scale <= _LARGE_SCALE:
        rate = 1 / (2 * Fraction(pair.scale) ** 2)
        low, high = _gain(rate, distance)
        whole -= rate * distance**2 / tilt
        return whole + low / tilt, whole + high / tilt
    low, high = _deficit(pair.scale, float(distance))
    return whole - high / tilt, whole - low / tilt


def _gain(rate: Fraction, distance: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds on ln(1 + X), of scales up to 1/2; `distance` is c in (0, 1/2]."""
    orders = range(_DIVERGENCE_TERMS, 0, -1)
    terms = (
        math.exp(-float(rate * k * (k - 2 * distance))) * math.expm1(-float(2 * rate * k * distance)) ** 2
        for k in orders
    )
    total = 1.0 + 2.0 * math.fsum(math.exp(-float(rate * k * k)) for k in orders)
    return _around(math.log1p(math.fsum(terms) / total), float(rate * (1 - 2 * distance)))


def _deficit(scale: float, distance: float) -> tuple[Fraction, Fraction]:
    """Bounds on -ln(1 - Y), of scales above 1/2; `distance` is c in (0, 1/2]."""
    orders = range(_DIVERGENCE_TERMS, 0, -1)
    rate = 2.0 * math.pi * math.pi * (scale * scale)
    terms = (4.0 * math.exp(-rate * (j * j)) * math.sin(math.pi * (j * distance)) ** 2 for j in orders)
    total = 1.0 + 2.0 * math.fsum(math.exp(-rate * (j * j)) for j in orders)
    return _around(-math.log1p(-math.fsum(terms) / total), rate)


def _around(value: float, exponent: float) -> tuple[Fraction, Fraction]:
    """Bounds on a value that is at least 0 and off by 64u (2 + exponent) of itself, or by an underflow."""
    error = 64.0 * UNIT_ROUNDOFF * (2.0 + exponent) * value + _HIDDEN
    return max(Fraction(value) - Fraction(error), Fraction(0)), Fraction(value) + Fraction(error)


#: At most e^-670 < 1e-290 of the noise is left out on either side.
_REACH = 670.0

#: Up to this sensitivity the loss is a sum of as many logarithms, beyond it the logarithm of the ratio of the masses.
_MAX_TERMS = 16

#: Deviances are summed as a series up to this |k - mean| / (k + mean).
_SERIES = 1.0 / 3.0

#: Up to this k Stirling's remainder is taken from the factorial itself.
_LARGEST_FACTORIAL = 20
_STIRLING_SERIES = (1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0)
_STIRLING_RATIOS: FloatArray = np.array(
    [k**k / math.factorial(k) * math.exp(-k) for k in range(_LARGEST_FACTORIAL + 1)], dtype=np.float64
)

#: Faint masses have a logarithm below this.
_FAINT_EXPONENT = -635.0


@mechanism
class Poisson(PairOfOutcomes):
    """A count hidden under Poisson noise N, as in Stadium: A = N, B = sensitivity + N.

    An output below the sensitivity occurs under A only and reveals the input. The sum of independent Poisson variables,
    as that of the noise of several servers, is one of the sum of their means.

    Examples
    --------
    >>> from pbdist import Poisson, privacy_bounds
    >>> found = privacy_bounds(Poisson(mean=4000.0), compositions=100, epsilon=1.0)
    >>> bool(found.delta_lower.item() <= found.delta_upper.item() < 1.002 * found.delta_lower.item())
    True
    """

    noise_family = "Poisson"
    does = "A count is seen to which a Poisson number of noise messages was added."
    assumes = (
        "One individual's action raises the count by at most the sensitivity. Only the noise of honest servers hides"
        " anything: the mean is that of their noise alone."
    )
    checked_together = ("mean", "sensitivity")
    largest_decides = ("sensitivity",)

    mean: float = parameter(
        positive,
        "the mean of the noise, which is its variance too",
        unit="counts",
        aliases=SPREADS,
        example=[1000.0, 4000.0],
        sized=True,
    )
    sensitivity: int = sensitivity_of("by how much one record moves the answer", whole(1, MAX_OUTCOMES), 1)

    def check(self) -> None:
        """Refuse noise of too many outcomes."""
        if self.outcomes > MAX_OUTCOMES:
            raise InvalidInputError(
                f"Poisson.mean: expected a mean and a sensitivity that leave at most {MAX_OUTCOMES} counts,"
                f" got {shown(self.mean)} and {self.sensitivity}"
            )

    @classmethod
    def usual_noise(cls, deviation: float, parameters: Mapping[str, Any]) -> float:
        """The variance, which is the mean."""
        return max(super().usual_noise(deviation, parameters) ** 2, 1.0)

    def of_group(self, times: int) -> "Poisson":
        """With so many times the sensitivity."""
        return Poisson(self.mean, self.sensitivity * times)

    @property
    def order(self) -> NoiseOrder | None:
        """By the mean and by the inverse of the sensitivity."""
        return ordered(self, Poisson, Fraction(self.mean), Fraction(1, self.sensitivity))

    @property
    def cost_stand_in(self) -> ElementaryPair:
        """Gaussian noise of the same variance."""
        return cut_gaussian(math.sqrt(self.mean), float(self.sensitivity))

    @property
    def outcomes(self) -> int:
        """How many counts are atoms of their own."""
        first, last = self._noise_range()
        return last - first + 1 + self.sensitivity

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    def always_reveals(self, direction: Direction) -> bool:
        """Totals below the sensitivity occur under one alone."""
        return direction is Direction.A_TO_B

    def log_faint_moment(self, tilt: float, direction: Direction) -> float:
        """Of the far tail (Theorem 20 of docs/theory.md)."""
        if self.always_reveals(direction):
            return math.inf
        mean, shift = self.mean, self.sensitivity
        first = _first_faint(mean) - shift
        if first <= mean:
            return math.inf
        factors = np.log((first + np.arange(1.0, shift + 1.0)) / mean)
        loss = float(factors.sum())
        log_ratio = math.log(mean / (first + 1.0)) + tilt * math.log1p(shift / (first + 1.0))
        if log_ratio >= -1e-9:
            return math.inf
        log_mass = _log_poisson(first, mean)
        size = first * abs(math.log(mean)) + math.lgamma(first + 1.0) + mean + (tilt + shift) * loss
        return log_mass + tilt * loss - math.log(-math.expm1(log_ratio)) + 64.0 * UNIT_ROUNDOFF * size + 1e-6

    def atoms(self) -> LossMasses:
        """One atom a count, and the mass of the counts that only A can show."""
        s = self.sensitivity
        first, last = self._noise_range()
        # The noise under B is less by the sensitivity.
        lowest = max(first - s, 0)
        noise = np.arange(lowest, last + s + 1, dtype=np.float64)
        mass, error = poisson_masses(noise, self.mean)
        # No count of noise is impossible: a mass that underflows must not become 0.
        mass = np.maximum(mass, SMALLEST_FLOAT)
        count = noise[first - lowest :]
        impossible = max(s - first, 0)
        mass_b = np.concatenate((np.zeros(impossible), mass))[: count.size]
        error_b = np.concatenate((np.zeros(impossible), error))[: count.size]
        loss, loss_error = self._losses(count)
        return masses_of_outcomes(
            np.zeros(0),
            mass[first - lowest :],
            mass_b,
            error_a=error[first - lowest :],
            error_b=error_b,
            known_loss=loss,
            known_error=loss_error,
            further_a=4.0 * SMALLEST_MASS,
            further_b=4.0 * SMALLEST_MASS,
        )

    def _noise_range(self) -> tuple[int, int]:
        """Return the first and last N that are atoms; the others have a mass of at most e^-670 on either side.

        By P(N <= mean - t) <= exp(-t² / (2 mean)) and P(N >= mean + t) <= exp(-t² / (2 mean + 2t/3)), Bernstein's
        inequality. One count more on either side pays for the roundings.
        """
        below = math.sqrt(2.0 * _REACH * self.mean)
        above = _REACH / 3.0 + math.sqrt((_REACH / 3.0) ** 2 + 2.0 * _REACH * self.mean)
        return max(math.floor(self.mean - below) - 1, 0), math.ceil(self.mean + above) + 1

    def _losses(self, count: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the losses ln(mean^s (k - s)! / k!) = Σ_(j<s) ln(mean / (k - j)) and bounds on their errors.

        NaN where B lacks the count, and for the large sensitivities where the ratio of the masses is as good.
        A logarithm is taken as that of 1 + x, x = (mean - m) / m, where x is in [-1/2, 1]: the two roundings of x move
        it by at most 1.45 · 2u relatively. Elsewhere the rounding of mean / m moves it by u, at most 1.45u relatively.
        With the 8u of the function itself a term is off by at most 11u, and each sum adds u of the sum of the sizes.
        """
        loss, sizes = np.full(count.size, np.nan), np.zeros(count.size)
        possible = count >= self.sensitivity
        if self.sensitivity > _MAX_TERMS:
            return loss, sizes
        total, size = np.zeros(int(possible.sum())), np.zeros(int(possible.sum()))
        for j in range(self.sensitivity):
            m = count[possible] - j
            ratio = self.mean / m
            near = (ratio > 0.5) & (ratio < 2.0)
            term = np.where(near, np.log1p(np.where(near, (self.mean - m) / m, 0.0)), np.log(ratio))
            total += term
            size += np.abs(term)
        loss[possible], sizes[possible] = total, size
        return loss, (12.0 + self.sensitivity) * UNIT_ROUNDOFF * sizes


def poisson_masses(count: FloatArray, mean: float) -> tuple[FloatArray, FloatArray]:
    """Masses of counts under Poisson noise, accurate for large means and far into the tails.

    Returns masses, which may underflow, and a bound on their relative error; counts are whole, from 0 to 2^53.

    The mass is exp(-D) k^k e^-k / k! with the deviance D = k ln(k / mean) - (k - mean) (Loader 2000, "Fast and Accurate
    Computation of Binomial Probabilities"). The last factor is exp(-S) / √(2πk) with Stirling's series
    S = 1/(12k) - 1/(360k³) + 1/(1260k⁵) - 1/(1680k⁷) + 1/(1188k⁹) - .., which encloses: from k = 21 on the rest is
    below 1.92e-3 / 21¹¹ < 2^-57.

    Roundings: the exponential of D + S is off by the error of D, by u (D + 1) and by its own 8u, the root and the
    quotient by less than 4u; up to k = 20 the factor itself is off by 10u.
    """
    deviance, error = _deviance(count, mean)
    large = count > _LARGEST_FACTORIAL
    k = np.where(large, count, 1.0)
    inverse_square = 1.0 / (k * k)
    series = np.zeros_like(k)
    for coefficient in _STIRLING_SERIES:
        series = series * inverse_square + coefficient
    series /= k
    small = np.where(large, 0.0, count).astype(np.int64)
    factor = np.where(large, 1.0 / np.sqrt(2.0 * math.pi * k), _STIRLING_RATIOS[small])
    with np.errstate(under="ignore"):
        mass = np.exp(-(deviance + np.where(large, series, 0.0))) * factor
    return mass, error + (24.0 + deviance) * UNIT_ROUNDOFF


def _deviance(count: FloatArray, mean: float) -> tuple[FloatArray, FloatArray]:
    """Return D = k ln(k / mean) - (k - mean) and a bound on its error.

    With d = k - mean, v = d / (k + mean) and ln(k / mean) = 2 atanh v: D = v (d + 2k (v²/3 + v⁴/5 + ..)). For v up to
    1/3 in size the second summand is at most 1/6 of d, and at most 0.084 of it where their signs differ; it is off by
    12u, d by u and v by 3u, which leaves less than 8u for D. The series ends where v^2n is below 2^-60. Elsewhere the
    logarithm is off by 8u and by the rounding of its argument, 1.45u of its size at most, being at least ln 2.
    """
    difference = count - mean
    v = difference / (count + mean)
    near = np.abs(v) <= _SERIES
    square = np.where(near, v * v, 0.0)
    largest = float(square.max(initial=0.0))
    terms = max(1, math.ceil(60.0 * math.log(2.0) / -math.log(largest))) if largest > 0.0 else 1
    series = np.zeros_like(v)
    for j in range(terms, 0, -1):
        series = (series + 1.0 / (2 * j + 1)) * square
    close = v * (difference + 2.0 * count * series)
    if near.all():
        return close, 10.0 * UNIT_ROUNDOFF * close
    occurs = ~near & (count > 0.0)
    product = np.where(occurs, count, 0.0) * np.log(np.where(occurs, count, mean) / mean)
    deviance = np.where(near, close, product - difference)
    far_error = (12.0 * np.abs(product) + 2.0 * np.abs(difference)) * UNIT_ROUNDOFF
    return deviance, np.where(near, 10.0 * UNIT_ROUNDOFF * close, far_error)


def _first_faint(mean: float) -> float:
    """Return a count above the mean from which on Poisson masses are below e^-635, about the first such."""
    low, high = math.ceil(mean), math.ceil(mean + 700.0 + 40.0 * math.sqrt(mean))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _log_poisson(middle, mean) > _FAINT_EXPONENT else (low, middle)
    return float(low)


def _log_poisson(count: float, mean: float) -> float:
    return count * math.log(mean) - mean - math.lgamma(count + 1.0)


def mean_of_positive_part(noise: WholeNoise, mean: float) -> float:
    """Return E max(0, X), X the noise about a whole mean: about 12 digits, not a certified bound.

    By the symmetry of the noise N it is max(0, mean) + E max(0, N - |mean|). For discrete Laplace noise, with p =
    e^(-1/scale), the second summand is p^(|mean| + 1) / (1 - p²).
    """
    distance = abs(mean)
    if isinstance(noise, DiscreteLaplace):
        beyond = math.exp(-(distance + 1.0) / noise.scale) / -math.expm1(-2.0 / noise.scale)
    else:
        reach = math.ceil(_GAUSSIAN_REACH * noise.scale) + 1
        excess = np.arange(1.0, max(reach - distance, 0.0) + 1.0)
        z = (excess + distance) / noise.scale
        beyond = float((excess * np.exp(-0.5 * z * z)).sum()) / discrete_gaussian_total(noise.scale)[0]
    return max(mean, 0.0) + beyond


CLAMP_AND_CEIL = "clamp-and-ceil"
REDRAW_AND_FLOOR = "redraw-and-floor"
SHIFT_INSIDE = "shift-inside"

#: The ways in which a draw X becomes a number of noise messages; see `NoisyCount`.
READINGS = (CLAMP_AND_CEIL, REDRAW_AND_FLOOR, SHIFT_INSIDE)

#: Up to this, float64 resolves neighbouring counts well.
_LARGEST_COUNT = 10**12

#: From this standard deviation on, a sum of Gaussian tails over whole numbers is computed from its integral.
_SMOOTH_SCALE = 200.0

#: Counts of masses below the first may have no loss of their own; those of masses above the second have one.
_FAINT, _CLEAR = 1e-279, 1e-270
#: Faint Gaussian counts lie beyond so many standard deviations.
_FAR = 34.0

#: Means of more scales reveal no less.
_MAX_SCALES = 40

#: Noise leaves at most this many counts more than its reach.
_MORE_COUNTS = 6.0


def _checked_noise(owner: str, name: str, value: Any) -> "AdditiveNoise | WholeNoise":
    if not isinstance(value, AdditiveNoise | WholeNoise):
        raise InvalidInputError(
            f"{owner}.{name}: expected Laplace(..), Gaussian(..), DiscreteLaplace(..) or DiscreteGaussian(..),"
            f" got {shown(value)}"
        )
    return value


_NOISE = Domain(_checked_noise, Form.MECHANISM, kinds=("Laplace", "Gaussian", "DiscreteLaplace", "DiscreteGaussian"))


@mechanism
class NoisyCount(ElementaryPair):
    """What an observer sees of a count to which whole-numbered noise is added: A = N, B = shift + N.

    X is the draw of the noise about its mean, neither truncated nor with a sensitivity of its own. Under discrete noise
    the mean is a whole number, so that X is one. The shift is 2 for Vuvuzela's dialing protocol. The reading says how X
    becomes a count N >= 0:

    - ``"clamp-and-ceil"`` (the default): N = ⌈max(0, X)⌉, as the Vuvuzela paper specifies the protocol. An output below
      `shift` occurs under A only and reveals the input.
    - ``"redraw-and-floor"``: N = ⌊X⌋, X redrawn while negative, as the published implementation does.
    - ``"shift-inside"``: A = ⌈max(0, X)⌉, B = ⌈max(0, X + shift)⌉, the pair that Meiser & Mohammadi 2018 write down in
      section 7.1. The shift inside the maximum hides the outputs that reveal the input: it describes a system that adds
      the true count before it cuts at 0, and promises too much for one that adds it after.

    Under discrete noise nothing is left to round: the readings are max(0, X), X redrawn while negative, and the cut
    after the count is added.

    Examples
    --------
    >>> from pbdist import Laplace, NoisyCount, privacy_bounds
    >>> noise = NoisyCount(noise=Laplace(770.0), mean=13_000.0, shift=2)
    >>> found = privacy_bounds(noise, compositions=8192, epsilon=0.7)
    >>> bool(found.delta_lower.item() <= found.delta_upper.item() < 1.002 * found.delta_lower.item())
    True
    """

    does = (
        "A count is seen to which a whole, never negative number of noise messages was added; the number comes from a"
        " draw of Laplace or Gaussian noise about a mean, real-valued or whole-numbered."
    )
    assumes = (
        "One individual's action raises the count by at most the shift. The observer may know everybody else's share"
        " of it. The number of noise messages is drawn afresh and independently in every round, and not known to the"
        " observer."
    )

    noise_parameters = ("mean", "noise")

    noise: AdditiveNoise | WholeNoise = parameter(
        _NOISE,
        "the noise before it is made a count",
        aliases=SPREADS,
        hint="the scale belongs to the noise: noise: {kind: Laplace, scale: ..}",
        example=Laplace(400.0),
        sized=True,
    )
    mean: float = parameter(real, "the mean of the noise", unit="counts", example=[4000.0, 8000.0])
    shift: int = parameter(
        whole(1, _LARGEST_COUNT), "by how much the counts of neighbouring inputs differ", unit="counts", example=2
    )
    reading: str = parameter(
        one_of(*READINGS), "the way in which a draw becomes a number of messages", default=CLAMP_AND_CEIL
    )

    def check(self) -> None:
        """Refuse noise that is no plain noise of messages, a mean that is not whole where it must be, and too much."""
        if (isinstance(self.noise, AdditiveNoise) and self.noise.truncate is not None) or self.noise.sensitivity != 1:
            raise InvalidInputError(
                f"NoisyCount.noise: expected noise without truncation or sensitivity (the shift is"
                f" the sensitivity), got {shown(self.noise)}"
            )
        if self._whole and not self.mean.is_integer():
            raise InvalidInputError(
                f"NoisyCount.mean: expected a whole number with discrete noise, got {shown(self.mean)}"
            )
        if max(abs(self.mean), self.noise.scale) > _LARGEST_COUNT:
            raise InvalidInputError(
                f"NoisyCount.mean: expected a mean and a scale of at most {_LARGEST_COUNT:g} messages,"
                f" got {shown(self.mean)} and {self.noise.scale!r}"
            )
        # Half of the draws are at least the mean.
        if self.mean < 0.0 and self._remaining() < SMALLEST_REMAINDER:
            raise InvalidInputError(
                f"NoisyCount.mean: expected noise that is at least 0 with a probability"
                f" of {SMALLEST_REMAINDER:g} or more, got {shown(self.mean)}"
            )
        first, last = self._own_loss_counts()
        if last - first > MAX_OUTCOMES:
            raise InvalidInputError(
                f"NoisyCount.noise: expected a scale that leaves at most {MAX_OUTCOMES} counts,"
                f" got {self.noise.scale!r}"
            )

    def cost_class(self) -> tuple[float, ...]:
        """The mean in whole scales of the noise, up to where more of them reveal no less."""
        return (min(int(self.mean / self.noise.scale), _MAX_SCALES),)

    @property
    def cost_stand_in(self) -> ElementaryPair:
        """The noise before it is made a count, real-valued, with the shift as its sensitivity."""
        make = Laplace if isinstance(self.noise, Laplace | DiscreteLaplace) else cut_gaussian
        return make(self.noise.scale, float(self.shift))

    @classmethod
    def tried_together(cls, grids: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
        """None where half of the noise remains and few counts are left, whatever the combination; else all.

        A mean m with a reach t leaves at most ⌈m + t⌉ - ⌊m - t⌋ + shift counts, and a negative mean is the only one
        that may leave too little. All noises of an entry are of one class, for which a mean is whole enough or not.
        """
        reach = max(
            0.0 if isinstance(noise, Laplace | DiscreteLaplace) else _GAUSSIAN_REACH * noise.scale + 1.0
            for noise in grids["noise"]
        )
        most = 2.0 * reach + float(max(grids["shift"])) + _MORE_COUNTS
        return () if most <= MAX_OUTCOMES and float(min(grids["mean"])) >= 0.0 else ("noise", "mean", "shift")

    @property
    def outcomes(self) -> int:
        """The counts that have a loss of their own."""
        first, last = self._own_loss_counts()
        return last - first

    @property
    def expected_count(self) -> float:
        """E[N], in messages: the average cost of the noise in a round; about 12 digits, not a certified bound.

        Of real-valued noise: Σ over k >= 0 of P(N > k). That is Σ over k >= 0 of P(X > k) where X is clamped and
        rounded up (for ``"shift-inside"``: the N of A), and Σ over k >= 1 of P(X >= k), divided by P(X >= 0), where it
        is redrawn and rounded down. Of discrete noise: E max(0, X), divided by P(X >= 0) where X is redrawn.
        """
        if isinstance(self.noise, WholeNoise):
            mean = mean_of_positive_part(self.noise, self.mean)
            return mean / self._remaining() if self.reading == REDRAW_AND_FLOOR else mean
        whole = self._tails_from_one()
        return whole / self._remaining() if self.reading == REDRAW_AND_FLOOR else whole + self._remaining()

    def always_reveals(self, direction: Direction) -> bool:
        """Totals below the shift occur under A alone."""
        return self.reading != SHIFT_INSIDE and direction is Direction.A_TO_B

    def log_faint_moment(self, tilt: float, direction: Direction) -> float:
        """Of the tail of Gaussian noise (Theorem 20 of docs/theory.md)."""
        noise = self.noise
        if not isinstance(noise, Gaussian) or self.always_reveals(direction):
            return math.inf
        if self.shift > self.mean:
            return math.inf
        scale, shift = noise.scale, float(self.shift)
        # The loss at a distance y from the mean of P_B's noise, on the far side of P_A's, is s (2y - s) / (2 scale²).
        ratio = shift / scale
        loss = _FAR * ratio - 0.5 * ratio * ratio
        loss -= 1e-9 * (1.0 + abs(loss))
        moment = Gaussian(scale, shift).log_tail_moment(tilt, loss, Direction.A_TO_B)
        remaining = self._remaining()
        clamped = float(noise.interval(np.full(1, -np.inf), np.zeros(1), self.mean)[0][0])
        if self.reading == "clamp-and-ceil" and clamped <= _CLEAR:
            if clamped > _FAINT:
                return math.inf
            moment = float(np.logaddexp(moment, math.log(_FAINT) + tilt * math.log1p(scale / _FAR) + 1e-6))
        return moment - math.log(remaining) + 1e-6

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """One atom a count; the two stretches of constant loss (Laplace, discrete or not) are one atom each."""
        first, last = self._own_loss_counts()
        draws = np.arange(first, last, dtype=np.float64) + self._first_draw()
        a_ends, b_ends = self._irregular_atom()
        known_loss = np.full(a_ends.shape[0] + draws.size, np.nan)
        if self._whole:
            known_loss[a_ends.shape[0] :] = self._losses_of_draws(draws if self._ends_below else draws + 1.0)
        regular = np.stack((draws, draws + 1.0), axis=1)
        if self._is_laplace:
            stretches = self._constant_stretches(first, last)
            regular = np.concatenate((regular, stretches[:, :2]))
            known_loss = np.concatenate((known_loss, stretches[:, 2]))
        draws_a, draws_b = np.concatenate((a_ends, regular)), np.concatenate((b_ends, regular - self.shift))
        mass_a, error_a = self._mass(draws_a[:, 0], draws_a[:, 1])
        mass_b, error_b = self._mass(draws_b[:, 0], draws_b[:, 1])

        tails = 0.0 if self._is_laplace else 4.0 * SMALLEST_MASS
        revealed = self._revealing_mass()
        return masses_of_outcomes(
            edges,
            np.concatenate((mass_a, revealed[0])),
            np.concatenate((mass_b, np.zeros_like(revealed[0]))),
            error_a=np.concatenate((error_a, revealed[1])),
            error_b=np.concatenate((error_b, np.zeros_like(revealed[1]))),
            known_loss=np.concatenate((known_loss, np.full_like(revealed[0], np.nan))),
            further_a=tails,
            further_b=tails,
        )

    @property
    def _whole(self) -> bool:
        """Whether every draw is a whole number."""
        return not isinstance(self.noise, AdditiveNoise)

    @property
    def _is_laplace(self) -> bool:
        """Whether the loss is constant where the draws of A and B lie on one side of the mean."""
        return isinstance(self.noise, Laplace | DiscreteLaplace)

    @property
    def _ends_below(self) -> bool:
        """Whether an interval of draws has its lower end, and not its upper one: where X is rounded down."""
        return self.reading == REDRAW_AND_FLOOR

    def _losses_of_draws(self, draw: FloatArray) -> FloatArray:
        """Return the losses of counts of one whole draw of A each, off by 3u: whole numbers of this size are exact."""
        distance, scale = draw - self.mean, self.noise.scale
        if self._is_laplace:
            return np.asarray((np.abs(distance - self.shift) - np.abs(distance)) / scale)
        return np.asarray(0.5 * (self.shift * (self.shift - 2.0 * distance)) / (scale * scale))

    def _remaining(self) -> float:
        """Mass of the draws of at least 0."""
        lower, upper = np.zeros(1), np.full(1, np.inf)
        return float(self.noise.interval(lower, upper, self.mean)[0][0])

    def _tails_from_one(self) -> float:
        """Σ over k >= 1 of P(X >= k)."""
        mean, scale = self.mean, self.noise.scale
        if isinstance(self.noise, Laplace):
            # Two geometric series with ratio e^(-1/scale), which meet at the mean.
            below = max(math.floor(mean), 0)
            missing = 0.5 * math.exp((below - mean) / scale) * -math.expm1(-below / scale) if below else 0.0
            above = 0.5 * math.exp((mean - below - 1.0) / scale)
            return below + (above - missing) / -math.expm1(-1.0 / scale)
        if scale < _SMOOTH_SCALE:
            first = max(math.floor(mean - _GAUSSIAN_REACH * scale), 0)
            last = max(math.ceil(mean + _GAUSSIAN_REACH * scale), 0)
            counts = np.arange(first + 1, last + 1, dtype=np.float64)
            return first + float((special.ndtr((mean - counts) / scale)).sum())
        # Euler and Maclaurin's formula at the midpoints; Gaussian tails leave e^(-2 π² scale²) of it.
        start = (0.5 - mean) / scale
        density = math.exp(-0.5 * start * start) / math.sqrt(2.0 * math.pi)
        integral = scale * (density - start * float(special.ndtr(-start)))
        return integral - density / (24.0 * scale) + 7.0 / 5760.0 * (start * start - 1.0) * density / scale**3

    def _first_draw(self) -> float:
        """Return the lower end of the unit interval of draws that A turns into the first regular count.

        A count is regular where A's draws are a unit interval and B's are the same interval `shift` lower.
        """
        return 0.0 if self.reading == SHIFT_INSIDE else float(self.shift)

    def _own_loss_counts(self) -> tuple[int, int]:
        """Return the range [first, last), counted from the first regular count, in which every count has its own loss.

        Under Laplace noise the loss is constant where the draws of A and B lie on one side of the mean; Gaussian noise
        is left out beyond 38 standard deviations.
        """
        # One count more on either side: mean and reach may differ by more than float64 resolves.
        reach = 0.0 if self._is_laplace else _GAUSSIAN_REACH * self.noise.scale + 1.0
        first = math.floor(self.mean - reach) - int(self._first_draw())
        last = math.ceil(self.mean + reach) + self.shift - int(self._first_draw())
        return max(first, 0), max(last, 0)

    def _constant_stretches(self, first: int, last: int) -> FloatArray:
        """Return rows (lower and upper end of A's draws, loss in nats) of the stretches on either side of the mean."""
        start, step = self._first_draw(), self.shift / self.noise.scale
        rows = np.array([[start, start + first, step], [start + last, np.inf, -step]])
        return rows[rows[:, 0] < rows[:, 1]]

    def _irregular_atom(self) -> tuple[FloatArray, FloatArray]:
        """Return the draws of A and of B that make the count just below the regular ones, if both can make it."""
        shift = float(self.shift)
        if self.reading == CLAMP_AND_CEIL:
            return np.array([[shift - 1.0, shift]]), np.array([[-np.inf, 0.0]])
        if self.reading == SHIFT_INSIDE:
            return np.array([[-np.inf, 0.0]]), np.array([[-np.inf, -shift]])
        return np.zeros((0, 2)), np.zeros((0, 2))

    def _revealing_mass(self) -> tuple[FloatArray, FloatArray]:
        """Return the mass, with its relative error, of the counts that only A can show: those below the shift."""
        if self.reading == SHIFT_INSIDE:
            return np.zeros(0), np.zeros(0)
        below = np.array([float(self.shift - 1 if self.reading == CLAMP_AND_CEIL else self.shift)])
        above = np.array([-np.inf if self.reading == CLAMP_AND_CEIL else 0.0])
        return self._mass(above, below)

    def _mass(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mass of draws in [lower, upper] and a bound on its relative error; for redrawing, given that X >= 0.

        Of whole draws one end is left out: see `_ends_below`.
        """
        mass, error = self._draws(lower, upper)
        # No outcome is impossible: a mass that underflows must not become 0.
        mass = np.maximum(mass, SMALLEST_FLOAT)
        if self.reading == REDRAW_AND_FLOOR:
            remaining, remaining_error = self._draws(np.zeros(1), np.full(1, np.inf))
            mass, error = mass / remaining, error + remaining_error + 2.0 * UNIT_ROUNDOFF
        return mass, error

    def _draws(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mass of draws in [lower, upper], of whole ones without one end, and a bound on its relative error."""
        if isinstance(self.noise, AdditiveNoise):
            return self.noise.interval(lower, upper, self.mean)[:2]
        if self._ends_below:
            return self.noise.interval(lower, upper - 1.0, self.mean)
        return self.noise.interval(lower + 1.0, upper, self.mean)
