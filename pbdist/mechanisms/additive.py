"""Laplace and Gaussian noise added to a query: the pair N(0), N(sensitivity) for a symmetric unimodal noise N."""

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.declaration import (
    LOSSES,
    SMALLEST_REMAINDER,
    SPREADS,
    limits,
    mechanism,
    parameter,
    parametrised,
    positive,
    sensitivity_of,
    times_above,
)
from pbdist.mechanisms.masses import (
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
    gaussian_interval,
    laplace_interval,
    rounded_up,
)
from pbdist.mechanisms.pair import BoundedPair, NoiseOrder, ScaledPair, ordered
from pbdist.mechanisms.tails import BEYOND, log_moment_of_tail, picture_values
from pbdist.types import Direction, FloatArray

#: What the scale of Laplace noise is, for those who know it by another name.
LAPLACE_SCALE = "scale is b of the density e^(-|x| / b) / (2 b): the variance is 2 b², the standard deviation √2 b"


@parametrised
class AdditiveNoise(ScaledPair, BoundedPair):
    """Noise of a symmetric unimodal density added to the true answer: A is centred at 0, B at the sensitivity.

    The loss falls along the outcome x, so that a bin is an interval of x: its masses are integrals over the same
    float64 end points for A and for B. Rounded end points only move the edges of the bins, by at most the
    ``loss_error`` that comes with the masses.
    """

    checked_together = ("scale", "truncate")

    scale: float = parameter(positive, "the scale of the noise", unit="counts", example=[20.0, 40.0, 80.0], sized=True)
    sensitivity: float = sensitivity_of("by how much one record moves the answer")
    truncate: tuple[float, float] | None = parameter(
        limits,
        "the limits about its mean at which the noise is cut",
        default=None,
        unit="counts",
        columns=("truncate_low", "truncate_high"),
    )

    def check(self) -> None:
        """Refuse a truncation that leaves hardly any noise."""
        if self.truncate is not None and not self._leaves_enough(*self.truncate):
            raise InvalidInputError(
                f"{type(self).__name__}.truncate: expected an interval that holds at least {SMALLEST_REMAINDER:g}"
                f" of the noise, got {self.truncate!r}"
            )

    def _leaves_enough(self, low: float, high: float) -> bool:
        """Whether enough noise remains: half of it or more does within one scale of the mean."""
        if low <= -self.scale and self.scale <= high:
            return True
        return self._interval(low, high)[0] >= SMALLEST_REMAINDER

    def moved(self, times: int) -> "AdditiveNoise | None":
        """With so many times the sensitivity, but for truncated noise."""
        return self.of_group(times) if self.truncate is None else None

    def of_group(self, times: int) -> "AdditiveNoise":
        """With so many times the sensitivity."""
        return replace(self, sensitivity=times_above(self.sensitivity, times))

    @property
    def symmetric(self) -> bool:
        """True: the reflection of x exchanges A and B, unless an asymmetric truncation forbids it."""
        return self.truncate is None or self.truncate[0] == -self.truncate[1]

    @abstractmethod
    def interval(
        self, lower: FloatArray, upper: FloatArray, mean: float | FloatArray = 0.0, *, scaled: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, its relative error, and its log factor."""

    @abstractmethod
    def _loss(self, x: FloatArray) -> FloatArray:
        """Return the loss at x, with a relative error of at most 6u, constant parts included."""

    @abstractmethod
    def _location(self, loss: FloatArray) -> FloatArray:
        """Return the x at which the strictly falling part of the loss has the given value.

        The computed values never rise with the loss: a constant minus a constant times the loss, as each rounding keeps
        the order.
        """

    @abstractmethod
    def _location_error(self, largest_loss: float) -> float:
        """Bound, in nats, on the difference between a loss up to that size and the loss at its computed location."""

    @abstractmethod
    def _falling_range(self) -> tuple[float, float]:
        """Return the interval of x outside which the loss is constant; the constant parts are atoms."""

    def _interval(self, lower: float, upper: float, mean: float = 0.0) -> tuple[float, float]:
        mass, error, _ = self.interval(np.array([lower]), np.array([upper]), mean)
        return float(mass[0]), float(error[0])

    @cached_property
    def _remaining(self) -> tuple[float, float]:
        """Mass inside the truncation, and a bound on its relative error."""
        return (1.0, 0.0) if self.truncate is None else self._interval(*self.truncate)

    def _mass(
        self, lower: FloatArray, upper: FloatArray, mean: FloatArray, *, scaled: bool = False
    ) -> tuple[MassBounds, FloatArray]:
        """Mass of [lower, upper] under the noise as truncated about each mean, ``lower <= upper``, and log factors."""
        mass, error, log_scale = self.interval(lower, upper, mean, scaled=scaled)
        if self.truncate is not None:
            remaining, remaining_error = self._remaining
            mass /= remaining
            error += remaining_error + 2.0 * UNIT_ROUNDOFF
        occupied = lower < upper
        return MassBounds.around(mass, error, occupied=True if np.all(occupied) else occupied), log_scale

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        means = np.array([[0.0], [self.sensitivity]])
        left, right, only_a, only_b = self._common_support()
        low, high = (min(max(bound, left), right) for bound in self._falling_range())
        ends = np.concatenate(([np.inf], self._location(edges), [-np.inf]))
        if math.isfinite(low) or math.isfinite(high):
            np.clip(ends, low, high, out=ends)
        bins, log_scale = self._mass(ends[1:], ends[:-1], means, scaled=scaled)

        starts, stops = np.array([left, high]), np.array([low, right])
        nonempty = starts < stops
        atom_loss = self._loss(np.array([-np.inf, np.inf])[nonempty])
        atoms, atoms_log_scale = self._mass(starts[nonempty], stops[nonempty], means, scaled=scaled)
        # Edges beyond the losses that occur matter only where rounding alone puts them there.
        largest = max(abs(float(edges[0])), abs(float(edges[-1]))) if edges.size else 0.0
        largest_found = float(np.max(np.abs(self._loss(np.array([low, high])))))
        masses = LossMasses(
            bins_a=bins.row(0),
            bins_b=bins.row(1),
            atom_loss=atom_loss,
            atoms_a=atoms.row(0),
            atoms_b=atoms.row(1),
            only_a=only_a,
            only_b=only_b,
            loss_error=self._location_error(min(largest, 1.01 * largest_found))
            + 6.0 * UNIT_ROUNDOFF * float(np.max(np.abs(atom_loss), initial=0.0)),
        )
        return ScaledLossMasses(masses, log_scale[0], log_scale[1], atoms_log_scale[0], atoms_log_scale[1])

    def _largest_loss(self, direction: Direction) -> float:
        """Upper bound on the finite losses of a direction; -inf if there are none."""
        left, right, _, _ = self._common_support()
        if left >= right:
            return -math.inf
        forwards = direction is Direction.A_TO_B
        loss = float(self._loss(np.array([left if forwards else right]))[0])
        return rounded_up(loss if forwards else -loss)

    def _common_support(self) -> tuple[float, float, MassBounds, MassBounds]:
        """Return the common support, and the masses that only A, or only B, has.

        With s the sensitivity, A has the support [low, high], B [s + low, s + high], both [s + low, high].

        Whether they meet at all is decided exactly. If not, each has its whole mass, 1, for itself alone. If they do,
        s + low may still lie between two floats. The common support then begins one float further inside, and may be
        empty; the sliver between counts as A's own and as B's own in the upper values, as nobody's in the lower ones.
        """
        if self.truncate is None:
            return -np.inf, np.inf, MassBounds.zeros(1), MassBounds.zeros(1)
        s, (low, high) = self.sensitivity, self.truncate
        if Fraction(s) + Fraction(low) >= Fraction(high):
            everything = MassBounds(np.ones(1), np.ones(1))
            return high, high, everything, everything
        inside, left = _enclosed_sum(s, low)
        left = min(left, high)
        inner_end, outer_end = _enclosed_sum(s, high)
        # Bounds on what only A has; bounds on what only B has; the sliver.
        lower = np.array([low, low, high, high, inside])
        upper = np.array([inside, left, inner_end, outer_end, left])
        masses, _ = self._mass(lower, np.maximum(lower, upper), np.array([0.0, 0.0, s, s, s]))
        only_a = MassBounds(masses.lower[0:1], masses.upper[1:2])
        return left, high, only_a, MassBounds(masses.lower[2:3], masses.upper[3:4] + masses.upper[4:5])


@mechanism
class Laplace(AdditiveNoise):
    """Laplace noise: A = Lap(0, scale), B = Lap(sensitivity, scale).

    Examples
    --------
    >>> from pbdist import Laplace, epsilon_bounds
    >>> found = epsilon_bounds(Laplace(scale=40.0), compositions=100, delta=0.0)
    >>> round(found.epsilon_upper.item(), 6)  # pure differential privacy: 100 times 1/40
    2.5
    """

    aliases = ("exponential", "laplacian")
    noise_family = "Laplace"
    does = "Laplace noise is added to an answer that is a number."
    assumes = (
        "One individual moves the answer by at most the sensitivity. The noise is a real number, drawn afresh and"
        " independently in every round, and not known to the observer. An implementation with floating-point numbers"
        " is not this mechanism exactly."
    )

    scale: float = parameter(
        positive,
        "the scale b of the noise, whose density is e^(-|x| / b) / (2 b)",
        unit="counts",
        aliases=(*SPREADS, *LOSSES),
        hint=f"{LAPLACE_SCALE}; for the ε of one round it is sensitivity / ε",
        example=[20.0, 40.0, 80.0],
        sized=True,
    )

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity; none with truncation."""
        if self.truncate is not None:
            return None
        return ordered(self, Laplace, Fraction(self.scale) / Fraction(self.sensitivity))

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Sensitivity / scale, but for truncated noise, of which the masses tell."""
        return rounded_up(self.sensitivity / self.scale) if self.truncate is None else None

    def log_moment_above(self, tilt: float) -> float | None:
        """Of ((1 + t) e^(tx) + t e^(-(1 + t) x)) / (1 + 2t), x = sensitivity / scale, but for truncated noise."""
        if self.truncate is not None:
            return None
        size = self.sensitivity / self.scale
        power = tilt * size
        return power + math.log1p(-tilt * -math.expm1(-size - 2.0 * power) / (1.0 + 2.0 * tilt)) + _rounding(power)

    def interval(
        self, lower: FloatArray, upper: FloatArray, mean: float | FloatArray = 0.0, *, scaled: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, its relative error, and its log factor."""
        return laplace_interval(lower, upper, self.scale, mean, scaled=scaled)

    def _loss(self, x: FloatArray) -> FloatArray:
        s = self.sensitivity
        clipped = np.clip(x, 0.0, s)
        return (s - 2.0 * clipped) / self.scale

    def _location(self, loss: FloatArray) -> FloatArray:
        return 0.5 * (self.sensitivity - self.scale * loss)

    def _location_error(self, largest_loss: float) -> float:
        # scale · loss and the difference each round once; the slope is 2 / scale.
        return (2.1 * largest_loss + 1.1 * self.sensitivity / self.scale) * UNIT_ROUNDOFF

    def _falling_range(self) -> tuple[float, float]:
        return 0.0, self.sensitivity


@mechanism
class Gaussian(AdditiveNoise):
    """Gaussian noise: A = N(0, scale²), B = N(sensitivity, scale²).

    Examples
    --------
    >>> from pbdist import Gaussian, epsilon_bounds
    >>> found = epsilon_bounds(Gaussian(scale=40.0, sensitivity=1.0), compositions=100, delta=1e-6)
    >>> round(found.epsilon_lower.item(), 6), round(found.epsilon_upper.item(), 6)
    (1.060702, 1.060702)
    """

    aliases = ("normal", "gauss")
    noise_family = "Gaussian"
    does = "Gaussian noise is added to an answer that is a number, or to a vector."
    assumes = (
        "One individual moves the answer by at most the sensitivity (of a vector: in its Euclidean length). The noise"
        " is a real number, drawn afresh and independently in every round, and not known to the observer. An"
        " implementation with floating-point numbers is not this mechanism exactly."
    )

    scale: float = parameter(
        positive,
        "the standard deviation of the noise",
        unit="counts",
        aliases=SPREADS,
        hint="scale is the standard deviation, the square root of the variance",
        example=[20.0, 40.0, 80.0],
        sized=True,
    )

    @property
    def gaussian_ratio(self) -> float | None:
        """Sensitivity / scale, but for truncated noise."""
        return self.sensitivity / self.scale if self.truncate is None else None

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity; none with truncation."""
        if self.truncate is not None:
            return None
        return ordered(self, Gaussian, Fraction(self.scale) / Fraction(self.sensitivity))

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite, but for truncated noise, of which the masses tell."""
        return math.inf if self.truncate is None else None

    def renyi_divergence(self, alpha: float) -> tuple[float, float] | None:
        """α s² / (2 scale²), but for truncated noise (Theorem 13 of docs/theory.md)."""
        if self.truncate is not None:
            return None
        exact = float(Fraction(alpha) * (Fraction(self.sensitivity) / Fraction(self.scale)) ** 2 / 2)
        return math.nextafter(exact, 0.0), math.nextafter(exact, math.inf)

    def loss_picture(self, target: float, beyond: float = BEYOND) -> tuple[FloatArray, FloatArray] | None:
        """Equally spaced losses with the density of N(v/2, v), v = (sensitivity / scale)²; none with truncation."""
        ratio = self.sensitivity / self.scale
        variance = ratio * ratio
        losses = picture_values(-0.5 * variance - target, 0.5 * variance + target, ratio, beyond)
        if self.truncate is not None or losses is None:
            return None
        return losses, -((losses - 0.5 * variance) ** 2) / (2.0 * variance)

    def interval(
        self, lower: FloatArray, upper: FloatArray, mean: float | FloatArray = 0.0, *, scaled: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, its relative error, and its log factor."""
        return gaussian_interval(lower, upper, self.scale, mean, scaled=scaled)

    def _loss(self, x: FloatArray) -> FloatArray:
        s = self.sensitivity
        return (s / self.scale) * ((s - 2.0 * x) / self.scale) * 0.5

    def _location(self, loss: FloatArray) -> FloatArray:
        s = self.sensitivity
        return 0.5 * s - self.scale * (self.scale / s) * loss

    def _location_error(self, largest_loss: float) -> float:
        # The product has three roundings, the difference one; the slope is s / scale².
        return (4.1 * largest_loss + 0.6 * (self.sensitivity / self.scale) ** 2) * UNIT_ROUNDOFF

    def _falling_range(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞].

        Untruncated, L ~ N(v/2, v) under A for v = (sensitivity / scale)², in both directions. Truncated, P_A is at most
        that divided by the mass that remains, and the losses are bounded.
        """
        ratio = self.sensitivity / self.scale
        value = log_moment_of_tail(tilt, 0.5 * ratio * ratio, ratio, loss)
        if self.truncate is None:
            return value
        remaining, remaining_error = self._remaining
        within = value - math.log(remaining) + 2.0 * remaining_error
        within += 16.0 * UNIT_ROUNDOFF * (1.0 + abs(math.log(remaining)))
        return min(rounded_up(within), super().log_tail_moment(tilt, loss, direction))


def _enclosed_sum(x: float, y: float) -> tuple[float, float]:
    """Return the largest float that is at most x + y, and the smallest that is at least it."""
    total = x + y
    error = Fraction(total) - (Fraction(x) + Fraction(y))
    lower = total if error <= 0 else math.nextafter(total, -math.inf)
    upper = total if error >= 0 else math.nextafter(total, math.inf)
    return lower, upper


def _rounding(power: float) -> float:
    """Return what pays for the roundings of a moment's logarithm; a logarithm of at least 1/2 adds at most 16u."""
    return 32.0 * UNIT_ROUNDOFF * (1.0 + power)


#: Where a stand-in for noise of whole numbers is cut, in standard deviations, so that it has no closed form.
_CUT = 37.0


def cut_gaussian(scale: float, sensitivity: float) -> Gaussian:
    """Return Gaussian noise that costs about as much as noise of whole numbers with the same standard deviation."""
    return Gaussian(scale, sensitivity, (-_CUT * scale, _CUT * scale))
