"""Cluster profiles: the YAML files of ``cluster/`` that describe which workers to start, one class for each kind."""

import math
import os
import re
import ssl
import stat
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError

from pbdist.errors import InvalidInputError
from pbdist.input_files import opened_input
from pbdist.study.document import Document, read_document, shown
from pbdist.study.grids import GridError
from pbdist.study.models import refuse_invalid
from pbdist.suggestions import did_you_mean

_LONGEST_TEXT = 200
#: The most bytes of a file: all authorities of a system take a quarter of one million.
_MOST_BYTES = 1 << 24


@dataclass(frozen=True)
class CertificateFiles:
    """Files in PEM format, with absolute paths: who shows a certificate that `ca` has signed is let in."""

    #: The certificates of those whose signature counts.
    ca: str
    #: The own certificate, and its private key, which is not encrypted.
    certificate: str
    key: str


@dataclass(frozen=True)
class TemporaryCertificates:
    """A certificate that is made for one run, and its private key."""

    #: Where a batch system's jobs find the files, in a folder that all nodes see; None for the folder of the run.
    folder: str | None = None


class CertificateError(InvalidInputError):
    """What is wrong with `field`, one of the names of `CertificateFiles`: `problem` is ``expected .., got ..``."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem = field, problem


def check_certificates(files: CertificateFiles) -> None:
    """Check that the files can be read and fit together.

    Raises
    ------
    CertificateError
        A file is missing or is none of a kind, others may read the key, it belongs to another certificate, or `ca` has
        not signed the certificate, or it does not hold today.
    """
    for field in fields(files):
        _check_readable(field.name, getattr(files, field.name))
    server, client = (_context(purpose, files) for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH))
    try:
        _shake_hands(server, client)
    except ssl.SSLError as error:
        text = (
            f"expected a certificate that ca has signed and that holds today, got {files.certificate}: {_told(error)}"
        )
        raise CertificateError("certificate", text) from error


def _check_readable(field: str, path: str) -> None:
    try:
        with opened_input(Path(path), _MOST_BYTES) as file:
            found = os.fstat(file.fileno())
    except OSError as error:
        raise CertificateError(field, f"expected a file that can be read, got {path}: {error.strerror}") from error
    if field == "key" and found.st_mode & stat.S_IRWXO:
        raise CertificateError(field, f"expected a file that others may not read, got {path}: chmod 600 {path}")


def _context(purpose: ssl.Purpose, files: CertificateFiles) -> ssl.SSLContext:
    """Return a context as Dask makes them: both sides show certificates, and names of hosts do not count."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if purpose is ssl.Purpose.CLIENT_AUTH else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(cafile=files.ca)
    except ssl.SSLError as error:
        text = f"expected certificates in PEM format, got {files.ca}: {_told(error)}"
        raise CertificateError("ca", text) from error
    try:
        # Without the empty password the terminal would be asked for that of an encrypted key.
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        field = "key" if _has_certificate(files.certificate) else "certificate"
        kind = "the unencrypted private key of the certificate" if field == "key" else "a certificate in PEM format"
        raise CertificateError(field, f"expected {kind}, got {getattr(files, field)}: {_told(error)}") from error
    return context


def _has_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        return False
    return True


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Have both sides of a connection verify each other's certificate, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
    ]
    # Each round moves both sides one message on; a handshake has three.
    for _ in range(8):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
    if sides:
        raise ssl.SSLError("the handshake did not end")


def _told(error: ssl.SSLError) -> str:
    return " ".join(str(getattr(error, "verify_message", "") or error.reason or error).split())[:_LONGEST_TEXT]


_MOST_WORKERS = 4096
#: A day: to wait longer for a first worker, start the driver in a job.
_MOST_SECONDS = 86_400
_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[kKMGT]i?)B")
_UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"Ki": 2**10, "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
#: As batch systems write it: ``02:00:00`` or ``1-00:00:00``.
_CLOCK_TIME = re.compile(r"([0-9]+-)?[0-9]{1,4}(:[0-9]{2}){1,2}")
_RESOURCE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: A name or an address of a machine, without a port.
_ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_MACHINE = "the name or the address of a machine, such as 10.0.0.5"
#: A label of DNS, short enough that the operator's suffixes fit.
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_DNS_LABEL = "at most 32 lower-case letters, digits and -"


def _wrong(expected: str, value: object) -> GridError:
    return GridError(f"expected {expected}, got {shown(value)}")


