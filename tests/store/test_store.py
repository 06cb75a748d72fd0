"""Create, refuse and commit stores without a run."""

import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from pbdist.errors import (
    BatchError,
    NotAStoreError,
    PbdistError,
    StoreDamagedError,
    StoreFormatError,
    StoreMismatchError,
)
from pbdist.store import (
    BatchWriter,
    StoredStudy,
    check_store,
    create_or_open,
    join_shard,
    open_store,
    read_state,
    remove_strays,
)
from pbdist.store.layout import batch_file
from pbdist.store.results import index_bytes
from pbdist.study import Batch, Plan, load_study, plan_study
from pbdist.table import bounds_table
from pbdist.types import Direction
from tests.studies import TIGHT, TINY, files_of, write_study

pytestmark = pytest.mark.slow


def plan_of(tmp_path: Path, text: str = TINY, cells_per_batch: int | None = None) -> Plan:
    plan = plan_study(load_study(write_study(tmp_path, text)))
    return plan if cells_per_batch is None else replace(plan, cells_per_batch=cells_per_batch)


def write_batch(stored: StoredStudy, index: int) -> None:
    study = stored.study
    numbers = stored.head.cells_of(index)
    cells = study.cells[numbers.start : numbers.stop]
    writer = BatchWriter(stored, Batch(index, numbers.start, numbers.stop, 0.0), cells)
    for cell in cells:
        writer.add(
            bounds_table(
                [(cell.pair, 1)],
                compositions=study.compositions,
                epsilon=study.epsilon,
                method=study.method,
                tolerance=study.tolerance,
                buckets=study.buckets,
                factor=cell.factor,
                keep_states=study.keep_states,
            )
        )
    writer.commit()


def test_a_new_store_opens_in_xarray_and_zarr_without_a_warning(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    stored = create_or_open(tmp_path / "s.zarr", plan)
    assert stored == open_store(tmp_path / "s.zarr")
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    dataset = xr.open_zarr(stored.path, consolidated=False, chunks=None)
    assert dict(dataset.sizes) == {"cell": 6, "direction": 2, "compositions": 4, "epsilon": 3}
    assert bool(np.isnan(dataset["delta_upper"]).all())
    assert dataset["direction"].values.tolist() == ["A||B", "B||A"]
    assert dataset["exp_epsilon"].values.tolist() == [1.0, 1.5, 2.0]
    assert dataset["scale"].values.tolist()[:3] == [2.0, 3.0, 5.0]
    assert dataset["noise"].values.tolist() == ["Laplace", "Laplace", "Laplace", "", "", "Laplace"]
    assert np.isnan(dataset["sensitivity"].values[-1])
    assert dataset["reading"].values.tolist()[-1] == "clamp-and-ceil"
    for name in dataset.variables:
        assert dataset[name].attrs["long_name"]
    # Commit records and states are zarr groups, so that no walk over a finished store stumbles upon them.
    for index in range(stored.batches):
        write_batch(stored, index)
    assert join_shard(stored.head, 0).lacking == ()
    remove_strays(stored)
    members = dict(zarr.open_group(stored.path, mode="r").members(max_depth=None))
    assert "commits/shard-000000" in members
    assert dataset.attrs["study_digest"] == plan.study.digest
    assert set(dataset.attrs["provenance"]) == {"pbdist", "numpy", "scipy", "zarr", "python", "git_revision"}


def test_chunks_are_whole_batches_and_checksummed(tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_of(tmp_path, cells_per_batch=4))
    for name in ("delta_lower", "log_delta_upper"):
        metadata = json.loads((stored.path / name / "zarr.json").read_text())
        assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [8, 2, 4, 3]
        assert metadata["fill_value"] == "NaN"
        (sharding,) = metadata["codecs"]
        assert sharding["configuration"]["chunk_shape"] == [4, 2, 4, 3]
        zstd = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}
        assert sharding["configuration"]["codecs"][-1] == zstd
        assert sharding["configuration"]["index_codecs"][-1] == {"name": "crc32c"}
        assert metadata["dimension_names"] == ["cell", "direction", "compositions", "epsilon"]
    assert stored.batches == 2


def test_equal_plans_give_equal_stores_and_an_existing_one_stays(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    create_or_open(tmp_path / "a.zarr", plan)
    create_or_open(tmp_path / "b.zarr", plan)
    before = files_of(tmp_path / "a.zarr")
    assert before == files_of(tmp_path / "b.zarr")
    create_or_open(tmp_path / "a.zarr", plan)
    assert files_of(tmp_path / "a.zarr") == before


def _file(path: Path) -> None:
    path.write_text("words")


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "precious.txt").write_text("words")


def _empty_folder(path: Path) -> None:
    path.mkdir()


def _other_group(path: Path) -> None:
    zarr.open_group(path, mode="w", zarr_format=3)


