"""``pbdist query``: bounds on δ, on ε or on the number of rounds from a store, at stored points and between them."""

import gc
from contextlib import nullcontext
from itertools import product
from typing import TYPE_CHECKING, Any

from pbdist.cli.given import Options, chosen_format, flag, given_options, refuse, refuse_given
from pbdist.cli.interrupts import in_good_order
from pbdist.cli.options import FACTOR, FORMAT, QUESTION, STORE, direction, strict
from pbdist.cli.output import answered, print_json, print_sheet
from pbdist.cli.parser import NUMBER, Option, command

if TYPE_CHECKING:
    from pbdist.query import Study

_EXITS = """\
exit codes:
    0  answered
    2  not answerable from what is stored, or something in the input is wrong: the one line on stderr says what
    3  answered, with --strict: an answer is wider than the study's tolerance
  130  interrupted
"""


_NOISE = "Noise settings, the columns of a store (pbdist query STORE lists those that it has)"


def noise_options(taken: frozenset[str]) -> list[Option]:
    """Return an option for each column that describes noise settings: several values of each number, one text."""
    from pbdist.mechanisms.columns import known_columns

    found = []
    for name, column in known_columns().items():
        if name in ("mechanism", "factor"):
            continue
        # A mechanism of others may have a parameter that is called like another option.
        usage = flag(name) if flag(name) not in taken else flag(f"pair_{name}")
        value, kind = ("NAME", None) if column.text else ("X..", NUMBER)
        what = f"{column.what}: a list such as 0,1" if column.listed else column.what
        found.append(Option(f"{usage} {value}", what, kind, name=f"noise_{name}", section=_NOISE, brief=True))
    return found


@command(
    "query",
    STORE,
    Option("--mechanism LABEL", "the label of the mechanism in the study; not needed where only one can be"),
    *QUESTION,
    FACTOR,
    direction("both directions together, or each, of several answers (default: as in the study)"),
    Option("--refine", "compute the points that are missing and add them to the store"),
    *FORMAT,
    strict("an answer is wider than the study's tolerance"),
    example="query data/quickstart.zarr --mechanism Laplace --scale 200 --compositions 512 --epsilon 0.1",
    exits=_EXITS,
    exclusive=[("epsilon", "exp_epsilon")],
    late=noise_options,
)
def query(options: Options) -> int:
    """Bound delta, epsilon or rounds by what a store holds.

    Of the number of compositions, epsilon and delta two are given, and the third is bounded from both sides. All three
    are a target: which settings meet it, and which are refuted. Each of them, and each parameter of the noise that is a
    number, may be several values: all combinations are answered. A stored point is answered as it is stored; any other
    one by what is proved from the stored ones, or not at all. A line on stderr says which answers are wider than the
    study's tolerance. Without any question what the store holds is listed.
    """
    # With --refine it holds the store while it adds points.
    with in_good_order() if options.refine else nullcontext():
        return answered(lambda _: _answer(options), strict=options.strict)


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
    from pbdist.query.settings import check_strict

    gc.freeze()
    gc.enable()
    numbers, texts = given_noise(options)
    asked = given_options(options, ("compositions", "epsilon", "exp_epsilon", "delta"))
    if not asked and not numbers and not texts:
        return _list(options, form)
    if len(asked) == 3:
        return _target(options, asked, form)
    if len(asked) != 2:
        got = ", ".join(map(flag, asked)) or "none"
        refuse("--delta", f"expected two of --compositions, --epsilon (or --exp-epsilon) and --delta, got {got}")
    if options.direction == "each" and "compositions" not in asked:
        refuse("--direction", "expected both where rounds are asked for, got each")
    study = open_study(options.store)
    check_strict(study.spec, options.strict)
    if options.mechanism is None:
        from pbdist.query.status import only_mechanism

        noise = {**numbers, **{name: [text] for name, text in texts.items()}}
        options.mechanism = only_mechanism(study, noise, refine=options.refine)
    columns = dict(zip([*numbers, *asked], zip(*product(*numbers.values(), *asked.values()), strict=True), strict=True))
    print_sheet(_found(study, options, columns, texts).sheet(), form)
    return 0


def _target(options: Options, asked: dict[str, Any], form: str) -> int:
    """Print which settings meet a target."""
    from pbdist.query import open_study
    from pbdist.query.noise_choice import target_sheet

    numbers, texts = given_noise(options)
    for name in (*numbers, *texts):
        refuse(flag(name), "expected none beside a target, which is for all settings, got one")
    needless = "expected none beside a target, got one: settings are judged by what is stored"
    refuse_given(options, ("refine", "direction", "strict"), needless)
    for name, values in asked.items():
        if len(values) != 1:
            refuse(flag(name), f"expected one value in a target, got {len(values)}")
    point = {name: values[0] for name, values in asked.items()}
    print_sheet(target_sheet(open_study(options.store), **point, mechanism=options.mechanism), form)
    return 0


def _list(options: Options, form: str) -> int:
    """Print what the store holds, or holds of one mechanism."""
    from pbdist.query import open_study
    from pbdist.query.status import contents_sheet

    needless = "expected a question beside it, got none: --compositions, --epsilon, .."
    refuse_given(options, ("refine", "direction", "strict"), needless)
    found = open_study(options.store).contents().of(options.mechanism)
    if form == "json":
        print_json(found.as_json())
    else:
        print_sheet(contents_sheet(found), form)
    return 0


def _found(study: "Study", options: Options, columns: dict[str, Any], texts: dict[str, Any]) -> Any:
    """Return the answers to questions given as columns."""
    settings = {**columns, **texts, "refine": options.refine}
    if "compositions" not in columns:
        return study.compositions(options.mechanism, **settings)
    ask = study.epsilon if "delta" in columns else study.delta
    return ask(options.mechanism, **settings, **given_options(options, ["direction"]))
