"""The worst-case pairs of single events of dp-accounting: one rule for each kind, and the reasons of those refused."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from numbers import Real
from typing import Any

from pbdist.accounting.event_pairs import EventPairs
from pbdist.accounting.event_reading import Reading
from pbdist.accounting.event_sampling import ONE_VALUE, fixed_batch, poisson_sampled, truncated_batch
from pbdist.mechanisms import (
    Adjacency,
    DiscreteLaplace,
    Gaussian,
    GaussianMixture,
    Histogram,
    Laplace,
    RandomizedResponse,
)

#: By how many norms of a value a sum moves: by one for a record that comes, goes, or is left out; by two for another.
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
    """Theorems 40 and 82: exact counts of the outcomes; the pair itself where there are two."""
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


def _mixture(reading: Reading) -> EventPairs:
    """The pair says what it is the worst case of; A is what is seen with the record."""
    scale = reading.noise("standard_deviation")
    shifts, weights = reading.several("sensitivities"), reading.several("sampling_probs")
    reading.check_adjacency(ONE_VALUE, "its two distributions are those with and without a record")
    if not shifts:
        raise reading.refused("no shift")
    if all(shift == 0 for shift in shifts):
        return reading.nothing
    shifts, weights = _in_order(shifts, weights)
    return reading.exactly(lambda: GaussianMixture(scale, shifts, weights))


def _in_order(shifts: tuple[Any, ...], weights: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the same mixture with rising shifts, and without those that never occur; what is wrong with it stays."""
    numbers = all(isinstance(one, Real) and math.isfinite(one) for one in (*shifts, *weights))
    if not numbers or len(shifts) != len(weights) or not any(weights):
        return shifts, weights
    parts = sorted((part for part in zip(shifts, weights, strict=True) if part[1] != 0), key=lambda part: part[0])
    return tuple(shift for shift, _ in parts), tuple(weight for _, weight in parts)


def _tree(reading: Reading) -> EventPairs:
    """Theorem 83: a record is in as many nodes as the tree of its leaf has levels, each with noise of its own."""
    noise = reading.noise("noise_multiplier")
    given = reading.event.step_counts
    counts = (given,) if isinstance(given, Real) else reading.several("step_counts")
    steps = [reading.whole("step_counts", count, 0) for count in counts]
    if not steps:
        raise reading.refused("step_counts of no tree")
    reading.check_adjacency((Adjacency.ZERO_OUT,), "a record that comes or goes moves those after it to other leaves")
    levels = max(steps).bit_length()
    if levels == 0:
        return reading.nothing
    return reading.everything if noise == 0.0 else reading.exactly(lambda: Gaussian(noise), levels)


#: The rule of each kind that is not a composition.
RULES: Mapping[str, Callable[[Reading], EventPairs]] = {
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "GaussianDpEvent": _gaussian,
    "LaplaceDpEvent": _laplace,
    "MixtureOfGaussiansDpEvent": _mixture,
    "NoOpDpEvent": _no_operation,
    "NonPrivateDpEvent": _non_private,
    "PoissonSampledDpEvent": poisson_sampled,
    "RandomizedResponseDpEvent": _randomized_response,
    "SampledWithoutReplacementDpEvent": fixed_batch,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "TruncatedSubsampledGaussianDpEvent": truncated_batch,
}

#: Why each other kind is refused.
REFUSED: Mapping[str, str] = {
    "RepeatAndSelectDpEvent": "the best of a random number of runs, of which only Rényi divergences are bounded",
    "SampledWithReplacementDpEvent": "batches drawn with replacement, of which no pair is known",
    "UnsupportedDpEvent": "one whose description says that it has none",
    "ZCDpEvent": "bounds on Rényi divergences, which say nothing of a pair",
}
