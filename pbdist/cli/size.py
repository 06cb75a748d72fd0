"""``pbdist size``: the smallest noise that provably meets a goal."""

import json
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import (
    EXIT_CODES,
    MISSED,
    chosen_format,
    print_all,
    print_sheet,
    printed_warnings,
    sign_of_life,
    tell,
)
from pbdist.cli.parser import (
    NUMBER,
    WHOLE,
    Option,
    Options,
    Word,
    command,
    file_type,
    format_options,
    given_options,
    point_options,
    refuse,
    strict_option,
)

if TYPE_CHECKING:
    from pbdist.mechanisms import Parameter
    from pbdist.sizing.goal import Goal
    from pbdist.sizing.report import Answer

#: Options beside those of the parameters of mechanisms.
_OPTIONS = frozenset(
    (
        *("compositions", "delta", "epsilon", "exp_epsilon", "json", "scale_limits", "store", "systems", "tolerance"),
        *("adjacency", "noise", "reading"),
    )
)


def system_names() -> list[str]:
    """Return the names of the systems that come with pbdist."""
    from pbdist.sizing.systems import load_systems

    return [system.name for system in load_systems()]


def systems_option() -> Option:
    """Return the option that names a file of systems."""
    what = "the systems, in place of those that come with pbdist"
    return Option("--systems", metavar="FILE", type=file_type(), help=what)


def _families() -> list[str]:
    from pbdist.mechanisms import MECHANISMS, noise_parameter

    return [name for name, kind in MECHANISMS.items() if kind.in_studies and noise_parameter(kind)]


def _adjacencies() -> list[str]:
    from pbdist.types import Adjacency

    return [one.value for one in Adjacency]


def _parameter_options(_: frozenset[str]) -> list[Option]:
    """Return the options for the other parameters of the mechanisms that can be sized."""
    from pbdist.mechanisms import Form, described

    found = []
    for name, of_kinds in _parameters().items():
        told = next(iter(of_kinds.values()))
        settings: dict[str, Any] = {"metavar": "X", "type": NUMBER}
        if told.domain.form is Form.LIMITS:
            settings |= {"metavar": "LOW HIGH", "nargs": 2}
        elif told.domain.form in (Form.NUMBERS, Form.TWO_NUMBERS):
            settings["several"] = True
        elif told.domain.form is Form.MECHANISM:
            settings = {"metavar": "KIND", "type": Word(told.domain.kinds, only=True)}
        elif told.domain.form is not Form.NUMBER:
            settings = {"metavar": "NAME", "type": Word(told.domain.names, only=bool(told.domain.names))}
        what = described({kind: one.described for kind, one in of_kinds.items()})
        section = "Parameters of the mechanism"
        found.append(Option(f"--{name.replace('_', '-')}", name, help=what, section=section, **settings))
    return found


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


@command(
    "size",
    Option("--family", metavar="KIND", type=Word(_families, only=True), help="the mechanism whose noise is sized"),
    Option(
        "--system",
        metavar="NAME",
        type=Word(system_names),
        help="a system of data/systems.yaml; its own targets if none is given",
    ),
    Option("--table", is_flag=True, help="print the table of all systems, as Markdown"),
    systems_option(),
    Option("--compositions", metavar="R", type=WHOLE, several=True, help="numbers of compositions"),
    *point_options(several=True),
    Option("--delta", metavar="D", type=NUMBER, several=True, help="the largest delta that will do"),
    Option("--tolerance", metavar="T", type=NUMBER, default=0.01, help="how much smaller the refuted noise is (0.01)"),
    Option("--scale-limits", metavar="LOW HIGH", nargs=2, type=NUMBER, help="smallest and largest scale looked at"),
    Option(
        "--adjacency",
        metavar="NAME",
        type=Word(_adjacencies, only=True),
        help="for which neighbours the sensitivity or shift is stated; of a mechanism that says it itself, no other",
    ),
    Option(
        "--store", metavar="STORE", type=Word(path="dir"), help="a store to ask first: a path or s3://BUCKET/PREFIX"
    ),
    *format_options(),
    strict_option("what is refuted is smaller by more than the tolerance"),
    example="size --family Gaussian --compositions 100 --epsilon 1 --delta 1e-6",
    exits=EXIT_CODES,
    exclusive=[("family", "system", "table"), ("epsilon", "exp_epsilon")],
    late=_parameter_options,
)
def size(options: Options) -> int:
    """Find the smallest noise that provably meets a target.

    Its δ provably is at most --delta, and a little less noise is proved not to be enough. The scale of
    RandomizedResponse, k-ary too, is the probability of a lie, that of Poisson its mean. Without --mean, mean and scale
    of a NoisyCount are sized together, if its noise is Laplace or Gaussian. Of several --compositions, --epsilon and
    --delta all combinations are answered. Noise that meets the goal is rounded up, and refuted noise down, and the
    bounds hold for the printed numbers; csv and json are unrounded.
    """
    with printed_warnings() as missed, sign_of_life() as count:
        code = _sized(options, count)
    return MISSED if options.strict and missed and not code else code


