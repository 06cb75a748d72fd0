"""What a page is told of a store: that it lacks something, that it is damaged, and what of it is not shown."""

import time

import numpy as np
import pytest

from pbdist import open_study
from pbdist.query import reached_precision
from pbdist.report.explorer.answers import cell_tables
from pbdist.report.explorer.snapshot import Slabs, Snapshot, contents, notices, reading_notices, take_snapshot
from pbdist.run import SerialExecutor, run_study
from pbdist.store import open_parts
from pbdist.store.create import create_or_open
from pbdist.study import load_study
from pbdist.study.plan import plan_study
from tests.batches import damage_batch, fail_cells
from tests.report.explorer.studies import MISSED, STUDY
from tests.studies import TIGHT, write_study


def texts(found) -> list[str]:
    return [notice["text"] for notice in found]


def all_read(snapshot: Snapshot) -> Slabs:
    slabs = Slabs(snapshot)
    while slabs.progress(0, 0) < 1.0:
        time.sleep(0.005)
    slabs.close()
    return slabs


@pytest.fixture
def copy(store_copy):
    return store_copy(STUDY)


@pytest.fixture
def tight(store_copy):
    return store_copy(TIGHT)


def test_of_a_sound_store_only_what_is_true_of_its_mechanisms_is_said(copy):
    snapshot = take_snapshot(str(copy))
    assert texts(notices(snapshot)) == [
        "Of 1 noise setting no lower bound is known, as no change is declared to attain their pairs: nothing refutes"
        " them."
    ]
    slabs = all_read(snapshot)
    assert (slabs.missed, list(reading_notices(snapshot, slabs.points, slabs.missed))) == (0, [])
    assert contents(snapshot, snapshot.groups)["digest"] == open_parts(copy)[0].head.digest[:8]


def test_a_damaged_batch_is_a_gap_and_is_told(copy):
    damage_batch(copy, 0)
    snapshot = take_snapshot(str(copy))
    cells = range(snapshot.parts[0].stored.head.cells_of(0).stop)
    tables = cell_tables(snapshot, list(cells))
    assert np.isnan(tables.values["delta_upper"]).all()
    assert set(tables.gaps) == {"damaged: its files have changed or are missing"}
    slabs = all_read(snapshot)
    assert (
        "the files of 1 noise setting have changed" in texts(reading_notices(snapshot, slabs.points, slabs.missed))[0]
    )


def test_damaged_metadata_leave_nothing_to_show(copy):
    (copy / "bounds/zarr.json").write_text("{}", encoding="utf-8")
    snapshot = take_snapshot(str(copy))
    (only,) = notices(snapshot)
    assert only["level"] == "error"
    assert "is damaged, and nothing of it is shown" in only["text"]
    tables = cell_tables(snapshot, [0])
    assert tables.gaps == ("the store is damaged",)
    assert np.isnan(tables.values["delta_upper"]).all()
    assert np.isnan(all_read(snapshot).at(0, 0, [0])["delta_upper"]).all()


def test_an_empty_store_is_called_empty(tmp_path):
    study = load_study(write_study(tmp_path, TIGHT))
    create_or_open(tmp_path / "s.zarr", plan_study(study))
    snapshot = take_snapshot(str(tmp_path / "s.zarr"))
    (only,) = notices(snapshot)
    assert "This store is empty" in only["text"]
    assert cell_tables(snapshot, [0]).gaps == ("not computed yet",)


def test_a_failed_cell_and_its_cause_are_told(tight):
    (stored,) = open_parts(tight)
    failed = {1: "it took too much"}
    fail_cells(stored, failed)
    snapshot = take_snapshot(str(tight))
    assert any(
        "1 noise setting could not be computed" in text and "it took too much" in text
        for text in texts(notices(snapshot))
    )
    assert snapshot.parts[0].failed == failed


@pytest.mark.slow
def test_an_extended_store_is_shown_whole(tight, tmp_path):
    more = TIGHT.replace("scale: [2, 3, 5]", "scale: [2, 3, 4, 5]").replace("[1, 2, 4, 7]", "[1, 2, 4, 5, 7]")
    before = take_snapshot(str(tight))
    run_study(load_study(write_study(tmp_path, more)), tight, SerialExecutor(), lambda _: None)
    snapshot = take_snapshot(str(tight))
    assert len(snapshot.parts) > 1
    assert snapshot.token != before.token
    assert snapshot.digest == before.digest
    bounds = open_study(tight).bounds
    cells = list(range(bounds.sizes["cell"]))
    tables = cell_tables(snapshot, cells)
    slabs = all_read(snapshot)
    for name, values in tables.values.items():
        np.testing.assert_array_equal(values, bounds[name].max("direction").values)
        np.testing.assert_array_equal(slabs.at(3, 1, cells)[name], values[:, 3, 1])
    assert set(tables.gaps) == {""}


def test_refinements_are_told_as_not_shown(tight):
    open_study(tight).delta("Laplace", scale=2.5, compositions=3, epsilon=0.1, refine=True)
    snapshot = take_snapshot(str(tight))
    assert snapshot.refined >= 1
    assert any("are not shown here" in text for text in texts(notices(snapshot)))


def test_a_missed_tolerance_is_counted_as_status_does(finished_store):
    store = finished_store(MISSED)
    snapshot = take_snapshot(str(store))
    slabs = all_read(snapshot)
    found = reached_precision(open_study(store))
    assert (slabs.points, slabs.missed) == (found.points, found.missed)
    assert cell_tables(snapshot, [0, 1]).missed(snapshot.union.study) == (found.points, found.missed)
    assert found.missed
    assert "wider than the study's tolerance" in texts(reading_notices(snapshot, slabs.points, slabs.missed))[0]


@pytest.mark.parametrize("share", [1.0, 0.4, 0.05])
def test_memory_is_bounded_and_answers_are_the_same(copy, share):
    snapshot = take_snapshot(str(copy))
    whole = cell_tables(snapshot, list(range(19)))
    size = sum(values.nbytes for values in whole.values.values())
    slabs = Slabs(snapshot, int(share * size))
    cells = [3, 7, 18]
    for r, e in ((0, 0), (2, 5), (1, 3), (0, 0)):
        while (found := slabs.at(r, e, cells)) is None:
            time.sleep(0.005)
        for name, values in found.items():
            expected = whole.values[name][cells, r, e]
            np.testing.assert_array_equal(values, expected)
        kept = sum(values.nbytes for slab in slabs._slabs.values() for values in slab.values.values())
        assert kept <= max(share * size, size / 18)
    slabs.close()
