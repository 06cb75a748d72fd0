"""A study in an object store: run, killed, run again, checked and queried, against a real server on this machine."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import check_store, open_parts, place_at
from pbdist.study import load_study
from tests.batches import committed
from tests.run.held import held
from tests.store.s3_server import s3_server
from tests.studies import write_study

STUDY = """\
format: 1
name: far
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 33, 32]}}
method: buckets
buckets: 20000
keep_states: true
compositions: [1, 3, 64]
epsilon: {linspace: [0, 1, 5]}
"""


def _pbdist(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pbdist", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.ci
def test_run_kill_run_again_and_verify(tmp_path: Path) -> None:
    path = write_study(tmp_path, STUDY)
    study, url = load_study(path), "s3://studies/far/s.zarr"
    with s3_server("studies"):
        command, environment = held(tmp_path / "go on", 3, path, "--store", url, "--workers", "2")
        with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as driver:
            deadline = time.monotonic() + 240
            while committed(place_at(url)) < 3:
                assert driver.poll() is None, driver.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            driver.send_signal(signal.SIGKILL)
        assert not check_store(url).healthy
        # The lease of the killed driver is known to be stale where its process can be looked for.
        with _pbdist("run", str(path), "--store", url, "--workers", "2") as driver:
            _, errors = driver.communicate(timeout=240)
            assert driver.returncode == 0, errors
        assert check_store(url).healthy
        with _pbdist("status", url, "--check") as status:
            told, errors = status.communicate(timeout=120)
            assert status.returncode == 0, told + errors
        serial = run_study(study, tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
        far, near = place_at(url), serial.place
        chunks = [name for name, _ in near.names() if "/c/" in name]
        assert len(chunks) > 20
        assert all(far.read(name) == near.read(name) for name in chunks)
        assert len(open_parts(url)) == 1
        bounds = open_study(url).bounds
        assert np.array_equal(bounds["delta_upper"].values, open_study(serial.path).bounds["delta_upper"].values)
        # One flipped bit is found from afar, and mended.
        data = bytearray(far.read(chunks[5]))
        data[len(data) // 2] ^= 4
        far.write(chunks[5], bytes(data))
        with _pbdist("status", url, "--check") as status:
            told, errors = status.communicate(timeout=120)
            assert status.returncode == 1, errors
            assert chunks[5] in told
        run_study(study, url, SerialExecutor(), lambda _: None, check=True)
        assert far.read(chunks[5]) == near.read(chunks[5])
        names = [name for name, _ in place_at("s3://studies/far").names()]
        assert all(name.startswith("s.zarr/") for name in names), "a lease is left"
