"""A file with ``extend: true`` adds what is new to a store, once."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.errors import InvalidInputError, StoreMismatchError
from pbdist.query import open_study
from pbdist.query.status import store_status
from pbdist.run import SerialExecutor, run_study
from pbdist.run.events import BatchFinished
from pbdist.run.run import request_for
from pbdist.store import open_parts
from pbdist.study.load import load_asked
from tests.studies import TINY, files_of, write_study

NEW = """\
format: 1
name: tiny
extend: true
mechanisms:
  - {kind: Laplace, scale: [5, 7]}
exp_epsilon: [2, 3]
"""


def run(file: Path, store: Path) -> int:
    """Run a file, and return how many batches were computed."""
    events: list[object] = []
    run_study(load_asked(file), store, SerialExecutor(), events.append)
    return sum(isinstance(event, BatchFinished) for event in events)


@pytest.mark.slow
def test_only_what_is_new_is_computed_and_only_once(tmp_path: Path, store_copy: Callable[[str], Path]) -> None:
    store, new = store_copy(TINY), write_study(tmp_path, NEW, "new.yaml")
    before = files_of(store)
    # The cell of scale 5 lacks one ε, that of scale 7 both.
    assert run(new, store) == 2
    assert [
        (len(part.study.cells), part.study.compositions, len(part.study.epsilon)) for part in open_parts(store)[1:]
    ] == [(1, (1, 2, 4, 7), 1), (1, (1, 2, 4, 7), 2)]
    after = files_of(store)
    told = {"zarr.json"}
    assert {name: after[name] for name in before if name not in told} == {
        name: before[name] for name in before if name not in told
    }
    assert run(new, store) == 0
    assert files_of(store) == after
    # The whole study is still there, and the new points can be asked for.
    assert run(write_study(tmp_path), store) == 0
    found = open_study(store).delta("Laplace", scale=5, exp_epsilon=3, compositions=7)
    assert 0.0 < found.lower <= found.upper < 1.0


def test_new_r_alone_are_for_all_cells_and_epsilon_of_the_store(
    tmp_path: Path, store_copy: Callable[[str], Path]
) -> None:
    store = store_copy(TINY)
    assert run(write_study(tmp_path, "format: 1\nname: tiny\nextend: true\ncompositions: [4, 9]\n"), store) == 6
    _, added = open_parts(store)
    assert (len(added.study.cells), added.study.compositions, len(added.study.epsilon)) == (6, (9,), 3)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["extension-001", "extension-002"])
@pytest.mark.parametrize("column", ["mechanism", "pair", "factor"])
def test_what_its_cells_are_made_of_is_restored_by_the_file_that_added_them(
    part: str, column: str, tmp_path: Path, store_copy: Callable[[str], Path]
) -> None:
    store, new = store_copy(TINY), write_study(tmp_path, NEW, "new.yaml")
    run(new, store)
    before = files_of(store)
    (store / part / column / "0").unlink()
    assert run(new, store) == 0
    assert files_of(store) == before


def test_without_a_store_nothing_is_done(tmp_path: Path) -> None:
    store = tmp_path / "tiny.zarr"
    words = rf"store: the file extends a store \(extend: true\), and there is none at {store}"
    with pytest.raises(InvalidInputError, match=words):
        run(write_study(tmp_path, NEW), store)
    assert not store.exists()


def test_a_store_of_other_settings_stays_as_it_was(tmp_path: Path, store_copy: Callable[[str], Path]) -> None:
    store = store_copy(TINY)
    before = files_of(store)
    with pytest.raises(StoreMismatchError, match="buckets: expected 400 as in the store, got 402"):
        run(write_study(tmp_path, f"{NEW}buckets: 402\n"), store)
    assert files_of(store) == before
    assert request_for(load_asked(write_study(tmp_path, NEW)), store).adds


def test_plan_tells_what_would_be_added(
    tmp_path: Path,
    tiny_store: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    new, whole = str(write_study(tmp_path, NEW, "new.yaml")), str(write_study(tmp_path))

    def printed(*arguments: str) -> str:
        assert main(["plan", *arguments]) == 0
        return capsys.readouterr().out

    assert main(["plan", new]) == 2
    assert "there is none at" in capsys.readouterr().err
    # Without a store all of a study is new. A status counts the same points.
    points = store_status(tiny_store).counts["points"]["all"]
    assert points == 6 * 4 * 3
    assert json.loads(printed(whole, "--store", "data/tiny.zarr", "--json"))["points"] == points
    shutil.copytree(tiny_store, tmp_path / "data/tiny.zarr")
    found = json.loads(printed(new, "--json"))
    assert (found["store"], found["points"]) == ("data/tiny.zarr", 4 * (1 + 2))
    assert [(part["cells"], len(part["epsilon"]), part["batches"]) for part in found["parts"]] == [(1, 1, 1), (1, 2, 1)]
    assert "data/tiny.zarr: 12 points would be added" in printed(new)
    assert "data/tiny.zarr: 0 points would be added" in printed(whole, "--store", "data/tiny.zarr")
    larger = write_study(tmp_path, TINY.replace("[1, 2, 4, 7]", "[1, 2, 4, 7, 8]"), "larger.yaml")
    assert "18 points would be added" in printed(str(larger), "--store", "data/tiny.zarr")
