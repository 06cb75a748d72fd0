"""Mechanisms: frozen, validated descriptions of worst-case pairs, and their certified masses on bins."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from pbdist.errors import InvalidInputError, UnknownMechanismError, shown
from pbdist.mechanisms.additive import AdditiveNoise as AdditiveNoise
from pbdist.mechanisms.additive import Gaussian as Gaussian
from pbdist.mechanisms.additive import Laplace as Laplace
from pbdist.mechanisms.additive import LaplaceSum as LaplaceSum
from pbdist.mechanisms.additive import Staircase as Staircase
from pbdist.mechanisms.bounded_range import BoundedRange as BoundedRange
from pbdist.mechanisms.bounded_range import MetricDP as MetricDP
from pbdist.mechanisms.bounded_range import exponential_mechanism as exponential_mechanism
from pbdist.mechanisms.bounded_range import permute_and_flip as permute_and_flip
from pbdist.mechanisms.composite import Alternatives as Alternatives
from pbdist.mechanisms.composite import Enclosure as Enclosure
from pbdist.mechanisms.composite import FinitePair as FinitePair
from pbdist.mechanisms.composite import Product as Product
from pbdist.mechanisms.composite import Reversed as Reversed
from pbdist.mechanisms.composite import WorstOf as WorstOf
from pbdist.mechanisms.counts import READINGS as READINGS
from pbdist.mechanisms.counts import DiscreteGaussian as DiscreteGaussian
from pbdist.mechanisms.counts import DiscreteLaplace as DiscreteLaplace
from pbdist.mechanisms.counts import NoisyCount as NoisyCount
from pbdist.mechanisms.counts import Poisson as Poisson
from pbdist.mechanisms.declaration import MECHANISMS as MECHANISMS
from pbdist.mechanisms.declaration import Domain as Domain
from pbdist.mechanisms.declaration import Form as Form
from pbdist.mechanisms.declaration import Parameter as Parameter
from pbdist.mechanisms.declaration import all_parameters as all_parameters
from pbdist.mechanisms.declaration import between as between
from pbdist.mechanisms.declaration import described as described
from pbdist.mechanisms.declaration import mechanism as mechanism
from pbdist.mechanisms.declaration import noise_parameter as noise_parameter
from pbdist.mechanisms.declaration import numbers as numbers
from pbdist.mechanisms.declaration import one_of as one_of
from pbdist.mechanisms.declaration import parameter as parameter
from pbdist.mechanisms.declaration import parameters_of as parameters_of
from pbdist.mechanisms.declaration import positive as positive
from pbdist.mechanisms.declaration import positive_probability as positive_probability
from pbdist.mechanisms.declaration import probability as probability
from pbdist.mechanisms.declaration import real as real
from pbdist.mechanisms.declaration import whole as whole
from pbdist.mechanisms.finite import ApproximateDP as ApproximateDP
from pbdist.mechanisms.finite import Histogram as Histogram
from pbdist.mechanisms.finite import KaryRandomizedResponse as KaryRandomizedResponse
from pbdist.mechanisms.finite import RandomizedResponse as RandomizedResponse
from pbdist.mechanisms.histogram_files import HistogramFiles as HistogramFiles
from pbdist.mechanisms.histogram_files import load_histograms as load_histograms
from pbdist.mechanisms.masses import BEYOND as BEYOND
from pbdist.mechanisms.masses import UNIT_ROUNDOFF as UNIT_ROUNDOFF
from pbdist.mechanisms.masses import LossMasses as LossMasses
from pbdist.mechanisms.masses import MassBounds as MassBounds
from pbdist.mechanisms.masses import ScaledLossMasses as ScaledLossMasses
from pbdist.mechanisms.outcomes import masses_of_outcomes as masses_of_outcomes
from pbdist.mechanisms.pair import ElementaryPair as ElementaryPair
from pbdist.mechanisms.pair import NoiseOrder as NoiseOrder
from pbdist.mechanisms.pair import Pair as Pair
from pbdist.mechanisms.pair import PairCounts as PairCounts
from pbdist.mechanisms.pair import adjacency_together as adjacency_together
from pbdist.mechanisms.pair import at_least_as_noisy as at_least_as_noisy
from pbdist.mechanisms.pair import choices_of as choices_of
from pbdist.mechanisms.pair import factor_counts as factor_counts
from pbdist.mechanisms.pair import noise_order as noise_order
from pbdist.mechanisms.pair import ordered as ordered
from pbdist.mechanisms.pair import reveals_nothing as reveals_nothing
from pbdist.mechanisms.sampling import FixedBatchGaussian as FixedBatchGaussian
from pbdist.mechanisms.sampling import FixedBatchUpper as FixedBatchUpper
from pbdist.mechanisms.sampling import GaussianMixture as GaussianMixture
from pbdist.mechanisms.sampling import RandomAllocation as RandomAllocation
from pbdist.mechanisms.sampling import SubsampledGaussian as SubsampledGaussian
from pbdist.mechanisms.sampling import SubsampledGaussianGroup as SubsampledGaussianGroup
from pbdist.mechanisms.sampling import SubsampledLaplace as SubsampledLaplace
from pbdist.mechanisms.sampling import TruncatedPoissonGaussian as TruncatedPoissonGaussian
from pbdist.mechanisms.sampling import TruncatedPoissonUpper as TruncatedPoissonUpper
from pbdist.suggestions import did_you_mean
from pbdist.types import Adjacency as Adjacency
from pbdist.types import JsonValue
from pbdist.types import checked_adjacency as checked_adjacency
from pbdist.types import common_adjacency as common_adjacency
from pbdist.types import stated as stated


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
