"""A scheduler that somebody else runs is killed in the middle of a run."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from pbdist.errors import BatchError, WorkersLostError
from pbdist.run import SerialExecutor, run_study
from pbdist.run.events import BatchFinished, Done, Event, RunStarted
from pbdist.study import load_study
from tests.run.processes import LIGHT, PATIENCE, commits, run, started
from tests.studies import Finished, results_of, write_study

pytestmark = pytest.mark.timeout(900)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def dask(name: str, *options: str, enter: Callable[[], None] | None = None) -> Iterator[psutil.Process]:
    """``dask scheduler`` or ``dask worker``, which first calls `enter`, and is ended with all that it has started."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, preexec_fn=enter, **quiet) as process:  # noqa: PLW1509
        found = psutil.Process(process.pid)
        try:
            yield found
        finally:
            kill(found)


def kill(process: psutil.Process) -> None:
    try:
        family = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    for one in family:
        with_no_error(one.kill)
    psutil.wait_procs(family, timeout=20)


def with_no_error(act: Callable[[], object]) -> None:
    with suppress(psutil.NoSuchProcess):
        act()


class Hub:
    """A scheduler at a port that stays the same, and a worker of it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack, self._port = stack, free_port()
        self.address = f"tcp://127.0.0.1:{self._port}"

    def start(self) -> psutil.Process:
        where = [
            "--host",
            "127.0.0.1",
            "--port",
            str(self._port),
            "--no-dashboard",
            "--dashboard-address",
            "127.0.0.1:0",
        ]
        scheduler = self._stack.enter_context(dask("scheduler", *where))
        options = ["--nthreads", "1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        self._stack.enter_context(dask("worker", self.address, *options))
        return scheduler


@pytest.mark.ci
def test_a_lost_scheduler_ends_the_run_with_one_line_and_the_same_command_continues(
    finished_store: Finished, tmp_path: Path
) -> None:
    path, store = write_study(tmp_path, LIGHT), tmp_path / "s.zarr"
    with ExitStack() as stack:
        hub = Hub(stack)
        scheduler = hub.start()
        driver = stack.enter_context(started(path, store, "--scheduler", hub.address, hold=(tmp_path / "never", 3)))
        scheduler.kill()
        _, errors = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == 1, errors
        lost = "the connection to the scheduler was lost: 3 of 16 cells are in the store"
        assert errors.endswith(f"pbdist: error: {lost}: the same command goes on where this one stopped\n")
        assert "failed" not in errors
        assert "Traceback" not in errors
        hub.start()
        again = run(path, store, "--scheduler", hub.address)
    assert again.returncode == 0, again.stderr
    assert "in the store already" in again.stderr
    assert results_of(store) == results_of(finished_store(LIGHT))


class Deaf(SerialExecutor):
    """Workers that are lost after they have committed three batches, and reported one."""

    def run(self, task: Callable[[Any], Any], items: Iterable[Any], *send: Any) -> Iterator[Done[Any, Any]]:
        done = super().run(task, items, *send)
        yield next(done)
        next(done)
        next(done)
        raise WorkersLostError("no worker is left")


def test_cells_that_were_not_tried_have_not_failed_and_the_count_is_that_of_the_store(tmp_path: Path) -> None:
    study, events = load_study(write_study(tmp_path, LIGHT)), list[Event]()
    with pytest.raises(BatchError) as caught:
        run_study(study, tmp_path / "s.zarr", Deaf(), events.append)
    stored = commits(tmp_path / "s.zarr")
    told = f"no worker is left: {stored} of 16 cells are in the store: the same command goes on where this one stopped"
    assert str(caught.value) == told
    assert 3 <= stored < 16
    assert {type(event) for event in events} == {RunStarted, BatchFinished}
