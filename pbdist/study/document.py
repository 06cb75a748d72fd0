"""Read a YAML file as plain values, note the line of each, and collect all that is wrong with it.

Only what a study file needs is accepted: mappings with distinct text keys, lists, and plain scalars by the rules of
YAML 1.2 (``1e-4`` is a number and ``no`` is a word, unlike in YAML 1.1, PyYAML's default).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import yaml

from pbdist.errors import FileProblem, StudyFileError
from pbdist.input_files import read_input
from pbdist.mechanisms import MECHANISMS, parameters_of
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

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
#: So many noise settings of an entry are constructed in a file that is wrong anyway.
_MOST_TRIED = 1000
#: The most bytes of a file, levels in it, and values (keys too): a million take a minute and 1 GB. More noise settings
#: than that come from grids, and longer histograms from files of their own.
_MOST_BYTES, _MOST_LEVELS, _MOST_VALUES = 16 << 20, 50, 1_000_000
#: Of so many problems of a file at least the first are told.
MOST_TOLD = 1000
#: By libyaml, where PyYAML was built with it: twenty times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: What libyaml says of a thousand levels, which it may meet before the events of the first are there.
_TOO_DEEP = "exceeded maximum nesting depth"

_Made = TypeVar("_Made")


def shown(value: object) -> str:
    """Return a value as short text on one line, for an error."""
    return _cut(" ".join(repr(value).split()))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


class Problems:
    """What is wrong with a file: problems are collected, and refused together, or as soon as there are `MOST_TOLD`."""

    def __init__(self) -> None:
        self.found: list[FileProblem] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep what is refused within the block, which ends there."""
        try:
            yield
        except StudyFileError as error:
            self.found += error.problems
        if len(self.found) >= MOST_TOLD:
            # Looking for more would take as long as the file is wrong.
            self.refuse()

    def refuse(self) -> None:
        """Raise the `StudyFileError` of all that was collected, if anything was."""
        if self.found:
            raise StudyFileError.of(self.found)


@dataclass(frozen=True)
class Document:
    """The content of a YAML file."""

    #: The name of the file as the user gave it.
    source: str
    #: The content as dicts, lists, texts, numbers, booleans and None.
    data: JsonValue
    #: The line of each value's key or list item, from 1.
    lines: Mapping[Keys, int]
    #: What the file is, for errors that concern none of its fields.
    what: str = "study"
    #: So many noise settings of an entry are constructed: fewer where the file is known to be wrong. None for all.
    most_tried: int | None = None

    def known_wrong(self) -> "Document":
        """Return the document as one that is known to be wrong: what is told of it has an end."""
        return replace(self, most_tried=_MOST_TRIED)

    def error(self, keys: Keys, problem: str) -> StudyFileError:
        """Return the error ``FILE:LINE: field.path: problem`` for the value at `keys`.

        For keys that the file lacks the line is that of the innermost value around them.
        """
        known = keys
        while known not in self.lines:
            known = known[:-1]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{_cut(part)}" for part in keys).lstrip(".")
        return StudyFileError.of([FileProblem(self.source, self.lines[known], field or self.what, problem)])


def read_document(path: Path, read: Callable[[Document], _Made], what: str = "study") -> _Made:
    """Return what `read` makes of the YAML file at `path`; `what` names the kind of file in errors.

    Raises
    ------
    StudyFileError
        The file cannot be read, is not YAML, repeats a key, has a key that is not text, uses aliases or tags, or is
        too large or too deep; or `read` refuses it. All that is wrong is told together, but that what is no YAML is not
        read further.
    """
    source = str(path)
    return _read(_composed(path, source, what), read, source, what)


def read_text(text: str, read: Callable[[Document], _Made], source: str, what: str = "study") -> _Made:
    """Return what `read` makes of a YAML text; `source` and `what` name it in errors, as those of `read_document`."""
    return _read(_composed_text(text, source, what), read, source, what)


def _read(root: yaml.Node | None, read: Callable[[Document], _Made], source: str, what: str) -> _Made:
    reader = _Reader(source, what)
    data = None if root is None else reader.value(root, ())
    with reader.problems.collected():
        result = read(Document(source, data, reader.lines, what))
    reader.problems.refuse()
    return result


