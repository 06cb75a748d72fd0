"""A YAML document as plain values, with the line on which each of them stands.

Only what a study file needs is taken: mappings with distinct text keys, lists, and plain scalars read by the rules
of YAML 1.2 (so ``1e-4`` is a number and ``no`` is a word, unlike in PyYAML's default of YAML 1.1).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from pbdist.errors import StudyFileError
from pbdist.types import JsonValue

__all__ = ["Document", "Place", "read_document", "shown"]

#: Where a value stands: keys and list positions from the root.
Place: TypeAlias = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"(?P<sign>[-+]?)\.(?P<word>inf|Inf|INF|nan|NaN|NAN)")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_LONGEST_SHOWN = 60


def shown(value: object) -> str:
    """Return `value` as a short text on one line, for an error."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


@dataclass(frozen=True)
class Document:
    """The content of a YAML file.

    Attributes
    ----------
    source
        The file's name as the user gave it.
    data
        The content as dicts, lists, text, numbers, booleans and None.
    lines
        The line, from 1, of each value's key or list item.
    what
        What the file is, in an error that is not about one of its fields.
    """

    source: str
    data: JsonValue
    lines: Mapping[Place, int]
    what: str = "study"

    def error(self, place: Place, problem: str) -> StudyFileError:
        """Return the error ``FILE:LINE: field.path: problem`` for the value at `place`.

        A place that the file does not have (a missing key) is told at the innermost one around it.
        """
        known = place
        while known not in self.lines:
            known = known[:-1]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        return StudyFileError(f"{self.source}:{self.lines[known]}: {field or self.what}: {problem}")


def read_document(path: Path, what: str = "study") -> Document:
    """Read the YAML file at `path`, which is to be a `what`.

    Raises
    ------
    StudyFileError
        The file cannot be read, is not YAML, repeats a key, has a key that is not text, or uses aliases or tags.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        problem = f"expected a readable {what} file, got: {error.strerror}"
        raise StudyFileError(f"{path}:1: {what}: {problem}") from error
    except UnicodeDecodeError as error:
        raise StudyFileError(f"{path}:1: {what}: expected UTF-8 text, got {shown(error.object[:20])}") from error
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.AliasEvent):
                problem = f"expected the value itself, got the alias *{event.anchor}"
                raise StudyFileError(f"{path}:{line}: {what}: {problem}")
            # A node knows only the tag that it has in the end, an event the one that is written.
            tag = getattr(event, "tag", None)
            if tag is not None:
                raise StudyFileError(f"{path}:{line}: {what}: expected a value without a tag, got {shown(tag)}")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise StudyFileError(f"{path}:{line}: {what}: expected YAML, got: {shown(error.problem)}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StudyFileError(f"{path}:{line}: {what}: expected YAML, got: {shown(error.reason)}") from error
    except RecursionError as error:
        raise StudyFileError(f"{path}:1: {what}: expected a few levels, got too many nested ones") from error
    reader = _Reader(str(path))
    data = None if root is None else reader.value(root, ())
    return Document(str(path), data, reader.lines, what)


class _Reader:
    """Turns PyYAML's nodes into values and notes their lines."""

    def __init__(self, source: str) -> None:
        self.lines: dict[Place, int] = {(): 1}
        self._source = source

    def value(self, node: yaml.Node, place: Place) -> JsonValue:
        line = node.start_mark.line + 1
        self.lines.setdefault(place, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*place, position)) for position, item in enumerate(node.value)]
        quoted = isinstance(node, yaml.ScalarNode) and bool(node.style)
        return node.value if quoted else _scalar(node.value)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, JsonValue]:
        content: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(line, place, "expected a word as key, got a list or mapping")
            if key in content:
                first = self.lines[(*place, key)]
                raise self._error(line, (*place, key), f"expected each key once, got it on line {first} too")
            self.lines[(*place, key)] = line
            content[key] = self.value(value_node, (*place, key))
        return content

    def _error(self, line: int, place: Place, problem: str) -> StudyFileError:
        self.lines[place] = line
        return Document(self._source, None, self.lines).error(place, problem)


def _scalar(text: str) -> JsonValue:
    """Return the value of a plain scalar by YAML 1.2's core schema, decimal numbers only."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special:
        return float(special["sign"] + special["word"].lower())
    return text
