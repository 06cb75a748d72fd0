"""Release plans on real Dask workers: the same bytes as in one process."""

from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.query import open_study
from tests.query.test_release_plans import STUDY
from tests.studies import Finished, results_of, write_study

pytestmark = pytest.mark.slow


def test_workers_compute_the_same_plans(
    finished_store: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, store = str(write_study(tmp_path, STUDY)), tmp_path / "dask.zarr"
    assert main(["plan", study]) == 0
    assert "cells (noise settings)" in capsys.readouterr().out
    assert main(["run", study, "--store", str(store), "--workers", "2"]) == 0
    assert open_study(store).complete
    assert results_of(store) == results_of(finished_store(STUDY))
    capsys.readouterr()
    assert main(["run", study, "--store", str(store), "--workers", "2"]) == 0
    assert capsys.readouterr().err == "4 of 4 cells are in the store\n"
