"""Form tasks of batches, longest first, by projected seconds and the measured speed of the workers."""

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Self

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Gaussian, Laplace, RandomizedResponse, SubsampledGaussian
from pbdist.run.batch import Task, cell_bounds
from pbdist.run.executor import Executor, Failure
from pbdist.run.joining import JoinTask
from pbdist.store import StoredStudy
from pbdist.study import Batch
from pbdist.study.costs import cell_cost
from pbdist.study.spec import Cell, StudySpec


def _reference(name: str, cell: Cell, *, tight: bool) -> StudySpec:
    return StudySpec(
        name=name,
        cells=(cell,),
        method="tight" if tight else "buckets",
        tolerance=1e-3 if tight else None,
        buckets=None if tight else 20_000,
        compositions=(1, 16, 256, 4096),
        epsilon=(0.25, 0.5, 1.0),
    )


#: Studies of one cell each, of some milliseconds to half a second, which use all parts of the engines: few frequencies,
#: transforms, a lattice, a mixture, privacy buckets.
REFERENCES: tuple[StudySpec, ...] = (
    _reference("laplace", Cell("Laplace", Laplace(40.0), None), tight=True),
    _reference("gaussian", Cell("Gaussian", Gaussian(80.0, 1.0, (-800.0, 800.0)), None), tight=True),
    _reference("responses", Cell("RandomizedResponse", RandomizedResponse(0.51), None), tight=True),
    _reference("sampled", Cell("SubsampledGaussian", SubsampledGaussian(4.0, 0.05), None), tight=True),
    _reference("buckets", Cell("Laplace", Laplace(40.0), None), tight=False),
)


@cache
def modelled_seconds(method: str) -> Mapping[str, float]:
    """Return the projected seconds of the references of a method, by name."""
    return {study.name: cell_cost(study, study.cells[0]).seconds for study in REFERENCES if study.method == method}


def speed(measured: Mapping[str, Sequence[float]], method: str) -> float:
    """Return measured over projected seconds, the geometric mean over references: above 1 for a slower machine.

    `measured` has the seconds of some runs of references of the method, by name. The fastest run of each counts, as
    every disturbance makes a run longer.

    Raises
    ------
    InvalidInputError
        If nothing was measured, or a time is not positive.
    """
    modelled = modelled_seconds(method)
    if not measured or not measured.keys() <= modelled.keys() or not all(measured.values()):
        raise InvalidInputError(f"measured: expected times of some of {', '.join(modelled)}, got {dict(measured)}")
    fastest = {name: min(seconds) for name, seconds in measured.items()}
    if min(fastest.values()) <= 0.0:
        raise InvalidInputError(f"measured: expected times above 0, got {min(fastest.values())!r}")
    return math.exp(math.fsum(math.log(fastest[name] / modelled[name]) for name in fastest) / len(fastest))


#: How often each reference is computed on each worker; the fastest run counts.
_REPETITIONS = 2


def measured_speed(executor: Executor, method: str) -> float:
    """Return measured over projected seconds, the median of the workers; 1 if nothing could be measured."""
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


#: A task should take about this long, in seconds: long against sending it, short against a lost worker.
_TASK_SECONDS = 4.0
#: No task holds more than this share of what is left for one worker, so that all finish together.
_SHARE_LEFT = 0.25
#: How often the cells of a batch are tried one by one before the whole batch fails.
_MOST_ISOLATIONS = 2
#: The first calibration counts as much as this many seconds of measured work.
_PRIOR_SECONDS = 2.0


@dataclass(frozen=True)
class _Probes:
    """Cells of a batch that are being tried alone, and those that have killed their workers."""

    waiting: set[int]
    refused: dict[int, str]


