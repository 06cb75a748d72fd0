"""Mechanisms from ``--family KIND`` and options for its parameters, as entries of study files have them."""

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from pbdist.cli.parser import FILE, PREFIX, Choice, Option, Options, flag, refuse, separated
from pbdist.errors import StudyFileError
from pbdist.mechanisms import MECHANISMS, Form, Histogram, HistogramFiles, Pair, Parameter, described, parameters_of
from pbdist.study.document import Document, read_text
from pbdist.study.entries import expand_entry, study_kinds
from pbdist.types import JsonValue

_SOURCE = "command line"
#: Names of other options, and so of columns of answers: a parameter of such a name has a prefix.
_TAKEN = ("epsilon", "delta", "exp_epsilon", "compositions", "tolerance", "direction", "format", "json", "strict")


def column_name(name: str) -> str:
    """Return the name of a parameter beside questions for ε and δ, as in the columns of a store."""
    return f"pair_{name}" if name in _TAKEN else name


def mechanism_options(usage: str, what: str, kinds: Sequence[str], *, sized: bool = True) -> list[Option]:
    """Return the option for the kind of a mechanism, and options for the parameters of these kinds.

    Not `sized`: without the numbers that say how much noise there is.
    """
    section = "Mechanism"
    found = [Option(usage, f"{what}: {', '.join(kinds)}", Choice(kinds), section=section)]
    declared: dict[str, dict[str, Parameter]] = {}
    for kind in kinds:
        for name, one in _declared(kind).items() if kind in MECHANISMS else ():
            if sized or one.nested or not one.sized:
                declared.setdefault(name, {})[kind] = one
    for name, of_kinds in sorted(declared.items()):
        domain = next(iter(of_kinds.values())).domain
        what = described({kind: one.described for kind, one in of_kinds.items()})
        if len({one.described for one in of_kinds.values()}) == 1:
            what += f" ({', '.join(of_kinds)})"
        value, kind_of = ("FILE..", FILE) if name == "file" else ("X..", Choice(domain.names) if domain.names else None)
        usage = f"{flag(column_name(name))} {value}"
        found.append(Option(usage, what, kind_of, name=PREFIX + name, section=section))
    return found


def given_values(options: Options) -> dict[str, JsonValue]:
    """Return the given parameters as study files have them: values, and lists of them."""
    texts = {name.removeprefix(PREFIX): one for name, one in vars(options).items() if one and name.startswith(PREFIX)}
    return {name: value_of(name, each) for name, each in texts.items()}


def value_of(name: str, texts: Sequence[str]) -> JsonValue:
    """Return the value of a parameter, or a list of values."""
    if name in parameters_of(HistogramFiles):
        return list(texts)
    for text in texts:
        if (remedy := separated(text)) or not text.strip():
            _refuse(name, f"expected a value, got {text!r}{remedy}")
    try:
        values = [read_text(text, lambda document: document.data, _SOURCE, name) for text in texts]
    except StudyFileError as error:
        _refuse(name, error.problems[0].problem)
    return values[0] if len(values) == 1 else values


def pairs_of_family(kind: str, given: Mapping[str, JsonValue]) -> list[Pair]:
    """Return the pairs of a kind for all combinations of the values of each parameter, the last one varying fastest.

    A parameter that is made of a mechanism, such as the noise of a `NoisyCount`, is a mapping, or the name of its kind
    alone: then parameters that `kind` does not have belong to it.

    Raises
    ------
    InvalidInputError
        The text begins with the option of the parameter: it is missing, not one of the kind, or has a wrong value.
    """
    declared = _declared(kind)
    entry = {name: given[name] for name in declared if name in given}
    others = {name: given[name] for name in given if name not in declared}
    # Mechanisms that are named by their kind alone.
    within = {
        name: one
        for name, one in entry.items()
        if declared[name].domain.form is Form.MECHANISM and isinstance(one, str)
    }
    for owner, inner in within.items():
        known = _declared(inner) if inner in study_kinds() else others
        entry[owner] = {"kind": inner, **{name: others.pop(name) for name in [*others] if name in known}}
    for name in others:
        _refuse(name, f"is no parameter of {kind}, which has {', '.join(declared)}")
    try:
        return expand_entry(Document(_SOURCE, {"kind": kind, **entry}, {(): 1}, "family"))
    except StudyFileError as error:
        problem = error.problems[0]
        owner, _, rest = problem.field.partition(".")
        # There are no keys here.
        text = problem.problem.removesuffix(": the key is missing")
        _refuse(rest if owner in within and rest != "kind" else problem.field, text)


def _declared(kind: str) -> dict[str, Parameter]:
    files = parameters_of(HistogramFiles) if MECHANISMS[kind] is Histogram else {}
    return {**parameters_of(MECHANISMS[kind]), **files}


def _refuse(field: str, problem: str) -> NoReturn:
    """Refuse the value of a parameter, or a part of it."""
    name, place = re.fullmatch(r"(\w*)\.?(.*)", field, re.DOTALL).groups()  # type: ignore[union-attr]
    refuse(flag(column_name(name or "family")), f"{place}: {problem}" if place else problem)
