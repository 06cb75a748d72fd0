"""``pbdist query``: bounds on δ, on ε or on the number of rounds from a store, at stored points and between them."""

import gc
import json
import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.output import MISSED, chosen_format, print_all, print_sheet, printed_warnings, sign_of_life
from pbdist.cli.parser import (
    NUMBER,
    WHOLE,
    Number,
    Option,
    Options,
    command,
    direction_option,
    format_options,
    given_options,
    point_options,
    refuse,
    store_argument,
    strict_option,
)

if TYPE_CHECKING:
    from pbdist.query import Study
    from pbdist.query.lookup import Bounds
    from pbdist.query.printing import Answers

_EXITS = """\
exit codes:
    0  answered
    2  not answerable from what is stored, or something in the input is wrong: the one line on stderr says what
    3  answered, with --strict: an answer is wider than the study's tolerance
  130  interrupted
"""


class _Factor(Number):
    """A number, or auto."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return what a text is."""
        return value if value == "auto" else super().convert(value, param, ctx)


def noise_options(taken: frozenset[str]) -> list[Option]:
    """Return an option for each column that describes noise settings: several values of each number, one text."""
    from pbdist.mechanisms.columns import known_columns

    found = []
    for name, column in known_columns().items():
        if name in ("mechanism", "factor"):
            continue
        # A mechanism of others may have a parameter that is called like another option.
        flag = f"--{name.replace('_', '-')}"
        found.append(
            Option(
                flag if flag not in taken else f"--pair-{flag[2:]}",
                f"noise_{name}",
                metavar="NAME" if column.text else "X",
                type=str if column.text else NUMBER,
                several=not column.text,
                help=f"{column.what}: a list such as 0,1" if column.listed else column.what,
                section="Noise settings, the columns of a store (pbdist query STORE lists those that it has)",
                brief=True,
            )
        )
    return found


def factor_option() -> Option:
    """Return the option that names the factor of noise settings."""
    what = "factor between buckets, or auto"
    return Option("--factor", "noise_factor", metavar="F", type=_Factor(), help=what)


@command(
    "query",
    store_argument(),
    Option(
        "--mechanism", metavar="LABEL", help="the label of the mechanism in the study; not needed where only one can be"
    ),
    Option("--compositions", metavar="R", type=WHOLE, several=True, help="numbers of compositions"),
    *point_options(several=True),
    Option("--delta", metavar="D", type=NUMBER, several=True, help="delta"),
    factor_option(),
    direction_option("both directions together, or each, of several answers (default: as in the study)"),
    Option("--refine", is_flag=True, help="compute the points that are missing and add them to the store"),
    *format_options(),
    strict_option("an answer is wider than the study's tolerance"),
    example="query data/quickstart.zarr --mechanism Laplace --scale 200 --compositions 512 --epsilon 0.1",
    exits=_EXITS,
    exclusive=[("epsilon", "exp_epsilon")],
    late=noise_options,
)
def query(options: Options) -> int:
    """Bound delta, epsilon or rounds by what a store holds.

    Of the number of compositions, epsilon and delta two are given, and the third is bounded from both sides. Each of
    them, and each parameter of the noise that is a number, may be several values: all combinations are answered. A
    stored point is answered as it is stored; any other one by what is proved from the stored ones, or not at all. A
    line on stderr says which answers are wider than the study's tolerance. Without any question what the store holds is
    listed.
    """
    with printed_warnings() as missed, sign_of_life():
        if not options.refine:
            code = _answer(options)
        else:
            # It holds the store while it adds points.
            with in_good_order():
                code = _answer(options)
    return MISSED if options.strict and missed and not code else code


