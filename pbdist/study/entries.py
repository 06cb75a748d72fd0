"""One entry of a study's list of mechanisms: what its keys may be, and the pairs that it stands for."""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, NoReturn, TypeAlias

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pbdist import mechanisms
from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms.pair import Pair
from pbdist.study import grids
from pbdist.study.document import Document, Place, shown
from pbdist.types import JsonValue

__all__ = ["MOST_SETTINGS", "STRICT", "custom_error", "expand_entry", "first_problem", "refuse"]

#: Above this a study is refused before it is built.
MOST_SETTINGS = 2_000_000

#: How every model of the study file behaves.
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)

#: The alternatives that an entry gives for one parameter, and where each of them stands, seen from the entry.
Choices: TypeAlias = tuple[tuple[Any, Place], ...]


def custom_error(problem: grids.GridError) -> PydanticCustomError:
    """Return a grid's problem in the form in which pydantic collects it."""
    return PydanticCustomError("grid", "{problem}", {"problem": problem.problem, "at": problem.at})


def _numbers(value: JsonValue) -> Choices:
    try:
        values = grids.numbers(value)
    except grids.GridError as problem:
        raise custom_error(problem) from None
    return tuple((x, (i,) if isinstance(value, list) else ()) for i, x in enumerate(values))


def _truncations(value: JsonValue) -> Choices:
    if value is None:
        return ((None, ()),)
    several = isinstance(value, list) and bool(value) and all(isinstance(x, list | None) for x in value)
    choices: list[tuple[Any, Place]] = []
    for position, limits in enumerate(value if several else [value]):
        at: Place = (position,) if several else ()
        if limits is not None and (not isinstance(limits, list) or len(limits) != 2):
            problem = f"expected [low, high], a list of such pairs, or null, got {shown(limits)}"
            raise custom_error(grids.GridError(problem, at))
        try:
            choices.append((None if limits is None else tuple(grids.number(x, at) for x in limits), at))
        except grids.GridError as error:
            raise custom_error(error) from None
    return tuple(choices)


def _readings(value: JsonValue) -> Choices:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(x, str) for x in values):
        problem = grids.GridError(f"expected the name of a reading or a list of such names, got {shown(value)}")
        raise custom_error(problem)
    return tuple((x, (i,) if isinstance(value, list) else ()) for i, x in enumerate(values))


def _masses(value: JsonValue) -> Choices:
    if not isinstance(value, list) or not value:
        raise custom_error(grids.GridError(f"expected a list of counts or probabilities, got {shown(value)}"))
    for position, mass in enumerate(value):
        try:
            grids.number(mass, (position,))
        except grids.GridError as problem:
            raise custom_error(problem) from None
    return ((tuple(value), ()),)


Numbers = Annotated[Choices, PlainValidator(_numbers)]
Truncations = Annotated[Choices, PlainValidator(_truncations)]
Readings = Annotated[Choices, PlainValidator(_readings)]
Masses = Annotated[Choices, PlainValidator(_masses)]


class _Entry(BaseModel):
    """The parameters of one kind of mechanism: the fields carry the names of the constructor's arguments."""

    model_config = STRICT
    construct_pair: ClassVar[Callable[..., Pair]]
    kind: str


class _LaplaceEntry(_Entry):
    construct_pair = mechanisms.Laplace
    scale: Numbers
    sensitivity: Numbers | None = None
    truncate: Truncations | None = None


class _GaussianEntry(_Entry):
    construct_pair = mechanisms.Gaussian
    scale: Numbers
    sensitivity: Numbers | None = None
    truncate: Truncations | None = None


class _RandomizedResponseEntry(_Entry):
    construct_pair = mechanisms.RandomizedResponse
    p: Numbers


class _SubsampledGaussianEntry(_Entry):
    construct_pair = mechanisms.SubsampledGaussian
    scale: Numbers
    rate: Numbers
    sensitivity: Numbers | None = None


class _ApproximateDPEntry(_Entry):
    construct_pair = mechanisms.ApproximateDP
    epsilon: Numbers
    delta: Numbers


