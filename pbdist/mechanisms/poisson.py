"""Poisson noise added to a count."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import cut_gaussian
from pbdist.mechanisms.declaration import SPREADS, mechanism, parameter, positive, sensitivity_of, whole
from pbdist.mechanisms.masses import SMALLEST_FLOAT, SMALLEST_MASS, UNIT_ROUNDOFF, LossMasses
from pbdist.mechanisms.outcomes import MAX_OUTCOMES, PairOfOutcomes, masses_of_outcomes
from pbdist.mechanisms.pair import ElementaryPair, NoiseOrder, ordered
from pbdist.types import Direction, FloatArray

_NAME = "Poisson"

#: At most e^-670 < 1e-290 of the noise is left out on either side.
_REACH = 670.0

#: Up to this sensitivity the loss is a sum of as many logarithms, beyond it the logarithm of the ratio of the masses.
_MAX_TERMS = 16

#: Deviances are summed as a series up to this |k - mean| / (k + mean).
_SERIES = 1.0 / 3.0

#: Up to this k Stirling's remainder is taken from the factorial itself.
_LARGEST_FACTORIAL = 20
_STIRLING_SERIES = (1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0)
_STIRLING_RATIOS: FloatArray = np.array(
    [k**k / math.factorial(k) * math.exp(-k) for k in range(_LARGEST_FACTORIAL + 1)], dtype=np.float64
)

#: Faint masses have a logarithm below this.
_FAINT_EXPONENT = -635.0


@mechanism
class Poisson(PairOfOutcomes):
    """A count hidden under Poisson noise N, as in Stadium: A = N, B = sensitivity + N.

    An output below the sensitivity occurs under A only and reveals the input. The sum of independent Poisson variables,
    as that of the noise of several servers, is one of the sum of their means.

    Examples
    --------
    >>> from pbdist import Poisson, privacy_bounds
    >>> found = privacy_bounds(Poisson(mean=4000.0), compositions=100, epsilon=1.0)
    >>> bool(found.delta_lower.item() <= found.delta_upper.item() < 1.002 * found.delta_lower.item())
    True
    """

    noise_family = "Poisson"
    does = "A count is seen to which a Poisson number of noise messages was added."
    assumes = (
        "One individual's action raises the count by at most the sensitivity. Only the noise of honest servers hides"
        " anything: the mean is that of their noise alone."
    )
    checked_together = ("mean", "sensitivity")
    largest_decides = ("sensitivity",)

    mean: float = parameter(
        positive,
        "the mean of the noise, which is its variance too",
        unit="counts",
        aliases=SPREADS,
        example=[1000.0, 4000.0],
        sized=True,
    )
    sensitivity: int = sensitivity_of("by how much one record moves the answer", whole(1, MAX_OUTCOMES), 1)

    def check(self) -> None:
        """Refuse noise of too many outcomes."""
        if self.outcomes > MAX_OUTCOMES:
            raise InvalidInputError(
                f"{_NAME}.mean: expected a mean and a sensitivity that leave at most {MAX_OUTCOMES} counts,"
                f" got {shown(self.mean)} and {self.sensitivity}"
            )

    @classmethod
    def usual_noise(cls, deviation: float, parameters: Mapping[str, Any]) -> float:
        """The variance, which is the mean."""
        return max(super().usual_noise(deviation, parameters) ** 2, 1.0)

    def of_group(self, times: int) -> "Poisson":
        """With so many times the sensitivity."""
        return Poisson(self.mean, self.sensitivity * times)

    @property
    def order(self) -> NoiseOrder | None:
        """By the mean and by the inverse of the sensitivity."""
        return ordered(self, Poisson, Fraction(self.mean), Fraction(1, self.sensitivity))

    @property
    def cost_stand_in(self) -> ElementaryPair:
        """Gaussian noise of the same variance."""
        return cut_gaussian(math.sqrt(self.mean), float(self.sensitivity))

    @property
    def outcomes(self) -> int:
        """How many counts are atoms of their own."""
        first, last = self._noise_range()
        return last - first + 1 + self.sensitivity

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    def always_reveals(self, direction: Direction) -> bool:
        """Totals below the sensitivity occur under one alone."""
        return direction is Direction.A_TO_B

    def log_faint_moment(self, tilt: float, direction: Direction) -> float:
        """Of the far tail (Theorem 20 of docs/theory.md)."""
        if self.always_reveals(direction):
            return math.inf
        mean, shift = self.mean, self.sensitivity
        first = _first_faint(mean) - shift
        if first <= mean:
            return math.inf
        factors = np.log((first + np.arange(1.0, shift + 1.0)) / mean)
        loss = float(np.sum(factors))
        log_ratio = math.log(mean / (first + 1.0)) + tilt * math.log1p(shift / (first + 1.0))
        if log_ratio >= -1e-9:
            return math.inf
        log_mass = _log_poisson(first, mean)
        size = first * abs(math.log(mean)) + math.lgamma(first + 1.0) + mean + (tilt + shift) * loss
        return log_mass + tilt * loss - math.log(-math.expm1(log_ratio)) + 64.0 * UNIT_ROUNDOFF * size + 1e-6

    def atoms(self) -> LossMasses:
        """One atom a count, and the mass of the counts that only A can show."""
        s = self.sensitivity
        first, last = self._noise_range()
        # The noise under B is less by the sensitivity.
        lowest = max(first - s, 0)
        noise = np.arange(lowest, last + s + 1, dtype=np.float64)
        mass, error = poisson_masses(noise, self.mean)
        # No count of noise is impossible: a mass that underflows must not become 0.
        mass = np.maximum(mass, SMALLEST_FLOAT)
        count = noise[first - lowest :]
        impossible = max(s - first, 0)
        mass_b = np.concatenate((np.zeros(impossible), mass))[: count.size]
        error_b = np.concatenate((np.zeros(impossible), error))[: count.size]
        loss, loss_error = self._losses(count)
        return masses_of_outcomes(
            np.zeros(0),
            mass[first - lowest :],
            mass_b,
            error_a=error[first - lowest :],
            error_b=error_b,
            known_loss=loss,
            known_error=loss_error,
            further_a=4.0 * SMALLEST_MASS,
            further_b=4.0 * SMALLEST_MASS,
        )

    def _noise_range(self) -> tuple[int, int]:
        """Return the first and last N that are atoms; the others have a mass of at most e^-670 on either side.

        By P(N <= mean - t) <= exp(-t² / (2 mean)) and P(N >= mean + t) <= exp(-t² / (2 mean + 2t/3)), Bernstein's
        inequality. One count more on either side pays for the roundings.
        """
        below = math.sqrt(2.0 * _REACH * self.mean)
        above = _REACH / 3.0 + math.sqrt((_REACH / 3.0) ** 2 + 2.0 * _REACH * self.mean)
        return max(math.floor(self.mean - below) - 1, 0), math.ceil(self.mean + above) + 1

    def _losses(self, count: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the losses ln(mean^s (k - s)! / k!) = Σ_(j<s) ln(mean / (k - j)) and bounds on their errors.

        NaN where B lacks the count, and for the large sensitivities where the ratio of the masses is as good.
        A logarithm is taken as that of 1 + x, x = (mean - m) / m, where x is in [-1/2, 1]: the two roundings of x move
        it by at most 1.45 · 2u relatively. Elsewhere the rounding of mean / m moves it by u, at most 1.45u relatively.
        With the 8u of the function itself a term is off by at most 11u, and each sum adds u of the sum of the sizes.
        """
        loss, sizes = np.full(count.size, np.nan), np.zeros(count.size)
        possible = count >= self.sensitivity
        if self.sensitivity > _MAX_TERMS:
            return loss, sizes
        total, size = np.zeros(int(possible.sum())), np.zeros(int(possible.sum()))
        for j in range(self.sensitivity):
            m = count[possible] - j
            ratio = self.mean / m
            near = (ratio > 0.5) & (ratio < 2.0)
            term = np.where(near, np.log1p(np.where(near, (self.mean - m) / m, 0.0)), np.log(ratio))
            total += term
            size += np.abs(term)
        loss[possible], sizes[possible] = total, size
        return loss, (12.0 + self.sensitivity) * UNIT_ROUNDOFF * sizes


