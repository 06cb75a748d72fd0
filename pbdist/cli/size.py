"""``pbdist size``: the smallest noise that provably meets a target."""

from typing import TYPE_CHECKING, Any

from pbdist.cli.options import FORMAT, QUESTION, SYSTEM, SYSTEMS, strict
from pbdist.cli.output import EXIT_CODES, print_json, print_sheet
from pbdist.cli.parser import FOLDER, NUMBER, Option, Options, Word, command, flag, refuse

if TYPE_CHECKING:
    from pbdist.mechanisms import Parameter
    from pbdist.sizing.sized import Answer

_FAMILIES = Word("pbdist.sizing.comparison:family_names", only=True, several=True)


def _parameters() -> "dict[str, dict[str, Parameter]]":
    """Return the parameters of all families but the sized ones, by name and kind; and the noise of counts."""
    from pbdist.mechanisms import Form, noise_parameter, parameters_of
    from pbdist.sizing.comparison import sized_kinds

    found: dict[str, dict[str, Parameter]] = {}
    for name, kind in sized_kinds().items():
        for one in parameters_of(kind).values():
            if one is not noise_parameter(kind) or one.domain.form is Form.MECHANISM:
                found.setdefault(one.name, {})[name] = one
    return found


def _parameter_options(_: frozenset[str]) -> list[Option]:
    """Return the options for these parameters."""
    from pbdist.mechanisms import Form, described

    usages = {Form.NUMBER: "X", Form.LIMITS: "LOW HIGH", Form.NUMBERS: "X..", Form.TWO_NUMBERS: "X.."}
    found = []
    for name, of_kinds in _parameters().items():
        domain = next(iter(of_kinds.values())).domain
        value = usages.get(domain.form, "NAME")
        kind: Any = NUMBER if domain.form in usages else Word(domain.names, only=bool(domain.names))
        if domain.form is Form.MECHANISM:
            # Poisson noise is no noise about a mean, and sized by its mean alone.
            value, kind = "KIND", Word((*domain.kinds, "Poisson"), only=True)
        what = described({family: one.described for family, one in of_kinds.items()})
        section = "Parameters of the mechanism"
        found.append(Option(f"{flag(name)} {value}", what, kind, name=name, section=section))
    return found


@command(
    "size",
    Option("--family KIND", "the mechanism whose noise is sized; A,B or all compares", _FAMILIES),
    Option("--system NAME", "a system of data/systems.yaml; its own targets if none is given", SYSTEM),
    SYSTEMS,
    *QUESTION,
    Option("--tolerance T", "how much smaller the refuted noise is (0.01)", NUMBER, default=0.01),
    Option(
        "--adjacency NAME",
        "the neighbours of the given sensitivity or shift; a mechanism that states its own takes no others",
        Word("pbdist.types:Adjacency", only=True),
    ),
    Option("--store STORE", "a store that answers first, and saves new bounds: a path or s3://BUCKET/PREFIX", FOLDER),
    Option("--message-bytes N", "the size of a message, to compare families in bytes", NUMBER),
    *FORMAT,
    strict("the refuted noise is smaller by more than the tolerance"),
    resumes=lambda options: options.store,
    answers=True,
    example="size --family Gaussian --compositions 100 --epsilon 1 --delta 1e-6",
    exits=EXIT_CODES,
    exclusive=[("family", "system"), ("epsilon", "exp_epsilon")],
    late=_parameter_options,
)
def size(options: Options) -> int:
    """Find the smallest noise that provably meets a target.

    Its δ provably is at most --delta, and a little less noise is proved not to be enough. The scale of
    RandomizedResponse, k-ary too, is the probability of a lie, that of Poisson its mean. Without --mean, mean and scale
    of a NoisyCount are sized together. Several families, or all of them, are compared in one table, the cheapest first.
    Of several --compositions, --epsilon and --delta all combinations are answered. Noise that meets the target is
    rounded up, and refuted noise down, and the bounds hold for the printed numbers; csv and json are unrounded.
    """
    if options.family is None and options.system is None:
        refuse("--family", "expected a kind of mechanism, or --system, got none")
    several = options.family is not None and (options.family == "all" or "," in options.family)
    if options.family is None:
        unused = {*_parameters(), "message_bytes"} - {"noise", "reading"}
        options.refuse(*sorted(unused), problem="cannot be combined with --system")
    else:
        options.refuse("systems", problem="applies to --system only")
        options.require("compositions")
    if several:
        options.refuse("store", problem="cannot be combined with several families")
    else:
        options.refuse("message_bytes", problem="applies to several families only")
    return _print_families(options, options.form) if several else _print_sizes(options, options.form)


