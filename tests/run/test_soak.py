"""A study under random kills of workers and drivers, many times: minutes of real runs, apart from the default run."""

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.effort import times
from tests.studies import results_of, write_study

#: A dozen batches of half a second, of two kinds of states.
STUDY = """\
format: 1
name: soak
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 25, 12]}}
  - {kind: NoisyCount, noise: {kind: Laplace, scale: {linspace: [2, 25, 12]}}, mean: 60, shift: 2}
method: buckets
buckets: 15000
keep_states: true
compositions: [1, 3, 64]
epsilon: {linspace: [0, 1, 5]}
"""
#: Runs of the whole test, of which sixty take half an hour, and of one of its parts.
_RUNS, _RUNS_PER_TEST = times(10), 10


def _command(store: Path, *options: str) -> list[str]:
    study = write_study(store.parent, STUDY)
    return [sys.executable, "-m", "pbdist", "run", str(study), "--store", str(store), *options]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    store = tmp_path_factory.mktemp("undisturbed") / "s.zarr"
    subprocess.run(_command(store, "--serial"), capture_output=True, timeout=600, check=True)
    return results_of(store)


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(0, _RUNS, _RUNS_PER_TEST))
def test_random_kills_leave_the_bytes_of_an_undisturbed_run(
    first: int, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    killed = {"workers": 0, "drivers": 0}
    seeds = range(first, min(first + _RUNS_PER_TEST, _RUNS))
    for seed in seeds:
        store = tmp_path / f"{seed}.zarr"
        _disturb(store, random.Random(seed), killed)  # noqa: S311 -- reproducible moments, no secret
        last = subprocess.run(_command(store), capture_output=True, text=True, timeout=300, check=False)
        assert last.returncode == 0, (seed, last.stderr)
        assert results_of(store) == undisturbed, seed
        left = sorted(path.name for path in tmp_path.iterdir() if ".partial" in path.name)
        assert not left, seed
    # Kills that never happen would show nothing.
    if len(seeds) == _RUNS_PER_TEST:
        assert killed["workers"] > 0
        assert killed["drivers"] > 0


def _disturb(store: Path, chance: random.Random, killed: dict[str, int]) -> None:
    """Run the study, kill up to three of its workers while it goes on, and mostly the driver in the end."""
    with subprocess.Popen(_command(store, "--workers", "2"), stdout=-3, stderr=-3) as driver:
        # Now and then while it starts; otherwise from the moment on at which it has workers, however busy the machine.
        if chance.random() < 0.8:
            _sleep_until_it_has_workers(driver)
        began = time.monotonic()
        deadline = began + chance.uniform(0.0, 4.5)
        moments = sorted(chance.uniform(0.0, 4.5) for _ in range(chance.randrange(4)))
        for moment in moments:
            if _sleep_until(min(began + moment, deadline), driver) and time.monotonic() < deadline:
                killed["workers"] += _kill_a_worker(driver.pid, chance)
        if chance.random() < 0.8:
            _sleep_until(deadline, driver)
            killed["drivers"] += driver.poll() is None
            driver.send_signal(signal.SIGKILL)
        driver.wait(timeout=300)


def _sleep_until(moment: float, driver: "subprocess.Popen[bytes]") -> bool:
    """Sleep, but not longer than the driver lives; return whether it does."""
    with suppress(subprocess.TimeoutExpired):
        driver.wait(timeout=max(0.0, moment - time.monotonic()))
    return driver.poll() is None


def _sleep_until_it_has_workers(driver: "subprocess.Popen[bytes]") -> None:
    while driver.poll() is None and not _workers(driver.pid):
        time.sleep(0.1)


def _workers(driver: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(driver).children(recursive=True)
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    return []


def _kill_a_worker(driver: int, chance: random.Random) -> int:
    workers = _workers(driver)
    with suppress(psutil.NoSuchProcess):
        if workers:
            chance.choice(workers).kill()
            return 1
    return 0
