"""The tables of sizes: made of certified bounds, and of systems that a file describes."""

import csv
import json
import math
from pathlib import Path

import pytest

from pbdist import Gaussian, InvalidInputError, Laplace, privacy_bounds
from pbdist.cli import main
from pbdist.results import Verdict
from pbdist.sizing.systems import NoisyCounts, find_system, judge, load_systems, size_system
from pipelines.sizing_tables import main as write_tables
from pipelines.sizing_tables import sizing_tables

_SMALL = """format: 1
sources: {paper: "A paper, 2018"}
systems:
  - name: counts
    description: What is seen.
    observation: {kind: counts, counts: [{shift: 2}, {shift: 1, share: 0.5, messages: 2}], readings: [redraw-and-floor]}
    settings:
      - {name: large, noise: Laplace, mean: 900, scale: 60, compositions: 4, source: paper}
      - {name: small, noise: Gaussian, mean: 20, scale: 6, compositions: 4, source: paper}
      - {name: another, noise: Gaussian, mean: 20, scale: 6, compositions: 5, source: paper}
    targets: [{compositions: 4, exp_epsilon: 2, delta: 1e-4, source: paper}]
  - name: answers
    description: What is seen.
    observation: {kind: Gaussian, sensitivity: 2}
    settings: [{name: mine, scale: 30, source: paper}]
    targets: [{compositions: 4, epsilon: 1, delta: 1e-4, example: all}]
"""


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory):
    path: Path = tmp_path_factory.mktemp("systems") / "systems.yaml"
    path.write_text(_SMALL, encoding="utf-8")
    return load_systems(path)


def rows_of(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(table.splitlines()))


@pytest.fixture(scope="module")
def tables(systems) -> tuple[dict[str, list[dict[str, str]]], list[str]]:
    steps: list[str] = []
    found, problems = sizing_tables(systems, tolerance=0.4, progress=steps.append)
    assert problems == []
    return {name: rows_of(table) for name, table in found.items()}, steps


@pytest.mark.slow(reason="with the next one, which has the same tables: alone print sizes of counts of a system")
def test_the_tables(tables) -> None:
    found, steps = tables
    large, small = found["published"]
    assert {row["target"] for row in (large, small)} == {"δ <= 0.0001 at e^ε = 2 after 4 rounds"}
    assert (large["published noise"], small["published noise"]) == ("large (Laplace)", "small (Gaussian)")
    assert large["redraw-and-floor"].startswith("meets, δ <= ")
    assert small["redraw-and-floor"].startswith("**refuted**, δ >= ")
    assert large["clamp-and-ceil"] == ""
    sized = next(row for row in found["smallest"] if row["smallest noise"] == "Gaussian")
    assert float(sized["meets: δ at most"]) <= 1e-4 < float(sized["40 % less is refuted: δ at least"])
    assert float(sized["messages saved"].removesuffix(" % against large (Laplace)")) > 0.0
    (answers,) = found["amounts"]
    assert answers["target"] == "δ <= 0.0001 at ε = 1 after 4 rounds"
    assert answers["published noise"].startswith("mine scale 30, sensitivity 2: meets")
    assert float(answers["meets: δ at most"]) <= 1e-4 < float(answers["40 % less is refuted: δ at least"])
    assert any("smallest Laplace, redraw-and-floor" in text for text in steps)


@pytest.mark.slow(reason="has the tables of the one before")
def test_what_is_printed_meets_the_target(systems, tables) -> None:
    counts = systems[0]
    assert isinstance(counts.observation, NoisyCounts)
    row = next(row for row in tables[0]["smallest"] if row["smallest noise"] == "Laplace")
    mean, scale, messages = (float(row[name].replace(",", "")) for name in ("mean", "scale", "messages a round"))
    needed = counts.observation.family(Laplace).messages(mean, scale)
    assert needed <= messages < needed * 1.00001
    bounds = privacy_bounds(counts.observation.family(Laplace).pair(mean, scale), compositions=4, epsilon=math.log(2))
    assert float(bounds.delta_upper.values[0, 0]) <= 1e-4


