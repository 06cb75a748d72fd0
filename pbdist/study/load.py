"""Read and check a study file; every error names the file, the line and the field."""

import gc
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, PlainValidator, ValidationError

from pbdist.arguments import (
    DEFAULT_BUCKETS,
    DEFAULT_FLOOR,
    DEFAULT_TOLERANCE,
    MAX_BUCKETS,
    MAX_EPSILON,
    SMALLEST_TOLERANCE,
    problem_of_either,
)
from pbdist.study import grids
from pbdist.study.document import Document, Keys, read_document, shown
from pbdist.study.entries import MOST_SETTINGS, STRICT, first_problem, refuse
from pbdist.study.parameters import custom_error
from pbdist.study.release_entries import RELEASE_PLAN, expand_mechanism
from pbdist.study.spec import STUDY_FORMAT, Cell, StudySpec, Target
from pbdist.table import METHODS
from pbdist.types import JsonValue

__all__ = ["load_study"]

#: How the two directions are judged: the larger one alone, or each.
_DIRECTIONS = ("both", "each")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _floats(value: JsonValue) -> tuple[float, ...]:
    try:
        return tuple(grids.numbers(value))
    except grids.GridError as problem:
        raise custom_error(problem) from None


def _epsilons(value: JsonValue) -> tuple[float, ...]:
    return _within(value, 0.0, MAX_EPSILON, "ε")


def _exp_epsilons(value: JsonValue) -> tuple[float, ...]:
    return _within(value, 1.0, math.inf, "e^ε")


def _within(value: JsonValue, minimum: float, maximum: float, what: str) -> tuple[float, ...]:
    result = _floats(value)
    for index, x in enumerate(result):
        at = (index,) if isinstance(value, list) else ()
        if x < minimum:
            raise custom_error(grids.GridError(f"expected {what} of at least {minimum:g}, got {x!r}", at))
        if x > maximum:
            raise custom_error(grids.GridError(f"expected {what} of at most {maximum:g}, got {x!r}", at))
    return tuple(x + 0.0 for x in result)  # -0.0 is 0.0


def _compositions(value: JsonValue) -> tuple[int, ...]:
    try:
        return grids.integers(value)
    except grids.GridError as problem:
        raise custom_error(problem) from None


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


def _one_of(names: Sequence[str], value: JsonValue) -> str:
    if not isinstance(value, str) or value not in names:
        raise custom_error(grids.GridError(f"expected one of {', '.join(names)}, got {shown(value)}"))
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


class _TargetModel(BaseModel):
    model_config = STRICT
    delta: Annotated[float, PlainValidator(_delta)]
    compositions: int
    epsilon: float | None = None
    exp_epsilon: float | None = None


class _StudyModel(BaseModel):
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
    targets: list[_TargetModel] = []


def load_study(path: str | Path) -> StudySpec:
    """Read and check the study file at `path`.

    Guaranteed: every mechanism has been constructed, so that the study can be computed.

    Raises
    ------
    StudyFileError
        For the first problem: ``FILE:LINE: field.path: expected .., got ..``.
    """
    with _no_collection():
        return _study(read_document(Path(path)))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switch off the collector of garbage: among a million new cells it takes twice as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _study(document: Document) -> StudySpec:
    """Return the study of a document."""
    if not isinstance(document.data, dict):
        refuse(document, (), f"expected a mapping with a name, mechanisms and grids, got {shown(document.data)}")
    version = document.data.get("format")
    if type(version) is not int or version != STUDY_FORMAT:
        refuse(document, ("format",), f"expected {STUDY_FORMAT}, got {shown(version)}")
    try:
        model = _StudyModel.model_validate(document.data)
    except ValidationError as error:
        refuse(document, *first_problem(error, _StudyModel, targets=_TargetModel))
    if not _NAME.fullmatch(model.name):
        refuse(document, ("name",), f"expected letters, digits, '.', '_' and '-', got {shown(model.name)}")
    tolerance, buckets = _precision(document, model)
    floor, direction = _promise(document, model)
    epsilon = _epsilon_grid(document, model)
    compositions = tuple(sorted(model.compositions))
    return StudySpec(
        name=model.name,
        cells=_cells(document, model),
        method=model.method,
        tolerance=tolerance,
        buckets=buckets,
        compositions=compositions,
        epsilon=epsilon,
        keep_states=model.keep_states,
        floor=floor,
        direction=direction,
        description=model.description,
        targets=tuple(
            _target(document, ("targets", index), target, compositions, epsilon)
            for index, target in enumerate(model.targets)
        ),
    )


