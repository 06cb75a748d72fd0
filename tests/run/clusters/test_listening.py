"""What listens where, and who is let in: the sockets of real clusters on this machine, clients without certificates."""

import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
import yaml
from distributed import Client, Security
from distributed.comm.addressing import get_address_host, get_address_host_port
from distributed.utils import get_ip

from pbdist.run.cluster_profile import load_profile
from pbdist.run.clusters.start import Started, start_cluster
from tests.run.certificates import Authority
from tests.run.clusters.slurm import Slurm, started_slurm
from tests.run.clusters.ssh_server import SshServer, started_sshd
from tests.run.clusters.test_slurm import held_environment
from tests.run.processes import LIGHT, commits, until
from tests.studies import write_study

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

CLUSTER = Path(__file__).parents[3] / "cluster"
LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with started_slurm() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with started_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@contextmanager
def running(folder: Path, kind: str, **changes: object) -> Iterator[tuple[Started, Any]]:
    """The cluster of a shipped profile, with a worker, and a client."""
    content = yaml.safe_load((CLUSTER / f"{kind}.yaml").read_text()) | {"dashboard_port": 0} | changes
    profile = load_profile(write_study(folder, yaml.safe_dump(content), f"{kind}.yaml"))
    with start_cluster(profile) as handle, Client(handle.cluster) as client:
        client.wait_for_workers(handle.workers_wanted, timeout=120)
        yield handle, client


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    return {tuple(found.laddr) for found in process.net_connections("inet") if found.status == psutil.CONN_LISTEN}


@pytest.fixture
def before() -> set[tuple[str, int]]:
    """What this process listens on before anything is started."""
    return listening(psutil.Process())


def of_driver(before: set[tuple[str, int]]) -> set[tuple[str, int]]:
    return listening(psutil.Process()) - before


def of_workers(client: Any) -> set[str]:
    """The addresses that workers listen on, and the nannies in their own processes."""
    hosts = set()
    for pid in client.run(os.getpid).values():
        worker = psutil.Process(pid)
        nanny = worker.parent()
        found = listening(worker)
        assert found
        hosts |= {host for host, _ in found}
        if nanny is not None and nanny.pid != os.getpid():
            hosts |= {host for host, _ in listening(nanny)}
    return hosts


def http_status(address: str) -> int:
    with urlopen(address, timeout=20) as answer:  # noqa: S310 -- the dashboard
        return int(answer.status)


def assert_only_with_certificate(address: str) -> None:
    """No client gets in without one, by whatever protocol, and none with one of its own."""
    host, port = get_address_host_port(address)
    for other, security in ((f"tcp://{host}:{port}", None), (address, Security.temporary())):
        with pytest.raises(OSError):  # noqa: PT011 -- the text depends on who closes first
            Client(other, security=security, timeout=3)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=20) as plain,
        context.wrap_socket(plain) as wrapped,
        pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
    ):
        # The server tells after its side of the handshake.
        wrapped.recv(1)


def own_address() -> str:
    return get_ip()


def test_on_this_machine(tmp_path: Path, before: set[tuple[str, int]]) -> None:
    with running(tmp_path, "local", workers=1) as (handle, client):
        assert {host for host, _ in of_driver(before)} == of_workers(client) == {LOOPBACK}
        assert handle.dashboard is not None
        assert http_status(handle.dashboard) == 200


