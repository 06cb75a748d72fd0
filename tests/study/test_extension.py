"""What a larger study has that stored ones lack."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from pbdist.errors import StoreMismatchError
from pbdist.mechanisms import Laplace
from pbdist.study import Cell, StudySpec
from pbdist.study.spec import missing_parts, union_of

CELLS = tuple(Cell("L", Laplace(float(scale)), None) for scale in range(2, 9))
WHOLE = StudySpec("s", CELLS, "tight", 0.01, None, (1, 2, 4, 8), (0.0, 0.5, 1.0))


def part_of(study: StudySpec, cells: range, compositions: range, epsilon: range) -> StudySpec:
    return replace(
        study,
        cells=tuple(study.cells[i] for i in cells),
        compositions=tuple(study.compositions[i] for i in compositions),
        epsilon=tuple(study.epsilon[i] for i in epsilon),
    )


def points(study: StudySpec) -> Counter[tuple[Cell, int, float]]:
    return Counter((cell, r, e) for cell in study.cells for r in study.compositions for e in study.epsilon)


def test_new_cells_r_and_epsilon_become_three_parts() -> None:
    stored = part_of(WHOLE, range(4), range(2), range(2))
    parts = missing_parts([stored], WHOLE)
    assert [(len(part.cells), part.compositions, part.epsilon) for part in parts] == [
        (4, (1, 2), (1.0,)),
        (4, (4, 8), (0.0, 0.5, 1.0)),
        (3, (1, 2, 4, 8), (0.0, 0.5, 1.0)),
    ]
    assert union_of([stored, *parts]).digest == WHOLE.digest
    assert missing_parts([stored, *parts], WHOLE) == ()
    assert missing_parts([stored, *parts], stored) == ()


@pytest.mark.slow
def test_whatever_is_stored_the_parts_are_exactly_what_is_missing() -> None:
    generator = random.Random(1)  # noqa: S311 -- no secret

    def some(size: int) -> range:
        first = generator.randrange(size)
        return range(first, generator.randrange(first, size) + 1)

    for _ in range(200):
        stored = [part_of(WHOLE, some(7), some(4), some(3)) for _ in range(generator.randrange(1, 4))]
        missing = sum((points(part) for part in missing_parts(stored, WHOLE)), Counter[tuple[Cell, int, float]]())
        assert missing == points(WHOLE) - sum(map(points, stored), Counter[tuple[Cell, int, float]]())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tolerance": 0.02}, "tolerance: expected 0.01 as in the store, got 0.02"),
        ({"keep_states": True}, "keep_states: expected False"),
        ({"method": "buckets", "tolerance": None, "buckets": 100}, "method: expected 'tight'"),
        (
            {"cells": CELLS[1:3], "epsilon": (0.0, 2.0)},
            "noise setting: the store holds L.scale=2, sensitivity=1. and",
        ),
        ({"compositions": (1, 2, 3)}, "compositions: the store holds 4 and 1 more"),
        ({"epsilon": (0.0, 2.0)}, "epsilon: the store holds 0.5 and 1 more"),
    ],
)
def test_what_is_no_extension_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(StoreMismatchError, match=words):
        missing_parts([WHOLE], replace(WHOLE, **change))  # type: ignore[arg-type]
