"""The executor that computes on Dask workers: a cluster started here, or a scheduler that is already there."""

import asyncio
import concurrent.futures
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import dask
from distributed import Client, LocalCluster, as_completed

from pbdist.errors import InvalidInputError
from pbdist.run.batch import Failure, Job, Outcome, Receipt, attempt, one_line
from pbdist.run.profile import LocalProfile

__all__ = ["DaskExecutor", "available_cores"]

#: Tasks submitted and not yet done, for each worker: enough that none waits, few enough to hold in memory.
_WINDOW_PER_WORKER = 4
_CONNECT_SECONDS = 20
#: A receipt is small: a scheduler that does not hand it over by then is gone.
_ANSWER_SECONDS = 60
#: Dask's own MALLOC_TRIM_THRESHOLD_ gives every vector's pages back to the system and fetches them again for the next.
_WORKER_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": str(256 * 2**20),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_WORKER_CONFIGURATION = {"distributed.nanny.pre-spawn-environ": _WORKER_ENVIRONMENT}
_WORKER_SECONDS = 60
_NOISY_LOGGERS = tuple(
    f"distributed.{part}" for part in ("client", "comm", "comm.tcp", "core", "batched", "utils_comm")
)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class DaskExecutor:
    """Computes jobs on Dask workers.

    Parameters
    ----------
    profile
        The local cluster to start, unless `scheduler` is given.
    scheduler
        The address of a running scheduler.
    """

    def __init__(self, profile: LocalProfile | None = None, scheduler: str | None = None) -> None:
        self._profile = profile or LocalProfile()
        self._scheduler = scheduler
        self._cluster: Any = None
        self._client: Any = None

    @property
    def workers(self) -> str:
        """The number of workers, and where they are."""
        where = f"scheduler {self._scheduler}" if self._scheduler else "this machine"
        count = len(self._known_workers())
        return f"{count} worker{'' if count == 1 else 's'} on {where}"

    @property
    def dashboard(self) -> str | None:
        """The address of the scheduler's dashboard."""
        address = self._client.dashboard_link
        return str(address) if address else None

    @property
    def worker_bytes(self) -> int | None:
        """The smallest memory limit of the workers."""
        limits = [worker["memory_limit"] for worker in self._known_workers().values()]
        return min((int(limit) for limit in limits if limit), default=None)

    def __enter__(self) -> Self:
        """Start or find the cluster.

        Raises
        ------
        InvalidInputError
            There is no scheduler at the address, it has no workers, or the profile cannot be started.
        """
        try:
            self._connect()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection, and the cluster if it was started here."""
        self._close()

    def run(self, task: Callable[[Job], Receipt], jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield outcomes as they come, with a bounded number of jobs submitted."""
        waiting = iter(jobs)
        batches: dict[Any, int] = {}
        window = _WINDOW_PER_WORKER * max(1, len(self._known_workers()))
        running = as_completed()

        def submit(count: int) -> None:
            for _, job in zip(range(count), waiting, strict=False):
                # A batch is done when its files are there, not when a task of the same name has once returned.
                future = self._client.submit(attempt, task, job, pure=False)
                batches[future.key] = job.batch.index
                running.add(future)

        submit(window)
        for future in running:
            try:
                outcome = _outcome(future, batches[future.key])
                submit(1)
            except (OSError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError):
                # The client has lost its scheduler, and with it all that was submitted.
                left = [*batches.values(), *(job.batch.index for job in waiting)]
                yield from (Failure(batch, "the connection to the scheduler was lost") for batch in left)
                return
            del batches[future.key]
            yield outcome

    def _known_workers(self) -> dict[str, dict[str, Any]]:
        workers: dict[str, dict[str, Any]] = self._client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def _connect(self) -> None:
        if self._scheduler is not None:
            # That the scheduler is lost is told once, by the run; what distributed logs of it says no more.
            for name in ("distributed", *_NOISY_LOGGERS):
                logging.getLogger(name).setLevel(logging.CRITICAL)
            try:
                self._client = Client(self._scheduler, timeout=_CONNECT_SECONDS)
            except (OSError, ValueError, TypeError) as error:
                problem = f"expected the address of a running scheduler, got {self._scheduler!r}: {one_line(error)}"
                raise InvalidInputError(f"--scheduler: {problem}") from error
        else:
            try:
                with _children_ignore_interrupts(), dask.config.set(_WORKER_CONFIGURATION):
                    self._cluster = LocalCluster(
                        n_workers=self._profile.workers or available_cores(),
                        threads_per_worker=self._profile.threads_per_worker,
                        memory_limit=self._profile.memory_limit,
                        dashboard_address=f"127.0.0.1:{_free_port(self._profile.dashboard_port)}",
                        processes=True,
                    )
            except (OSError, ValueError, RuntimeError) as error:
                raise InvalidInputError(f"cluster: expected a profile that starts, got {one_line(error)}") from error
            self._client = Client(self._cluster)
        try:
            self._client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise InvalidInputError(f"cluster: expected a worker within {_WORKER_SECONDS} s, got none") from error

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


@contextmanager
def _children_ignore_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all: the driver stops them in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _outcome(future: Any, batch: int) -> Outcome:
    """Return the outcome of a task; an `OSError`, a time-out or a cancellation says that the scheduler is gone."""
    if future.status == "finished":
        result: Outcome = future.result(timeout=_ANSWER_SECONDS)
        return result
    if future.status == "error":
        return Failure(batch, one_line(future.exception(timeout=_ANSWER_SECONDS)))
    # Cancelled, which nobody asked for.
    raise TimeoutError


def _free_port(wanted: int) -> int:
    """Return `wanted`, or 0 for any port where something else listens on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted
