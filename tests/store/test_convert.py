"""Stores of formats 3 and 4 are made new in format 5, with the same numbers.

``format-3`` and ``format-4`` hold stores that ``pbdist run`` of their ``study.yaml`` made when those formats were the
newest. That of format 4 has two cells a batch in its first part, a second part, kept states, a refinement, and in each
part a cell that could not be computed.
"""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

from pbdist.cli import main
from pbdist.errors import InvalidInputError, NotAStoreError, PbdistError, StoreDamagedError, StoreFormatError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import (
    check_store,
    convert_store,
    hold,
    open_parts,
    open_store,
    read_cell,
    read_values,
    read_within,
)
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN, batch_file, shard_record
from pbdist.study import load_study
from tests.store.commands import state_of
from tests.studies import files_of

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
OLD = {3: HERE / "format-3/old.zarr", 4: HERE / "format-4/old.zarr"}
FAILED = (("", 1, "ValueError: on purpose"), ("extensions/001", 1, "ValueError: on purpose"))
#: In the first part of format 4 the second batch is that of a cell with this number.
LAST = 2


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD[4], tmp_path / "old.zarr"))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new.zarr"


@pytest.mark.parametrize("version", [3, 4])
def test_it_holds_the_numbers_of_the_old_store_bit_for_bit(version: int, new: Path) -> None:
    path, before = OLD[version], state_of(OLD[version])
    found = convert_store(path, new)
    assert state_of(path) == before
    parts = open_parts(new)
    assert (found.format, found.parts, found.refinements) == (version, len(parts), 1)
    assert (found.missing, found.damaged, found.left) == ((), (), 0)
    assert found.failed == (() if version == 3 else FAILED)
    assert found.batches == sum(part.batches for part in parts)
    for part in parts:
        plain, joined = zarr.open_group(path / part.part, mode="r"), zarr.open_group(new / part.part, mode="r")
        assert part.head.digest == plain.attrs["study_digest"] == joined.attrs["study_digest"]
        assert part.cells_per_batch == plain.attrs["cells_per_batch"]
        names = {name for name, _ in plain.arrays()}
        # Parameters of kinds that came later have columns in every new store.
        later = {"eta", "k"}
        assert {name for name, _ in joined.arrays()} - names == later | ({WITHIN} if version == 3 else set())
        for name in names:
            expected = np.asarray(plain[name])
            assert same_bits(np.asarray(joined[name]), expected), name
            if name in (*BOUNDS, *COMPUTED):
                assert same_bits(read_values(part, name, slice(None)), expected)
            elif name == WITHIN:
                assert np.array_equal(read_within(part, slice(None)), expected)
    first = xr.open_zarr(path, consolidated=False, chunks=None)
    shown = open_study(new).bounds.sel(epsilon=first.epsilon)
    assert all(same_bits(shown[name].values, first[name].values) for name in BOUNDS)
    assert check_store(new).damaged == check_store(new).strays == ()
    for folder in ("states", "extensions/001/states", "refinements"):
        assert files_of(new / folder) == files_of(path / folder)
    assert (new / "states").is_dir() is (version == 4)
    assert not (new / "commits/batches").exists()


def test_where_the_tolerance_is_met_follows_from_the_bounds_of_format_3(new: Path) -> None:
    convert_store(OLD[3], new)
    stored, within = open_store(new), open_study(new).bounds.within_tolerance
    assert (stored.study.floor, stored.study.direction) == (1e-40, "each")
    lower, upper = (read_values(stored, f"delta_{side}", slice(None)) for side in ("lower", "upper"))
    assert np.array_equal(within.values, upper <= 1.01 * lower)
    assert not within.sel(mechanism="Laplace", scale=1e12, epsilon=1e-13).values.any()
    judged = stored.results.record(0)
    # No bounds but 0 are at most the floor, and none are infinitely close.
    asked = (upper[0] > 0.0).any(axis=0)
    assert judged is not None
    assert (judged.points, judged.missed) == (asked.sum(), (asked & ~within.values[0].all(axis=0)).sum())


