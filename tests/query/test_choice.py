"""A question that names no mechanism is answered where the store leaves no choice, and else refused with the choice."""

import json
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.query import Study, open_study
from pbdist.query.status import only_mechanism
from tests.studies import Finished

#: Computed in no time.
COARSE = "method: buckets\nbuckets: 10\ncompositions: [4]\nepsilon: [0, 0.5]\n"
POINT = ("--compositions", "4", "--epsilon", "0.25")


@pytest.fixture
def study(tiny_store: Path) -> Study:
    return open_study(tiny_store)


@pytest.mark.parametrize(
    ("noise", "label"),
    [
        ({"p": [0.6]}, "RandomizedResponse"),
        ({"kind": ["Laplace"]}, "Laplace"),
        ({"kind": ["NoisyCount"]}, "clipped"),
        ({"reading": ["clamp-and-ceil"]}, "clipped"),
        ({"mean": [20.0]}, "clipped"),
        ({"sensitivity": [1.0]}, "Laplace"),
        # Both have a scale, but not these.
        ({"scale": [3.0, 5.0]}, "Laplace"),
    ],
)
def test_one_label_alone_can_answer(study: Study, noise: dict[str, list[object]], label: str) -> None:
    assert only_mechanism(study, noise) == label


@pytest.mark.parametrize(
    ("noise", "named"),
    [
        ({}, ["Laplace", "RandomizedResponse", "clipped"]),
        # Both have that scale.
        ({"scale": [2.0]}, ["Laplace", "clipped"]),
        ({"scale": [4.0, 2.0]}, ["Laplace", "clipped"]),
        ({"noise": ["Laplace"]}, ["Laplace", "clipped"]),
        # None has that scale.
        ({"scale": [1.0]}, ["Laplace", "clipped"]),
    ],
)
def test_a_choice_is_left_to_the_user(study: Study, noise: dict[str, list[object]], named: list[str]) -> None:
    with pytest.raises(InvalidInputError, match=r"^--mechanism: expected a label of the store") as caught:
        only_mechanism(study, noise)
    text = str(caught.value)
    assert [label for label in ("Laplace", "RandomizedResponse", "clipped") if f"{label!r} (" in text] == named
    if "Laplace" in named:
        assert "'Laplace' (kind Laplace; noise Laplace; scale 2, 3, 5; sensitivity 1)" in text


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ({"rate": [0.1]}, "rate: expected no value, as no such setting has one, got 0.1"),
        ({"reading": ["foo"]}, "reading: expected one of clamp-and-ceil, none, got foo"),
        ({"noise": ["Laplce"]}, "noise: expected .*, got Laplce: did you mean Laplace"),
        ({"kind": ["RandomizedResponse"], "noise": ["Laplace"]}, "noise: expected no value, .*, got Laplace"),
    ],
)
def test_what_no_setting_has_is_refused_by_its_name(study: Study, noise: dict[str, list[object]], words: str) -> None:
    with pytest.raises(OffGridError, match=f"^{words}"):
        only_mechanism(study, noise)


@pytest.mark.slow
def test_many_labels_are_counted(finished_store: Finished) -> None:
    labels = "".join(f"  - {{label: l{n}, kind: RandomizedResponse, p: 0.{n}}}\n" for n in range(51, 60))
    text = f"format: 1\nname: many\nmechanisms:\n{labels}{COARSE}"
    with pytest.raises(InvalidInputError, match=r"'l58' \(kind RandomizedResponse; p 0\.58\), \.\. \(9 in all\)$"):
        only_mechanism(open_study(finished_store(text)), {})


@pytest.mark.slow
def test_on_the_command_line(tiny_store: Path, finished_store: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    def asked(store: Path, *options: str) -> tuple[int, str, str]:
        code = main(["query", str(store), *options, *POINT])
        return (code, *capsys.readouterr())

    named = asked(tiny_store, "--mechanism", "Laplace", "--scale", "3", "--json")
    assert asked(tiny_store, "--scale", "3", "--json") == named
    code, out, err = asked(tiny_store, "--scale", "2")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("pbdist: error: --mechanism: expected a label of the store, got none: it may be 'Laplace'")
    # With one label alone its own errors are told.
    alone = finished_store(f"format: 1\nname: one\nmechanisms:\n  - {{kind: Laplace, scale: [3, 5]}}\n{COARSE}")
    assert (
        json.loads(asked(alone, "--scale", "5", "--json")[1])["answers"][0]["setting"]
        == "Laplace(scale=5, sensitivity=1)"
    )
    assert "also give scale (3, 5)" in asked(alone)[2]
    # It is said for what the answer is.
    assert asked(tiny_store, "--scale", "3")[1].startswith("Laplace(scale=3, sensitivity=1)\n")
