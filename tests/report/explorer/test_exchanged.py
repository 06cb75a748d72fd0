"""A chunk that is exchanged for other sound bytes while a store is shown is a gap that is told, never drawn."""

import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import zarr

from pbdist import open_study
from pbdist.report.explorer.answers import cell_tables
from pbdist.report.explorer.snapshot import Slabs, reading_notices, take_snapshot
from pbdist.run import SerialExecutor, run_study
from pbdist.store import open_parts, read_values
from pbdist.store.columns import encode_chunk
from pbdist.store.layout import BOUNDS
from pbdist.store.open import StoredStudy
from pbdist.study import load_study
from tests.batches import batches_of, chunk_of, exchange_chunk, write_shard
from tests.report.explorer.reading import unpacked
from tests.report.explorer.studies import STUDY, asked, serving
from tests.s3_server import fresh_bucket
from tests.studies import TIGHT, write_study

DAMAGED = "damaged: its files have changed or are missing"


@pytest.fixture
def stored(store_copy) -> StoredStudy:
    return open_parts(store_copy(STUDY))[0]


def by_anothers_chunk(stored: StoredStudy, name: str) -> None:
    exchange_chunk(stored.place.url, name, 0, chunk_of(stored.place.url, name, 1))


def by_smaller_bounds(stored: StoredStudy, name: str) -> None:
    # Encoded as pbdist does, with the checksum inside the chunk that fits it.
    head = stored.head
    values = read_values(stored, name, slice(0, head.cells_of(0).stop)) / 2
    exchange_chunk(stored.place.url, name, 0, encode_chunk(values, head.cells_per_batch))


Exchange = Callable[[StoredStudy, str], None]


@pytest.mark.parametrize("exchange", [by_anothers_chunk, by_smaller_bounds])
@pytest.mark.parametrize("name", ["delta_upper", "log_delta_lower"])
def test_a_batch_that_was_compared_before_is_compared_again(stored, exchange: Exchange, name: str):
    snapshot = take_snapshot(str(stored.place.url))
    cells = list(stored.head.cells_of(0))
    before = cell_tables(snapshot, cells)
    assert not any(before.gaps)
    exchange(stored, name)
    plain = zarr.open_array(stored.path / name, mode="r")[cells[0]]
    assert not np.array_equal(plain.max(axis=0), before.values[name][0], equal_nan=True)
    after = cell_tables(snapshot, cells)
    assert set(after.gaps) == {DAMAGED}
    assert all(np.isnan(after.values[name]).all() for name in BOUNDS)
    assert any("have changed or are missing" in notice["text"] for notice in reading_notices(snapshot, 0, 0))


def test_a_batch_found_damaged_is_removed_from_what_was_read(stored):
    snapshot = take_snapshot(str(stored.place.url))
    slabs = Slabs(snapshot)
    others = [cell for cell in range(stored.head.cells) if cell not in stored.head.cells_of(0)]
    while slabs.progress(0, 0) < 1.0:
        time.sleep(0.005)
    kept = slabs.at(1, 2, others)
    assert np.isfinite(slabs.at(1, 2, [0])["delta_upper"]).all()
    by_anothers_chunk(stored, "delta_upper")
    cell_tables(snapshot, [0])
    assert all(np.isnan(values).all() for values in slabs.at(1, 2, [0]).values())
    for name, values in slabs.at(1, 2, others).items():
        np.testing.assert_array_equal(values, kept[name])
    slabs.close()


def test_a_batch_that_is_committed_again_with_other_bounds_is_not_mixed_in(stored):
    snapshot = take_snapshot(str(stored.place.url))
    # A sound record of sound files, with another batch's bounds.
    sound = batches_of(stored, 0)
    write_shard(stored, 0, {**sound, 0: (sound[0][0], sound[1][1])})
    assert cell_tables(snapshot, [0]).gaps == (DAMAGED,)
    assert cell_tables(take_snapshot(str(stored.place.url)), [0]).gaps == ("",)


@pytest.mark.parametrize("kind", ["folder", pytest.param("objects", marks=pytest.mark.nightly)])
def test_a_served_store_shows_its_bounds_and_then_a_gap(store_copy, tmp_path, kind):
    with fresh_bucket() if kind == "objects" else nullcontext() as bucket:
        if bucket is None:
            where = str(store_copy(TIGHT))
        else:
            where = f"{bucket.url}/s.zarr"
            run_study(load_study(write_study(tmp_path, TIGHT)), where, SerialExecutor(), lambda _: None)
        with serving(where) as port:
            token = asked(port, "/contents.json")["token"]
            progress = f"/progress.json?token={token}&compositions=0&epsilon=0"
            while asked(port, progress)["progress"] < 1.0:
                time.sleep(0.01)
            found = asked(port, f"/bounds.json?token={token}&cell=1&compositions=2")
            truth = open_study(where).bounds.isel(cell=1, compositions=2).max("direction")
            np.testing.assert_array_equal(unpacked(found["delta_upper"]), truth["delta_upper"].values)
            assert found["command"].startswith(f"pbdist query {where} --mechanism=Laplace")
            by_anothers_chunk(open_parts(where)[0], "delta_upper")
            found = asked(port, f"/bounds.json?token={token}&cell=0&compositions=0")
            assert found["gaps"] == DAMAGED
            assert np.isnan(unpacked(found["delta_upper"])).all()
            assert "have changed or are missing" in asked(port, progress)["notices"][0]["text"]
