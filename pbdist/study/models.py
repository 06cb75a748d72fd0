"""The format of study files: models of a study, of what extends a store, and of a target; their fields are the keys."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from pbdist.arguments import DIRECTIONS, MAX_BUCKETS, MAX_EPSILON, SMALLEST_TOLERANCE
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Domain, Form, checked_adjacency
from pbdist.study import grids
from pbdist.study.document import MOST_TOLD, Document, Keys, Problems, is_exponential, meant_key, shown, unknown_key
from pbdist.study.grids import GridError
from pbdist.suggestions import did_you_mean
from pbdist.table import METHODS
from pbdist.types import JsonValue

_Model = TypeVar("_Model", bound=BaseModel)
#: The configuration of every model of a study file.
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


def refuse(document: Document, keys: Keys, problem: str) -> NoReturn:
    """Raise the `StudyFileError` for the value at `keys`."""
    raise document.error(keys, problem)


def refuse_invalid(
    document: Document,
    error: ValidationError,
    model: type[BaseModel],
    *,
    keys: Keys = (),
    paths: Mapping[str, Keys] | None = None,
    owner: str = "",
    also: tuple[str, ...] = (),
) -> NoReturn:
    """Raise the `StudyFileError` of all that pydantic found wrong in the mapping at `keys`.

    `paths` has the keys of fields that are not below `keys`, `owner` names what the mapping describes in hints, and
    `also` are keys that it may have beside the fields of the model.
    """
    known = (*model.model_fields, *also)
    found = error.errors(include_url=False)[:MOST_TOLD]
    unknown = [str(one["loc"][-1]) for one in found if one["type"] == "extra_forbidden"]
    # A misspelt key is an unknown key and a missing one: the unknown key has a line.
    meant = [meant_key(owner, key, known)[0] for key in unknown]
    lacking = {one["loc"][0] for one in found if one["type"] == "missing"} - set(meant)
    told_already = len([key for key in meant if key is None]) >= len(lacking)
    problems = Problems()
    for details in found:
        if details["type"] == "missing" and (told_already or details["loc"][0] not in lacking):
            continue
        grid = grid_error(details)
        others = () if grid is None else grid.others
        for at, problem in (_told(details, owner, known), *((details["loc"] + tuple(at), text) for text, at in others)):
            first = str(at[0]) if at else ""
            place = (*keys, *at) if paths is None else (*paths.get(first, (*keys, first)), *at[1:])
            with problems.collected():
                refuse(document, place, problem)
    problems.refuse()
    raise error


def _told(details: ErrorDetails, owner: str, known: tuple[str, ...]) -> tuple[Keys, str]:
    """Return one of the problems that pydantic found: the keys from the model to it, and its text."""
    keys: Keys = details["loc"]
    kind, got, grid = details["type"], shown(details["input"]), grid_error(details)
    if kind == "extra_forbidden":
        return keys, unknown_key(owner, str(keys[-1]), known)
    if kind == "missing":
        return keys, "expected a value, got nothing: the key is missing"
    if grid is not None:
        return keys + grid.at, grid.problem
    expected = details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return keys, f"expected {expected}, got {got}"


def grid_error(details: ErrorDetails) -> GridError | None:
    """Return the `GridError` that a validator has raised; None for other problems."""
    error = details.get("ctx", {}).get("error")
    return error if isinstance(error, GridError) else None


def value_at(document: Document, keys: Keys) -> JsonValue:
    """Return the value at some keys, which is there."""
    value = document.data
    for part in keys:
        value = value[part]
    return value


def model_at(
    document: Document,
    keys: Keys,
    model: type[_Model],
    *,
    joint: str = "with",
    paths: Mapping[str, Keys] | None = None,
    owner: str = "",
    also: tuple[str, ...] = (),
) -> _Model:
    """Return the mapping at `keys` as a model reads it; what is no mapping is refused in a sentence with `joint`.

    The other arguments are those of `refuse_invalid`.
    """
    value = value_at(document, keys)
    if not isinstance(value, dict):
        refuse(document, keys, f"expected a mapping {joint} {', '.join(model.model_fields)}, got {shown(value)}")
    content = value if paths is None else {key: value_at(document, at) for key, at in paths.items()}
    try:
        return model.model_validate(content)
    except ValidationError as error:
        refuse_invalid(document, error, model, keys=keys, paths=paths, owner=owner, also=also)


#: The alternatives for one parameter of an entry, each with the keys from the entry to it.
Choices: TypeAlias = tuple[tuple[Any, Keys], ...]


def _numbers(value: JsonValue) -> Choices:
    values = grids.numbers(value)
    return tuple((x, (i,) if isinstance(value, list) else ()) for i, x in enumerate(values))


def _number_lists(value: JsonValue) -> Choices:
    """One list of numbers, or a list of such lists."""
    several = isinstance(value, list) and bool(value) and all(isinstance(x, list) for x in value)
    choices: list[tuple[Any, Keys]] = []
    wrong: list[GridError] = []
    for index, numbers in enumerate(value if several else [value]):
        at: Keys = (index,) if several else ()
        try:
            if not isinstance(numbers, list) or not numbers:
                raise GridError(f"expected a list of numbers, or a list of such lists, got {shown(numbers)}", at)
            choices.append((tuple(grids.number(x, (*at, place)) for place, x in enumerate(numbers)), at))
        except GridError as error:
            wrong.append(error)
    grids.refuse_all(wrong)
    return tuple(choices)


def _pairs(value: JsonValue, expected: str, items: Any) -> Choices:
    """One pair of numbers, or a list of pairs, which are of the type `items`."""
    several = isinstance(value, list) and bool(value) and all(isinstance(x, items) for x in value)
    choices: list[tuple[Any, Keys]] = []
    wrong: list[GridError] = []
    for index, pair in enumerate(value if several else [value]):
        at: Keys = (index,) if several else ()
        try:
            if pair is not None and (not isinstance(pair, list) or len(pair) != 2):
                raise GridError(f"expected {expected}, got {shown(pair)}", at)
            choices.append((None if pair is None else tuple(grids.number(x, at) for x in pair), at))
        except GridError as error:
            wrong.append(error)
    grids.refuse_all(wrong)
    return tuple(choices)


def _choices_among(names: tuple[str, ...], value: JsonValue) -> Choices:
    """One of some names, or a list of them."""
    expected = f"expected one of {', '.join(names)}"
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(x, str) for x in values):
        raise GridError(f"{expected}, or a list of them, got {shown(value)}")
    choices = tuple((x, (i,) if isinstance(value, list) else ()) for i, x in enumerate(values))
    wrong = [(x, at) for x, at in choices if x not in names]
    grids.refuse_all([GridError(f"{expected}, got {shown(x)}{did_you_mean(x, names)}", at) for x, at in wrong])
    return choices


def _masses(value: JsonValue) -> Choices:
    if not isinstance(value, list) or not value:
        raise GridError(f"expected a list of counts or probabilities, got {shown(value)}")
    wrong: list[GridError] = []
    for index, mass in enumerate(value):
        try:
            grids.number(mass, (index,))
        except GridError as problem:
            wrong.append(problem)
    grids.refuse_all(wrong)
    return ((tuple(value), ()),)


def _files(value: JsonValue) -> Choices:
    """One file, or one a side."""
    files = value if isinstance(value, list) else [value]
    if len(files) not in (1, 2) or not all(isinstance(x, str) and x for x in files):
        raise GridError(f"expected the path of a file, or of two files, got {shown(value)}")
    return ((tuple(files), ()),)


def _names(value: JsonValue) -> Choices:
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise GridError(f"expected a list of names, got {shown(value)}")
    return ((tuple(value), ()),)


_TWO_NUMBERS = partial(_pairs, expected="two numbers, or a list of such pairs", items=list)
_LIMITS = partial(_pairs, expected="[low, high], a list of such pairs, or null", items=list | None)
Files = Annotated[Choices, PlainValidator(_files)]
Names = Annotated[Choices, PlainValidator(_names)]
#: What stands in a file for a parameter of each form; names are checked against those of their domain. Mechanisms are
#: entries of their own, which `pbdist.study.entries` expands.
_TYPES: Mapping[Form, Any] = {
    Form.NUMBER: Annotated[Choices, PlainValidator(_numbers)],
    Form.NUMBERS: Annotated[Choices, PlainValidator(_number_lists)],
    Form.TWO_NUMBERS: Annotated[Choices, PlainValidator(_TWO_NUMBERS)],
    Form.LIMITS: Annotated[Choices, PlainValidator(_LIMITS)],
    Form.MASSES: Annotated[Choices, PlainValidator(_masses)],
    Form.MECHANISM: dict[str, Any],
    Form.MECHANISMS: list[Any],
}


def field_type(domain: Domain) -> Any:
    """Return the type of the field of a model that reads the values of a domain."""
    if domain.form is Form.NAME:
        return Annotated[Choices, PlainValidator(partial(_choices_among, domain.names))]
    return _TYPES[domain.form]


def _epsilons(value: JsonValue) -> tuple[float, ...]:
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        if is_exponential(item):
            at = (index,) if isinstance(value, list) else ()
            problem = f"expected a number, got {shown(item)}: exp_epsilon takes e^ε, and epsilon takes ε"
            raise GridError(problem, at)
    return _within(value, 0.0, MAX_EPSILON, "ε")


def _exp_epsilons(value: JsonValue) -> tuple[float, ...]:
    return _within(value, 1.0, math.inf, "e^ε")


def _one(grid: Callable[[JsonValue], tuple[float, ...]], value: JsonValue) -> float:
    """Return a single value that a grid may have."""
    if isinstance(value, dict | list):
        raise GridError(f"expected a number, got {shown(value)}")
    (number,) = grid(value)
    return number


def _within(value: JsonValue, minimum: float, maximum: float, what: str) -> tuple[float, ...]:
    def problem_of(x: float) -> str | None:
        if x < minimum:
            return f"expected {what} of at least {minimum:g}, got {x!r}"
        return f"expected {what} of at most {maximum:g}, got {x!r}" if x > maximum else None

    return tuple(x + 0.0 for x in grids.numbers(value, problem_of))  # -0.0 is 0.0


def _round(value: JsonValue) -> int:
    try:
        return grids.integers([value])[0]
    except GridError as problem:
        raise GridError(problem.problem) from None


def _buckets(value: JsonValue) -> int:
    if type(value) is not int or value <= 0 or value % 2:
        raise GridError(f"expected a positive even number, got {shown(value)}")
    if value > MAX_BUCKETS:
        raise GridError(f"expected at most {MAX_BUCKETS} buckets, got {shown(value)}")
    return value


def _adjacency(value: JsonValue) -> str:
    try:
        return checked_adjacency(value, "").value
    except InvalidInputError as error:
        raise GridError(str(error).removeprefix(": ")) from None


def _one_of(names: Sequence[str], value: JsonValue) -> str:
    if not isinstance(value, str) or value not in names:
        raise GridError(f"expected one of {', '.join(names)}, got {shown(value)}{did_you_mean(value, names)}")
    return value


def _tolerance(value: JsonValue) -> float:
    return _number(value, lambda x: SMALLEST_TOLERANCE <= x <= 1.0, f"a number from {SMALLEST_TOLERANCE:g} to 1")


def _floor(value: JsonValue) -> float:
    return _number(value, lambda x: 0.0 <= x < 1.0, "a number from 0 to below 1") + 0.0  # -0.0 is 0.0


def _number(value: JsonValue, fits: Callable[[float], bool], expected: str) -> float:
    wrong = GridError(f"expected {expected}, got {shown(value)}")
    try:
        number = grids.number(value)
    except GridError:
        raise wrong from None
    if not fits(number):
        raise wrong
    return number


def _factors(value: JsonValue) -> tuple[float | None, ...]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise GridError("expected at least one of auto and a number above 1, got []")
    result: list[float | None] = []
    for index, item in enumerate(listed):
        at = (index,) if isinstance(value, list) else ()
        try:
            factor = None if item == "auto" else grids.number(item, at)
        except GridError as problem:
            problem.problem = f"expected auto or a number above 1, got {shown(item)}"
            raise
        if factor is not None and factor <= 1.0:
            raise GridError(f"expected auto or a number above 1, got {shown(item)}", at)
        if factor in result:
            raise GridError(f"expected each factor once, got {shown(item)} again", at)
        result.append(factor)
    return tuple(result)


def _positive(value: JsonValue) -> float:
    number = grids.number(value)
    if number <= 0.0:
        raise GridError(f"expected a number above 0, got {shown(value)}")
    return number


def _delta(value: JsonValue) -> float:
    delta = grids.number(value)
    if not 0.0 < delta < 1.0:
        raise GridError(f"expected a δ above 0 and below 1, got {shown(value)}")
    return delta


Number = Annotated[float, PlainValidator(partial(grids.number, at=()))]
Positive = Annotated[float, PlainValidator(_positive)]
Delta = Annotated[float, PlainValidator(_delta)]
Round = Annotated[int, PlainValidator(_round)]


class TargetModel(BaseModel):
    """A target."""

    model_config = STRICT
    delta: Delta
    compositions: Round
    epsilon: Annotated[float, PlainValidator(partial(_one, _epsilons))] | None = None
    exp_epsilon: Annotated[float, PlainValidator(partial(_one, _exp_epsilons))] | None = None


class StudyModel(BaseModel):
    """A study file."""

    model_config = STRICT
    format: int
    name: str
    mechanisms: list[Any]
    compositions: Annotated[tuple[int, ...], PlainValidator(grids.integers)]
    description: str | None = None
    method: Annotated[str, PlainValidator(partial(_one_of, METHODS))] = "tight"
    tolerance: Annotated[float, PlainValidator(_tolerance)] | None = None
    floor: Annotated[float, PlainValidator(_floor)] | None = None
    direction: Annotated[str, PlainValidator(partial(_one_of, DIRECTIONS))] | None = None
    buckets: Annotated[int, PlainValidator(_buckets)] | None = None
    factors: Annotated[tuple[float | None, ...], PlainValidator(_factors)] = (None,)
    epsilon: Annotated[tuple[float, ...], PlainValidator(_epsilons)] | None = None
    exp_epsilon: Annotated[tuple[float, ...], PlainValidator(_exp_epsilons)] | None = None
    keep_states: bool = False
    targets: list[Any] = []
    extend: bool = False
    adjacency: Annotated[str, PlainValidator(_adjacency)] | None = None


class AdditionModel(BaseModel):
    """A study file that holds what is new in a store: what it does not name is as in the store."""

    model_config = STRICT
    format: int
    name: str
    extend: bool
    mechanisms: list[Any] | None = None
    compositions: Annotated[tuple[int, ...], PlainValidator(grids.integers)] | None = None
    description: str | None = None
    method: Annotated[str, PlainValidator(partial(_one_of, METHODS))] | None = None
    tolerance: Annotated[float, PlainValidator(_tolerance)] | None = None
    floor: Annotated[float, PlainValidator(_floor)] | None = None
    direction: Annotated[str, PlainValidator(partial(_one_of, DIRECTIONS))] | None = None
    buckets: Annotated[int, PlainValidator(_buckets)] | None = None
    factors: Annotated[tuple[float | None, ...], PlainValidator(_factors)] | None = None
    epsilon: Annotated[tuple[float, ...], PlainValidator(_epsilons)] | None = None
    exp_epsilon: Annotated[tuple[float, ...], PlainValidator(_exp_epsilons)] | None = None
    keep_states: bool | None = None
    targets: list[Any] = []
    adjacency: Annotated[str, PlainValidator(_adjacency)] | None = None
