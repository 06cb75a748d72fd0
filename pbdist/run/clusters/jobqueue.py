"""Start workers in jobs of a batch system, through dask-jobqueue: SLURM, PBS, Grid Engine and LSF."""

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import dask
from dask_jobqueue.core import JobQueueCluster
from dask_jobqueue.lsf import LSFJob
from dask_jobqueue.pbs import PBSJob
from dask_jobqueue.sge import SGEJob
from dask_jobqueue.slurm import SLURMJob

from pbdist.errors import InvalidInputError
from pbdist.run.cluster_profile import (
    CertificateFiles,
    JobQueueProfile,
    LsfProfile,
    PbsProfile,
    SgeProfile,
    SlurmProfile,
    TemporaryCertificates,
)
from pbdist.run.clusters.network import (
    WORKER_OPTIONS,
    SharedCertificates,
    dashboard_of,
    own_address,
    scheduler_options,
    security_of,
)
from pbdist.run.clusters.replacement import ReplacedStarted, WorkerGroup, replace_lost
from pbdist.run.clusters.start import WORKER_ENVIRONMENT

#: Memory for the processes that watch over the workers of a job.
_NANNY_BYTES = 256 * 2**20
_LONGEST_TEXT = 300
_STATUS_SECONDS = 30


class _Job(WorkerGroup):
    """A job that notes why it could not be submitted; subclasses also inherit from a job of dask-jobqueue.

    `status_command`, followed by the number of a job, prints its state.
    """

    submit_command: Any
    config_name: Any
    job_id: Any
    status_command: ClassVar[tuple[str, ...]]

    def __init__(self, scheduler: str, *arguments: Any, **options: Any) -> None:
        if options.get("interface") is None:
            python = options.get("python") or shlex.quote(sys.executable)
            options["worker_extra_args"] = [*options["worker_extra_args"], "--host", own_address(scheduler, python)]
        super().__init__(scheduler, *arguments, **options)

    async def begin(self) -> None:
        """Submit the job."""
        try:
            # The next class in the order of resolution is that of dask-jobqueue.
            await super(WorkerGroup, self).start()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            told = str(error).rpartition("stderr:")[2] or str(error)
            self.note(f"{self.submit_command}: {' '.join(told.split())[:_LONGEST_TEXT]}")

    async def ended(self) -> str | None:
        """Ask the batch system whether the job has ended."""
        if self.job_id is None:
            return None
        process = await asyncio.create_subprocess_exec(
            *self.status_command,
            self.job_id,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _STATUS_SECONDS)
        except TimeoutError:
            process.kill()
            return None
        text = output.decode(errors="replace")
        if not self.says_ended(process.returncode or 0, text):
            return None
        return f"job {self.job_id} ended before its workers came"

    @classmethod
    def says_ended(cls, code: int, text: str) -> bool:
        """Return whether the exit code and output of `status_command` prove that the job has ended."""
        raise NotImplementedError


class _SlurmJob(_Job, SLURMJob):
    status_command = ("squeue", "--noheader", "--format=%T", "--states=all", "--jobs")

    @classmethod
    def says_ended(cls, code: int, text: str) -> bool:
        states = "CANCELLED COMPLETED FAILED TIMEOUT NODE_FAIL OUT_OF_MEMORY BOOT_FAIL DEADLINE PREEMPTED REVOKED"
        # The controller forgets a job some minutes after its end.
        return text.strip() in states.split() if code == 0 else "Invalid job id" in text


class _PbsJob(_Job, PBSJob):
    status_command = ("qstat",)

    @classmethod
    def says_ended(cls, code: int, text: str) -> bool:
        return code != 0 and ("Unknown Job" in text or "has finished" in text)


class _SgeJob(_Job, SGEJob):
    status_command = ("qstat", "-j")

    @classmethod
    def says_ended(cls, code: int, text: str) -> bool:
        return code != 0 and "do not exist" in text


class _LsfJob(_Job, LSFJob):
    status_command = ("bjobs", "-noheader", "-o", "stat")

    @classmethod
    def says_ended(cls, code: int, text: str) -> bool:
        return text.strip() in ("DONE", "EXIT") if code == 0 else "is not found" in text


