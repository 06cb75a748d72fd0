"""``pbdist size``: the smallest noise that provably meets a target."""

import re
from typing import TYPE_CHECKING, Any

from pbdist.cli.options import FORMAT, QUESTION, SYSTEM, SYSTEMS
from pbdist.cli.output import print_sheet
from pbdist.cli.parser import FILE, NUMBER, Option, Options, command, flag, refuse
from pbdist.progress import reported

if TYPE_CHECKING:
    from pbdist.sizing.sized import Answer
    from pbdist.tables import Sheet


def _late_options(_: frozenset[str]) -> list[Option]:
    """Return the options for mechanisms, which take long to import."""
    from pbdist.cli.families import mechanism_options
    from pbdist.sizing.comparison import family_names

    return mechanism_options("--family KIND..", "the mechanism; several are compared", family_names(), sized=False)


@command(
    "size",
    Option("--system NAME", "a system of data/systems.yaml; its own targets if none is given", shell_complete=SYSTEM),
    SYSTEMS,
    *QUESTION,
    Option("--tolerance T", "how much smaller the refuted noise is", NUMBER, default=0.01),
    Option("--adjacency NAME", "the neighbours, as add-or-remove, where the mechanism does not state its own"),
    Option("--store STORE", "a study's store, which answers first and saves new bounds: a path or s3://..", FILE),
    Option("--message-bytes N", "the size of a message, to compare families in bytes", NUMBER),
    *FORMAT,
    Option("--strict", "exit with code 3 if the refuted noise is smaller by more than the tolerance", section="Output"),
    example="size --family Gaussian --compositions 100 --epsilon 1 --delta 1e-6",
    exclusive=[("family", "system"), ("family", "systems"), ("system", "message_bytes")],
    needs=[("family", "system")],
    late=_late_options,
    resumes=lambda options: options.store,
)
def size(options: Options) -> int:
    """Find the smallest noise that provably meets a target.

    Its δ provably is at most --delta, and a little less noise is proved not to be enough. The scale of
    RandomizedResponse, k-ary too, is the probability of a lie, that of Poisson its mean. Without --mean, mean and scale
    of a NoisyCount are sized together. Several families, or all of them, are compared in one table, the cheapest first.
    Of several --compositions, --epsilon and --delta all combinations are answered. Noise that meets the target is
    rounded up, and refuted noise down, and the bounds hold for the printed numbers; csv and json are unrounded.
    """
    from pbdist.errors import BatchError, InvalidInputError, PbdistError
    from pbdist.mechanisms import MECHANISMS
    from pbdist.sizing.sized import answers_sheet

    several = options.family is not None and (len(options.family) > 1 or options.family[0] not in MECHANISMS)
    if several:
        options.refuse("store", problem="cannot be combined with several families")
    else:
        options.refuse("message_bytes", problem="applies to several families only")
    if options.family is not None and not options.targets():
        refuse("--compositions", "expected a value, got none")
    answers, sheets = _compared(options) if several else _sized(options)
    problems = [one.sized for one in answers if isinstance(one.sized, PbdistError)]
    if len(problems) == len(answers):
        wrong = [one for one in problems if re.match(r"\w+\.\w+: expected", str(one))]
        if wrong or not several:
            raise InvalidInputError(str(wrong[0]).partition(".")[2]) if several else problems[0]
    if options.form in ("csv", "json"):
        print_sheet(answers_sheet("", answers, compared=several, exactly=True), options.form)
    else:
        for index, sheet in enumerate(sheets):
            print(end="\n" if index else "")
            print_sheet(sheet, options.form)
    if problems and (not several or len(problems) == len(answers)):
        raise BatchError(f"size: no answer in {len(problems)} of {len(answers)} cases: {problems[0]}")
    return 0


def _compared(options: Options) -> "tuple[list[Answer], list[Sheet]]":
    """Return the answers of several families for each target, and a table for each target."""
    from pbdist.cli.families import given_values
    from pbdist.sizing.comparison import size_families

    settings = options.given("tolerance", "adjacency", "message_bytes") | given_values(options)
    targets = reported("target", options.targets())
    found = [size_families(options.family, **vars(target), **settings) for target in targets]
    return [answer for one in found for answer in one.answers], [one.sheet for one in found]


def _sized(options: Options) -> "tuple[list[Answer], list[Sheet]]":
    """Return the answers of one family, or of a system, for each target, and one table."""
    from pbdist.cli.families import given_values
    from pbdist.mechanisms import MECHANISMS
    from pbdist.sizing.comparison import answer_of
    from pbdist.sizing.sized import SizedNoise, answers_sheet
    from pbdist.sizing.systems import find_system, system_family

    targets = options.targets()
    given: dict[str, Any] = given_values(options)
    if options.system is None:
        (name,) = options.family
        family: Any = MECHANISMS[name]
        noise = f"{given['noise']} noise found" if "noise" in given else "noise found"
        words = ", ".join([noise, *(f"{one} {value}" for one, value in given.items() if one != "noise")])
        title, parameters = name, given
    else:
        for one in given.keys() - {"noise", "reading"}:
            refuse(flag(one), "cannot be combined with --system")
        system = find_system(options.system, options.systems)
        family, parameters, words = system_family(system, **given)
        targets = targets or [*system.targets]
        name, title = system.name, f"system {system.name}"
    settings = options.given("tolerance", "store", "adjacency")
    answers = [answer_of(name, family, target, **settings, **parameters) for target in reported("target", targets)]
    if options.form in ("csv", "json"):
        return answers, []
    if len(answers) == 1 and isinstance(alone := answers[0].sized, SizedNoise):
        return answers, [alone.sheet]
    return answers, [answers_sheet(f"{title}: the smallest {words}", answers)]
