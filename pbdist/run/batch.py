"""Compute the cells of a task's batches in a worker, and write and commit each batch."""

import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pbdist.errors import BatchError, WorkersLostError
from pbdist.run.events import CellWatch, CleanUpFailed, Failure, Listener, attempt, one_line, worker_name
from pbdist.store import BatchWriter, JoinedShard, PartHead, at_once, join_shard, trouble_of
from pbdist.study import Batch, Cell, StudySpec
from pbdist.table import BoundsTable, bounds_table

#: Shards that are joined here at the same time, at most: so many, and of so many bytes together.
_MOST_JOINED, _MOST_BYTES = 8, 1 << 26


@dataclass(frozen=True)
class JoinTask:
    """A shard to join: its number, and the part of the store that it is in."""

    head: PartHead
    shard: int


def run_join(task: JoinTask) -> JoinedShard:
    """Join a shard; errors as of `join_shard`."""
    try:
        return join_shard(task.head, task.shard)
    except OSError:
        # What the next run has removed meanwhile is missing here: that it has taken the store over is the cause.
        task.head.check()
        raise


def join_here(tasks: Sequence[JoinTask], listener: Listener) -> None:
    """Join shards in this process, several small ones at the same time.

    One that cannot be joined is an event, and is left to the next run.
    """

    def join(task: JoinTask) -> None:
        try:
            run_join(task)
        except OSError as error:
            listener(CleanUpFailed(f"batches that were not joined: {one_line(error)}"))

    largest = max((task.head.shard_bytes for task in tasks), default=1)
    for _ in at_once(join, tasks, max(1, min(_MOST_JOINED, _MOST_BYTES // largest))):
        pass


class Joins:
    """Counts the batches that each shard still lacks, and says which shards are to be joined."""

    def __init__(self, left: Iterable[tuple[PartHead, Batch]]) -> None:
        self._heads: dict[str, PartHead] = {}
        self._lacking: dict[tuple[str, int], int] = {}
        #: Shards that are being joined.
        self._open: set[tuple[str, int]] = set()
        for head, batch in left:
            self._heads[head.part] = head
            key = head.part, head.shard_of(batch.index)
            self._lacking[key] = self._lacking.get(key, 0) + 1

    @property
    def open(self) -> bool:
        """Whether some shard is being joined."""
        return bool(self._open)

    def begin(self, task: JoinTask) -> JoinTask:
        """Note that a shard is being joined."""
        self._heads[task.head.part] = task.head
        self._open.add((task.head.part, task.shard))
        return task

    def end(self, task: JoinTask) -> None:
        """Note that a shard is joined, or given up."""
        self._open.discard((task.head.part, task.shard))

    def clear(self) -> None:
        """Give up all that is not joined yet: the next run does it."""
        self._open.clear()

    def written(self, part: str, index: int) -> JoinTask | None:
        """Note that a batch is written; return the task that joins its shard, if nothing of it is left."""
        head = self._heads[part]
        key = part, head.shard_of(index)
        self._lacking[key] -= 1
        return self.begin(JoinTask(head, key[1])) if self._lacking[key] == 0 else None


@dataclass(frozen=True)
class Task:
    """What a worker needs to compute some batches, and no more: the study may have a million cells."""

    #: The part of the store to write to, with the settings of the study.
    head: PartHead
    #: The batches, computed one after the other.
    batches: tuple[Batch, ...]
    #: The cells of each batch.
    cells: tuple[tuple[Cell, ...], ...]
    #: Cells that are not computed, because they kill workers, and the causes; by their numbers in the part.
    refused: Mapping[int, str] = field(default_factory=dict)
    #: A cell of the only batch, computed alone to see whether the worker survives; nothing is written.
    probed: int | None = None


@dataclass(frozen=True)
class CellFailure:
    """A cell that could not be computed: its number, the exception on one line, and its traceback."""

    cell: int
    cause: str
    traceback: str


@dataclass(frozen=True)
class Receipt:
    """A batch is committed: what a worker returns for it."""

    batch: int
    seconds: float
    kernel_seconds: float
    written_bytes: int
    failures: tuple[CellFailure, ...]
    worker: str


def run_any(task: Task | JoinTask, *, pause: float) -> tuple[Receipt | Failure, ...] | JoinedShard:
    """Compute some batches, see `run_task`, or join those of a shard."""
    return run_join(task) if isinstance(task, JoinTask) else run_task(task, pause=pause)


def run_task(task: Task, *, pause: float) -> tuple[Receipt | Failure, ...]:
    """Compute the cells of some batches, write their chunks and commit each of them.

    Guaranteed: the same bytes wherever and however often it runs. A cell that cannot be computed stops no other.
    `pause` is the time between two reports of a cell, see `CellWatch`.

    Returns the result of each batch, in order. The last may be one that failed for a trouble of the store, with which
    no other could be written either.
    """
    with CellWatch(task.head.part, pause) as watch:
        if task.probed is not None:
            _probe(task, task.probed, watch)
            return ()
        found: list[Receipt | Failure] = []
        for item in zip(task.batches, task.cells, strict=True):
            found.append(attempt(partial(_run_batch, task, watch), item))
            if isinstance(found[-1], Failure) and found[-1].trouble is not None:
                break
        return tuple(found)


def cell_bounds(settings: StudySpec, cell: Cell) -> BoundsTable:
    """Return the bounds of a cell with the settings of its study."""
    return bounds_table(
        [(cell.pair, 1)],
        compositions=settings.compositions,
        epsilon=settings.epsilon,
        method=settings.method,
        tolerance=settings.tolerance,
        buckets=settings.buckets,
        factor=cell.factor,
        keep_states=settings.keep_states,
        joint_directions=settings.direction == "both",
        floor=settings.floor,
        accept_unimprovable=True,
        # Bounds that miss the tolerance still hold: they are stored, and reported at the end.
        strict=False,
    )


def fill(
    writer: BatchWriter,
    batch: Batch,
    cells: Sequence[Cell],
    bounds: Callable[[Cell], BoundsTable],
    refused: Mapping[int, str],
    *,
    watch: CellWatch,
) -> tuple[float, tuple[CellFailure, ...]]:
    """Compute the cells of a batch by `bounds` into a writer; return the seconds that it took, and the failures.

    Cells that the writer already has are kept; `refused` ones are written as failed.

    Raises
    ------
    OSError
        The results cannot be written.
    """
    computing, failures = 0.0, []
    for position, cell in enumerate(cells):
        number = batch.start + position
        failure = CellFailure(number, refused[number], "") if number in refused else None
        if failure is None and writer.kept(position):
            writer.keep()
            continue
        if failure is None:
            began = time.perf_counter()
            try:
                with watch.at(batch, number, cell):
                    table = bounds(cell)
                computing += time.perf_counter() - began
            except WorkersLostError:
                raise
            except Exception as error:
                # The cell fails, unless it is a giant one whose blocks could not be written.
                if trouble_of(error) is not None:
                    raise
                failure = CellFailure(number, one_line(error), traceback.format_exc())
        if failure is None:
            try:
                writer.add(table)
            except BatchError as error:
                failure = CellFailure(number, one_line(error), traceback.format_exc())
        if failure is not None:
            failures.append(failure)
            writer.fail(failure.cause)
    return computing, tuple(failures)


def _probe(task: Task, number: int, watch: CellWatch) -> None:
    """Compute a cell without using the result."""
    (batch,), (cells,) = task.batches, task.cells
    cell = cells[number - batch.start]
    # An exception is raised again when its batch is computed.
    with suppress(Exception), watch.at(batch, number, cell):
        cell_bounds(task.head.settings, cell)


def _run_batch(task: Task, watch: CellWatch, item: tuple[Batch, Sequence[Cell]]) -> Receipt:
    batch, cells = item
    began = time.perf_counter()
    writer = BatchWriter(task.head, batch, cells)
    bounds = partial(cell_bounds, task.head.settings)
    computing, failures = fill(writer, batch, cells, bounds, task.refused, watch=watch)
    written = writer.commit()
    return Receipt(batch.index, time.perf_counter() - began, computing, written, failures, worker_name())
