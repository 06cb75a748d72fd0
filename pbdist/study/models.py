"""The format of study files: models of a study, of what extends a store, and of a target; their fields are the keys."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, PlainValidator

from pbdist.arguments import MAX_BUCKETS, MAX_EPSILON, SMALLEST_TOLERANCE
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import checked_adjacency
from pbdist.study import grids
from pbdist.study.document import shown
from pbdist.study.hints import is_exponential
from pbdist.study.parameters import custom_error
from pbdist.study.refusals import STRICT
from pbdist.suggestions import did_you_mean
from pbdist.table import METHODS
from pbdist.types import JsonValue

#: How the two directions are judged: the larger one alone, or each.
_DIRECTIONS = ("both", "each")


def _epsilons(value: JsonValue) -> tuple[float, ...]:
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        if is_exponential(item):
            at = (index,) if isinstance(value, list) else ()
            problem = f"expected a number, got {shown(item)}: exp_epsilon takes e^ε, and epsilon takes ε"
            raise custom_error(grids.GridError(problem, at))
    return _within(value, 0.0, MAX_EPSILON, "ε")


def _exp_epsilons(value: JsonValue) -> tuple[float, ...]:
    return _within(value, 1.0, math.inf, "e^ε")


def _epsilon(value: JsonValue) -> float:
    return _one(_epsilons, value)


def _exp_epsilon(value: JsonValue) -> float:
    return _one(_exp_epsilons, value)


def _one(grid: Callable[[JsonValue], tuple[float, ...]], value: JsonValue) -> float:
    """Return a single value that a grid may have."""
    if isinstance(value, dict | list):
        raise custom_error(grids.GridError(f"expected a number, got {shown(value)}"))
    (number,) = grid(value)
    return number


def _within(value: JsonValue, minimum: float, maximum: float, what: str) -> tuple[float, ...]:
    def problem_of(x: float) -> str | None:
        if x < minimum:
            return f"expected {what} of at least {minimum:g}, got {x!r}"
        return f"expected {what} of at most {maximum:g}, got {x!r}" if x > maximum else None

    try:
        result = grids.numbers(value, problem_of)
    except grids.GridError as problem:
        raise custom_error(problem) from None
    return tuple(x + 0.0 for x in result)  # -0.0 is 0.0


def _compositions(value: JsonValue) -> tuple[int, ...]:
    try:
        return grids.integers(value)
    except grids.GridError as problem:
        raise custom_error(problem) from None


def _round(value: JsonValue) -> int:
    try:
        return grids.integers([value])[0]
    except grids.GridError as problem:
        raise custom_error(grids.GridError(problem.problem)) from None


def _buckets(value: JsonValue) -> int:
    if type(value) is not int or value <= 0 or value % 2:
        raise custom_error(grids.GridError(f"expected a positive even number, got {shown(value)}"))
    if value > MAX_BUCKETS:
        raise custom_error(grids.GridError(f"expected at most {MAX_BUCKETS} buckets, got {shown(value)}"))
    return value


def _method(value: JsonValue) -> str:
    return _one_of(METHODS, value)


def _direction(value: JsonValue) -> str:
    return _one_of(_DIRECTIONS, value)


def _adjacency(value: JsonValue) -> str:
    try:
        return checked_adjacency(value, "").value
    except InvalidInputError as error:
        raise custom_error(grids.GridError(str(error).removeprefix(": "))) from None


def _one_of(names: Sequence[str], value: JsonValue) -> str:
    if not isinstance(value, str) or value not in names:
        raise custom_error(
            grids.GridError(f"expected one of {', '.join(names)}, got {shown(value)}{did_you_mean(value, names)}")
        )
    return value


def _tolerance(value: JsonValue) -> float:
    return _number(value, lambda x: SMALLEST_TOLERANCE <= x <= 1.0, f"a number from {SMALLEST_TOLERANCE:g} to 1")


def _floor(value: JsonValue) -> float:
    return _number(value, lambda x: 0.0 <= x < 1.0, "a number from 0 to below 1") + 0.0  # -0.0 is 0.0


def _number(value: JsonValue, fits: Callable[[float], bool], expected: str) -> float:
    wrong = custom_error(grids.GridError(f"expected {expected}, got {shown(value)}"))
    try:
        number = grids.number(value)
    except grids.GridError:
        raise wrong from None
    if not fits(number):
        raise wrong
    return number


def _factors(value: JsonValue) -> tuple[float | None, ...]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise custom_error(grids.GridError("expected at least one of auto and a number above 1, got []"))
    result: list[float | None] = []
    for index, item in enumerate(listed):
        at = (index,) if isinstance(value, list) else ()
        try:
            factor = None if item == "auto" else grids.number(item, at)
        except grids.GridError as problem:
            problem.problem = f"expected auto or a number above 1, got {shown(item)}"
            raise custom_error(problem) from None
        if factor is not None and factor <= 1.0:
            raise custom_error(grids.GridError(f"expected auto or a number above 1, got {shown(item)}", at))
        if factor in result:
            raise custom_error(grids.GridError(f"expected each factor once, got {shown(item)} again", at))
        result.append(factor)
    return tuple(result)


def _delta(value: JsonValue) -> float:
    try:
        delta = grids.number(value)
    except grids.GridError as problem:
        raise custom_error(problem) from None
    if not 0.0 < delta < 1.0:
        raise custom_error(grids.GridError(f"expected a δ above 0 and below 1, got {shown(value)}"))
    return delta


class TargetModel(BaseModel):
    """A target."""

    model_config = STRICT
    delta: Annotated[float, PlainValidator(_delta)]
    compositions: Annotated[int, PlainValidator(_round)]
    epsilon: Annotated[float, PlainValidator(_epsilon)] | None = None
    exp_epsilon: Annotated[float, PlainValidator(_exp_epsilon)] | None = None


class StudyModel(BaseModel):
    """A study file."""

    model_config = STRICT
    format: int
    name: str
    mechanisms: list[Any]
    compositions: Annotated[tuple[int, ...], PlainValidator(_compositions)]
    description: str | None = None
    method: Annotated[str, PlainValidator(_method)] = "tight"
    tolerance: Annotated[float, PlainValidator(_tolerance)] | None = None
    floor: Annotated[float, PlainValidator(_floor)] | None = None
    direction: Annotated[str, PlainValidator(_direction)] | None = None
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
    compositions: Annotated[tuple[int, ...], PlainValidator(_compositions)] | None = None
    description: str | None = None
    method: Annotated[str, PlainValidator(_method)] | None = None
    tolerance: Annotated[float, PlainValidator(_tolerance)] | None = None
    floor: Annotated[float, PlainValidator(_floor)] | None = None
    direction: Annotated[str, PlainValidator(_direction)] | None = None
    buckets: Annotated[int, PlainValidator(_buckets)] | None = None
    factors: Annotated[tuple[float | None, ...], PlainValidator(_factors)] | None = None
    epsilon: Annotated[tuple[float, ...], PlainValidator(_epsilons)] | None = None
    exp_epsilon: Annotated[tuple[float, ...], PlainValidator(_exp_epsilons)] | None = None
    keep_states: bool | None = None
    targets: list[Any] = []
    adjacency: Annotated[str, PlainValidator(_adjacency)] | None = None
