"""Submit tasks to Dask workers, fetch their results, and pass on what they report."""

import queue
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from distributed import get_worker
from distributed.client import ClosedClientError
from distributed.protocol import pickle
from distributed.scheduler import KilledWorker

from pbdist.errors import WorkersLostError
from pbdist.run.events import Failure, Report, Send, attempt, one_line, reported_by
from pbdist.run.versions import Versions, difference, own_versions

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Results are small: a scheduler that has not sent them by then is gone.
_ANSWER_SECONDS = 60
#: How often it is checked that there are workers while no result comes.
_LOOK_SECONDS = 5.0
#: Results that are fetched together, at most: a request costs the same for any number of them.
_MOST_FETCHED = 256
#: The level of zlib: the fastest, which makes 4,096 cells a tenth of their size.
_COMPRESSION = 1
_LOST = "the connection to the scheduler was lost: the same command goes on where this one stopped"


class SchedulerLostError(WorkersLostError):
    """The connection to the scheduler is lost."""

    def __init__(self) -> None:
        super().__init__(_LOST)


@dataclass(frozen=True)
class NotRun:
    """Stands for the result of a task that was not begun, as on a worker with other versions."""

    problem: Failure | None = None


class DaskTasks(Generic[Item]):
    """Items that are computed by Dask workers, and the results of those that are done.

    Each task is submitted with `resources`. `idle` is called again and again while no result comes; it raises where
    none can come.
    """

    def __init__(
        self, client: Any, task: Callable[[Item], Any], resources: Mapping[str, float] | None, idle: Callable[[], None]
    ) -> None:
        self._client, self._task, self._resources, self._idle = client, task, resources, idle
        self._versions = own_versions()
        self._running: dict[str, tuple[Any, Item]] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        #: Results that were fetched and not yet returned.
        self._fetched: deque[tuple[Any, Any]] = deque()

    def __len__(self) -> int:
        """Return how many items have not been returned yet."""
        return len(self._running)

    def submit(self, items: Sequence[Item]) -> None:
        """Have some items computed.

        Raises
        ------
        SchedulerLostError
            The connection to the scheduler is lost.
        """
        # Not pure: an earlier result of the same task does not mean that its files exist.
        # Driver and scheduler keep their last 1,000 messages each to every other process, with the items in them.
        packed = [zlib.compress(pickle.dumps(item), _COMPRESSION) for item in items]
        try:
            futures = self._client.map(
                _attempt_if_fit,
                packed,
                task=self._task,
                expected=self._versions,
                run=str(self._client.id),
                pure=False,
                resources=self._resources,
            )
        except ClosedClientError as error:
            raise SchedulerLostError from error
        for future, item in zip(futures, items, strict=True):
            self._running[future.key] = future, item
            future.add_done_callback(self._finished.put)

    def next(self) -> tuple[Item, Any]:
        """Return an item that is done, and its result: what the task returned, a `Failure` or a `NotRun`.

        Raises
        ------
        SchedulerLostError
            The connection to the scheduler is lost.
        WorkersLostError
            `idle` says that no result can come.
        """
        while not self._fetched:
            self._fetch()
        future, result = self._fetched.popleft()
        _, item = self._running.pop(future.key)
        return item, result

    def items(self) -> list[Item]:
        """Return the items that have not been returned yet."""
        return [item for _, item in self._running.values()]

    def clear(self) -> None:
        """Give up what is not done."""
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
                    raise SchedulerLostError() from None
                # The worker that held the result died before it sent it: it is computed again.
                future.add_done_callback(self._finished.put)
            else:
                self._fetched.append((future, result))

    def _one_finished(self) -> Any:
        while True:
            try:
                return self._finished.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._client.status not in ("running", "connecting"):
                    raise SchedulerLostError() from None
                self._idle()

    def _together(self, futures: Sequence[Any]) -> Mapping[str, Any]:
        """Return the results of finished tasks by their keys; none of them, if they do not all come in time."""
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
            raise SchedulerLostError() from error
        # Results that are missing, for whatever reason, are fetched alone.
        return {key: result for key, (result,) in ((k, r) for k, r in found.items() if r is not None)}

    def _alone(self, future: Any) -> Any:
        """Return the result of a task, or the failure that the scheduler reports.

        Raises
        ------
        TimeoutError
            The result is not there, although the task was done.
        SchedulerLostError
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
                # An exception in a task is a result: this is a task that the worker could not even read.
                return NotRun(Failure(one_line(error)))
        except TimeoutError:
            raise
        except OSError as error:
            raise SchedulerLostError() from error
        # Cancelled, though not by this process.
        raise SchedulerLostError()


def _attempt_if_fit(
    packed: bytes, *, task: Callable[[Item], Result], expected: Versions, run: str
) -> tuple[Result | Failure | NotRun]:
    """Attempt a task with an item that is packed, unless this worker has other versions than the driver.

    Its reports go to the client `run`.

    The result is in a tuple, so that it is never None.
    """
    if difference(expected, own_versions()) is not None:
        return (NotRun(),)
    item: Item = pickle.loads(zlib.decompress(packed))
    with reported_by(_sender(run)):
        return (attempt(task, item),)


#: One topic for all runs: a scheduler that outlives them keeps the last events of every topic.
TOPIC = "pbdist-cells-at-work"
#: Reports that are kept until they are read, at most: the oldest are dropped.
_MOST_WAITING = 10_000


class DaskReports:
    """What the workers report to this client."""

    def __init__(self, client: Any) -> None:
        self._run = str(client.id)
        self._heard: deque[tuple[float, Report]] = deque(maxlen=_MOST_WAITING)
        client.subscribe_topic(TOPIC, self._take)

    def heard(self) -> Sequence[tuple[float, Report]]:
        """Return the reports that came since the last call, and when, by the monotonic clock."""
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def _take(self, event: tuple[float, Mapping[str, Any]]) -> None:
        _, message = event
        if message["run"] == self._run:
            self._heard.append((time.monotonic(), Report(**message["report"])))


def _sender(run: str) -> Send:
    """Return a function that sends reports from this thread's worker to the client `run`."""
    worker = get_worker()
    return lambda report: worker.log_event(TOPIC, {"run": run, "report": asdict(report)})


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
