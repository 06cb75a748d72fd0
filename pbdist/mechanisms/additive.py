"""Laplace and Gaussian noise added to a query: the pair N(0), N(sensitivity)."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import validation
from pbdist.mechanisms.intervals import gaussian_interval, laplace_interval
from pbdist.mechanisms.pair import ElementaryPair, LossMasses
from pbdist.mechanisms.rounding import UNIT_ROUNDOFF, MassBounds
from pbdist.types import FloatArray

__all__ = ["AdditiveNoise", "Gaussian", "Laplace"]


@dataclass(frozen=True)
class AdditiveNoise(ElementaryPair):
    """Noise of a symmetric unimodal density added to the true answer: A is centred at 0, B at the sensitivity.

    The loss falls along the outcome x, so that a loss cell is an interval of x: its masses are integrals over the same
    float64 end points for A and for B. That the end points are rounded only moves the edges of the cells, by
    at most the ``loss_error`` that comes with the masses.
    """

    scale: float
    sensitivity: float = 1.0
    truncate: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        object.__setattr__(self, "scale", validation.size(name, "scale", self.scale))
        object.__setattr__(self, "sensitivity", validation.size(name, "sensitivity", self.sensitivity))
        object.__setattr__(self, "truncate", validation.truncation(name, self.truncate))
        if self.truncate is not None and self._interval(*self.truncate)[0] < validation.SMALLEST_KEPT:
            raise InvalidInputError(
                f"{name}.truncate: expected an interval that holds at least {validation.SMALLEST_KEPT:g}"
                f" of the noise, got {self.truncate!r}"
            )

    @property
    def symmetric(self) -> bool:
        """True: the reflection of x exchanges A and B, unless an asymmetric truncation forbids it."""
        return self.truncate is None or self.truncate[0] == -self.truncate[1]

    @abstractmethod
    def interval(self, lower: FloatArray, upper: FloatArray, mean: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, and a bound on its relative error."""

    @abstractmethod
    def _loss(self, x: FloatArray) -> FloatArray:
        """Return the loss at x, with a relative error of at most 6u, constant parts included."""

    @abstractmethod
    def _location(self, loss: FloatArray) -> FloatArray:
        """Return the x at which the strictly falling part of the loss has the given value."""

    @abstractmethod
    def _falling_range(self) -> tuple[float, float]:
        """Return the interval of x outside which the loss is constant, the constant parts being atoms."""

    def _interval(self, lower: float, upper: float, mean: float = 0.0) -> tuple[float, float]:
        mass, error = self.interval(np.array([lower]), np.array([upper]), mean)
        return float(mass[0]), float(error[0])

    def _mass(self, lower: FloatArray, upper: FloatArray, mean: float) -> MassBounds:
        """Mass of [lower, upper] under the noise as truncated about `mean`; empty intervals have none."""
        present = lower < upper
        mass, error = self.interval(np.where(present, lower, mean), np.where(present, upper, mean), mean)
        if self.truncate is not None:
            kept, kept_error = self._interval(*self.truncate)
            mass, error = mass / kept, error + kept_error + 2.0 * UNIT_ROUNDOFF
        return MassBounds.around(mass, error, occupied=present)

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of the spread events, of the atoms at the constant losses, and of what truncation tears apart."""
        s = self.sensitivity
        left, right, only_a, only_b = self._common_support()
        low, high = (max(bound, left) for bound in self._falling_range())
        low, high = min(low, right), min(high, right)
        at_edges = self._location(edges)
        ends = np.clip(np.concatenate(([np.inf], at_edges, [-np.inf])), low, high)
        ends = np.minimum.accumulate(ends)
        inside = (at_edges > low) & (at_edges < high)
        computed = self._loss(at_edges[inside])
        # An edge that falls outside by rounding alone is off by no more than its own rounding.
        borders = self._loss(np.array([x for x in (low, high, 0.0, s) if math.isfinite(x)]))
        loss_error = max(
            float(np.max(np.abs(computed - edges[inside]) + 8.0 * UNIT_ROUNDOFF * np.abs(computed), initial=0.0)),
            32.0 * UNIT_ROUNDOFF * float(np.max(np.abs(borders))),
        )

        starts, stops = np.array([left, high]), np.array([low, right])
        nonempty = starts < stops
        starts, stops = starts[nonempty], stops[nonempty]
        atom_loss = self._loss(np.array([-np.inf, np.inf]))[nonempty]
        return LossMasses(
            cells_a=self._mass(ends[1:], ends[:-1], 0.0),
            cells_b=self._mass(ends[1:], ends[:-1], s),
            atom_loss=atom_loss,
            atoms_a=self._mass(starts, stops, 0.0),
            atoms_b=self._mass(starts, stops, s),
            only_a=only_a,
            only_b=only_b,
            loss_error=loss_error,
        )

    def _common_support(self) -> tuple[float, float, MassBounds, MassBounds]:
        """Return where both distributions live, and the masses that only A, or only B, has.

        The border s + low may fall between two floats. The common support is then taken one float inside, and the
        sliver between counts as A's own and as B's own in the upper values and as nobody's in the lower ones.
        """
        if self.truncate is None:
            return -np.inf, np.inf, MassBounds.zeros(1), MassBounds.zeros(1)
        s, (low, high) = self.sensitivity, self.truncate
        border, end = s + low, s + high
        if border >= high:
            everything = MassBounds.around(1.0, 16.0 * UNIT_ROUNDOFF)
            return high, high, everything, everything
        left = border if _sum_is_exact(s, low) else math.nextafter(border, math.inf)
        inside = border if left == border else math.nextafter(border, -math.inf)
        outer_end = end if _sum_is_exact(s, high) else math.nextafter(end, math.inf)
        inner_end = end if outer_end == end else math.nextafter(end, -math.inf)

        def enclosed(smallest: tuple[float, float], largest: tuple[float, float], mean: float) -> MassBounds:
            least = self._mass(np.array([smallest[0]]), np.array([smallest[1]]), mean)
            most = self._mass(np.array([largest[0]]), np.array([largest[1]]), mean)
            return MassBounds(least.lower.copy(), most.upper.copy())

        only_a = enclosed((low, inside), (low, left), 0.0)
        only_b = enclosed((high, inner_end), (high, outer_end), s)
        sliver_b = enclosed((left, left), (inside, left), s).upper
        return left, high, only_a, MassBounds(only_b.lower.copy(), only_b.upper + sliver_b)


def _sum_is_exact(x: float, y: float) -> bool:
    """Whether x + y is a float (Knuth's two-sum has no remainder)."""
    total = x + y
    part = total - x
    return (x - (total - part)) + (y - part) == 0.0


@dataclass(frozen=True)
class Laplace(AdditiveNoise):
    """Laplace noise: A = Lap(0, scale), B = Lap(sensitivity, scale).

    Parameters
    ----------
    scale : float
        Scale of the noise, above 0; its standard deviation is √2 times as large.
    sensitivity : float, optional
        How far one individual moves the answer, above 0.
    truncate : (float, float), optional
        Each distribution is cut to [mean + low, mean + high] and made a distribution again (Meiser & Mohammadi 2018,
        section 5.1).

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """

    def interval(self, lower: FloatArray, upper: FloatArray, mean: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, and a bound on its relative error."""
        return laplace_interval(lower, upper, self.scale, mean)

    def _loss(self, x: FloatArray) -> FloatArray:
        s = self.sensitivity
        clipped = np.clip(x, 0.0, s)
        return (s - 2.0 * clipped) / self.scale

    def _location(self, loss: FloatArray) -> FloatArray:
        return 0.5 * (self.sensitivity - self.scale * loss)

    def _falling_range(self) -> tuple[float, float]:
        return 0.0, self.sensitivity


@dataclass(frozen=True)
class Gaussian(AdditiveNoise):
    """Gaussian noise: A = N(0, scale²), B = N(sensitivity, scale²).

    Parameters
    ----------
    scale : float
        Standard deviation of the noise, above 0.
    sensitivity : float, optional
        How far one individual moves the answer, above 0.
    truncate : (float, float), optional
        Each distribution is cut to [mean + low, mean + high] and made a distribution again (Meiser & Mohammadi 2018,
        section 5.2).

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """

    def interval(self, lower: FloatArray, upper: FloatArray, mean: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, and a bound on its relative error."""
        return gaussian_interval(lower, upper, self.scale, mean)

    def _loss(self, x: FloatArray) -> FloatArray:
        s = self.sensitivity
        return (s / self.scale) * ((s - 2.0 * x) / self.scale) * 0.5

    def _location(self, loss: FloatArray) -> FloatArray:
        s = self.sensitivity
        return 0.5 * s - self.scale * (self.scale / s) * loss

    def _falling_range(self) -> tuple[float, float]:
        return -np.inf, np.inf
