"""Where Dask workers come from: this machine, a running scheduler, or the Dask cluster that a file describes."""

import importlib
import inspect
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from typing import Any, Final

import dask
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import Client, LocalCluster, Nanny
from distributed.core import Status
from distributed.deploy.adaptive import Adaptive
from distributed.deploy.spec import SpecCluster
from distributed.worker_memory import parse_memory_limit

from pbdist.errors import InvalidInputError, MissingDependencyError, PbdistError, StudyFileError, shown
from pbdist.run.events import one_line
from pbdist.study.document import Document, read_document
from pbdist.study.fields import check_keys, values_of
from pbdist.suggestions import did_you_mean

#: One thread in each worker process, whatever the shell says. With Dask's own MALLOC_TRIM_THRESHOLD_ the memory of each
#: vector goes back to the system, and comes again for the next.
WORKER_ENVIRONMENT: Mapping[str, str] = {
    **dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(256 * 2**20)),
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
#: How long a start or an end may take that an interrupt cuts short: pods take half a minute to go.
_CLOSE_SECONDS = 30.0
_LONGEST_CAUSE = 300
_SERIAL = "or compute without workers: --serial"
#: More do not start in time.
_MAX_WORKERS_PER_CORE = 8


class RunningScheduler:
    """A scheduler that somebody else runs, by its address or by the path of its scheduler file.

    Certificates for ``tls://`` come from Dask's configuration (``distributed.comm.tls``).
    """

    #: The option that chooses these workers; seconds until the first of them must be there.
    field, start_timeout = "scheduler", 60.0
    #: The memory of a worker thread is not known before there is a client; what to do if it is too small.
    expected_worker_bytes: int | None = None
    more_memory = "start workers with more memory"

    def __init__(self, address_or_file: str | Path) -> None:
        self._given = str(address_or_file)
        self.where = f"scheduler {self._given}"

    @contextmanager
    def connected(self, seconds: float) -> Iterator[Any]:
        """Connect a client, within some seconds; an `InvalidInputError` says why there is none."""
        address = self._address()
        try:
            client: Any = Client(address, timeout=seconds)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            cause = _cause(error)
            hint = ": certificates come from Dask's configuration, distributed.comm.tls" * ("TLS" in cause)
            raise InvalidInputError(f"--scheduler: no scheduler answers at {self._given}: {cause}{hint}") from error
        with client:
            yield client

    def problems(self) -> tuple[Sequence[str], bool]:
        """Return why workers are missing, and whether no more can come."""
        return (), False

    def _address(self) -> str:
        if "://" in self._given:
            return self._given
        try:
            return str(json.loads(Path(self._given).read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            text = f"{self._given} is no address, such as tcp://host:8786, and no scheduler file: {_cause(error)}"
            raise InvalidInputError(f"--scheduler: {text}") from error


def _refused(keys: tuple[str | int, ...], problem: str) -> PbdistError:
    """Return the error of a cluster that no file describes."""
    return InvalidInputError(f"{'.'.join(map(str, keys[1:])) or 'workers'}: {problem}")


class Cluster:
    """A Dask cluster that is started for a run.

    Signals of a terminal or of a batch system reach only this process, which then ends the workers in good order. Lost
    jobs are submitted again.

    `make` is a class of Dask clusters, or a function that returns one, with its keyword arguments `options`. `scale` is
    what ``cluster.scale`` takes, a number of workers or keyword arguments; or `adapt` are those of ``cluster.adapt``.
    The first worker must be there after `start_timeout` seconds. `error` returns the error for a problem with the value
    at some keys, such as ``("options", "queue")``.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        options: Mapping[str, Any],
        *,
        scale: int | Mapping[str, Any] | None = None,
        adapt: Mapping[str, Any] | None = None,
        start_timeout: float = 300.0,
        error: Callable[[tuple[str | int, ...], str], PbdistError] = _refused,
    ) -> None:
        self._make = make
        self._options, self._scale, self._adapt, self._error = dict(options), scale, adapt, error
        self._is_local = make is LocalCluster
        self._cluster: Any = None
        self.start_timeout = start_timeout
        limits = [key for key in ("memory_limit", "memory") if key in options]
        self.more_memory = str(error(("options", *limits[:1]), "raise it")) if limits else "start fewer workers"
        self.where, self.field = ("this machine", "workers") if self._is_local else (make.__name__, "cluster")

    @property
    def expected_worker_bytes(self) -> int | None:
        """The memory that a worker thread will have; None where it is not known before the start."""
        options = self._options
        with suppress(ValueError, TypeError, AttributeError, ZeroDivisionError):
            if self._is_local:
                threads = options.get("threads_per_worker", 1)
                limit = options.get("memory_limit", "auto"), 1, options.get("n_workers") or CPU_COUNT // threads
                memory = parse_memory_limit(*limit, logger=logging.getLogger())
                return None if memory is None else int(memory // threads)
            if {"memory", "cores"} <= options.keys():
                return int(parse_bytes(options["memory"]) // options["cores"])
        return None

    @contextmanager
    def connected(self, seconds: float) -> Iterator[Any]:
        """Start the cluster, without waiting for its workers, connect a client, and end both with the block."""
        if self._is_local:
            _check_main_guard()
            _check_machine()
        with ExitStack() as stack:
            try:
                self._cluster = start_sheltered(self._start, _close)
                stack.callback(_close, self._cluster)
                client = stack.enter_context(Client(self._cluster, timeout=seconds))
            except PbdistError:
                raise
            except Exception as error:  # whatever the client of a batch system raises
                raise self._explained(error) from error
            yield client

    def problems(self) -> tuple[Sequence[str], bool]:
        """Return why jobs could not be submitted, each cause once, and whether no job could be."""
        workers = getattr(self._cluster, "workers", {})
        jobs = list(workers.values()) if isinstance(workers, dict) else []
        causes = [job.problem for job in jobs if getattr(job, "problem", None)]
        numbers = [str(job.job_id) for job in jobs if getattr(job, "job_id", None)]
        logs = self._options.get("log_directory")
        where = [f"jobs {', '.join(numbers)}{f', output in {logs}' if logs else ''}"] if numbers else []
        return [*dict.fromkeys(causes), *where], bool(jobs) and len(causes) == len(jobs)

    def _start(self) -> Any:
        # Of the workers, too, which would say that they are killed.
        options = self._options | ({"silence_logs": logging.CRITICAL} if self._is_local else {})
        jobs = getattr(self._make, "job_cls", None)
        if isinstance(jobs, type):
            options["job_cls"] = _noting(jobs)
        pinned = dask.config.set({"distributed.nanny.pre-spawn-environ": dict(WORKER_ENVIRONMENT)})
        # Nannies would prefer what this process has.
        with warnings.catch_warnings(), _environment(dict.fromkeys(WORKER_ENVIRONMENT)), pinned:
            # The run says where the dashboard is.
            warnings.filterwarnings("ignore", r"Port \d+ is already in use", UserWarning)
            cluster = self._made(options)
        if not _is_cluster(cluster):
            raise self._error(("class",), f"{self.where} gives no Dask cluster, but {shown(cluster)}")
        try:
            self._size(cluster)
        except BaseException:
            _close(cluster)
            raise
        return cluster

    def _made(self, options: Mapping[str, Any]) -> Any:
        if not isinstance(self._make, type):
            return self._make(**options)
        cluster: Any = object.__new__(self._make)
        try:
            cluster.__init__(**options)
        except BaseException:
            # It has cleaned up; Dask would try that again when the interpreter ends.
            cluster.shutdown_on_close = False
            raise
        return cluster

    def _size(self, cluster: Any) -> None:
        """Start workers, and have lost jobs replaced, which Dask forgets."""
        replaced = isinstance(cluster, SpecCluster) and not self._is_local
        adapt = self._adapt
        if self._scale is not None:
            cluster.scale(**self._scale) if isinstance(self._scale, Mapping) else cluster.scale(self._scale)
            if replaced:
                adapt = dict.fromkeys(("minimum", "maximum"), len(cluster.plan))
        elif adapt is None and isinstance(cluster, SpecCluster) and not cluster.plan:
            raise self._error(("scale",), "say how many workers to start, as in scale: {jobs: 4}")
        if adapt is not None:
            cluster.adapt(**({"Adaptive": _Replacing} if replaced else {}), **adapt)

    def _explained(self, error: Exception) -> PbdistError:
        """Return an error that names the option, or the package to install."""
        cause = _cause(error)
        unknown = re.search(r"unexpected keyword argument '(\w+)'", cause)
        if unknown and unknown[1] in self._options:
            # Those of the class, and of its jobs.
            both = (self._make, getattr(self._make, "job_cls", None))
            classes = [each for one in both for each in getattr(one, "__mro__", ())]
            known = {name for one in classes for name in inspect.signature(one.__init__).parameters}
            problem = f"{self._make.__name__} has no such option{did_you_mean(unknown[1], known)}"
            return self._error(("options", unknown[1]), problem)
        if "asyncssh" in cause:
            return MissingDependencyError("cluster: asyncssh is not installed: pip install 'pbdist[ssh]'")
        unread = isinstance(error, ValueError | TypeError)
        advice = f": start fewer workers, {_SERIAL}" if self._is_local and not unread else ""
        named = [key for key, value in self._options.items() if isinstance(value, str) and repr(value) in cause]
        return self._error(("options", *named[:1]), f"{self._make.__name__} does not start: {cause}{advice}")


def local_cluster(workers: int | None = None, memory_limit: str | None = None) -> Cluster:
    """Return worker processes on this machine, one for each core by default, which only this machine can reach.

    Each has an equal share of the memory, or `memory_limit`, such as ``"2GiB"``.
    """
    with socket.socket() as probe:
        in_use = probe.connect_ex(("127.0.0.1", 8787)) == 0
    if workers is not None and workers > (most := _MAX_WORKERS_PER_CORE * CPU_COUNT):
        each = f"{_MAX_WORKERS_PER_CORE} for each core of this machine"
        raise InvalidInputError(f"workers: expected at most {most}, {each}, got {workers}")
    options = {"n_workers": workers or CPU_COUNT, "threads_per_worker": 1, "host": "127.0.0.1"}
    options |= {"dashboard_address": f"127.0.0.1:{0 if in_use else 8787}"}
    options |= {} if memory_limit is None else {"memory_limit": memory_limit}
    return Cluster(LocalCluster, options, start_timeout=60.0)


_KEYS = ("class", "options", "scale", "adapt", "start_timeout")
#: Extras of pbdist, by the package that they install.
_EXTRAS = {"dask_jobqueue": "jobqueue", "dask_kubernetes": "kubernetes"}


def load_cluster(path: str | Path) -> Cluster:
    """Read a cluster file: which Dask cluster to start, with which options and how many workers."""
    return read_document(Path(path), _cluster_of, "cluster")


def _cluster_of(document: Document) -> Cluster:
    data = document.data
    if not isinstance(data, dict):
        raise document.error((), f"expected a mapping with the key class, got {shown(data)}")
    if problems := check_keys(document, values_of(document), _KEYS, ("class",)).found:
        # Another kind of file has many unknown keys: one is enough.
        raise StudyFileError.of(problems[:1])
    for key in ("options", "adapt"):
        if not isinstance(data.get(key, {}), dict):
            document.at(key).refuse(f"expected a mapping, got {shown(data[key])}")
    scale, adapt, timeout = data.get("scale"), data.get("adapt"), data.get("start_timeout", 300)
    if scale is not None and not isinstance(scale, dict) and (type(scale) is not int or scale < 1):
        wanted = "a number of workers, or a mapping such as {jobs: 4}"
        document.at("scale").refuse(f"expected {wanted}, got {shown(scale)}")
    if scale is not None and adapt is not None:
        document.at("adapt").refuse("give either scale or adapt, not both")
    if type(timeout) not in (int, float) or not 0 < timeout < threading.TIMEOUT_MAX:
        document.at("start_timeout").refuse(f"expected a number of seconds above 0, got {shown(timeout)}")
    make, options = _imported(document.at("class")), data.get("options", {})
    return Cluster(make, options, scale=scale, adapt=adapt, start_timeout=float(timeout), error=document.error)


def _imported(document: Document) -> Any:
    """Return the class, or the function, that a document names."""
    name = document.data
    module, _, attribute = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not module:
        document.refuse(f"expected a class such as dask_jobqueue.SLURMCluster, got {shown(name)}")
    before = signal.getsignal(signal.SIGINT)
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise document.error((), f"cannot import {module}: {_cause(error)}") from error
        install = f"'pbdist[{_EXTRAS[package]}]'" if package in _EXTRAS else package.replace("_", "-")
        problem = document.error((), f"there is no module {module} here: pip install {install}")
        raise MissingDependencyError(str(problem)) from error
    except SystemExit:
        raise KeyboardInterrupt from None
    except Exception as error:  # whatever the module does
        raise document.error((), f"cannot import {module}: {_cause(error)}") from error
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            # The import of dask-jobqueue makes Ctrl-C an exit with code 0.
            signal.signal(signal.SIGINT, before)
    found = getattr(imported, attribute, None)
    if found is None:
        raise document.error((), f"{module} has no {attribute}{did_you_mean(attribute, dir(imported))}")
    if not callable(found) or (isinstance(found, type) and not _is_cluster(found)):
        raise document.error((), f"{name} is no class of Dask clusters, as dask_jobqueue.SLURMCluster is")
    return found


def _is_cluster(found: Any) -> bool:
    """Whether something is a cluster, or a class of clusters: dask-gateway's do not inherit from Dask's."""
    return all(callable(getattr(found, name, None)) for name in ("scale", "adapt", "close", "get_client"))


#: By then a worker is back that its nanny restarts, or that was cut off for a moment.
_GONE_SECONDS = 15.0
#: Between two attempts to submit a job.
_RETRY_SECONDS = 30.0


def _noting(jobs: Any) -> Any:
    """Return a class of dask-jobqueue's jobs that note why they could not be submitted: the others go on."""

    class NotingJob(jobs):  # type: ignore[misc]  # of any batch system
        problem: str | None = None
        noted = 0.0

        async def start(self) -> None:
            try:
                await super().start()
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is reported if no worker comes
                said = str(error).rpartition("stderr:")[2] if isinstance(error, RuntimeError) else one_line(error)
                self.problem, self.noted = f"{self.submit_command}: {_short(said or str(error))}", time.monotonic()
                self.status = Status.running

        async def close(self) -> None:
            try:
                await super().close()
            finally:
                # dask-jobqueue leaves the status, and then the end of the cluster fails.
                self.status = Status.closed

    return NotingJob


class _Replacing(Adaptive):
    """Submits jobs again that ended or could not be submitted.

    Dask's own adaptive scaling does so only for jobs of one worker.
    """

    cluster: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: When a worker of a job was last there, by the name of the job.
        self._seen: dict[Any, float] = {}

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Remove lost jobs; Dask then submits the missing ones."""
        now = time.monotonic()
        there = {str(worker.name) for worker in self.cluster.scheduler.workers.values()}
        for name, job in list(self.cluster.workers.items()):
            suffixes = self.cluster.worker_spec.get(name, {}).get("group", ("",))
            if any(f"{name}{suffix}" in there for suffix in suffixes):
                self._seen[name] = now
            ended = now - self._seen.get(name, now) > _GONE_SECONDS
            if ended or (getattr(job, "problem", None) and now - job.noted > _RETRY_SECONDS):
                del self.cluster.workers[name]
                self._seen.pop(name, None)
                await job.close()
        recommended: dict[str, Any] = await super().recommendations(target)
        return recommended


def _close(cluster: Any) -> None:
    """End a cluster; workers of this machine at once, as their results are stored."""
    if isinstance(cluster, LocalCluster):
        # A regular end waits for tasks, and on a busy machine ends in warnings.
        for nanny in [worker for worker in cluster.workers.values() if isinstance(worker, Nanny)]:
            nanny.close_gracefully()  # Says that the worker is not to be started again.
            if nanny.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(nanny.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        cluster.close(timeout=_CLOSE_SECONDS)


#: A terminal or a batch system sends them to all processes at once.
SHELTERED: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def start_sheltered(start: Callable[[], Any], stop: Callable[[Any], object]) -> Any:
    """Return what `start` returns, called in a thread in which signals are blocked, as in all processes that it starts.

    This thread handles signals as before. After an interrupt, what was started is stopped.
    """
    started: Future[Any] = Future()

    def run() -> None:
        try:
            # After Python's tracker of resources has started, which unblocks them.
            _start_tracker()
            signal.pthread_sigmask(signal.SIG_BLOCK, SHELTERED)
            started.set_result(start())
        except BaseException as error:  # noqa: BLE001 -- raised in the thread that waits
            started.set_exception(error)

    thread = threading.Thread(target=run, name="pbdist-start", daemon=True)
    try:
        thread.start()
        return started.result()
    except BaseException:
        wait([started], _CLOSE_SECONDS)
        # At once, or when the start ends after all.
        started.add_done_callback(lambda done: None if done.exception() else stop(done.result()))
        raise


def _start_tracker() -> None:
    """Start Python's tracker of resources, which removes what a killed process leaves behind, without its warning."""
    filters = [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker:UserWarning"]
    with _environment({"PYTHONWARNINGS": ",".join(filter(None, filters))}):
        resource_tracker.ensure_running()


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of the environment, or remove those that are None, until the block is left."""
    before = {name: os.environ.pop(name) for name in variables if name in os.environ}
    try:
        os.environ.update({name: value for name, value in variables.items() if value is not None})
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def _check_main_guard() -> None:
    """Refuse a script that no worker can import, or that each worker would run again."""
    main, method = sys.modules["__main__"], dask.config.get("distributed.worker.multiprocessing-method")
    path = getattr(main, "__file__", None)
    # Python's own way to run a package is not run again.
    if method == "fork" or path is None or getattr(main.__spec__, "name", "").endswith("__main__"):
        return
    serial = "compute without workers: --serial (a SerialExecutor)"
    if not Path(path).is_file():
        raise InvalidInputError(f"workers: they cannot import {path}: write the script to a file, or {serial}")
    if b"__main__" not in Path(path).read_bytes():
        remedy = f'{serial}, or put what it calls below if __name__ == "__main__":'
        raise InvalidInputError(f"workers: each worker would run {path} again: {remedy}")


def _check_machine() -> None:
    """Refuse to start worker processes where they cannot start."""
    try:
        problem = "processes of this machine cannot reach each other at 127.0.0.1: switch its loopback interface on"
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
        problem = "there is no shared memory for processes: mount /dev/shm, or make room (docker run --shm-size=64m)"
        # The first lock would start a tracker that warns.
        _start_tracker()
        get_context("spawn").Lock()
    except OSError as error:
        raise InvalidInputError(f"workers: {problem}, {_SERIAL} ({error.strerror or error})") from error


def _cause(error: BaseException) -> str:
    """Return an error on one line, with the first cause of it."""
    text, root = one_line(error), error
    while root.__cause__ is not None:
        root = root.__cause__
    return _short(text if str(root) in text or not str(root) else f"{text}: {one_line(root)}")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}.."
