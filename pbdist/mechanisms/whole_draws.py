"""Masses of whole numbers, and of stretches of them, under discrete Laplace or Gaussian noise about a mean."""

import math

import numpy as np

from pbdist.mechanisms.integer_noise import DiscreteGaussian, DiscreteLaplace, discrete_gaussian_total
from pbdist.mechanisms.masses import UNIT_ROUNDOFF
from pbdist.types import FloatArray

#: Noise of which every draw is a whole number.
WholeNoise = DiscreteLaplace | DiscreteGaussian

#: Gaussian noise further than this from its mean, in scales, has a mass below `SMALLEST_MASS`.
_GAUSSIAN_REACH = 38.0


def whole_interval(
    noise: WholeNoise, first: FloatArray, last: FloatArray, mean: float
) -> tuple[FloatArray, FloatArray]:
    """Return P(first <= X <= last), X the noise about a whole mean, and bounds on the relative errors.

    The ends are whole numbers below 2^53 in size, or infinite, and no stretch is empty. The errors hold where a mass is
    at least `SMALLEST_MASS`.
    """
    if isinstance(noise, DiscreteLaplace):
        return _of_laplace(noise.scale, first - mean, last - mean)
    return _of_gaussian(noise.scale, first - mean, last - mean)


def mean_of_positive_part(noise: WholeNoise, mean: float) -> float:
    """Return E max(0, X), X the noise about a whole mean: about 12 digits, not a certified bound.

    By the symmetry of the noise N it is max(0, mean) + E max(0, N - |mean|). For discrete Laplace noise, with p =
    e^(-1/scale), the second summand is p^(|mean| + 1) / (1 - p²).
    """
    distance = abs(mean)
    if isinstance(noise, DiscreteLaplace):
        beyond = math.exp(-(distance + 1.0) / noise.scale) / -math.expm1(-2.0 / noise.scale)
    else:
        reach = math.ceil(_GAUSSIAN_REACH * noise.scale) + 1
        excess = np.arange(1.0, max(reach - distance, 0.0) + 1.0)
        z = (excess + distance) / noise.scale
        beyond = float(np.sum(excess * np.exp(-0.5 * z * z))) / discrete_gaussian_total(noise.scale)[0]
    return max(mean, 0.0) + beyond


def _of_laplace(scale: float, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum p^|d| (1 - p) / (1 + p) over the distances d from the mean, p = e^(-1/scale), in closed form.

    n distances of one sign from size d on have the mass p^d (1 - p^n) / (1 + p). A power is off by 8u, and by the u of
    its exponent; 1 - p^n by 8u and by the u of its argument, 1 + p by 10u; quotients, products and the sum of the two
    sides, both of them at least 0, by 5u.
    """
    total = 1.0 + math.exp(-1.0 / scale)
    above, below = np.maximum(first, 0.0), np.maximum(-last, 1.0)
    sides = []
    for nearest, farthest in ((above, last), (below, -first)):
        there = nearest <= farthest
        exponent = np.where(there, nearest, 0.0) / scale
        # An infinite end has infinitely many distances.
        count = np.where(there, farthest - nearest + 1.0, 0.0)
        with np.errstate(under="ignore"):
            sides.append((np.exp(-exponent) * -np.expm1(-count / scale) / total, np.where(there, exponent, 0.0)))
    # The error of a power is at most that of the larger exponent among the sides that are there.
    return sides[0][0] + sides[1][0], (40.0 + 2.0 * np.maximum(sides[0][1], sides[1][1])) * UNIT_ROUNDOFF


def _of_gaussian(scale: float, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum e^(-d² / (2 scale²)) / total over the distances d from the mean, as far out as `_GAUSSIAN_REACH`.

    What lies further out is below e^-722, and so below 1e-20 of any mass of 1e-290. The exponent E of a summand is off
    by 3u of it, its exponential by 8u more, and correctly rounded sums and the quotient by 2u; the summands of the
    largest weight are those nearest to the mean.
    """
    total, total_error = discrete_gaussian_total(scale)
    reach = float(math.ceil(_GAUSSIAN_REACH * scale) + 1)
    nearest = np.maximum(np.maximum(first, -last), 0.0)
    exponent = 0.5 * nearest * nearest / (scale * scale)
    with np.errstate(under="ignore"):
        mass = np.exp(-exponent)
        for index in np.flatnonzero(first < last).tolist():
            # At least one summand, however far out it is.
            low, high = max(first[index], min(-reach, last[index])), min(last[index], max(reach, first[index]))
            d = np.arange(low, high + 1.0)
            z = 0.5 * d * d / (scale * scale)
            mass[index] = math.fsum(np.exp(-z))
            # Of summands further out than the nearest by more than 60 nats less than 1e-20 is left.
            exponent[index] = min(exponent[index] + 60.0 + math.log(d.size), float(z.max(initial=0.0)))
        return mass / total, total_error + (16.0 + 4.0 * exponent) * UNIT_ROUNDOFF
