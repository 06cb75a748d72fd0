"""Powers of states: whatever is cut, made coarser or told apart, they bracket the composition exactly."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from pbdist import privacy_bounds
from pbdist.fourier import Allowance
from pbdist.mechanisms import SubsampledGaussian
from pbdist.pld import ladder
from pbdist.pld.choice import Limits, chosen_lattices, chosen_spacings
from pbdist.pld.ladder import climbed, powers, product_of
from pbdist.pld.leaf import Lattice
from pbdist.pld.question import Question
from pbdist.pld.state import lower_deltas, product, upper_deltas
from pbdist.types import Direction
from tests.oracles.truth import ProductTruth
from tests.pld.test_leaf import WIDEST, assert_brackets, leaf_of, random_histogram, random_lattice


def random_limits(draw: random.Random, spacing: float) -> Limits:
    """Any: also such as lose nearly everything."""
    return Limits(
        floor=10.0 ** -draw.choice([1.0, 3.0, 12.0, 60.0, 290.0]),
        step=draw.choice([0.0, 0.01, 1.0, 50.0, math.inf]),
        rare=draw.choice([0.0, 0.2, 100.0]),
        added=10.0 ** -draw.uniform(1.0, 14.0),
        largest=draw.choice([0.01, 0.5, 4.0, 40.0, 500.0]),
        spacings=tuple(
            min(spacing * draw.choice([0.5, 1.0, 2.0, 4.0, 16.0]), WIDEST) for _ in range(draw.randint(1, 5))
        ),
        coarsens=draw.choice([1, 4, 64, 1 << 40]),
        levels=draw.choice([0, 2, 5]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_any_place_to_cut_is_sound(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Levels are made of few positions, and of as many as there are.
    monkeypatch.setattr(ladder, "_LONG_LEVEL", 4)
    monkeypatch.setattr(ladder, "_SHORTER", 1.0)
    draw = random.Random(f"ladder {part}")  # noqa: S311
    told = 0
    for _ in range(40):
        pair, outcomes = random_histogram(draw)
        spacing = draw.choice([math.log(2.0), 0.5 * math.log(2.0), 0.1, 1.0, 5.0, 1e-3 + draw.random()])
        lattice = random_lattice(draw, spacing, reach=draw.choice([40, 300]))
        limits = random_limits(draw, spacing)
        rounds = sorted(draw.sample([1, 2, 3, 5, 9, 16], 3)) if len(outcomes) <= 3 else [1, 2, 4]
        for r, state in powers(leaf_of(pair, lattice), rounds, limits):
            truth = ProductTruth([(outcomes, r)], [(sum(pair.p), sum(pair.q))])
            losses = [abs(x) for x in draw.sample(truth.losses, min(4, len(truth.losses)))]
            epsilon = [0.0, draw.random(), 3.0 * draw.random(), 50.0 * draw.random(), spacing * draw.randint(0, 20)]
            epsilon += [each for each in losses if each < 600.0]
            told += assert_brackets(state, truth, epsilon, (pair, lattice, limits, r))
    assert told > 300


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_products_of_different_pairs_are_sound(part: int) -> None:
    draw = random.Random(f"products {part}")  # noqa: S311
    told = 0
    for _ in range(25):
        drawn = [random_histogram(draw) for _ in range(draw.choice([2, 2, 3]))]
        spacing = draw.choice([math.log(2.0), 0.1, 1.0, 1e-3 + draw.random()])
        coarse = draw.choice([1, 4])
        reach = coarse * draw.randint(2, 40)
        core = coarse * draw.randint(1, reach // coarse) if coarse > 1 else reach
        lattice = Lattice(spacing, coarse, (-core, core), -reach, reach)
        limits = random_limits(draw, spacing)
        counts = [draw.choice([1, 1, 2]) for _ in drawn]
        leaves = [
            state
            for (pair, _), count in zip(drawn, counts, strict=True)
            for _, state in powers(leaf_of(pair, lattice), [count], limits)
        ]
        truth = ProductTruth(
            [(outcomes, count) for (_, outcomes), count in zip(drawn, counts, strict=True)],
            [(sum(pair.p), sum(pair.q)) for pair, _ in drawn],
        )
        epsilon = [0.0, draw.random(), 3.0 * draw.random(), 50.0 * draw.random(), spacing * draw.randint(0, 20)]
        told += assert_brackets(product_of(leaves, limits), truth, epsilon, (drawn, counts, lattice, limits))
    assert told > 60


def test_masses_that_rounding_made_meaningless_are_not_multiplied():
    draw = random.Random("meaningless")  # noqa: S311
    pair, _ = random_histogram(draw)
    state = leaf_of(pair, Lattice(0.1, 1, (-40, 40), -40, 40))
    limits = Limits(1e-200, 1e-3, 0.2, 1e-9, 500.0, (0.1,), 1 << 40)
    assert [r for r, _ in powers(state, [1, 64], limits)] == [1, 64]
    exact = {
        direction: replace(masses, rows=(replace(masses.core, other=masses.core.other + 1e70),))
        for direction, masses in state.exact.items()
    }
    # Their squares would soon be no floats: what is left untold is bounded otherwise.
    assert [r for r, _ in powers(replace(state, exact=exact), [1, 64], limits)] == [1]


def test_a_square_is_the_product_with_a_copy() -> None:
    """A far part f beside a core c gives f * (f + 2c') in one sum, and f * (f + c') + c' * f in two."""
    pair = SubsampledGaussian(1.0, 0.01)
    state = leaf_of(pair, Lattice(1e-3, 16, (-32, 64), -32, 4096))
    allowance = Allowance(1e-40, 1e-6, 1e-7)
    square, apart = product(state, state, allowance), product(state, replace(state), allowance)
    epsilon = np.array([0.01, 0.1, 1.0, 3.0])
    for direction in Direction:
        for read in (upper_deltas, lower_deltas):
            np.testing.assert_allclose(read(square, epsilon, direction), read(apart, epsilon, direction), rtol=1e-5)


