"""What every worker of a local cluster loads before it works: see `dask_setup`."""

import logging
from typing import Any

__all__ = ["dask_setup"]


def dask_setup(worker: Any) -> None:  # noqa: ARG001 -- as Dask calls it
    """Keep the worker from telling, with a traceback, that its scheduler has gone.

    Ctrl-C reaches driver and workers at once, and a heartbeat may then find nobody. What goes wrong in a task is told
    by the driver.
    """
    logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)
