"""The driver: finds out what is left of a study, has it computed, and tells what happens."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pbdist.errors import BatchError, InvalidInputError
from pbdist.run.batch import Job, Receipt, run_batch
from pbdist.run.events import BatchFailed, BatchFinished, Listener, RunFinished, RunStarted
from pbdist.run.executor import Executor
from pbdist.store import StoredStudy, create_or_open, is_committed, remove_strays
from pbdist.study import Batch, Plan, StudySpec, plan_study

__all__ = ["run_study"]

_CAUSES_TOLD = 5


def run_study(study: StudySpec, store: str | Path, executor: Executor, listener: Listener) -> StoredStudy:
    """Compute what is not yet committed of `study` into `store`, which is created if there is nothing.

    Guaranteed: it can be killed at any moment and called again; what was committed is not computed again unless its
    files have changed, and the finished store is the same as without the interruption.

    Parameters
    ----------
    study
        The study.
    store
        The path of the store.
    executor
        Where to compute; it is entered only when the store is known to be the right one.
    listener
        Called with each event, in this process.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreMismatchError, StoreDamagedError
        Something else is at `store`; it stays as it was.
    InvalidInputError
        The store cannot be created there, another run is writing to it, or a worker may not use the memory that
        the plan projects.
    BatchError
        Some batches failed; the text names their cells and the causes. All others are committed.
    """
    plan = plan_study(study)
    stored = create_or_open(Path(store).absolute(), plan)
    with _only_driver(stored):
        left = [batch for batch in plan.batches if not is_committed(stored, batch.index)]
        failures = _compute(stored, plan, left, executor, listener) if left else {}
        remove_strays(stored)
    batches = {batch.index: batch for batch in plan.batches}
    failed_cells = sum(batches[index].stop - batches[index].start for index in failures)
    listener(RunFinished(len(study.cells), failed_cells))
    if failures:
        raise BatchError(_describe(study, [(batches[index], cause) for index, cause in sorted(failures.items())]))
    return stored


def _compute(
    stored: StoredStudy, plan: Plan, left: list[Batch], executor: Executor, listener: Listener
) -> dict[int, str]:
    """Run the batches and return the causes of those that failed."""
    failures: dict[int, str] = {}
    sizes = {batch.index: batch.stop - batch.start for batch in left}
    jobs = [Job(str(stored.path), stored.study.digest, batch) for batch in left]
    with executor:
        limit = executor.worker_bytes
        if limit is not None and limit < plan.worker_bytes:
            needed, allowed = plan.worker_bytes / 2**20, limit / 2**20
            raise InvalidInputError(
                f"memory_limit: expected workers that may use {needed:.0f} MiB, got {allowed:.0f} MiB: "
                "start fewer workers or take fewer buckets"
            )
        cells = len(plan.study.cells)
        cells_before = cells - sum(sizes.values())
        listener(RunStarted(cells, cells_before, len(left), executor.workers, executor.dashboard))
        for outcome in executor.run(run_batch, jobs):
            size = sizes[outcome.batch]
            if isinstance(outcome, Receipt):
                listener(BatchFinished(outcome.batch, size, outcome.seconds, outcome.written_bytes))
            else:
                failures[outcome.batch] = outcome.cause
                listener(BatchFailed(outcome.batch, size, outcome.cause))
    return failures


@contextmanager
def _only_driver(stored: StoredStudy) -> Iterator[None]:
    """Hold a lock on the store; the system releases it when this process ends, however it ends."""
    descriptor = os.open(stored.path / "zarr.json", os.O_RDWR)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidInputError(f"{stored.path}: expected a store at rest, got one that a run writes to") from error
        yield
    finally:
        os.close(descriptor)


def _describe(study: StudySpec, failures: list[tuple[Batch, str]]) -> str:
    told = [
        "; ".join(cell.describe() for cell in study.cells[batch.start : batch.stop]) + f": {cause}"
        for batch, cause in failures[:_CAUSES_TOLD]
    ]
    more = f" | and {len(failures) - _CAUSES_TOLD} more batches" if len(failures) > _CAUSES_TOLD else ""
    cells = sum(batch.stop - batch.start for batch, _ in failures)
    return f"{cells} of {len(study.cells)} cells could not be computed: {' | '.join(told)}{more}"