def _precision(document: Document, model: _StudyModel) -> tuple[float | None, int | None]:
    """Return the tolerance and the number of buckets, by the rules of `bounds_table`."""
    if model.method == "buckets":
        if model.tolerance is not None:
            refuse(document, ("tolerance",), f"expected none with method buckets, got {model.tolerance!r}")
        return None, DEFAULT_BUCKETS if model.buckets is None else model.buckets
    if model.buckets is not None and any(factor is not None for factor in model.factors):
        refuse(document, ("buckets",), "expected none beside a factor with method tight, got both")
    return DEFAULT_TOLERANCE if model.tolerance is None else model.tolerance, model.buckets


def _promise(document: Document, model: _StudyModel) -> tuple[float, str]:
    """Return the floor and the direction by which the tolerance is judged; defaults where there is no tolerance."""
    instead = None
    if model.method == "buckets":
        instead = "method buckets"
    elif model.buckets is not None:
        instead = "buckets"
    elif None not in model.factors:
        instead = "factors alone"
    if instead is None:
        floor = DEFAULT_FLOOR if model.floor is None else model.floor
        return floor, "both" if model.direction is None else model.direction
    for name, value in (("floor", model.floor), ("direction", model.direction)):
        if value is not None:
            refuse(document, (name,), f"expected none with {instead}, got {value!r}")
    return DEFAULT_FLOOR, "each"


def _epsilon_grid(document: Document, model: _StudyModel) -> tuple[float, ...]:
    problem = problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon)
    if problem is not None:
        refuse(document, ("epsilon",), problem)
    if model.epsilon is not None:
        return tuple(sorted(model.epsilon))
    return tuple(sorted({math.log(value) for value in model.exp_epsilon or ()}))


def _cells(document: Document, model: _StudyModel) -> tuple[Cell, ...]:
    if not model.mechanisms:
        refuse(document, ("mechanisms",), "expected at least one mechanism, got []")
    found: dict[Cell, Keys] = {}
    for index, entry in enumerate(model.mechanisms):
        keys: Keys = ("mechanisms", index)
        pairs = expand_mechanism(document, keys, own=("label",))
        if entry["kind"] == RELEASE_PLAN:
            _check_release_plans(document, model, index)
        label = entry.get("label", entry["kind"])
        if not isinstance(label, str) or not _printable(label):
            refuse(document, (*keys, "label"), f"expected a short text on one line, got {shown(label)}")
        count = len(found) + len(pairs) * len(model.factors)
        if count > MOST_SETTINGS:
            refuse(document, keys, f"expected at most {MOST_SETTINGS} cells in all, got {count} up to here")
        for pair, at in pairs:
            for factor in model.factors:
                cell = Cell(label, pair, factor)
                known = len(found)
                first = found.setdefault(cell, at)
                if len(found) == known:
                    line = document.lines[first]
                    refuse(document, at, f"expected each setting once, got {cell.describe()} on line {line} too")
    return tuple(found)


def _check_release_plans(document: Document, model: _StudyModel, index: int) -> None:
    """Refuse what only one worst-case pair has."""
    plan = f"a {RELEASE_PLAN}, as mechanisms[{index}] is"
    if model.method != "tight":
        refuse(document, ("method",), f"expected tight with {plan}, got {model.method}")
    if model.keep_states:
        refuse(document, ("keep_states",), f"expected false with {plan}, got true")


def _printable(label: str) -> bool:
    return 0 < len(label) <= 100 and label.isprintable() and label == label.strip()


def _target(
    document: Document,
    keys: Keys,
    target: _TargetModel,
    compositions: tuple[int, ...],
    epsilon: tuple[float, ...],
) -> Target:
    problem = problem_of_either(epsilon=target.epsilon, exp_epsilon=target.exp_epsilon)
    if problem is not None:
        refuse(document, keys, problem)
    if target.compositions not in compositions:
        problem = f"expected a value of the study's compositions, got {target.compositions}"
        refuse(document, (*keys, "compositions"), problem)
    if target.epsilon is not None:
        field, value = "epsilon", target.epsilon
        index = grids.nearest_match(epsilon, value)
    else:
        field, value = "exp_epsilon", target.exp_epsilon or 0.0
        index = grids.nearest_exponential(epsilon, value)
    if index is None:
        refuse(document, (*keys, field), f"expected a value of the study's {field}, got {value!r}")
    return Target(epsilon[index], target.delta, target.compositions)
