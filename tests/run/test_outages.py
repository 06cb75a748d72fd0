"""A store that cannot be reached for a while, or at all any more, in the middle of a run."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest

from pbdist.errors import BatchError
from pbdist.run import SerialExecutor, run_study
from pbdist.run.cluster_profile import LocalProfile
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.events import (
    BatchFailed,
    BatchFinished,
    CleanUpFailed,
    Event,
    RunFinished,
    StoreReached,
    StoreUnreachable,
)
from pbdist.run.executor import Executor
from pbdist.store import Place, place_at
from pbdist.store.layout import LOOSE, batch_file
from pbdist.store.outages import Trouble, trouble_of
from pbdist.study import load_study
from tests import batches
from tests.batches import remove_batch
from tests.store.s3_server import s3_server
from tests.store.tcp_proxy import TcpProxy
from tests.studies import results_of, without_provenance, write_study

#: Sixty-four batches of a third of a second.
LONG = """\
format: 1
name: long
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 65, 64]}}
method: buckets
buckets: 20000
compositions: [1, 3, 64]
epsilon: {linspace: [0, 1, 5]}
"""
#: Sixteen cells in sixteen batches, quickly computed.
LIGHT = """\
format: 1
name: light
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 17, 16]}}
method: buckets
buckets: 400
compositions: [1, 2, 4]
epsilon: [0.1, 0.5]
"""


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with s3_server("studies") as address, TcpProxy("127.0.0.1", int(address.rpartition(":")[2])) as found:
        yield found


def contents(place: Place) -> dict[str, bytes]:
    """Every file of a store, the provenance apart."""
    found = {name: place.read(name) for name, _ in place.names()}
    for name, data in found.items():
        if b'"provenance"' in data:
            found[name] = without_provenance(data.decode()).encode()
    return found


def run_command(path: Path, store: str, proxy: TcpProxy, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pbdist", "run", str(path), "--store", store, "--workers", "2", *options]
    environment = {**os.environ, "AWS_ENDPOINT_URL": proxy.address}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def committed(url: str) -> int:
    return batches.committed(place_at(url))


def until_committed(driver: "subprocess.Popen[str]", url: str, count: int) -> None:
    deadline = time.monotonic() + 200
    while committed(url) < count:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.ci
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [5, 20, 90])
def test_a_run_outlives_an_outage(seconds: int, proxy: TcpProxy, tmp_path: Path) -> None:
    path, url = write_study(tmp_path, LONG), f"s3://studies/cut-{seconds}/s.zarr"
    with run_command(path, url, proxy) as driver:
        until_committed(driver, url, 3)
        proxy.cut()
        time.sleep(seconds)
        assert committed(url) < 64
        assert driver.poll() is None
        before = proxy.passed
        proxy.mend()
        _, errors = driver.communicate(timeout=600)
    assert driver.returncode == 0, errors
    assert proxy.passed > before
    assert "64 of 64 cells are in the store" in errors
    assert "failed" not in errors
    told = [line.split(" since ")[0] for line in errors.splitlines() if "cannot be reached" in line]
    assert told == ["the store cannot be reached"] * len(told)
    # Shorter than a heartbeat it may pass unnoticed.
    assert len(told) == 1 or (seconds < 20 and not told)
    assert errors.count("the store is reached again") == len(told)
    serial = run_study(load_study(path), tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    assert contents(place_at(url)) == contents(serial.place)
    names = [name for name, _ in place_at(f"s3://studies/cut-{seconds}").names()]
    assert all(name.startswith("s.zarr/") for name in names), "a lease is left"


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.parametrize("hanging", [False, True])
def test_a_server_that_is_gone_for_two_thirds_of_the_patience(hanging: bool, proxy: TcpProxy, tmp_path: Path) -> None:
    """As for ten minutes with the default patience. It refuses connections, or takes them and answers nothing."""
    path, url = write_study(tmp_path, LONG), f"s3://studies/thirds-{hanging}/s.zarr"
    (server,) = [one for one in psutil.Process().children() if "moto.server" in str(one.cmdline())]
    with run_command(path, url, proxy, "--patience", "30") as driver:
        until_committed(driver, url, 3)
        if hanging:
            server.suspend()
        else:
            proxy.cut()
        time.sleep(20)
        assert driver.poll() is None
        if hanging:
            server.resume()
        else:
            proxy.mend()
        _, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors
    assert "64 of 64 cells are in the store" in errors
    assert "failed" not in errors
    # Requests that hang may pass unnoticed.
    assert hanging or "the store is reached again after" in errors
    serial = run_study(load_study(path), tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    assert contents(place_at(url)) == contents(serial.place)


@pytest.mark.ci
@pytest.mark.timeout(1200)
def test_an_outage_without_an_end_ends_the_run_with_one_line(proxy: TcpProxy, tmp_path: Path) -> None:
    path, url = write_study(tmp_path, LONG), "s3://studies/endless/s.zarr"
    with run_command(path, url, proxy, "--patience", "4") as driver:
        until_committed(driver, url, 3)
        proxy.cut()
        _, errors = driver.communicate(timeout=500)
    assert driver.returncode == 1, errors
    last = errors.splitlines()[-1]
    assert last.startswith("pbdist: error: the store could not be reached for ")
    assert last.endswith("of 64 cells are in the store: the same command goes on where this one stopped")
    assert "Traceback" not in errors
    assert sum("64 cells are in the store, " in line for line in errors.splitlines()) == 1
    proxy.mend()
    with run_command(path, url, proxy) as driver:
        _, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors
    serial = run_study(load_study(path), tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    assert contents(place_at(url)) == contents(serial.place)


class Cutting:
    """Collects the events of a run, and does something when some batches are finished."""

    def __init__(self, batches: int, act: Callable[[], object]) -> None:
        self.events: list[Event] = []
        self._batches, self._act = batches, act

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, BatchFinished):
            self._batches -= 1
            if self._batches == 0:
                self._act()

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def test_what_could_not_be_written_is_put_back_and_written_later(
    proxy: TcpProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task ends before the outage does."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
    monkeypatch.setattr("pbdist.run.driver.REQUEST_SECONDS", 1.0)
    study, url = load_study(write_study(tmp_path, LIGHT)), "s3://studies/back/s.zarr"
    mending = threading.Timer(6.0, proxy.mend)

    def cut() -> None:
        proxy.cut()
        mending.start()

    seen = Cutting(1, cut)
    stored = run_study(study, url, SerialExecutor(), seen, patience=120.0)
    assert not mending.is_alive()
    assert len(seen.of(BatchFinished)) == stored.batches
    assert len(seen.of(StoreUnreachable)) == len(seen.of(StoreReached)) == 1
    assert not seen.of(BatchFailed)
    serial = run_study(study, tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    assert contents(stored.place) == contents(serial.place)


def test_a_bucket_that_is_gone_ends_the_run_at_once(
    proxy: TcpProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
    study = load_study(write_study(tmp_path, LIGHT))

    def empty() -> None:
        with urlopen(Request(f"{proxy.address}/moto-api/reset", method="POST"), timeout=240):  # noqa: S310 -- the server
            pass

    seen = Cutting(1, empty)
    with pytest.raises(BatchError, match=r"^the store cannot be written: .*: \d+ of 16 cells are in the store: "):
        run_study(study, "s3://studies/gone/s.zarr", SerialExecutor(), seen)
    assert not seen.of(StoreUnreachable)
    assert isinstance(seen.events[-1], RunFinished)


@pytest.mark.slow
@pytest.mark.parametrize("executor", [SerialExecutor(), DaskExecutor(LocalProfile(workers=2, dashboard_port=0))])
def test_a_folder_that_is_gone_ends_the_run_and_is_not_made_anew(executor: Executor, tmp_path: Path) -> None:
    study, folder = load_study(write_study(tmp_path, LIGHT)), tmp_path / "mount"
    seen = Cutting(1, lambda: folder.rename(tmp_path / "unmounted"))
    with pytest.raises(BatchError, match=r"the store cannot be written: .*nothing there.*: the same command goes on"):
        run_study(study, folder / "s.zarr", executor, seen)
    assert not folder.exists()
    assert isinstance(seen.events[-1], RunFinished)
    # Back where it was, the run goes on.
    (tmp_path / "unmounted").rename(folder)
    run_study(study, folder / "s.zarr", SerialExecutor(), lambda _: None)
    run_study(study, tmp_path / "whole.zarr", SerialExecutor(), lambda _: None)
    assert results_of(folder / "s.zarr") == results_of(tmp_path / "whole.zarr")


def without_privilege() -> None:
    """Have permissions apply to root too, from the next program on."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):
            libc.prctl(24, capability, 0, 0, 0)