def _job_options(profile: JobQueueProfile) -> tuple[type[_Job], str, dict[str, Any]]:
    """Return the class of the jobs, the batch system's name, and the options that only it has."""
    needed = profile.workers_per_job * profile.memory + _NANNY_BYTES
    mebibytes = -(-needed // 2**20)
    match profile:
        case SlurmProfile():
            return _SlurmJob, "SLURM", {"account": profile.account, "job_mem": f"{mebibytes}M"}
        case PbsProfile():
            select = f"select=1:ncpus={profile.workers_per_job}:mem={mebibytes}mb"
            return _PbsJob, "PBS", {"account": profile.account, "resource_spec": profile.resource_spec or select}
        case SgeProfile():
            return _SgeJob, "Grid Engine", {"project": profile.project, "resource_spec": profile.resource_spec}
        case LsfProfile():
            return _LsfJob, "LSF", {"project": profile.project, "mem": needed, "lsf_units": profile.memory_unit}
    raise TypeError(type(profile))


def job_class(profile: JobQueueProfile) -> type[_Job]:
    """Return the class of a profile's jobs."""
    return _job_options(profile)[0]


def job_queue_cluster(profile: JobQueueProfile, certificates: CertificateFiles | None = None) -> JobQueueCluster:
    """Return a cluster with its scheduler and no job yet; its `job_script` is what would be submitted.

    The `certificates`, without which those of the profile are used, are files that the jobs see under the same path.
    """
    job, _, options = _job_options(profile)
    more = ["--memory-limit", str(profile.memory), *WORKER_OPTIONS]
    if profile.worker_resources:
        more += ["--resources", ",".join(f"{name}={amount:g}" for name, amount in profile.worker_resources.items())]
    configured = dask.config.get(f"jobqueue.{job.config_name}.interface", None)
    interface = profile.scheduler_interface or profile.interface or configured
    if certificates is None and isinstance(profile.security, CertificateFiles):
        certificates = profile.security
    if certificates is not None:
        _check_words(certificates)
    security = security_of(certificates)
    scheduler = scheduler_options(profile, security, None if profile.scheduler_host is not None else interface)
    pinned = [f"export {name}={shlex.quote(value)}" for name, value in WORKER_ENVIRONMENT.items()]
    return JobQueueCluster(
        job_cls=job,  # type: ignore[arg-type]  # the package's annotation means an instance, its code the class
        name="pbdist",
        job_name="pbdist",
        cores=profile.workers_per_job,
        processes=profile.workers_per_job,
        memory=f"{profile.workers_per_job * profile.memory} B",
        queue=profile.queue,
        walltime=profile.walltime,
        interface=profile.interface or configured,
        security=security,
        scheduler_options=scheduler,
        python=None if profile.python is None else shlex.quote(profile.python),
        # After the user's lines, which may load modules that set numbers of threads.
        job_script_prologue=[*profile.prologue, *pinned],
        job_extra_directives=list(profile.directives),
        job_directives_skip=list(profile.skip_directives),
        worker_extra_args=more,
        log_directory=profile.log_directory,
        local_directory=profile.local_directory,
        **options,
    )


class _JobQueueStarted(ReplacedStarted):
    def __init__(
        self, cluster: Any, profile: JobQueueProfile, dashboard: str | None, shared: SharedCertificates | None
    ) -> None:
        jobs = f"{profile.jobs} {_job_options(profile)[1]} job{'' if profile.jobs == 1 else 's'}"
        workers = profile.jobs * profile.workers_per_job
        super().__init__(cluster, profile, workers, jobs, dashboard)
        self._logs, self._shared = profile.log_directory, shared

    def _end(self, *, soon: bool) -> None:
        """End the jobs and the scheduler, and remove what was shared with the jobs."""
        try:
            super()._end(soon=soon)
        finally:
            if self._shared is not None:
                self._shared.remove()

    def awaited(self) -> str:
        numbers = [str(job.job_id) for job in self.cluster.workers.values() if job.job_id is not None]
        return f"{self.where} ({', '.join(numbers)})" if numbers else self.where

    def problems(self) -> Sequence[str]:
        told = [*super().problems()]
        if self._logs is not None:
            told += _last_words(Path(self._logs), [job.job_id for job in self.cluster.workers.values()])
        return told


def _last_words(folder: Path, jobs: Sequence[str | None]) -> list[str]:
    """Return the last line that each job has written, with the name of its file."""
    found = []
    for job in jobs:
        for path in sorted(folder.glob(f"*{job}*")) if job else ():
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []
            last = next((line.strip() for line in reversed(lines) if line.strip()), None)
            if last is not None:
                found.append(f"{path}: {last[:_LONGEST_TEXT]}")
    return found


def start_job_queue(profile: JobQueueProfile) -> ReplacedStarted:
    """Submit the jobs of a profile, and submit those that end again.

    Raises
    ------
    OSError, RuntimeError, ValueError
        The scheduler cannot be started, as where there is no such network interface.
    """
    if profile.log_directory is not None:
        os.makedirs(profile.log_directory, exist_ok=True)
    shared = _shared(profile)
    try:
        cluster = job_queue_cluster(profile, None if shared is None else shared.files)
    except BaseException:
        if shared is not None:
            shared.remove()
        raise
    dashboard = dashboard_of(cluster, profile)
    cluster.scale(jobs=profile.jobs)
    replace_lost(cluster, profile.jobs * profile.workers_per_job)
    return _JobQueueStarted(cluster, profile, dashboard, shared)


def _shared(profile: JobQueueProfile) -> SharedCertificates | None:
    """Return temporary certificates in files that the jobs see; None where the profile wants none."""
    made = security_of(profile.security)
    if made is None or not isinstance(profile.security, TemporaryCertificates):
        return None
    return SharedCertificates(made, profile.security.folder or os.getcwd())


def _check_words(certificates: CertificateFiles) -> None:
    """Refuse paths that the script of a job would have to quote: dask-jobqueue does not."""
    for field, path in asdict(certificates).items():
        if shlex.quote(path) != path:
            raise InvalidInputError(f"security.{field}: expected a path of letters, digits and _-+=./:,@%, got {path}")
