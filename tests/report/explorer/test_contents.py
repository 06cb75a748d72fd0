"""What a page is told of a store: that it lacks something, that it is damaged, and what of it is not shown."""

import numpy as np
import pytest

from pbdist import open_study
from pbdist.errors import StoreDamagedError
from pbdist.query import reached_precision
from pbdist.report.explorer.snapshot import Snapshot
from pbdist.run import SerialExecutor, run_study
from pbdist.store import open_parts
from pbdist.store.create import create_or_open
from pbdist.study import load_study
from pbdist.study.plan import plan_study
from tests.batches import damage_batch, fail_cells
from tests.report.explorer.reading import unpacked
from tests.report.explorer.studies import MISSED, STUDY
from tests.studies import TIGHT, write_study


def texts(found) -> list[str]:
    return [notice["text"] for notice in found]


def read(snapshot: Snapshot, group: int, r: int, e: int) -> dict:
    """The first slice of a group's bounds at a point: all of a small group."""
    return snapshot.group(group, r, e, 0)


@pytest.fixture
def copy(store_copy):
    return store_copy(STUDY)


@pytest.fixture
def tight(store_copy):
    return store_copy(TIGHT)


def test_of_a_sound_store_only_what_is_true_of_its_mechanisms_is_said(copy):
    snapshot = Snapshot(str(copy))
    # Of the points without a lower bound too, as `pbdist status` counts them.
    wide, unattained = texts(snapshot.notices())
    assert wide.startswith("At 11 of 245 points the study has missed its tolerance.")
    assert unattained == (
        "Of 1 noise setting no lower bound is known, as no change is declared to attain their pairs: nothing refutes"
        " them."
    )
    assert read(snapshot, 0, 0, 0)["notices"] == []
    assert snapshot.whole
    assert snapshot.index(snapshot.groups)["digest"] == open_parts(copy)[0].head.digest[:8]


def test_a_damaged_batch_is_a_gap_and_is_told(copy):
    damage_batch(copy, 0)
    snapshot = Snapshot(str(copy))
    cells = list(snapshot.study.parts[0].cells_of(0))
    tables = snapshot.table(cells)
    assert np.isnan(tables.values["delta_upper"]).all()
    assert {one["gaps"] for one in snapshot.settings(cells, tables)} == {
        "damaged: its files have changed or are missing"
    }
    found = read(snapshot, 0, 0, 0)
    assert "the files of 1 noise setting have changed" in texts(found["notices"])[0]
    assert np.isnan(unpacked(found["delta_upper"])).tolist() == [True] + 5 * [False]
    assert not snapshot.whole


def test_damaged_metadata_are_refused(copy):
    (copy / "bounds/zarr.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreDamagedError):
        Snapshot(str(copy))


def test_an_empty_store_is_called_empty(tmp_path):
    study = load_study(write_study(tmp_path, TIGHT))
    create_or_open(tmp_path / "s.zarr", plan_study(study))
    snapshot = Snapshot(str(tmp_path / "s.zarr"))
    (only,) = snapshot.notices()
    assert "This store is empty" in only["text"]
    assert snapshot.settings([0], snapshot.table([0]))[0]["gaps"] == "not computed yet"


def test_a_failed_cell_and_its_cause_are_told(tight):
    (stored,) = open_parts(tight)
    fail_cells(stored, {1: "it took too much"})
    snapshot = Snapshot(str(tight))
    assert any(
        "1 of 6 noise settings could not be computed" in text and "it took too much" in text
        for text in texts(snapshot.notices())
    )
    told = snapshot.settings([0, 1], snapshot.table([0, 1]))
    assert [one["gaps"] for one in told] == ["", "could not be computed: it took too much"]
    assert not snapshot.whole


@pytest.mark.slow
def test_an_extended_store_is_shown_whole(tight, tmp_path):
    more = TIGHT.replace("scale: [2, 3, 5]", "scale: [2, 3, 4, 5]").replace("[1, 2, 4, 7]", "[1, 2, 4, 5, 7]")
    before = Snapshot(str(tight))
    run_study(load_study(write_study(tmp_path, more)), tight, SerialExecutor(), lambda _: None)
    snapshot = Snapshot(str(tight))
    assert len(snapshot.study.parts) > 1
    first, second = (one.index(one.groups) for one in (before, snapshot))
    assert first["token"] != second["token"]
    assert first["digest"] == second["digest"]
    bounds = open_study(tight).bounds
    cells = list(range(bounds.sizes["cell"]))
    tables = snapshot.table(cells)
    found = read(snapshot, 0, 3, 1)
    for name, values in tables.values.items():
        np.testing.assert_array_equal(values, bounds[name].max("direction").values)
        np.testing.assert_array_equal(unpacked(found[name]), values[sorted(snapshot.groups[0].cells), 3, 1])
    assert {one["gaps"] for one in snapshot.settings(cells, tables)} == {""}


@pytest.mark.slow
def test_a_store_has_the_targets_of_the_runs_that_made_it(tmp_path):
    bare = TIGHT.partition("targets:")[0]
    targets = ["{epsilon: 0.1, delta: 1.0e-5, compositions: 4}", "{epsilon: 0.25, delta: 1.0e-6, compositions: 5}"]
    for count in (1, 2):
        study = load_study(write_study(tmp_path, f"{bare}targets: [{', '.join(targets[:count])}]\n"))
        run_study(study, tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    assert open_study(tmp_path / "s.zarr").spec.targets == study.targets
    snapshot = Snapshot(str(tmp_path / "s.zarr"))
    spec = snapshot.study.spec
    assert snapshot.index(snapshot.groups)["targets"] == [
        [spec.compositions.index(4), spec.epsilon.index(0.1), 1e-5],
        [spec.compositions.index(5), spec.epsilon.index(0.25), 1e-6],
    ]


def test_refinements_are_told_as_not_shown(tight):
    open_study(tight).delta("Laplace", scale=2.5, compositions=3, epsilon=0.1, refine=True)
    snapshot = Snapshot(str(tight))
    assert any("does not show: pbdist query" in text for text in texts(snapshot.notices()))


def test_a_missed_tolerance_is_counted_as_status_does(finished_store):
    store = finished_store(MISSED)
    found = reached_precision(open_study(store))
    assert found.missed
    told = f"At {found.missed} of {found.points} points the study has missed its tolerance"
    assert any(told in text for text in texts(Snapshot(str(store)).notices()))


@pytest.mark.parametrize(("cells", "slices"), [(4096, 8), (2, 3), (1, 1)])
def test_groups_are_read_in_slices_and_memory_is_bounded(copy, monkeypatch, cells, slices):
    whole = Snapshot(str(copy)).table(list(range(6)))
    of_cell = sum(values.nbytes for values in whole.values.values()) // 6
    monkeypatch.setattr("pbdist.report.explorer.snapshot._SLICE_CELLS", cells)
    monkeypatch.setattr("pbdist.report.explorer.snapshot._SLICE_BYTES", 100 * of_cell)
    snapshot = Snapshot(str(copy), slices * min(cells, 100) * of_cell)
    for r, e in ((0, 0), (2, 5), (1, 3), (0, 0)):
        for start in range(0, 6, cells):
            found = snapshot.group(0, r, e, start)
            for name, values in whole.values.items():
                np.testing.assert_array_equal(unpacked(found[name]), values[start : start + cells, r, e])
    assert snapshot._slice.cache_info().currsize <= slices
