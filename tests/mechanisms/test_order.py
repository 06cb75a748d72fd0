"""The order of noise: what is compared, what is not, and that δ falls along it."""

from fractions import Fraction

import numpy as np
import pytest

from pbdist import (
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Poisson,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    SubsampledLaplace,
)
from pbdist.bounds.delta import privacy_bounds
from pbdist.mechanisms import Reversed
from pbdist.mechanisms.pair import at_least_as_noisy, noise_order

#: (more noise, less noise).
ORDERED = [
    (Gaussian(3), Gaussian(2)),
    (Gaussian(2), Gaussian(3, sensitivity=2)),
    (Laplace(3), Laplace(2)),
    (Laplace(2, sensitivity=0.5), Laplace(2)),
    (LaplaceSum((3, 2)), LaplaceSum((3, 1))),
    (KaryRandomizedResponse(0.4, 4), KaryRandomizedResponse(0.5, 4)),
    (KaryRandomizedResponse(0.2, 4), KaryRandomizedResponse(0.1, 4)),
    (BoundedRange(0.3), BoundedRange(0.35)),
    (SubsampledGaussianGroup(3.0, 0.01, 7, 0.5), SubsampledGaussianGroup(2.0, 0.01, 7, 0.5)),
    (LaplaceSum((3, 2), 2), LaplaceSum((2, 2), 2.5)),
    (SubsampledGaussian(2, 0.1), SubsampledGaussian(1.5, 0.1)),
    (SubsampledGaussian(2, 0.05), SubsampledGaussian(2, 0.1)),
    (SubsampledLaplace(2, 0.05), SubsampledLaplace(1.5, 0.1)),
    (GaussianMixture(2, (0, 1, 2), (0.5, 0.25, 0.25)), GaussianMixture(3, (0, 2, 4), (0.5, 0.25, 0.25))),
    (FixedBatchGaussian(3, 10, 100), FixedBatchGaussian(2.5, 12, 100)),
    (FixedBatchGaussian(3, 10, 100).upper_pair, FixedBatchGaussian(2.5, 10, 100).upper_pair),
    (RandomizedResponse(0.55), RandomizedResponse(0.6)),
    (RandomizedResponse(0.45), RandomizedResponse(0.6)),
    (DiscreteLaplace(3), DiscreteLaplace(2)),
    (DiscreteLaplace(3, 2), DiscreteLaplace(2.5, 3)),
    (Poisson(30), Poisson(20)),
    (Poisson(30), Poisson(30, 2)),
    (ApproximateDP(0.1, 1e-6), ApproximateDP(0.2, 1e-5)),
    (Product(Gaussian(3), Laplace(2)), Product(Gaussian(2), Laplace(2))),
    (Product(Gaussian(3)), Gaussian(2)),
    (Product(Poisson(9), Reversed(Poisson(8))), Product(Poisson(8), Reversed(Poisson(8)))),
]

#: Pairs of which neither is known to be noisier.
UNORDERED = [
    (Gaussian(3), Laplace(2)),
    (LaplaceSum((3, 2)), LaplaceSum((2.5, 2.5))),
    (LaplaceSum((3, 2)), Laplace(2)),
    (Gaussian(3, truncate=(-9, 9)), Gaussian(2, truncate=(-9, 9))),
    (Gaussian(3), Gaussian(2, truncate=(-9, 9))),
    (NoisyCount(Laplace(50), 500, 2), NoisyCount(Laplace(40), 500, 2)),
    (DiscreteGaussian(3), DiscreteGaussian(2)),
    # Of other numbers of answers, and on the other side of 1/k.
    (KaryRandomizedResponse(0.5, 4), KaryRandomizedResponse(0.6, 5)),
    (KaryRandomizedResponse(0.3, 4), KaryRandomizedResponse(0.1, 4)),
    (DiscreteLaplace(3, 2), DiscreteLaplace(2)),
    (Poisson(30, 3), Poisson(20, 2)),
    (SubsampledGaussian(3, 0.2), SubsampledGaussian(2, 0.1)),
    (GaussianMixture(3, (0, 1), (0.5, 0.5)), GaussianMixture(2, (0, 1), (0.75, 0.25))),
    (ApproximateDP(0.1, 1e-5), ApproximateDP(0.2, 1e-6)),
    (Histogram([1, 1], [1, 1]), Histogram([2, 1], [1, 2])),
    (Product(Gaussian(3), Laplace(1)), Product(Gaussian(2), Laplace(2))),
    (Product(Gaussian(3), Gaussian(3)), Gaussian(2)),
    (Reversed(Poisson(9)), Poisson(8)),
    (Reversed(NoisyCount(Laplace(50), 500, 2)), Reversed(NoisyCount(Laplace(40), 500, 2))),
    (Product(Gaussian(3), NoisyCount(Laplace(50), 500, 2)), Product(Gaussian(2), NoisyCount(Laplace(40), 500, 2))),
]


