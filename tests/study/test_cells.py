"""A table of cells is as the cells made one by one, whatever is asked of it."""

import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pbdist.mechanisms import Laplace
from pbdist.study import StudySpec, load_study, plan_study
from pbdist.study.columns import Block, CellTable, cell_columns, repeated_cells
from pbdist.study.plan import similar_cells
from pbdist.study.spec import missing_points
from pbdist.study.starter import shipped_study
from tests.studies import write_study
from tests.study.grids import cells_of_every_kind, every_kind


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudySpec:
    return every_kind(tmp_path_factory.mktemp("grids"))


CELLS = cells_of_every_kind()
SOME = np.random.default_rng(1).permutation(len(CELLS))[:50]
PARTS = [slice(None), slice(5, 40), slice(30, 3, -4), slice(-9, None), slice(7, 7), slice(None, None, -1), slice(5, 6)]


def table_of(study: StudySpec) -> CellTable:
    assert isinstance(study.cells, CellTable)
    return study.cells


def test_the_cells_are_in_the_promised_order(study: StudySpec) -> None:
    assert tuple(study.cells) == CELLS
    assert [study.cells[number] for number in range(len(CELLS))] == list(CELLS)
    assert study.cells[-1] == CELLS[-1]
    assert (study.cells, hash(study.cells)) == (CELLS, hash(CELLS))
    assert study.cells != CELLS[:-1]
    assert CELLS[7] in study.cells
    with pytest.raises(IndexError):
        study.cells[len(CELLS)]


@pytest.mark.parametrize("part", PARTS)
def test_a_slice_is_as_that_of_a_tuple(study: StudySpec, part: slice) -> None:
    found = study.cells[part]
    assert (tuple(found), found, len(found)) == (CELLS[part], CELLS[part], len(CELLS[part]))
    assert tuple(found[1:9:2]) == CELLS[part][1:9:2]
    assert found[::-1] == CELLS[part][::-1]
    # NaN is written as itself.
    assert repr(cell_columns(found)) == repr(cell_columns(CELLS[part]))
    assert replace(study, cells=found).cells_sha256 == replace(study, cells=CELLS[part]).cells_sha256


def test_digest_classes_and_labels_are_those_of_the_cells_made_one_by_one(study: StudySpec) -> None:
    whole = replace(study, cells=CELLS)
    assert (study.cells_sha256, study.digest) == (whole.cells_sha256, whole.digest)
    table, mixed = table_of(study), tuple(CELLS[number] for number in SOME)
    for lazy, made in ((table, CELLS), (table.taken(SOME), mixed)):
        assert lazy.sha256 == replace(study, cells=made).cells_sha256
        class_of, examples = similar_cells(lazy)
        expected, expected_examples = similar_cells(made)
        assert class_of.tolist() == expected.tolist()
        assert examples == expected_examples
        assert np.array_equal(lazy.hashes(), CellTable.of(made).hashes())
        assert lazy.labels() == {label: [c.label for c in made].count(label) for label in lazy.labels()}
    assert np.unique(table.hashes()).size == len(CELLS)
    assert np.flatnonzero(np.isin(table.hashes(), CellTable.of(mixed).hashes())).tolist() == sorted(SOME.tolist())


def test_pickled_cells_are_the_same(study: StudySpec) -> None:
    assert pickle.loads(pickle.dumps(study.cells)) == study.cells  # noqa: S301 -- our own bytes
    assert pickle.loads(pickle.dumps(study.cells[3:9])) == CELLS[3:9]  # noqa: S301


@pytest.mark.parametrize("name", ["almanac-dp-sgd-tenth", "sizing-counting-laplace"])
def test_large_studies_have_the_digests_and_classes_of_cells_made_one_by_one(name: str) -> None:
    # A plan is a function of the classes and their examples, the number of cells, and the other keys.
    study = load_study(shipped_study(name))
    made = replace(study, cells=tuple(study.cells))
    assert study.digest == made.digest
    class_of, examples = similar_cells(study.cells)
    expected, expected_examples = similar_cells(made.cells)
    assert np.array_equal(class_of, expected)
    assert examples == expected_examples


def test_what_a_study_lacks_is_the_same_whoever_made_its_cells(study: StudySpec) -> None:
    stored = replace(study, cells=CELLS[10:60], epsilon=(0.0,))
    parts = missing_points([stored], study)
    expected = missing_points([stored], replace(study, cells=CELLS))
    assert [part.digest for part in parts] == [part.digest for part in expected]
    assert sum(len(part.cells) for part in parts) == len(CELLS)


@pytest.mark.slow
def test_many_cells_take_little_memory(tmp_path: Path) -> None:
    scale = "{linspace: [20, 90, 2000]}"
    text = (
        "format: 1\nname: many\nmechanisms:\n"
        f"  - {{kind: Laplace, scale: {scale}, sensitivity: {{linspace: [1, 2, 2000]}}}}\n"
        f"  - {{kind: Gaussian, scale: {scale}, sensitivity: {{linspace: [1, 2, 500]}}}}\n"
        "compositions: 1\nepsilon: 1\nmethod: buckets\n"
    )
    tracemalloc.start()
    try:
        study = load_study(write_study(tmp_path, text))
        assert len(study.cells) == 5_000_000
        assert study.cells[4_321_000].describe() == "Gaussian(scale=42.48124062, sensitivity=1)"
        assert len(study.cells[1_000_000:3_000_000]) == 2_000_000
        # Codes of four bytes.
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_a_plan_is_that_of_the_cells_made_one_by_one(study: StudySpec) -> None:
    lazy, made = plan_study(study), plan_study(replace(study, cells=CELLS))
    assert lazy == made
    assert np.array_equal(lazy.cell_seconds, made.cell_seconds)


def laplaces(label: str, scales: tuple[float, ...], sensitivities: tuple[float, ...] = (1.0,)) -> Block:
    axes = {"scale": scales, "sensitivity": sensitivities}
    return Block.grid(Laplace(1.0), axes).labelled(label, (None, 1.5))


def test_the_first_repeated_cell_of_each_block_is_found() -> None:
    blocks = [
        laplaces("a", (2.0, 3.0), (1.0, 2.0)),
        laplaces("b", (2.0, 3.0)),
        laplaces("a", (5.0, 3.0, 2.0)),
        laplaces("b", (4.0,)),
        Block.listed([Laplace(7.0), Laplace(8.0), Laplace(7.0)]).labelled("a", (1.5,)),
        laplaces("c", (4.0, 4.0)),
    ]
    found = [(block, cell.pair, cell.factor, first) for block, cell, first in repeated_cells(CellTable(blocks))]
    assert found == [(2, Laplace(3.0), None, 0), (4, Laplace(7.0), 1.5, 4), (5, Laplace(4.0), None, 5)]
    assert not [*repeated_cells(CellTable(blocks[:2]))]
