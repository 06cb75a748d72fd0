"""DP-SGD in the words of those who train: steps, what is assumed, and the figures for MNIST."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np
import pytest

import pbdist
from pbdist import Accountant, InvalidInputError
from pbdist.accounting import dpsgd, dpsgd_noise
from pbdist.accounting.dpsgd import checked_training, steps_of_epochs
from pbdist.rounding import rounded_down, rounded_up

MNIST = {"examples": 60_000, "batch": 256}


def test_mnist() -> None:
    """The figures that other libraries have are those of 3515 steps, 15 epochs rounded down."""
    found = dpsgd(**MNIST, noise_multiplier=1.1, epochs=[15, 60], delta=1e-5)
    assert found.training.steps == (15 * 235, 60 * 235)
    lower, upper = found.epsilon.lower[:, 0], found.epsilon.upper[:, 0]
    assert 1.1353 <= lower[0] <= upper[0] <= 1.1355
    assert 2.3850 <= lower[1] <= upper[1] <= 2.3852
    down = dpsgd(**MNIST, noise_multiplier=1.1, steps=[3515, 14062], delta=1e-5).epsilon
    assert np.all(down.lower >= [[1.1335], [2.3815]])
    assert np.all(down.upper <= [[1.1338], [2.3818]])


def test_it_is_the_accountant() -> None:
    found = dpsgd(examples=1000, batch=30, noise_multiplier=2.0, steps=[10, 40], delta=[1e-3, 1e-4], direction="each")
    run = Accountant().step(noise_multiplier=2.0, sample_rate=0.03, steps=10)
    for row, repeats in enumerate((1, 4)):
        spent = run.epsilon([1e-3, 1e-4], repeats=repeats, direction="each")
        # Both are bounds; work that rows share makes a difference in the last digits.
        assert spent.lower == pytest.approx(found.epsilon.lower[:, row], rel=1e-9)
        assert spent.upper == pytest.approx(found.epsilon.upper[:, row], rel=1e-9)
    assert found.epsilon.adjacency == "add-or-remove"


@pytest.mark.parametrize(
    ("examples", "batch", "epochs", "steps"),
    [
        (100, 10, 3, 30),
        (100, 30, 3, 12),
        (100, 30, 1, 4),
        (7, 3, 1.5, 5),
        (60_000, 256, 15, 3525),
        # Exactly, where floats would lose the last step: 10^15 + 1 records one by one.
        (10**15, 3, 3, 10**15 + 2),
        (10**15, 3, 1, 333_333_333_333_334),
        (100, 100, 0.1, 1),
        # The float 0.1 is a little more than a tenth, 0.3 a little less: what is written is meant.
        (100, 10, 0.1, 1),
        (60_000, 600, 0.1, 10),
        (60_000, 600, 0.3, 30),
        (60_000, 600, 0.7000000000000001, 71),
    ],
)
def test_steps_are_never_fewer_than_are_trained(examples: int, batch: int, epochs: float, steps: int) -> None:
    assert steps_of_epochs(epochs, Fraction(batch, examples)) == steps
    # As a data loader counts that keeps the last batch of an epoch, and as whole batches across epochs.
    loader = -(-examples // batch)
    assert steps - 1 < Fraction(str(epochs)) * loader <= steps
    assert steps >= Fraction(str(epochs)) * examples / batch


@pytest.mark.parametrize(("rate", "epochs", "steps"), [(0.01, 2, 200), (0.3, 1, 4), (1.0, 3, 3), (0.123456, 1, 9)])
def test_rates_are_rounded_outwards(rate: float, epochs: int, steps: int) -> None:
    """The decimal fraction is meant."""
    found = dpsgd(examples=1000, sample_rate=rate, noise_multiplier=50.0, epochs=epochs).training
    assert found.steps == (steps,)
    low, high = found.phases[0].rates
    assert Fraction(low) <= Fraction(repr(rate)) <= Fraction(high)
    assert high <= math.nextafter(low, 1.0)
    assert found.sample_rate == high


PHASES: list[dict[str, Any]] = [
    {"epochs": 2, "noise_multiplier": 2.0},
    {"epochs": 0.5, "batch": 40},
    {"steps": 7, "sample_rate": 0.01, "noise_multiplier": 0.9},
]


def test_one_over_the_batches_of_a_loader_is_that_many_steps() -> None:
    for batches in range(1, 1000):
        given = {"epochs": 2, "steps": None, "batch": None, "sample_rate": 1 / batches, "noise_multiplier": 1.0}
        found = checked_training(10**6, 1e-7, given)
        assert found.steps == (2 * batches,)
        low, high = found.phases[0].rates
        assert Fraction(low) <= Fraction(1, batches) <= Fraction(high)
        assert low <= 1 / batches <= high
    # One over it is no float.
    tiny = dpsgd(examples=1000, sample_rate=1e-310, noise_multiplier=1.0, steps=5, delta=1e-5)
    assert tiny.epsilon.upper.max() < 1e-3


def test_phases_are_the_accountant_after_each() -> None:
    found = dpsgd(examples=1000, batch=30, noise_multiplier=1.5, phases=PHASES, delta=[1e-3, 1e-4], direction="each")
    assert found.training.steps == (68, 68 + 13, 68 + 13 + 7)
    assert found.training.epochs is None
    assert found.epsilon.upper.shape == (2, 3, 2)
    run = Accountant()
    for index, (noise, rate, steps) in enumerate([(2.0, 0.03, 68), (1.5, 0.04, 13), (0.9, 0.01, 7)]):
        spent = run.step(noise_multiplier=noise, sample_rate=rate, steps=steps).epsilon([1e-3, 1e-4], direction="each")
        # The rates next to 3 / 100 and so on are enclosed, of which one is this float.
        assert np.all(spent.lower <= found.epsilon.upper[:, index] * (1 + 1e-12))
        assert np.all(np.abs(spent.upper / found.epsilon.upper[:, index] - 1.0) < 1e-9)
        assert np.all(found.epsilon.lower[:, index] <= spent.upper)
    assert np.all(np.diff(found.epsilon.upper, axis=1) > 0.0)
    assert found.training.columns() == {
        "phase": [1, 2, 3],
        "noise_multiplier": [2.0, 1.5, 0.9],
        "batch": [30, 40, 10],
        "steps": [68, 81, 88],
    }


def test_a_phase_split_in_two_is_the_same_run() -> None:
    whole = dpsgd(**MNIST, noise_multiplier=1.1, epochs=4, delta=1e-5).epsilon
    split = dpsgd(**MNIST, noise_multiplier=1.1, phases=[{"epochs": 1}, {"epochs": 3}], delta=1e-5).epsilon
    assert (split.lower[-1], split.upper[-1]) == (whole.lower[0], whole.upper[0])


def test_epsilon_over_time_ends_with_the_run() -> None:
    found = dpsgd(examples=1000, batch=30, phases=[{"epochs": 2, "noise_multiplier": 2.0}, {**PHASES[2]}], delta=1e-3)
    curve = found.over_time(5)
    assert curve.training.steps == (3, 12, 27, 48, 68, 75)
    assert curve.training.epochs is not None
    assert curve.training.epochs[4] == 2.0
    assert curve.epsilon.upper[-1].tolist() == found.epsilon.upper[-1].tolist()
    assert curve.epsilon.upper[-2].tolist() == found.epsilon.upper[0].tolist()
    assert np.all(np.diff(curve.epsilon.upper[:, 0]) > 0.0)
    # A run of fewer steps than moments has all of them.
    few = dpsgd(examples=10, batch=10, noise_multiplier=5.0, steps=3).over_time()
    assert few.training.steps == (1, 2, 3)


def test_the_sentence_for_a_paper_rounds_outwards() -> None:
    found = dpsgd(examples=1000, batch=30, phases=PHASES, noise_multiplier=1.5, delta=[1e-3, 1 / 3000])
    assert found.sentence.startswith(
        "We trained with DP-SGD on 1,000 records: 2 epochs (68 steps) with expected batch 30 and noise multiplier 2,"
        " then 0.5 epochs (13 steps) with expected batch 40 and noise multiplier 1.5, then 7 steps with expected batch"
        " 10 and noise multiplier 0.9. With Poisson sampling, and for neighbouring data sets that differ in one record"
        " added or removed, the training is ("
    )
    promises = re.findall(r"\(([\d.]+), ([\d.e-]+)\)-", found.sentence)
    assert len(promises) == 2
    for (epsilon, delta), upper, wanted in zip(promises, found.epsilon.upper[-1], found.training.delta, strict=True):
        assert upper <= Decimal(epsilon) <= 1.001 * upper
        assert wanted <= float(delta) <= 1.001 * wanted
    # The lower bound need not hold at a δ that is rounded up.
    assert "lower bound" not in found.sentence
    found = dpsgd(examples=1000, batch=30, phases=PHASES, noise_multiplier=1.5, delta=[1e-3, 1e-4])
    (tight,) = re.findall(r"lower bound on ε for these steps: (.*)\)", found.sentence)
    for word, lower in zip(tight.split(" and "), found.epsilon.lower[-1], strict=True):
        assert 0.999 * lower <= Decimal(word) <= lower


def test_the_sentence_on_noise_is_about_the_longest_run() -> None:
    noise = dpsgd_noise(examples=1000, batch=50, epsilon=[1.0, 2.0], epochs=[10, 1], delta=1e-3, tolerance=0.1)
    longest = noise.sized[1]
    assert "10 epochs (200 steps)" in noise.sentence
    assert f"noise multiplier {longest.printed.meets.scale}." in noise.sentence
    assert "(2, 0.001)-differentially" in noise.sentence
    run = dpsgd(examples=1000, batch=50, noise_multiplier=float(longest.printed.meets.scale), epochs=10, delta=1e-3)
    assert run.epsilon.upper.item() <= 2.0


def test_each_direction_is_read_by_the_larger_one() -> None:
    told = " ".join(str(dpsgd(examples=100, batch=7, noise_multiplier=2.0, steps=5, direction="each")).split())
    assert "private with the larger of both upper ε" in told


def test_what_is_printed_has_bounds_assumptions_and_the_sentence() -> None:
    found = dpsgd(examples=1000, batch=30, phases=PHASES, noise_multiplier=1.5, delta=1e-3)
    shown, html = " ".join(str(found).split()), found._repr_html_()
    for text in (found.sentence, *found.training.notes, "one record added or removed"):
        assert text in shown
        assert escape(text) in html
    assert rounded_up(float(found.epsilon.upper[-1, 0])) in shown
    assert html.count("<tr>") == 3 + 3
    assert "steps so far" in shown
    assert repr(found) == str(found)
    assert found.frame().steps.tolist() == list(found.training.steps)


def test_what_is_assumed_is_told() -> None:
    training = dpsgd(**MNIST, epochs=[1, 2], noise_multiplier=50.0).training
    assert training.delta == (1 / 60_000,)
    told = " ".join(training.notes)
    for words in ("Poisson sampling", "add-or-remove", "shuffled", "rounded up", "δ is 1 / 60000, as none was given"):
        assert words in told
    own = " ".join(dpsgd(**MNIST, steps=4, delta=1e-5, noise_multiplier=50.0).training.notes)
    assert "rounded up" not in own
    assert "none was given" not in own


@pytest.mark.slow
def test_noise_is_certified() -> None:
    found = dpsgd_noise(**MNIST, epsilon=[1.0, 2.0], epochs=[15, 60], delta=1e-5)
    assert list(found.columns) == ["epochs", "steps", "epsilon", "delta"]
    assert list(zip(found.columns["steps"], found.columns["epsilon"], strict=True)) == [
        (3525, 1.0),
        (3525, 2.0),
        (14100, 1.0),
        (14100, 2.0),
    ]
    for steps, epsilon, sized in zip(found.columns["steps"], found.columns["epsilon"], found.sized, strict=True):
        assert (sized.compositions, sized.epsilon, sized.delta) == (steps, epsilon, 1e-5)
        assert sized.mechanism == pbdist.SubsampledGaussian(sized.scale, 256 / 60_000)
        assert sized.refuted_scale == sized.scale * (1.0 - 1e-3)
        # The other way round: ε of both.
        enough = dpsgd(**MNIST, noise_multiplier=sized.scale, steps=steps, delta=1e-5).epsilon
        less = dpsgd(**MNIST, noise_multiplier=sized.refuted_scale, steps=steps, delta=1e-5).epsilon
        assert enough.lower <= epsilon < less.upper


@pytest.mark.slow
def test_sized_noise_is_printed_rounded_outwards() -> None:
    noise = dpsgd_noise(examples=100, batch=5, epsilon=2.0, steps=3, delta=1e-2)
    (sized,) = noise.sized
    shown = " ".join(str(noise).split())
    assert noise.sentence in shown
    assert rounded_up(sized.scale) in noise._repr_html_()
    assert rounded_down(sized.refuted_scale) in shown
    assert f"noise multiplier {rounded_up(sized.scale)}. With Poisson sampling" in shown
    assert "the training is (2, 0.01)-differentially private" in shown


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"examples": 0}, "examples: expected a whole number from 1"),
        ({"examples": "60000"}, "examples: expected a whole number from 1"),
        ({"examples": math.inf}, "examples: expected a whole number from 1"),
        ({"examples": math.nan}, "examples: expected a whole number from 1"),
        ({"batch": 60_001}, "batch: expected a whole number from 1 to 60000, got 60001"),
        ({"batch": 2.5}, "batch: expected a whole number from 1 to 60000, got 2.5"),
        ({"epochs": 0}, "epochs: expected finite numbers above 0"),
        ({"epochs": math.inf}, "epochs: expected finite numbers above 0"),
        ({"epochs": []}, "epochs: expected finite numbers above 0"),
        ({"epochs": 1e300}, "epochs: expected at most 2^62 steps in all"),
        ({"epochs": None}, "epochs: expected exactly one of epochs and steps, got neither"),
        ({"steps": 3}, "epochs: expected exactly one of epochs and steps, got both"),
        ({"epochs": None, "steps": []}, "steps: expected at least one number, got none"),
        ({"epochs": None, "steps": 0}, "steps: expected a whole number from 1"),
        ({"epochs": None, "steps": [[1]]}, "steps: expected a whole number from 1"),
        ({"delta": 1.0}, "delta: expected numbers above 0 and below 1"),
        ({"examples": 1, "batch": 1}, "delta: give a number above 0 and below 1: 1 / examples"),
        ({"noise_multiplier": -1}, "noise_multiplier: expected a number above 0"),
        ({"noise_multiplier": None}, "noise_multiplier: expected a number above 0, got none"),
        ({"sample_rate": 0.1}, "batch: expected exactly one of batch and sample_rate, got both"),
        ({"batch": None}, "batch: expected exactly one of batch and sample_rate, got neither"),
        ({"batch": None, "sample_rate": 1.5}, "sample_rate: expected a probability"),
    ],
)
def test_bad_input_is_refused_by_name(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        dpsgd(**{**MNIST, "noise_multiplier": 1.1, "epochs": 1, **changed})
    assert str(refused.value).startswith(problem)
    if "noise_multiplier" not in changed and "phases" not in changed:
        with pytest.raises(InvalidInputError) as refused:
            dpsgd_noise(**{**MNIST, "epsilon": 1.0, "epochs": 1, **changed})
        assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("phases", "problem"),
    [
        ([], "phases: expected a list of at least one phase, got []"),
        ({"epochs": 1}, "phases: expected a list of at least one phase, got {"),
        ([3], "phases[0]: expected a mapping of epochs, steps, batch, sample_rate, noise_multiplier, got 3"),
        (
            [{"epoch": 1}],
            "phases[0]: expected the keys epochs, steps, batch, sample_rate, noise_multiplier, got 'epoch':",
        ),
        ([{"epochs": 1}, {}], "phases[1].epochs: expected exactly one of epochs and steps, got neither"),
        ([{"epochs": [1, 2]}], "phases[0]: expected one number of epochs or steps, got several"),
        ([{"epochs": 1}, {"epochs": 1, "batch": 60_001}], "phases[1].batch: expected a whole number from 1 to 60000"),
        ([{"epochs": 1, "noise_multiplier": 0}], "phases[0].noise_multiplier: expected a number above 0"),
        ([{"steps": 2**61}, {"steps": 2**61 + 1}], "phases: expected at most 2^62 steps in all"),
    ],
)
def test_bad_phases_are_refused_by_the_field(phases: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        dpsgd(**MNIST, noise_multiplier=1.1, phases=phases)
    assert str(refused.value).startswith(problem)
    with pytest.raises(InvalidInputError, match="epochs: cannot be combined with phases"):
        dpsgd(**MNIST, noise_multiplier=1.1, epochs=1, phases=[{"epochs": 1}])


def test_no_epsilon_is_below_zero() -> None:
    with pytest.raises(InvalidInputError, match="epsilon: expected finite numbers of at least 0"):
        dpsgd_noise(**MNIST, epsilon=-1.0, epochs=1)


@pytest.mark.parametrize("direction", ["both", "each"])
def test_moments_are_not_taken_for_directions(direction: str) -> None:
    run = dpsgd(examples=100, batch=10, noise_multiplier=2.0, steps=[5, 10], delta=[1e-3, 1e-4], direction=direction)
    frame = run.epsilon.frame()
    assert ("direction" in frame.columns) == (direction == "each")
    for row in frame.itertuples():
        alone = dpsgd(
            examples=100, batch=10, noise_multiplier=2.0, steps=int(row.steps), delta=row.delta, direction=direction
        )
        axis = 0 if direction == "both" else ("A||B", "B||A").index(row.direction)
        # Several δ are bounded together, and a little differently; moments are far above.
        assert row.epsilon_upper == pytest.approx(alone.epsilon.upper.reshape(-1)[axis], rel=1e-4)
