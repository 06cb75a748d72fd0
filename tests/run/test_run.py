"""Real runs: serial, real Dask clusters, killed and interrupted processes."""

import dataclasses
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from distributed import Client, LocalCluster
from rich.console import Console

from pbdist.errors import BatchError, InvalidInputError, StoreMismatchError
from pbdist.provenance import provenance
from pbdist.run import SerialExecutor, run_study
from pbdist.run.clients import local_cluster
from pbdist.run.dask_executor import TOPIC, DaskExecutor
from pbdist.run.events import BatchFailed, BatchFinished, Event, RunFinished, RunStarted
from pbdist.run.listeners import ProgressDisplay
from pbdist.store import create_or_open, hold
from pbdist.store.layout import bounds_file
from pbdist.study import StudySpec, load_study, plan_study
from tests.batches import damage_batch, remove_batch
from tests.run.processes import PATIENCE, STATES, commits, run, started
from tests.studies import TINY, Finished, results_of, write_study

pytestmark = pytest.mark.slow

#: Those of `STATES`.
BATCHES = 12


KEPT = TINY.replace("buckets: 400", "buckets: 400\nkeep_states: true")


@pytest.fixture
def tiny(tmp_path: Path) -> StudySpec:
    return load_study(write_study(tmp_path, KEPT))


def finished_with(events: list[Event]) -> tuple[int, int]:
    """Cells of the study and those that failed, as the last event tells."""
    last = events[-1]
    assert isinstance(last, RunFinished)
    return last.cells, last.failed_cells


def test_a_serial_run_tells_what_happens_and_a_second_one_does_nothing(tiny: StudySpec, tmp_path: Path) -> None:
    events: list[Event] = []
    stored = run_study(tiny, tmp_path / "s.zarr", SerialExecutor(), events.append)
    assert isinstance(events[0], RunStarted)
    assert (events[0].cells, events[0].cells_before, events[0].dashboard) == (6, 0, None)
    finished = [event for event in events if isinstance(event, BatchFinished)]
    assert sum(event.cells for event in finished) == 6
    assert finished_with(events) == (6, 0)
    before = {path: path.stat().st_mtime_ns for path in Path(stored.place.url).rglob("*") if path.is_file()}
    events.clear()
    run_study(tiny, tmp_path / "s.zarr", SerialExecutor(), events.append)
    assert len(events) == 1
    assert finished_with(events) == (6, 0)
    assert {path: path.stat().st_mtime_ns for path in Path(stored.place.url).rglob("*") if path.is_file()} == before


def test_what_was_lost_or_changed_is_computed_again(tiny: StudySpec, store_copy: Finished) -> None:
    store = store_copy(KEPT)
    complete = results_of(store)
    damage_batch(store, 1)
    remove_batch(store, 3)
    (store / "states/4/A_TO_B/r-2/zarr.json").unlink()
    events: list[Event] = []
    run_study(tiny, store, SerialExecutor(), events.append, check=True)
    assert sorted(event.batch for event in events if isinstance(event, BatchFinished)) == [1, 3, 4]
    assert results_of(store) == complete


@pytest.mark.parametrize(
    "damage",
    [
        lambda store: (store / "bounds/zarr.json").unlink(),
        lambda store: (store / "bounds/zarr.json").write_text("{}"),
        lambda store: shutil.rmtree(store / "epsilon"),
        lambda store: shutil.rmtree(store / "bounds"),
        lambda store: shutil.rmtree(store / "details"),
        lambda store: shutil.copy(store / "mean/0", store / "scale/0"),
    ],
)
def test_what_is_no_result_is_put_back(tiny: StudySpec, store_copy: Finished, damage: Callable[[Path], object]) -> None:
    store = store_copy(KEPT)
    complete = results_of(store)
    damage(store)
    assert results_of(store) != complete
    run_study(tiny, store, SerialExecutor(), lambda _: None)
    assert results_of(store) == complete


