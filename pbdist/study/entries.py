"""Read an entry of a study's list of mechanisms: its keys and values are those that its kind declares."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from pbdist.errors import InvalidInputError, StudyFileError, shown
from pbdist.mechanisms import (
    MECHANISMS,
    ElementaryPair,
    Form,
    Histogram,
    HistogramFiles,
    Pair,
    Parameter,
    Product,
    parameters_of,
)
from pbdist.study.cells import Block, fields_of, unlike
from pbdist.study.document import Document, read_each
from pbdist.study.fields import (
    Values,
    check_keys,
    constructor_problem,
    number_hint,
    other_kinds,
    refuse_constructed,
    values_of,
)
from pbdist.study.grids import GridError, each, number, numbers
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: Larger studies are refused.
MAX_SETTINGS = 20_000_000
#: So many pairs are made at once: those that mechanisms are made of.
MAX_MADE = 2_000_000
#: To name those that a mechanism refuses, so many settings are tried, until so many are wrong.
_MAX_TRIED, _MAX_WRONG = 100_000, 100

#: The values of each parameter, in the order of the grids.
Grids: TypeAlias = Mapping[str, Sequence[Any]]
#: Makes a pair of one value of each parameter.
Make: TypeAlias = Callable[[Sequence[Any]], Pair]
#: The alternatives for one parameter of an entry, each with where it is.
_Choices: TypeAlias = list[tuple[Any, Document]]


def accepted_grid(kind: str, grids: Grids, make: Make) -> Block:
    """Return the pairs of all combinations of the grids.

    Guaranteed: the constructor accepts all of them. It raises what it raises for those that it refuses.
    """
    varying = [name for name, values in grids.items() if len(values) > 1]

    def pair(**chosen: Any) -> Pair:
        return make([chosen.get(name, values[0]) for name, values in grids.items()])

    held, axes = fields_of(base := pair()), dict[str, list[Any]]()
    for name in varying:
        found = [fields_of(pair(**{name: value})) for value in grids[name]]
        # Only the fields of products are known to be their pairs; and a field may follow from what varies, as the split
        # of a staircase does from its ε: then no grid has the pairs.
        follows = any(one[other] != held[other] for one in found for other in held.keys() - grids.keys())
        if follows or (name not in held and not issubclass(MECHANISMS[kind], Product)):
            return Block.listed([make(values) for values in itertools.product(*grids.values())])
        axes[name] = [one[name] for one in found]
    for together in _tried(MECHANISMS[kind], grids, varying):
        pair(**together)
    return Block.grid(base, axes)


def _tried(kind: type[Pair], grids: Grids, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what is to be tried besides each value with the first ones of the others."""
    if issubclass(kind, Product):
        # Of the pairs of a product only that they are for the same neighbours is checked together.
        tried = {name: [grids[name][place] for place in unlike(grids[name])] for name in names}
        tried = {name: values for name, values in tried.items() if len(values) > 1}
    else:
        wanted = kind.tried_together(grids)
        tried = {name: list(grids[name]) for name in names if name in wanted}
        tried |= {name: [max(values)] for name, values in tried.items() if name in kind.largest_decides}
    if len(tried) > 1:
        yield from (dict(zip(tried, chosen, strict=True)) for chosen in itertools.product(*tried.values()))


def study_kinds() -> tuple[str, ...]:
    """Return the kinds of mechanisms that an entry may have."""
    return tuple(name for name, kind in MECHANISMS.items() if kind.in_studies)


def expand_entry(entry: Document, kinds: tuple[str, ...] | None = None) -> list[Pair]:
    """Return the pairs of an entry, as `pairs_of_entry` has them; too many to make them all are refused."""
    blocks = pairs_of_entry(entry, study_kinds() if kinds is None else kinds)
    count = sum(block.size for block in blocks)
    if count > MAX_MADE:
        entry.refuse(f"expected at most {MAX_MADE} noise settings, got {count}")
    return [pair for block in blocks for pair in block.pairs()]


def pairs_of_entry(entry: Document, kinds: tuple[str, ...], own: tuple[str, ...] = ()) -> list[Block]:
    """Return the pairs of an entry: those of each of its settings, one after the other.

    `kinds` are the allowed kinds; `own` are keys of the entry that are not parameters of the mechanism. Keys that are
    unknown or missing, wrong values, and what a mechanism refuses are a `StudyFileError`.
    """
    if not isinstance(entry.data, dict):
        entry.refuse(f"expected a mapping with a kind, got {shown(entry.data)}")
    kind = entry.data.get("kind")
    if kind not in kinds:
        _refuse_kind(entry, kinds)
    return read_each(partial(_expand, entry, kind, (*own, "settings")), settings_of(entry, own))


def _refuse_kind(entry: Document, kinds: tuple[str, ...]) -> NoReturn:
    kind = entry.data.get("kind")
    expected = f"expected a kind among {', '.join(kinds)}, got {shown(kind)}"
    if "kind" in entry.data:
        own = ": for one of your own, say --import MODULE" if isinstance(kind, str) and kind.isidentifier() else ""
        entry.at("kind").refuse(f"{expected}{did_you_mean(kind, kinds, other_kinds()) or own}")
    # The key may be misspelt.
    for key, value in entry.data.items():
        if likely(key, ("kind",)) or value in kinds:
            entry.at(key).refuse(f"{expected}: did you mean the key kind?")
    entry.refuse(expected)


