"""Start the workers that a profile describes, and wait for the first of them."""

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
from pbdist.run.cluster_profile import JobQueueProfile, KubernetesProfile, LocalProfile, Profile, SshProfile
from pbdist.run.sheltered import start_sheltered

#: One thread for each worker process, whatever the environment says. With Dask's own MALLOC_TRIM_THRESHOLD_ the pages
#: of every vector would be returned to the system, and fetched again for the next.
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
#: How long an interrupted run waits for hosts that cannot be reached.
_STOP_SECONDS = 10.0
_MOST_PROBLEMS = 3


class Started:
    """A cluster that was started for a run; a context manager that ends the workers.

    Attributes
    ----------
    cluster
        What `distributed.Client` takes.
    workers_wanted
        How many workers the profile requests; a batch system decides how many come, and when.
    where
        Where they run, as text: ``this machine``, ``2 SLURM jobs``.
    resources
        What each task is submitted with (``resources=``); None where the profile has none.
    dashboard
        The address of the dashboard, or None.
    start_timeout
        Seconds until the first worker must be there.
    """

    def __init__(
        self, cluster: Any, profile: Profile | JobQueueProfile, workers: int, where: str, dashboard: str | None
    ) -> None:
        self.cluster = cluster
        self.workers_wanted = workers
        self.where = where
        self.dashboard = dashboard
        self.resources: dict[str, float] | None = dict(profile.resources) or None
        self.start_timeout = profile.start_timeout
        self._deadline = time.monotonic() + profile.start_timeout
        self._closed = False

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        return str(self.cluster.scheduler_address)

    def wait(self, client: Any) -> None:
        """Wait until there is a worker with the resources that the tasks need.

        Raises
        ------
        InvalidInputError
            There is none `start_timeout` seconds after the start, or none can come; the text says what was waited for,
            and why it did not come, if that is known.
        """
        if self._closed:
            raise InvalidInputError("cluster: expected one that runs, got one that was closed")
        while not workers_of(client):
            hopeless = self.hopeless()
            if hopeless or time.monotonic() > self._deadline:
                within = "" if hopeless else f" within {self.start_timeout:g} s"
                why = _listed(self.problems())
                raise InvalidInputError(f"cluster: expected a worker from {self.awaited()}{within}, got none{why}")
            time.sleep(_POLL_SECONDS)
        if self.resources:
            wait_for_resources(client, self.resources, self.workers_wanted, self._deadline)

    def problems(self) -> Sequence[str]:
        """Return the known reasons why workers could not be started, one line each."""
        return ()

    def hopeless(self) -> bool:
        """Return whether no worker can come any more."""
        return False

    def awaited(self) -> str:
        """Return where a worker should have come from, for the error that none came."""
        return self.where

    def close(self, *, soon: bool = False) -> None:
        """End the workers and the scheduler, if `soon` without waiting for what they compute; once."""
        if not self._closed:
            self._closed = True
            self._end(soon=soon)

    def _end(self, *, soon: bool) -> None:
        if not soon:
            self.cluster.close()
            return
        with suppress(TimeoutError):
            self.cluster.close(timeout=_STOP_SECONDS)

    def __enter__(self) -> Self:
        """Return the cluster."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the workers; soon if the block ends with an error."""
        self.close(soon=error is not None)


def start_cluster(profile: Profile) -> Started:
    """Request the workers that `profile` describes, and return without waiting for them.

    Raises
    ------
    InvalidInputError
        They cannot be requested; the text says why.
    MissingDependencyError
        The package that talks to this kind of cluster is not installed; the text names the extra.
    """
    try:
        # Imports in this thread: one of the packages can be imported only in the main thread.
        return start_sheltered(_starter(profile), lambda started: started.close(soon=True))
    except PbdistError:
        raise
    except Exception as error:  # whatever the client of a batch system raises
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
    """Return the scheduler's information on each worker, by address."""
    workers: Mapping[str, Mapping[str, Any]] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def wait_for_resources(client: Any, resources: Mapping[str, float], workers: int, deadline: float) -> None:
    """Wait until a worker has the resources of a task; without one the task would wait for ever, silently.

    It ends when `workers` workers are there and none has them, or at the `deadline` of the monotonic clock.

    Raises
    ------
    InvalidInputError
        No worker has them; the text says which resources there are.
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


def _listed(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    more = f" | and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
    return f": {' | '.join(problems[:_MOST_PROBLEMS])}{more}"


def _starter(profile: Profile) -> Callable[[threading.Event], Started]:
    """Return a function that starts the workers, and gives up when its event is set."""
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
    """Import the module of a kind of cluster that needs a package of its own."""
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
    """Keep the process's handler of Ctrl-C, which the import of dask-jobqueue replaces by an exit with code 0."""
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