def test_a_study_too_large_for_this_machine_is_refused_before_a_store_is_made(tmp_path: Path) -> None:
    path = write_study(tmp_path, TINY.replace("buckets: 400", "buckets: 1073741824"))
    with pytest.raises(
        InvalidInputError,
        match=r"buckets: cells that no worker\'s memory holds need [\d.]+ GiB on the disk of the store",
    ):
        run_study(load_study(path), tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    assert not (tmp_path / "s.zarr").exists()


def test_a_store_that_cannot_be_written_ends_the_run_in_one_line(tiny: StudySpec, tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_study(tiny))
    blocked = Path(stored.place.url) / bounds_file(2)
    # An empty folder would be replaced.
    (blocked / "kept").mkdir(parents=True)
    events: list[Event] = []
    with pytest.raises(BatchError) as caught:
        run_study(tiny, Path(stored.place.url), SerialExecutor(), events.append)
    text = str(caught.value)
    assert text.startswith("the store cannot be written: IsADirectoryError")
    assert text.endswith("of 6 cells are in the store: the same command goes on where this one stopped")
    assert "\n" not in text
    # What was not tried has not failed.
    assert not any(isinstance(event, BatchFailed | RunFinished) for event in events)
    assert f"{commits(Path(stored.place.url))} of 6 cells" in text
    shutil.rmtree(blocked)
    run_study(tiny, Path(stored.place.url), SerialExecutor(), lambda _: None)
    assert commits(Path(stored.place.url)) == 6


def test_one_driver_at_a_time(tiny: StudySpec, tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_study(tiny))
    match = rf"another process writes to the store \(process {os.getpid()} on .* since 20"
    with hold(stored.place), pytest.raises(InvalidInputError, match=match):
        run_study(tiny, Path(stored.place.url), SerialExecutor(), lambda _: None)
    assert commits(Path(stored.place.url)) == 0


def test_other_software_does_not_go_on_with_a_store(
    tiny: StudySpec, store_copy: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_copy(KEPT)
    complete = results_of(store)
    remove_batch(store, 1)
    with monkeypatch.context() as patched:
        patched.setattr("pbdist.run.run.provenance", lambda: {**provenance(), "numpy": "9.9"})
        with pytest.raises(StoreMismatchError, match=r"expected numpy \d\S*, got numpy 9\.9: continue"):
            run_study(tiny, store, SerialExecutor(), lambda _: None)
    run_study(tiny, store, SerialExecutor(), lambda _: None)
    assert results_of(store) == complete


def test_dask_gives_the_bytes_of_the_serial_run(finished_store: Finished, tmp_path: Path) -> None:
    path, events = write_study(tmp_path, STATES), list[Event]()
    executor = DaskExecutor(local_cluster(2))
    run_study(load_study(path), tmp_path / "s.zarr", executor, events.append)
    (begun,) = (event for event in events if isinstance(event, RunStarted))
    assert begun.workers.startswith("2 workers")
    assert str(begun.dashboard).startswith("http://")
    assert results_of(tmp_path / "s.zarr") == results_of(finished_store(STATES))


def test_a_running_scheduler(tiny: StudySpec, workers: LocalCluster, finished_store: Finished, tmp_path: Path) -> None:
    with Client(workers) as client:
        before = client.get_events(TOPIC)
        run_study(tiny, tmp_path / "s.zarr", DaskExecutor(scheduler=workers.scheduler_address), lambda _: None)
        # Of cells that take no long nothing is sent.
        assert client.get_events(TOPIC) == before
    assert results_of(tmp_path / "s.zarr") == results_of(finished_store(KEPT))


@pytest.mark.ci
def test_a_killed_driver_and_a_second_run(finished_store: Finished, tmp_path: Path) -> None:
    path, store = write_study(tmp_path, STATES), tmp_path / "s.zarr"
    with started(path, store, "--workers", "2", hold=(tmp_path / "never", 5)) as driver:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert 5 <= commits(store) < BATCHES
    # At once, while workers of the first run may still be there.
    second = run(path, store, "--workers", "2")
    assert second.returncode == 0, second.stderr
    assert "cells are in the store already" in second.stderr
    assert results_of(store) == results_of(finished_store(STATES))


@pytest.mark.ci
def test_control_c_stops_and_the_same_command_goes_on(finished_store: Finished, tmp_path: Path) -> None:
    path, store = write_study(tmp_path, STATES), tmp_path / "s.zarr"
    with started(path, store, "--workers", "2", hold=(tmp_path / "never", 3), start_new_session=True) as driver:
        children = psutil.Process(driver.pid).children(recursive=True)
        # A terminal sends it to the whole group, workers included.
        os.killpg(driver.pid, signal.SIGINT)
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130, errors
    assert "the same command goes on" in errors
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(children, timeout=PATIENCE)
    assert not alive
    assert 3 <= commits(store) < BATCHES
    second = run(path, store, "--workers", "1")
    assert second.returncode == 0, second.stderr
    assert results_of(store) == results_of(finished_store(STATES))


@pytest.mark.ci
def test_a_killed_worker_loses_nothing(finished_store: Finished, tmp_path: Path) -> None:
    path, store = write_study(tmp_path, STATES), tmp_path / "s.zarr"
    with started(path, store, "--workers", "2", hold=(tmp_path / "go on", 3)) as driver:
        children = psutil.Process(driver.pid).children(recursive=True)
        next(child for child in children if "spawn_main" in " ".join(child.cmdline())).kill()
        (tmp_path / "go on").touch()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert results_of(store) == results_of(finished_store(STATES))


#: With one Laplace cell and one of a noisy count.
TWO_CELLS = """\
format: 1
name: two
mechanisms:
  - {kind: Laplace, scale: 2}
  - {kind: NoisyCount, noise: {kind: Laplace, scale: 3}, mean: 60, shift: 2}
method: buckets
buckets: 28000
keep_states: true
compositions: [1, 2, 3, 65536]
epsilon: {linspace: [0, 1, 5]}
"""


@pytest.mark.parametrize(
    ("precision", "keep"),
    [
        ("tolerance: 1e-4", "false"),
        pytest.param("method: buckets\nbuckets: 200000", "true", marks=pytest.mark.nightly),
        pytest.param("tolerance: 1e-3", "true", marks=pytest.mark.nightly),
        pytest.param("buckets: 4000", "false", marks=pytest.mark.nightly),
    ],
)
def test_measured_peak_memory_is_at_most_the_projected(tmp_path: Path, precision: str, keep: str) -> None:
    text = TWO_CELLS.replace("method: buckets\nbuckets: 28000", precision)
    assert precision in text
    text = text.replace("keep_states: true", f"keep_states: {keep}")
    path = write_study(tmp_path, text)
    program = (
        "import re, sys; from pbdist.cli import main; code = main(sys.argv[1:]);"
        # Not ru_maxrss, which a child inherits from the process that started it.
        "print(int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]) * 1024); sys.exit(code)"
    )
    arguments = ["run", str(path), "--store", str(tmp_path / "s.zarr"), "--serial"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    plan = plan_study(load_study(path))
    assert int(done.stdout.split()[-1]) <= plan.worker_bytes
    size = sum(file.stat().st_size for file in (tmp_path / "s.zarr").rglob("*") if file.is_file())
    assert size <= plan.store_bytes


def test_progress_is_told_where_nobody_watches(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path))
    for terminal in (False, True):
        file = io.StringIO()
        with ProgressDisplay(Console(file=file, force_terminal=terminal, width=100)) as display:
            run_study(study, tmp_path / f"{terminal}.zarr", SerialExecutor(), display)
        assert "computing on this process" in file.getvalue()
        assert "6 of 6 cells are in the store" in file.getvalue()
    assert "cells" in file.getvalue()
    assert "/s" in file.getvalue()


def test_workers_that_cannot_start(tiny: StudySpec, tmp_path: Path) -> None:
    executor = DaskExecutor(local_cluster(1, memory_limit="a lot"))
    with pytest.raises(InvalidInputError, match="LocalCluster does not start: ValueError"):
        run_study(tiny, tmp_path / "s.zarr", executor, lambda _: None)
    large = dataclasses.replace(tiny, buckets=2_000_000)
    executor = DaskExecutor(local_cluster(1, memory_limit="400MiB"))
    with pytest.raises(InvalidInputError, match=r"2000000 buckets in blocks need \d+ MiB for each task, got \d+ MiB"):
        run_study(large, tmp_path / "large.zarr", executor, lambda _: None)
    with pytest.raises(
        InvalidInputError,
        match="--scheduler: nonsense is no address, such as tcp://host:8786",
    ):
        run_study(tiny, tmp_path / "s.zarr", DaskExecutor(scheduler="nonsense"), lambda _: None)
    assert not (tmp_path / "s.zarr").exists()
