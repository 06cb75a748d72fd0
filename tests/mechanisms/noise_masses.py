"""Masses of intervals under Gaussian and Laplace noise in many digits, each from the tail in which it lies."""

from typing import Any

import mpmath

__all__ = ["gaussian_mass", "laplace_mass"]


def _ends(lower: Any, upper: Any, scale: Any, mean: Any) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Of standard noise, mirrored where both lie above 0."""
    low, high = ((mpmath.mpf(x) - mpmath.mpf(mean)) / mpmath.mpf(scale) for x in (lower, upper))
    return (-high, -low) if low > 0 else (low, high)


def gaussian_mass(lower: Any, upper: Any, scale: Any = 1, mean: Any = 0) -> mpmath.mpf:
    with mpmath.workdps(max(mpmath.mp.dps, 60)):
        low, high = _ends(lower, upper, scale, mean)
    # Narrow masses far out: by the digits of the tails themselves.
    with mpmath.workdps(400 if high < -40 else max(mpmath.mp.dps, 60)):
        return mpmath.ncdf(high) - mpmath.ncdf(low)


def laplace_mass(lower: Any, upper: Any, scale: Any = 1, mean: Any = 0) -> mpmath.mpf:
    low, high = _ends(lower, upper, scale, mean)
    if high <= 0:
        return (mpmath.exp(high) - mpmath.exp(low)) / 2
    return 1 - (mpmath.exp(low) + mpmath.exp(-high)) / 2
