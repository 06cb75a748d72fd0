"""Starting the workers that a profile describes, and waiting for the first of them."""

import importlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from pbdist.errors import InvalidInputError, MissingDependencyError, PbdistError
from pbdist.run.profile import JobQueueProfile, KubernetesProfile, LocalProfile, Profile, SshProfile
from pbdist.run.sheltered import start_sheltered

__all__ = [
    "WORKER_ENVIRONMENT",
    "ClusterHandle",
    "Started",
    "available_cores",
    "free_port",
    "start_cluster",
    "wait_for_resources",
]

#: One thread for each worker process, whatever the shell of the one who starts it says. Dask's own
#: MALLOC_TRIM_THRESHOLD_ gives every vector's pages back to the system and fetches them again for the next.
WORKER_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
        "MALLOC_MMAP_THRESHOLD_": str(256 * 2**20),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
)
_POLL_SECONDS = 0.2
#: Who has interrupted a run does not wait longer for hosts that are no longer reached.
_STOP_SECONDS = 10.0
_MOST_PROBLEMS = 3


class Started:
    """A cluster object of Dask, and what is known about why its workers do not come.

    Attributes
    ----------
    cluster
        What `distributed.Client` takes.
    workers
        How many workers were asked for.
    where
        Where they are, for a person.
    """

    def __init__(self, cluster: Any, workers: int, where: str) -> None:
        self.cluster = cluster
        self.workers = workers
        self.where = where

    def problems(self) -> Sequence[str]:
        """Return why workers could not be started, as far as that is known, one line each."""
        return ()

    def hopeless(self) -> bool:
        """Return whether nothing is under way from which a worker may still come."""
        return False

    def awaited(self) -> str:
        """Return what a worker is waited for from, for the error that none came."""
        return self.where

    def close(self) -> None:
        """End the workers and the scheduler."""
        self.cluster.close()

    def stop(self) -> None:
        """End them without waiting for what they compute, nor for long: nobody will take their results."""
        with suppress(TimeoutError):
            self.cluster.close(timeout=_STOP_SECONDS)


