"""`Accountant`: its answers against exact truth and against `epsilon_bounds`, whatever way it was stepped."""

import copy
import math
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from itertools import groupby
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbdist
from pbdist import (
    Accountant,
    BoundedRange,
    FixedBatchGaussian,
    Gaussian,
    Histogram,
    InvalidInputError,
    KaryRandomizedResponse,
    Laplace,
    PrecisionError,
    PrecisionWarning,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    TruncatedPoissonGaussian,
)
from pbdist.accounting import accountant as accountant_module
from pbdist.mechanisms import Adjacency, Pair, Product, Reversed, WorstOf, adjacency_together
from tests import strategies
from tests.mechanisms.replaced import Replaced
from tests.test_exact_values import CASES, deltas

pytestmark = pytest.mark.slow

STEP = {"noise_multiplier": 1.1, "sample_rate": 256 / 60_000}
#: Pairs that are quick to compose, of several kinds.
QUICK: tuple[Pair, ...] = (
    RandomizedResponse(0.52),
    RandomizedResponse(0.6),
    Histogram((5, 3, 1), (2, 3, 4)),
    Reversed(Histogram((5, 3, 1), (2, 3, 4))),
    Product(RandomizedResponse(0.52), Histogram((5, 3, 1), (2, 3, 4))),
)


def values(bounds: Any) -> list[list[Any]]:
    """Every array of some bounds, as plain values."""
    return [array.tolist() for array in vars(bounds).values() if hasattr(array, "tolist")]


def test_without_a_step_nothing_is_spent() -> None:
    run = Accountant()
    spent = run.epsilon([[1e-5, 0.5]])
    assert values(spent) == [[[0.0, 0.0]], [[0.0, 0.0]], [[True, True]], [["", ""]]]
    found = run.delta(0.0, direction="each")
    assert values(found) == [
        [0.0, 0.0],
        [0.0, 0.0],
        [True, True],
        ["", ""],
        [-math.inf, -math.inf],
        [-math.inf, -math.inf],
    ]
    assert spent.adjacency is found.adjacency is run.adjacency is Adjacency.AS_STATED
    assert (run.steps, run.phases, repr(run)) == (0, (), "Accountant(no steps)")
    assert run.step(**STEP, steps=0).add(Laplace(1.0), 0) == Accountant()


def test_answers_are_those_of_the_bounds_of_a_pair() -> None:
    pair = SubsampledGaussian(scale=1.1, rate=256 / 60_000)
    run = Accountant().step(**STEP, steps=235)
    table = pbdist.epsilon_bounds(pair, compositions=[235, 470], delta=[1e-6, 1e-5], direction="each")
    spent = run.epsilon([1e-6, 1e-5], repeats=[[1], [2]], direction="each")
    assert spent.lower.tolist() == table.epsilon_lower.values.tolist()
    assert spent.upper.tolist() == table.epsilon_upper.values.tolist()
    deltas_of = pbdist.privacy_bounds(pair, compositions=[235, 470], epsilon=[0.5, 1.0])
    found = run.delta([0.5, 1.0], repeats=[[1], [2]])
    assert found.lower.tolist() == deltas_of.delta_lower.values.tolist()
    assert found.log_upper.tolist() == deltas_of.log_delta_upper.values.tolist()


def test_repeats_are_as_many_steps() -> None:
    epoch = Accountant().step(**STEP, steps=40).step(noise_multiplier=0.9, sample_rate=0.01, steps=20)
    curve = epoch.epsilon(1e-5, repeats=range(1, 4))
    run = Accountant()
    for index in range(3):
        run.step(**STEP, steps=40).step(noise_multiplier=0.9, sample_rate=0.01, steps=20)
        spent = run.epsilon(1e-5)
        assert (spent.lower, spent.upper) == (curve.lower[index], curve.upper[index])
    assert np.all(np.diff(curve.upper) > 0.0)
    # The same in another order, in one go.
    other = Accountant().step(noise_multiplier=0.9, sample_rate=0.01, steps=60).step(**STEP, steps=120)
    assert values(other.epsilon(1e-5)) == values(run.epsilon(1e-5))
    assert other != run


@pytest.mark.parametrize("name", ["dpsgd_remove", "dpsgd_add"])
def test_exact_values_lie_within(name: str) -> None:
    axis = ("A||B", "B||A").index(CASES[name]["direction"])
    case = CASES[name]
    run = Accountant().step(noise_multiplier=4.0, sample_rate=0.01, steps=case["compositions"] - 5)
    for _ in range(5):
        run.step(noise_multiplier=4.0, sample_rate=0.01)
    for epsilon, delta in deltas(name).items():
        found = run.delta(epsilon, direction="each")
        assert mpmath.mpf(float(found.lower[axis])) <= delta <= mpmath.mpf(float(found.upper[axis]))
    truth = mpmath.mpf(case["epsilon_at_delta_1e-5"])
    spent = run.epsilon(1e-5, direction="each")
    assert mpmath.mpf(float(spent.lower[axis])) <= truth <= mpmath.mpf(float(spent.upper[axis]))
    assert spent.upper[axis] <= 1.001 * spent.lower[axis]


