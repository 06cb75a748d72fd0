"""The JSON documents of a store: root attributes, their copy, commit records and the list of parts.

Each content has one text, and contains a SHA-256 of itself (a seal) that shows every change.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pbdist.store.files import MOST_DOCUMENT, OversizeError
from pbdist.store.forms import is_parts_form, is_record_form, is_root_form
from pbdist.store.json_text import json_of
from pbdist.store.layout import (
    COMMITS,
    COPY_FILE,
    EXTENSIONS,
    LOOSE,
    OTHER_PARTS,
    PARTS_FILE,
    ROOT_FILE,
    STORE_FORMAT,
)
from pbdist.store.place import Place
from pbdist.types import JsonValue

#: Size and SHA-256 of a file, as the root and the commit records have it.
FileDigest = Mapping[str, JsonValue]

#: The key of the SHA-256 in the root attributes, and in those of the list of parts.
ATTRIBUTES_SEAL = "attributes_sha256"
#: The key of the copy of the root attributes in the attributes of ``commits``.
COPY = "copy_of_root"
#: The key of the SHA-256 in a commit record.
RECORD_SEAL = "record_sha256"
_PART = re.compile(rf"{EXTENSIONS}/[0-9]+(?=/)")
_RECORD = re.compile(rf"{COMMITS}/shard-([0-9]+)/zarr\.json")
_BATCH = re.compile(rf"{LOOSE}/[0-9]+/batch-([0-9]+)")
#: The most bytes of the first line of the file of a batch.
_MOST_LINE = 1 << 26
_PACKAGES = ("pbdist", "numpy", "scipy", "zarr")
_GIT_SECONDS = 10


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def group_document(attributes: Mapping[str, JsonValue]) -> bytes:
    """Return the ``zarr.json`` of a group with these attributes: the only text of that content."""
    document = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
    return json.dumps(document, sort_keys=True, allow_nan=False).encode()


def read_attributes(data: bytes | None, *, exact: bool = True) -> dict[str, JsonValue] | None:
    """Return the attributes of a group, None where `data` is no such document.

    With `exact` also None where it is not exactly the text of `group_document`.
    """
    try:
        document = json_of(data or b"")
        attributes = document["attributes"]
        if exact and group_document(attributes) != data:
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return attributes if isinstance(attributes, dict) else None


def seal(content: Mapping[str, JsonValue], key: str) -> dict[str, JsonValue]:
    """Return `content` with its SHA-256 under `key`."""
    return {**content, key: _digest(content)}


def unsealed(sealed: Any, key: str) -> dict[str, JsonValue] | None:
    """Return the content that was sealed under `key`, None where it was changed since."""
    if not isinstance(sealed, dict) or key not in sealed:
        return None
    content = {name: value for name, value in sealed.items() if name != key}
    try:
        return content if sealed[key] == _digest(content) else None
    except (ValueError, TypeError, RecursionError):
        return None


def read_or_none(place: Place, name: str, most: int = MOST_DOCUMENT) -> bytes | None:
    """Return the content of a file: None where there is none, empty where it has more than `most` bytes."""
    try:
        return place.read(name, most)
    except FileNotFoundError:
        return None
    except OversizeError:
        # Not what belongs there: damaged, as if it were empty.
        return b""


def head_of(place: Place, part: str) -> dict[str, JsonValue] | None:
    """Return the root attributes of a part without their SHA-256, from the root or its copy; None: both are damaged."""
    return _sealed_root(place, part) or _sealed_copy(place, part)


def read_parts(place: Place) -> dict[str, JsonValue] | None:
    """Return the list of ``parts``, and how many are ``left`` to be added; None where it cannot be read."""
    content = unsealed(read_attributes(read_or_none(place, PARTS_FILE)), ATTRIBUTES_SEAL)
    # Parts are written and removed, so a path that leads elsewhere makes the list damaged.
    return content if content and is_parts_form(content) and _are_parts(content["parts"]) else None


def listed_parts(place: Place) -> dict[str, str] | None:
    """Return the digest of the study of each part in the list of parts; None where the list cannot be read."""
    content = read_parts(place)
    return None if content is None else dict(content["parts"])


def extensions_of(place: Place) -> list[str]:
    """Return the paths of the parts that extend a store; without a readable list, of those that are complete."""
    listed = listed_parts(place)
    if listed is not None:
        return sorted(listed, key=number_of)
    found = {part_folder(name) for name, _ in place.names(EXTENSIONS)} - {None}
    return sorted((part for part in found if part and _is_whole(place.inner(part), part)), key=number_of)


def parts_told_of(name: str, data: bytes | None) -> tuple[str, ...]:
    """Return the paths of the parts that the root of a store, or its copy, tells of; none where it is damaged."""
    attributes = read_attributes(data) or {}
    head = attributes.get(COPY) if name == COPY_FILE else attributes
    told = head.get(OTHER_PARTS, []) if isinstance(head, dict) else []
    known = isinstance(told, list) and all(isinstance(part, str) and part_folder(f"{part}/") == part for part in told)
    return tuple(told) if known else ()


def others_told(place: Place) -> list[tuple[str, ...]]:
    """Return the paths of the other parts that the root of a store, and its copy, tell of, where each is sound."""
    heads = (_sealed_root(place, ""), _sealed_copy(place, ""))
    return [tuple(head.get(OTHER_PARTS, ())) for head in heads if head is not None]


def number_of(part: str) -> int:
    """Return the number of a part; 0 for the first one."""
    return int(part.rpartition("/")[2] or 0)


def part_folder(name: str) -> str | None:
    """Return the path of the part that a file of a store lies in; None for the first part."""
    found = _PART.match(name)
    return None if found is None else found.group()


def sealed_record(data: bytes | None) -> dict[str, JsonValue] | None:
    """Return a commit record without its SHA-256; None where it is damaged."""
    attributes = read_attributes(data)
    if attributes is None or set(attributes) != {"commit"}:
        return None
    record = unsealed(attributes["commit"], RECORD_SEAL)
    return record if record is not None and is_record_form(record) else None


def sealed_records(place: Place) -> Iterator[dict[str, JsonValue]]:
    """Yield the content of every sound commit record of a part: those of shards, and those of single batches."""
    for name, size in sorted(place.names(COMMITS)):
        record = None
        if _RECORD.fullmatch(name):
            record = sealed_record(read_or_none(place, name))
        elif _BATCH.fullmatch(name):
            record = _sealed_line(place, name, size)
        if record is not None:
            yield record


def _sealed_line(place: Place, name: str, size: int) -> dict[str, JsonValue] | None:
    """Return the record in the first line of the file of a batch, None where it is damaged."""
    line, _, _ = place.read_range(name, 0, min(size, _MOST_LINE)).partition(b"\n")
    try:
        record = unsealed(json_of(line), RECORD_SEAL)
    except ValueError:
        return None
    return record if record is not None and is_record_form(record) else None


def traces_of(place: Place) -> set[str]:
    """Return the digests of studies that are left where both heads of a part are damaged; empty where it is no part.

    From sound commit records, and from what can be read of the heads, which may be wrong.
    """
    root = read_attributes(read_or_none(place, ROOT_FILE), exact=False)
    if root is not None and _is_older(root.get("pbdist_format")):
        return set()
    heads = (root, (read_attributes(read_or_none(place, COPY_FILE), exact=False) or {}).get(COPY))
    plain = [head for head in heads if isinstance(head, dict) and _is_known(head.get("pbdist_format"))]
    found = {str(head.get("study_digest")) for head in plain}
    # One record is enough: all of a part have the same digest.
    record = next(sealed_records(place), None)
    return found if record is None else {*found, str(record.get("study_digest"))}


@cache
def provenance() -> dict[str, JsonValue]:
    """Return the versions of pbdist, Python and the libraries that decide the numbers, and pbdist's git revision.

    The revision is that of the checkout that pbdist runs from or was built from (``-dirty`` where it was changed), else
    None. There are no times and no host names: equal inputs give equal stores.
    """
    versions: dict[str, JsonValue] = {package: metadata.version(package) for package in _PACKAGES}
    return {**versions, "python": platform.python_version(), "git_revision": _git_revision()}


def _git_revision() -> str | None:
    built_from = Path(__file__).resolve().parents[1] / "_git_revision.txt"
    if built_from.is_file():
        return built_from.read_text(encoding="utf-8").strip() or None
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        # An installed package may lie inside somebody else's checkout, which says nothing about it.
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # fsmonitor and hooks are programs that a checkout's configuration names: they must not be started from here.
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", str(checkout)]
    try:
        answer = subprocess.run(  # noqa: S603 -- a fixed command on the package's own folder
            [*command, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            check=True,
            text=True,
            timeout=_GIT_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _digest(content: Mapping[str, JsonValue]) -> str:
    return digest_of(json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


def _sealed_root(place: Place, part: str) -> dict[str, JsonValue] | None:
    return _of_part(read_attributes(read_or_none(place, ROOT_FILE)), part)


def _sealed_copy(place: Place, part: str) -> dict[str, JsonValue] | None:
    attributes = read_attributes(read_or_none(place, COPY_FILE))
    return None if attributes is None or set(attributes) != {COPY} else _of_part(attributes[COPY], part)


def _of_part(attributes: JsonValue, part: str) -> dict[str, JsonValue] | None:
    content = unsealed(attributes, ATTRIBUTES_SEAL)
    if content is None or content.get("part") != part:
        return None
    # Of another version the form is not known.
    return content if is_root_form(content) or not _is_known(content.get("pbdist_format")) else None


def _are_parts(parts: Mapping[str, JsonValue]) -> bool:
    return all(part_folder(f"{name}/") == name for name in parts)


def _is_known(version: JsonValue) -> bool:
    return type(version) is int and version == STORE_FORMAT


def _is_older(version: JsonValue) -> bool:
    return type(version) is int and version < STORE_FORMAT


def _is_whole(place: Place, part: str) -> bool:
    """Whether a part was finished: its root is written last, and nothing is computed before."""
    if _sealed_root(place, part) is not None:
        return True
    return _sealed_copy(place, part) is not None and next(sealed_records(place), None) is not None
