"""Items that are on their way through a Dask scheduler: submitted, done, and their results fetched, many at once."""

import queue
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from distributed.scheduler import KilledWorker

from pbdist.errors import WorkersLostError
from pbdist.run.cell_watch import told_by
from pbdist.run.dask_reports import sender
from pbdist.run.executor import Failure, attempt, one_line
from pbdist.run.versions import Versions, difference, own_versions

__all__ = ["CONNECTION_LOST", "DaskTasks", "NotRun"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Results are small: a scheduler that does not hand them over by then is gone.
_ANSWER_SECONDS = 60
#: How often to look whether there still are workers while nothing comes back.
_LOOK_SECONDS = 5.0
#: Results that are fetched together: each question costs the same, whatever number of them it asks for.
_MOST_FETCHED = 256
CONNECTION_LOST = "the connection to the scheduler was lost: the same command goes on where this one stopped"


@dataclass(frozen=True)
class NotRun:
    """What there is instead of a result where a task was not begun, as on a worker of other versions."""

    problem: Failure | None = None


class DaskTasks(Generic[Item]):
    """Items that are computed, and the results of those that are done.

    Parameters
    ----------
    client
        The client of the scheduler.
    task
        What is done with each item.
    resources
        What each task is submitted with.
    idle
        Called again and again while nothing comes back; it raises where nothing can any more.
    """

    def __init__(
        self, client: Any, task: Callable[[Item], Any], resources: Mapping[str, float] | None, idle: Callable[[], None]
    ) -> None:
        self._client, self._task, self._resources, self._idle = client, task, resources, idle
        self._versions = own_versions()
        self._running: dict[str, tuple[Any, Item]] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        #: What was fetched, and is not yet handed out.
        self._fetched: deque[tuple[Any, Any]] = deque()

    def __len__(self) -> int:
        """Return how many items are not yet handed out."""
        return len(self._running)

    def submit(self, items: Sequence[Item]) -> None:
        """Have some items computed."""
        # A task is done when its files are there, not when one of the same name has once returned.
        futures = self._client.map(
            _attempt_if_fit,
            items,
            task=self._task,
            expected=self._versions,
            run=str(self._client.id),
            pure=False,
            resources=self._resources,
        )
        for future, item in zip(futures, items, strict=True):
            self._running[future.key] = future, item
            future.add_done_callback(self._finished.put)

    def next(self) -> tuple[Item, Any]:
        """Return an item that is done, and its result: what the task returned, a `Failure` or a `NotRun`.

        Raises
        ------
        WorkersLostError
            The connection to the scheduler is lost; or `idle` says so.
        """
        while not self._fetched:
            self._fetch()
        future, result = self._fetched.popleft()
        _, item = self._running.pop(future.key)
        return item, result

    def clear(self) -> None:
        """Give up what is not done: nobody waits for it any more."""
        self._running.clear()
        self._fetched.clear()

    def _fetch(self) -> None:
        futures = [self._one_finished()]
        while len(futures) < _MOST_FETCHED:
            try:
                futures.append(self._finished.get_nowait())
            except queue.Empty:
                break
        results = self._together([future for future in futures if future.status == "finished"])
        for future in futures:
            try:
                result = results[future.key] if future.key in results else self._alone(future)
            except TimeoutError:
                if self._client.status != "running":
                    raise WorkersLostError(CONNECTION_LOST) from None
                # The worker that held the result died before it was handed over: it is computed again.
                future.add_done_callback(self._finished.put)
            else:
                self._fetched.append((future, result))

    def _one_finished(self) -> Any:
        while True:
            try:
                return self._finished.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._client.status not in ("running", "connecting"):
                    raise WorkersLostError(CONNECTION_LOST) from None
                self._idle()

    def _together(self, futures: Sequence[Any]) -> Mapping[str, Any]:
        """Return the results of finished tasks by their keys; of none, if they do not all come in time."""
        if len(futures) < 2:
            return {}

        async def gather() -> Mapping[str, Any]:
            found: Mapping[str, Any] = await self._client.gather(
                {future.key: future for future in futures}, errors="skip", asynchronous=True
            )
            return found

        try:
            found: Mapping[str, Any] = self._client.sync(gather, callback_timeout=_ANSWER_SECONDS)
        except TimeoutError:
            return {}
        except OSError as error:
            raise WorkersLostError(CONNECTION_LOST) from error
        # Where there is none, whatever the reason is, it is asked for alone.
        return {key: result for key, (result,) in ((k, r) for k, r in found.items() if r is not None)}

    def _alone(self, future: Any) -> Any:
        """Return the result of a task, or the failure that the scheduler tells.

        Raises
        ------
        TimeoutError
            The result is not there, although the task was done.
        WorkersLostError
            The scheduler is gone.
        """
        if future.status in ("pending", "lost"):
            raise TimeoutError
        try:
            if future.status == "finished":
                (result,) = future.result(timeout=_ANSWER_SECONDS)
                return result
            if future.status == "error":
                error = future.exception(timeout=_ANSWER_SECONDS)
                if isinstance(error, KilledWorker):
                    return Failure(f"the workers that computed it died: {one_line(error)}", killed=True)
                # What a task raises is a result: this is one that the worker could not even read.
                return NotRun(Failure(one_line(error)))
        except TimeoutError:
            raise
        except OSError as error:
            raise WorkersLostError(CONNECTION_LOST) from error
        # Cancelled, which nobody asked for.
        raise WorkersLostError(CONNECTION_LOST)


def _attempt_if_fit(
    item: Item, *, task: Callable[[Item], Result], expected: Versions, run: str
) -> tuple[Result | Failure | NotRun]:
    """Attempt a task, unless this worker has other versions than the driver; in a tuple, which is never None.

    What it reports goes to the client `run`.
    """
    if difference(expected, own_versions()) is not None:
        return (NotRun(),)
    with told_by(sender(run)):
        return (attempt(task, item),)
