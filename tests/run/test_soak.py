"""The main study under random kills: minutes of real runs, hence apart from the default run."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.studies import results_of, write_study

SHIPPED = Path(__file__).parents[2] / "pipelines" / "vuvuzela-dialing.yaml"


def _command(store: Path, *options: str) -> list[str]:
    """The command for the shipped study, by privacy buckets: batches of a second, of which many are killed."""
    study = write_study(store.parent, f"{SHIPPED.read_text(encoding='utf-8')}\nmethod: buckets\n")
    return [sys.executable, "-m", "pbdist", "run", str(study), "--store", str(store), *options]


@pytest.mark.cluster
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_kills_leave_the_bytes_of_an_undisturbed_run(
    seed: int, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a reproducible choice of moments, no secret
    store = tmp_path / "s.zarr"
    for _ in range(4):
        with subprocess.Popen(_command(store, "--workers", "2"), stdout=-1, stderr=-1) as driver:
            time.sleep(chance.uniform(1.0, 7.0))
            if driver.poll() is None and chance.random() < 0.5:
                children = psutil.Process(driver.pid).children(recursive=True)
                workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
                if workers:
                    chance.choice(workers).kill()
                time.sleep(chance.uniform(0.1, 2.0))
            driver.send_signal(signal.SIGKILL)
    last = subprocess.run(_command(store), capture_output=True, text=True, timeout=300, check=False)
    assert last.returncode == 0, last.stderr
    assert results_of(store) == undisturbed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    store = tmp_path_factory.mktemp("undisturbed") / "s.zarr"
    subprocess.run(_command(store, "--serial"), capture_output=True, timeout=600, check=True)
    return results_of(store)
