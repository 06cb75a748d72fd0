"""The values that a parameter of an entry may have, read from a study file."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from pbdist.mechanisms import Domain, Form
from pbdist.study import grids
from pbdist.study.document import Keys, shown
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

#: The alternatives for one parameter of an entry, each with the keys from the entry to it.
Choices: TypeAlias = tuple[tuple[Any, Keys], ...]


def custom_error(problem: grids.GridError) -> PydanticCustomError:
    """Return a grid's problem as an error that pydantic collects."""
    return PydanticCustomError(
        "grid", "{problem}", {"problem": problem.problem, "at": problem.at, "others": problem.others}
    )


def _refuse_all(wrong: Sequence[grids.GridError]) -> None:
    try:
        grids.refuse_all(wrong)
    except grids.GridError as problem:
        raise custom_error(problem) from None


def _numbers(value: JsonValue) -> Choices:
    try:
        values = grids.numbers(value)
    except grids.GridError as problem:
        raise custom_error(problem) from None
    return tuple((x, (i,) if isinstance(value, list) else ()) for i, x in enumerate(values))


def _truncations(value: JsonValue) -> Choices:
    if value is None:
        return ((None, ()),)
    return _pairs(value, "[low, high], a list of such pairs, or null", list | None)


def _number_pairs(value: JsonValue) -> Choices:
    return _pairs(value, "two numbers, or a list of such pairs", list)


def _number_lists(value: JsonValue) -> Choices:
    """One list of numbers, or a list of such lists."""
    several = isinstance(value, list) and bool(value) and all(isinstance(x, list) for x in value)
    choices: list[tuple[Any, Keys]] = []
    wrong: list[grids.GridError] = []
    for index, numbers in enumerate(value if several else [value]):
        at: Keys = (index,) if several else ()
        try:
            if not isinstance(numbers, list) or not numbers:
                raise grids.GridError(f"expected a list of numbers, or a list of such lists, got {shown(numbers)}", at)
            choices.append((tuple(grids.number(x, (*at, place)) for place, x in enumerate(numbers)), at))
        except grids.GridError as error:
            wrong.append(error)
    _refuse_all(wrong)
    return tuple(choices)


def _pairs(value: JsonValue, expected: str, items: Any) -> Choices:
    """One pair of numbers, or a list of pairs, which are of the type `items`."""
    several = isinstance(value, list) and bool(value) and all(isinstance(x, items) for x in value)
    choices: list[tuple[Any, Keys]] = []
    wrong: list[grids.GridError] = []
    for index, pair in enumerate(value if several else [value]):
        at: Keys = (index,) if several else ()
        try:
            if pair is not None and (not isinstance(pair, list) or len(pair) != 2):
                raise grids.GridError(f"expected {expected}, got {shown(pair)}", at)
            choices.append((None if pair is None else tuple(grids.number(x, at) for x in pair), at))
        except grids.GridError as error:
            wrong.append(error)
    _refuse_all(wrong)
    return tuple(choices)


def _choices_among(names: tuple[str, ...], value: JsonValue) -> Choices:
    """One of some names, or a list of them."""
    expected = f"expected one of {', '.join(names)}"
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(x, str) for x in values):
        raise custom_error(grids.GridError(f"{expected}, or a list of them, got {shown(value)}"))
    choices = tuple((x, (i,) if isinstance(value, list) else ()) for i, x in enumerate(values))
    wrong = [(x, at) for x, at in choices if x not in names]
    _refuse_all([grids.GridError(f"{expected}, got {shown(x)}{did_you_mean(x, names)}", at) for x, at in wrong])
    return choices


def _masses(value: JsonValue) -> Choices:
    if not isinstance(value, list) or not value:
        raise custom_error(grids.GridError(f"expected a list of counts or probabilities, got {shown(value)}"))
    wrong: list[grids.GridError] = []
    for index, mass in enumerate(value):
        try:
            grids.number(mass, (index,))
        except grids.GridError as problem:
            wrong.append(problem)
    _refuse_all(wrong)
    return ((tuple(value), ()),)


def _files(value: JsonValue) -> Choices:
    """One file, or one a side."""
    files = value if isinstance(value, list) else [value]
    if len(files) not in (1, 2) or not all(isinstance(x, str) and x for x in files):
        raise custom_error(grids.GridError(f"expected the path of a file, or of two files, got {shown(value)}"))
    return ((tuple(files), ()),)


def _names(value: JsonValue) -> Choices:
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise custom_error(grids.GridError(f"expected a list of names, got {shown(value)}"))
    return ((tuple(value), ()),)


Files = Annotated[Choices, PlainValidator(_files)]
Names = Annotated[Choices, PlainValidator(_names)]
#: What stands in a file for a parameter of each form; names are checked against those of their domain. Mechanisms are
#: entries of their own, which `pbdist.study.entries` expands.
_TYPES: Mapping[Form, Any] = {
    Form.NUMBER: Annotated[Choices, PlainValidator(_numbers)],
    Form.NUMBERS: Annotated[Choices, PlainValidator(_number_lists)],
    Form.TWO_NUMBERS: Annotated[Choices, PlainValidator(_number_pairs)],
    Form.LIMITS: Annotated[Choices, PlainValidator(_truncations)],
    Form.MASSES: Annotated[Choices, PlainValidator(_masses)],
    Form.MECHANISM: dict[str, Any],
    Form.MECHANISMS: list[Any],
}


def field_type(domain: Domain) -> Any:
    """Return the type of the field of a model that reads the values of a domain."""
    if domain.form is Form.NAME:
        return Annotated[Choices, PlainValidator(partial(_choices_among, domain.names))]
    return _TYPES[domain.form]