def _broken_json(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("{")


@pytest.mark.parametrize("make", [_file, _folder, _empty_folder, _other_group, _broken_json])
def test_what_is_not_a_store_is_refused_and_stays(tmp_path: Path, make: object) -> None:
    path = tmp_path / "s.zarr"
    make(path)  # type: ignore[operator]
    before = files_of(tmp_path)
    with pytest.raises(NotAStoreError) as caught:
        create_or_open(path, plan_study(load_study(write_study(tmp_path))))
    assert "\n" not in str(caught.value)
    (tmp_path / "study.yaml").unlink()
    assert files_of(tmp_path) == before


def change_root(path: Path, **attributes: object) -> None:
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"].update(attributes)
    (path / "zarr.json").write_text(json.dumps(document))


def test_another_format_another_study_and_a_broken_one_are_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    path = tmp_path / "s.zarr"
    create_or_open(path, plan)
    before = files_of(path)
    with pytest.raises(StoreMismatchError, match="digest"):
        create_or_open(path, plan_of(tmp_path, TINY.replace("[2, 3, 5]", "[2, 3, 6]")))
    assert files_of(path) == before
    assert create_or_open(path, replace(plan, cells_per_batch=4)).cells_per_batch == plan.cells_per_batch
    assert files_of(path) == before


@pytest.mark.parametrize("number", [4, 6, True, "5"])
def test_a_store_of_another_format_is_refused_and_left_as_it_is(tmp_path: Path, number: object) -> None:
    path = tmp_path / "other.zarr"
    path.mkdir()
    attributes = {"pbdist_format": number, "study_digest": "0" * 64}
    (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}))
    before = files_of(path)
    for ask in (open_store, check_store, lambda where: create_or_open(where, plan_of(tmp_path))):
        with pytest.raises(StoreFormatError, match="expected a store of format 5, got format"):
            ask(path)
    assert files_of(path) == before


def test_a_path_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PbdistError) as caught:
        create_or_open(tmp_path / "file" / "s.zarr", plan_of(tmp_path))
    assert "\n" not in str(caught.value)


def test_commit_notices_every_change(tmp_path: Path) -> None:
    text = TINY.replace("buckets: 400", "buckets: 400\nkeep_states: true")
    stored = create_or_open(tmp_path / "s.zarr", plan_of(tmp_path, text, cells_per_batch=2))
    assert not any(stored.results.is_sound(index) for index in range(3))
    write_batch(stored, 1)
    assert [stored.results.is_sound(index) for index in range(3)] == [False, True, False]
    written = files_of(stored.path)
    record = stored.results.record(1)
    assert record is not None
    assert any(name.startswith("states/cell-000002/A_TO_B/r-7/") for name in record.states)
    for name in (batch_file(1), *record.states):
        path = stored.path / name
        content = path.read_bytes()
        path.unlink()
        assert not stored.results.is_sound(1)
        for position in (0, len(content) - 1):
            path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
            assert not stored.results.is_sound(1)
        path.write_bytes(content[:-1])
        assert not stored.results.is_sound(1)
        path.write_bytes(content)
    assert stored.results.is_sound(1)
    write_batch(stored, 1)
    assert files_of(stored.path) == written


def test_a_bound_that_is_no_number_is_not_stored(tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_of(tmp_path))
    study = stored.study
    table = bounds_table(
        [(study.cells[0].pair, 1)],
        compositions=study.compositions,
        epsilon=study.epsilon,
        method="buckets",
        buckets=400,
    )
    upper = table.delta_upper.copy()
    upper[1, 0, 0] = np.nan
    words = r"Laplace\(scale=2, sensitivity=1\): expected numbers in delta_upper, got nan"
    with pytest.raises(BatchError, match=words):
        BatchWriter(stored, Batch(0, 0, 1, 0.0), study.cells[:1]).add(replace(table, delta_upper=upper))


def test_no_flipped_bit_is_read_as_a_number(tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_of(tmp_path, cells_per_batch=6))
    write_batch(stored, 0)
    join_shard(stored.head, 0)
    path = stored.path / "delta_upper/c/0/0/0/0"
    content = path.read_bytes()
    true = zarr.open_array(stored.path / "delta_upper", mode="r")[...]
    for position in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        try:
            read = zarr.open_array(stored.path / "delta_upper", mode="r")[...]
        except (RuntimeError, ValueError):
            continue
        # zarr does not see every flipped bit of an index: pbdist does.
        if not np.array_equal(read, true, equal_nan=True):
            assert position >= len(content) - index_bytes(1)
        try:
            ours = open_store(stored.path).results.array("delta_upper", slice(None))
        except StoreDamagedError:
            continue
        np.testing.assert_array_equal(ours, true)


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
    else:
        assert read == state


@pytest.mark.parametrize("text", [TINY, TIGHT])
def test_states_come_back_as_they_were(tmp_path: Path, text: str) -> None:
    text += "keep_states: true\n"
    stored = create_or_open(tmp_path / "s.zarr", plan_of(tmp_path, text, cells_per_batch=1))
    write_batch(stored, 0)
    write_batch(stored, 5)
    study = stored.study
    for cell in (0, 5):
        table = bounds_table(
            [(study.cells[cell].pair, 1)],
            compositions=study.compositions,
            epsilon=study.epsilon,
            method=study.method,
            tolerance=study.tolerance,
            buckets=study.buckets,
            keep_states=True,
        )
        for (direction, r), state in table.states.items():
            if direction is Direction.B_TO_A and state is table.states[Direction.A_TO_B, r]:
                continue
            assert_same_state(read_state(stored, cell, direction, r), state)
    with pytest.raises(FileNotFoundError):
        read_state(stored, 1, Direction.A_TO_B, 1)


def test_strays_are_removed_and_nothing_else(tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_of(tmp_path))
    before = files_of(stored.path)
    (stored.path / "delta_lower" / "c").mkdir(exist_ok=True)
    (stored.path / "delta_lower" / "c" / "0.abc.partial").write_text("torn")
    remove_strays(stored)
    assert files_of(stored.path) == before
