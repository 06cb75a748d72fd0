"""The work of a task, the cells of some batches, in whatever process it runs."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pbdist.errors import BatchError, WorkersLostError
from pbdist.run.cell_watch import CellWatch, worker_name
from pbdist.run.executor import Failure, attempt, one_line
from pbdist.store import BatchWriter, PartHead, trouble_of
from pbdist.study import Batch, Cell, StudySpec
from pbdist.table import BoundsTable, bounds_table

__all__ = ["CellFailure", "Receipt", "Task", "cell_bounds", "fill", "run_task"]


@dataclass(frozen=True)
class Task:
    """What a worker needs to know, and no more: the study may have a million cells.

    Attributes
    ----------
    head
        Which part of which store to write to, and what is computed of each cell.
    batches
        The batches, computed one after the other.
    cells
        The noise settings of each batch.
    refused
        Cells that are not tried, because they kill the workers, and why; by their numbers in the part.
    probed
        A cell of the only batch that is computed to see whether the worker survives it, and nothing is written.
    """

    head: PartHead
    batches: tuple[Batch, ...]
    cells: tuple[tuple[Cell, ...], ...]
    refused: Mapping[int, str] = field(default_factory=dict)
    probed: int | None = None


@dataclass(frozen=True)
class CellFailure:
    """A cell that could not be computed: its number, the exception on one line, and its traceback."""

    cell: int
    cause: str
    traceback: str


@dataclass(frozen=True)
class Receipt:
    """What comes back from a worker for each batch: that it is committed, and what it took."""

    batch: int
    seconds: float
    kernel_seconds: float
    written_bytes: int
    failures: tuple[CellFailure, ...]
    worker: str


def run_task(task: Task, *, pause: float) -> tuple[Receipt | Failure, ...]:
    """Compute the cells of some batches, write their chunks and commit each of them.

    Guaranteed: the same bytes wherever and however often it runs. A cell that cannot be computed stops no other.

    Parameters
    ----------
    task
        The batches.
    pause
        Seconds between two reports of a cell that takes long, see `pbdist.run.cell_watch`.

    Returns
    -------
    tuple of Receipt or Failure
        What became of each batch, in order. It ends with the first one that failed for a trouble of the store, with
        which no other could be written either.
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
    """Return the bounds of a cell, as a study asks for them."""
    return bounds_table(
        [(cell.pair, 1)],
        compositions=settings.compositions,
        epsilon=settings.epsilon,
        method=settings.method,
        tolerance=settings.tolerance,
        buckets=settings.buckets,
        factor=cell.factor,
        keep_states=settings.keep_states,
        together=settings.direction == "both",
        floor=settings.floor,
        excuses=True,
        # A tolerance that is not reached is told at the end: what is reached holds, and is stored.
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
    """Tell a writer what becomes of each cell of a batch; return the seconds of computing, and what has failed.

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
                # Whatever it is, it is told with the cell's parameters; but for blocks of a giant cell that could not
                # be written, which says nothing of the cell.
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
    """Compute a cell, whatever comes of it."""
    (batch,), (cells,) = task.batches, task.cells
    cell = cells[number - batch.start]
    # What it raises is told when its batch is computed.
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