def _integer(low: int, high: int, expected: str, value: Any) -> int:
    if type(value) is not int or not low <= value <= high:
        raise _wrong(f"{expected} from {low} to {high}", value)
    return value


def _count_or_auto(value: Any) -> int | None:
    return None if value is None or value == "auto" else _integer(1, _MOST_WORKERS, "auto or an integer", value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _wrong("true or false", value)
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


def _matched(form: re.Pattern[str], expected: str, value: Any) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise _wrong(expected, value)
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


Count: TypeAlias = Annotated[int, PlainValidator(partial(_integer, 1, _MOST_WORKERS, "an integer"))]
CountOrAuto: TypeAlias = Annotated[int | None, PlainValidator(_count_or_auto)]
Address: TypeAlias = Annotated[str, PlainValidator(partial(_matched, _ADDRESS, _MACHINE))]
Flag: TypeAlias = Annotated[bool, PlainValidator(_flag)]
Port: TypeAlias = Annotated[int, PlainValidator(partial(_integer, 0, 65535, "a port"))]
Seconds: TypeAlias = Annotated[float, PlainValidator(_seconds)]
#: Bytes.
Size: TypeAlias = Annotated[int, PlainValidator(_size)]
Text: TypeAlias = Annotated[str | None, PlainValidator(_text)]
Texts: TypeAlias = Annotated[tuple[str, ...], PlainValidator(_texts)]
SomeTexts: TypeAlias = Annotated[tuple[str, ...], PlainValidator(_some_texts)]
Amounts: TypeAlias = Annotated[dict[str, float], PlainValidator(_amounts)]
Variables: TypeAlias = Annotated[dict[str, str], PlainValidator(_variables)]
ClockTime: TypeAlias = Annotated[str, PlainValidator(partial(_matched, _CLOCK_TIME, "a time such as 02:00:00"))] | None
KubernetesName: TypeAlias = Annotated[str, PlainValidator(partial(_matched, _KUBERNETES_NAME, _DNS_LABEL))]


Certificates: TypeAlias = CertificateFiles | TemporaryCertificates

#: The keys that name files.
_FILES = ("ca", "certificate", "key")
_WANTED = "temporary: true, or the files ca, certificate and key"


def _certificates(others: tuple[str, ...], value: Any) -> Certificates | None:
    if value is None or isinstance(value, CertificateFiles | TemporaryCertificates):
        return value
    if not isinstance(value, dict) or not value:
        raise _wrong(_WANTED, value)
    for name, found in value.items():
        _check(name, found, (*_FILES, *others))
    if "temporary" in value:
        return _temporary(value)
    return _files(value)


def _check(name: str, found: Any, known: tuple[str, ...]) -> None:
    if name not in known:
        raise GridError(f"expected one of {', '.join(known)}, got {shown(name)}{did_you_mean(name, known)}", (name,))
    if name == "temporary":
        if found is not True:
            raise GridError(f"expected true, got {shown(found)}", (name,))
    elif not isinstance(found, str) or not found or not found.isprintable():
        raise GridError(
            f"expected the path of a {'folder' if name == 'folder' else 'file'}, got {shown(found)}", (name,)
        )


def _temporary(value: dict[str, Any]) -> TemporaryCertificates:
    for name in _FILES:
        if name in value:
            raise GridError("expected temporary certificates or files, got both", (name,))
    if "folder" not in value:
        return TemporaryCertificates()
    folder = _absolute(value["folder"])
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise GridError(f"expected a folder that can be written and that all nodes see, got {folder}", ("folder",))
    return TemporaryCertificates(folder)


def _files(value: dict[str, Any]) -> CertificateFiles:
    for name in _FILES:
        if name not in value:
            raise GridError(f"expected {_WANTED}, got no {name}", (name,))
    if "folder" in value:
        raise GridError("expected it with temporary: true, got files", ("folder",))
    files = CertificateFiles(*(_absolute(value[name]) for name in _FILES))
    try:
        check_certificates(files)
    except CertificateError as error:
        raise GridError(error.problem, (error.field,)) from error
    return files


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


Security: TypeAlias = Annotated[Certificates | None, PlainValidator(partial(_certificates, ("temporary",)))]
#: With the key `folder` too.
JobSecurity: TypeAlias = Annotated[Certificates | None, PlainValidator(partial(_certificates, ("temporary", "folder")))]


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
