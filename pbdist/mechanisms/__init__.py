"""Mechanisms: frozen, validated descriptions of worst-case pairs, and their certified masses on bins."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from pbdist.errors import InvalidInputError, UnknownMechanismError, shown
from pbdist.mechanisms.additive import AdditiveNoise, Gaussian, Laplace, LaplaceSum, Staircase
from pbdist.mechanisms.bounded_range import BoundedRange, MetricDP, exponential_mechanism, permute_and_flip
from pbdist.mechanisms.composite import Alternatives, Enclosure, FinitePair, Product, Reversed, WorstOf
from pbdist.mechanisms.counts import READINGS, DiscreteGaussian, DiscreteLaplace, NoisyCount, Poisson
from pbdist.mechanisms.declaration import (
    MECHANISMS,
    Domain,
    Form,
    Parameter,
    all_parameters,
    between,
    described,
    mechanism,
    noise_parameter,
    numbers,
    one_of,
    parameter,
    parameters_of,
    positive,
    positive_probability,
    probability,
    real,
    whole,
)
from pbdist.mechanisms.finite import ApproximateDP, Histogram, KaryRandomizedResponse, RandomizedResponse
from pbdist.mechanisms.histogram_files import HistogramFiles, load_histograms
from pbdist.mechanisms.masses import (
    BEYOND,
    UNIT_ROUNDOFF,
    LossMasses,
    MassBounds,
    ScaledLossMasses,
)
from pbdist.mechanisms.outcomes import masses_of_outcomes
from pbdist.mechanisms.pair import (
    ElementaryPair,
    NoiseOrder,
    Pair,
    adjacency_together,
    at_least_as_noisy,
    choices_of,
    factor_counts,
    noise_order,
    ordered,
    reveals_nothing,
)
from pbdist.mechanisms.sampling import (
    FixedBatchGaussian,
    FixedBatchUpper,
    GaussianMixture,
    RandomAllocation,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    TruncatedPoissonUpper,
)
from pbdist.suggestions import did_you_mean
from pbdist.types import Adjacency, JsonValue, checked_adjacency, common_adjacency, stated

__all__ = [
    "BEYOND",
    "MECHANISMS",
    "READINGS",
    "UNIT_ROUNDOFF",
    "AdditiveNoise",
    "Adjacency",
    "Alternatives",
    "ApproximateDP",
    "BoundedRange",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Domain",
    "ElementaryPair",
    "Enclosure",
    "FinitePair",
    "FixedBatchGaussian",
    "FixedBatchUpper",
    "Form",
    "Gaussian",
    "GaussianMixture",
    "Histogram",
    "HistogramFiles",
    "KaryRandomizedResponse",
    "Laplace",
    "LaplaceSum",
    "LossMasses",
    "MassBounds",
    "MetricDP",
    "NoiseOrder",
    "NoisyCount",
    "Pair",
    "Parameter",
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
    "WorstOf",
    "adjacency_together",
    "all_parameters",
    "at_least_as_noisy",
    "between",
    "checked_adjacency",
    "choices_of",
    "common_adjacency",
    "described",
    "exponential_mechanism",
    "factor_counts",
    "load_histograms",
    "masses_of_outcomes",
    "mechanism",
    "noise_order",
    "noise_parameter",
    "numbers",
    "one_of",
    "ordered",
    "pair_from_canonical",
    "parameter",
    "parameters_of",
    "permute_and_flip",
    "positive",
    "positive_probability",
    "probability",
    "real",
    "reveals_nothing",
    "stated",
    "whole",
]


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
        near = did_you_mean(name, MECHANISMS) or ": for one of your own, import its module first (--import MODULE)"
        raise UnknownMechanismError(f"mechanism: expected the name of a known one, got {shown(name)}{near}")
    kind = MECHANISMS[name]
    # What has a default in the constructor alone must be in the form: all that decides about a bound is written down.
    missing = [one.name for one in fields(kind) if one.default is MISSING and one.name not in parameters]
    listed: Any = parameters.pop("pairs", ()) if "pairs" not in missing else None
    if missing or not isinstance(listed, list | tuple):
        raise InvalidInputError(f"{name}: expected its parameters by name, got {shown(dict(form))}")
    nested = {
        key: pair_from_canonical(value) if isinstance(value, Mapping) else value for key, value in parameters.items()
    }
    try:
        made: Pair = kind(*map(pair_from_canonical, listed), **nested)
    except TypeError as error:
        raise InvalidInputError(f"{name}: expected its parameters by name, got {sorted(nested)}: {error}") from error
    return made
