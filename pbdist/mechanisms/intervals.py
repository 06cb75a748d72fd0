"""Masses of intervals under Laplace and Gaussian noise, accurate into the far tails and for the narrowest cells.

A difference of two distribution functions loses all digits where the interval is narrow; here a narrow interval is
integrated from its own width, which is exact or one rounding away, so that the relative error stays at some units of
2^-53 wherever the mass is a normal float64. numpy's ``exp``, ``expm1``, ``log`` and ``log1p`` are taken to be accurate
to 8u (4 units in the last place, u = 2^-53).
"""

import math
from typing import Any

import numpy as np
from scipy import special

from pbdist.mechanisms.rounding import UNIT_ROUNDOFF
from pbdist.types import BoolArray, FloatArray

__all__ = ["gaussian_interval", "laplace_interval"]

_ROOT_TWO_PI = 2.5066282746310002

#: Terms of the series for a narrow interval, and the extent up to which what is left out stays below 2^-56.
_SERIES_TERMS = ((2, 1 / 256), (3, 1 / 32), (4, 1 / 12), (6, 1 / 4), (8, 0.6), (10, 1.0))
_SERIES_FACTORS = tuple(1.0 / (math.factorial(2 * k) * 4**k * (2 * k + 1)) for k in range(_SERIES_TERMS[-1][0] + 1))

#: Intervals handled at a time, so that what is computed on the way stays in the cache.
_BLOCK = 8192


