"""Powers of transforms at all frequencies, and δ as a sum over them, with bounds on the errors.

Sections 13 to 15 of ``docs/pld.md`` prove the errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.transform_line import TransformLine
from pbdist.types import ComplexArray, FloatArray

_U = UNIT_ROUNDOFF
#: Frequencies that are summed together.
_BLOCK = 32
#: More than the error of a difference of floats that have lost digits by underflow.
_FAINT = 1e-299
#: Largest relative part of the large losses in a transform for which differences are computed.
_LARGEST_PART = 0.9


class Powers:
    """r-th powers of the transforms at `tilt` + i `spacing` n, n < `size`, relative to e^{log_scale}.

    `lines` are the transforms of a round on the line of the tilt. `sums` multiplies Gaussian mechanisms in: `variance`
    is that of their losses in all rounds together.
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


class Differences(Powers):
    """P^n - U^n = P^n (1 - (1 - V / P)^n) at all frequencies; `part` is V, the transform of large losses."""

    def __init__(
        self,
        part: TransformLine,
        lines: Sequence[tuple[TransformLine, bool, int]],
        number: int,
        variance: float,
        *,
        tilt: float,
        spacing: float,
        size: int,
    ) -> None:
        self._part, self._line = part, lines[0][0]
        self._number = number * lines[0][2]
        super().__init__(lines, number, variance, tilt=tilt, spacing=spacing, size=size)

    def _scaled(self) -> None:
        line, part, number = self._line, self._part, self._number
        log_whole, doubt = line.logarithms(self._spacing, self._t.size)
        log_part, part_doubt = part.logarithms(self._spacing, self._t.size)
        ratio = np.exp(np.minimum((log_part - log_whole).real + (part.log_scale - line.log_scale), 300.0)) * np.exp(
            1j * (log_part - log_whole).imag
        )
        scales = line.log_scale_size + part.log_scale_size
        doubts = doubt + part_doubt + 8.0 * _U * (4.0 + scales + np.abs(log_part - log_whole))
        less, error = _one_less_power(ratio, np.abs(ratio) * np.expm1(np.minimum(doubts, 300.0)), number)
        size = np.maximum(np.abs(less), 1e-300)
        self._exponent += np.log(np.where(size > 1e-300, less, 1e-300))
        # Values that small have lost digits by underflow, or replace such values.
        self._doubt += np.log1p((error + _FAINT * (1.0 + number)) / size)
        self._doubt[doubts > 300.0] = math.inf
        self._log_beyond = log_most(line, part, number, float(self._t[-1])) - self._log_scale
        super()._scaled()


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
            np.exp(-1j * np.multiply.outer(self.spacing * orders, epsilon))
            for orders in (np.arange(_BLOCK), _BLOCK * np.arange(blocks))
        )
        # Not by a library whose sums may depend on the number of its threads; the outer sum by pairs.
        inner = np.einsum("fn,ne->fe", padded.reshape(blocks, _BLOCK), near)
        value = 2.0 * np.sum(np.ascontiguousarray((inner * far).real.T), axis=1)
        total, first = self.moments
        error = self.error + _U * ((4.0 * _BLOCK + 64.0) * total + 16.0 * np.abs(epsilon) * first)
        period = 2.0 * math.pi / self.spacing
        return value / period, 1.01 * error / period


def _one_less_power(part: ComplexArray, off: FloatArray, number: int) -> tuple[ComplexArray, FloatArray]:
    """Return 1 - (1 - v)^n, and a bound on its error where v is off by so much; that is infinite for a large v."""
    size = np.abs(part)
    known = size + off < _LARGEST_PART
    v = np.where(known, part, 0.0)
    size = np.abs(v)
    power = number * (0.5 * np.log1p(size**2 - 2.0 * v.real) + 1j * np.arctan2(-v.imag, 1.0 - v.real))
    doubt = number * (off + 32.0 * _U * size) / (1.0 - _LARGEST_PART) + 8.0 * _U * np.abs(power)
    # |1 - v| may exceed 1, where v has turned.
    real = np.minimum(power.real, 600.0)
    sine = np.sin(0.5 * power.imag)
    grown = np.exp(real)
    result = -(np.expm1(real) * np.cos(power.imag) - 2.0 * sine * sine) - 1j * grown * np.sin(power.imag)
    error = grown * np.expm1(np.minimum(doubt, 1.0)) + 16.0 * _U * (
        np.abs(np.expm1(real)) + 2.0 * np.abs(sine) * (1.0 + grown)
    )
    return result, np.where(known & (doubt < 1.0) & (power.real < 600.0), error, np.inf)


def log_most(line: TransformLine, part: TransformLine, number: int, t: float) -> float:
    r"""Bound ln \|P^n - U^n\| from frequency t on: \|U\| <= \|P\| + \|V\|, and n factors differ by V."""
    log_part = part.log_largest(t) + part.log_scale
    log_both = float(np.logaddexp(line.log_largest(t) + line.log_scale, log_part))
    several = math.log(number) + log_part + (number - 1) * log_both
    slack = 16.0 * _U * number * (abs(log_both) + line.log_scale_size + part.log_scale_size) + 1e-12
    return min(several, math.log(2.0) + number * log_both) + slack
