"""``pbdist dpsgd``: ε of a training run, or the noise multiplier that keeps a promise."""

from pathlib import Path
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
    Word,
    command,
    direction_option,
    file_type,
    format_options,
    refuse,
    strict_option,
)

if TYPE_CHECKING:
    from pbdist.accounting import DpsgdEpsilon, DpsgdNoise

_FORMATS = (".svg", ".png", ".pdf")


def _phase(text: str) -> dict[str, Any]:
    """Return what a phase says: ``epochs=10,noise-multiplier=1.2,batch=256``."""
    from pbdist.errors import shown

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


_EXAMPLE = "epochs=10,noise-multiplier=1.2,batch=256"


@command(
    "dpsgd",
    Option("--examples", metavar="N", type=WHOLE, help="records of the data set"),
    Option("--batch", metavar="B", type=WHOLE, help="records of a batch, on average"),
    Option(
        "--sample-rate", metavar="Q", type=NUMBER, help="in place of --batch: probability of a record to be in a batch"
    ),
    Option(
        "--noise-multiplier",
        metavar="X",
        type=NUMBER,
        help="deviation of the noise / norm to which gradients are clipped",
    ),
    Option("--epsilon", metavar="E", type=NUMBER, several=True, help="epsilon to keep, in nats"),
    Option(
        "--epochs", metavar="T", type=NUMBER, several=True, help="numbers of epochs: each is N / B steps, rounded up"
    ),
    Option("--steps", metavar="R", type=WHOLE, several=True, help="numbers of steps, in place of epochs"),
    Option(
        "--phase",
        metavar="PHASE",
        type=Word(make=_phase),
        several=True,
        help=f"in place of epochs, where noise or batch changes: {_EXAMPLE}",
    ),
    Option("--delta", metavar="D", type=NUMBER, several=True, help="delta (1 / N)"),
    Option(
        "--tolerance",
        metavar="T",
        type=NUMBER,
        help="upper / lower - 1 of epsilon, or how much smaller the refuted noise multiplier is (0.001)",
    ),
    direction_option("epsilon for removal and addition together, or each: A||B is the removal"),
    Option("--plot", metavar="FILE", type=file_type(Path), help="draw epsilon over epochs: an .svg, .png or .pdf file"),
    *format_options(),
    strict_option("bounds are wider than the tolerance"),
    example="dpsgd --examples 60000 --batch 256 --noise-multiplier 1.1 --epochs 15 60 --delta 1e-5",
    exits=BOUND_EXITS,
    exclusive=[("noise_multiplier", "epsilon"), ("epochs", "steps", "phase"), ("batch", "sample_rate")],
)
def dpsgd(options: Options) -> int:
    """Bound epsilon of a DP-SGD run, or size its noise.

    With --noise-multiplier epsilon is bounded from both sides; with --epsilon the smallest noise multiplier is found
    that provably keeps it, and a smaller one is refuted. Each step draws every record with probability batch /
    examples, independently of the others (Poisson sampling); neighbours have one record more or less. Shuffled batches
    of fixed size are not what is bounded. The last line is a sentence for a paper.
    """
    with printed_warnings() as missed, sign_of_life():
        form = chosen_format(options)
        _check(options)
        if options.epsilon is not None:
            _print_noise(options, form)
        else:
            found = _print_epsilon(options, form)
            if options.plot is not None:
                _draw(found, options.plot)
            if found.epsilon.unknown.any():
                return NOT_FOUND
    return MISSED if options.strict and missed else 0


def _check(options: Options) -> None:
    """Refuse a question that lacks something, or has too much."""
    needed: list[tuple[str, ...]] = [("examples",)]
    if options.phase is None:
        needed += [("batch", "sample_rate"), ("noise_multiplier", "epsilon"), ("epochs", "steps", "phase")]
    for names in needed:
        if all(getattr(options, name) is None for name in names):
            refuse(" or ".join(f"--{name.replace('_', '-')}" for name in names), "expected a value, got none")
    if options.epsilon is not None:
        for name in ("direction", "phase", "plot"):
            if getattr(options, name) is not None:
                refuse(f"--{name}", "expected none with --epsilon, got one: one noise is sized, for both directions")
    if options.plot is not None and (options.plot.suffix.lower() not in _FORMATS or not options.plot.parent.is_dir()):
        refuse(
            "--plot", f"expected a file that ends in .svg, .png or .pdf, in a folder that exists, got {options.plot}"
        )


def _run(options: Options) -> dict[str, Any]:
    """Return what is given of the run."""
    names = ("examples", "batch", "sample_rate", "epochs", "steps", "delta")
    return {name: getattr(options, name) for name in names}


def _print_epsilon(options: Options, form: str) -> "DpsgdEpsilon":
    """Print ε, and return it."""
    from pbdist.accounting import dpsgd

    found = dpsgd(
        **_run(options),
        noise_multiplier=options.noise_multiplier,
        phases=options.phase,
        tolerance=options.tolerance,
        direction=options.direction or "both",
    )
    _print(found, form)
    return found


def _print_noise(options: Options, form: str) -> None:
    from pbdist.accounting import dpsgd_noise
    from pbdist.accounting.calibration import DEFAULT_STEP

    tolerance = DEFAULT_STEP if options.tolerance is None else options.tolerance
    _print(dpsgd_noise(**_run(options), epsilon=options.epsilon, tolerance=tolerance), form)


def _print(found: "DpsgdEpsilon | DpsgdNoise", form: str) -> None:
    if form == "json":
        print(found.json(), end="")
    else:
        print_sheet(found.sheet, form)


def _draw(found: "DpsgdEpsilon", path: Path) -> None:
    from pbdist.report.pages.files import write_whole
    from pbdist.report.plots import training
    from pbdist.report.sheet import new_sheet, saved, styled

    sheet = new_sheet(8.2, 4.4)
    with styled():
        training(found, axes=sheet.subplots())
    write_whole(path, saved(sheet, path.suffix[1:].lower()))
