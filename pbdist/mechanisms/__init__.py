"""Mechanisms: frozen, validated descriptions of worst-case pairs, and their certified masses on bins."""

from collections.abc import Mapping
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import AdditiveNoise, Gaussian, Laplace
from pbdist.mechanisms.adjacency import alike, checked_adjacency, joined, stated
from pbdist.mechanisms.bounded_range import BoundedRange, exponential_mechanism, permute_and_flip
from pbdist.mechanisms.enclosure import Enclosure, FinitePair
from pbdist.mechanisms.finite import ApproximateDP, Histogram, RandomizedResponse
from pbdist.mechanisms.fixed_batch import FixedBatchGaussian, FixedBatchUpper
from pbdist.mechanisms.gaussian_mixture import GaussianMixture
from pbdist.mechanisms.histogram_files import load_histograms
from pbdist.mechanisms.integer_noise import DiscreteGaussian, DiscreteLaplace
from pbdist.mechanisms.intervals import scaled_gaussian_interval
from pbdist.mechanisms.kary import KaryRandomizedResponse
from pbdist.mechanisms.laplace_sum import LaplaceSum
from pbdist.mechanisms.masses import SMALLEST_MASS, UNIT_ROUNDOFF, LossMasses, MassBounds, ScaledLossMasses
from pbdist.mechanisms.noisy_count import READINGS, NoisyCount
from pbdist.mechanisms.pair import (
    ElementaryPair,
    Pair,
    adjacency_together,
    choices_of,
    factor_counts,
    reveals_nothing,
)
from pbdist.mechanisms.poisson import Poisson
from pbdist.mechanisms.product import Product
from pbdist.mechanisms.random_allocation import RandomAllocation
from pbdist.mechanisms.reversed import Reversed
from pbdist.mechanisms.sampled_group import LARGEST_SAMPLED_GROUP, SubsampledGaussianGroup
from pbdist.mechanisms.staircase import Staircase
from pbdist.mechanisms.subsampled import SubsampledGaussian
from pbdist.mechanisms.subsampled_laplace import SubsampledLaplace
from pbdist.mechanisms.tails import BEYOND
from pbdist.mechanisms.truncated_poisson import TruncatedPoissonGaussian, TruncatedPoissonUpper
from pbdist.mechanisms.worst_of import Alternatives, TwoSided, WorstOf
from pbdist.types import Adjacency, JsonValue

__all__ = [
    "BEYOND",
    "LARGEST_SAMPLED_GROUP",
    "MECHANISMS",
    "READINGS",
    "SMALLEST_MASS",
    "UNIT_ROUNDOFF",
    "AdditiveNoise",
    "Adjacency",
    "Alternatives",
    "ApproximateDP",
    "BoundedRange",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ElementaryPair",
    "Enclosure",
    "FinitePair",
    "FixedBatchGaussian",
    "FixedBatchUpper",
    "Gaussian",
    "GaussianMixture",
    "Histogram",
    "KaryRandomizedResponse",
    "Laplace",
    "LaplaceSum",
    "LossMasses",
    "MassBounds",
    "NoisyCount",
    "Pair",
    "Poisson",
    "Product",
    "RandomAllocation",
    "RandomizedResponse",
    "Reversed",
    "ScaledLossMasses",
    "Staircase",
    "SubsampledGaussian",
    "SubsampledGaussianGroup",
    "SubsampledLaplace",
    "TruncatedPoissonGaussian",
    "TruncatedPoissonUpper",
    "TwoSided",
    "WorstOf",
    "adjacency_together",
    "alike",
    "checked_adjacency",
    "choices_of",
    "exponential_mechanism",
    "factor_counts",
    "joined",
    "load_histograms",
    "pair_from_canonical",
    "permute_and_flip",
    "reveals_nothing",
    "scaled_gaussian_interval",
    "stated",
]

#: Every mechanism by the name that its canonical form carries.
MECHANISMS: Mapping[str, type[Pair]] = {
    kind.__name__: kind
    for kind in (
        ApproximateDP,
        BoundedRange,
        DiscreteGaussian,
        DiscreteLaplace,
        FixedBatchGaussian,
        FixedBatchUpper,
        Gaussian,
        GaussianMixture,
        Histogram,
        KaryRandomizedResponse,
        Laplace,
        LaplaceSum,
        NoisyCount,
        Poisson,
        Product,
        RandomAllocation,
        RandomizedResponse,
        Reversed,
        Staircase,
        SubsampledGaussian,
        SubsampledGaussianGroup,
        SubsampledLaplace,
        TruncatedPoissonGaussian,
        TruncatedPoissonUpper,
        WorstOf,
    )
}


def pair_from_canonical(form: Mapping[str, JsonValue]) -> Pair:
    """Return the pair whose canonical form is `form`.

    Parameters
    ----------
    form : mapping
        As `Pair.canonical` returns it; the key ``"mechanism"`` names the class, the others are its parameters.

    Raises
    ------
    InvalidInputError
        If the mechanism is unknown, a parameter is unknown or missing, or a value is out of its range.
    """
    given: Any = form
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InvalidInputError(f"mechanism: expected a mapping of parameters by name, got {shown(form)}")
    parameters = {key: value for key, value in form.items() if key != "mechanism"}
    name = form.get("mechanism")
    if not isinstance(name, str) or name not in MECHANISMS:
        raise InvalidInputError(f"mechanism: expected one of {', '.join(sorted(MECHANISMS))}, got {shown(name)}")
    if name == "Product":
        pairs = parameters.get("pairs")
        if set(parameters) != {"pairs"} or not isinstance(pairs, list | tuple):
            raise InvalidInputError(f"Product: expected a list of pairs and nothing else, got {shown(parameters)}")
        return Product(*(pair_from_canonical(pair) for pair in pairs))
    if name == "WorstOf":
        return _worst_of(parameters)
    nested = {
        key: pair_from_canonical(value) if isinstance(value, Mapping) else value for key, value in parameters.items()
    }
    try:
        return MECHANISMS[name](**nested)
    except TypeError as error:
        raise InvalidInputError(f"{name}: expected its parameters by name, got {sorted(nested)}: {error}") from error


def _worst_of(parameters: Mapping[str, JsonValue]) -> WorstOf:
    pairs, attained = parameters.get("pairs"), parameters.get("attained")
    if set(parameters) - {"neighbours"} != {"pairs", "attained"} or not isinstance(pairs, list | tuple):
        raise InvalidInputError(f"WorstOf: expected a list of pairs, and attained, got {shown(parameters)}")
    told = parameters.get("neighbours")
    return WorstOf(*(pair_from_canonical(pair) for pair in pairs), attained=attained, neighbours=told)
