"""Cluster profiles: the YAML files of ``cluster/`` that describe which workers to start, one class for each kind."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError

from pbdist.study.document import read_document, shown
from pbdist.study.entries import first_problem
from pbdist.study.grids import GridError
from pbdist.study.parameters import custom_error

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

_MOST_WORKERS = 4096
#: A day: to wait longer for a first worker, start the driver in a job.
_MOST_SECONDS = 86_400
_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[kKMGT]i?)B")
_UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"Ki": 2**10, "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_CLOCK_TIME = re.compile(r"([0-9]+-)?[0-9]{1,4}(:[0-9]{2}){1,2}")
_RESOURCE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: A label of DNS, short enough that the operator's suffixes fit.
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def _wrong(expected: str, value: object) -> PydanticCustomError:
    return custom_error(GridError(f"expected {expected}, got {shown(value)}"))


def _count(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_WORKERS:
        raise _wrong(f"an integer from 1 to {_MOST_WORKERS}", value)
    return value


def _count_or_auto(value: Any) -> int | None:
    if value is None or value == "auto":
        return None
    if type(value) is not int or not 1 <= value <= _MOST_WORKERS:
        raise _wrong(f"auto or an integer from 1 to {_MOST_WORKERS}", value)
    return value


def _port(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 65535:
        raise _wrong("a port from 0 to 65535", value)
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= _MOST_SECONDS:
        raise _wrong(f"a number of seconds above 0 and at most {_MOST_SECONDS}", value)
    return float(value)


def _size(value: Any) -> int:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _wrong("a size such as 2GiB", value)
    unit = found["unit"]
    size = int(float(found["number"]) * (_UNITS | _BINARY_UNITS)[unit])
    if size < 2**20:
        raise _wrong("at least 1MiB", value)
    return size


def _text(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value and value.isprintable()):
        raise _wrong("a text on one line", value)
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(x, str) and x and x.isprintable() for x in value):
        raise _wrong("a list of texts of one line each", value)
    return tuple(value)


def _some_texts(value: Any) -> tuple[str, ...]:
    texts = _texts(value)
    if not texts:
        raise _wrong("at least one", value)
    return texts


def _amounts(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise _wrong("a mapping of names to amounts", value)
    for name, amount in value.items():
        if not _RESOURCE_NAME.fullmatch(name):
            raise _wrong("names of letters, digits, - and _", name)
        if type(amount) not in (int, float) or not (amount > 0 and math.isfinite(amount)):
            raise _wrong(f"an amount above 0 of {name}", amount)
    return {name: float(amount) for name, amount in value.items()}


def _variables(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _wrong('a mapping of names to texts (numbers in quotation marks: "1")', value)
    for name in value:
        if not _VARIABLE_NAME.fullmatch(name):
            raise _wrong("names of environment variables", name)
    return dict(value)


def _clock_time(value: Any) -> str | None:
    """Check a time such as ``02:00:00`` or ``1-00:00:00``, as batch systems write it."""
    if value is not None and not (isinstance(value, str) and _CLOCK_TIME.fullmatch(value)):
        raise _wrong("a time such as 02:00:00", value)
    return value


def _kubernetes_name(value: Any) -> str:
    """Check a name that Kubernetes and Dask's operator take."""
    if not isinstance(value, str) or not _KUBERNETES_NAME.fullmatch(value):
        raise _wrong("at most 32 lower-case letters, digits and -", value)
    return value


Count: TypeAlias = Annotated[int, PlainValidator(_count)]
CountOrAuto: TypeAlias = Annotated[int | None, PlainValidator(_count_or_auto)]
Port: TypeAlias = Annotated[int, PlainValidator(_port)]
Seconds: TypeAlias = Annotated[float, PlainValidator(_seconds)]
#: Bytes.
Size: TypeAlias = Annotated[int, PlainValidator(_size)]
Text: TypeAlias = Annotated[str | None, PlainValidator(_text)]
Texts: TypeAlias = Annotated[tuple[str, ...], PlainValidator(_texts)]
SomeTexts: TypeAlias = Annotated[tuple[str, ...], PlainValidator(_some_texts)]
Amounts: TypeAlias = Annotated[dict[str, float], PlainValidator(_amounts)]
Variables: TypeAlias = Annotated[dict[str, str], PlainValidator(_variables)]


class _Profile(BaseModel):
    """What every kind of profile has."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    #: The port of the dashboard on the scheduler's machine; another one if it is in use. 0 for any.
    dashboard_port: Port = 8787
    #: Seconds until the first worker must be there.
    start_timeout: Seconds = 300
    #: Abstract resources that each worker is started with: names and amounts.
    worker_resources: Amounts = {}
    #: Those that each task needs. Workers with less get no task; the run is refused if no worker has as much.
    resources: Amounts = {}


class LocalProfile(_Profile):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    #: None for one on each core that this process may use.
    workers: CountOrAuto = None
    #: 1: the transforms of a cell use a single thread, and two cells at once need twice the memory.
    threads_per_worker: Count = 1
    #: ``auto`` (an equal share of the memory for each worker) or a size such as ``4GiB``.
    memory_limit: str = "auto"
    start_timeout: Seconds = 60


class SshProfile(_Profile):
    """Worker processes on hosts that are reached by SSH; the scheduler runs in the driver's process."""

    kind: Literal["ssh"] = "ssh"
    #: Names or addresses of the hosts, as ``ssh`` takes them; ``~/.ssh/config`` holds for them.
    hosts: SomeTexts
    #: The memory of one worker.
    memory: Size
    workers_per_host: Count = 1
    #: The address of this machine under which the hosts reach it; None for the one that Dask finds.
    scheduler_host: Text = None
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


class JobQueueProfile(_Profile):
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
    walltime: Annotated[str | None, PlainValidator(_clock_time)] = None
    #: The network interfaces that workers and the scheduler listen on, such as ``ib0``; the second where it differs.
    interface: Text = None
    scheduler_interface: Text = None
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
    name: Annotated[str, PlainValidator(_kubernetes_name)] = "pbdist"
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
