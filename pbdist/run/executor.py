"""Compute tasks: the interface of executors, and the executor that uses this process alone."""

import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from pbdist.errors import printable
from pbdist.run.cell_progress import Report, reported_by
from pbdist.run.events import Listener
from pbdist.store import Trouble, trouble_of

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Reports that are kept until they are read, at most: the oldest are dropped.
_MOST_WAITING = 1000


@dataclass(frozen=True)
class Failure:
    """Why a task has no result.

    Attributes
    ----------
    cause
        The exception on one line.
    traceback
        Its traceback; empty where the worker was killed.
    killed
        Whether it killed its workers, again and again.
    errno
        The number of an `OSError`, or None.
    trouble
        The trouble of the whole store that caused it; None where only this task fails.
    """

    cause: str
    traceback: str = ""
    killed: bool = False
    errno: int | None = None
    trouble: Trouble | None = None


@dataclass(frozen=True)
class Done(Generic[Item, Result]):
    """An item and its result, or why there is none."""

    item: Item
    result: Result | Failure


class Executor(Protocol):
    """Computes a task for each of many items, in any order.

    A context manager: what it started is gone when the block is left, in whatever way.
    """

    @property
    def workers(self) -> str:
        """Where tasks are computed, as text."""

    @property
    def parallelism(self) -> int:
        """How many tasks are computed at the same time; at least 1."""

    @property
    def dashboard(self) -> str | None:
        """The address of a dashboard, or None."""

    @property
    def worker_bytes(self) -> int | None:
        """The memory that the smallest worker may use, or None for no known limit."""

    def told_to(self, listener: Listener) -> None:
        """Send events of its own, as that its workers are out of reach, to `listener` from now on."""

    def refused(self) -> Sequence[str]:
        """Return which workers were refused since the last call, and why, one line each."""

    def heard(self) -> Sequence[tuple[float, Report]]:
        """Return the reports of tasks since the last call, and when they came, by the monotonic clock.

        May be called in any thread; reports may be lost.
        """

    def run(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Done[Item, Result]]:
        """Compute the items, which are taken one by one when a worker is free.

        An exception in a task is a `Failure` and stops no other.

        Raises
        ------
        WorkersLostError
            The workers are gone.
        """

    def __enter__(self) -> Self:
        """Start what computes."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop what computes."""


class SerialExecutor:
    """Computes one item after the other in this process: for debugging, and to test the other executors against."""

    dashboard: str | None = None
    parallelism = 1

    def __init__(self, workers: str = "this process") -> None:
        self.workers = workers
        self._heard: deque[tuple[float, Report]] = deque(maxlen=_MOST_WAITING)

    @property
    def worker_bytes(self) -> int | None:
        """The memory of this machine."""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def told_to(self, listener: Listener) -> None:
        """Do nothing: this process has no events of its own."""

    def refused(self) -> Sequence[str]:
        """Return nothing: this process is never refused."""
        return ()

    def heard(self) -> Sequence[tuple[float, Report]]:
        """Return the reports of tasks since the last call."""
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def run(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Done[Item, Result]]:
        """Yield each item with its result, in the given order."""
        for item in items:
            with reported_by(self._take):
                result = attempt(task, item)
            yield Done(item, result)

    def _take(self, report: Report) -> None:
        self._heard.append((time.monotonic(), report))

    def __enter__(self) -> Self:
        """Return the executor: there is nothing to start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: there is nothing to stop."""


def attempt(task: Callable[[Item], Result], item: Item) -> Result | Failure:
    """Return the result of `task`, or its exception as a `Failure`: it must not stop other items."""
    try:
        return task(item)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is reported at the end
        number = error.errno if isinstance(error, OSError) else None
        return Failure(one_line(error), traceback.format_exc(), errno=number, trouble=trouble_of(error))


def one_line(error: BaseException) -> str:
    """Return the kind and the text of an exception on one line."""
    text = " ".join(printable(str(error)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
