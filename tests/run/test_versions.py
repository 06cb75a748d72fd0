"""Workers whose software is another one: real processes, for which a package looks like another version of it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from pbdist.errors import InvalidInputError
from pbdist.provenance import difference, provenance
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.events import Done, Notice, Report
from pbdist.run.versions import _COMPARED, inquiry
from tests.run.processes import PATIENCE, until


@contextmanager
def worker(cluster: LocalCluster, folder: Path, path: str) -> Iterator[None]:
    """One more worker, which finds packages at `path` first."""
    search = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
    command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, *options]
    # Not in the folder of this checkout, from which Python would take pbdist first.
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": search}, stdout=-3, stderr=-3
    ) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.fixture
def alone() -> Iterator[LocalCluster]:
    """A scheduler without workers."""
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as found:
        yield found


def other_scipy(folder: Path) -> str:
    """A folder that makes scipy look like another version of it."""
    information = folder / "other" / "scipy-0.0.7.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: scipy\nVersion: 0.0.7\n")
    return str(information.parent)


def no_pbdist(folder: Path) -> str:
    """A folder with a package of that name that has nothing in it."""
    (folder / "none" / "pbdist").mkdir(parents=True)
    (folder / "none" / "pbdist" / "__init__.py").write_text("")
    return str(folder / "none")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("look", "words"),
    [
        (other_scipy, r"^scheduler: expected scipy [1-9]\S*, got scipy 0\.0\.7 on tcp://\S+: install the same there$"),
        (no_pbdist, r"^scheduler: expected pbdist [0-9]\S*, got no pbdist on tcp://\S+: install the same there$"),
    ],
)
def test_a_worker_that_is_there_at_the_start_is_an_error(
    look: Callable[[Path], str], words: str, alone: LocalCluster, tmp_path: Path
) -> None:
    with (
        worker(alone, tmp_path, look(tmp_path)),
        pytest.raises(InvalidInputError, match=words),
        DaskExecutor(scheduler=alone.scheduler_address),
    ):
        pass


@pytest.mark.nightly
@pytest.mark.parametrize("look", [other_scipy, no_pbdist])
def test_a_worker_that_joins_later_is_refused_and_computes_nothing(
    look: Callable[[Path], str], alone: LocalCluster, tmp_path: Path
) -> None:
    refused: list[str] = []
    notices: list[Notice | Report] = []

    def process_of(item: float) -> int:
        time.sleep(item)
        return os.getpid()

    def plugins_of(dask_scheduler: Any) -> list[str]:
        return [*dask_scheduler.plugins, *dask_scheduler.worker_plugins]

    def items() -> Iterator[float]:
        deadline = time.monotonic() + PATIENCE
        while not refused and time.monotonic() < deadline:
            yield 0.1
        yield from [0.1] * 10

    alone.scale(1)
    with DaskExecutor(scheduler=alone.scheduler_address) as executor:
        results = executor.run(process_of, items(), notices.append)
        first = next(results)
        assert not refused
        with worker(alone, tmp_path, look(tmp_path)):
            found = [first]
            for done in results:
                found.append(done)
                refused += [one.text for one in notices[len(refused) :] if isinstance(one, Notice)]
            assert len(refused) == 1
            assert refused[0].startswith("refused: worker tcp://")
            assert ": expected " in refused[0]
            assert executor.workers.startswith("1 worker ")
    with Client(alone) as client:
        # The next run, and whoever else uses the scheduler, has its own rules.
        until(lambda: not any(name.startswith("pbdist") for name in client.run_on_scheduler(plugins_of)))
    # Every item was computed, and every one of them by the worker that was there before.
    assert found == [Done(0.1, first.result)] * len(found)
    assert isinstance(first.result, int)


def test_what_differs_is_named() -> None:
    own = provenance()
    assert {"python", "numpy", "scipy", "zarr", "numcodecs", "pbdist", "git_revision"} <= set(own)
    assert difference(own, inquiry()(), _COMPARED) is None
    other = {**own, "numpy": "0.1", "zarr": None, "git_revision": "abc"}
    assert difference(own, other, _COMPARED) == (
        f"expected numpy {own['numpy']}, zarr {own['zarr']}, pbdist's git revision {own['git_revision'] or 'unknown'},"
        " got numpy 0.1, no zarr, pbdist's git revision abc"
    )
    mine, changed = ({**own, "own_modules": {"mine": digest}} for digest in ("ab" * 32, "cd" * 32))
    assert difference(mine, own, _COMPARED) is None
    assert difference(mine, changed, _COMPARED) == (
        "expected the module mine of SHA-256 abababababab, got the module mine of SHA-256 cdcdcdcdcdcd"
    )
    assert difference(own, {"pbdist": None}, _COMPARED) == f"expected pbdist {own['pbdist']}, got no pbdist"
