"""What a store holds is listed, in Python and on the command line; what it lacks is said."""

import csv
import io
import json
import math
import shutil
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import open_parts
from pbdist.study import load_study
from pbdist.tables import text_of
from tests.batches import fail_cells
from tests.studies import TINY, Finished, write_study

pytestmark = pytest.mark.slow

#: Computed in no time.
COARSE = "method: buckets\nbuckets: 10\ncompositions: [4]\nepsilon: [0, 0.5]\n"


def failed_cell(store: Path, cell: int, cause: str) -> None:
    """Commit the batch of a cell again, as if the cell could not have been computed."""
    [stored] = open_parts(store)
    fail_cells(stored, {cell: cause})


def listed(store: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["query", str(store), *options]) == 0
    return capsys.readouterr().out


def test_mechanisms_with_the_values_of_their_parameters(tiny_store: Path) -> None:
    held = open_study(tiny_store).contents()
    assert held.complete
    assert (held.name, held.parts, held.refined_points) == ("tiny", 1, 0)
    assert held.counts == {"all": 6, "missing": 0, "failed": 0}
    assert held.study.compositions == (1, 2, 4, 7)
    assert [(one.label, one.kind, *one.counts.values()) for one in held.mechanisms] == [
        ("Laplace", "Laplace", 3, 0, 0),
        ("RandomizedResponse", "RandomizedResponse", 2, 0, 0),
        ("clipped", "NoisyCount", 1, 0, 0),
    ]
    laplace, response, clipped = (one.parameters for one in held.mechanisms)
    assert laplace == {"noise": ("Laplace",), "scale": (2.0, 3.0, 5.0), "sensitivity": (1.0,)}
    assert response == {"p": (0.6, 0.7)}
    assert clipped == {
        "noise": ("Laplace",),
        "reading": ("clamp-and-ceil",),
        "scale": (2.0,),
        "mean": (20.0,),
        "shift": (1.0,),
    }


def test_a_factor_that_is_not_given_is_listed_too(finished_store: Finished) -> None:
    laplace = "format: 1\nname: one\nmechanisms:\n  - {kind: Laplace, scale: 2}\nfactors: [auto, 1.5]\n"
    held = open_study(finished_store(laplace + COARSE)).contents()
    assert held.mechanisms[0].parameters["factor"] == (None, 1.5)
    assert "auto, 1.5" in str(held)


