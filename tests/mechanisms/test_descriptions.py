"""Mechanisms as descriptions: validated, frozen, hashable, with a stable canonical form."""

import json
import math
from dataclasses import FrozenInstanceError
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
    InvalidInputError,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    PbdistError,
    Poisson,
    Product,
    RandomizedResponse,
    Reversed,
    Staircase,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    WorstOf,
    exponential_mechanism,
    group,
    permute_and_flip,
    size,
)
from pbdist.mechanisms import pair_from_canonical
from pbdist.sizing.api import CountFamily

_ANSWERS = "KaryRandomizedResponse.k: expected a whole number from 2 to 9007199254740992"
_RANGE = "expected a number from 1e-30 to 500, got"

EXAMPLES = [
    Laplace(200),
    Laplace(200, truncate=(-2500, 2500)),
    LaplaceSum((3650, 7300), 3),
    Gaussian(1.5, sensitivity=2),
    RandomizedResponse(0.51),
    Staircase(0.5, 2, 0.4),
    SubsampledGaussian(4, 0.01),
    SubsampledGaussianGroup(4, 0.01, 3, 2),
    SubsampledLaplace(4, 0.01, 2),
    GaussianMixture(4, [0, 1, 2], [0.81, 0.18, 0.01]),
    TruncatedPoissonGaussian(2, 0.01, 40, 2000),
    TruncatedPoissonGaussian(2, 0.01, 40, 2000).upper_pair,
    FixedBatchGaussian(2, 10, 1000, 0.5),
    FixedBatchGaussian(2, 10, 1000).upper_pair,
    ApproximateDP(0.1, 1e-5),
    Poisson(2.5e4),
    Poisson(7.25, 2),
    DiscreteLaplace(200),
    DiscreteGaussian(2.5, sensitivity=3),
    Histogram([1, 2, 3], [3, 2, 1]),
    Histogram([0.5, 0.5, 0.0], np.array([0.25, 0.0, 0.75])),
    KaryRandomizedResponse(0.4, 5),
    BoundedRange(0.3),
    NoisyCount(DiscreteLaplace(3), 8, 2),
    NoisyCount(Laplace(500), 8000, 2),
    NoisyCount(Gaussian(320), 1600, 2, reading="shift-inside"),
    Product(NoisyCount(Laplace(20), 100, 2), NoisyCount(Laplace(10), 50, 1)),
    Product(Product(Laplace(1), Laplace(2)), Gaussian(3)),
    Product(Poisson(3), Reversed(NoisyCount(Laplace(5), 20, 1))),
    Product(FixedBatchGaussian(2, 10, 1000), Laplace(3)),
    Product(Histogram([3, 0, 1, 6], [1, 2, 1, 6]), Reversed(Histogram([3, 0, 1, 6], [1, 2, 1, 6]))),
    WorstOf(
        Gaussian(2),
        Product(RandomizedResponse(0.6), Histogram([1, 3, 6], [3, 3, 4])),
        Reversed(Histogram([1, 3, 6], [3, 3, 4])),
        attained=[True, False, True],
    ),
]


@pytest.mark.parametrize("pair", EXAMPLES, ids=lambda pair: repr(pair)[:50])
def test_canonical_form_survives_json(pair):
    form = json.loads(json.dumps(pair.canonical()))
    again = pair_from_canonical(form)
    assert again == pair
    assert hash(again) == hash(pair)
    assert again.canonical() == pair.canonical()


