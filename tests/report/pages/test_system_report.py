"""The report of a system: its answer, its certificate, and answers that are kept."""

import json
import re
from dataclasses import replace

import pytest

import pbdist
from pbdist.errors import InvalidInputError
from pbdist.report.pages import system_report as module
from pbdist.report.pages.document import Bullets, Picture
from pbdist.report.pages.kept_answers import KeptAnswers
from pbdist.report.pages.system_report import system_report
from pbdist.sizing.systems import find_system, load_systems

pytestmark = pytest.mark.slow

SYSTEM = """\
format: 1
systems:
  - name: mine
    description: A count of messages.
    observation: {kind: counts, counts: [{shift: 1}], readings: [clamp-and-ceil, redraw-and-floor, shift-inside]}
    settings:
      - {name: today, noise: Laplace, mean: 60, scale: 6, compositions: 3, example: all of it}
      - {name: tomorrow, noise: Gaussian, mean: 10, scale: 2, compositions: 3, example: all of it}
    targets:
      - {compositions: 3, epsilon: 1, delta: 0.01, example: all of it}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    path = tmp_path_factory.mktemp("systems") / "mine.yaml"
    path.write_text(SYSTEM, encoding="utf-8")
    return load_systems(path)[0]


@pytest.fixture(scope="module")
def made(system, tmp_path_factory):
    sizes = tmp_path_factory.mktemp("sizes") / "mine.sizes.json"
    steps = []
    return system_report(system, system.targets, tolerance=0.2, sizes=sizes, told=steps.append), sizes, steps


def test_the_lead_is_the_noise_with_the_fewest_messages_under_the_own_reading(made):
    report, _, steps = made
    assert report.whole
    lead, details = report.document.blocks[:2]
    assert lead.lead
    sentence, _, messages = lead.text.partition(" It takes about ")
    assert sentence.endswith("(reading clamp-and-ceil) meets (ε 1, δ 0.01) after 3 rounds; 20 % less noise is refuted.")
    sized = [one for one in details.items if "meets the target" in one]
    assert [("clamp" in one, "redraw" in one) for one in sized] == [(True, False)] * 2 + [(False, True)] * 2
    assert sized[0].startswith(sentence.partition(" meets")[0])
    takes = [float(one.partition("with about ")[2].split()[0]) for one in sized[:2]]
    assert float(messages.split()[0]) == min(takes)
    assert next(step for step in steps if step.startswith("sizing")) == (
        "sizing 1 of 4: Laplace, reading clamp-and-ceil, 3 rounds"
    )


def test_the_printed_noise_is_the_certificate(made):
    for one in made[0].document.blocks[1].items:
        if "meets the target" not in one:
            continue
        start, _, less = one.partition("; ")
        kind, reading = getattr(pbdist, one.split()[0]), one.partition("reading ")[2].partition(")")[0]
        for text, bound, meets in ((start, start.rpartition(" ")[2], True), (less, less.rpartition(" ")[2], False)):
            mean, scale = (float(text.partition(f"{name} ")[2].split()[0].strip(",")) for name in ("mean", "scale"))
            pair = pbdist.NoisyCount(kind(scale), mean, 1, reading)
            found = pbdist.privacy_bounds(pair, compositions=3, epsilon=1.0)
            if meets:
                assert float(found.delta_lower.max()) <= float(bound) <= 0.01
            else:
                assert 0.01 < float(bound.rstrip(".")) <= float(found.delta_upper.max())


def test_published_noise_is_judged_under_each_reading(made):
    told = [one for block in made[0].document.blocks if isinstance(block, Bullets) for one in block.items]
    published = [one for one in told if one.startswith("Published")]
    first = "Published: today (Laplace noise, mean 60 and scale 6; all of it is an example): meets, δ is at most "
    assert published[0].startswith(first)
    assert float(published[0].removeprefix(first).rstrip(".")) <= 0.01
    assert len(published) == 2
    words = re.search(r": refuted under (.*), δ is at least (\S+); meets under shift-inside, δ is", published[1])
    assert words is None or float(words[2]) > 0.01
    assert any(isinstance(block, Picture) for block in made[0].document.blocks)


def test_a_second_report_sizes_and_draws_nothing_again(made, system, monkeypatch):
    report, sizes, _ = made

    def refuse(*_, **__):
        raise AssertionError("computed again")

    for name in ("size_system", "judge", "privacy_bounds"):
        monkeypatch.setattr(module, name, refuse)
    again = system_report(system, system.targets, tolerance=0.2, sizes=sizes)
    assert again.document.blocks[:3] == report.document.blocks[:3]
    assert "answers were found before and kept" in str(again.document.blocks)
    with pytest.raises(AssertionError, match="computed again"):
        system_report(system, [replace(system.targets[0], delta=0.02)], tolerance=0.2, sizes=sizes)


def test_answers_that_were_found_before_an_interrupt_are_kept(tmp_path):
    path = tmp_path / "sizes.json"
    kept = KeptAnswers(path)
    found = {"bound": 0.1, "least": float("-inf")}
    assert kept.answer({"q": 1}, lambda: found) == found
    with pytest.raises(KeyboardInterrupt):
        kept.answer({"q": 2}, interrupted)
    again = KeptAnswers(path)
    assert again.answer({"q": 1}, interrupted) == found
    assert again.reused == 1
    with pytest.raises(KeyboardInterrupt):
        again.answer({"q": 2}, interrupted)


def interrupted():
    raise KeyboardInterrupt


@pytest.mark.parametrize("change", [("0.1", "0.01"), ("sha256", "sha255")])
def test_a_damaged_answer_is_sought_again(tmp_path, change):
    path = tmp_path / "sizes.json"
    KeptAnswers(path).answer({"q": 1}, lambda: 0.1)
    path.write_text(path.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    assert KeptAnswers(path).answer({"q": 1}, lambda: 0.5) == 0.5


def test_answers_of_other_software_are_not_used(tmp_path, monkeypatch):
    path = tmp_path / "sizes.json"
    KeptAnswers(path).answer({"q": 1}, lambda: 0.1)
    monkeypatch.setattr("pbdist.report.pages.kept_answers.provenance", lambda: {"pbdist": "0"})
    assert KeptAnswers(path).answer({"q": 1}, lambda: 0.5) == 0.5


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"pbdist_answers": 2, "answers": {}})])
def test_a_file_of_somebody_else_is_refused(tmp_path, text):
    path = tmp_path / "notes.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="--sizes: expected a new file, or one that pbdist report has written"):
        KeptAnswers(path)
    assert path.read_text(encoding="utf-8") == text
    with pytest.raises(InvalidInputError, match="--sizes: expected a file in a folder that exists"):
        KeptAnswers(tmp_path / "none" / "sizes.json")


def test_a_target_without_an_answer_is_told():
    counting = find_system(load_systems(), "counting-gaussian")
    report = system_report(counting, [replace(counting.targets[0], epsilon=0.0, delta=1 - 1e-16)], drawn=False)
    assert not report.whole
    assert report.document.blocks[0].title == "Not every question has an answer"
    assert report.document.blocks[1].text == "No noise was found that meets (ε 0, δ 0.9999999999999999) after 1 round."
