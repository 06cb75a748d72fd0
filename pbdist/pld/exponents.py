"""Exponents of δ: the cumulants of a round's loss at many tilts, and saddle points from them. Nothing here is a bound.

At the saddle point θ of ε, rK'(θ) = ε, δ is about e^{F} / (1 + θ(1+θ)√(2πV)) with F = rK(θ) - θε and V = rK''(θ);
adding a variance v to the loss, P_A and P_B masses kept, moves ln δ by at most about v (θ(θ+1) + 1/V + 1/√V) / 2. Of
the direction B||A the loss is -L under B, with the cumulants K(-1-θ).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.pld.profile import LossProfile
from pbdist.types import Direction, FloatArray

__all__ = ["Exponents", "SaddlePoints"]

#: Saddle points are looked for at these.
_TILTS: FloatArray = np.concatenate(([0.0], np.geomspace(1e-4, 1e4, 81)))
#: How often leaps are looked at closer, from what part of them that is not smooth, into how many parts, and how many.
_REFINEMENTS, _LEAP, _PARTS, _MOST_LEAPS = 3, 0.3, 8, 8
#: Frequencies at which a characteristic function is looked at, and by what factor more are kept than are estimated.
_PLACES, _MORE = 48, 2.0
#: Part of the distance to the floor by which ln δ of what lies below it may be wrong.
_OF_FLOOR = 0.2


@dataclass(frozen=True, eq=False)
class SaddlePoints:
    """Of some ε after a number of rounds; arrays of shape (E,).

    Attributes
    ----------
    epsilon, tilt, variance : ndarray
        ε, nats; θ >= 0 and V.
    slope : ndarray
        rK'(θ) - ε: above 0 where no tilt is needed.
    exponent, log_delta : ndarray
        F, and about ln δ.
    told : ndarray of bool
        Whether the losses reach that far.
    """

    epsilon: FloatArray
    tilt: FloatArray
    variance: FloatArray
    slope: FloatArray
    exponent: FloatArray
    log_delta: FloatArray
    told: FloatArray

    @property
    def excess(self) -> FloatArray:
        """About ln(e^F / δ)."""
        z = self.tilt * np.sqrt(self.variance)
        result: FloatArray = np.log1p(z * z) - 0.5 * np.minimum(np.log(self.variance), 0.0) + 1.0
        return result

    def sharpness(self, tolerance: float, floor: float) -> float:
        """By how much a unit of added variance moves ln δ, at most about, relative to how well it is to be known.

        Of what lies below the floor, it need only be proved.
        """
        if not self.told.any():
            return 0.0
        tilt, variance = self.tilt, self.variance
        allowed = np.maximum(tolerance, _OF_FLOOR * (math.log(floor) - self.log_delta))
        sharp = 0.5 * (tilt * (tilt + 1.0) + 1.0 / variance + 1.0 / np.sqrt(variance)) / allowed
        return float(np.max(sharp[self.told.astype(bool)]))


class Exponents:
    """Cumulants of a round in one direction, at increasing tilts.

    Parameters
    ----------
    profiles : sequence of (LossProfile, int)
        The pairs of a round, and how often each occurs in it.
    direction : Direction
    means : (float, float)
        The least and the largest mean of a round that is asked for, nats.
    """

    def __init__(
        self, profiles: Sequence[tuple[LossProfile, int]], direction: Direction, means: tuple[float, float]
    ) -> None:
        self._profiles, self._sign = profiles, 1.0 if direction is Direction.A_TO_B else -1.0
        self._tilts, sums = _TILTS, self._sums(_TILTS)
        for _ in range(_REFINEMENTS):
            between = self._between(sums, *means)
            if not between.size:
                break
            tilts = np.concatenate((self._tilts, between))
            order = np.argsort(tilts, kind="stable")
            sums = np.concatenate((sums, self._sums(between)), axis=1)[:, order]
            self._tilts = tilts[order]
        self._k, self._variance = sums[0], sums[2]
        # Rounding must not turn them round.
        self._mean = np.maximum.accumulate(sums[1])
        #: By how much the mean would rise between two tilts, if it rose evenly.
        self._smooth = 0.5 * (self._variance[1:] + self._variance[:-1]) * np.diff(self._tilts)
        #: Σ E D⁴/24 for the difference D of two losses of a leaf.
        self._fourth = sums[3]

    def _sums(self, tilts: FloatArray) -> FloatArray:
        sums = np.zeros((4, tilts.size))
        for profile, count in self._profiles:
            if profile.loss.size:
                sums += count * np.stack(profile.moments(self._theta(tilts)))
        sums[1] *= self._sign
        sums[2:] = np.maximum(sums[2:], 1e-300)
        return sums

    def _between(self, sums: FloatArray, least: float, largest: float) -> FloatArray:
        """Return tilts where the mean leaps from what is usual to what is rare."""
        steps, mean = np.diff(self._tilts), sums[1]
        smooth = 0.5 * (sums[2, 1:] + sums[2, :-1]) * steps
        leaps = np.diff(mean)
        matters = (mean[:-1] < largest) & (mean[1:] > least)
        worst = np.flatnonzero(matters & (np.abs(leaps - smooth) > _LEAP * np.maximum(leaps, smooth)))
        if worst.size > _MOST_LEAPS:
            ratio = mean[1:][worst] / np.maximum(mean[:-1][worst], 0.1 * least + 1e-300)
            worst = worst[np.argsort(ratio, kind="stable")[-_MOST_LEAPS:]]
        parts = np.arange(1.0, _PARTS) / _PARTS
        return (self._tilts[worst][:, None] + steps[worst][:, None] * parts).ravel()

    def saddle_points(self, rounds: int, epsilon: FloatArray) -> SaddlePoints:
        """Return those of some ε after a number of rounds."""
        x = epsilon / rounds
        mean, tilts = self._mean, self._tilts
        place = np.clip(np.searchsorted(mean, x), 1, tilts.size - 1) - 1
        low, high = mean[place], mean[place + 1]
        width = tilts[place + 1] - tilts[place]
        with np.errstate(divide="ignore", invalid="ignore"):
            # The mean rises by factors where it leaps, and evenly about 0.
            even = np.abs(self._smooth[place] - (high - low)) <= _LEAP * (high - low)
            rate = np.where((low > 0.0) & (high > low) & ~even, np.log(high / low), 0.0)
            grown = np.where(rate > 1e-6, np.log(x / low) / rate, (x - low) / (high - low))
            part = np.clip(np.nan_to_num(grown, nan=0.0), 0.0, 1.0)
            reached = np.where(rate > 1e-6, low * np.exp(rate * part), low + part * (high - low))
            area = np.where(rate > 1e-6, width * (reached - low) / rate, 0.5 * part * width * (low + reached))
        at_zero = x <= mean[0]
        tilt = np.where(at_zero, 0.0, tilts[place] + part * width)
        variance = np.maximum(rounds * np.interp(tilt, tilts, self._variance), 1e-280)
        exponent = np.where(at_zero, rounds * self._k[0], rounds * (self._k[place] + area - tilt * x))
        slope = np.where(at_zero, rounds * self._mean[0] - epsilon, 0.0)
        log_delta = exponent - np.log1p(tilt * (1.0 + tilt) * np.sqrt(2.0 * math.pi * variance))
        return SaddlePoints(epsilon, tilt, variance, slope, exponent, log_delta, x < mean[-1])

    def deepest(self, rounds: int, log_floor: float) -> float:
        """Return about the ε at which δ is e^`log_floor` after some rounds; the largest loss if there is none."""
        variance = np.maximum(rounds * self._variance, 1e-280)
        tail = np.log1p(self._tilts * (1.0 + self._tilts) * np.sqrt(2.0 * math.pi * variance))
        log_delta = rounds * (self._k - self._tilts * self._mean) - tail
        if log_delta[-1] >= log_floor:
            return float(rounds * self._mean[-1])
        return float(rounds * np.interp(-log_floor, -np.minimum.accumulate(log_delta), self._mean))

    @property
    def usual_variance(self) -> float:
        """Variance of a round's loss, without a tilt."""
        return float(self._variance[0])

    def surviving(self, rounds: int, tilt: float, log_outside: float, spacing: float) -> float:
        """Return about how many frequencies are left of so many rounds, on a lattice of a spacing; infinite if all are.

        What the lowest moments do not tell is read off the characteristic function at some places.
        """
        second, fourth = (float(np.interp(tilt, self._tilts, values)) for values in (self._variance, self._fourth))
        budget = math.log(8.0) - log_outside
        window = 2.0 * math.sqrt(2.0 * budget * rounds * second)
        cut = math.sqrt(budget / (0.3749 * rounds * second))
        if cut * cut > 0.25 * second / fourth:
            places = np.geomspace(cut, math.pi / spacing, _PLACES)
            left = np.zeros(places.size)
            for profile, count in self._profiles:
                if profile.loss.size:
                    left += count * rounds * profile.log_characteristic(self._theta(tilt), places)
            above = np.flatnonzero(left > log_outside - 2.0)
            if above.size and above[-1] == places.size - 1:
                return math.inf
            cut = float(places[above[-1] + 1]) if above.size else cut
        # Windows are somewhat wider than they would have to be.
        return _MORE * cut * window / (2.0 * math.pi)

    def _theta(self, tilt: FloatArray | float) -> Any:
        """The tilt of A||B."""
        return tilt if self._sign > 0.0 else -1.0 - tilt
