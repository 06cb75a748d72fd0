"""Certificates for tests, in files: those of an authority, and whatever is wrong with some."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from pbdist.run.cluster_profile import CertificateFiles


class Authority:
    """Signs certificates, which it writes into a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._ca = folder / f"{name}.pem"
        self._ca.write_bytes(self._signed(self._name, self._key.public_key(), days=9, ca=True))

    def certificate(self, name: str, days: float = 9, password: bytes | None = None) -> CertificateFiles:
        """A certificate that holds for so many days, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        paths = CertificateFiles(str(self._ca), *(str(self._folder / f"{name}-{kind}.pem") for kind in ("cert", "key")))
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        Path(paths.certificate).write_bytes(self._signed(subject, key.public_key(), days))
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
        Path(paths.key).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        Path(paths.key).chmod(0o600)
        return paths

    def trusted_by(self, files: CertificateFiles) -> CertificateFiles:
        """The same certificate for those who trust this authority."""
        return replace(files, ca=str(self._ca))

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: float, *, ca: bool = False) -> bytes:
        begin = datetime.now(UTC) - timedelta(days=20)
        builder = x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(begin).not_valid_after(begin + timedelta(days=20 + days))
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
