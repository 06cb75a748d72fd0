"""``pbdist dpsgd`` as a user meets it."""

import csv
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pbdist.accounting import dpsgd, dpsgd_noise
from pbdist.cli import main
from pbdist.rounding import exact

pytestmark = pytest.mark.slow

MNIST = ("--examples", "60000", "--batch", "256")
RUN = (*MNIST, "--epochs", "15", "60", "--delta", "1e-5")
GIVEN: dict[str, Any] = {"examples": 60_000, "batch": 256, "epochs": [15, 60], "delta": 1e-5}


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["dpsgd", *arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_mnist(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, *RUN, "--noise-multiplier", "1.1")
    assert (code, err) == (0, "")
    rows = [re.findall(r"[\d.e-]+", line) for line in out.splitlines() if line.startswith("│")]
    assert rows == [["15", "3525", "1e-5", "1.13535", "1.13540"], ["60", "14100", "1e-5", "2.38507", "2.38519"]]
    told = " ".join(out.split())
    for words in ("examples=60000 batch=256 rate=0.004266666666666667", "noise_multiplier=1.1", "Poisson sampling"):
        assert words in told
    for words in (
        "neighbours are add-or-remove",
        "Not bounded: shuffled records",
        "rounded up",
        "no analysis can prove an ε",
    ):
        assert words in told


def test_json_is_what_the_function_returns(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, *RUN, "--noise-multiplier", "1.1", "--direction", "each", "--json")
    assert code == 0
    told = json.loads(out)
    found = dpsgd(**GIVEN, noise_multiplier=1.1, direction="each")
    assert (told["rate"], told["noise_multiplier"], told["adjacency"]) == (256 / 60_000, 1.1, "add-or-remove")
    assert told["notes"] == list(found.training.notes)
    assert told["sentence"] == found.sentence
    for number, one in enumerate(told["answers"]):
        index, axis = divmod(number, 2)
        assert (one["epochs"], one["steps"]) == (found.training.epochs[index], found.training.steps[index])
        assert one["direction"] == ("A||B", "B||A")[axis]
        sides = one["epsilon_lower"], one["epsilon_upper"]
        assert sides == (found.epsilon.lower[axis, index, 0], found.epsilon.upper[axis, index, 0])


def test_csv_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "--examples 100 --batch 5 --noise-multiplier 2 --steps 3 6 --delta 0.01 0.001"
    rows = list(csv.DictReader(io.StringIO(called(capsys, *asked.split(), "--format", "csv")[1])))
    assert [(row["steps"], row["delta"]) for row in rows] == [(r, d) for r in ("3", "6") for d in ("0.01", "0.001")]
    assert "epochs" not in rows[0]
    found = dpsgd(examples=100, batch=5, noise_multiplier=2.0, steps=[3, 6], delta=[0.01, 0.001])
    assert [float(row["epsilon_upper"]) for row in rows] == found.epsilon.upper.reshape(-1).tolist()


def test_delta_is_one_over_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    out = called(capsys, *MNIST, "--noise-multiplier", "1.1", "--epochs", "1")[1]
    assert "δ is 1 / 60000, as none was given: a smaller one is safer." in " ".join(out.split())
    assert exact(1 / 60_000) in out


def test_noise_is_sized(capsys: pytest.CaptureFixture[str]) -> None:
    found = dpsgd_noise(**GIVEN, epsilon=2.0)
    whole = json.loads(called(capsys, *RUN, "--epsilon", "2", "--json")[1])
    told = whole.pop("answers")
    given = {
        "mechanism": "DP-SGD",
        "examples": 60_000,
        "batch": 256,
        "rate": 256 / 60_000,
        "adjacency": "add-or-remove",
    }
    assert whole == {**given, "notes": list(found.training.notes), "sentence": found.sentence}
    rows = list(csv.DictReader(io.StringIO(called(capsys, *RUN, "--epsilon", "2", "--format", "csv")[1])))
    assert len(told) == len(rows) == 2
    for one, row, sized in zip(told, rows, found.sized, strict=True):
        assert row.keys() == {**given, **one}.keys()
        assert (row["mechanism"], row["examples"]) == ("DP-SGD", "60000")
        assert (one["epochs"], one["steps"]) == (float(row["epochs"]), int(row["steps"]))
        assert one["noise_multiplier"] == float(row["noise_multiplier"]) == sized.scale
        assert one["refuted_noise_multiplier"] == float(row["refuted_noise_multiplier"]) == sized.refuted_scale
    code, out, err = called(capsys, *RUN, "--epsilon", "2")
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if line.startswith("│")]
    for line, sized in zip(lines, found.sized, strict=True):
        assert "…" not in line
        *_, enough, upper, less, lower = [Decimal(one) for one in re.findall(r"[\d.e-]+", line)]
        assert enough >= Decimal(sized.scale)
        assert less <= Decimal(sized.refuted_scale)
        assert lower > Decimal("1e-5") >= upper
    assert "At this sampling rate no noise multiplier at or below the refuted one meets the target." in " ".join(
        out.split()
    )