def test_verdicts_are_proved(systems) -> None:
    target, setting = systems[0].targets[0], systems[0].settings[0]
    found = judge(setting.mechanisms[0], target)
    assert found.verdict(target.delta) is Verdict.MEETS
    assert found.lower <= found.upper <= target.delta


@pytest.mark.slow
def test_sizes_of_a_system(systems) -> None:
    counts, answers = systems
    sized = size_system(counts, counts.targets[0], noise=Gaussian, tolerance=0.1)
    assert sized.delta_upper <= 1e-4 < sized.refuted_delta_lower
    assert sized.mean is not None
    assert sized.expected_messages == pytest.approx(
        counts.observation.family(Gaussian).messages(sized.mean, sized.scale), rel=1e-9
    )
    assert size_system(answers, answers.targets[0]).ordered


def test_what_a_system_does_not_take(systems) -> None:
    counts, answers = systems
    with pytest.raises(InvalidInputError, match="reading: expected one of redraw-and-floor for counts, got 'clamp"):
        size_system(counts, counts.targets[0], reading="clamp-and-ceil")
    with pytest.raises(InvalidInputError, match="noise: applies to noisy counts, of which answers has none"):
        size_system(answers, answers.targets[0], noise=Laplace)


def test_systems_of_a_file_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "systems.yaml"
    path.write_text(_SMALL, encoding="utf-8")
    assert main(["size", "--systems", str(path), "--system", "answers", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (answer,) = found["answers"]
    assert (found["mechanism"], found["sensitivity"]) == ("answers", 2.0)
    assert answer["delta_upper"] <= 1e-4 < answer["refuted_delta_lower"]
    assert main(["size", "--systems", str(path), "--system", "dp-sgd"]) == 2
    assert "system: expected one of counts, answers, got 'dp-sgd'" in capsys.readouterr().err


_UNSIZED = """format: 1
systems:
  - name: responses
    description: What is seen.
    observation: {kind: RandomizedResponse}
    targets:
      - {compositions: 1, epsilon: 30, delta: 0.9, example: all}
      - {compositions: 1, epsilon: 1, delta: 0.1, example: all}
"""


def test_the_tables_go_on_where_a_target_has_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "systems.yaml"
    path.write_text(_UNSIZED, encoding="utf-8")
    assert write_tables(["--systems", str(path), "--tolerance", "0.1", "--folder", str(tmp_path)]) == 1
    first, second = rows_of((tmp_path / "amounts.csv").read_text(encoding="utf-8"))
    assert (first["system"], first["target"]) == ("responses", "δ <= 0.9 at ε = 30 after 1 round")
    assert first["smallest noise"].startswith("none: ")
    assert second["smallest noise"].startswith("1 - p = 0.2")
    assert "no answer: responses, 1 rounds: " in capsys.readouterr().err


def test_what_cannot_be_judged_or_sized_says_so(systems, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InvalidInputError("a|b")

    monkeypatch.setattr("pipelines.sizing_tables.judge", refuse)
    monkeypatch.setattr("pipelines.sizing_tables.size_system", refuse)
    tables, problems = sizing_tables(systems, tolerance=0.1)
    assert len(problems) == 6
    assert problems[0] == "counts, 4 rounds: large (Laplace): a|b"
    assert [row["mean"] for row in rows_of(tables["smallest"])] == ["none: a|b"] * 2
    assert rows_of(tables["amounts"])[0]["published noise"] == "mine scale 30, sensitivity 2: not judged: a|b"


@pytest.mark.nightly
def test_alpenhorn_is_sized() -> None:
    alpenhorn = find_system("alpenhorn")
    sized = size_system(alpenhorn, alpenhorn.targets[0], tolerance=0.1)
    bounds = privacy_bounds(sized.mechanism, compositions=1024, epsilon=math.log(2))
    assert bounds.delta_lower.values[0, 0] <= 1e-4
    assert sized.delta_upper <= 1e-4 < sized.refuted_delta_lower
