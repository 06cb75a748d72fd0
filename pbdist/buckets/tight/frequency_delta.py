"""δ of compositions that are known by their lowest frequencies, from above and from below, as natural logarithms.

A sum of weights with factors e^{-θ(ℓ-ε)} over the positions from some first one on is, frequency by frequency, a
geometric series. What Theorems 14 and 15 (``docs/tight.md``) say of sums over weights is thus read off without them
(Theorem 18).
"""

import math

import numpy as np

from pbdist.buckets.tight.delta import largest_factor, log_infinity, log_infinity_lower
from pbdist.buckets.tight.frequencies import FewFrequencies, unit_roots
from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    HIGHEST,
    LARGEST_RATE,
    LOG_TOTAL_DOMINATING,
    LOSS_SHIFT,
    RATE_A,
    RATE_DOMINATING,
)
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import ComplexArray, FloatArray, IntArray

__all__ = ["log_deltas"]

#: Relative rounding of one term of a series: roots of unity 21u each, their sines and differences, some products.
_TERM = 512.0 * UNIT_ROUNDOFF
#: Exponents beyond this are no float, with room for a few factors.
_LARGEST_EXPONENT = 600.0
#: Cells with less than this share of an average one are too faint to tell the loss of their events.
_FAINT = 1e-6


def log_deltas(known: FewFrequencies, members: IntArray, epsilon: FloatArray) -> tuple[FloatArray, ...]:
    """Bound δ at some points.

    Parameters
    ----------
    known : FewFrequencies
        A stack of k compositions.
    members : ndarray of int64, shape (P,)
        Which of them each point is about.
    epsilon : ndarray, shape (P,)
        Nats.

    Returns
    -------
    log_lower, log_upper, log_error : ndarray, shape (P,)
        Natural logarithms of the bounds, and about that of what rounding, windows and frequencies left out are worth.
    """
    points = _Points(known, members)
    upper, error = _log_upper(points, epsilon)
    lower, lower_error = _log_lower(points, epsilon)
    return lower, upper, np.maximum(error, lower_error)


class _Points:
    """The compositions, one for each point, and the series over their frequencies."""

    def __init__(self, known: FewFrequencies, members: IntArray) -> None:
        self.known, self.members, self.state = known, members, known.state
        self.orders = np.arange(known.coefficients.shape[-1])
        self.base = unit_roots(self.orders, known.length)
        self.denominators = {
            rate: _one_minus(rate * self.state.spacing, self.base) for rate in (self.state.tilt, self.state.tilt + 1.0)
        }
        origins = np.array([[float(grid), float(cells)] for grid, cells in self.state.origins])
        self.origins: FloatArray = origins[members]
        ends = self.state.width * (
            0.5 * origins + self.state.stride * np.array([[0.0], [float(known.length)]])[:, None]
        )
        self.reach = float(np.abs(ends).max())

    def of(self, values: FloatArray) -> FloatArray:
        """Values of the members, point by point."""
        chosen: FloatArray = values[self.members]
        return chosen

    def position(self, index: IntArray, row: int) -> FloatArray:
        """Position of an element, nats: a product of numbers rounded twice at most."""
        half_units = self.origins[:, min(row, 1)] + 2.0 * self.state.stride * index.astype(np.float64)
        result: FloatArray = (0.5 * self.state.width) * half_units
        return result

    def cell_at(self, loss: FloatArray) -> IntArray:
        """About the first cell whose label lies above a loss; the first or the last of the window if none does."""
        about = np.ceil((loss - 0.5 * self.state.width * self.origins[:, 1]) / self.state.spacing)
        result: IntArray = np.clip(about, 0.0, self.known.length - 1.0).astype(np.int64)
        return result

    def roots(self, index: IntArray) -> ComplexArray:
        """Return e^{2πi m index / N} for every frequency m, shape (P, K + 1)."""
        return unit_roots(np.multiply.outer(index, self.orders), self.known.length)

    def series(self, first: IntArray, roots: ComplexArray, rate: float) -> ComplexArray:
        """Return Σ_{i < n} e^{(2πi m/N - rate · spacing) i}, n = N - first, shape (P, K + 1), given the roots of first.

        The n-th power of a root is the conjugate of that of `first`.
        """
        decay, steps = rate * self.state.spacing, (self.known.length - first).astype(np.float64)
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
        terms = (self.known.coefficients[self.members, row] * roots * series).real
        result: FloatArray = (2.0 * np.add.reduce(terms, axis=-1) - terms[:, 0]) / self.known.length
        return result

    def rounding(self, row: int) -> FloatArray:
        """Bound on the rounding of `total` for factors of at most 1 that never rise: no series exceeds N / (2m)."""
        count = self.orders.size
        return self.of(self.known.size[:, row]) * ((2.0 + math.log(count)) * (_TERM + 4.0 * count * UNIT_ROUNDOFF))


