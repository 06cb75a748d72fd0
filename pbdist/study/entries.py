"""Read an entry of a study's list of mechanisms: its keys and values are those that its kind declares."""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms import (
    MECHANISMS,
    Domain,
    ElementaryPair,
    Form,
    Histogram,
    Pair,
    Parameter,
    Product,
    load_histograms,
    parameters_of,
)
from pbdist.study.cells import PairTable, fields_of, unlike
from pbdist.study.document import Document, Keys, Problems, number_hint, other_kinds, shown
from pbdist.study.grids import GridError, each, number, numbers
from pbdist.study.models import key_problems, refuse, value_at
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: Larger studies are refused.
MOST_SETTINGS = 20_000_000
#: So many pairs are made at once: those that mechanisms are made of.
MOST_MADE = 2_000_000
#: To name those that a mechanism refuses, so many settings are tried, until so many are wrong.
_MOST_TRIED, _MOST_WRONG = 100_000, 100
#: What a mechanism says of a parameter.
_PROBLEM = re.compile(r"(?:\w+\.)?(?P<field>\w+)(?P<places>(\[\d+\])*): (?P<problem>.*)", re.DOTALL)

#: The values of each parameter, in the order of the grids.
Grids: TypeAlias = Mapping[str, Sequence[Any]]
#: Makes a pair of one value of each parameter.
Make: TypeAlias = Callable[[Sequence[Any]], Pair]
#: The alternatives for one parameter of an entry, each with the keys to it.
_Choices: TypeAlias = list[tuple[Any, Keys]]


def accepted_grid(kind: str, grids: Grids, make: Make) -> PairTable:
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
    held = fields_of(base)
    not_given = [name for name in held if name not in grids]
    axes = []
    for name in names:
        found = (fields_of(pair(**{name: value})) for value in grids[name])
        own, *others = zip(*([fields[each] for each in (name, *not_given)] for fields in found), strict=True)
        # What is not given may follow from what varies, as the split of a staircase does from its ε.
        following = zip(not_given, others, strict=True)
        axes.append({name: own, **{each: vals for each, vals in following if any(v != held[each] for v in vals)}})
    for together in _tried(MECHANISMS[kind], grids, names):
        pair(**together)
    grid = PairTable.grid(base, axes)
    if len(axes) > 1 and any(len(axis) > 1 for axis in axes):
        # It may follow from several parameters at once: then no grid has the pairs.
        every = map(make, itertools.product(*grids.values()))
        if not all(one == other for one, other in zip(every, grid, strict=True)):
            return _listed(grids, make)
    return grid


def _listed(grids: Grids, make: Make) -> PairTable:
    return PairTable.listed([make(values) for values in itertools.product(*grids.values())])


