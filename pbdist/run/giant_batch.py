"""A batch whose cells are too large for one worker: each is computed by all of them, block by block."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from pbdist.errors import BatchError, InvalidInputError, StoreUnreachableError
from pbdist.progress import Hearer
from pbdist.run import giant
from pbdist.run.batch import Receipt, Task, fill
from pbdist.run.cell_watch import CellWatch, worker_name
from pbdist.run.executor import Executor, Failure
from pbdist.run.scratch import scratch_of
from pbdist.store import BatchWriter, ObjectPlace, Trouble

__all__ = ["ExecutorMapper", "run_giant_batch"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class ExecutorMapper:
    """Does the same work on many items wherever an executor computes.

    Parameters
    ----------
    executor : Executor
        Started.
    told : callable, optional
        Called with what is counted, how many items of a map are done, and how many there are.
    """

    def __init__(self, executor: Executor, told: Hearer | None = None) -> None:
        self._executor, self._told = executor, told

    @property
    def parallel(self) -> int:
        """How many items are worked on at the same time."""
        return self._executor.parallelism

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items.

        Raises
        ------
        StoreUnreachableError, OSError
            What an item reads or writes fails.
        BatchError
            An item fails otherwise, or kills its workers.
        WorkersLostError
            The workers are gone.
        """
        early: dict[int, Result] = {}
        following = 0
        for count, done in enumerate(self._executor.run(partial(_second, function), enumerate(items)), start=1):
            if isinstance(done.result, Failure):
                if done.result.trouble is Trouble.PASSING and done.result.errno is None:
                    raise StoreUnreachableError(done.result.cause)
                if done.result.errno is not None:
                    raise OSError(done.result.errno, done.result.cause)
                raise BatchError(done.result.cause)
            early[done.item[0]] = done.result
            if self._told is not None:
                self._told("task", count, len(items))
            while following in early:
                yield early.pop(following)
                following += 1


def _second(function: Callable[[Item], Result], numbered: tuple[int, Item]) -> Result:
    return function(numbered[1])


def run_giant_batch(task: Task, *, executor: Executor, pause: float) -> Receipt:
    """Compute the cells of a batch over the workers, and write and commit them from this process.

    Parameters
    ----------
    task
        The batch.
    executor
        Whose workers compute.
    pause
        Seconds between two reports of a cell, see `pbdist.run.cell_watch`.

    Raises
    ------
    OSError
        The results, or the blocks, cannot be written.
    """
    began = time.perf_counter()
    (batch,), (cells,), settings = task.batches, task.cells, task.head.settings
    memory = executor.worker_bytes
    if memory is None:
        raise InvalidInputError("memory_limit: expected workers with a limit, for cells too large for one, got none")
    place = task.head.place
    patience = place.patience if isinstance(place, ObjectPlace) else 0.0
    scratch = scratch_of(place.url.removesuffix(f"/{task.head.part}"), patience)
    writer = BatchWriter(task.head, batch, cells)
    with CellWatch(task.head.part, pause) as watch:
        mapper = ExecutorMapper(executor, watch.detail)
        computing, failures = fill(
            writer,
            batch,
            cells,
            lambda cell: giant.compute(settings, cell, mapper, scratch, memory),
            task.refused,
            watch=watch,
        )
    written = writer.commit()
    return Receipt(batch.index, time.perf_counter() - began, computing, written, failures, worker_name())
