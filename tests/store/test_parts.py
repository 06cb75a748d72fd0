"""Stores that were extended, and batches in which cells failed."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import zarr

from pbdist.errors import BatchError, StoreDamagedError, StoreMismatchError
from pbdist.store import (
    BatchWriter,
    Place,
    StoredStudy,
    check_store,
    create_or_open,
    extend,
    failed_cells,
    is_committed,
    open_parts,
    open_store,
    place_at,
    restore_parts,
)
from pbdist.store.columns import column_of
from pbdist.study import Batch, StudySpec, load_study, plan_study
from pbdist.study.extension import missing_parts
from pbdist.table import BoundsTable, bounds_table
from tests.store.memory_place import MemoryPlace
from tests.store.test_damage import LARGER, SMALL
from tests.store.test_store import write_batch
from tests.studies import files_of, write_study


@dataclass(frozen=True, eq=False)
class FullPlace(MemoryPlace):
    """A place without room for another file."""

    most: int = 0

    def write(self, name: str, data: bytes) -> None:
        if len(self.files) == self.most:
            raise OSError(28, "No space left on device")
        super().write(name, data)

    def inner(self, name: str) -> "FullPlace":
        return FullPlace(self.files, f"{self.prefix}{name}/", self.most)


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
    return BatchWriter(stored.head, Batch(0, 0, 2, 0.0), stored.study.cells[:2])


def test_an_extension_leaves_the_old_files_as_they_were(small: StudySpec, tmp_path: Path) -> None:
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
    assert {name: after[name] for name in before} == before
    assert [missing for missing, _ in check_store(path).missing] == ["extensions/001"] * 2 + ["extensions/002"]


def test_an_interrupted_extension_is_taken_up(small: StudySpec, tmp_path: Path) -> None:
    wanted = load_study(write_study(tmp_path, LARGER))
    plans = [plan_study(part, 2) for part in missing_parts([small], wanted)]

    whole = MemoryPlace({})
    first = create_or_open(whole, plan_study(small, 2))
    start = dict(whole.files)
    extend([first], plans)
    for most in range(len(start), len(whole.files), 9):
        full = FullPlace(dict(start), most=most)
        with pytest.raises(OSError, match="No space left"):
            extend([open_store(full)], plans)
        place = MemoryPlace(full.files)
        assert not check_store(place).healthy
        parts = restore_parts(open_parts(place), wanted)
        left = missing_parts([part.study for part in parts], wanted)
        extend(parts, [plan_study(part, 2) for part in left])
        assert place.files == whole.files


def test_a_failed_cell_is_recorded_and_only_it_is_computed_again(small: StudySpec, tmp_path: Path) -> None:
    expected = create_or_open(tmp_path / "whole.zarr", plan_study(small, 2))
    write_batch(expected, 0)
    stored = create_or_open(tmp_path / "s.zarr", plan_study(small, 2))
    writer = writer_of(stored)
    assert not writer.kept(0)
    writer.fail("ValueError: no\nluck")
    writer.add(table_of(stored, 1))
    writer.commit()
    assert is_committed(stored, 0)
    assert failed_cells(stored, 0) == {0: "ValueError: no luck"}
    check = check_store(tmp_path / "s.zarr")
    assert (check.failed, check.missing, check.healthy) == ((("", 0, "ValueError: no luck"),), (), False)
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
    assert failed_cells(stored, 0) == {}
    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")
    # Nothing is taken over from a result that has changed since.
    writer = writer_of(stored)
    writer.fail("no luck")
    writer.add(table_of(stored, 1))
    writer.commit()
    (stored.path / "delta_lower/c/0/0/0/0").write_bytes(b"")
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
