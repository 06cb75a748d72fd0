"""The field `security` of cluster profiles: which certificates are used, and whether their files fit together."""

import os
from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from pbdist.run.certificates import CertificateError, CertificateFiles, TemporaryCertificates, check_certificates
from pbdist.study.document import shown
from pbdist.study.grids import GridError
from pbdist.study.parameters import custom_error
from pbdist.suggestions import did_you_mean

Certificates: TypeAlias = CertificateFiles | TemporaryCertificates

#: The keys that name files.
_FILES = ("ca", "certificate", "key")
_WANTED = "temporary: true, or the files ca, certificate and key"


def _security(value: Any) -> Certificates | None:
    return _certificates(value, ("temporary",))


def _job_security(value: Any) -> Certificates | None:
    return _certificates(value, ("temporary", "folder"))


def _certificates(value: Any, others: tuple[str, ...]) -> Certificates | None:
    if value is None or isinstance(value, CertificateFiles | TemporaryCertificates):
        return value
    if not isinstance(value, dict) or not value:
        raise _wrong(f"expected {_WANTED}, got {shown(value)}")
    for name, found in value.items():
        _check(name, found, (*_FILES, *others))
    if "temporary" in value:
        return _temporary(value)
    return _files(value)


def _check(name: str, found: Any, known: tuple[str, ...]) -> None:
    if name not in known:
        raise _wrong(f"expected one of {', '.join(known)}, got {shown(name)}{did_you_mean(name, known)}", name)
    if name == "temporary":
        if found is not True:
            raise _wrong(f"expected true, got {shown(found)}", name)
    elif not isinstance(found, str) or not found or not found.isprintable():
        raise _wrong(f"expected the path of a {'folder' if name == 'folder' else 'file'}, got {shown(found)}", name)


def _temporary(value: dict[str, Any]) -> TemporaryCertificates:
    for name in _FILES:
        if name in value:
            raise _wrong("expected temporary certificates or files, got both", name)
    if "folder" not in value:
        return TemporaryCertificates()
    folder = _absolute(value["folder"])
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise _wrong(f"expected a folder that can be written and that all nodes see, got {folder}", "folder")
    return TemporaryCertificates(folder)


def _files(value: dict[str, Any]) -> CertificateFiles:
    for name in _FILES:
        if name not in value:
            raise _wrong(f"expected {_WANTED}, got no {name}", name)
    if "folder" in value:
        raise _wrong("expected it with temporary: true, got files", "folder")
    files = CertificateFiles(*(_absolute(value[name]) for name in _FILES))
    try:
        check_certificates(files)
    except CertificateError as error:
        raise _wrong(error.problem, error.field) from error
    return files


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _wrong(problem: str, *at: str) -> PydanticCustomError:
    return custom_error(GridError(problem, at))


Security: TypeAlias = Annotated[Certificates | None, PlainValidator(_security)]
#: With the key `folder` too.
JobSecurity: TypeAlias = Annotated[Certificates | None, PlainValidator(_job_security)]