@pytest.mark.parametrize(
    ("pair", "form"),
    [
        (
            NoisyCount(Laplace(500), 8000, 2),
            '{"mechanism": "NoisyCount", "noise": {"mechanism": "Laplace", "scale": 500.0, "sensitivity": 1.0,'
            ' "truncate": null}, "mean": 8000.0, "shift": 2, "reading": "clamp-and-ceil"}',
        ),
        (
            NoisyCount(DiscreteLaplace(3), 8, 2),
            '{"mechanism": "NoisyCount", "noise": {"mechanism": "DiscreteLaplace", "scale": 3.0, "sensitivity": 1},'
            ' "mean": 8.0, "shift": 2, "reading": "clamp-and-ceil"}',
        ),
        (Poisson(25_000, 2), '{"mechanism": "Poisson", "mean": 25000.0, "sensitivity": 2}'),
        (DiscreteLaplace(3), '{"mechanism": "DiscreteLaplace", "scale": 3.0, "sensitivity": 1}'),
        # The larger scale stands first.
        (LaplaceSum((1, 2), 3), '{"mechanism": "LaplaceSum", "scales": [2.0, 1.0], "sensitivity": 3.0}'),
        (
            Laplace(1, truncate=(-2, 3)),
            '{"mechanism": "Laplace", "scale": 1.0, "sensitivity": 1.0, "truncate": [-2.0, 3.0]}',
        ),
        (KaryRandomizedResponse(0.5, 4.0), '{"mechanism": "KaryRandomizedResponse", "p": 0.5, "k": 4}'),
        (
            Staircase(1),
            '{"mechanism": "Staircase", "epsilon": 1.0, "sensitivity": 1.0, "split": 0.37754066879814546}',
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_canonical_form_is_the_same_in_every_version(pair, form):
    assert json.dumps(pair.canonical()) == form
    assert pair_from_canonical(json.loads(form)) == pair


def test_equal_parameters_make_equal_pairs():
    assert Laplace(200) == Laplace(200.0, 1, None)
    assert len({Laplace(200), Laplace(200.0), Gaussian(200)}) == 2
    assert LaplaceSum((1, 2)) == LaplaceSum([2.0, 1.0], 1)
    assert Histogram(np.array([1, 2]), (3, 4)) == Histogram([1, 2], [3, 4])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Laplace(1, truncate=(-0.0, 5)), Laplace(1, truncate=(0.0, 5))),
        (NoisyCount(Laplace(1), -0.0, 1), NoisyCount(Laplace(1), 0.0, 1)),
        (Histogram([1, 0], [0, 1]), Histogram([1.0, 0.0], [0.0, 1.0])),
    ],
)
def test_equal_pairs_have_equal_canonical_forms(first, second):
    assert first == second
    assert json.dumps(first.canonical()) == json.dumps(second.canonical())


#: What builds no mechanism, and how the error begins.
TOLD = [
    (lambda: LaplaceSum(5.0), "LaplaceSum.scales: expected two numbers, got 5.0"),
    (lambda: LaplaceSum((1.0,)), "LaplaceSum.scales: expected two numbers, got (1.0,)"),
    (lambda: LaplaceSum((1.0, 0.0)), "LaplaceSum.scales[1]: expected a number above 0, got 0.0"),
    (lambda: LaplaceSum(("1", 1.0)), "LaplaceSum.scales[0]: expected a number, got '1'"),
    (lambda: LaplaceSum((1.0, 1e31)), "LaplaceSum.scales[1]: expected a number from 1e-30 to 1e+30, got 1e+31"),
    (lambda: LaplaceSum((1.0, 1.0), -1.0), "LaplaceSum.sensitivity: expected a number above 0, got -1.0"),
    (lambda: LaplaceSum((1.0, math.nan)), "LaplaceSum.scales[1]: expected a finite number, got nan"),
    (lambda: KaryRandomizedResponse(1.5, 3), "KaryRandomizedResponse.p: expected a probability in [0, 1], got 1.5"),
    (lambda: KaryRandomizedResponse(0.5, 1), f"{_ANSWERS}, got 1"),
    (lambda: KaryRandomizedResponse(0.5, 2.5), f"{_ANSWERS}, got 2.5"),
    (lambda: Staircase(0.0), "Staircase.epsilon: expected a number from 1e-30 to 500, got 0.0"),
    (lambda: Staircase(501), "Staircase.epsilon: expected a number from 1e-30 to 500, got 501"),
    (lambda: Staircase("1"), "Staircase.epsilon: expected a number, got '1'"),
    (lambda: Staircase(1.0, 0.0), "Staircase.sensitivity: expected a number above 0, got 0.0"),
    (lambda: Staircase(1.0, 1.0, 0.0), "Staircase.split: expected a number between 0 and 1, got 0.0"),
    (lambda: Staircase(1.0, 1.0, 1), "Staircase.split: expected a number between 0 and 1, got 1"),
    (lambda: Staircase(1.0, 1.0, math.nan), "Staircase.split: expected a finite number, got nan"),
    *((lambda eta=eta: BoundedRange(eta), f"BoundedRange.eta: {_RANGE}") for eta in (0.0, -1.0, 501.0, 1e-31)),
    (lambda: exponential_mechanism(-1.0), f"BoundedRange.eta: {_RANGE}"),
    (lambda: permute_and_flip(0.0), f"permute_and_flip.epsilon: {_RANGE}"),
    (
        lambda: NoisyCount(DiscreteLaplace(2.0), 1.5, 1),
        "NoisyCount.mean: expected a whole number with discrete noise, got 1.5",
    ),
    (
        lambda: NoisyCount(DiscreteLaplace(2.0, 2), 1, 1),
        "NoisyCount.noise: expected noise without truncation or sensitivity (the shift is the sensitivity), got"
        " DiscreteLaplace(scale=2.0, sensitivity=2)",
    ),
    (
        lambda: NoisyCount(DiscreteGaussian(1.0), -40, 1, "redraw-and-floor"),
        "NoisyCount.mean: expected noise that is at least 0 with a probability of 1e-10 or more, got -40.0",
    ),
    (
        lambda: NoisyCount(DiscreteGaussian(300_000.0), 0, 1),
        "DiscreteGaussian.scale: expected a scale and a sensitivity that leave at most 20000000 outcomes",
    ),
    (
        lambda: CountFamily(lambda mean, scale: NoisyCount(DiscreteLaplace(scale), mean + 0.5, 1)).mean_step,
        "NoisyCount.mean: expected a whole number with discrete noise, got 100.5",
    ),
    (
        lambda: size(NoisyCount, noise="Cauchy", shift=1, compositions=1, epsilon=1.0, delta=1e-3),
        "noise: expected the class Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian or Poisson, or its name, got"
        " 'Cauchy'",
    ),
    (
        lambda: SubsampledGaussianGroup(1.0, 0.1, 0),
        "SubsampledGaussianGroup.group_size: expected a whole number from 1",
    ),
    (lambda: SubsampledGaussianGroup(1.0, 0.0, 2), "SubsampledGaussianGroup.rate: expected a probability in (0, 1]"),
    (lambda: SubsampledGaussianGroup(1.0, 0.1, 100, 1e29), "SubsampledGaussianGroup.sensitivity: expected a number"),
    (lambda: SubsampledGaussianGroup(-1.0, 0.1, 2), "SubsampledGaussianGroup.scale: expected a number above 0"),
    (lambda: group(SubsampledGaussian(1.0, 0.1), 100_001), "group.size: expected at most 100000 individuals on"),
    (
        lambda: group(Product(Gaussian(1.0), Reversed(SubsampledGaussian(1.0, 0.1))), 2),
        "group.pair: expected a pair that is not reversed, got Reversed",
    ),
    (lambda: group(SubsampledGaussianGroup(1.0, 0.1, 2), 2), "group.pair: expected one worst-case pair"),
    (lambda: group(Gaussian(1.0), 0), "group.size: expected a whole number from 1 to 1000000000, got 0"),
    (lambda: group(5, 2), "group.pair: expected one worst-case pair"),
    (
        lambda: group(WorstOf(Gaussian(1.0), Gaussian(2.0)), 2),
        "group.pair: expected one worst-case pair, not the worst",
    ),
    (lambda: group(BoundedRange(400.0), 2), f"BoundedRange.eta: {_RANGE} 800.0"),
]


