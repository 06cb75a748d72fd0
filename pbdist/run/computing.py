"""Submit batches, collect their results, and isolate cells that kill workers."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import median
from typing import Any, Self

from pbdist.errors import BatchError, InvalidInputError, WorkersLostError
from pbdist.mechanisms import Gaussian, Laplace, RandomizedResponse, SubsampledGaussian
from pbdist.run.batch import Joins, JoinTask, Receipt, Task, cell_bounds, run_any
from pbdist.run.events import (
    BatchFailed,
    BatchFinished,
    CellFailed,
    CellsAtWork,
    CleanUpFailed,
    Done,
    Executor,
    Failure,
    Listener,
    Report,
    RunFinished,
    RunStarted,
    StillComputing,
    WorkerRefused,
    attempt,
    pause_between_reports,
    regularly,
    reported_by,
)
from pbdist.run.giant import run_giant_batch
from pbdist.run.store_outage import Outage
from pbdist.store import JoinedShard, StoredStudy, Trouble
from pbdist.study import Batch
from pbdist.study.plan import cell_cost
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


#: Causes of failures, and cells of each, that an error names.
_MOST_NAMED = 5
#: Cells at work in one event, at most.
_MOST_AT_WORK = 5
#: How often a batch that could not be written is tried again, while others could be.
_MOST_RETURNS = 5
#: A store has room again where as many of the largest batches so far fit.
_MOST_AT_ONCE = 4
#: For less projected work the speed of the workers is not measured, in seconds of one core.
_WORTH_MEASURING = 20.0

#: A batch to compute, and its part of the store.
Left = tuple[StoredStudy, Batch]


class Computing:
    """One run: its counts, its failures, and its events.

    `ousted` returns whether another run has taken the store over, as it may from one that seems dead. `told_every` is
    the time between two `StillComputing` events.
    """

    def __init__(
        self,
        parts: Sequence[StoredStudy],
        listener: Listener,
        ousted: Callable[[], bool],
        outage: Outage,
        told_every: float,
    ) -> None:
        self._parts = {part.part: part for part in parts}
        self._cells = sum(len(part.study.cells) for part in parts)
        self._listener, self._ousted, self._outage = listener, ousted, outage
        self._began = time.monotonic()
        self._worker_seconds = self._kernel_seconds = 0.0
        self._written = self._largest = 0
        #: Causes of cells that failed, by part and number of the cell.
        self._failed: dict[tuple[str, int], str] = {}
        #: Batches that are left, by part and number of the batch.
        self._left: dict[tuple[str, int], Batch] = {}
        #: How often each batch was tried again.
        self._returns: dict[tuple[str, int], int] = {}
        #: Why the run ended early; empty if it did not.
        self._ended = ""
        self._told_every = told_every
        self._at_work = CellsAtWork(lambda part, batch: (part, batch) in self._left)
        #: Cells that are committed or have failed.
        self._done = self._cells
        self._schedule = Schedule([], 1)
        self._joins = Joins([])
        self._speed = 1.0

    @property
    def ended(self) -> bool:
        """Whether the run ended because the store cannot be written any more."""
        return bool(self._ended)

    def run(self, left: Sequence[Left], giant: Sequence[Left], joins: Sequence[JoinTask], executor: Executor) -> None:
        """Compute the batches that are left: those that fit into one worker, and those of giant cells.

        `joins` are shards that lack nothing, and are only to be joined.
        """
        self._left = {(part.part, batch.index): batch for part, batch in (*left, *giant)}
        executor.told_to(self._listener)
        self._done -= sum(batch.stop - batch.start for batch in self._left.values())
        with regularly(self._told_every, lambda: self._send_progress(executor)):
            self._run(left, giant, joins, executor)

    def _run(self, left: Sequence[Left], giant: Sequence[Left], joins: Sequence[JoinTask], executor: Executor) -> None:
        projected = sum(batch.seconds for batch in self._left.values())
        if projected >= _WORTH_MEASURING:
            self._speed = measured_speed(executor, left[0][0].head.settings.method if left else "buckets")
        self._schedule = Schedule(left, executor.parallelism, self._speed)
        self._joins = Joins((part.head, batch) for part, batch in (*left, *giant))
        for task in joins:
            self._schedule.join(self._joins.begin(task))
        where = next(iter(self._parts.values())).where
        self._listener(
            RunStarted(
                cells=self._cells,
                cells_before=self._done,
                batches=len(self._left),
                workers=executor.workers,
                dashboard=executor.dashboard,
                store=where,
                seconds=self._speed * projected,
            )
        )
        pause = pause_between_reports(self._told_every, executor.parallelism)
        try:
            for part, batch in giant:
                self._compute_giant(part, batch, executor, pause)
            for done in executor.run(partial(run_any, pause=pause), self._schedule):
                self._take(done)
                self._send_refused(executor)
                if self._ousted():
                    self._give_up(
                        "another run, which goes on, has taken the store over after this one was not seen for too long"
                    )
                if not self._left and not self._joins.open:
                    # Tasks that still run compute nothing new.
                    break
        except WorkersLostError as error:
            self._give_up(str(error))
        self._send_refused(executor)

    def finish(self) -> None:
        """Send `RunFinished`.

        Raises
        ------
        BatchError
            Some cells could not be computed.
        """
        self._listener(
            RunFinished(
                cells=self._cells,
                failed_cells=len(self._failed),
                seconds=time.monotonic() - self._began,
                worker_seconds=self._worker_seconds,
                kernel_seconds=self._kernel_seconds,
                written_bytes=self._written,
            )
        )
        if self._ended:
            reached = f"{self._cells - len(self._failed):,} of {self._cells:,} cells are in the store"
            raise BatchError(f"{self._ended}: {reached}: the same command goes on where this one stopped")
        if self._failed:
            raise BatchError(self._described())

    def _send_progress(self, executor: Executor) -> None:
        for arrived, report in executor.heard():
            self._at_work.take(arrived, report)
        cells = self._at_work.cells()
        self._listener(
            StillComputing(
                seconds=time.monotonic() - self._began,
                cells=self._cells,
                cells_done=self._done,
                at_work=tuple(cells[:_MOST_AT_WORK]),
                more=max(0, len(cells) - _MOST_AT_WORK),
            )
        )

    def _compute_giant(self, part: StoredStudy, batch: Batch, executor: Executor, pause: float) -> None:
        cells = tuple(part.study.cells[batch.start : batch.stop])
        task = Task(part.head, (batch,), (cells,))
        # Again after an outage of the store, until the batch is done or given up.
        while (part.part, batch.index) in self._left:
            with reported_by(self._take_report):
                result = attempt(partial(run_giant_batch, executor=executor, pause=pause), task)
            self._settle(task, (result,), None)

    def _take_report(self, report: Report) -> None:
        self._at_work.take(time.monotonic(), report)

    def _take(self, done: Done[Task | JoinTask, tuple[Receipt | Failure, ...] | JoinedShard]) -> None:
        task, result = done.item, done.result
        self._schedule.returned()
        if isinstance(task, JoinTask) or isinstance(result, JoinedShard):
            self._take_join(task, result)
        elif task.probed is not None:
            self._schedule.probed(task, result.cause if isinstance(result, Failure) else None)
        elif not isinstance(result, Failure):
            self._settle(task, result, self._schedule.put_back)
        elif not (result.killed and self._schedule.isolate(task)):
            self._settle(task, (result,) * len(task.batches), self._schedule.put_back)

    def _take_join(self, task: Any, result: Any) -> None:
        """Note that a shard was joined; if it was not, the next run does it, unless the store cannot be reached now."""
        self._joins.end(task)
        if isinstance(result, JoinedShard):
            self._written += result.written
            for index in result.lacking:
                cells = task.head.cells_of(index)
                batch = Batch(index, cells.start, cells.stop, 0.0)
                self._left[task.head.part, index] = batch
                self._done -= len(cells)
                self._batch_failed(task.head.part, batch, "its file has changed since it was written")
        elif result.trouble is Trouble.LASTING:
            self._end(f"the store cannot be written: {result.cause}")
        elif result.trouble is None and not (result.killed and self._may_join_again(task)):
            self._listener(CleanUpFailed(f"batches that were not joined: {result.cause}"))
        else:
            self._schedule.join(self._joins.begin(task))
            if result.trouble is not None:
                full = result.trouble is Trouble.FULL
                # The files of a shard are written before those of its batches are removed.
                refusal = self._outage.wait(
                    result.cause, self._largest * len(task.head.batches_of(0)) if full else None
                )
                if refusal is not None:
                    self._end(refusal)

    def _may_join_again(self, task: JoinTask) -> bool:
        """Whether a shard is joined again after its worker was killed, perhaps by what else it did."""
        key = task.head.part, -1 - task.shard
        self._returns[key] = self._returns.get(key, 0) + 1
        return self._returns[key] <= _MOST_RETURNS

    def _settle(
        self, task: Task, results: Sequence[Receipt | Failure], put_back: Callable[[Task, Sequence[Batch]], None] | None
    ) -> None:
        """Note the results of the batches of a task; those after the last result were not tried.

        Batches that could not be written, but may be later, are passed to `put_back`.
        """
        part, trouble = task.head.part, None
        for batch, result in zip(task.batches, results, strict=False):
            if isinstance(result, Receipt):
                self._finished(part, result)
            elif result.trouble is None:
                self._batch_failed(part, batch, result.cause)
            else:
                trouble = result
                if result.trouble is Trouble.LASTING:
                    self._batch_failed(part, batch, result.cause)
        if trouble is None:
            return
        if trouble.trouble is Trouble.LASTING:
            self._end(f"the store cannot be written: {trouble.cause}")
            return
        full = trouble.trouble is Trouble.FULL
        again = [batch for batch in task.batches if self._may_return(part, batch, trouble.cause, count=not full)]
        if again and put_back is not None:
            put_back(task, again)
        refusal = self._outage.wait(trouble.cause, self._largest * _MOST_AT_ONCE if full else None)
        if refusal is not None:
            self._end(refusal)

    def _may_return(self, part: str, batch: Batch, cause: str, *, count: bool) -> bool:
        """Whether a batch that could not be written is tried again; after too many times that `count` it has failed."""
        key = part, batch.index
        if key not in self._left:
            return False
        self._returns[key] = self._returns.get(key, 0) + count
        if self._returns[key] <= _MOST_RETURNS:
            return True
        self._batch_failed(part, batch, cause)
        return False

    def _send_refused(self, executor: Executor) -> None:
        for cause in executor.refused():
            self._listener(WorkerRefused(cause))

    def _finished(self, part: str, receipt: Receipt) -> None:
        batch = self._left.pop((part, receipt.batch), None)
        if batch is None:
            # Given up meanwhile, or committed a second time after the first result was lost.
            return
        self._done += batch.stop - batch.start
        cells = self._parts[part].study.cells
        self._outage.written()
        self._schedule.observe(batch, receipt.seconds)
        self._worker_seconds += receipt.seconds
        self._kernel_seconds += receipt.kernel_seconds
        self._written += receipt.written_bytes
        join = self._joins.written(part, receipt.batch)
        if join is not None:
            self._schedule.join(join)
        self._largest = max(self._largest, receipt.written_bytes)
        for failure in receipt.failures:
            self._failed[part, failure.cell] = failure.cause
            setting = cells[failure.cell].describe()
            self._listener(CellFailed(part, failure.cell, setting, failure.cause, failure.traceback))
        self._listener(
            BatchFinished(
                part=part,
                batch=batch.index,
                first=batch.start,
                stop=batch.stop,
                settings=(cells[batch.start].describe(), cells[batch.stop - 1].describe()),
                seconds=receipt.seconds,
                kernel_seconds=receipt.kernel_seconds,
                projected_seconds=batch.seconds * self._speed,
                written_bytes=receipt.written_bytes,
                failed_cells=len(receipt.failures),
                worker=receipt.worker,
            )
        )

    def _batch_failed(self, part: str, batch: Batch, cause: str) -> None:
        if self._left.pop((part, batch.index), None) is None:
            return
        self._done += batch.stop - batch.start
        self._failed.update({(part, cell): cause for cell in range(batch.start, batch.stop)})
        self._listener(BatchFailed(part, batch.index, batch.stop - batch.start, cause))

    def _end(self, cause: str) -> None:
        """End the run: the store cannot be written any more."""
        self._ended = cause
        self._give_up(f"not tried, because {cause}")

    def _give_up(self, cause: str) -> None:
        self._schedule.clear()
        self._joins.clear()
        for (part, _), batch in list(self._left.items()):
            self._batch_failed(part, batch, cause)

    def _described(self) -> str:
        """Return which cells failed and why: the first few of each cause by name."""
        by_cause: dict[str, list[tuple[str, int]]] = {}
        for key, cause in sorted(self._failed.items()):
            by_cause.setdefault(cause, []).append(key)
        told = [f"{'; '.join(self._named(cells))}: {cause}" for cause, cells in list(by_cause.items())[:_MOST_NAMED]]
        if len(by_cause) > _MOST_NAMED:
            told.append(f"and {len(by_cause) - _MOST_NAMED} more causes")
        return f"{len(self._failed)} of {self._cells} cells could not be computed: {' | '.join(told)}"

    def _named(self, cells: Sequence[tuple[str, int]]) -> list[str]:
        more = [f"and {len(cells) - _MOST_NAMED} more cells"] if len(cells) > _MOST_NAMED else []
        return [self._parts[part].study.cells[cell].describe() for part, cell in cells[:_MOST_NAMED]] + more