def _sized(options: Options, count: Callable[[str, int, int], None]) -> int:
    _refuse_ignored(options)
    if options.table:
        return _print_systems(options)
    form = chosen_format(options)
    family, parameters, goals = _asked(options)
    answers = []
    for index, goal in enumerate(goals):
        count("target", index, len(goals))
        answers.append(_answer(options, family, parameters, *goal, exactly=form in ("csv", "json")))
    problems = [answer.sized for answer in answers if isinstance(answer.sized, Exception)]
    if len(problems) == len(answers):
        raise problems[0]
    _print(options, answers, form)
    if problems:
        from pbdist.errors import BatchError

        number = "one goal" if len(problems) == 1 else f"{len(problems)} goals"
        raise BatchError(f"size: expected an answer to each goal, got none to {number}: {problems[0]}")
    return 0


def _print_systems(options: Options) -> int:
    from pbdist.sizing.report import sizing_table
    from pbdist.sizing.systems import load_systems

    if options.format not in (None, "markdown"):
        refuse("--format", f"expected markdown with --table, got {options.format}")
    systems = load_systems(options.systems)
    for line in sizing_table(systems, options.tolerance, tell):
        print(line, flush=True)
    return 0


def _asked(options: Options) -> "tuple[Any, dict[str, Any], list[tuple[Goal, float | None]]]":
    """Return the family, its parameters, and the goals, each with the e^ε that was given for it; all checked."""
    from pbdist.mechanisms import MECHANISMS
    from pbdist.sizing.families import noise_class
    from pbdist.sizing.goal import checked_goal
    from pbdist.sizing.systems import find_system, load_systems, system_family

    given = given_options(options, ("compositions", "epsilon", "exp_epsilon", "delta"))
    if (given and len(given) < 3) or (options.family and not given):
        epsilon = [] if "exp_epsilon" in given else ["epsilon"]
        missing = [name for name in ("compositions", *epsilon, "delta") if name not in given]
        refuse(f"--{missing[0]}", "expected a value, got none")
    goals: list[tuple[Goal, float | None]] = []
    for values in product(*given.values()) if given else ():
        asked = {"epsilon": None, "exp_epsilon": None, **dict(zip(given, values, strict=True))}
        goals.append((checked_goal(**asked), asked["exp_epsilon"]))
    if options.family:
        parameters = given_options(options, _parameters())
        together = options.family == "NoisyCount" and options.mean is None
        if together and str(options.noise).startswith("Discrete"):
            refuse("--noise", f"expected Laplace or Gaussian without --mean, got {options.noise}: give its --mean too")
        return MECHANISMS[options.family], parameters, goals
    system = find_system(load_systems(options.systems), options.system)
    noise: Any = None if options.noise is None else noise_class(options.noise)
    family, parameters = system_family(system, noise, options.reading)
    return family, parameters, goals or [(target, None) for target in system.targets]


def _answer(
    options: Options,
    family: Any,
    parameters: dict[str, Any],
    goal: "Goal",
    exp_epsilon: float | None,
    *,
    exactly: bool,
) -> "Answer":
    """Return the answer to one goal; where none is found it is the error, also that of a wrong parameter."""
    import pbdist
    from pbdist.errors import InvalidInputError, PrecisionError
    from pbdist.sizing.report import Answer, printed_size

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
    return Answer(goal, exp_epsilon, sized, None if exactly else printed_size(sized, family, parameters))


def _print(options: Options, answers: "list[Answer]", form: str) -> None:
    from pbdist.sizing.goal import SizedNoise
    from pbdist.sizing.report import answers_as_json, sized_sheet, sized_table

    alone = answers[0]
    if form == "json":
        # The goals of a system are a list, however many there are.
        found = answers_as_json(answers)
        print(json.dumps(found[0] if len(found) == 1 and options.delta else found, indent=2, allow_nan=False))
    elif form == "table" and len(answers) == 1 and isinstance(alone.sized, SizedNoise) and alone.printed is not None:
        print_all(sized_table(alone.sized, alone.printed))
    else:
        told = given_options(options, _parameters())
        what = options.family or f"system {options.system}"
        caption = " ".join([f"{what}: the smallest noise found", *(f"{name}={value}" for name, value in told.items())])
        print_sheet(sized_sheet(caption, answers), form)


def _refuse_ignored(options: Options) -> None:
    """Refuse options that would be ignored."""
    if options.family is None and options.system is None and not options.table:
        refuse("--family", "expected a kind of mechanism, or --system or --table, got none")
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
            refuse(f"--{name.replace('_', '-')}", f"expected none with {what}, got one")