def test_pairs_are_frozen():
    with pytest.raises(FrozenInstanceError):
        Laplace(1.0).scale = 2.0


@pytest.mark.parametrize(
    ("build", "field", "came"),
    [
        (lambda: Laplace(-1), "Laplace.scale", "-1"),
        (lambda: Laplace(0), "Laplace.scale", "0"),
        (lambda: Laplace(math.nan), "Laplace.scale", "nan"),
        (lambda: Laplace(math.inf), "Laplace.scale", "inf"),
        (lambda: Laplace(1e-320), "Laplace.scale", "1e-320"),
        (lambda: Gaussian(1e308), "Gaussian.scale", "1e+308"),
        (lambda: Laplace(10**400), "Laplace.scale", "1000"),
        (lambda: Laplace(1, sensitivity=1e-300), "Laplace.sensitivity", "1e-300"),
        (lambda: Laplace(1, truncate=(-1e300, 1e300)), "Laplace.truncate", "1e+300"),
        (lambda: Histogram([1e308, 1e308], [0.5, 0.5]), "Histogram.p[0]", "1e+308"),
        (lambda: Histogram([10**400, 0.5], [0.5, 0.5]), "Histogram.p[0]", "1000"),
        (lambda: Histogram({1: 2}, {1: 2}), "Histogram.p", "{1: 2}"),
        (lambda: Histogram(["a" * 5000], [1]), "Histogram.p[0]", "aaa"),
        (lambda: Gaussian(1, truncate=(29, 37.9)), "Gaussian.truncate", "(29.0, 37.9)"),
        (lambda: Laplace(1, truncate=(-(10**400), 1)), "Laplace.truncate", "1000"),
        (lambda: NoisyCount(Gaussian(1), -29.5, 1, "redraw-and-floor"), "NoisyCount.mean", "-29.5"),
        (lambda: NoisyCount(Gaussian(1000), 1e17, 2), "NoisyCount.mean", "1e+17"),
        (lambda: NoisyCount(Laplace(5), 10, 2, reading=np.zeros(3)), "NoisyCount.reading", "array"),
        (lambda: SubsampledGaussian(1e155, 0.5), "SubsampledGaussian.scale", "1e+155"),
        (lambda: pair_from_canonical(5), "mechanism", "5"),
        (lambda: pair_from_canonical({"mechanism": "Product", "pairs": 5}), "Product", "5"),
        (lambda: pair_from_canonical({"mechanism": "Product", "pairs": [], "junk": 3}), "Product", "junk"),
        (lambda: pair_from_canonical({"mechanism": "Product", "pairs": ["x"]}), "mechanism", "'x'"),
        (lambda: NoisyCount(Laplace(5), 1e300, 2), "NoisyCount.mean", "1e+300"),
        (lambda: NoisyCount(Laplace(5), 10, 10**20), "NoisyCount.shift", "100000000000000000000"),
        (lambda: Laplace("200"), "Laplace.scale", "'200'"),
        (lambda: Laplace(True), "Laplace.scale", "True"),
        (lambda: Laplace(1, sensitivity=0), "Laplace.sensitivity", "0"),
        (lambda: Laplace(1, truncate=(2, 1)), "Laplace.truncate", "(2.0, 1.0)"),
        (lambda: Laplace(1, truncate=5), "Laplace.truncate", "5"),
        (lambda: Gaussian(1, truncate=(1, math.nan)), "Gaussian.truncate", "nan"),
        (lambda: Gaussian(1, truncate=(500, 501)), "Gaussian.truncate", "(500.0, 501.0)"),
        (lambda: LaplaceSum((1, 2), math.nan), "LaplaceSum.sensitivity", "nan"),
        (lambda: Poisson(0), "Poisson.mean", "0"),
        (lambda: Poisson(-3.0), "Poisson.mean", "-3.0"),
        (lambda: Poisson(math.nan), "Poisson.mean", "nan"),
        (lambda: Poisson("5"), "Poisson.mean", "'5'"),
        (lambda: Poisson(5, 0), "Poisson.sensitivity", "0"),
        (lambda: Poisson(5, 1.5), "Poisson.sensitivity", "1.5"),
        (lambda: Poisson(1e12), "Poisson.mean", "1000000000000.0"),
        (lambda: Poisson(5, 10**9), "Poisson.sensitivity", "1000000000"),
        (lambda: DiscreteLaplace(0), "DiscreteLaplace.scale", "0"),
        (lambda: DiscreteLaplace(1e-11), "DiscreteLaplace.scale", "1e-11"),
        (lambda: DiscreteGaussian(1e-6), "DiscreteGaussian.scale", "1e-6"),
        (lambda: DiscreteLaplace(2, True), "DiscreteLaplace.sensitivity", "True"),
        (lambda: DiscreteGaussian(-1), "DiscreteGaussian.scale", "-1"),
        (lambda: DiscreteGaussian(1e6), "DiscreteGaussian.scale", "1000000.0"),
        (lambda: DiscreteGaussian(1, 2.5), "DiscreteGaussian.sensitivity", "2.5"),
        (lambda: RandomizedResponse(1.5), "RandomizedResponse.p", "1.5"),
        (lambda: RandomizedResponse(math.nan), "RandomizedResponse.p", "nan"),
        (lambda: SubsampledGaussian(4, 0), "SubsampledGaussian.rate", "0"),
        (lambda: SubsampledGaussian(4, 1.01), "SubsampledGaussian.rate", "1.01"),
        (lambda: SubsampledLaplace(4, 0), "SubsampledLaplace.rate", "0"),
        (lambda: SubsampledLaplace(-4, 0.1), "SubsampledLaplace.scale", "-4"),
        (lambda: GaussianMixture(1, [1, 2], [1]), "GaussianMixture.weights", "1"),
        (lambda: GaussianMixture(1, [], []), "GaussianMixture.shifts", "[]"),
        (lambda: GaussianMixture(1, 3, [1]), "GaussianMixture.shifts", "3"),
        (lambda: GaussianMixture(1, [0], [1]), "GaussianMixture.shifts[0]", "0"),
        (lambda: GaussianMixture(1, [-1, 2], [0.5, 0.5]), "GaussianMixture.shifts[0]", "-1"),
        (lambda: GaussianMixture(1, [1, 1], [0.5, 0.5]), "GaussianMixture.shifts[1]", "1.0"),
        (lambda: GaussianMixture(1, [0, 1], [0.5, 0.6]), "GaussianMixture.weights", "1.1"),
        (lambda: GaussianMixture(1, [0, 1], [1, 0]), "GaussianMixture.weights[1]", "0"),
        (lambda: GaussianMixture(1, list(range(1025)), [1 / 1025] * 1025), "GaussianMixture.shifts", "1025"),
        (lambda: TruncatedPoissonGaussian(1, 0.1, 0, 10), "TruncatedPoissonGaussian.batch", "0"),
        (lambda: TruncatedPoissonGaussian(1, 0.1, 1, 10**10), "TruncatedPoissonGaussian.examples", "10000000000"),
        (lambda: FixedBatchGaussian(1, 11, 10), "FixedBatchGaussian.batch", "11"),
        (lambda: FixedBatchGaussian(1, 1, 2.5), "FixedBatchGaussian.examples", "2.5"),
        (lambda: FixedBatchGaussian(1, 1, 2, 6e29), "FixedBatchGaussian.sensitivity", "1.2e+30"),
        (lambda: Product(WorstOf(Laplace(1), Laplace(2))), "Product.pairs[0]", "WorstOf"),
        (lambda: Reversed(TruncatedPoissonGaussian(1, 0.1, 1, 2)), "Reversed.pair", "TruncatedPoissonGaussian"),
        (lambda: ApproximateDP(-0.1, 0), "ApproximateDP.epsilon", "-0.1"),
        (lambda: ApproximateDP(0.1, 2), "ApproximateDP.delta", "2"),
        (lambda: Histogram([0.5, 0.4], [0.5, 0.5]), "Histogram.p", "0.9"),
        (lambda: Histogram([0.5, 0.5], [1, -1]), "Histogram.q[1]", "-1"),
        (lambda: Histogram([0.5, math.nan], [1, 1]), "Histogram.p[1]", "nan"),
        (lambda: Histogram([1, 2], [1, 2, 3]), "Histogram.q", "3"),
        (lambda: Histogram([0, 0], [1, 2]), "Histogram.p", "2 zeros"),
        (lambda: Histogram([], []), "Histogram.p", "0"),
        (lambda: Histogram("ab", [1, 2]), "Histogram.p", "'ab'"),
        (lambda: NoisyCount(5, 10, 2), "NoisyCount.noise", "5"),
        (lambda: NoisyCount(Laplace(5, sensitivity=2), 10, 2), "NoisyCount.noise", "sensitivity=2"),
        (lambda: NoisyCount(Laplace(5), math.nan, 2), "NoisyCount.mean", "nan"),
        (lambda: NoisyCount(Laplace(5), 10, 0), "NoisyCount.shift", "0"),
        (lambda: NoisyCount(Laplace(5), 10, 1.5), "NoisyCount.shift", "1.5"),
        (lambda: NoisyCount(Laplace(5), 10, 2, reading="round"), "NoisyCount.reading", "'round'"),
        (lambda: NoisyCount(Gaussian(1), -100, 2), "NoisyCount.mean", "-100"),
        (lambda: NoisyCount(Gaussian(1e9), 1e10, 2), "NoisyCount.noise", "1000000000.0"),
        (lambda: Product(Laplace(1), 3), "Product.pairs[1]", "3"),
        (lambda: pair_from_canonical({"mechanism": "Cauchy"}), "mechanism", "'Cauchy'"),
        (lambda: pair_from_canonical({"mechanism": "Laplace", "sigma": 3}), "Laplace", "sigma"),
        *((build, told, "") for build, told in TOLD),
    ],
)
def test_bad_parameters_are_named(build, field, came):
    with pytest.raises(InvalidInputError) as caught:
        build()
    text = str(caught.value)
    assert text.startswith(field)
    assert "expected" in text
    assert came in text
    assert "\n" not in text
    assert isinstance(caught.value, PbdistError)
    assert isinstance(caught.value, ValueError)


def test_fractions_are_accepted_as_probabilities():
    pair = Histogram([Fraction(1, 4), Fraction(3, 4)], [0.5, 0.5])
    assert pair == Histogram([0.25, 0.75], [0.5, 0.5])


def test_probabilities_may_miss_one_by_rounding_only():
    Histogram([0.1] * 10, [0.1] * 10)
    with pytest.raises(InvalidInputError):
        Histogram([0.1] * 10, [0.1] * 9 + [0.100001])