class Schedule(Iterator[Task | JoinTask]):
    """Tasks of batches in the order of their submission, each formed when it is taken, and of shards to join.

    An iterator that may go on after its end, with batches that were put back. `parallelism` is how many tasks are
    computed at the same time, `speed` measured over projected seconds.
    """

    def __init__(self, batches: Iterable[tuple[StoredStudy, Batch]], parallelism: int, speed: float = 1.0) -> None:
        ordered = sorted(batches, key=lambda item: -item[1].seconds)
        self._left = deque(ordered)
        self._again: deque[Task | JoinTask] = deque()
        #: Cells to be tried alone, one after the other, when nothing else is computed.
        self._trials: deque[Task] = deque()
        #: Tasks that were taken and have not come back.
        self._taken = 0
        self._parallelism = parallelism
        self._speed = speed
        self._measured, self._projected = _PRIOR_SECONDS * speed, _PRIOR_SECONDS
        self._remaining = sum(batch.seconds for _, batch in ordered)
        self._probes: dict[tuple[str, int], _Probes] = {}
        self._isolated: dict[tuple[str, int], int] = {}

    @property
    def factor(self) -> float:
        """Measured over projected seconds, by all that was measured so far."""
        return self._measured / self._projected

    def observe(self, batch: Batch, seconds: float) -> None:
        """Note how long a batch has taken."""
        self._measured += seconds
        self._projected += batch.seconds

    def returned(self) -> None:
        """Note that a task that was taken has come back, with whatever result."""
        self._taken -= 1

    def put_back(self, task: Task, batches: Iterable[Batch]) -> None:
        """Put some batches of a task back, to be taken again."""
        again = {batch.index for batch in batches}
        kept = [pair for pair in zip(task.batches, task.cells, strict=True) if pair[0].index in again]
        self._again.append(
            replace(task, batches=tuple(batch for batch, _ in kept), cells=tuple(cells for _, cells in kept))
        )

    def join(self, task: JoinTask) -> None:
        """Have a shard joined next."""
        self._again.append(task)

    def clear(self) -> None:
        """Drop all tasks that were not taken."""
        self._left.clear()
        self._again.clear()
        self._trials.clear()

    def isolate(self, task: Task) -> bool:
        """Have the cells of a task that has killed its workers tried apart; return False if that was done before.

        Its batches are tried one by one, then the cells of a batch that kills again. A cell that kills alone is
        refused, and the others of its batch are computed and stored. Alone means that nothing else is computed at the
        same time: Dask cannot tell a task that kills from those that wait on the same worker.
        """
        if len(task.batches) > 1:
            self._again.extend(
                replace(task, batches=(batch,), cells=(cells,))
                for batch, cells in zip(task.batches, task.cells, strict=True)
            )
            return True
        (batch,) = task.batches
        untried = [cell for cell in range(batch.start, batch.stop) if cell not in task.refused]
        tried = self._isolated.get((task.head.part, batch.index), 0)
        if not untried or tried == _MOST_ISOLATIONS:
            return False
        self._isolated[task.head.part, batch.index] = tried + 1
        self._probes[task.head.part, batch.index] = _Probes(set(untried), {})
        self._trials.extend(replace(task, probed=cell) for cell in untried)
        return True

    def probed(self, task: Task, cause: str | None) -> None:
        """Note that the worker has survived the probed cell of a task, or the cause of its death."""
        (batch,), cell = task.batches, task.probed
        probes = self._probes[task.head.part, batch.index]
        if cell is not None:
            probes.waiting.discard(cell)
            probes.refused.update({} if cause is None else {cell: cause})
        if not probes.waiting:
            del self._probes[task.head.part, batch.index]
            self._again.append(replace(task, probed=None, refused={**task.refused, **probes.refused}))

    def __iter__(self) -> Self:
        """Return the schedule."""
        return self

    def __next__(self) -> Task | JoinTask:
        """Return the next task."""
        task = self._next()
        self._taken += 1
        return task

    def _next(self) -> Task | JoinTask:
        if self._again:
            return self._again.popleft()
        if not self._left:
            if self._trials and self._taken <= 0:
                return self._trials.popleft()
            raise StopIteration
        wanted = min(_TASK_SECONDS, _SHARE_LEFT * self._remaining * self.factor / self._parallelism) / self.factor
        stored, batch = self._left.popleft()
        batches, seconds = [batch], batch.seconds
        while self._left and self._left[0][0] is stored and seconds + self._left[0][1].seconds <= wanted:
            batches.append(self._left.popleft()[1])
            seconds += batches[-1].seconds
        self._remaining -= seconds
        cells = tuple(tuple(stored.study.cells[batch.start : batch.stop]) for batch in batches)
        return Task(stored.head, tuple(batches), cells)
