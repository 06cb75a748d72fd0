"""``pbdist export`` as users call it."""

import json
from pathlib import Path

import pytest
import xarray

import pbdist
from pbdist.cli import main
from tests.studies import Finished

STUDY = """\
format: 1
name: shared
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
method: buckets
buckets: 40
factors: 1.5
compositions: [1, 2]
epsilon: [0, 0.5]
"""


@pytest.fixture
def store(store_copy: Finished) -> Path:
    return store_copy(STUDY)


def test_an_export_is_written_and_described(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    assert main(["export", str(store), str(out)]) == 0
    assert capsys.readouterr() == (f"{out}: 2 cells, 8 points (cell, r, ε)\n", "")
    assert len(out.read_text().splitlines()) == 1 + 2 * 8
    described = json.loads((tmp_path / "out.csv-metadata.json").read_text())
    assert [column["name"] for column in described["columns"]] == out.read_text().splitlines()[0].split(",")


def test_refinements_are_left_out_and_it_is_said(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pbdist.open_study(store).delta("Laplace", scale=2, compositions=1, epsilon=0.25, refine=True)
    assert main(["export", str(store), str(tmp_path / "out.zarr")]) == 0
    assert "left out: 1 refinement of queries, no part of the study\n" in capsys.readouterr().out
    with xarray.open_zarr(tmp_path / "out.zarr", chunks=None) as arrays:
        assert arrays.attrs["refinements_left_out"] == 1
        assert arrays.sizes["epsilon"] == 2


def test_a_damaged_store_ends_with_exit_code_1(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = store / "bounds/0.0.0.0.0"
    chunk.write_bytes(b"torn")
    command = ["export", str(store), str(tmp_path / "out.csv")]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "expected a complete and sound store" in printed.err
    assert not (tmp_path / "out.csv").exists()
    assert main([*command, "--allow-incomplete"]) == 0
    assert "incomplete: " in capsys.readouterr().out
    (store / "zarr.json").write_text("torn")
    assert main(["export", str(store), str(tmp_path / "other.csv"), "--allow-incomplete"]) == 1
    assert "the store is damaged" in capsys.readouterr().err
