"""Noise added to a real-valued query: Laplace, Gaussian, the sum of two Laplace noises, and staircase noise."""

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.declaration import (
    LOSSES,
    SMALLEST_REMAINDER,
    SPREADS,
    Domain,
    between,
    checked_number,
    limits,
    mechanism,
    parameter,
    parametrised,
    positive,
    sensitivity_of,
    times_above,
    two_positive,
)
from pbdist.mechanisms.masses import (
    BEYOND,
    SMALLEST_FLOAT,
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
    drop_unresolved,
    gaussian_interval,
    laplace_interval,
    log_moment_of_tail,
    picture_values,
    rounded_up,
    split_off,
)
from pbdist.mechanisms.pair import BoundedPair, NoiseOrder, ScaledPair, in_order, ordered
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
        return MassBounds.around(mass, error, occupied=True if occupied.all() else occupied), log_scale

    @cached_property
    def _outermost(self) -> tuple[float, float, FloatArray, FloatArray, FloatArray, float, MassBounds, MassBounds]:
        """Where the loss falls, where atoms begin and end, their losses, the largest, and what one input has alone."""
        left, right, only_a, only_b = self._common_support()
        low, high = (min(max(bound, left), right) for bound in self._falling_range())
        starts, stops = np.array([left, high]), np.array([low, right])
        nonempty = starts < stops
        atom_loss = self._loss(np.array([-np.inf, np.inf])[nonempty])
        largest = float(np.abs(self._loss(np.array([low, high]))).max())
        return low, high, starts[nonempty], stops[nonempty], atom_loss, largest, only_a, only_b

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        means = np.array([[0.0], [self.sensitivity]])
        low, high, starts, stops, atom_loss, largest_found, only_a, only_b = self._outermost
        ends = np.concatenate(([np.inf], self._location(edges), [-np.inf]))
        if math.isfinite(low) or math.isfinite(high):
            np.minimum(np.maximum(ends, low), high, out=ends)
        bins, atoms = slice(edges.size + 1), slice(edges.size + 1, None)
        starts, stops = np.concatenate((ends[1:], starts)), np.concatenate((ends[:-1], stops))
        found, log_scale = self._mass(starts, stops, means, scaled=scaled)
        # Edges beyond the losses that occur matter only where rounding alone puts them there.
        largest = max(abs(float(edges[0])), abs(float(edges[-1]))) if edges.size else 0.0
        masses = LossMasses(
            bins_a=found.row(0, bins),
            bins_b=found.row(1, bins),
            atom_loss=atom_loss,
            atoms_a=found.row(0, atoms),
            atoms_b=found.row(1, atoms),
            only_a=only_a,
            only_b=only_b,
            loss_error=self._location_error(min(largest, 1.01 * largest_found))
            + 6.0 * UNIT_ROUNDOFF * float(np.abs(atom_loss).max(initial=0.0)),
        )
        return ScaledLossMasses(masses, *(log_scale[row, part] for part in (bins, atoms) for row in (0, 1)))

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


#: Outcomes beyond this have no mass that any float tells: they are at least 1e230 scales away.
_FARTHEST = 1e260
#: From this κ on the outermost events count as atoms.
_LARGE_GAP = 32.0
#: A picture: how many scales it reaches beyond 0 and the sensitivity, its outcomes there on either side, and its
#: outcomes between them for each scale, at least and at most.
_REACH, _OUTSIDE = 60.0, 200
_PER_SCALE, _FEWEST_INSIDE, _MAX_INSIDE = 10.0, 150, 800
#: Steps of Newton's method, at most; it ends where a loss is within so many u of the largest one.
_MAX_STEPS, _CLOSE = 40, 4.0


