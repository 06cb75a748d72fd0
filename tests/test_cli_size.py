"""``pbdist size`` as a user meets it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import pbdist
from pbdist.cli import main

_GOAL = ("--compositions", "64", "--exp-epsilon", "2", "--delta", "1e-5")


def _called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["size", *arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_json_is_what_the_function_returns() -> None:
    command = [sys.executable, "-W", "error", "-m", "pbdist", "size", "--family", "Gaussian", *_GOAL, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    sized = pbdist.size(pbdist.Gaussian, compositions=64, exp_epsilon=2.0, delta=1e-5)
    assert found["scale"] == sized.scale
    assert found["mechanism"] == sized.mechanism.canonical()
    assert found["epsilon"] == math.log(2.0)
    assert found["delta_upper"] == sized.delta_upper <= found["delta"]
    assert found["refuted"]["scale"] == found["scale"] * (1.0 - found["tolerance"])
    assert found["refuted"]["delta_lower"] > found["delta"]
    assert found["ordered"] is True


def test_table_tells_the_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _called(capsys, "--family", "Laplace", "--sensitivity", "2", *_GOAL)
    assert code == 0
    sized = pbdist.size(pbdist.Laplace, sensitivity=2.0, compositions=64, exp_epsilon=2.0, delta=1e-5)
    assert repr(sized.scale) in out
    assert repr(sized.refuted_scale) in out
    assert "No smaller scale than the refuted one will do" in out


def test_table_of_a_scanned_family(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--family", "NoisyCount", "--noise", "Laplace", "--shift", "2", "--reading", "redraw-and-floor")
    code, out, _ = _called(capsys, *arguments, "--compositions", "4", "--epsilon", "1", "--delta", "1e-2")
    assert code == 0
    assert "mean" in out
    assert "messages" in out
    assert "nothing is claimed" in out.lower()


def test_system_has_goals_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _called(capsys, "--system", "randomized-response", "--json")
    assert code == 0
    assert all(item["delta_upper"] <= item["delta"] < item["refuted"]["delta_lower"] for item in json.loads(out))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--family", "Gaussian", "--compositions", "4", "--delta", "1e-5"), "--epsilon: expected a value, got none"),
        (("--family", "Gaussian", "--epsilon", "1", "--delta", "1e-5"), "--compositions: expected a value"),
        (("--family", "Gaussian"), "--compositions: expected a value"),
        (("--family", "Gaussian", *_GOAL, "--delta", "2"), "delta: expected numbers above 0 and below 1"),
        (
            ("--family", "Gaussian", *_GOAL, "--rate", "0.1"),
            "Gaussian: expected one of scale, sensitivity, truncate; got rate",
        ),
        (("--family", "SubsampledGaussian", *_GOAL), "rate: expected a value for SubsampledGaussian"),
        (("--family", "NoisyCount", "--shift", "2", *_GOAL), "noise: expected the class Laplace or Gaussian"),
        (("--family", "Laplace", *_GOAL, "--scale-limits", "1", "2"), "none of the"),
        (("--family", "Laplace", *_GOAL, "--store", "nowhere.zarr"), "nowhere.zarr"),
        (("--system", "nobody", *_GOAL), "system: expected one of"),
        (("--table", "--epsilon", "1"), "--epsilon: expected none with --table"),
        (("--table", "--mean", "0"), "--mean: expected none with --table"),
        (("--table", "--scale-limits", "1", "2"), "--scale-limits: expected none with --table"),
        (("--family", "Gaussian", *_GOAL, "--systems", "mine.yaml"), "--systems: expected none with --family"),
        (("--system", "vuvuzela-dialing", "--mean", "3", *_GOAL), "--mean: expected none with --system"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: tuple[str, ...],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = _called(capsys, *arguments)
    assert code == 2
    assert not out
    assert err.startswith("pbdist: error: ")
    assert problem in err
    assert err.count("\n") == 1


def test_help_names_every_family(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["size", "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "SubsampledGaussian" in out
    assert "--scale-limits" in out
