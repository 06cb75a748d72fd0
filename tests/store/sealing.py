"""Make the checksums of a changed store right again, as anybody can who wants to deceive: they are no signatures.

What is sealed by what is found in the sound store, not named here.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Files", "Sealing", "document"]

#: The content of each file by its name.
Files = dict[str, bytes]


def document(content: Any) -> bytes:
    """Return the one text that a store has of a content."""
    return json.dumps(content, sort_keys=True).encode()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def parsed(data: bytes) -> Any:
    """Return what a document says; None where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _mappings(content: Any) -> Iterator[dict[str, Any]]:
    """Yield all mappings, inner ones first."""
    if isinstance(content, dict | list):
        for value in content.values() if isinstance(content, dict) else content:
            yield from _mappings(value)
    if isinstance(content, dict):
        yield content


class Sealing:
    """What seals what in a sound store."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        #: Keys of the SHA-256 of all else in a mapping; and those whose SHA-256 stands under another key.
        self._seals: set[str] = set()
        self._digests: dict[str, str] = {}
        for data in files.values():
            for mapping in _mappings(parsed(data)):
                for key, value in mapping.items():
                    if isinstance(value, str) and value == _digest(_without(mapping, key)):
                        self._seals.add(key)
                    for other, content in mapping.items():
                        if value == _digest(content):
                            self._digests[key] = other

    def sealed(self, files: Files) -> Files:
        """Return the files with all their checksums right."""
        for _ in range(8):
            before, files = files, self._once(files)
            if files == before:
                break
        return files

    def _once(self, files: Files) -> Files:
        changed = dict(files)
        renamed: dict[str, str] = {}
        for name, data in files.items():
            content = parsed(data)
            for mapping in _mappings(content):
                self._mend(mapping, name, files, renamed)
            if content is not None and _is_plain(content) and document(content) != document(parsed(data)):
                changed[name] = document(content)
        for old, new in renamed.items():
            changed = {name: data.replace(old.encode(), new.encode()) for name, data in changed.items()}
        return changed

    def _mend(self, mapping: dict[str, Any], document_name: str, files: Files, renamed: dict[str, str]) -> None:
        for key, entry in mapping.items():
            found = _file_of(document_name, key, files)
            if isinstance(entry, dict) and set(entry) == {"bytes", "sha256"} and found is not None:
                entry.update(bytes=len(found), sha256=hashlib.sha256(found).hexdigest())
        for key, other in self._digests.items():
            if isinstance(mapping.get(key), str) and other in mapping and mapping[key] != _digest(mapping[other]):
                renamed[mapping[key]] = mapping[key] = _digest(mapping[other])
        for key in self._seals & set(mapping):
            mapping[key] = _digest(_without(mapping, key))


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def _file_of(document_name: str, name: str, files: Files) -> bytes | None:
    """Return the file that an entry of a document names, by the innermost folder around the document that has it."""
    folder = document_name
    while folder:
        folder = folder.rpartition("/")[0]
        found = files.get(f"{folder}/{name}" if folder else name)
        if found is not None:
            return found
    return None


def _is_plain(content: Any) -> bool:
    try:
        json.dumps(content, allow_nan=False)
    except ValueError:
        return False
    return True
