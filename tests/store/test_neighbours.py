"""A store says for which neighbours its bounds are: what its study states, and else what its pairs say."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr

from pbdist.cli import main
from pbdist.errors import StoreMismatchError
from pbdist.mechanisms import Adjacency, Gaussian, Laplace, SubsampledGaussian
from pbdist.query import open_study
from pbdist.query.settings import neighbours_by_label
from pbdist.run import SerialExecutor, run_study
from pbdist.run.run import request_for
from pbdist.store import open_parts, open_store
from pbdist.store.cells import StoredCells
from pbdist.study import load_study
from pbdist.study.load import load_asked
from tests.studies import files_of, write_study

pytestmark = pytest.mark.slow

BARE = """\
format: 1
name: old
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
  - {kind: SubsampledGaussian, scale: 2, rate: 0.1}
method: buckets
buckets: 100
compositions: [1, 4]
epsilon: [0, 0.5]
"""
STATED = BARE.replace("name: old\n", "name: old\nadjacency: add-or-remove\n")
OWN = BARE.replace("[2, 3]}", "[2, 3], adjacency: replace-one}")
PRODUCTS = """\
format: 1
name: products
mechanisms:
  - label: mixed
    kind: Product
    pairs:
      - {kind: RandomizedResponse, p: [0.6, 0.7]}
      - {kind: SubsampledGaussian, scale: [2, 3], rate: 0.1}
  - {label: moved, kind: Product, pairs: [{kind: SubsampledGaussian, scale: 2, rate: 0.1},
     {kind: Reversed, pair: {kind: SubsampledGaussian, scale: [2, 3], rate: 0.1}}]}
  - {label: back, kind: Reversed, pair: {kind: SubsampledGaussian, scale: 2, rate: 0.1}}
