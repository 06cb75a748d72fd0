"""Compute items on Dask workers: submit tasks, collect their results, and notice a lost scheduler and stuck workers."""

import logging
import queue
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from distributed import get_worker
from distributed.client import ClosedClientError
from distributed.protocol import pickle
from distributed.scheduler import KilledWorker

from pbdist.errors import InvalidInputError, WorkersLostError
from pbdist.quantities import counted
from pbdist.run.clients import Cluster, RunningScheduler, local_cluster
from pbdist.run.events import Done, Executor, Failure, Notice, Report, Send, attempt, ignore, one_line, reported_by
from pbdist.run.versions import close_unfit, unfit_workers

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Tasks submitted and not yet done, for each worker: enough that none is idle, few enough to hold in memory.
_WINDOW_PER_WORKER = 3
#: Tasks submitted together, and results fetched together, at most: a call costs the same for any number of them.
_MAX_SUBMITTED, _MAX_FETCHED = 64, 256
_CONNECT_SECONDS = 20.0
#: How long there may be no result and no worker that works; the start timeout of a cluster, if that is longer.
_LOST_SECONDS = 300.0
#: How often the workers are looked at while no result comes, and how long one has to live to count as working.
_LOOK_SECONDS, _SETTLED_SECONDS = 10.0, 60.0
#: How long a count of the workers is used: it changes in seconds, tasks are done in milliseconds.
_COUNT_SECONDS = 2.0
#: Results are small: a scheduler that has not sent them by then is gone.
_ANSWER_SECONDS = 60
#: The level of zlib: the fastest, which makes 4,096 cells a tenth of their size.
_COMPRESSION = 1
_MAX_NAMED = 5
_DIED = "the workers that computed it died: "
_LOST = "the connection to the scheduler was lost"
#: One topic for all runs: a scheduler that outlives them keeps the last events of every topic.
TOPIC = "pbdist-cells-at-work"


