"""The front door against the exact truth: random sequences, probabilities, and cases that other tools get wrong."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbdist
from pbdist.mechanisms import Histogram, RandomizedResponse
from pbdist.types import Direction
from tests import strategies
from tests.oracles import exact_truth
from tests.oracles.truth import assert_bracketed, at_most_one, enclosed_truth, histogram
from tests.strategies import CountedPair


@st.composite
def sequences(draw: st.DrawFn) -> list[tuple[CountedPair, int]]:
    """One to three pairs with counts, so few outcomes that the whole may be repeated."""
    pairs = draw(st.lists(strategies.counted_pairs(), min_size=1, max_size=3))
    return [(pair, draw(st.integers(1, 2))) for pair in pairs]


@strategies.examples(500)
@given(
    sequence=sequences(),
    quarter=st.one_of(st.integers(1, 8), st.integers(1, 64)),
    factor=st.one_of(st.none(), st.none(), strategies.factors().map(float)),
    data=st.data(),
)
def test_privacy_bounds_brackets_the_truth(
    sequence: list[tuple[CountedPair, int]], quarter: int, factor: float | None, data: st.DataObject
) -> None:
    once = exact_truth.composed_outcomes([(pair.table, count) for pair, count in sequence])
    most = most_repetitions(once)
    compositions = sorted({1, most, data.draw(st.integers(1, most)), data.draw(st.integers(1, most))})
    loss_width = math.log(factor) if factor is not None else 0.1
    epsilon = sorted(set(data.draw(strategies.epsilons(loss_width, 2 * quarter))))
    alone = len(sequence) == 1 and sequence[0][1] == 1
    bounds = pbdist.privacy_bounds(
        histogram(sequence[0][0]) if alone else [(histogram(pair), count) for pair, count in sequence],
        compositions=compositions,
        epsilon=epsilon,
        buckets=4 * quarter,
        factor=factor,
        method="buckets",
        direction="each",
    )
    for repeats in compositions:
        table = exact_truth.composed_outcomes([(once, repeats)])
        for direction in Direction:
            for value in epsilon:
                cell = bounds.sel(direction=direction.value, compositions=repeats, epsilon=value)
                assert_bracketed(
                    float(cell["delta_lower"]),
                    float(cell["delta_upper"]),
                    enclosed_truth(table, value, direction),
                    value,
                    f"{direction.value} r={repeats}",
                )


@st.composite
def probabilities(draw: st.DrawFn, outcomes: int) -> list[float]:
    """Floats that sum to 1 but for rounding, tiny ones and zeros among them."""
    weight = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1e-5, 1e-17, 1e-160, 1e-200, 1e-310, 5e-324]))
    weights = draw(st.lists(weight, min_size=outcomes, max_size=outcomes).filter(lambda w: max(w) > 1e-3))
    return [value / sum(weights) for value in weights]


@strategies.examples(200)
@given(outcomes=st.integers(2, 3), repeats=st.integers(1, 8), quarter=st.integers(1, 32), data=st.data())
def test_probabilities_are_the_masses_they_are(outcomes: int, repeats: int, quarter: int, data: st.DataObject) -> None:
    """A histogram of floats has exactly those masses, though they sum to 1 only nearly; δ is at most 1 all the same."""
    p, q = data.draw(probabilities(outcomes)), data.draw(probabilities(outcomes))
    once = exact_truth.outcomes([Fraction(mass) for mass in p], [Fraction(mass) for mass in q])
    table = exact_truth.composed_outcomes([(once, repeats)])
    epsilon = sorted(set(data.draw(strategies.epsilons(0.1, 2 * quarter))))
    bounds = pbdist.privacy_bounds(
        Histogram(p, q), compositions=repeats, epsilon=epsilon, buckets=4 * quarter, method="buckets", direction="each"
    ).squeeze("compositions")
    for direction in Direction:
        for value in epsilon:
            cell = bounds.sel(direction=direction.value, epsilon=value)
            lower, upper = float(cell["delta_lower"]), float(cell["delta_upper"])
            assert_bracketed(
                lower,
                upper,
                at_most_one(enclosed_truth(table, value, direction)),
                value,
                f"{direction.value} r={repeats}",
            )


@pytest.mark.parametrize("digits", [16, 18, 307, 309, 400])
def test_counts_of_any_size_are_sound(digits: int) -> None:
    """Ratios beyond the floats: their masses and losses may not be lost, whatever ε."""
    epsilon = [0.0, 1.0, 700.0, 800.0, 1000.0]
    for p, q in (((1, 10**digits), (10**digits, 1)), ((1, 10**digits), (1, 1))):
        bounds = pbdist.privacy_bounds(
            Histogram(p, q), compositions=[1, 3], epsilon=epsilon, buckets=400, method="buckets", direction="each"
        )
        for repeats in (1, 3):
            table = exact_truth.composed_outcomes([(CountedPair(p, q).table, repeats)])
            for direction in Direction:
                for value in epsilon:
                    cell = bounds.sel(direction=direction.value, compositions=repeats, epsilon=value)
                    lower, upper = float(cell["delta_lower"]), float(cell["delta_upper"])
                    assert_bracketed(lower, upper, enclosed_truth(table, value, direction), value, f"{direction.value}")


def most_repetitions(table: exact_truth.OutcomeTable) -> int:
    return strategies.most_compositions(len(table.multiplicities), strategies.MOST_OUTCOMES)


@pytest.mark.parametrize("factor", [None, 1.001, 1.5])
def test_both_is_the_larger_direction(factor: float | None) -> None:
    pair = Histogram((5, 3, 1, 0), (2, 3, 4, 1))
    arguments = {
        "compositions": [1, 3, 64],
        "epsilon": [0.0, 0.3, 2.0],
        "buckets": 400,
        "factor": factor,
        "method": "buckets",
    }
    each = pbdist.privacy_bounds(pair, direction="each", **arguments)
    both = pbdist.privacy_bounds(pair, direction="both", **arguments)
    for name in ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"):
        assert both[name].dims == ("compositions", "epsilon")
        np.testing.assert_array_equal(both[name].values, each[name].values.max(axis=0))


# -- witnesses: cases that other tools are known to get wrong ---------------------------------------------------


def randomized_response_delta(p: float, rounds: int, epsilon: float) -> mpmath.mpf:
    """The binomial sum Σ C(r, k) max(0, p^k (1-p)^(r-k) - e^ε (1-p)^k p^(r-k)), to 60 significant digits."""
    with mpmath.workdps(80):
        likely, y = mpmath.mpf(p), mpmath.exp(mpmath.mpf(epsilon))
        ratio = likely / (1 - likely)
        total = mpmath.mpf(0)
        weight = (1 - likely) ** rounds  # C(r, k) p^k (1-p)^(r-k) for k = 0
        for k in range(rounds + 1):
            # P_A / P_B = ratio^(2k - r).
            part = 1 - y / ratio ** (2 * k - rounds)
            if part > 0:
                total += weight * part
            weight *= ratio * (rounds - k) / (k + 1)
        return total


@pytest.mark.parametrize(
    ("p", "rounds", "epsilon", "magnitude"),
    [
        (0.51, 4000, 0.0, 0.794),
        (0.51, 4000, 25.33, 1.9e-19),
        (0.51, 4000, 64.4, 1.2e-134),
        (0.51, 4000, 100.0, 0.0),
        (0.6, 500, 0.0, 1.0),
        (0.6, 500, 76.0, 1.7e-5),
        (0.6, 500, 200.0, 1.9e-105),
    ],
)
@pytest.mark.parametrize("on_the_grid", [False, True])
def test_two_outcome_witnesses(p: float, rounds: int, epsilon: float, magnitude: float, on_the_grid: bool) -> None:
    """Sums whose exact values lie far below the rounding errors of a plain transform."""
    truth = randomized_response_delta(p, rounds, epsilon)
    assert float(truth) == pytest.approx(magnitude, rel=0.05)
    assert truth > 0
    bounds = pbdist.privacy_bounds(
        RandomizedResponse(p),
        compositions=rounds,
        epsilon=epsilon,
        buckets=20_000,
        method="buckets",
        factor=p / (1 - p) if on_the_grid else None,
        direction="each",
    )
    for direction in ("A||B", "B||A"):
        cell = bounds.sel(direction=direction).squeeze()
        with mpmath.workdps(80):
            assert 0 <= mpmath.mpf(float(cell["delta_lower"])) <= truth * (1 - mpmath.mpf(10) ** -50)
            assert mpmath.mpf(float(cell["delta_upper"])) >= truth * (1 + mpmath.mpf(10) ** -50)
            assert mpmath.mpf(float(cell["log_delta_lower"])) <= mpmath.log(truth)
            assert mpmath.mpf(float(cell["log_delta_upper"])) >= mpmath.log(truth)
