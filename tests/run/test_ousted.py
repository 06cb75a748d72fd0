"""A run that has lost its store to another one: what is left of it writes and removes nothing more there."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from pbdist.errors import StoreTakenError
from pbdist.run import SerialExecutor, run_study
from pbdist.run.batch import cell_bounds
from pbdist.store import BatchWriter, LocalPlace, Place, create_or_open, hold, open_store, place_at
from pbdist.study import Plan, StudySpec, load_study, plan_study
from tests.s3_server import Bucket, fresh_bucket
from tests.store.test_lock import elsewhere
from tests.studies import write_study

STUDY = """\
format: 1
name: ousted
mechanisms:
  - {kind: Laplace, scale: [2, 3, 4]}
compositions: [1, 3]
epsilon: [0.1, 1]
"""
#: The checks of a worker that joins a shard: at its beginning, before each of seven files, the record and the removal;
#: the last is the one before the removal.
CHECKS = 10
#: Waits before its check of a given number, and before all later ones, in the way that `wait` says.
WAITING = """
import os, signal, sys, threading, time
import pbdist.store.lock as fence
def waiting(number, wait):
    check, calls, turn = fence.Fence.check, [], threading.Lock()
    def waited(one):
        with turn:
            calls.append(one)
            if len(calls) == number:
                print("waits", flush=True)
                wait()
        check(one)
    fence.Fence.check = waited
"""
#: A run, which starts its worker.
KILLED = """
import pickle, subprocess
from dataclasses import replace
from pbdist.store import hold, open_store
where, worker, *arguments = sys.argv[1:]
with hold(where) as held:
    head = replace(open_store(where), fence=held.fence).head
    subprocess.run([sys.executable, "-c", worker, pickle.dumps(head).hex(), *arguments])
"""
#: A worker, which lives on when its run is killed; it says how joining ended.
WORKER = """
import pickle
from pbdist.run.batch import JoinTask, run_join
head, gate, number = pickle.loads(bytes.fromhex(sys.argv[1])), sys.argv[2], int(sys.argv[3])
def wait():
    # Not for ever: a test that fails does not open the gate.
    ends = time.monotonic() + 240
    while not os.path.exists(gate) and time.monotonic() < ends:
        time.sleep(0.05)
waiting(number, wait)
try:
    run_join(JoinTask(head, 0))
except Exception as error:
    print(type(error).__name__, str(error), flush=True)
else:
    print("joined", flush=True)
"""
#: A run that is stopped for long, in one process.
STOPPED = """
from pbdist.run import SerialExecutor, run_study
from pbdist.store import lock
from pbdist.study import load_study
path, where, number, locks = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
def no_locks(*_):
    raise OSError(95, "Operation not supported")
if locks == "no":
    lock.fcntl.flock = no_locks
waiting(number, lambda: os.kill(os.getpid(), signal.SIGSTOP))
try:
    run_study(load_study(path), where, SerialExecutor(), lambda event: print(event, flush=True))
except Exception as error:
    print(type(error).__name__, str(error), flush=True)