def test_the_next_run_computes_what_failed(old: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(old), str(new)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"converted: {old}, format 4, to {new}, format 5",
        "copied: 5 batches in 2 parts, 1 refinements, each compared with its checksum",
        "failed: cell 1: ValueError: on purpose",
        "failed: cell 1 (extensions/001): ValueError: on purpose",
        f"not complete: pbdist run STUDY --store {new} computes the rest",
    ]
    before = read_cell(open_store(new), 0)
    run_study(load_study(HERE / "format-4/study.yaml"), new, SerialExecutor(), lambda _: None)
    assert check_store(new).healthy
    assert all(same_bits(values, before[name]) for name, values in read_cell(open_store(new), 0).items())
    assert main(["status", str(new), "--check"]) == 0


def harm(path: Path) -> str:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    return "other content"


@pytest.mark.parametrize("file", ["delta_upper/c/1/0/0/0", "states/cell-000002/A_TO_B/r-3/zarr.json"])
def test_a_batch_with_a_damaged_file_is_told_and_not_copied(old: Path, new: Path, file: str) -> None:
    problem = harm(old / file)
    before = state_of(old)
    found = convert_store(old, new)
    assert found.damaged == ((file, problem),)
    assert (found.batches, found.missing, found.whole) == (4, (), False)
    stored = open_store(new)
    # The other batch is there, in a file of its own until the shard can be joined.
    assert (new / batch_file(0)).is_file()
    assert not (new / shard_record(0)).exists()
    assert math.isfinite(read_cell(stored, 0)["delta_upper"][0, 0, 0])
    assert np.isnan(read_cell(stored, LAST)["delta_upper"]).all()
    assert files_of(new / "states/cell-000002") == {}
    check = check_store(new)
    assert (check.missing, check.damaged, check.strays) == ((("", 1),), (), ())
    run_study(load_study(HERE / "format-4/study.yaml"), new, SerialExecutor(), lambda _: None)
    assert check_store(new).healthy
    assert state_of(old) == before


def test_wrong_stores_and_paths_are_refused_before_any_work(old: Path, new: Path, tmp_path: Path) -> None:
    present = tmp_path / "present.zarr"
    convert_store(OLD[3], present)
    before = state_of(tmp_path)
    refused: list[tuple[Any, Any, type[PbdistError], str]] = [
        (tmp_path / "none.zarr", new, NotAStoreError, "got nothing there"),
        (tmp_path, new, NotAStoreError, "got something else"),
        (present, new, StoreFormatError, "expected a store of format 3 or 4, got format 5"),
        (old, old, InvalidInputError, "expected nothing at .*old.zarr, got something there"),
        (old, tmp_path, InvalidInputError, "got something there"),
        (old, old / "new.zarr", InvalidInputError, "new store: expected a path outside of other stores"),
        (old, present / "a/new.zarr", InvalidInputError, "new store: expected a path outside of other stores"),
        (old, "gs://bucket/new.zarr", InvalidInputError, "expected a path or a URL"),
    ]
    for source, target, error, message in refused:
        with pytest.raises(error, match=message):
            convert_store(source, target)
    with hold(old), pytest.raises(InvalidInputError, match="expected a store at rest"):
        convert_store(old, new)
    with hold(new), pytest.raises(InvalidInputError, match="expected a store at rest"):
        convert_store(old, new)
    for name in ("zarr.json", "commits/zarr.json"):
        harm(old / name)
    with pytest.raises(StoreDamagedError, match="got both damaged"):
        convert_store(old, new)
    for name in ("zarr.json", "commits/zarr.json"):
        harm(old / name)
    assert {name: content[2] for name, content in state_of(tmp_path).items()} == {n: c[2] for n, c in before.items()}


def test_an_earlier_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    for version, path in OLD.items():
        study = load_study(path.parent / "study.yaml")
        before, message = state_of(path), rf"got format {version}: pbdist convert {path} NEW_STORE makes a new store"
        with pytest.raises(StoreFormatError, match=message):
            open_study(path)
        copy = Path(shutil.copytree(path, tmp_path / f"{version}.zarr"))
        with pytest.raises(StoreFormatError, match=f"pbdist convert {copy}"):
            run_study(study, copy, SerialExecutor(), lambda _: None)
        assert files_of(copy) == files_of(path)
        assert state_of(path) == before


def same_bits(found: Any, expected: Any) -> bool:
    if expected.dtype.kind != "f":
        return bool(np.array_equal(found, expected))
    return found.shape == expected.shape and found.tobytes() == expected.tobytes()
