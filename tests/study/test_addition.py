"""Files that hold only what is new in a store."""

from dataclasses import replace
from pathlib import Path

import pytest

from pbdist.errors import StoreMismatchError, StudyFileError
from pbdist.mechanisms import Gaussian, Laplace
from pbdist.study import Cell, StudySpec, load_study
from pbdist.study.load import Addition, load_asked
from pbdist.study.spec import missing_points
from tests.studies import write_study

HEAD = "format: 1\nname: s\nextend: true\n"
STORED = StudySpec(
    "s",
    tuple(Cell("Laplace", Laplace(scale), None) for scale in (2.0, 3.0)),
    "tight",
    0.01,
    None,
    (1, 4),
    (0.0, 0.5),
    floor=0.0,
    direction="both",
)


def addition(tmp_path: Path, text: str) -> Addition:
    found = load_asked(write_study(tmp_path, HEAD + text))
    assert isinstance(found, Addition)
    return found


@pytest.mark.parametrize(
    ("text", "cells", "compositions", "epsilon"),
    [
        ("mechanisms:\n  - {kind: Gaussian, scale: [4, 5]}\n", 2, (1, 4), (0.0, 0.5)),
        ("compositions: [8, 2]\n", 2, (2, 8), (0.0, 0.5)),
        ("epsilon: 1\ntolerance: 0.01\nfloor: 0\n", 2, (1, 4), (1.0,)),
        ("mechanisms:\n  - {kind: Laplace, scale: 2}\nexp_epsilon: [1, 2]\n", 1, (1, 4), (0.0, 0.6931471805599453)),
        ("targets:\n  - {epsilon: 2, delta: 0.1, compositions: 1}\n", 2, (1, 4), (0.0, 0.5, 2.0)),
        ("epsilon: 3\ntargets:\n  - {epsilon: 2, delta: 0.1, compositions: 7}\n", 2, (1, 4, 7), (2.0, 3.0)),
    ],
)
def test_what_a_file_does_not_name_is_as_in_the_store(
    tmp_path: Path, text: str, cells: int, compositions: tuple[int, ...], epsilon: tuple[float, ...]
) -> None:
    added = addition(tmp_path, text)
    study = added.onto([STORED])
    assert (len(study.cells), study.compositions, study.epsilon) == (cells, compositions, epsilon)
    assert replace(study, name="s", cells=STORED.cells, compositions=(1, 4), epsilon=(0.0, 0.5), targets=()) == replace(
        STORED, target_compositions=study.target_compositions, target_epsilon=study.target_epsilon
    )
    # Disjoint parts with exactly the new points; afterwards the file adds nothing.
    parts = missing_points([STORED], study)

    def points(*studies: StudySpec) -> set[tuple[Cell, int, float]]:
        return {(cell, r, e) for one in studies for cell in one.cells for r in one.compositions for e in one.epsilon}

    assert points(*parts) == points(study) - points(STORED)
    assert sum(len(points(part)) for part in parts) == len(points(*parts))
    assert missing_points([STORED, *parts], added.onto([STORED, *parts])) == ()


def test_all_parts_of_a_store_count(tmp_path: Path) -> None:
    other = replace(STORED, cells=(Cell("Gaussian", Gaussian(4.0), None),), compositions=(8,), epsilon=(2.0,))
    study = addition(tmp_path, "epsilon: 3\n").onto([STORED, other])
    assert (tuple(study.cells), study.compositions) == ((*STORED.cells, *other.cells), (1, 4, 8))


GAUSSIAN = "mechanisms:\n  - {kind: Gaussian, scale: 4}\n"


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        ("epsilon: 3\ntolerance: 0.1\n", {}, "tolerance: expected 0.01 as in the store, got 0.1"),
        ("epsilon: 3\nmethod: buckets\n", {}, "method: expected 'tight' as in the store, got 'buckets'"),
        ("epsilon: 3\nbuckets: 10\n", {}, "buckets: expected None as in the store, got 10"),
        ("epsilon: 3\ndirection: each\n", {}, "direction: expected 'both' as in the store, got 'each'"),
        ("epsilon: 3\nfloor: 0.5\n", {}, "floor: expected 0.0 as in the store, got 0.5"),
        ("epsilon: 3\nkeep_states: true\n", {}, "keep_states: expected False as in the store, got True"),
        ("epsilon: 3\nkeep_states: false\n", {"keep_states": True}, "keep_states: expected True as in the store"),
        (f"{GAUSSIAN}factors: [auto, 1.5]\n", {"buckets": 100}, "factors: expected auto in a store .* got a number"),
        (
            "mechanisms:\n  - {kind: ReleasePlan, granularity: unbounded, analyses:"
            " [{name: a, pair: {kind: Laplace, scale: 9}}]}\n",
            {"keep_states": True},
            r"keep_states: expected false with a ReleasePlan, as mechanisms\[0\] is, got true in the store",
        ),
    ],
)
def test_other_settings_than_those_of_the_store_are_refused(
    tmp_path: Path, text: str, change: dict[str, object], words: str
) -> None:
    with pytest.raises(StoreMismatchError, match=words):
        addition(tmp_path, text).onto([replace(STORED, **change)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 3, "extend: expected mechanisms, compositions, epsilon or targets beside true, got none"),
        ("epsilon: 3\nexp_epsilon: 3\n", 4, "epsilon: expected exactly one of"),
        ("epsilon: 3\nfactors: 1.5\n", 5, "factors: expected mechanisms beside it, got none"),
        ("mechanisms: []\n", 4, "mechanisms: expected a list of mechanisms, got []"),
        ("mechanisms:\n  - {kind: Laplace, scale: -1}\n", 5, "mechanisms[0].scale: expected a number above 0"),
        ("epsilons: 3\ncompositions: 1\n", 4, "epsilons: expected one of format, name, description"),
        ("compositions: 0\n", 4, "compositions: expected an integer from 1 to 2^62, got 0"),
        ("epsilon: 1\ntargets:\n  - {epsilon: 1, delta: 2, compositions: 1}\n", 6, "targets[0].delta: expected"),
    ],
)
def test_what_is_wrong_with_the_file_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write_study(tmp_path, HEAD + text)
    with pytest.raises(StudyFileError) as caught:
        load_asked(path)
    assert f"{path}:{line}: {words}" in "\n".join(map(str, [caught.value, *caught.value.problems]))


def test_only_a_file_that_extends_is_no_study_by_itself(tmp_path: Path) -> None:
    whole = f"{GAUSSIAN}compositions: 1\nepsilon: 1\n"
    path = write_study(tmp_path, HEAD + whole)
    with pytest.raises(StudyFileError, match=f"{path}:3: extend: expected a study by itself, got true"):
        load_study(path)
    plain = HEAD.replace("true", "false") + whole
    assert load_study(write_study(tmp_path, plain)) == load_asked(write_study(tmp_path, plain))
    with pytest.raises(StudyFileError, match="extend: expected true or false, got 1"):
        load_asked(write_study(tmp_path, HEAD.replace("true", "1") + whole))