def _log_upper(points: _Points, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithm of an upper bound on δ, and of T's part in it.

    The positions' distances from ε are rounded as if ε were another, lower than the one asked for all the same.
    """
    state, tilt, length = points.state, points.state.tilt, points.known.length
    highest = points.of(state.additive[:, HIGHEST]) * (1.0 + 8.0 * UNIT_ROUNDOFF)
    lowered = (
        epsilon - points.of(state.additive[:, LOSS_SHIFT]) - 16.0 * UNIT_ROUNDOFF * (np.abs(epsilon) + points.reach)
    )
    about = np.floor((lowered - 0.5 * state.width * points.origins[:, 0]) / state.spacing) - 1.0
    first = np.minimum(np.maximum(about, -1.0), float(length)).astype(np.int64)
    # The first position above, by the very distances that are used.
    for _ in range(3):
        first = first + (points.position(first, DOMINATING) - lowered <= 0.0)
    first = np.clip(first, 0, length)
    distance = np.maximum(points.position(first, DOMINATING) - lowered, 0.0)
    roots = points.roots(first)
    series = np.exp(-tilt * distance)[:, None] * points.series(first, roots, tilt)
    series -= np.exp(-(tilt + 1.0) * distance)[:, None] * points.series(first, roots, tilt + 1.0)
    scale, scale_error = points.of(state.log_scale[:, DOMINATING]), points.of(state.log_scale_error[:, DOMINATING])
    error = points.of(state.error[:, DOMINATING]) * largest_factor(tilt) + 2.0 * points.rounding(DOMINATING)
    slack = scale_error + 8.0 * UNIT_ROUNDOFF * (
        np.abs(scale) + np.abs(tilt * lowered) + (tilt + 1.0) * points.reach + 8
    )
    level = scale - tilt * lowered
    # A sum below 0 is so by no more than its error.
    finite = np.log(np.maximum(points.total(DOMINATING, roots, series), 0.0) + error) + level + slack
    # A largest rate stands for no limit, whatever ε is.
    finite[(lowered >= highest) & (highest < LARGEST_RATE)] = -np.inf
    infinite = np.array([log_infinity(row, LOG_TOTAL_DOMINATING, RATE_DOMINATING) for row in state.additive])
    result: FloatArray = np.logaddexp(finite, points.of(infinite))
    result = result + 32.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(result), np.abs(result), 0.0))
    return result, np.log(error) + level


def _log_lower(points: _Points, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithm of a lower bound on δ, and about that of what the errors take from it.

    The event is that of all cells from some first one on, about the one in which a > e^ε b first; and infinity. What
    that cell is, is told by the masses of one nearby; any choice is sound.
    """
    state, tilt, length = points.state, points.state.tilt, points.known.length
    error_a, error_b = points.of(state.error[:, EXACT_A]), points.of(state.error[:, EXACT_B])
    scale_a, scale_b = points.of(state.log_scale[:, EXACT_A]), points.of(state.log_scale[:, EXACT_B])
    drift = scale_a - scale_b
    near = points.cell_at(epsilon - drift)
    roots = points.roots(near)
    a, b = (points.total(row, roots, 1.0) for row in (EXACT_A, EXACT_B))
    faint = points.of(points.known.size[:, EXACT_A]) * (_FAINT / length)
    ratio = np.log(np.where((a > faint) & (b > faint), a, 1.0) / np.where((a > faint) & (b > faint), b, 1.0))
    first = points.cell_at(epsilon - drift - ratio)
    if np.any(first != near):
        roots = points.roots(first)
    position = points.position(first, EXACT_A)
    scale_error = points.of(state.log_scale_error[:, EXACT_A] + state.log_scale_error[:, EXACT_B])
    level = epsilon + (scale_b - scale_a) - position
    terms = np.abs(scale_a) + np.abs(scale_b) + (tilt + 1.0) * points.reach + 8.0
    rounding = 8.0 * UNIT_ROUNDOFF * terms
    grown = level + 2.0 * scale_error + rounding + 8.0 * UNIT_ROUNDOFF * (np.abs(epsilon) + np.abs(level))
    a = points.total(EXACT_A, roots, points.series(first, roots, tilt)) - error_a - points.rounding(EXACT_A)
    b = points.total(EXACT_B, roots, points.series(first, roots, tilt + 1.0)) + error_b + points.rounding(EXACT_B)
    best = a - b * (np.exp(np.minimum(grown, _LARGEST_EXPONENT)) * (1.0 + 32.0 * UNIT_ROUNDOFF))
    best -= 4.0 * UNIT_ROUNDOFF * np.abs(a)
    usable = (best > 0.0) & (grown < _LARGEST_EXPONENT)
    slack = scale_error + rounding + 8.0 * UNIT_ROUNDOFF * np.abs(tilt * position)
    finite = np.log(np.where(usable, best, 1.0)) + scale_a - tilt * position - slack
    finite[~usable] = -np.inf
    result = np.full(epsilon.size, -np.inf)
    if state.additive[:, RATE_A].any():
        for member in range(state.count):
            chosen = points.members == member
            result[chosen] = log_infinity_lower(state.additive[member], epsilon[chosen])
    result = np.logaddexp(result, finite)
    result -= 8.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(result), np.abs(result), 0.0))
    return result, np.log(error_a + error_b) + scale_a - tilt * position


def _one_minus(decay: float | FloatArray, root: ComplexArray) -> ComplexArray:
    """Return 1 - e^-decay · root without cancellation, for roots of unity: 1 - cos φ is sin²φ / (1 + cos φ)."""
    factor = np.exp(-decay)
    cosine, sine = root.real, root.imag
    versed = np.where(cosine > 0.0, sine * sine / (1.0 + np.abs(cosine)), 1.0 - cosine)
    result = np.empty(np.broadcast_shapes(np.shape(decay), root.shape), dtype=np.complex128)
    result.real, result.imag = factor * versed - np.expm1(-decay), -factor * sine
    return result
