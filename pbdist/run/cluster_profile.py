"""Cluster profiles: the YAML files of ``cluster/`` that describe which workers to start, one class for each kind."""

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from pbdist.run.profile_fields import (
    Address,
    Amounts,
    ClockTime,
    Count,
    CountOrAuto,
    Flag,
    KubernetesName,
    Port,
    Seconds,
    Size,
    SomeTexts,
    Text,
    Texts,
    Variables,
)
from pbdist.run.security_field import JobSecurity, Security
from pbdist.study.document import Document, read_document, shown
from pbdist.study.refusals import refuse_invalid
from pbdist.suggestions import did_you_mean


class _Profile(BaseModel):
    """What every kind of profile has."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    #: Seconds until the first worker must be there.
    start_timeout: Seconds = 300
    #: Abstract resources that each worker is started with: names and amounts.
    worker_resources: Amounts = {}
    #: Those that each task needs. Workers with less get no task; the run is refused if no worker has as much.
    resources: Amounts = {}


class _OwnScheduler(_Profile):
    """What kinds have whose scheduler runs in the driver's process."""

    #: Whether scheduler and workers accept only connections with a certificate, and which.
    security: Security = None
    #: Whether there is a dashboard.
    dashboard: Flag = True
    #: The address of this machine that the dashboard listens on, and its port; another port if it is in use, 0 for any.
    dashboard_host: Address = "127.0.0.1"
    dashboard_port: Port = 8787


class LocalProfile(_OwnScheduler):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    #: None for one on each core that this process may use.
    workers: CountOrAuto = None
    #: 1: the transforms of a cell use a single thread, and two cells at once need twice the memory.
    threads_per_worker: Count = 1
    #: ``auto`` (an equal share of the memory for each worker) or a size such as ``4GiB``.
    memory_limit: str = "auto"
    start_timeout: Seconds = 60


class SshProfile(_OwnScheduler):
    """Worker processes on hosts that are reached by SSH; the scheduler runs in the driver's process."""

    kind: Literal["ssh"] = "ssh"
    #: Names or addresses of the hosts, as ``ssh`` takes them; ``~/.ssh/config`` holds for them.
    hosts: SomeTexts
    #: The memory of one worker.
    memory: Size
    workers_per_host: Count = 1
    #: The network interface that workers listen on, such as ``ib0``; None for the address from which a host reaches the
    #: scheduler.
    interface: Text = None
    #: The address or the network interface of this machine that the scheduler listens on, and under which the hosts
    #: reach it; None for the address from which other networks are reached.
    scheduler_host: Address | None = None
    scheduler_interface: Text = None
    #: The user's name, the port, the files of the private key and of the hosts' keys, where they differ from what
    #: ``~/.ssh`` says. A host whose key is not known is refused.
    user: Text = None
    port: Port | None = None
    key: Text = None
    known_hosts: Text = None
    #: The interpreter on the hosts; None for the path of the driver's interpreter.
    python: Text = None
    #: Where workers keep their temporary files.
    local_directory: Text = None


