"""Families side by side: each with its certificate or the reason why it has none, and the cheapest first."""

import itertools
import math

import pytest

import pbdist
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Poisson
from pbdist.progress import heard_by
from pbdist.sizing.sized import noise_deviation

pytestmark = pytest.mark.slow

TARGET = {"compositions": 2, "epsilon": 1.0, "delta": 1e-3}


def test_all_families_have_an_answer_or_a_reason() -> None:
    steps: list[tuple[str, int, int]] = []
    with heard_by(lambda *_: None, lambda *part: steps.append(part)):
        found = pbdist.size_families(**TARGET, tolerance=0.1)
    plain = {"DiscreteGaussian", "Gaussian", "DiscreteLaplace", "Laplace", "Poisson", "RandomizedResponse"}
    # A kind of other tests may be there too.
    sized_ones = {name: sized for name, sized in found.sized.items() if name in plain}
    assert set(sized_ones) == plain
    for name, sized in sized_ones.items():
        assert type(sized.mechanism).__name__ == name
        assert sized.delta_upper <= 1e-3 < sized.refuted_delta_lower
    # The cheapest first; what has no deviation comes after these.
    costs = [noise_deviation(sized.mechanism) for sized in sized_ones.values()]
    assert costs[-1] is None
    assert costs[:-1] == sorted(costs[:-1])  # type: ignore[type-var]
    assert found.reasons["SubsampledGaussian"] == "needs rate"
    assert found.reasons["NoisyCount(Laplace)"] == "needs shift"
    # Nothing is dropped, neither from the table nor from what is printed.
    kinds = {name.partition("(")[0] for name in (*found.sized, *found.reasons)}
    assert kinds == {
        name for name, kind in pbdist.mechanisms.MECHANISMS.items() if kind.in_studies and kind_is_sized(kind)
    }
    assert list(found.frame().mechanism) == [*found.sized, *found.reasons]
    assert all(name in str(found) for name in found.frame().mechanism)
    assert all(name in found._repr_html_() for name in found.frame().mechanism)
    assert [done for name, done, _ in steps if name == "family"] == list(range(len(found.answers) + 1))


def kind_is_sized(kind: type) -> bool:
    return pbdist.mechanisms.noise_parameter(kind) is not None


def test_what_messages_cost() -> None:
    found = pbdist.size_families("Gaussian,NoisyCount", shift=1, message_bytes=200, **TARGET, tolerance=0.1)
    noises = ("Laplace", "Gaussian", "DiscreteLaplace", "DiscreteGaussian", "Poisson")
    assert set(found.sized) == {f"NoisyCount({noise})" for noise in noises}
    assert found.reasons["Gaussian"] == "takes no shift"
    rows = (frame := found.frame())[frame.problem.isna()]
    assert list(rows.expected_messages) == sorted(rows.expected_messages)
    assert list(rows.expected_bytes) == [200 * messages for messages in rows.expected_messages]
    for row, sized in zip(rows.itertuples(), found.sized.values(), strict=True):
        assert (row.scale, row.delta_upper, row.refuted_scale) == (sized.scale, sized.delta_upper, sized.refuted_scale)
    assert "its bytes" in str(found)
    # Which rows the sentence is about: Poisson noise is in order.
    unordered = ", ".join(name for name in found.sized if name != "NoisyCount(Poisson)")
    assert f"No order is proved for {unordered}: smaller noise is refuted one by one, and nothing is" in str(found)
    # Only the noise asked for.
    one = pbdist.size_families("NoisyCount", shift=1, noise="Poisson", **TARGET)
    assert list(one.sized) == ["NoisyCount(Poisson)"]
    assert isinstance(one.sized["NoisyCount(Poisson)"].mechanism, Poisson)


def test_noisy_counts_are_compared_by_their_printed_names() -> None:
    found = pbdist.size_families("NoisyCount(Poisson), NoisyCount(DiscreteLaplace)", shift=1, **TARGET, tolerance=0.4)
    assert set(found.sized) == {"NoisyCount(Poisson)", "NoisyCount(DiscreteLaplace)"}


def test_without_messages_there_are_no_bytes() -> None:
    found = pbdist.size_families("Gaussian,Laplace", message_bytes=200, **TARGET, tolerance=0.1)
    assert "its bytes" not in str(found)
    assert "No bytes: the noise of none of these families consists of messages." in str(found)


def test_numbers_are_rounded_up_once() -> None:
    found = pbdist.size_families("Gaussian", compositions=1000, epsilon=1.0, delta=1e-6)
    heads = [column.head for column in found.sheet.printed_columns]
    row = dict(zip(heads, found.sheet.printed_rows[0], strict=True))
    assert row["its deviation"] == row["scale that meets"] == "133.931"


def test_families_of_ones_own() -> None:
    own = {"wide": lambda scale: Gaussian(2.0 * scale), "plain": Gaussian, "none": lambda _: Gaussian(-1.0)}
    found = pbdist.size_families(own, **TARGET, tolerance=0.1)
    assert set(found.sized) == {"wide", "plain"}
    assert "has no mechanism of any scale" in found.reasons["none"]


@pytest.mark.parametrize(
    ("families", "changes", "problem"),
    [
        ("Gausian", {}, "family: expected all by itself, or some of .*did you mean Gaussian"),
        ("Laplace, Gaussian, Laplace", {}, "family: expected each family once, got Laplace again"),
        ("all, Gaussian", {}, "family: expected all by itself, or some of .*, got 'all'"),
        ("Gaussian, Laplace", {"rate": 0.1}, "rate: is no parameter of any of the families"),
        ("all", {"message_bytes": -1}, "message_bytes: expected a finite number above 0, got -1"),
        ("all", {"delta": 2.0}, "delta: expected"),
        ("all", {"tolerance": 0.0}, "tolerance: expected a number from 1e-6 to 0.5, got 0.0"),
        ("all", {"adjacency": "both"}, "adjacency: expected one of add-or-remove"),
        ("NoisyCount", {"shift": 1, "noise": "Cauchy"}, "noise: expected the class"),
    ],
)
def test_what_is_wrong_is_named(families: str, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        pbdist.size_families(families, **{**TARGET, **changes})


def test_deviations_of_noise() -> None:
    for scale, kind in itertools.product((0.3, 1.0, 4.0, 20.0), (DiscreteLaplace, DiscreteGaussian)):
        power = 1 if kind is DiscreteLaplace else 2
        weights = [math.exp(-((k / scale) ** power) / power) for k in range(1, 2000)]
        variance = 2.0 * sum(k * k * w for k, w in enumerate(weights, 1)) / (1.0 + 2.0 * sum(weights))
        assert noise_deviation(kind(scale)) == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert noise_deviation(Laplace(2.0)) == math.sqrt(8.0)
    assert noise_deviation(Poisson(9.0)) == 3.0
    assert noise_deviation(Laplace(2.0, truncate=(-1.0, 1.0))) is None
