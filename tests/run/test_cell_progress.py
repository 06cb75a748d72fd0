"""Reports of cells that take long: from real threads, in the driver, and in real runs, serial and on Dask workers."""

import io
import json
import os
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from distributed import LocalCluster
from rich.console import Console

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Gaussian
from pbdist.progress import report
from pbdist.run import SerialExecutor, events, run_study
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.events import (
    CellsAtWork,
    CellWatch,
    Done,
    Event,
    Notice,
    Report,
    RunFinished,
    RunStarted,
    Send,
    StillComputing,
    ignore,
    pause_between_reports,
    regularly,
    reported_by,
    worker_name,
)
from pbdist.run.listeners import ProgressDisplay, RunLog
from pbdist.study import Batch, Cell, load_study
from tests.studies import TINY, results_of, write_study

pytestmark = pytest.mark.slow

#: Two cells that take a while, of some fifty steps; and how often it is told of them.
LONG = """\
format: 1
name: long
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
method: buckets
buckets: 4000
compositions: [1, 65535]
epsilon: [0.5, 1]
"""
OFTEN = 0.02
STEP = re.compile(r"r = [\d,]+ of 65,535( \(time 2\))?|r = 65,535: factor \d+ of 16( \(time 2\))?")
BATCH = Batch(index=7, start=20, stop=30, seconds=1.0)
CELL = Cell("noise", Gaussian(2.0), None)
#: How long a report is waited for: it comes after some hundredths of a second.
PATIENCE = 60.0


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], list[Event]]:
    """The files of the long study's store after a serial run, and what that run told."""
    folder, events = tmp_path_factory.mktemp("alone"), list[Event]()
    study = load_study(write_study(folder, LONG))
    run_study(study, folder / "s.zarr", SerialExecutor(), events.append, told_every=OFTEN)
    return results_of(folder / "s.zarr"), events


def told_of(events: Sequence[Event]) -> list[Report]:
    return [cell for event in events if isinstance(event, StillComputing) for cell in event.at_work]


def sent(part: str, batch: int, cell: int, seconds: float, *, over: bool = False) -> Report:
    return Report(part, batch, cell, f"Laplace(scale={cell})", seconds, "r = 2 of 4", "host:1", over)


def test_the_longest_come_first_and_what_is_over_or_done_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {("", 0), ("", 1), ("extension-001", 0)}
    work = CellsAtWork(lambda part, batch: (part, batch) in left)
    now = 960.0
    monkeypatch.setattr(events, "time", SimpleNamespace(monotonic=lambda: now))
    work.take(sent("", 0, 3, 10.0))
    now = 1000.0
    work.take(sent("extension-001", 0, 3, 60.0))
    work.take(sent("", 1, 12, 20.0))
    # Of a batch that was committed before the report came.
    work.take(sent("", 2, 20, 99.0))
    found = work.cells()
    assert [(cell.part, cell.cell) for cell in found] == [("extension-001", 3), ("", 3), ("", 12)]
    assert found[1].seconds == 50.0
    assert found[1].silent_seconds == 40.0
    assert (found[1].setting, found[1].step, found[1].worker) == ("Laplace(scale=3)", "r = 2 of 4", "host:1")
    work.take(sent("", 0, 3, 11.0, over=True))
    left.discard(("extension-001", 0))
    assert [(cell.part, cell.cell) for cell in work.cells()] == [("", 12)]


def test_a_thousand_workers_report_less_often_and_the_driver_is_not_waited_for() -> None:
    assert pause_between_reports(30.0, 2) == 5.0
    assert pause_between_reports(30.0, 750) == 15.0
    assert pause_between_reports(30.0, 10_000) == 20.0
    assert pause_between_reports(0.3, 2) == pytest.approx(0.2)


def test_the_clock_goes_on_until_the_block_is_left() -> None:
    ticks = threading.Semaphore(0)
    with regularly(0.01, ticks.release):
        for _ in range(3):
            assert ticks.acquire(timeout=PATIENCE)
    assert not any(thread.name == "pbdist-clock" for thread in threading.enumerate())


