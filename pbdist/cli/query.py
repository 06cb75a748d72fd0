"""``pbdist query``: bounds on δ, on ε or on the number of rounds from a store, at stored points and between them."""

import gc
from contextlib import nullcontext
from itertools import product
from typing import Any

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.options import FACTOR, FORMAT, QUESTION, STORE, direction, strict
from pbdist.cli.output import print_json, print_sheet
from pbdist.cli.parser import NUMBER, Option, Options, command, flag, refuse
from pbdist.tables import Sheet

_EXITS = """\
exit codes:
    0  answered
    2  not answerable from the stored bounds, or something in the input is wrong: the one line on stderr says what
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
    resumes=lambda options: options.refine,
    answers=True,
)
def query(options: Options) -> int:
    """Bound delta, epsilon or rounds from a store.

    Give two of the number of compositions, epsilon and delta: the third is bounded from both sides. All three are a
    target: the answer says which settings meet it, and which are refuted. Each of them, and each numeric parameter of
    the noise, takes several values: all combinations are answered. Stored points are answered as stored, others by
    bounds proved from stored points, or not at all. A line on stderr names answers wider than the study's tolerance.
    Without a question, the contents of the store are listed.
    """
    # With --refine it holds the store while it adds points.
    with in_good_order() if options.refine else nullcontext():
        return _answer(options, options.form)


def given_noise(options: Options) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters that name noise settings: numbers, with several values each, and texts and the factor."""
    from pbdist.mechanisms.columns import known_columns

    values = {name: getattr(options, f"noise_{name}") for name in known_columns() if name != "mechanism"}
    texts = {name: one for name, one in values.items() if one is not None and not isinstance(one, list)}
    return {name: one for name, one in values.items() if isinstance(one, list)}, texts


def _answer(options: Options, form: str) -> int:
    # Nothing that is imported is garbage: collecting would take a fifth of the time.
    gc.disable()
    from pbdist.query import open_study
    from pbdist.query.noise_choice import target_sheet

    gc.freeze()
    gc.enable()
    numbers, texts = given_noise(options)
    question = options.given("compositions", "epsilon", "exp_epsilon", "delta")
    if not question and not numbers and not texts:
        needless = "needs a question: --compositions, --epsilon, .."
        options.refuse("mechanism", "refine", "direction", "strict", problem=needless)
        found = open_study(options.store).contents()
        if form == "json":
            print_json(found.as_json())
        else:
            print_sheet(found.sheet, form)
        return 0
    if len(question) == 3:
        for name in (*numbers, *texts):
            refuse(flag(name), "cannot be combined with a target, which is for all settings")
        needless = "cannot be combined with a target: settings are judged by stored bounds"
        options.refuse("refine", "direction", "strict", problem=needless)
        for name, values in question.items():
            if len(values) != 1:
                refuse(flag(name), f"expected one value in a target, got {len(values)}")
        target = {name: values[0] for name, values in question.items()}
        print_sheet(target_sheet(open_study(options.store), **target, mechanism=options.mechanism), form)
        return 0
    if len(question) != 2:
        got = ", ".join(map(flag, question)) or "none"
        refuse("--delta", f"expected two of --compositions, --epsilon (or --exp-epsilon) and --delta, got {got}")
    if options.direction == "each" and "compositions" not in question:
        refuse("--direction", "bounds on rounds are for both directions together")
    print_sheet(_bounds(options, numbers, texts, question), form)
    return 0


def _bounds(options: Options, numbers: dict[str, Any], texts: dict[str, Any], question: dict[str, Any]) -> Sheet:
    """Return the answers for all combinations of values."""
    from pbdist.query import open_study
    from pbdist.query.settings import check_strict
    from pbdist.query.status import only_mechanism

    study = open_study(options.store)
    check_strict(study.spec, options.strict)
    if options.mechanism is None:
        noise = {**numbers, **{name: [text] for name, text in texts.items()}}
        options.mechanism = only_mechanism(study, noise)
    values = {**numbers, **question}
    columns: Any = dict(zip(values, zip(*product(*values.values()), strict=True), strict=True))
    settings = {**columns, **texts, "refine": options.refine}
    if "compositions" not in question:
        return study.compositions(options.mechanism, **settings).sheet()
    bound = study.epsilon if "delta" in question else study.delta
    return bound(options.mechanism, **settings, **options.given("direction")).sheet()
