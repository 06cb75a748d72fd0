"""Studies on a real SLURM, started on the loopback interface: as jobs of its own, and in one allocation."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.run import held
from tests.run.clusters.slurm import Slurm, started_slurm
from tests.run.processes import LIGHT, PATIENCE, commits, run, started, until
from tests.studies import Finished, results_of, write_study

pytestmark = pytest.mark.timeout(900)

CLUSTER = Path(__file__).parents[3] / "cluster"
#: Twenty thousand cells in closed form.
MANY = """\
format: 1
name: many
mechanisms:
  - {kind: Gaussian, scale: {linspace: [1, 200, 20000]}}
compositions: [1, 16]
epsilon: [0.1, 1]
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with started_slurm() as running:
        yield running


@pytest.fixture
def expected(finished_store: Finished) -> dict[str, str]:
    return results_of(finished_store(LIGHT))


@pytest.mark.ci
def test_jobs_that_are_cancelled_in_mid_run_come_back(slurm: Slurm, expected: dict[str, str], tmp_path: Path) -> None:
    path, store, gate = write_study(tmp_path, LIGHT), tmp_path / "s.zarr", tmp_path / "go on"
    options = ("--cluster", CLUSTER / "slurm.yaml")
    with started(path, store, *options, hold=(gate, 3), environment=slurm.environment, cwd=tmp_path) as driver:
        before = slurm.jobs("PENDING,RUNNING")
        assert len(before) == 4
        for job in slurm.jobs():
            slurm.tell("scancel", job)
        until(lambda: bool(set(slurm.jobs("PENDING,RUNNING")) - set(before)), driver)
        gate.touch()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert results_of(store) == expected
    slurm.wait_until_empty()


