r"""A soft cut between large losses and usual ones, analytic in the outcome, and with its error.

S(y) = Φ((y - c) / b) is the part of an outcome's mass that counts as a large loss, 1 - S that of usual ones. On a line
y + ia of the complex plane both are at most e^{a²/(2b²)} times as large as at y: section 15 of ``docs/pld.md``.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, wofz

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["SoftCut"]

_U = UNIT_ROUNDOFF
#: Largest Im y of the strip that is used, relative to b.
_STRIP = 4.0
#: w(z) = e^{-z²} erfc(-iz) is taken to be known to this; it is said to be known to 10^-13 (Johnson, Faddeeva package).
_ERROR = 2e-13
#: Nats by which a part's term has fallen where it is not looked at any more.
_FALLEN = 60.0


@dataclass(frozen=True)
class SoftCut:
    """One of the two parts.

    Attributes
    ----------
    outcome : float
        c, in deviations of the noise; from 0 to 60.
    blur : float
        b, at most 1/2.
    large : bool
        Whether it is the part of large losses.
    """

    outcome: float
    blur: float
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
        error = _ERROR + 8.0 * _U * np.abs(z) ** 2
        tail = np.exp(np.minimum(log_tail.real, 0.5 * height * height + 1.0) + 1j * log_tail.imag)
        rest = np.where(below, 1.0, 1.0 - tail)
        size = np.maximum(np.abs(rest), 1e-300)
        result = np.where(below, log_tail, np.log(np.where(size > 1e-300, rest, 1e-300)))
        return result.real, result.imag, np.where(below, error, (np.abs(tail) * error + 4.0 * _U) / size)
