"""Parse the command line, call the command, and turn errors into one line and an exit code."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from pbdist.cli import (
    bounds,
    completion,
    dpsgd,
    explore,
    plot,
    query,
    report,
    size,
    store,
    study,
)
from pbdist.cli.interrupts import INTERRUPTED, LINE, end_if_watched
from pbdist.cli.output import EXIT_CODES, FAILED, WRONG
from pbdist.cli.parser import Parser
from pbdist.errors import BatchError, PbdistError, StudyFileError

_ABOUT = """\
Certified bounds on r-fold approximate differential privacy, for whole studies.

three commands to try:
  pbdist run quickstart     compute a small study, in seconds, into data/quickstart.zarr
  pbdist query data/quickstart.zarr --mechanism Laplace --scale 200 --compositions 512 --epsilon 0.1
  pbdist size --family Gaussian --compositions 100 --epsilon 1 --delta 1e-6

Then: pbdist studies lists more studies, and pbdist new my-study.yaml writes one of your own."""
#: So many errors of a file are printed.
_MOST_PRINTED = 20


def run_command(arguments: Sequence[str] | None) -> int:
    """Run a command and return the exit code: see `pbdist.cli.main`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Greek letters prints a question mark, instead of a traceback.
            stream.reconfigure(errors="replace")
    try:
        options = command_parser().parse_args(_with_imports(sys.argv[1:] if arguments is None else arguments))
        code = int(options.action(options))
        sys.stdout.flush()
        return code
    except PbdistError as error:
        print(*_lines(error), sep="\n", file=sys.stderr)
        return FAILED if isinstance(error, BatchError) else WRONG
    except KeyboardInterrupt:
        end_if_watched()
        print(LINE, end="", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone; with /dev/null nothing fails when it is flushed at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"pbdist: error: {PbdistError(str(error))}", file=sys.stderr)
        return WRONG


def _with_imports(arguments: Sequence[str]) -> list[str]:
    """Import the modules that ``--import`` names, before there are options of their mechanisms; return the rest."""
    before = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    before.add_argument("--import", action="append", dest="modules", default=[])
    found, rest = before.parse_known_args(arguments)
    if found.modules:
        from pbdist.mechanisms.declaration import import_mechanisms

        # A console script does not look in the current folder by itself.
        sys.path.insert(0, os.getcwd())
        for module in found.modules:
            import_mechanisms(module, "--import")
    return rest


def _lines(error: PbdistError) -> list[str]:
    """Return an error as one line; where several things are wrong with a file, one line for each."""
    if not isinstance(error, StudyFileError) or len(error.problems) < 2:
        return [f"pbdist: error: {error}"]
    more = len(error.problems) - _MOST_PRINTED
    told = [f"pbdist: error: {len(error.problems)} errors in {PbdistError(error.problems[0].source)}:"]
    told += map(str, error.problems[:_MOST_PRINTED])
    return [*told, f"and {more} more"] if more > 0 else told


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser: argparse.ArgumentParser = Parser(
        prog="pbdist",
        description=_ABOUT,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument("--import", metavar="MODULE", help="a module that defines mechanisms of your own")
    parser.set_defaults(action=lambda _: _help(parser))
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    adders = (
        dpsgd.add_to,
        bounds.add_epsilon,
        bounds.add_delta,
        size.add_to,
        study.add_studies,
        study.add_new,
        study.add_plan,
        study.add_run,
        store.add_status,
        query.add_to,
        explore.add_to,
        plot.add_plot,
        report.add_report,
        store.add_verify,
        store.add_export,
    )
    for add in adders:
        add(commands)
    completion.add_to(commands, parser)
    return parser


def _help(parser: argparse.ArgumentParser) -> int:
    """Print the help, where no command is given."""
    parser.print_help()
    return WRONG


class _Version(argparse.Action):
    """Prints the version, which is imported only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"pbdist {metadata.version('pbdist')}")
        parser.exit()
