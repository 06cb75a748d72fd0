"""``pbdist dpsgd``: ε of a training run, or the noise multiplier that meets a target."""

from typing import Any

from pbdist.cli.options import FORMAT, direction, strict
from pbdist.cli.output import BOUND_EXITS, NOT_FOUND, print_sheet
from pbdist.cli.parser import NUMBER, PATH, WHOLE, Option, Options, Word, command, refuse
from pbdist.cli.plot import check_drawing, write_drawing
from pbdist.errors import shown

_EXAMPLE = "epochs=10,noise-multiplier=1.2,batch=256"


def _phase(text: str) -> dict[str, Any]:
    """Return the values of a phase: ``epochs=10,noise-multiplier=1.2,batch=256``."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        key = name.strip().replace("-", "_")
        try:
            number: Any = float(value)
        except ValueError:
            number = None
        if not equals or number is None or key in found:
            refuse("--phase", f"expected NAME=NUMBER once each, with commas, as in {_EXAMPLE}, got {shown(text)}")
        found[key] = int(number) if number.is_integer() else number
    return found


@command(
    "dpsgd",
    Option("--examples N", "records of the data set", WHOLE),
    Option("--batch B", "records of a batch, on average", WHOLE),
    Option("--sample-rate Q", "in place of --batch: probability of a record to be in a batch", NUMBER),
    Option("--noise-multiplier X", "deviation of the noise / norm to which gradients are clipped", NUMBER),
    Option("--epsilon E..", "the promised epsilon, in nats", NUMBER),
    Option("--epochs T..", "numbers of epochs: each is N / B steps, rounded up", NUMBER),
    Option("--steps R..", "numbers of steps, in place of epochs", WHOLE),
    Option("--phase PHASE..", f"in place of epochs, where noise or batch changes: {_EXAMPLE}", Word(make=_phase)),
    Option("--delta D..", "delta (1 / N)", NUMBER),
    Option(
        "--tolerance T",
        "upper / lower - 1 of epsilon, or how much smaller the refuted noise multiplier is (0.001)",
        NUMBER,
    ),
    direction("epsilon for removal and addition together, or each: A||B is the removal"),
    Option("--plot FILE", "draw epsilon over epochs: an .svg, .png or .pdf file", PATH),
    *FORMAT,
    strict("bounds are wider than the tolerance"),
    example="dpsgd --examples 60000 --batch 256 --noise-multiplier 1.1 --epochs 15 60 --delta 1e-5",
    exits=BOUND_EXITS,
    exclusive=[("noise_multiplier", "epsilon"), ("epochs", "steps", "phase"), ("batch", "sample_rate")],
    answers=True,
)
def dpsgd(options: Options) -> int:
    """Bound epsilon of a DP-SGD run, or size its noise.

    With --noise-multiplier epsilon is bounded from both sides; with --epsilon the smallest noise multiplier is found
    that provably meets it, and a smaller one is refuted. Each step draws every record with probability batch /
    examples, independently of the others (Poisson sampling); neighbours have one record more or less. Shuffled batches
    of fixed size are not covered. The last line is a sentence for a paper.
    """
    options.require("examples")
    if options.phase is None:
        options.require("batch", "sample_rate")
        options.require("noise_multiplier", "epsilon")
        options.require("epochs", "steps", "phase")
    if options.epsilon is not None:
        needless = "cannot be combined with --epsilon: one noise is sized, for both directions"
        options.refuse("direction", "phase", "plot", problem=needless)
    if options.plot is not None:
        check_drawing("--plot", options.plot)
    form = options.form
    from pbdist import accounting

    names = ("examples", "batch", "sample_rate", "noise_multiplier", "epsilon", "epochs", "steps", "delta", "tolerance")
    run = options.given(*names)
    settings: dict[str, Any] = {"phases": options.phase, "direction": options.direction or "both"}
    found = accounting.dpsgd(**run, **settings) if options.epsilon is None else accounting.dpsgd_noise(**run)
    if form == "json":
        print(found.json(), end="")
    else:
        print_sheet(found.sheet, form)
    if isinstance(found, accounting.DpsgdNoise):
        return 0
    if options.plot is not None:
        from pbdist.report.plots import training

        write_drawing(options.plot, (8.2, 4.4), lambda axes: training(found, axes=axes))
    return NOT_FOUND if found.epsilon.unknown.any() else 0