class _HistogramEntry(_Entry):
    construct_pair = mechanisms.Histogram
    p: Masses
    q: Masses


class _NoisyCountEntry(_Entry):
    construct_pair = mechanisms.NoisyCount
    noise: dict[str, Any]
    mean: Numbers
    shift: Numbers
    reading: Readings | None = None


class _PoissonEntry(_Entry):
    construct_pair = mechanisms.Poisson
    mean: Numbers
    sensitivity: Numbers | None = None


class _DiscreteLaplaceEntry(_Entry):
    construct_pair = mechanisms.DiscreteLaplace
    scale: Numbers
    sensitivity: Numbers | None = None


class _DiscreteGaussianEntry(_Entry):
    construct_pair = mechanisms.DiscreteGaussian
    scale: Numbers
    sensitivity: Numbers | None = None


class _ProductEntry(_Entry):
    construct_pair = mechanisms.Product
    pairs: list[Any]


class _ReversedEntry(_Entry):
    construct_pair = mechanisms.Reversed
    pair: dict[str, Any]


_ENTRIES: Mapping[str, type[_Entry]] = {
    "Laplace": _LaplaceEntry,
    "Gaussian": _GaussianEntry,
    "RandomizedResponse": _RandomizedResponseEntry,
    "SubsampledGaussian": _SubsampledGaussianEntry,
    "ApproximateDP": _ApproximateDPEntry,
    "Histogram": _HistogramEntry,
    "NoisyCount": _NoisyCountEntry,
    "Poisson": _PoissonEntry,
    "DiscreteLaplace": _DiscreteLaplaceEntry,
    "DiscreteGaussian": _DiscreteGaussianEntry,
    "Product": _ProductEntry,
    "Reversed": _ReversedEntry,
}
_NOISES = ("Laplace", "Gaussian")
_NO_PRODUCTS = tuple(kind for kind in _ENTRIES if kind != "Product")
_CONSTRUCTOR_PROBLEM = re.compile(r"(?P<owner>\w+)\.(?P<field>\w+)(\[(?P<position>\d+)\])?: (?P<problem>.*)", re.DOTALL)


def refuse(document: Document, place: Place, problem: str) -> NoReturn:
    """Raise the `StudyFileError` for the value at `place`."""
    raise document.error(place, problem)


def first_problem(error: ValidationError, known: type[BaseModel], **nested: type[BaseModel]) -> tuple[Place, str]:
    """Return the place, seen from the model, and the text of the problem to tell of those that pydantic found.

    `nested` are the models of what stands in the lists of `known`, by field.
    """
    found = error.errors(include_url=False)
    # A misspelt key is both unknown and missing: the line it stands on is the better one to name.
    details: ErrorDetails = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    place: Place = details["loc"]
    kind, got = details["type"], shown(details["input"])
    if kind == "extra_forbidden":
        owner = nested[str(place[0])] if len(place) > 1 else known
        return place, f"expected one of {', '.join(owner.model_fields)}, got an unknown key"
    if kind == "missing":
        return place, "expected a value, got nothing: the key is missing"
    if kind == "grid":
        context = details["ctx"]
        return place + tuple(context["at"]), str(context["problem"])
    expected = details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return place, f"expected {expected}, got {got}"


def expand_entry(
    document: Document, place: Place, kinds: tuple[str, ...] = tuple(_ENTRIES), own: tuple[str, ...] = ()
) -> list[tuple[Pair, Place]]:
    """Return the pairs that the entry at `place` stands for, each with the place to name if it is refused later.

    Parameters
    ----------
    document
        The study file.
    place
        Where the entry stands.
    kinds
        The kinds that may stand there.
    own
        Keys of the entry that are not the mechanism's parameters.

    Raises
    ------
    StudyFileError
        A key is unknown, missing or has a wrong value, or a mechanism refuses its parameters.
    """
    entry = _at(document, place)
    if not isinstance(entry, dict):
        refuse(document, place, f"expected a mapping with a kind, got {shown(entry)}")
    kind = entry.get("kind")
    if kind not in kinds:
        at = (*place, "kind") if "kind" in entry else place
        refuse(document, at, f"expected a kind among {', '.join(kinds)}, got {shown(kind)}")
    shared: dict[str, Place] = {key: (*place, key) for key in entry if key not in ("settings", *own)}
    settings = _settings(document, place, entry, shared)
    return [found for setting in settings for found in _expand(document, place, kind, {**shared, **setting})]


