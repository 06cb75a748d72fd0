"""Masses of intervals under Laplace and Gaussian noise, accurate into the far tails and for the narrowest bins.

A narrow interval is integrated from its own width: the difference of two distribution functions would lose all digits.
The relative error stays at some units of 2^-53 wherever the mass is a normal float64. numpy's ``exp``, ``expm1``,
``log`` and ``log1p`` are taken to be accurate to 8u (4 units in the last place, u = 2^-53).
"""

import math
from typing import Any

import numpy as np
from scipy import special

from pbdist.mechanisms.masses import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray

_ROOT_TWO_PI = 2.5066282746310002
_HALF_ROOT = 0.7071067811865476

#: Terms of the series for a narrow interval, and the extent up to which the terms left out stay below 2^-56.
_SERIES_TERMS = ((2, 1 / 256), (3, 1 / 32), (4, 1 / 12), (6, 1 / 4), (8, 0.6), (10, 1.0))
_SERIES_FACTORS = tuple(1.0 / (math.factorial(2 * k) * 4**k * (2 * k + 1)) for k in range(_SERIES_TERMS[-1][0] + 1))


def _polynomial(terms: int) -> FloatArray:
    """Coefficients of t^j d^i in the sum of the terms, row j and column i: t = z²w², d = w².

    By He_2k(z) w^2k = Σ_j (2k)! / ((2j)! (k-j)! (-2)^(k-j)) t^j d^(k-j).
    """
    matrix = np.zeros((terms + 1, terms + 1))
    for j in range(terms + 1):
        for i in range(terms + 1 - j):
            ways = math.factorial(2 * (i + j)) / (math.factorial(2 * j) * math.factorial(i) * (-2) ** i)
            matrix[j, i] = ways * _SERIES_FACTORS[i + j]
    return matrix


_SERIES_POLYNOMIALS = {terms: _polynomial(terms) for terms, _ in _SERIES_TERMS}

#: Exponents below this are split off from their masses, on request.
_DEEP = -600.0

#: Masses split off with a larger relative error count as 0.
_LARGEST_ERROR = 0.125

#: Extent of most intervals, for which the first terms are enough.
_USUAL = _SERIES_TERMS[1][1]

#: Fewer intervals than this are not checked for equal widths, and all take the same number of terms.
_FEW = 32

#: Intervals handled at a time, so that intermediate results stay in the cache.
_BLOCK = 8192


