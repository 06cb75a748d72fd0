"""One extended store for all tests of exports, to be read only."""

import shutil
from pathlib import Path

import pytest

from tests.export.stores import extended_store


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extended_store(tmp_path_factory.mktemp("exported"))


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "s.zarr"))
