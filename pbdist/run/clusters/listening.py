"""Which addresses the scheduler, the dashboard and the workers of a cluster listen on."""

import shlex
from collections.abc import Mapping
from typing import Any

from distributed import Security
from distributed.comm.addressing import get_address_host
from distributed.utils import format_dashboard_link, get_ip

from pbdist.run.cluster_profile import JobQueueProfile, LocalProfile, SshProfile
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
        # It is stopped after the start, see `stop_dashboard`.
        return {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    host = profile.dashboard_host
    return {"dashboard": True, "dashboard_address": f"{host}:{free_port(profile.dashboard_port, host)}"}


def dashboard_link(cluster: Any, profile: LocalProfile | SshProfile | JobQueueProfile) -> str | None:
    """Return the address of the dashboard; Dask would give it the scheduler's host."""
    if not profile.dashboard:
        return None
    host = profile.dashboard_host
    host = get_address_host(cluster.scheduler_address) if host == _EVERYWHERE else host
    return str(format_dashboard_link(host, cluster.scheduler.http_server.port))


def stop_dashboard(cluster: Any) -> None:
    """Close the port of the scheduler's web server, which Dask opens in any case."""

    async def stop() -> None:
        cluster.scheduler.http_server.stop()

    cluster.sync(stop)


def own_address(scheduler: str, python: str) -> str:
    """Return a word of shell that gives the address from which a machine reaches the scheduler.

    A worker that is given no address listens on all of them. `python` is the quoted path of an interpreter.
    """
    return f'"$({python} -c {shlex.quote(_OWN_ADDRESS.format(get_address_host(scheduler)))})"'
