"""The fields of study files: their keys, what misspelt ones are likely to mean, and grids of values.

A grid is a scalar, a list, ``{linspace: [a, b, count]}`` or ``{geomspace: [a, b, count]}``. The values of a linspace
and a geomspace are rounded to 15 significant decimal digits, so that ``[0, 1, 11]`` has the float that a user writes as
0.3, and a look-up of 0.3 finds it.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields
from decimal import Context, Decimal, localcontext
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import MECHANISMS, Domain, parameters_of, real
from pbdist.study.document import MAX_PROBLEMS, Document, Problems, read_each
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: The values of a mapping by their keys, wherever they are in the file.
Values: TypeAlias = Mapping[str, Document]
#: Returns the value in a document, or refuses it.
Read: TypeAlias = Callable[[Document], Any]
_T = TypeVar("_T")
#: What a constructor says of a field.
_PROBLEM = re.compile(r"(?:[^:]*\.)?(?P<field>\w+)(?P<places>(\[\d+\])*): (?P<problem>.*)", re.DOTALL)

#: What people also write for the keys of studies, entries and targets.
_ALIASES = (
    ("compositions", "r n k steps rounds iterations queries num_steps number_of_compositions"),
    ("epsilon", "eps epsilons ε"),
    ("exp_epsilon", "exp_eps e_epsilon e^epsilon e^eps e^ε exp(epsilon)"),
    ("tolerance", "accuracy precision rtol"),
    ("buckets", "bins number_of_buckets"),
    ("targets", "goals questions"),
    ("mechanisms", "noise settings kinds"),
    ("kind", "mechanism type family noise"),
    ("adjacency", "neighbours neighbors neighbouring neighboring neighbouring_relation neighboring_relation"),
    ("format", "version"),
    ("description", "title"),
)
_ABOUT_DELTA = "a δ belongs to a target: targets: [{epsilon: .., delta: .., compositions: ..}]"
_ARITHMETIC = re.compile(r"[\d.,_\s]*(e\^|exp|ln|log|sqrt|√|\^|\*\*|/|[\d][,_]\d)[\w.,^*/()\s+-]*")


def other_kinds() -> dict[str, str]:
    """Return what people also call the kinds of mechanisms that a study can have, in lower case."""
    return {alias: name for name, kind in MECHANISMS.items() if kind.in_studies for alias in kind.aliases}


def meant_key(owner: str, key: str, known: Sequence[str]) -> tuple[str | None, str]:
    """Return the key that an unknown key is likely to mean, and what to say of it at the end of an error."""
    word = key.lower().replace("-", "_").replace(" ", "_")
    parameters = parameters_of(MECHANISMS[owner]) if owner in MECHANISMS else {}
    found = [(one.name, one.hint) for one in parameters.values() if word in one.aliases]
    found += [("targets", _ABOUT_DELTA)] if word == "delta" else []
    found += [(name, "") for name, aliases in _ALIASES if word in aliases.split()]
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
    unknown = [key for key in values if key not in known][:MAX_PROBLEMS]
    meant = {key: meant_key(owner, key, known) for key in unknown}
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


def key(read: Read, default: Any = MISSING) -> Any:
    """Declare a key of a mapping, as a field of a dataclass; without a default it is required."""
    return field(default=default, metadata={"read": read})


def constructed(
    document: Document,
    kind: type[_T],
    values: Values | None = None,
    *,
    read: Mapping[str, Read] = MappingProxyType({}),
    keys: Mapping[str, str] = MappingProxyType({}),
) -> _T:
    """Return what a dataclass makes of the mapping in a document; its constructor checks the values.

    `values` are given if they are not all in the document. `read` makes the values of fields that are no `key`, and
    `keys` has the names in the file of some fields. All that is wrong is in one error.
    """
    declared = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    names = {name: keys.get(name, name) for name in declared}
    required = [names[name] for name, one in declared.items() if one.default is MISSING]
    if not isinstance(document.data, dict):
        document.refuse(f"expected a mapping with {', '.join(names.values())}, got {shown(document.data)}")
    values = values_of(document) if values is None else values
    problems = check_keys(document, values, tuple(names.values()), required)
    given = {name: values[key] for name, key in names.items() if key in values}
    arguments: dict[str, Any] = {}
    for name, at in given.items():
        if names[name] in required or at.data is not None:
            reader = read.get(name) or declared[name].metadata.get("read")
            with problems.collected():
                arguments[name] = at.data if reader is None else reader(at)
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
    """Return what to write instead of arithmetic, or of a grid in a list, for the end of an error; else nothing."""
    if isinstance(value, dict):
        return ": write out each number"
    return ": write out the number" if isinstance(value, str) and _ARITHMETIC.fullmatch(value) else ""


_SPACES = ("linspace", "geomspace")
#: What people also call them.
_OTHER_SPACES = {"logspace": "geomspace", "range": "linspace", "arange": "linspace", "powers": "powers_of_two"}
_LONGEST_SPACE = 1_000_000
#: So many that a million products leave more than twice the 15 digits kept.
_GEOMSPACE_DIGITS = 40


def checked(check: Callable[[Any], _T]) -> Callable[[Document], _T]:
    """Return the reader of the values that a check of arguments accepts."""

    def read(document: Document) -> _T:
        try:
            return check(document.data)
        except InvalidInputError as error:
            _, places, problem = constructor_problem(error)
            wrong = document.at(*places) if isinstance(document.data, list) else document
            wrong.refuse(f"{problem}{number_hint(wrong.data)}")

    return read


def of_domain(domain: Domain) -> Read:
    """Return the reader of the values of a domain."""
    return checked(partial(domain.check, "study", "value"))


#: Reads a finite number.
number: Callable[[Document], float] = of_domain(real)


def number_that(allowed: Callable[[float], bool], expected: str) -> Callable[[Document], float]:
    """Return the reader of some numbers; `expected` says which."""

    def read(document: Document) -> float:
        if not allowed(found := number(document)):
            document.refuse(f"expected a number {expected}, got {shown(document.data)}")
        return found

    return read


def flag(document: Document) -> bool:
    """Return true or false."""
    if not isinstance(document.data, bool):
        document.refuse(f"expected true or false, got {shown(document.data)}")
    return document.data


def text(document: Document) -> str:
    """Return a text."""
    if not isinstance(document.data, str):
        document.refuse(f"expected a text, got {shown(document.data)}")
    return document.data


def mapping(document: Document) -> Mapping[str, JsonValue]:
    """Return a mapping."""
    if not isinstance(document.data, dict):
        document.refuse(f"expected a mapping, got {shown(document.data)}")
    return document.data


def some(document: Document, what: str) -> list[Document]:
    """Return the items of a list, at least one."""
    if not isinstance(document.data, list) or not document.data:
        document.refuse(f"expected a list of {what}, got {shown(document.data)}")
    return document.items()


def each(document: Document, read: Callable[[Document], _T]) -> tuple[_T, ...]:
    """Return what is read of each item of a list, no two of which are equal."""
    known: set[_T] = set()

    def once(item: Document) -> _T:
        value = read(item)
        if value in known:
            item.refuse(f"expected each value once, got {shown(item.data)} again")
        known.add(value)
        return value

    return tuple(read_each(once, document.items()))


def numbers(document: Document, read: Callable[[Document], float] = number) -> tuple[float, ...]:
    """Return the floats of a grid in the given order, each as `read` returns it."""
    return tuple(map(read, _space(document, _SPACES))) if isinstance(document.data, dict) else listed(document, read)


def integers(document: Document) -> tuple[int, ...]:
    """Return the numbers of compositions of a grid, which may also be ``{powers_of_two: [low, high]}``.

    The values of a linspace or geomspace are rounded to the nearest integer, and repeats that come of it are dropped.
    """
    if not isinstance(document.data, dict):
        return listed(document, composition)
    whole = (one.with_data(round(one.data)) for one in _space(document, (*_SPACES, "powers_of_two")))
    return tuple(dict.fromkeys(map(composition, whole)))


def listed(document: Document, read: Callable[[Document], _T]) -> tuple[_T, ...]:
    """Return what is read of one value, or of each of a list of values."""
    if document.data == []:
        document.refuse("expected at least one value, got []")
    return each(document, read) if isinstance(document.data, list) else (read(document),)


def same_float(left: float, right: float) -> bool:
    """Whether two floats differ by rounding of a few operations at most: 4 ulp."""
    return left == right or abs(left - right) <= 4.0 * math.ulp(max(abs(left), abs(right))) < math.inf


def nearest_match(stored: Sequence[float], wanted: float) -> int | None:
    """Return the index of the stored float that equals `wanted` but for rounding, or None; an equal one first."""
    close = [index for index, value in enumerate(stored) if same_float(value, wanted)]
    return min(close, key=lambda index: stored[index] != wanted, default=None)


def nearest_exponential(stored: Sequence[float], wanted: float) -> int | None:
    """Return the index of the stored ε with e^ε equal to `wanted` but for rounding, or None."""
    if not wanted > 0.0:
        return None
    index = nearest_match(stored, math.log(wanted))
    if index is not None:
        return index
    # Near ε = 0 one ulp of e^ε is many of ε.
    return nearest_match([math.exp(value) if value < 709.0 else math.inf for value in stored], wanted)


def composition(document: Document) -> int:
    """Return a number of compositions."""
    value = document.data
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COMPOSITIONS:
        document.refuse(f"expected an integer from 1 to 2^62, got {shown(value)}{number_hint(value)}")
    return value


def _space(document: Document, kinds: Sequence[str]) -> Iterator[Document]:
    """Return the values of a linspace, a geomspace or, as whole numbers, of powers of two."""
    kind = next(iter(document.data), "")
    if len(document.data) != 1 or kind not in kinds:
        expected, near = f"a number, a list, or one of {', '.join(kinds)}", did_you_mean(kind, kinds, _OTHER_SPACES)
        document.refuse(f"expected {expected}, got {shown(document.data)}{near}")
    ends = document.at(kind)
    values = _powers_of_two(ends) if kind == "powers_of_two" else _between(kind, ends)
    return map(document.with_data, values)


def _powers_of_two(ends: Document) -> list[int]:
    given = ends.data
    whole = isinstance(given, list) and len(given) == 2 and all(type(x) is int for x in given)
    if not whole or not 0 <= given[0] <= given[1] <= 62:
        ends.refuse(f"expected [low, high] with 0 <= low <= high <= 62, got {shown(given)}")
    return [2**exponent for exponent in range(given[0], given[1] + 1)]


def _between(kind: str, ends: Document) -> list[float]:
    """Return the values of a linspace or a geomspace.

    The latter by decimals, not by NumPy: its powers differ by processor, in the last of the 15 digits too, and the same
    study file would be another study on another machine.
    """
    if not isinstance(ends.data, list) or len(ends.data) != 3:
        ends.refuse(f"expected [first, last, count], got {shown(ends.data)}")
    first, last, count = number(ends.at(0)), number(ends.at(1)), ends.data[2]
    if type(count) is not int or not 2 <= count <= _LONGEST_SPACE:
        ends.refuse(f"expected a count from 2 to {_LONGEST_SPACE}, got {shown(count)}")
    if first >= last:
        ends.refuse(f"expected first < last, got {first!r} and {last!r}")
    if kind == "linspace":
        return [first, *(float(f"{x:.15g}") for x in np.linspace(first, last, count)[1:-1]), last]
    if first <= 0:
        ends.refuse(f"expected first > 0, got {first!r}")
    with localcontext(Context(prec=_GEOMSPACE_DIGITS)):
        value = Decimal(repr(first))
        ratio = ((Decimal(repr(last)) / value).ln() / (count - 1)).exp()
        return [first, *(float(f"{(value := value * ratio):.15g}") for _ in range(count - 2)), last]
