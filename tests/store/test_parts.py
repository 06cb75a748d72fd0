"""Stores that were extended, and batches in which cells failed."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from pbdist.errors import BatchError, StoreDamagedError, StoreMismatchError
from pbdist.query import open_study
from pbdist.store import (
    BatchWriter,
    Place,
    StoredStudy,
    changed_skeleton,
    check_store,
    create_or_open,
    extend,
    join_shard,
    open_parts,
    open_store,
    place_at,
    restore_parts,
)
from pbdist.store.create import root_files, told_root
from pbdist.store.layout import batch_file
from pbdist.study import Batch, StudySpec, load_study, plan_study
from pbdist.study.columns import column_of
from pbdist.study.extension import missing_parts
from pbdist.table import BoundsTable, bounds_table
from tests.batches import exchange_chunk
from tests.store.memory_place import MemoryPlace
from tests.store.test_damage import LARGER, SMALL
from tests.store.test_store import write_batch
from tests.studies import files_of, write_study

pytestmark = pytest.mark.slow


@pytest.fixture
def small(tmp_path: Path) -> StudySpec:
    return load_study(write_study(tmp_path, SMALL))


def table_of(stored: StoredStudy, cell: int) -> BoundsTable:
    study = stored.study
    return bounds_table(
        [(study.cells[cell].pair, 1)],
        compositions=study.compositions,
        epsilon=study.epsilon,
        method="buckets",
        buckets=40,
        factor=study.cells[cell].factor,
        keep_states=study.keep_states,
    )


def writer_of(stored: StoredStudy) -> BatchWriter:
    # Of a batch of which an earlier attempt may be there.
    return BatchWriter(stored.head, Batch(0, 0, 2, 0.0, partly=True), stored.study.cells[:2])


HEADS = ("commits/zarr.json", "zarr.json")


def test_an_extension_leaves_the_old_files_as_they_were_but_for_the_heads(small: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    stored = create_or_open(path, plan_study(small, 2))
    write_batch(stored, 0)
    before = files_of(path)
    wanted = load_study(write_study(tmp_path, LARGER))
    plans = [plan_study(part) for part in missing_parts([small], wanted)]
    parts = extend([stored], plans)
    assert parts == open_parts(path)
    assert [part.path for part in parts] == [path, path / "extensions/001", path / "extensions/002"]
    assert {part.where for part in parts} == {str(path)}
    after = files_of(path)
    assert sorted(name for name in before if after[name] != before[name]) == sorted(HEADS)
    assert [missing for missing, _ in check_store(path).missing] == ["extensions/001"] * 2 + ["extensions/002"]


def test_the_root_tells_plain_readers_that_it_is_the_first_of_several_parts(small: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    first = create_or_open(path, plan_study(small, 2))
    alone = dict(zarr.open_group(path, mode="r").attrs)
    assert not {"part_of", "other_parts"} & set(alone)
    wanted = load_study(write_study(tmp_path, LARGER))
    extend([first], [plan_study(part) for part in missing_parts([small], wanted)])
    told = xr.open_zarr(path, consolidated=False, chunks=None).attrs
    assert told["part_of"].startswith("part 1 of 3: ")
    assert told["other_parts"] == ["extensions/001", "extensions/002"]
    assert all((path / part / "zarr.json").is_file() for part in told["other_parts"])
    different = {"part_of", "other_parts", "attributes_sha256"}
    assert {name: told[name] for name in set(told) - different} == {
        name: alone[name] for name in set(alone) - different
    }


def test_a_reader_that_has_opened_the_store_before_it_is_extended_goes_on(small: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    first = create_or_open(path, plan_study(small, 2))
    write_batch(first, 0)
    study = open_study(path)
    wanted = load_study(write_study(tmp_path, LARGER))
    extend([first], [plan_study(part) for part in missing_parts([small], wanted)])
    assert changed_skeleton(first) == {}
    assert study.bounds.sizes["cell"] == 2
    # A changed root is damage as before.
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"]["other_parts"] = ["../elsewhere"]
    (path / "zarr.json").write_text(json.dumps(document))
    assert changed_skeleton(first) == {"zarr.json": "other content"}


@pytest.mark.parametrize("head", HEADS)
def test_heads_that_tell_of_other_parts_are_found_and_put_right(small: StudySpec, tmp_path: Path, head: str) -> None:
    """Also where they are whole and sealed, as after a kill between the two writes."""
    path = tmp_path / "s.zarr"
    first = create_or_open(path, plan_study(small, 2))
    write_batch(first, 0)
    wanted = load_study(write_study(tmp_path, LARGER))
    for part in extend([first], [plan_study(part, 2) for part in missing_parts([small], wanted)]):
        write_batch(part, 0)
    before = files_of(path)
    assert check_store(path).healthy
    for others in ([], ["extensions/001"], ["extensions/001", "extensions/002", "extensions/003"]):
        (path / head).write_bytes(root_files(told_root(first.root, others))[head])
        assert check_store(path).damaged == ((head, "tells of other parts than those that are there"),)
        assert open_study(path).complete is (head == HEADS[0] or len(others) < 3)
        assert open_study(path).bounds.sizes["compositions"] == 2
        restore_parts(open_parts(path), wanted)
        assert files_of(path) == before
    # Extended by an earlier version, which told nothing; the next run tells.
    for name, data in root_files(told_root(first.root, ())).items():
        (path / name).write_bytes(data)
    assert check_store(path).healthy
    restore_parts(open_parts(path), wanted)
    assert files_of(path) == before


def test_at_every_moment_of_an_extension_the_root_tells_of_all_parts_that_are_there(
    small: StudySpec, tmp_path: Path
) -> None:
    """The process may be killed after each of these writes; every state opens, is unfinished, and is finished."""
    wanted = load_study(write_study(tmp_path, LARGER))
    plans = [plan_study(part, 2) for part in missing_parts([small], wanted)]
    states: list[dict[str, bytes]] = []

    @dataclass(frozen=True, eq=False)
    class Watched(MemoryPlace):
        def write(self, name: str, data: bytes) -> None:
            super().write(name, data)
            if re.fullmatch(r"(extensions/)?(\d+/)?(commits/)?zarr\.json", self.prefix + name):
                states.append(dict(self.files))

        def inner(self, name: str) -> "Watched":
            return Watched(self.files, f"{self.prefix}{name}/")

    place = Watched({})
    first = create_or_open(place, plan_study(small, 2))
    write_batch(first, 0)
    states.clear()
    extend([first], plans)
    whole = dict(place.files)
    for state in states:
        found = MemoryPlace(dict(state))
        parts = open_parts(found)
        told = parts[0].others_told
        assert set(told) >= {part.part for part in parts[1:]}
        assert state == whole or not check_store(found).healthy
        assert open_study(found).bounds.sizes["cell"] >= 2
        parts = restore_parts(parts, wanted)
        extend(parts, [plan_study(part, 2) for part in missing_parts([part.study for part in parts], wanted)])
        assert found.files == whole


def test_a_failed_cell_is_recorded_and_only_it_is_computed_again(small: StudySpec, tmp_path: Path) -> None:
    expected = create_or_open(tmp_path / "whole.zarr", plan_study(small, 2))
    write_batch(expected, 0)
    stored = create_or_open(tmp_path / "s.zarr", plan_study(small, 2))
    writer = writer_of(stored)
    assert not writer.kept(0)
    writer.fail("ValueError: no\nluck")
    writer.add(table_of(stored, 1))
    writer.commit()
    assert stored.results.is_sound(0)
    assert stored.results.failed(0) == {0: "ValueError: no luck"}
    check = check_store(tmp_path / "s.zarr")
    assert (check.failed, check.missing, check.healthy) == ((("", 0, "ValueError: no luck"),), (), False)
    assert join_shard(stored.head, 0).lacking == ()
    upper = zarr.open_array(stored.path / "delta_upper", mode="r")[...]
    assert np.isnan(upper[0]).all()
    assert not np.isnan(upper[1]).any()
    again = writer_of(stored)
    assert [again.kept(0), again.kept(1)] == [False, True]
    with pytest.raises(BatchError, match="expected an earlier result"):
        again.keep()
    again.add(table_of(stored, 0))
    again.keep()
    again.commit()
    assert stored.results.failed(0) == {}
    for one in (stored, expected):
        assert join_shard(one.head, 0).lacking == ()
    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")
    # Nothing is taken over from a result that has changed since.
    writer = writer_of(stored)
    writer.fail("no luck")
    writer.add(table_of(stored, 1))
    writer.commit()
    assert writer_of(stored).kept(1)
    (stored.path / batch_file(0)).write_bytes(b"")
    # What was joined before is still there.
    assert writer_of(stored).kept(1)
    exchange_chunk(stored.path, "delta_lower", 0)
    assert not writer_of(stored).kept(1)


def test_a_writer_refuses_another_store_and_other_cells(small: StudySpec, tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_study(small, 2))
    other = replace(stored.head, digest="0" * 64)
    with pytest.raises(StoreMismatchError, match="expected study 000000000000, got"):
        BatchWriter(other, Batch(0, 0, 2, 0.0), stored.study.cells[:2])
    with pytest.raises(StoreMismatchError, match="expected batch 0 with cells 0 to 2, got 0 to 1"):
        BatchWriter(stored, Batch(0, 0, 1, 0.0), stored.study.cells[:1])
    with pytest.raises(BatchError, match="expected 2 cells, got 0"):
        writer_of(stored).commit()


def test_cells_are_read_when_they_are_asked_for(small: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    place: Place = place_at(path)
    create_or_open(place, plan_study(small))
    cells = open_store(path).study.cells
    assert (len(cells), cells[-1], cells[0:1]) == (2, small.cells[1], small.cells[:1])
    assert cells == small.cells
    assert hash(cells) == hash(small.cells)
    assert cells != small.cells[:1]
    assert column_of(cells, "mechanism") == column_of(small.cells, "mechanism") == ["Laplace", "ApproximateDP"]
    with pytest.raises(IndexError):
        cells[2]
    (path / "pair/c/0").write_bytes(b"torn")
    with pytest.raises(StoreDamagedError, match="expected the cells of the study, got another file pair/c/0"):
        open_store(path).study.cells[0]
