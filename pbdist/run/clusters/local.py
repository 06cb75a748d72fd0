"""Start workers on this machine: processes that Dask's nannies in this process start and watch over."""

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import dask
from distributed import LocalCluster, Nanny

from pbdist.run.cluster_profile import LocalProfile
from pbdist.run.clusters.network import dashboard_of, dashboard_options, security_of
from pbdist.run.clusters.start import WORKER_ENVIRONMENT, Started, available_cores

_LOOK_SECONDS = 0.05
#: They log lost workers, even after the cluster is closed.
_NOISY_LOGGERS = ("batched", "comm", "comm.tcp", "core", "nanny", "scheduler", "utils_comm")


def start_local(profile: LocalProfile, given_up: threading.Event) -> Started:
    """Start the workers of a profile, and wait for them until `given_up` is set.

    Raises
    ------
    OSError, RuntimeError, ValueError
        They cannot be started, or the start was given up.
    """
    workers = profile.workers or available_cores()
    configuration = {"distributed.nanny.pre-spawn-environ": dict(WORKER_ENVIRONMENT)}
    nannies: list[Nanny] = []
    scheduler = dict(dashboard_options(profile))
    security = security_of(profile.security)
    with _ended_when(given_up, nannies), _pinned_threads(), dask.config.set(configuration):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=profile.threads_per_worker,
            memory_limit=profile.memory_limit,
            host="127.0.0.1",
            security=security,
            dashboard_address=scheduler.pop("dashboard_address"),
            scheduler_kwargs=scheduler,
            processes=True,
            worker_class=_noted_in(nannies),
            resources=dict(profile.worker_resources) or None,
            preload=["pbdist.run.sheltered"],
        )
    return _LocalStarted(cluster, profile, workers, nannies)


class _LocalStarted(Started):
    def __init__(self, cluster: LocalCluster, profile: LocalProfile, workers: int, nannies: Sequence[Nanny]) -> None:
        super().__init__(cluster, profile, workers, "this machine", dashboard_of(cluster, profile))
        self._nannies = nannies

    def _end(self, *, soon: bool) -> None:
        """End the workers at once: their results are stored, and a regular end takes long on a busy machine."""
        # A regular end waits for tasks, and after four seconds Dask kills the workers with a warning.
        for part in _NOISY_LOGGERS:
            logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)
        for nanny in self._nannies:
            nanny.close_gracefully()  # Says that the worker is not to be started again.
        _kill_workers(self._nannies)
        super()._end(soon=soon)


def _noted_in(nannies: list[Nanny]) -> type[Nanny]:
    """Return a class of nannies that add themselves to the list when they are made."""

    class LocalNanny(Nanny):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            nannies.append(self)

    return LocalNanny


def _kill_workers(nannies: Sequence[Nanny]) -> None:
    for nanny in nannies:
        process = nanny.pid
        if process is not None:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@contextmanager
def _ended_when(given_up: threading.Event, nannies: Sequence[Nanny]) -> Iterator[None]:
    """Kill the workers that are being started when `given_up` is set; their cluster then fails to start."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            if given_up.is_set():
                _kill_workers(list(nannies))

    threading.Thread(target=look, name="pbdist-look", daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def _pinned_threads() -> Iterator[None]:
    """Hide the environment's own numbers of threads, which the nannies would prefer to the configuration."""
    hidden = {name: os.environ.pop(name) for name in WORKER_ENVIRONMENT if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
