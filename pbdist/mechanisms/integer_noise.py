"""Whole-numbered noise added to a whole-numbered query: discrete Laplace and discrete Gaussian."""

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import Laplace, cut_gaussian
from pbdist.mechanisms.declaration import (
    LOSSES,
    SPREADS,
    mechanism,
    parameter,
    parametrised,
    positive,
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
