"""Run a study: the driver, its events, and the executors. The only room that imports dask."""

from pbdist.run.driver import run_study
from pbdist.run.events import Executor, SerialExecutor
from pbdist.run.store_outage import OUTAGE_SECONDS

__all__ = ["OUTAGE_SECONDS", "Executor", "SerialExecutor", "run_study"]
