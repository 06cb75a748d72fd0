"""A real sshd on the loopback interface, with all its files in one folder."""

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.needs import missing
from tests.run.clusters.slurm import daemon, free_ports, wait_for

CONFIGURATION = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AcceptEnv PYTHONPATH
"""


@dataclass(frozen=True)
class SshServer:
    """Options of asyncssh that reach the server."""

    options: dict[str, object]


@contextmanager
def started_sshd(folder: Path) -> Iterator[SshServer]:
    """Start sshd, and end it."""
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if sshd is None or shutil.which("ssh-keygen") is None:
        missing("needs Debian's openssh-server")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (port,) = free_ports(1)
    (folder / "sshd_config").write_text(CONFIGURATION.format(port=port, folder=folder))
    key = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}[localhost]:{port} {key}")
    # Where sshd leaves its privileges, which Debian makes at boot.
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    options: dict[str, object] = {"username": getpass.getuser(), "port": port}
    options |= {"client_keys": [str(folder / "user")], "known_hosts": str(folder / "known_hosts")}
    # Hosts have the code that is tested.
    options["send_env"] = ["PYTHONPATH"]
    with daemon(folder, [sshd, "-D", "-e", "-f", str(folder / "sshd_config")]):
        wait_for(lambda: "Server listening" in (folder / "sshd.output").read_text(), folder)
        yield SshServer(options)
