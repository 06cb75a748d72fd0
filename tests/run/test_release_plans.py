"""Release plans on real Dask workers: the same bytes as in one process."""

from pathlib import Path

import pytest
from distributed import LocalCluster

from pbdist.cli import main
from pbdist.query import open_study
from tests.studies import Finished, results_of, write_study

STUDY = """\
format: 1
name: releases
mechanisms:
  - kind: ReleasePlan
    granularity: unbounded
    blocks: {overlapping: 5, at_most: 2}
    analyses:
      - {name: count, pair: {kind: Laplace, scale: [4, 8]}, reads_each: all, attained: every}
tolerance: 1e-2
compositions: [1, 2]
epsilon: [0.5, 1]
"""


@pytest.mark.slow
def test_workers_compute_the_same_plans(
    workers: LocalCluster, finished_store: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, store = str(write_study(tmp_path, STUDY)), tmp_path / "dask.zarr"
    assert main(["run", study, "--store", str(store), "--scheduler", workers.scheduler_address]) == 0
    assert open_study(store).complete
    assert results_of(store) == results_of(finished_store(STUDY))
    assert "2 of 2 cells are in the store" in capsys.readouterr().err