HISTORIES = st.lists(st.tuples(st.sampled_from(range(len(QUICK))), st.integers(1, 6)), min_size=1, max_size=5)


@strategies.examples(36)
@given(HISTORIES, st.randoms(use_true_random=False))
def test_any_order_and_any_merging_gives_the_same_answer(history: list[tuple[int, int]], random: Any) -> None:
    run = Accountant()
    for index, count in history:
        run.add(QUICK[index], count)
    steps = [index for index, count in history for _ in range(count)]
    random.shuffle(steps)
    other = Accountant()
    for index in steps:
        other.add(QUICK[index])
    assert run.steps == other.steps == len(steps)
    assert [phase.pair for phase in other.phases] == [QUICK[index] for index, _ in groupby(steps)]
    found = values(run.epsilon(1e-3)), values(run.delta([0.0, 0.7]))
    # Computed anew, not remembered.
    accountant_module._epsilon_table.cache_clear()
    accountant_module._delta_table.cache_clear()
    assert (values(other.epsilon(1e-3)), values(other.delta([0.0, 0.7]))) == found
    document = other.to_document()
    assert Accountant.from_document(document) == other
    assert Accountant.from_document(document).to_document() == document


def test_a_product_is_its_factors() -> None:
    first, second = QUICK[0], QUICK[2]
    product = Accountant().add(Product(first, second), 3)
    assert values(product.epsilon(1e-3)) == values(Accountant().add(second, 3).add(first, 3).epsilon(1e-3))
    assert (product.steps, product.phases[0].count) == (3, 3)


def test_what_reveals_nothing_spends_nothing() -> None:
    same = Histogram((1, 2), (1, 2))
    assert Accountant().add(same, 7).epsilon(1e-9).upper == 0.0
    assert Accountant().add(same, 7).delta(0.0).upper == 0.0
    both = Accountant().add(same, 7).add(RandomizedResponse(0.6), 2)
    assert values(both.epsilon(1e-3)) == values(Accountant().add(RandomizedResponse(0.6), 2).epsilon(1e-3))


def test_neighbours_are_told_and_not_mixed() -> None:
    run = Accountant().step(**STEP, steps=10)
    assert run.adjacency is Adjacency.ADD_OR_REMOVE
    # Its sensitivity says what neighbours are: here one more record.
    assert run.add(Gaussian(20.0)).delta(1.0).adjacency == "add-or-remove"
    assert Accountant().add(Gaussian(20.0)).epsilon(1e-5).adjacency == "as-stated"
    before = run.phases
    words = "expected pairs for the same neighbours, got SubsampledGaussian for add-or-remove and Replaced for"
    with pytest.raises(InvalidInputError, match=f"{words} replace-one"):
        run.add(Replaced(1.0))
    assert run.phases == before
    with pytest.raises(InvalidInputError, match="add-or-remove and Replaced for replace-one"):
        run.add(Product(Replaced(1.0), Laplace(1.0)))
    step = SubsampledGaussian(1.0, 0.1)
    with pytest.raises(InvalidInputError, match="expected pairs"):
        Accountant().add(Product(Replaced(1.0), step))
    assert Accountant().add(Reversed(step)).adjacency is Adjacency.ADD_OR_REMOVE
    # A record that goes in one and comes in the other is neither added nor removed.
    assert Accountant().add(step).add(Reversed(step)).adjacency is Adjacency.AS_STATED


def test_the_worst_of_several_is_alone() -> None:
    worst = WorstOf(RandomizedResponse(0.6), RandomizedResponse(0.7))
    run = Accountant().add(worst, 2).add(worst)
    alone = Accountant().add(RandomizedResponse(0.7), 3)
    assert values(run.epsilon(1e-3)) == values(alone.epsilon(1e-3))
    for first, second in ((worst, QUICK[0]), (QUICK[0], worst)):
        with pytest.raises(InvalidInputError, match="the worst of several pairs cannot be composed"):
            Accountant().add(first).add(second)


