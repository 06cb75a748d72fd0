"""``pbdist epsilon`` and ``pbdist delta``: bounds of one mechanism, without a study."""

import argparse
import json
import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import (
    BOUND_EXITS,
    MISSED,
    NOT_FOUND,
    add_formats,
    chosen_format,
    print_sheet,
    printed_warnings,
    sign_of_life,
)
from pbdist.cli.parser import (
    Commands,
    add_command,
    add_mechanism_options,
    add_point,
    column_name,
    given_parameters,
    named_pairs,
)

if TYPE_CHECKING:
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


def add_epsilon(commands: Commands) -> None:
    """Add the command for ε."""
    parser = _added(commands, "epsilon", "bound epsilon of a mechanism, without a study")
    parser.add_argument("--delta", metavar="D", type=float, nargs="+", help="delta, from 0 to below 1")


def add_delta(commands: Commands) -> None:
    """Add the command for δ."""
    parser = _added(commands, "delta", "bound delta of a mechanism, without a study")
    add_point(parser, nargs="+")


def _added(commands: Commands, name: str, about: str) -> argparse.ArgumentParser:
    description = f"""\
Lower and upper bounds on {name} after so many compositions, computed at once. Of several values all combinations are
answered. Bounds are printed rounded outwards; csv and json are unrounded."""
    parser = add_command(commands, name, about, description, BOUND_EXITS)
    parser.add_argument("--compositions", metavar="R", type=int, nargs="+", help="numbers of compositions")
    parser.add_argument(
        "--tolerance", metavar="T", type=float, help="how far apart the bounds may be, upper / lower - 1 (0.001)"
    )
    parser.add_argument(
        "--direction", choices=("both", "each"), default="both", help="the larger of both directions, or each"
    )
    add_formats(parser)
    parser.add_argument("--strict", action="store_true", help="exit with code 3 if bounds are wider than the tolerance")
    add_mechanism_options(parser)
    parser.set_defaults(action=lambda options: _bounds(options, name))
    return parser


def _bounds(options: argparse.Namespace, name: str) -> int:
    with printed_warnings() as missed, sign_of_life():
        found = _answer(options, name, chosen_format(options))
    if found.unknown.any():
        return NOT_FOUND
    return MISSED if options.strict and missed else 0


def _answer(options: argparse.Namespace, name: str, form: str) -> Any:
    """Print the bounds, and return them."""
    field, values = _question(options, name)
    words = given_parameters(options)
    pairs = named_pairs(options.family, words)
    import numpy as np

    from pbdist.arguments import DEFAULT_TOLERANCE
    from pbdist.query.printing import answers_as_json, answers_sheet

    points = [math.log(one) for one in values] if field == "exp_epsilon" else values
    found = _joined([_bounds_of(one.pair, name, options, points) for one in pairs])
    varied_keys = pairs[0].varied
    varied = tuple(map(column_name, varied_keys))
    rows = [(*one.varied.values(), *point) for one in pairs for point in product(options.compositions, values)]
    asked: dict[str, Any] = dict(zip((*varied, "compositions", field), zip(*rows, strict=True), strict=True))
    fixed = {column_name(key): [_plain(one) for one in texts] for key, texts in words.items() if key not in varied_keys}
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


def _question(options: argparse.Namespace, name: str) -> tuple[str, list[float]]:
    """Return the name of what is given beside the compositions, and its values; both are checked."""
    from pbdist.arguments import checked_compositions, checked_delta, checked_epsilon
    from pbdist.errors import InvalidInputError

    fields = ("delta",) if name == "epsilon" else ("epsilon", "exp_epsilon")
    given = [(field, getattr(options, field)) for field in fields if getattr(options, field) is not None]
    if options.compositions is None or not given:
        missing = "compositions" if options.compositions is None else fields[0]
        raise InvalidInputError(f"--{missing}: expected a value, got none")
    checked_compositions(options.compositions)
    field, values = given[0]
    if field != "exp_epsilon":
        checked_delta(values, zero=True) if field == "delta" else checked_epsilon(values)
    for value in values if field == "exp_epsilon" else ():
        if not 1.0 <= value < math.inf:
            raise InvalidInputError(f"--exp-epsilon: expected finite numbers of at least 1, got {value!r}")
    return field, values


def _bounds_of(pair: "Pair", name: str, options: argparse.Namespace, points: list[float]) -> Any:
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