def laplace_interval(
    lower: FloatArray, upper: FloatArray, scale: float, mean: float | FloatArray = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Mass of [lower, upper] under Laplace noise.

    Parameters
    ----------
    lower, upper : ndarray
        End points, ``lower <= upper``; infinite ones allowed.
    scale, mean : float or ndarray
        Scale and mean of the noise; they broadcast against the end points.

    Returns
    -------
    mass, relative_error : ndarray
        Computed masses and a bound on their relative error. On one side of the mean the mass is
        ½ e^(-d/scale) (1 - e^(-w/scale)) with d the distance to the mean and w the width: the two roundings of
        d/scale move the exponential by 2u d/scale, those of w/scale the last factor by 2u, all else by less than 19u.
    """
    width = (upper - lower) / scale
    low, high = (lower - mean) / scale, (upper - mean) / scale
    distance = np.maximum(low, -high)
    np.maximum(distance, 0.0, out=distance)
    mass = np.exp(-distance)
    mass *= -0.5 * np.expm1(-width)
    straddles = (low < 0.0) & (high > 0.0)
    if np.any(straddles):
        mass[straddles] = -0.5 * (np.expm1(low[straddles]) + np.expm1(-high[straddles]))
    # The mass at an infinite distance is exactly 0.
    np.minimum(distance, 1e300, out=distance)
    distance *= 3.0 * UNIT_ROUNDOFF
    distance += 24.0 * UNIT_ROUNDOFF
    return mass, distance


def gaussian_interval(
    lower: FloatArray, upper: FloatArray, scale: float | FloatArray, mean: float | FloatArray = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Mass of [lower, upper] under Gaussian noise.

    Parameters
    ----------
    lower, upper : ndarray
        End points, ``lower <= upper``; infinite ones allowed.
    scale, mean : float or ndarray
        Standard deviation and mean of the noise; they broadcast against the end points.

    Returns
    -------
    mass, relative_error : ndarray
        Computed masses and a bound on their relative error: (20 + 4z²) u for narrow intervals at z scales from the
        mean, (64 + 16z²) u for wide ones.

    Notes
    -----
    With z the centre and w the width in units of the scale, the mass is φ(z) w times the mean M of
    exp(-zwv - w²v²/2) over v in [-½, ½]. With the Hermite polynomials (generating function) and
    E v^2k = 1/(4^k (2k+1)),

        M = Σ_k He_2k(z) w^2k / ((2k)! 4^k (2k+1)).

    *Remainder.* |He_n(z)| w^n <= Σ_m n!/(m! (n-2m)! 2^m) |z|^(n-2m) w^n <= T_n W^n, where W = w (|z| + 1) is called the
    extent and T_n counts the involutions of n things. Narrow means W <= 1; `_SERIES_TERMS` takes so many terms that
    the sum of T_2k W^2k / ((2k)! 4^k (2k+1)) over the others is below 2^-56 (a test adds it up).

    *Rounding, narrow.* The computed z is off by at most 3u|z| + 2uw, which with the rounding of z²/2 moves φ by
    3.5u z² + 2u; exp 8u; √(2π), the division, w (two roundings) and two products 7u; M, which is 1 plus a correction
    below 1/15, 2u. Together (20 + 4z²) u.

    *Wide intervals.* The two values of the survival function Q, on the side where they are small, differ by a factor
    of at least 1.6. scipy's ``ndtr`` is taken to be accurate to (8 + z²) u, which the tests check against 50 digits,
    and the two roundings of z move Q by 2u (z² + 1): the nearer value errs by (10 + 3n²) u for n > 0, the
    further one f by (10 + 3f²) u Q(f)/Q(n) <= (11 + 1.9n²) u relative to the nearer, for
    f² exp(-(f² - n²)/2) <= 0.625n² + 1.5 at that ratio. The difference is at least 0.375 of the nearer value.
    """
    shape = np.broadcast_shapes(np.shape(lower), np.shape(upper), np.shape(scale), np.shape(mean))
    if shape[-1] <= _BLOCK:
        return _gaussian_block(lower, upper, scale, mean)
    mass, error = np.empty(shape), np.empty(shape)
    for start in range(0, shape[-1], _BLOCK):
        block = (..., slice(start, start + _BLOCK))
        mass[block], error[block] = _gaussian_block(
            lower[block], upper[block], _columns(scale, block), _columns(mean, block)
        )
    return mass, error


def _columns(parameter: float | FloatArray, block: Any) -> float | FloatArray:
    """Return what belongs to some of the intervals of a parameter that may be the same for all."""
    if not isinstance(parameter, np.ndarray) or parameter.ndim == 0 or parameter.shape[-1] == 1:
        return parameter
    columns: FloatArray = parameter[block]
    return columns


def _gaussian_block(
    lower: FloatArray, upper: FloatArray, scale: float | FloatArray, mean: float | FloatArray
) -> tuple[FloatArray, FloatArray]:
    # What is computed for the wide intervals on the way, some of them infinite, is replaced below.
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
        mass = _mean_of_narrow(z, w, float(extent.max(initial=0.0)))
        z *= z
        z *= -0.5
        mass *= np.exp(z)
        mass *= w / _ROOT_TWO_PI
        z *= -8.0 * UNIT_ROUNDOFF
        z += 20.0 * UNIT_ROUNDOFF
    if some_wide:
        ends = np.broadcast_arrays((lower - mean) / scale, (upper - mean) / scale)
        mass[wide], z[wide] = _wide_intervals(ends[0][wide], ends[1][wide])
    return mass, z


def _mean_of_narrow(z: FloatArray, w: FloatArray, extent: float) -> FloatArray:
    """Return the series M of `gaussian_interval` for intervals of at most that extent.

    By H_(2k+2) = (t - (4k+1) d) H_2k - 2k (2k-1) d² H_(2k-2) for H_n = He_n(z) w^n, t = z²w² and d = w².
    """
    terms = next(count for count, largest in _SERIES_TERMS if extent <= largest)
    d = w * w
    d_squared = d * d
    t = z * w
    t *= t
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


def _wide_intervals(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mass and relative error of wide intervals of the standard normal distribution."""
    mirrored: BoolArray = np.abs(low) > np.abs(high)
    near, far = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    mass = special.ndtr(-near) - special.ndtr(-far)
    # Left of the mean the survival function is at least ½ and hardly moves with a rounding of z.
    steepness = np.where(np.isfinite(near) & (near > 0.0), near, 0.0)
    return mass, (64.0 + 16.0 * steepness * steepness) * UNIT_ROUNDOFF