def test_missed_tolerances_are_told() -> None:
    # δ is 1/5 at ε = 0, exactly: whether that is at most the float 0.2 no bounds tell.
    run = Accountant().add(Histogram((3, 2), (2, 3)))
    with pytest.warns(pbdist.PrecisionWarning, match="tolerance: expected epsilon_upper") as told:
        spent = run.epsilon(0.2)
    assert told[0].filename == __file__
    assert not spent.within_tolerance
    assert spent.why_wide == "closer bounds were not found"
    with pytest.raises(pbdist.PrecisionError, match="tolerance: expected epsilon_upper"):
        run.epsilon(0.2, strict=True)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda run: run.step(noise_multiplier=0.0, sample_rate=0.1),
            "noise_multiplier: expected a number above 0, got",
        ),
        (
            lambda run: run.step(noise_multiplier=math.nan, sample_rate=0.1),
            "noise_multiplier: expected a finite number",
        ),
        (lambda run: run.step(noise_multiplier=1.0, sample_rate=1.5), "sample_rate: expected a probability"),
        (lambda run: run.step(noise_multiplier=1.0, sample_rate=0.0), "sample_rate: expected a probability in (0, 1]"),
        (lambda run: run.step(**STEP, steps=-1), "Accountant.steps: expected a whole number from 0"),
        (lambda run: run.step(**STEP, steps=True), "Accountant.steps: expected a whole number from 0"),
        (lambda run: run.step(**STEP, steps=1.5), "Accountant.steps: expected a whole number from 0"),
        (lambda run: run.step(**STEP, steps=2**62 + 1), "Accountant.steps: expected a whole number from 0"),
        (lambda run: run.step(**STEP, steps=2**62), "Accountant: expected at most 2^62 steps in all, got"),
        (lambda run: run.add("Gaussian"), "Accountant.pair: expected a mechanism, got 'Gaussian'"),
        (lambda run: run.epsilon(-0.5), "delta: expected numbers from 0 to below 1, got -0.5"),
        (lambda run: run.epsilon(math.nan), "delta: expected numbers from 0 to below 1, got nan"),
        (lambda run: run.epsilon([]), "delta: expected"),
        (lambda run: run.epsilon([[0.1], [0.1, 0.2]]), "delta: expected"),
        (lambda run: run.epsilon("x"), "delta: expected"),
        (lambda run: run.delta(-1.0), "epsilon: expected finite numbers of at least 0"),
        (lambda run: run.delta(1.0, repeats=0), "repeats: expected whole numbers of at least 1"),
        (lambda run: run.delta(1.0, repeats=2**62), "repeats: expected at most 2^62 steps in all"),
        (
            lambda run: run.delta([1.0, 2.0], repeats=[1, 2, 3]),
            "repeats: expected a shape that broadcasts with shape (2,)",
        ),
        (lambda run: run.delta(1.0, direction="A"), "direction: expected one of both, each"),
        (lambda run: run.delta(1.0, strict=1), "strict: expected True or False"),
        (lambda run: run.delta(1.0, tolerance=2.0), "tolerance: expected a number from"),
    ],
)
def test_bad_input_is_refused_by_name(call: Any, problem: str) -> None:
    run = Accountant().step(**STEP, steps=5)
    with pytest.raises(InvalidInputError) as refused:
        call(run)
    assert str(refused.value).startswith(problem)
    assert run == Accountant().step(**STEP, steps=5)


def test_arguments_are_checked_without_any_step() -> None:
    with pytest.raises(InvalidInputError, match="delta: expected"):
        Accountant().epsilon(2.0)


def test_what_is_shown() -> None:
    run = Accountant().step(**STEP).add(Laplace(3.0), 2)
    assert repr(run) == "Accountant(3 steps in 2 phases, neighbours: add-or-remove)"
    assert "one record added or removed" in run.epsilon(0.1)._repr_html_()
    with pytest.raises(TypeError):
        hash(run)
    assert run != "run"


def test_answers_cannot_be_changed() -> None:
    spent = Accountant().step(**STEP, steps=3).epsilon([1e-5])
    with pytest.raises(ValueError, match="read-only"):
        spent.upper[0] = 0.0


def test_a_mechanism_of_several_pairs_says_itself_which_neighbours_it_is_about() -> None:
    accountant = Accountant().add(FixedBatchGaussian(4.0, 10, 1000), 100)
    assert accountant.adjacency is Adjacency.REPLACE_ONE
    with pytest.warns(PrecisionWarning, match="between two pairs"):
        found = accountant.epsilon(1e-5)
    assert 0.0 < found.lower.item() <= found.upper.item()
    with pytest.raises(InvalidInputError, match="same neighbours"):
        Accountant().step(**STEP).add(FixedBatchGaussian(4.0, 10, 1000).upper_pair)


