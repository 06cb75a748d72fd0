"""Mechanisms from ``--family KIND`` and options for its parameters, as entries of study files have them."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pbdist.cli.given import flag, refuse
from pbdist.errors import StudyFileError, shown
from pbdist.mechanisms import MECHANISMS, Form, Histogram, HistogramFiles, Pair, Parameter, parameters_of
from pbdist.study.document import Document, read_text
from pbdist.study.entries import expand_entry, study_kinds
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

_SOURCE = "command line"
#: Parameters of these names have other ones here, as options of questions have theirs.
_TAKEN = ("epsilon", "delta", "exp_epsilon", "compositions", "tolerance", "direction", "format", "json", "strict")
_FIELD = re.compile(r"(\w*)(.*)", re.DOTALL)


@dataclass(frozen=True)
class NamedPair:
    """A pair, and the parameters by which it differs from others that were named with it."""

    pair: Pair
    varied: Mapping[str, float | str]


def family_parameters() -> dict[str, dict[str, str]]:
    """Return every parameter by name: what it is for each kind that has it."""
    found: dict[str, dict[str, str]] = {}
    for kind in study_kinds():
        for name, one in _declared(kind).items():
            found.setdefault(name, {})[kind] = one.described
    return dict(sorted(found.items()))


def pairs_of_family(kind: str, given: Mapping[str, Sequence[str]]) -> list[NamedPair]:
    """Return the pairs of a kind for all combinations of the values of each parameter, the last one varying fastest.

    A parameter that is made of a mechanism, such as the noise of a `NoisyCount`, is a YAML mapping, or the name of its
    kind alone: then parameters that `kind` does not have belong to it.

    Raises
    ------
    InvalidInputError
        The text begins with the option of the parameter: it is missing, not one of the kind, or has a wrong value.
    """
    declared, texts = _declared(kind), dict(given)
    inner = _taken_inner(declared, texts)
    unknown = next((name for name in texts if name not in declared), None)
    if unknown is not None:
        _refuse(unknown, f"expected none for {kind}, got one: it has only {', '.join(declared)}")
    values = {name: _values(declared[name], each) for name, each in texts.items()}
    found = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        varied = {name: value for name, value in chosen.items() if len(values[name]) > 1}
        found.append(NamedPair(_pair({"kind": kind, **chosen, **inner}, inner), varied))
    return found


def _declared(kind: str) -> dict[str, Parameter]:
    files = parameters_of(HistogramFiles) if MECHANISMS[kind] is Histogram else {}
    return {**parameters_of(MECHANISMS[kind]), **files}


def _taken_inner(declared: Mapping[str, Parameter], texts: dict[str, Sequence[str]]) -> dict[str, JsonValue]:
    """Return the mechanism that a parameter names by its kind alone, with its parameters, which leave the texts."""
    for name, one in declared.items():
        if one.domain.form is not Form.MECHANISM or name not in texts:
            continue
        kind, *others = texts[name]
        if others or not kind.isidentifier():
            continue
        kinds = study_kinds()
        if kind not in kinds:
            _refuse(name, f"expected a kind among {', '.join(kinds)}, got {shown(kind)}{did_you_mean(kind, kinds)}")
        own: dict[str, JsonValue] = {}
        for each, its in _declared(kind).items():
            if each in texts and each not in declared:
                own[each], *others = _values(its, texts.pop(each))
                if others:
                    _refuse(each, f"expected one value, got {1 + len(others)}")
        del texts[name]
        return {name: {"kind": kind, **own}}
    return {}


def _values(one: Parameter, texts: Sequence[str]) -> list[JsonValue]:
    """Return the alternatives that some texts are for a parameter."""
    if one in parameters_of(HistogramFiles).values():
        return [list(texts)]
    if one.domain.form is Form.NAME:
        return list(texts)
    values = [_parsed(one.name, text) for text in texts]
    if one.domain.form not in (Form.NUMBER, Form.MECHANISM):
        return [values]
    for value, text in zip(values, texts, strict=True):
        if one.domain.form is Form.NUMBER and isinstance(value, dict | list):
            _refuse(one.name, f"expected a number, got {shown(text)}")
    if one.domain.form is Form.MECHANISM and len(values) > 1:
        _refuse(one.name, f"expected one value, got {len(values)}")
    return values


def _parsed(name: str, text: str) -> JsonValue:
    try:
        return read_text(text, lambda document: document.data, _SOURCE, name)
    except StudyFileError as error:
        _refuse(name, error.problems[0].problem)


def _pair(entry: dict[str, JsonValue], inner: Mapping[str, JsonValue]) -> Pair:
    """Return the one pair of an entry; errors have the names of parameters."""
    try:
        found = expand_entry(Document(_SOURCE, entry, {(): 1}, "family"))
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


def column_name(name: str) -> str:
    """Return what a parameter is called beside questions for ε and δ, as in the columns of a store."""
    return f"pair_{name}" if name in _TAKEN else name


def option_of(name: str) -> str:
    """Return the option of a parameter."""
    return flag(column_name(name))


def _refuse(field: str, problem: str) -> NoReturn:
    """Refuse the value of a parameter, or what is at a place in it."""
    name, place = _FIELD.fullmatch(field).groups()  # type: ignore[union-attr]
    refuse(option_of(name or "family"), f"{place.removeprefix('.')}: {problem}" if place else problem)
