"""The keys of a mapping in a file: which are unknown or missing, what they are likely to mean, and what they make."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias, TypeVar

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import MECHANISMS, parameters_of
from pbdist.study.document import Document, Problems
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: The values of a mapping by their keys, wherever they are in the file.
Values: TypeAlias = Mapping[str, Document]
_Made = TypeVar("_Made")
#: What a constructor says of a field.
_PROBLEM = re.compile(r"(?:[^:]*\.)?(?P<field>\w+)(?P<places>(\[\d+\])*): (?P<problem>.*)", re.DOTALL)

#: What people also write for the keys of studies and targets, what they mean, and what is said of it.
_HINTS = (
    (
        "r n k steps rounds iterations queries num_steps number_of_compositions",
        "compositions",
        "compositions is r, how often a mechanism is run: rounds, steps or queries",
    ),
    ("eps epsilons ε", "epsilon", "epsilon is ε, in nats"),
    ("exp_eps e_epsilon e^epsilon e^eps e^ε exp(epsilon)", "exp_epsilon", "exp_epsilon is e^ε"),
    ("accuracy precision rtol", "tolerance", ""),
    ("bins number_of_buckets", "buckets", ""),
    ("goals questions", "targets", ""),
    ("noise settings kinds", "mechanisms", "mechanisms is a list of entries, each a kind"),
    ("delta", "targets", "a δ belongs to a target: targets: [{epsilon: .., delta: .., compositions: ..}]"),
    (
        "neighbours neighbors neighbouring neighboring neighbouring_relation neighboring_relation",
        "adjacency",
        "adjacency is for which neighbours: add-or-remove, replace-one or zero-out",
    ),
    ("version", "format", ""),
    ("title", "description", ""),
)
_OTHER_KEYS = {word: (meant, hint) for words, meant, hint in _HINTS for word in words.split()}
_ARITHMETIC = re.compile(r"[\d.,_\s]*(e\^|exp|ln|log|sqrt|√|\^|\*\*|/|[\d][,_]\d)[\w.,^*/()\s+-]*")


def other_kinds() -> dict[str, str]:
    """Return what people also call the kinds of mechanisms that a study can have, in lower case."""
    return {alias: name for name, kind in MECHANISMS.items() if kind.in_studies for alias in kind.aliases}


def meant_key(owner: str, key: str, known: Sequence[str]) -> tuple[str | None, str]:
    """Return the key that an unknown key is likely to mean, and what to say of it at the end of an error."""
    word = key.lower().replace("-", "_").replace(" ", "_")
    parameters = parameters_of(MECHANISMS[owner]) if owner in MECHANISMS else {}
    found = [(one.name, one.hint) for one in parameters.values() if word in one.aliases]
    found.append(_OTHER_KEYS.get(word, ("", "")))
    if word in ("mechanism", "type", "family", "noise"):
        found.append(("kind", ""))
    for meant, hint in found:
        if meant in known:
            return meant, f": {hint}" if hint else f": did you mean {meant}?"
    return likely(key, known), did_you_mean(key, known)


def check_keys(
    document: Document, values: Values, known: Sequence[str], required: Iterable[str], owner: str = ""
) -> Problems:
    """Return what is wrong with the keys of the mapping in a document, whose values may be elsewhere.

    `owner` is what the mapping describes, for hints.
    """
    problems = Problems()
    # A misspelt key is an unknown key and a missing one: the unknown key has a line.
    meant = {key: meant_key(owner, key, known) for key in values if key not in known}
    for key, (_, hint) in meant.items():
        problems.found.append(values[key].problem((), f"expected one of {', '.join(known)}, got an unknown key{hint}"))
    names = [name for name, _ in meant.values()]
    lacking = [key for key in required if key not in values and key not in names]
    if names.count(None) < len(lacking):
        missing = "expected a value, got nothing: the key is missing"
        problems.found += [document.problem((key,), missing) for key in lacking]
    return problems


def values_of(document: Document) -> Values:
    """Return the values of the mapping in a document."""
    return {key: document.at(key) for key in document.data}


def constructed(
    document: Document,
    kind: type[_Made],
    values: Values | None = None,
    *,
    read: Mapping[str, Callable[[Document], Any]] = MappingProxyType({}),
    keys: Mapping[str, str] = MappingProxyType({}),
) -> _Made:
    """Return what a dataclass makes of the mapping in a document; its constructor checks the values.

    `values` are given if they are not all in the document. `read` makes the values of some fields, and `keys` has the
    names in the file of some fields.
    """
    names = {one.name: keys.get(one.name, one.name) for one in fields(kind)}  # type: ignore[arg-type]
    required = [names[one.name] for one in fields(kind) if one.default is MISSING]  # type: ignore[arg-type]
    if not isinstance(document.data, dict):
        document.refuse(f"expected a mapping with {', '.join(names.values())}, got {shown(document.data)}")
    values = values_of(document) if values is None else values
    problems = check_keys(document, values, tuple(names.values()), required)
    given = {name: values[key] for name, key in names.items() if key in values}
    arguments: dict[str, Any] = {}
    for name, at in given.items():
        if names[name] in required or at.data is not None:
            with problems.collected():
                arguments[name] = read[name](at) if name in read else at.data
    problems.refuse()
    try:
        return kind(**arguments)
    except InvalidInputError as error:
        refuse_constructed(document, given, error)


def refuse_constructed(document: Document, values: Values, error: InvalidInputError) -> NoReturn:
    """Refuse what a constructor refuses: at the value of the field that it names, or else at the whole mapping."""
    field, places, problem = constructor_problem(error)
    if field in values:
        raise values[field].error(places, problem)
    document.refuse(problem if field[:1].isupper() else str(error))


def constructor_problem(error: InvalidInputError) -> tuple[str, tuple[int, ...], str]:
    """Return the field that an error of a constructor names, the indexes in its value, and the problem."""
    parts = _PROBLEM.fullmatch(str(error))
    if parts is None:
        return "", (), str(error)
    return parts["field"], tuple(map(int, re.findall(r"\d+", parts["places"]))), parts["problem"]


def number_hint(value: JsonValue) -> str:
    """Return what to write instead of a text that is arithmetic, for the end of an error; nothing for other values."""
    return ": write out the number" if isinstance(value, str) and _ARITHMETIC.fullmatch(value) else ""


def is_exponential(value: JsonValue) -> bool:
    """Whether a value is a text like ``e^0.5`` or ``ln 2``, with which people mean e^ε."""
    return isinstance(value, str) and value.lstrip().startswith(("e^", "exp", "ln", "log")) and bool(number_hint(value))
