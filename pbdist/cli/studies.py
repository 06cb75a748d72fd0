"""``pbdist studies`` and ``pbdist new``: the studies that come with pbdist, and a study file to begin with."""

import argparse
from pathlib import Path

from pbdist.cli.output import page


def add_studies(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist studies``."""
    parser = commands.add_parser("studies", help="list the studies that come with pbdist")
    parser.add_argument("--show", metavar="STUDY", help="print the file of one of them")
    parser.set_defaults(action=_studies)


def add_new(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pbdist new``."""
    parser = commands.add_parser(
        "new",
        help="write a study file to begin with",
        description="Write a commented study file that can be run as it is. Nothing is overwritten.",
    )
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="the new study file; its name becomes that of the study"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--mechanism", metavar="KIND", help="the kind of mechanism (default: Gaussian)")
    what.add_argument("--like", metavar="STUDY", help="copy one of the studies that come with pbdist")
    parser.set_defaults(action=_new)


def _studies(options: argparse.Namespace) -> int:
    from pbdist.study.shipped import PROJECTED, shipped_names, shipped_study

    if options.show is not None:
        print(shipped_study(options.show).read_text(encoding="utf-8"), end="")
        return 0
    from rich.table import Table

    from pbdist.study import load_study

    table = Table(expand=False)
    table.add_column("study")
    table.add_column("about")
    table.add_column("cells", justify="right", no_wrap=True)
    table.add_column("one core", justify="right", no_wrap=True)
    # First the one that strangers should try.
    for name in sorted(shipped_names(), key=lambda name: name != "quickstart"):
        study = load_study(shipped_study(name))
        table.add_row(name, study.description or "", f"{len(study.cells):,}", PROJECTED[name])
    console = page()
    console.print(table)
    console.print("pbdist run STUDY computes one; pbdist studies --show STUDY prints its file", highlight=False)
    return 0


def _new(options: argparse.Namespace) -> int:
    from pbdist.errors import printable
    from pbdist.study.starter import write_copy, write_starter

    if options.like is not None:
        write_copy(options.file, options.like)
    else:
        write_starter(options.file, "Gaussian" if options.mechanism is None else options.mechanism)
    console = page()
    told = printable(f"{options.file} is written. What it will take: pbdist plan {options.file}")
    console.print(told, markup=False, highlight=False, soft_wrap=True)
    return 0
