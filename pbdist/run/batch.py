"""The work of a task, the cells of some batches, in whatever process it runs."""

import os
import socket
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pbdist.buckets import bounds_table
from pbdist.buckets.table import BoundsTable
from pbdist.errors import BatchError, StoreMismatchError
from pbdist.run.executor import one_line
from pbdist.store import BatchWriter, open_store
from pbdist.study import Batch, Cell, StudySpec

__all__ = ["CellFailure", "Receipt", "Task", "run_task"]


@dataclass(frozen=True)
class Task:
    """What a worker needs to know. Small and picklable.

    Attributes
    ----------
    store
        The absolute path of the store, on a file system that the worker sees.
    digest
        The study's digest, so that a worker that sees another store at that path refuses.
    batches
        The batches, computed one after the other.
    refused
        Cells that are not tried, because they kill the workers, and why.
    probed
        A cell of the only batch that is computed to see whether the worker survives it, and nothing is written.
    """

    store: str
    digest: str
    batches: tuple[Batch, ...]
    refused: Mapping[int, str] = field(default_factory=dict)
    probed: int | None = None


@dataclass(frozen=True)
class CellFailure:
    """A cell that could not be computed: the exception on one line, and its traceback."""

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


def run_task(task: Task) -> tuple[Receipt, ...]:
    """Compute the cells of some batches, write their chunks and commit each of them.

    Guaranteed: the same bytes wherever and however often it runs. A cell that cannot be computed stops no other.

    Raises
    ------
    PbdistError
        The store is not to be found, or is another one.
    OSError
        The results cannot be written.
    """
    if task.probed is not None:
        study = open_store(task.store).study
        with suppress(Exception):  # What it raises is told when its batch is computed.
            _table(study, study.cells[task.probed])
        return ()
    return tuple(_run_batch(task, batch) for batch in task.batches)


def _run_batch(task: Task, batch: Batch) -> Receipt:
    began = time.perf_counter()
    stored = open_store(task.store)
    study = stored.study
    if study.digest != task.digest:
        raise StoreMismatchError(f"{task.store}: expected study {task.digest[:12]}, got {study.digest[:12]}")
    writer = BatchWriter(stored, batch, study.cells[batch.start : batch.stop])
    computing, failures = 0.0, []
    for cell in range(batch.start, batch.stop):
        started = time.perf_counter()
        if cell in task.refused:
            failures.append(CellFailure(cell, task.refused[cell], ""))
            continue
        try:
            table = _table(study, study.cells[cell])
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is told with the cell's parameters
            failures.append(CellFailure(cell, one_line(error), traceback.format_exc()))
            continue
        computing += time.perf_counter() - started
        writer.add(table)
    if failures:
        raise BatchError("; ".join(failure.cause for failure in failures))
    written = writer.commit()
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return Receipt(batch.index, time.perf_counter() - began, computing, written, tuple(failures), worker)


def _table(study: StudySpec, cell: Cell) -> BoundsTable:
    return bounds_table(
        [(cell.pair, 1)],
        compositions=study.compositions,
        epsilon=study.epsilon,
        method=study.method,
        tolerance=study.tolerance,
        buckets=study.buckets,
        factor=cell.factor,
        keep_states=study.keep_states,
        # A tolerance that is not reached is told at the end: what is reached holds, and is stored.
        strict=False,
    )
