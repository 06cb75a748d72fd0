"""A store that cannot be reached for a while, or at all any more, in the middle of a run."""

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import LocalCluster

from pbdist.cli import main
from pbdist.errors import BatchError
from pbdist.run import SerialExecutor, run_study
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
from pbdist.store import Place, place_at
from pbdist.store.layout import batch_file
from pbdist.store.objects import Trouble, trouble_of
from pbdist.study import load_study
from tests.batches import remove_batch
from tests.run.processes import LIGHT, PATIENCE, commits, names, run, started, until
from tests.s3_server import Bucket, fresh_bucket
from tests.store.tcp_proxy import TcpProxy
from tests.studies import Finished, results_of, without_provenance, write_study

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with fresh_bucket() as found:
        yield found


@pytest.fixture
def proxy(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    """The only way to the bucket."""
    with TcpProxy("127.0.0.1", bucket.server.port) as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.address)
        yield found


def contents(where: Path | str) -> dict[str, bytes]:
    """Every file of a store, the provenance apart."""
    place: Place = place_at(where)
    found = {name: place.read(name) for name, _ in place.names()}
    for name, data in found.items():
        if b'"provenance"' in data:
            found[name] = without_provenance(data.decode()).encode()
    return found


@contextmanager
def held(folder: Path, url: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A run whose two workers wait, until there is a file ``go on``."""
    path, gate = write_study(folder, LIGHT), folder / "go on"
    options = ("--workers", "2", "--log", str(folder / "log.jsonl"), *options)
    with started(path, url, *options, hold=(gate, 3)) as driver:
        until(lambda: len(list(folder.glob("go on.*"))) == 2, driver)
        yield driver


@pytest.mark.ci
def test_a_run_outlives_an_outage(proxy: TcpProxy, bucket: Bucket, finished_store: Finished, tmp_path: Path) -> None:
    url = f"{bucket.url}/cut/s.zarr"
    gate, log = tmp_path / "go on", tmp_path / "log.jsonl"
    with held(tmp_path, url) as driver:
        proxy.cut()
        gate.touch()
        until(lambda: "store_unreachable" in names(log), driver)
        # Both workers wait to write a batch. After it they are held again, until it is told that the outage is over.
        gate.unlink()
        before = proxy.passed
        proxy.mend()
        until(lambda: "store_reached" in names(log), driver)
        gate.touch()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert proxy.passed > before
    assert "16 of 16 cells are in the store" in errors
    assert "failed" not in errors
    told = [line.split(" since ")[0] for line in errors.splitlines() if "cannot be reached" in line]
    assert told == ["the store cannot be reached"]
    assert errors.count("the store is reached again") == 1
    assert contents(url) == contents(finished_store(LIGHT))
    left = [name for name, _ in place_at(f"{bucket.url}/cut").names()]
    assert all(name.startswith("s.zarr/") for name in left), "a lease is left"


@pytest.mark.nightly
def test_a_server_that_answers_nothing_for_two_thirds_of_the_patience(
    bucket: Bucket, finished_store: Finished, tmp_path: Path
) -> None:
    """As for ten minutes with the default patience."""
    url = f"{bucket.url}/s.zarr"
    with held(tmp_path, url, "--patience", "30") as driver:
        bucket.server.process.send_signal(signal.SIGSTOP)
        try:
            (tmp_path / "go on").touch()
            time.sleep(20)
            assert driver.poll() is None
        finally:
            bucket.server.process.send_signal(signal.SIGCONT)
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert "16 of 16 cells are in the store" in errors
    assert "failed" not in errors
    assert contents(url) == contents(finished_store(LIGHT))


@pytest.mark.nightly
def test_an_outage_without_an_end_ends_the_run_with_one_line(
    proxy: TcpProxy, bucket: Bucket, finished_store: Finished, tmp_path: Path
) -> None:
    url = f"{bucket.url}/s.zarr"
    with held(tmp_path, url, "--patience", "4") as driver:
        proxy.cut()
        (tmp_path / "go on").touch()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 1, errors
    last = errors.splitlines()[-1]
    assert last.startswith("pbdist: error: the store could not be reached for ")
    assert last.endswith("of 16 cells are in the store: the same command goes on where this one stopped")
    assert "Traceback" not in errors
    assert sum("16 cells are in the store, " in line for line in errors.splitlines()) == 1
    proxy.mend()
    again = run(tmp_path / "study.yaml", url, "--workers", "2")
    assert again.returncode == 0, again.stderr
    assert contents(url) == contents(finished_store(LIGHT))


class Seen:
    """Collects the events of a run, and does something at the first of some kinds."""

    def __init__(self, acts: dict[type[Event], Callable[[], object]]) -> None:
        self.events: list[Event] = []
        self._acts = acts

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._acts.pop(type(event), lambda: None)()

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def test_what_could_not_be_written_is_put_back_and_written_later(
    proxy: TcpProxy, bucket: Bucket, finished_store: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task ends before the outage does."""
    monkeypatch.setattr("pbdist.run.driver.REQUEST_SECONDS", 1.0)
    study, url = load_study(write_study(tmp_path, LIGHT)), f"{bucket.url}/s.zarr"
    seen = Seen({BatchFinished: proxy.cut, StoreUnreachable: proxy.mend})
    stored = run_study(study, url, SerialExecutor(), seen, patience=120.0)
    assert len(seen.of(BatchFinished)) == stored.batches
    assert len(seen.of(StoreUnreachable)) == len(seen.of(StoreReached)) == 1
    assert not seen.of(BatchFailed)
    assert contents(url) == contents(finished_store(LIGHT))


def test_a_bucket_that_is_gone_ends_the_run_at_once(bucket: Bucket, tmp_path: Path) -> None:
    study, seen = load_study(write_study(tmp_path, LIGHT)), Seen({BatchFinished: bucket.remove})
    with pytest.raises(BatchError, match=r"^the store cannot be written: .*: \d+ of 16 cells are in the store: "):
        run_study(study, f"{bucket.url}/s.zarr", SerialExecutor(), seen)
    assert not seen.of(StoreUnreachable)
    assert isinstance(seen.events[-1], RunFinished)


@pytest.mark.parametrize("kind", ["serial", "dask"])
def test_a_folder_that_is_gone_ends_the_run_and_is_not_made_anew(
    kind: str, workers: LocalCluster, finished_store: Finished, tmp_path: Path
) -> None:
    executor = SerialExecutor() if kind == "serial" else DaskExecutor(scheduler=workers.scheduler_address)
    study, folder = load_study(write_study(tmp_path, LIGHT)), tmp_path / "mount"
    seen = Seen({BatchFinished: lambda: folder.rename(tmp_path / "unmounted")})
    with pytest.raises(BatchError, match=r"the store cannot be written: .*nothing there.*: the same command goes on"):
        run_study(study, folder / "s.zarr", executor, seen)
    assert not folder.exists()
    assert isinstance(seen.events[-1], RunFinished)
    # Back where it was, the run goes on.
    (tmp_path / "unmounted").rename(folder)
    run_study(study, folder / "s.zarr", SerialExecutor(), lambda _: None)
    assert results_of(folder / "s.zarr") == results_of(finished_store(LIGHT))


@contextmanager
def without_privilege() -> Iterator[None]:
    """Have permissions apply to root too, in this thread and in those that it starts (Linux)."""
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(0x20080522, 0)
    before, less = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    for found in (before, less):
        assert libc.capget(header, found) == 0
    # To read and write whatever there is, out of those in effect.
    less[0] &= ~0b110
    assert libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0


def test_a_store_that_may_not_be_written_ends_the_run_at_once(finished_store: Finished, tmp_path: Path) -> None:
    study, store = load_study(write_study(tmp_path, LIGHT)), tmp_path / "s.zarr"

    def allow(mode: int) -> None:
        for folder in (store, *(found for found in store.rglob("*") if found.is_dir())):
            folder.chmod(mode)

    seen = Seen({BatchFinished: lambda: allow(0o500)})
    with without_privilege():
        with pytest.raises(BatchError, match=r"^the store cannot be written: PermissionError: "):
            run_study(study, store, SerialExecutor(), seen)
        allow(0o700)
        assert not seen.of(StoreUnreachable)
        assert 1 <= commits(store) < 16
        run_study(study, store, SerialExecutor(), lambda _: None)
    assert results_of(store) == results_of(finished_store(LIGHT))


def run_without_privilege(store: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The command on a store beside which its study lies: its exit code and the lines of its errors."""
    with without_privilege():
        code = main(["run", str(write_study(store.parent, LIGHT)), "--store", str(store), "--serial"])
    return code, capsys.readouterr().err.splitlines()


def test_a_clean_up_that_fails_hides_no_summary_and_changes_no_exit_code(
    store_copy: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_copy(LIGHT)
    remove_batch(store, 3)
    (store / "closed").mkdir(mode=0o000)
    code, errors = run_without_privilege(store, capsys)
    (store / "closed").chmod(0o700)
    assert code == 0, errors
    assert any("16 of 16 cells are in the store" in line for line in errors)
    assert [line for line in errors if "closed" in line] == [
        f"left behind: what could not be removed: PermissionError: [Errno 13] Permission denied: '{store / 'closed'}'"
    ]


@pytest.mark.parametrize("name", ["delta_lower/c", "commits"])
def test_a_closed_folder_of_the_store_itself_is_an_error_and_nothing_is_changed(
    name: str, store_copy: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a run would take what lies there for missing, and compute it again."""
    store = store_copy(LIGHT)
    before = {found: found.read_bytes() for found in store.rglob("*") if found.is_file()}
    (store / name).chmod(0o000)
    code, errors = run_without_privilege(store, capsys)
    (store / name).chmod(0o700)
    assert code in {1, 2}
    (line,) = errors
    assert line.startswith("pbdist: error: ")
    assert f"Permission denied: '{store / name}" in line
    assert {found: found.read_bytes() for found in store.rglob("*") if found.is_file()} == before
    assert run_without_privilege(store, capsys)[0] == 0


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


def test_receipts_of_batches_that_were_committed_survive_a_later_failure_in_their_task(
    store_copy: Finished, tmp_path: Path
) -> None:
    study, events, store = load_study(write_study(tmp_path, LIGHT)), list[Event](), store_copy(LIGHT)
    shutil.rmtree(store / "commits")
    # Somebody's files where one batch belongs.
    (store / batch_file(9)).mkdir(parents=True)
    (store / batch_file(9) / "thesis.tex").write_text("years of work")
    with pytest.raises(BatchError, match=r"^1 of 16 cells could not be computed: .*IsADirectoryError"):
        run_study(study, store, SerialExecutor(), events.append)
    assert [event.batch for event in events if isinstance(event, BatchFailed)] == [9]
    assert len([event for event in events if isinstance(event, BatchFinished)]) == 15


def test_a_file_system_that_is_away_for_a_moment(
    finished_store: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's answer stands for a server of a network file system that restarts."""
    study, synchronize, failures = load_study(write_study(tmp_path, LIGHT)), os.fsync, list[OSError]()

    def fsync(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        synchronize(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    # A batch, and two probes.
    seen = Seen({BatchFinished: lambda: failures.extend(3 * [OSError(errno.ESTALE, os.strerror(errno.ESTALE))])})
    run_study(study, tmp_path / "s.zarr", SerialExecutor(), seen)
    assert not failures
    assert len(seen.of(StoreUnreachable)) == len(seen.of(StoreReached)) == 1
    assert not seen.of(BatchFailed)
    assert len(seen.of(BatchFinished)) == 16
    assert results_of(tmp_path / "s.zarr") == results_of(finished_store(LIGHT))


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