def _settings(
    document: Document, place: Place, entry: dict[str, JsonValue], shared: Mapping[str, Place]
) -> list[dict[str, Place]]:
    """Return, for each of the entry's settings, the places of the parameters that go together in it."""
    if "settings" not in entry:
        return [{}]
    listed, at = entry["settings"], (*place, "settings")
    if not isinstance(listed, list) or not listed:
        refuse(document, at, f"expected a list of mappings of parameters, got {shown(listed)}")
    result: list[dict[str, Place]] = []
    for position, setting in enumerate(listed):
        here = (*at, position)
        if not isinstance(setting, dict) or not setting:
            refuse(document, here, f"expected a mapping of parameters, got {shown(setting)}")
        for key in setting:
            if key in shared:
                refuse(document, (*here, key), "expected each parameter once, got it beside the settings too")
        result.append({key: (*here, key) for key in setting})
    return result


def _expand(document: Document, place: Place, kind: str, places: Mapping[str, Place]) -> list[tuple[Pair, Place]]:
    """Return the product of the grids of one setting, the first field of the model varying slowest."""
    model = _ENTRIES[kind]
    values = {key: _at(document, at) for key, at in places.items()}
    try:
        checked = model.model_validate(values)
    except ValidationError as error:
        at, problem = first_problem(error, model)
        first = str(at[0])
        refuse(document, (*places.get(first, (*place, first)), *at[1:]), problem)
    alternatives: dict[str, Choices] = {}
    for field in model.model_fields:
        if field == "kind" or getattr(checked, field) is None:
            continue
        if field == "noise":
            alternatives[field] = tuple(expand_entry(document, places[field], _NOISES))
        elif field == "pair":
            alternatives[field] = tuple(expand_entry(document, places[field], _NO_PRODUCTS))
        elif field == "pairs":
            alternatives[field] = _products(document, places[field])
        else:
            alternatives[field] = tuple((value, places[field] + at) for value, at in getattr(checked, field))
    count = math.prod(map(len, alternatives.values()))
    if count > MOST_SETTINGS:
        refuse(document, place, f"expected at most {MOST_SETTINGS} noise settings, got {count}")
    fields = tuple(alternatives)
    return [
        (_construct(document, place, model, fields, choice), place)
        for choice in itertools.product(*alternatives.values())
    ]


def _products(document: Document, place: Place) -> Choices:
    count = len(_at(document, place))
    components = [[pair for pair, _ in expand_entry(document, (*place, i))] for i in range(count)]
    settings = math.prod(map(len, components))
    if settings > MOST_SETTINGS:
        refuse(document, place, f"expected at most {MOST_SETTINGS} noise settings, got {settings}")
    return tuple((pairs, place) for pairs in itertools.product(*components))


def _construct(document: Document, place: Place, model: type[_Entry], fields: tuple[str, ...], choice: Choices) -> Pair:
    arguments = {field: value for field, (value, _) in zip(fields, choice, strict=True)}
    positional = arguments.pop("pairs", ())
    try:
        return model.construct_pair(*positional, **arguments)
    except StudyFileError:
        raise
    except InvalidInputError as error:
        chosen = dict(zip(fields, choice, strict=True))
        told = _CONSTRUCTOR_PROBLEM.fullmatch(str(error))
        if told and told["field"] in chosen:
            at = chosen[told["field"]][1]
            refuse(document, at if told["position"] is None else (*at, int(told["position"])), told["problem"])
        refuse(document, place, str(error))


def _at(document: Document, place: Place) -> JsonValue:
    value = document.data
    for part in place:
        value = value[part]
    return value