method: buckets
buckets: 100
compositions: [1]
epsilon: [0.5]
"""


def run(file: Path, store: Path) -> None:
    run_study(load_asked(file), store, SerialExecutor(), lambda _: None)


def test_a_statement_is_stored_and_read_back(tmp_path: Path, finished_store: Callable[[str], Path]) -> None:
    store = finished_store(OWN)
    stored = open_store(store)
    assert isinstance(stored.study.cells, StoredCells)
    assert stored.study.digest == load_study(write_study(tmp_path, OWN)).digest
    root = json.loads((store / "zarr.json").read_text())["attributes"]
    assert (root["study"]["format"], root["study"]["adjacency"]) == (6, {"Laplace": "replace-one"})
    study = open_study(store)
    asked = {"compositions": 4, "epsilon": 0.5}
    # Of its label at a stored scale and between them, of a stored mechanism, and of one that is not.
    assert study.delta("Laplace", scale=[2, 2.5], **asked).adjacency is Adjacency.REPLACE_ONE
    assert study.delta(Laplace(2.0), **asked).adjacency is Adjacency.REPLACE_ONE
    assert study.delta(Laplace(2.5), **asked).adjacency is Adjacency.AS_STATED
    assert study.epsilon("Laplace", scale=3, compositions=4, delta=0.2).adjacency is Adjacency.REPLACE_ONE
    assert study.compositions("Laplace", scale=3, epsilon=0.5, delta=0.9).adjacency is Adjacency.REPLACE_ONE
    assert study.tradeoff("Laplace", scale=3, compositions=1, type_one_error=0.1).adjacency is Adjacency.REPLACE_ONE
    assert study.delta(SubsampledGaussian(2.0, 0.1), **asked).adjacency is Adjacency.ADD_OR_REMOVE
    assert "one record replaced" in study.delta("Laplace", scale=2, **asked)._repr_html_()
    assert study.bounds.adjacency == "Laplace: replace-one; SubsampledGaussian: add-or-remove"
    assert study.frame().adjacency.unique().tolist() == ["replace-one", "add-or-remove"]
    assert study.frame(mechanism="Laplace").adjacency.unique() == ["replace-one"]
    # The bounds are those of the study that states nothing.
    xr.testing.assert_equal(study.bounds.load(), open_study(finished_store(BARE)).bounds.load())


def test_a_store_begun_with_one_relation_refuses_another(
    tmp_path: Path, store_copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_copy(OWN)
    before = files_of(store)
    for text, got in (
        (STATED, "add-or-remove"),
        (BARE, "as-stated"),
        (OWN.replace("replace-one", "zero-out"), "zero-out"),
    ):
        file = write_study(tmp_path, text)
        assert main(["run", str(file), "--store", str(store)]) != 0
        told = f"adjacency: expected replace-one of 'Laplace' as in the store, got {got}: bounds for one are no bounds"
        assert told in capsys.readouterr().err
        assert files_of(store) == before
    run(write_study(tmp_path, OWN), store)
    assert files_of(store) == before


def test_an_extended_store_keeps_what_is_stated(tmp_path: Path, store_copy: Callable[[str], Path]) -> None:
    store = store_copy(OWN)
    head = "format: 1\nname: old\nextend: true\n"
    # The label is as in the store where the file says nothing of it; a new one may be for other neighbours.
    run(write_study(tmp_path, f"{head}mechanisms: [{{kind: Laplace, scale: 4}}]\n"), store)
    new = f"{head}adjacency: zero-out\nmechanisms: [{{kind: Gaussian, scale: [2, 3]}}]\n"
    run(write_study(tmp_path, new), store)
    assert [part.study.adjacency for part in open_parts(store)] == [
        (("Laplace", Adjacency.REPLACE_ONE),),
        (("Laplace", Adjacency.REPLACE_ONE),),
        (("Gaussian", Adjacency.ZERO_OUT),),
    ]
    study = open_study(store)
    assert study.complete
    asked = {"compositions": 4, "epsilon": 0.5}
    assert study.delta("Laplace", scale=4, **asked).adjacency is Adjacency.REPLACE_ONE
    assert study.delta(Gaussian(3.0), **asked).adjacency is Adjacency.ZERO_OUT
    assert neighbours_by_label(study.spec) == {
        "Laplace": Adjacency.REPLACE_ONE,
        "SubsampledGaussian": Adjacency.ADD_OR_REMOVE,
        "Gaussian": Adjacency.ZERO_OUT,
    }
    before = files_of(store)
    for text, problem in (
        ("adjacency: zero-out\nmechanisms: [{kind: Laplace, scale: 5}]\n", "expected replace-one of 'Laplace'"),
        ("mechanisms: [{kind: SubsampledGaussian, label: Laplace, scale: 5, rate: 0.5}]\n", "the store states it of"),
    ):
        with pytest.raises(StoreMismatchError, match=problem):
            request_for(load_asked(write_study(tmp_path, head + text)), store).missing(
                [part.study for part in open_parts(store)]
            )
    assert files_of(store) == before
    run(write_study(tmp_path, f"{head}compositions: [2]\n"), store)
    assert open_study(store).complete
    assert len({part.study.adjacency for part in open_parts(store)}) == 2 + 1


def test_a_store_of_products_makes_few_cells_to_say_it(
    finished_store: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = open_study(finished_store(PRODUCTS)).spec
    whole: dict[str, set[Adjacency]] = {}
    for cell in spec.cells:
        whole.setdefault(cell.label, set()).add(spec.neighbours_of(cell))
    assert whole == {
        "mixed": {Adjacency.ADD_OR_REMOVE},
        "moved": {Adjacency.AS_STATED},
        "back": {Adjacency.ADD_OR_REMOVE},
    }
    made = []
    plain = StoredCells.cell
    monkeypatch.setattr(StoredCells, "cell", lambda cells, number: made.append(number) or plain(cells, number))
    assert neighbours_by_label(spec) == {label: found.pop() for label, found in whole.items()}
    assert len(made) == 3
