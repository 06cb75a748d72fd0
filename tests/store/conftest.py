"""A store with every kind of content, and a folder outside of it."""

import shutil
from pathlib import Path

import pytest

from pbdist.cli import main
from tests.s3_server import bucket  # noqa: F401 -- a fixture
from tests.store.commands import LARGER, REFINED, STUDY
from tests.studies import write_study


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete store with kept states, a part that extends it, and a point that a query has added."""
    folder = tmp_path_factory.mktemp("made")
    for text in (STUDY, LARGER):
        assert main(["run", str(write_study(folder, text)), "--store", str(folder / "s.zarr"), "--serial"]) == 0
    assert main(["query", str(folder / "s.zarr"), *REFINED]) == 0
    return folder / "s.zarr"


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "s.zarr")
    write_study(tmp_path, LARGER)
    return tmp_path / "s.zarr"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with files that nobody wants to lose."""
    folder = tmp_path / "outside"
    (folder / "c").mkdir(parents=True)
    for name in ("thesis.tex", "zarr.json", "c/0", "a.pbdist-block", "b.partial"):
        (folder / name).write_text("years of work")
    return folder