def poisson_masses(count: FloatArray, mean: float) -> tuple[FloatArray, FloatArray]:
    """Masses of counts under Poisson noise, accurate for large means and far into the tails.

    Returns masses, which may underflow, and a bound on their relative error; counts are whole, from 0 to 2^53.

    The mass is exp(-D) k^k e^-k / k! with the deviance D = k ln(k / mean) - (k - mean) (Loader 2000, "Fast and Accurate
    Computation of Binomial Probabilities"). The last factor is exp(-S) / √(2πk) with Stirling's series
    S = 1/(12k) - 1/(360k³) + 1/(1260k⁵) - 1/(1680k⁷) + 1/(1188k⁹) - .., which encloses: from k = 21 on the rest is
    below 1.92e-3 / 21¹¹ < 2^-57.

    Roundings: the exponential of D + S is off by the error of D, by u (D + 1) and by its own 8u, the root and the
    quotient by less than 4u; up to k = 20 the factor itself is off by 10u.
    """
    deviance, error = _deviance(count, mean)
    large = count > _LARGEST_FACTORIAL
    k = np.where(large, count, 1.0)
    inverse_square = 1.0 / (k * k)
    series = np.zeros_like(k)
    for coefficient in _STIRLING_SERIES:
        series = series * inverse_square + coefficient
    series /= k
    small = np.where(large, 0.0, count).astype(np.int64)
    factor = np.where(large, 1.0 / np.sqrt(2.0 * math.pi * k), _STIRLING_RATIOS[small])
    with np.errstate(under="ignore"):
        mass = np.exp(-(deviance + np.where(large, series, 0.0))) * factor
    return mass, error + (24.0 + deviance) * UNIT_ROUNDOFF


