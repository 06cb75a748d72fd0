"""Figure files: what they mean, and what is said of wrong ones."""

import math

import pytest

from pbdist import Gaussian, Laplace, StudyFileError
from pbdist.report.figures import load_figure

PLAIN = """\
format: 1
name: example
title: An example
caption: What it shows.
source: nowhere
shows: delta
over: {exp_epsilon: [1, 2]}
compositions: 4
panels:
  - curves:
      - {label: ours, mechanism: {kind: Gaussian, scale: 3}}
"""


def written(folder, text):
    path = folder / "figure.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_study_has_each_pair_once_and_the_grid_of_the_axis(tmp_path):
    text = PLAIN + "      - {label: again, mechanism: {kind: Gaussian, scale: 3}}\n"
    figure = load_figure(written(tmp_path, text))
    assert [cell.pair for cell in figure.study.cells] == [Gaussian(3.0)]
    assert figure.study.epsilon == (0.0, math.log(2.0))
    assert figure.study.compositions == (4,)


def test_a_panel_is_made_for_each_choice(tmp_path):
    text = PLAIN.replace(
        "  - curves:\n      - {label: ours, mechanism: {kind: Gaussian, scale: 3}}\n",
        """\
  - title: noise $scale of $kind
    for_each: {kind: [Laplace, Gaussian], scale: [3, 5]}
    curves:
      - {label: "$kind", mechanism: {kind: $kind, scale: $scale}}
""",
    )
    figure = load_figure(written(tmp_path, text))
    found = [(panel.title, panel.curves[0].label, panel.curves[0].pair) for panel in figure.panels]
    assert found == [
        ("noise 3 of Laplace", "Laplace", Laplace(3.0)),
        ("noise 5 of Laplace", "Laplace", Laplace(5.0)),
        ("noise 3 of Gaussian", "Gaussian", Gaussian(3.0)),
        ("noise 5 of Gaussian", "Gaussian", Gaussian(5.0)),
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("format: 1", "format: 2", "figure.yaml:1: format: expected 1, got 2"),
        ("shows: delta", "shows: gamma", "figure.yaml:6: shows: expected one of delta, epsilon"),
        ("over: {exp_epsilon: [1, 2]}", "over: {order: [2]}", "figure.yaml:7: over: expected one of epsilon, exp_"),
        ("over: {exp_epsilon: [1, 2]}", "over: {exp_epsilon: [0.5, 2]}", "expected numbers of at least 1, got 0.5"),
        ("over: {exp_epsilon: [1, 2]}", "over: {compositions: [1, 2]}", "expected a promise that tells ε at each r"),
        ("scale: 3", "scale: -3", "figure.yaml:11: panels[0].curves[0].mechanism.scale: expected"),
        ("scale: 3", "scale: [3, 4]", "mechanism: expected one noise setting, got 2"),
        ("scale: 3", "scael: 3", "mechanism.scael: expected one of"),
        ("label: ours, mech", "label: ours, theorem: koh, mech", "theorem: expected one of naive, adaptive"),
        ("label: ours, mechanism: {kind: Gaussian, scale: 3}", "label: ours", "expected a mechanism or a promise, got"),
        ("compositions: 4", "compositions: 0", "compositions: expected an integer from 1 to 2^62, got 0"),
        ("compositions: 4", "colour: red", "figure.yaml:8: colour: expected one of"),
        ("compositions: 4", "tolerance: 2", "tolerance: expected a number from 1e-09 to 1, got 2"),
        ("compositions: 4", "method: buckets\nfloor: 1e-3", "floor: expected none with method buckets"),
        ("compositions: 4", "buckets: 100", "buckets: expected none with method tight"),
        ("name: example", "name: ../example", "name: expected letters, digits"),
        ("  - curves:\n      - {label: ours, mechanism: {kind: Gaussian, scale: 3}}\n", "  []\n", "at least one panel"),
    ],
)
def test_wrong_files_are_told(tmp_path, old, new, problem):
    assert old in PLAIN
    with pytest.raises(StudyFileError) as told:
        load_figure(written(tmp_path, PLAIN.replace(old, new)))
    assert problem in str(told.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("label: ours", "label: _ours", "label: expected printable text"),
        ("label: ours", 'label: "a\\x01b"', "label: expected printable text"),
        ("label: ours, mech", "label: ours, delta: 1e-3, mech", "expected no δ where delta is shown"),
        ("label: ours, mech", "label: ours, from_states: true, mech", "expected no from_states where delta is shown"),
        ("label: ours, mech", "label: ours, theorem: kov, from_states: true, mech", "expected none beside a theorem"),
        ("compositions: 4", "compositions: 99999999999999999999", "compositions: expected an integer from 1 to 2^62"),
        ("{exp_epsilon: [1, 2]}", "{exp_epsilon: [1, 1.0e+308]}", "expected numbers of at most 1e+150"),
        ("compositions: 4", "matching: {protocol: dialing, mean: 8, scale: 5}", "expected none over exp_epsilon"),
        ("  - curves", "  - for_each: {s: []}\n    curves", "for_each.s: expected at least one choice"),
        ("  - curves", "  - for_each: {s: [1]}\n    curves", "expected a name that the panel uses as $s, got s"),
        ("label: ours", "label: $other", "expected names that for_each lists, got $other"),
        (
            "label: ours, mechanism: {kind: Gaussian, scale: 3}",
            "label: ours, promise: {protocol: dialing, mean: 8000, scale: 1.0e-3}",
            "promise.scale: expected a scale that promises a finite ε",
        ),
    ],
)
def test_what_could_not_be_drawn_is_told(tmp_path, old, new, problem):
    assert old in PLAIN
    with pytest.raises(StudyFileError) as told:
        load_figure(written(tmp_path, PLAIN.replace(old, new)))
    assert problem in str(told.value)


