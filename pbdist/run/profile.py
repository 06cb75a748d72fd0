"""Cluster profiles: the YAML files of ``cluster/`` that say which workers to start, one class for each kind."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError

from pbdist.run.profile_values import (
    Amounts,
    Count,
    CountOrAuto,
    Port,
    Seconds,
    Size,
    SomeTexts,
    Text,
    Texts,
    Variables,
    clock_time,
    kubernetes_name,
)
from pbdist.study.document import read_document, shown
from pbdist.study.entries import first_problem

__all__ = [
    "JobQueueProfile",
    "KubernetesProfile",
    "LocalProfile",
    "LsfProfile",
    "PbsProfile",
    "Profile",
    "SgeProfile",
    "SlurmProfile",
    "SshProfile",
    "load_profile",
]


class _Profile(BaseModel):
    """What every kind of profile has.

    Attributes
    ----------
    dashboard_port
        The port of the dashboard on the scheduler's machine; another one is taken where it is in use. 0 for any.
    start_timeout
        Seconds until the first worker must be there.
    worker_resources
        The abstract resources that each worker is started with: names and amounts.
    resources
        Those that each task asks a worker for. Workers that have less get no task; where no worker has as much, the
        run is refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dashboard_port: Port = 8787
    start_timeout: Seconds = 300
    worker_resources: Amounts = {}
    resources: Amounts = {}


class LocalProfile(_Profile):
    """Worker processes on this machine.

    Attributes
    ----------
    kind
        ``local``.
    workers
        How many; None for one on each core that this process may use.
    threads_per_worker
        1: the transforms of one cell are a single thread's work, and two cells at once double the memory.
    memory_limit
        ``auto`` (an equal share of the memory for each worker) or a size such as ``4GiB``.
    """

    kind: Literal["local"] = "local"
    workers: CountOrAuto = None
    threads_per_worker: Count = 1
    memory_limit: str = "auto"
    start_timeout: Seconds = 60


class SshProfile(_Profile):
    """Worker processes on hosts that are reached by SSH; the scheduler runs in the driver's process.

    Attributes
    ----------
    kind
        ``ssh``.
    hosts
        Names or addresses of the hosts, as ``ssh`` takes them; ``~/.ssh/config`` holds for them.
    workers_per_host
        How many worker processes on each.
    memory
        The memory of one worker.
    scheduler_host
        The address of this machine under which the hosts reach it; None for the one that Dask finds.
    user, port, key, known_hosts
        The user's name, the port, the file of the private key, and the file of the hosts' keys, where they differ from
        what ``~/.ssh`` says. A host whose key is not known is refused.
    python
        The interpreter on the hosts; None for the path of the one that runs the driver.
    local_directory
        Where workers keep their temporary files.
    """

    kind: Literal["ssh"] = "ssh"
    hosts: SomeTexts
    memory: Size
    workers_per_host: Count = 1
    scheduler_host: Text = None
    user: Text = None
    port: Port | None = None
    key: Text = None
    known_hosts: Text = None
    python: Text = None
    local_directory: Text = None