def test_counting_a_step_does_not_look_through_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counted(pairs: Any, field: str) -> Adjacency:
        looked.append(len(pairs))
        return adjacency_together(pairs, field)

    monkeypatch.setattr(accountant_module, "adjacency_together", counted)
    run = Accountant()
    for number in range(300):
        run.step(noise_multiplier=1.0 + number / 1000, sample_rate=0.01)
        run.add(Gaussian(1.0 + number / 1000))
    assert len(run.phases) == 600
    assert max(looked) <= 3
    Accountant.from_document(run.to_document())
    assert max(looked) <= 3


def test_a_copy_goes_on_by_itself() -> None:
    run = Accountant().step(**STEP, steps=3)
    other, deep = copy.copy(run), copy.deepcopy(run)
    for one in (other, deep):
        assert one == run
        one.step(**STEP).add(Gaussian(2.0))
        assert (one.steps, len(one.phases), run.steps, len(run.phases)) == (5, 2, 3, 1)
        with pytest.raises(InvalidInputError, match="neighbours"):
            one.add(FixedBatchGaussian(1.0, 10, 100))
    assert pickle.loads(pickle.dumps(run)) == run  # noqa: S301 -- its own
    run.add(Laplace(5.0))
    assert (other.steps, deep.steps, run.steps) == (5, 5, 4)


def test_what_is_refused_is_not_counted() -> None:
    run = Accountant().add(Gaussian(1.0))
    run.step(**STEP)
    before = run.phases
    with pytest.raises(InvalidInputError, match="neighbours"):
        run.add(KaryRandomizedResponse(0.7, 4))
    with pytest.raises(InvalidInputError, match="2\\^62"):
        run.step(**STEP, steps=2**62 - 1)
    with pytest.raises(InvalidInputError, match="worst of several pairs cannot be composed"):
        run.add(WorstOf(Gaussian(1.0), Laplace(1.0)))
    assert (run.phases, run.steps, str(run.adjacency)) == (before, 2, "add-or-remove")


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (FixedBatchGaussian(2.0, 10, 100), "the worst case lies between two pairs"),
        (TruncatedPoissonGaussian(1.0, 0.1, 20, 100), "the worst case lies between two pairs"),
        (BoundedRange(1.0), "no lower bound is known"),
        (WorstOf(Gaussian(3.0), Laplace(3.0)), ""),
        (WorstOf(Gaussian(3.0), Laplace(3.0), attained=[False, False]), "no lower bound is known"),
    ],
)
def test_bounds_that_stay_apart_say_why(pair: Pair, why: str) -> None:
    run = Accountant().add(pair, 2)
    asked: list[Callable[..., Any]] = [
        lambda **how: run.epsilon([1e-5, 1e-3], **how),
        lambda **how: run.delta([0.1, 0.5], **how),
        lambda **how: run.delta([0.1], direction="each", **how),
    ]
    for ask in asked:
        with pytest.warns(PrecisionWarning, match=why) if why else nullcontext():
            found = ask()
        assert found.why_wide is not None
        wide = found.upper > 1.001 * found.lower
        assert np.array_equal(~found.within_tolerance, wide)
        assert set(found.why_wide[wide].tolist()) <= {why}
        assert set(found.why_wide[~wide].tolist()) <= {""}
        assert bool(wide.any()) is bool(why)
        with pytest.raises(PrecisionError, match=why) if why else nullcontext():
            ask(strict=True)


@pytest.mark.parametrize(
    ("pair", "neighbours"),
    [(FixedBatchGaussian(2.0, 5, 5), "replace-one"), (SubsampledGaussianGroup(2.0, 0.01, 1), "add-or-remove-group")],
)
def test_a_mechanism_of_one_pair_still_says_for_which_neighbours_it_is(pair: Pair, neighbours: str) -> None:
    run = Accountant().add(pair)
    assert str(run.adjacency) == str(run.epsilon(1e-5).adjacency) == neighbours
    with pytest.raises(InvalidInputError, match=f"for {neighbours}"):
        run.step(noise_multiplier=1.0, sample_rate=0.01)
    found = run.add(Gaussian(3.0)).epsilon(1e-3)
    assert 0.0 < found.lower <= found.upper <= 1.001 * found.lower
    assert Accountant.from_document(run.to_document()) == run


def test_answers_print_what_was_asked() -> None:
    accountant = Accountant().add(Laplace(20.0), 10)
    frame = accountant.epsilon([1e-3, 1e-4]).frame()
    assert list(frame.columns[:3]) == ["delta", "epsilon_lower", "epsilon_upper"]
    assert frame.delta.tolist() == [1e-3, 1e-4]
    repeated = accountant.delta(0.5, repeats=[1, 2]).frame()
    assert repeated.repeats.tolist() == [1, 2]
    assert repeated.epsilon.tolist() == [0.5, 0.5]
