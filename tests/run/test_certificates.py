"""Certificates of profiles and of the command line: what is wrong with them is told before any work."""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from pbdist.errors import StudyFileError
from pbdist.run.cluster_profile import (
    CertificateError,
    CertificateFiles,
    JobQueueProfile,
    LocalProfile,
    TemporaryCertificates,
    check_certificates,
    load_profile,
)
from tests.run.certificates import Authority
from tests.studies import write_study


@pytest.fixture
def good(tmp_path: Path) -> CertificateFiles:
    return Authority(tmp_path).certificate("mine")


def test_files_that_fit_together(good: CertificateFiles) -> None:
    check_certificates(good)


def expired(folder: Path) -> CertificateFiles:
    return Authority(folder).certificate("late", days=-1)


def stranger(folder: Path) -> CertificateFiles:
    return Authority(folder, "other").trusted_by(Authority(folder).certificate("mine"))


def of_another_key(folder: Path) -> CertificateFiles:
    authority = Authority(folder)
    return replace(authority.certificate("mine"), key=authority.certificate("yours").key)


def encrypted(folder: Path) -> CertificateFiles:
    return Authority(folder).certificate("mine", password=b"secret")


def readable(folder: Path) -> CertificateFiles:
    files = Authority(folder).certificate("mine")
    Path(files.key).chmod(0o644)
    return files


def without(field: str) -> Callable[[Path], CertificateFiles]:
    def made(folder: Path) -> CertificateFiles:
        files = Authority(folder).certificate("mine")
        os.remove(getattr(files, field))
        return files

    return made


def no_certificate(field: str) -> Callable[[Path], CertificateFiles]:
    def made(folder: Path) -> CertificateFiles:
        files = Authority(folder).certificate("mine")
        Path(getattr(files, field)).write_text("no certificate")
        return files

    return made


@pytest.mark.parametrize(
    ("make", "field", "words"),
    [
        (
            expired,
            "certificate",
            "a certificate that ca has signed and that holds today, got .*late-cert.pem: certificate has expired",
        ),
        (
            stranger,
            "certificate",
            "a certificate that ca has signed and that holds today, got .*unable to get local issuer",
        ),
        (of_another_key, "key", "the unencrypted private key of the certificate, got .*yours-key.pem"),
        (encrypted, "key", "the unencrypted private key of the certificate"),
        (readable, "key", "a file that others may not read, got .*: chmod 600 .*mine-key.pem"),
        (without("ca"), "ca", "a file that can be read, got .*ca.pem: No such file"),
        (without("certificate"), "certificate", "a file that can be read"),
        (without("key"), "key", "a file that can be read"),
        (no_certificate("ca"), "ca", "certificates in PEM format"),
        (no_certificate("certificate"), "certificate", "a certificate in PEM format"),
        (no_certificate("key"), "key", "the unencrypted private key"),
    ],
)
def test_what_is_wrong_with_files(
    make: Callable[[Path], CertificateFiles], field: str, words: str, tmp_path: Path
) -> None:
    files = make(tmp_path)
    with pytest.raises(CertificateError, match=f"^{field}: expected {words}"):
        check_certificates(files)
    text = yaml.safe_dump({"kind": "local", "security": asdict(files)})
    with pytest.raises(StudyFileError, match=rf"cluster.yaml:\d: security.{field}: expected {words}"):
        load_profile(write_study(tmp_path, text, "cluster.yaml"))


def test_what_is_no_file_is_neither_waited_for_nor_read(good: CertificateFiles, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pem", 0o600)
    for field in asdict(good):
        for path, words in ((tmp_path / "pipe.pem", "a named pipe"), (Path("/dev/zero"), "a device")):
            with pytest.raises(CertificateError, match=f"^{field}: expected a file that can be read, got .*: {words}"):
                check_certificates(replace(good, **{field: str(path)}))


def test_what_a_profile_may_say(good: CertificateFiles, tmp_path: Path) -> None:
    def loaded(content: dict[str, object]) -> object:
        return load_profile(write_study(tmp_path, yaml.safe_dump(content), "cluster.yaml"))

    local = loaded({"kind": "local", "security": asdict(good)})
    assert isinstance(local, LocalProfile)
    assert local.security == good
    assert (local.dashboard, local.dashboard_host, local.dashboard_port) == (True, "127.0.0.1", 8787)
    slurm: dict[str, object] = {"kind": "slurm", "workers": 1, "memory": "1GiB"}
    jobs = loaded(slurm | {"security": {"temporary": True, "folder": str(tmp_path)}})
    assert isinstance(jobs, JobQueueProfile)
    assert jobs.security == TemporaryCertificates(str(tmp_path))
    assert LocalProfile().security is None
