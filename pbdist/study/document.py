"""Read a YAML file as plain values, note the line of each, and collect all that is wrong with it.

Only what a study file needs is accepted: mappings with distinct text keys, lists, and plain scalars by the rules of
YAML 1.2 (``1e-4`` is a number and ``no`` is a word, unlike in YAML 1.1, PyYAML's default).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import yaml

from pbdist.errors import FileProblem, StudyFileError, shown
from pbdist.input_files import read_input
from pbdist.types import JsonValue

#: The keys and list indexes that lead to a value from the root.
Keys: TypeAlias = tuple[str | int, ...]

#: Longer whole numbers are floats: each of these has one.
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT = re.compile(r"[-+]?((\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF|nan|NaN|NAN))")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
#: Longer texts are cut in errors, which have at most so many problems.
_LONGEST_SHOWN, MAX_PROBLEMS = 60, 1000
#: The most bytes of a file, and levels in it. Longer histograms come from files of their own.
_MAX_BYTES, _MAX_LEVELS = 16 << 20, 50
#: By libyaml, where PyYAML was built with it: twenty times as fast.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
#: Those of values without a tag, by this loader.
_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str"))

_Made = TypeVar("_Made")
_Place = TypeVar("_Place")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


class Problems:
    """What is wrong with a file: problems are collected, and refused together, as far as they are shown."""

    def __init__(self) -> None:
        self.found: list[FileProblem] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep what is refused within the block, which ends there."""
        try:
            yield
        except StudyFileError as error:
            self.found += error.problems
        if len(self.found) >= MAX_PROBLEMS:
            # Looking for more would take as long as the file is wrong.
            self.refuse()

    def refuse(self) -> None:
        """Raise the `StudyFileError` of all that was collected, if anything was."""
        if self.found:
            raise StudyFileError.of(self.found)


@dataclass(frozen=True)
class Document:
    """The content of a YAML file, or a value in it."""

    #: The name of the file as the user gave it.
    source: str
    #: The value as dicts, lists, texts, numbers, booleans and None.
    data: JsonValue
    #: The line of each value's key or list item in the file, from 1.
    lines: Mapping[Keys, int]
    #: What the file is, for errors that concern none of its fields.
    what: str = "study"
    #: What leads to the value from the root of the file.
    keys: Keys = ()

    def at(self, *keys: str | int) -> "Document":
        """Return a value within this one, which is there."""
        data = self.data
        for key in keys:
            data = data[key]
        return Document(self.source, data, self.lines, self.what, (*self.keys, *keys))

    def with_data(self, data: JsonValue) -> "Document":
        """Return another value in the place of this one."""
        return Document(self.source, data, self.lines, self.what, self.keys)

    def items(self) -> "list[Document]":
        """Return the items of a list; what is none is refused."""
        if not isinstance(self.data, list):
            self.refuse(f"expected a list, got {shown(self.data)}")
        return [self.at(index) for index in range(len(self.data))]

    def line(self, *keys: str | int) -> int:
        """Return the line of a value within this one; of what the file lacks, that of the innermost value around it."""
        known = (*self.keys, *keys)
        while known not in self.lines:
            known = known[:-1]
        return self.lines[known]

    def problem(self, keys: Keys, problem: str) -> FileProblem:
        """Return ``FILE:LINE: field.path: problem`` for the value at `keys` within this one."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{_cut(part)}" for part in (*self.keys, *keys))
        return FileProblem(self.source, self.line(*keys), "".join(parts).lstrip(".") or self.what, problem)

    def error(self, keys: Keys, problem: str) -> StudyFileError:
        """Return the error of one problem of the value at `keys` within this one."""
        return StudyFileError.of([self.problem(keys, problem)])

    def refuse(self, problem: str) -> NoReturn:
        """Raise the error of this value."""
        raise self.error((), problem)


def read_each(read: Callable[[_Place], _Made], places: Iterable[_Place]) -> list[_Made]:
    """Return what is read at each of some places; what is refused at some of them is refused together."""
    problems, found = Problems(), []
    for place in places:
        with problems.collected():
            found.append(read(place))
    problems.refuse()
    return found


def read_document(path: Path, read: Callable[[Document], _Made], what: str = "study") -> _Made:
    """Return what `read` makes of the YAML file at `path`; `what` names the kind of file in errors.

    One `StudyFileError` has all that is wrong; of what is no YAML, the first problem.
    """
    source = str(path)
    try:
        text = read_input(path, _MAX_BYTES).decode("utf-8")
    except OSError as error:
        problem = FileProblem(source, 0, what, f"expected a readable {what} file, got: {error.strerror}")
        raise StudyFileError.of([problem]) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        got = shown(error.object[error.start : error.start + 20])
        raise StudyFileError.of([FileProblem(source, line, what, f"expected UTF-8 text, got {got}")]) from error
    return read_text(text, read, source, what)


def read_text(text: str, read: Callable[[Document], _Made], source: str, what: str = "study") -> _Made:
    """Return what `read` makes of a YAML text; `source` and `what` name it in errors, as those of `read_document`."""
    reader = _Reader(Document(source, None, {(): 1}, what))
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except RecursionError:
        reader.note(1, (), f"expected at most {_MAX_LEVELS} levels of nesting, got more")
    except yaml.reader.ReaderError as error:
        reader.note(text.count("\n", 0, error.position) + 1, (), f"expected YAML, got: {shown(error.reason)}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reader.note(mark.line + 1 if mark else 1, (), f"expected YAML, got: {shown(error.problem)}")
    else:
        data = None if root is None else reader.value(root, ())
        with reader.problems.collected():
            result = read(Document(source, data, reader.lines, what))
    reader.problems.refuse()
    return result


class _Reader:
    """Makes values of the nodes of a YAML text, notes their lines, and collects what is wrong with them."""

    def __init__(self, document: Document) -> None:
        self.problems, self.lines = Problems(), dict[Keys, int]({(): 1})
        self._document = document

    def note(self, line: int, keys: Keys, problem: str) -> None:
        """Collect what is wrong in a line."""
        self.problems.found.append(replace(self._document, lines={(): line}).problem(keys, problem))

    def value(self, node: Any, keys: Keys) -> JsonValue:
        """Return the value of a node."""
        line = node.start_mark.line + 1
        self.lines.setdefault(keys, line)
        if len(keys) > _MAX_LEVELS:
            self.note(line, (), f"expected at most {_MAX_LEVELS} levels of nesting, got more")
            self.problems.refuse()
        if node.tag not in _TAGS:
            self.note(line, keys, f"expected a value without a tag, got {shown(node.tag)}")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*keys, index)) for index, item in enumerate(node.value)]
        return node.value if node.style else _scalar(node.value)

    def _mapping(self, node: Any, keys: Keys) -> dict[str, JsonValue]:
        content: dict[str, JsonValue] = {}
        for key, value in node.value:
            line, inner = key.start_mark.line + 1, (*keys, key.value)
            if not isinstance(key, yaml.ScalarNode):
                self.note(line, keys, "expected a word as key, got a list or mapping")
            elif key.value in content:
                self.note(line, inner, f"expected each key once, got it on line {self.lines[inner]} too")
            else:
                self.lines[inner] = line
                content[key.value] = self.value(value, inner)
        return content


def _scalar(text: str) -> JsonValue:
    """Return the value of a plain scalar by YAML 1.2's core schema, decimal numbers only."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    # Python has no point before inf and nan.
    return float(re.sub(r"\.(?=[a-zA-Z])", "", text)) if _FLOAT.fullmatch(text) else text
