"""Giant cells: privacy buckets too many for one worker's memory, computed in blocks by all workers."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar
from uuid import uuid4

from pbdist.arguments import DEFAULT_BUCKETS, half_width_of
from pbdist.buckets.blocked import BlockedEngine, Layout, Mapper, blocked_table, layout_within
from pbdist.buckets.bucket_table import BoundsTable
from pbdist.errors import BatchError, InvalidInputError, StoreUnreachableError
from pbdist.progress import Hearer
from pbdist.run.at_work import CellWatch, worker_name
from pbdist.run.batch import Receipt, Task, fill
from pbdist.run.executor import Executor, Failure
from pbdist.run.scratch import Scratch, scratch_of
from pbdist.store import BatchWriter, ObjectPlace, Trouble
from pbdist.study import Cell, StudySpec

__all__ = ["BASE_BYTES", "ExecutorMapper", "compute", "layout_of", "run_giant_batch", "scratch_bytes"]

#: What a worker's process takes before it computes anything.
BASE_BYTES = 220 << 20
#: The part of a worker's memory that is used: Dask gives no tasks to a worker that takes more than 80 %.
_USABLE = 0.78

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_giant_batch(task: Task, *, executor: Executor, pause: float) -> Receipt:
    """Compute the cells of the only batch of a task on all workers; write and commit them from this process.

    `pause` is the time between two reports of a cell, see `CellWatch`.

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
            lambda cell: compute(settings, cell, mapper, scratch, memory),
            task.refused,
            watch=watch,
        )
    written = writer.commit()
    return Receipt(batch.index, time.perf_counter() - began, computing, written, failures, worker_name())


def compute(study: StudySpec, cell: Cell, mapper: Mapper, scratch: Scratch, worker_bytes: int) -> BoundsTable:
    """Compute a cell of privacy buckets in blocks; bit for bit the table of `pbdist.buckets.bounds_table`.

    This process itself holds a few numbers for each block; with ``keep_states`` also 32 bytes for each bucket,
    direction and r. The scratch must be seen by every worker. It is emptied before and afterwards.

    Raises
    ------
    InvalidInputError
        The study has another method, or the smallest blocks are too large for a worker; the text has both figures.
    """
    if study.method != "buckets":
        raise InvalidInputError(f"giant cell: expected method buckets, got {study.method}")
    # A new name: a worker of an earlier run may still write blocks.
    engine = BlockedEngine(scratch, mapper, layout_of(study, worker_bytes), name=uuid4().hex)
    scratch.clear()
    try:
        return blocked_table(
            [(cell.pair, 1)],
            compositions=study.compositions,
            epsilon=study.epsilon,
            buckets=study.buckets,
            factor=cell.factor,
            keep_states=study.keep_states,
            engine=engine,
        )
    finally:
        # The next cell, or the end of the run, removes what stays; an error here would hide the result.
        with suppress(OSError):
            scratch.clear()


class ExecutorMapper:
    """Does the same work on many items wherever an executor, which must be started, computes.

    `told` is called with what is counted, how many items of a map are done, and how many there are.
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
            An item cannot read or write its blocks.
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


def layout_of(study: StudySpec, worker_bytes: int) -> Layout:
    """Return sizes of blocks and tasks that fit into a worker's memory.

    Raises
    ------
    InvalidInputError
        None fit; the text has both figures.
    """
    return layout_within(_buckets(study), int(worker_bytes * _USABLE) - BASE_BYTES)


def scratch_bytes(study: StudySpec) -> int:
    """Return an upper bound on the bytes that a cell takes on its scratch at any one time."""
    size = _buckets(study) + 1
    rungs = study.compositions[-1].bit_length()
    # The ladder, a result, its partner and two squared lists; spectra of both vectors, sums and their finer cuts.
    return 8 * size * (4 * (rungs + 4) + 4 + 4 + 8)


def _buckets(study: StudySpec) -> int:
    return 2 * half_width_of(DEFAULT_BUCKETS if study.buckets is None else study.buckets)
