"""Connect to a Dask scheduler that somebody else has started."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client

from pbdist.errors import InvalidInputError
from pbdist.input_files import read_input
from pbdist.run.certificates import CertificateFiles
from pbdist.run.clusters.security import security_of
from pbdist.run.executor import one_line
from pbdist.store.json_text import json_of

#: The most bytes of the file with the address of a scheduler: a scheduler writes some hundreds, and a few for a worker.
_MOST_BYTES = 1 << 26
_NOISY_LOGGERS = tuple(
    f"distributed.{part}" for part in ("client", "comm", "comm.tcp", "core", "batched", "utils_comm")
)


@dataclass(frozen=True)
class RunningScheduler:
    """Where a scheduler is: its address, or the file that has it; and the certificate that it wants to see.

    The file is read again at each connection, so that a scheduler may come back at another address.
    """

    address: str | None = None
    file: Path | None = None
    certificates: CertificateFiles | None = None

    def __str__(self) -> str:
        """Return the address or the file."""
        return str(self.address or self.file)

    def connect(self, seconds: float) -> Any:
        """Return a client, within some seconds.

        Raises
        ------
        InvalidInputError
            There is no scheduler, or it refuses this process.
        """
        # The run reports a lost scheduler; what distributed logs of it says no more.
        for name in ("distributed", *_NOISY_LOGGERS):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if self.file is not None and not self.file.is_file():
            raise InvalidInputError(
                f"--scheduler-file: expected the file of a running scheduler, got none at {str(self.file)!r}"
            )
        option = "--scheduler" if self.address else "--scheduler-file"
        where = {"address": self.address} if self.address else {"scheduler_file": str(self.file)}
        try:
            if self.file is not None:
                # Before distributed reads it: that would read a file of any size, of any depth, and without an address.
                self._address()
            return Client(**where, security=security_of(self.certificates), timeout=seconds)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
            cause = f"expected the address of a running scheduler, got {str(self)!r}: {one_line(error)}{self._hint()}"
            raise InvalidInputError(f"{option}: {cause}") from error

    def _address(self) -> str:
        """Return the address in the file; an error says why there is none that can be read."""
        content: Any = json_of(read_input(self.file or Path(), _MOST_BYTES))
        if not isinstance(content, dict) or not isinstance(content.get("address"), str):
            raise ValueError("no address in it")
        return str(content["address"])

    def _hint(self) -> str:
        """Return what the address says about certificates that do not go with it."""
        address = self.address or ""
        if self.file is not None:
            with suppress(OSError, ValueError):
                address = self._address()
        if address.startswith("tls://") and self.certificates is None:
            return ": a scheduler with TLS takes --tls-ca, --tls-certificate and --tls-key"
        if not address.startswith("tls://") and self.certificates is not None:
            return ": certificates go with an address tls://HOST:PORT"
        return ""