@pytest.mark.parametrize("files", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_on_this_machine_with_certificates_and_no_dashboard(
    files: bool, tmp_path: Path, before: set[tuple[str, int]]
) -> None:
    security = asdict(Authority(tmp_path).certificate("mine")) if files else {"temporary": True}
    with running(tmp_path, "local", workers=1, security=security, dashboard=False) as (handle, client):
        assert handle.dashboard is None
        assert handle.address.startswith("tls://")
        assert of_workers(client) == {LOOPBACK}
        # The scheduler, and the nanny, which is in this process here.
        assert len(of_driver(before)) == 2
        assert handle.address.rpartition(":")[2] in {str(port) for _, port in of_driver(before)}
        for worker in (handle.address, *client.run(lambda dask_worker: dask_worker.address).values()):
            assert_only_with_certificate(worker)
        assert client.submit(abs, -3).result(timeout=60) == 3


@pytest.mark.nightly
@pytest.mark.parametrize("security", [None, {"temporary": True}])
def test_hosts_by_ssh(security: object, server: SshServer, tmp_path: Path, before: set[tuple[str, int]]) -> None:
    options = {"hosts": [LOOPBACK], "workers_per_host": 1, **server.options, "security": security}
    with running(tmp_path, "ssh", **options) as (handle, client):
        # Where none is named, the address that Dask tells the hosts anyway, and no other one.
        assert get_address_host(handle.address) == own_address()
        assert {host for host, _ in of_driver(before)} == {own_address(), LOOPBACK}
        assert of_workers(client) == {own_address(), LOOPBACK}
        assert handle.dashboard is not None
        assert handle.dashboard.startswith(f"http://{LOOPBACK}:")
        assert http_status(handle.dashboard) == 200
        if security:
            for address in (handle.address, *client.run(lambda dask_worker: dask_worker.address).values()):
                assert_only_with_certificate(address)


@pytest.mark.nightly
def test_hosts_by_ssh_on_one_interface_with_files_that_they_do_not_have(
    server: SshServer, tmp_path: Path, before: set[tuple[str, int]]
) -> None:
    files = Authority(tmp_path).certificate("mine")
    options: dict[str, object] = {"hosts": [LOOPBACK], "workers_per_host": 1, "interface": "lo"}
    options |= {"scheduler_interface": "lo", "dashboard": False, "security": asdict(files), **server.options}
    with running(tmp_path, "ssh", **options) as (handle, client):
        assert of_driver(before) == {get_address_host_port(handle.address)}
        assert of_workers(client) == {LOOPBACK}
        assert_only_with_certificate(handle.address)
        # The content was sent, not the paths.
        (words,) = client.run(lambda: psutil.Process(os.getpid()).parent().cmdline()).values()
        assert not [word for word in words if "tls-" in word or str(tmp_path) in word]


@pytest.mark.nightly
@pytest.mark.parametrize("security", [None, {"temporary": True}])
def test_jobs_of_slurm(
    security: object,
    slurm: Slurm,
    tmp_path: Path,
    before: set[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    monkeypatch.chdir(tmp_path)
    options: dict[str, object] = {"workers": 2, "memory": "500MiB", "security": security}
    with running(tmp_path, "slurm", **options) as (handle, client):
        assert {host for host, _ in of_driver(before)} == {own_address(), LOOPBACK}
        assert of_workers(client) == {own_address(), LOOPBACK}
        assert handle.dashboard is not None
        assert handle.dashboard.startswith(f"http://{LOOPBACK}:")
        found = list(tmp_path.glob(".pbdist-tls-*"))
        if security:
            for address in (handle.address, *client.run(lambda dask_worker: dask_worker.address).values()):
                assert_only_with_certificate(address)
            (folder,) = found
            assert folder.stat().st_mode & 0o777 == 0o700
            assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        else:
            assert not found
    assert not list(tmp_path.glob(".pbdist-tls-*"))
    slurm.wait_until_empty()


@pytest.mark.nightly
def test_jobs_of_slurm_with_files_an_interface_and_a_dashboard_elsewhere(
    slurm: Slurm, tmp_path: Path, before: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    monkeypatch.chdir(tmp_path)
    files = Authority(tmp_path).certificate("mine")
    options: dict[str, object] = {"workers": 1, "workers_per_job": 1, "memory": "500MiB", "interface": "lo"}
    options |= {"security": asdict(files), "dashboard_host": own_address()}
    with running(tmp_path, "slurm", **options) as (handle, client):
        assert of_workers(client) == {LOOPBACK}
        assert {host for host, _ in of_driver(before)} == {LOOPBACK, own_address()}
        assert get_address_host(handle.address) == LOOPBACK
        assert handle.dashboard is not None
        assert handle.dashboard.startswith(f"http://{own_address()}:")
        assert http_status(handle.dashboard) == 200
        assert_only_with_certificate(handle.address)
    slurm.wait_until_empty()


@pytest.mark.nightly
@pytest.mark.parametrize("environment", [{}, {"PBDIST_TLS": "1"}, {"PBDIST_INTERFACE": "lo"}])
def test_one_allocation_of_slurm(environment: dict[str, str], slurm: Slurm, tmp_path: Path) -> None:
    store, gate = tmp_path / "s.zarr", tmp_path / "go on"
    command = ["sbatch", "--parsable", "--ntasks=2", "--export=ALL", str(CLUSTER / "sbatch.sh")]
    command += [str(write_study(tmp_path, LIGHT)), "--store", str(store)]
    # The driver alone is held, until its cluster was looked at.
    everything = held_environment(tmp_path, gate, 1) | slurm.environment | environment
    done = subprocess.run(command, cwd=tmp_path, env=everything, capture_output=True, text=True, check=True)
    output = tmp_path / f"slurm-{done.stdout.strip()}.out"
    try:
        until(lambda: commits(store) >= 1)
        (found,) = tmp_path.glob(".pbdist-*/scheduler.json")
        address = json.loads(found.read_text())["address"]
        family = [one for one in psutil.process_iter() if str(found) in cmdline(one)]
        workers = [
            child for one in family for child in one.children(recursive=True) if "spawn_main" in str(cmdline(child))
        ]
        hosts = {host for one in (*family, *workers) for host, _ in listening(one)}
        assert workers
        assert hosts == ({LOOPBACK} if "PBDIST_INTERFACE" in environment else {LOOPBACK, own_address()})
        assert address.startswith("tls://" if "PBDIST_TLS" in environment else "tcp://")
        if "PBDIST_TLS" in environment:
            assert_only_with_certificate(address)
            (made,) = found.parent.glob(".pbdist-tls-*")
            assert {path.stat().st_mode & 0o777 for path in (found.parent, made, *made.iterdir())} == {0o700, 0o600}
    finally:
        gate.touch()
        slurm.wait_until_empty()
    assert "16 of 16 cells are in the store" in output.read_text()
    assert not list(tmp_path.glob(".pbdist-*"))


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
