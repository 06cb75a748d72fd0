"""``pbdist dpsgd``: ε of a training run, or the noise multiplier that keeps a promise."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import (
    BOUND_EXITS,
    MISSED,
    NOT_FOUND,
    chosen_format,
    print_sheet,
    printed_warnings,
    sign_of_life,
)
from pbdist.cli.parser import (
    NUMBER,
    WHOLE,
    Option,
    Options,
    command,
    direction_option,
    format_options,
    refuse,
    strict_option,
)

if TYPE_CHECKING:
    from pbdist.accounting import DpsgdNoise, Training
    from pbdist.query.formats import Sheet
    from pbdist.results import EpsilonBounds
    from pbdist.types import JsonValue

_READ = (
    "The run is (ε, δ)-private with the upper ε. For this step, with every noisy gradient seen, no analysis can prove"
    " an ε below the lower one."
)
#: What the columns of sized noise are called here.
_HEADS = {
    "compositions": ("steps", "steps"),
    "scale": ("noise_multiplier", "multiplier that will do"),
    "refuted_scale": ("refuted_noise_multiplier", "multiplier too small"),
}


@command(
    "dpsgd",
    Option("--examples", metavar="N", type=WHOLE, help="records of the data set"),
    Option("--batch", metavar="B", type=WHOLE, help="records of a batch, on average"),
    Option(
        "--noise-multiplier",
        metavar="X",
        type=NUMBER,
        help="deviation of the noise / norm to which gradients are clipped",
    ),
    Option("--epsilon", metavar="E", type=NUMBER, several=True, help="epsilon to keep, in nats"),
    Option("--epochs", metavar="T", type=NUMBER, several=True, help="numbers of epochs; their steps are rounded up"),
    Option("--steps", metavar="R", type=WHOLE, several=True, help="numbers of steps, in place of epochs"),
    Option("--delta", metavar="D", type=NUMBER, several=True, help="delta (1 / N)"),
    Option(
        "--tolerance",
        metavar="T",
        type=NUMBER,
        help="upper / lower - 1 of epsilon, or how much smaller the refuted noise multiplier is (0.001)",
    ),
    direction_option("epsilon for removal and addition together, or each: A||B is the removal"),
    *format_options(),
    strict_option("bounds are wider than the tolerance"),
    example="dpsgd --examples 60000 --batch 256 --noise-multiplier 1.1 --epochs 15 60 --delta 1e-5",
    exits=BOUND_EXITS,
    exclusive=[("noise_multiplier", "epsilon"), ("epochs", "steps")],
)
def dpsgd(options: Options) -> int:
    """Bound epsilon of a DP-SGD run, or size its noise.

    With --noise-multiplier epsilon is bounded from both sides; with --epsilon the smallest noise multiplier is found
    that provably keeps it, and a smaller one is refuted. Each step draws every record with probability batch /
    examples, independently of the others (Poisson sampling); neighbours have one record more or less. Shuffled batches
    of fixed size are not what is bounded.
    """
    with printed_warnings() as missed, sign_of_life():
        form = chosen_format(options)
        _refuse_missing(options)
        if options.epsilon is not None:
            _print_noise(options, form)
        elif _print_epsilon(options, form).unknown.any():
            return NOT_FOUND
    return MISSED if options.strict and missed else 0


def _refuse_missing(options: Options) -> None:
    """Refuse a question that lacks something."""
    needed = (("examples",), ("batch",), ("noise_multiplier", "epsilon"), ("epochs", "steps"))
    for names in needed:
        if all(getattr(options, name) is None for name in names):
            told = " or ".join(f"--{name.replace('_', '-')}" for name in names)
            refuse(told, "expected a value, got none")


def _run(options: Options) -> dict[str, Any]:
    """Return what is given of the run."""
    names = ("examples", "batch", "epochs", "steps", "delta")
    return {name: getattr(options, name) for name in names}


def _print_epsilon(options: Options, form: str) -> "EpsilonBounds":
    """Print ε, and return it."""
    from pbdist.accounting import dpsgd
    from pbdist.query.printing import answers_as_json, answers_sheet

    found = dpsgd(
        **_run(options),
        noise_multiplier=options.noise_multiplier,
        tolerance=options.tolerance,
        direction=options.direction or "both",
    )
    training, noise = found.training, found.noise_multiplier
    asked = training.columns(delta=training.delta)
    bounds = _flat(found.epsilon, len(asked["steps"]))
    if form == "json":
        told = answers_as_json("DP-SGD", asked, bounds)["answers"]
        print(json.dumps({**_about(training), "noise_multiplier": noise, "answers": told}, indent=2, allow_nan=False))
        return bounds
    sheet = answers_sheet("DP-SGD", {**_given_run(training), "noise_multiplier": noise}, asked, bounds)
    read = (_READ,) if not bounds.unknown.all() else ()
    print_sheet(replace(sheet, notes=(*sheet.notes, *read, *training.notes)), form)
    return bounds


def _print_noise(options: Options, form: str) -> None:
    if options.direction is not None:
        refuse("--direction", "expected none with --epsilon, got one: noise is sized for both")
    from pbdist.accounting import dpsgd_noise
    from pbdist.accounting.calibration import DEFAULT_STEP
    from pbdist.sizing.report import sized_as_json

    tolerance = DEFAULT_STEP if options.tolerance is None else options.tolerance
    found = dpsgd_noise(**_run(options), epsilon=options.epsilon, tolerance=tolerance)
    if form == "json":
        rows = [dict(zip(found.columns, row, strict=True)) for row in zip(*found.columns.values(), strict=True)]
        answers = [{**row, **sized_as_json(one)} for row, one in zip(rows, found.sized, strict=True)]
        print(json.dumps({**_about(found.training), "answers": answers}, indent=2, allow_nan=False))
    else:
        print_sheet(_sized_sheet(found, exactly=form == "csv"), form)


def _sized_sheet(found: "DpsgdNoise", *, exactly: bool) -> "Sheet":
    """Return the sheet of `pbdist size`, in the words of this command, with the epochs before each row."""
    from pbdist.mechanisms import SubsampledGaussian
    from pbdist.query.formats import Column
    from pbdist.sizing.goal import Goal
    from pbdist.sizing.report import Answer, printed_size, sized_sheet

    training = found.training
    parameters = {"rate": training.sample_rate}
    answers = []
    for one in found.sized:
        printed = None if exactly else printed_size(one, SubsampledGaussian, parameters)
        answers.append(Answer(Goal(one.compositions, one.epsilon, one.delta), None, one, printed))
    given = " ".join(f"{name}={value}" for name, value in _given_run(training).items())
    sheet = sized_sheet(f"DP-SGD {given}", answers)
    columns = tuple(
        replace(one, name=_HEADS[one.name][0], head=_HEADS[one.name][1]) if one.name in _HEADS else one
        for one in sheet.columns
    )
    notes = [note.replace("scale", "noise multiplier") for note in sheet.notes]
    rows, epochs = sheet.rows, found.columns.get("epochs")
    if epochs is not None:
        columns = (Column("epochs", "epochs"), *columns)
        rows = tuple((number, *row) for number, row in zip(epochs, rows, strict=True))
    return replace(sheet, columns=columns, rows=rows, notes=(*notes, *training.notes))


def _flat(bounds: "EpsilonBounds", count: int) -> "EpsilonBounds":
    """Return bounds whose points stand in one axis, after that of the directions if they have one."""
    arrays = {name: value for name, value in vars(bounds).items() if name != "adjacency"}
    two = bounds.lower.size > count
    return replace(bounds, **{name: value.reshape((2, count) if two else (count,)) for name, value in arrays.items()})


def _given_run(training: "Training") -> dict[str, Any]:
    return {"examples": training.examples, "batch": training.batch, "rate": training.sample_rate}


def _about(training: "Training") -> "dict[str, JsonValue]":
    """Return in the types of JSON what the run is, and what is taken for granted."""
    return {**_given_run(training), "adjacency": training.adjacency.value, "notes": list(training.notes)}
