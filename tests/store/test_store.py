"""Create stores, refuse what is none, and commit batches, without a run."""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from pbdist.errors import (
    BatchError,
    InvalidInputError,
    NotAStoreError,
    PbdistError,
    StoreDamagedError,
    StoreFormatError,
    StoreMismatchError,
)
from pbdist.store import (
    BatchWriter,
    LocalPlace,
    StoredStudy,
    check_store,
    create_or_open,
    damaged_batches,
    hold,
    holder,
    open_store,
    place_at,
    read_state,
)
from pbdist.store.layout import bounds_file, details_file, failures_file
from pbdist.study import Plan, load_study, plan_study
from pbdist.study.columns import CellTable
from pbdist.table import BoundsTable, bounds_table
from pbdist.types import Direction
from tests.studies import TIGHT, TINY, files_of, write_study

pytestmark = pytest.mark.slow

SMALL = """\
format: 1
name: small
mechanisms:
  - {kind: Laplace, scale: 2}
  - {label: ApproximateDP, kind: ApproximateDP, epsilon: 0.1, delta: 1e-6}
method: buckets
buckets: 40
factors: 1.5
keep_states: true
compositions: [1]
epsilon: [0, 0.5]
"""
LARGER = SMALL.replace("scale: 2", "scale: [2, 5]").replace("[1]", "[1, 2]")


def plan_of(tmp_path: Path, text: str = TINY, cells_per_batch: int | None = None) -> Plan:
    return plan_study(load_study(write_study(tmp_path, text)), cells_per_batch)


def created(path: Path, plan: Plan) -> StoredStudy:
    return create_or_open(place_at(path), plan)


def table_of(stored: StoredStudy, cell: int) -> BoundsTable:
    study = stored.study
    return bounds_table(
        [(study.cells[cell].pair, 1)],
        compositions=study.compositions,
        epsilon=study.epsilon,
        method=study.method,
        tolerance=study.tolerance,
        buckets=study.buckets,
        factor=study.cells[cell].factor,
        keep_states=study.keep_states,
        strict=False,
    )


def writer_of(stored: StoredStudy, index: int = 0) -> BatchWriter:
    cells = stored.cells_of(index)
    return BatchWriter(stored.head, index, stored.study.cells[cells.start : cells.stop])


def write_batch(stored: StoredStudy, index: int) -> None:
    writer = writer_of(stored, index)
    for cell in stored.cells_of(index):
        writer.add(table_of(stored, cell))
    writer.commit()


