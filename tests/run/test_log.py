"""The log of a run: whole lines, at once, and nothing that stops a run."""

import json
import os
import resource
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.run.events import BatchFailed, BatchFinished, CellFailed, Event, RunFinished, RunStarted
from pbdist.run.log import RunLog

STARTED = RunStarted(6, 2, 4, "this process", None, "/s.zarr", 1.5)
FAILED = CellFailed("extensions/001", 3, "Laplace(scale=2, sensitivity=1)", "ValueError: ε\u2028", "Traceback\n  ..\n")
FINISHED = RunFinished(6, 1, 2.5, 2.0, 1.5, 700)


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
        for count, event in enumerate((STARTED, FAILED, batch, BatchFailed("", 1, 2, "no"), FINISHED), start=1):
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
        "part": "extensions/001",
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


def test_it_goes_on_after_a_line_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"event": "run_started"}\n{"event": "batch_fin')
    with RunLog(path) as log:
        log(STARTED)
    cut, line = path.read_bytes().splitlines()[1:]
    assert cut == b'{"event": "batch_fin'
    assert json.loads(line)["cells_before"] == 2


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
    assert log.problem == f"/dev/full: 2 of its lines could not be written: {os.strerror(28)}"


def test_the_beginning_of_a_line_that_did_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RunLog(path) as log:
        log(STARTED)
        length = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (length + 20, before[1]))
        try:
            log(STARTED)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.stat().st_size == length
        log(FINISHED)
    assert [line["event"] for line in lines_of(path)] == ["run_started", "run_finished"]
    assert log.problem is not None
    assert "1 of its lines" in log.problem


def test_a_log_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"--log: expected the path of a file .*absent"):
        RunLog(tmp_path / "absent" / "run.jsonl")
    with pytest.raises(InvalidInputError, match="Is a directory"):
        RunLog(tmp_path)
