"""The work of one batch, in whatever process it runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pbdist.buckets import bounds_table
from pbdist.errors import StoreMismatchError
from pbdist.store import BatchWriter, open_store
from pbdist.study import Batch

__all__ = ["Failure", "Job", "Outcome", "Receipt", "attempt", "one_line", "run_batch"]


@dataclass(frozen=True)
class Job:
    """What a worker needs to know: the store, which holds the study, and the batch. Small and picklable.

    Attributes
    ----------
    store
        The absolute path of the store, on a file system that the worker sees.
    digest
        The study's digest, so that a worker that sees another store at that path refuses.
    batch
        The batch.
    """

    store: str
    digest: str
    batch: Batch


@dataclass(frozen=True)
class Receipt:
    """What comes back from a worker: that the batch is committed, and what it took."""

    batch: int
    seconds: float
    written_bytes: int


@dataclass(frozen=True)
class Failure:
    """A batch that did not come to its end, and why, on one line."""

    batch: int
    cause: str


Outcome: TypeAlias = Receipt | Failure


def run_batch(job: Job) -> Receipt:
    """Compute the cells of a batch, write its chunks and commit it.

    Guaranteed: the same bytes wherever and however often it runs.

    Raises
    ------
    PbdistError
        The store is not to be found, or is another one.
    """
    began = time.perf_counter()
    stored = open_store(job.store)
    study = stored.study
    if study.digest != job.digest:
        raise StoreMismatchError(f"{job.store}: expected study {job.digest[:12]}, got {study.digest[:12]}")
    writer = BatchWriter(stored, job.batch.index)
    for cell in study.cells[job.batch.start : job.batch.stop]:
        table = bounds_table(
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
        writer.add(table)
    written = writer.commit()
    return Receipt(job.batch.index, time.perf_counter() - began, written)


def attempt(task: Callable[[Job], Receipt], job: Job) -> Outcome:
    """Return what `task` returns, or its exception as a `Failure`: that one batch fails must not stop the others."""
    try:
        return task(job)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is told with the batch's cells at the end
        return Failure(job.batch.index, one_line(error))


def one_line(error: BaseException) -> str:
    """Return the kind and the text of an exception on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