def settings_of(entry: Document, own: tuple[str, ...] = ()) -> list[Values]:
    """Return the values of each of an entry's ``settings``, and those beside them, which all settings share."""
    shared = {key: value for key, value in values_of(entry).items() if key not in ("settings", *own)}
    if "settings" not in entry.data:
        return [shared]

    def together(setting: Document) -> Values:
        if not isinstance(setting.data, dict) or not setting.data:
            setting.refuse(f"expected a mapping of parameters, got {shown(setting.data)}")
        for key in setting.data.keys() & shared.keys():
            setting.at(key).refuse("expected each parameter once, got it beside the settings too")
        return {**shared, **values_of(setting)}

    return read_each(together, _some(entry.at("settings"), "mappings of parameters").items())


def _some(document: Document, what: str) -> Document:
    """Return a document that is a list with items; others are refused."""
    if not isinstance(document.data, list) or not document.data:
        document.refuse(f"expected a list of {what}, got {shown(document.data)}")
    return document


def _expand(entry: Document, kind: str, also: tuple[str, ...], values: Values) -> Block:
    """Return the product of the grids of one setting, the first parameter of the kind varying slowest."""
    make: Callable[..., Pair] = MECHANISMS[kind]
    declared = parameters_of(MECHANISMS[kind])
    if MECHANISMS[kind] is Histogram and "file" in values:
        declared, folder = parameters_of(HistogramFiles), Path(entry.source).parent

        # The study holds the histogram: its digest depends on the counts, and not on the place.
        def make(**given: Any) -> Pair:
            return HistogramFiles(**given).read(folder)

    required = [name for name, one in declared.items() if one.required]
    problems = check_keys(entry, values, ("kind", *declared, *also), required, owner=kind)
    choices: dict[str, _Choices] = {}
    for name, one in declared.items():
        if name in values and (one.required or values[name].data is not None):
            with problems.collected():
                choices |= _choices(values[name], kind, one)
    problems.refuse()
    count = math.prod(map(len, choices.values()))
    if count > MAX_SETTINGS:
        entry.refuse(f"expected at most {MAX_SETTINGS} noise settings, got {count}")

    def made(chosen: Sequence[Any]) -> Pair:
        arguments = dict(zip(choices, chosen, strict=True))
        # Constructors take a list of mechanisms one by one.
        listed = [arguments.pop(name) for name in choices if name.endswith("]")]
        return make(*listed, **arguments)

    try:
        return accepted_grid(kind, {name: [value for value, _ in found] for name, found in choices.items()}, made)
    except InvalidInputError as error:
        # Name the combinations that the mechanism refuses, as far as they are looked for.
        for choice in itertools.islice(itertools.product(*choices.values()), _MAX_TRIED):
            with problems.collected():
                _made_at(entry, dict(zip(choices, choice, strict=True)), made)
            if len(problems.found) == _MAX_WRONG:
                break
        problems.refuse()
        entry.refuse(str(error))


def _made_at(entry: Document, choice: Mapping[str, tuple[Any, Document]], make: Make) -> None:
    try:
        make([value for value, _ in choice.values()])
    except InvalidInputError as error:
        refuse_constructed(entry, {name: at for name, (_, at) in choice.items()}, error)


def _choices(given: Document, kind: str, one: Parameter) -> dict[str, _Choices]:
    """Return the alternatives of a parameter; of a list of mechanisms those of each of them."""
    value, form = given.data, one.domain.form
    if form is Form.MECHANISM:
        elementary = tuple(name for name in study_kinds() if issubclass(MECHANISMS[name], ElementaryPair))
        return {one.name: [(pair, given) for pair in expand_entry(given, one.domain.kinds or elementary)]}
    if form is Form.MECHANISMS:
        items = _some(given, "mechanisms").items()
        every = read_each(partial(expand_entry, kinds=one.domain.kinds or study_kinds()), items)
        return {f"{one.name}[{index}]": [(pair, given) for pair in pairs] for index, pairs in enumerate(every)}
    read, places = partial(_checked, kind, one), [given]
    try:
        if form is Form.NUMBER and not isinstance(value, list):
            values = numbers(value, read)
            places *= len(values)
        elif _are_alternatives(one, value):
            values, places = each(value, read), given.items()
        else:
            values = (read(value),)
    except GridError as error:
        raise StudyFileError.of(given.problem(at, problem) for at, problem in error.problems) from None
    return {one.name: [*zip(values, places, strict=True)]}


def _are_alternatives(one: Parameter, value: JsonValue) -> bool:
    """Whether a value is a list of values of a parameter, and not one value."""
    form = one.domain.form
    if not isinstance(value, list) or not value or form is Form.MASSES or one in parameters_of(HistogramFiles).values():
        return False
    listed = all(isinstance(x, list) or (x is None and form is Form.LIMITS) for x in value)
    return form in (Form.NUMBER, Form.NAME) or listed


def _checked(kind: str, one: Parameter, value: JsonValue) -> Any:
    """Return a value as the mechanism holds it."""
    form = one.domain.form
    if isinstance(value, list) and form in (Form.NUMBERS, Form.TWO_NUMBERS, Form.LIMITS, Form.MASSES):
        # All that are no numbers, not the first alone.
        each(value, number, repeated=True)
    try:
        return one.domain.check(kind, one.name, number(value) if form is Form.NUMBER else value)
    except InvalidInputError as error:
        _, places, problem = constructor_problem(error)
        inner = value[places[0]] if places and isinstance(value, list) else value
        raise GridError(f"{problem}{number_hint(inner)}", places) from None
