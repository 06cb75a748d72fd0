"""Pairs from a kind and parameters that are given as words, as on a command line.

The parameters are the fields of the entries of study files, so that what an entry can name, words can.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms import MECHANISMS, Form, Histogram, Pair, parameters_of
from pbdist.study.document import Document, read_text, shown
from pbdist.study.entries import FILE_PARAMETERS, expand_entry, study_kinds
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

_SOURCE = "command line"
#: Parameters whose words are alternatives. Words of those without a form are texts, as are names.
_ALTERNATIVES = (Form.NUMBER, Form.NAME)


@dataclass(frozen=True)
class WordParameter:
    """A parameter that words may give: its name, what it is for each kind that has it, and whether it names files."""

    name: str
    kinds: Mapping[str, str]
    files: bool


@dataclass(frozen=True)
class NamedPair:
    """A pair, and the parameters by which it differs from others that were named with it."""

    pair: Pair
    varied: Mapping[str, float | str]


def word_parameters() -> tuple[WordParameter, ...]:
    """Return every parameter of every kind, by name."""
    kinds: dict[str, dict[str, str]] = {
        "file": {"Histogram": "a table of counts, or one for each distribution, in place of p and q"},
        "columns": {"Histogram": "the columns of the table"},
    }
    for kind in study_kinds():
        for name, one in parameters_of(MECHANISMS[kind]).items():
            kinds.setdefault(name, {})[kind] = one.described
    return tuple(WordParameter(name, kinds[name], name == "file") for name in sorted(kinds))


def pairs_of_words(kind: str, given: Mapping[str, Sequence[str]]) -> list[NamedPair]:
    """Return the pairs of a kind for all combinations of the words of each parameter, the last one varying fastest.

    A parameter that is made of a mechanism, such as the noise of a `NoisyCount`, is a YAML mapping, or the name of its
    kind alone: then parameters that `kind` does not have belong to it.

    Raises
    ------
    InvalidInputError
        The text begins with the name of the parameter: it is missing, not one of the kind, or has a wrong value.
    """
    forms, words = _forms(kind), dict(given)
    inner = _take_inner(forms, words)
    unknown = next((name for name in words if name not in forms), None)
    if unknown is not None:
        _refuse(unknown, f"expected none with {kind}, whose parameters are {', '.join(forms)}, got one")
    fixed = {
        name: _value(name, forms[name], texts) for name, texts in words.items() if forms[name] not in _ALTERNATIVES
    }
    varying = {name: _alternatives(name, forms[name], texts) for name, texts in words.items() if name not in fixed}
    several = [name for name, values in varying.items() if len(values) > 1]
    found: list[NamedPair] = []
    for values in itertools.product(*varying.values()):
        chosen = dict(zip(varying, values, strict=True))
        pair = _pair({"kind": kind, **fixed, **chosen, **inner}, inner)
        found.append(NamedPair(pair, {name: chosen[name] for name in several}))
    return found


def _forms(kind: str) -> dict[str, Form | None]:
    """Return the parameters of a kind, and how a value of each is written; None for the names of files and columns."""
    pair = MECHANISMS[kind]
    found: dict[str, Form | None] = {name: one.domain.form for name, one in parameters_of(pair).items()}
    return {**found, **dict.fromkeys(FILE_PARAMETERS)} if pair is Histogram else found


def _take_inner(forms: Mapping[str, Form | None], words: dict[str, Sequence[str]]) -> dict[str, JsonValue]:
    """Return the mechanism that a parameter names by its kind alone, with its parameters, which leave the words."""
    for name in [name for name, form in forms.items() if form is Form.MECHANISM and name in words]:
        alone = words[name][0]
        if len(words[name]) > 1 or not alone.isidentifier():
            continue
        kinds = study_kinds()
        if alone not in kinds:
            _refuse(name, f"expected a kind among {', '.join(kinds)}, got {shown(alone)}{did_you_mean(alone, kinds)}")
        its = _forms(alone)
        own = [each for each in words if each not in forms and each in its]
        values: dict[str, JsonValue] = {each: _value(each, its[each], words.pop(each)) for each in own}
        del words[name]
        return {name: {"kind": alone, **values}}
    return {}


def _value(name: str, form: Form | None, texts: Sequence[str]) -> JsonValue:
    """Return one value of a parameter."""
    if form is None:
        return list(texts)
    if form is Form.NAME:
        return texts[0]
    values = [_parsed(name, text) for text in texts]
    if form not in (Form.NUMBER, Form.MECHANISM):
        return values
    if len(values) > 1:
        _refuse(name, f"expected one value, got {len(values)}")
    return values[0]


def _alternatives(name: str, form: Form | None, texts: Sequence[str]) -> list[JsonValue]:
    if form is Form.NAME:
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
    return found[0]


def _refuse(name: str, problem: str) -> NoReturn:
    raise InvalidInputError(f"{name}: {problem}")
