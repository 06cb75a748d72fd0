"""The report of a system: its answer, its certificate, and published noise."""

import json
import re
import shlex
from dataclasses import replace

import pytest

import pbdist
from pbdist.cli import main
from pbdist.progress import heard_by
from pbdist.report.pages.document import Bullets, Command, Picture, Table
from pbdist.report.pages.system_report import system_report
from pbdist.rounding import rounded_up
from pbdist.sizing.systems import find_system, load_systems

pytestmark = pytest.mark.slow

SYSTEM = """\
format: 1
sources: {paper: "A paper, 2018"}
systems:
  - name: mine
    description: A count of messages.
    observation: {kind: counts, counts: [{shift: 1}], readings: [clamp-and-ceil, redraw-and-floor, shift-inside]}
    settings:
      - {name: today, noise: Laplace, mean: 60, scale: 6, compositions: 3, example: all of it}
      - {name: tomorrow, noise: Gaussian, mean: 10, scale: 2, compositions: 3, example: all of it}
    targets:
      - {compositions: 3, epsilon: 1, delta: 0.01, source: paper}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    path = tmp_path_factory.mktemp("systems") / "mine.yaml"
    path.write_text(SYSTEM, encoding="utf-8")
    return load_systems(path)[0]


@pytest.fixture(scope="module")
def made(system):
    steps = []
    with heard_by(lambda *_: None, lambda *part: steps.append(part)):
        return system_report(system, system.targets, tolerance=0.2), steps


def test_the_lead_is_the_noise_with_the_fewest_messages_under_the_own_reading(made):
    report, steps = made
    assert report.whole
    lead, details = report.blocks[:2]
    assert lead.lead
    sentence, _, rest = lead.text.partition(" and takes about ")
    assert sentence.endswith("(reading clamp-and-ceil) meets (ε 1, δ 0.01) after 3 rounds")
    fewest = (
        "messages a round, the fewest of the noises that were sized under this reading. 20 % less noise is refuted."
    )
    messages, _, end = rest.partition(" ")
    assert end == fewest
    assert [row[0] for row in details.rows] == [
        *sorted((f"{kind} clamp-and-ceil" for kind in ("Laplace", "Gaussian")), key=messages_of(details)),
        *sorted((f"{kind} redraw-and-floor" for kind in ("Laplace", "Gaussian")), key=messages_of(details)),
    ]
    assert sentence.startswith(details.rows[0][0].partition(" ")[0])
    takes = [messages_of(details)(row[0]) for row in details.rows[:2]]
    assert float(messages) == pytest.approx(min(takes), rel=0.01)
    assert [done for name, done, _ in steps if name == "size"] == [0, 1, 2, 3, 4]


def messages_of(details):
    """The messages of a row, by its name."""
    place = [column.head for column in details.columns].index("its messages")
    return lambda name: next(float(row[place]) for row in details.rows if row[0] == name)


def test_the_printed_noise_is_the_certificate(made):
    details = made[0].blocks[1]
    assert [column.head for column in details.columns] == [
        *(
            "family",
            "scale that meets",
            "mean that meets",
            "its messages",
            "δ upper",
            "refuted scale",
            "refuted mean",
            "δ lower",
        ),
    ]
    for family, scale, mean, _, upper, less, its_mean, lower in details.rows:
        kind, reading = family.split()
        for noise, bound, meets in (((scale, mean), upper, True), ((less, its_mean), lower, False)):
            pair = pbdist.NoisyCount(getattr(pbdist, kind)(float(noise[0])), float(noise[1]), 1, reading)
            found = pbdist.privacy_bounds(pair, compositions=3, epsilon=1.0)
            if meets:
                assert float(found.delta_lower.max()) <= float(bound) <= 0.01
            else:
                assert 0.01 < float(bound) <= float(found.delta_upper.max())


def test_published_noise_is_judged_under_each_reading(made):
    told = [one for block in made[0].blocks if isinstance(block, Bullets) for one in block.items]
    published = [one for one in told if one.startswith("Published")]
    first = "Published: today (Laplace noise, mean 60 and scale 6), all of it is an example: meets, δ is at most "
    assert published[0].startswith(first)
    assert float(published[0].removeprefix(first).rstrip(".")) <= 0.01
    assert len(published) == 2
    assert told[-2:] == ["Target (ε 1, δ 0.01) after 3 rounds: paper.", "Source paper: A paper, 2018"]
    words = re.search(r": refuted under (.*), δ is at least (\S+); meets under shift-inside, δ is", published[1])
    assert words is None or float(words[2]) > 0.01
    assert any(isinstance(block, Picture) for block in made[0].blocks)


def test_the_command_sizes_the_noise_of_the_answer_again(made, tmp_path, capsys):
    report, _ = made
    (again,) = (block.text for block in report.blocks if isinstance(block, Command))
    path = tmp_path / "mine.yaml"
    path.write_text(SYSTEM, encoding="utf-8")
    assert main([*shlex.split(again)[1:], "--systems", str(path), "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    best = report.blocks[1].rows[0]
    assert f"noise={best[0].split()[0]}(" in answer["setting"]
    assert (rounded_up(answer["scale"]), rounded_up(answer["mean"])) == (best[1], best[2])


def test_the_appendix_explains_all_noise(made):
    (section,) = (blocks for title, blocks in made[0].appendix if title == "What was studied")
    meanings = dict(next(block for block in section if isinstance(block, Table)).rows)
    assert "e^(-|x| / b) / (2 b), in counts (Laplace)" in meanings["scale"]
    assert "the standard deviation of the noise, in counts (Gaussian)" in meanings["scale"]


def test_a_target_without_an_answer_is_told():
    counting = find_system("counting-gaussian")
    report = system_report(counting, [replace(counting.targets[0], epsilon=0.0, delta=1 - 1e-16)], drawn=False)
    assert not report.whole
    assert report.blocks[0].title == "Not every question has an answer"
    assert report.blocks[1].text == "No noise was found that meets (ε 0, δ 0.9999999999999999) after 1 round."
