import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.mechanisms import Histogram, Laplace
from pbdist.study import Cell, Planner, StudySpec, load_study, plan_study
from pbdist.study.plan import batch_length, elapsed
from pbdist.table import METHODS
from tests.strategies import examples
from tests.studies import TIGHT, write_study


@pytest.mark.slow
@examples(300)
@given(
    cells=st.integers(1, 300),
    buckets=st.integers(1, 10**6).map(lambda x: 2 * x),
    largest=st.integers(1, 2**62),
    points=st.integers(1, 50),
    method=st.sampled_from(METHODS),
    tolerance=st.floats(1e-9, 1.0),
)
def test_batches_cover_every_cell_once_and_the_longest_come_first(
    cells: int, buckets: int, largest: int, points: int, method: str, tolerance: float
) -> None:
    spec = StudySpec(
        name="s",
        cells=tuple(Cell("L", Laplace(1.0 + i), None) for i in range(cells)),
        method=method,
        tolerance=None if method == "buckets" else tolerance,
        buckets=buckets if method == "buckets" else None,
        compositions=(largest,),
        epsilon=tuple(float(i) for i in range(points)),
    )
    plan = plan_study(spec)
    covered = sorted(cell for batch in plan.batches for cell in range(batch.start, batch.stop))
    assert covered == list(range(cells))
    assert all(batch.start == batch.index * plan.cells_per_batch for batch in plan.batches)
    seconds = [batch.seconds for batch in plan.batches]
    assert seconds == sorted(seconds, reverse=True)
    assert abs(sum(seconds) - plan.seconds) < 1e-9 * plan.seconds
    assert plan.cells_per_batch == 1 or plan.cells_per_batch <= cells / 16
    long_batches = sum(value for value in seconds if value > 10.0)
    long_cells = float(plan.cell_seconds[plan.cell_seconds > 10.0].sum())
    assert plan.cells_per_batch == 1 or long_batches <= long_cells + 0.1 * plan.seconds
    assert plan.cell_seconds.size == plan.cell_bytes.size == cells
    assert plan.worker_bytes == plan.cell_bytes.max()
    assert plan_study(spec, 3).cells_per_batch == 3
    assert plan == plan_study(spec)


def test_more_work_is_projected_to_take_more(tmp_path: Path) -> None:
    spec = load_study(write_study(tmp_path))
    plan = plan_study(spec)
    larger = (
        replace(spec, buckets=2 * spec.buckets),
        replace(spec, compositions=(*spec.compositions, 1023)),
        replace(spec, epsilon=(*spec.epsilon, 3.0)),
        replace(spec, cells=(*spec.cells, Cell("H", Histogram([1, 2], [3, 1]), None))),
    )
    for other in map(plan_study, larger):
        assert other.seconds > plan.seconds
        assert other.worker_bytes >= plan.worker_bytes
        assert other.store_bytes >= plan.store_bytes
    kept = plan_study(replace(spec, keep_states=True))
    assert kept.store_bytes > plan.store_bytes
    assert kept.worker_bytes > plan.worker_bytes


def test_a_finer_tight_study_is_projected_to_take_more(tmp_path: Path) -> None:
    spec = load_study(write_study(tmp_path, TIGHT))
    plan = plan_study(spec)
    larger = (
        replace(spec, tolerance=1e-4),
        replace(spec, epsilon=(*spec.epsilon, 3.0)),
        replace(spec, buckets=10**6),
        replace(spec, cells=tuple(replace(cell, factor=1.0 + 1e-7) for cell in spec.cells)),
        replace(spec, cells=(*spec.cells, Cell("H", Histogram([1, 2], [3, 1]), None))),
    )
    for other in map(plan_study, larger):
        assert other.seconds > plan.seconds
        assert other.worker_bytes >= plan.worker_bytes
    kept = plan_study(replace(spec, keep_states=True))
    assert kept.store_bytes > plan.store_bytes
    assert kept.worker_bytes >= plan.worker_bytes


def test_batches_are_all_cells_the_longest_first(tmp_path: Path) -> None:
    plan = plan_study(load_study(write_study(tmp_path, TIGHT)))
    cells = plan.cell_seconds.size
    for length in range(1, cells + 2):
        cut = replace(plan, cells_per_batch=length)
        listed = cut.batches
        assert [batch.seconds for batch in listed] == sorted(cut.batch_seconds, reverse=True)
        listed.sort(key=lambda batch: batch.index)
        assert [batch.index for batch in listed] == list(range(len(listed)))
        assert [batch.seconds for batch in listed] == cut.batch_seconds.tolist()
        starts = range(0, cells, length)
        assert [(batch.start, batch.stop) for batch in listed] == [(at, min(at + length, cells)) for at in starts]
        for batch in listed:
            assert batch.seconds == pytest.approx(plan.cell_seconds[batch.start : batch.stop].sum())


def test_the_time_on_some_workers_is_that_of_the_longest_batch_or_of_all_shared() -> None:
    seconds = np.array([1.0, 4.0, 2.0, 1.0])
    assert [elapsed(seconds, workers) for workers in (1, 2, 3, 100)] == [8.0, 4.0, 4.0, 4.0]
    assert elapsed([3.0, 3.0, 3.0], 2) == 4.5
    assert elapsed([], 7) == 0.0


def test_a_few_long_cells_do_not_make_all_batches_small() -> None:
    seconds = np.full(100_000, 1e-3)
    even = batch_length(seconds, 100)
    assert 2.5 < even * 1e-3 <= 5.0
    seconds[[7, 70_000]] = 5.0
    assert batch_length(seconds, 100) >= even // 2
    # Where the work is in long cells, each is a batch.
    seconds[::2] = 10.0
    assert batch_length(seconds, 100) == 1


def test_a_batch_is_no_larger_than_what_a_worker_can_hold() -> None:
    seconds = np.full(100_000, 1e-3)
    assert batch_length(seconds, 2**20) == 32
    assert batch_length(seconds, 2**40) == 1


def test_the_same_time_of_all_batches_is_written_once(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, TIGHT))
    for cells, words in ((study.cells, r"\S+ to \S+ s"), (study.cells[:1], r"\S+ s")):
        rows = dict(plan_study(replace(study, cells=cells)).sheet.rows)
        assert re.fullmatch(words, str(rows["projected time of a batch, one core"]))


def test_a_planner_plans_a_study_once(tmp_path: Path) -> None:
    spec, planner = load_study(write_study(tmp_path)), Planner()
    plan = planner.plan(spec)
    assert plan == plan_study(spec)
    renamed = replace(spec, name="other")
    assert planner.plan(renamed) is plan
    assert planner.plan(renamed, plan.cells_per_batch) is plan
    other = planner.plan(spec, 2 * plan.cells_per_batch)
    assert other == plan_study(spec, 2 * plan.cells_per_batch)
    assert planner.plan(spec) is plan
    assert planner.plan(replace(spec, epsilon=(*spec.epsilon, 3.0))) is not plan


def test_a_mechanism_that_raises_has_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    spec = StudySpec(
        name="s",
        cells=(Cell("L", Laplace(2.0), None),),
        method="tight",
        tolerance=0.01,
        buckets=None,
        compositions=(4,),
        epsilon=(0.1,),
    )
    known = plan_study(spec)
    for name in ("_largest_loss", "log_tail_moment", "interval", "loss_masses"):
        monkeypatch.setattr(Laplace, name, fail)
    found = plan_study(spec)
    assert found.seconds == 1.0 != known.seconds
