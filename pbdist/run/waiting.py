"""Items that wait for a worker, and how long a run waits."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from pbdist.run.dask_tasks import DaskTasks, SchedulerLostError

Item = TypeVar("Item")


class Since:
    """How long a condition has lasted, from the first call of `seconds` on."""

    def __init__(self) -> None:
        self._began: float | None = None

    def seconds(self) -> float:
        """Return how long it has lasted."""
        self._began = self._began or time.monotonic()
        return time.monotonic() - self._began

    def forget(self) -> None:
        """Note that the condition has ended."""
        self._began = None


class Waiting(Iterator[Item]):
    """Items to submit: those in `again` first. Like what it is made from, it may go on after its end."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self.again: deque[Item] = deque()

    def __next__(self) -> Item:
        return self.again.popleft() if self.again else next(self._items)

    def submitted_to(self, tasks: DaskTasks[Item], items: Sequence[Item]) -> None:
        """Submit items that were taken from here; if that fails they are here again."""
        try:
            tasks.submit(items)
        except SchedulerLostError:
            self.again.extend(items)
            raise
