"""The heads of a store's parts: root attributes, their copy, commit records and the list of parts, each sealed."""

import re
from collections.abc import Iterator, Mapping

from pbdist.store.documents import read_attributes, unsealed
from pbdist.store.irregular import MOST_DOCUMENT, OversizeError
from pbdist.store.layout import COMMITS, EXTENSIONS, STORE_FORMATS
from pbdist.store.place import Place
from pbdist.types import JsonValue

__all__ = [
    "ATTRIBUTES_SEAL",
    "COPY",
    "RECORD_SEAL",
    "extensions_of",
    "head_of",
    "listed_parts",
    "number_of",
    "part_folder",
    "read_extensions",
    "read_or_none",
    "sealed_copy",
    "sealed_record",
    "sealed_records",
    "sealed_root",
    "traces_of",
]

#: The key of the SHA-256 in the root attributes, and in those of the list of parts.
ATTRIBUTES_SEAL = "attributes_sha256"
#: The key of the root attributes in those of ``commits``, where a second copy of them is.
COPY = "copy_of_root"
#: The key of the SHA-256 in a commit record.
RECORD_SEAL = "record_sha256"
_PART = re.compile(rf"{EXTENSIONS}/[0-9]+(?=/)")
_RECORD = re.compile(rf"{COMMITS}/batch-([0-9]+)/zarr\.json")


def listed_parts(place: Place) -> dict[str, str] | None:
    """Return the parts that the list of them names, with the digests of their studies; None where it cannot be read."""
    content = read_extensions(place)
    return None if content is None else dict(content["parts"])


def read_extensions(place: Place) -> dict[str, JsonValue] | None:
    """Return the list of ``parts`` and how many are ``left`` of an extension; None where it cannot be read."""
    content = unsealed(read_attributes(read_or_none(place, f"{EXTENSIONS}/zarr.json")), ATTRIBUTES_SEAL)
    # A path that leads elsewhere is none of a part: parts are written, and removed.
    return content if content and isinstance(content.get("parts"), dict) and _are_parts(content["parts"]) else None


def extensions_of(place: Place) -> list[str]:
    """Return the paths of the parts that extend a store; where no list names them, of those that are whole."""
    listed = listed_parts(place)
    if listed is not None:
        return sorted(listed, key=number_of)
    found = {part_folder(name) for name, _ in place.names(EXTENSIONS)} - {None}
    return sorted((part for part in found if part and _is_whole(place.inner(part), part)), key=number_of)


def read_or_none(place: Place, name: str, most: int = MOST_DOCUMENT) -> bytes | None:
    """Return the content of a file, None where there is none, and nothing of one with more than `most` bytes.

    Raises
    ------
    IrregularError
        A link, or what else is no regular file, is there or on the way to it.
    OSError
        The store cannot be reached.
    """
    try:
        return place.read(name, most)
    except FileNotFoundError:
        return None
    except OversizeError:
        # It is there, and not what belongs there: damaged, as if it were empty.
        return b""


def sealed_root(place: Place, part: str) -> dict[str, JsonValue] | None:
    """Return the root attributes of a part of format 3 on, without their SHA-256; None where they are damaged."""
    return _of_part(read_attributes(read_or_none(place, "zarr.json")), part)


def sealed_copy(place: Place, part: str) -> dict[str, JsonValue] | None:
    """Return the second copy of the root attributes; None where it is damaged."""
    attributes = read_attributes(read_or_none(place, f"{COMMITS}/zarr.json"))
    return None if attributes is None or set(attributes) != {COPY} else _of_part(attributes[COPY], part)


def head_of(place: Place, part: str) -> dict[str, JsonValue] | None:
    """Return the root attributes of a part from wherever they are sound; None where they are damaged in both places."""
    return sealed_root(place, part) or sealed_copy(place, part)


def number_of(part: str) -> int:
    """Return the number of a part; 0 for the first one."""
    return int(part.rpartition("/")[2] or 0)


def part_folder(name: str) -> str | None:
    """Return the path of the part that a file of a store lies in by its name; None for the first part."""
    found = _PART.match(name)
    return None if found is None else found.group()


def sealed_record(data: bytes | None) -> dict[str, JsonValue] | None:
    """Return a commit record of format 3 on without its SHA-256; None where it is damaged."""
    attributes = read_attributes(data)
    return None if attributes is None or set(attributes) != {"commit"} else unsealed(attributes["commit"], RECORD_SEAL)


def sealed_records(place: Place) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    """Yield the number and the content of every sound commit record of a part."""
    for name, _ in sorted(place.names(COMMITS)):
        found = _RECORD.fullmatch(name)
        record = sealed_record(read_or_none(place, name)) if found else None
        if found and record is not None:
            yield int(found.group(1)), record


def traces_of(place: Place) -> set[str]:
    """Return the digests of studies that are left where both heads of a part are damaged; empty where it is no part.

    Of sound commit records, and of what can be read of the heads, which is not to be relied on.
    """
    root = read_attributes(read_or_none(place, "zarr.json"), exact=False)
    if root is not None and _is_older(root.get("pbdist_format")):
        return set()
    heads = (root, (read_attributes(read_or_none(place, f"{COMMITS}/zarr.json"), exact=False) or {}).get(COPY))
    plain = [head for head in heads if isinstance(head, dict) and _is_new(head.get("pbdist_format"))]
    found = {str(head.get("study_digest")) for head in plain}
    # One record is enough: all of a part have the same.
    record = next(sealed_records(place), None)
    return found if record is None else {*found, str(record[1]["study_digest"])}


def _are_parts(parts: Mapping[str, JsonValue]) -> bool:
    return all(part_folder(f"{name}/") == name for name in parts)


def _of_part(attributes: JsonValue, part: str) -> dict[str, JsonValue] | None:
    content = unsealed(attributes, ATTRIBUTES_SEAL)
    return content if content is not None and content.get("part") == part else None


def _is_new(version: JsonValue) -> bool:
    return type(version) is int and version in STORE_FORMATS


def _is_older(version: JsonValue) -> bool:
    return type(version) is int and version < STORE_FORMATS[0]


def _is_whole(place: Place, part: str) -> bool:
    """Whether a part was finished: its root is written last, and nothing is computed before."""
    if sealed_root(place, part) is not None:
        return True
    return sealed_copy(place, part) is not None and next(sealed_records(place), None) is not None
