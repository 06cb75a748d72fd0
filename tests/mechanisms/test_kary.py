"""k-ary randomized response: bounds against enumeration, masses against fractions, and its other forms."""

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

from pbdist import (
    InvalidInputError,
    KaryRandomizedResponse,
    PrecisionWarning,
    RandomizedResponse,
    open_study,
    privacy_bounds,
)
from pbdist.cli import main
from pbdist.mechanisms import Adjacency, pair_from_canonical
from pbdist.mechanisms.order import at_least_as_noisy
from pbdist.types import Direction
from tests import effort
from tests.effort import times
from tests.oracles.outcome_pairs import Outcomes, delta_of, epsilons_about, violations
from tests.studies import write_study


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    """Whatever other modules set."""
    with mpmath.workdps(60):
        yield


EDGES = [
    (0.5, 2),
    (0.25, 4),
    (0.0, 3),
    (0.0, 2),
    (1.0, 5),
    (1e-300, 3),
    (5e-324, 2),
    (1e-270, 2**53),
    (1.0 - 2.0**-53, 7),
    (1.0 / 3.0, 3),
    (math.nextafter(0.25, 1.0), 4),
    (0.3, 2**53),
]


def outcomes_of(pair: KaryRandomizedResponse) -> Outcomes:
    """The two true answers and the others as one: a function of the answer that keeps the likelihood ratio."""
    p, k = Fraction(pair.p), pair.k
    lie = (1 - p) / (k - 1)
    return [
        (mpmath.mpf(a.numerator) / a.denominator, mpmath.mpf(b.numerator) / b.denominator)
        for a, b in ((p, lie), (lie, p), ((k - 2) * lie, (k - 2) * lie))
    ]


def drawn(rng: np.random.Generator) -> KaryRandomizedResponse:
    k = int(rng.choice([2, 3, 4, 7, int(rng.integers(2, 40)), 10**6]))
    p = float(rng.choice([rng.uniform(), min(1.0, rng.uniform(0.9, 1.2) / k), 10.0 ** rng.uniform(-12, 0), 1.0 / k]))
    return KaryRandomizedResponse(p, k)


def test_drawn_pairs_against_enumeration() -> None:
    rng, wrong = np.random.default_rng([41, effort.SEED]), 0
    for _ in range(times(30)):
        pair = drawn(rng)
        outcomes = outcomes_of(pair)
        wrong += violations(pair, outcomes, epsilons_about(outcomes, rng), rounds=(1, 3))
    assert wrong == 0


@pytest.mark.parametrize(("p", "k"), EDGES)
def test_extreme_parameters(p: float, k: int) -> None:
    pair = KaryRandomizedResponse(p, k)
    epsilon = [0.0, 1e-17, 0.7, min(pair.largest_loss, 590.0)]
    assert violations(pair, outcomes_of(pair), epsilon) == 0
    assert pair.identical == (Fraction(p) * k == 1)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_every_pair_of_truths_has_the_same_delta(k: int) -> None:
    """All ordered pairs of different true answers, answer by answer and without joining any."""
    p = Fraction(3, 5)
    rows = [[p if answer == truth else (1 - p) / (k - 1) for answer in range(k)] for truth in range(k)]
    pair = KaryRandomizedResponse(float(p), k)
    mine = outcomes_of(KaryRandomizedResponse(float(p), k))
    for epsilon in (0.0, 0.4, 1.1):
        found = set()
        for one in range(k):
            for other in range(k):
                if one != other:
                    sides = ([mpmath.mpf(float(mass)) for mass in rows[truth]] for truth in (one, other))
                    listed = list(zip(*sides, strict=True))
                    found.add(float(delta_of(listed, 1, epsilon, Direction.A_TO_B)))
        assert len({round(value, 12) for value in found}) == 1
        assert found.pop() == pytest.approx(float(delta_of(mine, 1, epsilon, Direction.B_TO_A)), abs=1e-14)
    assert pair.adjacency is Adjacency.REPLACE_ONE


def test_masses_enclose_fractions() -> None:
    for p, k in [(0.3, 5), (0.999, 2**53), (1e-200, 3), (0.7, 2)]:
        pair = KaryRandomizedResponse(p, k)
        found = pair.loss_masses(np.array([0.0]))
        lie = (1 - Fraction(p)) / (k - 1)
        exact = [Fraction(p), lie, (k - 2) * lie][: found.atom_loss.size]
        for lower, upper, mass in zip(found.atoms_a.lower, found.atoms_a.upper, exact, strict=True):
            assert Fraction(float(lower)) <= mass <= Fraction(float(upper)) <= mass * (1 + Fraction(1, 10**14))
        for loss, a, b in zip(found.atom_loss, exact, [exact[1], exact[0], *exact[2:]], strict=True):
            true = mpmath.log(mpmath.mpf(a.numerator) / a.denominator * b.denominator / b.numerator)
            assert abs(mpmath.mpf(float(loss)) - true) <= found.loss_error


def test_with_two_answers_it_is_randomized_response() -> None:
    for p in (0.0, 0.2, 0.77, 1.0):
        mine, its = (
            privacy_bounds(pair, compositions=[1, 9], epsilon=[0.0, 0.5])
            for pair in (KaryRandomizedResponse(p, 2), RandomizedResponse(p))
        )
        np.testing.assert_allclose(mine.delta_upper, its.delta_upper, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 3, 100, 10**9])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.5, 3.0, 20.0])
def test_from_epsilon_dominates_and_is_close(epsilon: float, k: int) -> None:
    pair = KaryRandomizedResponse.from_epsilon(epsilon, k)
    odds = mpmath.exp(mpmath.mpf(epsilon))
    exact = odds / (odds + k - 1)
    assert exact <= mpmath.mpf(pair.p) <= exact * (1 + mpmath.mpf(2) ** -49)
    assert pair.largest_loss == pytest.approx(epsilon, abs=1e-6)