def test_long_lists_are_cut_in_print_alone(finished_store: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    truths = [0.51, 0.52, 0.53, 0.54, 0.55, 0.56, 0.57, 0.58, 0.59]
    mechanisms = (
        f"  - {{kind: RandomizedResponse, p: {truths}}}\n  - {{label: other, kind: RandomizedResponse, p: 0.6}}\n"
    )
    store = finished_store(f"format: 1\nname: tiny\nmechanisms:\n{mechanisms}{COARSE}")
    out = listed(store, capsys)
    assert "│ 0.51 to 0.59 " in out
    assert out == f"{open_study(store)}\n"
    assert "tiny, complete" in out
    rows = list(csv.DictReader(io.StringIO(listed(store, capsys, "--format", "csv"))))
    [found] = [row for row in rows if (row["mechanism"], row["what"]) == ("RandomizedResponse", "p")]
    assert (found["number"], found["values"]) == ("9", "; ".join(map(repr, truths)))
    assert json.loads(listed(store, capsys, "--json"))["mechanisms"][0]["parameters"]["p"] == truths


def test_every_format_lists_the_same(tiny_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(listed(tiny_store, capsys, "--format", "json"))
    study = open_study(tiny_store)
    assert found["compositions"] == [1, 2, 4, 7]
    assert found["epsilon"] == list(study.spec.epsilon)
    assert found["exp_epsilon"] == [1.0, 1.5, 2.0]
    assert found["digest"] == study.spec.digest
    assert found["complete"] is True
    rows = list(csv.DictReader(io.StringIO(listed(tiny_store, capsys, "--format", "csv"))))
    told = {(row["mechanism"], row["what"]): row["values"] for row in rows}
    assert [float(value) for value in told["", "epsilon"].split("; ")] == found["epsilon"]
    assert told["", "complete"] == "true"
    for one in found["mechanisms"]:
        assert told[one["mechanism"], "kind"] == one["kind"]
        for name, values in one["parameters"].items():
            plain = [value if isinstance(value, str) else repr(value) for value in values]
            assert told[one["mechanism"], name] == "; ".join(plain)
    sheet = study.contents().sheet
    for form in ("table", "markdown", "latex"):
        out = listed(tiny_store, capsys, "--format", form)
        assert all(text_of(row[1]).replace("_", "\\_" if form != "table" else "_") in out for row in sheet.rows)
    assert "ln" not in told
    assert math.isfinite(sum(found["exp_epsilon"]))


def test_what_is_missing_and_what_failed_is_said(store_copy: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_copy(TINY)
    failed_cell(store, 3, "no memory")
    held = open_study(store).contents()
    assert not held.complete
    assert [[*one.counts.values()] for one in held.mechanisms] == [[3, 0, 0], [2, 0, 1], [1, 0, 0]]
    out = listed(store, capsys)
    assert "tiny, NOT complete" in out
    assert "5 of 6 computed at all points, 0 not yet, 1 failed: pbdist status says what is missing" in out
    for bounds in store.glob("bounds/*.0"):
        bounds.unlink()
    held = open_study(store).contents()
    assert (held.counts, held.complete) == ({"all": 6, "missing": 6, "failed": 0}, False)
    for form in ("table", "markdown", "latex"):
        assert "NOT complete" in listed(store, capsys, "--format", form)
    assert "0 of 6 computed" in listed(store, capsys, "--format", "csv")
    assert json.loads(listed(store, capsys, "--json"))["settings"] == {"all": 6, "missing": 6, "failed": 0}


def test_an_extended_store_is_listed_as_one(
    store_copy: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_copy(TINY)
    more = load_study(write_study(tmp_path, TINY.replace("[2, 3, 5]", "[2, 3, 5, 8]"), "more.yaml"))
    run_study(more, store, SerialExecutor(), lambda _: None)
    held = open_study(store).contents()
    assert (held.parts, held.complete) == (2, True)
    assert held.mechanisms[0].parameters["scale"] == (2.0, 3.0, 5.0, 8.0)
    # Its files are gone: what the other part has is whole.
    (store / "extension-001/bounds/0.0.0.0.0").unlink()
    held = open_study(store).contents()
    assert [[*one.counts.values()] for one in held.mechanisms] == [[4, 1, 0], [2, 0, 0], [1, 0, 0]]
    assert not held.complete
    assert "6 of 7 computed at all points, 1 not yet, 0 failed" in listed(store, capsys)
    # The root still lists an extension that is not there.
    shutil.rmtree(store / "extension-001")
    assert "tiny, NOT complete" in listed(store, capsys)


def test_what_queries_have_added_is_listed(store_copy: Finished) -> None:
    study = open_study(store_copy(TINY))
    study.delta("Laplace", scale=2.5, compositions=[1, 3], epsilon=0.1, refine=True)
    held = open_study(study.where).contents()
    assert held.refined_points == 2
    assert held.refined_settings == ("Laplace(scale=2.5, sensitivity=1)",)
    assert held.mechanisms[0].parameters["scale"] == (2.0, 3.0, 5.0)


@pytest.mark.parametrize("option", ["--refine", "--direction=each", "--strict", "--mechanism=Laplace"])
def test_what_is_for_questions_is_refused(option: str, tiny_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", str(tiny_store), option]) == 2
    name = option.partition("=")[0]
    assert capsys.readouterr().err.startswith(f"pbdist: error: {name}: needs two of --compositions")
