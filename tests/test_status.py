"""`pbdist status`: stores in every condition, looked at by the command line."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pbdist.cli import main
from pbdist.run.task import cell_bounds
from pbdist.store import BatchWriter, StoredStudy, create_or_open, extend, hold, open_parts
from pbdist.store.layout import bounds_file
from pbdist.study import StudySpec, load_study, plan_study
from tests.studies import TINY, files_of, write_study

Asked = Callable[..., tuple[int, str]]


def compute(stored: StoredStudy, *, batches: set[int], failing: set[int] | None = None) -> None:
    """Commit some batches of two cells; some cells fail."""
    study = stored.study
    for batch in plan_study(study, stored.cells_per_batch).batches:
        if batch.index not in batches:
            continue
        writer = BatchWriter(stored.head, batch.index, study.cells[batch.start : batch.stop])
        for cell in range(batch.start, batch.stop):
            if cell in (failing or set()):
                writer.fail(f"ValueError: no\x1b[31m bounds of cell {cell}")
            else:
                writer.add(cell_bounds(study, study.cells[cell]))
        writer.commit()


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    return load_study(write_study(tmp_path))


@pytest.fixture
def stored(tmp_path: Path, study: StudySpec) -> StoredStudy:
    """A store of three batches of two cells, none of them computed."""
    return create_or_open(tmp_path / "tiny.zarr", plan_study(study, 2))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of `stored` with all batches."""
    folder = tmp_path_factory.mktemp("status")
    made = create_or_open(folder / "tiny.zarr", plan_study(load_study(write_study(folder)), 2))
    compute(made, batches={0, 1, 2})
    return Path(made.place.url)


@pytest.fixture
def complete(whole: Path, tmp_path: Path) -> StoredStudy:
    """A store of three batches of two cells, all of them computed."""
    write_study(tmp_path)
    return open_parts(shutil.copytree(whole, tmp_path / "tiny.zarr"))[0]


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """Calls ``pbdist status`` and returns its exit code and what it prints; it never writes."""

    def ask(stored: StoredStudy, *options: str) -> tuple[int, str]:
        before = files_of(Path(stored.place.url).parent)
        code = main(["status", str(stored.where), *options])
        assert files_of(Path(stored.place.url).parent) == before
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return ask


def as_json(asked: Asked, stored: StoredStudy, *options: str) -> tuple[int, dict[str, Any]]:
    code, out = asked(stored, "--json", *options)
    return code, json.loads(out)


def test_a_complete_store(complete: StoredStudy, asked: Asked) -> None:
    code, out = asked(complete)
    assert code == 0
    assert "cells: 6 of 6 committed, 0 missing, 0 failed\nbatches: 3 of 3 committed\ndriver: none at work\n" in out
    assert f"study: tiny, digest {complete.study.digest[:16]}\n" in out
    assert "checked" not in out
    code, out = asked(complete, "--check")
    assert code == 0
    assert out.endswith("checked: every file is unchanged\n")
    code, found = as_json(asked, complete, "--check")
    assert code == 0
    assert (found["complete"], found["healthy"], found["driver"]) == (True, True, None)
    assert found["bytes"] == sum(path.stat().st_size for path in Path(complete.place.url).rglob("*") if path.is_file())
    assert found["files"] == len(files_of(Path(complete.place.url)))
    assert found["failed"] == found["missing"] == found["damaged"] == found["strays"] == []


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_what_is_missing_is_counted_and_what_failed_is_named(
    stored: StoredStudy, asked: Asked, options: tuple[str, ...]
) -> None:
    compute(stored, batches={0, 2}, failing={1})
    code, out = asked(stored, *options)
    assert code == 1
    assert "cells: 3 of 6 committed, 2 missing, 1 failed\nbatches: 2 of 3 committed\n" in out
    # No control character reaches the terminal.
    assert "failed: Laplace(scale=3, sensitivity=1): ValueError: no [31m bounds of cell 1\n" in out
    # During a run most batches are missing: they are counted.
    assert "missing:" not in out
    code, found = as_json(asked, stored, *options)
    assert code == 1
    assert found["complete"] is False
    assert found["batches"] == {"all": 3, "missing": 1}
    assert found["healthy"] is (False if options else None)
    assert found["cells"] == {"all": 6, "missing": 2, "failed": 1}
    assert [(item["cell"], item["setting"]) for item in found["failed"]] == [(1, "Laplace(scale=3, sensitivity=1)")]
    assert [(item["batch"], item["first"], item["stop"]) for item in found["missing"]] == [(1, 2, 4)]


