"""``pbdist query``: bounds on δ, on ε or on the number of rounds from a store, at stored points and between them."""

from itertools import product
from typing import Any

from pbdist.cli.options import FORMAT, QUESTION, STORE, direction
from pbdist.cli.output import print_json, print_sheet
from pbdist.cli.parser import NUMBER, PREFIX, Option, Options, command, flag, refuse
from pbdist.tables import Sheet

_NOISE = "Noise settings, the columns of a store (pbdist query STORE lists those that it has)"


def noise_options(taken: frozenset[str]) -> list[Option]:
    """Return an option for each column that describes noise settings: several values of each number, one text."""
    from pbdist.mechanisms.columns import known_columns

    found = []
    for name, column in known_columns().items():
        if name == "mechanism":
            continue
        # A mechanism of others may have a parameter that is called like another option.
        usage = flag(name) if flag(name) not in taken else flag(f"pair_{name}")
        value, kind = ("NAME", None) if column.text else ("X..", NUMBER)
        what = f"{column.what}: a list such as 0,1" if column.listed else column.what
        found.append(Option(f"{usage} {value}", what, kind, name=PREFIX + name, section=_NOISE))
    return found


def given_noise(options: Options) -> dict[str, Any]:
    """Return the parameters that name noise settings: lists of numbers, and texts."""
    values = {name.removeprefix(PREFIX): one for name, one in vars(options).items() if name.startswith(PREFIX)}
    return {name: one for name, one in values.items() if one is not None}


@command(
    "query",
    STORE,
    Option("--mechanism LABEL", "the label of the mechanism in the study; not needed where only one has these values"),
    *QUESTION,
    direction("both directions together, or each, of several answers (as in the study)"),
    Option("--refine", "compute the points that are missing and add them to the store"),
    *FORMAT,
    Option("--strict", "exit with code 3 if an answer is wider than the study's tolerance", section="Output"),
    example="query data/quickstart.zarr --mechanism Laplace --scale 200 --compositions 512 --epsilon 0.1",
    late=noise_options,
    resumes=lambda options: options.refine,
)
def query(options: Options) -> int:
    """Bound delta, epsilon or rounds from a store.

    Give two of the number of compositions, epsilon and delta: the third is bounded from both sides. All three are a
    target: the answer says which settings meet it, and which are refuted. Each of them, and each numeric parameter of
    the noise, takes several values: all combinations are answered. Stored points are answered as stored, others by
    bounds proved from stored points, or not at all. A line on stderr names answers wider than the study's tolerance.
    Without a question, the contents of the store are listed.
    """
    from pbdist.query import open_study
    from pbdist.query.noise_choice import target_sheet

    noise, needs = given_noise(options), "needs two of --compositions, --epsilon and --delta"
    question = options.given("compositions", "epsilon", "exp_epsilon", "delta")
    if len(question) == 2:
        print_sheet(_bounds(options, noise, question), options.form)
        return 0
    if len(question) == 1 or (noise and not question):
        refuse(flag(next(iter(question | noise))), needs)
    single = "applies to questions of two numbers, not to a target of three: leave it out"
    options.refuse("refine", "direction", "strict", problem=single if question else needs)
    if question:
        for name in noise:
            refuse(flag(name), "cannot be combined with a target, which is for all settings: leave it out")
        for name, values in question.items():
            if len(values) != 1:
                refuse(flag(name), f"expected one value in a target, got {len(values)}")
        target = {name: values[0] for name, values in question.items()}
        target |= {"needed": True, "mechanism": options.mechanism}
        print_sheet(target_sheet(open_study(options.store), **target), options.form)
        return 0
    options.refuse("mechanism", problem=needs)
    contents = open_study(options.store).contents()
    if options.form == "json":
        print_json(contents.as_json())
    else:
        print_sheet(contents.sheet, options.form)
    return 0


def _bounds(options: Options, noise: dict[str, Any], question: dict[str, Any]) -> Sheet:
    """Return the answers for all combinations of values."""
    from pbdist.query import open_study
    from pbdist.query.settings import check_strict
    from pbdist.query.status import only_mechanism

    if options.direction == "each" and "compositions" not in question:
        refuse("--direction", "expected both, as bounds on the number of rounds are for the larger direction, got each")
    study = open_study(options.store)
    check_strict(study.spec, options.strict)
    if options.mechanism is None:
        wanted = {name: one if isinstance(one, list) else [one] for name, one in noise.items()}
        options.mechanism = only_mechanism(study, wanted)
    settings = {name: one for name, one in noise.items() if not isinstance(one, list)}
    values = {name: one for name, one in noise.items() if isinstance(one, list)} | question
    settings |= dict(zip(values, zip(*product(*values.values()), strict=True), strict=True))
    if "compositions" not in question:
        return study.compositions(options.mechanism, **settings, refine=options.refine).sheet
    bound = study.epsilon if "delta" in question else study.delta
    return bound(options.mechanism, **settings, refine=options.refine, **options.given("direction")).sheet
