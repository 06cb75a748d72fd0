"""The JSON documents of a store: root attributes, their copy, commit records and the list of parts.

Each content has one text, and contains a SHA-256 of itself (a seal) that shows every change.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from pbdist.arguments import MAX_BUCKETS, MAX_COMPOSITIONS, MAX_EPSILON, SMALLEST_TOLERANCE
from pbdist.errors import StoreDamagedError
from pbdist.store.files import MOST_DOCUMENT, OversizeError
from pbdist.store.layout import (
    COLUMN_CHUNK,
    COMMITS,
    COPY_FILE,
    EXTENSIONS,
    LOOSE,
    OTHER_PARTS,
    PARTS_FILE,
    ROOT_FILE,
    STORE_FORMAT,
)
from pbdist.store.metadata import json_of
from pbdist.store.place import Place
from pbdist.types import Adjacency, JsonValue

_DIGEST = re.compile(r"[0-9a-f]{64}")
#: More bytes or cells than there can be.
_MOST = 1 << 53


def is_root_form(content: Mapping[str, Any]) -> bool:
    """Whether root attributes have what is read of them, and a study that a study file can have."""
    told = content.get("other_parts", [])
    return (
        isinstance(content.get("part"), str)
        and isinstance(content.get("title"), str)
        and _is_digest(content.get("study_digest"))
        and _is_head(content.get("study"))
        and _is_count(content.get("cells_per_batch"), 1)
        and _is_count(content.get("batches_per_shard", 1), 1)
        and isinstance(content.get("provenance"), dict)
        and _are_files(content.get("files"))
        and _are_columns(content["files"], content["study"]["cells"])
        and isinstance(told, list)
        and all(isinstance(part, str) for part in told)
    )


def is_parts_form(content: Mapping[str, Any]) -> bool:
    """Whether the list of parts has their digests by their paths, and how many are left."""
    parts = content.get("parts")
    return isinstance(parts, dict) and all(map(_is_digest, parts.values())) and _is_count(content.get("left"))


def is_record_form(content: Mapping[str, Any]) -> bool:
    """Whether a commit record has the digest of its study, and a provenance; its reader looks at all else."""
    return _is_digest(content.get("study_digest")) and isinstance(content.get("provenance"), dict)


def is_refinement_form(content: Mapping[str, Any]) -> bool:
    """Whether a refinement has a cell, grids, and as many numbers as points; whether they are numbers is not seen."""
    cell, rounds, losses = content.get("cell"), content.get("compositions"), content.get("epsilon")
    bounds, within = content.get("bounds"), content.get("within_tolerance")
    if not isinstance(rounds, list) or not isinstance(losses, list) or not isinstance(bounds, dict):
        return False
    if not _are_grids(rounds, losses):
        return False
    points = 2 * len(rounds) * len(losses)
    return (
        isinstance(cell, dict)
        and isinstance(cell.get("label"), str)
        and isinstance(cell.get("pair"), dict)
        and isinstance(cell.get("factor", 0), str | None)
        and all(isinstance(values, list) and len(values) == points for values in bounds.values())
        and (within is None or (isinstance(within, list) and len(within) == points))
        and isinstance(content.get("loss_width"), str)
    )


def _are_grids(rounds: JsonValue, losses: JsonValue) -> bool:
    """Whether r and ε, these in hexadecimal, are increasing and within the limits of a study file."""
    if not isinstance(rounds, list) or not isinstance(losses, list):
        return False
    counts = [count if type(count) is int else None for count in rounds]
    return _rises(counts, 1, MAX_COMPOSITIONS) and _rises([*map(_number_of, losses)], 0.0, MAX_EPSILON)


def _is_head(head: JsonValue) -> bool:
    """Whether the head of a study has values that a study file can have."""
    if not isinstance(head, dict):
        return False
    buckets = head.get("buckets")
    tolerance, floor = _number_of(head.get("tolerance")), _number_of(head.get("floor", "0x0p+0"))
    tight = head.get("method") == "tight" and tolerance is not None and SMALLEST_TOLERANCE <= tolerance <= 1.0
    counted = type(buckets) is int and 0 < buckets <= MAX_BUCKETS and buckets % 2 == 0
    if not (tight and (counted or buckets is None)) and not (
        head.get("method") == "buckets" and counted and head.get("tolerance") is None
    ):
        return False
    return (
        _are_grids(head.get("compositions"), head.get("epsilon"))
        and floor is not None
        and 0.0 <= floor < 1.0
        and head.get("direction", "each") in ("both", "each")
        and _is_adjacency(head.get("adjacency", {}))
        and isinstance(head.get("keep_states"), bool)
        and _is_count(head.get("cells"), 1)
        and _is_digest(head.get("cells_sha256"))
    )


def _is_adjacency(told: JsonValue) -> bool:
    """Whether definite relations are stated, by labels."""
    known = {one.value for one in Adjacency if one.definite}
    return isinstance(told, dict) and all(isinstance(one, str) and one in known for one in told.values())


def _number_of(text: JsonValue) -> float | None:
    """Return the number of a hexadecimal text, None where it is none."""
    try:
        return float.fromhex(text) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _rises(values: Sequence[float | None], least: float, most: float) -> bool:
    """Whether there are numbers, all within limits, each larger than the one before."""
    numbers = [value for value in values if value is not None and least <= value <= most]
    return 0 < len(numbers) == len(values) and all(a < b for a, b in pairwise(numbers))


def _are_files(files: JsonValue) -> bool:
    return isinstance(files, dict) and all(
        isinstance(entry, dict) and _is_count(entry.get("bytes")) and _is_digest(entry.get("sha256"))
        for entry in files.values()
    )


def _are_columns(files: Mapping[str, JsonValue], cells: int) -> bool:
    """Whether as many chunks of a column are listed as so many cells have: a number alone would make readers count."""
    chunks = -(-cells // COLUMN_CHUNK)
    return f"pair/c/{chunks - 1}" in files and f"pair/c/{chunks}" not in files


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_count(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value <= _MOST


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


#: An extended store has all points of the study file that extended it last.
BRINGS_BACK = "run the study file that extended the store last"
_DIGITS = 16


def repaired_by(part: str, known: str = "") -> str:
    """Return what repairs a part, by its path (empty for the first one); `known` is what is known of its study."""
    made = f"added {part} to the store" if part else "made the store"
    return f"run the study file that {made}{f' ({known})' if known else ''}"


def repaired_together(damaged: Iterable[str], gone: Collection[str] = ()) -> str:
    """Return what repairs the parts that some files are in, and brings back parts that are gone, by their paths."""
    added = sorted({part for part in map(part_folder, damaged) if part is not None})
    if gone or len(added) > 1:
        return BRINGS_BACK
    return repaired_by(added[0]) if added else "run the study again"


def points_of(head: Mapping[str, JsonValue]) -> str:
    """Return the points of the study in the head of a part, as short text."""
    cells, compositions = int(head["cells"]), head["compositions"]
    epsilon = [float.fromhex(value) for value in head["epsilon"]]
    return f"{_several(cells, 'noise setting')}, {_range('r', compositions)}, {_range('ε', epsilon)}"


def heads_damaged(url: str, part: str, digests: Collection[str]) -> StoreDamagedError:
    """Return the error of a part whose root and its copy are damaged; `digests` are those that its study may have."""
    known = " or ".join(sorted(digest[:_DIGITS] for digest in digests))
    return StoreDamagedError(
        f"{url}: expected root attributes, or the copy of them in commits, got both damaged:"
        f" {repaired_by(part, f'study digest {known}' if known else '')}"
    )


def parts_lost(url: str, parts: Collection[str]) -> StoreDamagedError:
    """Return the error of parts that the root of a store tells of, but that are not there."""
    names = ", ".join(sorted(parts))
    return StoreDamagedError(
        f"{url}: expected {names}, of which the root of the store tells, got nothing that can be read there:"
        f" put back what was removed, or {BRINGS_BACK}"
    )


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _range(name: str, values: Collection[float]) -> str:
    low, high = min(values), max(values)
    return f"{name} = {low:.6g}" if low == high else f"{len(values):,} {name} from {low:.6g} to {high:.6g}"
