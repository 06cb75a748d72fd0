"""Where batches are computed: a small interface, and the implementation that needs nothing but this process."""

import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from pbdist.run.batch import Job, Outcome, Receipt, attempt

__all__ = ["Executor", "SerialExecutor"]


class Executor(Protocol):
    """Computes jobs and yields one outcome for each, in any order.

    A context manager: what it started is gone when the block is left, however it is left.
    """

    @property
    def workers(self) -> str:
        """Where the work is done, for a person."""

    @property
    def dashboard(self) -> str | None:
        """The address of a dashboard, or None."""

    @property
    def worker_bytes(self) -> int | None:
        """The memory that the smallest worker may use, or None where no limit is known."""

    def run(self, task: Callable[[Job], Receipt], jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Submit the jobs in the given order; an exception in a job is a `Failure` and stops no other job."""

    def __enter__(self) -> Self:
        """Start what computes."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop what computes."""


class SerialExecutor:
    """Computes one job after the other in this process: for debugging, and as the oracle of the other executors."""

    workers = "this process"
    dashboard: str | None = None

    @property
    def worker_bytes(self) -> int | None:
        """The memory of this machine."""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def run(self, task: Callable[[Job], Receipt], jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcome of each job in the given order."""
        for job in jobs:
            yield attempt(task, job)

    def __enter__(self) -> Self:
        """Return the executor: there is nothing to start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: there is nothing to stop."""
