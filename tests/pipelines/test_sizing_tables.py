"""The sizing table: made of certified bounds, and of systems that a file describes."""

import json
import math
from pathlib import Path

import pytest

from pbdist import BatchError, Gaussian, InvalidInputError, Laplace, privacy_bounds
from pbdist.cli import main
from pbdist.results import Verdict
from pbdist.sizing.systems import NoisyCounts, find_system, judge, load_systems, size_system
from pipelines.sizing_tables import main as print_tables
from pipelines.sizing_tables import sizing_table

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


@pytest.fixture(scope="module")
def table(systems) -> tuple[list[str], list[str]]:
    told: list[str] = []
    return list(sizing_table(systems, tolerance=0.4, progress=told.append)), told


@pytest.mark.slow(reason="with the next one, which has the same table: alone print sizes of counts of a system")
def test_the_table(table) -> None:
    lines, told = table
    rows = {
        cells[0] + cells[1]: cells for cells in ([x.strip() for x in line.split("|")[1:-1]] for line in lines) if cells
    }
    assert "#### `counts`: δ <= 0.0001 at e^ε = 2 after 4 rounds" in lines
    assert rows["large (Laplace)900"][4].startswith("meets, δ <= ")
    assert rows["small (Gaussian)20"][4].startswith("**refuted**, δ >= ")
    assert not any("another" in line for line in lines)
    sized = rows["Gaussianredraw-and-floor"]
    assert float(sized[5]) <= 1e-4 < float(sized[6])
    assert float(sized[8].removesuffix(" %")) > 0.0
    answers = rows["`answers`δ <= 0.0001 at ε = 1 after 4 rounds"]
    assert answers[2].startswith("mine scale 30, sensitivity 2: meets")
    assert float(answers[4]) <= 1e-4 < float(answers[5])
    assert any("smallest Laplace, redraw-and-floor" in text for text in told)


@pytest.mark.slow(reason="has the table of the one before")
def test_what_is_printed_meets_the_target(systems, table) -> None:
    counts = systems[0]
    assert isinstance(counts.observation, NoisyCounts)
    rows = [line.split("|") for line in table[0] if line.startswith("| Laplace")]
    mean, scale = (float(cell.replace(",", "")) for cell in rows[0][3:5])
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
    with pytest.raises(InvalidInputError, match="noise: answers has no noisy counts"):
        size_system(answers, answers.targets[0], noise=Laplace)


def test_systems_of_a_file_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "systems.yaml"
    path.write_text(_SMALL, encoding="utf-8")
    assert main(["size", "--systems", str(path), "--system", "answers", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["mechanism"]["sensitivity"] == 2.0
    assert found["delta_upper"] <= 1e-4 < found["refuted"]["delta_lower"]
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


def test_the_table_goes_on_where_a_target_has_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "systems.yaml"
    path.write_text(_UNSIZED, encoding="utf-8")
    assert print_tables(["--systems", str(path), "--tolerance", "0.1"]) == 1
    printed = capsys.readouterr()
    first, second = printed.out.splitlines()[-2:]
    assert first.startswith("| `responses` | δ <= 0.9 at ε = 30 after 1 round | none | none: delta: every scale of")
    assert first.count("|") == second.count("|") == 7
    assert "| 1 - p = 0.2" in second
    assert "got none for an entry: responses, 1 rounds: delta: every scale of" in printed.err


def test_what_cannot_be_judged_or_sized_says_so(systems, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InvalidInputError("a|b")

    monkeypatch.setattr("pipelines.sizing_tables.judge", refuse)
    monkeypatch.setattr("pipelines.sizing_tables.size_system", refuse)
    lines: list[str] = []
    with pytest.raises(BatchError, match=r"got none for 6 entries: counts, 4 rounds: large \(Laplace\): a\|b"):
        lines.extend(sizing_table(systems, tolerance=0.1))
    assert [line.count(r"none: a\|b") for line in lines if line.startswith("| Gaussian")] == [1]
    assert r"mine scale 30, sensitivity 2: not judged: a\|b" in lines[-1]


@pytest.mark.nightly
def test_alpenhorn_is_sized() -> None:
    alpenhorn = find_system(load_systems(), "alpenhorn")
    sized = size_system(alpenhorn, alpenhorn.targets[0], tolerance=0.1)
    bounds = privacy_bounds(sized.mechanism, compositions=1024, epsilon=math.log(2))
    assert bounds.delta_lower.values[0, 0] <= 1e-4
    assert sized.delta_upper <= 1e-4 < sized.refuted_delta_lower
