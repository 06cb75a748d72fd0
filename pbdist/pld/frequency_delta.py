"""δ of compositions that are known by their lowest frequencies, from above and from below, as natural logarithms.

A sum of weights with factors e^{-θ(ℓ-ε)} over all positions from some first one on is a geometric series at each
frequency, so that no weight is computed (Theorem 18 in ``docs/pld.md``).
"""

import math

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.few_frequencies import Frequencies, unit_roots
from pbdist.types import ComplexArray, FloatArray, IntArray

_U = UNIT_ROUNDOFF
#: Relative rounding of one term of a series: roots of unity 21u each, their sines and differences, some products.
_TERM = 512.0 * _U
#: Exponents beyond this are no float, with room for a few factors.
_LARGEST_EXPONENT = 600.0
#: Bins with less than this share of an average one are too faint for a loss to be computed from them.
_FAINT = 1e-6


def log_finite_upper(
    known: Frequencies, epsilon: FloatArray, shift: float, highest: float
) -> tuple[FloatArray, FloatArray]:
    """Logarithm of an upper bound on what finite losses add to δ at each ε, and of T's part in it (Theorem 18).

    Losses may have been moved by up to `shift`, and none exceeds `highest`, nats. Distances from ε are rounded as if ε
    were a lower one.
    """
    series = _Series(known, 0)
    tilt = known.tilt
    lowered = epsilon - shift - 16.0 * _U * (np.abs(epsilon) + series.reach + shift)
    about = np.floor((lowered - 0.5 * known.spacing * series.start) / known.spacing) - 1.0
    first = np.minimum(np.maximum(about, -1.0), float(known.length)).astype(np.int64)
    # The first position above, by the distances that are used.
    for _ in range(3):
        first = first + (series.loss_at(first) - lowered <= 0.0)
    first = np.clip(first, 0, known.length)
    distance = np.maximum(series.loss_at(first) - lowered, 0.0)
    roots = series.roots(first)
    sums = np.exp(-tilt * distance)[:, None] * series.sums(first, roots, tilt)
    sums -= np.exp(-(tilt + 1.0) * distance)[:, None] * series.sums(first, roots, tilt + 1.0)
    scale, scale_error = float(known.log_scale[0]), float(known.log_scale_error[0])
    error = float(known.error[0]) * largest_factor(tilt) + 2.0 * series.rounding(0)
    slack = scale_error + 8.0 * _U * (abs(scale) + np.abs(tilt * lowered) + (tilt + 1.0) * series.reach + 8.0)
    level = scale - tilt * lowered
    # A sum below 0 is so by no more than its error.
    finite = np.log(np.maximum(series.total(0, roots, sums), 0.0) + error) + level + slack
    finite[lowered >= highest + 8.0 * _U * abs(highest)] = -np.inf
    return finite, math.log(error) + level