def given_noise(options: Options) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters that name noise settings: numbers, with several values each, and texts and the factor."""
    from pbdist.mechanisms.columns import known_columns

    found = {name: getattr(options, f"noise_{name}") for name in known_columns() if name != "mechanism"}
    told = {name: value for name, value in found.items() if value is not None}
    texts = {name: value for name, value in told.items() if not isinstance(value, list)}
    return {name: value for name, value in told.items() if name not in texts}, texts


def _answer(options: Options) -> int:
    form = chosen_format(options)
    # Nothing that is imported is garbage: collecting would take a fifth of the time.
    gc.disable()
    from pbdist.query import open_study
    from pbdist.query.lookup import check_strict
    from pbdist.query.printing import answers_as_json, answers_sheet, bounds_as_json, printed_bounds

    gc.freeze()
    gc.enable()
    numbers, texts = given_noise(options)
    asked = given_options(options, ("compositions", "epsilon", "exp_epsilon", "delta"))
    if not asked and not numbers and not texts:
        return _list(options, form)
    if len(asked) != 2 or {"epsilon", "exp_epsilon"} <= set(asked):
        got = ", ".join("--" + name.replace("_", "-") for name in asked) or "none"
        refuse("--delta", f"expected two of --compositions, --epsilon (or --exp-epsilon) and --delta, got {got}")
    if options.direction == "each" and "compositions" not in asked:
        refuse("--direction", "expected both where rounds are asked for, got each")
    study = open_study(options.store)
    check_strict(study.spec, options.strict)
    if options.mechanism is None:
        from pbdist.query.status import only_mechanism

        noise = {**numbers, **{name: [text] for name, text in texts.items()}}
        options.mechanism = only_mechanism(study, noise, refine=options.refine)
    single = all(len(values) == 1 for values in (*asked.values(), *numbers.values()))
    if single and "delta" not in asked and form in ("table", "json"):
        point = {name: values[0] for name, values in asked.items()}
        noise = {name: values[0] for name, values in numbers.items()}
        bounds = _bounds_at(study, options, point, {**noise, **texts})
        if form == "json":
            print(json.dumps(bounds_as_json(bounds), indent=2, allow_nan=False))
        else:
            print_all(printed_bounds(bounds))
        return 0
    names = [*numbers, *asked]
    rows = list(product(*numbers.values(), *asked.values()))
    columns: dict[str, Any] = dict(zip(names, zip(*rows, strict=True), strict=True))
    found = _found(study, options, columns, texts)
    if form == "json":
        label = " ".join([options.mechanism, *(f"{name}={value}" for name, value in texts.items())])
        print(json.dumps(answers_as_json(label, columns, found), indent=2, allow_nan=False))
    else:
        asked_of: list[dict[str, Any]] = [{**dict(zip(numbers, row, strict=False)), **texts} for row in rows]
        unattained = [not study.queries.setting(options.mechanism, one).attained for one in asked_of]
        print_sheet(answers_sheet(options.mechanism, texts, columns, found, unattained), form)
    return 0


def _list(options: Options, form: str) -> int:
    """Print what the store holds, or holds of one mechanism."""
    from pbdist.query import open_study
    from pbdist.query.status import contents_sheet

    for name in ("refine", "direction", "strict"):
        if getattr(options, name):
            refuse(f"--{name}", "expected a question beside it, got none: --compositions, --epsilon, ..")
    found = open_study(options.store).contents().of(options.mechanism)
    if form == "json":
        print(json.dumps(found.as_json(), indent=2, allow_nan=False))
    else:
        print_sheet(contents_sheet(found), form)
    return 0


def _found(study: "Study", options: Options, columns: dict[str, Any], texts: dict[str, Any]) -> "Answers":
    """Return the answers to questions given as columns."""
    settings: dict[str, Any] = {**texts, "refine": options.refine}
    direction: dict[str, Any] = {"direction": options.direction} if options.direction else {}
    if "delta" not in columns:
        return study.delta(options.mechanism, **columns, **settings, **direction)
    if "compositions" in columns:
        return study.epsilon(options.mechanism, **columns, **settings, **direction)
    return study.compositions(options.mechanism, **columns, **settings)


def _bounds_at(study: "Study", options: Options, point: dict[str, Any], noise: dict[str, Any]) -> "Bounds":
    """Return the bounds on δ at the given ε or e^ε."""
    from pbdist.errors import OffGridError
    from pbdist.query.lookup import Bounds
    from pbdist.types import Direction

    # As in `Study.delta`: e^ε means a stored ε if that is the float nearest to its logarithm.
    given = point.get("exp_epsilon")
    epsilon = point["epsilon"] if given is None else math.log(given) if given > 0.0 else math.nan
    if epsilon in study.spec.epsilon:
        try:
            found = study.lookup(options.mechanism, compositions=point["compositions"], epsilon=epsilon, **noise)
            return replace(found, asked_exp_epsilon=given)
        except OffGridError:
            pass  # Answered, or refused, by stored points nearby.
    asked = {"epsilon": None, "exp_epsilon": None, **point, "refine": options.refine}
    bounds, _ = study.queries.delta(options.mechanism, noise, **asked, direction="each")
    # The study's own direction is judged, with its warning.
    judged = study.delta(options.mechanism, **point, **noise, direction=study.spec.direction)
    within, why = judged.within_tolerance, judged.why_wide
    return Bounds(
        setting=study.describe(options.mechanism, **noise),
        compositions=point["compositions"],
        epsilon=epsilon,
        directions=tuple(direction.value for direction in Direction),
        brackets=tuple(bounds.bracket(axis) for axis in range(len(Direction))),
        asked_exp_epsilon=given,
        within_tolerance=None if within is None else bool(within.all()),
        why_wide="" if why is None else next((str(one) for one in why.reshape(-1) if one), ""),
        adjacency=bounds.adjacency,
    )
