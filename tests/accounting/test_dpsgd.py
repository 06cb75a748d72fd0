"""DP-SGD in the words of those who train: steps, what is assumed, and the figures for MNIST."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import pbdist
from pbdist import Accountant, InvalidInputError
from pbdist.accounting import dpsgd, dpsgd_noise

MNIST = {"examples": 60_000, "batch": 256}


def test_mnist() -> None:
    """15 epochs are 3515.6 steps: the figures of 15 epochs are those of 3515, and one step more is bounded here."""
    found = dpsgd(**MNIST, noise_multiplier=1.1, epochs=[15, 60], delta=1e-5)
    assert found.training.steps == (3516, 14063)
    lower, upper = found.epsilon.lower[:, 0], found.epsilon.upper[:, 0]
    assert 1.1338 <= lower[0] <= upper[0] <= 1.1339
    assert 2.3815 <= lower[1] <= upper[1] <= 2.3818
    down = dpsgd(**MNIST, noise_multiplier=1.1, steps=[3515, 14062], delta=1e-5).epsilon
    assert np.all(down.lower >= [[1.1335], [2.3815]])
    assert np.all(down.upper <= [[1.1338], [2.3818]])


def test_it_is_the_accountant() -> None:
    found = dpsgd(examples=1000, batch=30, noise_multiplier=2.0, steps=[10, 40], delta=[1e-3, 1e-4], direction="each")
    run = Accountant().step(noise_multiplier=2.0, sample_rate=0.03, steps=10)
    for row, repeats in enumerate((1, 4)):
        spent = run.epsilon([1e-3, 1e-4], repeats=repeats, direction="each")
        assert spent.lower.tolist() == found.epsilon.lower[:, row].tolist()
        assert spent.upper.tolist() == found.epsilon.upper[:, row].tolist()
    assert found.epsilon.adjacency == "add-or-remove"


@pytest.mark.parametrize(
    ("examples", "batch", "epochs", "steps"),
    [
        (100, 10, 3, 30),
        (100, 30, 3, 10),
        (100, 30, 1, 4),
        (7, 3, 1.5, 4),
        (60_000, 256, 15, 3516),
        # Exactly, where floats would lose the last step: 10^15 + 1 records one by one.
        (10**15, 3, 3, 10**15),
        (10**15, 3, 1, 333_333_333_333_334),
        (100, 100, 0.1, 1),
        # The float 0.1 is a little more than a tenth, 0.3 a little less: what is written is meant.
        (100, 10, 0.1, 1),
        (60_000, 600, 0.1, 10),
        (60_000, 600, 0.3, 30),
        (60_000, 600, 0.7000000000000001, 71),
    ],
)
def test_steps_are_rounded_up(examples: int, batch: int, epochs: float, steps: int) -> None:
    found = dpsgd_training(examples=examples, batch=batch, epochs=epochs)
    assert found.steps == (steps,)
    assert steps - 1 < Fraction(str(epochs)) * examples / batch <= steps


def dpsgd_training(**given: Any) -> Any:
    from pbdist.accounting.training import checked_training

    return checked_training(**{"steps": None, "epochs": None, "delta": None, **given})


def test_what_is_assumed_is_told() -> None:
    training = dpsgd_training(**MNIST, epochs=[1, 2])
    assert training.delta == (1 / 60_000,)
    told = " ".join(training.notes)
    for words in ("Poisson sampling", "add-or-remove", "shuffled", "rounded up", "δ is 1 / 60000, as none was given"):
        assert words in told
    own = " ".join(dpsgd_training(**MNIST, steps=4, delta=1e-5).notes)
    assert "rounded up" not in own
    assert "none was given" not in own


@pytest.mark.slow
def test_noise_is_certified() -> None:
    found = dpsgd_noise(**MNIST, epsilon=[1.0, 2.0], epochs=[15, 60], delta=1e-5)
    assert list(found.columns) == ["epochs", "steps", "epsilon", "delta"]
    assert list(zip(found.columns["steps"], found.columns["epsilon"], strict=True)) == [
        (3516, 1.0),
        (3516, 2.0),
        (14063, 1.0),
        (14063, 2.0),
    ]
    for steps, epsilon, sized in zip(found.columns["steps"], found.columns["epsilon"], found.sized, strict=True):
        assert (sized.compositions, sized.epsilon, sized.delta) == (steps, epsilon, 1e-5)
        assert sized.mechanism == pbdist.SubsampledGaussian(sized.scale, 256 / 60_000)
        assert sized.refuted_scale == sized.scale * (1.0 - 1e-3)
        # The other way round: ε of both.
        enough = dpsgd(**MNIST, noise_multiplier=sized.scale, steps=steps, delta=1e-5).epsilon
        less = dpsgd(**MNIST, noise_multiplier=sized.refuted_scale, steps=steps, delta=1e-5).epsilon
        assert enough.lower <= epsilon < less.upper
    assert found.noise_multipliers == tuple(one.scale for one in found.sized)


@pytest.mark.slow
def test_what_notebooks_show() -> None:
    each = dpsgd(examples=100, batch=5, noise_multiplier=2.0, epochs=[1, 2], delta=[1e-2, 1e-3], direction="each")
    html = each._repr_html_()
    assert html.count("<tr>") == 2 + 4
    for words in (
        "A||B epsilon lower",
        "epochs",
        "neighbours: add-or-remove",
        repr(float(each.epsilon.upper[1, 1, 0])),
    ):
        assert words in html
    noise = dpsgd_noise(examples=100, batch=5, epsilon=2.0, steps=3, delta=1e-2)
    assert repr(noise.sized[0].refuted_scale) in noise._repr_html_()


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
        ({"epochs": 1e300}, "epochs: expected at most 2^62 steps"),
        ({"epochs": None}, "epochs: expected exactly one of epochs and steps, got neither"),
        ({"steps": 3}, "epochs: expected exactly one of epochs and steps, got both"),
        ({"epochs": None, "steps": []}, "steps: expected at least one number, got none"),
        ({"epochs": None, "steps": 0}, "steps: expected a whole number from 1"),
        ({"epochs": None, "steps": [[1]]}, "steps: expected a whole number from 1"),
        ({"delta": 1.0}, "delta: expected numbers above 0 and below 1"),
        ({"examples": 1, "batch": 1}, "delta: expected a number above 0 and below 1 for one record"),
        ({"noise_multiplier": -1}, "noise_multiplier: expected a number above 0"),
    ],
)
def test_bad_input_is_refused_by_name(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        dpsgd(**{**MNIST, "noise_multiplier": 1.1, "epochs": 1, **changed})
    assert str(refused.value).startswith(problem)
    if "noise_multiplier" not in changed:
        with pytest.raises(InvalidInputError) as refused:
            dpsgd_noise(**{**MNIST, "epsilon": 1.0, "epochs": 1, **changed})
        assert str(refused.value).startswith(problem)


def test_no_epsilon_is_below_zero() -> None:
    with pytest.raises(InvalidInputError, match="epsilon: expected finite numbers of at least 0"):
        dpsgd_noise(**MNIST, epsilon=-1.0, epochs=1)