@mechanism
class LaplaceSum(ScaledPair, BoundedPair):
    """Two independent Laplace noises, of which only the sum is seen: A = N, B = N + sensitivity, N = N1 + N2.

    That is what an observer sees of the sum of two noisy values that move together, by the sensitivity in all. The loss
    falls along the outcome, from below sensitivity / (the larger scale) to above minus that, and the pair dominates
    every smaller shift (Theorem 32 of docs/theory.md).

    Examples
    --------
    >>> from pbdist import Laplace, LaplaceSum, Product, privacy_bounds
    >>> both = Product(Laplace(20.0, 2.0), Laplace(10.0, 1.0))
    >>> summed, apart = (
    ...     privacy_bounds(pair, compositions=100, epsilon=1.0).delta_upper.item()
    ...     for pair in (LaplaceSum((20.0, 10.0), 3.0), both)
    ... )
    >>> summed < apart
    True
    """

    noise_family = "LaplaceSum"
    does = "Two answers have Laplace noise each, and only their sum is seen."
    assumes = (
        "The observer sees the sum alone, never one of the two values; one individual moves the sum by at most the"
        " sensitivity."
    )

    noise_parameters = ("scales",)

    checked_together = ("scales",)
    symmetric = True

    scales: tuple[float, float] = parameter(
        two_positive,
        "the scales of the two noises, the larger one first",
        unit="counts",
        aliases=(*SPREADS, "scale"),
        hint=f"scales are two numbers, each as of a Laplace: {LAPLACE_SCALE}",
        example=[(20.0, 10.0), (40.0, 20.0)],
        columns=("scale", "second_scale"),
    )
    sensitivity: float = sensitivity_of("by how much one record moves the answer")

    def check(self) -> None:
        """Put the larger scale first."""
        object.__setattr__(self, "scales", (max(self.scales), min(self.scales)))

    @property
    def order(self) -> NoiseOrder | None:
        """By both scales in sensitivities."""
        return ordered(self, LaplaceSum, *(Fraction(scale) / Fraction(self.sensitivity) for scale in self.scales))

    def moved(self, times: int) -> "LaplaceSum":
        """With so many times the sensitivity."""
        return replace(self, sensitivity=times_above(self.sensitivity, times))

    def loss_picture(self, target: float, beyond: float = BEYOND) -> tuple[FloatArray, FloatArray] | None:  # noqa: ARG002
        """Losses at outcomes that lie denser towards 0 and the sensitivity; none where the masses have atoms.

        So the losses next to the bound on all of them are seen, which decide δ at large ε.
        """
        if self._gap >= _LARGE_GAP:
            return None
        largest, dense = self._largest, 1.0 + self._gap
        outside = self.scales[0] / dense * np.expm1(np.linspace(0.0, math.log1p(_REACH * dense), _OUTSIDE))
        count = min(max(math.ceil(_PER_SCALE * largest), _FEWEST_INSIDE), _MAX_INSIDE)
        inside = self.sensitivity * np.linspace(0.0, 1.0, count)[1:-1]
        x = np.concatenate((-outside[::-1], inside, self.sensitivity + outside))
        ends = np.concatenate(([-np.inf], 0.5 * (x[1:] + x[:-1]), [np.inf]))
        mass, _, log_scale = self.interval(ends[:-1], ends[1:], scaled=True)
        log_mass = (np.log(np.maximum(mass, SMALLEST_FLOAT)) + log_scale)[::-1]
        # Losses that rounding makes equal are one.
        loss = np.maximum.accumulate(self._loss(x)[::-1])
        first = np.flatnonzero(np.append(True, np.diff(loss) > 0.0))
        return loss[first], np.logaddexp.reduceat(log_mass, first)

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """That of the widest noise alone: the others only process it."""
        return rounded_up(self.sensitivity / max(self.scales))

    def keeps_order(self, edges: FloatArray) -> bool:
        """Whether the end points fall, and the outermost ones are the same if their edges are given alone."""
        return in_order(lambda some: -self._location(some), edges)

    def _largest_loss(self, direction: Direction) -> float:  # noqa: ARG002
        return rounded_up(self._largest)

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        means = np.array([[0.0], [self.sensitivity]])
        ends = self._location(edges)
        # Rounding must not let neighbouring bins overlap.
        np.minimum.accumulate(ends, out=ends)
        low, high, atom_error = self._spread_range()
        loss_error = max(self._loss_error(edges, ends), atom_error)
        ends = np.clip(np.concatenate(([np.inf], ends, [-np.inf])), low, high)
        mass, error, log_scale = self.interval(ends[1:], ends[:-1], means, scaled=scaled)
        occupied = ends[1:] < ends[:-1]
        bins = MassBounds.around(mass, error, occupied=True if occupied.all() else occupied)
        atoms, atoms_log_scale = MassBounds(np.zeros((2, 0)), np.zeros((2, 0))), np.zeros((2, 0))
        atom_loss = np.zeros(0)
        if math.isfinite(low):
            atom_loss = np.array([self._largest, -self._largest])
            starts, stops = np.array([-np.inf, high]), np.array([low, np.inf])
            mass, error, atoms_log_scale = self.interval(starts, stops, means, scaled=scaled)
            atoms = MassBounds.around(mass, error)
        masses = LossMasses(
            bins_a=bins.row(0),
            bins_b=bins.row(1),
            atom_loss=atom_loss,
            atoms_a=atoms.row(0),
            atoms_b=atoms.row(1),
            loss_error=loss_error,
        )
        return ScaledLossMasses(masses, log_scale[0], log_scale[1], atoms_log_scale[0], atoms_log_scale[1])

    def _spread_range(self) -> tuple[float, float, float]:
        """Return the interval of x whose events are spread over bins, and a bound on the error of the atoms' losses.

        The events beyond it have losses so near the bound on all of them that they count as an atom there. They have
        much mass only where the second scale is far below the first one; elsewhere all events are spread.
        """
        if self._gap < _LARGE_GAP:
            return -math.inf, math.inf, 0.0
        nearly = np.array([self._largest * (1.0 - 64.0 * UNIT_ROUNDOFF)])
        low = -self.scales[0] * self._outer(nearly)
        missed = float(np.abs(self._loss(low) - self._largest)[0])
        return float(low[0]), float(self.sensitivity - low[0]), 1.01 * missed + 66.0 * UNIT_ROUNDOFF * self._largest

    @property
    def _largest(self) -> float:
        """The bound s / b1 on all losses, rounded: the limit at x = -∞."""
        return self.sensitivity / self.scales[0]

    @property
    def _gap(self) -> float:
        """κ = (b1 - b2) / b2, off by 2u relatively, however close the scales b1 ≥ b2 are."""
        return (self.scales[0] - self.scales[1]) / self.scales[1]

    def _rise(self, t: FloatArray) -> FloatArray:
        """Return E(t) = (1 - e^(-κt)) / κ, which is t for κ = 0."""
        gap = self._gap
        return t if gap == 0.0 else -np.expm1(-gap * t) / gap

    def interval(
        self, lower: FloatArray, upper: FloatArray, mean: FloatArray | float = 0.0, *, scaled: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass of [lower, upper] under N about `mean`, a bound on its relative error, and the log of its factor.

        Theorem 32 of docs/theory.md: on one side of the mean the mass is ½ e^-t D. ``lower <= upper``, infinite ones
        allowed. With `scaled` factors below e^-600 are separated from their masses; a mass so small that float64 does
        not resolve its exponent is then given as 0.
        """
        scale = self.scales[0]
        lower, upper = np.clip(lower, -_FARTHEST, _FARTHEST), np.clip(upper, -_FARTHEST, _FARTHEST)
        low, high = (lower - mean) / scale, (upper - mean) / scale
        distance = np.maximum(np.maximum(low, -high), 0.0)
        exponent = -distance
        log_scale = split_off(exponent, scaled)
        drop, error = self._drop(distance, (upper - lower) / scale)
        mass = 0.5 * np.exp(exponent) * drop
        straddles = (low < 0.0) & (high > 0.0)
        if straddles.any():
            # On either side the mass from the mean on.
            here = np.zeros(int(np.count_nonzero(straddles)))
            parts = [self._drop(here, width)[0] for width in (-low[straddles], high[straddles])]
            mass[straddles] = 0.5 * (parts[0] + parts[1])
        error += 3.0 * UNIT_ROUNDOFF * distance
        if scaled:
            drop_unresolved(mass, error, log_scale)
        return mass, error, log_scale

    def _drop(self, t: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return D of Theorem 32, and the error of ½ e^-t D but for the part that grows with t.

        D = (1 - c) (1 - e^-v) (1 + E(t)) + c e^(-κt) (1 - e^-v - e^-v E(v)) with c = b2 / (b1 + b2).
        """
        first, second = self.scales
        with np.errstate(over="ignore"):
            rise, fall, steep = 1.0 + self._rise(t), np.exp(-self._gap * t), -np.expm1(-v)
            rest = steep - np.exp(-v) * self._rise(v)
        drop: FloatArray = first / (first + second) * steep * rise + second / (first + second) * fall * rest
        error: FloatArray = (44.0 + 52.0 * (second / first) * (fall / rise)) * UNIT_ROUNDOFF
        return drop, error

    def _loss(self, x: FloatArray) -> FloatArray:
        """Return the loss at finite x, off by at most 64 u s / b1: Theorem 32 of docs/theory.md."""
        s, scale = self.sensitivity, self.scales[0]
        nearer = np.where(x <= 0.5 * s, np.abs(x), np.abs(s - x))
        further = np.minimum(np.abs(s - 2.0 * x), s)
        return np.where(x <= 0.5 * s, 1.0, -1.0) * self._size(nearer / scale, further / scale)

    def _size(self, y: FloatArray, d: FloatArray) -> FloatArray:
        """Return d - ln(1 + e^(-κy) E(d) / (1 + E(y))): the size of a loss, of distances y and y + d in scales."""
        with np.errstate(over="ignore"):
            size: FloatArray = d - np.log1p(np.exp(-self._gap * y) * self._rise(d) / (1.0 + self._rise(y)))
        return size

    def _loss_error(self, edges: FloatArray, ends: FloatArray) -> float:
        """Bound how far the exact losses at the end points that were used lie from the edges, where there are losses.

        The losses at finite end points are computed again; beyond infinite ones there are none, and all losses are
        smaller in size than s / b1.
        """
        if edges.size == 0:
            return 0.0
        finite = np.isfinite(ends)
        missed = np.maximum(self._largest - np.abs(edges), 0.0)
        missed[finite] = np.abs(self._loss(ends[finite]) - edges[finite])
        return 1.01 * float(missed.max()) + 66.0 * UNIT_ROUNDOFF * self._largest

    def _location(self, edges: FloatArray) -> FloatArray:
        """Return about the x of the losses, infinite from the bound on all losses on; `_loss_error` tells how near."""
        size, largest = np.abs(edges), self._largest
        # The loss at x = 0; it is 0 at half the sensitivity, and the rest is the mirror image.
        middle = max(float(self._size(np.zeros(1), np.array([largest]))[0]), 0.0)
        inner, outer = size <= middle, (size > middle) & (size < largest)
        x = np.full(size.shape, -np.inf)
        x[inner] = self.scales[0] * self._inner(size[inner], middle)
        x[outer] = -self.scales[0] * self._outer(size[outer])
        return np.where(edges < 0.0, self.sensitivity - x, x)

    def _outer(self, size: FloatArray) -> FloatArray:
        """Solve s / b1 - ln(1 + e^(-κy) E(s / b1) / (1 + E(y))) = `size` for the distance y below 0, in scales."""
        gap, whole = self._gap, float(self._rise(np.array([self._largest]))[0])
        rest = np.expm1(self._largest - size)
        with np.errstate(over="ignore"):
            grown = np.maximum(whole - rest, 0.0) / rest
            return grown if gap == 0.0 else np.log1p(gap / (1.0 + gap) * grown) / gap

    def _inner(self, size: FloatArray, middle: float) -> FloatArray:
        """Solve for the distance y between 0 and half the sensitivity, in scales, by Newton's method.

        The size of the loss is concave in y and falls from `middle` to 0: from the first step on the values come from
        above. Each one ends by itself, so that it does not depend on the others.
        """
        largest, gap = self._largest, self._gap
        half = 0.5 * largest
        y = half * (1.0 - size / middle) if middle > 0.0 else np.full(size.shape, half)
        left = np.arange(size.size)
        for _ in range(_MAX_STEPS):
            now = y[left]
            excess = self._size(now, largest - 2.0 * now) - size[left]
            going = np.abs(excess) > _CLOSE * UNIT_ROUNDOFF * largest
            left, now, excess = left[going], now[going], excess[going]
            if not left.size:
                break
            near, far = self._rise(now), self._rise(largest - now)
            slope = (1.0 + gap) * (near / (1.0 + near) + far / (1.0 + far))
            y[left] = np.clip(now + excess / slope, 0.0, half)
        return y


#: Above the largest ε a step would be next to float64's smallest numbers, and such noise hides nothing.
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-30, 500.0


def _checked_split(owner: str, name: str, value: Any) -> float | None:
    share = None if value is None else checked_number(owner, name, value)
    if share is not None and not 0.0 < share < 1.0:
        raise InvalidInputError(f"{owner}.{name}: expected a number between 0 and 1, got {shown(value)}")
    return share


@mechanism
class Staircase(BoundedPair):
    """Staircase noise N on a real-valued query: A = N, B = N + sensitivity (Geng & Viswanath 2015).

    The density of N is even. With the sensitivity s it is a on [0, split · s), a e^-ε on [split · s, (1 + split) s),
    a e^-2ε on the next stretch of length s, and so on. Of all noise that makes a query ε-differentially private, one of
    this shape has the least cost, if the cost grows with the size of N alone.

    The pair has the losses ε, 0 and -ε only, and it dominates every smaller shift (Theorem 31 of docs/theory.md). They
    do not depend on the sensitivity; the cost does. The default split 1 / (1 + e^(ε/2)) has the least mean size of N
    (the same authors).

    Examples
    --------
    >>> from pbdist import Staircase, privacy_bounds
    >>> noise = Staircase(1.0)
    >>> round(noise.split, 4), round(noise.mean_absolute_noise, 4), round(noise.noise_variance, 4)
    (0.3775, 0.9595, 1.9197)
    >>> privacy_bounds(noise, compositions=1, epsilon=1.0).delta_upper.item() < 1e-12
    True
    """

    noise_family = "Staircase"
    does = "Staircase noise is added to an answer that is a number."
    assumes = "One individual moves the answer by at most the sensitivity; the noise is a real number."

    noise_parameters = ("epsilon", "split")
    checked_together = ()
    symmetric = True

    epsilon: float = parameter(
        between(_SMALLEST_EPSILON, _LARGEST_EPSILON),
        "the ε of one round, which says how much noise there is",
        unit="nats",
        aliases=SPREADS,
        example=[0.01, 0.1],
        falls_with_noise=True,
    )
    sensitivity: float = sensitivity_of("by how much one record moves the answer")
    split: float = parameter(
        Domain(_checked_split),
        "the place in a stretch of one sensitivity where the density of the noise falls",
        default=None,
    )

    def check(self) -> None:
        """Choose the split where none is given."""
        given: Any = self.split
        if given is None:
            half = math.exp(-0.5 * self.epsilon)
            object.__setattr__(self, "split", half / (1.0 + half))

    @property
    def mean_absolute_noise(self) -> float:
        """E abs(N), not rounded outwards: s (q / (1 - q) + (g² + q (1 - g²)) / (2D)), D = g + q (1 - g), g the split.

        q is e^-ε. With the default split it is s e^(ε/2) / (e^ε - 1).
        """
        q, rest = self._ratio
        second = self._moment_of_first_stretch(2)
        return self.sensitivity * (q / rest + second / (2.0 * self._steps))

    @property
    def noise_variance(self) -> float:
        """E N², not rounded outwards: s² (q (1 + q) / (1 - q)² + q m₂ / ((1 - q) D) + m₃ / (3D)).

        m_k is g^k + q (1 - g^k); q, g and D are those of the mean.
        """
        q, rest = self._ratio
        second, third = self._moment_of_first_stretch(2), self._moment_of_first_stretch(3)
        far = q * (1.0 + q) / rest**2
        return self.sensitivity**2 * (far + q / rest * second / self._steps + third / (3.0 * self._steps))

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Atoms at exactly ε, 0 and -ε, without that at 0 if the split is 1/2.

        Masses: Theorem 31 of docs/theory.md. q = e^-ε and 1 - q (`expm1`) are off by 8u, D = g + q (1 - g) by 11u, the
        numerator of the mass of ε by 10u, and no mass by more than 31u, as all terms are positive. What underflows in
        2g (1 - q) is below 1e-100 q.
        """
        q, rest = self._ratio
        twice = 2.0 * self.split
        if twice <= 1.0:
            above, level = (twice * rest + q) / (2.0 * self._steps), (1.0 - twice) * q * rest / (2.0 * self._steps)
        else:
            above, level = 1.0 / (2.0 * self._steps), (twice - 1.0) * rest / (2.0 * self._steps)
        loss, masses = np.array([self.epsilon, 0.0, -self.epsilon]), np.array([above, level, above * q])
        occurring = masses > 0.0
        atoms = MassBounds.around(masses[occurring], 40.0 * UNIT_ROUNDOFF)
        return LossMasses.of_atoms(edges, loss[occurring], atoms, atoms.reversed())

    def _largest_loss(self, direction: Direction) -> float:  # noqa: ARG002
        return self.epsilon

    @property
    def _ratio(self) -> tuple[float, float]:
        """The ratio q = e^-ε between steps, and 1 - q."""
        return math.exp(-self.epsilon), -math.expm1(-self.epsilon)

    @property
    def _steps(self) -> float:
        """D = g + q (1 - g): the mass of the first stretch over that of a density that does not fall in it."""
        return self.split + self._ratio[0] * (1.0 - self.split)

    def _moment_of_first_stretch(self, order: int) -> float:
        power = self.split**order
        return power + self._ratio[0] * (1.0 - power)
