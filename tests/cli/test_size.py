"""``pbdist size`` as a user meets it."""

import csv
import io
import json
import math
import re
from decimal import Decimal

import pytest

import pbdist
from pbdist.cli import main
from pbdist.rounding import rounded_down, rounded_up

pytestmark = pytest.mark.slow

_GOAL = ("--compositions", "64", "--exp-epsilon", "2", "--delta", "1e-5")


def _called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["size", *arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_json_is_what_the_function_returns(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _called(capsys, "--family", "Gaussian", *_GOAL, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    (answer,) = found.pop("answers")
    shared = {"mechanism": "Gaussian", "noise": "Gaussian", "sensitivity": 1.0}
    assert found == {**shared, "tolerance": 0.01, "adjacency": "as-stated"}
    sized = pbdist.size(pbdist.Gaussian, compositions=64, exp_epsilon=2.0, delta=1e-5)
    assert answer["scale"] == sized.scale
    assert (answer["setting"], answer["refuted_setting"]) == (str(sized.mechanism), str(sized.refuted_mechanism))
    assert answer["epsilon"] == math.log(2.0)
    assert answer["delta_upper"] == sized.delta_upper <= answer["delta"]
    assert answer["refuted_scale"] == answer["scale"] * (1.0 - found["tolerance"])
    assert answer["refuted_delta_lower"] > answer["delta"]
    assert answer["ordered"] is True


@pytest.mark.parametrize(
    "words",
    [
        "--family Gaussian",
        "--family NoisyCount --noise Poisson --shift 1",
        "--family Gaussian Laplace SubsampledGaussian",
        "--system randomized-response",
    ],
)
def test_json_and_csv_have_the_same_columns(capsys: pytest.CaptureFixture[str], words: str) -> None:
    case = f"{words} --compositions 1 2 --epsilon 1 --delta 1e-3 --tolerance 0.1".split()
    found = json.loads(_called(capsys, *case, "--json")[1])
    rows = list(csv.DictReader(io.StringIO(_called(capsys, *case, "--format", "csv")[1]), strict=True))
    answers = found.pop("answers")
    # One mechanism and its neighbours stand before the answers, several in them.
    assert {"mechanism", "adjacency"} <= (answers[0] if "Laplace" in case else found).keys()
    assert len(rows) == len(answers)
    for row, answer in zip(rows, answers, strict=True):
        assert row.keys() == {**found, **answer}.keys()
        assert not found.keys() & answer.keys()
        for name, value in {**found, **answer}.items():
            if value is None:
                assert row[name] == ""
            elif isinstance(value, list):
                assert row[name] == ",".join(map(str, value))
            elif isinstance(value, bool):
                assert row[name] == str(value).lower()
            elif not (name in found and row["problem"]):
                assert row[name] == value if isinstance(value, str) else float(row[name]) == value


def test_table_tells_the_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _called(capsys, "--family", "Laplace", "--sensitivity", "2", *_GOAL)
    assert code == 0
    sized = pbdist.size(pbdist.Laplace, sensitivity=2.0, compositions=64, exp_epsilon=2.0, delta=1e-5)
    assert f" {rounded_up(sized.scale)} " in out
    assert f" {rounded_down(sized.refuted_scale)} " in out
    assert repr(sized.scale) not in out
    assert "No smaller scale than the refuted one meets the target" in out


SEVERAL = ("--compositions", "16", "64", "--epsilon", "0.5", "1", "--delta", "1e-5")
ASKED = [(16, 0.5), (16, 1.0), (64, 0.5), (64, 1.0)]


def test_several_goals_are_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _called(capsys, "--family", "Gaussian", *SEVERAL, "--json")
    assert code == 0
    found = json.loads(out)["answers"]
    assert [(one["compositions"], one["epsilon"]) for one in found] == ASKED
    alone = _called(
        capsys, "--family", "Gaussian", *("--compositions", "64", "--epsilon", "0.5", "--delta", "1e-5"), "--json"
    )
    (answer,) = json.loads(alone[1])["answers"]
    assert {**found[2], "evaluations": 0} == {**answer, "evaluations": 0}
    rows = list(csv.DictReader(io.StringIO(_called(capsys, "--family", "Gaussian", *SEVERAL, "--format", "csv")[1])))
    assert len(rows) == len(found)
    for row, one in zip(rows, found, strict=True):
        for name in ("compositions", "epsilon", "delta", "scale", "delta_lower", "delta_upper"):
            assert float(row[name]) == one[name]
        assert float(row["refuted_scale"]) == one["refuted_scale"]
        assert float(row["refuted_delta_lower"]) == one["refuted_delta_lower"]
        assert (row["mean"], row["within_tolerance"], row["ordered"], row["problem"]) == ("", "true", "true", "")
    for form in ("table", "markdown", "latex"):
        code, out, err = _called(capsys, "--family", "Gaussian", *SEVERAL, "--format", form)
        assert (code, err) == (0, "")
        lines = [line for line in out.splitlines() if re.match(r"[│|$] ?(16|64)\b", line)]
        assert len(lines) == len(found)
        for line, one in zip(lines, found, strict=True):
            plain = re.sub(r"\\times 10\^\{(-?\d+)\}", r"e\1", line)
            numbers = [Decimal(number) for number in re.findall(r"[-+.\de]*\d[-+.\de]*", plain)]
            *_, scale, upper, refuted, lower = numbers
            # Each on its safe side: noise that will do up, its δ up; refuted noise down, its δ down.
            assert scale >= Decimal(one["scale"])
            assert upper >= Decimal(one["delta_upper"])
            assert refuted <= Decimal(one["refuted_scale"])
            assert lower <= Decimal(one["refuted_delta_lower"])
            assert scale <= Decimal(one["scale"]) * Decimal("1.00001")


def test_exp_epsilon_is_shown_as_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    several = ("--compositions", "16", "--exp-epsilon", "2", "3", "--delta", "1e-5")
    rows = list(csv.DictReader(io.StringIO(_called(capsys, "--family", "Gaussian", *several, "--format", "csv")[1])))
    assert [(float(row["exp_epsilon"]), float(row["epsilon"])) for row in rows] == [(2, math.log(2)), (3, math.log(3))]
    lines = _called(capsys, "--family", "Gaussian", *several, "--format", "markdown")[1].splitlines()
    assert lines[2] == "neighbours: as assumed by the given parameters"
    assert lines[4].startswith("| r | e^ε | δ \\<= | scale that meets |")
    assert lines[6].startswith("| 16 | 2 | 1e-5 | ")


def test_a_goal_that_no_noise_meets_is_a_row_that_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    goals = ("--family", "SubsampledGaussian", "--rate", "0.01", "--compositions", "1", "--epsilon", "1", "--delta")
    code, out, err = _called(capsys, *goals, "1e-5", "0.9", "--format", "csv")
    assert code == 1
    first, second = csv.DictReader(io.StringIO(out))
    assert (float(first["scale"]) > 0.1, first["problem"]) == (True, "")
    assert second["scale"] == second["delta_upper"] == ""
    assert second["problem"]
    assert err.startswith("pbdist: error: size: no answer in 1 of 2 cases: ")
    assert second["problem"] in err
    _, out, _ = _called(capsys, *goals, "0.9", "1e-5", "--json")
    found = json.loads(out)
    known = {name: value for name, value in found["answers"][0].items() if value is not None}
    assert known.pop("exp_epsilon") == math.e
    assert known == {"compositions": 1, "epsilon": 1.0, "delta": 0.9, "problem": second["problem"]}
    # Shared values are there although the first target has no answer.
    assert (found["mechanism"], found["rate"], found["adjacency"]) == ("SubsampledGaussian", 0.01, "add-or-remove")
    _, out, _ = _called(capsys, *goals, "1e-5", "0.9")
    assert "none: " in out
    # With no answer at all it is wrong input.
    code, out, err = _called(capsys, *goals, "0.8", "0.9")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_count_is_one_row_of_numbers_that_are_certified(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--family", "NoisyCount", "--noise", "Gaussian", "--shift", "1", "--reading", "redraw-and-floor")
    goals = ("--compositions", "1", "2", "--epsilon", "1", "--delta", "1e-3", "--tolerance", "0.1")
    code, out, _ = _called(capsys, *arguments, *goals, "--format", "markdown")
    assert code == 0
    assert "messages" in out
    assert "nothing is claimed between" in out
    head, _, *rows = [line for line in out.splitlines() if line.startswith("|")]
    assert "| mean that meets | its messages |" in head
    assert "| refuted scale | refuted mean |" in head
    for line, rounds in zip(rows, (1, 2), strict=True):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        scale, mean, _, upper, less, its_mean, lower = cells[3:10]
        for noise, bound, meets in (((scale, mean), upper, True), ((less, its_mean), lower, False)):
            pair = pbdist.NoisyCount(pbdist.Gaussian(float(noise[0])), float(noise[1]), 1, "redraw-and-floor")
            found = pbdist.privacy_bounds(pair, compositions=rounds, epsilon=1.0, tolerance=2e-3)
            if meets:
                assert found.delta_lower.item() <= float(bound) <= 1e-3
            else:
                assert found.delta_upper.item() >= float(bound) > 1e-3


def test_the_title_says_what_was_sized(capsys: pytest.CaptureFixture[str]) -> None:
    goals = ("--compositions", "1", "--epsilon", "1", "--delta", "0.001", "0.002", "--tolerance", "0.4")
    cases = {
        "--system vuvuzela-dialing": "system vuvuzela-dialing: the smallest Laplace noise found, reading clamp-and-ceil"
        ", shift 2",
        "--system vuvuzela-conversation --noise Gaussian": "system vuvuzela-conversation: the smallest Gaussian noise"
        " found, reading clamp-and-ceil, shift 2, shift 1 with 0.5 times the noise",
        "--system dp-sgd": "system dp-sgd: the smallest SubsampledGaussian noise found, rate 0.01, sensitivity 1",
        "--family NoisyCount --noise Gaussian --shift 1": "NoisyCount: the smallest Gaussian noise found, shift 1",
        "--family Gaussian --sensitivity 2": "Gaussian: the smallest noise found, sensitivity 2",
    }
    for words, title in cases.items():
        code, out, _ = _called(capsys, *words.split(), *goals)
        assert (code, out.partition("\n")[0]) == (0, title)


@pytest.mark.parametrize("words", ["--family Gaussian", "--family NoisyCount --noise Poisson --shift 1"])
def test_python_and_the_command_write_the_same_csv_and_json(capsys: pytest.CaptureFixture[str], words: str) -> None:
    kind, *noise = words.split()[1::2]
    parameters = {"noise": noise[0], "shift": 1} if noise else {}
    sized = pbdist.size(getattr(pbdist, kind), compositions=64, exp_epsilon=2.0, delta=1e-5, **parameters)
    assert _called(capsys, *words.split(), *_GOAL, "--json")[1] == sized.sheet.json()
    assert _called(capsys, *words.split(), *_GOAL, "--format", "csv")[1] == sized.sheet.csv()
    assert sized.frame().scale.item() == sized.scale


def test_system_has_goals_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _called(capsys, "--system", "randomized-response", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["mechanism"] == "randomized-response"
    assert all(one["delta_upper"] <= one["delta"] < one["refuted_delta_lower"] for one in found["answers"])


def test_a_group_is_sized(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["size", "--family", "SubsampledGaussianGroup", "--rate", "0.1", "--compositions", "10", "--epsilon", "2"]
    assert main([*asked, "--group-size", "3", "--delta", "1e-4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["adjacency"] == "add-or-remove-group"
    assert main([*asked, "--group-size", "2.5", "--delta", "1e-4"]) == 2
    assert "--group-size: expected a whole number" in capsys.readouterr().err


def test_families_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    goal = ("--compositions", "2", "--epsilon", "1", "--delta", "1e-3", "--tolerance", "0.1")
    code, out, err = _called(capsys, "--family", "Gaussian", "Laplace", "KaryRandomizedResponse", *goal)
    assert (code, err) == (0, "")
    assert out == f"{pbdist.size_families('Gaussian,Laplace,KaryRandomizedResponse', **GOALS, tolerance=0.1)}\n"
    assert "KaryRandomizedResponse: needs k" in out
    counts = ("--family", "all", "--shift", "1", "--message-bytes", "100", *goal)
    code, out, _ = _called(capsys, *counts, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert float(rows[0]["expected_bytes"]) == 100 * float(rows[0]["expected_messages"])
    assert rows[-1]["problem"] == "takes no shift"
    found = pbdist.size_families("all", shift=1, message_bytes=100, **GOALS, tolerance=0.1)
    assert out == found.sheet.csv()
    code, out, _ = _called(capsys, *counts, "--json")
    assert [one["mechanism"] for one in json.loads(out)["answers"]] == [row["mechanism"] for row in rows]


GOALS = {"compositions": 2, "epsilon": 1.0, "delta": 1e-3}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--family", "Gaussian", "Laplas"), "did you mean Laplace"),
        (
            ("--family", "NoisyCount", "--noise", "Gaussian", "Laplace", "--shift", "1"),
            "--noise: expected one, got 2: to compare them, name the families 'NoisyCount(Gaussian)' and",
        ),
        (
            ("--family", "all", "--shift", "1", "--sensitivity", "1"),
            "takes no shift: leave out shift, which noisy counts take, or sensitivity, which others do",
        ),
        (
            ("--family", "NoisyCount", "--noise", "DiscreteGaussian", "--shift", "1", "--mean", "1"),
            "the mean of 1 may be too small: leave it out, and mean and scale are sized together",
        ),
        (("--system", "mine"), "got 'mine'; one of your own needs its file too: --systems FILE"),
        (("--family", "all", "--store", "x.zarr"), "--store: cannot be combined with several families"),
        (("--family", "Gaussian", "--message-bytes", "3"), "--message-bytes: applies to several families only"),
        (("--family", "Gaussian", "Laplace", "--rate", "0.1"), "rate: is no parameter of any of the families"),
        (("--family", "Gaussian", "Laplace", "--tolerance", "5"), "--tolerance: expected a number from 1e-6 to 0.5"),
        (("--family", "Gaussian", "Laplace", "--adjacency", "both"), "--adjacency: expected one of add-or-remove"),
    ],
)
def test_wrong_comparisons_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    code, _, err = _called(capsys, *arguments, "--compositions", "2", "--epsilon", "1", "--delta", "1e-3")
    assert code == 2
    assert problem in err


def test_no_family_at_all_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    goal = ("--compositions", "2", "--epsilon", "1", "--delta", "1e-3")
    code, out, err = _called(capsys, "--family", "SubsampledGaussian", "KaryRandomizedResponse", *goal)
    assert (code, out) == (2, "")
    words = "--family: expected one to which all parameters apply, got none: SubsampledGaussian needs rate"
    assert err == f"pbdist: error: {words}\n"
