"""δ by parts of the losses: each part, and the sum, against integrals in many digits and against the ladder."""

import math
import random
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from pbdist.arguments import Request
from pbdist.bounds.delta import privacy_bounds
from pbdist.mechanisms import Gaussian, Reversed, SubsampledGaussian
from pbdist.pld import tight_bounds
from pbdist.pld.inversion import epsilon_table
from pbdist.pld.ladder import ladder_bounds
from pbdist.pld.loss_transform import Rounds, SoftCut, rounds_of
from pbdist.pld.question import Question
from pbdist.pld.transform_bounds import LossCuts, Smoothed, Tilts, TransformRows, guessed_epsilons
from pbdist.types import Direction
from tests.effort import times

pytestmark = pytest.mark.slow


def rounds_for(noise: float, rate: float) -> Rounds:
    found = rounds_of({SubsampledGaussian(noise, rate): 1}, Direction.A_TO_B)
    assert found is not None
    return found


def parts_of(
    noise: float, rate: float, number: int, epsilon: float, fraction: float
) -> tuple[LossCuts, list[Smoothed]]:
    rounds = rounds_for(noise, rate)
    cuts = LossCuts(rounds, Tilts.of(rounds, number, epsilon))
    return cuts, cuts.parts(number, fraction * epsilon)


def cut_of(part: Smoothed) -> SoftCut:
    found = part.tilts.part if part.large is None else part.large.part
    assert found is not None
    return found


def single(part: Smoothed, noise: float, rate: float, epsilon: float) -> mpmath.mpf:
    """δ of one round's losses in a part."""
    mu, q, growth = 1 / mpmath.mpf(noise), mpmath.mpf(rate), mpmath.exp(mpmath.mpf(epsilon))
    soft = cut_of(part)
    first = mpmath.log((growth - 1 + q) / q) / mu + mu / 2

    def inner(y: mpmath.mpf) -> mpmath.mpf:
        away = (y - mpmath.mpf(soft.outcome)) / mpmath.mpf(soft.blur)
        share = mpmath.erfc((-away if soft.large else away) / mpmath.sqrt(2)) / 2
        return share * (1 + q * mpmath.expm1(mu * y - mu * mu / 2) - growth) * mpmath.npdf(y)

    edges = sorted({first, *(max(first, soft.outcome + k * soft.blur) for k in (-4, 0, 4, 10, 16)), first + 2})
    return mpmath.quad(inner, [*edges, max(edges) + 4, max(edges) + 14])


def test_parts_of_one_round_are_bracketed_whatever_is_chosen() -> None:
    draw = random.Random("parts of one round")  # noqa: S311
    told = 0
    with mpmath.workdps(30):
        for _ in range(times(24)):
            noise, rate = draw.uniform(0.6, 2.5), 10.0 ** draw.uniform(-4.0, -2.0)
            epsilon = draw.choice([0.002, 0.02, 0.1, 0.4, 1.0])
            for part in parts_of(noise, rate, 1, epsilon, draw.choice([0.5, 0.7, 0.9, 1.2]))[1]:
                exact = mpmath.log(single(part, noise, rate, epsilon))
                points = np.array([epsilon])
                tilt, log_delta = part.saddle(points)
                for steeper in (0.6, 1.0, 1.5):
                    chosen = steeper * float(tilt[0])
                    ratio = draw.choice([0.03, 0.3]) / chosen
                    period = part.period(points, log_delta, chosen, 1e-3) * draw.choice([0.3, 1.0])
                    lower, upper = part.at(chosen, ratio, period).bounds(points)
                    assert lower[0] <= exact <= upper[0], (noise, rate, epsilon, part, chosen, ratio, period)
                    told += upper[0] - lower[0] < 0.1
                assert exact <= part.chernoff(points)[0]
    assert told >= times(20)