class JobQueueProfile(_OwnScheduler):
    """Worker processes in jobs of a batch system; the scheduler runs in the driver's process.

    Values that are None are taken from Dask's configuration (``~/.config/dask/jobqueue.yaml``), then from the batch
    system.
    """

    #: How many worker processes in all.
    workers: Count
    #: The memory of one worker. A job asks for a little more, for the processes that watch over its workers.
    memory: Size
    #: How many workers share a job, with a core each.
    workers_per_job: Count = 1
    queue: Text = None
    #: The time after which a job ends. Jobs that end are submitted again while there is work.
    walltime: ClockTime = None
    security: JobSecurity = None
    #: The network interface that workers listen on, such as ``ib0``; None for the address from which a node reaches the
    #: scheduler.
    interface: Text = None
    #: The network interface or the address that the scheduler listens on; None for `interface`, and without it for the
    #: address from which other networks are reached.
    scheduler_interface: Text = None
    scheduler_host: Address | None = None
    #: The interpreter on the nodes; None for the path of the driver's interpreter.
    python: Text = None
    #: Lines of shell before the workers start, such as ``module load python``.
    prologue: Texts = ()
    #: Further directives of the job, without the prefix.
    directives: Texts = ()
    #: Directives that contain one of these texts are left out.
    skip_directives: Texts = ()
    #: Where the output of the jobs goes.
    log_directory: Text = None
    #: Where workers keep their temporary files.
    local_directory: Text = None

    @property
    def jobs(self) -> int:
        """How many jobs hold the workers."""
        return -(-self.workers // self.workers_per_job)


class SlurmProfile(JobQueueProfile):
    """Jobs of SLURM. `queue` is the partition; the time is charged to `account`."""

    kind: Literal["slurm"] = "slurm"
    account: Text = None


class PbsProfile(JobQueueProfile):
    """Jobs of PBS Professional or OpenPBS. The time is charged to `account`."""

    kind: Literal["pbs"] = "pbs"
    account: Text = None
    #: What follows ``-l``; None for ``select=1`` with the cores and the memory of a job.
    resource_spec: Text = None


class SgeProfile(JobQueueProfile):
    """Jobs of Grid Engine. The time is charged to `project`."""

    kind: Literal["sge"] = "sge"
    project: Text = None
    #: What follows ``-l``: each site names memory in its own way.
    resource_spec: Text = None


class LsfProfile(JobQueueProfile):
    """Jobs of LSF. The time is charged to `project`."""

    kind: Literal["lsf"] = "lsf"
    project: Text = None
    #: The unit of ``-M``, LSF_UNIT_FOR_LIMITS of the site; None for that of its ``lsf.conf``, or kB.
    memory_unit: Literal["kb", "mb", "gb", "tb"] | None = None


class KubernetesProfile(_Profile):
    """Pods that Dask's operator starts; the scheduler runs in a pod of its own."""

    kind: Literal["kubernetes"] = "kubernetes"
    #: The image of all pods, which has pbdist installed.
    image: str
    #: How many pods with one worker each.
    workers: Count
    #: The memory of one worker. Its pod asks for a little more.
    memory: Size
    #: The name of the cluster; a namespace holds one of that name.
    name: KubernetesName = "pbdist"
    #: The memory of the scheduler's pod.
    scheduler_memory: Size = 2 * 2**30
    #: None for that of the current context.
    namespace: Text = None
    #: Variables of all pods, such as AWS_ENDPOINT_URL.
    environment: Variables = {}
    #: Names of secrets whose keys become variables of the workers, such as the credentials of the object store.
    secrets: Texts = ()
    #: The name of a persistent volume claim, and where the workers see it: for a store that is no object store.
    claim: Text = None
    mount: Text = None
    #: The name of the secret with which the image is pulled.
    pull_secret: Text = None
    #: Seconds without a task after which the operator removes the cluster, if the driver is lost.
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
    return read_document(Path(path), _profile, "cluster")


def _profile(document: Document) -> Profile:
    data = document.data
    if not isinstance(data, dict):
        raise document.error((), f"expected a mapping with a kind, got {shown(data)}")
    kinds = f"expected one of {', '.join(_KINDS)}"
    if "kind" not in data:
        raise document.error(("kind",), f"{kinds}, got nothing: the key is missing")
    kind = data["kind"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise document.error(("kind",), f"{kinds}, got {shown(kind)}{did_you_mean(kind, _KINDS)}")
    if kind == "kubernetes" and "security" in data:
        text = "expected none: Dask's operator starts scheduler and workers without TLS, see README-kubernetes.md"
        raise document.error(("security",), text)
    try:
        profile = _KINDS[kind].model_validate(data)
    except ValidationError as error:
        refuse_invalid(document, error, _KINDS[kind])
    if (
        getattr(profile, "scheduler_host", None) is not None
        and getattr(profile, "scheduler_interface", None) is not None
    ):
        raise document.error(("scheduler_interface",), "expected scheduler_host or scheduler_interface, got both")
    if isinstance(profile, KubernetesProfile) and (profile.claim is None) != (profile.mount is None):
        missing = "mount" if profile.mount is None else "claim"
        raise document.error((missing,), "expected claim and mount together, got one of them")
    return profile
