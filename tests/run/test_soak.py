"""A study under random kills of workers and drivers, many times: minutes of real runs, apart from the default run."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.effort import times
from tests.run.processes import PATIENCE, STATES, command, run
from tests.studies import Finished, results_of, write_study

#: Batches of a third of a second.
STUDY = STATES.replace("buckets: 400", "buckets: 15000").replace("compositions: [1, 2, 4]", "compositions: [1, 3, 64]")
#: The first two beside the default tests; sixty take half an hour.
_RUNS = times(10)


@pytest.fixture(scope="module")
def kills() -> Iterator[list[int]]:
    """How many processes each run has lost."""
    found: list[int] = []
    yield found
    # Kills that never happen would show nothing.
    assert len(found) < 3 or sum(found) > 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.ci if seed < 2 else pytest.mark.nightly) for seed in range(_RUNS)]
)
def test_random_kills_leave_the_bytes_of_an_undisturbed_run(
    seed: int, tmp_path: Path, finished_store: Finished, kills: list[int]
) -> None:
    path, store = write_study(tmp_path, STUDY), tmp_path / "s.zarr"
    chance = random.Random(seed)  # noqa: S311 -- reproducible moments, no secret
    kills.append(_disturb(command(path, store, "--workers", "2"), chance))
    last = run(path, store)
    assert last.returncode == 0, last.stderr
    assert results_of(store) == results_of(finished_store(STUDY))
    assert not [path.name for path in tmp_path.iterdir() if ".partial" in path.name]


def _disturb(line: list[str], chance: random.Random) -> int:
    """Run the study, kill up to three of its workers while it goes on, and mostly the driver; return how many."""
    killed = 0
    with subprocess.Popen(line, stdout=-3, stderr=-3) as driver:
        # Now and then while it starts; otherwise from the moment on at which it has workers, however busy the machine.
        if chance.random() < 0.8:
            _sleep_until_it_has_workers(driver)
        began = time.monotonic()
        deadline = began + chance.uniform(0.0, 4.5)
        moments = sorted(chance.uniform(0.0, 4.5) for _ in range(chance.randrange(4)))
        for moment in moments:
            if _sleep_until(min(began + moment, deadline), driver) and time.monotonic() < deadline:
                killed += _kill_a_worker(driver.pid, chance)
        if chance.random() < 0.8:
            killed += _sleep_until(deadline, driver)
            driver.send_signal(signal.SIGKILL)
        driver.wait(timeout=PATIENCE)
    return killed


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


def _kill_a_worker(driver: int, chance: random.Random) -> bool:
    with suppress(psutil.NoSuchProcess, IndexError):
        chance.choice(_workers(driver)).kill()
        return True
    return False
