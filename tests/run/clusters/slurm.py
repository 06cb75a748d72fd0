"""A real SLURM on the loopback interface: its daemons, with all their files in one folder."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.needs import missing

CONFIGURATION = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "srun")
SECONDS = 60


@dataclass(frozen=True)
class Slurm:
    """A batch system that runs; its commands need `environment`."""

    folder: Path
    environment: dict[str, str]

    def tell(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=SECONDS, check=True
        )
        return done.stdout

    def jobs(self, state: str = "RUNNING") -> list[str]:
        """The numbers of the jobs in a state."""
        return self.tell("squeue", "--noheader", "--format=%i", f"--states={state}").split()

    def wait_until_empty(self) -> None:
        deadline = time.monotonic() + SECONDS
        while self.jobs("PENDING,RUNNING,COMPLETING"):
            assert time.monotonic() < deadline, self.tell("squeue")
            time.sleep(0.2)


@contextmanager
def started_slurm(cpus: int = 4) -> Iterator[Slurm]:
    """Start munged, slurmctld and slurmd, and end them."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking or os.geteuid() != 0:
        missing(f"needs root, and Debian's slurm-wlm and munge (not found: {', '.join(lacking) or 'nothing'})")
    with ExitStack() as stack:
        # Not below pytest's folder, which only its owner may enter: munged runs as another user.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pbdist-slurm-")))
        folder.chmod(0o755)
        yield stack.enter_context(_started(folder, cpus))


@contextmanager
def _started(folder: Path, cpus: int) -> Iterator[Slurm]:
    munge = pwd.getpwnam("munge")
    (folder / "munge").mkdir()
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    (folder / "munge" / "key").chmod(0o400)
    for path in (folder / "munge", folder / "munge" / "key"):
        os.chown(path, munge.pw_uid, munge.pw_gid)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    host = socket.gethostname().partition(".")[0]
    memory = 16 * 1024
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(host=host, folder=folder, ports=free_ports(2), cpus=cpus, memory=memory)
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    with ExitStack() as daemons:
        files = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "seed", "log")]
        daemons.enter_context(
            daemon(
                folder, ["munged", "--foreground", "--force", f"--socket={folder}/munge/socket", *files], user="munge"
            )
        )
        wait_for((folder / "munge" / "socket").exists, folder)
        daemons.enter_context(daemon(folder, ["slurmctld", "-D", "-f", str(configuration)], env=environment))
        daemons.enter_context(daemon(folder, ["slurmd", "-D", "-f", str(configuration)], env=environment))
        slurm = Slurm(folder, environment)
        wait_for(lambda: is_idle(slurm), folder)
        try:
            yield slurm
        finally:
            subprocess.run(["scancel", "--user=root"], env=environment, timeout=SECONDS, check=False)
            slurm.wait_until_empty()


def is_idle(slurm: Slurm) -> bool:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"], env=slurm.environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() == "idle"


@contextmanager
def daemon(folder: Path, command: list[str], **options: object) -> Iterator[None]:
    """Run a daemon in the foreground of a process of its own, and end it."""
    program = shutil.which(command[0])
    assert program is not None
    with (folder / f"{Path(program).name}.output").open("w") as output:
        process = subprocess.Popen(
            [program, *command[1:]], stdout=output, stderr=output, start_new_session=True, **options
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(condition: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        outputs = {path.name: path.read_text()[-2000:] for path in folder.glob("*.output")}
        assert time.monotonic() < deadline, outputs
        time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    with ExitStack() as open_sockets:
        probes = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
