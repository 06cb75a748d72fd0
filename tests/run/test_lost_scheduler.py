"""A scheduler that somebody else runs is killed in the middle of a run, and comes back or does not."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from pbdist.run.certificates import CertificateFiles
from pbdist.store import place_at
from tests.batches import committed
from tests.run.certificates import Authority
from tests.run.held import held
from tests.studies import results_of, write_study

pytestmark = [pytest.mark.ci, pytest.mark.timeout(300)]

#: Sixteen batches, quickly computed.
STUDY = """\
format: 1
name: lost
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 17, 16]}}
method: buckets
buckets: 400
compositions: [1, 2, 4]
epsilon: [0.1, 0.5]
"""


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


def wait_until(condition: Callable[[], bool], driver: "subprocess.Popen[str]", seconds: float = 100) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def commits(store: Path) -> int:
    return committed(place_at(store))


def names(log: Path) -> list[str]:
    return [json.loads(line)["event"] for line in log.read_text().splitlines()] if log.exists() else []


@contextmanager
def started(tmp_path: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A run that is held after three commits, and killed in the end."""
    path = write_study(tmp_path, STUDY)
    arguments = (path, "--store", tmp_path / "s.zarr", "--log", tmp_path / "log.jsonl", *options)
    command, environment = held(tmp_path / "go on", 3, *arguments)
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as driver:
        try:
            yield driver
        finally:
            driver.kill()


def serial(tmp_path: Path) -> dict[str, str]:
    path, store = write_study(tmp_path, STUDY), tmp_path / "serial.zarr"
    command = [sys.executable, "-m", "pbdist", "run", str(path), "--store", str(store), "--serial"]
    subprocess.run(command, capture_output=True, timeout=240, check=True)
    return results_of(store)


@pytest.mark.parametrize("certificates", [False, True])
def test_the_run_waits_for_the_scheduler_and_goes_on(certificates: bool, tmp_path: Path) -> None:
    files = Authority(tmp_path).certificate("mine") if certificates else None
    with ExitStack() as stack:
        hub = Hub(stack, files)
        scheduler = hub.start()
        options = tls(files, "--tls-ca", "--tls-certificate", "--tls-key")
        driver = stack.enter_context(started(tmp_path, "--scheduler", hub.address, "--patience", "90", *options))
        wait_until(lambda: commits(tmp_path / "s.zarr") >= 3, driver)
        scheduler.kill()
        wait_until(lambda: "scheduler_unreachable" in names(tmp_path / "log.jsonl"), driver)
        time.sleep(3)
        (tmp_path / "go on").touch()
        hub.start()
        _, errors = driver.communicate(timeout=200)
    assert driver.returncode == 0, errors
    assert re.search(rf"the scheduler {hub.address} is lost since .*: waiting for it for 90 s", errors)
    assert re.search(r"the scheduler is back after .*: \d tasks? submitted again", errors)
    assert "16 of 16 cells are in the store" in errors
    assert "failed" not in errors
    assert "Traceback" not in errors
    found = [name for name in names(tmp_path / "log.jsonl") if name.startswith("scheduler")]
    assert found == ["scheduler_unreachable", "scheduler_reached"]
    assert results_of(tmp_path / "s.zarr") == serial(tmp_path)


def test_a_scheduler_that_does_not_come_back_ends_the_run_with_one_line(tmp_path: Path) -> None:
    with ExitStack() as stack:
        hub = Hub(stack)
        scheduler = hub.start()
        driver = stack.enter_context(started(tmp_path, "--scheduler", hub.address, "--patience", "4"))
        wait_until(lambda: commits(tmp_path / "s.zarr") >= 3, driver)
        scheduler.kill()
        began = time.monotonic()
        _, errors = driver.communicate(timeout=100)
        assert 3.5 < time.monotonic() - began < 60
    assert driver.returncode == 1, errors
    last = errors.splitlines()[-1]
    assert "the scheduler was lost and did not come back for " in last
    assert last.endswith("the same command goes on where this one stopped")
    assert "Traceback" not in errors
    # The same command, when it is there again.
    with ExitStack() as stack:
        hub = Hub(stack)
        hub.start()
        (tmp_path / "go on").touch()
        driver = stack.enter_context(started(tmp_path, "--scheduler", hub.address))
        _, errors = driver.communicate(timeout=200)
    assert driver.returncode == 0, errors
    assert "in the store already" in errors
    assert results_of(tmp_path / "s.zarr") == serial(tmp_path)


def test_certificates_that_the_scheduler_does_not_take(tmp_path: Path) -> None:
    mine, other = (Authority(tmp_path, f"{name}-ca").certificate(name) for name in ("mine", "other"))
    with ExitStack() as stack:
        hub = Hub(stack, mine)
        scheduler = hub.start()
        deadline = time.monotonic() + 60
        while not [one for one in scheduler.net_connections() if one.status == psutil.CONN_LISTEN]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        plain = hub.address.replace("tls", "tcp")
        mine_given, other_given = (tls(files, "--tls-ca", "--tls-certificate", "--tls-key") for files in (mine, other))
        for options, words in (
            ([hub.address], "a scheduler with TLS takes --tls-ca, --tls-certificate and --tls-key"),
            ([plain, *mine_given], "certificates go with an address tls://HOST:PORT"),
            ([hub.address, *other_given], "--scheduler: expected the address of a running scheduler"),
        ):
            path = write_study(tmp_path, STUDY)
            command = [sys.executable, "-m", "pbdist", "run", str(path), "--store", str(tmp_path / "s.zarr")]
            environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
            done = subprocess.run(
                [*command, "--scheduler", *options],
                capture_output=True,
                text=True,
                timeout=120,
                env=environment,
                check=False,
            )
            assert done.returncode == 2, done.stderr
            assert len(done.stderr.splitlines()) == 1, done.stderr
            assert words in done.stderr
    assert not (tmp_path / "s.zarr").exists()
