"""Tasks of the Dask executor, and the gate through which they start."""

import asyncio
import queue
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from distributed import SchedulerPlugin, WorkerPlugin
from distributed.scheduler import KilledWorker

from pbdist.errors import WorkersLostError
from pbdist.run.cell_watch import told_by
from pbdist.run.dask_reports import sender
from pbdist.run.executor import Failure, attempt, one_line
from pbdist.run.versions import Versions, difference, inquiry, own_versions

__all__ = ["CONNECTION_LOST", "DaskTasks", "Gate", "NotRun"]


class Gate:
    """Closes workers that have other versions than this process, as they join, and tells of each.

    Parameters
    ----------
    client
        The client of the scheduler.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._name = f"pbdist-versions-{client.id}"
        self._refused: deque[str] = deque()

    def unfit(self) -> Mapping[str, str]:
        """Return of the workers that are there those with other versions, and what differs."""
        found: Mapping[str, Any] = self._client.run(inquiry(), on_error="return")
        problems = {}
        for worker, versions in found.items():
            if isinstance(versions, OSError):
                continue  # It has just left.
            problem = (
                f"expected an answer, got {one_line(versions)}"
                if isinstance(versions, Exception)
                else difference(own_versions(), versions)
            )
            if problem is not None:
                problems[worker] = problem
        return problems

    def close(self, *, until_client_leaves: bool) -> None:
        """Let no unfit worker in from now on.

        Parameters
        ----------
        until_client_leaves
            Whether the scheduler outlives this client: then it forgets all of this when the client is gone, however
            that ends.
        """
        self._client.subscribe_topic(self._name, self._take_note)
        if until_client_leaves:
            self._client.register_plugin(_leaving(self._name, str(self._client.id)))
        self._client.register_plugin(_gatekeeper(self._name, dict(own_versions())))

    def refuse(self) -> bool:
        """Close the unfit workers that are there all the same; return whether there were any."""
        unfit = self.unfit()
        self._refused.extend(f"worker {worker}: {problem}" for worker, problem in unfit.items())
        if unfit:
            self._client.retire_workers(workers=list(unfit), close_workers=True)
        return bool(unfit)

    def refused(self) -> Sequence[str]:
        """Return of the workers that were refused since the last call which and why, one line each."""
        return [self._refused.popleft() for _ in range(len(self._refused))]

    def _take_note(self, event: tuple[float, Mapping[str, Any]]) -> None:
        worker, versions = event[1]["worker"], event[1]["versions"]
        self._refused.append(f"worker {worker}: {difference(own_versions(), versions)}")


# Both classes are made in functions, so that they are sent as code: to workers that may have no pbdist, and to a
# scheduler that needs none.


def _gatekeeper(topic: str, expected: Versions) -> WorkerPlugin:
    found_here = inquiry()

    class Gatekeeper(WorkerPlugin):
        name = topic

        async def setup(self, worker: Any) -> None:
            # Before a worker that joins reads its first task.
            found = await asyncio.to_thread(found_here)
            if found != expected:
                worker.log_event(topic, {"worker": worker.address, "versions": found})
                await worker.close_gracefully(restart=False, reason="other versions than those of the run")

    return Gatekeeper()


def _leaving(topic: str, of: str) -> SchedulerPlugin:
    class Leaving(SchedulerPlugin):
        name = f"{topic}-leaving"

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == of:
                scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, topic)
                scheduler.loop.add_callback(scheduler.unregister_scheduler_plugin, self.name)

    return Leaving()


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
