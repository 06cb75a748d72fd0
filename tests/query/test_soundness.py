"""Answers off the grid against exact values: thousands of drawn questions, none outside."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from pbdist.mechanisms import Gaussian, RandomizedResponse
from pbdist.query import Study, open_study
from tests.effort import SEED, times
from tests.studies import Finished

pytestmark = pytest.mark.slow

STUDY = """\
format: 1
name: truth
mechanisms:
  - kind: Gaussian
    scale: [2, 5, 10, 20, 40]
  - kind: RandomizedResponse
    p: [0.51, 0.55, 0.6]
compositions: {powers_of_two: [0, 10]}
epsilon: {linspace: [0, 2, 41]}
"""
DIGITS = 60
SCALES, PROBABILITIES = (2.0, 5.0, 10.0, 20.0, 40.0), (0.51, 0.55, 0.6)

#: ln δ at ε after r rounds with a parameter, exact to 40 digits and more; -inf for a δ of 0.
Truth = Callable[[float, int, float], mpmath.mpf]


@pytest.fixture(scope="module")
def study(finished_store: Finished) -> Study:
    return open_study(finished_store(STUDY))


def gaussian(scale: float, compositions: int, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(DIGITS):
        mu, loss = mpmath.sqrt(compositions) / mpmath.mpf(scale), mpmath.mpf(epsilon)
        first, second = mu / 2 - loss / mu, -mu / 2 - loss / mu
        # By the complementary error function, which keeps its digits in the tail.
        delta = (mpmath.erfc(-first / mpmath.sqrt(2)) - mpmath.exp(loss) * mpmath.erfc(-second / mpmath.sqrt(2))) / 2
        return mpmath.log(delta)


class Responses:
    """Randomized response by binomial sums; those of each (p, r) once."""

    def __init__(self) -> None:
        self._tails: dict[tuple[float, int], tuple[list[mpmath.mpf], list[mpmath.mpf]]] = {}

    def __call__(self, p: float, compositions: int, epsilon: float) -> mpmath.mpf:
        with mpmath.workdps(DIGITS):
            truth, r = mpmath.mpf(max(p, 1.0 - p)), compositions
            size = mpmath.log(truth / (1 - truth))
            loss = mpmath.mpf(epsilon)
            # k truths and r - k lies have the loss (2 k - r) size.
            first = int(mpmath.floor((loss / size + r) / 2)) + 1
            if first > r:
                return mpmath.mpf("-inf")
            mine, others = self._sums(p, r)
            return mpmath.log(mine[first] - mpmath.exp(loss) * others[first])

    def _sums(self, p: float, r: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
        if (p, r) not in self._tails:
            truth = mpmath.mpf(max(p, 1.0 - p))
            odds = truth / (1 - truth)
            mass, sums = truth**r, ([mpmath.mpf(0)] * (r + 2), [mpmath.mpf(0)] * (r + 2))
            other = (1 - truth) ** r
            for k in range(r, -1, -1):
                sums[0][k], sums[1][k] = sums[0][k + 1] + mass, sums[1][k + 1] + other
                if k:
                    ways = mpmath.mpf(k) / (r - k + 1)
                    mass, other = mass * ways / odds, other * ways * odds
            self._tails[p, r] = sums
        return self._tails[p, r]


def outside(log_lower: float, log_upper: float, truth: mpmath.mpf) -> bool:
    with mpmath.workdps(DIGITS):
        slack = mpmath.mpf(10) ** -35
        return not mpmath.mpf(log_lower) <= truth + slack or not truth - slack <= mpmath.mpf(log_upper)


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.parametrize("label", ["Gaussian", "RandomizedResponse"])
def test_drawn_answers_hold_the_truth(study: Study, label: str) -> None:
    rng, count = np.random.default_rng([20, SEED]), times(1500)
    truth: Truth = gaussian if label == "Gaussian" else Responses()
    if label == "Gaussian":
        name, noise = "scale", np.where(rng.random(count) < 0.5, rng.choice(SCALES, count), rng.uniform(2, 60, count))
    else:
        name, low = "p", rng.choice(PROBABILITIES, count)
        noise = np.where(rng.random(count) < 0.5, low, rng.choice(rng.uniform(0.45, 0.6, 6), count))
    rounds = np.where(
        rng.random(count) < 0.5, 2 ** rng.integers(0, 11, count), rng.choice([3, 5, 47, 700, 1000], count)
    )
    epsilon = np.where(rng.random(count) < 0.9, rng.uniform(0, 2.5, count), rng.integers(0, 41, count) / 20)
    found = study.delta(label, compositions=rounds, epsilon=epsilon, **{name: noise})
    rows = zip(noise.tolist(), rounds.tolist(), epsilon.tolist(), strict=True)
    exact = [truth(*row) for row in rows]
    wrong = [i for i in range(count) if outside(float(found.log_lower[i]), float(found.log_upper[i]), exact[i])]
    assert wrong == []
    plain = np.array([float(mpmath.exp(value)) for value in exact])
    assert (found.lower <= plain * (1 + 1e-15)).all()
    assert (found.upper >= plain * (1 - 1e-15)).all()
    # Most are told from 0, and many are off the grid in each of ε, r and noise.
    assert (found.log_upper <= 0).all()
    grid = np.isin(rounds, 2 ** np.arange(11)) & np.isin(noise, (*SCALES, *PROBABILITIES))
    assert np.count_nonzero(~grid) > count // 2
    seen = grid & (plain > 1e-12) & (epsilon <= 2)
    assert np.median(found.upper[seen] / np.maximum(found.lower[seen], 1e-300)) < 1.06


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.parametrize("label", ["Gaussian", "RandomizedResponse"])
def test_inverse_answers_hold_the_truth(study: Study, label: str) -> None:
    rng, count = np.random.default_rng([21, SEED]), times(400)
    truth: Truth = gaussian if label == "Gaussian" else Responses()
    name, noise = (
        ("scale", rng.choice(SCALES, count)) if label == "Gaussian" else ("p", rng.choice(PROBABILITIES, count))
    )
    rounds = rng.choice([1, 3, 16, 100, 512, 1024], count)
    delta = 10.0 ** rng.uniform(-12, -0.5, count)
    found = study.epsilon(label, compositions=rounds, delta=delta, **{name: noise})
    assert (found.lower <= found.upper).all()
    for i in range(count):
        wanted, at = mpmath.log(delta[i]), (float(noise[i]), int(rounds[i]))
        if np.isfinite(found.upper[i]):
            assert truth(*at, float(found.upper[i])) <= wanted + mpmath.mpf(10) ** -15
            got = study.delta(label, compositions=at[1], epsilon=found.upper[i], **{name: at[0]})
            assert got.upper <= delta[i]
        if found.lower[i] > 0:
            assert truth(*at, float(found.lower[i])) >= wanted - mpmath.mpf(10) ** -15
            got = study.delta(label, compositions=at[1], epsilon=found.lower[i], **{name: at[0]})
            assert got.lower >= delta[i]
    epsilon = rng.uniform(0, 2, count)
    allowed = study.compositions(label, epsilon=epsilon, delta=delta, **{name: noise})
    assert (allowed.lower <= allowed.upper).all()
    for i in range(count):
        wanted, value = mpmath.log(delta[i]), float(epsilon[i])
        if allowed.lower[i]:
            assert truth(float(noise[i]), int(allowed.lower[i]), value) <= wanted + mpmath.mpf(10) ** -15
        if math.isfinite(allowed.upper[i]):
            assert truth(float(noise[i]), int(allowed.upper[i]) + 1, value) >= wanted - mpmath.mpf(10) ** -15


def test_a_stored_point_is_answered_as_it_is_stored(study: Study) -> None:
    for label, noise in (("Gaussian", {"scale": 5.0}), ("RandomizedResponse", {"p": 0.55})):
        for compositions in (1, 64, 1024):
            for epsilon in study.spec.epsilon[::5]:
                stored = study.bounds.sel(mechanism=label, compositions=compositions, epsilon=epsilon, **noise)
                found = study.delta(label, compositions=compositions, epsilon=epsilon, **noise)
                for name in ("lower", "upper"):
                    assert float(getattr(found, name)) == stored[f"delta_{name}"].max()
                    assert float(getattr(found, f"log_{name}")) == stored[f"log_delta_{name}"].max()
                each = study.delta(label, compositions=compositions, epsilon=epsilon, direction="each", **noise)
                assert each.lower.tolist() == stored.delta_lower.values.ravel().tolist()
                assert each.log_upper.tolist() == stored.log_delta_upper.values.ravel().tolist()
    pair = study.delta(Gaussian(5.0), compositions=64, epsilon=0.5)
    assert pair.upper == study.delta("Gaussian", scale=5, compositions=64, epsilon=0.5).upper
    # The roles of truth and lie do not matter.
    assert (
        study.delta(RandomizedResponse(0.4), compositions=64, epsilon=0.5).upper
        < 1.001 * study.delta(RandomizedResponse(0.6), compositions=64, epsilon=0.5).upper
    )