def laplace_interval(
    lower: FloatArray, upper: FloatArray, scale: float, mean: float | FloatArray = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Mass of [lower, upper] under Laplace noise, and a bound on its relative error.

    End points, scale and mean broadcast; ``lower <= upper``, infinite ones allowed. On one side of the mean the mass is
    ½ e^(-d/scale) (1 - e^(-w/scale)) with d the distance to the mean and w the width: the two roundings of d/scale move
    the exponential by 2u d/scale, those of w/scale the last factor by 2u, all else by less than 19u.
    """
    mass, error, _ = _laplace(lower, upper, scale, mean, scaled=False)
    return mass, error


def scaled_laplace_interval(
    lower: FloatArray, upper: FloatArray, scale: float, mean: float | FloatArray = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass of [lower, upper] under Laplace noise, however small: a mass, its relative error and the log of a factor.

    The mass is ``mass * exp(log_scale)``; log_scale is 0 where the exponential of the distance is above e^-600. A mass
    so small that float64 does not resolve the exponent is given as 0.
    """
    return _laplace(lower, upper, scale, mean, scaled=True)


def _laplace(
    lower: FloatArray, upper: FloatArray, scale: float, mean: float | FloatArray, *, scaled: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    width = (upper - lower) / scale
    low, high = (lower - mean) / scale, (upper - mean) / scale
    distance = np.maximum(low, -high)
    np.maximum(distance, 0.0, out=distance)
    exponent = -distance
    log_scale = split_off(exponent, scaled)
    mass = np.exp(exponent)
    mass *= -0.5 * np.expm1(-width)
    straddles = (low < 0.0) & (high > 0.0)
    if np.any(straddles):
        mass[straddles] = -0.5 * (np.expm1(low[straddles]) + np.expm1(-high[straddles]))
    # The mass at an infinite distance is exactly 0.
    np.minimum(distance, 1e300, out=distance)
    distance *= 3.0 * UNIT_ROUNDOFF
    distance += 24.0 * UNIT_ROUNDOFF
    if scaled:
        drop_unresolved(mass, distance, log_scale)
    return mass, distance, log_scale


def split_off(exponent: FloatArray, wanted: bool) -> FloatArray:
    """Take the exponents below -600 out of `exponent`, if wanted, and return them; 0 for the others."""
    log_scale = np.zeros(exponent.shape)
    if wanted:
        deep = exponent < _DEEP
        if deep.any():
            log_scale[deep] = exponent[deep]
            exponent[deep] = 0.0
    return log_scale


def drop_unresolved(mass: FloatArray, error: FloatArray, log_scale: FloatArray) -> None:
    """Set masses to 0 whose exponent float64 does not resolve: they are below e to the -10^12."""
    unresolved = (error > _LARGEST_ERROR) & (log_scale < 0.0)
    if unresolved.any():
        mass[unresolved] = 0.0
        error[unresolved] = 0.0
        log_scale[unresolved] = 0.0


def gaussian_interval(
    lower: FloatArray, upper: FloatArray, scale: float | FloatArray, mean: float | FloatArray = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Mass of [lower, upper] under Gaussian noise, and a bound on its relative error: Theorem 6 of docs/theory.md.

    End points, scale (the standard deviation) and mean broadcast; ``lower <= upper``, infinite ones allowed.
    """
    mass, error, _ = _gaussian(lower, upper, scale, mean, scaled=False)
    return mass, error


def scaled_gaussian_interval(
    lower: FloatArray, upper: FloatArray, scale: float | FloatArray, mean: float | FloatArray = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass of [lower, upper] under Gaussian noise, however small: Theorem 6 of docs/theory.md.

    Parameters
    ----------
    lower, upper, scale, mean
        As for `gaussian_interval`.

    Returns
    -------
    mass, relative_error, log_scale : ndarray
        The mass is ``mass * exp(log_scale)``, with log_scale = -z²/2 where that is below -600, else 0. A mass so small
        that float64 does not resolve the exponent is given as 0.
    """
    return _gaussian(lower, upper, scale, mean, scaled=True)


def _gaussian(
    lower: FloatArray, upper: FloatArray, scale: float | FloatArray, mean: float | FloatArray, *, scaled: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    shape = np.broadcast_shapes(np.shape(lower), np.shape(upper), np.shape(scale), np.shape(mean))
    if shape[-1] <= _BLOCK:
        return _gaussian_block(lower, upper, scale, mean, scaled)
    mass, error, log_scale = np.empty(shape), np.empty(shape), np.empty(shape)
    for start in range(0, shape[-1], _BLOCK):
        block = (..., slice(start, start + _BLOCK))
        mass[block], error[block], log_scale[block] = _gaussian_block(
            lower[block], upper[block], _columns(scale, block), _columns(mean, block), scaled
        )
    return mass, error, log_scale


def _columns(parameter: float | FloatArray, block: Any) -> float | FloatArray:
    """Return a parameter's values for some of the intervals; it may be the same for all."""
    if not isinstance(parameter, np.ndarray) or parameter.ndim == 0 or parameter.shape[-1] == 1:
        return parameter
    columns: FloatArray = parameter[block]
    return columns


def _gaussian_block(
    lower: FloatArray, upper: FloatArray, scale: float | FloatArray, mean: float | FloatArray, scaled: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    # Values computed here for wide intervals, some of them infinite, are replaced below.
    with np.errstate(invalid="ignore", over="ignore"):
        w = (upper - lower) / scale
        z = (lower - mean) / scale + 0.5 * w
        extent = np.abs(z)
        extent += 1.0
        extent *= w
        wide = ~(extent <= 1.0)
        some_wide = bool(wide.any())
        if some_wide:
            extent[wide] = 0.0
        mass = _mean_of_any(z, w, extent)
        z *= z
        z *= -0.5
        error = z * (-8.0 * UNIT_ROUNDOFF)
        error += 22.0 * UNIT_ROUNDOFF
        log_scale = split_off(z, scaled)
        mass *= np.exp(z)
        mass *= w / _ROOT_TWO_PI
    if some_wide:
        low, high = np.broadcast_arrays((lower - mean) / scale, (upper - mean) / scale)
        mass[wide], error[wide], log_scale[wide] = _wide_intervals(low[wide], high[wide], scaled)
    if scaled:
        drop_unresolved(mass, error, log_scale)
    return mass, error, log_scale


def _mean_of_any(z: FloatArray, w: FloatArray, extent: FloatArray) -> FloatArray:
    """Return the series M, with many terms only for the few intervals that need them."""
    largest = float(extent.max(initial=0.0))
    if largest <= _USUAL or extent.size < _FEW:
        return _mean_of_narrow(z, w, largest)
    wider = extent > _USUAL
    if 4 * np.count_nonzero(wider) > extent.size:
        return _mean_of_narrow(z, w, largest)
    mean = _mean_of_narrow(z, w, _USUAL)
    mean[wider] = _mean_of_narrow(z[wider], np.broadcast_to(w, z.shape)[wider], largest)
    return mean


def _mean_of_narrow(z: FloatArray, w: FloatArray, extent: float) -> FloatArray:
    """Return the series M of `gaussian_interval` for intervals of at most that extent.

    By H_(2k+2) = (t - (4k+1) d) H_2k - 2k (2k-1) d² H_(2k-2) for H_n = He_n(z) w^n, t = z²w² and d = w².
    """
    terms = next(count for count, largest in _SERIES_TERMS if extent <= largest)
    t = z * w
    t *= t
    d = w * w
    common = _common_value(d)
    if common is not None:
        return _mean_of_equally_wide(t, common, terms)
    d_squared = d * d
    before: FloatArray | float = 1.0
    last = t - d
    total: FloatArray = last * _SERIES_FACTORS[1]
    for k in range(1, terms):
        following = t - (4 * k + 1) * d
        following *= last
        following -= (2 * k * (2 * k - 1)) * d_squared * before
        before, last = last, following
        total += last * _SERIES_FACTORS[k + 1]
    total += 1.0
    return total


def _common_value(d: FloatArray) -> FloatArray | None:
    """Return a value within 8u of all squared widths in a row, those of empty and endless intervals aside, or None."""
    middle = d.shape[-1] // 2
    common: FloatArray = d[..., middle : middle + 1]
    if d.shape[-1] < _FEW or not np.all(np.isfinite(common)):
        return None
    off = np.abs(d - common)
    off[(d == 0.0) | (d == np.inf)] = 0.0
    return common if np.all(off <= 8.0 * UNIT_ROUNDOFF) else None


def _mean_of_equally_wide(t: FloatArray, d: FloatArray, terms: int) -> FloatArray:
    """Return the series M as a polynomial in t, whose coefficients are polynomials in the common d."""
    coefficients = _SERIES_POLYNOMIALS[terms] @ d[..., None, :] ** np.arange(terms + 1.0)[:, None]
    mean: FloatArray = t * coefficients[..., terms, :]
    mean += coefficients[..., terms - 1, :]
    for j in range(terms - 2, -1, -1):
        mean *= t
        mean += coefficients[..., j, :]
    return mean


def _wide_intervals(low: FloatArray, high: FloatArray, scaled: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass, relative error and logarithm of the scale of wide intervals of the standard normal distribution."""
    # Beyond 1e154 scales a square overflows; the infinite error says that the mass is not resolved.
    with np.errstate(over="ignore", invalid="ignore"):
        return _of_wide(low, high, scaled)


def _of_wide(low: FloatArray, high: FloatArray, scaled: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    mirrored: BoolArray = np.abs(low) > np.abs(high)
    near, far = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    mass = special.ndtr(-near) - special.ndtr(-far)
    # Left of the mean the survival function is at least ½ and hardly moves with a rounding of z.
    steepness = np.where(np.isfinite(near) & (near > 0.0), near, 0.0)
    steepness *= steepness
    log_scale = split_off(-0.5 * steepness, scaled)
    deep = log_scale < 0.0
    if deep.any():
        n, f = near[deep], far[deep]
        beyond = special.erfcx(f * _HALF_ROOT) * np.exp(0.5 * (n - f) * (n + f))
        mass[deep] = 0.5 * (special.erfcx(n * _HALF_ROOT) - beyond)
    return mass, (64.0 + 16.0 * steepness) * UNIT_ROUNDOFF, log_scale