@pytest.mark.nightly
def test_the_driver_is_killed_and_a_second_one_goes_on(slurm: Slurm, expected: dict[str, str], tmp_path: Path) -> None:
    path, store = write_study(tmp_path, LIGHT), tmp_path / "s.zarr"
    options = ("--cluster", CLUSTER / "slurm.yaml")
    hold = (tmp_path / "never", 8)
    with started(path, store, *options, hold=hold, environment=slurm.environment, cwd=tmp_path) as driver:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert results_of(store) != expected
    # Workers that have lost their scheduler end, and with them their jobs; those in the queue find none.
    second = run(path, store, *options, env=slurm.environment, cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert "in the store already" in second.stderr
    assert results_of(store) == expected
    until(lambda: not slurm.jobs())
    for job in slurm.jobs("PENDING"):
        slurm.tell("scancel", job)
    slurm.wait_until_empty()


@pytest.mark.nightly
def test_driver_and_workers_in_one_allocation_that_is_cancelled_once(
    slurm: Slurm, expected: dict[str, str], tmp_path: Path
) -> None:
    path, store, gate = write_study(tmp_path, LIGHT), tmp_path / "s.zarr", tmp_path / "go on"

    def submit() -> str:
        command = ["sbatch", "--parsable", "--ntasks=3", str(CLUSTER / "sbatch.sh"), str(path), "--store", str(store)]
        environment = slurm.environment | held_environment(tmp_path, gate, 2)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def output(job: str) -> str:
        return (tmp_path / f"slurm-{job}.out").read_text()

    first = submit()
    until(lambda: commits(store) > 1)
    # As at the end of its time.
    slurm.tell("scancel", "--batch", "--signal=TERM", first)
    slurm.wait_until_empty()
    assert "the same command goes on where this one stopped" in output(first)
    assert results_of(store) != expected
    gate.touch()
    second = submit()
    until(lambda: not slurm.jobs("PENDING,RUNNING,COMPLETING"))
    assert "COMPLETED" in slurm.tell("scontrol", "show", "job", second), output(second)
    assert "in the store already" in output(second)
    assert results_of(store) == expected
    assert not list(tmp_path.glob(".pbdist-*"))


def held_environment(folder: Path, gate: Path, commits: int) -> dict[str, str]:
    """What has a job run a driver that is held, and its workers as they are."""
    python = folder / "python"
    python.write_text(f"""#!/bin/sh
[ "$1 $2" = "-m pbdist" ] && {{ shift 2; exec {sys.executable} {held.__file__} "$@"; }}
exec {sys.executable} "$@"
""")
    python.chmod(0o755)
    return held.held(gate, commits)[1] | {"PBDIST_PYTHON": str(python)}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"queue": "none-such"}, "sbatch: error: invalid partition specified: none-such"),
        ({"python": "/none/such"}, " within 15 s: jobs "),
        ({"job_extra_directives": ["--begin=now+1hour"]}, " within 15 s: jobs "),
    ],
)
def test_jobs_that_give_no_worker(slurm: Slurm, tmp_path: Path, changes: dict[str, object], words: str) -> None:
    options = {"cores": 1, "processes": 1, "memory": "500MiB", "log_directory": "logs", **changes}
    content = {"class": "dask_jobqueue.SLURMCluster", "scale": 1, "start_timeout": 15, "options": options}
    cluster = write_study(tmp_path, yaml.safe_dump(content), "cluster.yaml")
    path = write_study(tmp_path, LIGHT)
    done = run(path, tmp_path / "s.zarr", "--cluster", cluster, env=slurm.environment, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("pbdist: error: --cluster: no worker came from SLURMCluster")
    assert words in line
    assert not (tmp_path / "s.zarr").exists()
    slurm.wait_until_empty()


@pytest.mark.nightly
def test_ctrl_c_leaves_an_empty_queue(slurm: Slurm, tmp_path: Path) -> None:
    path, store = write_study(tmp_path, LIGHT), tmp_path / "s.zarr"
    options = ("--cluster", CLUSTER / "slurm.yaml")
    hold, group = (tmp_path / "never", 2), {"start_new_session": True}
    with started(path, store, *options, hold=hold, environment=slurm.environment, cwd=tmp_path, **group) as driver:
        os.killpg(driver.pid, signal.SIGINT)
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130, errors
    assert errors.endswith("interrupted: the same command goes on where this one stopped\n")
    assert "Traceback" not in errors
    slurm.wait_until_empty()


@pytest.mark.nightly
def test_twenty_thousand_cells_whose_jobs_are_cancelled_and_whose_driver_is_interrupted(
    slurm: Slurm, finished_store: Finished, tmp_path: Path
) -> None:
    path, store, gate = write_study(tmp_path, MANY), tmp_path / "s.zarr", tmp_path / "go on"
    options = ("--cluster", CLUSTER / "slurm.yaml")
    with started(path, store, *options, hold=(gate, 1), environment=slurm.environment, cwd=tmp_path) as driver:
        before = slurm.jobs()
        for job in before[:2]:
            slurm.tell("scancel", job)
        until(lambda: bool(set(slurm.jobs("PENDING,RUNNING")) - set(before)), driver)
        driver.send_signal(signal.SIGINT)
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130, errors
    slurm.wait_until_empty()
    assert results_of(store) != results_of(finished_store(MANY))
    second = run(path, store, *options, env=slurm.environment, cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert "of 20,000 cells are in the store already" in second.stderr
    assert "\n20,000 of 20,000 cells are in the store, " in second.stderr
    assert results_of(store) == results_of(finished_store(MANY))
    slurm.wait_until_empty()


@pytest.mark.nightly
def test_slurm_is_not_to_be_found(tmp_path: Path) -> None:
    path, options = write_study(tmp_path, LIGHT), ("--cluster", CLUSTER / "slurm.yaml")
    done = run(path, tmp_path / "s.zarr", *options, env=os.environ | {"PATH": ""}, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "from SLURMCluster: sbatch: FileNotFoundError: [Errno 2] No such file or directory: 'sbatch'" in line
