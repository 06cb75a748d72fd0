"""What Dask needs so that driver, scheduler and workers accept only connections with a certificate (TLS).

``python -m pbdist.run.clusters.security FOLDER`` makes temporary certificates in a folder inside, and prints its path.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from distributed import Security

from pbdist.errors import MissingDependencyError
from pbdist.run.certificates import CertificateFiles, TemporaryCertificates

#: Names of the files in a folder, by their names in Dask's configuration of a role.
_NAMES = {"ca_file": "ca.pem", "cert": "certificate.pem", "key": "key.pem"}
#: Variables of a process that Dask reads as its configuration; a text of several lines is the content of a file.
_VARIABLES = {
    "ca_file": "DASK_DISTRIBUTED__COMM__TLS__CA_FILE",
    "cert": "DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT",
    "key": "DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY",
}


def security_of(certificates: CertificateFiles | TemporaryCertificates | None) -> Security | None:
    """Return the certificates of all roles: those of files, or new ones in memory; None without any.

    Raises
    ------
    MissingDependencyError
        The package that makes certificates is not installed.
    """
    if certificates is None:
        return None
    if isinstance(certificates, CertificateFiles):
        return _of_files(certificates)
    try:
        made: Security = Security.temporary()
    except ImportError as error:
        raise MissingDependencyError(
            "security.temporary: expected cryptography, got nothing: pip install 'pbdist[tls]'"
        ) from error
    return made


def _of_files(files: CertificateFiles) -> Security:
    roles = ("client", "scheduler", "worker")
    certificates = {f"tls_{role}_cert": files.certificate for role in roles}
    keys = {f"tls_{role}_key": files.key for role in roles}
    return Security(require_encryption=True, tls_ca_file=files.ca, **certificates, **keys)


def worker_variables(security: Security | None) -> Mapping[str, str]:
    """Return variables that hold the certificates themselves, for a worker that sees no file of this machine."""
    if security is None:
        return {}
    found = _contents(security)
    return {
        **{_VARIABLES[name]: text for name, text in found.items()},
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
    }


def _contents(security: Security) -> dict[str, str]:
    configured = security.get_tls_config_for_role("worker")
    texts = {name: configured[name] for name in _NAMES}
    return {
        name: text if "\n" in text else Path(text).read_text(encoding="ascii", errors="replace")
        for name, text in texts.items()
    }


class SharedCertificates:
    """Certificates that were made in memory, as files in a folder that only this user may enter.

    Attributes
    ----------
    folder
        The folder.
    files
        The files.
    """

    def __init__(self, security: Security, shared: str) -> None:
        self.folder = tempfile.mkdtemp(prefix=".pbdist-tls-", dir=shared)
        for name, text in _contents(security).items():
            path = os.path.join(self.folder, _NAMES[name])
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
        self.files = CertificateFiles(*(os.path.join(self.folder, name) for name in _NAMES.values()))

    def remove(self) -> None:
        """Remove the files and the folder; jobs that start later find none."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _main(shared: str) -> None:
    made = security_of(TemporaryCertificates())
    if made is not None:
        print(SharedCertificates(made, shared).folder)


if __name__ == "__main__":
    _main(sys.argv[1])