def test_a_serial_run_tells_of_its_cells_by_number_setting_time_and_step(
    alone: tuple[dict[str, str], list[Event]],
) -> None:
    _, events = alone
    assert sum(isinstance(event, RunStarted) for event in events) == 1
    assert isinstance(events[-1], RunFinished)
    told = told_of(events)
    assert {(cell.cell, cell.setting) for cell in told} == {
        (0, "Laplace(scale=2, sensitivity=1)"),
        (1, "Laplace(scale=3, sensitivity=1)"),
    }
    assert {cell.worker for cell in told} == {worker_name()}
    steps = [cell.step for cell in told if cell.step]
    assert len(set(steps)) > 3
    assert all(STEP.fullmatch(step) for step in steps)
    first = [cell.seconds for cell in told if cell.cell == 0]
    assert first == sorted(first)
    counts = [(event.cells_done, event.cells) for event in events if isinstance(event, StillComputing)]
    assert counts[0] == (0, 2)
    assert (1, 2) in counts
    assert not any(thread.name == "pbdist-clock" for thread in threading.enumerate())


def test_dask_workers_tell_of_their_cells_and_the_store_is_the_same(
    workers: LocalCluster, alone: tuple[dict[str, str], list[Event]], tmp_path: Path
) -> None:
    study, events, output = load_study(write_study(tmp_path, LONG)), list[Event](), io.StringIO()
    log = tmp_path / "run.jsonl"
    with RunLog(log) as logged, ProgressDisplay(Console(file=output, width=80)) as show:

        def listen(event: Event) -> None:
            for listener in (events.append, logged, show):
                listener(event)

        executor = DaskExecutor(scheduler=workers.scheduler_address)
        run_study(study, tmp_path / "s.zarr", executor, listen, told_every=OFTEN)
    assert results_of(tmp_path / "s.zarr") == alone[0]
    told = told_of(events)
    assert {cell.cell for cell in told} == {0, 1}
    assert worker_name() not in {cell.worker for cell in told}
    steps = [cell.step for cell in told if cell.step]
    assert len(set(steps)) > 3
    assert all(STEP.fullmatch(step) for step in steps)
    # A line for a person, and one for a program.
    line = r"\d of 2 cells, .*; at work: .*cell 1: Laplace\(scale=3, sensitivity=1\) for \d+ s, r = .*"
    assert any(re.fullmatch(line, text) for text in output.getvalue().splitlines())
    logged_lines = [json.loads(text) for text in log.read_text(encoding="ascii").splitlines()]
    still = [found for found in logged_lines if found["event"] == "still_computing"]
    assert any(cell["cell"] == 1 and cell["step"] for found in still for cell in found["at_work"])


def test_a_worker_that_falls_silent_is_told_of_by_the_drivers_clock(
    workers: LocalCluster, alone: tuple[dict[str, str], list[Event]], tmp_path: Path
) -> None:
    study, stopped, silent = load_study(write_study(tmp_path, LONG)), list[Report](), list[Report]()

    def listen(event: Event) -> None:
        if not isinstance(event, StillComputing):
            return
        if not stopped and event.at_work:
            stopped.append(event.at_work[0])
            os.kill(int(stopped[0].worker.split(":")[1]), signal.SIGSTOP)
        # Fifty reports are missing.
        found = [cell for cell in event.at_work if stopped and cell.worker == stopped[0].worker]
        if not silent and found and found[0].silent_seconds > 50 * OFTEN:
            silent.append(found[0])
            os.kill(int(stopped[0].worker.split(":")[1]), signal.SIGCONT)

    executor = DaskExecutor(scheduler=workers.scheduler_address)
    try:
        run_study(study, tmp_path / "s.zarr", executor, listen, told_every=OFTEN)
    finally:
        for cell in stopped:
            os.kill(int(cell.worker.split(":")[1]), signal.SIGCONT)
    assert silent[0].cell == stopped[0].cell
    assert silent[0].seconds > stopped[0].seconds + 40 * OFTEN
    assert results_of(tmp_path / "s.zarr") == alone[0]


