"""Trade-off curves read off saved states, against fractions, closed forms and the other ways."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.curves.tradeoff import state_tradeoff, wholes_of
from pbdist.curves.tradeoff_table import tradeoff_table
from pbdist.mechanisms import (
    Gaussian,
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    RandomizedResponse,
    Reversed,
    SubsampledGaussian,
    factor_counts,
)
from pbdist.pld import PairState, compute_states
from pbdist.types import Direction, FloatArray
from tests.oracles.curve_truth import (
    composed,
    gaussian_type_two,
    response_outcomes,
    smallest_type_two,
    swapped,
)
from tests.oracles.truth import histogram
from tests.strategies import CountedPair, counted_pairs, examples

pytestmark = pytest.mark.slow

ERRORS = np.array([0.0, 1e-12, 1e-4, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 1.0 - 1e-12, 1.0])


def state_of(pair: Pair, rounds: int, largest: float, tolerance: float = 1e-3) -> PairState:
    found = compute_states(
        factor_counts([(pair, 1)]), np.array([rounds]), np.array([largest]), tolerance=tolerance, floor=1e-40
    )
    return found.states[rounds]


def curves(state: PairState, pair: Pair, rounds: int, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    wholes = wholes_of([(pair, 1)], rounds)
    lower, upper = zip(*(state_tradeoff(state, test, alpha, wholes) for test in Direction), strict=True)
    return np.stack(lower), np.stack(upper)


def check_against(outcomes: list[tuple[Fraction, Fraction]], pair: Pair, rounds: int, state: PairState) -> None:
    alpha = np.concatenate((ERRORS, np.random.default_rng(rounds).uniform(size=8)))
    lower, upper = curves(state, pair, rounds, alpha)
    for axis, sides in enumerate((outcomes, swapped(outcomes))):
        for place, value in enumerate(alpha.tolist()):
            exact = min(smallest_type_two(sides, value), Fraction(1))
            assert Fraction(lower[axis, place]) <= exact <= Fraction(upper[axis, place]), (axis, value)


@given(counted_pairs(), st.integers(1, 4), st.floats(0.1, 30.0), st.sampled_from([1e-3, 0.1, 1.0]), st.booleans())
@examples(60)
def test_histograms_against_fractions(
    counted: CountedPair, rounds: int, largest: float, tolerance: float, turned: bool
) -> None:
    pair: Pair = Reversed(histogram(counted)) if turned else histogram(counted)
    outcomes = composed(list(zip(counted.p, counted.q, strict=True)), rounds)
    check_against(swapped(outcomes) if turned else outcomes, pair, rounds, state_of(pair, rounds, largest, tolerance))


@pytest.mark.parametrize("p", [(0.5, 0.5 + 9e-10), (0.5, 0.5 - 9e-10)])
@pytest.mark.parametrize("rounds", [1, 5])
def test_masses_that_do_not_sum_to_one(p: tuple[float, float], rounds: int) -> None:
    pair = Histogram(p, (0.2, 0.8 + 5e-10))
    outcomes = composed([(Fraction(a), Fraction(b)) for a, b in zip(pair.p, pair.q, strict=True)], rounds)
    check_against(outcomes, pair, rounds, state_of(pair, rounds, 3.0))


@pytest.mark.parametrize("p", [0.5, 0.52, 0.75])
@pytest.mark.parametrize("rounds", [1, 3, 40])
def test_randomized_response_is_known_to_rounding(p: float, rounds: int) -> None:
    pair = RandomizedResponse(p)
    state = state_of(pair, rounds, 60.0)
    check_against(response_outcomes(p, rounds), pair, rounds, state)
    lower, upper = curves(state, pair, rounds, np.linspace(0.0, 1.0, 101))
    assert np.max(upper - lower) < 1e-10


def test_gaussian_against_the_closed_form() -> None:
    for scale, rounds in ((1.0, 1), (10.0, 7), (60.0, 64)):
        alpha = np.sort(np.concatenate(([1e-9, 1.0 - 1e-9], np.random.default_rng(3).uniform(size=40))))
        state = state_of(Gaussian(scale), rounds, 12.0 * math.sqrt(rounds) / scale)
        lower, upper = curves(state, Gaussian(scale), rounds, alpha)
        for place, value in enumerate(alpha.tolist()):
            exact = gaussian_type_two(scale, rounds, value)
            assert np.all(lower[:, place] <= exact)
            assert np.all(exact <= upper[:, place])
        assert np.max(upper - lower) < 1e-3


@pytest.mark.parametrize(
    ("pair", "rounds"),
    [(SubsampledGaussian(1.0, 0.01), 500), (Laplace(5.0), 30), (NoisyCount(Laplace(50.0), 300.0, 2), 10)],
    ids=str,
)
def test_curves_of_states_and_of_deltas_agree(pair: Pair, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"compositions": rounds, "type_one_error": ERRORS, "tolerance": 1e-3}
    found = tradeoff_table([(pair, 1)], **arguments)
    monkeypatch.setattr("pbdist.curves.tradeoff_table._STATE_FRACTIONS", ())
    other = tradeoff_table([(pair, 1)], **arguments)
    assert np.all(found.lower <= other.upper)
    assert np.all(other.lower <= found.upper)
    assert np.max(found.upper - found.lower) <= 1e-3