class JobQueueProfile(_Profile):
    """Worker processes in jobs of a batch system; the scheduler runs in the driver's process.

    What is None here is taken from Dask's own configuration (``~/.config/dask/jobqueue.yaml``), then from the batch
    system.

    Attributes
    ----------
    workers
        How many worker processes in all.
    workers_per_job
        How many of them share a job, with a core each.
    memory
        The memory of one worker. A job asks for a little more, for the processes that watch over them.
    queue, walltime
        The queue, and the time after which a job ends. Jobs that end are submitted again while there is work.
    interface
        The network interface that workers listen on, such as ``ib0``.
    scheduler_interface
        The one that the scheduler listens on, where the name differs.
    python
        The interpreter on the nodes; None for the path of the one that runs the driver.
    prologue
        Lines of shell before the workers start, such as ``module load python``.
    directives
        Further directives of the job, without the prefix.
    skip_directives
        Directives that contain one of these are left out.
    log_directory
        Where the jobs' output goes.
    local_directory
        Where workers keep their temporary files.
    """

    extra: ClassVar[str] = "jobqueue"

    workers: Count
    memory: Size
    workers_per_job: Count = 1
    queue: Text = None
    walltime: Annotated[str | None, PlainValidator(clock_time)] = None
    interface: Text = None
    scheduler_interface: Text = None
    python: Text = None
    prologue: Texts = ()
    directives: Texts = ()
    skip_directives: Texts = ()
    log_directory: Text = None
    local_directory: Text = None

    @property
    def jobs(self) -> int:
        """How many jobs hold the workers."""
        return -(-self.workers // self.workers_per_job)


class SlurmProfile(JobQueueProfile):
    """Jobs of SLURM. `queue` is the partition.

    Attributes
    ----------
    kind
        ``slurm``.
    account
        Whom the time is charged to.
    """

    kind: Literal["slurm"] = "slurm"
    account: Text = None


class PbsProfile(JobQueueProfile):
    """Jobs of PBS Professional or OpenPBS.

    Attributes
    ----------
    kind
        ``pbs``.
    account
        Whom the time is charged to.
    resource_spec
        What follows ``-l``; None for ``select=1`` with the cores and the memory of a job.
    """

    kind: Literal["pbs"] = "pbs"
    account: Text = None
    resource_spec: Text = None


class SgeProfile(JobQueueProfile):
    """Jobs of Grid Engine.

    Attributes
    ----------
    kind
        ``sge``.
    project
        Whom the time is charged to.
    resource_spec
        What follows ``-l``: each site names memory in its own way.
    """

    kind: Literal["sge"] = "sge"
    project: Text = None
    resource_spec: Text = None


class LsfProfile(JobQueueProfile):
    """Jobs of LSF.

    Attributes
    ----------
    kind
        ``lsf``.
    project
        Whom the time is charged to.
    memory_unit
        The unit of ``-M``, as LSF_UNIT_FOR_LIMITS of the site says; None for what its ``lsf.conf`` says, else kB.
    """

    kind: Literal["lsf"] = "lsf"
    project: Text = None
    memory_unit: Literal["kb", "mb", "gb", "tb"] | None = None


class KubernetesProfile(_Profile):
    """Pods that Dask's operator starts; the scheduler runs in a pod of its own.

    Attributes
    ----------
    kind
        ``kubernetes``.
    name
        The name of the cluster, of which a namespace holds one.
    image
        The image of all pods, which has pbdist installed.
    workers
        How many pods with one worker each.
    memory
        The memory of one worker. Its pod asks for a little more.
    scheduler_memory
        The memory of the scheduler's pod.
    namespace
        None for the one of the current context.
    environment
        Variables of all pods, such as AWS_ENDPOINT_URL.
    secrets
        Names of secrets whose keys become variables of the workers, such as the credentials of the object store.
    claim, mount
        The name of a persistent volume claim, and where the workers see it: for a store that is no object store.
    pull_secret
        The name of the secret with which the image is pulled.
    idle_timeout
        Seconds without a task after which the operator removes the cluster, should the driver be lost.
    """

    kind: Literal["kubernetes"] = "kubernetes"
    image: str
    workers: Count
    memory: Size
    name: Annotated[str, PlainValidator(kubernetes_name)] = "pbdist"
    scheduler_memory: Size = 2 * 2**30
    namespace: Text = None
    environment: Variables = {}
    secrets: Texts = ()
    claim: Text = None
    mount: Text = None
    pull_secret: Text = None
    idle_timeout: Seconds = 900


Profile: TypeAlias = LocalProfile | SshProfile | SlurmProfile | PbsProfile | SgeProfile | LsfProfile | KubernetesProfile

_KINDS: dict[str, type[Profile]] = {
    "local": LocalProfile,
    "ssh": SshProfile,
    "slurm": SlurmProfile,
    "pbs": PbsProfile,
    "sge": SgeProfile,
    "lsf": LsfProfile,
    "kubernetes": KubernetesProfile,
}


def load_profile(path: str | Path) -> Profile:
    """Read the cluster profile at `path`.

    Raises
    ------
    StudyFileError
        The file is not YAML, or a key is unknown or has a wrong value; the text names the line.
    """
    document = read_document(Path(path), "cluster")
    data = document.data
    if not isinstance(data, dict):
        raise document.error((), f"expected a mapping with a kind, got {shown(data)}")
    kinds = f"expected one of {', '.join(_KINDS)}"
    if "kind" not in data:
        raise document.error(("kind",), f"{kinds}, got nothing: the key is missing")
    kind = data["kind"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise document.error(("kind",), f"{kinds}, got {shown(kind)}")
    try:
        profile = _KINDS[kind].model_validate(data)
    except ValidationError as error:
        raise document.error(*first_problem(error, _KINDS[kind])) from error
    if isinstance(profile, KubernetesProfile) and (profile.claim is None) != (profile.mount is None):
        missing = "mount" if profile.mount is None else "claim"
        raise document.error((missing,), "expected claim and mount together, got one of them")
    return profile
