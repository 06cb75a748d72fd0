"""Gaussian noise added to a query."""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms.additive import AdditiveNoise
from pbdist.mechanisms.intervals import gaussian_interval, scaled_gaussian_interval
from pbdist.mechanisms.rounding import UNIT_ROUNDOFF
from pbdist.mechanisms.tails import log_moment_of_tail, picture_points, rounded_up
from pbdist.types import Direction, FloatArray

__all__ = ["Gaussian"]


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

    def loss_picture(self, target: float) -> tuple[FloatArray, FloatArray] | None:
        """Equally spaced losses with the density of N(v/2, v), v = (sensitivity / scale)²; none with truncation."""
        ratio = self.sensitivity / self.scale
        variance = ratio * ratio
        points = picture_points(-0.5 * variance - target, 0.5 * variance + target, ratio)
        if self.truncate is not None or points is None:
            return None
        return points, -((points - 0.5 * variance) ** 2) / (2.0 * variance)

    def interval(
        self, lower: FloatArray, upper: FloatArray, mean: float | FloatArray = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, and a bound on its relative error."""
        return gaussian_interval(lower, upper, self.scale, mean)

    def scaled_interval(
        self, lower: FloatArray, upper: FloatArray, mean: float | FloatArray = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass, its relative error, and the logarithm of a factor that the mass is to be multiplied by."""
        return scaled_gaussian_interval(lower, upper, self.scale, mean)

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
        that divided by what is kept, and the losses are bounded.
        """
        ratio = self.sensitivity / self.scale
        value = log_moment_of_tail(tilt, 0.5 * ratio * ratio, ratio, loss)
        if self.truncate is None:
            return value
        kept, kept_error = self._kept
        within = value - math.log(kept) + 2.0 * kept_error + 16.0 * UNIT_ROUNDOFF * (1.0 + abs(math.log(kept)))
        return min(rounded_up(within), super().log_tail_moment(tilt, loss, direction))
