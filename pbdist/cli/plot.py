"""``pbdist plot``: draw the bounds of a store."""

import math
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from pbdist.cli.options import COMPOSITIONS, FACTOR, check_output, direction
from pbdist.cli.output import sign_of_life
from pbdist.cli.parser import FOLDER, NUMBER, PATH, Argument, Number, Option, Options, choice, command, refuse
from pbdist.cli.query import given_noise, noise_options
from pbdist.errors import printable

#: The kinds of plots: names of functions of `pbdist.report.plots`, whose arguments are the options of a kind.
KINDS = {
    "epsilon-delta": "δ over epsilon, one band for each setting and r",
    "compositions": "δ over r at an epsilon, or epsilon over r at a δ",
    "noise": "δ over the noise at a target: settings that meet it, are refuted, or undecided",
    "compare": "settings at one r: the ratio of their δ, or the noise that each needs for the same δ",
    "tradeoff": "type II error over type I error (f-DP)",
}
_EXITS = """\
exit codes:
    0  the file is written
    2  nothing to draw, or something in the input is wrong: the one line on stderr says what
  130  interrupted
"""


@command(
    "plot",
    Argument("KIND", "what to draw", choice(*KINDS), name="plot"),
    Argument("STORE..", "stores: paths or s3://BUCKET/PREFIX", FOLDER, name="stores"),
    Option("-o --output FILE", "an .svg, .png or .pdf file; it is replaced", PATH, required=True),
    Option("--mechanism LABEL", "the label of the mechanism in the study (default: all)"),
    COMPOSITIONS,
    Option("--epsilon E", "epsilon, in nats", NUMBER),
    Option("--exp-epsilon Y", "e to the power of epsilon", Number(1)),
    Option("--delta D", "delta", NUMBER),
    Option(
        "--over NAME",
        "the axis of compare: ratios of δ over epsilon, or the noise needed (default: epsilon)",
        choice("epsilon", "noise"),
    ),
    Option("--reference LABEL", "the setting that compare divides by (default: the first one)"),
    Option("--lowest D", "where the axis ends; 0: at the smallest δ (default: 1e-40)", NUMBER),
    direction("both directions together, or each (default: both)"),
    FACTOR,
    Option("--width INCHES", "default: 8.2", Number(3, 40, "inches"), default=8.2),
    Option("--height INCHES", "default: 4.4; a long legend takes more", Number(2, 40, "inches"), default=4.4),
    example="plot epsilon-delta data/quickstart.zarr --mechanism Laplace --compositions 512 -o plot.svg",
    exits=_EXITS,
    exclusive=[("epsilon", "exp_epsilon")],
    late=noise_options,
)
def plot(options: Options) -> int:
    """Draw the bounds of a store.

    Plots show stored bounds, and bounds proved from stored ones. Missing bounds are gaps, with a note below the plot. A
    kind that needs a number takes one of the store if none is given, and names it in the title.

    \b
    KINDS
    """  # noqa: D301
    check_drawing("--output", options.output, *options.stores)
    draw = _drawing(options)
    from pbdist.query import open_study

    found = [open_study(store) for store in options.stores]
    names = [study.spec.name for study in found]
    labels = names if len(set(names)) == len(names) else [study.where for study in found]
    if len(set(labels)) < len(labels):
        refuse("STORE", "expected each store once, got one twice")
    sources = found[0] if len(found) == 1 else dict(zip(labels, found, strict=True))
    with sign_of_life():
        write_drawing(options.output, (options.width, options.height), lambda axes: draw(sources, axes=axes))
    print(printable(str(options.output)))
    return 0


def check_drawing(field: str, path: Path, *stores: str) -> None:
    """Refuse, before any work, the name of a file that is none of a drawing, or that cannot be written."""
    if path.suffix[1:].lower() not in ("svg", "png", "pdf"):
        refuse(field, f"expected a file that ends in .svg, .png or .pdf, got {path}")
    check_output(field, path, *stores)


def write_drawing(path: Path, inches: tuple[float, float], draw: Callable[[Any], object]) -> None:
    """Draw on axes of a sheet of that size, and write it in the format of the file's suffix."""
    from pbdist.report.pages.files import write_whole
    from pbdist.report.sheet import new_sheet, saved, styled

    sheet = new_sheet(*inches)
    with styled():
        draw(sheet.subplots())
    write_whole(path, saved(sheet, path.suffix[1:].lower()))


_listed = "\n".join(f"    {name:15}{text}" for name, text in KINDS.items())
plot.help = (plot.help or "").replace("    KINDS", _listed)


def _drawing(options: Options) -> Callable[..., object]:
    """Return the function that draws the kind, with its arguments; options of other kinds are refused."""
    from pbdist.report import plots

    draw = getattr(plots, options.plot.replace("-", "_"))
    takes = {one.name: str(one.annotation) for one in signature(draw).parameters.values()}
    if "study" in takes and len(options.stores) > 1:
        refuse("STORE", f"expected one store for {options.plot}, got {len(options.stores)}")
    names = ("compositions", "epsilon", "exp_epsilon", "delta", "over", "reference", "lowest", "direction")
    given = options.given(*names)
    over_noise = given.get("over") == "noise"
    kind = f"{options.plot} over noise" if over_noise else options.plot
    # ε and δ together are a target that is marked.
    marked = "target" in takes and not over_noise
    known = {*takes, *(("epsilon", "delta") if marked else ())}
    known |= {"exp_epsilon"} if "epsilon" in known else set()
    options.refuse(*(name for name in given if name not in known), problem=f"is no option of {kind}")
    if "compositions" in given and "Sequence" not in takes["compositions"]:
        if len(given["compositions"]) > 1:
            refuse("--compositions", f"expected one number for {kind}, got several")
        given["compositions"] = given["compositions"][0]
    if "exp_epsilon" in given and "exp_epsilon" not in takes:
        given["epsilon"] = math.log(given.pop("exp_epsilon"))
    if marked and ("epsilon" in given) != ("delta" in given):
        refuse("--epsilon", "needs --delta, and --delta needs it: together they are the target that is marked")
    if marked and "epsilon" in given:
        given["target"] = (given.pop("epsilon"), given.pop("delta"))
    numbers, texts = given_noise(options)
    return partial(draw, mechanism=options.mechanism, **given, **numbers, **texts)
