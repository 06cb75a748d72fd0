"""What is projected: the same choice in a plan as in a run, and seconds that are sane."""

import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.mechanisms import Gaussian, Laplace, Pair, Product, RandomizedResponse, SubsampledGaussian, factor_counts
from pbdist.pld import engine, tight_bounds
from pbdist.pld.cost import chosen_rows, frequency_cost, ladder_cost, table_cost
from pbdist.pld.question import Question

ROUNDS, EPSILON = np.array([1, 64, 4096]), np.array([0.25, 0.5, 1.0])
PAIRS = [
    Laplace(20.0),
    Gaussian(40.0, truncate=(-300.0, 250.0)),
    SubsampledGaussian(2.0, 0.01),
    RandomizedResponse(0.51),
    Product(Laplace(30.0), Gaussian(50.0)),
]


def question_of(pair: Pair, rounds: np.ndarray = ROUNDS) -> Question:
    return Question(factor_counts([(pair, 1)]), rounds, EPSILON, 1e-2, 1e-40, True)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair).__name__)
def test_a_run_chooses_what_a_plan_does(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[int], tuple[list[int], list[int]]]] = []

    def spy(question: Question, rows: list[int]) -> tuple[list[int], list[int]]:
        found = chosen_rows(question, rows)
        asked.append((list(rows), found))
        return found

    monkeypatch.setattr(engine, "chosen_rows", spy)
    tight_bounds(
        factor_counts([(pair, 1)]),
        ROUNDS,
        EPSILON,
        Request(tolerance=1e-2, strict=False, joint_directions=True, floor=1e-40),
    )
    for rows, found in asked:
        assert chosen_rows(question_of(pair), rows) == found
        few, ladder = found
        assert sorted([*few, *ladder]) == sorted(rows)
        assert all(frequency_cost(question_of(pair), row) is not None for row in few)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair).__name__)
def test_projections_are_sane(pair: Pair) -> None:
    cost = table_cost(question_of(pair), width=None, positions=None, keep_states=False)
    assert 0.0 < cost.seconds < 60.0
    assert 0 < cost.peak_bytes < 1 << 33
    given = table_cost(question_of(pair, np.array([1, 64])), width=1e-3, positions=None, keep_states=False)
    finer = table_cost(question_of(pair, np.array([1, 64])), width=2.5e-4, positions=None, keep_states=False)
    assert 0.0 < given.seconds < finer.seconds


def test_more_rounds_of_a_ladder_cost_more() -> None:
    costs = [
        ladder_cost(question_of(SubsampledGaussian(2.0, 0.01), np.array(rounds)), range(len(rounds))).seconds
        for rounds in ([1], [1, 64], [1, 64, 63 * 64])
    ]
    assert 0.0 < costs[0] < costs[1] < costs[2]


def test_nothing_is_projected_of_a_closed_form() -> None:
    cost = table_cost(question_of(Gaussian(40.0)), width=None, positions=None, keep_states=False)
    assert cost.seconds == 0.0
