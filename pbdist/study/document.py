"""Read a YAML file as plain values, and note the line of each.

Only what a study file needs is accepted: mappings with distinct text keys, lists, and plain scalars by the rules of
YAML 1.2 (``1e-4`` is a number and ``no`` is a word, unlike in YAML 1.1, PyYAML's default).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from pbdist.errors import StudyFileError
from pbdist.types import JsonValue

__all__ = ["Document", "Keys", "read_document", "shown"]

#: The keys and list indexes that lead to a value from the root.
Keys: TypeAlias = tuple[str | int, ...]

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
    """Return a value as short text on one line, for an error."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


@dataclass(frozen=True)
class Document:
    """The content of a YAML file.

    Attributes
    ----------
    source
        The name of the file as the user gave it.
    data
        The content as dicts, lists, texts, numbers, booleans and None.
    lines
        The line of each value's key or list item, from 1.
    what
        What the file is, for errors that concern none of its fields.
    """

    source: str
    data: JsonValue
    lines: Mapping[Keys, int]
    what: str = "study"

    def error(self, keys: Keys, problem: str) -> StudyFileError:
        """Return the error ``FILE:LINE: field.path: problem`` for the value at `keys`.

        For keys that the file lacks the line is that of the innermost value around them.
        """
        known = keys
        while known not in self.lines:
            known = known[:-1]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in keys).lstrip(".")
        return StudyFileError(f"{self.source}:{self.lines[known]}: {field or self.what}: {problem}")


def read_document(path: Path, what: str = "study") -> Document:
    """Read the YAML file at `path`; `what` names the kind of file in errors.

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
            # Only events have the tags that are written in the file; every node has a tag.
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
    """Converts PyYAML's nodes to values and notes their lines."""

    def __init__(self, source: str) -> None:
        self.lines: dict[Keys, int] = {(): 1}
        self._source = source

    def value(self, node: yaml.Node, keys: Keys) -> JsonValue:
        line = node.start_mark.line + 1
        self.lines.setdefault(keys, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*keys, index)) for index, item in enumerate(node.value)]
        quoted = isinstance(node, yaml.ScalarNode) and bool(node.style)
        return node.value if quoted else _scalar(node.value)

    def _mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, JsonValue]:
        content: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(line, keys, "expected a word as key, got a list or mapping")
            if key in content:
                first = self.lines[(*keys, key)]
                raise self._error(line, (*keys, key), f"expected each key once, got it on line {first} too")
            self.lines[(*keys, key)] = line
            content[key] = self.value(value_node, (*keys, key))
        return content

    def _error(self, line: int, keys: Keys, problem: str) -> StudyFileError:
        self.lines[keys] = line
        return Document(self._source, None, self.lines).error(keys, problem)


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
