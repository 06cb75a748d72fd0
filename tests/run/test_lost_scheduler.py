"""A scheduler that somebody else runs is killed in the middle of a run, and comes back or does not."""

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.run.processes import LIGHT, PATIENCE, names, run, started, until
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
def test_the_run_waits_for_the_scheduler_and_goes_on(finished_store: Finished, tmp_path: Path) -> None:
    path, store, log = write_study(tmp_path, LIGHT), tmp_path / "s.zarr", tmp_path / "log.jsonl"
    with ExitStack() as stack:
        hub = Hub(stack)
        scheduler = hub.start()
        options = ["--scheduler", hub.address, "--patience", "90", "--log", log]
        driver = stack.enter_context(started(path, store, *options, hold=(tmp_path / "go on", 3)))
        scheduler.kill()
        until(lambda: log.exists() and "is lost since" in log.read_text(), driver)
        (tmp_path / "go on").touch()
        hub.start()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert re.search(rf"the scheduler {hub.address} is lost since .*: waiting for it for 90 s", errors)
    assert re.search(r"the scheduler is back after .*: \d tasks? submitted again", errors)
    assert "16 of 16 cells are in the store" in errors
    assert "failed" not in errors
    assert "Traceback" not in errors
    assert names(log).count("notice") == 2
    assert results_of(store) == results_of(finished_store(LIGHT))


@pytest.mark.nightly
def test_a_scheduler_that_does_not_come_back_ends_the_run_with_one_line(
    finished_store: Finished, tmp_path: Path
) -> None:
    path, store = write_study(tmp_path, LIGHT), tmp_path / "s.zarr"
    with ExitStack() as stack:
        hub = Hub(stack)
        scheduler = hub.start()
        options = ["--scheduler", hub.address, "--patience", "4"]
        driver = stack.enter_context(started(path, store, *options, hold=(tmp_path / "never", 3)))
        scheduler.kill()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 1, errors
    last = errors.splitlines()[-1]
    assert "the scheduler was lost and did not come back for " in last
    assert last.endswith("the same command goes on where this one stopped")
    assert "Traceback" not in errors
    # The same command, when it is there again.
    with ExitStack() as stack:
        hub = Hub(stack)
        hub.start()
        again = run(path, store, "--scheduler", hub.address)
    assert again.returncode == 0, again.stderr
    assert "in the store already" in again.stderr
    assert results_of(store) == results_of(finished_store(LIGHT))
