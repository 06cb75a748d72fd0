"""Mechanisms from ``--family KIND`` and options for its parameters, as entries of study files have them."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pbdist.cli.parser import flag, refuse
from pbdist.errors import StudyFileError, shown
from pbdist.mechanisms import MECHANISMS, Form, Histogram, HistogramFiles, Pair, Parameter, parameters_of
from pbdist.study.document import Document, read_text
from pbdist.study.entries import expand_entry, study_kinds
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

_SOURCE = "command line"
#: Names of other options, and so of columns of answers: a parameter of such a name has a prefix.
_TAKEN = ("epsilon", "delta", "exp_epsilon", "compositions", "tolerance", "direction", "format", "json", "strict")
_FIELD = re.compile(r"(\w*)(.*)", re.DOTALL)


@dataclass(frozen=True)
class NamedPair:
    """A pair, and the parameters by which it differs from others that were named with it."""

    pair: Pair
    varied: Mapping[str, float | str]


def family_parameters() -> dict[str, dict[str, str]]:
    """Return the description of every parameter by name and by kind."""
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
    declared = _declared(kind)
    values: dict[str, list[JsonValue]] = {}
    # The parameter that names a mechanism by its kind alone, and that mechanism.
    owner, inner = "", dict[str, JsonValue]()
    for name, one in declared.items():
        if one.domain.form is Form.MECHANISM and len(given.get(name, ())) == 1 and given[name][0].isidentifier():
            owner, inner = name, _inner(name, given[name][0], {key: given[key] for key in given if key not in declared})
    for name, texts in given.items():
        if name in declared:
            values[name] = [inner] if name == owner else _values(declared[name], texts)
        elif name not in inner:
            _refuse(name, f"is no parameter of {kind}, which has {', '.join(declared)}")
    found = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        varied = {name: value for name, value in chosen.items() if len(values[name]) > 1}
        found.append(NamedPair(_pair({"kind": kind, **chosen}, owner), varied))
    return found


def _declared(kind: str) -> dict[str, Parameter]:
    files = parameters_of(HistogramFiles) if MECHANISMS[kind] is Histogram else {}
    return {**parameters_of(MECHANISMS[kind]), **files}


def _inner(name: str, kind: str, given: Mapping[str, Sequence[str]]) -> dict[str, JsonValue]:
    """Return the entry of a mechanism of a kind, with those of the given parameters that the kind has."""
    kinds = study_kinds()
    if kind not in kinds:
        _refuse(name, f"expected a kind among {', '.join(kinds)}, got {shown(kind)}{did_you_mean(kind, kinds)}")
    found: dict[str, JsonValue] = {"kind": kind}
    for key, one in _declared(kind).items():
        if key in given:
            found[key], *others = _values(one, given[key])
            if others:
                _refuse(key, f"expected one value, got {1 + len(others)}")
    return found


def _values(one: Parameter, texts: Sequence[str]) -> list[JsonValue]:
    """Return the values of a parameter, each of which is an alternative."""
    if one in parameters_of(HistogramFiles).values():
        return [list(texts)]
    if one.domain.form is Form.NAME:
        return list(texts)
    values: list[JsonValue] = []
    for text in texts:
        try:
            values.append(read_text(text, lambda document: document.data, _SOURCE, one.name))
        except StudyFileError as error:
            _refuse(one.name, error.problems[0].problem)
        if one.domain.form is Form.NUMBER and isinstance(values[-1], dict | list):
            _refuse(one.name, f"expected a number, got {shown(text)}")
    if one.domain.form is Form.MECHANISM and len(values) > 1:
        _refuse(one.name, f"expected one value, got {len(values)}")
    return values if one.domain.form in (Form.NUMBER, Form.MECHANISM) else [values]


def _pair(entry: dict[str, JsonValue], owner: str) -> Pair:
    """Return the one pair of an entry; its errors name options, also those of the mechanism within it."""
    try:
        found = expand_entry(Document(_SOURCE, entry, {(): 1}, "family"))
    except StudyFileError as error:
        problem = error.problems[0]
        name, _, rest = problem.field.partition(".")
        first = rest.partition("[")[0].partition(".")[0]
        named = first if name == owner and first not in ("", "kind") else problem.field
        # There are no keys here.
        _refuse(named, problem.problem.removesuffix(": the key is missing"))
    if len(found) != 1:
        _refuse("family", f"expected one mechanism, got {len(found)}: give its parameters one by one")
    return found[0]


def column_name(name: str) -> str:
    """Return the name of a parameter beside questions for ε and δ, as in the columns of a store."""
    return f"pair_{name}" if name in _TAKEN else name


def _refuse(field: str, problem: str) -> NoReturn:
    """Refuse the value of a parameter, or a part of it."""
    name, place = _FIELD.fullmatch(field).groups()  # type: ignore[union-attr]
    refuse(flag(column_name(name or "family")), f"{place.removeprefix('.')}: {problem}" if place else problem)