def test_cells_that_failed_alone_are_not_a_complete_store(stored: StoredStudy, asked: Asked) -> None:
    compute(stored, batches={0, 1, 2}, failing={5})
    assert asked(stored)[0] == asked(stored, "--check")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), bounds_file(0)),
        (lambda path: path.write_bytes(path.read_bytes()[::-1]), bounds_file(1)),
        (lambda path: path.unlink(), "epsilon/zarr.json"),
        (lambda path: path.write_bytes(path.read_bytes()[::-1]), "pair/0"),
    ],
)
def test_check_names_what_is_damaged(
    complete: StoredStudy, asked: Asked, damage: Callable[[Path], None], file: str
) -> None:
    damage(Path(complete.place.url) / file)
    code, out = asked(complete, "--check")
    assert code == 1
    assert f"damaged: {file}: " in out
    assert "checked: 1 damaged file: pbdist run STUDY --check repairs" in out
    code, found = as_json(asked, complete, "--check")
    assert code == 1
    assert (found["healthy"], [item["file"] for item in found["damaged"]]) == (False, [file])


def test_the_settings_of_a_store_whose_cells_cannot_be_read(stored: StoredStudy, asked: Asked) -> None:
    (Path(stored.place.url) / "pair/0").write_bytes(b"")
    code, found = as_json(asked, stored)
    assert code == 1
    assert found["missing"][0]["settings"] == ["a noise setting that cannot be read"] * 2


def test_strays_are_told_and_do_no_harm(complete: StoredStudy, asked: Asked) -> None:
    (Path(complete.place.url) / "bounds.partial").touch()
    code, out = asked(complete, "--check")
    assert code == 0
    assert "stray, no harm: bounds.partial\n" in out


def test_long_lists_are_cut_with_a_count_and_json_has_all(tmp_path: Path, asked: Asked) -> None:
    text = TINY.replace("scale: [2, 3, 5]", "scale: {linspace: [2, 61, 60]}")
    stored = create_or_open(tmp_path / "long.zarr", plan_study(load_study(write_study(tmp_path, text)), 2))
    assert len(as_json(asked, stored)[1]["missing"]) == 32
    compute(stored, batches=set(range(16)), failing=set(range(32)))
    code, out = asked(stored)
    assert code == 1
    assert out.count("\nfailed: ") == 20
    assert "and 12 more: --json has all\n" in out
    assert len(as_json(asked, stored)[1]["failed"]) == 32


@pytest.mark.slow
def test_the_parts_of_an_extended_store(tmp_path: Path, complete: StoredStudy, asked: Asked) -> None:
    more = load_study(
        write_study(
            tmp_path,
            TINY.replace("[1, 2, 4, 7]", "[8, 9]").replace("compositions: 4}", "compositions: 8}"),
            "more.yaml",
        )
    )
    extend([complete], [plan_study(more, 2)])
    code, out = asked(complete)
    assert code == 1
    assert "cells: 6 of 6 committed, 0 missing, 0 failed\n" in out
    assert "cells (extension-001): 0 of 6 committed, 6 missing, 0 failed\n" in out
    compute(open_parts(complete.where)[1], batches={0, 1, 2}, failing={0})
    code, found = as_json(asked, complete, "--check")
    assert code == 1
    assert [part["part"] for part in found["parts"]] == ["", "extension-001"]
    assert [(item["part"], item["cell"]) for item in found["failed"]] == [("extension-001", 0)]
    assert found["damaged"] == []


def test_the_driver_that_is_at_work_is_named_and_not_disturbed(stored: StoredStudy, asked: Asked) -> None:
    with hold(stored.place):
        code, out = asked(stored)
        assert code == 1
        assert f"driver: process {os.getpid()} on {socket.gethostname()} since 20" in out
        assert as_json(asked, stored)[1]["driver"].startswith(f"process {os.getpid()} on ")
    assert "driver: none at work" in asked(stored)[1]


@pytest.mark.parametrize("name", ["absent", "study.yaml", "."])
def test_what_is_no_store_is_exit_code_2(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--check"], ["--json"]):
        assert main(["status", name, *options]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("pbdist: error: ")
        assert err.count("\n") == 1
