"""Read what a release plan of a study file declares: granularity, blocks, and profiles of changes."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.granularity.notions import (
    Bounded,
    EdgeLevel,
    FreeLunch,
    GivenRelation,
    Granularity,
    NodeLevel,
    Unbounded,
    UserLevel,
)
from pbdist.granularity.release.blocks import Blocks, Memberships, Overlapping, Partition
from pbdist.granularity.release.changes import Profile, Touch
from pbdist.study.document import Document, Keys, Problems, shown
from pbdist.study.hints import unknown_key
from pbdist.study.refusals import STRICT, refuse, refuse_invalid, value_at
from pbdist.suggestions import did_you_mean

_SIMPLE: Mapping[str, type[Granularity]] = {
    "unbounded": Unbounded,
    "bounded": Bounded,
    "edge-level": EdgeLevel,
    "free-lunch": FreeLunch,
}
_WITH_PARAMETERS: Mapping[str, type[Granularity]] = {"user-level": UserLevel, "node-level": NodeLevel}
_GRANULARITIES = (
    *_SIMPLE,
    "{user-level: {records: ..}}",
    "{node-level: {degree: .., presence: public}}",
    "{given: ..}",
)
#: Blocks that are given by their number.
_MOST_BLOCKS = 100_000


class _PartitionEntry(BaseModel):
    model_config = STRICT
    partition: Any
    exhaustive: bool = True


class _OverlappingEntry(BaseModel):
    model_config = STRICT
    overlapping: Any
    at_most: int
    exhaustive: bool = False


class _MembershipsEntry(BaseModel):
    model_config = STRICT
    memberships: list[Any]


class _ProfileEntry(BaseModel):
    model_config = STRICT
    touches: list[Any]
    attained: bool = False


class _TouchEntry(BaseModel):
    model_config = STRICT
    analysis: str
    removed: int = 0
    added: int = 0


def granularity_at(document: Document, keys: Keys) -> Granularity:
    """Return the granularity at some keys: a name, or a name with its parameters."""
    value = value_at(document, keys)
    if isinstance(value, str) and value in _SIMPLE:
        return _SIMPLE[value]()
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in (*_WITH_PARAMETERS, "given"):
        given = next(iter(value), None) if isinstance(value, dict) else value
        near = did_you_mean(given, (*_SIMPLE, *_WITH_PARAMETERS, "given"))
        refuse(document, keys, f"expected one of {', '.join(_GRANULARITIES)}, got {shown(value)}{near}")
    name, parameters = next(iter(value.items()))
    at = (*keys, name)
    if name == "given":
        if not isinstance(parameters, str) or not parameters:
            refuse(document, at, f"expected the name of a relation, got {shown(parameters)}")
        return GivenRelation(parameters, _not_decided)
    kind = _WITH_PARAMETERS[name]
    names = [field.name for field in fields(kind)]
    if not isinstance(parameters, dict) or not parameters:
        refuse(document, at, f"expected a mapping with {', '.join(names)}, got {shown(parameters)}")
    for key in parameters:
        if key not in names:
            refuse(document, (*at, key), unknown_key("", key, names))
    try:
        return kind(**parameters)
    except InvalidInputError as error:
        refuse_field(document, at, {key: (*at, key) for key in parameters}, str(error).partition(".")[2])


def _not_decided(first: object, second: object) -> bool:
    """Refuse to tell neighbours: a study file declares profiles, which is all that a plan needs."""
    raise InvalidInputError(
        f"granularity: expected a relation as a function, got the name of one, for {shown(first)} and {shown(second)}"
    )


def blocks_at(document: Document, keys: Keys) -> Blocks:
    """Return the blocks at some keys: a partition, overlapping ones, or the sets of blocks of one record."""
    value = value_at(document, keys)
    made: Blocks
    try:
        if isinstance(value, dict) and "partition" in value:
            cut = checked_mapping(document, keys, None, _PartitionEntry)
            made = Partition(_names(document, (*keys, "partition")), cut.exhaustive)
        elif isinstance(value, dict) and "overlapping" in value:
            groups = checked_mapping(document, keys, None, _OverlappingEntry)
            made = Overlapping(_names(document, (*keys, "overlapping")), groups.at_most, groups.exhaustive)
        elif isinstance(value, dict) and "memberships" in value:
            made = Memberships(tuple(checked_mapping(document, keys, None, _MembershipsEntry).memberships))
        else:
            refuse(document, keys, f"expected a partition, overlapping blocks or memberships, got {shown(value)}")
    except StudyFileError:
        raise
    except InvalidInputError as error:
        field, _, problem = str(error).partition(": ")
        kind, _, name = field.partition(".")
        refuse(document, (*keys, name if name in value else kind.lower()), problem)
    return made


def _names(document: Document, keys: Keys) -> tuple[str, ...]:
    """Return the names of blocks; a number stands for that many blocks ``block 1``, ``block 2``, .."""
    value = value_at(document, keys)
    if type(value) is int and 1 <= value <= _MOST_BLOCKS:
        return tuple(f"block {number}" for number in range(1, value + 1))
    if not isinstance(value, list):
        refuse(document, keys, f"expected a list of names, or a number from 1 to {_MOST_BLOCKS}, got {shown(value)}")
    return tuple(value)


def profile_at(document: Document, keys: Keys) -> Profile:
    """Return the profile at some keys."""
    entry = checked_mapping(document, keys, None, _ProfileEntry)
    touches, problems = [], Problems()
    for index in range(len(entry.touches)):
        with problems.collected():
            touches.append(_touch(document, (*keys, "touches", index)))
    problems.refuse()
    try:
        return Profile(tuple(touches), entry.attained)
    except InvalidInputError as error:
        refuse_field(document, keys, None, str(error).removeprefix("Profile."))


def _touch(document: Document, keys: Keys) -> Touch:
    entry = checked_mapping(document, keys, None, _TouchEntry)
    try:
        return Touch(entry.analysis, entry.removed, entry.added)
    except InvalidInputError as error:
        refuse_field(document, keys, None, str(error).removeprefix("Touch.").removeprefix("Touch: "))


def checked_mapping(
    document: Document,
    keys: Keys,
    paths: Mapping[str, Keys] | None,
    model: type[BaseModel],
    also: tuple[str, ...] = (),
) -> Any:
    """Return a mapping as a model; `paths` has the keys of each of its fields where they are not below `keys`.

    `also` are keys that it may have beside those fields.
    """
    value = value_at(document, keys)
    if not isinstance(value, dict):
        refuse(document, keys, f"expected a mapping with {', '.join(model.model_fields)}, got {shown(value)}")
    places = {key: (*keys, key) for key in value} if paths is None else paths
    try:
        return model.model_validate({key: value_at(document, at) for key, at in places.items()})
    except ValidationError as error:
        refuse_invalid(document, error, model, keys=keys, paths=places, also=also)


def refuse_field(document: Document, keys: Keys, paths: Mapping[str, Keys] | None, text: str) -> NoReturn:
    """Refuse with an error ``field: problem`` of a constructor, at the field where it is in the file."""
    field, found, problem = text.partition(": ")
    if not found or not field.isidentifier():
        refuse(document, keys, text)
    refuse(document, (*keys, field) if paths is None else paths.get(field, (*keys, field)), problem)
