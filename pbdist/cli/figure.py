"""``pbdist figure``: compute what figures show, and write their data and drawings."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.cli.interrupts import in_good_order
from pbdist.cli.output import EXIT_CODES, FAILED, page
from pbdist.cli.parser import Commands, add_command
from pbdist.errors import InvalidInputError, printable

if TYPE_CHECKING:
    from pbdist.report.figures.figure import Figure
    from pbdist.report.figures.make import Ended

_FORMATS = ("csv", "svg", "png")


def add_figure(commands: Commands) -> None:
    """Add ``pbdist figure``."""
    parser = add_command(commands, "figure", "compute figures, and write their data and drawings", None, EXIT_CODES)
    parser.add_argument("figures", metavar="FILE", type=Path, nargs="+", help="figure files")
    parser.add_argument("--folder", metavar="PATH", type=Path, default=Path("data/figures"), help="where to write them")
    parser.add_argument("--stores", metavar="PATH", type=Path, default=Path("data"), help="where their stores are")
    parser.add_argument(
        "--formats", metavar="FORMAT", nargs="+", choices=_FORMATS, default=_FORMATS, help="csv, svg, png"
    )
    parser.add_argument("--workers", metavar="N", type=int, help="figures made at once (default: one a core)")
    parser.set_defaults(action=_figure)


def _figure(options: argparse.Namespace) -> int:
    from pbdist.report.figures import load_figure

    if options.workers is not None and not 1 <= options.workers <= 4096:
        raise InvalidInputError(f"--workers: expected an integer from 1 to 4096, got {options.workers}")
    # All files are read before any work starts.
    figures = [(path, load_figure(path)) for path in options.figures]
    names = [figure.name for _, figure in figures]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise InvalidInputError(f"figures: expected each name once, got {name} again in {figures[position][0]}")
    with in_good_order():
        if len(figures) == 1:
            return _one(figures[0][1], options)
        return _many(figures, options)


def _one(figure: "Figure", options: argparse.Namespace) -> int:
    """Make one figure here, and print its files and what is wrong; return the exit code."""
    from rich.console import Console

    from pbdist.report.figures import make_figure
    from pbdist.run.listeners import ProgressDisplay

    errors = Console(stderr=True)

    def told(what: str) -> None:
        errors.print(printable(f"{figure.name}: {what}"), markup=False, highlight=False, soft_wrap=True)

    with ProgressDisplay(errors) as display:
        made = make_figure(
            figure,
            options.stores / f"{figure.name}.zarr",
            options.folder,
            formats=tuple(dict.fromkeys(options.formats)),
            listener=display,
            told=told,
        )
    console = page()
    for line in (*map(str, made.files), *(f"contradiction: {problem}" for problem in made.problems)):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    return FAILED if made.problems else 0


def _many(figures: "Sequence[tuple[Path, Figure]]", options: argparse.Namespace) -> int:
    """Make each figure in a process of its own, and print what they print; return the worst exit code."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from pbdist.report.figures.make import at_once

    common = [f"--folder={options.folder}", f"--stores={options.stores}", "--formats", *options.formats, "--"]
    commands = [(figure.name, ["figure", *common, str(path)]) for path, figure in figures]
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    codes = [0]
    errors = Console(stderr=True)
    with Progress(*columns, console=errors) as progress:
        task = progress.add_task("", total=len(figures))

        def ended(one: "Ended") -> None:
            codes.append(one.code if one.code >= 0 else FAILED)
            print(one.output, end="", flush=True)
            if one.code:
                print(one.error or f"pbdist: error: {one.name}: its process ended with {one.code}", file=sys.stderr)
            else:
                progress.console.print(f"{one.name}: {one.seconds:.1f} s", markup=False, highlight=False)
            progress.advance(task)

        at_once(
            commands,
            options.workers or os.cpu_count() or 1,
            ended,
            lambda names: progress.update(task, description=", ".join(names)),
        )
    return max(codes)
