"""A short measurement on the workers: how fast they are against the machine of the cost model."""

import time
from statistics import median

from pbdist.run.batch import cell_bounds
from pbdist.run.executor import Executor, Failure
from pbdist.study.calibration import REFERENCES, speed

__all__ = ["measured_speed"]

#: Each reference is computed that often on each worker; the fastest counts.
_REPETITIONS = 2


def measured_speed(executor: Executor, method: str) -> float:
    """Return by what projected seconds are to be multiplied on the workers; 1 where nothing could be measured."""
    rows = [row for row, study in enumerate(REFERENCES) if study.method == method]
    found = [
        done.result
        for done in executor.run(_measure, [tuple(rows)] * executor.parallelism)
        if not isinstance(done.result, Failure)
    ]
    speeds = [speed({REFERENCES[row].name: seconds for row, seconds in result.items()}, method) for result in found]
    return median(speeds) if speeds else 1.0


def _measure(rows: tuple[int, ...]) -> dict[int, list[float]]:
    """Return the seconds that references take on this worker."""
    return {row: [_seconds(row) for _ in range(_REPETITIONS)] for row in rows}


def _seconds(row: int) -> float:
    study = REFERENCES[row]
    began = time.perf_counter()
    cell_bounds(study, study.cells[0])
    return time.perf_counter() - began
