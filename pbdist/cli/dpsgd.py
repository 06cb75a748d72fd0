"""``pbdist dpsgd``: ε of a training run, or the noise multiplier that meets a target."""

from contextlib import suppress
from typing import Any

import click

from pbdist.cli.options import FORMAT, direction
from pbdist.cli.output import FAILED, print_sheet
from pbdist.cli.parser import NUMBER, PATH, WHOLE, Option, Options, command
from pbdist.cli.plot import check_drawing, write_drawing

_EXAMPLE = "epochs=10,noise-multiplier=1.2,batch=256"


def _phase(text: str) -> dict[str, Any]:
    """Return the values of a phase: ``epochs=10,noise-multiplier=1.2,batch=256``."""
    parts = [part.partition("=") for part in text.split(",")]
    found: dict[str, float] = {}
    with suppress(ValueError):
        found = {name.strip().replace("-", "_"): float(value) for name, _, value in parts}
    if len(found) < len(parts):
        raise click.BadParameter(f"expected NAME=NUMBER once each, with commas, as in {_EXAMPLE}, got {text!r}")
    return {name: int(value) if value.is_integer() else value for name, value in found.items()}


@command(
    "dpsgd",
    Option("--examples N", "records of the data set", WHOLE, required=True),
    Option("--batch B", "records of a batch, on average", WHOLE),
    Option("--sample-rate Q", "in place of --batch: probability of a record to be in a batch", NUMBER),
    Option("--noise-multiplier X", "deviation of the noise / norm to which gradients are clipped", NUMBER),
    Option("--epsilon E..", "the promised epsilon, in nats", NUMBER),
    Option("--epochs T..", "numbers of epochs: each is N / B steps, rounded up", NUMBER),
    Option("--steps R..", "numbers of steps, in place of epochs", WHOLE),
    Option("--phase PHASE..", f"in place of epochs, where noise or batch changes: {_EXAMPLE}", _phase, name="phases"),
    Option("--delta D..", "delta (1 / N)", NUMBER),
    Option("--tolerance T", "upper / lower - 1 of epsilon or of the noise multiplier (0.001)", NUMBER),
    direction("epsilon for removal and addition together, or each: A||B is the removal"),
    Option("--plot FILE", "draw epsilon over epochs: an .svg, .png or .pdf file", PATH),
    *FORMAT,
    Option("--strict", "exit with code 3 if bounds are wider than the tolerance", section="Output"),
    example="dpsgd --examples 60000 --batch 256 --noise-multiplier 1.1 --epochs 15 60 --delta 1e-5",
    exclusive=[
        *(("epsilon", one) for one in ("noise_multiplier", "phases", "direction", "plot")),
        ("epochs", "steps", "phases"),
        ("batch", "sample_rate"),
    ],
    needs=[
        ("batch", "sample_rate", "phases"),
        ("noise_multiplier", "epsilon", "phases"),
        ("epochs", "steps", "phases"),
    ],
)
def dpsgd(options: Options) -> int:
    """Bound epsilon of a DP-SGD run, or size its noise.

    With --noise-multiplier epsilon is bounded from both sides; with --epsilon the smallest noise multiplier is found
    that provably meets it, and a smaller one is refuted. Each step draws every record with probability batch /
    examples, independently of the others (Poisson sampling); neighbours have one record more or less. Shuffled batches
    of fixed size are not covered. The last line is a sentence for a paper.
    """
    if options.plot is not None:
        check_drawing("--plot", options.plot)
    from pbdist import accounting

    names = "examples", "batch", "sample_rate", "noise_multiplier", "epochs", "steps", "phases", "delta"
    run = options.given(*names, "epsilon", "tolerance", "direction")
    found: Any = accounting.dpsgd_noise(**run) if options.epsilon else accounting.dpsgd(**run)
    if options.plot is not None:
        from pbdist.report.plots import training

        write_drawing(options.plot, lambda axes: training(found, axes=axes))
    if options.form == "json":
        print(found.json(), end="")
    else:
        print_sheet(found.sheet, options.form)
    return FAILED if not options.epsilon and found.epsilon.unknown.any() else 0
