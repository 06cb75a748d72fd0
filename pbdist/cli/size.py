"""``pbdist size``: the smallest noise that provably meets a target."""

from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.given import Options, chosen_format, flag, given_options, given_target, refuse, refuse_given
from pbdist.cli.interrupts import begins_anew
from pbdist.cli.options import FORMAT, QUESTION, SYSTEM, SYSTEMS, strict
from pbdist.cli.output import EXIT_CODES, answered, print_json, print_sheet
from pbdist.cli.parser import FOLDER, NUMBER, Option, Word, command
from pbdist.progress import Hearer

if TYPE_CHECKING:
    from pbdist.errors import PbdistError
    from pbdist.mechanisms import Parameter
    from pbdist.sizing.sized import Answer, SizedNoise
    from pbdist.study import Target


class _Families(Word):
    """The mechanisms that can be sized: one of them, several with commas between them, or ``all``."""

    def __init__(self) -> None:
        super().__init__(self._known, only=True)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the text; names other than the known ones are refused."""
        for name in value.split(","):
            super().convert(name.strip(), param, ctx)
        return value

    @staticmethod
    def _known() -> list[str]:
        from pbdist.mechanisms import MECHANISMS, noise_parameter

        return [*(name for name, kind in MECHANISMS.items() if kind.in_studies and noise_parameter(kind)), "all"]


def _adjacencies() -> list[str]:
    from pbdist.types import Adjacency

    return [one.value for one in Adjacency]


def _parameter_options(_: frozenset[str]) -> list[Option]:
    """Return the options for the other parameters of the mechanisms that can be sized."""
    from pbdist.mechanisms import Form, described

    found = []
    for name, of_kinds in _parameters().items():
        domain = next(iter(of_kinds.values())).domain
        kind: Any = NUMBER
        value = {Form.LIMITS: "LOW HIGH", Form.NUMBERS: "X..", Form.TWO_NUMBERS: "X.."}.get(domain.form, "X")
        if domain.form is Form.MECHANISM:
            # Poisson noise is no noise about a mean, and sized by its mean alone.
            value, kind = "KIND", Word((*domain.kinds, "Poisson"), only=True)
        elif domain.form not in (Form.NUMBER, Form.LIMITS, Form.NUMBERS, Form.TWO_NUMBERS):
            value, kind = "NAME", Word(domain.names, only=bool(domain.names))
        what = described({family: one.described for family, one in of_kinds.items()})
        section = "Parameters of the mechanism"
        found.append(Option(f"{flag(name)} {value}", what, kind, name=name, section=section))
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
    Option("--family KIND", "the mechanism whose noise is sized; A,B or all compares", _Families()),
    Option("--system NAME", "a system of data/systems.yaml; its own targets if none is given", SYSTEM),
    SYSTEMS,
    *QUESTION,
    Option("--tolerance T", "how much smaller the refuted noise is (0.01)", NUMBER, default=0.01),
    Option("--scale-limits LOW HIGH", "smallest and largest scale looked at", NUMBER),
    Option(
        "--adjacency NAME",
        "for which neighbours the sensitivity or shift is stated; of a mechanism that says it itself, no other",
        Word(_adjacencies, only=True),
    ),
    Option("--store STORE", "a store to ask first; what it lacks is added to it: a path or s3://BUCKET/PREFIX", FOLDER),
    Option("--message-bytes N", "the size of a message, to compare families in bytes", NUMBER),
    *FORMAT,
    strict("what is refuted is smaller by more than the tolerance"),
    resumes=True,
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
    if options.store is None:
        begins_anew()
    return answered(lambda count: _sized(options, count), strict=options.strict)


def _sized(options: Options, count: Hearer) -> int:
    _refuse_ignored(options)
    form = chosen_format(options)
    if _several(options):
        return _print_families(options, form, count)
    from pbdist.errors import BatchError
    from pbdist.sizing.sized import Answer

    family, parameters, targets = _asked(options)
    answers = []
    for index, (target, exp_epsilon) in enumerate(targets):
        count("target", index, len(targets))
        answers.append(Answer(target, exp_epsilon, _answer(options, family, parameters, target)))
    problems = [answer.sized for answer in answers if isinstance(answer.sized, Exception)]
    if len(problems) == len(answers):
        raise problems[0]
    _print(options, answers, form)
    if problems:
        number = "one target" if len(problems) == 1 else f"{len(problems)} targets"
        raise BatchError(f"size: expected an answer to each target, got none to {number}: {problems[0]}")
    return 0


def _several(options: Options) -> bool:
    """Whether families are compared."""
    return options.family is not None and (options.family == "all" or "," in options.family)


def _print_families(options: Options, form: str, count: Hearer) -> int:
    """Print the families side by side, a table for each target; in CSV and JSON all targets together."""
    import pbdist
    from pbdist.errors import BatchError
    from pbdist.sizing.sized import SizedNoise, answers_as_json, answers_sheet

    found: list[Answer] = []
    parameters, targets = given_options(options, _parameters()), _targets(options)
    for index, (target, exp_epsilon) in enumerate(targets):
        count("target", index, len(targets))
        # As it was given: ε of an e^ε is rounded.
        epsilon = ("epsilon", target.epsilon) if exp_epsilon is None else ("exp_epsilon", exp_epsilon)
        asked: dict[str, Any] = dict([("compositions", target.compositions), ("delta", target.delta), epsilon])
        settings = given_options(options, ("tolerance", "message_bytes", "adjacency"))
        compared = pbdist.size_families(options.family, **asked, **settings, **parameters)
        found += compared.answers
        if form not in ("csv", "json"):
            print(end="\n" if index else "")
            print_sheet(compared.sheet, form)
    if form == "json":
        print_json(answers_as_json(found))
    elif form == "csv":
        print_sheet(answers_sheet("", found, exactly=True), form)
    if not any(isinstance(one.sized, SizedNoise) for one in found):
        raise BatchError(f"size: expected an answer from some family, got none: {found[0].family}: {found[0].sized}")
    return 0


def _targets(options: Options) -> "list[tuple[Target, float | None]]":
    """Return the targets that are given, each with the e^ε that was given for it; all checked."""
    from pbdist.sizing.target import checked_target

    given = given_target(options)
    if options.family and not given:
        refuse("--compositions", "expected a value, got none")
    targets: list[tuple[Target, float | None]] = []
    for values in product(*given.values()) if given else ():
        asked = {"epsilon": None, "exp_epsilon": None, **dict(zip(given, values, strict=True))}
        targets.append((checked_target(**asked), asked["exp_epsilon"]))
    return targets


def _asked(options: Options) -> "tuple[Any, dict[str, Any], list[tuple[Target, float | None]]]":
    """Return the family, its parameters, and the targets, each with the e^ε that was given for it; all checked."""
    from pbdist.mechanisms import MECHANISMS
    from pbdist.sizing.families import noise_class
    from pbdist.sizing.systems import find_system, load_systems, system_family

    targets = _targets(options)
    if options.family:
        return MECHANISMS[options.family], given_options(options, _parameters()), targets
    system = find_system(load_systems(options.systems), options.system)
    noise: Any = None if options.noise is None else noise_class(options.noise)
    family, parameters = system_family(system, noise, options.reading)
    return family, parameters, targets or [(target, None) for target in system.targets]


def _answer(options: Options, family: Any, parameters: dict[str, Any], target: "Target") -> "SizedNoise | PbdistError":
    """Return the noise for one target; where none is found it is the error, also that of a wrong parameter."""
    import pbdist
    from pbdist.errors import InvalidInputError, PrecisionError

    asked = {name: getattr(target, name) for name in ("compositions", "epsilon", "delta")}
    settings = given_options(options, ("tolerance", "scale_limits", "store", "adjacency"))
    try:
        return pbdist.size(family, **asked, **settings, **parameters)
    except (InvalidInputError, PrecisionError) as error:
        return error


def _print(options: Options, answers: "list[Answer]", form: str) -> None:
    from pbdist.sizing.sized import SizedNoise, answers_as_json, answers_sheet, sized_sheet

    if form == "json":
        # The targets of a system are a list, however many there are.
        found = answers_as_json(answers)
        print_json(found[0] if len(found) == 1 and options.delta else found)
    elif form == "table" and len(answers) == 1 and isinstance(alone := answers[0].sized, SizedNoise):
        print_sheet(sized_sheet(alone), form)
    else:
        told = given_options(options, _parameters())
        what = options.family or f"system {options.system}"
        caption = " ".join([f"{what}: the smallest noise found", *(f"{name}={value}" for name, value in told.items())])
        print_sheet(answers_sheet(caption, answers, exactly=form == "csv"), form)


def _refuse_ignored(options: Options) -> None:
    """Refuse options that would be ignored."""
    if options.family is None and options.system is None:
        refuse("--family", "expected a kind of mechanism, or --system, got none")
    if options.family is None:
        unused = sorted({*_parameters(), "message_bytes"} - {"noise", "reading"})
    else:
        unused = ["scale_limits", "store", "systems"] if _several(options) else ["message_bytes", "systems"]
    what = "--family" if options.family else "--system"
    refuse_given(options, unused, f"expected none with {what}, got one")
