"""A scheduler that somebody else runs is killed in the middle of a run, and comes back or does not."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from pbdist.run.cluster_profile import CertificateFiles
from tests.run.certificates import Authority
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


def tls(files: CertificateFiles | None, *names: str) -> list[str]:
    if files is None:
        return []
    return [
        word
        for name, path in zip(names, (files.ca, files.certificate, files.key), strict=True)
        for word in (name, path)
    ]


class Hub:
    """A scheduler at a port that stays the same, and a worker of it."""

    def __init__(self, stack: ExitStack, files: CertificateFiles | None = None) -> None:
        self._stack, self._port = stack, free_port()
        self._tls = tls(files, "--tls-ca-file", "--tls-cert", "--tls-key")
        self.address = f"{'tls' if files else 'tcp'}://127.0.0.1:{self._port}"

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
        protocol = ["--protocol", "tls"] if self._tls else []
        scheduler = self._stack.enter_context(dask("scheduler", *where, *protocol, *self._tls))
        options = ["--nthreads", "1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        self._stack.enter_context(dask("worker", self.address, *options, *self._tls))
        return scheduler


@pytest.mark.parametrize(
    "certificates", [pytest.param(False, marks=pytest.mark.ci), pytest.param(True, marks=pytest.mark.nightly)]
)
def test_the_run_waits_for_the_scheduler_and_goes_on(
    certificates: bool, finished_store: Finished, tmp_path: Path
) -> None:
    files = Authority(tmp_path).certificate("mine") if certificates else None
    path, store, log = write_study(tmp_path, LIGHT), tmp_path / "s.zarr", tmp_path / "log.jsonl"
    with ExitStack() as stack:
        hub = Hub(stack, files)
        scheduler = hub.start()
        options = ["--scheduler", hub.address, "--patience", "90", "--log", log]
        options += tls(files, "--tls-ca", "--tls-certificate", "--tls-key")
        driver = stack.enter_context(started(path, store, *options, hold=(tmp_path / "go on", 3)))
        scheduler.kill()
        until(lambda: "scheduler_unreachable" in names(log), driver)
        (tmp_path / "go on").touch()
        hub.start()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert re.search(rf"the scheduler {hub.address} is lost since .*: waiting for it for 90 s", errors)
    assert re.search(r"the scheduler is back after .*: \d tasks? submitted again", errors)
    assert "16 of 16 cells are in the store" in errors
    assert "failed" not in errors
    assert "Traceback" not in errors
    found = [name for name in names(log) if name.startswith("scheduler")]
    assert found == ["scheduler_unreachable", "scheduler_reached"]
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


@pytest.mark.nightly
def test_certificates_that_the_scheduler_does_not_take(tmp_path: Path) -> None:
    mine, other = (Authority(tmp_path, f"{name}-ca").certificate(name) for name in ("mine", "other"))
    with ExitStack() as stack:
        hub = Hub(stack, mine)
        scheduler = hub.start()
        until(lambda: any(one.status == psutil.CONN_LISTEN for one in scheduler.net_connections()))
        plain = hub.address.replace("tls", "tcp")
        mine_given, other_given = (tls(files, "--tls-ca", "--tls-certificate", "--tls-key") for files in (mine, other))
        for options, words in (
            ([hub.address], "a scheduler with TLS takes --tls-ca, --tls-certificate and --tls-key"),
            ([plain, *mine_given], "certificates go with an address tls://HOST:PORT"),
            ([hub.address, *other_given], "--scheduler: expected the address of a running scheduler"),
        ):
            environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
            path = write_study(tmp_path, LIGHT)
            done = run(path, tmp_path / "s.zarr", "--scheduler", *options, env=environment)
            assert done.returncode == 2, done.stderr
            assert len(done.stderr.splitlines()) == 1, done.stderr
            assert words in done.stderr
    assert not (tmp_path / "s.zarr").exists()
