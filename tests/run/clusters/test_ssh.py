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


def cluster_file(folder: Path, server: SshServer, connect: dict[str, object], **changes: object) -> Path:
    """The shipped file, for the two names of this machine."""
    content = yaml.safe_load(SHIPPED.read_text())
    content["options"] |= {"hosts": ["localhost", "127.0.0.1", "localhost"]}
    content["options"] |= {"worker_options": {"nthreads": 1, "n_workers": 1}}
    content["options"] |= {"connect_options": {**server.options, **connect}, **changes}
    return write_study(folder, yaml.safe_dump(content), "cluster.yaml")


def workers() -> list[psutil.Process]:
    """The processes that watch over workers, here in place of hosts."""
    return [process for process in psutil.process_iter() if "distributed.Nanny" in words_of(process)]


def words_of(process: psutil.Process) -> str:
    try:
        words = process.cmdline()
    except psutil.Error:
        return ""
    return " ".join(words) if "distributed.cli.dask_spec" in words[1:] else ""


@pytest.mark.ci
def test_a_run_goes_on_when_a_host_is_lost(server: SshServer, finished_store: Finished, tmp_path: Path) -> None:
    path, store, gate = write_study(tmp_path, LIGHT), tmp_path / "s.zarr", tmp_path / "go on"
    with started(path, store, "--cluster", cluster_file(tmp_path, server, {}), hold=(gate, 1)) as driver:
        nanny = workers()[0]
        for process in (*nanny.children(recursive=True), nanny):
            process.kill()
        gate.touch()
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, errors
    assert results_of(store) == results_of(finished_store(LIGHT))
    until(lambda: not workers())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("connect", "changes", "words"),
    [
        ({}, {"remote_python": "/none/such"}, "Worker failed to start"),
        ({"port": 1}, {}, "Connect call failed"),
        ({"known_hosts": "/dev/null"}, {}, "Host key is not trusted for host localhost"),
        ({"username": "nobody"}, {}, "Permission denied for user nobody"),
    ],
)
def test_hosts_that_give_no_worker(
    server: SshServer, tmp_path: Path, connect: dict[str, object], changes: dict[str, object], words: str
) -> None:
    path = cluster_file(tmp_path, server, connect, **changes)
    done = run(write_study(tmp_path, LIGHT), tmp_path / "s.zarr", "--cluster", path)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert ": options: SSHCluster does not start: " in line
    assert words in line
