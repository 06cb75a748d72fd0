"""``pbdist epsilon`` and ``pbdist delta``: bounds of one mechanism, without a study."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import (
    BOUND_EXITS,
    MISSED,
    NOT_FOUND,
    chosen_format,
    print_sheet,
    printed_warnings,
    sign_of_life,
)
from pbdist.cli.parser import (
    NUMBER,
    WHOLE,
    Command,
    Option,
    Options,
    Word,
    command,
    direction_option,
    file_type,
    format_options,
    point_options,
    refuse,
    strict_option,
)

if TYPE_CHECKING:
    from pbdist.cli.families import NamedPair
    from pbdist.mechanisms import Pair

#: How the bounds are to be read: from above; and from below where some neighbours follow a pair exactly.
_READ = {
    "epsilon": "The mechanism is (ε, δ)-private with the upper ε.",
    "delta": "The mechanism is (ε, δ)-private with the upper δ.",
}
_READ_LOWER = {
    "epsilon": " For its worst-case pair no analysis can prove an ε below the lower one.",
    "delta": " For its worst-case pair no analysis can prove a δ below the lower one.",
}
#: Parameters of these names have other ones here, as options of questions have theirs.
_TAKEN = ("epsilon", "delta", "exp_epsilon", "compositions", "tolerance", "direction", "format", "json", "strict")
_PREFIX = "parameter_"
_FIELD = re.compile(r"(?P<name>\w+)(?P<rest>.*?): ", re.DOTALL)
#: So many kinds are listed beside a parameter; it is one of most where there are more.
_MOST_LISTED = 5


def _families() -> list[str]:
    from pbdist.study.entries import study_kinds

    return list(study_kinds())


def _parameters(_: frozenset[str]) -> list[Option]:
    """Return the options of mechanisms, once they are needed: they follow from what takes long to import."""
    from pbdist.cli.families import family_parameters
    from pbdist.mechanisms import described

    found = []
    for name, kinds in family_parameters().items():
        what = described(kinds)
        found.append(
            Option(
                _option(name),
                _PREFIX + name,
                several=True,
                metavar="FILE" if name == "file" else "X",
                type=file_type() if name == "file" else str,
                help=f"{what} ({_listed(kinds)})" if len(set(kinds.values())) == 1 else what,
                section="Parameters of the mechanism",
            )
        )
    return found


def _listed(kinds: Iterable[str]) -> str:
    named = tuple(kinds)
    return ", ".join(named) if len(named) <= _MOST_LISTED else f"{', '.join(named[:_MOST_LISTED])}, .."


_ABOUT = """\
Bound {name} after so many uses of a mechanism.

It is bounded from both sides at once, without a study. Of several values all combinations are answered. Bounds are
printed rounded outwards; csv and json are unrounded. A mechanism within another one is a YAML mapping, as '{{kind:
Laplace, scale: 500}}', or its kind alone with its parameters beside it."""


def _command(name: str, *asked: Option, example: str) -> Command:
    return command(
        name,
        Option("--family", metavar="KIND", type=Word(_families, only=True), help="the mechanism"),
        Option("--compositions", metavar="R", type=WHOLE, several=True, help="numbers of compositions"),
        *asked,
        Option(
            "--tolerance", metavar="T", type=NUMBER, help="how far apart the bounds may be, upper / lower - 1 (0.001)"
        ),
        direction_option("the larger of both directions, or each (default: both)", "both"),
        *format_options(),
        strict_option("bounds are wider than the tolerance"),
        help=_ABOUT.format(name=name),
        example=f"{name} {example}",
        exits=BOUND_EXITS,
        exclusive=[("epsilon", "exp_epsilon")],
        late=_parameters,
    )(partial(_bounds, name=name))


def _bounds(options: Options, name: str) -> int:
    with printed_warnings() as missed, sign_of_life() as count:
        found = _answer(options, name, chosen_format(options), count)
    if found.unknown.any():
        return NOT_FOUND
    return MISSED if options.strict and missed else 0


