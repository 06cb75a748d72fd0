"""Bounds by the ladder against known values, and ε by either way."""

import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.mechanisms import (
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    factor_counts,
)
from pbdist.pld import epsilon_table, tight_bounds
from pbdist.pld.ladder import LadderBounds, ladder_bounds
from pbdist.pld.question import Question
from pbdist.types import Direction
from tests.oracles.truth import ProductTruth


def climb(pair: Pair, rounds: list[int], epsilon: list[float]) -> LadderBounds:
    counts = factor_counts([(pair, 1)])
    question = Question(counts, np.array(rounds), np.array(epsilon), 1e-3, 1e-40, False)
    found = ladder_bounds(question, range(len(rounds)))
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "axes"),
    [
        (RandomizedResponse(0.51), {"randomized_response": (0, 1)}),
        (SubsampledGaussian(4.0, 0.01), {"dpsgd_remove": (0,), "dpsgd_add": (1,)}),
    ],
)
def test_known_values_are_bracketed(pair: Pair, axes: dict[str, tuple[int, ...]]) -> None:
    path = Path(__file__).parents[1] / "exact_values.json"
    cases = [each for each in json.loads(path.read_text(encoding="utf-8"))["cases"] if each["name"] in axes]
    found = climb(pair, [cases[0]["compositions"]], [float(epsilon) for epsilon in cases[0]["delta"]])
    for case in cases:
        for axis, (column, truth) in product(axes[case["name"]], enumerate(map(Fraction, case["delta"].values()))):
            lower, upper = (Fraction(float(each[axis, 0, column])) for each in (found.lower, found.upper))
            # Twenty digits are known.
            assert lower <= truth * (1 + Fraction(1, 10**18))
            assert upper >= truth * (1 - Fraction(1, 10**18))
            assert upper <= lower * Fraction(1002, 1000)


def test_the_direction_that_turns_out_larger_is_climbed_too() -> None:
    outcomes, epsilon = ((28, 15), (2, 29), (34, 32)), 0.1
    pair = Histogram(*zip(*outcomes, strict=True))
    found = ladder_bounds(Question({pair: 1}, np.array([3]), np.array([epsilon]), 1e-3, 1e-40, True), [0])
    assert found is not None
    truth = ProductTruth([(outcomes, 3)], [(64, 76)])
    for axis, direction in enumerate(Direction):
        low, high = truth.at(epsilon, direction)
        assert Fraction(float(found.lower[axis, 0, 0])) <= low
        assert high <= Fraction(float(found.upper[axis, 0, 0]))
    assert found.upper.max() <= 1.001 * found.lower.max()


def test_a_pair_and_its_reverse_are_mirrored() -> None:
    pair = SubsampledGaussian(1.0, 0.05)
    one, two = climb(pair, [100], [0.1, 1.0]), climb(Reversed(pair), [100], [0.1, 1.0])
    for first, second in ((0, 1), (1, 0)):
        assert np.all(one.lower[first] <= two.upper[second])
        assert np.all(two.lower[second] <= one.upper[first])


@pytest.mark.slow(reason="both ways, at a small delta")
@pytest.mark.parametrize("rounds", [30, 1000])
@pytest.mark.parametrize("delta_asked", [1e-5, 1e-8])
def test_epsilon_by_either_way_is_met(delta_asked: float, rounds: int) -> None:
    counts = factor_counts([(SubsampledGaussian(1.0, 0.01), 1)])
    found = epsilon_table(counts, np.array([rounds]), np.array([delta_asked]), tolerance=1e-3, joint_directions=True)
    low, high = float(found.lower[0, 0, 0]), float(found.upper[0, 0, 0])
    assert 0.0 < low < high <= low * 1.001
    checked = tight_bounds(counts, np.array([rounds]), np.array([low, high]), Request(tolerance=1e-3, strict=False))
    log_delta = math.log(delta_asked)
    assert np.max(checked.log_upper[:, 0, 0]) > log_delta
    assert np.max(checked.log_lower[:, 0, 1]) <= log_delta


def test_an_infinite_mass_is_told() -> None:
    """δ never falls below what reveals the input."""
    pair = NoisyCount(Laplace(50.0), 300.0, 2)
    found = climb(pair, [10], [1.0, 50.0])
    only = pair.factors[0].loss_masses(np.array([0.0, 1.0])).only_a.lower
    assert np.all(found.upper[0, 0] >= 1.0 - (1.0 - float(np.sum(only))) ** 10 - 1e-15)
