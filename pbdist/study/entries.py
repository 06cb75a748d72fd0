"""Expand an entry of a study's list of mechanisms into pairs, and check its keys and values."""

import itertools
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pydantic import BaseModel, ValidationError, create_model

from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms import (
    MECHANISMS,
    ElementaryPair,
    Form,
    Histogram,
    Pair,
    Parameter,
    Product,
    load_histograms,
    parameters_of,
)
from pbdist.study.document import Document, Keys, Problems, other_kinds, shown
from pbdist.study.grid_cells import Axis, PairGrid, alike_values, values_of
from pbdist.study.models import STRICT, Choices, Files, Names, field_type, grid_error, refuse, refuse_invalid, value_at
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: The values of each parameter, in the order of the grids.
Grids: TypeAlias = Mapping[str, Sequence[Any]]
#: Makes a pair of one value of each parameter.
Make: TypeAlias = Callable[[Sequence[Any]], Pair]


def accepted_grid(kind: str, grids: Grids, make: Make) -> PairGrid:
    """Return the pairs of all combinations of the grids.

    Guaranteed: the constructor accepts all of them. It raises what it raises for those that it refuses.
    """
    if any(name.endswith("]") for name in grids) and not issubclass(MECHANISMS[kind], Product):
        # Only the fields of products are known to be their pairs.
        return _listed(grids, make)
    names = [name for name, values in grids.items() if len(values) > 1]
    first = {name: values[0] for name, values in grids.items()}

    def pair(**chosen: Any) -> Pair:
        return make([*{**first, **chosen}.values()])

    base = pair()
    held = values_of(base)
    not_given = [name for name in held if name not in grids]
    axes = []
    for name in names:
        fields = (name, *not_given)
        made = (values_of(pair(**{name: value})) for value in grids[name])
        rows = [tuple(found[field] for field in fields) for found in made]
        columns = dict(zip(fields, zip(*rows, strict=True), strict=True))
        # What is not given may follow from what varies, as the split of a staircase does from its ε.
        following = [field for field in not_given if any(value != held[field] for value in columns[field])]
        axes.append(Axis((name, *following), (columns[name], *(columns[field] for field in following))))
    for together in _tried(MECHANISMS[kind], grids, names):
        pair(**together)
    grid = PairGrid.around(base, axes)
    if len(axes) > 1 and any(len(axis.fields) > 1 for axis in axes):
        # It may follow from several parameters at once: then no grid has the pairs.
        every = map(make, itertools.product(*grids.values()))
        if not all(one == other for one, other in zip(every, grid, strict=True)):
            return _listed(grids, make)
    return grid


def _listed(grids: Grids, make: Make) -> PairGrid:
    return PairGrid.listed([make(values) for values in itertools.product(*grids.values())])


