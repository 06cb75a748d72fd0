"""The display, event by event on a clock of its own, and the log, which stops no run."""

import dataclasses
import io
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from pbdist.errors import InvalidInputError
from pbdist.run.events import (
    BatchFailed,
    BatchFinished,
    CellFailed,
    Event,
    Notice,
    Report,
    RunFinished,
    RunStarted,
    StillComputing,
)
from pbdist.run.listeners import ProgressDisplay, RunLog


class Watched:
    """A display, what it has written, and the clock that it looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False) -> None:
        self.now = 1000.0
        monkeypatch.setattr("pbdist.run.listeners.time", SimpleNamespace(monotonic=lambda: self.now))
        self.file = io.StringIO()
        self.show = ProgressDisplay(Console(file=self.file, force_terminal=terminal, width=120))

    def finished(self, now: float, cells: int, projected: float, failed: int = 0) -> None:
        self.now = now
        settings = ("Laplace(scale=2)", "Laplace(scale=3)")
        self.show(BatchFinished("", 0, 0, cells, settings, 3.0, 2.5, projected, 2**20, failed, "worker"))

    @property
    def lines(self) -> list[str]:
        return self.file.getvalue().splitlines()


def started(cells: int = 100, before: int = 0, seconds: float = 100.0) -> RunStarted:
    return RunStarted(
        cells, before, 10, "4 workers on this machine", "http://here/status", "/s.zarr", seconds, 1, seconds
    )


def at_work(cell: int, seconds: float, step: str = "", silent: float = 0.0, part: str = "") -> Report:
    return Report(part, 0, cell, f"Laplace(scale={cell})", seconds, step, "host:1", silent_seconds=silent)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_the_beginning_and_the_end(watched: Watched) -> None:
    with watched.show as show:
        show(started(1200, before=200, seconds=7300.0))
        show(RunFinished(1200, 3, 3725.0, 5 * 2**30))
    assert watched.lines == [
        "computing on 4 workers on this machine, dashboard at http://here/status",
        "200 of 1,200 cells are in the store already",
        "to compute: 1,000 cells in 10 batches, projected: 2.03 h on one core",
        "1,197 of 1,200 cells are in the store, 3 failed, 62.1 min, 5 GiB written",
    ]


def test_a_run_that_finds_everything_done_says_one_line(watched: Watched) -> None:
    with watched.show as show:
        show(RunFinished(6, 0, 0.1, 0))
    assert watched.lines == ["6 of 6 cells are in the store"]


def test_the_time_left_follows_the_projection_of_what_is_left_and_the_clock(watched: Watched) -> None:
    # A tenth of the cells is nine tenths of the work, and takes twice as long as projected on one core.
    with watched.show as show:
        show(started(100, seconds=100.0))
        watched.finished(1180.0, 10, 90.0)
        watched.finished(1190.0, 45, 5.0)
    assert watched.lines[-2:] == [
        "10 of 100 cells, 0.056 cells/s, about 20 s left, 1 MiB",
        "55 of 100 cells, 0.29 cells/s, about 10 s left, 2 MiB",
    ]


def test_a_cell_that_takes_longer_than_all_that_is_projected_takes_as_long_again(watched: Watched) -> None:
    with watched.show as show:
        show(started(100, seconds=100.0))
        watched.finished(1050.0, 90, 99.0)
        watched.now = 1060.0
        show(StillComputing(60.0, 100, 90, (at_work(95, 40.0),), 0))
        watched.finished(1070.0, 1, 0.1)
    # Of 100 s only 1 s is left by the projection, and the cell has taken 40 s.
    assert ", about 49 s left, " in watched.lines[-1]
    assert ", about 39 s left, " in watched.lines[-2]


def test_an_extended_store_says_what_it_counts(watched: Watched) -> None:
    with watched.show as show:
        show(dataclasses.replace(started(40, before=20), parts=2))
    assert watched.lines[1] == (
        "20 of 40 cells are in the store already; a setting counts in each of the 2 parts that have it"
    )


def test_without_a_projection_the_cells_count(watched: Watched) -> None:
    with watched.show as show:
        show(started(100, before=50, seconds=0.0))
        watched.finished(1010.0, 10, 0.0)
    assert watched.lines[-1] == "60 of 100 cells, 1 cells/s, about 40 s left, 1 MiB"


def test_lines_are_five_seconds_apart(watched: Watched) -> None:
    with watched.show as show:
        show(started())
        for tenth in range(1, 100):
            watched.finished(1000.0 + tenth / 10, 1, 1.0)
    assert sum(" of 100 cells, " in line for line in watched.lines) == 1


def test_failures_are_counted_and_each_cause_is_told_once(watched: Watched) -> None:
    with watched.show as show:
        show(started())
        show(CellFailed("", 0, "Laplace(scale=2)", "ValueError: no", "Traceback .."))
        show(CellFailed("", 1, "Laplace(scale=3)", "ValueError: no", "Traceback .."))
        watched.finished(1010.0, 10, 10.0, failed=2)
        watched.now = 1020.0
        show(BatchFailed("", 1, 10, 10.0, "OSError: No space left"))
    assert watched.lines[2:] == [
        "failed: Laplace(scale=2): ValueError: no",
        "10 of 100 cells, 1 cells/s, about 90 s left, 2 failed, 1 MiB",
        "failed: OSError: No space left",
        # What failed takes its part of the projection with it: 80 s of 90 are left.
        "20 of 100 cells, 1 cells/s, about 2.67 min left, 12 failed, 1 MiB",
    ]


def test_ever_new_causes_do_not_fill_the_screen(watched: Watched) -> None:
    with watched.show as show:
        show(started())
        for cell in range(100):
            show(CellFailed("", cell, f"Laplace(scale={cell})", f"ValueError: {cell}", ""))
    assert len(watched.lines) == 2 + 10 + 1
    assert watched.lines[-1] == "failed: for still more causes"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, terminal=True)
    with watched.show as show:
        show(started())
        show(CellFailed("", 0, "Laplace(scale=2)", "ValueError: no", ""))
        watched.finished(1010.0, 50, 50.0, failed=1)
    text = watched.file.getvalue()
    assert "50/100" in text
    assert "5 cells/s, about 10 s left, 1 failed, 1 MiB" in text
    assert "━" in text
    # The bar stands for the lines.
    assert "50 of 100" not in text


def test_cells_at_work_are_told_though_no_batch_is_done(watched: Watched) -> None:
    with watched.show as show:
        show(Notice("waiting for workers for 30 s"))
        show(started(100))
        watched.now = 1030.0
        cells = at_work(3, 29.6, "r = 4,096 of 1,048,576"), at_work(8, 25.0, part="extension-001")
        show(StillComputing(30.0, 100, 0, cells, 0))
        watched.now = 1060.0
        show(StillComputing(60.1, 100, 0, (at_work(3, 59.6, "r = 8,192 of 1,048,576", 28.0),), 1200))
        watched.finished(1061.0, 1, 10.0)
        watched.now = 1090.0
        show(StillComputing(90.0, 100, 1, (), 0))
    assert watched.lines[0] == "waiting for workers for 30 s"
    assert watched.lines[3:] == [
        "0 of 100 cells, after 30 s; at work: cell 3: Laplace(scale=3) for 30 s, r = 4,096 of 1,048,576; "
        "cell 8 of extension-001: Laplace(scale=8) for 25 s",
        "0 of 100 cells, after 60 s; at work: cell 3: Laplace(scale=3) for 60 s, r = 8,192 of 1,048,576, "
        "last heard of 28 s ago; and 1,200 more",
        "1 of 100 cells, 0.011 cells/s, about 13.5 min left, 1 MiB",
    ]


def test_where_batches_are_done_nothing_is_said_of_cells_that_take_no_long(watched: Watched) -> None:
    with watched.show as show:
        show(started(100))
        watched.finished(1025.0, 10, 10.0)
        watched.now = 1030.0
        show(StillComputing(30.0, 100, 10, (), 0))
        watched.now = 1060.0
        show(StillComputing(60.0, 100, 10, (), 0))
    assert watched.lines[2:] == [
        "10 of 100 cells, 0.4 cells/s, about 3.75 min left, 1 MiB",
        "10 of 100 cells, 0.33 cells/s, about 4.5 min left, 1 MiB",
        "10 of 100 cells, 0.17 cells/s, about 9 min left, 1 MiB",
    ]


def test_on_a_terminal_cells_at_work_are_under_the_bar_until_they_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, terminal=True)
    with watched.show as show:
        show(started())
        show(StillComputing(30.0, 100, 0, (at_work(3, 30.0, "r = 2 of 4"), at_work(70, 20.0)), 7))
        watched.finished(1002.0, 50, 50.0)
        text = watched.file.getvalue()
    lines = [line.strip() for line in text.splitlines()]
    assert "cell 3: Laplace(scale=3) for 30 s, r = 2 of 4" in lines
    assert "and 7 more" in lines
    assert not any(" of 100 cells" in line for line in lines)
    # It was in the batch that is done.
    assert "cell 3:" not in watched.file.getvalue()[len(text) :]


STARTED = RunStarted(6, 2, 4, "this process", None, "/s.zarr", 1.5, 1, 1.5)
FAILED = CellFailed("extension-001", 3, "Laplace(scale=2, sensitivity=1)", "ValueError: ε\u2028", "Traceback\n  ..\n")
FINISHED = RunFinished(6, 1, 2.5, 700)


def lines_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def run_that_raises(path: Path, event: Event, error: BaseException) -> None:
    with RunLog(path) as log:
        log(event)
        raise error


def test_every_event_is_a_line_with_all_its_fields_and_the_time(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    batch = BatchFinished("", 0, 2, 4, ("a", "b"), 1.0, 0.5, 0.75, 100, 1, "worker")
    before = datetime.now(UTC)
    with RunLog(path) as log:
        for count, event in enumerate((STARTED, FAILED, batch, BatchFailed("", 1, 2, 1.0, "no"), FINISHED), start=1):
            log(event)
            # Whoever reads it meanwhile sees the line.
            assert len(lines_of(path)) == count
    assert log.problem is None
    lines = lines_of(path)
    assert [line["event"] for line in lines] == [
        "run_started",
        "cell_failed",
        "batch_finished",
        "batch_failed",
        "run_finished",
    ]
    for line in lines:
        assert abs(datetime.fromisoformat(line.pop("time")) - before) < timedelta(minutes=1)
    assert lines[1] == {
        "event": "cell_failed",
        "part": "extension-001",
        "cell": 3,
        "setting": "Laplace(scale=2, sensitivity=1)",
        "cause": "ValueError: ε\u2028",
        "traceback": "Traceback\n  ..\n",
    }
    assert lines[2]["settings"] == ["a", "b"]
    assert lines[4]["written_bytes"] == 700


def test_a_run_that_stops_says_why_and_one_that_fails_cells_does_not(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(ValueError, match="two"):
        run_that_raises(path, STARTED, ValueError("one\ntwo"))
    assert lines_of(path)[-1]["cause"] == "ValueError: one two"
    with pytest.raises(KeyboardInterrupt):
        run_that_raises(path, STARTED, KeyboardInterrupt())
    assert [line["event"] for line in lines_of(path)] == 2 * ["run_started", "run_stopped"]
    with pytest.raises(ValueError, match="cells"):
        run_that_raises(path, FINISHED, ValueError("some cells"))
    assert lines_of(path)[-1]["event"] == "run_finished"


def test_two_runs_write_to_one_log_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with RunLog(path) as one, RunLog(path) as other:
        for _ in range(20):
            one(STARTED)
            other(FINISHED)
    assert [line["event"] for line in lines_of(path)] == 20 * ["run_started", "run_finished"]


def test_a_full_disk_stops_no_run_and_is_told() -> None:
    with RunLog("/dev/full") as log:
        log(STARTED)
        log(FINISHED)
    assert log.problem == f"/dev/full: not all of its lines could be written: {os.strerror(28)}"


def test_a_log_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"--log: expected the path of a file .*absent"):
        RunLog(tmp_path / "absent" / "run.jsonl")
    with pytest.raises(InvalidInputError, match="Is a directory"):
        RunLog(tmp_path)
