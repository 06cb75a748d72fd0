"""Mechanisms on the command line: every kind that a study file names, and errors by the name of the parameter."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pbdist.cli.families import mechanism_options, pairs_of_family, value_of
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Pair,
    Poisson,
    Product,
    RandomAllocation,
    RandomizedResponse,
    Reversed,
    Staircase,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
)
from pbdist.study.entries import study_kinds


def of_texts(kind: str, words: Mapping[str, Sequence[str]]) -> list[Pair]:
    return pairs_of_family(kind, {name: value_of(name, texts) for name, texts in words.items()})


CASES: tuple[tuple[str, dict[str, str], Pair], ...] = (
    ("Laplace", {"scale": "2", "truncate": "-10 1e1"}, Laplace(2.0, truncate=(-10.0, 10.0))),
    ("LaplaceSum", {"scales": "20 10", "sensitivity": "2"}, LaplaceSum((20.0, 10.0), sensitivity=2.0)),
    ("Gaussian", {"scale": "1e-1"}, Gaussian(0.1)),
    ("RandomizedResponse", {"p": "0.6"}, RandomizedResponse(0.6)),
    ("KaryRandomizedResponse", {"p": "0.6", "k": "4"}, KaryRandomizedResponse(0.6, 4)),
    ("BoundedRange", {"eta": "0.1"}, BoundedRange(0.1)),
    ("SubsampledGaussian", {"scale": "1.1", "rate": ".01"}, SubsampledGaussian(1.1, 0.01)),
    (
        "SubsampledGaussianGroup",
        {"scale": "1.1", "rate": ".01", "group_size": "3"},
        SubsampledGaussianGroup(1.1, 0.01, 3),
    ),
    ("SubsampledLaplace", {"scale": "2", "rate": "0.1"}, SubsampledLaplace(2.0, 0.1)),
    ("RandomAllocation", {"scale": "2", "steps": "10"}, RandomAllocation(2.0, 10)),
    (
        "GaussianMixture",
        {"scale": "2", "shifts": "0 1 2", "weights": "0.81 0.18 0.01"},
        GaussianMixture(2.0, (0.0, 1.0, 2.0), (0.81, 0.18, 0.01)),
    ),
    (
        "TruncatedPoissonGaussian",
        {"scale": "2", "rate": "0.01", "batch": "40", "examples": "2000"},
        TruncatedPoissonGaussian(2.0, 0.01, 40, 2000),
    ),
    ("FixedBatchGaussian", {"scale": "2", "batch": "10", "examples": "1e3"}, FixedBatchGaussian(2.0, 10, 1000)),
    ("ApproximateDP", {"epsilon": "0.1", "delta": "1e-9"}, ApproximateDP(0.1, 1e-9)),
    ("Histogram", {"p": "0.5 0.5", "q": "0.25 0.75"}, Histogram((0.5, 0.5), (0.25, 0.75))),
    ("Histogram", {"p": "1 3", "q": "2 5"}, Histogram((1, 3), (2, 5))),
    (
        "NoisyCount",
        {"noise": "Laplace", "scale": "500", "mean": "8000", "shift": "2"},
        NoisyCount(noise=Laplace(500.0), mean=8000.0, shift=2),
    ),
    (
        "NoisyCount",
        {"noise": "DiscreteLaplace", "scale": "5", "mean": "80", "shift": "2"},
        NoisyCount(noise=DiscreteLaplace(5.0), mean=80.0, shift=2),
    ),
    ("Poisson", {"mean": "30", "sensitivity": "2"}, Poisson(30.0, sensitivity=2)),
    ("DiscreteLaplace", {"scale": "3"}, DiscreteLaplace(3.0)),
    ("DiscreteGaussian", {"scale": "3"}, DiscreteGaussian(3.0)),
    ("Staircase", {"epsilon": "1"}, Staircase(1.0)),
    ("Reversed", {"pair": "SubsampledGaussian", "scale": "1", "rate": "0.5"}, Reversed(SubsampledGaussian(1.0, 0.5))),
)


@pytest.mark.parametrize(("kind", "words", "expected"), CASES, ids=[case[0] for case in CASES])
def test_words_of_each_kind(kind: str, words: dict[str, str], expected: Pair) -> None:
    (found,) = of_texts(kind, {name: text.split() for name, text in words.items()})
    assert found == expected


def test_mechanisms_within_mechanisms() -> None:
    both = ["{kind: Gaussian, scale: 2}", "{kind: Reversed, pair: {kind: Histogram, p: [1, 2], q: [2, 1]}}"]
    (found,) = of_texts("Product", {"pairs": both})
    assert found == Product(Gaussian(2.0), Reversed(Histogram((1, 2), (2, 1))))
    noise = "{kind: Gaussian, scale: 30}"
    (count,) = of_texts("NoisyCount", {"noise": [noise], "mean": ["100"], "shift": ["1"]})
    assert count == NoisyCount(noise=Gaussian(30.0), mean=100.0, shift=1)


def test_several_values_are_several_pairs() -> None:
    found = of_texts("SubsampledGaussian", {"scale": ["1", "2"], "rate": ["0.1", "0.2"], "sensitivity": ["1"]})
    assert found == [SubsampledGaussian(s, q) for s in (1.0, 2.0) for q in (0.1, 0.2)]
    count = {"noise": ["Laplace"], "scale": ["5"], "mean": ["9"], "shift": ["1"]}
    readings = of_texts("NoisyCount", {**count, "reading": ["clamp-and-ceil", "redraw-and-floor"]})
    assert [one.reading for one in readings] == ["clamp-and-ceil", "redraw-and-floor"]


def test_counts_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("outcome,yes,no\n0,1,2\n1,3,5\n", encoding="utf-8")
    words = {"file": [str(path)], "columns": ["outcome", "yes", "no"]}
    assert of_texts("Histogram", words)[0] == Histogram((1, 3), (2, 5))
    # Relative to the folder in which the command is given.
    monkeypatch.chdir(tmp_path)
    assert of_texts("Histogram", {**words, "file": ["counts.csv"]})[0] == Histogram((1, 3), (2, 5))


@pytest.mark.parametrize(
    ("kind", "words", "problem"),
    [
        ("Gaussian", {}, "scale: expected a value, got nothing"),
        ("Gaussian", {"scale": ["x"]}, "scale: expected a number, got 'x'"),
        ("Gaussian", {"scale": [""]}, "scale: expected a value, got ''"),
        ("Gaussian", {"scale": ["-1"]}, "scale: expected a number above 0, got -1"),
        ("Gaussian", {"scale": ["e^2"]}, "scale: expected a number, got 'e^2': write out the number"),
        ("Gaussian", {"scale": ["1e400"]}, "scale: expected a finite number"),
        ("Gaussian", {"scale": [".nan"]}, "scale: expected a finite number"),
        ("Gaussian", {"scale": ["["]}, "scale: expected YAML, got"),
        ("Gaussian", {"scale": ["*a"]}, "scale: expected YAML, got: 'found undefined alias'"),
        (
            "Gaussian",
            {"scale": ["1"], "rate": ["1"]},
            "rate: is no parameter of Gaussian, which has scale, sensitivity, truncate",
        ),
        ("Gaussian", {"scale": ["1"], "truncate": ["3"]}, "truncate: expected (low, high) or None, got"),
        ("LaplaceSum", {"scales": ["3"]}, "scales: expected two numbers"),
        ("SubsampledGaussian", {"scale": ["1"], "rate": ["7"]}, "rate: expected a probability in [0, 1], got 7"),
        ("Histogram", {"p": ["1"]}, "q: expected a value, got nothing"),
        ("Histogram", {"p": ["1", "2"], "q": ["1"]}, "q: expected"),
        (
            "NoisyCount",
            {"noise": ["Laplce"], "mean": ["1"], "shift": ["1"]},
            "noise: kind: expected a kind, got 'Laplce': did you",
        ),
        (
            "NoisyCount",
            {"noise": ["Poisson"], "mean": ["1"], "shift": ["1"]},
            "noise: kind: expected a kind among Laplace",
        ),
        (
            "NoisyCount",
            {"noise": ["Laplace"], "scale": ["-5"], "mean": ["1"], "shift": ["1"]},
            "scale: expected a number",
        ),
        ("NoisyCount", {"noise": ["Laplace"], "mean": ["1"], "shift": ["1"]}, "scale: expected a value, got nothing"),
        (
            "NoisyCount",
            {"noise": ["{kind: Laplace, scale: 0}"], "mean": ["1"], "shift": ["1"]},
            "noise: scale: expected",
        ),
        ("NoisyCount", {"noise": ["{}", "{}"], "mean": ["1"], "shift": ["1"]}, "noise: expected a mapping with a kind"),
        ("Product", {"pairs": ["Gaussian"]}, "pairs: expected a list of mechanisms, got 'Gaussian'"),
    ],
)
def test_wrong_words_are_refused_by_name(kind: str, words: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        of_texts(kind, words)
    assert str(refused.value).startswith(f"--{problem}")


def test_parameters_are_those_of_all_kinds() -> None:
    family, *found = mechanism_options("--family KIND", "the mechanism", study_kinds())
    assert family.type.choices == study_kinds()
    names = [(one.name or "").removeprefix("parameter_") for one in found]
    assert names == sorted(names)
    (rate,) = (one for one in found if one.name == "parameter_rate")
    assert "(SubsampledGaussian, SubsampledGaussianGroup, TruncatedPoissonGaussian, SubsampledLaplace)" in rate.help
    assert {"file", "scale", "pairs"} <= {*names}
    sized = mechanism_options("--family KIND", "the mechanism", ["Gaussian", "NoisyCount"], sized=False)
    assert {"parameter_noise", "parameter_sensitivity"} <= {one.name for one in sized}
    assert "parameter_scale" not in {one.name for one in sized}
