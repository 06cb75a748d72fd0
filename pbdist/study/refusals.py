"""Refuse values of a file: at their lines, and all that pydantic finds wrong in a mapping at once."""

from collections.abc import Mapping
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from pbdist.study.document import MOST_TOLD, Document, Keys, Problems, shown
from pbdist.study.hints import meant_key, unknown_key
from pbdist.types import JsonValue

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
        others = details["ctx"]["others"] if details["type"] == "grid" else ()
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
    kind, got = details["type"], shown(details["input"])
    if kind == "extra_forbidden":
        return keys, unknown_key(owner, str(keys[-1]), known)
    if kind == "missing":
        return keys, "expected a value, got nothing: the key is missing"
    if kind == "grid":
        context = details["ctx"]
        return keys + tuple(context["at"]), str(context["problem"])
    expected = details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return keys, f"expected {expected}, got {got}"


def value_at(document: Document, keys: Keys) -> JsonValue:
    """Return the value at some keys, which is there."""
    value = document.data
    for part in keys:
        value = value[part]
    return value
