"""Laplace noise added to a query."""

from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms.additive import AdditiveNoise
from pbdist.mechanisms.intervals import laplace_interval, scaled_laplace_interval
from pbdist.mechanisms.rounding import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["Laplace"]


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

    def interval(
        self, lower: FloatArray, upper: FloatArray, mean: float | FloatArray = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Mass of [lower, upper] under the untruncated noise of that mean, and a bound on its relative error."""
        return laplace_interval(lower, upper, self.scale, mean)

    def scaled_interval(
        self, lower: FloatArray, upper: FloatArray, mean: float | FloatArray = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass, its relative error, and the logarithm of a factor that the mass is to be multiplied by."""
        return scaled_laplace_interval(lower, upper, self.scale, mean)

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