def run_without_privilege(path: Path, store: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pbdist", "run", str(path), "--store", str(store), "--serial"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=without_privilege,  # noqa: PLW1509
    )


def test_a_store_that_may_not_be_written_ends_the_run_at_once(tmp_path: Path) -> None:
    path, store = write_study(tmp_path, LIGHT.replace("buckets: 400", "buckets: 20000")), tmp_path / "s.zarr"
    with run_without_privilege(path, store) as driver:
        while len(list((store / LOOSE).glob("*/batch-*"))) < 2:
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.02)
        folders = [store, *(found for found in store.rglob("*") if found.is_dir())]
        for folder in folders:
            folder.chmod(0o500)
        _, errors = driver.communicate(timeout=120)
    for folder in folders:
        folder.chmod(0o700)
    assert driver.returncode == 1, errors
    assert errors.splitlines()[-1].startswith("pbdist: error: the store cannot be written: PermissionError: ")
    assert "cannot be reached" not in errors
    with run_without_privilege(path, store) as driver:
        _, errors = driver.communicate(timeout=120)
    assert driver.returncode == 0, errors


def test_a_clean_up_that_fails_hides_no_summary_and_changes_no_exit_code(tmp_path: Path) -> None:
    path, store = write_study(tmp_path, LIGHT), tmp_path / "s.zarr"
    run_study(load_study(path), store, SerialExecutor(), lambda _: None)
    remove_batch(store, 3)
    (store / "closed").mkdir(mode=0o000)
    with run_without_privilege(path, store) as driver:
        _, errors = driver.communicate(timeout=120)
    (store / "closed").chmod(0o700)
    assert driver.returncode == 0, errors
    assert "16 of 16 cells are in the store" in errors
    assert [line for line in errors.splitlines() if "closed" in line] == [
        f"left behind: what could not be removed: PermissionError: [Errno 13] Permission denied: '{store / 'closed'}'"
    ]


