"""Having batches computed: what comes back is counted and told, and what has killed its workers is tried apart."""

import errno
import time
from collections.abc import Sequence

from pbdist.errors import BatchError, WorkersLostError
from pbdist.run.batch import Receipt, Task, run_task
from pbdist.run.events import BatchFailed, BatchFinished, CellFailed, Listener, RunFinished, RunStarted
from pbdist.run.executor import Done, Executor, Failure
from pbdist.run.schedule import Schedule
from pbdist.store import StoredStudy
from pbdist.study import Batch, StudySpec

__all__ = ["Computing"]

_MOST_TOLD = 5
#: Where the store cannot be written, no other batch will be.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})


class Computing:
    """One run: its counts, its failures, and what is told of them.

    Parameters
    ----------
    parts
        The parts of the store.
    study
        The study that is asked for.
    listener
        Called with each event.
    """

    def __init__(self, parts: Sequence[StoredStudy], study: StudySpec, listener: Listener) -> None:
        self._parts = {part.study.digest: part for part in parts}
        self._cells = sum(len(part.study.cells) for part in parts)
        self._study, self._listener = study, listener
        self._began = time.monotonic()
        self._worker_seconds = self._kernel_seconds = 0.0
        self._written = 0
        #: Causes of cells that failed, by digest of the part and number of the cell.
        self._failed: dict[tuple[str, int], str] = {}
        self._schedule = Schedule([], 1)
        self._projection = 1.0

    def run(self, left: Sequence[tuple[StoredStudy, Batch]], executor: Executor) -> None:
        """Compute the batches that are left."""
        schedule = Schedule(left, executor.parallelism)
        self._schedule, self._projection = schedule, schedule.factor
        cells = sum(batch.stop - batch.start for _, batch in left)
        self._listener(
            RunStarted(
                self._cells,
                self._cells - cells,
                len(left),
                executor.workers,
                executor.dashboard,
                str(left[0][0].path),
                schedule.factor * sum(batch.seconds for _, batch in left),
            )
        )
        undone = {(part.study.digest, batch.index): batch for part, batch in left}
        try:
            for done in executor.run(run_task, schedule):
                self._take(done, undone)
        except WorkersLostError as error:
            self._give_up(undone, str(error))

    def finish(self) -> None:
        """Tell that the run is over.

        Raises
        ------
        BatchError
            Some cells could not be computed.
        """
        self._listener(
            RunFinished(
                self._cells,
                len(self._failed),
                time.monotonic() - self._began,
                self._worker_seconds,
                self._kernel_seconds,
                self._written,
            )
        )
        if self._failed:
            raise BatchError(self._described())

    def _take(self, done: Done[Task, tuple[Receipt, ...]], undone: dict[tuple[str, int], Batch]) -> None:
        task, result = done.item, done.result
        if task.probed is not None:
            self._schedule.probed(task, result.cause if isinstance(result, Failure) else None)
        elif not isinstance(result, Failure):
            for receipt in result:
                self._finished(task, receipt, undone.pop((task.digest, receipt.batch), None))
        elif not (result.killed and self._schedule.isolate(task, result.cause)):
            for batch in task.batches:
                undone.pop((task.digest, batch.index), None)
                self._batch_failed(task.digest, batch, result.cause)
            if result.errno in _NO_ROOM:
                self._give_up(undone, f"not tried, because the store cannot be written: {result.cause}")
                self._schedule.clear()

    def _finished(self, task: Task, receipt: Receipt, batch: Batch | None) -> None:
        if batch is None:
            # Committed by an attempt whose answer was lost, and again.
            return
        part = self._parts[task.digest]
        self._schedule.observe(batch, receipt.seconds)
        self._worker_seconds += receipt.seconds
        self._kernel_seconds += receipt.kernel_seconds
        self._written += receipt.written_bytes
        for failure in receipt.failures:
            self._failed[task.digest, failure.cell] = failure.cause
            setting = part.study.cells[failure.cell].describe()
            self._listener(CellFailed("", failure.cell, setting, failure.cause, failure.traceback))
        first, last = (part.study.cells[cell].describe() for cell in (batch.start, batch.stop - 1))
        self._listener(
            BatchFinished(
                "",
                batch.index,
                batch.start,
                batch.stop,
                (first, last),
                receipt.seconds,
                receipt.kernel_seconds,
                batch.seconds * self._projection,
                receipt.written_bytes,
                len(receipt.failures),
                receipt.worker,
            )
        )

    def _batch_failed(self, digest: str, batch: Batch, cause: str) -> None:
        self._failed.update({(digest, cell): cause for cell in range(batch.start, batch.stop)})
        self._listener(BatchFailed("", batch.index, batch.stop - batch.start, cause))

    def _give_up(self, undone: dict[tuple[str, int], Batch], cause: str) -> None:
        for (digest, _), batch in undone.items():
            self._batch_failed(digest, batch, cause)
        undone.clear()

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
        return [self._parts[digest].study.cells[cell].describe() for digest, cell in cells[:_MOST_TOLD]] + more
