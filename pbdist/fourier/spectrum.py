"""Products of powers of many vectors in frequency space, with a certified bound on the error in the 1-norm.

The bound
---------
Let w_i be non-negative with 1-norm s_i, d_i its exponent, D = Σ d_i, N the length of the transforms and
η = `transform_error` (N). Every coefficient of the transform of w_i errs by at most η s_i, relative to s_i by η, since
every path from an input to it does. The product is computed from two halves G and H with P + Q = D factors each, whose
coefficients hence err by at most ((1 + γ)^P - 1) S_G, less than (e^{γP} - 1) S_G, about γP S_G, and likewise H's,
where S is the product of the 1-norms and γ = η + 4u pays for the
complex multiplications as well (Higham, Accuracy and Stability, section 3.6: √5 u each). So ‖GH - (GH)*‖₂
<= γP S_G (‖H‖₂ + γQ S_H √F) + γQ S_H ‖G‖₂ + 4u S_G ‖H‖₂ over the F coefficients kept, with the computed norms of G
and H. Parseval turns this into √(2/N) as much in the 2-norm of the result; the inverse transform adds η times that
norm; and √n times the 2-norm bounds the 1-norm over n elements (Cauchy-Schwarz). Where the factors are smooth, ‖H‖₂ is
small although S_H is 1: high frequencies vanish in the power, and their errors with them.
"""

import math
from collections.abc import Sequence

import numpy as np

from pbdist.fourier.transform import EXTENDED_ROUNDOFF, forward, inverse, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import ComplexArray, FloatArray

__all__ = ["product_of_powers", "raised", "required"]


def product_of_powers(
    factors: Sequence[tuple[FloatArray, int]],
    length: int,
    start: int | Sequence[int],
    size: int,
    *,
    extended: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Convolve powers of vectors, circularly, and cut a window out.

    Parameters
    ----------
    factors : sequence of (ndarray of shape (.., n_i), int)
        Non-negative vectors along the last axis, with the same leading axes, and exponents of at least 1.
    length : int
        The length N of the circle, at least every n_i.
    start : int or sequence of int
        First element of the window, counted on the circle; one for each member of the first axis, or for all.
    size : int
        Length of the window, at most N.
    extended : bool, optional
        Whether to compute in ``numpy.longdouble``, more than ten times as slowly; where that has 64 bits its error is
        2,000 times as small.

    Returns
    -------
    values : ndarray, shape (.., size)
        The window of the circular convolution Π w_i^{*d_i}, non-negative.
    error : ndarray, shape (..)
        Bound on the 1-norm, over the window, of the distance to the exact circular convolution. With `extended`, each
        value is besides rounded once, relative to itself, by at most 2^-53.
    """
    halves = _halves([exponent for _, exponent in factors])
    spectra: dict[int, ComplexArray] = {}
    norms: list[FloatArray] = []
    for vector, _ in factors:
        if id(vector) not in spectra:
            spectra[id(vector)] = forward(vector.astype(np.longdouble) if extended else vector, length)
        norms.append(np.sum(vector, axis=-1) * (1.0 + (vector.shape[-1] + 2.0) * UNIT_ROUNDOFF))
    first = _product([(spectra[id(vector)], p) for (vector, _), (p, _) in zip(factors, halves, strict=True)])
    same = all(p == q for p, q in halves)
    second = (
        first
        if same
        else _product([(spectra[id(vector)], q) for (vector, _), (_, q) in zip(factors, halves, strict=True)])
    )

    unit = EXTENDED_ROUNDOFF if extended else UNIT_ROUNDOFF
    rate = transform_error(length, unit) + 4.0 * unit
    count_first, count_second = (sum(pair[side] for pair in halves) for side in (0, 1))
    size_first, size_second = (
        math.prod((norm ** pair[side] for norm, pair in zip(norms, halves, strict=True)), start=np.ones(()))
        for side in (0, 1)
    )
    bins = length // 2 + 1
    if first is None:
        values = inverse(required(second), length)
        spectral = math.expm1(rate * count_second) * size_second * math.sqrt(bins)
    else:
        other = required(second)
        norm_first = _norm(first)
        norm_second = norm_first if same else _norm(other)
        values = inverse(first * other, length)
        error_first, error_second = (
            math.expm1(rate * count_first) * size_first,
            math.expm1(rate * count_second) * size_second,
        )
        spectral = (
            error_first * (norm_second + error_second * math.sqrt(bins))
            + error_second * norm_first
            + 4.0 * unit * size_first * norm_second
        )
    both = math.sqrt(2.0 / length) * spectral
    total = both + transform_error(length, unit) * (_norm(values) + both)
    # More than all the roundings of the bound itself.
    error = 1.001 * math.sqrt(size) * total
    if isinstance(start, Sequence):
        values = np.stack([_window(part, first % length, size) for part, first in zip(values, start, strict=True)])
    else:
        values = _window(values, start % length, size)
    return np.maximum(values, 0.0).astype(np.float64, copy=False), error


def _halves(exponents: Sequence[int]) -> list[tuple[int, int]]:
    """Split the exponents into two products of about the same number of factors."""
    halves: list[tuple[int, int]] = []
    more_left = False
    for exponent in exponents:
        small = exponent // 2
        large = exponent - small
        halves.append((large, small) if more_left else (small, large))
        more_left = more_left != (small != large)
    return halves


def _product(factors: Sequence[tuple[ComplexArray, int]]) -> ComplexArray | None:
    result: ComplexArray | None = None
    for spectrum, exponent in factors:
        power = raised(spectrum, exponent)
        if power is not None:
            result = power if result is None else result * power
    return result


def raised(spectrum: ComplexArray, exponent: int) -> ComplexArray | None:
    """Return the power by repeated squaring, None for 0: always the same multiplications, whatever the library."""
    result: ComplexArray | None = None
    while exponent:
        if exponent & 1:
            result = spectrum if result is None else result * spectrum
        exponent >>= 1
        if exponent:
            spectrum = spectrum * spectrum
    return result


def required(spectrum: ComplexArray | None) -> ComplexArray:
    """Return a product that has factors."""
    if spectrum is None:
        raise ValueError("factors: expected at least one exponent of at least 1, got none")
    return spectrum


def _norm(values: FloatArray | ComplexArray) -> FloatArray:
    """2-norm along the last axis."""
    if np.iscomplexobj(values):
        values = values.view(values.real.dtype)
    squares: FloatArray = np.einsum("...i,...i->...", values, values)
    return np.sqrt(squares).astype(np.float64)


def _window(values: FloatArray, start: int, size: int) -> FloatArray:
    length = values.shape[-1]
    if start + size <= length:
        return values[..., start : start + size]
    return np.concatenate((values[..., start:], values[..., : start + size - length]), axis=-1)
