"""Parse the command line, call the command, and turn errors into one line and an exit code."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from pbdist.cli import figure, query, size, store, study
from pbdist.cli.interrupts import INTERRUPTED, LINE, end_if_watched
from pbdist.cli.output import EXIT_CODES, FAILED, WRONG
from pbdist.errors import BatchError, PbdistError

__all__ = ["run_command"]


def run_command(arguments: Sequence[str] | None) -> int:
    """Run a command and return the exit code: see `pbdist.cli.main`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Greek letters prints a question mark, instead of a traceback.
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    try:
        code = int(options.action(options))
        sys.stdout.flush()
        return code
    except PbdistError as error:
        print(f"pbdist: error: {error}", file=sys.stderr)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pbdist",
        description="Certified bounds on r-fold approximate differential privacy, for whole studies.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    adders = (
        study.add_plan,
        study.add_run,
        store.add_status,
        query.add_to,
        size.add_to,
        figure.add_figure,
        store.add_verify,
    )
    for add in adders:
        add(commands)
    return parser


class _Version(argparse.Action):
    """Prints the version, which is imported only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"pbdist {metadata.version('pbdist')}")
        parser.exit()
