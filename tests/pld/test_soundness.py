"""Bounds by the ladder against exact values: fractions, known values, and the other method."""

import json
import math
import random
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

from pbdist.mechanisms import (
    ElementaryPair,
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
from pbdist.pld import engine, epsilon_table, tight_bounds
from pbdist.pld.ladder import LadderBounds, ladder_bounds
from pbdist.pld.question import Question
from tests.oracles.truth import bracketed_exp

SEED = 20_261_122
#: Cases of one part, and the parts of the default run.
CASES, PARTS, FURTHER = 500, 1, 10


def asked(
    pair: Pair, rounds: list[int], epsilon: list[float], *, tolerance: float = 1e-3, together: bool = False
) -> Question:
    return Question(factor_counts([(pair, 1)]), np.array(rounds), np.array(epsilon), tolerance, 1e-40, together)


def climb(pair: Pair, rounds: list[int], epsilon: list[float]) -> LadderBounds:
    found = ladder_bounds(asked(pair, rounds, epsilon), range(len(rounds)))
    assert found is not None
    return found


def products(outcomes: list[tuple[Fraction, Fraction]], rounds: int) -> list[tuple[Fraction, Fraction]]:
    """The masses of all outcomes of so many rounds, those of one kind together."""
    found = []
    for chosen in combinations_with_replacement(range(len(outcomes)), rounds):
        ways = math.factorial(rounds)
        a = b = Fraction(1)
        for k in range(len(outcomes)):
            times = chosen.count(k)
            ways //= math.factorial(times)
            a, b = a * outcomes[k][0] ** times, b * outcomes[k][1] ** times
        found.append((a * ways, b * ways))
    return found


def delta(masses: list[tuple[Fraction, Fraction]], y: Fraction) -> Fraction:
    return sum((max(Fraction(0), a - y * b) for a, b in masses), Fraction(0))


def drawn_counts(draw: random.Random, size: int) -> list[int]:
    """Counts that stand for masses from 1e-300 to 1, some of them 0."""
    while True:
        masses = [
            draw.choice(
                [
                    draw.random(),
                    10.0 ** -draw.uniform(0.0, 6.0),
                    10.0 ** -draw.uniform(0.0, 40.0),
                    0.0 if draw.random() < 0.3 else 10.0 ** -draw.uniform(0.0, 300.0),
                ]
            )
            for _ in range(size)
        ]
        counts = [int(Fraction(mass) * 10**320) for mass in masses]
        if sum(counts):
            return counts


def compare(part: int) -> tuple[int, list[str]]:
    draw = random.Random(f"{SEED} {part}")  # noqa: S311
    compared, wrong = 0, []
    while compared < CASES:
        size, rounds = draw.choice([2, 2, 3, 4]), draw.choice([1, 2, 3, 5, 8])
        if size == 2 and draw.random() < 0.2:
            rounds = draw.choice([16, 33, 64])
        p, q = drawn_counts(draw, size), drawn_counts(draw, size)
        pair: Pair = Histogram(p, q)
        turned = draw.random() < 0.3
        epsilon = sorted(
            {0.0, *(draw.choice([draw.uniform(0, 3), draw.uniform(0, 30), draw.uniform(0, 300)]) for _ in "abc")}
        )
        question = asked(
            Reversed(pair) if turned else pair,
            [rounds],
            epsilon,
            tolerance=draw.choice([1e-3, 1e-2]),
            together=draw.random() < 0.5,
        )
        found = ladder_bounds(question, [0])
        if found is None:
            continue
        masses = products([(Fraction(a, sum(p)), Fraction(b, sum(q))) for a, b in zip(p, q, strict=True)], rounds)
        for column, at in enumerate(epsilon):
            smallest, largest = bracketed_exp(at)
            for axis in range(2):
                directed = [(b, a) for a, b in masses] if (axis == 1) != turned else masses
                compared += 1
                low, high = delta(directed, largest), delta(directed, smallest)
                lower, upper = (Fraction(float(each[axis, 0, column])) for each in (found.lower, found.upper))
                if not (lower <= high and low <= upper):
                    wrong.append(
                        f"{p} {q} r={rounds} ε={at!r} {axis} {turned}: {float(lower)} {float(upper)} {float(low)}"
                    )
    return compared, wrong


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_histograms_are_bracketed(part: int) -> None:
    compared, wrong = compare(part)
    assert compared >= CASES
    assert not wrong, wrong[:5]


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS, PARTS + FURTHER))
def test_further_histograms_are_bracketed(part: int) -> None:
    _, wrong = compare(part)
    assert not wrong, wrong[:5]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pair", "axes"),
    [
        ("randomized_response", RandomizedResponse(0.51), (0, 1)),
        ("dpsgd_remove", SubsampledGaussian(4.0, 0.01), (0,)),
        ("dpsgd_add", SubsampledGaussian(4.0, 0.01), (1,)),
    ],
)
def test_known_values_are_bracketed(name: str, pair: Pair, axes: tuple[int, ...]) -> None:
    path = Path(__file__).parents[1] / "exact_values.json"
    case = next(each for each in json.loads(path.read_text(encoding="utf-8"))["cases"] if each["name"] == name)
    known = {float(epsilon): Fraction(value) for epsilon, value in case["delta"].items() if float(epsilon) < 100.0}
    found = climb(pair, [case["compositions"]], [*known])
    for axis in axes:
        for column, truth in enumerate(known.values()):
            lower, upper = (Fraction(float(each[axis, 0, column])) for each in (found.lower, found.upper))
            # Twenty digits are known.
            assert lower <= truth * (1 + Fraction(1, 10**18))
            assert upper >= truth * (1 - Fraction(1, 10**18))
            if truth > Fraction(1, 10**40):
                assert upper <= lower * Fraction(1002, 1000)


