"""The worst-case pairs of single events of dp-accounting: one rule for each kind, and the reasons of those refused."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from numbers import Real
from typing import Any

from pbdist.accounting.event_pairs import EventPairs
from pbdist.accounting.event_reading import Reading
from pbdist.errors import shown
from pbdist.mechanisms import (
    Adjacency,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    Laplace,
    Pair,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
)

__all__ = ["REFUSED", "RULES"]

#: For one record more or less, or in place of nothing, a sum moves by up to the norm of a value.
_ONE_VALUE = (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT)
#: For one record in place of another one it moves by up to twice that.
_DISTANCE = {Adjacency.ADD_OR_REMOVE: 1, Adjacency.ZERO_OUT: 1, Adjacency.REPLACE_ONE: 2}


def _no_operation(reading: Reading) -> EventPairs:
    return reading.nothing


def _non_private(reading: Reading) -> EventPairs:
    return reading.everything


def _gaussian(reading: Reading) -> EventPairs:
    """Theorem 81: however many coordinates, the worst sum moves along one line by as much as it can."""
    noise = reading.noise("noise_multiplier")
    if noise == 0.0:
        return reading.everything
    return reading.exactly(lambda: Gaussian(noise, sensitivity=float(_DISTANCE[reading.adjacency])))


def _laplace(reading: Reading) -> EventPairs:
    """Theorem 81: however many coordinates, the worst sum moves in one of them by as much as it can."""
    noise = reading.noise("noise_multiplier")
    if noise == 0.0:
        return reading.everything
    return reading.exactly(lambda: Laplace(noise, sensitivity=float(_DISTANCE[reading.adjacency])))


def _discrete_laplace(reading: Reading) -> EventPairs:
    """Theorem 81, and Theorem 11 where 1 / noise_parameter lies between two float64 numbers."""
    inverse = reading.noise("noise_parameter")
    if inverse == 0.0:
        raise reading.refused("noise_parameter 0.0, with which no such noise exists")
    shift = reading.whole("sensitivity", reading.event.sensitivity, 0) * _DISTANCE[reading.adjacency]
    if shift == 0:
        return reading.nothing
    least, most = _inverses(inverse)
    if least == most:
        return reading.exactly(lambda: DiscreteLaplace(least, shift))
    return reading.between(lambda: DiscreteLaplace(least, shift), lambda: DiscreteLaplace(most, shift))


def _inverses(value: float) -> tuple[float, float]:
    """Return the largest float64 that is at most 1 / value, and the smallest that is at least that."""
    if 1.0 / value == math.inf:
        return math.inf, math.inf
    near, exact = 1.0 / value, 1 / Fraction(value)
    least = near if near <= exact else math.nextafter(near, 0.0)
    most = near if near >= exact else math.nextafter(near, math.inf)
    return least, most


def _randomized_response(reading: Reading) -> EventPairs:
    """Theorem 82: exact counts of the outcomes; the pair itself where there are two."""
    noise = reading.probability("noise_parameter")
    buckets = reading.whole("num_buckets", reading.event.num_buckets, 1)
    reading.check_adjacency(
        (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT),
        "it has one answer for each record, and so shows how many there are",
    )
    if buckets == 1 or noise == 1.0:
        return reading.nothing
    half = 0.5 * noise
    if reading.adjacency is Adjacency.REPLACE_ONE and buckets == 2 and 2.0 * half == noise:
        # The lie is told with probability noise / 2; renaming the outcomes makes it the truth.
        return reading.exactly(lambda: RandomizedResponse(half))
    # In units of 1 / (buckets * whole) each other outcome has the mass `blind`, the true one the rest.
    blind, whole = noise.as_integer_ratio()
    true = buckets * whole - (buckets - 1) * blind
    if reading.adjacency is Adjacency.ZERO_OUT:
        return reading.exactly(lambda: Histogram((true, (buckets - 1) * blind), (1, buckets - 1)))
    rest = (buckets - 2) * blind
    return reading.exactly(lambda: Histogram((true, blind, rest), (blind, true, rest)))


def _poisson_sampled(reading: Reading) -> EventPairs:
    """The pair of the sampled noise; a rate of 1 is no sampling, and with a rate of 0 nothing is seen."""
    rate = reading.probability("sampling_probability")
    inner = reading.inner(reading.event.event)
    if rate == 0.0 or not inner.upper:
        return reading.nothing
    if rate == 1.0:
        return inner
    reading.check_adjacency(_ONE_VALUE, "no pair of a sample of a replaced record is proved here")
    pair, count = inner.upper[0] if inner.exact and len(inner.upper) == 1 else (None, 0)
    if count == 1 and type(pair) in _SAMPLED:
        return reading.exactly(lambda: _SAMPLED[type(pair)](pair, rate))
    raise reading.refused(f"a sample of {shown(reading.event.event)}, and not of one {_SAMPLED_NAMES}")


def _tree(reading: Reading) -> EventPairs:
    """Theorem 83: a record is in as many nodes as the tree of its leaf has levels, each with noise of its own."""
    noise = reading.noise("noise_multiplier")
    given = reading.event.step_counts
    counts = [given] if isinstance(given, Real) else list(given)
    steps = [reading.whole("step_counts", count, 0) for count in counts]
    if not steps:
        raise reading.refused("step_counts of no tree")
    reading.check_adjacency((Adjacency.ZERO_OUT,), "a record that comes or goes moves those after it to other leaves")
    levels = max(steps).bit_length()
    if levels == 0:
        return reading.nothing
    return reading.everything if noise == 0.0 else reading.exactly(lambda: Gaussian(noise), levels)


def _sampled_gaussian(pair: Any, rate: float) -> Pair:
    return SubsampledGaussian(pair.scale, rate, pair.sensitivity)


def _sampled_laplace(pair: Any, rate: float) -> Pair:
    """Theorem 36: of numbers, and by Theorem 81 of several coordinates."""
    return SubsampledLaplace(pair.scale, rate, pair.sensitivity)


#: What a Poisson sample makes of a pair, by the pair's kind.
_SAMPLED: Mapping[type, Callable[[Any, float], Pair]] = {Gaussian: _sampled_gaussian, Laplace: _sampled_laplace}
_SAMPLED_NAMES = "GaussianDpEvent or LaplaceDpEvent with noise"

#: The rule of each kind that is not a composition.
RULES: Mapping[str, Callable[[Reading], EventPairs]] = {
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "GaussianDpEvent": _gaussian,
    "LaplaceDpEvent": _laplace,
    "NoOpDpEvent": _no_operation,
    "NonPrivateDpEvent": _non_private,
    "PoissonSampledDpEvent": _poisson_sampled,
    "RandomizedResponseDpEvent": _randomized_response,
    "SingleEpochTreeAggregationDpEvent": _tree,
}

#: Why each other kind is refused.
REFUSED: Mapping[str, str] = {
    "MixtureOfGaussiansDpEvent": "a mixture of Gaussians, which is read from no event: see GaussianMixture",
    "RepeatAndSelectDpEvent": "the best of a random number of runs, of which only Rényi divergences are bounded",
    "SampledWithReplacementDpEvent": "batches drawn with replacement, of which no pair is known",
    "SampledWithoutReplacementDpEvent": "batches of a fixed size, bounded by two pairs: see FixedBatchGaussian",
    "TruncatedSubsampledGaussianDpEvent": "truncated batches, bounded by two pairs: see TruncatedPoissonGaussian",
    "UnsupportedDpEvent": "one whose description says that it has none",
    "ZCDpEvent": "bounds on Rényi divergences, which say nothing of a pair",
}
