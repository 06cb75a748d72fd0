"""``pbdist studies``, ``plan`` and ``run`` of shipped studies, and the plan as JSON."""

import json
import re
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.study import load_study, plan_study
from pbdist.study.plan import elapsed
from pbdist.study.starter import shipped_names, shipped_study
from tests.studies import TINY, write_study


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where the command is given."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_all_studies_are_listed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["studies"]) == 0
    out = capsys.readouterr().out
    rows = [re.split(r"\s*│\s*", line) for line in out.splitlines() if line.startswith("│ ")]
    found = {name: (about, cells) for _, name, cells, about, _ in rows if name}
    assert tuple(found) == ("quickstart", *(name for name in shipped_names() if name != "quickstart"))
    for name, (about, cells) in found.items():
        study = load_study(shipped_study(name))
        assert (study.description or "").startswith(about)
        assert cells == f"{len(study.cells):,}"
    assert list(folder.iterdir()) == []


def test_a_name_is_planned_and_a_file_in_the_way_wins(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart"]) == 0
    out, err = capsys.readouterr()
    assert "quickstart: Laplace and Gaussian noise" in out
    assert err == ""
    write_study(folder, TINY, "quickstart")
    assert main(["plan", "quickstart"]) == 0
    out, err = capsys.readouterr()
    assert "tiny" in out
    assert err == ""


def test_the_plan_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_study(folder)
    assert main(["plan", str(path), "--json", "--workers", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    plan = plan_study(load_study(path))
    study = plan.study
    assert found == {
        "name": "tiny",
        "description": None,
        "digest": study.digest,
        "cells": 6,
        "cells_by_label": {"Laplace": 3, "RandomizedResponse": 2, "clipped": 1},
        "compositions": [1, 2, 4, 7],
        "epsilon": list(study.epsilon),
        "points": 6 * 4 * 3,
        "method": "buckets",
        "tolerance": None,
        "buckets": 400,
        "floor": study.floor,
        "direction": study.direction,
        "keep_states": False,
        "targets": [{"epsilon": study.epsilon[2], "delta": 0.2, "compositions": 4}],
        "added_by_targets": {"compositions": [], "epsilon": [], "points": 0},
        "batches": len(plan.batches),
        "cells_per_batch": plan.cells_per_batch,
        "batch_seconds": {
            "min": min(batch.seconds for batch in plan.batches),
            "max": max(batch.seconds for batch in plan.batches),
        },
        "seconds": plan.seconds,
        "workers": 3,
        "elapsed_seconds": elapsed(plan.batch_seconds, 3),
        "worker_bytes": plan.worker_bytes,
        "store_bytes": plan.store_bytes,
    }


def test_a_plan_projects_the_time_on_some_workers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_study(folder))
    for options, row in (([], "of the study, one core"), (["--workers", "4"], "on 4 workers:")):
        assert main(["plan", path, *options]) == 0
        assert f"projected time {row}" in capsys.readouterr().out
    assert main(["plan", path, "--workers", "4", "--store", str(folder / "s.zarr")]) == 0
    assert "s.zarr: 72 points would be added" in capsys.readouterr().out
    assert main(["plan", path, "--workers", "0"]) == 2
    assert "--workers: expected a whole number from 1 to 4096, got '0'" in capsys.readouterr().err