PAIRS = [
    SubsampledGaussian(1.0, 0.01),
    SubsampledGaussian(0.6, 0.004),
    SubsampledGaussian(2.0, 0.001),
    Gaussian(20.0),
    Laplace(5.0),
    Laplace(3.0, 1.0, (-4.0, 9.0)),
    NoisyCount(Laplace(50.0), 300.0, 2),
    RandomizedResponse(0.6),
    Reversed(SubsampledGaussian(1.0, 0.01)),
]


@pytest.fixture
def without_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything by few frequencies, as far as these go."""
    monkeypatch.setattr(engine, "chosen_rows", lambda _question, rows: (list(rows), []))
    monkeypatch.setattr(engine, "ladder_bounds", lambda *_, **__: None)


@pytest.mark.slow
@pytest.mark.usefixtures("without_ladder")
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_two_methods_never_contradict_each_other(pair: Pair) -> None:
    """An upper bound of one is nowhere below the lower bound of the other."""
    rounds, epsilon = [1, 64, 777], [0.0, 0.5, 2.5]
    found = climb(pair, rounds, epsilon)
    other = tight_bounds(
        factor_counts([(pair, 1)]), np.array(rounds), np.array(epsilon), tolerance=1e-3, strict=False, floor=1e-40
    )
    lower, upper = np.exp(other.log_lower), np.exp(other.log_upper)
    assert np.all(found.lower <= upper * (1.0 + 1e-12))
    assert np.all(lower <= found.upper * (1.0 + 1e-12))
    # The larger direction is known well.
    lower, upper = np.max(found.lower, axis=0), np.max(found.upper, axis=0)
    told = (upper > 1e-40) & (lower > 0.0)
    assert np.any(told)
    assert np.all(upper[told] <= 1.0011 * lower[told])


def test_a_pair_and_its_reverse_are_mirrored() -> None:
    pair = SubsampledGaussian(1.0, 0.05)
    one, two = climb(pair, [100], [0.1, 1.0]), climb(Reversed(pair), [100], [0.1, 1.0])
    for first, second in ((0, 1), (1, 0)):
        assert np.all(one.lower[first] <= two.upper[second])
        assert np.all(two.lower[second] <= one.upper[first])


@pytest.mark.usefixtures("without_ladder")
def test_rounds_of_several_pairs() -> None:
    """Two noises of a round, together and one after the other."""
    counts: dict[ElementaryPair, int] = {SubsampledGaussian(1.0, 0.01): 2, Laplace(10.0): 1}
    rounds, epsilon = np.array([20, 200]), np.array([0.1, 0.5, 1.0])
    found = ladder_bounds(Question(counts, rounds, epsilon, 1e-3, 1e-40, True), [0, 1])
    assert found is not None
    other = tight_bounds(counts, rounds, epsilon, tolerance=1e-3, strict=False)
    assert np.all(np.max(found.lower, axis=0) <= np.max(np.exp(other.log_upper), axis=0) * (1.0 + 1e-12))
    assert np.all(np.max(np.exp(other.log_lower), axis=0) <= np.max(found.upper, axis=0) * (1.0 + 1e-12))


@pytest.mark.parametrize("rounds", [30, 1000])
@pytest.mark.parametrize("delta_asked", [1e-5, 1e-8])
def test_epsilon_by_either_way_is_met(delta_asked: float, rounds: int) -> None:
    counts = factor_counts([(SubsampledGaussian(1.0, 0.01), 1)])
    found = epsilon_table(counts, np.array([rounds]), np.array([delta_asked]), tolerance=1e-3, together=True)
    low, high = float(found.lower[0, 0, 0]), float(found.upper[0, 0, 0])
    assert 0.0 < low < high <= low * 1.001
    checked = tight_bounds(counts, np.array([rounds]), np.array([low, high]), tolerance=1e-3, strict=False)
    log_delta = math.log(delta_asked)
    assert np.max(checked.log_upper[:, 0, 0]) > log_delta
    assert np.max(checked.log_lower[:, 0, 1]) <= log_delta


def test_an_infinite_mass_is_told() -> None:
    """δ never falls below what reveals the input."""
    pair = NoisyCount(Laplace(50.0), 300.0, 2)
    found = climb(pair, [10], [1.0, 50.0])
    only = pair.factors[0].loss_masses(np.array([0.0, 1.0])).only_a.lower
    assert np.all(found.upper[0, 0] >= 1.0 - (1.0 - float(np.sum(only))) ** 10 - 1e-15)
