"""The JSON documents of a store: one text for each content, and a SHA-256 inside that notices every change."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pbdist.types import JsonValue

__all__ = ["digest_of", "group_document", "read_attributes", "seal", "unsealed"]


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def group_document(attributes: Mapping[str, JsonValue]) -> bytes:
    """Return the ``zarr.json`` of a group with these attributes: the only text of that content."""
    document = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
    return json.dumps(document, sort_keys=True, allow_nan=False).encode()


def read_attributes(data: bytes | None, *, exact: bool = True) -> dict[str, JsonValue] | None:
    """Return the attributes of a group, None where `data` is no such document.

    With `exact` also where it is not the very text of `group_document`.
    """
    try:
        document = json.loads(data or b"")
        attributes = document["attributes"]
        if exact and group_document(attributes) != data:
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return attributes if isinstance(attributes, dict) else None


def seal(content: Mapping[str, JsonValue], key: str) -> dict[str, JsonValue]:
    """Return `content` with the SHA-256 of all else under `key`."""
    return {**content, key: _digest(content)}


def unsealed(sealed: Any, key: str) -> dict[str, JsonValue] | None:
    """Return what was sealed under `key`, None where it is not what it was then."""
    if not isinstance(sealed, dict) or key not in sealed:
        return None
    content = {name: value for name, value in sealed.items() if name != key}
    try:
        return content if sealed[key] == _digest(content) else None
    except (ValueError, TypeError, RecursionError):
        return None


def _digest(content: Mapping[str, JsonValue]) -> str:
    return digest_of(json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())