def _tried(kind: type[Pair], grids: Grids, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what is to be tried besides each value with the first ones of the others."""
    if issubclass(kind, Product):
        # Of the pairs of a product only that they are for the same neighbours is checked together.
        grids = {name: [grids[name][place] for place in unlike(grids[name])] for name in names}
        together = [name for name in names if len(grids[name]) > 1]
    else:
        wanted = kind.tried_together(grids)
        together = [name for name in names if name in wanted]
        grids = {**grids, **{name: [max(grids[name])] for name in together if name in kind.largest_decides}}
    if len(together) > 1:
        for chosen in itertools.product(*(grids[name] for name in together)):
            yield dict(zip(together, chosen, strict=True))


def study_kinds() -> tuple[str, ...]:
    """Return the kinds of mechanisms that an entry may have."""
    return tuple(name for name, kind in MECHANISMS.items() if kind.in_studies)


def elementary_kinds() -> tuple[str, ...]:
    """Return those of them that are one pair with masses of its own."""
    return tuple(name for name in study_kinds() if issubclass(MECHANISMS[name], ElementaryPair))


def _files(_owner: str, _name: str, value: Any) -> tuple[str, ...]:
    """Return one file, or one of each distribution."""
    files = value if isinstance(value, list) else [value]
    if len(files) not in (1, 2) or not all(isinstance(x, str) and x for x in files):
        raise InvalidInputError(f"file: expected the path of a file, or of two files, got {shown(value)}")
    return tuple(files)


def _names(_owner: str, _name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise InvalidInputError(f"columns: expected a list of names, got {shown(value)}")
    return tuple(value)


def _file_parameter(name: str, check: Callable[[str, str, Any], Any], what: str, *, required: bool) -> Parameter:
    return Parameter(name, Domain(check, Form.NAME), what, "", (), "", None, (), sized=False, required=required)


#: The parameters of a histogram whose counts are in files, in place of those that it declares.
FILE_PARAMETERS: Mapping[str, Parameter] = {
    "file": _file_parameter(
        "file", _files, "a table of counts, or one for each distribution, in place of p and q", required=True
    ),
    "columns": _file_parameter("columns", _names, "the columns of the table", required=False),
}


def _histogram_of_files(folder: Path, file: Sequence[str], columns: tuple[str, ...] | None = None) -> Pair:
    """Read the counts: the study then holds them itself, and its digest depends on them and not on the file's place."""
    try:
        return load_histograms(*(folder / name for name in file), columns=columns)
    except InvalidInputError as error:
        text = str(error)
        raise InvalidInputError(text if text.startswith("columns: ") else f"file: {text}") from error


def expand_entry(document: Document, keys: Keys, kinds: tuple[str, ...] | None = None) -> list[Pair]:
    """Return the pairs of the entry at `keys`, as `grids_of_entry` has them.

    Raises
    ------
    StudyFileError
        As `grids_of_entry`; or there are too many pairs to make them all.
    """
    grids = grids_of_entry(document, keys, study_kinds() if kinds is None else kinds)
    count = sum(map(len, grids))
    if count > MOST_MADE:
        refuse(document, keys, f"expected at most {MOST_MADE} noise settings, got {count}")
    return [*itertools.chain(*grids)]


def grids_of_entry(
    document: Document, keys: Keys, kinds: tuple[str, ...], own: tuple[str, ...] = ()
) -> list[PairTable]:
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
    problems = Problems()
    found: list[PairTable] = []
    for paths in settings_of(document, keys, own):
        with problems.collected():
            found.append(_expand(document, keys, kind, paths, (*own, "settings")))
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


def settings_of(document: Document, keys: Keys, own: tuple[str, ...] = ()) -> list[dict[str, Keys]]:
    """Return for each of an entry's ``settings`` the keys of all parameters; those beside them are in each setting."""
    entry = value_at(document, keys)
    shared: dict[str, Keys] = {key: (*keys, key) for key in entry if key not in ("settings", *own)}
    if "settings" not in entry:
        return [shared]
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
            result.append({**shared, **{key: (*here, key) for key in setting}})
    problems.refuse()
    return result


def _expand(document: Document, keys: Keys, kind: str, paths: Mapping[str, Keys], also: tuple[str, ...]) -> PairTable:
    """Return the product of the grids of one setting, the first parameter of the kind varying slowest."""
    make: Callable[..., Pair] = MECHANISMS[kind]
    declared = parameters_of(MECHANISMS[kind])
    if MECHANISMS[kind] is Histogram and "file" in paths:
        declared, make = FILE_PARAMETERS, partial(_histogram_of_files, Path(document.source).parent)
    known = ("kind", *declared, *also)
    unknown = [key for key in paths if key not in known]
    missing = [name for name, one in declared.items() if one.required and name not in paths]
    problems = Problems()
    for at, problem in key_problems(kind, unknown, missing, known):
        problems.found.append(document.problem(paths.get(str(at[0]), (*keys, *at)), problem))
    choices: dict[str, _Choices] = {}
    for name, one in declared.items():
        if name in paths and (one.required or value_at(document, paths[name]) is not None):
            with problems.collected():
                choices |= _choices(document, kind, one, paths[name])
    problems.refuse()
    count = math.prod(map(len, choices.values()))
    if count > MOST_SETTINGS:
        refuse(document, keys, f"expected at most {MOST_SETTINGS} noise settings, got {count}")

    def made(values: Sequence[Any]) -> Pair:
        arguments = dict(zip(choices, values, strict=True))
        # Constructors take a list of mechanisms one by one.
        listed = [arguments.pop(name) for name in choices if name.endswith("]")]
        pair: Pair = make(*listed, **arguments)
        return pair

    try:
        return accepted_grid(kind, {name: [value for value, _ in found] for name, found in choices.items()}, made)
    except InvalidInputError as error:
        _refuse_combinations(document, keys, choices, made)
        refuse(document, keys, str(error))


def _refuse_combinations(document: Document, keys: Keys, choices: Mapping[str, _Choices], make: Make) -> None:
    """Refuse the combinations of values that a mechanism refuses, as far as they are looked for."""
    problems = Problems()
    for choice in itertools.islice(itertools.product(*choices.values()), _MOST_TRIED):
        try:
            make([value for value, _ in choice])
        except InvalidInputError as error:
            chosen = {name: at for name, (_, at) in zip(choices, choice, strict=True)}
            field, places, problem = _parts(error)
            at = (*chosen[field], *places) if field in chosen else keys
            problems.found.append(document.problem(at, problem if field in chosen else str(error)))
            if len(problems.found) == _MOST_WRONG:
                break
    problems.refuse()


def _parts(error: InvalidInputError) -> tuple[str, tuple[int, ...], str]:
    """Return the parameter that an error of a mechanism names, the indexes in it, and the problem."""
    parts = _PROBLEM.fullmatch(str(error))
    if parts is None:
        return "", (), str(error)
    return parts["field"], tuple(map(int, re.findall(r"\d+", parts["places"]))), parts["problem"]


def _choices(document: Document, kind: str, one: Parameter, keys: Keys) -> dict[str, _Choices]:
    """Return the alternatives of a parameter; of a list of mechanisms those of each of them."""
    value, form = value_at(document, keys), one.domain.form
    if form is Form.MECHANISM:
        return {
            one.name: [(pair, keys) for pair in expand_entry(document, keys, one.domain.kinds or elementary_kinds())]
        }
    if form is Form.MECHANISMS:
        if not isinstance(value, list) or not value:
            refuse(document, keys, f"expected a list of mechanisms, at least one, got {shown(value)}")
        found: dict[str, _Choices] = {}
        problems = Problems()
        for index in range(len(value)):
            with problems.collected():
                pairs = expand_entry(document, (*keys, index), one.domain.kinds or study_kinds())
                found[f"{one.name}[{index}]"] = [(pair, keys) for pair in pairs]
        problems.refuse()
        return found
    read = partial(_checked, kind, one)
    try:
        if form is Form.NUMBER:
            values = numbers(value, read)
        else:
            values = each(value, read) if _are_alternatives(one, value) else (read(value),)
    except GridError as error:
        raise StudyFileError.of(document.problem((*keys, *at), text) for at, text in error.problems) from None
    indexed = isinstance(value, list) and (form is Form.NUMBER or _are_alternatives(one, value))
    return {one.name: [(found, (*keys, index) if indexed else keys) for index, found in enumerate(values)]}


def _are_alternatives(one: Parameter, value: JsonValue) -> bool:
    """Whether a value is a list of values of a parameter, and not one value."""
    form = one.domain.form
    if not isinstance(value, list) or not value or form is Form.MASSES or one in FILE_PARAMETERS.values():
        return False
    return form is Form.NAME or all(isinstance(x, list) or (x is None and form is Form.LIMITS) for x in value)


def _checked(kind: str, one: Parameter, value: JsonValue) -> Any:
    """Return a value as the mechanism holds it."""
    form = one.domain.form
    if isinstance(value, list) and form in (Form.NUMBERS, Form.TWO_NUMBERS, Form.LIMITS, Form.MASSES):
        # So that all that are no numbers are told.
        each(value, number, repeated=True)
    try:
        return one.domain.check(kind, one.name, number(value) if form is Form.NUMBER else value)
    except InvalidInputError as error:
        _, places, problem = _parts(error)
        inner = value[places[0]] if places and isinstance(value, list) else value
        raise GridError(f"{problem}{number_hint(inner)}", places) from None
