"""The process that writes to a store, as its lock names it."""

import json
import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

#: A holder counts as alive for so long after it has refreshed its lock.
STALE_SECONDS = 90.0
#: Bytes of a lock.
LOCK_BYTES = 640


@dataclass(frozen=True)
class Holder:
    """The process that writes to a store.

    Attributes
    ----------
    host, process
        Where it runs, and its number there.
    since
        The time of its start, in UTC.
    machine, started
        Identify the system that numbers its processes, and the process among later ones of the same number; empty where
        not known.
    alive
        The time of its last refresh, in seconds since 1970 by its own clock.
    """

    host: str
    process: int
    since: str
    machine: str
    started: str
    alive: float

    def describe(self) -> str:
        """Return where it runs and since when."""
        return f"process {self.process} on {self.host} since {self.since}"

    @property
    def gone(self) -> bool:
        """Whether it is certain that the process has ended."""
        return bool(self.machine) and self.machine == _machine() and _started(self.process) != self.started

    @property
    def stale(self) -> bool:
        """Whether its last refresh is older than `STALE_SECONDS`, if the clocks agree."""
        return abs(time.time() - self.alive) > STALE_SECONDS

    def unaged(self) -> "Holder":
        """Return it without the time of its last refresh: who it is."""
        return replace(self, alive=0.0)

    def encoded(self) -> bytes:
        """Return it as JSON of a fixed length."""
        return json.dumps(asdict(self), sort_keys=True).encode().ljust(LOCK_BYTES)


def decoded(content: bytes | None) -> Holder | None:
    """Return the holder that the content of a lock names; None where it is damaged or there is none."""
    try:
        found = Holder(**json.loads(content or b""))
    except (ValueError, TypeError, RecursionError):
        return None
    values = asdict(found).values()
    kinds = (str, int, str, str, str, float)
    return found if all(type(value) is kind for value, kind in zip(values, kinds, strict=True)) else None


def myself() -> Holder:
    """Return this process."""
    now = time.time()
    since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    process = os.getpid()
    return Holder(socket.gethostname(), process, since, _machine(), _started(process), now)


def _machine() -> str:
    """Return the identity of the system that numbers this process: the boot, and the namespace of process numbers."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(process: int) -> str:
    """Return the start of a process, in ticks since that of the system; empty where there is no such process."""
    try:
        # The name, in brackets, may hold blanks.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