def test_parts_have_the_same_cut_narrower_for_smaller_losses() -> None:
    rounds = rounds_for(1.0, 1e-4)
    cuts = LossCuts(rounds, Tilts.of(rounds, 100, 1.0))
    blurs = []
    # The last two losses have the same outcome.
    for loss in (0.3, 0.01, 0.001, 0.00003, 0.25, math.nextafter(0.25, 0.0)):
        large, usual = map(cut_of, cuts.parts(100, loss))
        assert (large.outcome, large.blur, large.large) == (usual.outcome, usual.blur, not usual.large)
        blurs.append(large.blur)
    assert blurs[:4] == sorted(blurs[:4], reverse=True)
    assert (max(blurs), min(blurs)) == (0.1, 0.01)


def test_both_parts_are_all() -> None:
    """Two rounds: the sum of both parts brackets what the ladder brackets."""
    epsilon = np.array([0.3])
    pair = SubsampledGaussian(1.2, 2e-3)
    question = Question({pair: 1}, np.array([2]), epsilon, 1e-4, 0.0, True)
    known = ladder_bounds(question, [0])
    assert known is not None
    least, most = (float(np.log(bounds[0, 0, 0])) for bounds in (known.lower, known.upper))
    assert most - least < 1e-3
    lower, upper = -math.inf, -math.inf
    _, parts = parts_of(1.2, 2e-3, 2, 0.3, 0.65)
    for part in parts:
        tilt, log_delta = part.saddle(epsilon)
        chosen = float(tilt[0])
        told = part.at(chosen, 0.01 / chosen, part.period(epsilon, log_delta, chosen, 1e-4)).bounds(epsilon)
        lower, upper = np.logaddexp(lower, told[0][0]), np.logaddexp(upper, told[1][0])
    assert lower <= most
    assert least <= upper
    assert upper - lower < 1e-2


@pytest.mark.parametrize(
    ("noise", "rate", "rounds", "epsilon"),
    [
        # One large loss decides.
        (1.198, 2.531e-4, 6294, 0.2221),
        (0.8919, 1.14e-4, 13735, 0.2652),
        # Many usual ones do, and all tilts that look at large ones tell too much.
        (1.227, 1.413e-4, 56626, 0.1964),
        (2.511, 2.895e-4, 368906, 0.9066),
        # Both count.
        (1.326, 3.393e-4, 114739, 0.9198),
        (1.606, 2.576e-3, 711, 0.4074),
    ],
)
def test_deep_points_meet_where_no_one_tilt_does(noise: float, rate: float, rounds: int, epsilon: float) -> None:
    pair = SubsampledGaussian(noise, rate)
    question = Question({pair: 1}, np.array([rounds]), np.array([epsilon]), 1e-3, 0.0, True)
    lower, upper = TransformRows(question).row(0)
    assert upper[0, 0] - lower[0, 0] <= math.log1p(1e-3)
    # All digits of what lies far below would take a ladder seconds.
    known = ladder_bounds(replace(question, tolerance=0.01, floor=1e-3 * math.exp(lower[0, 0])), [0])
    assert known is not None
    assert lower[0, 0] <= np.log(known.upper[0, 0, 0])
    assert np.log(known.lower[0, 0, 0]) <= upper[0, 0]


def test_a_table_with_points_of_all_kinds() -> None:
    """Small ε have many losses, large ones few: within the tolerance together, and as the ladder has it."""
    pair = SubsampledGaussian(1.2, 2e-4)
    epsilon = np.array([0.01, 0.1, 0.2, 0.4])
    question = Question({pair: 1}, np.array([5000]), epsilon, 1e-3, 1e-40, True)
    lower, upper = TransformRows(question).row(0)
    assert np.all(upper[0] - lower[0] <= math.log1p(1e-3))
    known = ladder_bounds(replace(question, floor=1e-3 * math.exp(lower[0].min())), [0])
    assert known is not None
    assert np.all(lower[0] <= np.log(known.upper[0, 0]))
    assert np.all(np.log(known.lower[0, 0]) <= upper[0])


