"""Bounds by exact transforms: any tilt, ratio and period gives bounds; against closed forms and integrals."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.mechanisms import ElementaryPair, Gaussian, Laplace, Reversed, SubsampledGaussian
from pbdist.pld import engine, tight_bounds
from pbdist.pld.ladder import LadderBounds, ladder_bounds
from pbdist.pld.loss_transform import rounds_of
from pbdist.pld.question import Question
from pbdist.pld.transform_bounds import Smoothed, Tilts, TransformRows, guessed_epsilons, has_transforms
from pbdist.types import Direction

pytestmark = pytest.mark.slow


def tail(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def single(ratio: float, rate: float, epsilon: mpmath.mpf, direction: Direction) -> mpmath.mpf:
    """δ of one round in closed form, for any real ε."""
    mu, q, growth = mpmath.mpf(ratio), mpmath.mpf(rate), mpmath.exp(epsilon)
    if direction is Direction.A_TO_B:
        odds = (growth - 1 + q) / q
        if odds <= 0:
            return 1 - growth
        y = mpmath.log(odds) / mu + mu / 2
        return (1 - q - growth) * tail(y) + q * tail(y - mu)
    odds = (1 / growth - 1 + q) / q
    if odds <= 0:
        return mpmath.mpf(0)
    y = mpmath.log(odds) / mu + mu / 2
    return tail(-y) * (1 - growth * (1 - q)) - growth * q * tail(mu - y)


def double(first: tuple[float, float], second: tuple[float, float], epsilon: float, direction: Direction) -> mpmath.mpf:
    """δ of two rounds: that of the second, at ε less the loss of the first, on the average."""
    mu, q = mpmath.mpf(first[0]), mpmath.mpf(first[1])

    def inner(y: mpmath.mpf) -> mpmath.mpf:
        ratio = 1 + q * mpmath.expm1(mu * y - mu * mu / 2)
        loss = mpmath.log(ratio)
        weight = mpmath.npdf(y) * (ratio if direction is Direction.A_TO_B else 1)
        sign = 1 if direction is Direction.A_TO_B else -1
        return weight * single(*second, mpmath.mpf(epsilon) - sign * loss, direction)

    return mpmath.quad(inner, [-12, -6, -3, -1, 0, 1, 2, 3, 4, 6, 8, 12 + float(mu)], maxdegree=7)


def side_of(counts: dict[ElementaryPair, int], direction: Direction, rounds: int, epsilon: float) -> Smoothed:
    found = rounds_of(counts, direction)
    assert found is not None
    return Smoothed(found, rounds, Tilts.of(found, rounds, epsilon))


@pytest.mark.slow(reason="integrals of forty digits")
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("part", range(3))
def test_any_tilt_ratio_and_period_is_sound(direction: Direction, part: int) -> None:
    draw = random.Random(f"smoothing {part} {direction}")  # noqa: S311
    close = 0
    with mpmath.workdps(40):
        for _ in range(60):
            scale, rate = draw.choice([0.5, 0.8, 1.0, 2.0, 10.0]), 10.0 ** draw.uniform(-4.0, -0.1)
            epsilon = np.array(sorted(10.0 ** draw.uniform(-2.5, 0.7) for _ in range(3)))
            side = side_of({SubsampledGaussian(scale, rate): 1}, direction, 1, float(epsilon[-1]))
            tilt = 10.0 ** draw.uniform(-2.0, 1.5)
            period, ratio = 10.0 ** draw.uniform(-0.5, 2.0) / min(tilt, 1.0), 10.0 ** draw.uniform(-2.5, 0.6)
            lower, upper = side.at(tilt, ratio, period).bounds(epsilon)
            for place, asked in enumerate(epsilon.tolist()):
                true = single(1.0 / scale, rate, mpmath.mpf(asked), direction)
                assert true <= mpmath.exp(mpmath.mpf(float(upper[place]))), (scale, rate, asked, tilt, ratio, period)
                assert mpmath.exp(mpmath.mpf(float(lower[place]))) <= true, (scale, rate, asked, tilt, ratio, period)
                close += upper[place] - lower[place] < 0.1
            chernoff, nearly = side.chernoff(epsilon), side.nearly_all(epsilon)
            for place, asked in enumerate(epsilon.tolist()):
                true = single(1.0 / scale, rate, mpmath.mpf(asked), direction)
                assert mpmath.exp(float(nearly[place])) <= true <= mpmath.exp(float(chernoff[place]))
    # Bounds that say nothing would not tell.
    assert close >= 3


CASES: Sequence[tuple[dict[ElementaryPair, int], tuple[float, float], tuple[float, float]]] = [
    ({SubsampledGaussian(1.0, 0.01): 2}, (1.0, 0.01), (1.0, 0.01)),
    ({SubsampledGaussian(0.6, 0.002): 1, SubsampledGaussian(2.0, 0.3): 1}, (1.0 / 0.6, 0.002), (0.5, 0.3)),
    ({SubsampledGaussian(3.0, 0.5, 2.0): 2}, (2.0 / 3.0, 0.5), (2.0 / 3.0, 0.5)),
]


@pytest.mark.parametrize(("counts", "first", "second"), CASES, ids=["same", "different", "sensitivity"])
@pytest.mark.parametrize("direction", list(Direction))
def test_two_rounds_are_bracketed_within_the_tolerance(
    counts: dict[ElementaryPair, int], first: tuple[float, float], second: tuple[float, float], direction: Direction
) -> None:
    epsilon = np.array([0.01, 0.3, 1.1])
    question = Question(counts, np.array([1]), epsilon, 1e-3, 1e-30, False)
    lower, upper = TransformRows(question).row(0)
    axis = list(Direction).index(direction)
    with mpmath.workdps(30):
        for place, asked in enumerate(epsilon.tolist()):
            true = double(first, second, asked, direction)
            if true < 1e-25:
                continue
            assert mpmath.exp(float(lower[axis, place])) <= true * (1 + mpmath.mpf(10) ** -12)
            assert true * (1 - mpmath.mpf(10) ** -12) <= mpmath.exp(float(upper[axis, place]))
            assert upper[axis, place] - lower[axis, place] <= math.log1p(1e-3)


def test_a_round_and_gaussian_noise_besides() -> None:
    """Gaussian noise counts as a pair that is sampled always."""
    counts: dict[ElementaryPair, int] = {SubsampledGaussian(1.0, 0.1): 1, Gaussian(4.0): 1}
    lower, upper = TransformRows(Question(counts, np.array([1]), np.array([0.2, 1.5]), 1e-3, 1e-30, False)).row(0)
    with mpmath.workdps(30):
        for axis, direction in enumerate(Direction):
            for place, asked in enumerate((0.2, 1.5)):
                true = double((1.0, 0.1), (0.25, 1.0), asked, direction)
                assert mpmath.exp(float(lower[axis, place])) <= true <= mpmath.exp(float(upper[axis, place]))
                assert upper[axis, place] - lower[axis, place] <= math.log1p(1e-3)


def test_reversed_pairs_are_the_other_direction() -> None:
    pair = SubsampledGaussian(0.8, 0.01)
    rounds, epsilon = np.array([7, 300]), np.array([0.1, 1.0])
    for row in (0, 1):
        plain = TransformRows(Question({pair: 1}, rounds, epsilon, 1e-3, 1e-40, False)).row(row)
        turned = TransformRows(Question({Reversed(pair): 1}, rounds, epsilon, 1e-3, 1e-40, False)).row(row)
        for own, other in zip(plain, turned, strict=True):
            np.testing.assert_array_equal(own, other[::-1])


@pytest.mark.parametrize("ratio", [1e-4, 0.01, 0.3, 1.0])
def test_two_smoothings_bound_from_below(ratio: float) -> None:
    """The lemma itself, where δ with and without smoothing is known in closed form: rounds of Gaussian noise."""
    wider = mpmath.mpf(3) / 2
    with mpmath.workdps(50):
        s = mpmath.mpf(ratio)
        weight = 1 / (wider * mpmath.exp(-s * s * (wider**2 - 1) / 8) - 1)
        for mu in (mpmath.mpf(1) / 1000, mpmath.mpf(1) / 5, mpmath.mpf(2)):
            for epsilon in (0, mpmath.mpf(1) / 100, 1, 4):

                def delta(size: mpmath.mpf, epsilon: mpmath.mpf = epsilon) -> mpmath.mpf:
                    return mpmath.ncdf(size / 2 - epsilon / size) - mpmath.exp(epsilon) * mpmath.ncdf(
                        -size / 2 - epsilon / size
                    )

                narrow, wide = delta(mpmath.sqrt(mu * mu + s * s)), delta(mpmath.sqrt(mu * mu + (wider * s) ** 2))
                assert (1 + weight) * narrow - weight * wide <= delta(mu) <= narrow


def test_others_have_no_transform() -> None:
    for counts in ({Laplace(1.0): 1}, {SubsampledGaussian(1.0, 1.0): 1}, {Gaussian(1.0): 3}):
        assert not has_transforms(Question(counts, np.array([1]), np.array([1.0]), 1e-3, 1e-40, False))


def test_nearly_certain_outcomes_and_the_trivial_bound() -> None:
    counts: dict[ElementaryPair, int] = {SubsampledGaussian(0.5, 0.05): 1}
    lower, upper = TransformRows(Question(counts, np.array([1 << 20]), np.array([0.05, 8.0]), 1e-3, 1e-40, True)).row(0)
    assert np.all(lower > -1e-3)
    assert np.all(upper <= 0.0)


def test_transforms_that_are_not_known_tell_nothing_from_below() -> None:
    """Where rounding of so many rounds exceeds their transforms themselves."""
    rounds, doubtful = 1_000_000_000_000, 0
    for ratio in (0.5, 2.0, 8.0, 32.0):
        counts: dict[ElementaryPair, int] = {
            SubsampledGaussian(math.sqrt(rounds) / ratio, 1.0 - 2.0**-45): 4,
            Gaussian(math.sqrt(rounds) / 35.0): 1,
        }
        found = rounds_of(counts, Direction.A_TO_B)
        assert found is not None
        side = side_of(counts, Direction.A_TO_B, rounds, 620.0)
        line, _, count = side.lines_at(side.gentler(0.005))[0]
        doubt = rounds * count * float(line.logarithms(1e-4, 2500)[1][0])
        bounds = side.at(side.gentler(0.005), 1e-4, 12_000.0)
        lower, _ = bounds.bounds(np.array([620.0]))
        if doubt > 1.0:
            doubtful += 1
            assert lower[0] == -math.inf
            assert bounds.rounding[0] > 1.0
    assert doubtful >= 2


def test_a_guess_is_that_of_the_directions_asked_for() -> None:
    question = Question({SubsampledGaussian(0.6, 1e-4): 1}, np.array([10**4]), np.array([1.0]), 1e-3, 1e-60, False)
    log_delta = np.log([1e-8])
    guesses = [guessed_epsilons(replace(question, requested=(direction,)), log_delta, 1e9) for direction in Direction]
    both = guessed_epsilons(question, log_delta, 1e9)
    assert guesses[0] is not None
    assert guesses[1] is not None
    assert guesses[1][0] < 0.1 * guesses[0][0]
    assert both == guesses[0]


def test_no_tilts_are_looked_at_beyond_one_that_shows_a_delta_below_the_floor() -> None:
    counts: dict[ElementaryPair, int] = {SubsampledGaussian(8.0, 0.01): 1}
    rounds, epsilon = 1000, 1.0
    found = rounds_of(counts, Direction.A_TO_B)
    assert found is not None
    assert Tilts.of(found, rounds, epsilon, floor=1e-40).tilt.size < Tilts.of(found, rounds, epsilon).tilt.size
    far, close = (
        tight_bounds(counts, np.array([rounds]), np.array([epsilon]), Request(1e-3, floor, joint_directions=True))
        for floor in (1e-40, 0.0)
    )
    assert np.all(close.log_upper <= close.log_lower.max() + 1e-3)
    assert np.all(close.log_lower <= far.log_upper)
    assert np.all(far.log_upper <= math.log(1e-40))


@pytest.mark.slow(reason="seven rows, and integrals of forty digits")
def test_rows_that_a_ladder_bounds_sooner_agree_with_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    climbed: list[list[int]] = []

    def spy(question: Question, rows: list[int], *, climbs: int) -> LadderBounds | None:
        climbed.append([int(r) for r in question.rounds[rows]])
        return ladder_bounds(question, rows, climbs=climbs)

    monkeypatch.setattr(engine, "ladder_bounds", spy)
    counts: dict[ElementaryPair, int] = {SubsampledGaussian(1.2, 0.0026): 1}
    rounds, epsilon = 2 ** np.arange(1, 9), np.linspace(0.05, 1.0, 20)
    request = Request(tolerance=1e-3, floor=1e-12, joint_directions=True, strict=True)
    table = tight_bounds(counts, rounds, epsilon, request)
    assert len(climbed[0]) > 2
    lower, upper = table.log_lower.max(axis=0), table.log_upper.max(axis=0)
    for row in (0, 3, 7):
        alone = tight_bounds(counts, rounds[row : row + 1], epsilon, request)
        assert np.all(lower[row] <= alone.log_upper.max(axis=0)[0])
        assert np.all(alone.log_lower.max(axis=0)[0] <= upper[row])
    with mpmath.workdps(40):
        truth = double((1.0 / 1.2, 0.0026), (1.0 / 1.2, 0.0026), float(epsilon[0]), Direction.A_TO_B)
        assert lower[0, 0] <= mpmath.log(truth) <= upper[0, 0]