def test_more_levels_give_the_bounds_of_two() -> None:
    """Long far parts are split to levels again and again; each level is multiplied with all finer ones."""
    counts, rounds = {SubsampledGaussian(2.0, 0.001): 1}, np.array([1, 5, 64, 65536])
    question = Question(counts, rounds, np.array([0.05, 0.3, 0.6]), 1e-3, 1e-40, joint_directions=True)
    chosen = chosen_lattices(
        question.profiles, 65536, question.largest, chosen_spacings(question, rounds), tolerance=1e-3, floor=1e-40
    )
    found = []
    for most in (0, 5):
        limits = replace(chosen.limits, levels=most)
        states = dict(climbed(counts, replace(chosen, limits=limits), rounds.tolist(), [Direction.A_TO_B]))
        assert max(len(state.dominating.rows) for state in states.values()) == (3 if most else 2)
        found.append(
            [
                np.array([read(state, question.epsilon, Direction.A_TO_B) for state in states.values()])
                for read in (lower_deltas, upper_deltas)
            ]
        )
    for lower, upper in found:
        known = upper > 1e-40
        assert known[:, 0].all()
        assert np.all(upper[known] <= 1.001 * lower[known])
        # Both hold, of the same δ.
        assert np.all(lower <= np.minimum(found[0][1], found[1][1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
def test_rare_sampling_is_bounded_closely_at_a_tiny_epsilon() -> None:
    """Losses far beyond every ε are cut as soon as δ is known: a finer lattice is affordable then."""
    found = privacy_bounds(SubsampledGaussian(0.94, 1.354e-7), compositions=39, epsilon=6.9e-6)
    # The middle of sums on grids of 1e-8 to 2.5e-9 nats, without bounds: 1.20757e-9.
    assert found.delta_lower.item() < 1.20757e-9 < found.delta_upper.item() < 1.005 * found.delta_lower.item()
