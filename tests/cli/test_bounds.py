"""``pbdist epsilon`` and ``pbdist delta`` as a user meets them."""

import csv
import io
import json
import math
import re
from decimal import Decimal

import pytest

import pbdist
from pbdist.cli import main

DPSGD = ("--family", "SubsampledGaussian", "--scale", "1.1", "--rate", "0.01")
STEP = pbdist.SubsampledGaussian(scale=1.1, rate=0.01)


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    found = capsys.readouterr()
    return code, found.out, found.err


def test_json_is_what_the_function_returns(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--compositions", "1000", "10000", "--delta", "1e-5", "1e-6", "--json")
    code, out, err = called(capsys, "epsilon", *DPSGD, *asked)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert {**found, "answers": []} == {
        "mechanism": "SubsampledGaussian",
        "noise": "Gaussian",
        "scale": 1.1,
        "sensitivity": 1.0,
        "rate": 0.01,
        "adjacency": "add-or-remove",
        "answers": [],
    }
    table = pbdist.epsilon_bounds(STEP, compositions=[1000, 10000], delta=[1e-5, 1e-6])
    assert [(one["compositions"], one["delta"]) for one in found["answers"]] == [
        (1000, 1e-5),
        (1000, 1e-6),
        (10000, 1e-5),
        (10000, 1e-6),
    ]
    for one in found["answers"]:
        point = table.sel(compositions=one["compositions"], delta=one["delta"])
        assert (one["epsilon_lower"], one["epsilon_upper"]) == (point.epsilon_lower, point.epsilon_upper)
        assert (one["within_tolerance"], one["why_wide"]) == (True, None)


@pytest.mark.parametrize("form", ["table", "markdown", "latex"])
def test_what_is_printed_is_a_bound(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "delta", *DPSGD, "--compositions", "50", "--epsilon", "0.5", "1", "--format", form)
    assert (code, err) == (0, "")
    table = pbdist.privacy_bounds(STEP, compositions=50, epsilon=[0.5, 1.0])
    lines = [line for line in out.splitlines() if re.match(r"[│|$]? *\$?50\b", line)]
    assert len(lines) == 2
    for index, line in enumerate(lines):
        plain = re.sub(r"\\times 10\^\{(-?\d+)\}", r"e\1", line)
        *_, lower, upper, log_lower, log_upper = [
            Decimal(number) for number in re.findall(r"[-+.\de]*\d[-+.\de]*", plain)
        ]
        exactly = [Decimal(float(table[name].values[0, index])) for name in ("delta_lower", "delta_upper")]
        assert lower <= exactly[0] <= exactly[1] <= upper <= lower * Decimal("1.01")
        logs = [Decimal(float(table[name].values[0, index])) for name in ("log_delta_lower", "log_delta_upper")]
        assert log_lower <= logs[0] <= logs[1] <= log_upper
    told = " ".join(out.split())
    assert "no analysis can prove a" in told
    assert "below the lower one" in told
    assert "neighbours: one record added or removed" in told


def test_csv_is_unrounded_and_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--family", "Laplace", "--scale", "20", "40", "--compositions", "4", "16", "--exp-epsilon", "2")
    code, out, _ = called(capsys, "delta", *asked, "--format", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(float(row["scale"]), int(row["compositions"])) for row in rows] == [(20, 4), (20, 16), (40, 4), (40, 16)]
    for row in rows:
        pair = pbdist.Laplace(float(row["scale"]))
        found = pbdist.privacy_bounds(pair, compositions=int(row["compositions"]), epsilon=math.log(2.0))
        assert float(row["exp_epsilon"]) == 2.0
        assert float(row["delta_upper"]) >= found.delta_lower.item()
        assert float(row["delta_lower"]) <= found.delta_upper.item()
        assert (row["mechanism"], row["within_tolerance"]) == ("Laplace", "true")


def test_each_direction(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (*DPSGD, "--compositions", "50", "--epsilon", "0.5", "--direction", "each")
    found = json.loads(called(capsys, "delta", *asked, "--json")[1])["answers"]
    table = pbdist.privacy_bounds(STEP, compositions=50, epsilon=0.5, direction="each")
    assert [row["direction"] for row in found] == ["A||B", "B||A"]
    for row in found:
        assert row["delta_upper"] == table.delta_upper.sel(direction=row["direction"]).item()
    out = called(capsys, "delta", *asked)[1]
    assert "A||B" in out
    assert "B||A" in out


def test_parameters_that_are_called_like_questions(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--family", "ApproximateDP", "--pair-epsilon", "0.1", "0.2", "--pair-delta", "1e-9")
    code, out, _ = called(capsys, "delta", *asked, "--compositions", "5", "--epsilon", "0.3", "--format", "csv")
    assert code == 0
    head, *rows = csv.reader(io.StringIO(out))
    assert len(set(head)) == len(head)
    for row in rows:
        one = dict(zip(head, row, strict=True))
        pair = pbdist.ApproximateDP(float(one["pair_epsilon"]), float(one["pair_delta"]))
        found = pbdist.privacy_bounds(pair, compositions=5, epsilon=0.3)
        assert float(one["delta_upper"]) == found.delta_upper.item()
    code, _, err = called(
        capsys, "delta", "--family", "ApproximateDP", "--pair-delta", "0.1", "--compositions", "1", "--epsilon", "1"
    )
    assert (code, err) == (2, "pbdist: error: --pair-epsilon: expected a value, got nothing\n")


def test_a_mechanism_within_a_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--compositions", "64", "--epsilon", "0.5", "--json")
    count = ("--family", "NoisyCount", "--noise", "Gaussian", "--scale", "30", "--mean", "100", "--shift", "1")
    (found,) = json.loads(called(capsys, "delta", *count, *asked)[1])["answers"]
    pair = pbdist.NoisyCount(noise=pbdist.Gaussian(30.0), mean=100.0, shift=1)
    assert found["delta_upper"] == pbdist.privacy_bounds(pair, compositions=64, epsilon=0.5).delta_upper.item()
    pairs = ("--pairs", "{kind: Gaussian, scale: 30}", "{kind: Laplace, scale: 90}")
    (found,) = json.loads(called(capsys, "delta", "--family", "Product", *pairs, *asked)[1])["answers"]
    product = pbdist.Product(pbdist.Gaussian(30.0), pbdist.Laplace(90.0))
    table = pbdist.privacy_bounds(product, compositions=64, epsilon=0.5)
    assert found["delta_lower"] <= table.delta_upper.item()
    assert found["delta_upper"] >= table.delta_lower.item()


def test_wide_bounds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    # δ at ε = 0 is 1/5, exactly.
    asked = "epsilon --family Histogram --p 3 2 --q 2 3 --compositions 1 --delta 0.2"
    code, out, err = called(capsys, *asked.split())
    assert code == 0
    assert "wide: closer bounds were not found" in out
    assert err.startswith("pbdist: warning: tolerance: expected epsilon_upper / epsilon_lower - 1 <= 0.001, got inf")
    assert called(capsys, *asked.split(), "--strict")[0] == 3


def test_no_epsilon_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "epsilon --family Histogram --p 1 1 --q 0 1 --compositions 1 --delta 0.1 --json"
    (found,) = json.loads(called(capsys, *asked.split())[1])["answers"]
    assert found["epsilon_upper"] is None
    assert found["epsilon_lower"] >= 1e9


def test_help_names_every_mechanism_and_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    from pbdist.cli.families import mechanism_options
    from pbdist.study.entries import study_kinds

    assert main(["delta", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert [kind for kind in study_kinds() if kind not in out] == []
    options = mechanism_options("--family KIND", "the mechanism", study_kinds())
    assert [name for one in options for name in one.opts if f"{name} " not in out] == []


def test_bounds_that_no_tolerance_brings_closer_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    enclosed = ["epsilon", "--family", "FixedBatchGaussian", "--scale", "2", "--batch", "10", "--examples", "100"]
    enclosed += ["--compositions", "2", "--delta", "1e-5"]
    assert main([*enclosed, "--strict"]) == 3
    assert "wide: the worst case lies between two pairs" in capsys.readouterr().out
    assert main([*enclosed, "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert (answer["within_tolerance"], answer["why_wide"]) == (False, "the worst case lies between two pairs")
    assert 0.0 < answer["epsilon_lower"] < answer["epsilon_upper"] / 1.001

    dominated = ["delta", "--family", "BoundedRange", "--eta", "1", "--compositions", "2", "--epsilon", "1"]
    assert main(dominated) == 0
    out = capsys.readouterr().out
    assert "no lower bound is known" in out
    assert "no analysis can prove" not in out
    assert main([*dominated, "--format", "csv"]) == 0
    assert '"no lower bound is known"' in capsys.readouterr().out


def test_parameters_are_numbers_for_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    one = ["delta", "--family", "Laplace", "--scale", "3", "--compositions", "1", "--epsilon", "0.1", "--format", "csv"]
    assert main(one) == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[1]
        .startswith('"Laplace","Laplace",3.0,1.0,"Laplace(scale=3, sensitivity=1)",1,0.1,')
    )
