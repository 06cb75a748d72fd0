"""Compare files of a store with the sizes and the SHA-256 that were recorded when they were written."""

from pbdist.store.documents import digest_of
from pbdist.store.files import OversizeError
from pbdist.store.place import Place
from pbdist.types import JsonValue


def is_entry(entry: JsonValue) -> bool:
    """Whether a value is the size and the SHA-256 of a file."""
    return isinstance(entry, dict) and {"bytes", "sha256"} <= set(entry) and type(entry["bytes"]) is int


def changed_file(place: Place, name: str, entry: JsonValue, most: int | None = None) -> str | None:
    """Return how a file differs from the size and the SHA-256 of its entry; None where it does not.

    A file whose entry has more than `most` bytes, if given, is not read.
    """
    found = checked_content(place, name, entry, most)
    return found if isinstance(found, str) else None


def checked_content(place: Place, name: str, entry: JsonValue, most: int | None = None) -> bytes | str:
    """Return the content of a file that has the size and the SHA-256 of its entry, else (as text) what is wrong.

    A file of another size, or whose entry has more than `most` bytes, if given, is not read.
    """
    if not isinstance(entry, dict) or not is_entry(entry):
        return "has no checksum"
    if most is not None and entry["bytes"] > most:
        return f"{entry['bytes']} bytes in its record, where it can have at most {most}"
    try:
        data = place.read(name, entry["bytes"])
    except FileNotFoundError:
        return "missing"
    except OversizeError as error:
        return f"{error.size} bytes instead of {entry['bytes']}"
    if len(data) != entry["bytes"]:
        return f"{len(data)} bytes instead of {entry['bytes']}"
    return data if digest_of(data) == entry["sha256"] else "other content"