def test_xarray_opens_a_store_without_a_warning(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    stored = created(tmp_path / "s.zarr", plan)
    assert stored == open_store(tmp_path / "s.zarr")
    write_batch(stored, 0)
    for options in ({}, {"consolidated": False}):
        dataset = xr.open_zarr(Path(stored.place.url), chunks=None, **options)
        assert dict(dataset.sizes) == {
            "cell": 6,
            "quantity": 5,
            "direction": 2,
            "compositions": 4,
            "epsilon": 3,
            "detail": 6,
        }
        bounds = dataset.bounds.to_dataset("quantity")
        assert np.isnan(bounds.delta_upper[stored.cells_per_batch :]).all()
        np.testing.assert_array_equal(bounds.delta_upper[0], table_of(stored, 0).delta_upper)
        assert dataset["direction"].values.tolist() == ["A||B", "B||A"]
        assert dataset["exp_epsilon"].values.tolist() == [1.0, 1.5, 2.0]
        assert dataset["scale"].values.tolist()[:3] == [2.0, 3.0, 5.0]
        assert dataset["noise"].values.tolist() == ["Laplace", "Laplace", "Laplace", "", "", "Laplace"]
        assert dataset["reading"].values.tolist()[-1] == "clamp-and-ceil"
        assert np.isnan(dataset["sensitivity"].values[-1])
        assert dataset.attrs["study_digest"] == plan.study.digest
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == [".s.zarr.partial"]
    with hold(stored.place):
        pass
    assert not (tmp_path / ".s.zarr.partial").exists()


def test_a_chunk_is_a_batch_and_has_a_checksum(tmp_path: Path) -> None:
    stored = created(tmp_path / "s.zarr", plan_of(tmp_path, cells_per_batch=4))
    metadata = json.loads((Path(stored.place.url) / "bounds/zarr.json").read_text())
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [4, 5, 2, 4, 3]
    assert metadata["fill_value"] == "NaN"
    assert metadata["codecs"][-1] == {"name": "zstd", "configuration": {"level": 3, "checksum": True}}
    before = set(files_of(Path(stored.place.url)))
    for index in range(stored.batches):
        write_batch(stored, index)
    assert set(files_of(Path(stored.place.url))) - before == {
        file(index) for index in range(2) for file in (bounds_file, details_file)
    }


def test_equal_plans_give_equal_stores_and_an_existing_one_stays(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    created(tmp_path / "a.zarr", plan)
    created(tmp_path / "b.zarr", plan)
    before = files_of(tmp_path / "a.zarr")
    assert before == files_of(tmp_path / "b.zarr")
    created(tmp_path / "a.zarr", plan)
    assert created(tmp_path / "a.zarr", replace(plan, cells_per_batch=4)).cells_per_batch == plan.cells_per_batch
    assert files_of(tmp_path / "a.zarr") == before


def _file(path: Path) -> None:
    path.write_text("words")


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "precious.txt").write_text("words")


def _other_group(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')


def _broken_json(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("{")


@pytest.mark.parametrize("make", [_file, _folder, Path.mkdir, _other_group, _broken_json])
def test_what_is_no_store_is_refused_and_stays(tmp_path: Path, make: object) -> None:
    path, plan = tmp_path / "s.zarr", plan_of(tmp_path)
    make(path)  # type: ignore[operator]
    before = files_of(tmp_path)
    with pytest.raises(NotAStoreError, match="expected a pbdist store, got something else") as caught:
        created(path, plan)
    assert "\n" not in str(caught.value)
    assert files_of(tmp_path) == before


def test_another_study_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    created(path, plan_of(tmp_path))
    before = files_of(path)
    with pytest.raises(StoreMismatchError, match="digest"):
        created(path, plan_of(tmp_path, TINY.replace("[2, 3, 5]", "[2, 3, 6]")))
    assert files_of(path) == before


@pytest.mark.parametrize("number", [5, 7, True, "6"])
def test_a_store_of_another_format_is_refused_in_one_line(tmp_path: Path, number: object) -> None:
    path = tmp_path / "other.zarr"
    path.mkdir()
    attributes = {"pbdist_format": number, "study_digest": "0" * 64}
    (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}))
    before = files_of(path)
    for ask in (open_store, check_store, lambda where: created(where, plan_of(tmp_path))):
        with pytest.raises(StoreFormatError, match=r"expected a store of format 6, got format .*: run the study again"):
            ask(path)
    assert files_of(path) == before


def test_a_path_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PbdistError) as caught:
        created(tmp_path / "file" / "s.zarr", plan_of(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_batch_is_committed_by_its_bounds_and_written_again_to_the_same_bytes(tmp_path: Path) -> None:
    stored = created(tmp_path / "s.zarr", plan_of(tmp_path, SMALL, 1))
    assert stored.progress().missing == [0, 1]
    write_batch(stored, 1)
    assert stored.progress().missing == [0]
    assert [stored.is_sound(index) for index in range(2)] == [False, True]
    written = files_of(Path(stored.place.url))
    write_batch(open_store(Path(stored.place.url)), 1)
    assert files_of(Path(stored.place.url)) == written
    # Written last, and so what a kill leaves out.
    (Path(stored.place.url) / bounds_file(1)).unlink()
    assert open_store(Path(stored.place.url)).read(1) is None
    assert stored.progress().missing == [0, 1]


def test_a_failed_cell_is_recorded_with_its_cause_until_its_batch_is_computed_again(tmp_path: Path) -> None:
    stored = created(tmp_path / "s.zarr", plan_of(tmp_path, SMALL, 2))
    writer = writer_of(stored)
    writer.fail("ValueError: no\nluck")
    writer.add(table_of(stored, 1))
    writer.commit()
    assert stored.progress().failed == {0: "ValueError: no luck"}
    assert stored.failures(0) == {0: "ValueError: no luck"}
    check = check_store(Path(stored.place.url))
    assert (check.failed, check.missing, check.healthy) == ((("", 0, "ValueError: no luck"),), (), False)
    assert np.isnan(stored.values("delta_upper", 0)).all()
    assert not np.isnan(stored.values("delta_upper", 1)).any()
    # A walk over the store finds nothing that zarr does not know.
    assert "failures" in xr.open_datatree(Path(stored.place.url), engine="zarr", consolidated=False).children
    write_batch(stored, 0)
    again = open_store(Path(stored.place.url))
    assert again.progress().complete
    assert check_store(Path(stored.place.url)).healthy
    assert not np.isnan(again.values("delta_upper", slice(None))).any()


def with_a_failure(tmp_path: Path) -> StoredStudy:
    """A store of two batches, with a failed cell in the first one."""
    stored = created(tmp_path / "s.zarr", plan_of(tmp_path, SMALL, 2))
    for index in range(1, stored.batches):
        write_batch(stored, index)
    writer = writer_of(stored)
    writer.fail("ValueError: no luck")
    writer.add(table_of(stored, 1))
    writer.commit()
    return open_store(stored.place)


def test_a_second_try_that_is_killed_at_any_step_never_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, step, looks = with_a_failure(tmp_path), 0, []

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    while True:
        write, remove, left = LocalPlace.write, LocalPlace.remove, iter([False] * step + [True])
        with monkeypatch.context() as patched:
            for name, act in (("write", write), ("remove", remove)):
                patched.setattr(
                    LocalPlace, name, lambda *a, act=act, left=left: stop() if next(left, False) else act(*a)
                )
            try:
                write_batch(stored, 0)
                break
            except KeyboardInterrupt:
                step += 1
        now = open_store(stored.place)
        looks.append((now.progress().complete, check_store(stored.place).healthy))
    # Before each state, the details, the bounds, and the end of the record.
    assert len(looks) > 3
    assert set(looks) == {(False, False)}
    assert open_store(stored.place).progress().complete
    assert check_store(stored.place).healthy


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:0],
        lambda text: text.replace("luck", "lack"),
        lambda text: text.replace('"0"', '"1"'),
        lambda text: text.replace('"0"', '"q"'),
        lambda text: text.replace('"failures": {', '"failures": [{').replace('"}, "sha', '"}], "sha'),
    ],
)
def test_a_damaged_record_of_failures_is_no_excuse(damage: Callable[[str], str], tmp_path: Path) -> None:
    stored = with_a_failure(tmp_path)
    file = Path(stored.place.url) / failures_file(0)
    before = file.read_text()
    file.write_text(damage(before))
    assert file.read_text() != before
    assert stored.progress().missing == [0]
    assert not check_store(stored.place).healthy
    file.unlink()
    # One listing does not see that it is gone.
    assert failures_file(0) in {name for name, _ in check_store(stored.place).damaged}
    assert 0 in damaged_batches(stored)


