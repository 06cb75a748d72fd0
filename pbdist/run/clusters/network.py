"""How scheduler, workers and driver reach each other: addresses to listen at, and certificates."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributed import Security
from distributed.comm.addressing import get_address_host
from distributed.utils import format_dashboard_link, get_ip

from pbdist.errors import MissingDependencyError
from pbdist.run.cluster_profile import (
    CertificateFiles,
    JobQueueProfile,
    LocalProfile,
    SshProfile,
    TemporaryCertificates,
)
from pbdist.run.clusters.start import free_port

#: No worker has a dashboard; the page with its health is for its own machine.
WORKER_OPTIONS = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
_EVERYWHERE = "0.0.0.0"  # noqa: S104 -- compared with
#: Prints the address from which this machine reaches another one; nothing is sent.
_OWN_ADDRESS = (
    'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.connect(("{}", 80)); print(s.getsockname()[0])'
)


def scheduler_options(
    profile: SshProfile | JobQueueProfile, security: Security | None, interface: str | None
) -> dict[str, Any]:
    """Return what Dask's `Scheduler` in the driver's process takes; `interface` is where it listens, if that is known.

    Without an interface or an address it listens on the one address under which other machines are told to reach it.
    """
    where = {"interface": interface} if interface is not None else {"host": profile.scheduler_host or get_ip()}
    protocol = {} if security is None else {"protocol": "tls://", "security": security}
    return {"port": 0, **where, **protocol, **dashboard_options(profile)}


def dashboard_options(profile: LocalProfile | SshProfile | JobQueueProfile) -> Mapping[str, Any]:
    """Return the options of Dask's `Scheduler` for its dashboard."""
    if not profile.dashboard:
        # `dashboard_of` stops it after the start.
        return {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    host = profile.dashboard_host
    return {"dashboard": True, "dashboard_address": f"{host}:{free_port(profile.dashboard_port, host)}"}


def dashboard_of(cluster: Any, profile: LocalProfile | SshProfile | JobQueueProfile) -> str | None:
    """Return the address of the dashboard, where Dask would give the scheduler's host; stop one that is not wanted."""
    if not profile.dashboard:
        _stop_dashboard(cluster)
        return None
    host = profile.dashboard_host
    host = get_address_host(cluster.scheduler_address) if host == _EVERYWHERE else host
    return str(format_dashboard_link(host, cluster.scheduler.http_server.port))


def _stop_dashboard(cluster: Any) -> None:
    """Close the port of the scheduler's web server, which Dask opens in any case."""

    async def stop() -> None:
        cluster.scheduler.http_server.stop()

    cluster.sync(stop)


def own_address(scheduler: str, python: str) -> str:
    """Return a word of shell that gives the address from which a machine reaches the scheduler.

    A worker that is given no address listens on all of them. `python` is the quoted path of an interpreter.
    """
    return f'"$({python} -c {shlex.quote(_OWN_ADDRESS.format(get_address_host(scheduler)))})"'


#: Names of the files in a folder, by their names in Dask's configuration of a role.
_NAMES = {"ca_file": "ca.pem", "cert": "certificate.pem", "key": "key.pem"}
#: Variables of a process that Dask reads as its configuration; a text of several lines is the content of a file.
_VARIABLES = {
    "ca_file": "DASK_DISTRIBUTED__COMM__TLS__CA_FILE",
    "cert": "DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT",
    "key": "DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY",
}


def security_of(certificates: CertificateFiles | TemporaryCertificates | None) -> Security | None:
    """Return the certificates of all roles: those of files, or new ones in memory; None without any.

    Raises
    ------
    MissingDependencyError
        The package that makes certificates is not installed.
    """
    if certificates is None:
        return None
    if isinstance(certificates, CertificateFiles):
        return _of_files(certificates)
    try:
        made: Security = Security.temporary()
    except ImportError as error:
        raise MissingDependencyError(
            "security.temporary: expected cryptography, got nothing: pip install 'pbdist[tls]'"
        ) from error
    return made


def _of_files(files: CertificateFiles) -> Security:
    roles = ("client", "scheduler", "worker")
    certificates = {f"tls_{role}_cert": files.certificate for role in roles}
    keys = {f"tls_{role}_key": files.key for role in roles}
    return Security(require_encryption=True, tls_ca_file=files.ca, **certificates, **keys)


def worker_variables(security: Security | None) -> Mapping[str, str]:
    """Return variables that hold the certificates themselves, for a worker that sees no file of this machine."""
    if security is None:
        return {}
    found = _contents(security)
    return {
        **{_VARIABLES[name]: text for name, text in found.items()},
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
    }


def _contents(security: Security) -> dict[str, str]:
    configured = security.get_tls_config_for_role("worker")
    texts = {name: configured[name] for name in _NAMES}
    return {
        name: text if "\n" in text else Path(text).read_text(encoding="ascii", errors="replace")
        for name, text in texts.items()
    }


class SharedCertificates:
    """Certificates that were made in memory, as files in a folder that only this user may enter.

    Attributes
    ----------
    folder
        The folder.
    files
        The files.
    """

    def __init__(self, security: Security, shared: str) -> None:
        self.folder = tempfile.mkdtemp(prefix=".pbdist-tls-", dir=shared)
        for name, text in _contents(security).items():
            path = os.path.join(self.folder, _NAMES[name])
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
        self.files = CertificateFiles(*(os.path.join(self.folder, name) for name in _NAMES.values()))

    def remove(self) -> None:
        """Remove the files and the folder; jobs that start later find none."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _main(shared: str) -> None:
    made = security_of(TemporaryCertificates())
    if made is not None:
        print(SharedCertificates(made, shared).folder)


if __name__ == "__main__":
    _main(sys.argv[1])
