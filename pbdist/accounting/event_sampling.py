"""The worst-case pairs of events on samples: Poisson samples, those that are cut, and batches of a fixed size."""

from collections.abc import Callable, Mapping
from typing import Any

from pbdist.accounting.event_pairs import EventPairs
from pbdist.accounting.event_reading import Reading
from pbdist.errors import shown
from pbdist.mechanisms import (
    Adjacency,
    FixedBatchGaussian,
    Gaussian,
    Laplace,
    Pair,
    SubsampledGaussian,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
)

#: The neighbours for which a sum moves by one value: one record more or less, or one in place of nothing.
ONE_VALUE = (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT)

#: What a Poisson sample makes of a pair, by the pair's kind.
_SAMPLED: Mapping[type, Callable[[Any, float], Pair]] = {
    Gaussian: lambda pair, rate: SubsampledGaussian(pair.scale, rate, pair.sensitivity),
    Laplace: lambda pair, rate: SubsampledLaplace(pair.scale, rate, pair.sensitivity),
}


def poisson_sampled(reading: Reading) -> EventPairs:
    """The pair of the sampled noise; a rate of 1 is no sampling, and with a rate of 0 nothing is seen.

    A record in place of nothing changes no other one's chance to be sampled: it is as if it were added.
    """
    rate = reading.probability("sampling_probability")
    inner = reading.inner(reading.event.event)
    if rate == 0.0 or not inner.upper:
        return reading.nothing
    if rate == 1.0:
        return inner
    reading.check_adjacency(ONE_VALUE, "no pair of a sample of a replaced record is proved here")
    pair = _only(reading, inner, tuple(_SAMPLED))
    return reading.exactly(lambda: _SAMPLED[type(pair)](pair, rate))


def fixed_batch(reading: Reading) -> EventPairs:
    """The pair that dominates batches of a fixed size, and the one that some neighbours follow: Theorem 39."""
    examples = reading.whole("source_dataset_size", reading.event.source_dataset_size, 0)
    batch = reading.whole("sample_size", reading.event.sample_size, 0)
    if batch > examples:
        raise reading.refused(f"sample_size {batch}, which is more than source_dataset_size {examples}")
    inner = reading.inner(reading.event.event)
    if batch == 0 or not inner.upper:
        return reading.nothing
    reading.check_adjacency((Adjacency.REPLACE_ONE,), "a batch of a fixed size has another record in its place")
    if batch == examples:
        return inner
    pair = _only(reading, inner, (Gaussian,))
    # The pair of one batch counts the norm of a value, of which two lie between a record and another one.
    mechanism = reading.made(lambda: FixedBatchGaussian(pair.scale, batch, examples, 0.5 * pair.sensitivity))
    return reading.between(lambda: mechanism.upper_pair, lambda: mechanism.lower_pair)


def truncated_batch(reading: Reading) -> EventPairs:
    """The pair that dominates samples that are cut, and the one that some neighbours follow: Theorem 38.

    The size of the data set is that of the larger neighbour, as dp-accounting computes with it.
    """
    noise = reading.noise("noise_multiplier")
    rate = reading.probability("sampling_probability")
    batch = reading.whole("truncated_batch_size", reading.event.truncated_batch_size, 0)
    examples = reading.whole("dataset_size", reading.event.dataset_size, 0)
    if rate == 0.0 or batch == 0 or examples == 0:
        return reading.nothing
    reading.check_adjacency((Adjacency.ADD_OR_REMOVE,), "no pair of samples that are cut is proved here")
    if batch >= examples:
        return reading.everything if noise == 0.0 else reading.exactly(lambda: SubsampledGaussian(noise, rate))
    mechanism = reading.made(lambda: TruncatedPoissonGaussian(noise, rate, batch, examples))
    return reading.between(lambda: mechanism.upper_pair, lambda: mechanism.lower_pair)


def _only(reading: Reading, inner: EventPairs, kinds: tuple[type, ...]) -> Any:
    """Return the one pair of the event that is run on the sample, of one of some kinds; all else is refused."""
    if inner.exact and len(inner.upper) == 1:
        ((pair, count),) = inner.upper
        if count == 1 and type(pair) in kinds:
            return pair
    names = " or ".join(f"{kind.__name__}DpEvent" for kind in kinds)
    raise reading.refused(f"a sample of {shown(reading.event.event)}, and not of one {names} with noise")
