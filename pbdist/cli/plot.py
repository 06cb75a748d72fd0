"""``pbdist plot``: draw the bounds of a store."""

import math
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from pbdist.cli.options import QUESTION, TARGET, check_output, direction
from pbdist.cli.parser import NUMBER, PATH, Argument, Choice, Option, Options, command, flag, refuse
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
_ABOUT = """\
Draw the bounds of a store.

Plots show stored bounds, and bounds proved from stored ones. Missing bounds are gaps, with a note below the plot. A
kind that needs a number takes one of the store if none is given, and names it in the title.

\b
""" + "\n".join(f"{name:15}{text}" for name, text in KINDS.items())


@command(
    "plot",
    Argument("KIND", "what to draw", Choice(KINDS), name="plot"),
    Argument("STORE..", "stores: paths or s3://BUCKET/PREFIX", name="bounds"),
    Option("-o --output FILE", "an .svg, .png or .pdf file; it is replaced", PATH, required=True),
    Option("--mechanism LABEL", "the label of the one mechanism that is drawn (all)"),
    QUESTION[0],
    *TARGET[1:],
    Option("--over", "the axis of compare: ratios of δ over epsilon, or noise needed", Choice(["epsilon", "noise"])),
    Option("--reference LABEL", "the setting that compare divides by (the first one)"),
    Option("--lowest D", "where the axis ends; 0: at the smallest δ (1e-40)", NUMBER),
    direction("both directions together, or each (both)"),
    help=_ABOUT,
    example="plot epsilon-delta data/quickstart.zarr --mechanism Laplace --compositions 512 -o plot.svg",
    late=noise_options,
)
def plot(options: Options) -> int:
    """Draw the bounds of a store."""
    check_drawing("--output", options.output, *options.bounds)
    if options.plot == "noise" and len(options.bounds) > 1:
        refuse("STORE", f"expected one store for {options.plot}, got {len(options.bounds)}")
    given = options.given("mechanism", "compositions", "epsilon", "delta", "over", "reference", "lowest", "direction")
    if options.exp_epsilon is not None:
        given["epsilon"] = math.log(options.exp_epsilon)
    if "compositions" in given and options.plot not in ("epsilon-delta", "tradeoff"):
        given["compositions"], *others = given["compositions"]
        if others:
            refuse("--compositions", f"expected one number for {options.plot}, got several")
    if options.plot == "epsilon-delta" and {"epsilon", "delta"} & {*given}:
        if not {"epsilon", "delta"} <= {*given}:
            refuse("--epsilon", "needs --delta, and --delta needs it: together they are the target that is marked")
        given["target"] = given.pop("epsilon"), given.pop("delta")
    from pbdist.query import open_study
    from pbdist.report import plots

    draw: Any = getattr(plots, options.plot.replace("-", "_"))
    for name in given:
        if name not in signature(draw).parameters:
            refuse(flag(name), f"does not apply to {options.plot}: leave it out")
    found = [open_study(store) for store in dict.fromkeys(options.bounds)]
    names = [study.spec.name for study in found]
    labels = names if len(set(names)) == len(names) else [study.where for study in found]
    sources = found[0] if len(found) == 1 else dict(zip(labels, found, strict=True))
    noise = given_noise(options)
    write_drawing(options.output, lambda axes: draw(sources, axes=axes, **given, **noise))
    print(printable(str(options.output)))
    return 0


def check_drawing(field: str, path: Path, *stores: str) -> None:
    """Refuse, before any work, the name of a file that is none of a drawing, or that cannot be written."""
    if path.suffix[1:].lower() not in ("svg", "png", "pdf"):
        refuse(field, f"expected a file that ends in .svg, .png or .pdf, got {path}")
    check_output(field, path, *stores)
    from pbdist.report.sheet import styled

    styled()


def write_drawing(path: Path, draw: Callable[[Any], object]) -> None:
    """Draw on axes, and write them in the format of the file's suffix."""
    from pbdist.report.pages.files import write_whole
    from pbdist.report.sheet import new_sheet, saved, styled

    sheet = new_sheet(8.2, 4.4)
    with styled():
        draw(sheet.subplots())
    write_whole(path, saved(sheet, path.suffix[1:].lower()))