def _deviance(count: FloatArray, mean: float) -> tuple[FloatArray, FloatArray]:
    """Return D = k ln(k / mean) - (k - mean) and a bound on its error.

    With d = k - mean, v = d / (k + mean) and ln(k / mean) = 2 atanh v: D = v (d + 2k (v²/3 + v⁴/5 + ..)). For v up to
    1/3 in size the second summand is at most 1/6 of d, and at most 0.084 of it where their signs differ; it is off by
    12u, d by u and v by 3u, which leaves less than 8u for D. The series ends where v^2n is below 2^-60. Elsewhere the
    logarithm is off by 8u and by the rounding of its argument, 1.45u of its size at most, being at least ln 2.
    """
    difference = count - mean
    v = difference / (count + mean)
    near = np.abs(v) <= _SERIES
    square = np.where(near, v * v, 0.0)
    largest = float(np.max(square, initial=0.0))
    terms = max(1, math.ceil(60.0 * math.log(2.0) / -math.log(largest))) if largest > 0.0 else 1
    series = np.zeros_like(v)
    for j in range(terms, 0, -1):
        series = (series + 1.0 / (2 * j + 1)) * square
    close = v * (difference + 2.0 * count * series)
    if np.all(near):
        return close, 10.0 * UNIT_ROUNDOFF * close
    occurs = ~near & (count > 0.0)
    product = np.where(occurs, count, 0.0) * np.log(np.where(occurs, count, mean) / mean)
    deviance = np.where(near, close, product - difference)
    far_error = (12.0 * np.abs(product) + 2.0 * np.abs(difference)) * UNIT_ROUNDOFF
    return deviance, np.where(near, 10.0 * UNIT_ROUNDOFF * close, far_error)


def _first_faint(mean: float) -> float:
    """Return a count above the mean from which on Poisson masses are below e^-635, about the first such."""
    low, high = math.ceil(mean), math.ceil(mean + 700.0 + 40.0 * math.sqrt(mean))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _log_poisson(middle, mean) > _FAINT_EXPONENT else (low, middle)
    return float(low)


def _log_poisson(count: float, mean: float) -> float:
    return count * math.log(mean) - mean - math.lgamma(count + 1.0)