def test_a_writer_refuses_another_store_other_cells_and_nan(tmp_path: Path) -> None:
    stored = created(tmp_path / "s.zarr", plan_of(tmp_path, SMALL, 2))
    with pytest.raises(StoreMismatchError, match="the store has changed since the run began: another study"):
        BatchWriter(replace(stored.head, digest="0" * 64), 0, stored.study.cells[:2])
    with pytest.raises(StoreMismatchError, match="batch 0 has other cells"):
        BatchWriter(stored.head, 0, stored.study.cells[:1])
    with pytest.raises(BatchError, match="expected 2 cells, got 0"):
        writer_of(stored).commit()
    table = table_of(stored, 0)
    upper = table.delta_upper.copy()
    upper[1, 0, 0] = np.nan
    with pytest.raises(BatchError, match=r"Laplace\(scale=2, sensitivity=1\).*: a bound is not a number"):
        writer_of(stored).add(replace(table, delta_upper=upper))


def test_no_flipped_bit_is_read_as_a_number(tmp_path: Path) -> None:
    stored = created(tmp_path / "s.zarr", plan_of(tmp_path, cells_per_batch=6))
    write_batch(stored, 0)
    whole = open_store(Path(stored.place.url)).read(0)
    assert whole is not None
    true, seen = whole.bounds.tobytes() + whole.details.tobytes(), 0
    for name in (bounds_file(0), details_file(0)):
        content = (Path(stored.place.url) / name).read_bytes()
        for position in range(0, len(content), 5):
            flipped = bytearray(content)
            flipped[position] ^= 1 << (position % 8)
            (Path(stored.place.url) / name).write_bytes(flipped)
            try:
                found = open_store(Path(stored.place.url)).read(0)
            except StoreDamagedError:
                seen += 1
                continue
            # Of a bit that says nothing about the content.
            assert found is not None
            assert found.bounds.tobytes() + found.details.tobytes() == true
        (Path(stored.place.url) / name).write_bytes(content)
    assert seen > 100


