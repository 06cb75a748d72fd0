"""Tasks of a run: the longest batches first, short ones together, and cells that kill workers alone."""

from pathlib import Path

import pytest

from pbdist.run.schedule import Schedule
from pbdist.store import StoredStudy, create_or_open
from pbdist.study import Batch, load_study, plan_study
from tests.studies import TINY, write_study

MANY = TINY.replace("scale: [2, 3, 5]", "scale: {linspace: [2, 61, 60]}")


@pytest.fixture
def stored(tmp_path: Path) -> StoredStudy:
    return create_or_open(tmp_path / "s.zarr", plan_study(load_study(write_study(tmp_path, MANY)), 1))


def test_long_batches_come_first_and_short_ones_together(stored: StoredStudy) -> None:
    seconds = [*([10.0] * 2), *([0.5] * 40)]
    batches = [(stored, Batch(index, index, index + 1, seconds[-1 - index])) for index in range(42)]
    tasks = list(Schedule(batches, 2))
    assert [sum(batch.seconds for batch in task.batches) for task in tasks[:2]] == [10.0, 10.0]
    assert max(len(task.batches) for task in tasks) > 1
    assert sorted(batch.index for task in tasks for batch in task.batches) == list(range(42))
    # All workers finish together.
    assert len(tasks[-1].batches) == 1
    assert all(len(cells) == 1 for task in tasks for cells in task.cells)


def test_cells_that_kill_are_found_and_refused(stored: StoredStudy) -> None:
    batches = [(stored, Batch(0, 0, 3, 0.1)), (stored, Batch(1, 3, 6, 0.1))]
    schedule = Schedule(batches, 1)
    tasks = list(schedule)
    for task in tasks:
        schedule.returned()
        assert schedule.isolate(task)
    probes = []
    while (task := next(schedule, None)) is not None:
        schedule.returned()
        if task.probed is None:
            # The others of its batch are computed.
            assert task.refused == ({4: "killed"} if task.batches[0].index == 1 else {})
            continue
        probes.append(task.probed)
        schedule.probed(task, "killed" if task.probed == 4 else None)
    assert sorted(probes) == [0, 1, 2, 3, 4, 5]
