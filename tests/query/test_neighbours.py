"""What is told of neighbours in words, and on the command line."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pbdist import Gaussian, InvalidInputError, SubsampledGaussian, size
from pbdist.cli import main
from pbdist.mechanisms import Adjacency
from pbdist.query import open_study
from pbdist.query.noise_choice import noise_choices, target_sheet
from pbdist.query.settings import neighbours_text, neighbours_words

ADDED, SWAPPED, OPEN = Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE_ONE, Adjacency.AS_STATED
STUDY = """\
format: 1
name: sides
mechanisms:
  - {kind: Laplace, scale: [2, 3], adjacency: replace-one}
  - {kind: SubsampledGaussian, scale: [2, 3], rate: 0.1}
  - {kind: Gaussian, scale: [2, 3]}
method: buckets
buckets: 100
compositions: [1, 4]
epsilon: [0.1, 0.5]
"""


@pytest.fixture(scope="module")
def store(finished_store: Callable[[str], Path]) -> Path:
    return finished_store(STUDY)


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_one_relation_is_told_once_and_different_ones_by_label() -> None:
    assert neighbours_text({"x": ADDED, "y": ADDED}) == "add-or-remove"
    assert neighbours_text({"x": ADDED, "y": OPEN}) == "x: add-or-remove; y: as-stated"
    assert neighbours_words([("x", ADDED), ("y", ADDED), ("x", ADDED)]) == "neighbours: one record added or removed"
    assert neighbours_words([("x", ADDED), ("y", OPEN), ("z", ADDED)]) == (
        "neighbours: x, z: one record added or removed; y: as assumed by the given parameters"
    )
    assert neighbours_words([("x", ADDED), ("y", SWAPPED)]) == (
        "neighbours differ, so that bounds do not compare: x: one record added or removed; y: one record replaced"
    )


QUESTIONS: dict[str, tuple[str, ...]] = {
    "delta": ("--compositions", "1", "4", "--epsilon", "0.5"),
    "epsilon": ("--compositions", "4", "--delta", "0.3"),
    "compositions": ("--epsilon", "0.5", "--delta", "0.9"),
}


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_answer_says_it(store: Path, question: str, capsys: pytest.CaptureFixture[str]) -> None:
    for label, relation in (("Laplace", SWAPPED), ("SubsampledGaussian", ADDED), ("Gaussian", OPEN)):
        words: tuple[Any, ...] = ("query", store, "--mechanism", label, "--scale", "2", "3", *QUESTIONS[question])
        assert f"\nneighbours: {relation.in_words}\n" in asked(capsys, *words)
        assert json.loads(asked(capsys, *words, "--json"))["adjacency"] == relation.value
        rows = list(csv.DictReader(io.StringIO(asked(capsys, *words, "--format", "csv"))))
        assert {row["adjacency"] for row in rows} == {relation.value}


@pytest.mark.parametrize("epsilon", ["0.5", "0.3"])
def test_a_single_point_says_it_stored_or_between(
    store: Path, epsilon: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("query", store, "--mechanism", "Laplace", "--scale", "2", "--compositions", "4", "--epsilon", epsilon)
    assert "\nneighbours: one record replaced\n" in asked(capsys, *words)
    assert json.loads(asked(capsys, *words, "--json"))["adjacency"] == "replace-one"


def test_what_a_store_holds_is_listed_with_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = open_study(store).contents()
    assert [(one.label, one.adjacency) for one in held.mechanisms] == [
        ("Laplace", SWAPPED),
        ("SubsampledGaussian", ADDED),
        ("Gaussian", OPEN),
    ]
    assert [one["adjacency"] for one in json.loads(asked(capsys, "query", store, "--json"))["mechanisms"]] == [
        "replace-one",
        "add-or-remove",
        "as-stated",
    ]
    assert "one record replaced" in asked(capsys, "query", store)


def test_choices_of_noise_say_for_whom_each_is(store: Path) -> None:
    choices = noise_choices(open_study(store), compositions=4, epsilon=0.5, delta=0.1)
    assert {choice.label: choice.adjacency for choice in choices} == {
        "Laplace": SWAPPED,
        "SubsampledGaussian": ADDED,
        "Gaussian": OPEN,
    }


def test_verdicts_on_a_target_say_that_they_do_not_compare(store: Path) -> None:
    told = str(target_sheet(open_study(store), compositions=4, epsilon=0.5, delta=0.1))
    assert "\nneighbours differ, so that bounds do not compare: Laplace: one record replaced; " in told


def test_a_target_names_one_mechanism_and_its_neighbours_once(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("query", store, "--compositions", "4", "--epsilon", "0.5", "--delta", "0.1", "--json")
    target = {"compositions": 4, "epsilon": 0.5, "delta": 0.1}
    alone = json.loads(asked(capsys, *words, "--mechanism", "Laplace"))
    (answer,) = alone.pop("answers")
    assert alone == {"mechanism": "Laplace", **target, "adjacency": "replace-one"}
    several = json.loads(asked(capsys, *words))
    assert {name: value for name, value in several.items() if name != "answers"} == target
    assert [(one["mechanism"], one["adjacency"]) for one in several["answers"]] == [
        ("Laplace", "replace-one"),
        ("SubsampledGaussian", "add-or-remove"),
        ("Gaussian", "as-stated"),
    ]
    assert several["answers"][0] == {"mechanism": "Laplace", **answer, "adjacency": "replace-one"}


GOAL: dict[str, Any] = {"compositions": 4, "epsilon": 1.0, "delta": 1e-3}


def test_sized_noise_says_it_and_refuses_what_contradicts_it_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert size(SubsampledGaussian, rate=0.1, **GOAL).adjacency is ADDED
    assert size(Gaussian, **GOAL).adjacency is OPEN
    assert size(Gaussian, adjacency="zero-out", **GOAL).adjacency is Adjacency.ZERO_OUT

    def worked(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("pbdist.sizing.api.smallest_scale", worked)
    with pytest.raises(InvalidInputError, match=r"^adjacency: expected add-or-remove, as SubsampledGaussian is"):
        size(SubsampledGaussian, rate=0.1, adjacency="replace-one", **GOAL)
    with pytest.raises(InvalidInputError, match=r"^adjacency: expected one of add-or-remove"):
        size(Gaussian, adjacency="any", **GOAL)


def test_sizes_on_the_command_line_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("size", "--family", "Gaussian", "--compositions", "4", "--epsilon", "1", "--delta", "1e-3")
    told = (*words, "--adjacency", "replace-one")
    assert "\nneighbours: one record replaced\n" in asked(capsys, *told)
    assert json.loads(asked(capsys, *told, "--json"))["adjacency"] == "replace-one"
    (row,) = csv.DictReader(io.StringIO(asked(capsys, *told, "--format", "csv")))
    assert row["adjacency"] == "replace-one"
    assert "\nneighbours: as assumed by the given parameters\n" in asked(capsys, *words)
    assert main([*words, "--adjacency", "both"]) == 2
    assert (
        "adjacency: expected one of add-or-remove, add-or-remove-group, replace-one, zero-out"
        in capsys.readouterr().err
    )
