"""Drawn settings against dp-accounting: its upper values lie above our lower bounds, and ours are at most as large.

Its grid has steps of 1e-4, its default. Where noise differs in the convention, that is told beside it.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as peer

from pbdist import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    GaussianMixture,
    Laplace,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    privacy_bounds,
)
from pbdist.mechanisms import Pair
from tests.effort import SEED, times

pytestmark = pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")

Peer = peer.PrivacyLossDistribution
#: Its values err by the roundings of its transforms, and by the masses that it leaves out.
SLACK = 1e-11


def gaussian(rng: np.random.Generator) -> tuple[Pair, Peer]:
    scale = float(10.0 ** rng.uniform(-0.2, 1.5))
    return Gaussian(scale), peer.from_gaussian_mechanism(scale)


def sampled_gaussian(rng: np.random.Generator) -> tuple[Pair, Peer]:
    scale, rate = float(10.0 ** rng.uniform(-0.2, 1.0)), float(10.0 ** rng.uniform(-3.0, -0.1))
    return SubsampledGaussian(scale, rate), peer.from_gaussian_mechanism(scale, sampling_prob=rate)


def laplace(rng: np.random.Generator) -> tuple[Pair, Peer]:
    scale = float(10.0 ** rng.uniform(-0.3, 1.5))
    return Laplace(scale), peer.from_laplace_mechanism(scale)


def sampled_laplace(rng: np.random.Generator) -> tuple[Pair, Peer]:
    scale, rate = float(10.0 ** rng.uniform(-0.3, 1.2)), float(10.0 ** rng.uniform(-3.0, -0.1))
    return SubsampledLaplace(scale, rate), peer.from_laplace_mechanism(scale, sampling_prob=rate)


def discrete_laplace(rng: np.random.Generator) -> tuple[Pair, Peer]:
    scale, sensitivity = float(10.0 ** rng.uniform(-0.3, 1.5)), int(rng.integers(1, 4))
    # Its parameter is the inverse of the scale.
    return DiscreteLaplace(scale, sensitivity), peer.from_discrete_laplace_mechanism(1.0 / scale, sensitivity)


def discrete_gaussian(rng: np.random.Generator) -> tuple[Pair, Peer]:
    scale, sensitivity = float(10.0 ** rng.uniform(-0.1, 1.2)), int(rng.integers(1, 4))
    return DiscreteGaussian(scale, sensitivity), peer.from_discrete_gaussian_mechanism(scale, sensitivity)


def response(rng: np.random.Generator) -> tuple[Pair, Peer]:
    noise = float(rng.uniform(0.05, 0.98))
    # Its parameter is the probability of an answer that is drawn uniformly.
    return RandomizedResponse(1.0 - noise / 2.0), peer.from_randomized_response(noise, 2)


def mixture(rng: np.random.Generator) -> tuple[Pair, Peer]:
    shifts = np.sort(np.append(rng.uniform(0.2, 2.5, int(rng.integers(1, 4))), 0.0))
    weights = rng.dirichlet(np.ones(shifts.size))
    scale = float(10.0 ** rng.uniform(0.0, 1.0))
    pair = GaussianMixture(scale, shifts.tolist(), weights.tolist())
    return pair, peer.from_mixture_gaussian_mechanism(scale, shifts, weights)


def truncated_poisson(rng: np.random.Generator) -> tuple[Pair, Peer]:
    examples, rate = int(10.0 ** rng.uniform(1.0, 4.0)), float(10.0 ** rng.uniform(-2.0, -0.5))
    mean = examples * rate
    batch = min(examples, max(1, math.ceil(mean + rng.uniform(0.0, 4.0) * math.sqrt(mean))))
    scale = float(10.0 ** rng.uniform(0.0, 0.7))
    pair = TruncatedPoissonGaussian(scale, rate, batch, examples)
    return pair, peer.from_truncated_subsampled_gaussian_mechanism(
        examples, rate, batch, scale, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE
    )


def check(pair: Pair, theirs: Peer, rng: np.random.Generator) -> None:
    rounds = int(rng.choice([1, 2, 10, 100]))
    composed = theirs.self_compose(rounds)
    epsilon = sorted(float(each) for each in (0.0, 10.0 ** rng.uniform(-2.0, 0.0), rng.uniform(0.1, 3.0)))
    values = [float(value) for value in np.atleast_1d(composed.get_delta_for_epsilon(epsilon))]
    ours = privacy_bounds(pair, compositions=rounds, epsilon=epsilon, tolerance=1e-5)
    for value, lower, upper, each in zip(
        values, ours.delta_lower.values[0], ours.delta_upper.values[0], epsilon, strict=True
    ):
        assert lower <= value + SLACK, (pair, rounds, each)
        # Where its grid has every loss it is as close as a tolerance tells.
        assert upper <= value * (1.0 + 1.1e-5) + SLACK, (pair, rounds, each)


DRAWS: list[Any] = [
    gaussian,
    sampled_gaussian,
    laplace,
    sampled_laplace,
    discrete_laplace,
    discrete_gaussian,
    response,
    pytest.param(mixture, marks=pytest.mark.nightly),
    truncated_poisson,
]


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWS)
def test_dp_accounting_never_lies_below(draw: Callable[[np.random.Generator], tuple[Pair, Peer]]) -> None:
    """One of each kind with effort 1; 207 in all with effort 23."""
    rng = np.random.default_rng((SEED, 20))
    for _ in range(times(1)):
        check(*draw(rng), rng)