def _composed(path: Path, source: str, what: str) -> yaml.Node | None:
    """Return the nodes of a YAML file without aliases and tags, and of few levels."""
    try:
        text = read_input(path, _MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise _unreadable(source, 1, what, f"expected a readable {what} file, got: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        got = shown(error.object[error.start : error.start + 20])
        raise _unreadable(source, line, what, f"expected UTF-8 text, got {got}") from error
    return _composed_text(text, source, what)


def _composed_text(text: str, source: str, what: str) -> yaml.Node | None:
    try:
        # Before there are nodes: the time and memory of those grow faster than the file.
        _check_events(yaml.parse(text, Loader=_LOADER), source, what)
        root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
        return root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if error.problem == _TOO_DEEP:
            raise _too_deep(source, mark.line + 1 if mark else 1, what) from error
        raise _unreadable(source, mark.line + 1 if mark else 1, what, _no_yaml(error.problem)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _unreadable(source, line, what, _no_yaml(error.reason)) from error


def _check_events(events: Iterator[yaml.Event], source: str, what: str) -> None:
    """Refuse aliases and tags, all together, and at once more levels or values than a file has."""
    problems = Problems()
    levels = values = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
        values += isinstance(event, yaml.NodeEvent)
        if levels > _MOST_LEVELS:
            raise _too_deep(source, line, what)
        if values > _MOST_VALUES:
            raise _unreadable(source, line, what, f"expected at most {_MOST_VALUES:,} values, got more")
        # Only events have the tags that are written in the file; every node has a tag.
        tag = getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent):
            wrong = f"expected the value itself, got the alias *{_cut(str(event.anchor))}"
            problems.found.append(FileProblem(source, line, what, wrong))
        elif tag is not None:
            wrong = f"expected a value without a tag, got {shown(tag)}"
            problems.found.append(FileProblem(source, line, what, wrong))
    problems.refuse()


def _unreadable(source: str, line: int, what: str, problem: str) -> StudyFileError:
    return StudyFileError.of([FileProblem(source, line, what, problem)])


def _too_deep(source: str, line: int, what: str) -> StudyFileError:
    return _unreadable(source, line, what, f"expected at most {_MOST_LEVELS} levels of nesting, got more")


def _no_yaml(problem: object) -> str:
    return f"expected YAML, got: {shown(problem)}"


class _Reader:
    """Converts PyYAML's nodes to values, notes their lines, and collects what is wrong with their keys."""

    def __init__(self, source: str, what: str) -> None:
        self.lines: dict[Keys, int] = {(): 1}
        self.problems = Problems()
        self._source, self._what = source, what

    def value(self, node: yaml.Node, keys: Keys) -> JsonValue:
        """Return the value of a node."""
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
                self._refused(line, keys, "expected a word as key, got a list or mapping")
                continue
            if key in content:
                first = self.lines[(*keys, key)]
                self._refused(line, (*keys, key), f"expected each key once, got it on line {first} too")
                continue
            self.lines[(*keys, key)] = line
            content[key] = self.value(value_node, (*keys, key))
        return content

    def _refused(self, line: int, keys: Keys, problem: str) -> None:
        with self.problems.collected():
            raise Document(self._source, None, {keys: line}, self._what).error(keys, problem)


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


#: The owners of keys that are no kind of mechanism.
STUDY, TARGET = "study", "target"

_ROUNDS = ("r", "n", "k", "steps", "rounds", "iterations", "queries", "num_steps", "number_of_compositions")
_OF_ROUNDS = ("compositions", "compositions is r, how often a mechanism is run: rounds, steps or queries")
_OF_EPSILON = ("epsilon", "epsilon is ε, in nats")
_OF_EXP_EPSILON = ("exp_epsilon", "exp_epsilon is e^ε")
_GRID_KEYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(_ROUNDS, _OF_ROUNDS),
    **dict.fromkeys(("eps", "epsilons", "ε"), _OF_EPSILON),
    **dict.fromkeys(("exp_eps", "e_epsilon", "e^epsilon", "e^eps", "e^ε", "exp(epsilon)"), _OF_EXP_EPSILON),
}
_OTHER_KEYS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    STUDY: {
        **_GRID_KEYS,
        **dict.fromkeys(("accuracy", "precision", "rtol"), ("tolerance", "")),
        **dict.fromkeys(("bins", "number_of_buckets"), ("buckets", "")),
        **dict.fromkeys(("goals", "questions"), ("targets", "")),
        **dict.fromkeys(("noise", "settings", "kinds"), ("mechanisms", "mechanisms is a list of entries, each a kind")),
        "delta": ("targets", "a δ belongs to a target: targets: [{epsilon: .., delta: .., compositions: ..}]"),
        **dict.fromkeys(
            ("neighbours", "neighbors", "neighbouring", "neighboring", "neighbouring_relation", "neighboring_relation"),
            ("adjacency", "adjacency is for which neighbours: add-or-remove, replace-one or zero-out"),
        ),
        "version": ("format", ""),
        "title": ("description", ""),
    },
    TARGET: _GRID_KEYS,
}
_ARITHMETIC = re.compile(r"[\d.,_\s]*(e\^|exp|ln|log|sqrt|√|\^|\*\*|/|[\d][,_]\d)[\w.,^*/()\s+-]*")


def other_kinds() -> dict[str, str]:
    """Return what people also call the kinds of mechanisms that a study can have, in lower case."""
    return {alias: name for name, kind in MECHANISMS.items() if kind.in_studies for alias in kind.aliases}


def meant_key(owner: str, key: str, known: Iterable[str]) -> tuple[str | None, str]:
    """Return the key that an unknown key is likely to mean, and what to say of it at the end of an error."""
    names = tuple(known)
    word = key.lower().replace("-", "_").replace(" ", "_")
    meant, told = _OTHER_KEYS.get(owner, {}).get(word, ("", ""))
    for one in parameters_of(MECHANISMS[owner]).values() if owner in MECHANISMS else ():
        if not meant and word in one.aliases:
            meant, told = one.name, one.hint
    if not meant and word in ("mechanism", "type", "family", "noise"):
        meant = "kind"
    if meant in names:
        return meant, f": {told}" if told else f": did you mean {meant}?"
    return likely(key, names), did_you_mean(key, names)


def unknown_key(owner: str, key: str, known: Iterable[str]) -> str:
    """Return what is wrong with a key that is not known."""
    names = tuple(known)
    return f"expected one of {', '.join(names)}, got an unknown key{meant_key(owner, key, names)[1]}"


def number_hint(value: JsonValue) -> str:
    """Return what to write instead of a text that is arithmetic, for the end of an error; nothing for other values."""
    return ": write out the number" if isinstance(value, str) and _ARITHMETIC.fullmatch(value) else ""


def is_exponential(value: JsonValue) -> bool:
    """Whether a value is a text like ``e^0.5`` or ``ln 2``, with which people mean e^ε."""
    return isinstance(value, str) and value.lstrip().startswith(("e^", "exp", "ln", "log")) and bool(number_hint(value))
