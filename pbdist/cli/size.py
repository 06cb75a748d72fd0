"""``pbdist size``: the smallest noise that provably meets a target."""

import argparse
import json
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import MISSED, add_formats, chosen_format, print_all, print_sheet, printed_warnings, sign_of_life
from pbdist.cli.parser import Commands, add_late, add_point, given_options

if TYPE_CHECKING:
    from pbdist.mechanisms import Parameter
    from pbdist.sizing.sized import Answer
    from pbdist.study import Target

_ADJACENCY = (
    "for which neighbours the sensitivity or shift is stated: add-or-remove, add-or-remove-group, replace-one or"
    " zero-out; of a mechanism that says it itself, no other"
)
#: Options beside those of the parameters of mechanisms.
_OPTIONS = frozenset(
    (
        *("compositions", "delta", "epsilon", "exp_epsilon", "json", "scale_limits", "store", "systems", "tolerance"),
        *("adjacency", "noise", "reading"),
    )
)


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "size",
        help="the smallest noise that provably meets a target",
        description="The smallest noise whose δ provably is at most --delta, and a proof that a little less is not"
        " enough. The scale of RandomizedResponse, k-ary too, is the probability of a lie, that of Poisson its mean."
        " Without --mean, mean and scale of a NoisyCount are sized together. Of several --compositions,"
        " --epsilon and --delta all combinations are answered. Noise that meets the goal is rounded up, and refuted"
        " noise down, and the bounds hold for the printed numbers; csv and json are unrounded.",
    )
    parser.add_argument("--systems", metavar="FILE", help="the systems, in place of those that come with pbdist")
    parser.add_argument("--compositions", metavar="R", type=int, nargs="+", help="numbers of compositions")
    add_point(parser, nargs="+")
    parser.add_argument("--delta", metavar="D", type=float, nargs="+", help="the target's delta")
    parser.add_argument(
        "--tolerance", metavar="T", type=float, default=0.01, help="how much smaller the refuted noise is (0.01)"
    )
    parser.add_argument(
        "--scale-limits", metavar=("LOW", "HIGH"), nargs=2, type=float, help="smallest and largest scale looked at"
    )
    parser.add_argument("--adjacency", metavar="NAME", help=_ADJACENCY)
    parser.add_argument("--store", metavar="STORE", help="a store to ask first: a path or s3://BUCKET/PREFIX")
    add_formats(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with code 3 if what is refuted is smaller by more than the tolerance",
    )
    parser.set_defaults(action=_size)
    add_late(parser, _add_families)


def _add_families(parser: argparse.ArgumentParser) -> None:
    """Add the mechanisms that can be sized, and their other parameters."""
    from pbdist.mechanisms import MECHANISMS, Form, described, noise_parameter

    families = [name for name, kind in MECHANISMS.items() if kind.in_studies and noise_parameter(kind)]
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--family", choices=families, help="the mechanism whose noise is sized")
    what.add_argument("--system", metavar="NAME", help="a system of data/systems.yaml; its own goals if none is given")
    what.add_argument("--table", action="store_true", help="print the table of all systems, as Markdown")
    for name, of_kinds in _parameters().items():
        told = next(iter(of_kinds.values()))
        help_text = described({kind: one.described for kind, one in of_kinds.items()})
        option = f"--{name.replace('_', '-')}"
        if told.domain.form is Form.NUMBER:
            parser.add_argument(option, metavar="X", type=float, help=help_text)
        elif told.domain.form is Form.LIMITS:
            parser.add_argument(option, metavar=("LOW", "HIGH"), nargs=2, type=float, help=help_text)
        elif told.domain.form in (Form.NUMBERS, Form.TWO_NUMBERS):
            parser.add_argument(option, metavar="X", nargs="+", type=float, help=help_text)
        else:
            parser.add_argument(option, metavar="NAME", help=help_text)


def _parameters() -> "dict[str, dict[str, Parameter]]":
    """Return the parameters of all families but the sized ones, by name and kind; and the noise of counts."""
    from pbdist.mechanisms import MECHANISMS, Form, noise_parameter, parameters_of

    found: dict[str, dict[str, Parameter]] = {}
    for name, kind in MECHANISMS.items():
        sized = noise_parameter(kind)
        for one in parameters_of(kind).values() if kind.in_studies and sized else ():
            if one is not sized or one.domain.form is Form.MECHANISM:
                found.setdefault(one.name, {})[name] = one
    return found


def _size(options: argparse.Namespace) -> int:
    with printed_warnings() as missed, sign_of_life():
        code = _sized(options)
    return MISSED if options.strict and missed and not code else code


