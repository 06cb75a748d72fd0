"""What is told of a cell while it is computed: by real threads, waited for by events."""

import queue
import threading

import pytest

from pbdist.mechanisms import Gaussian
from pbdist.progress import report
from pbdist.run.cell_watch import CellWatch, Report, told_by, worker_name
from pbdist.study import Batch, Cell

BATCH = Batch(index=7, start=20, stop=30, seconds=1.0)
CELL = Cell("noise", Gaussian(2.0), None)
#: How long a report is waited for: it comes after some hundredths of a second.
PATIENCE = 60.0


@pytest.fixture
def reports() -> "queue.Queue[Report]":
    return queue.Queue()


def test_a_cell_that_takes_long_is_reported_with_its_last_step_until_it_is_over(
    reports: "queue.Queue[Report]",
) -> None:
    with told_by(reports.put), CellWatch("extensions/001", 0.05) as watch:
        with watch.at(BATCH, 23, CELL):
            first = reports.get(timeout=PATIENCE)
            report("r =", 4096, 1 << 20)
            watch.detail("task", 3, 8)
            while not (second := reports.get(timeout=PATIENCE)).step:
                pass
            # The next step has a detail of its own.
            report("r =", 8192, 1 << 20)
            while (third := reports.get(timeout=PATIENCE)).step == second.step:
                pass
        while not (last := reports.get(timeout=PATIENCE)).over:
            pass
    assert (first.part, first.batch, first.cell, first.worker) == ("extensions/001", 7, 23, worker_name())
    assert first.setting == CELL.describe()
    assert (first.step, first.over) == ("", False)
    assert 0.05 <= first.seconds < second.seconds < third.seconds
    assert second.step == "r = 4,096 of 1,048,576, task 3 of 8"
    assert third.step == "r = 8,192 of 1,048,576"
    assert (last.part, last.batch, last.cell) == ("extensions/001", 7, 23)
    assert reports.empty()


def test_a_count_that_begins_again_says_which_time_it_is(reports: "queue.Queue[Report]") -> None:
    with told_by(reports.put), CellWatch("", 0.02) as watch, watch.at(BATCH, 23, CELL):
        for r in (1, 2, 2, 4, 1, 2):
            report("r =", r, 4)
        while not (found := reports.get(timeout=PATIENCE)).step:
            pass
    assert found.step == "r = 2 of 4 (time 2)"


def test_what_is_at_work_when_the_block_ends_is_told_to_be_over(reports: "queue.Queue[Report]") -> None:
    def fail() -> None:
        with CellWatch("", 0.02) as watch, watch.at(BATCH, 23, CELL):
            reports.get(timeout=PATIENCE)
            raise KeyError("no")

    with told_by(reports.put), pytest.raises(KeyError):
        fail()
    told = [reports.get_nowait() for _ in range(reports.qsize())]
    assert [found.over for found in told][-1]


def test_of_thousands_of_small_cells_none_is_told(reports: "queue.Queue[Report]") -> None:
    with told_by(reports.put), CellWatch("", 5.0) as watch:
        for number in range(5000):
            with watch.at(BATCH, number, CELL):
                report("r =", 1, 1)
    assert reports.empty()


def test_where_nobody_is_told_no_thread_is_started() -> None:
    before = set(threading.enumerate())
    with CellWatch("", 0.01) as watch, watch.at(BATCH, 23, CELL):
        report("r =", 1, 2)
        assert set(threading.enumerate()) == before


def test_a_long_setting_is_cut(reports: "queue.Queue[Report]") -> None:
    cell = Cell("a" * 300, Gaussian(2.0), None)
    with told_by(reports.put), CellWatch("", 0.02) as watch, watch.at(BATCH, 23, cell):
        found = reports.get(timeout=PATIENCE)
    assert found.setting == "a" * 100 + ".."
