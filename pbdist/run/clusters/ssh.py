"""Start workers on hosts that are reached by SSH, through asyncssh."""

import asyncio
import os
import shlex
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

import asyncssh
from distributed import Scheduler
from distributed.deploy.spec import SpecCluster

from pbdist.run.cluster_profile import SshProfile
from pbdist.run.clusters.network import (
    WORKER_OPTIONS,
    dashboard_of,
    own_address,
    scheduler_options,
    security_of,
    worker_variables,
)
from pbdist.run.clusters.replacement import ReplacedStarted, WorkerGroup, cancelled, replace_lost
from pbdist.run.clusters.start import WORKER_ENVIRONMENT

_LAST_LINES = 3
_CLOSE_SECONDS = 5
#: Variables that name files; each host has its own.
_OWN_FILES = frozenset({"AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"})


class _Host(WorkerGroup):
    """The workers of one host, which end with the process of the connection."""

    def __init__(
        self,
        scheduler: str,
        *,
        address: str,
        words: list[str],
        variables: Mapping[str, str],
        connection: dict[str, Any],
        name: str | None = None,
    ) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.name = name
        self._scheduler = scheduler
        self._host = address
        self._words, self._variables = words, variables
        self._options = connection
        self._connection: asyncssh.SSHClientConnection | None = None
        self._process: asyncssh.SSHClientProcess[str] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Connect, and start the workers, which connect to the scheduler themselves."""
        try:
            self._connection = await asyncssh.connect(self._host, **self._options)
            # Not as the remote command, which all users of the host can read: it may have credentials.
            self._process = await self._connection.create_process(
                "exec sh -s", stderr=asyncssh.STDOUT, errors="replace"
            )
            words = shlex.join(["exec", *self._words, self._scheduler])
            if "--interface" not in self._words:
                words = f"{words} --host {own_address(self._scheduler, shlex.quote(self._words[0]))}"
            name = shlex.join(["--name", str(self.name)])
            self._process.stdin.write(f"{_exports(self._variables)}{words} {name} </dev/null\n")
            self._process.stdin.write_eof()
        except (OSError, asyncssh.Error) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            self.note(f"{self._host}: {text}")
        else:
            self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: "asyncssh.SSHClientProcess[str]") -> None:
        """Read the output of the host, so that its pipe does not fill, and note how it ends."""
        last: deque[str] = deque(maxlen=_LAST_LINES)
        async for line in process.stdout:
            if line.strip():
                last.append(line.strip())
        await process.wait_closed()
        self.note(f"{self._host}: ended with exit code {process.exit_status}: {' / '.join(last)}")

    async def close(self) -> None:
        """End the workers and the connection."""
        await cancelled(self._reading)
        if self._process is not None and self._process.exit_status is None:
            self._process.terminate()
        if self._connection is not None:
            self._connection.close()
            try:
                await asyncio.wait_for(self._connection.wait_closed(), _CLOSE_SECONDS)
            except TimeoutError:
                self._connection.abort()
        await super().close()


def _exports(more: Mapping[str, str]) -> str:
    """Return lines of shell that set the environment of a worker."""
    stores = {name: value for name, value in os.environ.items() if name.startswith("AWS_") and name not in _OWN_FILES}
    variables = {**stores, **WORKER_ENVIRONMENT, **more}
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _command(profile: SshProfile) -> list[str]:
    """Return the command that starts the workers of a host, without the scheduler's address and the name."""
    words = [profile.python or sys.executable, "-m", "distributed.cli.dask_worker"]
    words += ["--nthreads", "1", "--memory-limit", str(profile.memory), "--nanny", *WORKER_OPTIONS]
    words += ["--nworkers", str(profile.workers_per_host), "--death-timeout", f"{profile.start_timeout:g}"]
    if profile.interface is not None:
        words += ["--interface", profile.interface]
    if profile.security is not None:
        words += ["--protocol", "tls://"]
    if profile.worker_resources:
        words += ["--resources", ",".join(f"{name}={amount:g}" for name, amount in profile.worker_resources.items())]
    if profile.local_directory is not None:
        words += ["--local-directory", profile.local_directory]
    return words


def start_ssh(profile: SshProfile) -> ReplacedStarted:
    """Start the workers of a profile on its hosts, and lost ones again.

    A host that cannot be reached is tried again while the others work.

    Raises
    ------
    OSError, RuntimeError, ValueError
        The scheduler cannot be started, as when this machine has no such address.
    """
    connection: dict[str, Any] = {"connect_timeout": profile.start_timeout, "keepalive_interval": 15}
    given = {"username": profile.user, "port": profile.port, "known_hosts": profile.known_hosts}
    connection |= {name: value for name, value in given.items() if value is not None}
    if profile.key is not None:
        connection["client_keys"] = [profile.key]
    security = security_of(profile.security)
    several = profile.workers_per_host > 1
    suffixes = [f"-{position}" for position in range(profile.workers_per_host)] if several else [""]
    hosts = {
        f"{host}-{position}": {
            "cls": _Host,
            "options": {
                "address": host,
                "words": _command(profile),
                "variables": worker_variables(security),
                "connection": connection,
            },
            "group": suffixes,
        }
        for position, host in enumerate(profile.hosts)
    }
    scheduler = scheduler_options(profile, security, profile.scheduler_interface)
    cluster = SpecCluster(
        hosts, {"cls": Scheduler, "options": scheduler}, security=security, name="pbdist", silence_logs="error"
    )
    dashboard = dashboard_of(cluster, profile)
    workers = len(hosts) * profile.workers_per_host
    replace_lost(cluster, workers)
    where = f"{len(hosts)} host{'' if len(hosts) == 1 else 's'} by SSH"
    return ReplacedStarted(cluster, profile, workers, where, dashboard)
