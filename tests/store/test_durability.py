"""After a power failure a file is there only if its folder is, and so on up: each new folder is brought to the disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pbdist.run.batch import cell_bounds
from pbdist.store import BatchWriter, create_or_open, join_shard, place_at
from pbdist.study import load_study, plan_study
from tests.studies import TINY, write_study


class Disk:
    """The folders in which a name was made, or a file renamed, and which were not brought to the disk since."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: Their numbers, and what was done there.
        self.open: dict[int, str] = {}
        self.folders = 0
        for name in ("mkdir", "rename", "replace", "link"):
            monkeypatch.setattr(os, name, self._noted(name, getattr(os, name)))
        fsync = os.fsync

        def settled(descriptor: int) -> None:
            fsync(descriptor)
            self.open.pop(os.fstat(descriptor).st_ino, None)

        monkeypatch.setattr(os, "fsync", settled)

    def _noted(self, name: str, done: Callable[..., None]) -> Callable[..., None]:
        def noted(*paths: Any, **settings: Any) -> None:
            done(*paths, **settings)
            target = Path(os.fspath(paths[-1] if name != "mkdir" else paths[0]))
            folder = settings.get("dst_dir_fd", settings.get("dir_fd"))
            around = os.fstat(folder) if folder is not None else target.parent.stat()
            self.open[around.st_ino] = f"{name} {target}"
            self.folders += name == "mkdir"

        return noted


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_new_folders_are_on_the_disk_with_what_is_in_them(tmp_path: Path, disk: Disk) -> None:
    place = place_at(tmp_path / "new" / "newer" / "s.zarr")
    place.write("a/b/c/d", b"x")
    assert (disk.folders, disk.open) == (6, {})
    place.write("a/b/e", b"x")
    place.create("a/f/g", b"x")
    assert (disk.folders, disk.open) == (7, {})


def test_a_store_and_its_batches_are_on_the_disk(tmp_path: Path, disk: Disk) -> None:
    study = load_study(write_study(tmp_path, TINY))
    plan = plan_study(study, 1)
    disk.open.clear()
    stored = create_or_open(tmp_path / "stores" / "s.zarr", plan)
    assert disk.open == {}
    assert disk.folders > 20
    for batch in plan.batches:
        cell = study.cells[batch.start]
        writer = BatchWriter(stored, batch, [cell])
        writer.add(cell_bounds(stored.head.settings, cell))
        writer.commit()
        assert disk.open == {}
    for shard in range(stored.head.shards):
        join_shard(stored.head, shard)
    assert disk.open == {}
