"""The order of a run's tasks: the longest batches first, short ones together, and cells that kill workers alone."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Self

from pbdist.run.task import Task
from pbdist.store import StoredStudy
from pbdist.study import Batch

#: A task should take about this long, in seconds: long against sending it, short against a lost worker.
_TASK_SECONDS = 4.0
#: No task holds more than this share of what is left for one worker, so that all finish together.
_SHARE_LEFT = 0.25
#: How often the cells of a batch are tried one by one before the whole batch fails.
_MAX_ISOLATIONS = 2

#: A batch to compute, and its part of the store.
Left = tuple[StoredStudy, Batch]


def task_of(stored: StoredStudy, batches: Sequence[Batch]) -> Task:
    """Return the task to compute some batches of a part of the store."""
    cells = tuple(tuple(stored.study.cells[batch.start : batch.stop]) for batch in batches)
    return Task(stored.head, tuple(batches), cells)


class Schedule(Iterator[Task]):
    """Tasks in the order of their submission, each formed when it is taken.

    An iterator that may go on after its end, with cells of a task that has killed its workers. `parallelism` is how
    many tasks are computed at the same time.
    """

    def __init__(self, batches: Iterable[Left], parallelism: int) -> None:
        self._left = deque(sorted(batches, key=lambda item: -item[1].seconds))
        self._again: deque[Task] = deque()
        #: Cells to be tried alone, one after the other, when nothing else is computed.
        self._trials: deque[Task] = deque()
        #: Tasks that were taken and have not come back.
        self._taken = 0
        self._parallelism = parallelism
        self._remaining = sum(batch.seconds for _, batch in self._left)
        #: How often the cells of a batch were tried, by its part and number.
        self._isolated = Counter[tuple[str, int]]()

    def returned(self) -> None:
        """Note that a task that was taken has come back, with whatever result."""
        self._taken -= 1

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
        key = task.head.part, batch.index
        if not untried or self._isolated[key] == _MAX_ISOLATIONS:
            return False
        self._isolated[key] += 1
        self._trials.append(replace(task, probed=untried[0]))
        return True

    def probed(self, task: Task, cause: str | None) -> None:
        """Note that the worker has survived the probed cell of a task, or the cause of its death; try the next cell."""
        (batch,), cell, refused = task.batches, task.probed, dict(task.refused)
        if cell is None:
            return
        if cause is not None:
            refused[cell] = cause
        untried = [other for other in range(cell + 1, batch.stop) if other not in refused]
        if untried:
            self._trials.appendleft(replace(task, probed=untried[0], refused=refused))
        else:
            self._again.append(replace(task, probed=None, refused=refused))

    def __iter__(self) -> Self:
        """Return the schedule."""
        return self

    def __next__(self) -> Task:
        """Return the next task."""
        task = self._next()
        self._taken += 1
        return task

    def _next(self) -> Task:
        if self._again:
            return self._again.popleft()
        if not self._left:
            if self._trials and self._taken <= 0:
                return self._trials.popleft()
            raise StopIteration
        wanted = min(_TASK_SECONDS, _SHARE_LEFT * self._remaining / self._parallelism)
        stored, batch = self._left.popleft()
        batches, seconds = [batch], batch.seconds
        while self._left and self._left[0][0] is stored and seconds + self._left[0][1].seconds <= wanted:
            batches.append(self._left.popleft()[1])
            seconds += batches[-1].seconds
        self._remaining -= seconds
        return task_of(stored, batches)