@pytest.mark.parametrize("name", ["delta_lower/c", "commits", "states"])
def test_a_closed_folder_of_the_store_itself_is_an_error_and_nothing_is_changed(name: str, tmp_path: Path) -> None:
    """Else a run would take what lies there for missing, and compute it again."""
    path, store = write_study(tmp_path, f"{LIGHT}keep_states: true\n"), tmp_path / "s.zarr"
    run_study(load_study(path), store, SerialExecutor(), lambda _: None)
    before = {found: found.read_bytes() for found in store.rglob("*") if found.is_file()}
    (store / name).chmod(0o000)
    with run_without_privilege(path, store) as driver:
        _, errors = driver.communicate(timeout=120)
    (store / name).chmod(0o700)
    assert driver.returncode in {1, 2}
    (line,) = errors.splitlines()
    assert line.startswith("pbdist: error: ")
    assert f"Permission denied: '{store / name}" in line
    assert {found: found.read_bytes() for found in store.rglob("*") if found.is_file()} == before
    with run_without_privilege(path, store) as driver:
        driver.communicate(timeout=120)
    assert driver.returncode == 0


class Stubborn(SerialExecutor):
    """Workers that do not stop as they should."""

    def __exit__(self, *_: object) -> None:
        raise RuntimeError("no")


def test_workers_that_do_not_stop_hide_neither_the_summary_nor_the_failure(tmp_path: Path) -> None:
    study, events = load_study(write_study(tmp_path, LIGHT)), list[Event]()
    run_study(study, tmp_path / "s.zarr", Stubborn(), events.append)
    assert events[-2:] == [CleanUpFailed("workers that did not stop: RuntimeError: no"), events[-1]]
    assert isinstance(events[-1], RunFinished)

    def fail(event: Event) -> None:
        if isinstance(event, BatchFinished):
            raise KeyError("the first failure")

    with pytest.raises(KeyError, match="the first failure"):
        run_study(study, tmp_path / "t.zarr", Stubborn(), fail)


def test_receipts_of_batches_that_were_committed_survive_a_later_failure_in_their_task(tmp_path: Path) -> None:
    study, events = load_study(write_study(tmp_path, LIGHT)), list[Event]()
    stored = run_study(study, tmp_path / "s.zarr", SerialExecutor(), events.append)
    assert stored.batches == 16
    shutil.rmtree(stored.path / "commits")
    events.clear()
    # Somebody's files where one batch belongs.
    (stored.path / batch_file(9)).mkdir(parents=True)
    (stored.path / batch_file(9) / "thesis.tex").write_text("years of work")
    with pytest.raises(BatchError, match=r"^1 of 16 cells could not be computed: .*IsADirectoryError"):
        run_study(study, stored.path, SerialExecutor(), events.append)
    assert [event.batch for event in events if isinstance(event, BatchFailed)] == [9]
    assert len([event for event in events if isinstance(event, BatchFinished)]) == 15


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
def test_a_file_system_that_is_away_for_a_moment(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's answer stands for a server of a network file system that restarts."""
    study, synchronize, failures = load_study(write_study(tmp_path, LIGHT)), os.fsync, [0]

    def fsync(descriptor: int) -> None:
        if failures[0]:
            failures[0] -= 1
            raise OSError(number, os.strerror(number))
        synchronize(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    def leave() -> None:
        failures[0] = 3

    seen = Cutting(1, leave)
    run_study(study, tmp_path / "s.zarr", SerialExecutor(), seen)
    # A batch, and two probes.
    assert failures == [0]
    assert len(seen.of(StoreUnreachable)) == len(seen.of(StoreReached)) == 1
    assert not seen.of(BatchFailed)
    assert len(seen.of(BatchFinished)) == 16
    run_study(study, tmp_path / "whole.zarr", SerialExecutor(), lambda _: None)
    assert results_of(tmp_path / "s.zarr") == results_of(tmp_path / "whole.zarr")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *((number, Trouble.LASTING) for number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG)),
        *((number, Trouble.FULL) for number in (errno.ENOSPC, errno.EDQUOT)),
        *((number, Trouble.PASSING) for number in (errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.ECONNRESET)),
        (errno.ENOENT, None),
        (errno.EISDIR, None),
    ],
)
def test_what_passes_and_what_stays(number: int, expected: Trouble | None) -> None:
    assert trouble_of(OSError(number, "")) is expected
