"""Expand an entry of a study's list of mechanisms into pairs, and check its keys and values."""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from pbdist import mechanisms
from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms.pair import Pair
from pbdist.study.document import Document, Keys, shown
from pbdist.study.parameters import Choices, Files, Masses, Names, NumberPairs, Numbers, Readings, Truncations
from pbdist.types import JsonValue

__all__ = ["KINDS", "MOST_SETTINGS", "STRICT", "expand_entry", "first_problem", "refuse", "settings_of", "value_at"]

#: Larger studies are refused before their cells are made.
MOST_SETTINGS = 2_000_000

#: The configuration of every model of a study file.
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class _Entry(BaseModel):
    """The parameters of one kind of mechanism: the fields are named like the constructor's arguments."""

    model_config = STRICT
    construct_pair: ClassVar[Callable[..., Pair]]
    kind: str


class _LaplaceEntry(_Entry):
    construct_pair = mechanisms.Laplace
    scale: Numbers
    sensitivity: Numbers | None = None
    truncate: Truncations | None = None


class _LaplaceSumEntry(_Entry):
    construct_pair = mechanisms.LaplaceSum
    scales: NumberPairs
    sensitivity: Numbers | None = None


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


def _histogram_of_files(file: tuple[Path, ...], columns: tuple[str, ...] | None = None) -> Pair:
    """Read the counts: the study then holds them itself, and its digest depends on them and not on the file's place."""
    try:
        return mechanisms.load_histograms(*file, columns=columns)
    except InvalidInputError as error:
        field = "columns" if str(error).startswith("columns: ") else "file"
        raise InvalidInputError(f"Histogram.{field}: {str(error).removeprefix('columns: ')}") from error


class _HistogramOfFilesEntry(_Entry):
    construct_pair = staticmethod(_histogram_of_files)
    file: Files
    columns: Names | None = None


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


class _StaircaseEntry(_Entry):
    construct_pair = mechanisms.Staircase
    epsilon: Numbers
    sensitivity: Numbers | None = None
    split: Numbers | None = None


class _ProductEntry(_Entry):
    construct_pair = mechanisms.Product
    pairs: list[Any]


class _ReversedEntry(_Entry):
    construct_pair = mechanisms.Reversed
    pair: dict[str, Any]


_ENTRIES: Mapping[str, type[_Entry]] = {
    "Laplace": _LaplaceEntry,
    "LaplaceSum": _LaplaceSumEntry,
    "Gaussian": _GaussianEntry,
    "RandomizedResponse": _RandomizedResponseEntry,
    "SubsampledGaussian": _SubsampledGaussianEntry,
    "ApproximateDP": _ApproximateDPEntry,
    "Histogram": _HistogramEntry,
    "NoisyCount": _NoisyCountEntry,
    "Poisson": _PoissonEntry,
    "DiscreteLaplace": _DiscreteLaplaceEntry,
    "DiscreteGaussian": _DiscreteGaussianEntry,
    "Staircase": _StaircaseEntry,
    "Product": _ProductEntry,
    "Reversed": _ReversedEntry,
}
#: The kinds of mechanisms that are one worst-case pair.
KINDS = tuple(_ENTRIES)
_NOISES = ("Laplace", "Gaussian")
_NO_PRODUCTS = tuple(kind for kind in KINDS if kind != "Product")
_CONSTRUCTOR_PROBLEM = re.compile(r"(?P<owner>\w+)\.(?P<field>\w+)(\[(?P<index>\d+)\])?: (?P<problem>.*)", re.DOTALL)


def refuse(document: Document, keys: Keys, problem: str) -> NoReturn:
    """Raise the `StudyFileError` for the value at `keys`."""
    raise document.error(keys, problem)


def first_problem(error: ValidationError, known: type[BaseModel], **nested: type[BaseModel]) -> tuple[Keys, str]:
    """Return the most useful of the problems that pydantic found: the keys from the model to it, and its text.

    `nested` has the models of the items in the lists of `known`, by field.
    """
    found = error.errors(include_url=False)
    # A misspelt key is an unknown key and a missing one: the unknown key has a line.
    details: ErrorDetails = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    keys: Keys = details["loc"]
    kind, got = details["type"], shown(details["input"])
    if kind == "extra_forbidden":
        owner = nested[str(keys[0])] if len(keys) > 1 else known
        return keys, f"expected one of {', '.join(owner.model_fields)}, got an unknown key"
    if kind == "missing":
        return keys, "expected a value, got nothing: the key is missing"
    if kind == "grid":
        context = details["ctx"]
        return keys + tuple(context["at"]), str(context["problem"])
    expected = details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return keys, f"expected {expected}, got {got}"