def _answer(options: Options, name: str, form: str, count: Callable[[str, int, int], None]) -> Any:
    """Print the bounds, and return them."""
    field, values = _question(options, name)
    words = _given_parameters(options)
    pairs = _named_pairs(options.family, words)
    import numpy as np

    from pbdist.arguments import DEFAULT_TOLERANCE
    from pbdist.query.printing import answers_as_json, answers_sheet

    points = [math.log(one) for one in values] if field == "exp_epsilon" else values
    parts = []
    for index, one in enumerate(pairs):
        count("mechanism", index, len(pairs))
        parts.append(_bounds_of(one.pair, name, options, points))
    found = _joined(parts)
    varied_keys = pairs[0].varied
    varied = tuple(map(_column_name, varied_keys))
    rows = [(*one.varied.values(), *point) for one in pairs for point in product(options.compositions, values)]
    asked: dict[str, Any] = dict(zip((*varied, "compositions", field), zip(*rows, strict=True), strict=True))
    fixed = {
        _column_name(key): [_plain(one) for one in texts] for key, texts in words.items() if key not in varied_keys
    }
    parameters = {key: texts[0] if len(texts) == 1 else texts for key, texts in fixed.items()}
    if form == "json":
        told = answers_as_json(options.family, asked, found)
        tolerance = DEFAULT_TOLERANCE if options.tolerance is None else options.tolerance
        about = {"parameters": parameters, "tolerance": tolerance}
        print(json.dumps({"mechanism": told["mechanism"], **about, **told}, indent=2, allow_nan=False))
        return found
    known = pairs[0].pair.attained_by_some
    texts = {key: " ".join(map(str, one)) if isinstance(one, list) else one for key, one in parameters.items()}
    sheet = answers_sheet(options.family, texts, asked, found, [not known] * len(rows))
    read = _READ[name] + (_READ_LOWER[name] if known else "")
    notes = (*sheet.notes, read) if np.isfinite(found.upper).any() and not found.unknown.all() else sheet.notes
    print_sheet(replace(sheet, notes=notes), form)
    return found


def _plain(word: str) -> int | float | str:
    """Return the number that a word is, for other programs; other words as they are."""
    for read in (int, float):
        try:
            found = read(word)
        except ValueError:
            continue
        return found if math.isfinite(found) else word
    return word


def _question(options: Options, name: str) -> tuple[str, list[float]]:
    """Return the name of what is given beside the compositions, and its values; both are checked."""
    from pbdist.arguments import checked_compositions, checked_delta, checked_epsilon

    fields = ("delta",) if name == "epsilon" else ("epsilon", "exp_epsilon")
    given = [(field, getattr(options, field)) for field in fields if getattr(options, field) is not None]
    if options.compositions is None or not given:
        missing = "compositions" if options.compositions is None else fields[0]
        refuse(f"--{missing}", "expected a value, got none")
    checked_compositions(options.compositions)
    field, values = given[0]
    if field != "exp_epsilon":
        checked_delta(values, zero=True) if field == "delta" else checked_epsilon(values)
    for value in values if field == "exp_epsilon" else ():
        if not 1.0 <= value < math.inf:
            refuse("--exp-epsilon", f"expected finite numbers of at least 1, got {value!r}")
    return field, values


def _bounds_of(pair: "Pair", name: str, options: Options, points: list[float]) -> Any:
    """Return the bounds for all numbers of compositions and values, in one axis after that of the directions."""
    from pbdist import Accountant

    accountant = Accountant().add(pair)
    ask = accountant.epsilon if name == "epsilon" else accountant.delta
    rows = list(product(options.compositions, points))
    return ask(
        [value for _, value in rows],
        repeats=[r for r, _ in rows],
        tolerance=options.tolerance,
        direction=options.direction,
    )


def _joined(found: list[Any]) -> Any:
    """Return answers for several mechanisms, about the same neighbours, as one."""
    import numpy as np

    first = found[0]
    arrays = {name: [getattr(one, name) for one in found] for name in vars(first) if name != "adjacency"}
    return replace(first, **{name: np.concatenate(parts, axis=-1) for name, parts in arrays.items()})


def _given_parameters(options: Options) -> dict[str, list[str]]:
    """Return the words that are given for each parameter."""
    every = vars(options).items()
    return {
        name.removeprefix(_PREFIX): words for name, words in every if name.startswith(_PREFIX) and words is not None
    }


def _named_pairs(family: str | None, words: Mapping[str, list[str]]) -> "list[NamedPair]":
    """Return the mechanisms that are named; errors name the options."""
    from pbdist.cli.families import pairs_of_family
    from pbdist.errors import InvalidInputError

    if family is None:
        refuse("--family", "expected a kind of mechanism, got none")
    try:
        return pairs_of_family(family, words)
    except InvalidInputError as error:
        found = _FIELD.match(str(error))
        if found is None:
            raise
        at = f"{found['rest'].removeprefix('.')}: " if found["rest"] else ""
        raise InvalidInputError(f"{_option(found['name'])}: {at}{str(error)[found.end() :]}") from None


def _column_name(name: str) -> str:
    """Return what a parameter is called beside questions for ε and δ, as in the columns of a store."""
    return f"pair_{name}" if name in _TAKEN else name


def _option(name: str) -> str:
    return f"--{_column_name(name).replace('_', '-')}"


epsilon = _command(
    "epsilon",
    Option("--delta", metavar="D", type=NUMBER, several=True, help="delta, from 0 to below 1"),
    example="--family SubsampledGaussian --scale 1.1 --rate 0.01 --compositions 1000 --delta 1e-5",
)
delta = _command(
    "delta", *point_options(several=True), example="--family Laplace --scale 20 --compositions 16 --epsilon 0.5 1"
)