def _sized(options: argparse.Namespace) -> int:
    _refuse_ignored(options)
    if options.table:
        return _print_systems(options)
    form = chosen_format(options)
    family, parameters, goals = _asked(options)
    answers = [_answer(options, family, parameters, *goal) for goal in goals]
    problems = [answer.sized for answer in answers if isinstance(answer.sized, Exception)]
    if len(problems) == len(answers):
        raise problems[0]
    _print(options, answers, form)
    if problems:
        from pbdist.errors import BatchError

        number = "one goal" if len(problems) == 1 else f"{len(problems)} goals"
        raise BatchError(f"size: expected an answer to each goal, got none to {number}: {problems[0]}")
    return 0


def _print_systems(options: argparse.Namespace) -> int:
    from pbdist.errors import InvalidInputError
    from pbdist.sizing.report import sizing_table
    from pbdist.sizing.systems import load_systems

    if options.format not in (None, "markdown"):
        raise InvalidInputError(f"--format: expected markdown with --table, got {options.format}")
    systems = load_systems(options.systems)
    for line in sizing_table(systems, options.tolerance, lambda text: print(text, file=sys.stderr)):
        print(line, flush=True)
    return 0


def _asked(options: argparse.Namespace) -> "tuple[Any, dict[str, Any], list[tuple[Target, float | None]]]":
    """Return the family, its parameters, and the goals, each with the e^ε that was given for it; all checked."""
    from pbdist.errors import InvalidInputError
    from pbdist.mechanisms import MECHANISMS
    from pbdist.sizing.families import noise_class
    from pbdist.sizing.systems import find_system, load_systems, system_family
    from pbdist.sizing.target import checked_target

    given = given_options(options, ("compositions", "epsilon", "exp_epsilon", "delta"))
    if (given and len(given) < 3) or (options.family and not given):
        epsilon = [] if "exp_epsilon" in given else ["epsilon"]
        missing = [name for name in ("compositions", *epsilon, "delta") if name not in given]
        raise InvalidInputError(f"--{missing[0]}: expected a value, got none")
    goals: list[tuple[Target, float | None]] = []
    for values in product(*given.values()) if given else ():
        asked = {"epsilon": None, "exp_epsilon": None, **dict(zip(given, values, strict=True))}
        goals.append((checked_target(**asked), asked["exp_epsilon"]))
    if options.family:
        parameters = given_options(options, _parameters())
        return MECHANISMS[options.family], parameters, goals
    system = find_system(load_systems(options.systems), options.system)
    noise: Any = None if options.noise is None else noise_class(options.noise)
    family, parameters = system_family(system, noise, options.reading)
    return family, parameters, goals or [(target, None) for target in system.targets]


def _answer(
    options: argparse.Namespace,
    family: Any,
    parameters: dict[str, Any],
    goal: "Target",
    exp_epsilon: float | None,
) -> "Answer":
    """Return the answer to one goal; where none is found it is the error, also that of a wrong parameter."""
    import pbdist
    from pbdist.errors import InvalidInputError, PrecisionError
    from pbdist.sizing.sized import Answer

    try:
        sized = pbdist.size(
            family,
            compositions=goal.compositions,
            epsilon=goal.epsilon,
            delta=goal.delta,
            tolerance=options.tolerance,
            scale_limits=options.scale_limits,
            store=options.store,
            adjacency=options.adjacency,
            **parameters,
        )
    except (InvalidInputError, PrecisionError) as error:
        return Answer(goal, exp_epsilon, error)
    return Answer(goal, exp_epsilon, sized)


def _print(options: argparse.Namespace, answers: "list[Answer]", form: str) -> None:
    from pbdist.query.formats import as_table
    from pbdist.sizing.sized import SizedNoise, answers_as_json, answers_sheet, sized_sheet

    alone = answers[0]
    if form == "json":
        # The goals of a system are a list, however many there are.
        found = answers_as_json(answers)
        print(json.dumps(found[0] if len(found) == 1 and options.delta else found, indent=2, allow_nan=False))
    elif form == "table" and len(answers) == 1 and isinstance(alone.sized, SizedNoise):
        print_all(as_table(sized_sheet(alone.sized)))
    else:
        told = given_options(options, _parameters())
        what = options.family or f"system {options.system}"
        caption = " ".join([f"{what}: the smallest noise found", *(f"{name}={value}" for name, value in told.items())])
        print_sheet(answers_sheet(caption, answers, exactly=form == "csv"), form)


def _refuse_ignored(options: argparse.Namespace) -> None:
    """Refuse options that would be ignored."""
    from pbdist.errors import InvalidInputError

    if options.table:
        unused = {*_OPTIONS, *_parameters()} - {"systems", "tolerance"}
    elif options.family:
        unused = {"systems"}
    else:
        unused = {*_parameters()} - {"noise", "reading"}
    what = "--table" if options.table else "--family" if options.family else "--system"
    for name in sorted(unused):
        value = getattr(options, name)
        if value is not None and value is not False:
            raise InvalidInputError(f"--{name.replace('_', '-')}: expected none with {what}, got one")
