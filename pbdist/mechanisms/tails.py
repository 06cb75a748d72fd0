"""Exponential moments of Gaussian tails, as upper bounds of their logarithms."""

import math

import numpy as np
from scipy import special

from pbdist.mechanisms.masses import SMALLEST_MASS, UNIT_ROUNDOFF, gaussian_interval, rounded_up
from pbdist.types import FloatArray

#: A picture of a Gaussian variable: deviations beyond its means at least, values a deviation, and values at most.
BEYOND = 12.0
_RESOLUTION, _MAX_VALUES = 6.0, 2000


def picture_values(low: float, high: float, deviation: float, beyond: float) -> FloatArray | None:
    """Equally spaced values of a Gaussian variable of any mean from `low` to `high`, and so many deviations beyond.

    None if they would be too many.
    """
    first, last = low - beyond * deviation, high + beyond * deviation
    count = (last - first) / deviation * _RESOLUTION
    return np.linspace(first, last, math.ceil(count) + 1) if count < _MAX_VALUES else None


def steepest_tilt(loss: FloatArray, log_mass: FloatArray, target: float) -> float:
    """Return about the tilt of at least 0 that gives point masses the mean loss `target`, or a bit less, by Newton."""
    tilt = 0.0
    for _ in range(12):
        exponent = log_mass + tilt * loss
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        mean = float(weight @ loss)
        variance = float(weight @ (loss - mean) ** 2)
        missing = target - mean
        if variance <= 0.0 or abs(missing) <= 0.1 * math.sqrt(variance):
            break
        tilt = max(tilt + missing / variance, 0.0)
    return tilt


def log_moment_of_tail(tilt: float, mean: float, deviation: float, start: float) -> float:
    """Upper bound of ln E[e^(tilt V); V > start] for V ~ N(mean, deviation²).

    Completing the square, the density becomes exp(tilt mean + tilt² deviation² / 2) times that of
    N(mean + tilt deviation², deviation²). Mean and deviation may be off by 4u relatively; all roundings of the exponent
    and of the tail's end are paid for by 16u of their terms, and scipy's ``log_ndtr`` is taken to be accurate to
    32u (1 + |value|).
    """
    if start == math.inf:
        return -math.inf
    shift = tilt * deviation * deviation
    exponent = tilt * mean + 0.5 * tilt * shift
    exponent_error = 16.0 * UNIT_ROUNDOFF * (abs(tilt * mean) + 0.5 * tilt * shift)
    if start == -math.inf:
        return exponent + exponent_error
    end = (start - mean - shift) / deviation
    end -= 16.0 * UNIT_ROUNDOFF * (abs(start) + abs(mean) + abs(shift)) / deviation
    tail = float(special.log_ndtr(-end))
    return rounded_up(exponent + exponent_error + tail + 32.0 * UNIT_ROUNDOFF * (1.0 + abs(tail)))


def log_moment_of_lines(
    ends: FloatArray, anchor: FloatArray, level: FloatArray, slope: FloatArray, *, mean: float, deviation: float
) -> float:
    """Upper bound of ln Σ_j E[e^(level_j + slope_j (V - anchor_j)); ends_j < V < ends_(j+1)], V ~ N(mean, deviation²).

    `ends`, shape (k + 1,), do not fall; the outermost ones may be infinite. The others, shape (k,), are finite;
    each level is an upper value. Mean and deviation may be off by 4u relatively.

    The square is completed as in `log_moment_of_tail`, piece by piece. The mean of each piece then errs by
    some u of its terms, and the deviation by 4u: with z the largest distance in question, in deviations, that is less
    than 32u (1 + z²) of a mass; the roundings of the exponent are paid for by 16u of their terms.
    """
    shift = slope * deviation * deviation
    centre = mean + shift
    mass, error, log_scale = gaussian_interval(ends[:-1], ends[1:], deviation, centre, scaled=True)
    finite = ends[np.isfinite(ends)]
    terms = (level, slope * anchor, slope * mean, 0.5 * slope * shift)
    exponent = terms[0] - terms[1] + terms[2] + terms[3]
    largest = np.max(np.abs(terms), axis=0)
    reach = float(np.max(np.abs(finite), initial=0.0) + abs(mean) + np.max(np.abs(shift))) / deviation
    present = ends[:-1] < ends[1:]
    if not present.any():
        return -math.inf
    # A mass that float64 does not resolve is below any float64.
    upper = np.maximum(mass, SMALLEST_MASS) * (1.0 + 2.0 * error)
    logs = (np.log(upper) + log_scale + exponent + 64.0 * UNIT_ROUNDOFF * (1.0 + largest))[present]
    total = float(np.logaddexp.reduce(logs))
    # Each sum in the reduction errs by 16u at most and by its rounding.
    slack = 32.0 * (1.0 + reach * reach) + 16.0 * logs.size * (1.0 + abs(total))
    return float(total + slack * UNIT_ROUNDOFF)
