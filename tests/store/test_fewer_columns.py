"""A store of the same format that was made before mechanisms had some parameter is read, extended and checked.

``fewer-columns`` holds what ``pbdist run`` of its ``study.yaml`` made when there were no columns k and eta.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from pbdist import open_study, privacy_bounds
from pbdist.cli import main
from pbdist.mechanisms import Laplace
from pbdist.store.check import check_store
from pbdist.store.layout import COLUMNS, OPTIONAL_COLUMNS

HERE = Path(__file__).parent / "fewer-columns"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    copied: Path = shutil.copytree(HERE / "old.zarr", tmp_path / "old.zarr")
    return copied


def test_it_lacks_columns(store: Path) -> None:
    assert {name for name in COLUMNS if not (store / name).exists()} >= {"k", "eta"}
    assert check_store(store).healthy


@pytest.mark.slow
def test_it_is_read(store: Path) -> None:
    study = open_study(store)
    found = study.delta("Laplace", compositions=2, epsilon=0.5, scale=4.0)
    exact = privacy_bounds(Laplace(4.0), compositions=2, epsilon=0.5)
    assert found.lower <= exact.delta_upper.item()
    assert exact.delta_lower.item() <= found.upper
    bounds = study.bounds
    # No cell has a parameter of few mechanisms.
    assert set(COLUMNS) & set(bounds.coords) == set(COLUMNS) - set(OPTIONAL_COLUMNS)
    assert np.isnan(bounds.k.values).all()
    assert len(study.frame()) == 2 * 2 * 2
    assert main(["query", str(store)]) == 0