class DaskExecutor(Executor):
    """Computes items on Dask workers.

    Guaranteed: nothing is computed on a worker with another version of Python, numpy, scipy, zarr, numcodecs or pbdist
    than this process. Such a worker is an error at the start; one that joins later is closed, with a `Notice`.

    `cluster` is started, by default one worker for each core of this machine, or there is a running `scheduler`: its
    address, or the path of its scheduler file. After `lost_seconds` without a result or a worker that works the run
    ends.
    """

    def __init__(
        self, cluster: Cluster | None = None, scheduler: str | Path | None = None, lost_seconds: float = _LOST_SECONDS
    ) -> None:
        self._source = RunningScheduler(scheduler) if scheduler is not None else cluster or local_cluster()
        self._lost_seconds, self.more_memory = lost_seconds, self._source.more_memory
        self._send: Send = ignore
        self._client: Any = None
        self._stack = ExitStack()
        self._threads, self._counted = 1, -_COUNT_SECONDS

    @property
    def workers(self) -> str:
        """The number of workers, and where they run; before the start, where they come from."""
        if self._client is None:
            return f"workers on {self._source.where}"
        count = len(_workers_of(self._client))
        return f"{counted(count, 'worker')} on {self._source.where}"

    @property
    def parallelism(self) -> int:
        """How many tasks the present workers compute at the same time, as counted a moment ago."""
        if time.monotonic() - self._counted >= _COUNT_SECONDS:
            # The totals of all workers, which are cheap for any number of them.
            totals = self._client.scheduler_info(n_workers=0)
            self._threads, self._counted = max(1, int(totals["total_threads"])), time.monotonic()
        return self._threads

    @property
    def dashboard(self) -> str | None:
        """The address of the scheduler's dashboard."""
        return str(self._client.dashboard_link or "") or None

    @property
    def worker_bytes(self) -> int | None:
        """The smallest memory limit of a worker thread, as far as it is known before the workers start."""
        if self._client is None:
            return self._source.expected_worker_bytes
        # Threads of a worker share its memory.
        limits = [
            int(worker["memory_limit"]) // max(1, int(worker.get("nthreads", 1)))
            for worker in _workers_of(self._client).values()
            if worker["memory_limit"]
        ]
        return min(limits, default=None)

    def __enter__(self) -> Self:
        """Start or find the workers; an `InvalidInputError` says why there are none, or which have other versions."""
        # The run reports what goes wrong, in a line.
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with ExitStack() as stack:
            self._client = stack.enter_context(self._source.connected(_CONNECT_SECONDS))
            self._wait_for_worker()
            for worker, problem in unfit_workers(self._client).items():
                raise InvalidInputError(f"{self._source.field}: {problem} on {worker}: install the same there")
            close_unfit(self._client, lambda text: self._send(Notice(text)))
            self._client.subscribe_topic(TOPIC, self._take_report)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        """Close the connection, and the cluster if it was started here."""
        # Connections that are cut while the cluster is closed log errors.
        for name in ("tornado.application", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._stack.__exit__(*error)
        finally:
            self._client, self._counted = None, -_COUNT_SECONDS

    def run(
        self, task: Callable[[Item], Result], items: Iterable[Item], send: Send = ignore
    ) -> Iterator[Done[Item, Result]]:
        """Yield each item with its result as it comes; a bounded number of items is submitted.

        A `WorkersLostError` where the connection to the scheduler is lost, or no worker works for too long.
        """
        # Jobs that take the place of lost ones wait in the queue as the first ones did.
        queued = 0.0 if isinstance(self._source, RunningScheduler) else self._source.start_timeout
        watch = _Watch(self._client, self._source.where, max(self._lost_seconds, queued))
        self._send, waiting, tasks = send, iter(items), _Tasks[Item](self._client, task, watch)
        self._fill(tasks, waiting)
        for done in tasks.done():
            yield done
            self._fill(tasks, waiting)

    def _fill(self, tasks: "_Tasks[Item]", waiting: Iterator[Item]) -> None:
        """Submit items up to the window: several at once, as long as no worker is idle."""
        window = _WINDOW_PER_WORKER * self.parallelism
        least = min(_MAX_SUBMITTED, max(1, window // 8))
        while (room := window - len(tasks)) >= least:
            if not (some := [*islice(waiting, min(room, _MAX_SUBMITTED))]):
                return
            tasks.submit(some)

    def _take_report(self, event: tuple[float, Mapping[str, Any]]) -> None:
        if (message := event[1])["run"] == self._client.id:
            self._send(Report(**message["report"]))

    def _wait_for_worker(self) -> None:
        """Wait for the first worker; the error says why there is none, if that is known."""
        timeout = self._source.start_timeout
        deadline = time.monotonic() + timeout
        while not _workers_of(self._client):
            causes, hopeless = self._source.problems()
            if hopeless or time.monotonic() > deadline:
                within = "" if hopeless else f" within {timeout:g} s"
                why = f": {' | '.join(causes[:_MAX_NAMED])}" if causes else ""
                raise InvalidInputError(f"{self._source.field}: no worker came from {self._source.where}{within}{why}")
            time.sleep(0.2)


def _workers_of(client: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the scheduler's information on each worker, by address."""
    workers: Mapping[str, Mapping[str, Any]] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


class _Watch:
    """Notices that no worker works: there is none, all are paused, or they start again and again."""

    def __init__(self, client: Any, where: str, longest: float) -> None:
        self._client, self._where, self._longest = client, where, longest
        self._settled = min(_SETTLED_SECONDS, longest / 2)
        self._fine = time.monotonic()
        #: When a worker was first seen since then, by its name and its address, which changes with each start.
        self._seen: dict[tuple[str, str], float] = {}

    def result(self) -> None:
        """Note that a result came."""
        self._fine = time.monotonic()
        self._seen.clear()

    def look(self) -> None:
        """Look at the workers while no result comes; the error names them and the likely cause."""
        now, workers = time.monotonic(), _workers_of(self._client)
        first = {address: self._seen.setdefault((str(one["name"]), address), now) for address, one in workers.items()}
        settled = [one for address, one in workers.items() if now - first[address] >= self._settled]
        # A paused worker takes no tasks, but ends those that it computes.
        if any(one["status"] == "running" or one["metrics"].get("executing") for one in settled):
            self.result()
        elif now - self._fine > self._longest:
            raise WorkersLostError(self._problem(workers))

    def _problem(self, workers: Mapping[str, Mapping[str, Any]]) -> str:
        starts = Counter(name for name, _ in self._seen)
        again = [name for name, count in starts.items() if count > 1]
        names = again or [str(worker["name"]) for worker in workers.values()]
        if not names:
            return f"no worker is left on {self._where}, for {self._longest:g} s"
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        return (
            f"no result on {self._where} for {self._longest:g} s: workers {', '.join(names[:_MAX_NAMED])}{more} "
            f"{'start again and again' if again else 'are paused'}, most likely for want of memory: "
            "start fewer workers, or give them more memory"
        )


class _Tasks(Generic[Item]):
    """Items that are computed by Dask workers, and the results of those that are done."""

    def __init__(self, client: Any, task: Callable[[Item], Any], watch: _Watch) -> None:
        self._client, self._task, self._watch = client, task, watch
        self._running: dict[str, tuple[Any, Item]] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __len__(self) -> int:
        """Return how many items are being computed."""
        return len(self._running)

    def submit(self, items: Sequence[Item]) -> None:
        """Have some items computed."""
        # Driver and scheduler remember their last 1,000 messages to every other process, with the items in them.
        packed = [zlib.compress(pickle.dumps(item), _COMPRESSION) for item in items]
        run = str(self._client.id)
        try:
            # Not pure: an earlier result of the same task does not mean that its files exist.
            futures = self._client.map(_attempt_packed, packed, pure=False, task=self._task, run=run)
        except ClosedClientError as error:
            raise WorkersLostError(_LOST) from error
        for future, item in zip(futures, items, strict=True):
            self._running[future.key] = future, item
            future.add_done_callback(self._finished.put)

    def done(self) -> Iterator[Done[Item, Any]]:
        """Yield each item that is done, and its result: what the task returned, or a `Failure`."""
        while self._running:
            futures = [self._one_finished()]
            with suppress(queue.Empty):
                while len(futures) < _MAX_FETCHED:
                    futures.append(self._finished.get_nowait())
            results = self._gathered([future for future in futures if future.status == "finished"])
            for future in futures:
                if future.key in results:
                    (result,) = results[future.key]
                elif future.status == "error":
                    # An exception in a task is a result: this one killed its workers, or was not even begun.
                    error = future.exception(timeout=_ANSWER_SECONDS)
                    killed = isinstance(error, KilledWorker)
                    result = Failure(f"{_DIED * killed}{one_line(error)}", killed=killed)
                elif future.status == "cancelled" or self._client.status != "running":
                    # Not by this process.
                    raise WorkersLostError(_LOST)
                else:
                    # The worker that held the result died before it sent it: it is computed again.
                    future.add_done_callback(self._finished.put)
                    continue
                self._watch.result()
                yield Done(self._running.pop(future.key)[1], result)

    def _one_finished(self) -> Any:
        while True:
            try:
                return self._finished.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._client.status not in ("running", "connecting"):
                    raise WorkersLostError(_LOST) from None
                self._watch.look()

    def _gathered(self, futures: Sequence[Any]) -> Mapping[str, Any]:
        """Return the results of finished tasks by their keys; some are missing if their workers died."""
        named = {future.key: future for future in futures}
        gather = partial(self._client.gather, named, errors="skip", asynchronous=True)
        try:
            found: Mapping[str, Any] = self._client.sync(gather, callback_timeout=_ANSWER_SECONDS)
        except TimeoutError:
            return {}
        except OSError as error:
            raise WorkersLostError(_LOST) from error
        return {key: result for key, result in found.items() if result is not None}


def _attempt_packed(packed: bytes, *, task: Callable[[Item], Result], run: str) -> tuple[Result | Failure]:
    """Attempt a task with an item that is packed, and send its reports to the client `run`.

    The result is in a tuple, so that it is never None.
    """
    item: Item = pickle.loads(zlib.decompress(packed))
    worker = get_worker()
    send: Send = lambda report: worker.log_event(TOPIC, {"run": run, "report": asdict(report)})  # noqa: E731
    with reported_by(send):
        return (attempt(task, item),)