def _tried(kind: type[Pair], grids: Grids, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what is to be tried besides each value with the first ones of the others."""
    if issubclass(kind, Product):
        # Of the pairs of a product only that they are for the same neighbours is checked together.
        grids = {name: [grids[name][place] for place in alike_values(grids[name])] for name in names}
        together = [name for name in names if len(grids[name]) > 1]
    else:
        wanted = kind.tried_together(grids)
        together = [name for name in names if name in wanted]
        grids = {**grids, **{name: [max(grids[name])] for name in together if name in kind.largest_decides}}
    if len(together) > 1:
        for chosen in itertools.product(*(grids[name] for name in together)):
            yield dict(zip(together, chosen, strict=True))


#: The forms of parameters that are made of entries, and the type of what stands in the file.
NESTED: Mapping[Form, type] = {Form.MECHANISM: dict, Form.MECHANISMS: list}


class Entry(BaseModel):
    """The parameters of one kind of mechanism: the fields are named like the constructor's arguments."""

    model_config = STRICT
    construct_pair: ClassVar[Callable[..., Pair]]
    #: What the kind declares of the fields; nothing of names of files.
    declared: ClassVar[Mapping[str, Parameter]] = {}
    kind: str

    @classmethod
    def nested(cls) -> dict[str, Parameter]:
        """Return the parameters that are made of entries."""
        return {name: one for name, one in cls.declared.items() if one.domain.form in NESTED}

    @classmethod
    def is_grid(cls, field: str, value: JsonValue) -> bool:
        """Whether a value is a list of alternatives, and not one value that is a list."""
        if field not in cls.declared or not isinstance(value, list):
            return False
        form = cls.declared[field].domain.form
        return form in (Form.NUMBER, Form.NAME) or (
            form is not Form.MASSES and all(one is None or isinstance(one, list) for one in value)
        )


def choices(
    document: Document, model: type[Entry], values: Mapping[str, JsonValue], key_paths: Mapping[str, Keys]
) -> dict[str, Choices]:
    """Return the alternatives of each parameter that is not made of entries, each with its keys."""
    checked, alternatives = model.model_validate(values), {}
    others = {"kind", *model.nested()}
    for field in model.model_fields:
        if field not in others and getattr(checked, field) is not None:
            found = tuple((value, key_paths[field] + at) for value, at in getattr(checked, field))
            alternatives[field] = _beside(document, found) if field == "file" else found
    return alternatives


def other_choices(
    document: Document,
    model: type[Entry],
    values: Mapping[str, JsonValue],
    key_paths: Mapping[str, Keys],
    error: ValidationError,
) -> dict[str, Choices] | None:
    """Return the alternatives as `choices` without the wrong values of lists; None where more than these is wrong."""
    wrong: dict[str, set[int]] = {}
    for details in error.errors(include_url=False):
        field = str(details["loc"][0])
        grid = grid_error(details)
        if grid is None or not model.is_grid(field, values[field]):
            return None
        for at in (grid.at, *(at for _, at in grid.others)):
            if len(at) != 1 or not isinstance(at[0], int):
                return None
            wrong.setdefault(field, set()).add(at[0])
    right = {field: [i for i in range(len(values[field])) if i not in indices] for field, indices in wrong.items()}
    sound = {field: [values[field][i] for i in indices] for field, indices in right.items()}
    try:
        found = choices(document, model, {**values, **sound}, key_paths)
    except ValidationError:
        return None
    for field, indices in right.items():
        found[field] = tuple((one, (*key_paths[field], i)) for i, (one, _) in zip(indices, found[field], strict=True))
    return found


def _beside(document: Document, found: Choices) -> Choices:
    """Return paths that are relative to the folder of the study file."""
    folder = Path(document.source).parent
    return tuple((tuple(folder / name for name in names), at) for names, at in found)


def study_kinds() -> tuple[str, ...]:
    """Return the kinds of mechanisms that an entry may have."""
    return tuple(name for name, kind in MECHANISMS.items() if kind.in_studies)


def elementary_kinds() -> tuple[str, ...]:
    """Return those of them that are one pair with masses of its own."""
    return tuple(name for name in study_kinds() if issubclass(MECHANISMS[name], ElementaryPair))


def _histogram_of_files(file: tuple[Path, ...], columns: tuple[str, ...] | None = None) -> Pair:
    """Read the counts: the study then holds them itself, and its digest depends on them and not on the file's place."""
    try:
        return load_histograms(*file, columns=columns)
    except InvalidInputError as error:
        field = "columns" if str(error).startswith("columns: ") else "file"
        raise InvalidInputError(f"Histogram.{field}: {str(error).removeprefix('columns: ')}") from error


class _HistogramOfFilesEntry(Entry):
    construct_pair = staticmethod(_histogram_of_files)
    file: Files
    columns: Names | None = None


#: The parameters of a histogram whose counts are in files, in place of those that it declares.
FILE_FIELDS = ("file", "columns")


def model_of(kind: str, given: Container[str] = ()) -> type[Entry]:
    """Return the model of an entry of a kind that has some keys: its fields are the parameters."""
    pair: type[Pair] = MECHANISMS[kind]
    return _HistogramOfFilesEntry if pair is Histogram and "file" in given else _model(pair)


# A class that is registered anew under its name has a model of its own.
@cache
def _model(kind: type[Pair]) -> type[Entry]:
    types = {name: (field_type(one.domain), one.required) for name, one in parameters_of(kind).items()}
    fields: dict[str, Any] = {
        name: (found, ...) if required else (found | None, None) for name, (found, required) in types.items()
    }
    model: type[Entry] = create_model(f"{kind.__name__}Entry", __base__=Entry, __module__=__name__, **fields)
    model.construct_pair = kind
    model.declared = parameters_of(kind)
    return model


#: Larger studies are refused.
MOST_SETTINGS = 20_000_000
#: So many pairs are made at once: those that mechanisms are made of.
MOST_MADE = 2_000_000
#: After so many wrong noise settings of an entry the others are not tried.
_MOST_WRONG = 100

_CONSTRUCTOR_PROBLEM = re.compile(r"(?P<owner>\w+)\.(?P<field>\w+)(\[(?P<index>\d+)\])?: (?P<problem>.*)", re.DOTALL)


def expand_entry(document: Document, keys: Keys, kinds: tuple[str, ...] | None = None) -> list[tuple[Pair, Keys]]:
    """Return the pairs of the entry at `keys`, each with the keys for later errors, as `grids_of_entry` has them.

    Raises
    ------
    StudyFileError
        As `grids_of_entry`; or there are too many pairs to make them all.
    """
    grids = grids_of_entry(document, keys, study_kinds() if kinds is None else kinds)
    count = sum(map(len, grids))
    if count > MOST_MADE:
        refuse(document, keys, f"expected at most {MOST_MADE} noise settings, got {count}")
    return [(pair, keys) for grid in grids for pair in grid]


def grids_of_entry(document: Document, keys: Keys, kinds: tuple[str, ...], own: tuple[str, ...] = ()) -> list[PairGrid]:
    """Return the pairs of the entry at `keys`, those of each of its settings as a grid.

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
        refuse(document, *_no_kind(keys, entry, kinds))
    also = (*own, "settings")
    shared: dict[str, Keys] = {key: (*keys, key) for key in entry if key not in also}
    problems = Problems()
    found: list[PairGrid] = []
    for setting in settings_of(document, keys, entry, shared):
        with problems.collected():
            found.append(_expand(document, keys, kind, {**shared, **setting}, also))
    problems.refuse()
    return found


def _no_kind(keys: Keys, entry: dict[str, JsonValue], kinds: tuple[str, ...]) -> tuple[Keys, str]:
    """Return where and why an entry has no kind that is known."""
    kind = entry.get("kind")
    expected = f"expected a kind among {', '.join(kinds)}, got {shown(kind)}"
    if "kind" in entry:
        return (*keys, "kind"), f"{expected}{did_you_mean(kind, kinds, other_kinds())}"
    # The key may be misspelt.
    misspelt = next((key for key in entry if likely(key, ("kind",)) or entry[key] in kinds), None)
    if misspelt is None:
        return keys, expected
    return (*keys, misspelt), f"{expected}: did you mean the key kind?"


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
    problems = Problems()
    for index, setting in enumerate(listed):
        here = (*at, index)
        with problems.collected():
            if not isinstance(setting, dict) or not setting:
                refuse(document, here, f"expected a mapping of parameters, got {shown(setting)}")
            for key in setting:
                if key in shared:
                    refuse(document, (*here, key), "expected each parameter once, got it beside the settings too")
            result.append({key: (*here, key) for key in setting})
    problems.refuse()
    return result


def _expand(
    document: Document, keys: Keys, kind: str, key_paths: Mapping[str, Keys], also: tuple[str, ...]
) -> PairGrid:
    """Return the product of the grids of one setting, the first field of the model varying slowest."""
    model = model_of(kind, key_paths)
    values = {key: value_at(document, at) for key, at in key_paths.items()}
    problems = Problems()
    alternatives: dict[str, Choices] = {}
    sound = True
    with problems.collected():
        try:
            alternatives |= choices(document, model, values, key_paths)
        except ValidationError as error:
            others = other_choices(document, model, values, key_paths, error)
            sound = others is not None
            alternatives |= others or {}
            refuse_invalid(document, error, model, keys=keys, paths=key_paths, owner=kind, also=also)
    for field, one in model.nested().items():
        # Also where other parameters are wrong, so that all that is wrong is told.
        if isinstance(values.get(field), NESTED[one.domain.form]):
            with problems.collected():
                alternatives.update(_nested(document, key_paths[field], one))
    given = {name.partition("[")[0] for name in alternatives}
    if not sound or (problems.found and given != {*values} - {"kind"}):
        problems.refuse()
    count = math.prod(map(len, alternatives.values()))
    if count > MOST_SETTINGS:
        problems.refuse()
        refuse(document, keys, f"expected at most {MOST_SETTINGS} noise settings, got {count}")
    fields = list(model.model_fields)
    in_order = dict(sorted(alternatives.items(), key=lambda item: fields.index(item[0].partition("[")[0])))
    found = PairGrid.listed([])
    with problems.collected():
        # Also where some values are wrong: the mechanism may refuse others.
        found = _accepted(document.known_wrong() if problems.found else document, keys, model, kind, in_order)
    problems.refuse()
    return found


def _nested(document: Document, keys: Keys, one: Parameter) -> dict[str, Choices]:
    """Return the alternatives of a parameter that is made of entries; those of each one of a list by themselves."""
    if one.domain.form is Form.MECHANISM:
        return {one.name: tuple(expand_entry(document, keys, one.domain.kinds or elementary_kinds()))}
    listed = value_at(document, keys)
    if not listed:
        refuse(document, keys, "expected at least one mechanism, got []")
    problems = Problems()
    factors: dict[str, Choices] = {}
    for index in range(len(listed)):
        with problems.collected():
            pairs = expand_entry(document, (*keys, index), one.domain.kinds or study_kinds())
            factors[f"{one.name}[{index}]"] = tuple((pair, keys) for pair, _ in pairs)
    problems.refuse()
    return factors


def _accepted(
    document: Document, keys: Keys, model: type[Entry], kind: str, alternatives: Mapping[str, Choices]
) -> PairGrid:
    """Return the pairs of all combinations, which the constructor accepts."""
    fields = tuple(alternatives)
    refused: InvalidInputError | None = None
    if document.most_tried is None:
        grids = {field: [value for value, _ in choices] for field, choices in alternatives.items()}
        try:
            return accepted_grid(kind, grids, lambda values: _made(model, fields, values))
        except InvalidInputError as error:
            # All are tried, to tell which ones are wrong.
            refused = error
    problems, wrong = Problems(), 0
    found: list[Pair] = []
    for choice in itertools.islice(itertools.product(*alternatives.values()), document.most_tried):
        try:
            pair = _construct(document, keys, model, fields, choice)
            if refused is None:
                found.append(pair)
        except StudyFileError as error:
            problems.found += error.problems
            wrong += 1
            if wrong == _MOST_WRONG:
                break
    problems.refuse()
    if refused is not None:
        refuse(document, keys, str(refused))
    return PairGrid.listed(found)


def _made(model: type[Entry], fields: Sequence[str], values: Iterable[Any]) -> Pair:
    """Return the pair of one value of each parameter."""
    arguments = dict(zip(fields, values, strict=True))
    # Constructors take a list of mechanisms one by one.
    listed = [arguments.pop(field) for field in fields if field.endswith("]")]
    return model.construct_pair(*listed, **arguments)


def _construct(document: Document, keys: Keys, model: type[Entry], fields: tuple[str, ...], choice: Choices) -> Pair:
    try:
        return _made(model, fields, (value for value, _ in choice))
    except StudyFileError:
        raise
    except InvalidInputError as error:
        chosen = dict(zip(fields, choice, strict=True))
        told = _CONSTRUCTOR_PROBLEM.fullmatch(str(error))
        if told and told["field"] in chosen:
            at = chosen[told["field"]][1]
            refuse(document, at if told["index"] is None else (*at, int(told["index"])), told["problem"])
        refuse(document, keys, str(error))
