"""Certificates with which driver, scheduler and workers know each other (TLS), checked before any work."""

import os
import ssl
import stat
from dataclasses import dataclass, fields
from pathlib import Path

from pbdist.errors import InvalidInputError
from pbdist.input_files import opened_input

_LONGEST_TEXT = 200
#: The most bytes of a file: all authorities of a system take a quarter of one million.
_MOST_BYTES = 1 << 24


@dataclass(frozen=True)
class CertificateFiles:
    """Files in PEM format, with absolute paths: who shows a certificate that `ca` has signed is let in.

    Attributes
    ----------
    ca
        The certificates of those whose signature counts.
    certificate, key
        The own certificate, and its private key, which is not encrypted.
    """

    ca: str
    certificate: str
    key: str


@dataclass(frozen=True)
class TemporaryCertificates:
    """A certificate that is made for one run, and its private key.

    Attributes
    ----------
    folder
        Where a batch system's jobs find the files, in a folder that all nodes see; None for the folder of the run.
    """

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