@pytest.mark.parametrize(("more", "less"), ORDERED, ids=str)
def test_more_noise_is_told_from_less(more, less):
    assert at_least_as_noisy(more, less)
    assert not at_least_as_noisy(less, more)
    assert at_least_as_noisy(more, more)


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.slow
@pytest.mark.parametrize(("more", "less"), ORDERED, ids=str)
def test_delta_falls_with_the_noise(more, less):
    grid = {"compositions": [1, 5], "epsilon": [0.0, 0.1, 0.5, 2.0], "direction": "each"}
    noisy, plain = (privacy_bounds(pair, **grid) for pair in (more, less))
    assert np.all(noisy["delta_lower"].values <= plain["delta_upper"].values)


@pytest.mark.parametrize(("first", "second"), UNORDERED, ids=str)
def test_nothing_is_said_without_a_proof(first, second):
    assert not at_least_as_noisy(first, second)
    assert not at_least_as_noisy(second, first)
    assert at_least_as_noisy(first, first)


def test_amounts_are_exact():
    assert noise_order(Gaussian(0.3, sensitivity=0.1)).amounts == (Fraction(0.3) / Fraction(0.1),)
    # float64 takes 0.3 / 0.1 and 3 for different numbers; 0.75 / 0.25 and 3 are the same amount of noise.
    same = Laplace(0.75, sensitivity=0.25), Laplace(3)
    assert at_least_as_noisy(*same)
    assert at_least_as_noisy(*same[::-1])
    assert noise_order(RandomizedResponse(0.9)).amounts == (1 - Fraction(0.9),)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Reversed(Reversed(Poisson(9))), Poisson(9)),
        (Reversed(Reversed(Reversed(SubsampledGaussian(2, 0.1)))), Reversed(SubsampledGaussian(2, 0.1))),
        (Reversed(Laplace(3)), Laplace(3)),
        (Reversed(LaplaceSum((3, 2))), LaplaceSum((3, 2))),
        (Reversed(Reversed(Gaussian(3))), Gaussian(3)),
        (Reversed(RandomizedResponse(0.6)), RandomizedResponse(0.6)),
        (Reversed(ApproximateDP(0.2, 1e-5)), ApproximateDP(0.2, 1e-5)),
        (Product(Poisson(9), Reversed(DiscreteLaplace(3))), Product(Poisson(9), DiscreteLaplace(3))),
    ],
    ids=str,
)
def test_what_is_reversed_to_the_same_is_as_noisy(first, second):
    assert at_least_as_noisy(first, second)
    assert at_least_as_noisy(second, first)
    # Direction by direction, as both are claimed.
    grid = {"compositions": [1, 3], "epsilon": [0.0, 0.5], "direction": "each"}
    one, other = (privacy_bounds(pair, **grid) for pair in (first, second))
    assert np.all(one["delta_lower"].values <= other["delta_upper"].values)
    assert np.all(other["delta_lower"].values <= one["delta_upper"].values)


def test_a_pair_that_is_not_symmetric_is_not_its_reverse():
    for pair in (Poisson(9), SubsampledGaussian(2, 0.1)):
        assert not at_least_as_noisy(Reversed(pair), pair)
        assert not at_least_as_noisy(pair, Reversed(pair))


def test_a_subclass_has_no_order_of_its_own():
    class Other(Gaussian):
        pass

    assert noise_order(Other(1.0)) is None
