"""Compute the cells of a task's batches in a worker, and write and commit each batch."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pbdist.buckets import Work
from pbdist.errors import BatchError, WorkersLostError
from pbdist.run.events import BatchFinished, CellFailed, CellWatch, Failure, attempt, one_line, worker_name
from pbdist.store import BatchWriter, PartHead
from pbdist.study import Batch, Cell, StudySpec
from pbdist.table import BoundsTable, bounds_table


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
class Receipt:
    """A batch is committed: what a worker returns for it, as events."""

    finished: BatchFinished
    failures: tuple[CellFailed, ...]


def cell_bounds(settings: StudySpec, cell: Cell, work: Work | None = None) -> BoundsTable:
    """Return the bounds of a cell with the settings of its study; with privacy buckets, computed by `work`."""
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
        # Bounds that miss the tolerance still hold: they are stored, and reported at the end.
        strict=False,
        work=work,
    )


def run_task(
    task: Task, *, pause: float, bounds: Callable[..., BoundsTable] = cell_bounds
) -> tuple[Receipt | Failure, ...]:
    """Compute the cells of some batches by `bounds`, as `cell_bounds`; write their files and commit each of them.

    Guaranteed: the same bytes wherever and however often it runs. A cell that cannot be computed stops no other.
    `pause` is the time between two reports of a cell, see `CellWatch`.

    Returns the result of each batch, in order. The last may be a failure of the store, or of the blocks of a giant
    cell, with which no other could be written either.
    """
    with CellWatch(task.head.part, pause) as watch:
        if task.probed is not None:
            (batch,), (cells,) = task.batches, task.cells
            cell = cells[task.probed - batch.start]
            # An exception is raised again when its batch is computed.
            with suppress(Exception), watch.at(batch, task.probed, cell):
                cell_bounds(task.head.settings, cell)
            return ()
        found: list[Receipt | Failure] = []
        for item in zip(task.batches, task.cells, strict=True):
            found.append(attempt(partial(_run_batch, task, bounds, watch), item))
            if isinstance(found[-1], Failure) and found[-1].store:
                break
        return tuple(found)


def _run_batch(
    task: Task, bounds: Callable[..., BoundsTable], watch: CellWatch, item: tuple[Batch, Sequence[Cell]]
) -> Receipt:
    """Compute the cells of a batch, and write and commit it; cells that the task refuses are failed ones."""
    batch, cells = item
    part, began, computing, failures = task.head.part, time.perf_counter(), 0.0, list[CellFailed]()
    writer = BatchWriter(task.head, batch.index, cells)

    def fail(number: int, cell: Cell, cause: str, trace: str = "") -> None:
        failures.append(CellFailed(part, number, cell.describe(), cause, trace))
        writer.fail(cause)

    for number, cell in zip(range(batch.start, batch.stop), cells, strict=True):
        if number in task.refused:
            fail(number, cell, task.refused[number])
            continue
        start = time.perf_counter()
        try:
            with watch.at(batch, number, cell):
                table = bounds(task.head.settings, cell)
            computing += time.perf_counter() - start
        except (WorkersLostError, ScratchError):
            raise
        except Exception as error:  # noqa: BLE001 -- this cell fails, and no other
            fail(number, cell, one_line(error), traceback.format_exc())
            continue
        try:
            writer.add(table)
        except BatchError as error:
            fail(number, cell, one_line(error), traceback.format_exc())
    written = writer.commit()
    finished = BatchFinished(
        part=part,
        batch=batch.index,
        first=batch.start,
        stop=batch.stop,
        settings=(cells[0].describe(), cells[-1].describe()),
        seconds=time.perf_counter() - began,
        kernel_seconds=computing,
        projected_seconds=batch.seconds,
        written_bytes=written,
        failed_cells=len(failures),
        worker=worker_name(),
    )
    return Receipt(finished, tuple(failures))


class ScratchError(OSError):
    """The blocks of a giant cell cannot be read or written."""
