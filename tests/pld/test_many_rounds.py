"""Many rounds by few frequencies, against closed forms in many digits, and beside the ladder."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.mechanisms import (
    ApproximateDP,
    ElementaryPair,
    Gaussian,
    Laplace,
    NoisyCount,
    Pair,
    RandomizedResponse,
    SubsampledGaussian,
    factor_counts,
)
from pbdist.pld import TightBounds, engine, tight_bounds
from pbdist.pld.leaf import Lattice, leaf_of, leaf_state
from pbdist.pld.many_rounds import Composition, Tilt, lattices_for, many_round_bounds
from pbdist.pld.question import Question
from pbdist.types import Direction
from tests.pld.test_closed_form import holds, log_delta, variance_of


def random_lattices(draw: random.Random, spacing: float, deviation: float, count: int) -> list[Lattice]:
    """Windows that lose much or little, with and without far parts, for some pairs."""
    found = []
    coarse = draw.choice([1, 1, 4, 16])
    for _ in range(count):
        reach = coarse * math.ceil(draw.uniform(4.0, 40.0) * deviation / (coarse * spacing))
        core = coarse * max(math.ceil(draw.uniform(0.1, 1.0) * reach / coarse), 1) if coarse > 1 else reach
        found.append(Lattice(spacing, coarse, (-core, core), -reach, reach))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_any_lattice_and_any_tilt_are_sound(part: int) -> None:
    """Rounds of Gaussian noise, the exact variance of which is a rational number."""
    draw = random.Random(f"many rounds {part}")  # noqa: S311
    told = close = 0
    for _ in range(12):
        pairs = [
            Gaussian(draw.uniform(5.0, 60.0), sensitivity=draw.uniform(0.5, 2.0)) for _ in range(draw.choice([1, 1, 2]))
        ]
        counts = [draw.choice([1, 2, 5]) for _ in pairs]
        rounds = draw.choice([150, 700, 5000])
        variance = sum(
            (variance_of(pair, count * rounds) for pair, count in zip(pairs, counts, strict=True)), Fraction(0)
        )
        deviation = max(pair.sensitivity / pair.scale for pair in pairs)
        spacing = deviation * draw.choice([0.02, 0.2, 1.0])
        factors = [
            (leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, tuple(Direction)), count * rounds)
            for pair, count, lattice in zip(
                pairs, counts, random_lattices(draw, spacing, deviation, len(pairs)), strict=True
            )
        ]
        mean, whole = 0.5 * float(variance), math.sqrt(float(variance))
        epsilon = np.array([max(mean + whole * draw.uniform(-4.0, 12.0), 0.0) for _ in range(4)])
        for direction in Direction:
            at = float(draw.choice(epsilon.tolist()))
            tilt = max((at - mean) / float(variance) + draw.uniform(-1.0, 1.0) / whole, 0.0)
            extended = draw.random() < 0.3
            chosen = Tilt(tilt, np.arange(epsilon.size), 10.0 ** -draw.uniform(1.0, 12.0), extended)
            composed = Composition(factors, direction)
            chernoff = composed.chernoff_bound(tilt, epsilon)
            known = composed.frequencies(chosen, below=True)
            lower, upper = (
                (np.full(4, -np.inf), chernoff) if known is None else composed.read(known, epsilon, below=True)
            )
            for column, asked in enumerate(epsilon.tolist()):
                truth = log_delta(variance, asked)
                which = (pairs, counts, rounds, spacing, asked, direction)
                assert holds(float(lower[column]), float(upper[column]), truth), which
                assert chernoff[column] >= truth, which
                told += lower[column] > -math.inf
                close += upper[column] - lower[column] < 0.01
    assert told > 40, told
    assert close > 5, close


DP_SGD = SubsampledGaussian(scale=4.0, rate=0.01)
TABLES: dict[str, tuple[list[tuple[Pair, int]], list[int], list[float], int]] = {
    "dp-sgd": ([(DP_SGD, 1)], [500, 2000, 8000], [0.1, 0.4], 3),
    "laplace": ([(Laplace(scale=30.0), 1)], [2000, 30_000], [0.5, 2.0, 12.0], 2),
    "count": ([(NoisyCount(Gaussian(scale=60.0), 400.0, 2), 1)], [500], [1.0], 1),
    "truncated": ([(Gaussian(scale=20.0, truncate=(-80.0, 80.0)), 1)], [200, 2000], [0.5, 2.0], 2),
    "heterogeneous": ([(DP_SGD, 2), (Laplace(scale=50.0), 1), (Gaussian(scale=50.0), 1)], [64, 200], [0.5, 2.0], 1),
    "with a failure": ([(DP_SGD, 1), (ApproximateDP(0.001, 1e-8), 1)], [1000], [0.1, 1.0], 1),
}


def table_of(name: str, tolerance: float) -> TightBounds:
    components, rounds, epsilon, _ = TABLES[name]
    counts = factor_counts(components)
    return tight_bounds(
        counts, np.array(rounds), np.array(epsilon), Request(tolerance=tolerance, strict=False, floor=1e-40)
    )


def one_way(monkeypatch: pytest.MonkeyPatch, name: str, tolerance: float, *, few: bool) -> tuple[TightBounds, int]:
    """A table by few frequencies first, or by a ladder alone; and how many rows few frequencies told."""
    told = 0

    def counted(question, rows, **options):  # type: ignore[no-untyped-def]
        nonlocal told
        for found in many_round_bounds(question, rows, **options):
            told += 1
            yield found

    with monkeypatch.context() as patched:
        patched.setattr(engine, "has_transforms", lambda _question: False)
        patched.setattr(engine, "many_round_bounds", counted)
        patched.setattr(engine, "chosen_rows", lambda _q, rows: (list(rows), []) if few else ([], list(rows)))
        if not few:
            patched.setattr(engine, "frequency_cost", lambda *_: None)
            patched.setattr(engine, "_FEW_POINTS", 0)
            patched.setattr(engine._Table, "_seems_usual", lambda _: False)
        found = table_of(name, tolerance)
    return found, told


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [1e-2, pytest.param(3e-4, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", TABLES)
def test_both_ways_are_consistent(name: str, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    least = TABLES[name][-1]
    few, told = one_way(monkeypatch, name, tolerance, few=True)
    ladder, none = one_way(monkeypatch, name, tolerance, few=False)
    assert told >= least, name
    assert none == 0
    every = table_of(name, tolerance)
    # By exact transforms, where there are any.
    for first, second in itertools.product((few, ladder, every), repeat=2):
        assert np.all(first.log_lower <= second.log_upper)
    for found in (few, ladder):
        assert found.within is not None
        assert np.all(found.within), (name, tolerance, found)


def test_all_frequencies_tell_rows_of_lattices_and_of_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair, rounds in ((RandomizedResponse(0.6), 40), (Laplace(1.0), 1)):
        question = Question({pair: 1}, np.array([rounds]), np.array([0.5]), 1e-3, 1e-40, True)
        ((_, _, lower, upper),) = many_round_bounds(question, {0: 1.0})
        exact = tight_bounds({pair: 1}, question.rounds, question.epsilon, Request())
        assert np.all(lower <= exact.log_upper[:, 0])
        assert np.all(upper >= exact.log_lower[:, 0])
        assert np.all(upper - lower < 0.01)
        with monkeypatch.context() as patched:
            patched.setattr("pbdist.pld.few_frequencies._LONGEST_OF_EVERY", 1)
            assert list(many_round_bounds(question, {0: 1.0})) == []


def test_lattices_end_where_exponentials_of_losses_are_floats() -> None:
    pair = Laplace(0.0003)
    question = Question({pair: 1}, np.array([37]), np.array([123000.0]), 1e-3, 1e-40, True)
    made = 0
    for spacing in np.geomspace(1.0, 3000.0, 40).tolist():
        chosen = lattices_for(question, spacing, 37)
        if chosen is not None:
            leaf_of(pair, chosen.lattices[0], question.directions)
            made += 1
    assert 0 < made < 40


def test_a_factor_without_any_loss_but_0() -> None:
    counts = factor_counts([(DP_SGD, 1), (ApproximateDP(0.0, 1e-9), 1)])
    assert {ApproximateDP(0.0, 1e-9)} < set(counts)
    found = tight_bounds(counts, np.array([1000]), np.array([0.1, 1.0]), Request(tolerance=1e-2))
    alone: dict[ElementaryPair, int] = {DP_SGD: 1}
    other = tight_bounds(alone, np.array([1000]), np.array([0.1, 1.0]), Request(tolerance=1e-2))
    # What fails reveals all: δ + (1 - δ) p.
    failed = -math.expm1(1000 * math.log1p(-1e-9))
    for axis in range(2):
        low, high = np.exp(other.log_lower[axis, 0]), np.exp(other.log_upper[axis, 0])
        assert np.all(np.exp(found.log_lower[axis, 0]) <= (high + (1.0 - high) * failed) * (1.0 + 1e-9))
        assert np.all(np.exp(found.log_upper[axis, 0]) >= (low + (1.0 - low) * failed) * (1.0 - 1e-9))