def log_finite_lower(known: Frequencies, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithm of a lower bound on what finite losses add to δ at each ε, and about that of what errors take from it.

    The event is that of all bins from some first one on, about the first one in which a > e^ε b, by the masses of a bin
    nearby; any choice is sound (Theorem 15, docs/pld.md).
    """
    series = _Series(known, 1)
    tilt = known.tilt
    error_a, error_b = known.error[1:].tolist()
    scale_a, scale_b = known.log_scale[1:].tolist()
    near = series.bin_at(epsilon - (scale_a - scale_b))
    roots = series.roots(near)
    a, b = (series.total(row, roots, 1.0) for row in (1, 2))
    faint = float(known.size[1]) * (_FAINT / known.length)
    ratio = np.log(np.where((a > faint) & (b > faint), a, 1.0) / np.where((a > faint) & (b > faint), b, 1.0))
    first = series.bin_at(epsilon - (scale_a - scale_b) - ratio)
    if np.any(first != near):
        roots = series.roots(first)
    loss = series.loss_at(first)
    scale_error = float(np.sum(known.log_scale_error[1:]))
    level = epsilon + (scale_b - scale_a) - loss
    terms = abs(scale_a) + abs(scale_b) + (tilt + 1.0) * series.reach + 8.0
    rounding = 8.0 * _U * terms
    grown = level + 2.0 * scale_error + rounding + 8.0 * _U * (np.abs(epsilon) + np.abs(level))
    a = series.total(1, roots, series.sums(first, roots, tilt)) - error_a - series.rounding(1)
    b = series.total(2, roots, series.sums(first, roots, tilt + 1.0)) + error_b + series.rounding(2)
    best = a - b * (np.exp(np.minimum(grown, _LARGEST_EXPONENT)) * (1.0 + 32.0 * _U))
    best -= 4.0 * _U * np.abs(a)
    usable = (best > 0.0) & (grown < _LARGEST_EXPONENT)
    slack = scale_error + rounding + 8.0 * _U * np.abs(tilt * loss)
    finite = np.log(np.where(usable, best, 1.0)) + scale_a - tilt * loss - slack
    finite[~usable] = -np.inf
    return finite, math.log(error_a + error_b) + scale_a - tilt * loss


class _Series:
    """The series over the frequencies of a composition, for rows that begin where one of them does."""

    def __init__(self, known: Frequencies, row: int) -> None:
        self.known, self.start = known, float(known.start[row])
        self.orders = np.arange(known.coefficients.shape[-1])
        self.base = unit_roots(self.orders, known.length)
        self.denominators = {
            rate: _one_minus(rate * known.spacing, self.base) for rate in (known.tilt, known.tilt + 1.0)
        }
        ends = 0.5 * known.spacing * np.array([self.start, self.start + 2.0 * known.length])
        self.reach = float(np.abs(ends).max())

    def loss_at(self, index: IntArray) -> FloatArray:
        """Loss or label of an element, nats: a product of numbers rounded twice at most."""
        result: FloatArray = (0.5 * self.known.spacing) * (self.start + 2.0 * index.astype(np.float64))
        return result

    def bin_at(self, loss: FloatArray) -> IntArray:
        """About the first bin whose label lies above a loss; the first or the last of the window if none does."""
        about = np.ceil((loss - 0.5 * self.known.spacing * self.start) / self.known.spacing)
        result: IntArray = np.clip(about, 0.0, self.known.length - 1.0).astype(np.int64)
        return result

    def roots(self, index: IntArray) -> ComplexArray:
        """Return e^{2πi m index / N} for every frequency m, shape (P, K + 1)."""
        return unit_roots(np.multiply.outer(index, self.orders), self.known.length)

    def sums(self, first: IntArray, roots: ComplexArray, rate: float) -> ComplexArray:
        """Return Σ_{i < n} e^{(2πi m/N - rate · spacing) i}, n = N - first, shape (P, K + 1), given the roots of first.

        The n-th power of a root is the conjugate of that of `first`.
        """
        decay, steps = rate * self.known.spacing, (self.known.length - first).astype(np.float64)
        above = _one_minus(decay * steps[:, None], roots.conj())
        below = self.denominators[rate]
        if decay > 0.0:
            return above / below
        result = np.empty(above.shape, dtype=np.complex128)
        result[:, 1:] = above[:, 1:] / below[1:]
        result[:, 0] = steps
        return result

    def total(self, row: int, roots: ComplexArray, series: ComplexArray | float) -> FloatArray:
        """Return Σ_m w(first + m) g(m), shape (P,), for the transform of g at every frequency."""
        terms = (self.known.coefficients[row] * roots * series).real
        result: FloatArray = (2.0 * np.add.reduce(terms, axis=-1) - terms[:, 0]) / self.known.length
        return result

    def rounding(self, row: int) -> float:
        """Bound on the rounding of `total` for factors of at most 1 that never rise: no series exceeds N / (2m)."""
        count = self.orders.size
        return float(self.known.size[row]) * ((2.0 + math.log(count)) * (_TERM + 4.0 * count * _U))


def largest_factor(tilt: float) -> float:
    """Return max_{y>0} e^{-θy} (1 - e^-y) = θ^θ / (1 + θ)^(1+θ)."""
    return math.exp(-tilt * math.log1p(1.0 / tilt)) / (1.0 + tilt) * (1.0 + 1e-12) if tilt > 0.0 else 1.0


def _one_minus(decay: float | FloatArray, root: ComplexArray) -> ComplexArray:
    """Return 1 - e^-decay · root without cancellation, for roots of unity: 1 - cos φ is sin²φ / (1 + cos φ)."""
    factor = np.exp(-decay)
    cosine, sine = root.real, root.imag
    versed = np.where(cosine > 0.0, sine * sine / (1.0 + np.abs(cosine)), 1.0 - cosine)
    result = np.empty(np.broadcast_shapes(np.shape(decay), root.shape), dtype=np.complex128)
    result.real, result.imag = factor * versed - np.expm1(-decay), -factor * sine
    return result
