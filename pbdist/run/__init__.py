"""Run a study: the driver, its events, and the executors. The only room that imports dask."""

from pbdist.run.events import OUTAGE_SECONDS, Executor, SerialExecutor
from pbdist.run.run import run_study

__all__ = ["OUTAGE_SECONDS", "Executor", "SerialExecutor", "run_study"]
