"""The format of study files: models of a study, of what extends a store, and of a target; their fields are the keys."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from pbdist.arguments import DIRECTIONS, MAX_BUCKETS, MAX_EPSILON, SMALLEST_TOLERANCE
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import checked_adjacency, one_of
from pbdist.study import fields as grids
from pbdist.study.document import Document, Keys
from pbdist.study.fields import (
    MAX_COMPOSITIONS,
    GridError,
    check_keys,
    constructor_problem,
    is_exponential,
    number_hint,
    values_of,
)
from pbdist.study.spec import NAME
from pbdist.table import METHODS
from pbdist.types import JsonValue

_Model = TypeVar("_Model", bound=BaseModel)
#: The configuration of every model of a study file.
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
#: What pydantic expects where it found something else, by the type of its error.
_EXPECTED: Mapping[str, str] = {
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:.10g}",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "too_short": "at least one item",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-'",
}


def model_at(document: Document, keys: Keys, model: type[_Model], *, joint: str = "with") -> _Model:
    """Return the mapping at `keys` as a model reads it, or all that is wrong with it in one error.

    What is no mapping is refused in a sentence with `joint`.
    """
    document, known = document.at(*keys), model.model_fields
    if not isinstance(document.data, dict):
        document.refuse(f"expected a mapping {joint} {', '.join(known)}, got {shown(document.data)}")
    required = [name for name, field in known.items() if field.is_required()]
    problems = check_keys(document, values_of(document), tuple(known), required)
    try:
        made = model.model_validate(document.data)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            problems.found += [document.problem(at, problem) for at, problem in _value_problems(one)]
    problems.refuse()
    return made


def _value_problems(details: ErrorDetails) -> Iterator[tuple[Keys, str]]:
    """Yield what pydantic found wrong with a value: the keys from the model to it, and the problem."""
    place, context, got = details["loc"], details.get("ctx", {}), details["input"]
    error = context.get("error")
    if details["type"] in ("extra_forbidden", "missing"):
        return
    if isinstance(error, GridError):
        yield from (((*place, *at), problem) for at, problem in error.problems)
    elif isinstance(error, InvalidInputError):
        yield place, constructor_problem(error)[2]
    else:
        known = _EXPECTED.get(details["type"])
        expected = details["msg"].removeprefix("Input should be ") if known is None else known.format(**context)
        yield place, f"expected {expected}, got {shown(got)}{number_hint(got)}"


def _one_of(names: Sequence[str]) -> AfterValidator:
    return AfterValidator(partial(one_of(*names).check, "study", "value"))


def _loss(value: JsonValue, *, least: float, most: float, what: str) -> float:
    if what == "ε" and is_exponential(value):
        raise GridError(f"expected a number, got {shown(value)}: exp_epsilon takes e^ε, and epsilon takes ε")
    number = grids.number(value)
    if not least <= number <= most:
        limit = f"at least {least:g}" if number < least else f"at most {most:g}"
        raise GridError(f"expected {what} of {limit}, got {number!r}")
    return number + 0.0  # -0.0 is 0.0


def _factors(value: JsonValue) -> tuple[float | None, ...]:
    def read(item: JsonValue) -> float | None:
        if item == "auto":
            return None
        if isinstance(item, bool) or not isinstance(item, int | float) or not 1.0 < item < math.inf:
            raise GridError(f"expected auto or a number above 1, got {shown(item)}")
        return grids.number(item)

    return grids.listed(value, read)


def _grid(read: Callable[[JsonValue], Any]) -> PlainValidator:
    return PlainValidator(partial(grids.numbers, read=read))


_epsilon = partial(_loss, least=0.0, most=MAX_EPSILON, what="ε")
_exp_epsilon = partial(_loss, least=1.0, most=math.inf, what="e^ε")
Number = float
Positive = Annotated[float, Field(gt=0)]
Delta = Annotated[float, Field(gt=0, lt=1)]
Round = Annotated[int, Field(ge=1, le=MAX_COMPOSITIONS)]
Rounds = Annotated[tuple[int, ...], PlainValidator(grids.integers)]


class TargetModel(BaseModel):
    """A target."""

    model_config = STRICT
    delta: Delta
    compositions: Round
    epsilon: Annotated[float, PlainValidator(_epsilon)] | None = None
    exp_epsilon: Annotated[float, PlainValidator(_exp_epsilon)] | None = None


class FileModel(BaseModel):
    """A file that holds what is new in a store; None stands for what is as in the store."""

    model_config = STRICT
    #: The version of the format.
    format: Literal[1]
    name: Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]
    description: str | None = None
    method: Annotated[str, _one_of(METHODS)] | None = None
    tolerance: Annotated[float, Field(ge=SMALLEST_TOLERANCE, le=1)] | None = None
    floor: Annotated[float, Field(ge=0, lt=1), AfterValidator(lambda x: x + 0.0)] | None = None
    direction: Annotated[str, _one_of(DIRECTIONS)] | None = None
    buckets: Annotated[int, Field(gt=0, le=MAX_BUCKETS, multiple_of=2)] | None = None
    factors: Annotated[tuple[float | None, ...], PlainValidator(_factors)] = (None,)
    epsilon: Annotated[tuple[float, ...], _grid(_epsilon)] | None = None
    exp_epsilon: Annotated[tuple[float, ...], _grid(_exp_epsilon)] | None = None
    keep_states: bool | None = None
    targets: list[Any] = []
    extend: bool = False
    adjacency: Annotated[str, PlainValidator(lambda value: checked_adjacency(value, "adjacency").value)] | None = None
    mechanisms: Annotated[list[Any], Field(min_length=1)] | None = None
    compositions: Rounds | None = None


class StudyModel(FileModel):
    """A study file."""

    mechanisms: Annotated[list[Any], Field(min_length=1)]
    compositions: Rounds
