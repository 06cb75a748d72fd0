"""A study on hosts reached by SSH: a real sshd on the loopback interface."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from tests.run.clusters.ssh_server import SshServer, started_sshd
from tests.run.processes import LIGHT, PATIENCE, run, started, until
from tests.studies import Finished, results_of, write_study

pytestmark = pytest.mark.timeout(900)

SHIPPED = Path(__file__).parents[3] / "cluster" / "ssh.yaml"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with started_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def profile(folder: Path, server: SshServer, **changes: object) -> Path:
    """The shipped profile, for the two names of this machine."""
    content = yaml.safe_load(SHIPPED.read_text()) | {"hosts": ["127.0.0.1", "localhost"], "workers_per_host": 1}
    content |= {"scheduler_host": "127.0.0.1", "dashboard_port": 0, **server.options, **changes}
    return write_study(folder, yaml.safe_dump(content), "cluster.yaml")


@pytest.mark.ci
def test_a_host_that_is_lost_in_mid_run_comes_back(server: SshServer, finished_store: Finished, tmp_path: Path) -> None:
    path, store, gate = write_study(tmp_path, LIGHT), tmp_path / "s.zarr", tmp_path / "go on"
    with started(path, store, "--cluster", profile(tmp_path, server), hold=(gate, 1)) as driver:
        nanny = next(process for process in psutil.process_iter() if is_nanny(process, "127.0.0.1-0"))
        for process in (*nanny.children(recursive=True), nanny):
            process.kill()
        gate.touch()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert results_of(store) == results_of(finished_store(LIGHT))
    until(lambda: not any(is_nanny(process, "localhost-1") for process in psutil.process_iter()))


def is_nanny(process: psutil.Process, name: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "distributed.cli.dask_worker" in words and words[-2:] == ["--name", name]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "/none/such"}, "/none/such: not found"),
        ({"port": 1}, "localhost: [Errno 111] Connect call failed"),
        ({"known_hosts": "/dev/null"}, "localhost: Host key is not trusted for host localhost"),
        ({"user": "nobody"}, "localhost: Permission denied for user nobody"),
    ],
)
def test_hosts_that_give_no_worker(server: SshServer, tmp_path: Path, changes: dict[str, object], words: str) -> None:
    path = profile(tmp_path, server, hosts=["localhost"], **changes)
    done = run(write_study(tmp_path, LIGHT), tmp_path / "s.zarr", "--cluster", path)
    assert done.returncode == 2, done.stderr
    assert "pbdist: error: cluster: expected a worker from 1 host by SSH, got none: " in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
