"""Pairs from a kind and parameters that are given as words, as on a command line.

The parameters are the fields of the entries of study files, so that what an entry can name, words can.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, get_args, get_type_hints

from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms.pair import Pair
from pbdist.study.alternatives import Entry
from pbdist.study.document import Document, read_text, shown
from pbdist.study.entries import expand_entry
from pbdist.study.entry_kinds import KINDS, models_of
from pbdist.study.parameters import Files, Names, Numbers, Readings
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

_SOURCE = "command line"
#: Parameters whose words are alternatives, and those whose words are texts as they stand.
_ALTERNATIVES, _TEXTS = (Numbers, Readings), (Readings, Files, Names)


@dataclass(frozen=True)
class Parameter:
    """A parameter that words may give: its name, the kinds that have it, and whether its words name files."""

    name: str
    kinds: tuple[str, ...]
    files: bool = False


@dataclass(frozen=True)
class NamedPair:
    """A pair, and the parameters by which it differs from others that were named with it."""

    pair: Pair
    varied: Mapping[str, float | str]


def word_parameters() -> tuple[Parameter, ...]:
    """Return every parameter of every kind, by name."""
    kinds: dict[str, list[str]] = {}
    files: set[str] = set()
    for kind in KINDS:
        for name, hint in _hints(kind).items():
            kinds.setdefault(name, []).append(kind)
            if _is(hint, (Files,)):
                files.add(name)
    return tuple(Parameter(name, tuple(kinds[name]), name in files) for name in sorted(kinds))


def pairs_of_words(kind: str, given: Mapping[str, Sequence[str]]) -> list[NamedPair]:
    """Return the pairs of a kind for all combinations of the words of each parameter, the last one varying fastest.

    A parameter that is made of a mechanism, such as the noise of a `NoisyCount`, is a YAML mapping, or the name of its
    kind alone: then parameters that `kind` does not have belong to it.

    Raises
    ------
    InvalidInputError
        The text begins with the name of the parameter: it is missing, not one of the kind, or has a wrong value.
    """
    hints, words = _hints(kind), dict(given)
    inner = _take_inner(hints, words)
    unknown = next((name for name in words if name not in hints), None)
    if unknown is not None:
        _refuse(unknown, f"expected none with {kind}, whose parameters are {', '.join(hints)}, got one")
    fixed = {
        name: _value(name, hints[name], texts) for name, texts in words.items() if not _is(hints[name], _ALTERNATIVES)
    }
    varying = {name: _alternatives(name, hints[name], texts) for name, texts in words.items() if name not in fixed}
    several = [name for name, values in varying.items() if len(values) > 1]
    found: list[NamedPair] = []
    for values in itertools.product(*varying.values()):
        chosen = dict(zip(varying, values, strict=True))
        pair = _pair({"kind": kind, **fixed, **chosen, **inner}, inner)
        found.append(NamedPair(pair, {name: chosen[name] for name in several}))
    return found


def _hints(kind: str) -> dict[str, Any]:
    """Return the parameters of a kind, and of what each is made."""
    found: dict[str, Any] = {}
    for model in models_of(kind):
        hints = get_type_hints(model, include_extras=True)
        found |= {name: hints[name] for name in model.model_fields if name not in Entry.model_fields}
    return found


def _is(hint: Any, types: Sequence[Any]) -> bool:
    """Whether a parameter is of one of some types, which may be optional."""
    return any(one in types for one in (hint, *get_args(hint)))


def _is_mechanism(hint: Any) -> bool:
    """Whether a parameter is made of one mechanism."""
    return bool(hint == dict[str, Any])


def _take_inner(hints: Mapping[str, Any], words: dict[str, Sequence[str]]) -> dict[str, JsonValue]:
    """Return the mechanism that a parameter names by its kind alone, with its parameters, which leave the words."""
    for name in [name for name, hint in hints.items() if _is_mechanism(hint) and name in words]:
        alone = words[name][0]
        if len(words[name]) > 1 or not alone.isidentifier():
            continue
        if alone not in KINDS:
            _refuse(name, f"expected a kind among {', '.join(KINDS)}, got {shown(alone)}{did_you_mean(alone, KINDS)}")
        its = _hints(alone)
        own = [each for each in words if each not in hints and each in its]
        values: dict[str, JsonValue] = {each: _value(each, its[each], words.pop(each)) for each in own}
        del words[name]
        return {name: {"kind": alone, **values}}
    return {}


def _value(name: str, hint: Any, texts: Sequence[str]) -> JsonValue:
    """Return one value of a parameter."""
    if _is(hint, _TEXTS):
        return list(texts) if not _is(hint, (Readings,)) else texts[0]
    values = [_parsed(name, text) for text in texts]
    if _is_mechanism(hint) or _is(hint, (Numbers,)):
        if len(values) > 1:
            _refuse(name, f"expected one value, got {len(values)}")
        return values[0]
    return values


def _alternatives(name: str, hint: Any, texts: Sequence[str]) -> list[JsonValue]:
    if _is(hint, _TEXTS):
        return list(texts)
    values = [_parsed(name, text) for text in texts]
    for text, value in zip(texts, values, strict=True):
        if isinstance(value, dict | list):
            _refuse(name, f"expected a number, got {shown(text)}")
    return values


def _parsed(name: str, text: str) -> JsonValue:
    try:
        return read_text(text, lambda document: document.data, _SOURCE, name)
    except StudyFileError as error:
        _refuse(name, error.problems[0].problem)


def _pair(entry: dict[str, JsonValue], inner: Mapping[str, JsonValue]) -> Pair:
    """Return the one pair of an entry; errors have the names of parameters."""
    try:
        found = expand_entry(Document(_SOURCE, entry, {(): 1}, "family"), ())
    except StudyFileError as error:
        problem = error.problems[0]
        name, _, rest = problem.field.partition(".")
        first = rest.partition("[")[0].partition(".")[0]
        named = first if name in inner and first not in ("", "kind") else problem.field
        # There are no keys here.
        _refuse(named, problem.problem.removesuffix(": the key is missing"))
    if len(found) != 1:
        _refuse("family", f"expected one mechanism, got {len(found)}: give its parameters one by one")
    return found[0][0]


def _refuse(name: str, problem: str) -> NoReturn:
    raise InvalidInputError(f"{name}: {problem}")
