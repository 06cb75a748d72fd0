"""The floor and the direction of a study, and which bounds meet its tolerance."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pbdist.errors import StoreMismatchError, StudyFileError
from pbdist.rounding import exponential
from pbdist.store.batches import within_tolerance
from pbdist.study import StudySpec, load_study
from pbdist.study.spec import missing_parts
from tests.studies import write_study

TEXT = """\
format: 1
name: s
mechanisms:
  - {kind: Laplace, scale: 2}
compositions: [1, 2]
epsilon: [0, 0.5]
"""


def study(tmp_path: Path, tail: str = "") -> StudySpec:
    return load_study(write_study(tmp_path, TEXT + tail))


def test_what_is_not_said_is_the_default(tmp_path: Path) -> None:
    def promise(tail: str) -> tuple[float, str]:
        spec = study(tmp_path, tail)
        return spec.floor, spec.direction

    assert promise("") == (1e-40, "both")
    assert promise("floor: 0\n") == (0.0, "both")
    assert promise("floor: 1e-9\ndirection: each\n") == (1e-9, "each")
    assert promise("direction: both\nfactors: [auto, 1.5]\n") == (1e-40, "both")
    # Where no tolerance is aimed at there is nothing to be said.
    for tail in ("method: buckets\n", "buckets: 1000\n", "factors: [1.5, 1.25]\n"):
        assert promise(tail) == (1e-40, "each")


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ("floor: -1e-9", "floor: expected a number from 0 to below 1, got -1e-9"),
        ("floor: 1", "floor: expected a number from 0 to below 1, got 1"),
        ("floor: .nan", "floor: expected a finite number, got nan"),
        ("floor: low", "floor: expected a number, got 'low'"),
        ("floor: true", "floor: expected a number, got True"),
        ("direction: A||B", "direction: expected one of both, each, got 'A||B'"),
        ("direction: [both]", "direction: expected one of both, each, got ['both']"),
        ("method: buckets\nfloor: 0", "floor: expected none with method buckets, got 0.0"),
        ("method: buckets\ndirection: each", "direction: expected none with method buckets, got 'each'"),
        ("buckets: 1000\ndirection: both", "direction: expected none with buckets, got 'both'"),
        ("factors: 1.5\nfloor: 0", "floor: expected none with factors alone, got 0.0"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name_and_line(tmp_path: Path, tail: str, words: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        study(tmp_path, f"{tail}\n")
    line = 6 + len(tail.splitlines())
    assert str(caught.value).endswith(f"study.yaml:{line}: {words}")


def test_each_of_them_is_part_of_the_digest(tmp_path: Path) -> None:
    tails = ["", "direction: each\n", "floor: 0\n", "floor: 0\ndirection: each\n"]
    specs = [study(tmp_path, tail) for tail in tails]
    assert len({spec.digest for spec in specs}) == 4
    for spec in specs:
        assert StudySpec.from_head(spec.head(), spec.cells, name="s") == spec
    assert study(tmp_path, "floor: 1e-40\ndirection: both\n").digest == specs[0].digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"direction": "both"}, "direction: expected 'each' as in the store, got 'both'"),
        ({"floor": 0.0}, "floor: expected 1e-40 as in the store, got 0.0"),
    ],
)
def test_a_store_is_not_extended_by_another_promise(tmp_path: Path, change: dict[str, object], words: str) -> None:
    stored = study(tmp_path, "direction: each\n")
    larger = replace(stored, compositions=(1, 2, 4))
    assert [part.direction for part in missing_parts([stored], larger)] == ["each"]
    with pytest.raises(StoreMismatchError) as caught:
        missing_parts([stored], replace(larger, **change))  # type: ignore[arg-type]
    assert str(caught.value) == words


def test_the_larger_direction_is_judged_or_each(tmp_path: Path) -> None:
    # A||B is large and close; B||A is a tenth of it and wide.
    lower = np.log([[[1e-3, 1e-60]], [[1e-5, 1e-61]]])
    upper = np.log([[[1.0005e-3, 1e-50]], [[1e-4, 1e-50]]])
    within = {
        name: within_tolerance(study(tmp_path, f"direction: {name}\n"), lower, upper) for name in ("both", "each")
    }
    assert within["both"].tolist() == [[[True, True]], [[True, True]]]
    assert within["each"].tolist() == [[[True, True]], [[False, True]]]
    deep = within_tolerance(study(tmp_path, "floor: 0\n"), lower, upper)
    assert deep.tolist() == [[[True, False]], [[True, False]]]
    assert not within_tolerance(study(tmp_path, "buckets: 1000\n"), lower, upper).any()
    unknown = np.full_like(lower, np.nan)
    assert not within_tolerance(study(tmp_path), unknown, unknown).any()


def test_exponential_gives_back_what_a_person_writes() -> None:
    for value in (1.0, 1.1, 1.5, 2.0, 2.5, 3.7, 10.0, 100.0):
        assert exponential(math.log(value)) == value
    assert exponential(0.1) == math.exp(0.1)
    assert exponential(800.0) == math.inf