class Deaf(SerialExecutor):
    """Whatever is reported is lost."""

    def run(self, task: Callable[[Any], Any], items: Iterable[Any], send: Send = ignore) -> Iterator[Done[Any, Any]]:
        del send
        return super().run(task, items, ignore)


def test_reports_that_are_lost_change_nothing_else(alone: tuple[dict[str, str], list[Event]], tmp_path: Path) -> None:
    study, output = load_study(write_study(tmp_path, LONG)), io.StringIO()
    with ProgressDisplay(Console(file=output, width=80)) as show:
        run_study(study, tmp_path / "s.zarr", Deaf(), show, told_every=6.0 * OFTEN)
    assert results_of(tmp_path / "s.zarr") == alone[0]
    assert "cell 0" not in output.getvalue()
    assert output.getvalue().splitlines()[-1].startswith("2 of 2 cells are in the store")


class Late(SerialExecutor):
    """Workers that come when the run has told that it waits for them."""

    def __init__(self, told: threading.Event) -> None:
        super().__init__()
        self._told = told

    def __enter__(self) -> Self:
        assert self._told.wait(PATIENCE)
        return self


def test_a_run_that_waits_for_its_workers_soon_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, told, events = load_study(write_study(tmp_path, TINY)), threading.Event(), list[Event]()

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice):
            told.set()

    monkeypatch.setattr("pbdist.run.run._FIRST", 0.05)
    run_study(study, tmp_path / "s.zarr", Late(told), listen)
    assert isinstance(events[0], Notice)
    assert events[0].text.startswith("waiting for this process for ")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clock_that_cannot_be_is_refused_before_anything_is_there(tmp_path: Path, seconds: float) -> None:
    study = load_study(write_study(tmp_path, TINY))
    with pytest.raises(InvalidInputError, match="told_every: expected a number of seconds above 0, got"):
        run_study(study, tmp_path / "s.zarr", SerialExecutor(), lambda _: None, told_every=seconds)
    assert not (tmp_path / "s.zarr").exists()


@pytest.fixture
def reports() -> "queue.Queue[Report]":
    return queue.Queue()


def test_a_cell_that_takes_long_is_reported_with_its_last_step_until_it_is_over(
    reports: "queue.Queue[Report]",
) -> None:
    with reported_by(reports.put), CellWatch("extension-001", 0.05) as watch:
        with watch.at(BATCH, 23, CELL):
            first = reports.get(timeout=PATIENCE)
            report("r =", 4096, 1 << 20)
            report("task", 3, 8)
            while not (second := reports.get(timeout=PATIENCE)).step:
                pass
            # The next step has a detail of its own.
            report("r =", 8192, 1 << 20)
            while (third := reports.get(timeout=PATIENCE)).step == second.step:
                pass
        while not (last := reports.get(timeout=PATIENCE)).over:
            pass
    assert (first.part, first.batch, first.cell, first.worker) == ("extension-001", 7, 23, worker_name())
    assert first.setting == CELL.describe()
    assert (first.step, first.over) == ("", False)
    assert 0.05 <= first.seconds < second.seconds < third.seconds
    assert second.step == "r = 4,096 of 1,048,576, task 3 of 8"
    assert third.step == "r = 8,192 of 1,048,576"
    assert (last.part, last.batch, last.cell) == ("extension-001", 7, 23)
    assert reports.empty()


def test_what_is_at_work_when_the_block_ends_is_told_to_be_over(reports: "queue.Queue[Report]") -> None:
    def fail() -> None:
        with CellWatch("", 0.02) as watch, watch.at(BATCH, 23, CELL):
            reports.get(timeout=PATIENCE)
            raise KeyError("no")

    with reported_by(reports.put), pytest.raises(KeyError):
        fail()
    told = [reports.get_nowait() for _ in range(reports.qsize())]
    assert [found.over for found in told][-1]


def test_of_thousands_of_small_cells_none_is_told(reports: "queue.Queue[Report]") -> None:
    with reported_by(reports.put), CellWatch("", 5.0) as watch:
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
    with reported_by(reports.put), CellWatch("", 0.02) as watch, watch.at(BATCH, 23, cell):
        found = reports.get(timeout=PATIENCE)
    assert found.setting == "a" * 100 + ".."