def test_from_noise_is_the_other_form() -> None:
    for noise, k in [(0.0, 4), (1.0, 4), (0.3, 2), (0.7, 9)]:
        pair = KaryRandomizedResponse.from_noise(noise, k)
        exact = 1 - Fraction(noise) * (k - 1) / k
        assert exact <= Fraction(pair.p) <= exact * (1 + Fraction(1, 2**52))


def test_dp_accounting_has_the_same_upper_values() -> None:
    """dp-accounting 0.6.0, `from_randomized_response(noise, k)`, value_discretization_interval 1e-4, copied values."""
    for noise, k, rounds, epsilon, its in DP_ACCOUNTING:
        pair = KaryRandomizedResponse.from_noise(noise, k)
        found = privacy_bounds(pair, compositions=rounds, epsilon=epsilon)
        assert found.delta_lower.item() <= its * (1 + 1e-9)
        assert found.delta_upper.item() <= its * (1 + 1e-3)


#: noise, k, rounds, ε and the upper value.
DP_ACCOUNTING = [
    (0.8109740331520274, 17, 50, 6.420878920106373, 0.9073795004168508),
    (0.06432441483049382, 5, 2, 0.3261836408362671, 0.9713409843810811),
    (0.65866936024464, 2, 50, 1.2972646132092034, 0.975864837759155),
    (0.9737282832008111, 3, 2, 0.10868991831814345, 0.005664502018091621),
    (0.07952585598593688, 17, 7, 8.549044069221852, 0.9999206852237432),
    (0.8811784986948888, 200, 2, 0.33275649371796223, 0.21943495482800388),
]


def test_flipping_more_often_is_more_noise() -> None:
    assert at_least_as_noisy(KaryRandomizedResponse(0.5, 4), KaryRandomizedResponse(0.6, 4))
    assert not at_least_as_noisy(KaryRandomizedResponse(0.6, 4), KaryRandomizedResponse(0.5, 4))
    assert at_least_as_noisy(KaryRandomizedResponse(0.2, 4), KaryRandomizedResponse(0.1, 4))
    # Another number of answers, and the other side of 1/k, are not compared.
    assert not at_least_as_noisy(KaryRandomizedResponse(0.5, 4), KaryRandomizedResponse(0.6, 5))
    assert not at_least_as_noisy(KaryRandomizedResponse(0.3, 4), KaryRandomizedResponse(0.1, 4))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: KaryRandomizedResponse(1.5, 3), "KaryRandomizedResponse.p: expected a probability in [0, 1], got 1.5"),
        (
            lambda: KaryRandomizedResponse(0.5, 1),
            "KaryRandomizedResponse.k: expected a whole number from 2 to 9007199254740992, got 1",
        ),
        (
            lambda: KaryRandomizedResponse(0.5, 2.5),
            "KaryRandomizedResponse.k: expected a whole number from 2 to 9007199254740992, got 2.5",
        ),
        (
            lambda: KaryRandomizedResponse.from_epsilon(-0.1, 3),
            "KaryRandomizedResponse.epsilon: expected a number from 0 to 700, got -0.1",
        ),
        (
            lambda: KaryRandomizedResponse.from_epsilon(40.0, 3),
            "KaryRandomizedResponse.epsilon: expected lies of a probability of 1e-09 or more, got 40.0: give p",
        ),
        (
            lambda: KaryRandomizedResponse.from_noise(1.1, 3),
            "KaryRandomizedResponse.noise: expected a probability in [0, 1], got 1.1",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(make: object, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == text


def test_the_canonical_form() -> None:
    form = KaryRandomizedResponse(0.5, 4).canonical()
    assert json.dumps(form) == '{"mechanism": "KaryRandomizedResponse", "p": 0.5, "k": 4}'
    assert pair_from_canonical(form) == KaryRandomizedResponse(0.5, 4.0)  # type: ignore[arg-type]


def test_a_study_of_it_is_computed_and_asked(tmp_path: Path) -> None:
    text = """\
format: 1
name: answers
mechanisms:
  - {kind: KaryRandomizedResponse, p: [0.5, 0.6], k: [3, 4]}
compositions: [1, 3]
epsilon: [0, 0.5]
"""
    assert main(["run", str(write_study(tmp_path, text)), "--store", str(tmp_path / "s.zarr"), "--serial"]) == 0
    study = open_study(tmp_path / "s.zarr")
    assert [cell.pair for cell in study.spec.cells] == [
        KaryRandomizedResponse(p, k) for p in (0.5, 0.6) for k in (3, 4)
    ]
    pair = KaryRandomizedResponse(0.5, 4)
    found = study.delta("KaryRandomizedResponse", compositions=3, epsilon=0.5, p=0.5, k=4)
    exact = max(delta_of(outcomes_of(pair), 3, 0.5, direction) for direction in Direction)
    assert found.lower <= exact <= found.upper
    # Between stored p, from both sides.
    with pytest.warns(PrecisionWarning):
        between = study.delta("KaryRandomizedResponse", compositions=3, epsilon=0.5, p=0.55, k=4)
    outcomes = outcomes_of(KaryRandomizedResponse(0.55, 4))
    assert between.lower <= delta_of(outcomes, 3, 0.5, Direction.A_TO_B) <= between.upper
    assert (
        main(["query", str(tmp_path / "s.zarr"), "--p", "0.6", "--k", "3", "--compositions", "3", "--epsilon", "0"])
        == 0
    )
    assert main(["verify", str(tmp_path / "s.zarr")]) == 0
