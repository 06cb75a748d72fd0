"""What every worker of a local cluster loads before it works: see `dask_setup`."""

import logging
import signal
from typing import Any

from pbdist.run.sheltered import SHELTERED

__all__ = ["dask_setup"]

_ALONE_SECONDS = 1


def dask_setup(worker: Any) -> None:  # noqa: ARG001 -- as Dask calls it
    """Leave the end of the worker to the driver, which hears of it by the same signal.

    A terminal sends Ctrl-C to driver and workers at once. The worker ignores it, and ends only a moment after SIGTERM
    and SIGHUP: a nanny that knew of nothing would tell of a lost worker, and start another one. Nor does it tell, with
    a traceback, that its scheduler has gone; what goes wrong in a task is told by the driver.
    """
    logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Which ends the process when the time is over.
        signal.signal(number, lambda *_: signal.alarm(_ALONE_SECONDS) and None)
    # Blocked since the process was started.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SHELTERED)