"""


def files_of(place: Place) -> dict[str, bytes]:
    return {name: place.read(name) for name, _ in place.names()}


def almost_done(where: str, plan: Plan) -> None:
    """Make a store in which all batches are there, but one cell could not be computed."""
    stored = create_or_open(where, plan)
    for batch in plan.batches:
        cell = plan.study.cells[batch.start]
        writer = BatchWriter(stored, batch, [cell])
        if batch.index == 1:
            writer.fail("on purpose")
        else:
            writer.add(cell_bounds(stored.head.settings, cell))
        writer.commit()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudySpec:
    return load_study(write_study(tmp_path_factory.mktemp("study"), STUDY))


@pytest.fixture(scope="module")
def plan(study: StudySpec) -> Plan:
    return plan_study(study, 1)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, study: StudySpec, plan: Plan) -> dict[str, bytes]:
    """The files of a store that nobody has disturbed."""
    where = str(tmp_path_factory.mktemp("alone") / "s.zarr")
    almost_done(where, plan)
    run_study(study, where, SerialExecutor(), lambda _: None)
    return files_of(place_at(where))


@contextmanager
def waiting(script: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Start a program; yield when it waits."""
    command = [sys.executable, "-c", WAITING + script, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while (line := process.stdout.readline()) != "waits\n":
                assert line, "it ended before"
            yield process
        finally:
            process.kill()


def told_by(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.read()


@pytest.mark.nightly
def test_a_worker_leaves_alone_what_a_run_at_work_has_written(
    tmp_path: Path, plan: Plan, expected: dict[str, bytes]
) -> None:
    """The file of a batch that is computed again, which the next run has not joined yet."""
    where, gate = str(tmp_path / "s.zarr"), tmp_path / "go on"
    almost_done(where, plan)
    with waiting(KILLED, where, WAITING + WORKER, gate, CHECKS) as driver:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        with hold(where) as held:
            stored = open_store(where)
            writer = BatchWriter(stored, plan.batches[1], [plan.study.cells[1]])
            writer.add(cell_bounds(stored.head.settings, plan.study.cells[1]))
            writer.commit()
            written = files_of(place_at(where))
            gate.touch()
            told = told_by(driver)
            assert "StoreTakenError" in told
            assert f"at work: {held.holder.describe()}" in told
            assert files_of(place_at(where)) == written
    run_study(plan.study, where, SerialExecutor(), lambda _: None)
    assert files_of(place_at(where)) == expected


# Before a file of the shard, and before the removal: it has written a batch before.
@pytest.mark.parametrize(
    ("kind", "number"),
    [pytest.param("folder", 5, marks=pytest.mark.ci), pytest.param("objects", CHECKS + 1, marks=pytest.mark.nightly)],
)
def test_a_run_that_was_stopped_for_long_ends_when_it_goes_on(
    kind: str,
    number: int,
    tmp_path: Path,
    study: StudySpec,
    plan: Plan,
    expected: dict[str, bytes],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = str(tmp_path / "s.zarr")
    if kind == "objects":
        where = f"{request.getfixturevalue('bucket').url}/inner/s.zarr"
    almost_done(where, plan)
    path, locks = write_study(tmp_path, STUDY), "no" if kind == "folder" else "yes"
    with waiting(STOPPED, path, where, number, locks) as driver:
        if kind == "folder":
            monkeypatch.setattr("pbdist.store.lock.fcntl.flock", no_locks)
        monkeypatch.setattr("pbdist.store.lock.STALE_SECONDS", 1.0)
        monkeypatch.setattr("pbdist.run.driver.hold", partial(hold, refresh=0.3))
        time.sleep(1.1)
        run_study(study, where, SerialExecutor(), lambda _: None)
        done = files_of(place_at(where))
        assert done == expected
        with hold(where, refresh=0.3):
            os.kill(driver.pid, signal.SIGCONT)
            told = told_by(driver)
            folder, _, name = where.rpartition("/")
            beside = LocalPlace(folder) if kind == "folder" else place_at(folder)
            # The lock of who holds the store now is not removed.
            assert f".{name}.lock" in dict(beside.names())
    assert "StoreTakenError" in told, told
    assert files_of(place_at(where)) == expected


def test_a_lock_that_was_never_seen_refuses_nothing(tmp_path: Path, plan: Plan) -> None:
    """Only the store is shared with the worker, not the folder around it."""
    where = str(tmp_path / "s.zarr")
    almost_done(where, plan)
    with hold(where) as held:
        fence = held.fence
    fence.look()
    fence.check()


def test_a_lock_that_was_seen_is_to_stay(tmp_path: Path) -> None:
    where = str(tmp_path / "s.zarr")
    with hold(where) as held:
        held.fence.look()
        held.fence.place.write(held.fence.name, elsewhere(time.time()).encoded())
        with pytest.raises(StoreTakenError, match="got another one at work: process 17 on elsewhere"):
            held.fence.check()
    with pytest.raises(StoreTakenError, match="got another one that has ended meanwhile"):
        held.fence.check()


def no_locks(*_: object) -> None:
    raise OSError(95, "Operation not supported")


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with fresh_bucket() as found:
        yield found
