"""``pbdist query``: bounds on δ, on ε or on the number of rounds from a store, at stored points and between them."""

import argparse
import gc
import json
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.output import MISSED, add_formats, chosen_format, printed_warnings
from pbdist.cli.parser import Commands, add_command, add_late, add_point, given_options

if TYPE_CHECKING:
    from pbdist.query import Study
    from pbdist.query.printing import Answers

_ABOUT = """\
Of the number of compositions, epsilon and delta two are given, and the third is bounded from both sides. Each of
them, and each parameter of the noise that is a number, may be several values: all combinations are answered. A stored
point is answered as it is stored; any other one by what is proved from the stored ones, or not at all. A line on
stderr says which answers are wider than the study's tolerance. Without any question what the store holds is listed."""
_EXITS = """\
exit codes:
    0  answered
    2  not answerable from what is stored, or something in the input is wrong: the one line on stderr says what
    3  answered, with --strict: an answer is wider than the study's tolerance
  130  interrupted
"""


def add_to(commands: Commands) -> None:
    """Add the command."""
    about = "bound delta, epsilon or the number of rounds by what a store holds"
    parser = add_command(commands, "query", about, _ABOUT, _EXITS)
    parser.add_argument("store", metavar="STORE", help="a store: a path or s3://BUCKET/PREFIX")
    parser.add_argument(
        "--mechanism", metavar="LABEL", help="the label of the mechanism in the study; not needed where only one can be"
    )
    parser.add_argument("--compositions", metavar="R", type=int, nargs="+", help="numbers of compositions")
    add_point(parser, nargs="+")
    parser.add_argument("--delta", metavar="D", type=float, nargs="+", help="delta")
    add_noise_options(parser)
    parser.add_argument(
        "--refine", action="store_true", help="compute the points that are missing and add them to the store"
    )
    parser.add_argument(
        "--each", action="store_true", help="both directions, not the larger of them, of several answers"
    )
    add_formats(parser)
    parser.add_argument(
        "--strict", action="store_true", help="exit with code 3 if an answer is wider than the study's tolerance"
    )
    parser.set_defaults(action=_query)


def add_noise_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name noise settings, once they are needed: several values of each number, one text."""
    parser.add_argument(
        "--factor", metavar="F", type=_factor, dest="noise_factor", help="factor between buckets, or auto"
    )
    add_late(parser, _add_columns)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    """Add an option for each column that describes cells of any mechanism."""
    from pbdist.mechanisms.columns import known_columns

    for name, column in known_columns().items():
        if name in ("mechanism", "factor"):
            continue
        option, what = name.replace("_", "-"), column.what.replace("%", "%%")
        # A mechanism of others may have a parameter that is called like another option.
        flag = f"--pair-{option}" if f"--{option}" in parser._option_string_actions else f"--{option}"
        told: dict[str, Any] = {"metavar": "NAME"} if column.text else {"metavar": "X", "type": float, "nargs": "+"}
        what = f"{what}: a list such as 0,1" if column.listed else what
        parser.add_argument(flag, dest=f"noise_{name}", help=what, **told)


def given_noise(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters that name noise settings: numbers, with several values each, and texts and the factor."""
    from pbdist.mechanisms.columns import known_columns

    found = {name: getattr(options, f"noise_{name}") for name in known_columns() if name != "mechanism"}
    told = {name: value for name, value in found.items() if value is not None}
    texts = {name: value for name, value in told.items() if not isinstance(value, list)}
    return {name: value for name, value in told.items() if name not in texts}, texts


def _factor(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or auto, got {text!r}") from None


def _query(options: argparse.Namespace) -> int:
    with printed_warnings() as missed:
        if not options.refine:
            code = _answer(options)
        else:
            # It holds the store while it adds points.
            with in_good_order():
                code = _answer(options)
    return MISSED if options.strict and missed and not code else code


def _answer(options: argparse.Namespace) -> int:
    form = chosen_format(options)
    # Nothing that is imported is garbage: collecting would take a fifth of the time.
    gc.disable()
    from pbdist.errors import InvalidInputError
    from pbdist.query import open_study
    from pbdist.query.lookup import check_strict

    gc.freeze()
    gc.enable()
    numbers, texts = given_noise(options)
    asked = given_options(options, ("compositions", "epsilon", "exp_epsilon", "delta"))
    if not asked and not numbers and not texts:
        return _list(options, form)
    if len(asked) != 2 or {"epsilon", "exp_epsilon"} <= set(asked):
        raise InvalidInputError(
            "--delta: expected two of --compositions, --epsilon (or --exp-epsilon) and --delta, got"
            f" {', '.join('--' + name.replace('_', '-') for name in asked) or 'none'}"
        )
    if options.each and "compositions" not in asked:
        raise InvalidInputError("--each: expected none where rounds are asked for: they are for both directions")
    study = open_study(options.store)
    check_strict(study.spec, options.strict)
    if options.mechanism is None:
        from pbdist.query.status import only_mechanism

        noise = {**numbers, **{name: [text] for name, text in texts.items()}}
        options.mechanism = only_mechanism(study, noise, refine=options.refine)
    columns = dict(zip([*numbers, *asked], zip(*product(*numbers.values(), *asked.values()), strict=True), strict=True))
    found = _found(study, options, columns, texts)
    print(found.sheet().text(form), end="")
    return 0


def _list(options: argparse.Namespace, form: str) -> int:
    """Print what the store holds, or holds of one mechanism."""
    from pbdist.errors import InvalidInputError
    from pbdist.query import open_study
    from pbdist.query.status import contents_sheet

    for name in ("refine", "each", "strict"):
        if getattr(options, name):
            raise InvalidInputError(f"--{name}: expected a question beside it, got none: --compositions, --epsilon, ..")
    found = open_study(options.store).contents().of(options.mechanism)
    if form == "json":
        print(json.dumps(found.as_json(), indent=2, allow_nan=False))
    else:
        print(contents_sheet(found).text(form), end="")
    return 0


def _found(study: "Study", options: argparse.Namespace, columns: dict[str, Any], texts: dict[str, Any]) -> "Answers":
    """Return the answers to questions given as columns."""
    settings: dict[str, Any] = {**texts, "refine": options.refine}
    direction: dict[str, Any] = {"direction": "each"} if options.each else {}
    if "delta" not in columns:
        return study.delta(options.mechanism, **columns, **settings, **direction)
    if "compositions" in columns:
        return study.epsilon(options.mechanism, **columns, **settings, **direction)
    return study.compositions(options.mechanism, **columns, **settings)