class ClusterHandle:
    """A cluster that was started for a run; a context manager, whose workers are gone when the block is left.

    Attributes
    ----------
    cluster
        What `distributed.Client` takes.
    workers_wanted
        How many workers the profile asks for: how many come, and when, is the batch system's choice.
    where
        Where they are, for a person: ``this machine``, ``2 SLURM jobs``.
    resources
        What each task is to be submitted with (``resources=``); None where the profile names none.
    start_timeout
        Seconds until the first worker must be there.
    """

    def __init__(self, started: Started, profile: Profile) -> None:
        self._started: Started | None = started
        self.cluster: Any = started.cluster
        self.workers_wanted = started.workers
        self.where = started.where
        self.resources: dict[str, float] | None = dict(profile.resources) or None
        self.start_timeout = profile.start_timeout
        self._deadline = time.monotonic() + profile.start_timeout

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        return str(self.cluster.scheduler_address)

    def wait(self, client: Any) -> None:
        """Wait until there is a worker with the resources that the tasks will ask for.

        Raises
        ------
        InvalidInputError
            There is none `start_timeout` seconds after the start, or none can come; the text says what was waited
            for, and what is known of why it did not come.
        """
        started = self._started
        if started is None:
            raise InvalidInputError("cluster: expected one that runs, got one that was closed")
        while not workers_of(client):
            hopeless = started.hopeless()
            if hopeless or time.monotonic() > self._deadline:
                within = "" if hopeless else f" within {self.start_timeout:g} s"
                raise InvalidInputError(
                    f"cluster: expected a worker from {started.awaited()}{within}, got none{_told(started.problems())}"
                )
            time.sleep(_POLL_SECONDS)
        if self.resources:
            wait_for_resources(client, self.resources, self.workers_wanted, self._deadline)

    def close(self) -> None:
        """End the workers and the scheduler; a second call does nothing."""
        started, self._started = self._started, None
        if started is not None:
            started.close()

    def stop(self) -> None:
        """End them in the middle of what they compute, which nobody waits for any more."""
        started, self._started = self._started, None
        if started is not None:
            started.stop()

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the workers and the scheduler; at once where the block ends before its time."""
        if error is None:
            self.close()
        else:
            self.stop()


def start_cluster(profile: Profile) -> ClusterHandle:
    """Ask for the workers that `profile` describes, and return without waiting for them.

    Raises
    ------
    InvalidInputError
        They cannot be asked for; the text says why.
    MissingDependencyError
        The package that talks to this kind of cluster is not installed; the text names the extra.
    """
    try:
        # Imported in this thread: one of the packages may be imported only in the main one.
        started = start_sheltered(_starter(profile), lambda started: started.stop())
        return ClusterHandle(started, profile)
    except PbdistError:
        raise
    except Exception as error:  # whatever a batch system's client raises, it is the profile that does not start
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        if str(root) not in problem:
            problem = f"{problem}: {' '.join(str(root).split())}"
        raise InvalidInputError(f"cluster: expected a profile that starts, got {problem}") from error


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_of(client: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return what the scheduler knows of each worker, by address."""
    workers: Mapping[str, Mapping[str, Any]] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def wait_for_resources(client: Any, resources: Mapping[str, float], workers: int, deadline: float) -> None:
    """Wait until a worker has the resources: a task that asks for what no worker has waits for ever, silently.

    Parameters
    ----------
    client
        A client of the cluster.
    resources
        Names and amounts that a task asks for.
    workers
        How many workers may come: when that many are there and none has the resources, nothing is waited for.
    deadline
        When to give up, on the monotonic clock.

    Raises
    ------
    InvalidInputError
        No worker has them; the text says which ones are there.
    """
    while True:
        known = workers_of(client)
        offered = [worker.get("resources") or {} for worker in known.values()]
        if any(all(offer.get(name, 0) >= amount for name, amount in resources.items()) for offer in offered):
            return
        if len(known) >= workers or time.monotonic() > deadline:
            wanted = ", ".join(f"{name}: {amount:g}" for name, amount in resources.items())
            kinds = sorted({", ".join(f"{name}: {amount:g}" for name, amount in offer.items()) for offer in offered})
            got = " or ".join(kind or "no resources" for kind in kinds)
            raise InvalidInputError(
                f"resources: expected a worker with {wanted}, got {len(known)} with {got}: a task would wait for ever"
            )
        time.sleep(_POLL_SECONDS)


def free_port(wanted: int, host: str = "127.0.0.1") -> int:
    """Return `wanted`, or 0 for any port where something else listens on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError:
            return 0
    return wanted


def _told(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    more = f" | and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
    return f": {' | '.join(problems[:_MOST_PROBLEMS])}{more}"


def _starter(profile: Profile) -> Callable[[threading.Event], Started]:
    """Return what starts the workers, and gives up when the event is set."""
    match profile:
        case LocalProfile():
            module = importlib.import_module("pbdist.run.clusters.local")
            return lambda given_up: module.start_local(profile, given_up)
        case SshProfile():
            module = _optional("pbdist.run.clusters.ssh", "ssh", "asyncssh")
            return lambda _: module.start_ssh(profile)
        case KubernetesProfile():
            module = _optional("pbdist.run.clusters.kubernetes", "kubernetes", "dask_kubernetes")
            return lambda given_up: module.start_kubernetes(profile, given_up)
        case JobQueueProfile():
            module = _optional("pbdist.run.clusters.jobqueue", "jobqueue", "dask_jobqueue")
            return lambda _: module.start_job_queue(profile)
    raise TypeError(type(profile))


def _optional(module: str, extra: str, package: str) -> Any:
    """Import the module that talks to one kind of cluster, which needs a package of its own."""
    try:
        with _own_interrupts():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingDependencyError(
            f"cluster: expected {package}, got nothing: pip install 'pbdist[{extra}]'"
        ) from error


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep what this process does on Ctrl-C: the import of dask-jobqueue makes it an end with exit code 0."""
    before = signal.getsignal(signal.SIGINT)
    interrupted = False
    try:
        yield
    except SystemExit:
        interrupted = True
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
    if interrupted:
        signal.raise_signal(signal.SIGINT)
        raise KeyboardInterrupt
