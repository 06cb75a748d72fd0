"""Stores that were extended."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from pbdist.cli import main
from pbdist.errors import StoreDamagedError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import check_store, create_or_open, extend, open_parts, place_at, restore
from pbdist.study import load_study, plan_study
from pbdist.study.spec import missing_parts
from tests.store.test_damage import REFINED
from tests.store.test_store import LARGER, SMALL, created, write_batch
from tests.studies import files_of, write_study

pytestmark = pytest.mark.slow


def test_an_extension_leaves_all_files_as_they_were_but_for_the_root(tmp_path: Path) -> None:
    path, small = tmp_path / "s.zarr", load_study(write_study(tmp_path, SMALL))
    stored = created(path, plan_study(small, 2))
    write_batch(stored, 0)
    before = files_of(path)
    wanted = load_study(write_study(tmp_path, LARGER))
    parts = extend([stored], [plan_study(part) for part in missing_parts([small], wanted)])
    assert parts == open_parts(path)
    assert [Path(part.place.url) for part in parts] == [path, path / "extension-001", path / "extension-002"]
    assert {part.where for part in parts} == {str(path)}
    after = files_of(path)
    assert [name for name in before if after[name] != before[name]] == ["zarr.json"]
    assert parts[0].extensions == ("extension-001", "extension-002")
    assert [missing for missing, _ in check_store(path).missing] == ["extension-001"] * 2 + ["extension-002"]
    assert missing_parts([part.study for part in parts], wanted) == ()


def test_an_extension_that_is_gone_is_missing_until_it_is_added_again(tmp_path: Path) -> None:
    path, small = tmp_path / "s.zarr", load_study(write_study(tmp_path, SMALL))
    larger = load_study(write_study(tmp_path, LARGER))
    for study in (small, larger):
        run_study(study, path, SerialExecutor(), lambda _: None)
    before = files_of(path)
    shutil.rmtree(path / "extension-001")
    for check in (False, True):
        run_study(small, path, SerialExecutor(), lambda _: None, check=check)
        assert "extension-001/zarr.json" in {name for name, _ in check_store(path).damaged}
    run_study(larger, path, SerialExecutor(), lambda _: None)
    assert files_of(path) == before


def test_plain_readers_see_extensions_and_refined_points_as_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    for text in (SMALL, LARGER):
        run_study(load_study(write_study(tmp_path, text)), path, SerialExecutor(), lambda _: None)
    assert main(["query", str(path), *REFINED]) == 0
    study = open_study(path)
    for options in ({}, {"consolidated": False}):
        tree = xr.open_datatree(path, engine="zarr", **options)
        (refined,) = [name for name in tree.children if name.startswith("refined-")]
        assert {"extension-001", "extension-002", refined} <= set(tree.children)
        first = tree.bounds.to_dataset("quantity")
        np.testing.assert_array_equal(first.delta_upper[0, 0, 0], study.bounds.delta_upper.values[0, 0, 0])
        point = tree[refined].bounds.to_dataset("quantity").delta_upper.values.ravel()
        found = study.delta("Laplace", scale=2, compositions=1, epsilon=0.25, direction="each")
        assert point.tolist() == [float(value) for value in found.upper]


def test_at_every_moment_of_an_extension_the_store_is_read_and_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, small = tmp_path / "s.zarr", load_study(write_study(tmp_path, SMALL))
    wanted = load_study(write_study(tmp_path, LARGER))
    run_study(small, path, SerialExecutor(), lambda _: None)
    kept = shutil.copytree(path, tmp_path / "kept.zarr")
    run_study(wanted, path, SerialExecutor(), lambda _: None)
    expected = files_of(path)

    class Killed(BaseException):
        pass

    created, written = type(place_at(path)).create, type(place_at(path)).write
    for moment in range(8):
        shutil.rmtree(path)
        shutil.copytree(kept, path)
        left = moment

        def tick() -> None:
            nonlocal left
            if not left:
                raise Killed
            left -= 1

        def create(self: object, folder: str, files: dict[str, bytes]) -> bool:
            tick()
            return created(self, folder, files)  # type: ignore[arg-type]

        def write(self: object, name: str, data: bytes) -> None:
            tick()
            written(self, name, data)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(type(place_at(path)), "create", create)
            patched.setattr(type(place_at(path)), "write", write)
            with pytest.raises(Killed):
                run_study(wanted, path, SerialExecutor(), lambda _: None)
        assert open_study(path).bounds.sizes["cell"] >= 2
        run_study(wanted, path, SerialExecutor(), lambda _: None)
        assert files_of(path) == expected


def test_an_interrupted_extension_of_an_object_store_is_not_read_and_is_completed(tmp_path: Path) -> None:
    """There files are written one by one, the attributes last."""
    path, small = tmp_path / "s.zarr", load_study(write_study(tmp_path, SMALL))
    wanted = load_study(write_study(tmp_path, LARGER))
    run_study(small, path, SerialExecutor(), lambda _: None)
    run_study(wanted, path, SerialExecutor(), lambda _: None)
    expected = files_of(path)
    shutil.rmtree(path / "extension-002")
    for name in ("zarr.json", "scale/0"):
        (path / "extension-001" / name).unlink()
    assert len(open_parts(path)) == 1
    assert not open_study(path).complete
    run_study(wanted, path, SerialExecutor(), lambda _: None)
    assert files_of(path) == expected


def test_cells_that_nobody_knows_are_not_guessed(tmp_path: Path) -> None:
    path, small = tmp_path / "s.zarr", load_study(write_study(tmp_path, SMALL))
    run_study(load_study(write_study(tmp_path, LARGER)), path, SerialExecutor(), lambda _: None)
    (path / "pair/0").write_bytes(b"torn")
    before = files_of(path)
    place = place_at(path)
    with pytest.raises(StoreDamagedError, match="pair/0 is missing or changed"):
        restore(place, small, plan_study)
    assert files_of(path) == before


def test_a_store_keeps_the_length_of_its_batches(tmp_path: Path) -> None:
    plan = plan_study(load_study(write_study(tmp_path, LARGER)), 2)
    place = place_at(tmp_path / "s.zarr")
    create_or_open(place, plan)
    (tmp_path / "s.zarr/zarr.json").unlink()
    (restored,) = restore(place, plan.study, plan_study)
    assert restored.cells_per_batch == 2
