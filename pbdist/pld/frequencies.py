"""Sums over frequencies: powers of transforms, the kernel of δ, and what the sums are off by.

Sections 13 and 14 of ``docs/pld.md`` prove the errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.loss_transform import TransformLine
from pbdist.types import ComplexArray, FloatArray

__all__ = ["FrequencySums", "Powers"]

_U = UNIT_ROUNDOFF
#: Frequencies that are summed together.
_BLOCK = 32


class Powers:
    """Powers of transforms at all frequencies, but for Gaussian mechanisms, relative to e^{log_scale}.

    Parameters
    ----------
    lines : sequence of (TransformLine, bool, int)
        Of a round, on the line of the tilt.
    number : int
        r.
    variance : float
        Of the losses of all Gaussian mechanisms, of all rounds together.
    tilt, spacing : float
        The points are `tilt` + i `spacing` n.
    size : int
        Number of frequencies, from 0 on.
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
        self._exponent: ComplexArray = np.zeros(size, dtype=np.complex128)
        self._doubt, self._log_scale, self.exponents = np.zeros(size), 0.0, 0.0
        for line, forward, count in lines:
            power = float(number * count)
            logarithm, doubt = line.logarithms(spacing, size)
            logarithm = logarithm + 1j * (line.smallest_loss * self._t)
            self._exponent += power * (logarithm if forward else np.conj(logarithm))
            # |Π (a + e) - Π a| <= Π (|a| + |e|) - Π |a|
            self._doubt += power * (doubt + 8.0 * _U * abs(line.smallest_loss) * self._t)
            self._log_scale += power * line.log_scale
            self.exponents += power * line.log_scale_size
        # What lies beyond all frequencies.
        last = float(self._t[-1])
        self._log_beyond = sum(number * count * line.log_largest(last) for line, _, count in lines)
        self._scaled()

    def _scaled(self) -> None:
        """Divide by the value at t = 0: no power is larger than that."""
        largest = float(self._exponent[0].real)
        self._exponent -= largest
        self._log_scale += largest
        self._log_beyond -= largest
        self.exponents += abs(largest)

    def sums(self, ratio: float) -> "FrequencySums":
        """Sums over all frequencies, with a mechanism of ratio s composed in."""
        tilt, t, spacing = self._tilt, self._t, self._spacing
        variance = ratio * ratio + self._variance
        turn = (0.5 * variance * (1.0 + 2.0 * tilt)) * t
        exponent = self._exponent + 1j * turn - 0.5 * variance * t * t
        point = tilt + 1j * t
        kernel = point * (point + 1.0)
        terms = np.exp(exponent) / kernel
        sizes = np.abs(terms)
        doubt = self._doubt + 8.0 * _U * (8.0 + np.abs(exponent) + turn)
        with np.errstate(over="ignore", under="ignore"):
            certain = sizes * np.expm1(np.minimum(doubt, 1.0))
            off = np.where(doubt < 1.0, certain, np.exp(exponent.real + doubt) / np.abs(kernel))
        # Of t -> -t are the conjugates.
        terms[0] *= 0.5
        last = float(t[-1])
        # Σ over t > T of e^{-v t²/2} / t², by the integral.
        beyond = math.exp(min(max(self._log_beyond - 0.5 * variance * last * last, -700.0), 700.0))
        beyond *= 2.02 / (spacing * last) / max(1.0, variance * last * last)
        return FrequencySums(
            self._log_scale + 0.5 * variance * (tilt + tilt * tilt),
            spacing,
            terms,
            2.02 * float(off.sum()) + beyond,
            (float(sizes.sum()), float(np.sum(sizes * t))),
        )


@dataclass(frozen=True, eq=False)
class FrequencySums:
    """Σ of terms e^{-itε} over all frequencies, of both signs, per period; relative to e^{log_scale}."""

    log_scale: float
    spacing: float
    terms: ComplexArray
    error: float
    moments: tuple[float, float]

    def at(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums at some ε, and what they are off by."""
        # e^{-i t ε} = e^{-i t' ε} e^{-i t'' ε}, t' a multiple of so many spacings.
        blocks = -(-self.terms.size // _BLOCK)
        padded = np.zeros(blocks * _BLOCK, dtype=np.complex128)
        padded[: self.terms.size] = self.terms
        near, far = (
            np.exp(-1j * np.multiply.outer(self.spacing * places, epsilon))
            for places in (np.arange(_BLOCK), _BLOCK * np.arange(blocks))
        )
        # Not by a library whose sums may depend on the number of its threads; the outer sum by pairs.
        inner = np.einsum("fn,ne->fe", padded.reshape(blocks, _BLOCK), near)
        value = 2.0 * np.sum(np.ascontiguousarray((inner * far).real.T), axis=1)
        total, first = self.moments
        error = self.error + _U * ((4.0 * _BLOCK + 64.0) * total + 16.0 * np.abs(epsilon) * first)
        period = 2.0 * math.pi / self.spacing
        return value / period, 1.01 * error / period
