"""A study in an object store: run, killed, run again, checked and queried, against a real server on this machine."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import check_store, open_parts, place_at
from pbdist.study import load_study
from tests.run.processes import PATIENCE, STATES, run, started
from tests.s3_server import fresh_bucket
from tests.studies import Finished, write_study


def check(url: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pbdist", "status", url, "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.ci
def test_run_kill_run_again_and_verify(finished_store: Finished, tmp_path: Path) -> None:
    path = write_study(tmp_path, STATES)
    with fresh_bucket() as bucket:
        url = f"{bucket.url}/far/s.zarr"
        with started(path, url, "--workers", "2", hold=(tmp_path / "never", 3)) as driver:
            driver.send_signal(signal.SIGKILL)
        assert not check_store(url).healthy
        again = run(path, url, "--workers", "2")
        assert again.returncode == 0, again.stderr
        assert check_store(url).healthy
        checked = check(url)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        far, near = place_at(url), place_at(finished_store(STATES))
        chunks = [name for name, _ in near.names() if not name.endswith("zarr.json")]
        assert len(chunks) > 20
        assert all(far.read(name) == near.read(name) for name in chunks)
        assert len(open_parts(url)) == 1
        bounds = open_study(url).bounds
        assert np.array_equal(
            bounds["delta_upper"].values, open_study(finished_store(STATES)).bounds["delta_upper"].values
        )
        # One flipped bit is found from afar, and mended.
        data = bytearray(far.read(chunks[5]))
        data[len(data) // 2] ^= 4
        far.write(chunks[5], bytes(data))
        checked = check(url)
        assert checked.returncode == 1, checked.stderr
        assert chunks[5] in checked.stdout
        run_study(load_study(path), url, SerialExecutor(), lambda _: None, check=True)
        assert far.read(chunks[5]) == near.read(chunks[5])
        names = [name for name, _ in place_at(f"{bucket.url}/far").names()]
        assert all(name.startswith("s.zarr/") for name in names), "something is left"
