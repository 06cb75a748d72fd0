"""Having batches computed: what comes back is counted and told, and what has killed its workers is tried apart."""

import errno
import time
from collections.abc import Callable, Sequence

from pbdist.errors import BatchError, WorkersLostError
from pbdist.run.batch import Receipt, Task, run_task
from pbdist.run.events import BatchFailed, BatchFinished, CellFailed, Listener, RunFinished, RunStarted
from pbdist.run.executor import Done, Executor, Failure, attempt
from pbdist.run.giant_batch import run_giant_batch
from pbdist.run.schedule import Schedule
from pbdist.run.speed import measured_speed
from pbdist.store import StoredStudy
from pbdist.study import Batch

__all__ = ["Computing", "Left"]

_MOST_TOLD = 5
#: Where the store cannot be written, no other batch will be.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
#: A run that is projected to take less is not worth measuring the workers for, in seconds of one core.
_WORTH_MEASURING = 20.0

#: A batch that is left, and the part of the store that it belongs to.
Left = tuple[StoredStudy, Batch]


class Computing:
    """One run: its counts, its failures, and what is told of them.

    Parameters
    ----------
    parts
        The parts of the store.
    listener
        Called with each event.
    ousted
        Whether another run has taken the store over, as it may from one that seemed dead.
    """

    def __init__(self, parts: Sequence[StoredStudy], listener: Listener, ousted: Callable[[], bool]) -> None:
        self._parts = {part.part: part for part in parts}
        self._cells = sum(len(part.study.cells) for part in parts)
        self._listener, self._ousted = listener, ousted
        self._began = time.monotonic()
        self._worker_seconds = self._kernel_seconds = 0.0
        self._written = 0
        #: Causes of cells that failed, by part and number of the cell.
        self._failed: dict[tuple[str, int], str] = {}
        #: What is left, by part and number of the batch.
        self._left: dict[tuple[str, int], Batch] = {}
        self._schedule = Schedule([], 1)
        self._speed = 1.0

    def run(self, left: Sequence[Left], giant: Sequence[Left], executor: Executor) -> None:
        """Compute the batches that are left: those that fit into a worker, and those whose cells take all of them."""
        self._left = {(part.part, batch.index): batch for part, batch in (*left, *giant)}
        projected = sum(batch.seconds for batch in self._left.values())
        if projected >= _WORTH_MEASURING:
            self._speed = measured_speed(executor, left[0][0].head.settings.method if left else "buckets")
        self._schedule = Schedule(left, executor.parallelism, self._speed)
        cells = sum(batch.stop - batch.start for batch in self._left.values())
        where = next(iter(self._parts.values())).where
        self._listener(
            RunStarted(
                cells=self._cells,
                cells_before=self._cells - cells,
                batches=len(self._left),
                workers=executor.workers,
                dashboard=executor.dashboard,
                store=where,
                seconds=self._speed * projected,
            )
        )
        try:
            for part, batch in giant:
                self._compute_giant(part, batch, executor)
            for done in executor.run(run_task, self._schedule):
                self._take(done)
                if self._ousted():
                    self._give_up(
                        "another run, which goes on, has taken the store over after this one was not seen for too long"
                    )
                    self._schedule.clear()
        except WorkersLostError as error:
            self._give_up(str(error))

    def finish(self) -> None:
        """Tell that the run is over.

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
        if self._failed:
            raise BatchError(self._described())

    def _compute_giant(self, part: StoredStudy, batch: Batch, executor: Executor) -> None:
        if (part.part, batch.index) not in self._left:
            return  # The store cannot be written.
        cells = tuple(part.study.cells[batch.start : batch.stop])
        task = Task(part.head, (batch,), (cells,))
        self._take(Done(task, attempt(lambda task: (run_giant_batch(task, executor),), task)))

    def _take(self, done: Done[Task, tuple[Receipt, ...]]) -> None:
        task, result = done.item, done.result
        if task.probed is not None:
            self._schedule.probed(task, result.cause if isinstance(result, Failure) else None)
        elif not isinstance(result, Failure):
            for receipt in result:
                self._finished(task.head.part, receipt)
        elif not (result.killed and self._schedule.isolate(task, result.cause)):
            for batch in task.batches:
                self._batch_failed(task.head.part, batch, result.cause)
            if result.errno in _NO_ROOM:
                self._give_up(f"not tried, because the store cannot be written: {result.cause}")
                self._schedule.clear()

    def _finished(self, part: str, receipt: Receipt) -> None:
        batch = self._left.pop((part, receipt.batch), None)
        if batch is None:
            # Given up meanwhile, or committed by an attempt whose answer was lost, and again.
            return
        cells = self._parts[part].study.cells
        self._schedule.observe(batch, receipt.seconds)
        self._worker_seconds += receipt.seconds
        self._kernel_seconds += receipt.kernel_seconds
        self._written += receipt.written_bytes
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
        self._failed.update({(part, cell): cause for cell in range(batch.start, batch.stop)})
        self._listener(BatchFailed(part, batch.index, batch.stop - batch.start, cause))

    def _give_up(self, cause: str) -> None:
        for (part, _), batch in list(self._left.items()):
            self._batch_failed(part, batch, cause)

    def _described(self) -> str:
        """Return which cells failed and why: cells of the same cause together, the first few of each by name."""
        by_cause: dict[str, list[tuple[str, int]]] = {}
        for key, cause in sorted(self._failed.items()):
            by_cause.setdefault(cause, []).append(key)
        told = [f"{'; '.join(self._named(cells))}: {cause}" for cause, cells in list(by_cause.items())[:_MOST_TOLD]]
        if len(by_cause) > _MOST_TOLD:
            told.append(f"and {len(by_cause) - _MOST_TOLD} more causes")
        return f"{len(self._failed)} of {self._cells} cells could not be computed: {' | '.join(told)}"

    def _named(self, cells: Sequence[tuple[str, int]]) -> list[str]:
        more = [f"and {len(cells) - _MOST_TOLD} more cells"] if len(cells) > _MOST_TOLD else []
        return [self._parts[part].study.cells[cell].describe() for part, cell in cells[:_MOST_TOLD]] + more