def expand_entry(
    document: Document, keys: Keys, kinds: tuple[str, ...] = KINDS, own: tuple[str, ...] = ()
) -> list[tuple[Pair, Keys]]:
    """Return the pairs of the entry at `keys`, each with the keys for later errors.

    `kinds` are the allowed kinds; `own` are keys of the entry that are not parameters of the mechanism.

    Raises
    ------
    StudyFileError
        A key is unknown, missing or has a wrong value, or a mechanism refuses its parameters.
    """
    entry = value_at(document, keys)
    if not isinstance(entry, dict):
        refuse(document, keys, f"expected a mapping with a kind, got {shown(entry)}")
    kind = entry.get("kind")
    if kind not in kinds:
        at = (*keys, "kind") if "kind" in entry else keys
        refuse(document, at, f"expected a kind among {', '.join(kinds)}, got {shown(kind)}")
    shared: dict[str, Keys] = {key: (*keys, key) for key in entry if key not in ("settings", *own)}
    settings = settings_of(document, keys, entry, shared)
    return [found for setting in settings for found in _expand(document, keys, kind, {**shared, **setting})]


def settings_of(
    document: Document, keys: Keys, entry: dict[str, JsonValue], shared: Mapping[str, Keys]
) -> list[dict[str, Keys]]:
    """Return for each of the entry's ``settings`` the keys of the parameters in it."""
    if "settings" not in entry:
        return [{}]
    listed, at = entry["settings"], (*keys, "settings")
    if not isinstance(listed, list) or not listed:
        refuse(document, at, f"expected a list of mappings of parameters, got {shown(listed)}")
    result: list[dict[str, Keys]] = []
    for index, setting in enumerate(listed):
        here = (*at, index)
        if not isinstance(setting, dict) or not setting:
            refuse(document, here, f"expected a mapping of parameters, got {shown(setting)}")
        for key in setting:
            if key in shared:
                refuse(document, (*here, key), "expected each parameter once, got it beside the settings too")
        result.append({key: (*here, key) for key in setting})
    return result


def _expand(document: Document, keys: Keys, kind: str, key_paths: Mapping[str, Keys]) -> list[tuple[Pair, Keys]]:
    """Return the product of the grids of one setting, the first field of the model varying slowest."""
    model = _HistogramOfFilesEntry if kind == "Histogram" and "file" in key_paths else _ENTRIES[kind]
    values = {key: value_at(document, at) for key, at in key_paths.items()}
    try:
        checked = model.model_validate(values)
    except ValidationError as error:
        at, problem = first_problem(error, model)
        first = str(at[0])
        refuse(document, (*key_paths.get(first, (*keys, first)), *at[1:]), problem)
    alternatives: dict[str, Choices] = {}
    for field in model.model_fields:
        if field == "kind" or getattr(checked, field) is None:
            continue
        if field == "noise":
            alternatives[field] = tuple(expand_entry(document, key_paths[field], _NOISES))
        elif field == "pair":
            alternatives[field] = tuple(expand_entry(document, key_paths[field], _NO_PRODUCTS))
        elif field == "pairs":
            alternatives[field] = _products(document, key_paths[field])
        elif field == "file":
            alternatives[field] = _beside(document, key_paths[field], getattr(checked, field))
        else:
            alternatives[field] = tuple((value, key_paths[field] + at) for value, at in getattr(checked, field))
    count = math.prod(map(len, alternatives.values()))
    if count > MOST_SETTINGS:
        refuse(document, keys, f"expected at most {MOST_SETTINGS} noise settings, got {count}")
    fields = tuple(alternatives)
    return [
        (_construct(document, keys, model, fields, choice), keys)
        for choice in itertools.product(*alternatives.values())
    ]


def _products(document: Document, keys: Keys) -> Choices:
    count = len(value_at(document, keys))
    components = [[pair for pair, _ in expand_entry(document, (*keys, i))] for i in range(count)]
    settings = math.prod(map(len, components))
    if settings > MOST_SETTINGS:
        refuse(document, keys, f"expected at most {MOST_SETTINGS} noise settings, got {settings}")
    return tuple((pairs, keys) for pairs in itertools.product(*components))


def _beside(document: Document, keys: Keys, choices: Choices) -> Choices:
    """Return paths that are relative to the folder of the study file."""
    folder = Path(document.source).parent
    return tuple((tuple(folder / name for name in names), keys + at) for names, at in choices)


def _construct(document: Document, keys: Keys, model: type[_Entry], fields: tuple[str, ...], choice: Choices) -> Pair:
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
            refuse(document, at if told["index"] is None else (*at, int(told["index"])), told["problem"])
        refuse(document, keys, str(error))


def value_at(document: Document, keys: Keys) -> JsonValue:
    """Return the value at some keys, which is there."""
    value = document.data
    for part in keys:
        value = value[part]
    return value
