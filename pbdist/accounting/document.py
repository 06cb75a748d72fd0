"""The document of an accountant: its phases as JSON, with a format version; read as if anybody had written it."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pbdist.accounting.history import Phase
from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError, shown
from pbdist.input_files import read_input
from pbdist.mechanisms import pair_from_canonical
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

#: What the document is, and the version of its format. A key that is added later is optional, and none changes its
#: meaning; a document that older versions would misread gets a new version.
KIND, FORMAT = "accountant", 1
_WHOLE = "document"
_KEYS = ("pbdist", "format", "adjacency", "phases")
_PHASE_KEYS = ("pair", "count")
#: The most bytes of a file, levels in a document, and values in it.
_MOST_BYTES, _MOST_LEVELS, _MOST_VALUES = 64 << 20, 50, 4_000_000


def document_of(phases: Sequence[Phase], adjacency: str) -> dict[str, JsonValue]:
    """Return a history as a document."""
    return {
        "pbdist": KIND,
        "format": FORMAT,
        "adjacency": adjacency,
        "phases": [{"pair": phase.pair.canonical(), "count": phase.count} for phase in phases],
    }


def phases_of(document: Any) -> Iterator[Phase]:
    """Yield the phases of a document, checked one by one; what they say together is not checked here.

    Raises
    ------
    InvalidInputError
        Under the name of the field: it is missing, unknown, or not what is expected.
    """
    _check_size(document)
    _check_keys(_WHOLE, document, _KEYS)
    if document["pbdist"] != KIND:
        raise InvalidInputError(f"pbdist: expected {KIND}, got {shown(document['pbdist'])}")
    if type(document["format"]) is not int or document["format"] != FORMAT:
        raise InvalidInputError(
            f"format: expected {FORMAT}, which this version of pbdist reads, got {shown(document['format'])}"
        )
    phases = document["phases"]
    if not isinstance(phases, list | tuple):
        raise InvalidInputError(f"phases: expected a list, got {shown(phases)}")
    for index, phase in enumerate(phases):
        field = f"phases[{index}]"
        _check_keys(field, phase, _PHASE_KEYS)
        count = phase["count"]
        if type(count) is not int or not 1 <= count <= MAX_COMPOSITIONS:
            raise InvalidInputError(f"{field}.count: expected a whole number from 1 to 2^62, got {shown(count)}")
        try:
            yield Phase(pair_from_canonical(phase["pair"]), count)
        except InvalidInputError as error:
            raise InvalidInputError(f"{field}.pair: {error}") from None


def _check_keys(field: str, value: Any, keys: tuple[str, ...]) -> None:
    """Refuse what is no mapping of exactly these keys."""
    inside = "" if field == _WHOLE else f"{field}."
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{field}: expected a mapping of {', '.join(keys)}, got {shown(value)}")
    for key in value:
        if key not in keys:
            raise InvalidInputError(
                f"{field}: expected the keys {', '.join(keys)}, got {shown(key)}{did_you_mean(key, keys)}"
            )
    for key in keys:
        if key not in value:
            raise InvalidInputError(f"{inside}{key}: expected a value, got none")


def _check_size(document: Any) -> None:
    """Refuse more levels or values than a document has, before anything goes through them."""
    left = [(document, 1)]
    values = 0
    while left:
        value, level = left.pop()
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
        values += 1 + len(inner)
        if level > _MOST_LEVELS:
            raise InvalidInputError(f"document: expected at most {_MOST_LEVELS} levels of nesting, got more")
        if values > _MOST_VALUES:
            raise InvalidInputError(f"document: expected at most {_MOST_VALUES:,} values, got more")
        left += [(one, level + 1) for one in inner if isinstance(one, Mapping | list | tuple)]


def read_document(path: Path) -> JsonValue:
    """Return what a JSON file says.

    Raises
    ------
    InvalidInputError
        It cannot be read, is too large, or is no JSON.
    """
    try:
        return json.loads(read_input(path, _MOST_BYTES), object_pairs_hook=_once, parse_constant=_no_constant)
    except OSError as error:
        raise InvalidInputError(f"expected a readable file of an accountant, got: {error.strerror}") from error
    except RecursionError:
        raise InvalidInputError(f"document: expected at most {_MOST_LEVELS} levels of nesting, got more") from None
    except InvalidInputError:
        raise
    except ValueError as error:
        # No JSON, no UTF-8, or a number of more digits than Python reads.
        raise InvalidInputError(f"document: expected JSON, got: {shown(str(error))}") from None


def write_document(path: Path, document: Mapping[str, JsonValue]) -> None:
    """Write a document as JSON to a file beside its place, and rename it once it is whole and on the disk.

    Raises
    ------
    InvalidInputError
        The path names no file.
    OSError
        It cannot be written; what was at the place is as it was.
    """
    if path.name in ("", ".."):
        raise InvalidInputError(f"path: expected that of a file, got {shown(str(path))}")
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        with unfinished.open("x", encoding="utf-8") as file:
            json.dump(document, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a mapping in which no key occurs twice."""
    found: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidInputError(f"document: expected each key once, got {shown(key)} again")
        found[key] = value
    return found


def _no_constant(name: str) -> JsonValue:
    raise InvalidInputError(f"document: expected finite numbers, got {name}")