def test_two_ways_to_tell_delta_are_refused(tmp_path):
    text = PLAIN.replace("shows: delta", "shows: epsilon").replace("{exp_epsilon: [1, 2]}", "{compositions: [1, 4]}")
    text = text.replace("compositions: 4", "delta: 1e-4\nmatching: {protocol: dialing, mean: 8000, scale: 500}")
    with pytest.raises(StudyFileError, match="matching: expected either δ or a promise that tells it, got both"):
        load_figure(written(tmp_path, text))


def test_the_longest_name_is_filled_in(tmp_path):
    panel = "  - title: $s and $scale\n    for_each: {s: [1, 2], scale: [100, 200]}\n    curves"
    text = PLAIN.replace("  - curves", panel).replace("scale: 3", "scale: $scale")
    figure = load_figure(written(tmp_path, text))
    assert [panel.title for panel in figure.panels] == ["1 and 100", "1 and 200", "2 and 100", "2 and 200"]
    assert [panel.curves[0].pair for panel in figure.panels] == [Gaussian(100.0), Gaussian(200.0)] * 2


def test_panels_of_one_title_are_refused(tmp_path):
    text = PLAIN + "  - curves:\n      - {label: ours, mechanism: {kind: Gaussian, scale: 4}}\n"
    with pytest.raises(StudyFileError, match="panels: expected a title of its own for each panel"):
        load_figure(written(tmp_path, text))


def test_labels_are_told_apart(tmp_path):
    text = PLAIN + "      - {label: ours, mechanism: {kind: Gaussian, scale: 4}}\n"
    with pytest.raises(StudyFileError, match=r"curves\[1\].label: expected each label once"):
        load_figure(written(tmp_path, text))


def test_figures_of_too_many_panels_are_refused(tmp_path):
    text = PLAIN.replace("  - curves", "  - for_each: {x: {linspace: [1, 2, 30]}}\n    curves")
    with pytest.raises(StudyFileError, match="for_each"):
        load_figure(written(tmp_path, text))
    many = ", ".join(map(str, range(1, 31)))
    text = PLAIN.replace("  - curves", f"  - title: $x\n    for_each: {{x: [{many}]}}\n    curves")
    with pytest.raises(StudyFileError, match="at most 24 panels"):
        load_figure(written(tmp_path, text))