def _print_families(options: Options, form: str) -> int:
    """Print the families side by side, a table for each target; in CSV and JSON all targets together."""
    from pbdist.errors import BatchError
    from pbdist.sizing.comparison import size_families
    from pbdist.sizing.sized import SizedNoise

    found: list[Answer] = []
    targets = options.targets()
    settings = options.given("tolerance", "adjacency", "message_bytes", *_parameters())
    for index, (target, _) in enumerate(targets):
        options.progress.count("target", index, len(targets))
        one = size_families(options.family, **vars(target), **settings)
        found += one.answers
        if form not in ("csv", "json"):
            print(end="\n" if index else "")
            print_sheet(one.sheet, form)
    if form in ("csv", "json"):
        _print(found, "", form, alone=False)
    if not any(isinstance(one.sized, SizedNoise) for one in found):
        raise BatchError(f"size: no family has an answer: {found[0].family}: {found[0].sized}")
    return 0


def _print_sizes(options: Options, form: str) -> int:
    """Print the noise of one family, or of a system, for each target."""
    from pbdist.errors import BatchError
    from pbdist.mechanisms import MECHANISMS
    from pbdist.sizing.comparison import answer_of
    from pbdist.sizing.families import noise_class
    from pbdist.sizing.sized import SizedNoise
    from pbdist.sizing.systems import find_system, load_systems, system_family

    targets = options.targets()
    shown = parameters = options.given(*_parameters())
    if options.family:
        family: Any = MECHANISMS[options.family]
    else:
        system = find_system(load_systems(options.systems), options.system)
        noise: Any = None if options.noise is None else noise_class(options.noise)
        family, parameters = system_family(system, noise, options.reading)
        targets = targets or [(target, None) for target in system.targets]
    settings = options.given("tolerance", "store", "adjacency")
    answers = []
    for index, (target, _) in enumerate(targets):
        options.progress.count("target", index, len(targets))
        answers.append(answer_of(family, target, **settings, **parameters))
    problems = [one.sized for one in answers if isinstance(one.sized, Exception)]
    if len(problems) == len(answers):
        raise problems[0]
    if form == "table" and len(answers) == 1 and isinstance(alone := answers[0].sized, SizedNoise):
        print_sheet(alone.sheet, form)
    else:
        what = options.family or f"system {options.system}"
        caption = " ".join([f"{what}: the smallest noise found", *(f"{name}={value}" for name, value in shown.items())])
        # The targets of a system are a list, even a single one.
        _print(answers, caption, form, alone=len(answers) == 1 and bool(options.delta))
    if problems:
        number = "one target" if len(problems) == 1 else f"{len(problems)} targets"
        raise BatchError(f"size: no answer for {number}: {problems[0]}")
    return 0


def _print(answers: "list[Answer]", caption: str, form: str, *, alone: bool) -> None:
    from pbdist.sizing.sized import answers_as_json, answers_sheet

    if form == "json":
        found = answers_as_json(answers)
        print_json(found[0] if alone else found)
    else:
        print_sheet(answers_sheet(caption, answers, exactly=form == "csv"), form)
