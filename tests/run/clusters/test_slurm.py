"""Studies on a real SLURM, started on the loopback interface: as jobs of its own, and in one allocation."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pbdist.store import place_at
from tests import batches
from tests.run.clusters.slurm import SECONDS, Slurm, started_slurm
from tests.run.held import held
from tests.studies import results_of, write_study

pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]

CLUSTER = Path(__file__).parents[3] / "cluster"

#: Some ten seconds of work for a core, in many batches.
STUDY = """\
format: 1
name: jobs
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 41, 20]}}
  - {kind: NoisyCount, noise: {kind: Laplace, scale: {linspace: [2, 41, 20]}}, mean: 60, shift: 2}
method: buckets
buckets: 40000
keep_states: false
compositions: [1, 2, 3, 100]
epsilon: {linspace: [0, 1, 5]}
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with started_slurm() as running:
        yield running


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A study, and the files of its store after a serial run."""
    folder = tmp_path_factory.mktemp("study")
    path = write_study(folder, STUDY)
    store = folder / "serial.zarr"
    subprocess.run([*pbdist_run(path, store), "--serial"], capture_output=True, timeout=300, check=True)
    return path, results_of(store)


def pbdist_run(path: Path, store: Path) -> list[str]:
    return [sys.executable, "-m", "pbdist", "run", str(path), "--store", str(store)]


def commits(store: Path) -> int:
    return batches.committed(place_at(store))


def wait_until(
    condition: Callable[[], bool], driver: "subprocess.Popen[str] | None" = None, seconds: int = 120
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert driver is None or driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def started(slurm: Slurm, path: Path, store: Path) -> "subprocess.Popen[str]":
    command = [*pbdist_run(path, store), "--cluster", str(CLUSTER / "slurm.yaml")]
    return subprocess.Popen(command, cwd=store.parent, env=slurm.environment, stdout=-1, stderr=-1, text=True)


def started_held(slurm: Slurm, path: Path, store: Path, batches: int) -> "subprocess.Popen[str]":
    """A run that does not end before its driver is killed."""
    options = (path, "--store", store, "--cluster", CLUSTER / "slurm.yaml")
    command, environment = held(store.with_name("never"), batches, *options)
    return subprocess.Popen(
        command, cwd=store.parent, env=environment | slurm.environment, stdout=-1, stderr=-1, text=True
    )


def test_a_job_that_is_cancelled_in_mid_run_comes_back(
    slurm: Slurm, study: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path, expected = study
    store = tmp_path / "s.zarr"
    with started(slurm, path, store) as driver:
        wait_until(lambda: commits(store) > 0, driver)
        before = slurm.jobs("PENDING,RUNNING")
        assert len(before) == 4
        cancelled, *others = slurm.jobs()
        # However fast the machine is, the study must not end before another job has come.
        for job in others:
            slurm.tell("scontrol", "suspend", job)
        slurm.tell("scancel", cancelled)
        wait_until(lambda: bool(set(slurm.jobs("PENDING,RUNNING")) - set(before)), driver)
        for job in others:
            slurm.tell("scontrol", "resume", job)
        _, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors
    assert results_of(store) == expected
    slurm.wait_until_empty()


def test_all_jobs_are_cancelled_and_the_driver_is_killed(
    slurm: Slurm, study: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path, expected = study
    store = tmp_path / "s.zarr"
    with started_held(slurm, path, store, 8) as driver:
        wait_until(lambda: commits(store) > 0, driver)
        for job in slurm.jobs():
            slurm.tell("scancel", job)
        # Jobs that came after them have gone on.
        wait_until(lambda: commits(store) >= 8, driver)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert results_of(store) != expected
    # Workers that have lost their scheduler end, and with them their jobs; those in the queue find none.
    with started(slurm, path, store) as second:
        _, errors = second.communicate(timeout=300)
    assert second.returncode == 0, errors
    assert "in the store already" in errors
    assert results_of(store) == expected
    wait_until(lambda: not slurm.jobs(), seconds=SECONDS)
    for job in slurm.jobs("PENDING"):
        slurm.tell("scancel", job)
    slurm.wait_until_empty()


def test_driver_and_workers_in_one_allocation_that_is_cancelled_once(
    slurm: Slurm, study: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path, expected = study
    store = tmp_path / "s.zarr"
    environment = slurm.environment | {"PBDIST_PYTHON": sys.executable}

    def submit() -> str:
        command = ["sbatch", "--parsable", "--ntasks=3", str(CLUSTER / "sbatch.sh"), str(path), "--store", str(store)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def output(job: str) -> str:
        return (tmp_path / f"slurm-{job}.out").read_text()

    first = submit()
    wait_until(lambda: commits(store) > 1)
    # As at the end of its time.
    slurm.tell("scancel", "--batch", "--signal=TERM", first)
    slurm.wait_until_empty()
    assert "the same command goes on where this one stopped" in output(first)
    assert results_of(store) != expected
    second = submit()
    wait_until(lambda: not slurm.jobs("PENDING,RUNNING,COMPLETING"), seconds=300)
    assert "COMPLETED" in slurm.tell("scontrol", "show", "job", second), output(second)
    assert "in the store already" in output(second)
    assert results_of(store) == expected
    assert not list(tmp_path.glob(".pbdist-*"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("queue: none-such\n", "sbatch: error: invalid partition specified: none-such"),
        ("python: /none/such\nlog_directory: logs\n", "ended before its workers came"),
        ("directives: [--begin=now+1hour]\nstart_timeout: 5\n", "within 5 s, got none"),
    ],
)
def test_jobs_that_give_no_worker(slurm: Slurm, tmp_path: Path, more: str, words: str) -> None:
    profile = write_study(tmp_path, f"kind: slurm\nworkers: 1\nmemory: 500MiB\n{more}", "cluster.yaml")
    command = [*pbdist_run(write_study(tmp_path, STUDY), tmp_path / "s.zarr"), "--cluster", str(profile)]
    done = subprocess.run(
        command, cwd=tmp_path, env=slurm.environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "pbdist: error: cluster: expected a worker from 1 SLURM job" in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s.zarr").exists()
    slurm.wait_until_empty()


def test_slurm_is_not_to_be_found(tmp_path: Path) -> None:
    command = [*pbdist_run(write_study(tmp_path, STUDY), tmp_path / "s.zarr"), "--cluster", str(CLUSTER / "slurm.yaml")]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PATH": ""}, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "got none: FileNotFoundError: [Errno 2] No such file or directory: 'sbatch'" in done.stderr
