"""The driver: finds out what is left of a study, has it computed, and tells what happens."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pbdist.errors import InvalidInputError
from pbdist.run.computing import Computing
from pbdist.run.events import Listener
from pbdist.run.executor import Executor
from pbdist.store import StoredStudy, create_or_open, hold, is_committed, remove_strays, restore_skeleton
from pbdist.study import Plan, StudySpec, plan_study

__all__ = ["run_study"]


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
        Where to compute; it is entered only when nothing else is at `store`, and left before this returns.
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
        Some cells could not be computed; the text names them and the causes. All others are committed.
    """
    plan = plan_study(study)
    path = Path(store).absolute()
    with ExitStack() as workers:
        new = not os.path.lexists(path)
        if new:
            # Workers that do not come up must not leave an empty store behind.
            workers.enter_context(_started(executor, plan))
        with hold(path):
            stored = create_or_open(path, plan)
            if stored.cells_per_batch != plan.cells_per_batch:
                plan = plan_study(study, stored.cells_per_batch)
            if not new:
                restore_skeleton(stored, plan)
            computing = Computing([stored], study, listener)
            left = [(stored, batch) for batch in plan.batches if not is_committed(stored, batch.index)]
            if left:
                if not new:
                    workers.enter_context(_started(executor, plan))
                computing.run(left, executor)
            workers.close()
            remove_strays(stored)
    computing.finish()
    return stored


@contextmanager
def _started(executor: Executor, plan: Plan) -> Iterator[None]:
    """Start the workers, and refuse those that may not use the memory that the plan projects."""
    with executor:
        limit = executor.worker_bytes
        if limit is not None and limit < plan.worker_bytes:
            needed, allowed = plan.worker_bytes / 2**20, limit / 2**20
            raise InvalidInputError(
                f"memory_limit: expected workers that may use {needed:.0f} MiB, got {allowed:.0f} MiB: "
                "start fewer workers or take fewer buckets"
            )
        yield