def test_phases_and_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    phases = ("--phase", "epochs=2,noise-multiplier=2", "steps=5,batch=20,noise-multiplier=1.1")
    run = ("--examples", "1000", "--batch", "10", *phases, "--delta", "1e-4")
    code, out, err = called(capsys, *run)
    assert (code, err) == (0, "")
    given: list[dict[str, Any]] = [
        {"epochs": 2, "noise_multiplier": 2},
        {"steps": 5, "batch": 20, "noise_multiplier": 1.1},
    ]
    found = dpsgd(examples=1000, batch=10, phases=given, delta=1e-4)
    assert f"For a paper: {found.sentence}" in " ".join(out.split())
    assert " ".join(str(found).split()) == " ".join(out.split())
    rows = list(csv.DictReader(io.StringIO(called(capsys, *run, "--format", "csv")[1])))
    assert [(row["phase"], row["steps"], row["batch"]) for row in rows] == [("1", "200", "10"), ("2", "205", "20")]
    assert [float(row["epsilon_upper"]) for row in rows] == found.epsilon.upper[:, 0].tolist()


def test_epsilon_over_epochs_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = ("--examples", "1000", "--batch", "100", "--noise-multiplier", "2", "--epochs", "3", "--delta", "1e-4")
    for name, start in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF")):
        assert called(capsys, *run, "--plot", str(tmp_path / name))[0] == 0
        assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            "--phase epochs",
            "--phase: expected NAME=NUMBER once each, with commas, as in epochs=10,",
        ),
        ("--phase epochs=1,epochs=2", "--phase: expected NAME=NUMBER once each"),
        ("--phase epochs=x", "--phase: expected NAME=NUMBER once each"),
        (
            "--phase epochs=1 epoch=2",
            "--phase: value 2: expected the keys epochs, steps, batch, sample-rate, noise-multiplier, got 'epoch'",
        ),
        (
            "--phase epochs=1,noise-multiplier=-2",
            "--phase: value 1: noise-multiplier: expected a number above 0, got -2",
        ),
        ("--phase epochs=1,noise=2", "--phase: value 1: expected the keys epochs,"),
        (
            "--phase epochs=1,batch=4,sample-rate=1",
            "--phase: value 1: batch: expected exactly one of batch and sample-rate",
        ),
        ("--phase epochs=1 --epochs 2", "--phase: cannot be combined with --epochs"),
        ("--sample-rate .1", "--sample-rate: cannot be combined with --batch"),
        ("--epochs 1 --plot a.jpg", "--plot: expected a file that ends in .svg, .png or .pdf"),
        ("--epochs 1 --plot nowhere/a.svg", "--plot: expected a file in a folder that exists"),
    ],
)
def test_bad_input_is_one_line(options: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, *MNIST, "--noise-multiplier", "1", *options.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"pbdist: error: {problem}")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_strict_tells_wide_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    run = ("--examples", "1000000", "--batch", "1", "--steps", "3", "--delta", "1e-9")
    code, out, err = called(capsys, *run, "--noise-multiplier", "2")
    assert (code, called(capsys, *run, "--noise-multiplier", "2", "--strict")[0]) == (0, 3)
    assert err.startswith("pbdist: warning: tolerance: expected epsilon_upper")
    # Two rates, the nearest float of either side, are not what keeps the bounds apart.
    assert "between two pairs" not in err
    assert "wide: closer bounds were not found" in out
