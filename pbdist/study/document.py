"""Read a YAML file as plain values, note the line of each, and collect all that is wrong with it.

Only what a study file needs is accepted: mappings with distinct text keys, lists, and plain scalars by the rules of
YAML 1.2 (``1e-4`` is a number and ``no`` is a word, unlike in YAML 1.1, PyYAML's default).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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
#: The most bytes of a file, and levels in it. Longer histograms come from files of their own.
_MOST_BYTES, _MOST_LEVELS = 16 << 20, 50
#: Of so many problems of a file at least the first are told.
MOST_PROBLEMS = 1000
#: By libyaml, where PyYAML was built with it: twenty times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_Made = TypeVar("_Made")


def shown(value: object) -> str:
    """Return a value as short text on one line, for an error."""
    return _cut(" ".join(repr(value).split()))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


class Problems:
    """What is wrong with a file: problems are collected, and refused together, or once there are `MOST_PROBLEMS`."""

    def __init__(self) -> None:
        self.found: list[FileProblem] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep what is refused within the block, which ends there."""
        try:
            yield
        except StudyFileError as error:
            self.found += error.problems
        if len(self.found) >= MOST_PROBLEMS:
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

    def problem(self, keys: Keys, problem: str) -> FileProblem:
        """Return ``FILE:LINE: field.path: problem`` for the value at `keys`.

        For keys that the file lacks the line is that of the innermost value around them.
        """
        known = keys
        while known not in self.lines:
            known = known[:-1]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{_cut(part)}" for part in keys).lstrip(".")
        return FileProblem(self.source, self.lines[known], field or self.what, problem)

    def error(self, keys: Keys, problem: str) -> StudyFileError:
        """Return the error of one problem of the value at `keys`."""
        return StudyFileError.of([self.problem(keys, problem)])


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
    try:
        text = read_input(path, _MOST_BYTES).decode("utf-8")
    except OSError as error:
        problem = FileProblem(source, 1, what, f"expected a readable {what} file, got: {error.strerror}")
        raise StudyFileError.of([problem]) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        got = shown(error.object[error.start : error.start + 20])
        raise StudyFileError.of([FileProblem(source, line, what, f"expected UTF-8 text, got {got}")]) from error
    return read_text(text, read, source, what)


def read_text(text: str, read: Callable[[Document], _Made], source: str, what: str = "study") -> _Made:
    """Return what `read` makes of a YAML text; `source` and `what` name it in errors, as those of `read_document`."""
    reader = _Reader(yaml.parse(text, Loader=_LOADER), source, what)
    try:
        document = reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reader.note(mark.line + 1 if mark else 1, (), f"expected YAML, got: {shown(error.problem)}")
        reader.problems.refuse()
    except yaml.reader.ReaderError as error:
        reader.note(text.count("\n", 0, error.position) + 1, (), f"expected YAML, got: {shown(error.reason)}")
        reader.problems.refuse()
    with reader.problems.collected():
        result = read(document)
    reader.problems.refuse()
    return result


class _Reader:
    """Makes values of the events of a YAML text, notes their lines, and collects what is wrong with them."""

    def __init__(self, events: Iterator[Any], source: str, what: str) -> None:
        self.problems = Problems()
        self._events = (event for event in events if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent))
        self._lines: dict[Keys, int] = {(): 1}
        self._source, self._what = source, what

    def document(self) -> Document:
        """Return the document."""
        event = next(self._events, None)
        data = None if event is None else self._value(event, ())
        another: Any = next(self._events, None)
        if another is not None:
            self.note(another.start_mark.line + 1, (), "expected one document, got another one")
        return Document(self._source, data, self._lines, self._what)

    def note(self, line: int, keys: Keys, problem: str) -> None:
        """Collect what is wrong in a line."""
        self.problems.found.append(Document(self._source, None, {(): line}, self._what).problem(keys, problem))

    def _value(self, event: Any, keys: Keys) -> JsonValue:
        """Return the value that begins with an event."""
        line = event.start_mark.line + 1
        self._lines.setdefault(keys, line)
        if len(keys) > _MOST_LEVELS:
            self.note(line, (), f"expected at most {_MOST_LEVELS} levels of nesting, got more")
            self.problems.refuse()
        if isinstance(event, yaml.AliasEvent):
            self.note(line, keys, f"expected the value itself, got the alias *{_cut(str(event.anchor))}")
            return None
        if event.tag is not None:
            self.note(line, keys, f"expected a value without a tag, got {shown(event.tag)}")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(keys)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(item, (*keys, index)) for index, item in enumerate(self._items())]
        return _scalar(event.value) if event.implicit[0] else event.value

    def _items(self) -> Iterator[Any]:
        """Yield the first event of each item of a list or a mapping; the caller reads the items in between."""
        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            yield event

    def _mapping(self, keys: Keys) -> dict[str, JsonValue]:
        content: dict[str, JsonValue] = {}
        for event in self._items():
            line, problem, inner = event.start_mark.line + 1, "", keys
            if not isinstance(event, yaml.ScalarEvent):
                problem = "expected a word as key, got a list or mapping"
                self._value(event, (*keys, ""))
            elif event.value in content:
                inner = (*keys, event.value)
                problem = f"expected each key once, got it on line {self._lines[inner]} too"
            if problem:
                self.note(line, inner, problem)
                self._value(next(self._events), (*keys, ""))
                continue
            inner = (*keys, event.value)
            self._lines[inner] = line
            content[event.value] = self._value(next(self._events), inner)
        return content


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
