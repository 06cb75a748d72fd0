"""ε by theorems of earlier work: never one at which their δ is above the wanted one, and close to the least."""

import math

import numpy as np
import pytest

from pbdist import Gaussian, InvalidInputError, Laplace, SubsampledGaussian, earlier_bounds
from pbdist.theorems.api import earlier_epsilon

pytestmark = pytest.mark.slow

THEOREMS = ("naive", "adaptive", "advanced", "advanced-kov", "kov", "moments", "concentrated", "clt")


@pytest.mark.parametrize("theorem", THEOREMS)
@pytest.mark.parametrize("pair", [Laplace(20.0), Gaussian(20.0)], ids=repr)
def test_the_delta_is_met_there_and_not_much_before(pair, theorem):
    rounds, wanted = [1, 64], [1e-3, 1e-6]
    found = earlier_epsilon(pair, compositions=rounds, delta=wanted, theorem=theorem)
    assert found.shape == (2,)
    name = "log_delta_approximate" if theorem == "clt" else "log_delta_upper"
    for epsilon, r, delta in zip(found.tolist(), rounds, wanted, strict=True):
        assert 0.0 <= epsilon < math.inf
        before, there = (
            earlier_bounds(pair, compositions=r, epsilon=one, theorem=theorem)[name].item()
            for one in (epsilon * 0.999, epsilon)
        )
        assert there <= math.log(delta)
        assert before > math.log(delta) or epsilon == 0.0


def test_naive_composition_is_the_sum():
    """One round of Laplace noise of scale 20 is (0.05, 0)-private; δ may be used for less ε."""
    [epsilon] = earlier_epsilon(Laplace(20.0), compositions=[4], delta=[1e-12], theorem="naive")
    assert epsilon == pytest.approx(0.2, rel=1e-9)


def test_concentrated_privacy_is_its_closed_form():
    """The least ε with ρ + 2 √(ρ ln(1/δ)) is an upper bound on it (Bun & Steinke 2016, Lemma 3.5)."""
    rho = 100 / (2 * 30.0**2)
    [epsilon] = earlier_epsilon(Gaussian(30.0), compositions=[100], delta=[1e-6], theorem="concentrated")
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1e6)) * (1 + 1e-9)


def test_a_limit_below_the_first_bound_is_zero():
    [epsilon] = earlier_epsilon(Gaussian(1e6), compositions=[1], delta=[0.5], theorem="kov")
    assert epsilon == 0.0


def test_no_bound_is_infinite():
    """Rényi divergences of truncated noise are infinite at every order."""
    cut = Laplace(20.0, truncate=(-50.0, 50.0))
    [epsilon] = earlier_epsilon(cut, compositions=[8], delta=[1e-3], theorem="moments")
    assert epsilon == math.inf


@pytest.mark.slow(reason="moments of a sequence, of both ways to ask")
def test_sequences_are_taken():
    parts = [(Gaussian(20.0), 2), (SubsampledGaussian(2.0, 0.1), 3)]
    found = earlier_epsilon(parts, compositions=[4], delta=[1e-5], theorem="moments-improved")
    bound = earlier_bounds(parts, compositions=4, epsilon=found, theorem="moments-improved")
    assert np.all(bound.delta_upper.values <= 1e-5 * (1 + 1e-12))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"theorem": "other"}, "theorem: expected one of"),
        ({"delta": [0.0]}, "delta: expected numbers above 0 and below 1, got 0.0"),
        ({"delta": [1e-3, 1e-3]}, "delta: expected one for each of 1 compositions, got 2"),
        ({"compositions": [0]}, "compositions: expected whole numbers"),
    ],
)
def test_wrong_arguments_are_named(change, problem):
    arguments = {"compositions": [1], "delta": [1e-3], "theorem": "kov"} | change
    with pytest.raises(InvalidInputError, match=problem):
        earlier_epsilon(Laplace(2.0), **arguments)