def assert_same_state(read: object, state: object) -> None:
    assert type(read) is type(state)
    if isinstance(state, np.ndarray):
        np.testing.assert_array_equal(read, state)
    elif is_dataclass(state):
        for field in fields(state):
            assert_same_state(getattr(read, field.name), getattr(state, field.name))
    elif isinstance(state, dict):
        assert read.keys() == state.keys()  # type: ignore[attr-defined]
        for key in state:
            assert_same_state(read[key], state[key])  # type: ignore[index]
    elif isinstance(state, tuple) and any(map(is_dataclass, state)):
        for its, own in zip(read, state, strict=True):  # type: ignore[call-overload]
            assert_same_state(its, own)
    else:
        assert read == state


@pytest.mark.parametrize("text", [TINY, TIGHT])
def test_states_come_back_as_they_were(tmp_path: Path, text: str) -> None:
    stored = created(tmp_path / "s.zarr", plan_of(tmp_path, f"{text}keep_states: true\n", 1))
    for cell in (0, 5):
        write_batch(stored, cell)
        table = table_of(stored, cell)
        for (direction, r), state in table.states.items():
            if direction is Direction.B_TO_A and state is table.states[Direction.A_TO_B, r]:
                continue
            assert_same_state(read_state(stored, cell, direction, r), state)
    with pytest.raises(FileNotFoundError):
        read_state(stored, 1, Direction.A_TO_B, 1)


def test_cells_are_read_when_they_are_needed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMALL)
    path = tmp_path / "s.zarr"
    created(path, plan)
    cells, small = open_store(path).study.cells, plan.study
    assert (len(cells), cells[-1], cells[0:1]) == (2, small.cells[1], tuple(small.cells[:1]))
    assert cells == small.cells
    assert cells != small.cells[:1]
    assert cells.column("mechanism") == CellTable.of(small.cells).column("mechanism") == ["Laplace", "ApproximateDP"]
    with pytest.raises(IndexError):
        cells[2]
    (path / "pair/0").write_bytes(b"torn")
    with pytest.raises(StoreDamagedError, match=r"the columns of the cells are damaged \(pair/0 is missing or changed"):
        open_store(path).study.cells[0]


def test_one_process_writes_to_a_store_in_a_folder(tmp_path: Path) -> None:
    place = place_at(tmp_path / "s.zarr")
    assert holder(place) is None
    with hold(place):
        found = holder(place)
        assert found is not None
        assert "process" in found
        with pytest.raises(InvalidInputError, match=r"another process writes to the store \(process"), hold(place):
            pass
    assert holder(place) is None
    with hold(place):
        pass
