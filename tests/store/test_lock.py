"""One driver of a store at a time, in folders and in object stores."""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import pbdist.store.lock as lock_module
from pbdist.errors import InvalidInputError
from pbdist.store import Holder, LocalPlace, ObjectPlace, hold, holder
from tests.processes import start_code
from tests.s3_server import Bucket

#: Holds a store until it is killed.
HOLDING = """
import sys, time
from pbdist.store import hold
with hold(sys.argv[1], refresh=0.2):
    print("held", flush=True)
    time.sleep(3600)
"""


@pytest.fixture(params=["folder", "objects", "without-locks"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "objects":
        return f"{request.getfixturevalue('bucket').url}/s.zarr"
    if request.param == "without-locks":
        monkeypatch.setattr(lock_module.fcntl, "flock", no_locks)
    return str(tmp_path / "s.zarr")


def no_locks(*_: object) -> None:
    raise OSError(95, "Operation not supported")


def lock_of(where: str) -> tuple[LocalPlace | ObjectPlace, str]:
    folder, _, name = where.rpartition("/")
    return (ObjectPlace(folder) if where.startswith("s3://") else LocalPlace(folder)), f".{name}.lock"


def test_the_second_one_is_told_who_holds_it(where: str) -> None:
    assert holder(where) is None
    with hold(where) as held:
        assert holder(where) == held.holder
        words = rf"a run writes to: process {os.getpid()} on \S+ since 20.*\+00:00$"
        with pytest.raises(InvalidInputError, match=words), hold(where):
            pass
        assert not held.lost
    assert holder(where) is None
    place, name = lock_of(where)
    assert name not in dict(place.names())
    with hold(where):
        pass


def test_a_killed_holder_does_not_stand_in_the_way(where: str) -> None:
    with start_code(HOLDING, where) as process:
        while process.printed() != "held\n":
            assert process.code is None, process.printed("err")
            time.sleep(0.01)
        found = holder(where)
        assert found is not None
        assert found.process == process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert holder(where) is None
    with hold(where) as held:
        assert held.holder.process == os.getpid()


def elsewhere(alive: float) -> Holder:
    return Holder("elsewhere", 17, "2026-01-01T00:00:00+00:00", "another boot", "12345", alive)


def test_a_lease_from_another_machine_is_taken_over_when_it_is_stale(bucket: Bucket) -> None:
    where = f"{bucket.url}/s.zarr"
    place, name = lock_of(where)
    place.write(name, elsewhere(time.time() - 60.0).encoded())
    assert holder(where) is not None
    with pytest.raises(InvalidInputError, match="process 17 on elsewhere since 2026"), hold(where):
        pass
    place.write(name, elsewhere(time.time() - 1000.0).encoded())
    assert holder(where) is None
    with hold(where, refresh=0.1) as held:
        first = holder(where)
        assert first is not None
        deadline = time.monotonic() + 240
        while (second := holder(where)) is None or second.alive <= first.alive:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # Somebody took over: this one notices, and does not remove what is not its own.
        place.write(name, elsewhere(time.time()).encoded())
        while not held.lost:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert json.loads(place.read(name))["host"] == "elsewhere"


def test_a_lease_that_looks_stale_but_is_refreshed_is_left_alone(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the other machine is wrong."""
    where = f"{bucket.url}/s.zarr"
    place, name = lock_of(where)
    other = elsewhere(time.time() - 3000.0)
    place.write(name, other.encoded())
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        # Of the other machine's refreshes, one comes while this one looks on: as late as one may.
        slept.append(seconds)
        if sum(slept) > 1.0:
            place.write(name, replace(other, alive=time.time() - 3000.0).encoded())

    monkeypatch.setattr(lock_module, "time", SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=sleep))
    with pytest.raises(InvalidInputError, match="process 17 on elsewhere"), hold(where, refresh=1.0):
        pass
    assert slept
    # It looks on for longer than a holder takes to show that it is alive.
    assert sum(slept) > 1.0
