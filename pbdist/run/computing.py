"""Submit batches, collect their results, and isolate cells that kill workers."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pbdist.errors import BatchError, WorkersLostError
from pbdist.run.batch import Receipt, Task, run_any
from pbdist.run.cell_progress import CellsAtWork, Report, pause_between_reports, regularly, reported_by
from pbdist.run.events import (
    BatchFailed,
    BatchFinished,
    CellFailed,
    CleanUpFailed,
    Listener,
    RunFinished,
    RunStarted,
    StillComputing,
    WorkerRefused,
)
from pbdist.run.executor import Done, Executor, Failure, attempt
from pbdist.run.giant import run_giant_batch
from pbdist.run.joining import Joins, JoinTask
from pbdist.run.schedule import Schedule, measured_speed
from pbdist.run.store_outage import Outage
from pbdist.store import JoinedShard, StoredStudy, Trouble
from pbdist.study import Batch

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