def test_the_second_pass_of_a_row_knows_what_the_first_one_found(monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question({SubsampledGaussian(1.2, 2e-4): 1}, np.array([5000]), np.array([0.2]), 1e-3, 1e-40, True)
    rows = TransformRows(question)
    first = rows.row(0, parts=False)
    assert rows.left_to_parts > 0
    expected = TransformRows(question).row(0, first)
    monkeypatch.setattr(Smoothed, "nearly_all", None)
    np.testing.assert_array_equal(rows.row(0, first), expected)


def test_gaussian_noise_besides_is_kept() -> None:
    counts = {SubsampledGaussian(1.2, 2e-4): 1, Gaussian(3000.0): 1}
    question = Question(counts, np.array([5000]), np.array([0.3]), 1e-3, 0.0, True)
    lower, upper = TransformRows(question).row(0)
    known = ladder_bounds(replace(question, tolerance=0.01, floor=1e-3 * math.exp(lower[0, 0])), [0])
    assert known is not None
    assert upper[0, 0] - lower[0, 0] <= math.log1p(1e-3)
    assert lower[0, 0] <= np.log(known.upper[0, 0, 0])
    assert np.log(known.lower[0, 0, 0]) <= upper[0, 0]


def test_reversed_losses_are_not_cut() -> None:
    """Their large losses are bounded."""
    found = rounds_of({SubsampledGaussian(1.0, 0.01): 1}, Direction.B_TO_A)
    assert found is not None
    assert not LossCuts.serves(found)
    assert LossCuts.serves(rounds_for(1.0, 0.01))


def test_a_reversed_pair_is_cut_in_its_other_direction() -> None:
    """What is large under the mixture is so whichever input is called A."""
    pair = SubsampledGaussian(1.198, 2.531e-4)
    told = []
    for each in (pair, Reversed(pair)):
        question = Question({each: 1}, np.array([6294]), np.array([0.2221]), 1e-3, 0.0, True)
        told.append(TransformRows(question).row(0))
    np.testing.assert_array_equal(told[0][0][0], told[1][0][1])
    np.testing.assert_array_equal(told[0][1][0], told[1][1][1])
    assert told[1][1][1, 0] - told[1][0][1, 0] <= math.log1p(1e-3)


@pytest.mark.parametrize(
    ("rounds", "delta"),
    [
        (1000, 1e-10),
        pytest.param(10_000, 1e-10, marks=pytest.mark.nightly),
        pytest.param(1000, 1e-13, marks=pytest.mark.nightly),
    ],
)
def test_epsilon_by_parts_is_what_a_ladder_has(rounds: int, delta: float) -> None:
    """δ at the lower ε is not below δ, and at the upper one not above."""
    pair = SubsampledGaussian(1.0, 1e-4)
    found = epsilon_table({pair: 1}, np.array([rounds]), np.array([delta]), tolerance=1e-3, joint_directions=True)
    ends = np.array([found.lower[0, 0, 0], found.upper[0, 0, 0]])
    assert 0.0 < ends[0] <= ends[1] <= 1.001 * ends[0]
    known = ladder_bounds(Question({pair: 1}, np.array([rounds]), ends, 1e-3, 1e-3 * delta, True), [0])
    assert known is not None
    assert known.upper[:, 0, 0].max() >= delta
    assert known.lower[:, 0, 1].max() <= delta


@pytest.mark.parametrize("rounds", [100, 1000, 10**6])
def test_several_deltas_at_once_are_those_of_each(rounds: int) -> None:
    """From small ε to those of one large loss; one δ is met without noise, and 0 by no ε."""
    pair, deltas = SubsampledGaussian(2.0, 0.001), np.array([1e-5, 0.99, 0.0, 1e-8, 1e-10])
    found = epsilon_table({pair: 1}, np.array([rounds]), deltas, tolerance=1e-3, joint_directions=True)
    for column, delta in enumerate(deltas.tolist()):
        alone = epsilon_table({pair: 1}, np.array([rounds]), np.array([delta]), tolerance=1e-3, joint_directions=True)
        assert found.lower[0, 0, column] <= alone.upper[0, 0, 0]
        assert alone.lower[0, 0, 0] <= found.upper[0, 0, column]
        if 0.0 < delta < 0.5:
            assert found.upper[0, 0, column] <= 1.0002 * found.lower[0, 0, column]
            ends = np.array([found.lower[0, 0, column], found.upper[0, 0, column]])
            known = tight_bounds({pair: 1}, np.array([rounds]), ends, Request(tolerance=1e-4, floor=1e-3 * delta))
            assert np.exp(known.log_upper[:, 0, 0].max()) >= delta
            assert np.exp(known.log_lower[:, 0, 1].max()) <= delta
    assert (found.lower[0, 0, 1], found.upper[0, 0, 1]) == (0.0, 0.0)
    assert found.upper[0, 0, 2] == np.inf


def test_guesses_of_tiny_epsilons_stop_where_nothing_is_seen() -> None:
    rounds = rounds_for(0.5, 1e-6)
    cuts = LossCuts(rounds, Tilts.of(rounds, 1, 1.0))
    assert cuts.sees(0.1)
    assert not cuts.sees(1e-6)
    question = Question({SubsampledGaussian(0.5, 1e-6): 1}, np.array([1]), np.array([1.0]), 1e-3, 1e-60, True)
    for delta in (1e-12, 5e-7, 9.9e-7):
        guess = guessed_epsilons(question, np.log([delta]), 600.0)
        assert guess is not None
        assert guess[0][0] > 0.0


def test_everyday_points_are_not_cut() -> None:
    rounds = rounds_for(1.1, 0.00427)
    tilts = Tilts.of(rounds, 3515, 1.0)
    needed = LossCuts(rounds, tilts).needed(Smoothed(rounds, 3515, tilts), np.array([0.5, 1.0, 2.0]))
    assert not needed.any()


@pytest.mark.parametrize("tilt", [0.5, 2.0, 8.0])
def test_large_losses_that_are_no_floats_are_not_said_to_be_there(tilt: float) -> None:
    """V / P underflows: what is put in the place of its logarithm is part of the error."""
    epsilon = np.array([0.5096607391173876])
    rounds = rounds_for(2.0, 1e-12)
    tilts = Tilts.of(rounds, 47, float(epsilon[0]))
    part = LossCuts(rounds, tilts).parts(47, 4.0 * float(epsilon[0]))[0]
    assert part.chernoff(epsilon)[0] < -1200.0
    period = part.period(epsilon, part.saddle(epsilon)[1], tilt, 1e-3)
    lower, upper = part.at(tilt, 0.02 / tilt, period).bounds(epsilon)
    assert lower[0] == -math.inf
    assert upper[0] > -1700.0


def test_tiny_epsilons_are_not_cut() -> None:
    """Tilts that would see such a cut reach outcomes of millions of deviations."""
    rounds = rounds_for(0.25, 1.441e-4)
    for epsilon in (1e-6, 1e-5, 1e-4):
        tilts = Tilts.of(rounds, 1, epsilon)
        assert not LossCuts(rounds, tilts).needed(Smoothed(rounds, 1, tilts), np.array([epsilon])).any()
    # So far away nothing is a float.
    tilts = Tilts.of(rounds_for(50.0, 1e-4), 1, 8.0)
    far = Smoothed(rounds_for(50.0, 1e-4), 1, tilts)
    assert not LossCuts(rounds_for(50.0, 1e-4), tilts).needed(far, np.array([8.0])).any()


def test_losses_without_measure_give_no_warning_of_overflow() -> None:
    """What is asked in search of little noise: whoever was used is told apart, and no library warns of overflows."""
    step = SubsampledGaussian(scale=7.2e-8, rate=0.01)
    found = privacy_bounds(step, compositions=100, epsilon=50.0, tolerance=0.02)
    truth = 1.0 - 0.99**100
    assert found.delta_lower.item() <= truth <= found.delta_upper.item() <= 1.02 * found.delta_lower.item()
